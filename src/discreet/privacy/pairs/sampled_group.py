"""The pair of Gaussian noise on a Poisson sample, for groups of units that are added or removed together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.exact import above, below
from discreet.privacy.pair import Curve, Pair
from discreet.privacy.pairs.gaussian import GaussianPair

_UNIT = 2.0**-52
_TAIL = 45.0  # deviations beyond which the normal law has less than FLOOR
_FARTHEST = 690.0  # a loss up to which e^ε is a float with room to spare
_HALVINGS = 56  # of an interval of a few hundred

Losses = NDArray[np.float64]
Fits = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SampledGroupPair(Pair):
    """(Σ_j w_j N(jμ, 1), N(0, 1)) with w_j = C(k,j) q^j (1−q)^(k−j) when k units are removed; swapped when added.

    References: Ganesh 2024, https://arxiv.org/abs/2401.10294, where the noise is added to a sum; for any μ-GDP use:
    docs/proofs/group.md, "Samples"
    """

    mu_squared: Fraction
    rate: Fraction
    k: int
    removes: bool

    def delta(self, epsilon: Curve) -> Curve:
        """Σ w_j H_{α_j}(N(jμ,1) ‖ N(0,1)), for any α_j with Σ w_j α_j ≤ e^ε; and its mirror when units are added.

        The best are the likelihood ratios α_j = e^(jμx − j²μ²/2) at the x where they add up to e^ε.
        """
        given = np.asarray(epsilon, dtype=np.float64)
        if not self.mu_squared:
            return np.asarray(-np.expm1(np.minimum(given, 0.0)))
        e = np.clip(np.ravel(given), -_FARTHEST, _FARTHEST)  # a smaller ε has the larger curve
        curve = self._removed(e) if self.removes else self._added(e)
        found = np.clip(curve, -np.expm1(np.minimum(e, 0.0)), 1.0).reshape(given.shape)
        found = np.where(given < -_FARTHEST, 1.0, found)
        return np.where(given >= self.epsilon_max, 0.0, found)

    def reverse(self) -> Pair:
        """The same for units that are added."""
        return SampledGroupPair(self.mu_squared, self.rate, self.k, not self.removes)

    @property
    def epsilon_max(self) -> float:
        if not self.mu_squared:
            return 0.0
        if self.removes:
            return math.inf
        rest = below(1 - self.rate)
        if rest < 1e-290:
            return math.inf
        out = math.log1p(-above(self.rate)) if self.rate < Fraction(1, 2) else math.log(rest)
        return math.nextafter(-self.k * out * (1 + 8 * _UNIT), math.inf)

    def _removed(self, epsilon: Curve) -> Curve:
        weight, target = self._weights(above), np.expm1(epsilon)

        def fits(x: Curve) -> Fits:
            """Whether Σ w_j (α_j − 1) is at most e^ε − 1, whatever was rounded."""
            losses = self._losses(x)
            total, error = _excess(losses, weight)
            return np.asarray(
                (total + error + 4 * _UNIT * np.abs(target) <= target) & (losses <= _FARTHEST).all(axis=-1)
            )

        low, high = np.full_like(epsilon, -_TAIL), np.full_like(epsilon, self._last())
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            good = fits(middle)
            low, high = np.where(good, middle, low), np.where(good, high, middle)
        losses, total = self._losses(low), np.zeros_like(epsilon)
        for j in range(1, self.k + 1):
            total += weight[j - 1] * GaussianPair(self.mu_squared * j * j).delta(losses[:, j - 1])
        # Where not even the first x will do, the curve is 1 − e^ε but for less than FLOOR and rounding.
        return np.where(fits(low), total * (1 + (2 * self.k + 8) * _UNIT), 0.0)

    def _added(self, epsilon: Curve) -> Curve:
        weight, least, target = self._weights(above), self._weights(below), np.expm1(-epsilon)

        def fits(x: Curve) -> Fits:
            """Whether Σ w_j (α_j − 1) is at least e^−ε − 1, whatever was rounded or is no float."""
            total, error = _excess(self._losses(x), least)
            return np.asarray(total - error - 4 * _UNIT * np.abs(target) >= target)

        low, high = np.full_like(epsilon, -_TAIL), np.full_like(epsilon, self._last())
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            good = fits(middle)
            low, high = np.where(good, low, middle), np.where(good, middle, high)
        losses, total = self._losses(high), np.zeros_like(epsilon)
        for j in range(1, self.k + 1):
            share = np.exp(np.minimum(math.log(weight[j - 1]) + losses[:, j - 1] + epsilon, _FARTHEST))
            total += share * GaussianPair(self.mu_squared * j * j).delta(-losses[:, j - 1])
        # As above at the last x, unless it was a ratio that is no float that did not count in full.
        rest = np.where((losses <= _FARTHEST).all(axis=-1), 0.0, 1.0)
        return np.where(fits(high), total * (1 + (2 * self.k + 4 * _FARTHEST) * _UNIT), rest)

    def _losses(self, x: Curve) -> Losses:
        steps = self._mu() * np.arange(1.0, self.k + 1)
        return np.asarray(np.multiply.outer(x, steps) - steps * steps / 2)

    def _last(self) -> float:
        return self.k * self._mu() + _TAIL

    def _mu(self) -> float:
        return math.sqrt(above(self.mu_squared))  # it only says where to look, so that rounding is no harm

    def _weights(self, rounded: Callable[[Fraction], float]) -> Curve:
        q = self.rate
        exact = [math.comb(self.k, j) * q**j * (1 - q) ** (self.k - j) for j in range(1, self.k + 1)]
        return np.array([rounded(w) for w in exact])


def _excess(losses: Losses, weight: Curve) -> tuple[Curve, Curve]:
    """Σ w_j (α_j − 1) without what is no float, and a bound on its rounding error."""
    grown = np.expm1(np.minimum(losses, _FARTHEST))
    return grown @ weight, (8 + weight.size) * _UNIT * (np.abs(grown) @ weight)
