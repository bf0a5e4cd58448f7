"""The mechanisms on which auditors are compared, with the parameters and inputs of DP-Sniper's evaluation.

Bichsel, Steffen, Bogunovic, Vechev 2021, *DP-Sniper: Black-Box Discovery of Differential Privacy Violations using
Classifiers*, https://doi.org/10.1109/SP40001.2021.00081. Laws, parameters and neighbours are theirs (eth-sri/dp-sniper,
MIT); the code is not. Continuous noise is rounded to multiples of 2^-10 here, so that the laws are what is audited:
what floats leak is a case of its own.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.zoo.case import Case, Floats, exponential, laplace, on_grid, own
from discreet.audit.neighbours import Numbers, Vectors

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]

EPSILON = 0.1
ABORTED, BELOW = -2000.0, -1000.0


def laplace_mechanism(x: float, n: int) -> Floats:
    return on_grid(x) + laplace(1 / EPSILON, n)


def truncated_geometric(x: int, n: int) -> Integers:
    """Balcer, Vadhan 2017, with n = 5 and k = ⌈ln(2/ε)⌉: the logarithm should have been to the base 2."""
    top, k = 5, math.ceil(math.log(2 / EPSILON))
    d = (2 ** (k + 1) + 1) * (2**k + 1) ** (top - 1)
    below = [2 ** (k * (x - z)) * (2**k + 1) ** (top - (x - z)) for z in range(x)]
    above = [d - 2 ** (k * (z - x + 1)) * (2**k + 1) ** (top - 1 - (z - x)) for z in range(x, top)]
    return np.searchsorted(np.array([*below, *above, d]), own().integers(1, d + 1, n)).astype(np.int64)


def noisy_hist_1(x: Vector, n: int) -> Floats:
    return on_grid(x) + laplace(1 / EPSILON, (n, len(x)))


def noisy_hist_2(x: Vector, n: int) -> Floats:
    return on_grid(x) + laplace(EPSILON, (n, len(x)))


def noisy_max_1(x: Vector, n: int) -> Integers:
    return np.asarray(np.argmax(x + own().laplace(0.0, 2 / EPSILON, (n, len(x))), axis=1))


def noisy_max_2(x: Vector, n: int) -> Integers:
    return np.asarray(np.argmax(x + own().exponential(2 / EPSILON, (n, len(x))), axis=1))


def noisy_max_3(x: Vector, n: int) -> Floats:
    return np.asarray(np.max(on_grid(x) + laplace(2 / EPSILON, (n, len(x))), axis=1))


def noisy_max_4(x: Vector, n: int) -> Floats:
    return np.asarray(np.max(on_grid(x) + exponential(2 / EPSILON, (n, len(x))), axis=1))


def _stopped(above: NDArray[np.bool_], most: int) -> NDArray[np.bool_]:
    """Which answers come after the last one that may be above."""
    return np.asarray(np.cumsum(above, axis=1) - above >= most)


def _words(above: NDArray[np.bool_], most: int) -> Integers:
    """1 above, 0 below, -1 after the end."""
    return np.where(_stopped(above, most), -1, above.astype(np.int64))


def sparse_vector_1(x: Vector, n: int, c: int = 1, t: float = 0.5) -> Integers:
    half = EPSILON / 2
    rho = own().laplace(0.0, 1 / half, (n, 1))
    return _words(x + own().laplace(0.0, 2 * c / half, (n, len(x))) >= rho + t, c)


def sparse_vector_2(x: Vector, n: int, c: int = 1, t: float = 1.0) -> Integers:
    half, rng = EPSILON / 2, own()
    noisy = x + rng.laplace(0.0, 2 * c / half, (n, len(x)))
    rho = rng.laplace(0.0, c / half, n)
    above = np.empty(noisy.shape, dtype=bool)
    for i in range(len(x)):
        above[:, i] = noisy[:, i] >= rho + t
        again = np.flatnonzero(above[:, i])
        rho[again] = rng.laplace(0.0, c / half, len(again))
    return _words(above, c)


def sparse_vector_3(x: Vector, n: int, c: int = 1, t: float = 1.0) -> Floats:
    half = EPSILON / 2
    noisy = on_grid(x) + laplace(c / half, (n, len(x)))
    above = noisy >= laplace(1 / half, (n, 1)) + t
    return np.where(_stopped(above, c), ABORTED, np.where(above, noisy, BELOW))


def sparse_vector_4(x: Vector, n: int, c: int = 1, t: float = 1.0) -> Integers:
    quarter, rest = EPSILON / 4, EPSILON - EPSILON / 4
    rho = own().laplace(0.0, 1 / quarter, (n, 1))
    return _words(x + own().laplace(0.0, 1 / rest, (n, len(x))) >= rho + t, c)


def sparse_vector_5(x: Vector, n: int) -> Integers:
    return (x >= own().laplace(0.0, 2 / EPSILON, (n, 1)) + 1.0).astype(np.int64)


def sparse_vector_6(x: Vector, n: int) -> Integers:
    rho = own().laplace(0.0, 2 / EPSILON, (n, 1))
    return (x + own().laplace(0.0, 2 / EPSILON, (n, len(x))) >= rho + 1.0).astype(np.int64)


@cache
def bloom_bits(value: int, hashes: int = 4, size: int = 20) -> frozenset[int]:
    """The bits of a value: RAPPOR's Bloom filter."""
    return frozenset(_murmur3(str(value).encode(), seed) % size for seed in range(hashes))


