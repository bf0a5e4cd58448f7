"""The pair of Gaussian noise on a Poisson sample, for groups of units that are added or removed together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.exact import above, below
from discreet.privacy.pair import ACCURACY, Curve, Pair
from discreet.privacy.pairs.gaussian import GaussianPair

_UNIT = 2.0**-52
_TAIL = 45.0  # deviations beyond which the normal law has less than FLOOR
_FARTHEST = 690.0  # a loss up to which e^ε is a float with room to spare
_HALVINGS = 56  # of an interval of a few hundred
_FEW = 7
_NEWTON = 2
_ROOM = 3e-12
_BLOCK = 1 << 16  # likelihood ratios that are held at once

Losses = NDArray[np.float64]
Fits = NDArray[np.bool_]
Places = NDArray[np.intp]


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
        one = self._removed if self.removes else self._added
        rows = max(_BLOCK // self.k, 1)
        curve = np.concatenate([one(e[i : i + rows]) for i in range(0, e.size, rows)] or [e])
        found = np.clip(curve, -np.expm1(np.minimum(e, 0.0)), 1.0).reshape(given.shape)
        found = np.where(given < -_FARTHEST, 1.0, found)
        return np.where(given >= self.epsilon_max, 0.0, found)

    @property
    def accuracy(self) -> float:
        """Not bounded where units are added: near its end the curve hangs on digits that floats do not have."""
        return ACCURACY if self.removes else math.inf

    def reverse(self) -> Pair:
        """Return the same for units that are added."""
        return SampledGroupPair(self.mu_squared, self.rate, self.k, not self.removes)

    @property
    def work(self) -> float:
        return max(1.0, self.k / 8)

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

        def fits(x: Curve, i: Places) -> Fits:
            """Return whether Σ w_j (α_j − 1) is at most e^ε − 1, whatever was rounded."""
            losses = self._losses(x)
            total, error = _excess(losses, weight)
            return np.asarray(
                (total + error + 4 * _UNIT * np.abs(target[i]) <= target[i]) & (losses <= _FARTHEST).all(axis=0)
            )

        x, good = self._edge(epsilon, fits, -1.0)
        losses, total = self._losses(x), np.zeros_like(epsilon)
        for j in range(1, self.k + 1):
            total += weight[j - 1] * GaussianPair(self.mu_squared * j * j).delta(losses[j - 1])
        # Where not even the first x will do, the curve is 1 − e^ε but for less than FLOOR and rounding.
        return np.where(good, total * (1 + (2 * self.k + 8) * _UNIT), 0.0)

    def _added(self, epsilon: Curve) -> Curve:
        weight, least, target = self._weights(above), self._weights(below), np.expm1(-epsilon)

        def fits(x: Curve, i: Places) -> Fits:
            """Return whether Σ w_j (α_j − 1) is at least e^−ε − 1, whatever was rounded or is no float."""
            total, error = _excess(self._losses(x), least)
            return np.asarray(total - error - 4 * _UNIT * np.abs(target[i]) >= target[i])

        x, good = self._edge(-epsilon, fits, 1.0)
        losses, total = self._losses(x), np.zeros_like(epsilon)
        for j in range(1, self.k + 1):
            share = np.exp(np.minimum(math.log(weight[j - 1]) + losses[j - 1] + epsilon, _FARTHEST))
            total += share * GaussianPair(self.mu_squared * j * j).delta(-losses[j - 1])
        # As above at the last x, unless it was a ratio that is no float that did not count in full.
        rest = np.where((losses <= _FARTHEST).all(axis=0), 0.0, 1.0)
        return np.where(good, total * (1 + (2 * self.k + 4 * _FARTHEST) * _UNIT), rest)

    def _edge(self, target: Curve, fits: Callable[[Curve, Places], Fits], side: float) -> tuple[Curve, Fits]:
        """Return the last x on a side (−1 below, 1 above) of where Σ w_j α_j = e^target that fits, and whether it does.

        It is guessed, and what does not fit is halved. A guess that fits is as good a bound as any.
        """
        guess, room = self._guess(target)
        every = np.arange(target.size)
        x = np.clip(guess + side * room, -_TAIL, self._last())
        good = fits(x, every)
        # A step of `room` changes the curve by about so many times its deviations: too much if it is large.
        i = every[good & (room * (1 + np.abs(x) + self.k * self._mu()) > _ROOM)]
        if i.size:
            x[i] = _halved(fits, x[i], np.clip(guess - side * room, -_TAIL, self._last())[i], i, _FEW)
        i = every[~good]
        if i.size:
            ends = np.array([-_TAIL, self._last()])[:: -1 if side > 0 else 1]
            x[i] = _halved(fits, np.full(i.size, ends[0]), np.full(i.size, ends[1]), i, _HALVINGS)
            good[i] = fits(x[i], i)
        return x, good

    def _guess(self, target: Curve) -> tuple[Curve, Curve]:
        """About where Σ w_j α_j = e^target, and how far rounding in `_excess` may move it."""
        weight, wanted = self._weights(above), np.expm1(target)
        left = np.maximum(wanted + float(weight.sum()), 1e-300)
        log_left, log_weight = np.log(left), np.log(np.maximum(weight, 1e-300))
        # The terms with j ≥ 1 add up to `left`; their logarithm is convex in x and nearly straight.
        knots, at = _table(self)
        x = np.interp(log_left, at, knots)
        steps = self._mu() * np.arange(1.0, self.k + 1)
        for _ in range(_NEWTON):
            part = np.exp(np.minimum(self._losses(x) + log_weight[:, None] - log_left, 300.0))
            total, slope = part.sum(axis=0), np.maximum(steps @ part, 1e-300)
            x = np.clip(x - np.log(np.maximum(total, 1e-300)) * total / slope, -_TAIL, self._last())
        # Once more without cancellation, as it will be compared.
        losses = self._losses(x)
        total, error = _excess(losses, weight)
        slope = weight @ (np.exp(np.minimum(losses, _FARTHEST - 10)) * steps[:, None])
        error += 4 * _UNIT * np.abs(wanted)
        slope = np.maximum(slope, (error + np.abs(total - wanted)) * 1e-9)  # a longer step leads nowhere
        return x - (total - wanted) / slope, 2 * error / slope + _UNIT * np.abs(x)

    def _losses(self, x: Curve) -> Losses:
        steps = self._mu() * np.arange(1.0, self.k + 1)
        return np.asarray(np.multiply.outer(steps, x) - (steps * steps / 2)[:, None])

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
    return weight @ grown, (8 + weight.size) * _UNIT * (weight @ np.abs(grown))


def _halved(fits: Callable[[Curve, Places], Fits], inner: Curve, outer: Curve, i: Places, n: int) -> Curve:
    """Return the last x seen to fit between `inner`, which is taken to, and `outer`."""
    for _ in range(n):
        middle = (inner + outer) / 2
        held = fits(middle, i)
        inner, outer = np.where(held, middle, inner), np.where(held, outer, middle)
    return inner


@lru_cache(maxsize=32)
def _table(pair: SampledGroupPair) -> tuple[Curve, Curve]:
    """Places x, and the logarithm of Σ_j≥1 w_j α_j at each."""
    knots = np.linspace(-_TAIL, pair._last(), 1 << 12)
    terms = pair._losses(knots) + np.log(np.maximum(pair._weights(above), 1e-300))[:, None]
    top = terms.max(axis=0)
    return knots, np.asarray(top + np.log(np.exp(terms - top).sum(axis=0)))
