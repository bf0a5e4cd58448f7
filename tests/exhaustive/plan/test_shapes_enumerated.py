"""How far each join shape and each aggregate over a join moves in whole small worlds, against what is planned for.

The worlds hold keys that several people share, keys that lead nowhere and rows of nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, combinations_with_replacement
from typing import Any, TypeAlias

import pytest

from discreet.backends.connection import open_database
from discreet.engine.cells import exact_cells
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.plan.rules import RULES
from discreet.privacy.unit import Relation
from tests.exhaustive.plan.test_sensitivity import as_tuple, norms, of_units, within
from tests.plan.cases import as_value
from tests.plan.join_shapes import COLUMNS, KEYS, PUBLIC, SHAPES, ZONES, Row, World, schemas
from tests.reference.question import Cells
from tests.reference.worlds import difference

Frozen: TypeAlias = tuple[tuple[str, tuple[Row, ...]], ...]
SECRET = 0x9E3779B97F4A7C15
ME = 1
"""The unit that comes, goes, and becomes another one."""

NOBODY: World = {**dict.fromkeys(COLUMNS, ()), "zones": ZONES}
OTHERS: World = {
    "people": ((2, "a", 5), (2, "b", -3), (3, "b", 5), (None, "a", 5)),
    "orders": ((2, 1, 5), (2, 9, -3), (3, 2, 5), (None, 2, 5)),
    "items": ((1, 3, 5), (1, 9, 5), (2, 8, -3), (99, 1, 5)),
    "parts": ((3, 5), (9, 5), (9, -3), (77, 1)),
    "zones": ZONES,
}
"""Other people: some of the unit's keys are theirs too, some lead nowhere, and some rows are nobody's."""

ALONE: Mapping[str, tuple[Row, ...]] = {
    "people": ((ME, "a", 9), (ME, "b", -9), (ME, "z", 5), (ME, "z", -3)),
    "orders": ((ME, 1, 5), (ME, 1, -3), (ME, 2, 5), (ME, 2, -3)),
}
MINE: Mapping[tuple[str, ...], Mapping[str, tuple[Row, ...]]] = {
    ("people", "orders"): {"people": ((ME, "a", 9), (ME, "b", -9)), "orders": ALONE["orders"][:2]},
    ("people", "zones"): ALONE,
    ("orders",): ALONE,
    ("orders", "items"): {"orders": ((ME, 1, 5), (ME, 2, 5)), "items": ((1, 1, 5), (1, 1, -3))},
    ("orders", "items", "parts"): {"orders": ((ME, 1, 5),), "items": ((1, 1, 5),), "parts": ((1, 5), (1, -3))},
}
"""The rows that the unit may have, each several times, by the tables that are read."""


def owners(world: World, table: str, row: Row) -> set[Any]:
    """Whose a row is; the definition, in plain Python."""
    if table not in KEYS:
        return {row[0]} - {None}
    column, other, key = KEYS[table]
    value, place = row[list(COLUMNS[table]).index(column)], list(COLUMNS[other]).index(key)
    found = (r for r in world[other] if value is not None and r[place] == value)
    return set().union(*(owners(world, other, r) for r in found))


def without(world: World, unit: int) -> World:
    """The same without what belongs to that unit alone."""
    return {t: tuple(r for r in rows if t in PUBLIC or owners(world, t, r) != {unit}) for t, rows in world.items()}


def frozen(world: World, reads: Sequence[str]) -> Frozen:
    """A world as a value, of the tables that matter."""
    return tuple((t, tuple(sorted(world[t], key=repr))) for t in reads)


def worlds(reads: tuple[str, ...], rest: World, most: int) -> Iterator[World]:
    """The rest with every multiset of at most so many rows of the unit in these tables."""
    universe = [(t, row) for t in reads for row in MINE[reads].get(t, ())]
    for n in range(most + 1):
        for chosen in combinations_with_replacement(universe, n):
            yield {t: (*rows, *(r for name, r in chosen if name == t)) for t, rows in rest.items()}


@cache
def families(reads: tuple[str, ...], alone: int, among: int) -> list[tuple[Frozen, list[Frozen]]]:
    """Worlds that differ in the unit alone: the one without it, and all those with it.

    It has at most so many rows where nobody else is, and where others are.
    """
    found: dict[Frozen, dict[Frozen, None]] = defaultdict(dict)
    for rest, most in ((NOBODY, alone), (OTHERS, among)):
        for world in worlds(reads, rest, most):
            found[frozen(without(world, ME), reads)][frozen(world, reads)] = None
    return [(rest, [w for w in those if w != rest]) for rest, those in found.items()]


class Engine:
    """A DuckDB with the tables of a world, which runs a plan's SQL."""

    def __init__(self) -> None:
        self.connection = open_database()
        self.connection.execute("SET threads = 1")
        self.connection.execute("SET disabled_optimizers = 'common_subexpressions,projection_pullup'")
        self.filled: dict[str, tuple[Row, ...]] = {}
        for name, columns in COLUMNS.items():
            kinds = ", ".join(f'"{c}" {k}' for c, k in columns.items())
            self.connection.execute(f'CREATE TABLE "{name}" ({kinds})')

    def fill(self, world: Frozen) -> None:
        """Replaces the rows of these tables, where they are others."""
        for name, rows in world:
            if self.filled.get(name) == rows:
                continue
            self.filled[name] = rows
            self.connection.execute(f'TRUNCATE "{name}"')
            if rows:
                values = ", ".join(f"({', '.join('NULL' if c is None else repr(c) for c in r)})" for r in rows)
                self.connection.execute(f'INSERT INTO "{name}" VALUES {values}')

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs SQL with the secret, where it has one."""
        return self.connection.execute(sql, {"secret": SECRET} if "$secret" in sql else {}).fetchall()


ENGINE = Engine()


def planned(sql: str, relation: Relation, max_groups: int = 1) -> Query:
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, "delta": "1e-6"}
    return make_query(sql, schemas(relation, max_groups), rules=[rule for rule in RULES if rule.in_stages], **options)


def cells_of(plan: Query, given: Iterable[Frozen]) -> dict[Frozen, Cells]:
    found: dict[Frozen, Cells] = {}
    for world in given:
        ENGINE.fill(world)
        found[world] = {tuple(map(as_value, k)): tuple(c) for k, c in exact_cells(plan, ENGINE.run).items()}
    return found


def moves(
    cells: Mapping[Frozen, Cells], given: Sequence[tuple[Frozen, list[Frozen]]], relation: Relation
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """By how much the cells of each two neighbours differ."""
    for rest, those in given:
        if relation is Relation.ADD_REMOVE:
            yield from {difference(cells[w], cells[rest]) for w in those}
        else:
            different = {tuple(sorted(cells[w].items(), key=repr)): cells[w] for w in (rest, *those)}
            yield from {difference(x, y) for x, y in combinations(different.values(), 2)}


def observed(
    plan: Query, reads: tuple[str, ...], alone: int, among: int
) -> dict[Relation, list[tuple[int, int, int, int]]]:
    """The largest move of each integer column, in each relation."""
    given = families(reads, alone, among)
    cells = cells_of(plan, dict.fromkeys(w for rest, those in given for w in (rest, *those)))
    width = len(plan.sensitivities) + (plan.allocation.threshold is not None)
    return {r: norms(moves(cells, given, r), width) for r in Relation}


def allowed(plan: Query) -> list[Any]:
    """What is planned for, of each integer column."""
    return [*plan.sensitivities, *([of_units(plan)] if plan.allocation.threshold else [])]


def assert_bounded(
    sql: str, reads: tuple[str, ...], alone: int, among: int, *, tight: bool, max_groups: int = 1
) -> None:
    plans = {r: planned(sql, r, max_groups) for r in Relation}
    one, two = plans.values()
    assert one.statements == two.statements
    for relation, found in observed(one, reads, alone, among).items():
        limits = allowed(plans[relation])
        assert all(within(f, s) for f, s in zip(found, limits, strict=True)), (relation, found, limits)
        assert not tight or found == [as_tuple(s) for s in limits], (relation, found, limits)


def size(reads: tuple[str, ...]) -> int:
    """How many rows the unit has at most: as many as it takes to have two in the farthest table."""
    return 4 if "parts" in reads else 3


@pytest.mark.sampled(6)
@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", SHAPES)
def test_no_unit_moves_a_shape_further_than_planned_and_some_unit_moves_it_as_far(name: str) -> None:
    shape = SHAPES[name]
    most = size(shape.reads)
    assert_bounded(shape.sql, shape.reads, most, most - 2, tight=shape.tight)


@pytest.mark.slow
@pytest.mark.parametrize("max_groups", [1, 2])
@pytest.mark.parametrize("name", SHAPES)
def test_no_unit_with_more_rows_moves_a_shape_further_than_planned(name: str, max_groups: int) -> None:
    shape = SHAPES[name]
    most = size(shape.reads)
    assert_bounded(shape.sql, shape.reads, most, most + 1, tight=False, max_groups=max_groups)


JOINED = "FROM people p JOIN orders o ON p.uid = o.uid"
AGGREGATES = {
    "counts": (f"SELECT COUNT(*), COUNT(amount), COUNT(DISTINCT p.uid) {JOINED}", True),
    "conditional counts": (
        f"SELECT COUNT_IF(amount > 0), COUNT(*) FILTER (WHERE age > 0), BOOL_OR(amount > 0) {JOINED}",
        True,
    ),
    "means": (f"SELECT AVG(amount), SUM(age) FILTER (WHERE amount > 0) {JOINED}", False),
    "moments": (f"SELECT VAR_POP(amount), CORR(amount, age) {JOINED}", False),
    "slopes": (f"SELECT REGR_SLOPE(amount, age) {JOINED}", False),
    "different values": (f"SELECT COUNT(DISTINCT amount) {JOINED}", True),
    "totals": ("SELECT zone, COUNT(*) FROM people p JOIN zones z ON p.city = z.city GROUP BY ROLLUP (zone)", False),
}
"""Every aggregate whose integers are cells; whether neighbours of a small world move them as far as is planned for."""


SLOW = ("moments", "slopes")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in AGGREGATES])
def test_no_unit_moves_an_aggregate_over_a_join_further_than_planned(name: str) -> None:
    sql, tight = AGGREGATES[name]
    reads = ("people", "zones") if "zones" in sql else ("people", "orders")
    assert_bounded(sql, reads, 3, 1, tight=tight)


@pytest.mark.parametrize("sql", [f"SELECT MEDIAN(amount), MIN(amount), MAX(amount) {JOINED}"])
def test_no_unit_moves_a_level_of_a_tree_over_a_join_further_than_planned(sql: str) -> None:
    given = families(("people", "orders"), 3, 1)
    plans = {r: planned(sql, r) for r in Relation}
    ((_, text),) = plans[Relation.ADD_REMOVE].trees
    leaves: dict[Frozen, Cells] = {}
    for world in dict.fromkeys(w for rest, those in given for w in (rest, *those)):
        ENGINE.fill(world)
        leaves[world] = {(leaf,): (int(weight),) for leaf, weight in ENGINE.run(text)}
    for relation, plan in plans.items():
        ((limit, _),) = plan.trees
        ((l0, linf, l1, l2),) = norms(moves(leaves, given, relation), 1)
        assert within((l0, linf, l1, l2), limit) and l1 == limit.l1


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SHAPES)
def test_the_slip_of_each_shape_moves_further_than_planned(name: str) -> None:
    shape = SHAPES[name]
    plan = planned(shape.sql, Relation.ADD_REMOVE)
    first, second = (frozen(w, list(COLUMNS)) for w in (shape.pair.first, shape.pair.second))
    assert frozen(without(dict(second), ME), list(COLUMNS)) == first
    for tried, kept in [(plan, True), (replace(plan, sql=shape.slip(plan.sql)), False)]:
        cells = cells_of(tried, [first, second])
        found = norms([difference(cells[second], cells[first])], len(plan.sensitivities))
        limits = plan.sensitivities
        assert all(within(f, s) for f, s in zip(found, limits, strict=True)) is kept, (found, limits)
