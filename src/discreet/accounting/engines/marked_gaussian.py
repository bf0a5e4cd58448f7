"""Sampled Gaussian noise divided by the largest loss of a use, by windows that are smooth in the loss.

With λ = log(1 + q/(1−q)·e^u) = l − log(1−q) ≥ 0 a use stays below the level a with the chance
ψ_a = Φ((a − λ)/τ), given its outcome, where 1/τ = 1/κa + 1/τ₀. ψ_a rises with a, so one uniform number per use
decides for all levels at once, and the outcomes whose highest use is between two levels are what the law has
below the one but not below the other: A_high^T − A_low^T. Proofs: docs/proofs/contour.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from discreet.accounting.engines.bent import bent
from discreet.accounting.engines.sampled_loss import (
    UNIT,
    checked,
    difference,
    fallen,
    half_erfc,
    loss_slips,
    losses,
    one_by_one,
    power,
)
from discreet.accounting.engines.windows import BEYOND, FAR, LARGEST, SMOOTH, WIDEST, cells, farthest, place, spread
from discreet.privacy.law import Law
from discreet.privacy.nonuniform import PHASE, Complex, Floats, dot, line_sizes, line_sums, summed

_LEAST_SIGMA = 0.1
_MOST = 4e4  # points of the rule
_MOST_PRODUCTS = 3e7  # of points and heights
_SMALLEST = 1e-290  # what is kept below loses digits
_FAINT = 1e-24  # of the largest term along a line: what is left out, and counted as an error
_SPACING, _WIDE = 1 / 8, 4 / 3  # deviations between points that are few
_PAIR = tuple[Complex, Floats]


def divides(sigma: float, rate: float, level: float) -> bool:
    """Return whether uses can be divided at that level: floats must reach well beyond it."""
    return (
        sigma >= _LEAST_SIGMA
        and 1e-30 < rate < 1
        and rate / (1 - rate) < level < LARGEST / 4
        and place(sigma, rate, BEYOND * level) < farthest(sigma)
    )


@dataclass(frozen=True, slots=True)
class MarkedGaussianLaw(Law):
    """What `SampledGaussianLaw` has where every use is below `high` and, if `low` is not 0, not all are below it."""

    sigma: float
    rate: float
    steps: int
    removes: bool
    low: float = 0.0
    high: float = math.inf

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        return one_by_one(self, z)

    def line(self, c: float, step: float, count: int) -> tuple[Complex, Floats]:
        return self._line(self._power(c), step, count)

    def rough(self, c: Floats) -> Floats:
        with np.errstate(all="ignore"):
            normal, loss, low, high = _rough_windows(self.sigma, self.rate, self.low, self.high)
            top = np.multiply.outer(1 + c if self.removes else -c, loss) + (normal + high)
            most = top.max(axis=1)
            grown = np.exp(top - most[:, None])
            sums = grown.sum(axis=1)
            whole = most + np.log(sums)
            if not self.low:
                return np.asarray(self.steps * whole)
            share = np.minimum(grown @ low / sums, 1 - 1e-12)
            return np.asarray(self.steps * whole + np.log(-np.expm1(self.steps * np.log1p(-share))))

    def falls(self, c: float, y: Floats) -> Floats:
        if self.low:
            return np.full(y.size, -math.inf)
        with np.errstate(all="ignore"):
            normal, loss, _, high = _rough_windows(self.sigma, self.rate, self.low, self.high)
            return fallen(self.steps, self._power(c) * loss + normal + high, loss, y)

    def decay(self, c: float, y: float) -> float:
        with np.errstate(all="ignore"):
            found = self._decay(c, y)
        return found if found < 0 else 0.0

    def _decay(self, c: float, y: float) -> float:
        p = self._power(c)
        around = cells(self.sigma, self.rate, p, self.low, self.high)
        if around is None:
            return 0.0
        if not self.low:
            return self.steps * bent(self.sigma, self.rate, p, around.start, around.end, self.high).log(y)
        least, whole = _real(self, p)
        return math.log(self.steps) + around.bound(y) + (self.steps - 1) * whole + 1e-9 - least

    def mirror(self) -> Law | None:
        return replace(self, removes=False) if self.removes else None

    def masses(self) -> tuple[float, float, float]:
        (p, p_off), (q, q_off) = self._mass(True), self._mass(False)
        return p, q, max(p_off, q_off)

    def p_most(self) -> float:
        if not (self.low and self.high == math.inf):
            return 1.0
        return min(self.steps * _beyond(self.sigma, self.rate, self.removes, self.low), 1.0)

    def _mass(self, under_p: bool) -> tuple[float, float]:
        value, error = self._line(1.0 if under_p == self.removes else 0.0, 0.0, 1)
        if not value[0].real < math.inf:
            return 1.0, math.inf
        return math.exp(min(float(value[0].real), 1.0)), math.expm1(float(error[0])) + 8 * UNIT

    def _power(self, c: float) -> float:
        return 1 + c if self.removes else -c

    def _line(self, p: float, step: float, count: int) -> tuple[Complex, Floats]:
        with np.errstate(all="ignore"):
            return self._composed(*self._both(p, step, count))

    def _composed(self, a: _PAIR, b: _PAIR) -> tuple[Complex, Floats]:
        if not self.low:
            return checked(*power(self.steps, *a))
        return checked(*difference(self.steps, (a[0] + b[0], a[1] + b[1]), a, b))

    def _both(self, p: float, step: float, count: int) -> tuple[_PAIR, _PAIR]:
        """Return a − 1 of the lower window (of the upper one if alone), and what is between; with their errors."""
        infinite = np.full(count, math.inf + 0j), np.full(count, math.inf)
        height = abs(step) * (count - 1)
        around = cells(self.sigma, self.rate, p, self.low, self.high) if abs(p) < 1e7 else None
        if around is None:
            return infinite, infinite
        spacing, rule_calm, rule_band = around.rule(height)
        points = (around.end - around.start) / spacing if spacing > 0 else math.inf
        if not points < _MOST or points * count > _MOST_PRODUCTS:
            return infinite, infinite
        first, last = math.floor(around.start / spacing), math.ceil(around.end / spacing)
        at = _points(self.sigma, self.rate, self.low, self.high, spacing, first, last)
        loss, slip, normal, low, high = at.loss, at.slip, at.normal, at.low, at.high
        grows = p * loss
        exponent = grows + normal
        if float((exponent + at.kept).max()) > LARGEST:
            return infinite, infinite
        grown = np.exp(np.minimum(exponent, LARGEST)) * at.share
        slipped = np.abs(p) * slip + 2 * np.abs(grows)
        end = math.exp(min(float(exponent[-1]), LARGEST))
        rest = 2 * math.erfc(FAR / math.sqrt(2)) * math.exp(min(max(p * math.log1p(-self.rate), 0.0), LARGEST))
        gone = spacing / self.sigma

        def total(weight: Floats, sizes: Floats, base: float, base_off: float, cut: float, vanished: float) -> _PAIR:
            """Return the sums along the line; `sizes` are the weights, in units of which the window is off."""
            error = base_off + dot(slipped, weight) + 4 * abs(base)
            if count == 1:
                return np.full(1, base + 0j), np.full(1, UNIT * error + cut + vanished)
            reached = weight * np.minimum(height * np.abs(loss), 2.0)  # |e^(iyl) − 1| is at most that
            known = reached > _FAINT * reached.max(initial=0.0)
            dropped = 1.05 * float(reached[~known].sum())
            part, far = weight[known], loss[known]
            off_at = (at.off + slipped)[known] + summed(weight.size)
            sums = line_sums(part, far if p > 0 else -far, step, count)
            heights: Floats = np.asarray(abs(step) * np.arange(count), dtype=np.float64)
            sums_off = line_sizes(part * off_at + sizes[known], far, heights)
            phases = heights * dot(slip[known] + PHASE * np.abs(far), part)
            return base + sums, UNIT * (error + sums_off + phases) + cut + dropped + vanished

        weight = low.inside * grown
        gains = np.where(grows > 1, weight - at.inside, at.inside * np.expm1(np.minimum(grows, 1.0)))
        base = float(gains.sum()) - at.outside
        terms = np.where(grows > 1, weight + at.inside, np.abs(gains))
        base_off = dot(terms, at.off + low.slip + 40) + at.outside_off
        cut = rest + end * low.end() + rule_calm
        calm = total(weight, low.slip * weight, base, base_off, cut, low.vanished(exponent) * gone)
        if not self.low:
            return calm, infinite
        weight = at.band * grown
        sizes = at.band_off * grown
        base, base_off = float(weight.sum()), dot(weight, at.off + 40) + float(sizes.sum())
        cut = rest + end * high.end() + rule_band
        vanished = (low.vanished(exponent) + high.vanished(exponent)) * gone
        return calm, total(weight, sizes, base, base_off, cut, vanished)


class _Kept:
    """ψ of one level at some points, and 1 − ψ, each with the units by which it may be off, relatively."""

    def __init__(self, sigma: float, x: Floats, level: Floats, at: float) -> None:
        self.at = at
        if at == math.inf:
            self.t = np.full(x.size, -math.inf)
            self.inside, self.outside = np.ones(x.size), np.zeros(x.size)
            self.slip = self.inside_slip = np.zeros(x.size)
            return
        wide = spread(at) * math.sqrt(2)
        self.t = (level - at) / wide
        self.inside, self.outside = half_erfc(self.t), half_erfc(-self.t)
        u = np.abs(2 * x - 1) / (2 * sigma**2)
        moved = level * (2 * u + 8) / wide + 4 * np.abs(self.t)
        self.slip = 8 + (2 * np.maximum(self.t, 0.0) + 2) * moved
        self.inside_slip = 8 + (2 * np.maximum(-self.t, 0.0) + 2) * moved

    def log(self) -> Floats:
        """Return an upper bound of the logarithm of ψ: that of erfc(t)/2 is at most −t² where it is out of range."""
        if self.at == math.inf:
            return np.zeros(self.inside.size)
        return np.where(self.t > 5, -self.t * self.t, np.log(np.maximum(self.inside, 1e-300)))

    def end(self) -> float:
        """Return an upper bound of ψ at the last point."""
        return 1.0 if self.at == math.inf else math.exp(float(self.log()[-1]))

    def vanished(self, exponent: Floats) -> float:
        """Return an upper bound of Σ e^exponent·ψ where ψ is below the range of floats; the exponent may be large."""
        if self.at == math.inf:
            return 0.0
        gone = self.inside < _SMALLEST
        return float(np.exp(np.minimum(exponent[gone] - self.t[gone] ** 2, 709.0)).sum())


def _band(low: _Kept, high: _Kept) -> tuple[Floats, Floats]:
    """ψ_high − ψ_low from what is small on either side, and the units of it that may be off."""
    left = low.t < 0
    band = np.where(left, low.outside - high.outside, high.inside - low.inside)
    off = np.where(
        left,
        low.outside * low.inside_slip + high.outside * high.inside_slip,
        high.inside * high.slip + low.inside * low.slip,
    )
    return np.maximum(band, 0.0), off + 4 * band


class _Points:
    """The points of one rule, and all that does not depend on the power of w."""

    def __init__(
        self, sigma: float, rate: float, low: float, high: float, spacing: float, first: int, last: int
    ) -> None:
        x: Floats = np.asarray(spacing * np.arange(first, last + 1), np.float64)
        self.loss = losses(sigma, rate, x)
        self.slip = loss_slips(sigma, rate, x, self.loss)
        self.normal = -x * x / (2 * sigma**2)
        self.off = 8 - 2 * self.normal  # units by which a term is off, apart from its growth and its window
        self.share = spacing / (sigma * math.sqrt(2 * math.pi))
        level = _levels(sigma, rate, x)
        self.low = _Kept(sigma, x, level, low or high)
        self.high = _Kept(sigma, x, level, high) if low else self.low
        self.kept = self.high.log()
        bare = np.exp(self.normal) * self.share
        self.inside = self.low.inside * bare
        outside = self.low.outside * bare
        self.outside = float(outside.sum())
        self.outside_off = dot(outside, self.off + self.low.inside_slip + 40)
        self.band, self.band_off = _band(self.low, self.high) if low else (self.inside, self.inside)


@lru_cache(maxsize=8)
def _points(sigma: float, rate: float, low: float, high: float, spacing: float, first: int, last: int) -> _Points:
    return _Points(sigma, rate, low, high, spacing, first, last)


@lru_cache(maxsize=4)
def _rough_points(sigma: float, rate: float) -> tuple[Floats, Floats, Floats]:
    """Points that are few: log of the normal law's share at each, the loss, and λ."""
    x = np.arange(-9.5, 13.0, _SPACING * min(sigma, _WIDE)) * sigma
    share = math.log((x[1] - x[0]) / (sigma * math.sqrt(2 * math.pi)))
    return share - x * x / (2 * sigma**2), losses(sigma, rate, x), _levels(sigma, rate, x)


