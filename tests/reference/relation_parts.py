"""What the reference's relations show of their rows: aggregates of one unit's rows, and windows over them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TypeAlias

from discreet.errors import InvalidParameter
from tests.reference.expression import Expression, Row
from tests.reference.values import NUMERIC, Kind, Value, fit

Output: TypeAlias = tuple[str, Expression]
"""An output column's name, without its alias, and what it shows."""

Frame: TypeAlias = tuple[int | None, int | None]
"""ROWS from and to, counted from the row itself; None for no end."""

AGGREGATES = ("COUNT", "COUNT DISTINCT", "SUM", "AVG", "MIN", "MAX")
WINDOWS = ("ROW_NUMBER", "RANK", "LAG", "COUNT", "SUM", "MAX", "LAST_VALUE")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One of `AGGREGATES` over the rows of a group, NULLs passed over; COUNT of None is COUNT(*).

    Real numbers are added in the order of their values, so that a sum follows from the values alone. SUM of
    whole numbers is exact, and NULL beyond 64 bits.
    """

    name: str
    argument: Expression | None = None

    def __post_init__(self) -> None:
        if self.name not in AGGREGATES or (self.argument is None and self.name != "COUNT"):
            raise InvalidParameter(f"name must be one of AGGREGATES, with an argument, not {self.name!r}.")
        if self.name in ("SUM", "AVG") and self._of not in NUMERIC:
            raise TypeError(f"{self.name} wants numbers")

    @property
    def _of(self) -> Kind:
        return Kind.INT if self.argument is None else self.argument.kind

    @property
    def kind(self) -> Kind:
        """What it gives."""
        if self.name.startswith("COUNT"):
            return Kind.INT
        return Kind.REAL if self.name == "AVG" else self._of

    def over(self, rows: Sequence[Row]) -> Value:
        """Its value over the rows of one group, one or more."""
        if self.argument is None:
            return len(rows)
        values = [x for x in map(self.argument.at, rows) if x is not None]
        match self.name:
            case "COUNT":
                return len(values)
            case "COUNT DISTINCT":
                return len(set(values))
        if not values:
            return None
        if self.name in ("MIN", "MAX"):
            return _ordered(values)[0 if self.name == "MIN" else -1]
        total = _sum(values)
        return fit(total if self.name == "SUM" else float(total) / len(values), self.kind)


@dataclass(frozen=True, slots=True)
class Window:
    """One of `WINDOWS`, PARTITION BY the unit and `partition`, ORDER BY `order`: expressions, each up or down.

    NULLs come last either way. Rows that tie are told apart by all their columns for ROW_NUMBER and LAG; for
    the others they are peers: a running COUNT, SUM or MAX is up to the last of them, as is SQL's default. A frame is
    ROWS from and to, counted from the row itself, None for no end; in it too rows that tie are told apart.
    """

    name: str
    argument: Expression | None = None
    partition: tuple[Expression, ...] = ()
    order: tuple[tuple[Expression, bool], ...] = ()
    frame: Frame | None = None

    def __post_init__(self) -> None:
        if self.name not in WINDOWS:
            raise InvalidParameter(f"name must be one of WINDOWS, not {self.name!r}.")
        if self.name == "SUM" and self._of not in (Kind.INT, Kind.NULL):
            raise TypeError("a running SUM wants whole numbers: the order of real ones would be seen in it")
        if (self.name == "LAST_VALUE" and self.frame is None) or (self.frame and self.name in WINDOWS[:3]):
            raise InvalidParameter("frame must be given for LAST_VALUE, and for no function of places.")

    @property
    def _of(self) -> Kind:
        return Kind.INT if self.argument is None else self.argument.kind

    @property
    def kind(self) -> Kind:
        """What it gives."""
        return self._of if self.name in ("LAG", "MAX", "LAST_VALUE") else Kind.INT

    def over(self, rows: Sequence[tuple[Value, Row]]) -> list[Value]:
        """Its value on each row, in the order in which they came."""
        found: list[Value] = [None] * len(rows)
        parts: dict[Hashable, list[int]] = {}
        for i, (unit, row) in enumerate(rows):
            parts.setdefault((unit, *(e.at(row) for e in self.partition)), []).append(i)
        for places in parts.values():
            self._fill(found, [row for _, row in rows], places)
        return found

    def _fill(self, found: list[Value], rows: list[Row], places: list[int]) -> None:
        def peers(i: int, j: int) -> int:
            terms = ((e.at(rows[i]), e.at(rows[j]), descends) for e, descends in self.order)
            return next((c for x, y, descends in terms if (c := _compare(x, y, descends))), 0)

        def total(i: int, j: int) -> int:
            cells = zip(rows[i].values(), rows[j].values(), strict=True)
            return peers(i, j) or next((c for x, y in cells if (c := _compare(x, y, descends=False))), 0)

        ordered = sorted(places, key=cmp_to_key(total))
        for at, i in enumerate(ordered):
            match self.name:
                case "ROW_NUMBER":
                    found[i] = at + 1
                case "RANK":
                    found[i] = sum(peers(j, i) < 0 for j in ordered) + 1
                case "LAG":
                    assert self.argument is not None
                    found[i] = self.argument.at(rows[ordered[at - 1]]) if at else None
                case _ if self.frame is not None:
                    found[i] = self._framed([rows[j] for j in ordered], at)
                case _:
                    upto = [rows[j] for j in ordered if peers(j, i) <= 0]
                    found[i] = Aggregate(self.name, self.argument).over(upto)

    def _framed(self, rows: Sequence[Row], at: int) -> Value:
        assert self.frame is not None
        start, end = self.frame
        low = 0 if start is None else max(at + start, 0)
        high = len(rows) if end is None else max(at + end + 1, 0)
        inside = rows[low:high]
        if self.name != "LAST_VALUE":
            return Aggregate(self.name, self.argument).over(inside)
        assert self.argument is not None
        return self.argument.at(inside[-1]) if inside else None


def row_key(row: Row) -> tuple[tuple[str, type, Value], ...]:
    """The row as a value by which equal rows are found; TRUE is not 1."""
    return tuple((name, type(value), value) for name, value in row.items())


def _compare(x: Value, y: Value, descends: bool) -> int:
    """Below 0 where x comes first, 0 where they are equal; NULL is last either way."""
    if x == y:
        return 0
    if x is None or y is None:
        return 1 if x is None else -1
    return -1 if (_ordered([x, y])[0] == x) is not descends else 1


def _ordered(values: Sequence[Value]) -> list[Value]:
    """In ascending order; the values are of one kind and not NULL."""
    texts = [x for x in values if isinstance(x, str)]
    numbers = [x for x in values if x is not None and not isinstance(x, str)]
    return [*sorted(texts), *sorted(numbers)]


def _sum(values: Sequence[Value]) -> int | float:
    total: int | float = 0
    for x in _ordered(values):
        assert x is not None and not isinstance(x, str), "only numbers are added"
        total = total + x
    return total
