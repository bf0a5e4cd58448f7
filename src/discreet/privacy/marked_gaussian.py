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

from discreet.privacy.law import Law
from discreet.privacy.nonuniform import Complex, Floats, dot, line_sizes, line_sums, summed
from discreet.privacy.sampled_loss import (
    UNIT,
    checked,
    difference,
    few_digits,
    half_erfc,
    loss_slips,
    losses,
    one_by_one,
    power,
)

_SMOOTH, _WIDEST = 0.07, 0.4  # κ and τ₀

_FAR = 14.0  # deviations of the normal law that are summed; what is left out is bounded and added
_BEYOND = 3.0  # levels at which the integrand falls for good, on every path that is used
_FARTHEST = 200.0  # deviations: a level that is reached only beyond is not divided at
_LEAST_SIGMA = 0.1
_TURNS = np.array([0.02, 0.05, 0.1, 0.16, 0.22, 0.3, 0.38, 0.46, 0.53, 0.6])  # a path turns by at most 0.6
_SMALL_TURNS = np.geomspace(2e-3, 0.5, 11)  # with _FURTHER a path turns by at most 0.65
_FURTHER = 0.15  # the turn by which a path is moved on to bound the quadrature of a height
_GOOD = 43.0  # the rule is good to about e^-40 of what it measures
_MOST = 4e4  # points of the rule
_MOST_PRODUCTS = 3e7  # of points and heights
_LARGEST = 700.0  # e to this is a float
_SMALLEST = 1e-290  # what is kept below loses digits
_PAIR = tuple[Complex, Floats]


def divides(sigma: float, rate: float, level: float) -> bool:
    """Whether uses can be divided at that level: floats must reach well beyond it."""
    return (
        sigma >= _LEAST_SIGMA
        and 1e-30 < rate < 1
        and rate / (1 - rate) < level < _LARGEST / 4
        and _place(sigma, rate, _BEYOND * level) < _farthest(sigma)
    )


def _farthest(sigma: float) -> float:
    return min(_FARTHEST * sigma, 600 * sigma**2)  # so that e^u is a float


