"""Laws of noise whose scale may follow a smooth sensitivity, and what of ε each of them needs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from discreet.noise.entropy import Entropy
from discreet.noise.fixedpoint import exp_neg, ln
from discreet.noise.ratio import LaplaceLogNormal, Magnitude, QuarticShape, Ratio, StudentShape

MOST_EPSILON = Fraction(40)
"""More than this ε buys no less noise."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The factor B by which a smooth sensitivity S may differ between neighbours, and α: the noise is S/α·Z."""

    base: Fraction
    alpha: Fraction


class SmoothLaw(ABC):
    """A symmetric law of Z that hides a change of place and of scale at once."""

    __slots__ = ()

    @abstractmethod
    def alpha(self, cost: Fraction, base: Fraction) -> Fraction:
        """The largest α, rounded down, with which S/α·Z costs no more; 0 where B alone costs as much.

        `cost` is ε for pure laws; for the concentrated one it is ρ.
        """

    @abstractmethod
    def estimate(self, cost: float, beta: float) -> float:
        """α in floats, for B = exp(β): where to look, and no more."""

    def calibrate(self, cost: Fraction) -> Calibration:
        """B and α for the least noise on evenly spaced values."""
        return _searched(self, cost)

    @abstractmethod
    def draw(self, digits: int, rng: Entropy) -> Magnitude:
        """|Z|."""

    @abstractmethod
    def tail(self, z: float) -> float:
        """P(|Z| > z)."""

    def quantile(self, confidence: Fraction) -> float:
        """A z with P(|Z| ≤ z) ≥ `confidence`, within one part in 2^36."""
        doubt = float(1 - confidence)
        if doubt < _LEAST_DOUBT:  # what follows is not proved to so many digits
            return math.inf
        high = 1.0
        while self.tail(high) > doubt * (1 - _NEAR):
            high *= 2
        low = 0.0
        while high - low > _NEAR * high / 4:
            middle = (low + high) / 2
            low, high = (low, middle) if self.tail(middle) <= doubt * (1 - _NEAR) else (middle, high)
        return high


@dataclass(frozen=True, slots=True)
class StudentT(SmoothLaw):
    """Student's t with d degrees of freedom, density ∝ (1 + z²/d)^(−(d+1)/2); d = 1 is the Cauchy law.

    Guarantee:
        f + S/α·Z is ε-DP for exactly the least such ε: with A = α²/d and λ = B or 1, the ratio of two densities
        is μ^((d+1)/2)/λ at most, where μ is the larger root of μ² − (1 + A + λ²)μ + λ²
        (docs/proofs/smooth-sensitivity.md).

    References:
        Bun, Steinke 2019, Section 3 (ε ≤ d·ln B + α(d + 1)/(2√d), with which the noise is about twice as much),
        https://arxiv.org/abs/1906.02830; Nissim, Raskhodnikova, Smith 2007, Section 2 (Cauchy),
        https://doi.org/10.1145/1250790.1250803
    """

    degrees: int

    def alpha(self, cost: Fraction, base: Fraction) -> Fraction:
        d, e = self.degrees, min(cost, MOST_EPSILON)
        w = _bits(e)
        least = min(
            _square(2 * (e + _ln(base, w)[0]) / (d + 1), base, w), _square(2 * e / (d + 1), Fraction(1), w)
        )
        return _root_below(d * least)

    def draw(self, digits: int, rng: Entropy) -> Magnitude:
        return Ratio(StudentShape(self.degrees), digits, rng)

    def tail(self, z: float) -> float:
        from scipy.special import stdtr

        return 2 * float(stdtr(self.degrees, -z))

    def estimate(self, cost: float, beta: float) -> float:
        d, whole = self.degrees, 2 * (cost + beta) / (self.degrees + 1)
        one = math.expm1(whole) * -math.expm1(2 * beta - whole)
        two = math.expm1(2 * cost / (d + 1)) * -math.expm1(-2 * cost / (d + 1))
        return math.sqrt(d * max(min(one, two), 0.0))


@dataclass(frozen=True, slots=True)
class Quartic(SmoothLaw):
    """The law with density ∝ 1/(1 + z⁴): Cauchy-type, with a finite variance.

    Guarantee:
        f + S/α·Z is ε-DP with ε = 3·ln B + 3^(3/4)·α.

    References:
        Nissim, Raskhodnikova, Smith 2007, Section 2 (γ = 4, with ε/10 for each of the two),
        https://doi.org/10.1145/1250790.1250803; docs/proofs/smooth-sensitivity.md.
    """

    def alpha(self, cost: Fraction, base: Fraction) -> Fraction:
        e = min(cost, MOST_EPSILON)
        w = _bits(e)
        return max((e - 3 * _ln(base, w)[1]) / _STEEPEST, Fraction(0))

    def draw(self, digits: int, rng: Entropy) -> Magnitude:
        return Ratio(QuarticShape(), digits, rng)

    def estimate(self, cost: float, beta: float) -> float:
        return (cost - 3 * beta) / float(_STEEPEST)

    def tail(self, z: float) -> float:
        # π/√8 less the integral of 1/(1 + t⁴) up to z, over π/√8; far out by its series
        if z > 1e3:
            return min(1.0, math.sqrt(8) / math.pi / (3 * z**3))
        r = math.sqrt(2.0)
        log = math.log((z * z + r * z + 1) / (z * z - r * z + 1))
        angle = math.atan(r * z + 1) + math.atan(r * z - 1)
        return max(0.0, 1 - (log + 2 * angle) / (2 * math.pi))


