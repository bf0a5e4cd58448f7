"""What a filter says of the values that pass it: never less than is true of them, and nothing under OR or NOT."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.errors import NotPrivate
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation

COLUMNS = {"uid": Type.INT, "x": Type.INT, "v": Type.REAL, "k": Type.TEXT, "free": Type.TEXT, "n": Type.INT}
FACTS: dict[str, Fact] = {"x": Range(-9, 9, integer=True), "v": Range(-9, 9), "k": Values("a", "b", "c", None)}


def plan(sql: str, **asked: Any) -> Query:
    unit = PrivacyUnit("uid", max_groups=2, max_rows=3)
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, **asked}
    return make_query(sql, [TableSchema("t", COLUMNS, FACTS, unit, Relation.ADD_REMOVE)], **options)


def bounds(aggregate: str, where: str) -> tuple[float, float]:
    """The bounds of the one value that a query sums."""
    (value,) = {v for m in plan(f"SELECT {aggregate} FROM t WHERE {where}").question.measures for v in m.clamped}
    return float(value.low * value.step), float(value.high * value.step)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("where", "low", "high"),
    [
        ("x BETWEEN 2 AND 5", 2, 5),
        ("x > 2 AND x < 5", 3, 4),
        ("2 < x AND 5 >= x", 3, 5),
        ("x = 4 AND v > 0", 4, 4),
        ("x IN (3, -2, 7)", -2, 7),
        ("x > -100", -9, 9),
        ("x >= 5 AND (x < 7 AND n = 1)", 5, 6),
        ("x > 100", -9, 9),  # nothing would be left
        ("x > 4 AND x < 5", -9, 9),
        ("x > 5 OR x < 2", -9, 9),
        ("NOT x > 5", -9, 9),
        ("NOT (x > 5 AND x < 7)", -9, 9),
        ("x <> 3", -9, 9),
        ("CAST(x AS DOUBLE) > 5", -9, 9),
        ("x > 2.5", -9, 9),  # compared as a number of another type
        ("x + 1 > 5", -9, 9),
        ("x > n", -9, 9),
        ("x IN (3, n)", -9, 9),
        ("x IN (3, NULL)", -9, 9),
        ("x IS NOT NULL", -9, 9),
        ("v > 5", -9, 9),
        ("(x > 5) IS TRUE", -9, 9),
        ("coalesce(x > 5, TRUE)", -9, 9),
    ],
)
def test_only_terms_that_have_to_hold_of_the_very_expression_narrow_it(where: str, low: float, high: float) -> None:
    assert bounds("SUM(x)", where) == (low, high)
    assert bounds("AVG(x)", where) == (low, high)


def test_a_filter_of_its_own_narrows_an_aggregate_alone() -> None:
    both = plan("SELECT SUM(x) FILTER (WHERE x > 5) AS a, SUM(x) AS b FROM t WHERE x < 8")
    found = sorted((v.low, v.high) for m in both.question.measures for v in m.clamped)
    assert found == [(-9, 7), (6, 7)]
    assert bounds("SUM(v)", "v >= 0.5 AND v < 2") == (0.5, 2)
    assert bounds("SUM(x * 2)", "x * 2 <= 4") == (-18, 4)


def test_a_value_without_a_range_has_the_one_that_the_filter_gives() -> None:
    assert bounds("SUM(n)", "n BETWEEN 0 AND 50") == (0, 50)


@pytest.mark.exhaustive
def test_what_passes_lies_within() -> None:
    """All pairs of terms, over all values: the truth is the filter itself."""
    operators = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__, "=": int.__eq__}
    for (a, first), (b, second) in product(operators.items(), repeat=2):
        for c, d in ((-3, 2), (2, 2), (4, -1)):
            passing = [x for x in range(-9, 10) if first(x, c) and second(x, d)]
            low, high = bounds("SUM(x)", f"x {a} {c} AND {d} {_MIRRORED[b]} x")
            assert (low, high) == ((-9, 9) if not passing else (min(passing), max(passing)))


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@pytest.mark.parametrize(
    ("keys", "where", "lists"),
    [
        ("k", "k IN ('c', 'a', 'z')", [("a", "c")]),
        ("k", "k = 'b'", [("b",)]),
        ("k", "k = 'z'", [("a", "b", "c", None)]),
        ("k", "k IN ('a') OR x > 3", [("a", "b", "c", None)]),
        ("k", "k <> 'a'", [("a", "b", "c", None)]),
        ("k, x", "k IN ('a', 'b') AND x BETWEEN 1 AND 3", [("a", "b"), (1, 2, 3)]),
        ("free", "free IN ('q', 'p', 'q')", [("q", "p")]),
        ("upper(k)", "upper(k) = 'A'", [("A",)]),
        ("n", "n >= 3 AND n < 6", [(3, 4, 5)]),
        ("n", "n IN (7, 9) AND n > 8", [(9,)]),
    ],
)
def test_keys_that_cannot_pass_are_left_out(keys: str, where: str, lists: list[tuple[Any, ...]]) -> None:
    found = plan(f"SELECT {keys}, COUNT(*) AS c FROM t WHERE {where} GROUP BY {keys}")
    assert found.question.keys.lists is not None
    assert list(found.question.keys.lists) == lists


def test_an_undeclared_key_needs_a_filter_that_lists_it() -> None:
    for where in ("free <> 'q'", "free > 'q'", "free IN ('q') OR x > 1", "lower(free) = 'q'"):
        with pytest.raises(NotPrivate):
            plan(f"SELECT free, COUNT(*) AS c FROM t WHERE {where} GROUP BY free")


def test_notes_do_not_speak_of_what_cannot_pass() -> None:
    narrow = plan("SELECT k, SUM(x) AS s FROM t WHERE x BETWEEN 1 AND 3 AND k IN ('a', 'b') GROUP BY k")
    assert not any("clamped" in note or "In no group" in note for note in narrow.notes)
    wide = plan("SELECT k, SUM(x) AS s FROM t WHERE x > 1 AND k IN ('a', 'z') GROUP BY k")
    assert any("'x' is clamped to [2, 9]" in note for note in wide.notes)
    assert any("'k' is undeclared" in note for note in wide.notes)
    assert "NULL" not in " ".join(wide.notes)


def test_bounds_of_the_query_are_held_against_the_owners_whatever_the_filter() -> None:
    found = plan("SELECT SUM_WITHIN(x, 0, 20) AS s FROM t WHERE x < 2")
    assert found.question.measures[0].span(3) == (0, 20)
