"""The public domain of a synthetic table: for each column its cells, how SQL finds them, and values of each cell.

All of it follows from declarations. A range is cut into bins and has one cell more for NULL; declared values have a
cell each and one more for every other value. In which cells the condition of a counting query holds is public too.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.person_recipe import PersonRecipe
from discreet.errors import InvalidParameter, UnsupportedQuery
from discreet.plan.measures.measure import RowCount
from discreet.plan.nodes.node import measured_in
from discreet.plan.notes import bias_of_facts
from discreet.plan.person_rows import PersonRows, person_rows
from discreet.plan.question import Question, read_question
from discreet.post.noisy_table import restored_cell, stored_cell
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.query.expr import Call, Column, Expr, columns_of, constant, quoted
from discreet.query.parse import parse_select

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Integers: TypeAlias = NDArray[np.int64]

OTHER = "other"  # text of a sampled value that is none of the declared texts; of other types such a value is NULL
_EPOCH = dt.datetime(1970, 1, 1)
_DAY = 86_400_000_000  # in microseconds
_UNITS = ("day", "month", "quarter", "year", "decade", "century")


@dataclass(frozen=True, slots=True)
class SynthColumn:
    """A column of a synthetic table."""

    name: str  # what it is called
    type: Type  # the type of its values
    # of a range the ends of its bins, from the first to beyond the last: numbers, or microseconds since 1970
    edges: tuple[float, ...] = ()
    values: tuple[Any, ...] | None = None  # the declared values; None of a range

    @classmethod
    def of(cls, name: str, fact: Fact, kind: Type, bins: int) -> SynthColumn:
        """Return the column of which this is declared."""
        if isinstance(fact, Values):
            return cls(name, kind, values=fact.values)
        if fact.type.is_moment:
            return cls(name, kind, _calendar(int(fact.low), int(fact.high), bins, whole_days=kind is Type.DATE))
        if kind is Type.INT or fact.integer:
            first, beyond = math.ceil(fact.low), math.floor(fact.high) + 1
            if beyond <= first:
                raise InvalidParameter(f"the range of {name!r} holds no whole number.")
            return cls(name, Type.INT, (*range(first, beyond, -((first - beyond) // bins)), beyond))
        low, high = float(fact.low), float(fact.high)
        n = bins if low < high else 1
        return cls(name, kind, (*(low + (high - low) * i / n for i in range(n)), high))

    @property
    def size(self) -> int:
        """How many cells there are: the last one is NULL of a range, and every other value of declared ones."""
        return len(self.edges) if self.values is None else len(self.values) + 1

    @property
    def fact(self) -> Fact:
        """What is declared of it."""
        if self.values is not None:
            return Values(*self.values)
        low, high = map(self._typed, (self.edges[0], self.edges[-1] - self._step))
        return Range(low, high, integer=True) if self.type is Type.INT else Range(low, high)

    @property
    def _step(self) -> int:
        """How far a bin's last value is from its end; 0 where it is as near as a float can be."""
        return {Type.INT: 1, Type.DATE: _DAY}.get(self.type, 1 if self.type.is_moment else 0)

    @property
    def _typed(self) -> Callable[[float], Any]:
        """What makes a place on the axis of the edges a value."""
        if self.type.is_moment:
            return (lambda n: _moment(int(n)).date()) if self.type is Type.DATE else lambda n: _moment(int(n))
        return int if self.type is Type.INT else float

    def points(self, cell: int) -> list[Any]:
        """Return values of a cell from its first to its last; what is none of the declared values is an object."""
        if self.values is not None:
            rest = [] if self.type is Type.BOOL and {True, False} <= {*self.values} else [object()]
            return [self.values[cell]] if cell < len(self.values) else [None] * (None not in self.values) + rest
        if cell == self.size - 1:
            return [None]
        low, beyond, step = self.edges[cell], self.edges[cell + 1], self._step
        middle = low + (beyond - step - low) // (step or 1) // 2 * step if step else (low + beyond) / 2
        last = beyond - step if step or cell == self.size - 2 else math.nextafter(beyond, low)
        return [self._typed(n) for n in dict.fromkeys((low, middle, last))]

    def number(self, value: Any) -> float:
        """Return a value as its place on the axis of the edges. Raises InvalidParameter: it is of another type."""
        if isinstance(value, dt.date):
            return float(_microseconds(value))
        if self.type.is_moment or not isinstance(value, int | float | Fraction) or isinstance(value, bool):
            raise InvalidParameter(f"{self.name!r} takes {self.type.word}, or a pair of them, not {value!r:.60}.")
        return float(value)

    @property
    def sql(self) -> str:
        """The number of a row's cell."""
        own = quoted(self.name)
        if self.values is not None:
            return _cases([(f"{own} IS NULL" if v is None else f"{own} = {_literal(v)}") for v in self.values])
        low, high, last = self.edges[0], self.edges[-1], self.size - 1
        if self.type.is_moment:
            ends = [f"{own} < {_literal(_moment(int(edge)))}" for edge in self.edges[1:-1]]
            return _cases([*ends, f"{own} IS NOT NULL"])
        if last == 1:
            return f"CASE WHEN {own} IS NULL THEN 1 ELSE 0 END"
        top = int(high) - 1 if self.type is Type.INT else high
        held, step = f"LEAST(GREATEST({own}, {low!r}), {top!r})", self.edges[1] - low
        if self.type is Type.INT and step == 1:
            cell = f"{held} - ({low!r})"
        else:  # as a float, which no difference overflows
            cell = f"LEAST(CAST(FLOOR((CAST({held} AS DOUBLE) - ({low!r})) / {step!r}) AS INTEGER), {last - 1})"
        return f"CASE WHEN {own} IS NULL THEN {last} ELSE {cell} END"

    def cells_of(self, wanted: Any) -> list[int]:
        """Return the cells of a value, or of a range of values as a pair.

        Raises:
            InvalidParameter: there is no such value.
        """
        if self.values is not None:
            found = [i for i, v in enumerate(self.values) if v == wanted and type(v) is type(wanted)]
            if wanted is None or (wanted == OTHER and self.type is Type.TEXT):
                found = found or [self.size - 1]
            if not found:
                hint = f"declared are {', '.join(map(repr, self.values[:5]))}{', …' if len(self.values) > 5 else ''}"
                raise InvalidParameter(f"{wanted!r} is no declared value of {self.name!r}.", hint=hint)
            return found
        if wanted is None:
            return [self.size - 1]
        pair = wanted if isinstance(wanted, tuple) and len(wanted) == 2 else (wanted, wanted)
        low, high = (self.number(end) for end in pair)
        found = [i for i in range(self.size - 1) if self._meets(i, low, high)]
        if not found:
            raise InvalidParameter(f"{wanted!r} lies outside of the declared range of {self.name!r}.")
        return found

    def whole_cells_of(self, wanted: Any) -> list[int]:
        """Return the same where nothing else lies in these cells.

        Raises:
            InvalidParameter: there is no such value, or a bin holds it and others.
        """
        found = self.cells_of(wanted)
        if self.values is None and wanted is not None:
            pair = wanted if isinstance(wanted, tuple) else (wanted, wanted)
            low, high = (self.number(end) for end in pair)
            start, beyond = self.edges[found[0]], self.edges[found[-1] + 1]
            if (found[0] and start < low) or (found[-1] < self.size - 2 and beyond - self._step > high):
                raise InvalidParameter(
                    f"{wanted!r} ends inside of a bin of {self.name!r}, from {self.label(found[0])} to "
                    f"{self.label(found[-1])}.",
                    hint="more bins=, or a range that ends where bins do",
                )
        return found

    def label(self, cell: int) -> Any:
        """Return a cell in words of its own: its value, or the bin's least and largest end."""
        if self.values is not None:
            return self.values[cell] if cell < len(self.values) else self._other
        if cell == self.size - 1:
            return None
        single = self.type in (Type.INT, Type.DATE)  # ends are the first and last value then
        ends = tuple(map(self._typed, (self.edges[cell], self.edges[cell + 1] - self._step * single)))
        return ends[0] if single and ends[0] == ends[1] else ends

    def sampled(self, cells: Integers, at: Floats) -> list[Any]:
        """Return a value of each of these cells; of a bin the one at this share of its way."""
        if self.values is not None:
            shown = [*self.values, self._other]
            return [shown[i] for i in cells.tolist()]
        edges, low, typed = np.array(self.edges, np.float64), np.minimum(cells, self.size - 2), self._typed
        found = edges[low] + (edges[low + 1] - edges[low]) * at
        if self._step:
            found = np.minimum(np.floor(found), edges[low + 1] - 1)
        null = (cells == self.size - 1).tolist()
        return [None if gone else typed(n) for n, gone in zip(found.tolist(), null, strict=True)]

    @property
    def said(self) -> dict[str, Any]:
        """The column as plain values."""
        values = None if self.values is None else [stored_cell(v) for v in self.values]
        return {"name": self.name, "type": self.type.name, "edges": [*self.edges], "values": values}

    @classmethod
    def read(cls, said: dict[str, Any]) -> SynthColumn:
        """Return the column that `said` describes."""
        values = None if said["values"] is None else tuple(map(restored_cell, said["values"]))
        return cls(said["name"], Type[said["type"]], tuple(said["edges"]), values)

    @property
    def _other(self) -> str | None:
        return OTHER if self.type is Type.TEXT else None

    def _meets(self, cell: int, low: float, high: float) -> bool:
        """Whether a bin holds numbers of a closed range; the last bin of numbers holds its end."""
        start, beyond = self.edges[cell], self.edges[cell + 1]
        last = cell == self.size - 2 and self.type is Type.REAL
        return start <= high and (low < beyond or (last and low == beyond))


