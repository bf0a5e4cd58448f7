"""The laws of the noise from closed forms in mpmath, and scripted digits to drive a sampler with."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, repeat

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy import stats

ALARM = 1e-9
"""The chance that a right sampler is refused by one test (nominal; at least 100 expected draws a cell)."""

ZEROS, ONES, MIXED = bytes(1), b"\xff", bytes.fromhex("9e3779b97f4a7c15f39cc0605cedc834")


class Script:
    """Hands out `head`, then `pattern` over and over, and keeps what it handed out."""

    def __init__(self, head: bytes = b"", pattern: bytes = MIXED) -> None:
        self._source: Iterator[int] = chain(head, chain.from_iterable(repeat(pattern)))
        self.used = b""

    def bytes(self, n: int, /) -> bytes:
        drawn = bytes(next(self._source) for _ in range(n))
        self.used += drawn
        return drawn


class Seeded:
    """The same bytes in every run, from numpy's generator."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def bytes(self, n: int, /) -> bytes:
        return self._generator.bytes(n)


def word(u: int, size: int = 8) -> bytes:
    """The bytes that are read as the word u."""
    return u.to_bytes(size, "little")


def lengthened(u: int, bits: int, drawn: bytes) -> tuple[int, int]:
    """The digits u followed by the 64-bit words in `drawn`, and how many there are."""
    for start in range(0, len(drawn), 8):
        u = u << 64 | int.from_bytes(drawn[start : start + 8], "little")
        bits += 64
    return u, bits


def real(x: Fraction | int) -> mpmath.mpf:
    return mpmath.mpf(Fraction(x).numerator) / Fraction(x).denominator


def laplace_below(scale: Fraction, k: int) -> mpmath.mpf:
    """P(X ≤ k) for P(X = k) = (1−p)/(1+p) p^|k|."""
    with mpmath.workprec(200):
        p = mpmath.exp(-1 / real(scale))
        return 1 - p ** (k + 1) / (1 + p) if k >= 0 else p**-k / (1 + p)


def rounded_below(sigma: Fraction, k: int) -> mpmath.mpf:
    """P(round Z ≤ k) = Φ((k+½)/σ)."""
    return mpmath.erfc(-(real(k) + mpmath.mpf(1) / 2) / (real(sigma) * mpmath.sqrt(2))) / 2


def discrete_below(sigma_squared: Fraction, k: int) -> mpmath.mpf:
    """P(X ≤ k) for P(X = k) ∝ exp(−k²/2σ²); the total is a theta function, σ√(2π)·θ₃(exp(−2π²σ²))."""
    if sigma_squared > 400:  # k and σ large: Euler–Maclaurin; all its further terms are below exp(−2π²σ²) or σ^−5
        sigma = mpmath.sqrt(real(sigma_squared))
        y = real(k) + mpmath.mpf(1) / 2
        density = mpmath.npdf(y / sigma) / sigma
        return mpmath.ncdf(y / sigma) + density * y / (24 * sigma**2)
    q = mpmath.exp(-1 / (2 * real(sigma_squared)))
    total = mpmath.jtheta(3, 0, q)
    reach = 40 + 16 * int(mpmath.sqrt(real(sigma_squared)))
    return mpmath.fsum(q ** (i * i) for i in range(-reach, k + 1)) / total


def agrees(draws: NDArray[np.int64], edges: list[int], below: list[float]) -> bool:
    """Pearson's test of the counts between edges, `below[i]` being P(X ≤ edges[i]), at the rate ALARM."""
    return counts_agree(counted(draws, edges), below)


def counted(draws: NDArray[np.int64], edges: list[int]) -> NDArray[np.int64]:
    """How many draws lie at or below the first edge, between neighbouring edges, and above the last."""
    return np.diff(np.searchsorted(np.sort(draws), edges, side="right"), prepend=0, append=len(draws))


def counts_agree(counts: NDArray[np.int64], below: list[float]) -> bool:
    """Pearson's test of what `counted` returns, at the rate ALARM."""
    expected = counts.sum() * np.diff(below, prepend=0.0, append=1.0)
    merged: list[tuple[float, float]] = [(0.0, 0.0)]
    for c, e in zip(counts, expected, strict=True):
        seen, wanted = merged[-1]
        if wanted >= 100:
            merged.append((float(c), float(e)))
        else:
            merged[-1] = (seen + float(c), wanted + float(e))
    if merged[-1][1] < 100 and len(merged) > 1:
        seen, wanted = merged.pop()
        merged[-1] = (merged[-1][0] + seen, merged[-1][1] + wanted)
    assert len(merged) >= 2, "too few draws to say anything"
    statistic = sum((c - e) ** 2 / e for c, e in merged)
    return bool(stats.chi2.sf(statistic, len(merged) - 1) > ALARM)


def edges_of(width: Fraction) -> list[int]:
    """Places at which to cut a law of that width: every integer when it is narrow, 80 of them else."""
    if width <= 8:
        reach = 2 + 10 * int(width)
        return list(range(-reach, reach + 1))
    return [int(width * i / 10) for i in range(-50, 51)]
