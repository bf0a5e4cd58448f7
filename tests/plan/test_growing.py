"""Texts of one person that are multiplied through stage after stage: they end, and the question never fails."""

from __future__ import annotations

import pandas as pd
import pytest

import discreet as dp

PEOPLE = 150


def counted(stage: str, condition: str, stages: int = 5) -> int:
    """How many of 150 people with a text of 16 characters meet the condition after so many stages: no noise in 10^8."""
    text = "WITH a0 AS (SELECT uid, name AS x FROM people)"
    for i in range(stages):
        text += f", a{i + 1} AS (SELECT uid, MAX({stage}) AS x FROM a{i} GROUP BY uid)"
    session = dp.connect(
        {"people": pd.DataFrame({"uid": range(PEOPLE), "name": ["a" * 16] * PEOPLE})},
        unit=dp.PrivacyUnit("uid", max_groups=1, max_rows=1),
        population="people",
        budget=dp.Budget(epsilon=100),
        ledger=":memory:",
    )
    ((n,),) = session.sql(f"{text} SELECT COUNT(*) AS n FROM a{stages} WHERE {condition}", epsilon=20).rows
    return int(n)


STAGES = [
    " || ".join(["x"] * 8),
    f"concat({', '.join(['x'] * 8)})",
    f"concat_ws('-', {', '.join(['x'] * 8)})",
    f"replace(x, 'a', '{'a' * 8}')",
    f"regexp_replace(x, 'a', '{'a' * 8}', 'g')",
]


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("stage", STAGES, ids=lambda s: s.split("(")[0][:6])
def test_a_text_that_is_multiplied_stage_after_stage_ends(stage: str) -> None:
    assert counted(stage, "length(x) > 8000", stages=3) == PEOPLE
    assert counted(stage, "length(x) > 65536") == 0
    assert counted(stage, "length(x) > 0") == 0


@pytest.mark.exhaustive
def test_a_text_of_many_parts_in_one_expression_ends() -> None:
    assert counted(f"concat({', '.join(['lpad(x, 1000)'] * 65)})", "length(x) = 65000", stages=1) == PEOPLE
    assert counted(f"concat({', '.join(['lpad(x, 1000)'] * 66)})", "x IS NULL", stages=1) == PEOPLE
