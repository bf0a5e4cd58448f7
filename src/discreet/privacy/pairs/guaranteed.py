"""Pairs that dominate every use of a given guarantee: (ε, δ), a range of losses, Rényi divergences or ρ-zCDP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from discreet.privacy.exact import above
from discreet.privacy.pair import Curve, Pair
from discreet.privacy.pairs.finite import FinitePair, Outcomes, response


@dataclass(frozen=True, slots=True)
class ApproximatePair(FinitePair):
    """Randomised response with a leak: P = (δ, (1−δ)p, (1−δ)(1−p), 0), Q its mirror, p = e^ε/(1+e^ε).

    References: Kairouz, Oh, Viswanath 2015, Theorem 3.2, https://arxiv.org/abs/1311.0776
    """

    epsilon: float
    failure: float

    def delta(self, epsilon: Curve) -> Curve:
        """δ + (1 − δ)(e^ε₀ − e^ε)₊/(1 + e^ε₀) for ε ≥ −ε₀, and 1 − (1 − δ)e^ε below."""
        # (e^ε₀ − e^ε)/(1 + e^ε₀) = (1 − e^(ε−ε₀))/(1 + e^−ε₀), which neither overflows nor cancels.
        middle = -np.expm1(np.minimum(epsilon - self.epsilon, 0.0)) / (1 + np.exp(-self.epsilon))
        below = -np.expm1(np.minimum(epsilon, 0.0))
        return self.failure + (1 - self.failure) * np.where(epsilon >= -self.epsilon, middle, below)

    @property
    def epsilon_max(self) -> float:
        return self.epsilon

    def outcomes(self) -> Outcomes | None:
        """Return the losses ±ε with masses (1 − δ)e^ε/(1 + e^ε) and (1 − δ)/(1 + e^ε); δ on either side alone."""
        return response(self.epsilon, (1 - self.failure) / (1 + math.exp(-self.epsilon)), 0.0, self.failure)


@dataclass(frozen=True, slots=True)
class BoundedRangePair(Pair):
    """The largest curve of two outcomes with losses t and t − ε, over all t in [0, ε]; symmetric.

    References: the two outcomes are Dong, Durfee, Rogers 2020, https://arxiv.org/abs/1909.13830; the largest
    curve: docs/proofs/pairs.md, "Bounded range"; it is convex, and so it belongs to a pair: Zhu, Dong, Wang
    2022, https://arxiv.org/abs/2106.08567
    """

    epsilon: float
    exact: ClassVar[bool] = False  # no one use attains it

    def delta(self, epsilon: Curve) -> Curve:
        """(1 − e^((ε−ε₀)/2))²/(1 − e^−ε₀) for |ε| ≤ ε₀, 0 above, 1 − e^ε below."""
        below = -np.expm1(np.minimum(epsilon, 0.0))
        if self.epsilon == 0:
            return below
        root = -np.expm1(np.minimum(epsilon - self.epsilon, 0.0) / 2)
        middle = root * (root / -math.expm1(-self.epsilon))  # a square could underflow
        return np.where(epsilon >= -self.epsilon, middle, below)

    @property
    def epsilon_max(self) -> float:
        return self.epsilon


_UNIT = 2.0**-52
_FARTHEST = 1e15
_LARGEST = 1e300


@dataclass(frozen=True, slots=True)
class RenyiPair(Pair):
    """The pair that dominates all uses with D_α ≤ τ_α at the given orders, its curve bounded from above.

    The largest curve of any such use is convex, and so it belongs to a pair; `delta` is a bound on that curve
    and need not be convex itself. See docs/proofs/renyi-curve.md.

    References: Canonne, Kamath, Steinke 2020, Proposition 12, https://arxiv.org/abs/2004.00010; a convex curve
    has a pair: Zhu, Dong, Wang 2022, https://arxiv.org/abs/2106.08567
    """

    orders: tuple[Fraction, ...]
    divergences: tuple[Fraction, ...]
    exact: ClassVar[bool] = False  # the conversion is not the largest curve of the class

    def delta(self, epsilon: Curve) -> Curve:
        """Return the least over the orders of exp((α−1)(τ−ε)) (1−1/α)^(α−1)/α for ε ≥ 0; below, the mirrored curve."""
        e = np.asarray(epsilon, dtype=np.float64)
        x = np.minimum(e, 0.0)
        if 0 in self.divergences:  # then P = Q
            return np.asarray(-np.expm1(x))
        positive = np.exp(np.minimum(self._log_delta(np.abs(e)), 0.0))
        # H_{e^x}(P‖Q) = 1 − e^x + e^x H_{e^−x}(Q‖P), and the class is the same in both directions.
        return np.where(e >= 0, positive, -np.expm1(x) + np.exp(x) * positive)

    @property
    def work(self) -> float:
        return max(1.0, len(self.orders) / 16)

    @property
    def epsilon_max(self) -> float:
        return 0.0 if 0 in self.divergences else math.inf

    def _log_delta(self, epsilon: Curve) -> Curve:
        least = np.full_like(epsilon, math.inf)
        epsilon = np.minimum(epsilon, _FARTHEST)  # a smaller ε has the larger curve
        for order, divergence in zip(self.orders, self.divergences, strict=True):
            x, tau = above(order - 1), above(divergence)  # the order itself would lose the digits of α − 1
            log_alpha, rest = math.log1p(x), x * math.log1p(1 / x)
            if x * max(tau, _FARTHEST) < _LARGEST:  # else it leaves the range of floats, and says nothing
                size = x * (tau + epsilon) + log_alpha + rest
                least = np.minimum(least, x * (tau - epsilon) - rest - log_alpha + 8 * _UNIT * size)
        return least


@dataclass(frozen=True, slots=True)
class ZCDPPair(Pair):
    """The pair that dominates all ρ-zCDP mechanisms, with its curve bounded from above.

    The largest curve of any ρ-zCDP mechanism is convex, and so it belongs to a pair; its exact form is not
    known, and `delta` returns the bound of the conversion theorem. See docs/proofs/pairs.md.

    References: Canonne, Kamath, Steinke 2020, Proposition 12, https://arxiv.org/abs/2004.00010;
    a convex curve has a pair: Zhu, Dong, Wang 2022, https://arxiv.org/abs/2106.08567
    """

    rho: float
    exact: ClassVar[bool] = False  # no one use attains it

    def delta(self, epsilon: Curve) -> Curve:
        """Return the least over α > 1 of exp((α−1)(αρ−ε)) (1−1/α)^(α−1) / α for ε ≥ 0; below, the mirrored curve."""
        positive = np.minimum(np.exp(self._log_delta(np.abs(epsilon))), 1.0)
        # H_{e^x}(P‖Q) = 1 − e^x + e^x H_{e^−x}(Q‖P), and the class is the same in both directions.
        x = np.minimum(epsilon, 0.0)
        return np.where(epsilon >= 0, positive, -np.expm1(x) + np.exp(x) * positive)

    @property
    def epsilon_max(self) -> float:
        return math.inf if self.rho else 0.0

    def _log_delta(self, epsilon: Curve) -> Curve:
        if self.rho == 0:
            return np.full_like(epsilon, -math.inf)
        # The logarithm is convex in α with derivative (2α−1)ρ − ε + log(1−1/α), whose root in s = log(α−1) is
        # read off a table and moved once by Newton. Any α gives a valid bound: the root need not be exact.
        knots, at = _table(self.rho)
        s = np.interp(epsilon, at, knots)
        a = np.exp(s)
        s += (epsilon - _root_at(a, self.rho)) / (2 * self.rho * a + 1 / (1 + a))
        a = np.exp(np.clip(s, knots[0], knots[-1]))
        return np.asarray(a * ((1 + a) * self.rho - epsilon - np.log1p(1 / a)) - np.log1p(a))


@lru_cache(maxsize=32)
def _table(rho: float) -> tuple[Curve, Curve]:
    """Values of s = log(α−1), and the ε for which each is best."""
    knots = np.linspace(-45.0, 90.0, 1 << 13)
    at = np.maximum.accumulate(_root_at(np.exp(knots), rho))
    for column in (knots, at):
        column.flags.writeable = False
    return knots, at


def _root_at(a: Curve, rho: float) -> Curve:
    """Return the ε for which α = 1 + a is best."""
    return np.asarray((2 * a + 1) * rho - np.log1p(1 / a))
