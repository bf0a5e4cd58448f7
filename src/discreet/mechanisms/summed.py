"""The sum of many independent draws of one law: the noise of a total that is added up from noisy parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

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
