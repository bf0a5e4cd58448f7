"""The integer columns that leave the database: what one unit adds to them, and how far it can move them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Never, TypeAlias

from discreet.errors import InvalidParameter
from discreet.plan.measures.lattice_value import WIDEST, LatticeValue
from discreet.query.expr import Expr


class Tally(Enum):
    """What is counted of the rows of one unit in one group, before any cap."""

    ROWS = "rows"
    KNOWN = "known"
    TOTAL = "total"


Part: TypeAlias = tuple[Tally, Expr | LatticeValue | None]
"""A tally of all rows (None), of the rows where an expression is not NULL, or of a lattice value."""

Name: TypeAlias = Callable[[Part], str]
"""The SQL name of a part."""


class Measure(ABC):
    """One noisy integer column of a measurement."""

    __slots__ = ()

    adds_up: ClassVar[bool] = False
    """Whether it is that of the groups together, added up."""
    is_of_units: ClassVar[bool] = False
    """Whether a unit counts once, however many rows it has."""
    is_apart: ClassVar[bool] = False
    """Whether a statement of its own counts it."""
    has_bounds: ClassVar[bool] = False
    """Whether the query bounds itself what one unit adds."""

    @property
    def clamped(self) -> list[LatticeValue]:
        """The values that are moved into their bounds."""
        return [v for _, v in self.parts if isinstance(v, LatticeValue)]

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The tallies from which a unit's contribution is computed."""

    @abstractmethod
    def clipped(self, name: Name, max_rows: int) -> str:
        """Return SQL for the contribution of one unit to one group: an integer within `span`, never NULL."""

    @abstractmethod
    def summed(self, column: Name) -> str:
        """Return SQL for the sum over rows each of which is a unit; `column` names the row-level column of a part."""

    @abstractmethod
    def span(self, max_rows: int) -> tuple[int, int]:
        """Return the least and the greatest contribution; 0 lies between."""

    @property
    def of_one_row(self) -> int:
        """The size of what one row adds at most: n rows of a group add a number of at most n times it."""
        low, high = self.span(1)
        return max(-low, high)

    @property
    @abstractmethod
    def identity(self) -> Any:
        """What makes two measures the same, as JSON."""

    @property
    def step(self) -> Fraction:
        """What one unit of the integer stands for."""
        return Fraction(1)

    @property
    @abstractmethod
    def word(self) -> str:
        """The measure in words, for explanations."""


@dataclass(frozen=True, slots=True)
class RowCount(Measure):
    """COUNT(*): min(rows, max_rows)."""

    word: ClassVar[str] = "the number of rows"
    adds_up: ClassVar[bool] = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return ((Tally.ROWS, None),)

    def clipped(self, name: Name, max_rows: int) -> str:
        return f"least({name((Tally.ROWS, None))}, {max_rows})"

    def summed(self, column: Name) -> str:
        return "count(*)"

    def span(self, max_rows: int) -> tuple[int, int]:
        return 0, max_rows

    @property
    def identity(self) -> Any:
        return ["rows"]


@dataclass(frozen=True, slots=True)
class UnitCount(Measure):
    """COUNT(DISTINCT unit): 1 for each group that the unit enters."""

    word: ClassVar[str] = "the number of units"
    is_of_units: ClassVar[bool] = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    def clipped(self, name: Name, max_rows: int) -> str:
        return "1"

    def summed(self, column: Name) -> str:
        return "count(*)"

    def span(self, max_rows: int) -> tuple[int, int]:
        return 0, 1

    @property
    def identity(self) -> Any:
        return ["units"]


@dataclass(frozen=True, slots=True)
class KnownCount(Measure):
    """COUNT(x): min(rows where x is not NULL, max_rows)."""

    argument: Expr
    word: ClassVar[str] = "the number of rows with a value"
    adds_up: ClassVar[bool] = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return ((Tally.KNOWN, self.argument),)

    def clipped(self, name: Name, max_rows: int) -> str:
        return f"least({name(self.parts[0])}, {max_rows})"

    def summed(self, column: Name) -> str:
        return f"count({column(self.parts[0])})"

    def span(self, max_rows: int) -> tuple[int, int]:
        return 0, max_rows

    @property
    def identity(self) -> Any:
        return ["known", self.argument.identity]


@dataclass(frozen=True, slots=True)
class KnownUnits(Measure):
    """COUNT(DISTINCT unit) of some rows: 1 for each group in which the unit has a row where x is not NULL."""

    argument: Expr
    word: ClassVar[str] = "the number of units with a value"
    is_of_units: ClassVar[bool] = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return ((Tally.KNOWN, self.argument),)

    def clipped(self, name: Name, max_rows: int) -> str:
        return f"least({name(self.parts[0])}, 1)"

    def summed(self, column: Name) -> str:
        return f"count({column(self.parts[0])})"

    def span(self, max_rows: int) -> tuple[int, int]:
        return 0, 1

    @property
    def identity(self) -> Any:
        return ["known units", self.argument.identity]


