"""Numbers of a declared range, read to a public grid of 2^30 steps: what the means start from.

Everything up to here may use floats: it is a function of the value alone. All coins come after, and are thrown for
whole numbers of steps, so that the law of a report is exact whatever the floats were.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.domain import is_many
from discreet.noise.entropy import Entropy, words32
from discreet.privacy.exact import Real, exact
from discreet.privacy.guarantee import decimal

BITS = 30
STEPS = 1 << BITS
"""The steps of the grid between the two ends of a range."""

_NARROWEST = Fraction(1, 1 << 20)
_LARGEST = Fraction(10) ** 150


@dataclass(frozen=True, slots=True)
class Span:
    """The declared range [low, high] of the values of all devices."""

    low: Fraction
    high: Fraction

    @property
    def width(self) -> Fraction:
        """From the low end to the high end."""
        return self.high - self.low

    @property
    def bounds(self) -> tuple[float, float]:
        """Both ends as floats."""
        return float(self.low), float(self.high)

    def steps(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the nearest step of each value, from 0 at the low end to 2^30 at the high end.

        What lies outside is brought to the nearer end, and what is not a number to the middle: a device never refuses
        a value, since its refusal would be seen.
        """
        low, high = self.bounds
        known = np.where(np.isnan(values), low / 2 + high / 2, np.clip(values, low, high))
        return np.clip(np.rint((known - low) * (STEPS / (high - low))), 0, STEPS).astype(np.int64)

    def value(self, share: Fraction | float) -> float:
        """Return the number that lies at this share of the way from the low end to the high end."""
        return float(self.low + self.width * Fraction(share))


def read_span(low: Real, high: Real) -> Span:
    """Return a range whose ends are finite, in order, and not so close that floats could not tell what lies between."""
    a, b = exact("low", low), exact("high", high)
    if not a < b:
        raise InvalidParameter(f"low must be below high, not {decimal(a)} and {decimal(b)}.")
    far = max(abs(a), abs(b))
    if far > _LARGEST or 1 / (b - a) > _LARGEST or b - a < far * _NARROWEST:
        raise InvalidParameter(
            "high − low must be at least a millionth of both ends, and neither be beyond 1e150.",
            hint="take the values from a point near the range, in units that suit it",
        )
    return Span(a, b)


def read_numbers(x: object, dimension: int | None = None) -> tuple[NDArray[np.float64], bool]:
    """Return the values of the devices as floats, one row each, and whether there is only one device.

    Only their type and shape, which are the same for every value that a device may hold, are checked.
    """
    if isinstance(x, bool | np.bool_ | str | bytes):
        raise InvalidParameter(f"x must be a number or an array of numbers, not {type(x).__name__}.")
    if isinstance(x, np.ndarray) and type(x) is not np.ndarray:
        raise InvalidParameter(
            f"x must be a plain numpy array, not {type(x).__name__}.", hint="use np.array(x, subok=False)"
        )
    array = floats(x)
    values = 0 if dimension is None else 1
    if array.ndim and not values and not is_many(x):  # what counts as one value for a budget must be one here
        raise InvalidParameter(
            f"x must be a number, or a list or an array of numbers, not {type(x).__name__}.", hint="use list(x)"
        )
    if array.ndim not in (values, values + 1) or (values and array.shape[-1] != dimension):
        wanted = (
            "a number, or a one-dimensional array with one for each device"
            if dimension is None
            else f"{dimension} numbers, or an array with a row of {dimension} for each device"
        )
        raise InvalidParameter(f"x must be {wanted}, not an array of shape {array.shape}.")
    alone = array.ndim == values
    return np.ascontiguousarray(array[None] if alone else array), alone


def rounded_at_random(steps: NDArray[np.int64], bits: int, rng: Entropy) -> NDArray[np.int64]:
    """Return steps of 2^30 brought to a grid of 2^bits steps, up or down so that the expectation stays, exactly."""
    if bits == BITS:
        return steps
    drawn = (words32(rng, steps.size) >> np.uint32(2 + bits)).astype(np.int64)
    return (steps + drawn.reshape(steps.shape)) >> (BITS - bits)


def floats(x: object) -> NDArray[np.float64]:
    """Numbers as floats, of any shape; none is refused, whatever its size."""
    hint = "give a float, a list of floats or a numpy array of floats or integers"
    try:
        array: NDArray[Any] = np.asarray(x)
    except ValueError:  # rows of different lengths
        raise InvalidParameter("x must hold rows of one length.", hint=hint) from None
    if array.dtype.kind == "O":
        try:
            listed = [_float(v) for v in array.reshape(-1).tolist()]
        except (TypeError, ValueError):
            raise InvalidParameter("x must hold numbers only.", hint=hint) from None
        array = np.array(listed, dtype=np.float64).reshape(array.shape)
    if array.dtype.kind not in "iuf":
        raise InvalidParameter(f"x must hold integers or floats, not {array.dtype}.", hint=hint)
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def _float(value: Any) -> float:
    """Return a number as a float; one that is too large as an infinity, and what is missing as not a number."""
    if isinstance(value, str | bytes):
        raise TypeError
    try:
        return math.nan if value is None or type(value).__name__ == "NAType" else float(value)  # pandas' NA
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return math.nan
