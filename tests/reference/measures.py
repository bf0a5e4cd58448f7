"""What is measured in a group: exact integers for one unit's rows, and the unbounded truth for everybody's.

Reals enter as integers on a lattice of step g = 2^j. Bounds are rounded inward to it; a value is rounded to
the nearest step (halves away from zero) and then clamped, so that the caps and the bounds are facts about the
integers that are summed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidParameter
from tests.reference.expression import Expression, Row
from tests.reference.values import Value, half_away, toward_zero


class Measure(ABC):
    """One aggregate of a question; one or more integer columns."""

    __slots__ = ()

    columns = 1
    """How many integer columns it is measured by."""

    @abstractmethod
    def cell(self, rows: Sequence[Row], max_rows: int) -> tuple[int, ...]:
        """What a unit that enters a group with these rows (one or more) adds to its columns there."""

    @abstractmethod
    def truth(self, blocks: Sequence[Sequence[Row]]) -> Fraction | None:
        """The unbounded answer in a group, from one block of rows for each unit; None where there is none."""

    def answer(self, cell: tuple[int, ...]) -> Fraction:
        """The answer that the columns of a group stand for."""
        return Fraction(cell[0])


@dataclass(frozen=True, slots=True)
class Count(Measure):
    """COUNT(*): rows, at most `max_rows` for each unit and group."""

    def cell(self, rows: Sequence[Row], max_rows: int) -> tuple[int, ...]:
        return (min(len(rows), max_rows),)

    def truth(self, blocks: Sequence[Sequence[Row]]) -> Fraction:
        return Fraction(sum(map(len, blocks)))


@dataclass(frozen=True, slots=True)
class CountOf(Measure):
    """COUNT(x): rows on which x is not NULL, at most `max_rows` for each unit and group."""

    expression: Expression

    def cell(self, rows: Sequence[Row], max_rows: int) -> tuple[int, ...]:
        return (min(len(_values(self.expression, rows)), max_rows),)

    def truth(self, blocks: Sequence[Sequence[Row]]) -> Fraction:
        return Fraction(sum(len(_values(self.expression, rows)) for rows in blocks))


@dataclass(frozen=True, slots=True)
class CountUnits(Measure):
    """COUNT(DISTINCT unit): 1 for each unit and group that it enters."""

    def cell(self, rows: Sequence[Row], max_rows: int) -> tuple[int, ...]:
        return (1,)

    def truth(self, blocks: Sequence[Sequence[Row]]) -> Fraction:
        return Fraction(len(blocks))


@dataclass(frozen=True, slots=True)
class CountUnitsWhere(Measure):
    """COUNT(DISTINCT unit) FILTER (WHERE c): 1 for each unit and group that it enters with a row on which c is true."""

    condition: Expression

    def cell(self, rows: Sequence[Row], max_rows: int) -> tuple[int, ...]:
        return (int(any(self.condition.at(r) is True for r in rows)),)

    def truth(self, blocks: Sequence[Sequence[Row]]) -> Fraction:
        return Fraction(sum(self.cell(rows, 1)[0] for rows in blocks))


@dataclass(frozen=True, slots=True)
class OnLattice(Measure):
    """What SUM and AVG share: a numeric expression with public bounds, on a grid of step 2^`grid_exponent`.

    Attributes:
        expression: what is summed.
        low: the least value, as declared.
        high: the greatest one.
        grid_exponent: j; None while it has not been decided (an engine decides it from public parameters).
    """

    expression: Expression
    low: Fraction
    high: Fraction
    grid_exponent: int | None = None

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidParameter(f"low must be at most high, not {self.low} > {self.high}.")
        if self.grid_exponent is not None and self.steps[0] > self.steps[1]:
            raise InvalidParameter(f"no step of the grid 2^{self.grid_exponent} lies in [{self.low}, {self.high}].")

    @property
    def grid(self) -> Fraction:
        """The step g."""
        if self.grid_exponent is None:
            raise InvalidParameter("grid_exponent has not been decided.", hint="use Question.on_lattice")
        return Fraction(2) ** self.grid_exponent

    @property
    def steps(self) -> tuple[int, int]:
        """The bounds in steps, rounded inward."""
        return math.ceil(self.low / self.grid), math.floor(self.high / self.grid)

    def clamped(self, rows: Sequence[Row]) -> list[int]:
        """The non-NULL values in steps: rounded, then clamped."""
        least, most = self.steps
        return [min(max(half_away(x / self.grid), least), most) for x in _numbers(self.expression, rows)]


@dataclass(frozen=True, slots=True)
class Sum(OnLattice):
    """SUM(x): for each unit and group, the clamped sum of the clamped values."""

    def cell(self, rows: Sequence[Row], max_rows: int) -> tuple[int, ...]:
        least, most = self.steps
        return (min(max(sum(self.clamped(rows)), max_rows * min(least, 0)), max_rows * max(most, 0)),)

    def truth(self, blocks: Sequence[Sequence[Row]]) -> Fraction:
        return sum((x for rows in blocks for x in _numbers(self.expression, rows)), Fraction(0))

    def answer(self, cell: tuple[int, ...]) -> Fraction:
        return cell[0] * self.grid


@dataclass(frozen=True, slots=True)
class Mean(OnLattice):
    """AVG(x): two columns, the sum of the centred values and their number.

    A unit with more than `max_rows` values in a group enters with `max_rows` values, each its own mean there;
    their sum is rounded toward zero.

    Attributes:
        centre: c, in steps; None for the middle of the bounds, rounded down to a step.
    """

    centre: int | None = None

    columns = 2

    @property
    def middle(self) -> int:
        """The middle c, in steps."""
        return sum(self.steps) // 2 if self.centre is None else self.centre

    def cell(self, rows: Sequence[Row], max_rows: int) -> tuple[int, ...]:
        centred = [step - self.middle for step in self.clamped(rows)]
        n, total = len(centred), sum(centred)
        return (total, n) if n <= max_rows else (toward_zero(Fraction(max_rows * total, n)), max_rows)

    def truth(self, blocks: Sequence[Sequence[Row]]) -> Fraction | None:
        values = [x for rows in blocks for x in _numbers(self.expression, rows)]
        return sum(values, Fraction(0)) / len(values) if values else None

    def answer(self, cell: tuple[int, ...]) -> Fraction:
        least, most = self.steps
        mean = self.middle + Fraction(cell[0], max(cell[1], 1))
        return min(max(mean, Fraction(least)), Fraction(most)) * self.grid


def _values(expression: Expression, rows: Sequence[Row]) -> list[Value]:
    return [x for x in map(expression.at, rows) if x is not None]


def _numbers(expression: Expression, rows: Sequence[Row]) -> list[Fraction]:
    values = _values(expression, rows)
    assert not any(isinstance(x, str) for x in values), "only numbers are summed"
    return [Fraction(x) for x in values if x is not None and not isinstance(x, str)]
