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
from discreet.privacy.pairs.gaussian import GaussianPair
from discreet.privacy.sampling import PoissonPair

_FAR = 12.0  # deviations
_COARSE, _FINE = 400, 16_000  # intervals
_LEFT_OUT = 1e-9  # of δ: where intervals need not be narrow
_LEAST, _MOST = 1e-3, 20.0  # μ = 1/σ
_OFF = 1e-10  # relatively: far more than a mass of an interval is off
_LOOKS = 60
_CLOSE = 2e-8  # of ε, relatively, and a tenth of it absolutely: no closer is looked for


def answers(sides: Sequence[Sequence[tuple[Pair, int]]]) -> bool:
    """Whether each side is two uses of one sample."""
    return bool(sides) and all(
        len(side) == 1 and side[0][1] == 2 and _is_sampled(side[0][0]) for side in sides
    )


def epsilon_bounds(parts: Sequence[tuple[Any, int]], delta: float) -> Bounds | None:
    """Bounds of the least ε ≥ 0 at which δ(ε) is at most delta."""
    ((pair, _),) = parts
    if not _is_sampled(pair):
        return None
    mu = _mu(pair)
    if not _LEAST < mu < _MOST:
        return None
    coarse = _Cells(pair, mu, np.linspace(-_FAR, mu + _FAR, _COARSE))
    about = coarse.least(delta)
    if about is None:
        return None
    return _Cells(pair, mu, coarse.refined(about)).bounds(delta, about)


def _is_sampled(pair: Pair) -> TypeGuard[PoissonPair]:
    return isinstance(pair, PoissonPair) and isinstance(pair.base, GaussianPair) and pair.accuracy < 1e-9


def delta_bounds(parts: Sequence[tuple[Any, int]], epsilon: float) -> Bounds:
    """Bounds of δ(ε)."""
    ((pair, _),) = parts
    if not _is_sampled(pair) or not _LEAST < (mu := _mu(pair)) < _MOST:
        return Bounds(0.0, 1.0)
    coarse = _Cells(pair, mu, np.linspace(-_FAR, mu + _FAR, _COARSE))
    return Bounds(*_Cells(pair, mu, coarse.refined(epsilon)).value(epsilon))


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
        least = math.log1p(-q)
        ends = np.concatenate([[least], loss, [math.inf]])
        self.loss = ends if pair.removes else -ends
        with np.errstate(divide="ignore", invalid="ignore"):
            self.mean = np.log(self.p) - np.log(self.q)

    def value(self, epsilon: float) -> tuple[float, float]:
        """Bounds of δ(ε)."""
        known = (self.p > 0) & (self.q > 0)
        at = np.where(
            np.isfinite(self.loss), epsilon - self.loss, -math.inf if self.loss[-1] > 0 else math.inf
        )
        ends = np.where(np.isfinite(at), self.pair.upper(np.where(np.isfinite(at), at, 0.0)), 0.0)
        ends[np.isneginf(at)] = 1.0
        first, last = ends[:-1], ends[1:]
        middle = np.where(known, epsilon - self.mean, 0.0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            one, two = np.exp(at[:-1] - middle), np.exp(at[1:] - middle)
            share = (1 - two) / (one - two)  # of the first end, so that the mean is kept
            slip = _OFF / np.abs(one - two)
        share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 0.5)
        change = np.abs(first - last)
        moved = np.minimum(np.where(np.isnan(slip), math.inf, slip), 1.0) * change
        chord = np.where(known, np.minimum(share * first + (1 - share) * last + moved, 1.0), 1.0)
        upper = dot(self.p, chord) * (1 + _OFF) + FLOOR
        tangent = np.where(known, self.pair.upper(middle + _OFF), 0.0)
        lower = dot(self.p, tangent) * (1 - _OFF - 3 * self.pair.accuracy - 3 * ACCURACY) - 2 * FLOOR
        return max(lower, 0.0), min(upper, 1.0)

    def least(self, delta: float) -> float | None:
        """About the ε at which δ(ε) is delta: 0 if it is less there."""
        if self.value(0.0)[1] <= delta:
            return 0.0
        high = 1.0
        while self.value(high)[1] > delta:
            high *= 2
            if high > 1e4:
                return None
        return self._root(delta, 0.0, high, 1e-3)

    def refined(self, epsilon: float) -> Floats:
        """Ends of narrow intervals where they matter at ε."""
        weight = self.p * np.append(0.0, self.pair.upper(epsilon - self.mean[1:]))
        weight = np.where(np.isfinite(weight), weight, 0.0)
        total = np.cumsum(weight) / max(float(weight.sum()), 1e-300)
        first = max(int(np.searchsorted(total, _LEFT_OUT)) - 2, 0)
        last = min(int(np.searchsorted(total, 1 - _LEFT_OUT)) + 2, self.x.size - 1)
        fine = np.linspace(self.x[first], self.x[last], _FINE)
        return np.concatenate([self.x[:first], fine, self.x[last + 1 :]])

    def bounds(self, delta: float, about: float) -> Bounds | None:
        """Bounds of ε, looked for around a guess."""
        low, high = 0.98 * about, 1.02 * about + 1e-12
        if self.value(0.0)[1] <= delta:
            return Bounds(0.0, 0.0)
        if not self.value(high)[1] <= delta:
            return None
        if self.value(low)[1] <= delta:
            low = 0.0
        upper = self._root(delta, low, high, _CLOSE)
        gap, value = 1e-12 * upper + 1e-15, self.value(upper)
        slope = (self.value(0.99 * upper)[1] - value[1]) / (0.01 * upper) if upper else 0.0
        if slope > 0:
            gap = max(gap, 1.1 * (delta - value[0]) / slope)
        for _ in range(20):
            lower = max(upper - gap, 0.0)
            if not lower or self.value(lower)[0] > delta:
                return Bounds(lower, upper)
            gap *= 1.5
        return Bounds(0.0, upper)

    def _root(self, delta: float, low: float, high: float, close: float) -> float:
        """An ε at which the upper bound was seen to be at most delta, near where it is delta: by false position."""
        goal, left, right = math.log(delta), self.value(low)[1], self.value(high)[1]
        for i in range(_LOOKS):
            if high - low <= close * max(high, 1e-3 if close < 1e-3 else 1e-9):
                break
            one, two = math.log(left) - goal, math.log(max(right, 1e-300)) - goal
            share = one / (one - two) if i % 3 < 2 and one > 0 > two else 0.5
            middle = low + min(max(share, 0.002), 0.998) * (high - low)
            if i % 3 == 1:  # just on the other side of where it should be, to close in from both
                middle = min(max(low + share * (high - low) + close * high / 2, low), high)
            found = self.value(middle)[1]
            if found <= delta:
                high, right = middle, found
            else:
                low, left = middle, found
        return high


def _masses(x: Floats) -> Floats:
    """The normal masses of (−∞, x₀], …, [xₙ, ∞)."""
    tails = 0.5 * np.fromiter(map(math.erfc, (np.abs(x) / math.sqrt(2)).tolist()), np.float64, x.size)
    inside = np.where(x[1:] <= 0, tails[1:] - tails[:-1], tails[:-1] - tails[1:])
    across = (x[:-1] < 0) & (x[1:] > 0)
    inside[across] = 1 - tails[:-1][across] - tails[1:][across]
    ends = (tails[0] if x[0] < 0 else 1 - tails[0]), (tails[-1] if x[-1] > 0 else 1 - tails[-1])
    return np.concatenate([ends[:1], inside, ends[1:]])
