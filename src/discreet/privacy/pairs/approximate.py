"""The pair that dominates every (ε, δ)-DP mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.privacy.pair import Curve
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
