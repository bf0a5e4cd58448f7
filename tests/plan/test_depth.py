"""Questions that nest: answered up to a depth, and beyond it refused in words, before anything is charged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from discreet.errors import UnsupportedQuery
from discreet.plan.plan import make_plan
from discreet.plan.schema import Range, TableSchema
from discreet.plan.types import Type
from discreet.privacy.unit import PrivacyUnit, Relation

TABLE = TableSchema(
    "t",
    {"uid": Type.INT, "x": Type.INT},
    {"x": Range(0, 10, integer=True)},
    PrivacyUnit("uid", max_groups=3, max_rows=10),
    Relation.ADD_REMOVE,
)


def derived(n: int) -> str:
    inner = "t"
    for i in range(n):
        inner = f"(SELECT uid, x FROM {inner} a{i})"
    return f"SELECT SUM(x) FROM {inner} z"


def members(n: int) -> str:
    inner = "SELECT uid FROM t"
    for _ in range(n):
        inner = f"SELECT uid FROM t WHERE uid IN ({inner})"
    return f"SELECT COUNT(*) FROM t WHERE uid IN ({inner})"


def named(n: int) -> str:
    stages = [f"c{i} AS (SELECT uid, x FROM {f'c{i - 1}' if i else 't'})" for i in range(n)]
    return f"WITH {', '.join(stages)} SELECT SUM(x) FROM c{n - 1}"


def united(n: int) -> str:
    return f"SELECT COUNT(*) FROM ({' UNION ALL '.join(['SELECT uid FROM t'] * n)}) z"


def added(n: int) -> str:
    return f"SELECT COUNT(*) FROM t WHERE {'(' * n}x{' + 1)' * n} > 3"


def different(n: int) -> str:
    return f"SELECT COUNT(DISTINCT {'(' * n}x{' + 1)' * n}) FROM t"


def middle(n: int) -> str:
    return f"SELECT MEDIAN({'least(' * n}x{', 9)' * n}) FROM t"


def planned(sql: str) -> None:
    make_plan(sql, [TABLE], population="p", version=None, epsilon=1)


SHAPES = [derived, members, named, united, added, different, middle]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_question_nests_as_deep_as_people_write(shape: Callable[[int], str]) -> None:
    planned(shape(8))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("depth", [40, 80, 200])
def test_one_that_nests_deeper_is_answered_or_refused_and_is_no_bug_of_ours(
    shape: Callable[[int], str], depth: int
) -> None:
    try:
        planned(shape(depth))
    except UnsupportedQuery as refusal:
        said = str(refusal)
        assert said.startswith(
            ("The question nests too deeply to be read.", "The question reads more than 100 tables.")
        )


def test_the_refusal_says_what_to_do() -> None:
    with pytest.raises(UnsupportedQuery) as refusal:
        planned(added(100))
    assert str(refusal.value) == "The question nests too deeply to be read.\nHint: write it flatter"
