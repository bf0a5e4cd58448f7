"""The curve that bounds every use whose Rényi divergences at some orders are bounded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from discreet.privacy.exact import above
from discreet.privacy.pair import Curve, Pair

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
