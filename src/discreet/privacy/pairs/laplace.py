"""The pairs of continuous and discrete Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.privacy.exact import above, below
from discreet.privacy.pair import Curve, Pair
from discreet.privacy.pairs.finite import MOST_ATOMS, FinitePair, Outcomes, decay, product, up

_LEAST, _MOST = 1e-250, 1e6  # of the largest loss, where its multiples keep their digits
_FAR = 700.0  # an exponent that a float still holds


@dataclass(frozen=True, slots=True)
class LaplacePair(Pair):
    """Laplace noise of scale 1 around 0 and around `ratio`.

    References: the curve is Balle, Barthe, Gaboardi 2018, Theorem 3, https://arxiv.org/abs/1807.01647
    """

    ratio: float

    def delta(self, epsilon: Curve) -> Curve:
        """1 − e^((ε−r)/2) for |ε| ≤ r, 0 above, 1 − e^ε below."""
        middle = -np.expm1(np.minimum(epsilon - self.ratio, 0.0) / 2)
        return np.where(epsilon >= -self.ratio, middle, -np.expm1(np.minimum(epsilon, 0.0)))

    @property
    def epsilon_max(self) -> float:
        return self.ratio


@dataclass(frozen=True, slots=True)
class DiscreteLaplacePair(FinitePair):
    """Mass ∝ exp(−|k|/scale) on the integers, around 0 and around `shift`.

    References: docs/proofs/pairs.md, from the definition; a larger shift dominates a smaller one.
    """

    shift: int
    scale: Fraction

    def delta(self, epsilon: Curve) -> Curve:
        """P(k < m) − e^ε Q(k < m) with the best m, that is m = ⌈(shift − ε·scale)/2⌉ in 0 … shift."""
        top = self.epsilon_max
        if self.shift == 0:
            return -np.expm1(np.minimum(epsilon, 0.0))
        step = top / self.shift  # 1/scale, rounded so that shift·step is the (rounded up) largest loss
        u = np.clip(epsilon - top, -2 * top, 0.0)
        m = np.clip(np.ceil(-u / (2 * step)), 1, self.shift)
        # Any event gives a lower bound, so the neighbours of the rounded m can only correct it.
        best = np.maximum(self._at(u, m, step), self._at(u, np.maximum(m - 1, 1), step))
        best = np.maximum(best, self._at(u, np.minimum(m + 1, self.shift), step))
        middle = np.where(epsilon >= top, 0.0, best)
        return np.where(epsilon >= -top, middle, -np.expm1(np.minimum(epsilon, 0.0)))

    @property
    def epsilon_max(self) -> float:
        return above(self.shift / self.scale)

    def outcomes(self) -> Outcomes | None:
        """0 or less, 1, …, shift or more, with losses (shift − 2k)/scale; by size, so the last comes first."""
        if self.shift == 0:
            return Outcomes(np.zeros(1), np.ones(1), np.ones(1))
        if self.shift >= MOST_ATOMS or not _LEAST < self.epsilon_max < _MOST:
            return None
        rate, k = 1 / self.scale, np.arange(self.shift, -1.0, -1.0)
        # The loss at one end is the largest of all, and no rounding is to take another above it.
        loss = np.minimum(up(*product(self.shift - 2 * k, rate)), self.epsilon_max)
        ends = (k == 0) | (k == self.shift)
        share = np.where(ends, 1.0, -math.expm1(-below(rate))) / (1 + math.exp(-below(rate)))
        p = decay(k, rate) * share
        return Outcomes(loss, p, p[::-1].copy())

    @staticmethod
    def _at(u: Curve, m: Curve, step: float) -> Curve:
        # With q = e^−step: (1 − e^(u + (m−1)step) + q(1 − q^(m−1))) / (1 + q); nothing cancels at the best m.
        q = math.exp(-step)
        grown = np.minimum(u + (m - 1) * step, _FAR)  # beyond it m is a neighbour of the best, and far worse
        return (-np.expm1(grown) - q * np.expm1(-(m - 1) * step)) / (1 + q)
