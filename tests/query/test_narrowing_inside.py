"""WHERE inside and outside of derived tables narrows the bounds and keys of columns that are passed on as they are."""

from __future__ import annotations

import pytest

from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.plan.planner import make_query
from discreet.plan.query import Query, source_of
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.verify.derive import derive

T = TableSchema(
    "t",
    {"id": Type.INT, "x": Type.INT, "y": Type.REAL, "z": Type.REAL, "k": Type.TEXT, "w": Type.TEXT},
    {"x": Range(0, 100, integer=True), "y": Range(-10, 90), "k": Values("a", "b", "c")},
    PrivacyUnit("id", max_groups=1, max_rows=1),
    Relation.ADD_REMOVE,
)


def plan(sql: str) -> Query:
    return make_query(sql, [T], population="p", version=None, epsilon=1)


def reach(sql: str) -> tuple[float, int | None]:
    """How far one person moves the sum, and how many groups there are."""
    found = plan(sql)
    (moved,) = found.sensitivities
    assert derive(found.sql, source_of(found.question)).spans == ((0, moved.linf),)  # the text says so itself
    return float(moved.linf * found.question.measures[0].step), found.question.keys.count


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        ("SELECT SUM(x) FROM (SELECT id, x FROM t WHERE x BETWEEN 5 AND 20) s", 20),
        ("WITH s AS (SELECT x AS a FROM t WHERE x < 21) SELECT SUM(a) FROM s", 20),
        ("SELECT SUM(a) FROM (SELECT x AS a FROM (SELECT id, x FROM t WHERE x <= 20) r) s", 20),
        ("SELECT SUM(a) FROM (SELECT id, x AS a FROM t) s WHERE a <= 20", 20),
        ("SELECT SUM(a) FROM (SELECT id, x AS a FROM t WHERE x <= 30) s WHERE a <= 20", 20),
        ("SELECT SUM(2 * a) FROM (SELECT x AS a FROM t WHERE x <= 20 AND k = 'a') s", 40),
        ("SELECT SUM(s.y) FROM (SELECT id, y FROM t WHERE y > 0 AND y <= 8) s JOIN t r ON r.id = s.id", 8),
        ("SELECT SUM(z) FROM (SELECT z FROM t WHERE z BETWEEN 1 AND 7) s", 7),
        ("SELECT SUM(n) FROM (SELECT id, SUM(x) AS n FROM t WHERE x <= 20 GROUP BY id) s", 20),
        # not of every row, not of this column, or not of its values
        ("SELECT SUM(x) FROM (SELECT x FROM t WHERE x <= 20 OR k = 'a') s", 100),
        ("SELECT SUM(x) FROM (SELECT x FROM t WHERE NOT x > 20) s", 100),
        ("SELECT SUM(x) FROM (SELECT x FROM t WHERE y <= 20) s", 100),
        ("SELECT SUM(x) FROM (SELECT x FROM t WHERE x + 0 <= 20) s", 100),
        ("SELECT SUM(x) FROM (SELECT x FROM t WHERE CAST(x AS VARCHAR) <= '20') s", 100),
        ("SELECT SUM(x) FROM (SELECT x FROM t WHERE x > 200) s", 100),
        ("SELECT SUM(s.x) FROM (SELECT id, x FROM t WHERE x <= 20) r JOIN t s ON r.id = s.id", 100),
    ],
)
def test_a_sum_moves_by_what_the_filters_leave(sql: str, most: float) -> None:
    moved, groups = reach(sql)
    assert moved == pytest.approx(most)
    assert groups == 1


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        ("k IN ('a', 'c')", 2), ("k = 'b'", 1), ("k = 'b' OR x > 1", 3), ("k = 'none'", 3), ("k <> 'a'", 3),
    ],
)  # fmt: skip
def test_keys_are_those_that_pass_inside(where: str, groups: int) -> None:
    assert reach(f"SELECT k, COUNT(*) FROM (SELECT k FROM t WHERE {where}) s GROUP BY k") == (1, groups)


def test_listed_values_inside_are_keys_without_a_declaration() -> None:
    found = plan("SELECT w, COUNT(*) FROM (SELECT w FROM t WHERE w IN ('p', 'q')) s GROUP BY w")
    assert found.question.keys.lists == (("p", "q"),)