@dataclass(frozen=True, slots=True)
class Total(Measure):
    """SUM(x): the sum of the clamped values, clamped to max_rows times the bounds (0 included)."""

    value: LatticeValue
    word: ClassVar[str] = "the sum of the clamped values"
    adds_up: ClassVar[bool] = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return ((Tally.TOTAL, self.value),)

    def clipped(self, name: Name, max_rows: int) -> str:
        return clamped(name(self.parts[0]), self.span(max_rows))

    def summed(self, column: Name) -> str:
        return f"sum({column(self.parts[0])})"

    def span(self, max_rows: int) -> tuple[int, int]:
        return _within(min(self.value.low, 0) * max_rows), _within(max(self.value.high, 0) * max_rows)

    @property
    def identity(self) -> Any:
        return ["total", self.value.identity]

    @property
    def step(self) -> Fraction:
        return self.value.step


@dataclass(frozen=True, slots=True)
class CentredTotal(Measure):
    """The numerator of AVG(x): the sum of x − centre, or max_rows times the unit's own mean of it beyond
    max_rows rows. With `of_sum` it is there what SUM(x) is, less max_rows times the centre.
    """

    value: LatticeValue
    of_sum: bool = False
    word: ClassVar[str] = "the sum of the values, measured from the middle of their bounds"
    adds_up: ClassVar[bool] = True

    @property
    def centre(self) -> int:
        """The middle of the bounds, in grid steps, rounded down."""
        return (self.value.low + self.value.high) // 2

    @property
    def parts(self) -> tuple[Part, ...]:
        return ((Tally.TOTAL, self.value), (Tally.KNOWN, self.value.expr))

    def clipped(self, name: Name, max_rows: int) -> str:
        total, n = name(self.parts[0]), name(self.parts[1])
        s = f"(CAST({total} AS HUGEINT) - CAST({n} AS HUGEINT) * {self.centre})"
        # s·max_rows/n toward zero, with the division first, so that no product can leave 128 bits
        most = f"(({s} // {n}) * {max_rows} + (({s} % {n}) * {max_rows}) // {n})"
        if self.of_sum:
            most = f"{Total(self.value).clipped(name, max_rows)} - {self.centre * max_rows}"
        exact = f"CASE WHEN {n} <= {max_rows} THEN {s} ELSE {most} END"
        return clamped(exact, self.span(max_rows))

    def summed(self, column: Name) -> str:
        v = column(self.parts[0])
        return f"(CAST(coalesce(sum({v}), 0) AS HUGEINT) - CAST(count({v}) AS HUGEINT) * {self.centre})"

    def span(self, max_rows: int) -> tuple[int, int]:
        return _within((self.value.low - self.centre) * max_rows), _within((self.value.high - self.centre) * max_rows)

    @property
    def identity(self) -> Any:
        return ["centred", self.value.identity, *(["of sum"] if self.of_sum else [])]

    @property
    def step(self) -> Fraction:
        return self.value.step


@dataclass(frozen=True, slots=True)
class DistinctCount(Measure):
    """COUNT(DISTINCT x): a column that a statement of its own counts (`distinct_sql`), and no sum over units."""

    argument: Expr
    word: ClassVar[str] = "the number of different values"
    is_apart: ClassVar[bool] = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    def clipped(self, name: Name, max_rows: int) -> Never:
        raise TypeError("COUNT(DISTINCT x) is no sum of what single units add")

    def summed(self, column: Name) -> Never:
        raise TypeError("COUNT(DISTINCT x) is no sum of what single rows add")

    def span(self, max_rows: int) -> tuple[int, int]:
        """Return the least and the greatest number of values that are there because a unit is."""
        return 0, max_rows

    @property
    def identity(self) -> Any:
        return ["distinct", self.argument.identity]


@dataclass(frozen=True, slots=True)
class DistinctTotal(Measure):
    """SUM(DISTINCT x): the sum of the different clamped values, by a statement of its own."""

    value: LatticeValue
    word: ClassVar[str] = "the sum of the different values"
    is_apart: ClassVar[bool] = True

    @property
    def clamped(self) -> list[LatticeValue]:
        return [self.value]

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    def clipped(self, name: Name, max_rows: int) -> Never:
        raise TypeError("SUM(DISTINCT x) is no sum of what single units add")

    def summed(self, column: Name) -> Never:
        raise TypeError("SUM(DISTINCT x) is no sum of what single rows add")

    def span(self, max_rows: int) -> tuple[int, int]:
        """Return the least and the greatest sum of values that are there because a unit is."""
        return _within(min(self.value.low, 0) * max_rows), _within(max(self.value.high, 0) * max_rows)

    @property
    def identity(self) -> Any:
        return ["distinct total", self.value.identity]

    @property
    def step(self) -> Fraction:
        return self.value.step


def clamped(sql: str, span: tuple[int, int]) -> str:
    """Return SQL for a number moved into its span; NULL is 0."""
    low, high = span
    # coalesce comes first: greatest(NULL, low) would be low
    return f"CAST(least(greatest(coalesce({sql}, 0), {low}), {high}) AS BIGINT)"


def _within(x: int) -> int:
    if abs(x) > WIDEST:
        raise InvalidParameter(
            "max_rows times the declared bounds is beyond 2^62, too wide to be summed exactly.",
            hint="declare narrower bounds (dp.Range) or a smaller max_rows",
        )
    return x
