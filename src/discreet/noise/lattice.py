"""The public lattice: reals enter as integer multiples of a power of two chosen without the data."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter

_FINEST, _COARSEST = -1074, 1023  # a step must be a float64
_EXACT_BITS = 52  # integers up to 2^52 are exact in every database's double, with a bit to spare


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of 2^exponent.

    Rounding to a grid moves each coordinate by half a step at most, so it can move two neighbouring vectors
    further apart. `sensitivity`, `linf` and `l2_squared` say how far, in steps, for any reals.

    Guarantee:
        The grid follows from public parameters only, rounding is exact (half to even), and nothing wraps.
        The three norms bound every pair of real vectors; `sensitivity` and `linf` are the smallest bounds.

    References:
        Mironov 2012 (https://doi.org/10.1145/2382196.2382264), why noise on floats is not private;
        docs/proofs/lattice.md.

    >>> grid = Grid(-2)
    >>> grid.snap(0.6), grid.value(grid.snap(0.6))
    (2, Fraction(1, 2))
    """

    exponent: int

    def __post_init__(self) -> None:
        if isinstance(self.exponent, bool) or not isinstance(self.exponent, int):
            raise InvalidParameter("exponent must be an integer.")
        if not _FINEST <= self.exponent <= _COARSEST:
            raise InvalidParameter(f"exponent must lie in [{_FINEST}, {_COARSEST}], not {self.exponent}.")

    @classmethod
    def for_scale(cls, scale: Fraction, *, bits: int = 12, largest: Fraction | None = None) -> Grid:
        """Return the coarsest grid with step ≤ scale/2^bits; coarser if `largest` would be above 2^52 steps.

        Args:
            scale: the scale of the noise, a public number above 0.
            bits: how much finer than the noise the grid is.
            largest: a public bound of the magnitudes that must fit exactly in 52 bits.
        """
        if scale <= 0:
            raise InvalidParameter("scale must be above 0.")
        exponent = _floor_log2(scale) - bits
        if largest is not None and largest > 0:
            exponent = max(exponent, -_floor_log2(1 / largest) - _EXACT_BITS)  # the ceiling of log2
        return cls(min(exponent, _COARSEST))

    @property
    def step(self) -> Fraction:
        """The distance of neighbouring points."""
        return self.value(1)

    def snap(self, x: float | int | Fraction) -> int:
        """Return the nearest grid point, in steps; half-way to the even one. A float is taken at its exact value."""
        number = x.item() if isinstance(x, np.generic) else x  # numpy's integers would wrap inside a fraction
        if isinstance(number, float) and not math.isfinite(number):
            raise InvalidParameter("a value to be rounded to a grid must be finite.")
        return round(Fraction(number) / self.step)

    def snap_vector(self, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """`snap` of every element; refused, never wrapped, when one does not fit in 64 bits."""
        values = np.asarray(x, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            # Scaling by a power of two is exact, or ends where it does not matter: at 0 or at infinity.
            steps = np.rint(np.ldexp(values, -self.exponent))
        if not (np.abs(steps) < 2.0**63).all():  # NaN fails too
            raise InvalidParameter(
                "values to be rounded to a grid must be finite and below 2^63 steps.",
                hint="clamp them to public bounds first, or take a coarser grid",
            )
        return steps.astype(np.int64)

    def value(self, k: int) -> Fraction:
        """Return the grid point k steps from 0."""
        return Fraction(k << self.exponent) if self.exponent >= 0 else Fraction(k, 1 << -self.exponent)

    def to_float(self, k: int) -> float:
        """Return the float nearest to the grid point k steps from 0, for show; the largest float for what is beyond."""
        try:
            return float(self.value(k))
        except OverflowError:
            return sys.float_info.max if k > 0 else -sys.float_info.max

    def sensitivity(self, delta: Fraction, coordinates: int) -> int:
        """Return the l1 distance, in steps, of the roundings of vectors at l1 distance ≤ `delta` in ≤ `coordinates`.

        With m = ⌊delta/step⌋ it is m + k, and m + k − 1 in one case: delta/step is the integer m, and k > m
        or m − k is odd. (For one coordinate: ⌈delta/step⌉, but m + 1 for odd integers m, since half-way cases
        go to the even point: 1/2 and 3/2 become 0 and 2.)
        """
        d, k = self._in_steps(delta), _places(coordinates)
        m = math.floor(d)
        if d == 0 or k == 0:
            return 0
        return m + k - (d == m and (k > m or (m - k) % 2 == 1))

    def linf(self, delta: Fraction) -> int:
        """Return the distance, in steps, of the roundings of two reals at distance ≤ `delta`."""
        return self.sensitivity(delta, 1)

    def l2_squared(self, delta: Fraction, coordinates: int) -> int:
        """Return a bound of the squared l2 distance, in steps, of roundings of vectors at l2 distance ≤ `delta`.

        It is S + 2·min(S, ⌊√(k·S)⌋) + k, with S = ⌊(delta/step)²⌋ and k = `coordinates`.
        """
        d, k = self._in_steps(delta), _places(coordinates)
        if d == 0 or k == 0:
            return 0
        square = math.floor(d * d)
        return square + 2 * min(square, math.isqrt(k * square)) + k

    def _in_steps(self, delta: Fraction) -> Fraction:
        if delta < 0:
            raise InvalidParameter("delta must be at least 0.")
        return delta / self.step


def _places(coordinates: int) -> int:
    if coordinates < 0:
        raise InvalidParameter("coordinates must be at least 0.")
    return coordinates


def _floor_log2(x: Fraction) -> int:
    p, q = x.numerator, x.denominator
    e = p.bit_length() - q.bit_length()
    return e if (p >= q << e if e >= 0 else p << -e >= q) else e - 1
