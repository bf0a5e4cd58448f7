"""Budgets of people: ids that arrive one table at a time, caps on one query, times that tell nothing, curves."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.errors import InvalidParameter
from tests.test_people import CAPS, FACTS, frame, session


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("id,x\n7.0,1\n", pd.DataFrame({"id": [7], "x": [1]})),
        ("id,x\n007,1\n", pd.DataFrame({"id": [7], "x": [1]})),
        (pd.DataFrame({"id": [True], "x": [1]}), pd.DataFrame({"id": [1], "x": [1]})),
        (
            pd.DataFrame({"id": pd.to_datetime(["1980-01-01"]).date, "x": [1]}),
            pd.DataFrame({"id": pd.to_datetime(["1980-01-01"]), "x": [1]}),
        ),
    ],
    ids=["7.0 as text", "007 as text", "true", "a date"],
)
def test_tables_connected_one_at_a_time_do_not_make_one_person_two(
    tmp_path: Path, first: Any, second: pd.DataFrame
) -> None:
    """In one session ids are read in one type; in two of them '007' would be somebody else than 7."""
    if isinstance(first, str):
        (tmp_path / "a.csv").write_text(first)
        first = str(tmp_path / "a.csv")
    asked: dict[str, Any] = {"ledger": tmp_path / "people.ledger", "columns": {}}
    with session({"a": first}, **asked):
        pass
    with pytest.raises(InvalidParameter, match="would have two budgets"):
        session({"b": second}, **asked)
    with session({"a": first}, **asked):  # the known table is as welcome as before
        pass


def test_the_cap_on_one_query_of_each_person_holds_beside_a_budget_for_all() -> None:
    each = dp.Budget(1, per_query="1/10")
    for whole in (None, dp.Budget(5)):
        options: dict[str, Any] = {
            "unit": CAPS,
            "columns": FACTS,
            "ledger": ":memory:",
            "population": "people",
        }
        s = dp.connect({"t": frame({1: [("a", 1)]})}, budget=whole, per_person=each, **options)
        with s, pytest.raises(InvalidParameter, match=r"0\.1"):
            s.sql("SELECT COUNT(*) FROM t", epsilon=Fraction(1, 2))


def test_no_entry_tells_how_long_the_data_took() -> None:
    """Whose rows are in an answer shows in the time it takes; entries after the charge have the charge's time."""
    with session({"t": frame({1: [("a", 1)], 2: [("b", 2)]})}) as s:
        s.sql("SELECT g, COUNT(*) AS n FROM t GROUP BY g", epsilon=Fraction(1, 2))
        charge, *later = [e for e in s.history() if e.kind in ("charge", "people", "release")]
        assert [e.kind for e in later] == ["people", "release"]
        assert {e.time for e in later} == {charge.time}


def test_a_curve_is_known_again_where_only_people_have_a_budget(tmp_path: Path) -> None:
    curve = dp.accounting.laplace(scale=10) * 3
    asked: dict[str, Any] = {"filter": "renyi-curve", "curve": curve, "ledger": tmp_path / "people.ledger"}
    for _ in range(2):
        with session({"t": frame({1: [("a", 1)]})}, budget=dp.Budget(1, "1e-6"), **asked) as s:
            s.sql("SELECT COUNT(*) FROM t", epsilon=Fraction(1, 100), fresh=True)
    with pytest.raises(InvalidParameter, match="another curve"):
        session({"t": frame({1: [("a", 1)]})}, budget=dp.Budget(1, "1e-6"), **{**asked, "curve": curve * 2})
