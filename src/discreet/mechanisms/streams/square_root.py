"""The square root of the matrix of prefix sums, A = L·R, as a Toeplitz matrix of whole numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.values import total

Draw: TypeAlias = Callable[[int], NDArray[Any]]
"""So many fresh draws of the noise, each for one measured integer."""

_BATCH = 512  # draws that a run takes at once
LONGEST = 1 << 20
"""A run remembers its whole stream, and each step takes time in proportion."""

LONGEST_PRODUCT = 1 << 21
"""So many numbers at most."""


class Factorization(ABC):
    """A matrix R of whole numbers that measures a stream, and the matrix L with L·R·x = the prefix sums of x.

    Both are lower triangular in time: what is measured up to a step, and the answer there, follow from the elements
    up to that step. Units of L are those of the values, for one unit of noise.

    Attributes:
        steps: the most elements of a stream.
        bits: what is measured of an element is in units of 2^−bits.
    """

    __slots__ = ()

    steps: int
    bits: int

    @abstractmethod
    def l1(self, contributions: int) -> int:
        """Return the most by which ‖R x‖₁ can move when so many elements of x move by 1 each."""

    @abstractmethod
    def l2_squared(self, contributions: int) -> int:
        """Return the most by which ‖R x‖₂² can move then."""

    @abstractmethod
    def squares(self, step: int) -> float:
        """Σ c² over the weights that the answer at this step (from 1) gives to the noise."""

    @abstractmethod
    def absolutes(self, step: int) -> float:
        """At least Σ |c| over them."""

    @abstractmethod
    def worst(self) -> int:
        """Return the step with the largest `squares`."""

    @abstractmethod
    def mean_squares(self) -> float:
        """Return the mean of `squares` over all steps."""

    @abstractmethod
    def release(self, values: NDArray[Any], draw: Draw) -> NDArray[np.float64]:
        """Return the noisy prefix sums of int64 or of Python integers."""

    @abstractmethod
    def begin(self, draw: Draw) -> Progress:
        """Return the same, one element at a time."""

    @abstractmethod
    def explained(self) -> str:
        """Return what is measured, in a sentence."""


class Progress(ABC):
    """The answers so far; it moves on only when an answer is complete."""

    __slots__ = ()

    @property
    @abstractmethod
    def taken(self) -> int:
        """How many elements have come."""

    @abstractmethod
    def add(self, value: int) -> float:
        """Return the noisy prefix sum after this element."""


def widened(values: NDArray[Any], shift: int, total: int) -> NDArray[Any]:
    """Return the values times 2^shift, in a type in which `total` times the largest of them does not wrap."""
    if values.dtype == np.int64:
        most = max(int(values.max()), -int(values.min()))
        if (most * total) << shift < 1 << 62:
            return values << shift if shift else values
    exact = np.empty(len(values), dtype=object)
    exact[:] = [int(v) << shift for v in values.tolist()]
    return exact


def floats(integers: NDArray[Any]) -> NDArray[np.float64]:
    """Return the nearest floats of released integers."""
    return integers.astype(np.float64)


@dataclass(frozen=True, slots=True)
class SquareRoot(Factorization):
    """Lower-triangular Toeplitz R with R_k = round(2^bits·f_k), f_k = (2k choose k)/4^k, and L = A·R⁻¹.

    f is the power series of 1/√(1 − q), whose square 1/(1 − q) is A. L is made from the rounded R, so that the
    answers are unbiased; it is 2^−bits·f up to what rounding did.

    References:
        Fichtenberger, Henzinger, Upadhyay 2023, Theorem 1, https://arxiv.org/abs/2202.11205; Henzinger, Upadhyay,
        Upadhyay 2023, https://arxiv.org/abs/2211.05006; docs/proofs/square-root.md.
    """

    steps: int
    bits: int

    def l1(self, contributions: int) -> int:
        # All entries are at least 0, and a column is a shorter piece of the one before it.
        return contributions * sum(map(int, self._right.tolist()))

    def l2_squared(self, contributions: int) -> int:
        # The first columns together: they overlap most, and are the longest (docs/proofs/square-root.md).
        added = np.cumsum(self._right.astype(object))
        added[contributions:] -= added[:-contributions].copy()
        return sum(int(v) * int(v) for v in added)

    def squares(self, step: int) -> float:
        return float(self._left_squares[step - 1])

    def absolutes(self, step: int) -> float:
        return math.sqrt(step * self.squares(step))

    def worst(self) -> int:
        return self.steps  # a later answer has all the weights of an earlier one

    def mean_squares(self) -> float:
        return float(self._left_squares.mean())

    def release(self, values: NDArray[Any], draw: Draw) -> NDArray[np.float64]:
        n = len(values)
        if not n:
            return np.empty(0)
        noisy = floats(total(convolved(self._right[:n], values), draw(n)))
        size = 1 << (2 * n - 1).bit_length()
        # From here on only noisy numbers.
        return np.asarray(np.fft.irfft(np.fft.rfft(self._left[:n], size) * np.fft.rfft(noisy, size), size)[:n])

    def begin(self, draw: Draw) -> Progress:
        return _Growing(self._right, self._left, draw)

    def explained(self) -> str:
        return (
            "Square root. The stream is convolved with round(2^m·f), f_k = (2k choose k)/4^k (the power series of "
            f"1/√(1 − q)), m = {self.bits}, in whole numbers; convolving once more with its inverse's prefix sums "
            "gives prefix sums."
        )

    @property
    def _right(self) -> NDArray[np.int64]:
        return _factors(self.steps, self.bits)[0]

    @property
    def _left(self) -> NDArray[np.float64]:
        return _factors(self.steps, self.bits)[1]

    @property
    def _left_squares(self) -> NDArray[np.float64]:
        return _factors(self.steps, self.bits)[2]


class _Growing(Progress):
    """The stream so far, exact and measured."""

    __slots__ = ("_backwards", "_draw", "_drawn", "_largest", "_left", "_measured", "_seen", "_steps")

    def __init__(self, right: NDArray[np.int64], left: NDArray[np.float64], draw: Draw) -> None:
        self._backwards = np.ascontiguousarray(right[::-1])
        self._left = np.ascontiguousarray(left[::-1])
        self._draw = draw
        self._drawn: list[int] = []
        self._seen: NDArray[Any] = np.zeros(1024, dtype=np.int64)
        self._measured = np.zeros(1024)
        self._largest = 1
        self._steps = 0

    @property
    def taken(self) -> int:
        return self._steps

    def add(self, value: int) -> float:
        t = self._steps
        if t == len(self._seen):
            self._seen = np.concatenate((self._seen, np.zeros_like(self._seen)))
            self._measured = np.concatenate((self._measured, np.zeros_like(self._measured)))
        self._largest = max(self._largest, abs(value))
        if self._seen.dtype == np.int64 and self._largest * int(self._backwards[-1]) * (t + 1) >= 1 << 62:
            self._seen, self._backwards = self._seen.astype(object), self._backwards.astype(object)
        self._seen[t] = value
        first = len(self._backwards) - 1 - t
        exact = int(np.dot(self._backwards[first:], self._seen[: t + 1]))
        self._measured[t] = float(exact + self._noise())
        answer = float(np.dot(self._left[first:], self._measured[: t + 1]))
        self._steps = t + 1  # last, so that an interrupted call leaves the run as it was
        return answer

    def _noise(self) -> int:
        if not self._drawn:
            self._drawn = self._draw(_BATCH).tolist()
        return int(self._drawn.pop())


@lru_cache(maxsize=4)
def _factors(steps: int, bits: int) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
    """R, L, and Σ L² up to each step. Only R's integers bear on privacy, whatever they are."""
    k = np.arange(1, steps, dtype=np.float64)
    f = np.concatenate(([1.0], np.cumprod((2 * k - 1) / (2 * k))))
    right: NDArray[Any]
    if bits <= 50:
        right = np.rint(f * 2.0**bits).astype(np.int64)
    else:
        right = np.array([int(v) << (bits - 50) for v in np.rint(f * 2.0**50).tolist()], dtype=object)
    assert (np.diff(right) <= 0).all()  # the proof of the sensitivity takes it from here
    left = np.cumsum(_inverse(right.astype(np.float64) * 2.0**-bits)) * 2.0**-bits
    for made in (right, left):
        made.setflags(write=False)
    return right, left, np.cumsum(left * left)


