"""Sound mechanisms: most of them tight, which is where false alarms come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.zoo.case import Case, Floats, own
from discreet import Budget
from discreet.audit.neighbours import Datasets, Numbers, Vectors
from discreet.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, NoisyMax, PermuteAndFlip, Threshold
from discreet.mechanisms.numeric import Numeric
from discreet.noise.entropy import SystemEntropy

Integers = NDArray[np.int64]
Vector = NDArray[np.float64]

_ENTROPY = SystemEntropy()
_LAPLACE = Laplace(epsilon=1)
_GEOMETRIC = Geometric(epsilon=1)
_HALF = Geometric(epsilon=Fraction(1, 2))
_GAUSSIAN = Gaussian(epsilon=1, delta=Fraction(1, 100))
_DISCRETE_GAUSSIAN = DiscreteGaussian(epsilon=1, delta=Fraction(1, 100))
_NOISY_MAX, _FLIP = NoisyMax(epsilon=1), PermuteAndFlip(epsilon=1)
_THRESHOLD = Threshold(epsilon=1, delta=Fraction(1, 50))


def _floats(mechanism: Numeric, x: float, n: int) -> Floats:
    """The n releases of a float: its place on the public lattice, with the noise of the lattice."""
    fine = mechanism.lattice
    assert fine is not None
    step = float(fine.grid.step)
    return np.asarray((round(x / step) + fine.noise.draw(n, _ENTROPY)) * step, dtype=np.float64)


def exact_laplace(x: float, n: int) -> Floats:
    return _floats(_LAPLACE, x, n)


def exact_gaussian(x: float, n: int) -> Floats:
    return _floats(_GAUSSIAN, x, n)


def coarse_laplace(x: float, n: int) -> Floats:
    """Float noise of scale (1 + 2^-10)/ε, rounded to eighths and clamped: the low bits are gone."""
    noisy = np.clip(x, -20, 20) + own().laplace(0.0, 1.0 + 2.0**-10, n)
    return np.asarray(np.clip(np.rint(noisy * 8) / 8, -20, 20))


def geometric(x: int, n: int) -> Integers:
    return np.asarray(_GEOMETRIC.release(np.full(n, x)))


def discrete_gaussian(x: int, n: int) -> Integers:
    return np.asarray(_DISCRETE_GAUSSIAN.release(np.full(n, x)))


def two_halves(x: int, n: int) -> Integers:
    """Two answers, half of ε each."""
    return np.asarray(_HALF.release(np.full((n, 2), x)))


def randomized_response(x: bool, n: int) -> NDArray[np.bool_]:
    return np.asarray(x ^ (own().random(n) < 1 / (1 + math.e)))


def four_answers(x: int, n: int) -> Integers:
    """k-ary randomized response: the truth with e^ε/(e^ε + 3)."""
    rng = own()
    other = (x + rng.integers(1, 4, n)) % 4
    return np.where(rng.random(n) < math.e / (math.e + 3), x, other)


def unary_encoding(x: int, n: int) -> Integers:
    """Four bits, each flipped with the chance 1/(1 + e^(ε/2))."""
    flipped = own().random((n, 4)) < 1 / (1 + math.exp(0.5))
    return np.asarray(((np.arange(4) == x) ^ flipped).astype(np.int64))


def exponential_mechanism(x: Vector, n: int) -> Integers:
    weights = np.cumsum(np.exp((x - np.max(x)) / 2))
    return np.searchsorted(weights[:-1] / weights[-1], own().random(n)).astype(np.int64)


def exact_noisy_max(x: Integers) -> int:
    return _NOISY_MAX.release(range(len(x)), x, rng=_ENTROPY)


def permute_and_flip(x: Vector) -> int:
    return _FLIP.release(range(len(x)), x, rng=_ENTROPY)


def histogram(rows: Sequence[str], n: int) -> Integers:
    return np.asarray(_GEOMETRIC.release(np.tile([rows.count(k) for k in "abc"], (n, 1))))


def histogram_of_public_keys(rows: Sequence[str]) -> dict[str, int]:
    up, down = own().geometric(-math.expm1(-1.0), (2, 3)).tolist()
    return {key: rows.count(key) + a - b for key, a, b in zip("abc", up, down, strict=True)}


def keys_with_delta(rows: Sequence[str]) -> list[str]:
    """One group for each person, shown by the optimal threshold at δ = 1/50."""
    keys = sorted(set(rows))
    shown = _THRESHOLD.release([rows.count(key) for key in keys], rng=_ENTROPY) if keys else []
    return [key for key, is_shown in zip(keys, shown, strict=True) if is_shown]


def mean_of_two_counts(rows: Sequence[int], n: int) -> Floats:
    noisy = _HALF.release(np.tile([sum(rows), len(rows)], (n, 1)))
    return np.asarray(noisy[:, 0] / np.maximum(noisy[:, 1], 1))


def staircase(x: int, n: int) -> Integers:
    """Geng, Viswanath 2012, on whole numbers for sensitivity 4: steps of 2 and 2, then e^-ε of them."""
    rng = own()
    depth = rng.geometric(-math.expm1(-1.0), n) - 1
    # Mass of one step: 2 inner places of weight 1 and 2 outer ones of e^-ε; place 0 belongs to both signs.
    outer = rng.random(n) < math.exp(-1.0) / (1 + math.exp(-1.0))
    size = 4 * depth + np.where(outer, 2, 0) + rng.integers(0, 2, n)
    sign = np.where(rng.random(n) < 0.5, 1, -1)
    return np.asarray(4 * x + np.where(sign > 0, size, -size - 1))


def poisson_sample(rows: Sequence[int], n: int) -> Integers:
    """Each record with the chance 1/2, then 1-DP: ln(1 + (e − 1)/2)-DP."""
    return np.asarray(_GEOMETRIC.release(own().binomial(sum(rows), 0.5, n)))


def shuffled_responses(rows: Sequence[int], n: int) -> Integers:
    """Randomized responses, then a shuffle, claimed at the local ε."""
    noisy = np.asarray(rows, dtype=np.int64) ^ (own().random((n, len(rows))) < 1 / (1 + math.e))
    return own().permuted(noisy.astype(np.int64), axis=1)


def words_for_numbers(rows: Sequence[int]) -> str:
    rng, p = own(), -math.expm1(-1.0)
    noisy = len(rows) + int(rng.geometric(p) - rng.geometric(p))
    return f"about {noisy} people" if noisy > 0 else "nobody, or nearly so"


def clamped_count(rows: Sequence[int], n: int) -> Integers:
    """What is done after the noise costs nothing: clamping, and raising for what is negative would too."""
    return np.asarray(np.clip(_GEOMETRIC.release(np.full(n, len(rows))), 0, None))


def always_the_same(rows: Sequence[int]) -> str:
    return "no answer"


_WHOLE = Numbers(-10, 10, change=1, integer=True)
_UNIT = Numbers(-10.0, 10.0, change=1.0)
_BITS = Datasets((0, 1))
_WORDS = Datasets(("a", "b", "c"))
_FOUR = tuple((a, b) for a in range(4) for b in range(a))
_APPROXIMATE = Budget(epsilon=1, delta="0.01")

_SLOW = {"exact_noisy_max": 20_000, "permute_and_flip": 20_000, "keys_with_delta": 20_000}

SOUND: tuple[Case, ...] = tuple(
    Case(f.__name__.replace("_", " "), f, inputs, claimed, true, False, source, _SLOW.get(f.__name__))
    for f, inputs, claimed, true, source in (
        (exact_laplace, _UNIT, 1.0, 1.0, "discreet"),
        (exact_gaussian, _UNIT, _APPROXIMATE, 1.0, "discreet; Balle, Wang 2018"),
        (coarse_laplace, _UNIT, 1.0, None, "after Mironov 2012"),
        (geometric, _WHOLE, 1.0, 1.0, "discreet; Ghosh, Roughgarden, Sundararajan 2009"),
        (discrete_gaussian, _WHOLE, _APPROXIMATE, 1.0, "discreet; Canonne, Kamath, Steinke 2020"),
        (two_halves, _WHOLE, 1.0, 1.0, "composition"),
        (randomized_response, ((True, False),), 1.0, 1.0, "Warner 1965"),
        (four_answers, _FOUR, 1.0, 1.0, "Kairouz, Oh, Viswanath 2014"),
        (unary_encoding, _FOUR, 1.0, 1.0, "Wang, Blocki, Li, Jha 2017"),
        (exponential_mechanism, Vectors(4), 1.0, 1.0, "McSherry, Talwar 2007"),
        (exact_noisy_max, Vectors(4, integer=True), 1.0, 1.0, "discreet; Dwork, Roth, Theorem 3.13"),
        (permute_and_flip, Vectors(4), 1.0, 1.0, "discreet; McKenna, Sheldon 2020"),
        (histogram, _WORDS, 1.0, 1.0, "discreet"),
        (histogram_of_public_keys, _WORDS, 1.0, 1.0, "dictionaries"),
        (keys_with_delta, _WORDS, Budget(epsilon=1, delta="0.02"), 1.0, "discreet; Desfontaines+ 2022"),
        (mean_of_two_counts, _BITS, 1.0, 1.0, "sum and count"),
        (staircase, _WHOLE, 1.0, 1.0, "Geng, Viswanath 2012"),
        (poisson_sample, _BITS, math.log1p(math.expm1(1.0) / 2), math.log1p(math.expm1(1.0) / 2), "amplification"),
        (shuffled_responses, Datasets((0, 1), relation="replace"), 1.0, 1.0, "shuffling"),
        (words_for_numbers, _BITS, 1.0, 1.0, "strings"),
        (clamped_count, _BITS, 1.0, 1.0, "what is done afterwards"),
        (always_the_same, _BITS, 0.1, 0.0, "no information"),
    )
)
