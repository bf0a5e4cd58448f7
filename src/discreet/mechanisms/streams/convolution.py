"""Convolutions of integers by floating-point Fourier transforms, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LONGEST = 1 << 21
"""So many numbers at most."""


def convolved(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """The first n numbers of the convolution of two vectors of n integers: int64, or Python integers beyond.

    Both are split into digits so small that every sum of products of digits is off by less than 1/8 after the
    transforms, and is rounded to the integer that it is.

    Guarantee:
        Exact, if a transform of 2^L numbers is off by at most 3L·(2 + √5)·2⁻⁵³ of a vector's length, which is the
        proven bound where the roots of unity are rounded correctly, and which the digits are sized for.

    References:
        Percival 2003, Theorem 5.1, https://doi.org/10.1090/S0025-5718-02-01419-9; docs/proofs/square-root.md.
    """
    n = len(a)
    assert n == len(b) and 1 <= n <= LONGEST
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
    """The largest absolute value."""
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