def spread(level: float) -> float:
    """τ."""
    return 1 / (1 / (_SMOOTH * level) + 1 / _WIDEST)


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
            x = np.arange(-9.5, 13.0, min(self.sigma, 1.0) / 12) * self.sigma
            level = _levels(self.sigma, self.rate, x)
            grown = np.multiply.outer(
                1 + c if self.removes else -c, losses(self.sigma, self.rate, x)
            ) - x * x / (2 * self.sigma**2)
            top = (
                grown + _log_normal((self.high - level) / spread(self.high))
                if self.high < math.inf
                else grown
            )
            spacing = (x[1] - x[0]) / (self.sigma * math.sqrt(2 * math.pi))
            whole = _log_sum(top) + math.log(spacing)
            if not self.low:
                return np.asarray(self.steps * whole)
            band = _log_sum(top + _log_normal((level - self.low) / spread(self.low))) + math.log(spacing)
            share = np.minimum(np.exp(band - whole), 1 - 1e-12)
            return np.asarray(self.steps * whole + np.log(-np.expm1(self.steps * np.log1p(-share))))

    def decay(self, c: float, y: float) -> float:
        with np.errstate(all="ignore"):
            found = self._decay(c, y)
        return found if found < 0 else 0.0

    def _decay(self, c: float, y: float) -> float:
        p = self._power(c)
        if not self.low:
            nodes = _nodes(self.sigma, self.rate, p, self.high)
            if nodes is None:
                return 0.0
            least, whole = _real(self, p)
            return self.steps * min(nodes.size(y), whole) - least
        cells = _cells(self.sigma, self.rate, p, self.low, self.high)
        if cells is None:
            return 0.0
        least, whole = _real(self, p)
        return math.log(self.steps) + cells.bound(cells.band, y) + (self.steps - 1) * whole + 1e-9 - least

    def mirror(self) -> Law | None:
        return replace(self, removes=False) if self.removes else None

    def masses(self) -> tuple[float, float, float]:
        found = []
        for exponent in (1.0, 0.0) if self.removes else (0.0, 1.0):
            value, error = self._line(exponent, 0.0, 1)
            if not value[0].real < math.inf:
                return 1.0, 1.0, math.inf
            found.append((math.exp(min(float(value[0].real), 1.0)), float(error[0])))
        (p, p_off), (q, q_off) = found
        return p, q, math.expm1(max(p_off, q_off)) + 8 * UNIT

    def _power(self, c: float) -> float:
        return 1 + c if self.removes else -c

    def _line(self, p: float, step: float, count: int) -> tuple[Complex, Floats]:
        with np.errstate(all="ignore"):
            a, b = self._both(p, step, count)
            if not self.low:
                return checked(*power(self.steps, *a))
            return checked(*difference(self.steps, (a[0] + b[0], a[1] + b[1]), a, b))

    def _both(self, p: float, step: float, count: int) -> tuple[_PAIR, _PAIR]:
        """A − 1 of the lower window (of the upper one if it is alone), and what is between; with their errors."""
        infinite = np.full(count, math.inf + 0j), np.full(count, math.inf)
        height = abs(step) * (count - 1)
        cells = _cells(self.sigma, self.rate, p, self.low, self.high) if abs(p) < 1e7 else None
        if cells is None:
            return infinite, infinite
        spacing, rule_calm, rule_band = cells.rule(height)
        points = (cells.end - cells.start) / spacing if spacing > 0 else math.inf
        if not points < _MOST or points * count > _MOST_PRODUCTS:
            return infinite, infinite
        first, last = math.floor(cells.start / spacing), math.ceil(cells.end / spacing)
        x: Floats = np.asarray(spacing * np.arange(first, last + 1), np.float64)
        loss, slip = losses(self.sigma, self.rate, x), loss_slips(self.sigma, self.rate, x)
        normal, grows = -x * x / (2 * self.sigma**2), p * loss
        share = spacing / (self.sigma * math.sqrt(2 * math.pi))
        level = _levels(self.sigma, self.rate, x)
        low = _Kept(self.sigma, x, level, self.low or self.high)
        high = _Kept(self.sigma, x, level, self.high)
        if float((grows + normal + (high if self.low else low).log()).max()) > _LARGEST:
            return infinite, infinite
        bare = np.exp(normal) * share
        grown = np.exp(np.minimum(grows + normal, _LARGEST)) * share
        off = (
            8 - 2 * normal
        )  # units by which a term may be off, relatively, apart from its growth and its window
        slipped = np.abs(p) * slip + 2 * np.abs(grows)
        end = math.exp(min(float(grows[-1] + normal[-1]), _LARGEST))
        rest = (
            2 * math.erfc(_FAR / math.sqrt(2)) * math.exp(min(max(p * math.log1p(-self.rate), 0.0), _LARGEST))
        )
        gone = spacing / self.sigma

        def total(
            weight: Floats, sizes: Floats, base: float, base_off: float, cut: float, vanished: float
        ) -> _PAIR:
            """The sums along the line; `sizes` are at least the weights, in units of which the window is off."""
            error = base_off + dot(slipped, weight) + float(sizes.sum()) + 4 * abs(base)
            known = weight > 1e-24 * weight.max(initial=0.0)
            dropped = 2.1 * float(weight[~known].sum()) if count > 1 else 0.0
            part, at, off_at = weight[known], loss[known], (off + slipped + summed(x.size))[known]
            sums = line_sums(part, at if p > 0 else -at, step, count)
            heights: Floats = np.asarray(abs(step) * np.arange(count), dtype=np.float64)
            sums_off = line_sizes(part * off_at + sizes[known], at, heights)
            phases = heights * dot(slip[known] + 4 * np.abs(at), part)
            return base + sums, UNIT * (error + sums_off + phases) + cut + dropped + vanished

        inside, outside = low.inside * bare, low.outside * bare
        weight = low.inside * grown
        gains = np.where(grows > 1, weight - inside, inside * np.expm1(np.minimum(grows, 1.0)))
        base = float(gains.sum()) - float(outside.sum())
        terms = np.where(grows > 1, weight + inside, np.abs(gains))
        base_off = dot(terms, off + 40) + dot(outside, off + low.inside_slip + 40)
        cut = rest + end * low.end() + rule_calm
        calm = total(
            weight, low.slip * (inside + weight), base, base_off, cut, low.vanished(grows + normal) * gone
        )
        if not self.low:
            return calm, infinite
        band, size = _band(low, high)
        weight = band * grown
        base, base_off = float(weight.sum()), dot(weight, off + 40)
        cut = rest + end * high.end() + rule_band
        vanished = (low.vanished(grows + normal) + high.vanished(grows + normal)) * gone
        return calm, total(weight, size * grown, base, base_off, cut, vanished)


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
        """An upper bound of the logarithm of ψ: that of erfc(t)/2 is at most −t² where it is out of range."""
        if self.at == math.inf:
            return np.zeros(self.inside.size)
        return np.where(self.t > 5, -self.t * self.t, np.log(np.maximum(self.inside, 1e-300)))

    def end(self) -> float:
        """An upper bound of ψ at the last point."""
        return 1.0 if self.at == math.inf else math.exp(float(self.log()[-1]))

    def vanished(self, exponent: Floats) -> float:
        """An upper bound of Σ e^exponent·ψ where ψ is below the range of floats; the exponent may be large."""
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


