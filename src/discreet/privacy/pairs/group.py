"""The pairs of groups: of k steps that one pair dominates each, and of Gaussian noise on a Poisson sample.

For every ε₁ + … + ε_k ≤ ε the curve of steps is at most Σ e^(ε₁ + … + ε_(i−1)) δ(ε_i), and the best split makes it
equal. So a split may come from anywhere: here from a table of best splits, found once for each pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.exact import above, below
from discreet.privacy.pair import ACCURACY, Curve, Pair
from discreet.privacy.pairs.additive import GaussianPair

_UNIT = 2.0**-52
_POINTS = 700  # of the table, for each half of the probabilities
_DEEPEST = 26.2  # e^(−t²) at the last point, about 1e-298
_FARTHEST = 700.0  # a loss beyond which e^ε is no float


@dataclass(frozen=True, slots=True)
class GroupPair(Pair):
    """k steps in a row, each of them dominated by `base`.

    References: the k-fold iteration of a trade-off function is Dong, Roth, Su 2019, Theorem 2.14,
    https://arxiv.org/abs/1905.02383; as a least value over splits of ε: docs/proofs/group.md
    """

    base: Pair
    k: int
    exact: ClassVar[bool] = False  # within about 1e-9, relatively, of the iterated function

    def delta(self, epsilon: Curve) -> Curve:
        """Return an upper bound: the least of a split's and of the chord's between two known points."""
        table = _table(self.base, self.k)
        x = np.asarray(epsilon, dtype=np.float64)
        j = np.clip(np.searchsorted(table.total, x, side="right") - 1, 0, table.total.size - 1)
        after = np.minimum(j + 1, table.total.size - 1)
        width = table.total[after] - table.total[j]
        inside = (width > 0) & (x >= table.total[0])
        share = np.where(inside, (x - table.total[j]) / np.where(inside, width, 1.0), 0.0)
        split = table.split[:, j] * (1 - share) + table.split[:, after] * share
        found = np.minimum(_along(self.base, split, x), np.where(x >= table.total[0], table.delta[j], 1.0))
        # The curve is convex in e^ε, and so below its chords; it is 1 at e^ε = 0.
        near = inside & (width < _FARTHEST)
        part = np.expm1(np.where(near, x - table.total[j], 0.0)) / np.expm1(np.where(near, width, 1.0))
        chord = table.delta[j] + (table.delta[after] - table.delta[j]) * np.clip(part, 0.0, 1.0)
        found = np.minimum(found, np.where(near, chord * (1 + 16 * _UNIT), 1.0))
        first = 1 + (table.delta[0] - 1) * np.exp(np.minimum(x - table.total[0], 0.0))
        found = np.minimum(found, np.where(x < table.total[0], first * (1 + 16 * _UNIT), 1.0))
        found = np.where(x >= self.epsilon_max, np.minimum(found, self._least()), found)
        return np.maximum(found, -np.expm1(np.minimum(x, 0.0)))

    def reverse(self) -> Pair:
        """Return the reversed pair, k times: the same steps back."""
        return GroupPair(self.base.reverse(), self.k)

    @property
    def work(self) -> float:
        return max(1.0, self.k * self.base.work / 8)

    @property
    def epsilon_max(self) -> float:
        largest = self.base.epsilon_max
        return above(self.k * Fraction(largest)) if math.isfinite(largest) else math.inf

    def _least(self) -> float:
        """δ(∞): each of the k steps adds its own, grown e^ε_max-fold in each step after it."""
        largest = self.base.epsilon_max
        if not math.isfinite(largest):
            return 1.0
        at_last = float(self.base.delta(np.array([largest]))[0])
        grown = at_last * math.fsum(math.exp(min(i * largest * (1 + 8 * _UNIT), _FARTHEST)) for i in range(self.k))
        return min(grown * (1 + ACCURACY), 1.0) if at_last else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Splits with their sums in rising order, and a bound on the curve at each sum."""

    split: NDArray[np.float64]
    total: Curve
    delta: Curve


def _along(base: Pair, split: NDArray[np.float64], target: Curve) -> Curve:
    """Σ e^(ε₁ + … + ε_(i−1)) δ(ε_i), the last of the split first, which is moved so that the sum is `target`."""
    size = np.abs(split).sum(axis=0) + np.abs(target)
    error = 4 * _UNIT * (split.shape[0] + 1) * size
    last = split[0] + (target - split.sum(axis=0)) - error  # a smaller ε has the larger curve
    value = np.where(last < -_FARTHEST, 1.0, base.upper(np.clip(last, -_FARTHEST, _end(base))))
    for step in split[1:]:
        value = base.upper(step) + np.exp(np.minimum(step, _FARTHEST)) * value * (1 + 8 * _UNIT)
    return np.asarray(np.minimum(value * (1 + 4 * split.shape[0] * _UNIT), 1.0))


@lru_cache(maxsize=32)
def _table(base: Pair, k: int) -> _Table:
    """Best splits: where an event of probability x under Q leads when each step is the worst one."""
    t = np.linspace(0.05, _DEEPEST, _POINTS)
    small = np.exp(-t * t)
    x = np.unique(np.concatenate([small[small < 0.5], 1 - small[small < 0.5], [0.5]]))
    x = x[(x > 0) & (x < 1)]
    low, high = -_end(base.reverse()), _end(base)
    if base.reverse().delta(np.array([-low]))[0] > 0:  # where only Q has mass, the best ε is −∞
        low = min(low, -_FARTHEST / 2)
    splits = []
    for _ in range(k):
        splits.append(_slope(base, x, low, high))
        x = np.minimum(base.delta(splits[-1]) + np.exp(splits[-1]) * x, 1.0)
    split = np.array(splits)
    total = split.sum(axis=0)
    order = np.argsort(total, kind="stable")
    split, total = split[:, order], total[order]
    keep = np.append(np.diff(total) > 1e-12 * (1 + np.abs(total[1:])), True)
    split, total = split[:, keep], total[keep]
    # `total` is rounded: the bound at it is made with room for that.
    delta = _along(base, split, total) * (1 + ACCURACY)
    delta = np.minimum.accumulate(np.minimum(delta, 1.0))
    return _Table(split, total, delta)