def bias_of(columns: Sequence[SynthColumn], rest: str = f"become {OTHER!r}, or NULL where they are not text") -> str:
    """Return which values are clamped, and what undeclared ones become."""
    return bias_of_facts({column.name: column.fact for column in columns}, rest)


@dataclass(frozen=True)
class CellRecipe(PersonRecipe):
    """A recipe over the cells of a table's columns."""

    columns: tuple[SynthColumn, ...]  # the columns
    source: str  # the name of their table
    epsilon: Fraction  # the ε to be spent
    delta: Fraction  # the δ to be spent
    per_person: int  # how many rows of a person are read at most

    @property
    def sizes(self) -> list[int]:
        """How many cells each column has."""
        return [column.size for column in self.columns]

    def rows(self, tables: Sequence[TableSchema]) -> PersonRows:
        """Return people's rows of the table, as the numbers of their cells: at most so many of a person.

        Raises:
            InvalidParameter: there are too many columns or values for one query.
        """
        text = ", ".join(f"{column.sql} AS c{i}" for i, column in enumerate(self.columns))
        try:
            found = person_rows(f"SELECT {text} FROM {quoted(self.source)}", tables, rows=self.per_person)
            assert found.sql  # what is too long is refused when it is written
            return found
        except UnsupportedQuery:  # columns and values were read already: only their number is left
            largest = max(self.columns, key=lambda column: column.size)
            raise InvalidParameter(
                f"{len(self.columns)} columns, of which {largest.name!r} has {largest.size:,} values or bins, are too "
                "many for one query.",
                hint="leave columns out, or declare coarser values",
            ) from None


