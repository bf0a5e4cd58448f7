"""Counting queries over cells: in which cells of a synthetic table a condition holds, as far as cells can say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.plan.measures.measure import RowCount
from discreet.plan.nodes.node import measured_in
from discreet.plan.question import Question, read_question
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.query.expr import Call, Column, Expr, columns_of
from discreet.query.parse import parse_select
from discreet.synth.domain import SynthColumn

_EQUALITIES = ("=", "<>", "in", "is null")
_COMPARISONS = (*_EQUALITIES, "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class CountedCells:
    """The cells that a counting query counts: an axis for each column that its condition reads.

    Attributes:
        places: these columns, by their places.
        holds: whether the condition holds in each combination of their cells.
    """

    places: tuple[int, ...]
    holds: NDArray[np.bool_]

    def over(self, places: Sequence[int], sizes: Sequence[int]) -> NDArray[np.bool_]:
        """Return the same over more columns, which are in order, as the others are."""
        own = [sizes[i] if i in self.places else 1 for i in places]
        return np.broadcast_to(self.holds.reshape(own), [sizes[i] for i in places])


def read_columns(sql: str, columns: Sequence[SynthColumn]) -> Question:
    """Return a query over the one table of these columns, whatever its name is there.

    Raises:
        PlanError: it is no such query.
    """
    name = parse_select(sql).table
    if name is None:
        raise UnsupportedQuery(
            "Synthetic data have one table, and this query reads several, or a subquery.", hint="SELECT … FROM table"
        )
    types, facts = {c.name: c.type for c in columns}, {c.name: c.fact for c in columns}
    return read_question(sql, [TableSchema(name, types, facts, PrivacyUnit.row(), Relation.ADD_REMOVE)])


def read_count(sql: str, columns: Sequence[SynthColumn]) -> CountedCells:
    """Return the cells that a counting query counts; values outside their ranges count as the nearer end.

    Raises:
        PlanError: no counting query over the columns; or its condition holds in a part of a cell.
    """
    question = read_columns(sql, columns)
    outer = question.outer
    ((_, shown), *more) = outer.columns
    plain = outer.having is None and outer.limit is None and not outer.offset and not question.keys.exprs
    if more or not plain or measured_in(shown) != [shown] or [type(m) for m in question.measures] != [RowCount]:
        raise UnsupportedQuery(
            "This is no counting query: one number of rows that meet a condition.",
            hint="SELECT COUNT(*) FROM table WHERE condition",
        )
    where, names = question.where, [c.name for c in columns]
    if where is None:
        return CountedCells((), np.array(True))
    places = tuple(sorted(names.index(name) for name in columns_of(where)))
    read = _Reads()
    read.visit(where)
    points = [[read.points(columns[i], cell) for cell in range(columns[i].size)] for i in places]
    holds = np.zeros([len(own) for own in points], np.bool_)
    for at in np.ndindex(holds.shape):
        rows = product(*(own[cell] for own, cell in zip(points, at, strict=True)))
        found = {where.of_row(dict(zip((names[i] for i in places), row, strict=True))) is True for row in rows}
        if len(found) > 1:
            raise _unsure(" × ".join(repr(columns[i].label(c)) for i, c in zip(places, at, strict=True)))
        holds[at] = found == {True}
    return CountedCells(places, holds)


@dataclass
class _Reads:
    """What a condition reads of columns: constants that they are compared with, and columns that it takes apart."""

    compared: list[tuple[str, str, Any]] = field(default_factory=list)
    opaque: set[str] = field(default_factory=set)

    def visit(self, e: Expr) -> None:
        """Take everything that an expression reads."""
        if isinstance(e, Call) and e.name in _COMPARISONS:
            sides = [a for a in e.args if columns_of(a)]
            if len(sides) == 1 and (column := _column(sides[0])) is not None:
                constants = [a.of_row({}) for a in e.args if a is not sides[0]]
                self.compared += [(column.name, e.name, value) for value in constants or [None]]
                return
        if e.column is not None:
            self.opaque.add(e.column)
        for child in e.children:
            self.visit(child)

    def points(self, column: SynthColumn, cell: int) -> list[Any]:
        """Return values of a cell that stand for all of it.

        Raises:
            UnsupportedQuery: the condition may hold for some of its values only.
        """
        own = [(name, value) for of, name, value in self.compared if of == column.name and value is not None]
        found = column.points(cell)
        if any(type(value) is object for value in found):
            listed = all(name in _EQUALITIES and value in (column.values or ()) for name, value in own)
            sure = listed and column.name not in self.opaque
        elif len(found) > 1:
            ends = [column.number(value) for value in (found[0], found[-1])]
            inside = any(ends[0] < column.number(value) < ends[1] for _, value in own)
            sure = not inside and column.name not in self.opaque
        else:
            sure = True
        if not sure:
            raise _unsure(f"{column.label(cell)!r} of {column.name!r}")
        return found


def _column(e: Expr) -> Column | None:
    """Return the column that a side of a comparison is, perhaps as a wider type of the same order."""
    inner = e.args_of("as double", "as timestamp") or (e,)
    found = inner[0]
    ordered = isinstance(found, Column) and (found.type is e.type or found.type in (Type.INT, Type.DATE))
    return found if isinstance(found, Column) and ordered else None


def _unsure(cell: str) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"The condition may hold for a part of the cell {cell}, and only whole cells were counted.",
        hint="compare with declared values and with ends of bins",
    )