class _Cells:
    """Upper bounds of ∫ |integrand| over paths that are turned by an angle, from the largest value in each cell."""

    def __init__(self, sigma: float, rate: float, p: float, low: float, high: float) -> None:
        self.sigma = sigma
        widest = high if high < math.inf else low
        level = _BEYOND * (widest + max(p, 0.0) * spread(widest) ** 2)
        self.start = -_FAR * sigma
        self.end = max(_FAR * sigma, _place(sigma, rate, level)) if level < _LARGEST / 2 else math.inf
        if high == math.inf:
            self.end = max(self.end, max(p, 0.0) + _FAR * sigma)
        if not self.end < _farthest(sigma) + max(p, 0.0):
            self.end = math.inf
            return
        near = _place(sigma, rate, 0.1 * (low or high))
        far = min(_place(sigma, rate, level), self.end)
        coarse = np.linspace(self.start, self.end, math.ceil((self.end - self.start) / (sigma / 8)) + 1)
        fine = np.arange(max(near, self.start), far, sigma * min(sigma / 16, 0.125))
        self.x = x = np.union1d(coarse, fine) if sigma < 2 else coarse
        u = (2 * x - 1) / (2 * sigma**2)
        self.turns = t = np.append(0.0, _TURNS)[:, None] * min(1.0, 8 / sigma)
        scale = np.maximum(u, 0.0)
        one, two = (1 - rate) * np.exp(-scale), rate * np.exp(u - scale)
        real, imaginary = one + two * np.cos(t), two * np.sin(t)
        size = np.log(np.hypot(real, imaginary)) + scale
        self.angle = angle = np.arctan2(imaginary, real)
        level_at = np.maximum(size - math.log1p(-rate), 0.0)
        # On each factor the worse end: |w| and its angle rise with x.
        left, right = np.s_[:, :-1], np.s_[:, 1:]
        nearest = np.where(x[:-1] * x[1:] < 0, 0.0, np.minimum(np.abs(x[:-1]), np.abs(x[1:])))
        wide = np.log(np.diff(x) / (sigma * math.sqrt(2 * math.pi)))
        moved = (sigma * t) ** 2 / 2
        inner = p * (size[right] if p > 0 else size[left]) - nearest**2 / (2 * sigma**2) + wide
        ends = p * (
            size[:, [0, -1]] if p > 0 else np.stack([np.full(t.size, math.log1p(-rate)), size[:, -1]], 1)
        )
        ends = ends - x[[0, -1]] ** 2 / (2 * sigma**2) + math.log(0.5)
        bare = np.concatenate([inner, ends], axis=1) + moved + 16 * UNIT * (1 + abs(p) * (1 + scale[-1]))

        def kept(at: float) -> tuple[Floats, Floats]:
            """Bounds of log |ψ| and log |1 − ψ| in the cells, and beyond the ends."""
            if at == math.inf:
                return np.zeros(bare.shape), np.full(bare.shape, -math.inf)
            turned = (angle / spread(at)) ** 2 / 2
            above = (np.maximum(level_at - at, 0.0) / spread(at)) ** 2 / 2
            below = (np.maximum(at - level_at, 0.0) / spread(at)) ** 2 / 2
            last = np.s_[:, [0, -1]]
            out = turned[right] - above[left], turned[right] - below[right]
            e = tuple(
                np.concatenate([o, turned[last] - g[last]], 1)
                for o, g in zip(out, (above, below), strict=True)
            )
            return np.minimum(e[0], np.logaddexp(0.0, e[1])), np.minimum(e[1], np.logaddexp(0.0, e[0]))

        in_low, out_low = kept(low or high)
        self.calm = bare + in_low
        self.band = self.calm
        if low:
            in_high, out_high = kept(high)
            self.band = bare + np.minimum(np.logaddexp(in_high, in_low), np.logaddexp(out_low, out_high))
        self.least = np.concatenate([angle[left], np.zeros(t.shape), angle[:, -1:]], axis=1)
        self.most = np.concatenate([angle[right], angle[:, :1], angle[:, -1:]], axis=1)
        # Up to these heights the worse side falls beyond the end as well.
        self.falls = np.zeros(t.size)
        if high < math.inf:
            spare = level_at[0, -1] * (np.cos(t) - t * np.tan(t)) - high - max(p, 0.0) * spread(high) ** 2
            self.falls = (spare / (np.tan(t) * spread(high) ** 2 + 1e-300))[:, 0]

    def bound(self, exponent: Floats, y: float) -> float:
        """An upper bound of log |∫ e^(ivl)…| for every v ≥ y."""
        return float(np.min(_log_sum(exponent - y * self.least)))

    def rule(self, y: float) -> tuple[float, float, float]:
        """A spacing of the rule up to the height y, and what it may be off: without marks, and between."""
        turned = 2 * math.pi * self.sigma**2 * self.turns[1:, 0]
        most = self.most.copy()
        most[:, -1] = np.where(self.falls >= y, most[:, -1], self.turns[:, 0])
        grown = [_log_sum(e + y * most) for e in (self.calm, self.band)]
        spacing = min(
            self.sigma / 4, *(float(np.max(turned / (_GOOD + np.maximum(g[1:] - g[0], 0.0)))) for g in grown)
        )
        spacing = few_digits(spacing)
        rules = [float(np.min(g[1:] - turned / spacing)) for g in grown]
        calm, band = (4 * math.exp(min(r, _LARGEST)) for r in rules)
        return spacing, calm, band


