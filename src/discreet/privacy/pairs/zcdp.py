"""The curve that bounds every ρ-zCDP mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.privacy.pair import Curve, Pair


@dataclass(frozen=True, slots=True)
class ZCDPPair(Pair):
    """The pair that dominates all ρ-zCDP mechanisms, with its curve bounded from above.

    The largest curve of any ρ-zCDP mechanism is convex, and so it belongs to a pair; its exact form is not
    known, and `delta` returns the bound of the conversion theorem. See docs/proofs/pairs.md.

    References: Canonne, Kamath, Steinke 2020, Proposition 12, https://arxiv.org/abs/2004.00010;
    a convex curve has a pair: Zhu, Dong, Wang 2022, https://arxiv.org/abs/2106.08567
    """

    rho: float

    def delta(self, epsilon: Curve) -> Curve:
        """The least over α > 1 of exp((α−1)(αρ−ε)) (1−1/α)^(α−1) / α for ε ≥ 0; below, the mirrored curve."""
        positive = np.minimum(np.exp(self._log_delta(np.abs(epsilon))), 1.0)
        # H_{e^x}(P‖Q) = 1 − e^x + e^x H_{e^−x}(Q‖P), and the class is the same in both directions.
        x = np.minimum(epsilon, 0.0)
        return np.where(epsilon >= 0, positive, -np.expm1(x) + np.exp(x) * positive)

    @property
    def exact(self) -> bool:
        """Not: no one use attains it."""
        return False

    @property
    def epsilon_max(self) -> float:
        return math.inf if self.rho else 0.0

    def _log_delta(self, epsilon: Curve) -> Curve:
        if self.rho == 0:
            return np.full_like(epsilon, -math.inf)
        # The logarithm is convex in α with derivative (2α−1)ρ − ε + log(1−1/α). Its root is found by
        # bisection in s = log(α−1); any α gives a valid bound, so the root need not be exact.
        low, high = np.full_like(epsilon, -45.0), np.full_like(epsilon, 90.0)
        for _ in range(36):
            s = (low + high) / 2
            right = (2 * np.exp(s) + 1) * self.rho - epsilon - np.logaddexp(0.0, -s) > 0
            low, high = np.where(right, low, s), np.where(right, s, high)
        s = (low + high) / 2
        log_alpha = np.logaddexp(0.0, s)
        return np.exp(s) * ((1 + np.exp(s)) * self.rho - epsilon - np.logaddexp(0.0, -s)) - log_alpha