@lru_cache(maxsize=8)
def _rough_windows(sigma: float, rate: float, low: float, high: float) -> tuple[Floats, Floats, Floats, Floats]:
    """As above, with 1 − ψ of the lower level and log ψ of the upper one in place of λ."""
    normal, loss, level = _rough_points(sigma, rate)
    marked = np.exp(_log_normal((level - low) / spread(low))) if low else level
    kept = _log_normal((high - level) / spread(high)) if high < math.inf else np.zeros(level.size)
    return normal, loss, marked, kept


@lru_cache(maxsize=16)
def _real(law: MarkedGaussianLaw, p: float) -> tuple[float, float]:
    """At the real power p: a lower bound of the logarithm of the law's, an upper one of that of a use below high."""
    with np.errstate(all="ignore"):
        (a, da), (b, db) = both = law._both(p, 0.0, 1)
        value, error = law._composed(*both)
    if not value[0].real < math.inf:
        return -math.inf, 0.0
    most = float(a[0].real + da[0]) + (float(b[0].real + db[0]) if law.low else 0.0)
    return float(value[0].real - error[0]), math.log1p(most)


def _beyond(sigma: float, rate: float, removes: bool, level: float) -> float:
    """At least the chance under P that a use has a mark at a level: 1 − ψ rises, so by steps from the left.

    E[1 − ψ] is at most the first value, and for each place the rise to the next one times the chance to be beyond.
    """
    tau = spread(level)
    s = np.arange(max(-0.97 * level / tau, -30.0), 9.0, 0.25)
    x = np.array([place(sigma, rate, at) for at in (level + tau * s).tolist()])
    value = half_erfc(-s / math.sqrt(2))
    beyond = half_erfc(x / (sigma * math.sqrt(2)))
    if removes:
        beyond = (1 - rate) * beyond + rate * half_erfc((x - 1) / (sigma * math.sqrt(2)))
    rises = np.append(np.diff(value), 1.0 - value[-1])
    return (float(value[0]) + dot(rises, beyond)) * (1 + 1e-6) + 1e-280


def marks(sigma: float, rate: float, levels: Floats) -> Floats:
    """About the chance of one use with the unit to have a mark at each of several levels."""
    normal, loss, level = _rough_points(sigma, rate)
    wide = 1 / (1 / (SMOOTH * levels) + 1 / WIDEST)
    marked = np.exp(_log_normal((level - levels[:, None]) / wide[:, None]))
    return np.asarray(marked @ np.exp(normal + loss))


def _levels(sigma: float, rate: float, x: Floats) -> Floats:
    """λ, to a relative accuracy."""
    return np.asarray(np.log1p(rate / (1 - rate) * np.exp((2 * x - 1) / (2 * sigma**2))))


def _log_normal(t: Floats) -> Floats:
    """About log Φ(t), within a few percent of Φ."""
    d = np.abs(t)
    tail = math.sqrt(2 / math.pi) * np.exp(-d * d / 2) / (d + np.sqrt(d * d + 8 / math.pi))
    far = -d * d / 2 + math.log(math.sqrt(2 / math.pi)) - np.log(d + np.sqrt(d * d + 8 / math.pi))
    return np.asarray(np.where(t > 0, np.log1p(-tail), far))
