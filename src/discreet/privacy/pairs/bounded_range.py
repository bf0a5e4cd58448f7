"""The pair that dominates every use whose losses lie in a range of length ε."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.privacy.pair import Curve, Pair


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
