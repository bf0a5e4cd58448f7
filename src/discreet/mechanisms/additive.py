"""Noise that is added to integers: its cost, its exact addition, and how large it is.

The planner of queries and the numeric mechanisms share these laws. A law says what it costs before the data is touched
(`event`), adds without ever wrapping (`add`), and bounds itself from public facts alone (`tail`, `quantile`).
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.parameters import read_confidence
from discreet.noise import gaussian, laplace
from discreet.noise.entropy import Entropy
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    ZCDPEvent,
)
from discreet.privacy.exact import Real, first_whole
from discreet.privacy.unit import Sensitivity

Integers: TypeAlias = NDArray[Any]
"""An array of int64, or of Python integers where 64 bits may not hold them."""


class Additive(ABC):
    """A symmetric law on the integers, added to each number of a vector independently."""

    __slots__ = ()

    @abstractmethod
    def event(self, sensitivity: Sensitivity) -> Composed:
        """Return what it costs to add this noise to every number of a vector that moves by at most `sensitivity`."""

    @abstractmethod
    def draw(self, size: int, rng: Entropy) -> Integers:
        """`size` independent draws."""

    @abstractmethod
    def tail(self, t: int) -> float:
        """Return an upper bound on P(|Z| > t), tight to ten digits."""

    @abstractmethod
    def cdf(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Z ≤ t) at each t, to ten digits: for convolutions in intervals, never for a guarantee."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of Z."""

    @property
    def slack(self) -> float:
        """By how much a number may be off beside Z; `tail` and `quantile` allow for it, `cdf` does not."""
        return 0.0

    def add(self, values: Sequence[int], rng: Entropy) -> list[int]:
        """Each value plus its own noise, in integers that never wrap."""
        noise = self.draw(len(values), rng).tolist()
        return [operator.index(v) + z for v, z in zip(values, noise, strict=True)]

    def quantile(self, confidence: Real) -> int:
        """Return the least t with P(|Z| ≤ t) ≥ `confidence`, judged by the upper bound `tail`."""
        alpha = math.nextafter(float(1 - read_confidence(confidence)), 0.0)  # at most
        if self.tail(0) <= alpha:
            return 0
        return first_whole(lambda t: self.tail(t) <= alpha)


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceNoise(Additive):
    """The discrete Laplace law: P(Z = k) ∝ exp(−|k|/scale).

    Guarantee:
        On a vector of integers with sensitivity (l0, linf) the cost is that of l0 numbers that move by linf
        each (docs/proofs/pairs.md); where l1 is tighter than l0·linf, it is pure (l1/scale)-DP
        (docs/proofs/laplace.md). Both relations: the sensitivity carries which.

    References:
        Ghosh, Roughgarden, Sundararajan 2009, https://arxiv.org/abs/0811.2841; Dwork, Roth, *The Algorithmic
        Foundations of Differential Privacy*, Theorem 3.6, https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf
    """

    scale: Fraction

    def __post_init__(self) -> None:
        _positive("scale", self.scale)

    def event(self, sensitivity: Sensitivity) -> Composed:
        if _is_still(sensitivity):
            return Composed()
        if sensitivity.is_product:
            return Composed([(DiscreteLaplaceEvent(sensitivity.linf, self.scale), sensitivity.l0)])
        return Composed([ApproximateEvent(sensitivity.l1 / self.scale)])

    def draw(self, size: int, rng: Entropy) -> Integers:
        if self.scale <= laplace.LARGEST_SCALE:
            return laplace.sample_vector(self.scale, size, rng)
        return as_objects([laplace.sample(self.scale, rng) for _ in range(size)])

    def tail(self, t: int) -> float:
        if t < 0:
            return 1.0
        rate = 1 / self.scale
        return _above(2 * _exp_minus((t + 1) * rate) / (1 + _exp_minus(rate)))

    def cdf(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        k = np.floor(t)
        rate = float(1 / self.scale)
        below = np.exp(-rate * np.where(k < 0, -k, k + 1)) / (1 + math.exp(-rate))
        return np.asarray(np.where(k < 0, below, 1 - below))

    @property
    def variance(self) -> float:
        rate = float(1 / self.scale)
        # 2p/(1 − p)² with p = exp(−rate), written so that neither a small nor a large rate loses digits.
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2 if rate < 700 else 0.0


@dataclass(frozen=True, slots=True)
class RoundedGaussianNoise(Additive):
    """The continuous Gaussian N(0, σ²) rounded to the nearest integer.

    Guarantee:
        μ-GDP with μ² = l2²/σ², in any dimension: for integers f, f + round(Z) = round(f + Z), so that the
        release is a post-processing of the continuous Gaussian mechanism (docs/proofs/gaussian.md).

    References:
        Dong, Roth, Su 2019, Theorem 2.7 and Proposition 2.8, https://arxiv.org/abs/1905.02383
    """

    sigma: Fraction

    def __post_init__(self) -> None:
        _positive("sigma", self.sigma)

    def event(self, sensitivity: Sensitivity) -> Composed:
        if _is_still(sensitivity):
            return Composed()
        return Composed([GaussianEvent(sensitivity.l2_squared / (self.sigma * self.sigma))])

    def draw(self, size: int, rng: Entropy) -> Integers:
        if self.sigma <= gaussian.LARGEST_SIGMA:
            return gaussian.rounded_vector(self.sigma, size, rng)
        return as_objects([gaussian.rounded(self.sigma, rng) for _ in range(size)])

    def tail(self, t: int) -> float:
        if t < 0:
            return 1.0
        return _above(math.erfc(_capped(Fraction(2 * t + 1, 2) / self.sigma) / math.sqrt(2)))

    def cdf(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        from scipy.special import ndtr

        return np.asarray(ndtr((np.floor(t) + 0.5) / float(self.sigma)))

    @property
    def variance(self) -> float:
        if self.sigma >= _SMOOTH:
            return float(self.sigma) ** 2 + 1 / 12  # Sheppard's correction, here exact to exp(−2π²σ²)
        return math.fsum((2 * t + 1) * self.tail(t) for t in range(math.ceil(40 * self.sigma) + 1))


@dataclass(frozen=True, slots=True)
class DiscreteGaussianNoise(Additive):
    """The discrete Gaussian law: P(Z = k) ∝ exp(−k²/2σ²).

    Guarantee:
        On a vector of integers with sensitivity (l0, linf) the cost is that of l0 numbers that move by linf
        each (docs/proofs/pairs.md); where l2² is tighter than l0·linf², it is (l2²/2σ²)-zCDP.

    References:
        Canonne, Kamath, Steinke 2020, Theorem 4 and Theorem 14, https://arxiv.org/abs/2004.00010
    """

    sigma_squared: Fraction

    def __post_init__(self) -> None:
        _positive("sigma_squared", self.sigma_squared)

    def event(self, sensitivity: Sensitivity) -> Composed:
        l0, linf, l2_squared = sensitivity.l0, sensitivity.linf, sensitivity.l2_squared
        if _is_still(sensitivity):
            return Composed()
        if l2_squared == l0 * linf * linf:
            return Composed([(DiscreteGaussianEvent(linf, self.sigma_squared), l0)])
        return Composed([ZCDPEvent(l2_squared / (2 * self.sigma_squared))])

    def draw(self, size: int, rng: Entropy) -> Integers:
        if self.sigma_squared <= gaussian.LARGEST_SIGMA**2:
            return gaussian.discrete_vector(self.sigma_squared, size, rng)
        return as_objects([gaussian.discrete(self.sigma_squared, rng) for _ in range(size)])

    def tail(self, t: int) -> float:
        if t < 0:
            return 1.0
        if self.sigma_squared <= _TABLED:
            below = _lower_tails(self.sigma_squared)
            return _above(2 * float(below[-t - 1]) if t < len(below) else 0.0)
        # By midpoints: Σ_{k>t} exp(−k²/2σ²) is at most its integral from t + ½ where the curve is convex (t +
        # ½ ≥ σ), and Σ_{|k|≤t} at least its integral where it is concave. The sum over all integers is at
        # least σ√2π, and above it by less than exp(−2π²σ²) (Poisson summation).
        x = _capped(Fraction(2 * t + 1, 2) ** 2 / (2 * self.sigma_squared), 1_000_000)
        return _above(math.erfc(math.sqrt(x)))

    def cdf(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        k = np.floor(t)
        if self.sigma_squared > _TABLED:
            from scipy.special import ndtr

            return np.asarray(ndtr((k + 0.5) / math.sqrt(self.sigma_squared)))
        below = _lower_tails(self.sigma_squared)  # P(Z ≤ j) for j = −len(below), …, −1
        j = np.where(k < 0, k, -k - 1)
        p = np.where(j < -len(below), 0.0, below[np.maximum(j, -len(below)).astype(np.int64)])
        return np.asarray(np.where(k < 0, p, 1 - p))

    @property
    def variance(self) -> float:
        if self.sigma_squared >= _SMOOTH**2:
            return float(self.sigma_squared)  # to exp(−2π²σ²)
        return math.fsum((2 * t + 1) * self.tail(t) for t in range(math.ceil(40 * _SMOOTH)))


KINDS: MappingProxyType[str, type[DiscreteLaplaceNoise | RoundedGaussianNoise | DiscreteGaussianNoise]] = (
    MappingProxyType(
        {
            "discrete-laplace": DiscreteLaplaceNoise,
            "rounded-gaussian": RoundedGaussianNoise,
            "discrete-gaussian": DiscreteGaussianNoise,
        }
    )
)
"""Every law that a stored plan may name."""

_SMOOTH = Fraction(4)  # a Gaussian this wide has the variance of its limit to 1e-130
_TABLED = Fraction(1 << 20)  # a discrete Gaussian of at most this σ² is summed term by term
_MARGIN = 2.0**-36  # relative; far above the rounding of the few float operations in a tail


def _is_still(sensitivity: Sensitivity) -> bool:
    return not sensitivity.l0 or not sensitivity.linf


@lru_cache(maxsize=32)
def _lower_tails(sigma_squared: Fraction) -> NDArray[np.float64]:
    """P(Z ≤ −K), …, P(Z ≤ −1) of the discrete Gaussian; below −K there is less than exp(−700)."""
    k = np.arange(-math.ceil(38 * math.sqrt(sigma_squared)) - 2, 0, dtype=np.float64)
    with np.errstate(under="ignore"):
        mass = np.exp(-(k * k) * float(1 / (2 * sigma_squared)))
    below = np.cumsum(mass)
    return np.asarray(below / (1 + 2 * below[-1]))


def _exp_minus(x: Fraction) -> float:
    return math.exp(-_capped(x))


def _capped(x: Fraction, most: int = 1000) -> float:
    """Return a float near x, or `most` where exp and erfc have long underflowed."""
    return x.numerator / x.denominator if x.numerator < most * x.denominator else float(most)


def _above(p: float) -> float:
    """Return a bound on a probability that was computed with a few roundings, and that no underflow makes zero."""
    return min(1.0, p * (1 + _MARGIN) + 5e-324)


def as_objects(values: list[int]) -> Integers:
    drawn = np.empty(len(values), dtype=object)
    drawn[:] = values
    return drawn


def _positive(name: str, x: Fraction) -> None:
    if x <= 0:
        raise InvalidParameter(f"{name} must be above 0, not {x}.")
