"""One index out of n, the better ones more likely, exactly as the law says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.noise import fixedpoint
from discreet.noise.bernoulli import scaled_exp_neg
from discreet.noise.entropy import Entropy, below, bits, words32

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


MOST = 1 << 32
"""The most candidates that are counted by copies."""

_FEW = 64  # candidates for which Python's integers are faster than arrays

_TABLE_BITS = 62  # precision of the table of weights; exp(−LAST/2^STEP_BITS) < 2^-62, so it ends at 1


def exponential(utilities: Utilities, rate: Fraction, rng: Entropy, *, copies: NDArray[np.int64] | None = None) -> int:
    """Return an index i with probability proportional to exp(rate·uᵢ): the exponential mechanism.

    The same law as the argmax of rate·uᵢ + Gumbel noise. Where index i stands for `copies[i]` candidates, 2^32 in all
    at most, its probability is so many times that.

    Guarantee:
        The law is exact. With xᵢ = rate·(max u − uᵢ), a candidate is proposed with an integer weight
        Wᵢ ≥ 2^B·exp(−xᵢ) and kept with probability 2^B·exp(−xᵢ)/Wᵢ, which big integers decide. Floats only
        choose Wᵢ, from a proved lower bound of xᵢ: they bear on the number of proposals (1.01 at most on
        average), never on the law. If neighbours move each utility by at most Δ, the index is
        (2·rate·Δ, 0)-private, and (rate·Δ, 0)-private if they all move in one direction. So rate is ε/2Δ.

    References:
        McSherry and Talwar 2007, Theorem 6 (https://doi.org/10.1109/FOCS.2007.41); docs/proofs/selection.md.
    """
    gaps = gaps_below_best(utilities, rate)
    candidates = gaps.steps.size if copies is None else _counted(copies, gaps.steps.size)
    precision = _TABLE_BITS - candidates.bit_length()  # the sum of all weights stays below 2^63
    weights = _weights(precision)[gaps.steps]
    ends = np.cumsum(weights if copies is None else weights * copies)
    while True:
        i = int(np.searchsorted(ends, below(int(ends[-1]), rng), side="right"))
        kept = scaled_exp_neg(
            gaps.exact(i), rng, drawn=bits(rng, 64), known=64, weight=int(weights[i]), shift=precision
        )
        if kept:
            return i


def permute_and_flip(utilities: Utilities, rate: Fraction, rng: Entropy) -> int:
    """Return the first index, in random order, whose coin of chance exp(rate·(uᵢ − max u)) shows True.

    The same law as the argmax of uᵢ + exponential noise of rate `rate`; never worse in expected utility
    than `exponential` at the same guarantee, and up to twice better.

    Guarantee:
        The law is exact. All coins are thrown at once, and a uniform one of those that show True is taken: the same
        law. The first 32 bits of each coin are compared with a proved upper bound of its chance, and big integers
        decide the coin of the candidate about to be taken. If neighbours move each utility by at most Δ, the index is
        (2·rate·Δ, 0)-private, and (rate·Δ, 0)-private if they all move in one direction. So rate is ε/2Δ.

    References:
        McKenna and Sheldon 2020, Algorithm 1 and Theorem 1 (https://arxiv.org/abs/2010.12603); Ding, Kifer et
        al. 2021 (https://arxiv.org/abs/2105.07260); docs/proofs/selection.md.
    """
    gaps = gaps_below_best(utilities, rate)
    coins = words32(rng, gaps.steps.size)
    possible = np.flatnonzero(coins <= _coin_bounds()[gaps.steps])
    while True:
        j = below(possible.size, rng)
        i = int(possible[j])
        if scaled_exp_neg(gaps.exact(i), rng, drawn=int(coins[i]), known=32):
            return i
        possible = np.delete(possible, j)


def noisy_max(utilities: NDArray[np.integer[Any]] | Sequence[int], scale: Fraction, rng: Entropy) -> int:
    """Return the argmax of uᵢ + Zᵢ, for integer uᵢ and independent discrete Laplace Zᵢ of `scale`; ties at random.

    Guarantee:
        The law is exact. If neighbours move each utility by at most the integer Δ, the index is
        (2Δ/scale, 0)-private, and (Δ/scale, 0)-private if they all move in one direction.

    References:
        Dwork and Roth 2014, Claim 3.9 (https://doi.org/10.1561/0400000042); docs/proofs/selection.md for the
        lattice and its ties.
    """
    from discreet.noise.laplace import sample_vector

    u = as_array(utilities)
    if u.dtype.kind == "f" or (u.dtype.kind == "O" and not all(isinstance(v, int) for v in u)):
        raise InvalidParameter(
            "utilities of noisy_max must be integers.", hint="round them to a public grid first (noise.lattice.Grid)"
        )
    noise = sample_vector(scale, u.size, rng)
    if u.size <= _FEW or u.dtype.kind == "O" or _could_overflow(u, noise):
        noisy = [a + b for a, b in zip(u.tolist(), noise.tolist(), strict=True)]
        most = max(noisy)
        tied = [i for i, value in enumerate(noisy) if value == most]
        return tied[below(len(tied), rng)]
    sums = u.astype(np.int64) + noise
    best = np.flatnonzero(sums == sums.max())
    return int(best[below(best.size, rng)])


def _counted(copies: NDArray[np.int64], size: int) -> int:
    """Return how many candidates there are."""
    whole = copies.size == size and copies.dtype == np.int64
    if not whole or not 1 <= int(copies.min()) <= int(copies.max()) <= MOST:
        raise InvalidParameter("copies must hold a whole number of at least 1 for each utility.")
    candidates = int(copies.sum())
    if size > MOST or candidates > MOST:
        raise InvalidParameter("there are more than 2^32 candidates.")
    return candidates


def _could_overflow(u: NDArray[Any], noise: NDArray[np.int64]) -> bool:
    most = max(abs(int(u.max())), abs(int(u.min()))) + max(abs(int(noise.max())), abs(int(noise.min())))
    return most >= 1 << 63


@lru_cache(maxsize=1)
def _table() -> NDArray[np.int64]:
    """T[j] ≥ 2^62·exp(−j/2^8), too large by less than 2; so 2^62·exp(−x) ≤ T[j] for all x ≥ j/2^8."""
    ratio = fixedpoint.exp_neg(Fraction(1, 1 << STEP_BITS), 128)[1]
    value = 1 << 128
    entries = []
    for _ in range(LAST + 1):
        entries.append(-(-value >> (128 - _TABLE_BITS)))
        value = -(-value * ratio >> 128)  # rounded up
    return np.array(entries, dtype=np.int64)


def _weights(precision: int) -> NDArray[np.int64]:
    """Return the table at a precision B ≤ 62, rounded up: W[j] ≥ 2^B·exp(−x) for all x ≥ j/2^8, and W[0] = 2^B."""
    return -(-_table() >> (_TABLE_BITS - precision))


@lru_cache(maxsize=1)
def _coin_bounds() -> NDArray[np.uint32]:
    """C[j]: a coin of chance exp(−x), x ≥ j/2^8, cannot show True when its first 32 bits exceed C[j]."""
    return (_weights(32) - 1).astype(np.uint32)