def _slope(base: Pair, x: Curve, least: float, most: float) -> Curve:
    """Where δ(ε) + e^ε x is least; it is convex in e^ε. Any ε is sound, the best one is tight."""
    golden = (math.sqrt(5) - 1) / 2

    def value(e: Curve) -> Curve:
        return np.asarray(base.delta(e) + np.exp(e) * x)

    low, high = np.full_like(x, least), np.full_like(x, most)
    for _ in range(2):  # a scan first: far below, where all of it is 1, golden sections would lose their way
        grid = low + (high - low) * np.linspace(0.0, 1.0, 65)[:, None]
        best = 64 - np.argmin(value(grid)[::-1], axis=0)  # of equal ones the largest ε
        columns = np.arange(x.size)
        low, high = grid[np.maximum(best - 1, 0), columns], grid[np.minimum(best + 1, 64), columns]
    a, b = high - golden * (high - low), low + golden * (high - low)
    fa, fb = value(a), value(b)
    for _ in range(40):
        left = fa < fb
        low, high = np.where(left, low, a), np.where(left, b, high)
        a, b = high - golden * (high - low), low + golden * (high - low)
        fa, fb = value(a), value(b)
    found = (low + high) / 2
    for end in (most, least):  # where pure curves bend
        at_end = np.full_like(x, end)
        found = np.where(value(at_end) <= value(found), at_end, found)
    return np.asarray(found)


def _end(base: Pair) -> float:
    """Return an ε beyond which the curve is constant, or which no float e^ε goes beyond."""
    return min(base.epsilon_max, _FARTHEST)


_TAIL = 45.0  # deviations beyond which the normal law has less than FLOOR
_FARTHEST_LOSS = 690.0  # a loss up to which e^ε is a float with room to spare
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
        e = np.clip(np.ravel(given), -_FARTHEST_LOSS, _FARTHEST_LOSS)  # a smaller ε has the larger curve
        one = self._removed if self.removes else self._added
        rows = max(_BLOCK // self.k, 1)
        curve = np.concatenate([one(e[i : i + rows]) for i in range(0, e.size, rows)] or [e])
        found = np.clip(curve, -np.expm1(np.minimum(e, 0.0)), 1.0).reshape(given.shape)
        found = np.where(given < -_FARTHEST_LOSS, 1.0, found)
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
                (total + error + 4 * _UNIT * np.abs(target[i]) <= target[i]) & (losses <= _FARTHEST_LOSS).all(axis=0)
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
            share = np.exp(np.minimum(math.log(weight[j - 1]) + losses[j - 1] + epsilon, _FARTHEST_LOSS))
            total += share * GaussianPair(self.mu_squared * j * j).delta(-losses[j - 1])
        # As above at the last x, unless it was a ratio that is no float that did not count in full.
        rest = np.where((losses <= _FARTHEST_LOSS).all(axis=0), 0.0, 1.0)
        return np.where(good, total * (1 + (2 * self.k + 4 * _FARTHEST_LOSS) * _UNIT), rest)

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
        knots, at = _sampled_table(self)
        x = np.interp(log_left, at, knots)
        steps = self._mu() * np.arange(1.0, self.k + 1)
        for _ in range(_NEWTON):
            part = np.exp(np.minimum(self._losses(x) + log_weight[:, None] - log_left, 300.0))
            total, slope = part.sum(axis=0), np.maximum(steps @ part, 1e-300)
            x = np.clip(x - np.log(np.maximum(total, 1e-300)) * total / slope, -_TAIL, self._last())
        # Once more without cancellation, as it will be compared.
        losses = self._losses(x)
        total, error = _excess(losses, weight)
        slope = weight @ (np.exp(np.minimum(losses, _FARTHEST_LOSS - 10)) * steps[:, None])
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
    grown = np.expm1(np.minimum(losses, _FARTHEST_LOSS))
    return weight @ grown, (8 + weight.size) * _UNIT * (weight @ np.abs(grown))


def _halved(fits: Callable[[Curve, Places], Fits], inner: Curve, outer: Curve, i: Places, n: int) -> Curve:
    """Return the last x seen to fit between `inner`, which is taken to, and `outer`."""
    for _ in range(n):
        middle = (inner + outer) / 2
        held = fits(middle, i)
        inner, outer = np.where(held, middle, inner), np.where(held, outer, middle)
    return inner


@lru_cache(maxsize=32)
def _sampled_table(pair: SampledGroupPair) -> tuple[Curve, Curve]:
    """Places x, and the logarithm of Σ_j≥1 w_j α_j at each."""
    knots = np.linspace(-_TAIL, pair._last(), 1 << 12)
    terms = pair._losses(knots) + np.log(np.maximum(pair._weights(above), 1e-300))[:, None]
    top = terms.max(axis=0)
    return knots, np.asarray(top + np.log(np.exp(terms - top).sum(axis=0)))