def _filter(x: int) -> Floats:
    bits = np.zeros(20)
    bits[list(bloom_bits(int(x)))] = 1.0
    return bits


def rappor(x: int, n: int) -> Integers:
    """With f = 0.75, p = 0.45, q = 0.55; permanent and instantaneous responses in one coin for each bit."""
    one = 0.5 * 0.75 + 0.25 * _filter(x)
    return (own().random((n, 20)) < 0.45 + 0.1 * one).astype(np.int64)


def one_time_rappor(x: int, n: int) -> Integers:
    return (own().random((n, 20)) < 0.475 + 0.05 * _filter(x)).astype(np.int64)


def laplace_parallel(x: float, n: int) -> Floats:
    return on_grid(x) + laplace(1 / 0.005, (n, 20))


def svt34_parallel(x: Vector, n: int) -> Floats:
    return np.column_stack([sparse_vector_3(x, n, c=2), sparse_vector_4(x, n, c=2)])


def prefix_sum(x: Vector, n: int) -> Floats:
    return np.asarray(np.cumsum(noisy_hist_1(x, n), axis=1))


def numerical_svt(x: Vector, n: int, c: int = 2, t: float = 1.0) -> Floats:
    x, shape = on_grid(x), (n, len(x))
    above = x + laplace(6 * c / EPSILON, shape) >= laplace(3 / EPSILON, (n, 1)) + t
    answers = np.where(above, x + laplace(3 * c / EPSILON, shape), 0.0)
    return np.where(_stopped(above, c), -1000.0, answers)


def _murmur3(data: bytes, seed: int) -> int:
    """MurmurHash3, 32 bits, of fewer than four bytes, as a signed number. Appleby, public domain."""
    assert len(data) < 4, "only the tail of the hash is needed here"
    k = int.from_bytes(data, "little")
    k = k * 0xCC9E2D51 & 0xFFFFFFFF
    k = (k << 15 | k >> 17) & 0xFFFFFFFF
    h = seed ^ (k * 0x1B873593 & 0xFFFFFFFF)
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def rappor_epsilon(per_bit: float) -> float:
    """The largest loss of two values of the domain, each bit in which their filters differ costing the same."""
    values = range(-10, 11)
    return per_bit * max(len(bloom_bits(a) ^ bloom_bits(b)) for a in values for b in values)


