"""The pair of k neighbouring steps in a row, each dominated by one pair: k-fold iteration of a trade-off function.

For every ε₁ + … + ε_k ≤ ε the curve is at most Σ e^(ε₁ + … + ε_(i−1)) δ(ε_i), and the best split makes it equal.
So a split may come from anywhere: here from a table of best splits, found once for each pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.exact import above
from discreet.privacy.pair import ACCURACY, Curve, Pair

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