def _cases(conditions: Sequence[str]) -> str:
    """Return the number of the first condition that holds."""
    cases = " ".join(f"WHEN {condition} THEN {i}" for i, condition in enumerate(conditions))
    return f"CASE {cases} ELSE {len(conditions)} END"


def _literal(value: Any) -> str:
    return repr(value) if type(value) in (int, float) else constant(value, None)


def _moment(microseconds: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=microseconds)


def _microseconds(moment: dt.date) -> int:
    time = moment if isinstance(moment, dt.datetime) else dt.datetime.combine(moment, dt.time())
    return (time - _EPOCH) // dt.timedelta(microseconds=1)


def _calendar(low: int, high: int, bins: int, *, whole_days: bool) -> tuple[float, ...]:
    """Return the ends of bins of the shortest calendar unit of which there are few enough."""
    beyond = high + (_DAY if whole_days else 1)
    for unit in _UNITS:
        starts, at = [low], _after(low, unit)
        while at < beyond and len(starts) <= bins:
            starts.append(at)
            at = _after(at, unit)
        if len(starts) <= bins:
            return (*map(float, starts), float(beyond))
    raise InvalidParameter(
        f"bins={bins} are too few for that range of dates.", hint="a narrower dp.Range, or more bins="
    )


def _after(at: int, unit: str) -> int:
    """Return the start of the next calendar unit."""
    if unit == "day":
        return (at // _DAY + 1) * _DAY
    time = _moment(at)
    if unit in ("month", "quarter"):
        months = 1 if unit == "month" else 3
        place = (time.year * 12 + time.month - 1) // months * months + months
        year, month = place // 12, place % 12 + 1
    else:
        years = {"year": 1, "decade": 10, "century": 100}[unit]
        year, month = time.year // years * years + years, 1
    return _microseconds(dt.date(year, month, 1)) if year <= dt.MAXYEAR else 1 << 62


_EQUALITIES = ("=", "<>", "in", "is null")
_COMPARISONS = (*_EQUALITIES, "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class CountedCells:
    """The cells that a counting query counts: an axis for each column that its condition reads."""

    places: tuple[int, ...]  # these columns, by their places
    holds: NDArray[np.bool_]  # whether the condition holds in each combination of their cells

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
