"""Sums of independent noises: many draws of one law, and a weighed and rounded sum of several laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import Additive, Integers, as_objects
from discreet.noise.entropy import Entropy
from discreet.privacy.event import Composed
from discreet.privacy.unit import Sensitivity

_FINE = 32  # cells of one standard deviation of a single draw; its variance is overstated by less than 1e-4 by them
_REACH = 12  # standard deviations of the sum that are kept on either side
_ALONE = 60  # standard deviations of a single draw that are kept beside them


@dataclass(frozen=True, slots=True)
class SummedNoise(Additive):
    """The law of Z₁ + … + Zₙ for independent draws of `noise`.

    Guarantee:
        What one draw costs: the others are added afterwards, which is post-processing.
        The law is computed on a grid (each draw is moved to the nearest of its cells) to about three digits; it is for
        intervals, never for a guarantee.
    """

    noise: Additive
    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise InvalidParameter(f"n must be at least 1, not {self.n}.")

    def event(self, sensitivity: Sensitivity) -> Composed:
        return self.noise.event(sensitivity)

    def draw(self, size: int, rng: Entropy) -> Integers:
        drawn = [0] * size
        for _ in range(self.n):
            drawn = self.noise.add(drawn, rng)
        return as_objects(drawn)

    def tail(self, t: int) -> float:
        if t < 0:
            return 1.0
        # Of n draws whose sum is beyond t one at least is beyond t/n: loose, but it falls where the grid is too coarse.
        one = self.n * self.noise.tail(t // self.n)
        if one < 1e-13:
            return one
        below = self.cdf(np.array([float(t), -float(t) - 1.0]))
        return float(min(max(1.0 - below[0] + below[1], 0.0) + 1e-13, one, 1.0))

    def cdf(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        ends, below = _law(self.noise, self.n)
        return np.asarray(np.interp(np.floor(t) + 0.5, ends, below, left=0.0, right=1.0))

    @property
    def variance(self) -> float:
        return self.n * self.noise.variance


def summed_noises(noises: Sequence[Additive], parts: int) -> tuple[Additive, ...]:
    """Return the noise of each column in a row that adds up so many noisy rows."""
    return tuple(noises) if parts < 2 else tuple(SummedNoise(z, parts) for z in noises)


@lru_cache(maxsize=256)
def _law(noise: Additive, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the cells of the grid end, and P(S ≤ end); each holds an odd number of integers."""
    deviation = math.sqrt(noise.variance)
    step = max(int(deviation / _FINE), 1) | 1
    half = math.ceil((_REACH * math.sqrt(n) + _ALONE) * max(deviation, 1.0) / step)
    ends = (np.arange(-half, half + 2, dtype=np.float64) - 0.5) * step
    mass = np.maximum(np.diff(noise.cdf(ends)), 0.0)
    power = np.fft.rfft(np.fft.ifftshift(mass / mass.sum())) ** n
    summed = np.maximum(np.fft.fftshift(np.fft.irfft(power, len(mass))), 0.0)
    return ends[1:], np.minimum(np.cumsum(summed), 1.0)


Parts: TypeAlias = tuple[tuple[Fraction, Additive], ...]
"""Independent noises, each with the size of its weight, above 0."""

_CELLS = 512  # of one standard deviation of the sum
_SUM_REACH = 10  # standard deviations of the sum that are kept on either side
_SINGLE_REACH = 25  # standard deviations of the widest single draw that are kept beside them


@dataclass(frozen=True, slots=True)
class WeighedNoise(Additive):
    """The law of Σ aᵢ Zᵢ + e for independent Zᵢ and some |e| ≤ `rounding` that may depend on them.

    Guarantee:
        None of privacy: it describes what is computed from released numbers, and is for intervals. `tail` bounds
        P(|Σ aᵢ Zᵢ + e| > t) from above, whatever e is: each term is moved to a grid by at most half of its step, and t
        is shortened by what the moves and e can add up to. Mass beyond the grid counts as outside.
    """

    parts: Parts
    rounding: Fraction

    def __post_init__(self) -> None:
        if not self.parts or any(a <= 0 for a, _ in self.parts) or self.rounding < 0:
            raise InvalidParameter("weights must be above 0 and rounding at least 0.")

    def __hash__(self) -> int:  # many rows have one law, and are looked up by it
        return hash((len(self.parts), self.parts[0][0], self.rounding))

    def event(self, sensitivity: Sensitivity) -> Composed:
        raise TypeError("what is estimated from noisy numbers costs nothing; they do")

    def draw(self, size: int, rng: Entropy) -> Integers:
        drawn = [Fraction(0)] * size
        for a, noise in self.parts:
            drawn = [d + a * int(z) for d, z in zip(drawn, noise.draw(size, rng), strict=True)]
        return as_objects([round(d) for d in drawn])

    def tail(self, t: int) -> float:
        step, _, inside = _weighed_law(self)
        left = t - self.slack
        if left < 0:
            return 1.0
        if left >= (len(inside) - 1) * step:  # beyond the grid, by Chebyshev's inequality
            return min(self.variance / left**2, 1.0 - float(inside[-1]) + 1e-12)
        return float(min(max(1.0 - inside[int(left / step)], 0.0) + 1e-12, 1.0))

    def cdf(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Σ aᵢ Zᵢ ≤ t), without what `slack` allows for."""
        step, below, inside = _weighed_law(self)
        ends = (np.arange(-len(inside) + 1, len(inside), dtype=np.float64) + 0.5) * step
        return np.asarray(np.interp(t, ends, below, left=0.0, right=1.0))

    @property
    def slack(self) -> float:
        step, _, _ = _weighed_law(self)
        return float(self.rounding) + step * len(self.parts) / 2

    @property
    def variance(self) -> float:
        return math.fsum(float(a) ** 2 * z.variance for a, z in self.parts)


@lru_cache(maxsize=256)
def _weighed_law(noise: WeighedNoise) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return the step of the grid, P(S ≤ end) of each of its cells, and P(|S| ≤ k·step) for k = 0, 1, …"""
    deviation = math.sqrt(noise.variance)
    single = max(float(a) * math.sqrt(_single(z).variance) for a, z in noise.parts)
    step = max(deviation, 1e-9) / _CELLS
    half = math.ceil((_SUM_REACH * deviation + _SINGLE_REACH * single) / step) + 1
    size = 1 << (2 * half + 1).bit_length()
    edges = (np.arange(-half, half + 2, dtype=np.float64) - 0.5) * step
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for a, z in noise.parts:
        cells = np.zeros(size)
        cells[np.arange(-half, half + 1)] = np.maximum(np.diff(z.cdf(edges / float(a))), 0.0)
        spectrum *= np.fft.rfft(cells)
    mass = np.maximum(np.fft.irfft(spectrum, size), 0.0)
    mass = np.concatenate((mass[-half:], mass[: half + 1]))
    twice = mass[half + 1 :] + mass[:half][::-1]
    inside = np.minimum(mass[half] + np.concatenate(([0.0], np.cumsum(twice))), 1.0)
    return step, np.minimum(np.cumsum(mass), 1.0), inside


def _single(noise: Additive) -> Additive:
    return noise.noise if isinstance(noise, SummedNoise) else noise
