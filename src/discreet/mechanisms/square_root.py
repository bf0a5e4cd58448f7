"""Factors A = L·R of the matrix of prefix sums, as Toeplitz matrices of whole numbers: its square root, or bands."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.values import total

Draw: TypeAlias = Callable[[int], NDArray[Any]]
"""So many fresh draws of the noise, each for one measured integer."""

_BATCH = 512  # draws that a run takes at once
_WEIGHED = 1 << 14
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
    def sensitivity(self, participations: int, separation: int = 1) -> int:
        """Return the most by which ‖R x‖₂² can move when so many elements of x move by 1 each, or at least that.

        Args:
            participations: how many elements move; fewer where the stream is too short.
            separation: how many steps two of them are apart at least.

        Guarantee:
            Elements may be vectors, of which each moves by a length of at most 1: nothing in R is negative, so that
            equal vectors are the worst.

        References:
            Choquette-Choo et al. 2023, Section 2, https://arxiv.org/abs/2306.08153; docs/proofs/square-root.md,
            "Participations"; docs/proofs/binary-tree.md.
        """

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
    def begin(self, draw: Draw, width: int | None = None) -> Progress:
        """Return the same, one element at a time; with `width` each element is an int64 vector of so many numbers."""

    @abstractmethod
    def explained(self) -> str:
        """Return what is measured, in a sentence."""


class Progress(ABC):
    """The answers so far; it moves on only when an answer is complete.

    Attributes:
        state: numbers and arrays, in tuples, that the run goes on with. Private.
    """

    __slots__ = ("_draw", "_drawn", "_width", "state")

    def __init__(self, draw: Draw, width: int | None) -> None:
        self.state: tuple[Any, ...] = (0,)
        self._draw = draw
        self._drawn: list[int] = []
        self._width = width

    @property
    def taken(self) -> int:
        """How many elements have come."""
        return int(self.state[0])

    @abstractmethod
    def add(self, value: Any) -> Any:
        """Return the noisy prefix sum after this element, in floats.

        Args:
            value: an integer, or a vector of them, whose sums wrap at 64 bits, and their noise with them.
        """

    def _noise(self) -> Any:
        if self._width is not None:
            return self._draw(self._width)
        if not self._drawn:
            self._drawn = self._draw(_BATCH).tolist()
        return int(self._drawn.pop())


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


class Toeplitz(Factorization):
    """Lower-triangular Toeplitz R of whole numbers r₀ ≥ r₁ ≥ … ≥ 0, and L = A·R⁻¹.

    L is made from R as it is, so that the answers are unbiased.
    """

    __slots__ = ()

    def l1(self, contributions: int) -> int:
        # All entries are at least 0, and a column is a shorter piece of the one before it.
        return contributions * sum(map(int, self._right.tolist()))

    def sensitivity(self, participations: int, separation: int = 1) -> int:
        # The first columns of this distance together: they overlap most, and are the longest.
        found = self._right.astype(object)
        for start in range(separation, min(participations * separation, self.steps), separation):
            found[start:] += self._right[: self.steps - start]
        return sum(int(v) * int(v) for v in found)

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

    @abstractmethod
    def _made(self) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
        """R, L, and Σ L² up to each step."""

    @property
    def _right(self) -> NDArray[Any]:
        return self._made()[0]

    @property
    def _left(self) -> NDArray[np.float64]:
        return self._made()[1]

    @property
    def _left_squares(self) -> NDArray[np.float64]:
        return self._made()[2]


@dataclass(frozen=True, slots=True)
class SquareRoot(Toeplitz):
    """R_k = round(2^bits·f_k), f_k = (2k choose k)/4^k.

    f is the power series of 1/√(1 − q), whose square 1/(1 − q) is A. L is 2^−bits·f up to what rounding did.

    References:
        Fichtenberger, Henzinger, Upadhyay 2023, Theorem 1, https://arxiv.org/abs/2202.11205; Henzinger, Upadhyay,
        Upadhyay 2023, https://arxiv.org/abs/2211.05006; docs/proofs/square-root.md.
    """

    steps: int
    bits: int

    def begin(self, draw: Draw, width: int | None = None) -> Progress:
        assert width is None  # it remembers the whole stream
        return _Growing(self._right, self._left, draw)

    def explained(self) -> str:
        return (
            "Square root. The stream is convolved with round(2^m·f), f_k = (2k choose k)/4^k (the power series of "
            f"1/√(1 − q)), m = {self.bits}, in whole numbers; convolving once more with its inverse's prefix sums "
            "gives prefix sums."
        )

    def _made(self) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
        return _factors(self.steps, self.bits)


@dataclass(frozen=True, slots=True)
class Banded(Toeplitz):
    """R of few bands: each element is measured in as many steps, so that a run remembers no more than these.

    Attributes:
        column: r₀, r₁, …: whole numbers above 0, none larger than the one before it.

    References:
        Choquette-Choo et al. 2023, https://arxiv.org/abs/2306.08153; docs/proofs/square-root.md, "Bands".
    """

    steps: int
    column: tuple[int, ...]
    bits: int

    def __post_init__(self) -> None:
        falls = all(a >= b for a, b in itertools.pairwise((*self.column, 1)))
        if not falls or not 1 <= len(self.column) <= self.steps <= LONGEST:
            raise InvalidParameter("a band matrix has a column of whole numbers that do not rise, of at most steps.")

    @classmethod
    def best(cls, steps: int, bands: int, *, bits: int = 14) -> Banded:
        """Return the matrix of the least mean squared error among those of so many bands, where none overlap.

        The error is that of the first 16,384 steps, where there are more.

        References:
            Choquette-Choo et al. 2023, Section 4, https://arxiv.org/abs/2306.08153: ‖r‖²·Σ_t ‖L_t‖² is made least.
        """
        column = _best_column(min(steps, _WEIGHED), min(bands, steps, _WEIGHED))
        return cls(steps, tuple(max(1, round(r * 2.0**bits)) for r in column), bits)

    def begin(self, draw: Draw, width: int | None = None) -> Progress:
        return _Sliding(self.column, draw, width)

    def explained(self) -> str:
        return f"Bands. The stream is convolved with {len(self.column)} whole numbers in units of 2^-{self.bits}."

    def _made(self) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
        return _banded(self)


class _Sliding(Progress):
    """The last elements, one less than there are bands, and what was made of the noisy numbers."""

    __slots__ = ("_column",)

    def __init__(self, column: tuple[int, ...], draw: Draw, width: int | None) -> None:
        super().__init__(draw, width)
        self._column = column
        self.state = (0, 0.0, (), ())  # elements, the answer, elements and their estimates, the last first

    def add(self, value: Any) -> Any:
        seen, answer, kept, made = self.state
        kept = (value, *kept)[: len(self._column)]
        exact = sum(r * x for r, x in zip(self._column, kept, strict=False))
        noisy = np.float64(exact + self._noise())
        # From here on only noisy numbers.
        estimate = (noisy - sum(r * x for r, x in zip(self._column[1:], made, strict=False))) / self._column[0]
        keep = len(self._column) - 1
        self.state = (seen + 1, answer + estimate, kept[:keep], (estimate, *made)[:keep])
        return self.state[1]


class _Growing(Progress):
    """The stream so far, exact and measured."""

    __slots__ = ("_backwards", "_largest", "_left", "_measured", "_seen")

    def __init__(self, right: NDArray[np.int64], left: NDArray[np.float64], draw: Draw) -> None:
        super().__init__(draw, None)
        self._backwards = np.ascontiguousarray(right[::-1])
        self._left = np.ascontiguousarray(left[::-1])
        self._seen: NDArray[Any] = np.zeros(1024, dtype=np.int64)
        self._measured = np.zeros(1024)
        self._largest = 1

    def add(self, value: int) -> float:
        t = self.taken
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
        self.state = (t + 1,)  # last, so that an interrupted call leaves the run as it was
        return answer


@lru_cache(maxsize=4)
def _factors(steps: int, bits: int) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
    k = np.arange(1, steps, dtype=np.float64)
    f = np.concatenate(([1.0], np.cumprod((2 * k - 1) / (2 * k))))
    right: NDArray[Any]
    if bits <= 50:
        right = np.rint(f * 2.0**bits).astype(np.int64)
    else:
        right = np.array([int(v) << (bits - 50) for v in np.rint(f * 2.0**50).tolist()], dtype=object)
    return _finished(right, bits)


@lru_cache(maxsize=4)
def _banded(m: Banded) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
    right = np.zeros(m.steps, dtype=np.int64)
    right[: len(m.column)] = m.column
    return _finished(right, m.bits)


def _finished(right: NDArray[Any], bits: int) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
    """R, L, and Σ L² up to each step. Only R's integers bear on privacy, whatever they are."""
    assert (np.diff(right) <= 0).all()  # the proof of the sensitivity takes it from here
    left = np.cumsum(_inverse(right.astype(np.float64) * 2.0**-bits)) * 2.0**-bits
    for made in (right, left):
        made.setflags(write=False)
    return right, left, np.cumsum(left * left)