def _inverse(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """1/series as a power series, by Newton's iteration g ← g·(2 − series·g), which doubles its length."""
    found = np.array([1 / series[0]])
    while len(found) < len(series):
        n = min(2 * len(found), len(series))
        size = 1 << (3 * n).bit_length()
        g = np.fft.rfft(found, size)
        product = np.fft.irfft(np.fft.rfft(series[:n], size) * g, size)[:n]
        product = -product
        product[0] += 2
        found = np.fft.irfft(np.fft.rfft(product, size) * g, size)[:n]
    return found


def convolved(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return the first n numbers of the convolution of two vectors of n integers: int64, or Python integers beyond.

    Both are split into digits so small that every sum of products of digits is off by less than 1/8 after the
    transforms, and is rounded to the integer that it is.

    Guarantee:
        Exact, if a transform of 2^L numbers is off by at most 3L·(2 + √5)·2⁻⁵³ of a vector's length, which is the
        proven bound where the roots of unity are rounded correctly, and which the digits are sized for.

    References:
        Percival 2003, Theorem 5.1, https://doi.org/10.1090/S0025-5718-02-01419-9; docs/proofs/square-root.md.
    """
    n = len(a)
    assert n == len(b) and 1 <= n <= LONGEST_PRODUCT
    size = 1 << (2 * n - 1).bit_length()
    digit = _digit(n, largest(a).bit_length())
    lefts, rights = ([np.fft.rfft(part, size) for part in _digits(v, digit)] for v in (a, b))
    fits = largest(a) * largest(b) * n < 1 << 61
    found: NDArray[Any] = np.zeros(n, dtype=np.int64 if fits else object)
    for place in range(len(lefts) + len(rights) - 1):
        if fits and digit * place >= 64:  # sums wrap, and these are multiples of 2^64; only what is left fits
            break
        pairs = [lefts[i] * rights[place - i] for i in range(len(lefts)) if 0 <= place - i < len(rights)]
        sums = np.rint(np.fft.irfft(np.sum(pairs, axis=0), size)[:n]).astype(np.int64)
        found += sums.astype(found.dtype) << (digit * place)
    return found


def largest(values: NDArray[Any]) -> int:
    """Return the largest absolute value."""
    return max(int(values.max()), -int(values.min()))


def _digit(n: int, bits: int) -> int:
    """Bits of a digit, |d| ≤ 2^(bits−1), with sums of n products over all pairs of places below 2^41.

    There are no more pairs than the public vector, whose numbers have so many bits, has digits.
    """
    return max(d for d in range(2, 25) if ((bits + 1) // d + 1) * n << 2 * (d - 1) <= 1 << 41 or d == 2)


def _digits(values: NDArray[Any], bits: int) -> list[NDArray[np.float64]]:
    """Balanced digits of base 2^bits, the lowest first."""
    left = values.astype(object) if largest(values) >= 1 << 61 else values
    half, mask = 1 << (bits - 1), (1 << bits) - 1
    found = []
    while True:
        digits = ((left + half) & mask) - half
        found.append(digits.astype(np.float64))
        left = (left - digits) >> bits
        if not left.any():
            return found
