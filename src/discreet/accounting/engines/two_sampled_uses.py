"""Two uses of Gaussian noise on a Poisson sample, by going through what the first one says.

With w = dP/dQ of one use and h(α) the curve of one use at ε = log α, two uses have δ(ε) = E_P[h(e^ε/w)]. h is
convex, and over an interval of outcomes E_P[e^ε/w] is e^ε times its mass under Q: so the tangent there bounds
that part from below, and the chord from above. Proof: docs/proofs/contour.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

from discreet.accounting.bounds import Bounds
from discreet.privacy.exact import above
from discreet.privacy.nonuniform import Floats, dot
from discreet.privacy.pair import ACCURACY, FLOOR, Pair
from discreet.privacy.pairs.additive import GaussianPair
from discreet.privacy.sampling import PoissonPair

_FAR = 12.0  # deviations
_COARSE, _FINEST = 400, 40_000  # intervals
_NARROWEST = 5e-4  # deviations: of an interval
_LEAST, _MOST = 1e-3, 20.0  # μ = 1/σ
_OFF = 1e-10  # relatively: far more than a mass of an interval is off, whatever its width
_UNIT = 2.0**-53
_LOOKS, _FEW_LOOKS = 60, 8
_CLOSE = 1e-8  # of ε: no closer is looked for
_NO_CLOSER = 2e-12  # the same, absolutely
_APART = 6e-8  # of ε: how far tangents and chords may let the bounds be apart
_NEAR_ZERO = 1e-11  # the same, absolutely
_SHARP = 1e-6  # of δ: the same where ε is given


def answers(sides: Sequence[Sequence[tuple[Pair, int]]]) -> bool:
    """Return whether each side is two uses of one sample."""
    return bool(sides) and all(len(side) == 1 and side[0][1] == 2 and _is_sampled(side[0][0]) for side in sides)


def epsilon_bounds(parts: Sequence[tuple[Any, int]], delta: float) -> Bounds | None:
    """Bounds of the least ε ≥ 0 at which δ(ε) is at most delta."""
    ((pair, _),) = parts
    if not _is_sampled(pair) or not _is_within(pair):
        return None
    mu = _mu(pair)
    coarse = _Cells(pair, mu, np.linspace(-_FAR, mu + _FAR, _COARSE))
    about = coarse.least(delta)
    if about is None:
        return None
    if about == 0.0:  # its upper bound of δ(0) says so
        return Bounds(0.0, 0.0)
    slope = coarse.slope(about)
    return _Cells(pair, mu, coarse.refined(about, max(_APART * about, _NEAR_ZERO) * slope)).bounds(delta, about, slope)


def _is_sampled(pair: Pair) -> TypeGuard[PoissonPair]:
    return isinstance(pair, PoissonPair) and isinstance(pair.base, GaussianPair) and pair.accuracy < 1e-9


def delta_bounds(parts: Sequence[tuple[Any, int]], epsilon: float) -> Bounds:
    """Bounds of δ(ε)."""
    ((pair, _),) = parts
    if not _is_sampled(pair) or not _is_within(pair):
        return Bounds(0.0, 1.0)
    mu = _mu(pair)
    coarse = _Cells(pair, mu, np.linspace(-_FAR, mu + _FAR, _COARSE))
    fine = _Cells(pair, mu, coarse.refined(epsilon, _SHARP * coarse.upper(epsilon)))
    upper = fine.upper(epsilon)
    return Bounds(min(fine.lower(epsilon), upper), upper)


def _is_within(pair: PoissonPair) -> bool:
    """Return whether floats carry its losses."""
    return _LEAST < _mu(pair) < _MOST and 0 < above(pair.rate) < 1


def _mu(pair: PoissonPair) -> float:
    assert isinstance(pair.base, GaussianPair)
    return math.sqrt(above(pair.base.mu_squared))


class _Cells:
    """The outcomes of the first use in intervals, each with its masses under both sides."""

    def __init__(self, pair: PoissonPair, mu: float, x: Floats) -> None:
        self.pair, self.x = pair, x
        q = above(pair.rate)
        without, having = _masses(x), _masses(x - mu)
        mixed = (1 - q) * without + q * having
        self.p, self.q = (mixed, without) if pair.removes else (without, mixed)
        u = mu * x - mu * mu / 2
        loss = np.where(
            u < 30, np.log1p(q * np.expm1(np.minimum(u, 30.0))), np.logaddexp(math.log1p(-q), math.log(q) + u)
        )
        # The intervals at both ends reach as far as a loss can go.
        ends = np.concatenate([[math.log1p(-q)], loss, [math.inf]])
        self.loss = ends if pair.removes else -ends
        self.known = (without > 0) & (having > 0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mean = np.log1p(q * (having / without - 1))
            self.mean = mean if pair.removes else -mean
        # What is off in w and its mean hangs on the part of w that the sample makes; the rest are roundings.
        grown = np.exp(np.clip(u, -600.0, 600.0))
        sampled = np.concatenate([[q / (1 - q)], q * (1 + grown) / ((1 - q) + q * grown), [1.0]])
        rounded = 4 * _UNIT * np.where(np.isfinite(ends), np.abs(ends), 0.0)
        self.end_off = 8 * _UNIT * (1 + mu * (_FAR + mu)) * sampled + rounded
        mean_off = np.maximum(sampled[:-1], sampled[1:]) * _off(x, mu) + 4 * _UNIT * np.abs(mean)
        self.off = np.where(self.known, mean_off, 1.0)

    def upper(self, epsilon: float) -> float:
        """Return an upper bound of δ(ε), by chords."""
        return min(dot(self.p, self._chord(epsilon)) * (1 + _OFF) + FLOOR, 1.0)

    def lower(self, epsilon: float) -> float:
        """Return a lower bound of δ(ε), by tangents."""
        off = _OFF + 3 * self.pair.accuracy + 3 * ACCURACY
        return max(dot(self.p, self._tangent(epsilon)) * (1 - off) - 2 * FLOOR, 0.0)

    def _chord(self, epsilon: float) -> Floats:
        """At least the mean of h over each interval."""
        at = epsilon - self.loss
        # At ends that are rounded h is taken where it is larger, and shares of intervals are moved to the worse side.
        rounding = 4 * _UNIT * epsilon
        ends = np.where(np.isneginf(at), 1.0, 0.0)
        finite = np.isfinite(at)
        ends[finite] = self.pair.upper((at - self.end_off - rounding)[finite])
        first, last = ends[:-1], ends[1:]
        middle = np.where(self.known, epsilon - self.mean, 0.0)
        slip = np.where(self.known, self.off + self.end_off[:-1] + self.end_off[1:] + 2 * rounding, 0.0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            one, two = np.expm1(at[:-1] - middle), np.expm1(at[1:] - middle)
            share = -two / (one - two)  # of the first end, so that the mean is kept
            moved = np.minimum(slip / np.abs(one - two) + 16 * _UNIT, 1.0)
        within = np.clip(share, 0.0, 1.0) * (first - last) + last + moved * np.abs(first - last)
        chord = np.where(np.isfinite(share) & np.isfinite(moved), within, np.maximum(first, last))
        return np.where(self.known, np.minimum(chord, 1.0), 1.0)

    def _tangent(self, epsilon: float) -> Floats:
        """At most the mean of h over each interval, but for what h is off."""
        middle = np.where(self.known, epsilon - self.mean + self.off + 4 * _UNIT * epsilon, 0.0)
        return np.where(self.known, self.pair.upper(middle), 0.0)

    def slope(self, epsilon: float) -> float:
        """About how fast δ falls at ε > 0."""
        return max(self.upper(0.99 * epsilon) - self.upper(epsilon), 0.0) / (0.01 * epsilon)

    def least(self, delta: float) -> float | None:
        """About the ε at which δ(ε) is delta: 0 if it was seen to be less there."""
        if self.upper(0.0) <= delta:
            return 0.0
        high = 1.0
        while self.upper(high) > delta:
            high *= 2
            if high > 1e4:
                return None
        return self._root(delta, 0.0, high, 1e-3)

    def refined(self, epsilon: float, gap: float) -> Floats:
        """Return the ends of narrower intervals, so that the two bounds of δ(ε) are about `gap` apart.

        With n parts an interval's own gap is n² times as small: so the least number of parts in all is had by
        parts in proportion to the cube root of the gaps.
        """
        gaps = self.p * np.maximum(self._chord(epsilon) - self._tangent(epsilon), 0.0)
        part = np.cbrt(gaps[1:-1])
        part = np.maximum(part, np.maximum(np.append(part[1:], 0.0), np.append(0.0, part[:-1])))
        whole = float(part.sum())
        count = min(math.sqrt(whole**3 / gap), _FINEST) if gap > 0 else _FINEST
        width = float(self.x[1] - self.x[0])
        parts = np.ceil(part * (count / whole)) if whole else np.ones_like(part)
        parts = np.clip(parts, 1, math.ceil(width / _NARROWEST)).astype(np.intp)
        first = np.cumsum(parts) - parts
        within = np.arange(int(parts.sum())) - np.repeat(first, parts)
        fine = np.repeat(self.x[:-1], parts) + within * np.repeat(np.diff(self.x) / parts, parts)
        return np.append(fine, self.x[-1])

    def bounds(self, delta: float, about: float, slope: float) -> Bounds | None:
        """Bounds of ε, looked for around a guess, where δ falls about so fast."""
        upper = self._near(delta, about, slope)
        if upper is None:
            return None
        gap = 1e-12 * upper + 1e-15
        if slope > 0:
            gap = max(gap, 1.05 * (delta - self.lower(upper)) / slope)
        for _ in range(20):
            lower = max(upper - gap, 0.0)
            if not lower or self.lower(lower) > delta:
                return Bounds(lower, upper)
            gap *= 1.5
        return Bounds(0.0, upper)

    def _near(self, delta: float, about: float, slope: float) -> float | None:
        """Return an ε at which the upper bound was seen to be at most delta, near where it is delta: by secants."""
        epsilon, goal, best = about, math.log(delta), math.inf
        fall = slope / delta
        before: tuple[float, float] | None = None
        for _ in range(_FEW_LOOKS):
            excess = math.log(self.upper(epsilon)) - goal
            close = max(_CLOSE * epsilon, _NO_CLOSER)
            if excess <= 0:
                best = min(best, epsilon)
                if -excess <= close * fall or epsilon == 0.0:
                    return epsilon
            if before is not None and before[0] != epsilon:
                fall = max((before[1] - excess) / (epsilon - before[0]), 0.1 * fall)
            before = epsilon, excess
            if not fall > 0:
                break
            epsilon = max(epsilon + excess / fall + close / 2, 0.5 * epsilon)
        high = min(best, 1.02 * about + 1e-12)
        if self.upper(0.0) <= delta:
            return 0.0
        if not self.upper(high) <= delta:
            return None
        low = 0.98 * about
        return self._root(delta, low if low < high and self.upper(low) > delta else 0.0, high, _CLOSE)

    def _root(self, delta: float, low: float, high: float, close: float) -> float:
        """Return an ε at which the upper bound was seen to be at most delta, near the root: by false position."""
        goal, left, right = math.log(delta), self.upper(low), self.upper(high)
        for i in range(_LOOKS):
            if high - low <= close * max(high, 1e-3 if close < 1e-3 else 1e-9):
                break
            one, two = math.log(left) - goal, math.log(max(right, 1e-300)) - goal
            share = one / (one - two) if i % 3 < 2 and one > 0 > two else 0.5
            middle = low + min(max(share, 0.002), 0.998) * (high - low)
            if i % 3 == 1:  # just on the other side of where it should be, to close in from both
                middle = min(max(low + share * (high - low) + close * high / 2, low), high)
            found = self.upper(middle)
            if found <= delta:
                high, right = middle, found
            else:
                low, left = middle, found
        return high


def _masses(x: Floats) -> Floats:
    """Return the normal masses of (−∞, x₀], …, [xₙ, ∞)."""
    tails = 0.5 * np.fromiter(map(math.erfc, (np.abs(x) / math.sqrt(2)).tolist()), np.float64, x.size)
    inside = np.where(x[1:] <= 0, tails[1:] - tails[:-1], tails[:-1] - tails[1:])
    across = (x[:-1] < 0) & (x[1:] > 0)
    inside[across] = 1 - tails[:-1][across] - tails[1:][across]
    ends = (tails[0] if x[0] < 0 else 1 - tails[0]), (tails[-1] if x[-1] > 0 else 1 - tails[-1])
    return np.concatenate([ends[:1], inside, ends[1:]])


def _off(x: Floats, mu: float) -> Floats:
    """Return how far the ratio of the two masses of each interval may be off, relatively: less, the wider it is.

    An end at x or x − μ is rounded by three units of 12 + μ at most, and a tail by a few of itself, which is at most
    1.26 times the density there; inside of an interval the density changes by a factor e^(width·(12 + μ)) at most.
    """
    far, width = _FAR + mu, np.diff(x)
    inside = _UNIT * 16 * (far + 2) * np.exp(far * width) / width
    return np.concatenate([[_OFF], inside, [_OFF]])
