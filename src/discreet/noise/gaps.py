"""How far candidates lie below the best one: exactly on demand, and bounded from below for all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter

Utilities: TypeAlias = "NDArray[np.integer[Any]] | NDArray[np.floating[Any]] | Sequence[int | float | Fraction]"
"""One finite number for each candidate; a float is the exact binary fraction that it holds."""

STEP_BITS = 8
"""Gaps are rounded down to steps of 2^−STEP_BITS."""

LAST = 62 * 178
"""The last step; larger gaps stay there. exp(−LAST/2^8) < 2^−62, since 178 > 2^8·ln 2."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """The gaps xᵢ = rate·(max u − uᵢ) ≥ 0.

    Attributes:
        steps: integers in [0, LAST] with stepsᵢ/2^STEP_BITS ≤ xᵢ, proved; under two steps short below LAST.
        exact: xᵢ itself.
    """

    steps: NDArray[np.int64]
    exact: Callable[[int], Fraction]


def gaps_below_best(utilities: Utilities, rate: Fraction) -> Gaps:
    """Return the gaps of all candidates; empty, not finite or not numeric utilities are refused."""
    if rate <= 0:
        raise InvalidParameter("rate must be above 0.")
    rate = _exact(rate)
    u = as_array(utilities)
    if u.dtype.kind == "O":
        values = u.tolist()
        top = max(values)
        scaled = rate * (1 << STEP_BITS)
        p, q = scaled.numerator, scaled.denominator
        exact_steps = np.array([_floor_step(p, q, Fraction(top - v)) for v in values], dtype=np.int64)
        return Gaps(exact_steps, lambda i: rate * Fraction(top - values[i]))
    best = u.max()
    if u.dtype.kind == "f":
        with np.errstate(over="ignore"):  # beyond the largest float it becomes the largest float, which is less
            distance = np.minimum(best - u, np.finfo(np.float64).max)
        return Gaps(_steps_below(distance, rate), lambda i: _apart(best, u[i], rate))
    # modulo 2^64, and so exact: the difference of two 64-bit integers is in [0, 2^64)
    whole = best.astype(np.uint64) - u.astype(np.uint64)
    return Gaps(_steps_below(whole.astype(np.float64), rate), lambda i: rate * int(whole[i]))


def as_array(utilities: Utilities) -> NDArray[Any]:
    """Utilities in one dimension, not empty, finite: integers, float64, or exact numbers as objects."""
    if isinstance(utilities, np.ndarray):
        u: NDArray[Any] = utilities
    else:
        u = _from_sequence(list(utilities))
    if u.dtype.kind == "O":
        u = _from_sequence(u.ravel().tolist()).reshape(u.shape)
    if u.ndim != 1 or u.size == 0:
        raise InvalidParameter("utilities must be one-dimensional and have at least one candidate.")
    if u.dtype.kind == "f" and u.dtype.itemsize <= 8:
        u = u.astype(np.float64)
        if not np.isfinite(u).all():
            raise InvalidParameter("utilities must be finite.")
    elif u.dtype.kind not in "iuO":
        raise InvalidParameter(f"utilities must be integers, floats or fractions, not {u.dtype}.")
    return u


def _from_sequence(values: list[int | float | Fraction]) -> NDArray[Any]:
    if not all(isinstance(v, int | float | Fraction | np.integer | np.floating) for v in values):
        raise InvalidParameter("utilities must be integers, floats or fractions.")
    if all(isinstance(v, float) for v in values):
        return np.array(values, dtype=np.float64)
    if all(isinstance(v, int | np.integer) for v in values):
        whole = [int(v) for v in values]
        fits = all(-(1 << 63) <= v < 1 << 63 for v in whole)
        return np.array(whole, dtype=np.int64 if fits else object)
    if not all(np.isfinite(float(v)) for v in values if isinstance(v, float | np.floating)):
        raise InvalidParameter("utilities must be finite.")
    exact = np.empty(len(values), dtype=object)
    exact[:] = [_exact(v) for v in values]
    return exact


def _exact(value: int | float | Fraction) -> Fraction:
    """Return the number as a fraction of Python's integers: a fraction may hold numpy's, which wrap."""
    if isinstance(value, float | np.floating):
        return Fraction(float(value))
    return Fraction(int(value.numerator), int(value.denominator))


def _steps_below(distance: NDArray[np.float64], rate: Fraction) -> NDArray[np.int64]:
    """Integers 0 ≤ j ≤ 2^8·rate·d, for exact distances d of which `distance` has the nearest floats or less.

    The nearest float to d, and the rounded product, each exceed the exact value by a factor of at most
    1 + 2^-53; the rate is taken smaller by more than both.
    """
    mantissa, exponent = _float_below(rate)
    with np.errstate(over="ignore", under="ignore"):
        gap = np.ldexp(distance, min(max(exponent + STEP_BITS, -5000), 5000)) * mantissa
    return np.minimum(gap, LAST).astype(np.int64)


@lru_cache(maxsize=64)
def _float_below(rate: Fraction) -> tuple[float, int]:
    """(m, e) with m·2^e ≤ rate·(1 − 2^-50) and 1 ≤ m < 4, short of it by a factor of 1 − 2^-51 at most."""
    x = rate * (1 - Fraction(1, 1 << 50))
    e = x.numerator.bit_length() - x.denominator.bit_length() - 1
    p, q = (x.numerator, x.denominator << e) if e >= 0 else (x.numerator << -e, x.denominator)
    return ((p << 51) // q) / (1 << 51), e  # an integer below 2^53 and a power of two: exact


def _apart(best: np.float64, utility: np.float64, rate: Fraction) -> Fraction:
    """rate·(best − utility), exactly."""
    (a, b), (c, d) = float(best).as_integer_ratio(), float(utility).as_integer_ratio()
    return Fraction(rate.numerator * (a * d - c * b), rate.denominator * b * d)


def _floor_step(p: int, q: int, distance: Fraction) -> int:
    return min(p * distance.numerator // (q * distance.denominator), LAST)
