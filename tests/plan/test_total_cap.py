"""A cap on all rows of a unit: what it lets one unit move, against all pairs; and texts that do not keep it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from discreet.backends.connection import open_database
from discreet.catalog.schema import TableSchema
from discreet.engine.cells import Cells, exact_cells
from discreet.errors import InternalError, InvalidParameter
from discreet.plan.cost import sensitivity_of, squares_within, tree_sensitivity
from discreet.plan.planner import make_query
from discreet.plan.query import Query, claim_of
from discreet.privacy.unit import PrivacyUnit, Relation, Sensitivity
from discreet.verify import check as again
from tests.plan.claims import check
from tests.plan.test_check import COLUMNS, FACTS

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE


def additions(row: tuple[int, int], caps: tuple[int, int, int], groups: int) -> Iterator[tuple[int, ...]]:
    """All that a unit can add: in at most k groups the sum of at most r rows each, and of at most `total` in all."""
    k, r, total = caps
    for counts in product(range(r + 1), repeat=groups):
        if sum(counts) <= total and sum(n > 0 for n in counts) <= k:
            yield from product(*(range(n * row[0], n * row[1] + 1) for n in counts))


def observed(row: tuple[int, int], caps: tuple[int, int, int], groups: int, relation: Relation) -> Sensitivity:
    after = set(additions(row, caps, groups))
    before = after if relation is REPLACE else {(0,) * groups}
    moves = {tuple(a - b for a, b in zip(x, y, strict=True)) for x in after for y in before}
    return Sensitivity(
        max(sum(d != 0 for d in m) for m in moves),
        max(max(map(abs, m)) for m in moves),
        l1=max(sum(map(abs, m)) for m in moves),
        l2_squared=max(sum(d * d for d in m) for m in moves),
    )


def planned_for(row: tuple[int, int], caps: tuple[int, int, int], groups: int, relation: Relation) -> Sensitivity:
    k, r, total = caps
    span = min(row[0], 0) * r, max(row[1], 0) * r
    return sensitivity_of(span, min(k, groups), groups, relation, total * max(-row[0], row[1]))


def as_tuple(s: Sensitivity) -> tuple[int, int, int, int]:
    return s.l0, s.linf, s.l1, s.l2_squared


CAPS = [(2, 2, 3), (3, 3, 3), (3, 2, 4), (3, 2, 5), (2, 3, 4)]
"""Groups, rows in each, and rows in all, where the last binds."""


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("row", [(0, 1), (0, 2), (-1, 0), (-1, 1), (-1, 2)])
def test_no_unit_within_the_caps_moves_a_column_further(row: tuple[int, int], relation: Relation) -> None:
    for caps, groups in product(CAPS, (2, 3)):
        found, said = observed(row, caps, groups, relation), planned_for(row, caps, groups, relation)
        assert all(f <= s for f, s in zip(as_tuple(found), as_tuple(said), strict=True)), (caps, groups)
        if relation is ADD:  # reached
            assert (found.l1, found.l2_squared) == (said.l1, said.l2_squared), (caps, groups)


def test_a_smaller_sum_of_squares_is_exceeded() -> None:
    caps = (3, 2, 5)  # two full groups and a row: 4 + 4 + 1
    assert observed((0, 1), caps, 3, ADD).l2_squared == squares_within(5, 2, 3) == 9
    assert observed((-1, 1), caps, 3, ADD).l2_squared == 9
    assert observed((0, 1), (2, 2, 3), 3, REPLACE).l2_squared > 2 * squares_within(3, 1, 3)


def test_the_cap_on_all_rows_never_costs_more_and_replacement_has_the_factors_of_the_proof() -> None:
    assert sensitivity_of((0, 6), 5, 9, ADD, 20) == Sensitivity(5, 6, l1=20, l2_squared=3 * 36 + 4)
    assert sensitivity_of((0, 6), 5, 9, REPLACE, 20).l2_squared == 2 * (3 * 36 + 4)
    assert sensitivity_of((-6, 6), 5, 90, REPLACE, 20).l2_squared == 4 * (3 * 36 + 4)
    assert sensitivity_of((-6, 6), 5, 90, REPLACE, 20).l1 == 40
    assert sensitivity_of((0, 6), 2, 9, ADD, 20) == sensitivity_of((0, 6), 2, 9, ADD)
    assert tree_sensitivity(6, 5, 9, 16, REPLACE, 20) == Sensitivity(40, 6, l1=40, l2_squared=2 * (3 * 36 + 4))


SQL = {
    "declared": "SELECT region, COUNT(*), COUNT(x), SUM(x), AVG(v), COUNT(DISTINCT uid) FROM t GROUP BY region",
    "rows": "SELECT region, COUNT(*), COUNT(x), SUM(x), AVG(v) FROM t GROUP BY region",
    "private": "SELECT other, SUM(v), AVG(x) FROM t GROUP BY other",
    "tree": "SELECT region, MEDIAN(x), MAX(x) FROM t GROUP BY region",
    "distinct": "SELECT region, COUNT(DISTINCT x) AS d FROM t GROUP BY region",
}
APART = "SELECT other, COUNT(DISTINCT x) AS d FROM t GROUP BY other"


@cache
def plan(name: str, relation: Relation = ADD, total: int = 4, **caps: Any) -> Query:
    unit = PrivacyUnit("uid", max_contributions=total, **caps)
    facts = FACTS if name not in ("private", APART) else {n: f for n, f in FACTS.items() if n != "other"}
    asked: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, "delta": "1e-6"}
    return make_query(SQL.get(name, name), [TableSchema("t", COLUMNS, facts, unit, relation)], **asked)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", list(SQL))
def test_alone_it_needs_one_window_and_costs_what_one_group_with_all_rows_costs(name: str, relation: Relation) -> None:
    query = plan(name, relation)
    times = 1 if relation is ADD else 2
    for text in query.statements:
        others = text.replace("count(*) OVER (PARTITION BY u)", "")  # weights count groups
        assert others.count("OVER (PARTITION BY u") == 1
    assert ('"unit groups"' in query.sql) == (name in ("declared", "private"))  # else nothing is tallied
    for measure, s in zip(query.question.measures, query.sensitivities, strict=True):
        assert s.l1 == times * 4 * measure.of_one_row or (measure.is_of_units and s.l1 == s.l0)
        assert s.l0 == min(times * 4, query.question.keys.count or times * 4)
    assert (query.allocation.threshold is None) == (name != "private")
    if query.allocation.threshold is not None:
        assert query.allocation.threshold.max_groups == 4


def test_beside_other_caps_it_stands_only_where_it_is_tighter() -> None:
    assert '"unit capped"' in plan("declared", max_groups=2, max_rows=3).sql
    assert '"unit capped"' not in plan("declared", max_groups=2, max_rows=2).sql
    assert '"unit capped"' not in plan("declared", max_groups=1).sql
    assert PrivacyUnit("id", max_contributions=20).caps == (20, 20)
    assert PrivacyUnit("id", 3, max_contributions=20).caps == (3, 20)
    assert PrivacyUnit("id", 3).caps is None
    assert plan("declared", max_groups=2, max_rows=3).identity != plan("declared", max_groups=2).identity
    with pytest.raises(InvalidParameter, match="max_contributions cannot be 2"):
        PrivacyUnit(None, max_contributions=2)


PASSED = "u, g0, v0, v1"
ORDER = "hash(u, g0, v0, v1, $secret), g0, v0, v1"
FORGED = [
    ("declared", "one row more", "<= 4\n", "<= 5\n"),
    ("declared", "a cap of tallies that is wider", "least(n, 4)", "least(n, 5)"),
    ("declared", "no cap", f"QUALIFY row_number() OVER (PARTITION BY u ORDER BY {ORDER}) <= 4", ""),
    ("declared", "a rank that repeats", "row_number()", "rank()"),
    ("declared", "a rank without gaps", "row_number()", "dense_rank()"),
    ("declared", "ranked within each group", "PARTITION BY u", "PARTITION BY u, g0"),
    ("declared", "ranked over everybody", "PARTITION BY u", "PARTITION BY g0"),
    ("declared", "a column left out of the order", ORDER, "hash(u, g0, v0, v1, $secret), g0, v0"),
    ("declared", "a column left out of the hash", ORDER, "hash(u, g0, v0, $secret), g0, v0, v1"),
    ("declared", "an order without the secret", ORDER, "hash(u, g0, v0, v1), g0, v0, v1"),
    ("declared", "tallies of all rows", 'FROM "unit capped" GROUP', 'FROM "unit rows" GROUP'),
    ("declared", "a value that is another one", f"SELECT {PASSED} FROM", "SELECT u, g0, v0, v0 AS v1 FROM"),
    ("declared", "a cap that is not a number", "<= 4\n", "<= v0\n"),
    ("declared", "a clamp away from 0", "END, 0), -20), 20)", "END, 0), 1), 20)"),
    ("declared", "a constant for no value", "END, 0), -20), 20)", "END, 40), -20), 20)"),
    ("rows", "one row more", "<= 4\n", "<= 5\n"),
    ("rows", "no cap", f"QUALIFY row_number() OVER (PARTITION BY u ORDER BY {ORDER}) <= 4", ""),
    ("rows", "all rows", 'FROM "unit capped" GROUP', 'FROM "unit rows" GROUP'),
    ("rows", "ranked within each group", "PARTITION BY u", "PARTITION BY u, g0"),
    ("rows", "values that are larger", 'greatest(s."x", 0), 10)', 'greatest(s."x", 0), 20)'),
    ("rows", "a sum twice", "sum(v1), 0)", "sum(v1) + sum(v1), 0)"),
    ("rows", "a row counted twice", "count(*), 0)", "count(*) * 2, 0)"),
    ("rows", "groups by another column", "GROUP BY g0", "GROUP BY v0"),
    ("rows", "only some sums", "GROUP BY g0", "GROUP BY g0 HAVING count(*) > 1"),
    ("declared", "a sum of rows that are larger", 'greatest(s."x", 0), 10)', 'greatest(s."x", 0), 20)'),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "what", "old", "new"), FORGED, ids=[f[1] for f in FORGED])
def test_a_text_that_does_not_keep_it_is_refused(name: str, what: str, old: str, new: str) -> None:
    query = plan(name)
    check(query.sql, query)
    assert old in query.sql, query.sql
    with pytest.raises(InternalError):
        check(query.sql.replace(old, new), query)


def test_values_and_trees_that_do_not_keep_it_are_refused() -> None:
    distinct, tree = plan("distinct"), plan("tree")
    for query, text in ((distinct, distinct.distinct[0][1]), (tree, tree.trees[0][1])):
        again.check(claim_of(query))
        for old, new in (("<= 4\n", "<= 5\n"), ("PARTITION BY u ORDER", "PARTITION BY u, g0 ORDER")):
            assert old in text
            other = text.replace(old, new)
            if query is distinct:
                forged = replace(query, distinct=((distinct.distinct[0][0], other),))
            else:
                forged = replace(query, trees=((tree.trees[0][0], other),))
            with pytest.raises(InternalError):
                again.check(claim_of(forged))


def test_a_plan_that_says_less_than_the_sum_of_squares_is_refused() -> None:
    query = plan("declared", REPLACE, max_groups=3, max_rows=3)
    again.check(claim_of(query))
    for i, s in enumerate(query.sensitivities):
        for less in (
            Sensitivity(s.l0, s.linf, l1=s.l1, l2_squared=s.l2_squared - 1),
            Sensitivity(s.l0, s.linf, l1=s.l1 - 1, l2_squared=s.l2_squared),
        ):
            said = (*query.sensitivities[:i], less, *query.sensitivities[i + 1 :])
            with pytest.raises(InternalError):
                again.check(claim_of(replace(query, sensitivities=said)))


def test_rows_that_are_not_tallied_add_up_to_the_same_integers() -> None:
    queries = [plan("rows"), plan("declared")]  # the second also counts units, which tallies rows
    draw = np.random.default_rng(5)
    with open_database() as db:
        db.execute("CREATE TABLE t (uid BIGINT, region VARCHAR, x BIGINT, v DOUBLE)")
        for _ in range(80):
            values = [[None, -3, 2, 40][draw.integers(4)], [None, 1.25, float("nan"), -9.0][draw.integers(4)]]
            row = [int(draw.integers(7)), ["a", "b", None, "z"][draw.integers(4)], *values]
            db.execute("INSERT INTO t VALUES (?, ?, ?, ?)", row)
        found = [{k: cells for k, *cells in db.execute(q.sql, {"secret": 9}).fetchall()} for q in queries]
    assert len(found[0]) == 3 and found[0].keys() == found[1].keys()
    for i, measure in enumerate(queries[0].question.measures):
        j = queries[1].question.measures.index(measure)
        assert {k: cells[i] for k, cells in found[0].items()} == {k: cells[j] for k, cells in found[1].items()}


def test_a_count_of_values_moves_within_its_sensitivity_at_groups_that_one_unit_alone_is_shown_in() -> None:
    query = plan(APART, total=2)
    with open_database() as db:
        db.execute("CREATE TABLE t (uid BIGINT, other VARCHAR, x BIGINT)")

        def cells(rows: list[tuple[int, str, int]]) -> Cells:
            db.execute("DELETE FROM t")
            db.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
            return exact_cells(query, lambda text: db.execute(text, {"secret": 9}).fetchall())

        # units whose rows of group b are kept where values are counted, and nowhere else
        each = [[(u, group, u) for group in "abcd"] for u in range(30)]
        some = [row for rows in each if cells(rows).get(("b",)) == [1, 0] for row in rows]
        before, after = cells(some), cells([*some, (99, "b", 99)])
    assert len(some) > 8
    assert 0 < after["b",][0] - before.get(("b",), [0])[0] <= query.sensitivities[0].linf