@lru_cache(maxsize=16)
def _best_column(steps: int, bands: int) -> NDArray[np.float64]:
    """Return the first column of least ‖r‖²·Σ_t ‖L_t‖² with 1 = r₀ ≥ r₁ ≥ … > 0, by the ratios of neighbours."""
    from scipy.optimize import minimize
    from scipy.signal import lfilter

    ones, weights = np.ones(steps), np.arange(steps, 0, -1) / steps  # L_k is in all answers from k on

    def error(ratios: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        column = np.cumprod(np.concatenate(([1.0], ratios)))
        left = lfilter([1.0], column, ones)
        turned = lfilter([1.0], column, left)  # −∂L_t/∂r_j is its entry t − j
        size, squares = float(column @ column), float(weights @ left**2)
        slopes = [-2 * float((weights * left)[j:] @ turned[: steps - j]) for j in range(bands)]
        slope = (2 * column / size + np.array(slopes) / squares) * column  # of the logarithm, by each log r_j
        return math.log(size * squares), np.cumsum(slope[::-1])[::-1][1:] / ratios

    k = np.arange(1, bands, dtype=np.float64)
    start = (2 * k - 1) / (2 * k)  # those of the square root
    found = (
        minimize(error, start, jac=True, method="L-BFGS-B", bounds=[(0.01, 1.0)] * (bands - 1)).x if bands > 1 else k
    )
    return np.asarray(np.cumprod(np.concatenate(([1.0], found))), dtype=np.float64)


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