_HIST = Vectors(5, change="one", low=0, high=10, integer=True)
_FIVE = Vectors(5, change="each", low=-10, high=10)
_TEN = Vectors(10, change="each", low=-10, high=10)
_ONE = Numbers(-10.0, 10.0, change=1.0)
_VALUES = Numbers(-10, 10, change=20, integer=True)
_PER_BIT = math.log(0.5125 / 0.4875)
_PER_BIT_ONCE = math.log(0.525 / 0.475)

_DING = "Ding, Wang, Wang, Zhang, Kifer 2018"
_LYU = "Lyu, Su, Li 2017"

STANDARD: tuple[Case, ...] = (
    Case("LaplaceMechanism", laplace_mechanism, _ONE, 0.1, 0.1, False, "Dwork, McSherry, Nissim, Smith 2006"),
    Case(
        "TruncatedGeometricMechanism",
        truncated_geometric,
        Numbers(0, 5, change=1, integer=True),
        0.1,
        math.log(9 / 8),
        True,
        "Balcer, Vadhan 2017, with a natural logarithm for a binary one",
    ),
    Case("NoisyHist1", noisy_hist_1, _HIST, 0.1, 0.1, False, f"{_DING}, Algorithm 9"),
    Case("NoisyHist2", noisy_hist_2, _HIST, 0.1, 10.0, True, f"{_DING}, Algorithm 10: scale ε for 1/ε"),
    Case("ReportNoisyMax1", noisy_max_1, _FIVE, 0.1, 0.1, False, f"{_DING}, Algorithm 5"),
    Case("ReportNoisyMax2", noisy_max_2, _FIVE, 0.1, 0.1, False, f"{_DING}, Algorithm 6"),
    Case("ReportNoisyMax3", noisy_max_3, _FIVE, 0.1, 0.25, True, f"{_DING}, Algorithm 7: the noisy maximum"),
    Case("ReportNoisyMax4", noisy_max_4, _FIVE, 0.1, math.inf, True, f"{_DING}, Algorithm 8: the noisy maximum"),
    Case("SparseVectorTechnique1", sparse_vector_1, _TEN, 0.1, 0.1, False, f"{_LYU}, Algorithm 1"),
    Case("SparseVectorTechnique2", sparse_vector_2, _TEN, 0.1, 0.1, False, f"{_LYU}, Algorithm 2"),
    Case("SparseVectorTechnique3", sparse_vector_3, _TEN, 0.1, None, True, f"{_LYU}, Algorithm 3 (Roth 2011)"),
    Case("SparseVectorTechnique4", sparse_vector_4, _TEN, 0.1, 0.175, True, f"{_LYU}, Algorithm 4 (Lee, Clifton 2014)"),
    Case("SparseVectorTechnique5", sparse_vector_5, _TEN, 0.1, math.inf, True, f"{_LYU}, Algorithm 5 (Stoddard+ 2014)"),
    Case("SparseVectorTechnique6", sparse_vector_6, _TEN, 0.1, None, True, f"{_LYU}, Algorithm 6 (Chen+ 2015)"),
    Case(
        "Rappor",
        rappor,
        _VALUES,
        8 * _PER_BIT,
        rappor_epsilon(_PER_BIT),
        False,
        "Erlingsson, Pihur, Korolova 2014, Theorem 2",
    ),
    Case(
        "OneTimeRappor",
        one_time_rappor,
        _VALUES,
        8 * _PER_BIT_ONCE,
        rappor_epsilon(_PER_BIT_ONCE),
        False,
        "Erlingsson, Pihur, Korolova 2014, Theorem 1",
    ),
    Case("LaplaceParallel", laplace_parallel, _ONE, 0.1, 0.1, False, "twenty answers of 0.005 each"),
    Case("SVT34Parallel", svt34_parallel, _TEN, 0.2, None, True, f"{_LYU}, Algorithms 3 and 4 side by side"),
    Case("PrefixSum", prefix_sum, _TEN, 1.0, 1.0, False, "Wang, Ding, Wang, Kifer, Zhang 2019; all counts move"),
    Case("NumericalSVT", numerical_svt, _TEN, 0.1, 0.1, False, "Wang, Ding, Wang, Kifer, Zhang 2019"),
)
