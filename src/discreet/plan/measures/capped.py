"""Sums and counts under the query's own bounds on what a unit adds to a group, which lie within the owner's."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Never

from discreet.errors import InvalidParameter
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.measures.measure import Measure, Name, Part, Tally, Total, clamped
from discreet.query.expr import Expr


@dataclass(frozen=True, slots=True)
class CappedTotal(Measure):
    """SUM_WITHIN(x, low, high): the sum of the clamped values, clamped to [low, high] grid steps, which hold 0."""

    value: LatticeValue
    low: int
    high: int
    word: ClassVar[str] = "the sum of the clamped values, within the query's bounds"
    has_bounds: ClassVar[bool] = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return ((Tally.TOTAL, self.value),)

    def clipped(self, name: Name, max_rows: int) -> str:
        return clamped(name(self.parts[0]), self.span(max_rows))

    def summed(self, column: Name) -> str:
        return f"sum(least(greatest({column(self.parts[0])}, {self.low}), {self.high}))"

    def span(self, max_rows: int) -> tuple[int, int]:
        """Return the query's bounds.

        Raises:
            InvalidParameter: they reach beyond the owner's.
        """
        low, high = Total(self.value).span(max_rows)
        if self.low < low or self.high > high:
            refuse_wide()
        return self.low, self.high

    @property
    def of_one_row(self) -> int:
        return Total(self.value).of_one_row

    @property
    def identity(self) -> Any:
        return ["total within", self.value.identity, self.low, self.high]

    @property
    def step(self) -> Fraction:
        return self.value.step


@dataclass(frozen=True, slots=True)
class CappedCount(Measure):
    """COUNT_WITHIN(x, 0, high): min(rows where x is not NULL, high); all rows without an argument."""

    argument: Expr | None
    high: int
    word: ClassVar[str] = "the number of rows, within the query's bounds"
    has_bounds: ClassVar[bool] = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return ((Tally.ROWS, None),) if self.argument is None else ((Tally.KNOWN, self.argument),)

    def clipped(self, name: Name, max_rows: int) -> str:
        return f"least({name(self.parts[0])}, {self.span(max_rows)[1]})"

    def summed(self, column: Name) -> str:
        return "count(*)" if self.argument is None else f"count({column(self.parts[0])})"

    def span(self, max_rows: int) -> tuple[int, int]:
        """0 and the query's bound.

        Raises:
            InvalidParameter: it reaches beyond the owner's.
        """
        if self.high > max_rows:
            refuse_wide()
        return 0, self.high

    @property
    def of_one_row(self) -> int:
        return 1

    @property
    def identity(self) -> Any:
        return ["rows within", None if self.argument is None else self.argument.identity, self.high]


def refuse_wide() -> Never:
    """Refuses bounds that would let a unit add more than the owner does."""
    raise InvalidParameter(
        "the query's bounds on what a unit adds to a group reach beyond the owner's.",
        hint="a query may tighten the owner's policy (max_rows times the declared bounds), and never weaken it",
    )
