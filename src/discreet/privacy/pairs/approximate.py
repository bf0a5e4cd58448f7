"""The pairs that dominate every (ε, δ)-DP mechanism, and every use whose losses lie in a range of length ε."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

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
