"""A declared range of values and its public grid: how private numbers become whole places between two ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.values import plain
from discreet.noise.lattice import Grid
from discreet.privacy.exact import Real, exact
from discreet.privacy.guarantee import decimal

Values: TypeAlias = "NDArray[Any] | Sequence[int | float | Fraction]"
"""One number for each unit. Their type is public, their values are not."""

_LARGEST = Fraction(10**24)
_PLACES = 60  # bits of a place counted from 0, so that sums of two fit in 64


@dataclass(frozen=True, slots=True)
class Declared:
    """The range [lower, upper], and the multiples of a power of two inside it, numbered from 0 to `span`.

    Guarantee:
        Range and grid follow from public parameters alone. `places` treats each value by itself and never refuses one:
        what lies outside is moved to the nearer end, NaN counts as `lower`.
    """

    lower: Fraction
    upper: Fraction
    grid: Grid
    first: int
    span: int

    @classmethod
    def of(cls, lower: Real, upper: Real, *, bits: int) -> Declared:
        """Return the grid with 2^`bits` steps or up to twice as many; fewer where the ends are near for their size."""
        low, high = exact("lower", lower), exact("upper", upper)
        if not low < high:
            raise InvalidParameter(
                f"lower must be below upper, not {decimal(low)} and {decimal(high)}.",
                hint="declare the range that values may have, from what is publicly known",
            )
        far, width = max(abs(low), abs(high)), high - low
        if far > _LARGEST or width < 1 / _LARGEST:
            raise InvalidParameter(
                "lower and upper must lie within ±1e24, at least 1e-24 apart.", hint="use other units"
            )
        fine = max(Grid.for_scale(width, bits=bits).exponent, Grid.for_scale(far, bits=_PLACES).exponent)
        grid = Grid(fine)
        first, last = -(-low // grid.step), high // grid.step
        if last - first < 2:
            raise InvalidParameter(
                "the range is too narrow for numbers so far from 0: a float64 could not tell them apart.",
                hint="subtract a public number from all values first",
            )
        return cls(low, high, grid, int(first), int(last - first))

    def places(self, values: Values) -> NDArray[np.int64]:
        """Return the place of each value.

        Raises:
            InvalidParameter: not a list of numbers, or an array of another type or shape; the message quotes no value.
        """
        reals = numbers(values)
        last = self.first + self.span
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            steps = np.rint(np.ldexp(reals, -self.grid.exponent))
        steps = np.where(np.isnan(steps), float(self.first), steps)
        whole = np.clip(steps, -(2.0**62), 2.0**62).astype(np.int64)  # both ends lie within
        return np.asarray(np.clip(whole, self.first, last) - self.first, dtype=np.int64)

    def value(self, place: int) -> float:
        """Return the number at a place."""
        return self.grid.to_float(self.first + int(place))

    @property
    def width(self) -> Fraction:
        """The length of the range."""
        return self.upper - self.lower

    def in_steps(self, length: Fraction) -> Fraction:
        """Return a length in steps of the grid."""
        return length / self.grid.step


def numbers(values: object) -> NDArray[np.float64]:
    """Values as float64 in one dimension, not necessarily finite.

    Raises:
        InvalidParameter: truth values, texts, masked arrays, another shape. What decides is the type, which is public.
    """
    values = plain(values)
    if isinstance(values, np.ndarray):
        if type(values) is not np.ndarray:
            raise InvalidParameter(
                f"values must be a plain numpy array, not {type(values).__name__}.",
                hint="decide what a masked entry counts as, then use np.array(values, subok=False)",
            )
        if values.ndim != 1 or values.dtype.kind not in "iuf" or values.dtype.itemsize > 8:
            raise InvalidParameter(
                "values must be a one-dimensional array of integers or floats of at most 64 bits, not "
                f"{values.dtype} in {values.ndim} dimensions."
            )
        with np.errstate(all="ignore"):  # a signalling NaN of 32 bits would warn
            return values.astype(np.float64)
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InvalidParameter(
            f"values must be a list or an array of numbers, not {type(values).__name__}.", hint="[1, 2, 3]"
        )
    if not all(isinstance(v, _NUMBERS) and not isinstance(v, bool | np.bool_) for v in values):
        raise InvalidParameter("values must be integers, floats or fractions.")
    return np.array([_nearest(v) for v in values], dtype=np.float64)


_NUMBERS = (int, float, Fraction, Decimal, np.integer, np.floating)


def _nearest(x: Any) -> float:
    try:
        return float(x)
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")
    except ValueError:  # a signalling NaN of decimal
        return float("nan")