@dataclass(frozen=True, slots=True)
class LogNormal(SmoothLaw):
    """X·exp(σY) for X Laplace of scale 1 and Y standard normal; all its moments are finite.

    Guarantee:
        f + S/α·Z is ρ-zCDP with √(2ρ) = ln(B)/σ + exp(3σ²/2)·α.

    References:
        Bun, Steinke 2019, Section 3 (Laplace log-normal), https://arxiv.org/abs/1906.02830;
        docs/proofs/smooth-sensitivity.md.
    """

    sigma: Fraction

    def alpha(self, cost: Fraction, base: Fraction) -> Fraction:
        e = min(cost, MOST_EPSILON**2 / 2)
        w = _bits(e)
        lift = Fraction(exp_neg(3 * self.sigma**2 / 2, w)[0], 1 << w)
        return max((_root_below(2 * e) - _ln(base, w)[1] / self.sigma) * lift, Fraction(0))

    @classmethod
    def best(cls, rho: Fraction) -> LogNormal:
        """The law, over σ, for the least standard deviation on evenly spaced values."""
        return _best_sigma(rho)

    def draw(self, digits: int, rng: Entropy) -> Magnitude:
        return LaplaceLogNormal(self.sigma, digits, rng)

    def tail(self, z: float) -> float:
        # the mean of exp(−z·exp(−σY)) by the trapezoidal rule, whose error is below 2^−40
        s = float(self.sigma)
        step = 1 / 16
        terms = [math.exp(-y * y / 2 - z * math.exp(-s * y)) for y in (step * i for i in range(-160, 161))]
        return min(1.0, math.fsum(terms) * step / math.sqrt(2 * math.pi))

    def estimate(self, cost: float, beta: float) -> float:
        s = float(self.sigma)
        return (math.sqrt(2 * cost) - beta / s) * math.exp(-1.5 * s * s)


_NEAR = 2.0**-36
_LEAST_DOUBT = 2.0**-60
_STEEPEST = Fraction(math.isqrt(math.isqrt(27 << 256)) + 1, 1 << 64)
"""3^(3/4), rounded up: the steepest that −ln(1 + z⁴) is, at z⁴ = 3."""


@lru_cache(maxsize=256)
def _searched(law: SmoothLaw, cost: Fraction) -> Calibration:
    """B for the least S/α where neighbouring values are one apart, so that S = max (k + 1)/B^k; α as proved for it."""
    e = float(min(cost, MOST_EPSILON if not isinstance(law, LogNormal) else MOST_EPSILON**2 / 2))
    scale = math.sqrt(2 * e) if isinstance(law, LogNormal) else e

    def noise(beta: float) -> float:
        a = law.estimate(e, beta)
        k = max(0, round(1 / beta) - 1) if beta < 1 else 0
        spread = max((j + 1) * math.exp(-beta * j) for j in (k, k + 1, max(k - 1, 0)))
        return spread / a if a > 0 else math.inf

    betas = [min(scale, 1.0) * i / 512 for i in range(1, 512)]
    beta = min(betas, key=noise)
    base = 1 + _short(math.expm1(beta))
    return Calibration(base, law.alpha(cost, base))


def _short(x: float) -> Fraction:
    """A fraction near x of 24 bits over a power of two."""
    m, e = math.frexp(x)
    return Fraction(round(m * (1 << 24))) * Fraction(2) ** (e - 24)


@lru_cache(maxsize=64)
def _best_sigma(rho: Fraction) -> LogNormal:
    def deviation(i: int) -> float:
        law = LogNormal(Fraction(i, 64))
        c = law.calibrate(rho)
        beta = float(c.base - 1)
        return (
            math.exp(float(law.sigma) ** 2) / (float(c.alpha) * min(beta, 1.0)) if c.alpha > 0 else math.inf
        )

    return LogNormal(Fraction(min(range(8, 97, 2), key=deviation), 64))


def _square(x: Fraction, base: Fraction, w: int) -> Fraction:
    """The largest A, rounded down, for which μ ≤ M = exp(x): (M − 1)(M − λ²)/M for λ = `base`, at least 0."""
    m = Fraction(1 << w, exp_neg(x, w)[1])  # at most exp(x)
    return max((m - 1) * (m - base * base) / m, Fraction(0))


def _ln(x: Fraction, w: int) -> tuple[Fraction, Fraction]:
    """An interval around ln x."""
    low, high = ln(x, w)
    return Fraction(low, 1 << w), Fraction(high, 1 << w)


def _bits(cost: Fraction) -> int:
    """Binary digits with which differences of the size of the squared cost keep 64."""
    return 256 + 4 * max(0, cost.denominator.bit_length() - cost.numerator.bit_length())


def _root_below(x: Fraction) -> Fraction:
    """√x rounded down to 48 bits."""
    if x <= 0:
        return Fraction(0)
    shift = 48 - (x.numerator.bit_length() - x.denominator.bit_length()) // 2
    return math.isqrt(math.floor(x * Fraction(4) ** shift)) / Fraction(2) ** shift
