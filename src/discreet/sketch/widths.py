"""How far the noise moves a score: from its own bucket, and from the others by way of the number of rows."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.additive import Additive
from discreet.mechanisms.parameters import read_confidence
from discreet.mechanisms.summed import SummedNoise

_NORMAL = (
    1e4  # the variance of a sum of more than some draws from which its law is the normal one to four digits
)
_FINE = 32  # cells of one standard deviation of what comes from the other buckets
_DOUBT = Fraction(1, 10**9)  # with less of it the two parts share it


@lru_cache(maxsize=64)
def noise_width(noise: Additive, repetitions: int, buckets: int, confidence: Fraction) -> float:
    """A half-width that the noise of a score stays within, with this confidence; to about three digits.

    Of L repetitions and W buckets a score has Σ Z over its own L buckets less the mean of all, over 1 − 1/W and L: that
    is (A − B/(W − 1))/L, with A the sum of L draws and B the sum of L(W − 1) others. B is put into cells.
    """
    c = read_confidence(confidence)
    own, others = SummedNoise(noise, repetitions), SummedNoise(noise, repetitions * (buckets - 1))
    share = buckets - 1
    if 1 - c < _DOUBT:
        half = (1 + c) / 2
        return (own.quantile(half) + _beyond(others, half) / share) / repetitions
    places, mass = _cells(others)

    def inside(t: float) -> float:
        ends = np.concatenate([places / share + t, np.ceil(places / share - t) - 1])
        below = own.cdf(ends)
        return float(mass @ (below[: len(places)] - below[len(places) :]))

    low, high = 0.0, 1.0 / share
    if inside(low) >= c:
        return 0.0
    while inside(high) < c:
        low, high = high, 2 * high
    while high - low > 1e-5 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if inside(middle) >= c else (middle, high)
    return high * (1 + 1e-9) / repetitions  # a hair above the place of a jump, which a float may miss


def _cells(others: SummedNoise) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The middles of cells that hold an odd number of integers each, and their probabilities."""
    deviation = math.sqrt(others.noise.variance)
    step = max(int(deviation * math.sqrt(others.n) / _FINE), 1) | 1
    half = math.ceil((12 * math.sqrt(others.n) + 60) * max(deviation, 1.0) / step)
    middles = np.arange(-half, half + 1, dtype=np.float64) * step
    ends = np.append(middles, middles[-1] + step) - step / 2
    return middles, np.diff(_below(others, ends))


def _below(others: SummedNoise, ends: NDArray[np.float64]) -> NDArray[np.float64]:
    if others.n == 1:
        return others.noise.cdf(ends)
    if others.variance < _NORMAL or others.n < _NORMAL:
        return others.cdf(ends)
    from scipy.special import ndtr

    return np.asarray(ndtr(ends / math.sqrt(others.variance)))


def _beyond(others: SummedNoise, confidence: Fraction) -> float:
    """A quantile of |B|."""
    if others.variance < _NORMAL or others.n < _NORMAL:
        return others.quantile(confidence)
    from scipy.special import ndtri

    return float(-ndtri(float((1 - confidence) / 2))) * math.sqrt(others.variance) * 1.01
