"""Tiny worlds: every table over a few possible rows, its neighbours, and how far a question really moves.

A world says who may exist and which rows each may have. It is enumerated whole, so that the largest
difference between neighbours is a fact about the bounded answers, not somebody's derivation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, product
from typing import TypeAlias

from discreet.privacy.unit import Relation, Sensitivity
from tests.reference.expression import Row
from tests.reference.question import Cells, Key, Order, Question, bounded_cells
from tests.reference.values import Value

Block: TypeAlias = tuple[int, ...]
"""All the rows of one unit, as their places in the universe."""

Table: TypeAlias = tuple[tuple[Value, Block], ...]
"""Each unit that is there, with its rows; in the order of the world's units."""

Difference: TypeAlias = tuple[tuple[int, ...], ...]
"""For each measured column, by how much each group moved; zeros are left out."""


@dataclass(frozen=True, slots=True)
class World:
    """Who may exist and which rows each may have.

    Attributes:
        universe: the rows that are possible, without the unit's id.
        units: the ids that are possible; under replacement a newcomer may take any that is free.
        max_rows_per_unit: how many rows a unit has at most; 1 when each row is a unit.
        unit: the column that holds the id; None when each row is a unit.
        max_units: how many units are there at most; None for as many as there are ids.
    """

    universe: tuple[Row, ...]
    units: tuple[Value, ...]
    max_rows_per_unit: int = 1
    unit: str | None = None
    max_units: int | None = None

    def blocks(self, relation: Relation) -> tuple[Block, ...]:
        """Every multiset of rows that a unit may have.

        The empty one is among them only where it says something: under replacement a person without a row is
        not the same as nobody. Where each row is a unit, a unit has its row.
        """
        least = 0 if relation is Relation.REPLACE and self.unit is not None else 1
        most = self.max_rows_per_unit if self.unit is not None else 1
        return tuple(
            block
            for n in range(least, most + 1)
            for block in combinations_with_replacement(range(len(self.universe)), n)
        )

    def tables(self, relation: Relation) -> Iterator[Table]:
        """Every table."""
        most = len(self.units) if self.max_units is None else self.max_units
        for n in range(most + 1):
            for units in combinations(self.units, n):
                for blocks in product(self.blocks(relation), repeat=n):
                    yield tuple(zip(units, blocks, strict=True))

    def neighbours(self, table: Table, relation: Relation) -> Iterator[Table]:
        """Every neighbour: a unit more or less, or one with other rows and perhaps another id."""
        here = {unit for unit, _ in table}
        free = [unit for unit in self.units if unit not in here]
        if relation is Relation.ADD_REMOVE:
            yield from (_without(table, unit) for unit in here)
            if self.max_units is None or len(table) < self.max_units:
                yield from self._with_one_more(table, free, relation)
        else:
            for unit, block in table:
                others = self._with_one_more(_without(table, unit), [unit, *free], relation)
                yield from (other for other in others if (unit, block) not in other)

    def rows(self, table: Table) -> list[Row]:
        """The table as rows."""
        owned = [(unit, self.universe[i]) for unit, block in table for i in block]
        return [row if self.unit is None else {**row, self.unit: unit} for unit, row in owned]

    def _with_one_more(self, table: Table, units: list[Value], relation: Relation) -> Iterator[Table]:
        for unit, block in product(units, self.blocks(relation)):
            yield tuple(sorted((*table, (unit, block)), key=lambda one: self.units.index(one[0])))


def observed_sensitivity(question: Question, world: World, relation: Relation, order: Order) -> tuple[Sensitivity, ...]:
    """How far each measured column moves between neighbours, over the whole world. Assumes nothing; slow.

    The norms run over all groups, each is maximised by itself, and a group that is not there counts as zeros.
    """
    cells = {t: bounded_cells(world.rows(t), question, order) for t in world.tables(relation)}
    moves = (difference(cells[t], cells[n]) for t in cells for n in world.neighbours(t, relation))
    return _largest(moves, question.width)


def observed_sensitivity_by_unit(
    question: Question, world: World, relation: Relation, order: Order
) -> tuple[Sensitivity, ...]:
    """The same from what each unit adds on its own: fast, and right where `is_additive`."""
    nobody = bounded_cells([], question, order)
    alone = {
        unit: [bounded_cells(world.rows(((unit, block),)), question, order) for block in world.blocks(relation)]
        for unit in (world.units if world.unit is not None else world.units[:1])
    }
    everyone = [cells for of_unit in alone.values() for cells in of_unit]
    if relation is Relation.ADD_REMOVE:
        return _largest((difference(cells, nobody) for cells in everyone), question.width)
    return _largest((difference(x, y) for x, y in combinations(everyone, 2)), question.width)


def is_additive(question: Question, world: World, relation: Relation, order: Order) -> bool:
    """Whether in every table of the world each cell is the sum of what each unit adds on its own."""
    nothing = (0,) * question.width
    for table in world.tables(relation):
        whole = bounded_cells(world.rows(table), question, order)
        alone = [bounded_cells(world.rows((one,)), question, order) for one in table]
        for key in whole.keys() | {key for cells in alone for key in cells}:
            parts = [cells.get(key, nothing) for cells in alone]
            if whole.get(key, nothing) != tuple(map(sum, zip(nothing, *parts, strict=True))):
                return False
    return True


def difference(x: Cells, y: Cells) -> Difference:
    """By how much each column of each group differs; a group that is not there counts as zeros.

    >>> difference({("a",): (1, 5)}, {("a",): (1, 3), ("b",): (2, 0)})
    ((-2,), (2,))
    """
    keys: list[Key] = list({**x, **y})
    if not keys:
        return ()
    nothing = (0,) * len(next(iter({**x, **y}.values())))
    columns = zip(
        *([a - b for a, b in zip(x.get(key, nothing), y.get(key, nothing), strict=True)] for key in keys), strict=True
    )
    return tuple(tuple(d for d in column if d) for column in columns)


def _without(table: Table, unit: Value) -> Table:
    return tuple((u, block) for u, block in table if u != unit)


def _largest(differences: Iterable[Difference], width: int) -> tuple[Sensitivity, ...]:
    norms = [[0, 0, 0, 0] for _ in range(width)]
    for columns in set(differences):
        for best, d in zip(norms, columns, strict=False):  # no columns at all where there is no group
            size = len(d), max(map(abs, d), default=0), sum(map(abs, d)), sum(x * x for x in d)
            best[:] = map(max, best, size)
    return tuple(Sensitivity(l0, linf, l1=l1, l2_squared=l2) for l0, linf, l1, l2 in norms)
