"""The public domain of a synthetic table: for each column its cells, how SQL finds them, and values of each cell.

All of it follows from declarations. A range is cut into bins and has one cell more for NULL; declared values have a
cell each and one more for every other value.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.person_recipe import PersonRecipe
from discreet.errors import InvalidParameter, UnsupportedQuery
from discreet.plan.person_rows import PersonRows, person_rows
from discreet.post.noisy_table import restored_cell, stored_cell
from discreet.query.expr import constant, quoted

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Integers: TypeAlias = NDArray[np.int64]

OTHER = "other"
"""Text of a sampled value that is none of the declared texts; of other types such a value is NULL."""

_EPOCH = dt.datetime(1970, 1, 1)
_DAY = 86_400_000_000  # in microseconds
_UNITS = ("day", "month", "quarter", "year", "decade", "century")


@dataclass(frozen=True, slots=True)
class SynthColumn:
    """A column of a synthetic table.

    Attributes:
        name: what it is called.
        type: the type of its values.
        edges: of a range the ends of its bins, from the first to beyond the last: numbers, or microseconds since 1970.
        values: the declared values; None of a range.
    """

    name: str
    type: Type
    edges: tuple[float, ...] = ()
    values: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, name: str, fact: Fact, kind: Type, bins: int) -> SynthColumn:
        """Return the column of which this is declared.

        Args:
            name: what it is called.
            fact: what is declared of it.
            kind: its type in the table.
            bins: the most bins of a range.
        """
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
        """Return a value as its place on the axis of the edges.

        Raises:
            InvalidParameter: it is of another type.
        """
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
                raise InvalidParameter(f"{wanted!r} is no declared value of {self.name!r}.")
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


@dataclass(frozen=True)
class CellRecipe(PersonRecipe):
    """A recipe over the cells of a table's columns.

    Attributes:
        columns: the columns.
        source: the name of their table.
        epsilon: the ε to be spent.
        delta: the δ to be spent.
        per_person: how many rows of a person are read at most.
    """

    columns: tuple[SynthColumn, ...]
    source: str
    epsilon: Fraction
    delta: Fraction
    per_person: int

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