class _Nodes:
    """Upper bounds of ∫ |integrand| over turned paths, of one window, by a trapezoid rule whose error is bounded."""

    def __init__(self, sigma: float, rate: float, p: float, high: float, end: float) -> None:
        width = sigma * min(sigma / 40, 0.125)
        x = np.arange(-_FAR * sigma, end + width, width)
        u = (2 * x - 1) / (2 * sigma**2)
        narrow = min(1.0, 8 / sigma)
        t = np.append(0.0, _SMALL_TURNS)[:, None] * narrow
        scale, lost = np.maximum(u, 0.0), math.log1p(-rate)
        one, two = (1 - rate) * np.exp(-scale), rate * np.exp(u - scale)

        def path(turn: Floats) -> tuple[Floats, Floats]:
            real, imaginary = one + two * np.cos(turn), two * np.sin(turn)
            return np.log(np.hypot(real, imaginary)) + scale, np.arctan2(imaginary, real)

        size, angle = path(t)
        normal = -x * x / (2 * sigma**2)
        kept = (angle / spread(high)) ** 2 / 2 + _log_kept(size - lost, high)
        # Of w, 2|u| + 8 units where it is e^u, and 8; these move the window, and p times the logarithm.
        slip = (2 * np.abs(u) + 8) * two / (one + two) + 8 + 2 * scale
        window = np.maximum(size - lost - high, 0.0) / spread(high) ** 2 + 1 / spread(high)
        turned = (np.abs(u) + 4) * (angle / spread(high)) ** 2
        slip = UNIT * (
            2 * abs(p) * slip + 4 * slip * window + 4 * turned + 8 * (np.abs(normal) + np.abs(kept) + 1)
        )
        share = math.log(width / (sigma * math.sqrt(2 * math.pi)))
        exponent = p * size + normal + (sigma * t) ** 2 / 2 + kept + slip
        self.angle, self.exponent, self.share = angle[1:] * (1 - 1e-12), exponent[1:], share
        # On the path that is moved on by a further turn, the largest value in each cell: no more is needed of it.
        more = _FURTHER * narrow
        size, level = path(t + more)[0], size[0] - lost
        turned = (t * t + more * more) * np.minimum(level, 1.0) ** 2 / (2 * spread(high) ** 2)
        above = np.maximum(level * np.cos(t + more) - high, 0.0) / spread(high)
        below = np.maximum(high - level, 0.0) / spread(high)
        left, right = np.s_[:, :-1], np.s_[:, 1:]
        inside = np.minimum(
            turned[right] - above[left] ** 2 / 2, np.logaddexp(0.0, turned[right] - below[right[1]] ** 2 / 2)
        )
        nearest = np.where(x[:-1] * x[1:] < 0, 0.0, np.maximum(normal[:-1], normal[1:]))
        grown = inside + nearest + (p * level[1:] + p * lost if p > 0 else p * size[left])
        gaussian = sigma**2 * (t * t + more * more)[:, 0] / 2
        moved = _log_sum(grown) + gaussian - 2 * math.pi * sigma**2 * more / width + math.log(2.1)
        # Beyond the ends: to the right the integrand falls, to the left |w| is at least 1 − q.
        ends = p * level[-1] + p * lost if p > 0 else p * size[:, -1]
        ends = ends + turned[:, -1] - above[:, -1] ** 2 / 2 + normal[-1] + gaussian
        first = math.log(math.erfc(_FAR / math.sqrt(2))) - share + max(p * lost, 0.0) + gaussian + 1
        tails = np.logaddexp(ends + math.log(sigma / width), first)
        self.off = (np.logaddexp(moved, tails) + 1e-9 + 8 * UNIT * abs(p))[1:]

    def size(self, y: float) -> float:
        """Log |M(c + iv)| is at most this for all v ≥ y."""
        return float(np.min(np.logaddexp(_log_sum(self.exponent - y * self.angle), self.off))) + self.share


