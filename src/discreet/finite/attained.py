"""A largest number together with the two databases where it is reached."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from discreet.finite.histograms import Database
from discreet.privacy.guarantee import decimal

_LONG = 4096  # bits; far longer integers are refused as text by Python itself


class Attained(Fraction):
    """The largest change of a function, with the neighbours that attain it: a fraction, and to be used as one.

    Attributes:
        pair: the two neighbours between which the change is that large; None where there are no two neighbours.
        exact: whether the number is the change itself. Else it is at least that, and rounding is all that
            it exceeds it by: roots and exponentials are rounded up, and floats that f gave are taken as they are.
        squared: the square of the change; for the norm 2 of exact numbers it is a fraction where the change is none.
        centre: for a smooth sensitivity, the database that it is of; else None.
    """

    __slots__ = ("centre", "exact", "pair", "squared")

    pair: tuple[Database, Database] | None
    exact: bool
    squared: Fraction
    centre: Database | None

    def __new__(
        cls,
        value: Fraction,
        pair: tuple[Database, Database] | None,
        *,
        exact: bool = True,
        squared: Fraction | None = None,
        centre: Database | None = None,
    ) -> Attained:
        """The number, and where it is attained."""
        self = super().__new__(cls, value.numerator, value.denominator)
        self.pair = pair
        self.exact = exact
        self.squared = value * value if squared is None else squared
        self.centre = centre
        return self

    def __reduce__(self) -> tuple[Callable[..., Attained], tuple[object, ...]]:
        return _made, (Fraction(self), self.pair, self.exact, self.squared, self.centre)

    def __copy__(self) -> Attained:
        return self

    def __deepcopy__(self, memo: object) -> Attained:
        return self

    def __str__(self) -> str:
        where = "no two neighbours" if self.pair is None else f"{self.pair[0]} and {self.pair[1]}"
        long = self.denominator == 1 or self.numerator.bit_length() + self.denominator.bit_length() > _LONG
        number = (decimal(self) if long else super().__str__()) if self.exact else f"{float(self):.6g}"
        return f"{number}, between {where}"

    def __repr__(self) -> str:
        return f"<{self}>"


def _made(
    value: Fraction,
    pair: tuple[Database, Database] | None,
    exact: bool,
    squared: Fraction,
    centre: Database | None,
) -> Attained:
    return Attained(value, pair, exact=exact, squared=squared, centre=centre)