@lru_cache(maxsize=16)
def _real(law: MarkedGaussianLaw, p: float) -> tuple[float, float]:
    """At the real power p: a lower bound of the logarithm of the law's, an upper one of that of a use below high."""
    value, error = law._line(p, 0.0, 1)
    (a, da), (b, db) = law._both(p, 0.0, 1)
    if not value[0].real < math.inf:
        return -math.inf, 0.0
    most = float(a[0].real + da[0]) + (float(b[0].real + db[0]) if law.low else 0.0)
    return float(value[0].real - error[0]), math.log1p(most)


@lru_cache(maxsize=16)
def _cells(sigma: float, rate: float, p: float, low: float, high: float) -> _Cells | None:
    with np.errstate(all="ignore"):
        cells = _Cells(sigma, rate, p, low, high)
    return cells if cells.end < math.inf else None


@lru_cache(maxsize=4)
def _nodes(sigma: float, rate: float, p: float, high: float) -> _Nodes | None:
    cells = _cells(sigma, rate, p, 0.0, high)
    return None if cells is None else _Nodes(sigma, rate, p, high, cells.end)


def _levels(sigma: float, rate: float, x: Floats) -> Floats:
    """λ, to a relative accuracy."""
    return np.asarray(np.log1p(rate / (1 - rate) * np.exp((2 * x - 1) / (2 * sigma**2))))


def _place(sigma: float, rate: float, level: float) -> float:
    """The x at which λ has that value."""
    odds = math.log(rate) - math.log1p(-rate)
    return sigma**2 * (math.log(-math.expm1(-level)) + level - odds) + 0.5


def _log_kept(level: Floats, at: float) -> Floats:
    """Log ψ, up to the rounding; where it is out of range, a bound."""
    t = (level - at) / (spread(at) * math.sqrt(2))
    near = (t > -6) & (t < 26)
    out = np.where(t > 0, -t * t, 0.0)
    out[near] = np.log(half_erfc(t[near]))
    return np.asarray(out)


def _log_normal(t: Floats) -> Floats:
    """About log Φ(t), within a few percent of Φ."""
    d = np.abs(t)
    tail = math.sqrt(2 / math.pi) * np.exp(-d * d / 2) / (d + np.sqrt(d * d + 8 / math.pi))
    far = -d * d / 2 + math.log(math.sqrt(2 / math.pi)) - np.log(d + np.sqrt(d * d + 8 / math.pi))
    return np.asarray(np.where(t > 0, np.log1p(-tail), far))


def _log_sum(exponent: Floats) -> Floats:
    top = exponent.max(axis=1)
    return np.asarray(top + np.log(np.exp(exponent - top[:, None]).sum(axis=1)))
