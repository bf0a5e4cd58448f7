"""The loss of Gaussian noise on a Poisson sample, by a trapezoid rule whose error is bounded.

With Q = N(0, σ²), u(x) = (2x − 1)/2σ² and l(x) = log(1 − q + q·e^u): when a record is removed the loss is l
under the mixture, so M(z) = E_Q[e^((1+z)l)]; when one is added it is −l under Q, so M(z) = E_Q[e^(−zl)].
Both integrands are analytic for |Im x| < πσ², which bounds the error of the rule and, by moving the path of
integration, |M| far up a vertical line. Proofs: docs/proofs/contour.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from discreet.accounting.engines.bent import bent
from discreet.accounting.engines.marked_gaussian import MarkedGaussianLaw, divides, marks
from discreet.accounting.engines.sampled_loss import (
    UNIT,
    checked,
    fallen,
    few_digits,
    loss_slips,
    losses,
    one_by_one,
    power,
    shares,
)
from discreet.privacy.law import Law
from discreet.privacy.nonuniform import PHASE, Complex, Floats, dot, line_sizes, line_sums, summed

_TAIL = 9.5  # deviations of the normal law that are summed; what is left out is bounded and added
_MOST = 8e4  # points of the rule; a line that needs more is given up, as an infinite bound
_MOST_PRODUCTS = 5e7  # of points and heights
_FAINT = 1e-24  # of the largest term along a line: what is left out, and counted as an error
_GOOD = 41.0  # the rule is good to about e^-40 of M(c), in all uses together
_FARTHEST_TURN = 3.0  # below π
_LEANING = 20.0
_CHEAP = 3e4  # points and heights: for fewer, no closer look at the paths is worth while
_LOOKS = 250  # places among which the ends are
_LARGEST = 700.0  # e to this is a float
_LEAST, _MOST_SIGMA = 1e-3, 1e5  # a σ beyond is refused
_WINDOW = 1.5  # deviations beyond the last node: where the window of a turned path ends
_TURNS = np.array([0.05, 0.2, 0.5, 0.9, 1.2, 1.5])  # below π/2, up to which |w| rises with x on a turned path
_SMALLER = (1.0, 8.0, 64.0)  # by how much they are, while the smallest of them is still too large
_MOST_ROUGH = 1500  # points, for what is rough
_FALLS_TO = 60.0  # of σ: for a larger power it is not said how |M| falls
_ROUGH = np.arange(-76, 84) / 8.0  # deviations


@dataclass(frozen=True, slots=True)
class SampledGaussianLaw(Law):
    """`steps` uses of noise of deviation `sigma` on a Poisson sample at rate `rate`, sensitivity 1.

    `rate` lies strictly between 0 and 1; `removes` says whether P is the side that has the record.
    """

    sigma: float
    rate: float
    steps: int
    removes: bool

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        return one_by_one(self, z)

    def line(self, c: float, step: float, count: int) -> tuple[Complex, Floats]:
        with np.errstate(all="ignore"):
            return checked(*power(self.steps, *self._mean(c, step, count)))

    def rough(self, c: Floats) -> Floats:
        with np.errstate(all="ignore"):
            x = _ROUGH * self.sigma
            p = 1 + c if self.removes else -c
            grown = np.multiply.outer(p, losses(self.sigma, self.rate, x)) - _ROUGH**2 / 2
            top = grown.max(axis=1)
            whole = top + np.log(np.exp(grown - top[:, None]).sum(axis=1) / (8 * math.sqrt(2 * math.pi)))
            if self.removes:  # another peak lies near 1 + c
                far = p * math.log(self.rate) + p * (p - 1) / (2 * self.sigma**2)
                whole = np.where(p > 9.5 * self.sigma, np.logaddexp(whole, far), whole)
            return np.asarray(self.steps * whole)

    def falls(self, c: float, y: Floats) -> Floats:
        p = 1 + c if self.removes else -c
        if not self._answers(c) or abs(p) >= _FALLS_TO * self.sigma:
            return np.full(y.size, -math.inf)
        low, high = _ends(self, c)
        step = self.sigma / 8
        if not high - low < _MOST_ROUGH * step:
            return np.full(y.size, -math.inf)
        x = np.arange(low, high + step, step)
        loss = losses(self.sigma, self.rate, x)
        exponent = p * loss - x * x / (2 * self.sigma**2)
        return fallen(self.steps, exponent, loss, y)

    def decay(self, c: float, y: float) -> float:
        if not self._answers(c):
            return 0.0
        with np.errstate(all="ignore"):
            found = bent(self.sigma, self.rate, 1 + c if self.removes else -c, *_ends(self, c))
            return self.steps * found.log(y)

    def under(self, level: float) -> Law:
        if not self.removes or not divides(self.sigma, self.rate, level):
            return self
        return MarkedGaussianLaw(self.sigma, self.rate, self.steps, True, 0.0, level)

    def marks(self, levels: Floats) -> Floats:
        known = [bool(self.over(level, math.inf)) for level in levels.tolist()]
        with np.errstate(all="ignore"):
            about = np.minimum(self.steps * marks(self.sigma, self.rate, levels), 1.0)
        return np.where(known, about, 0.0)

    def over(self, low: float, high: float) -> tuple[Law, ...]:
        if not self.removes or not divides(self.sigma, self.rate, low):
            return ()
        if high < math.inf and not divides(self.sigma, self.rate, high):
            high = math.inf
        return (MarkedGaussianLaw(self.sigma, self.rate, self.steps, True, low, high),)

    def mirror(self) -> Law | None:
        return replace(self, removes=False) if self.removes else None  # the other way nothing would be gained

    def _answers(self, c: float) -> bool:
        return c < 1e7 and _LEAST <= self.sigma <= _MOST_SIGMA and self.rate > 1e-30

    def _mean(self, c: float, step: float, count: int) -> tuple[Complex, Floats]:
        """M − 1 of one use, and the error of it."""
        infinite = np.full(count, math.inf + 0j), np.full(count, math.inf)
        if not self._answers(c):  # no use for such a c but to be refused
            return infinite
        low, high = _ends(self, c)
        height = abs(step) * (count - 1)
        spacing, rule, share_off = _rule(self, c, height, low, high, count)
        if not spacing > 0:
            return infinite
        size = (high - low) / spacing
        if not size < _MOST or size * count > _MOST_PRODUCTS:
            return infinite
        # Multiples of a spacing of few digits are exact.
        x: Floats = np.asarray(spacing * (math.floor(low / spacing) + np.arange(math.ceil(size) + 2)), np.float64)
        loss = losses(self.sigma, self.rate, x)
        slip = loss_slips(self.sigma, self.rate, x, loss)
        share = spacing / (self.sigma * math.sqrt(2 * math.pi))
        normal = -x * x / (2 * self.sigma**2)
        p = 1 + c if self.removes else -c
        grows = p * loss
        exponent = grows + normal
        if float(exponent.max()) > _LARGEST:
            return infinite
        tilted = np.exp(exponent) * share
        off = 8 - 2 * normal  # units by which a term may be off, relatively, apart from its growth
        plain = np.exp(normal) * share
        much = grows > 1
        grown = np.where(much, tilted - plain, plain * np.expm1(np.minimum(grows, 1.0)))
        base = math.fsum(grown.tolist())
        slipped = abs(p) * slip + 2 * np.abs(grows)
        base_off = dot(np.where(much, tilted + plain, np.abs(grown)), off) + dot(slipped, tilted)
        base_off += 4 * abs(base)
        cut = _cut(self, c, low, high) + rule
        if count == 1:
            off_at_0 = UNIT * base_off + cut
            return np.full(1, base + 0j), np.full(1, off_at_0 + share_off * (1 + base + off_at_0))
        size_of = np.abs(loss)
        reached = tilted * np.minimum(height * size_of, 2.0)  # |e^(iyl) − 1| is at most that
        known = reached > _FAINT * reached.max(initial=0.0)
        cut += 1.05 * float(reached[~known].sum())
        part, far = tilted[known], loss[known]
        sums = line_sums(part, far if self.removes else -far, step, count)
        heights: Floats = np.asarray(abs(step) * np.arange(count), dtype=np.float64)
        sums_off = line_sizes(part * (off + slipped + summed(x.size))[known], far, heights)
        error = UNIT * (base_off + sums_off + heights * dot((slip + PHASE * size_of)[known], part)) + cut
        return base + sums, error + share_off * (1 + base + float(error[0]))


@lru_cache(maxsize=16)
def _ends(law: SampledGaussianLaw, c: float) -> tuple[float, float]:
    """Where the integrand is cut: beyond, it falls at least as fast as the normal law beyond _TAIL."""
    sigma, rate = law.sigma, law.rate
    far = _TAIL * sigma
    low, high = -far, far
    if law.removes:
        high = 1 + c + far
        if 1 + c > far:  # the peak may be far to the left of 1 + c: look where the integrand falls for good
            x = np.linspace(low, high, _LOOKS)
            g = (1 + c) * losses(sigma, rate, x) - x * x / (2 * sigma**2)
            falls = x[:-1] - (1 + c) * _steepest(sigma, rate, x)[1:] >= far
            falls &= g[:-1] < g.max() - _TAIL * _TAIL / 2
            rises = np.flatnonzero(~falls)
            high = float(x[min(int(rises[-1]) + 1 if rises.size else 0, x.size - 1)])
    elif _leans(law, c):
        x = -np.geomspace(far + c, far, _LOOKS)  # the peak may be far to the right of −c
        g = -c * losses(sigma, rate, x) - x * x / (2 * sigma**2)
        falls = (-x - c * _steepest(sigma, rate, x) >= far) & (g < g.max() - _TAIL * _TAIL / 2)
        rises = np.flatnonzero(~falls)
        low = float(x[max(int(rises[0]) - 1 if rises.size else x.size - 1, 0)])
    return low, high


def _steepest(sigma: float, rate: float, x: Floats) -> Floats:
    """Return the largest derivative of σ² log |w| on a path that is turned by at most π/2."""
    share = shares(sigma, rate, x)
    return np.maximum(share, share**2 / (share**2 + (1 - share) ** 2))


def _leans(law: SampledGaussianLaw, c: float) -> bool:
    """Return whether e^(−c·l) may move the mass of the add side to the left, by c at most."""
    return -c * math.log1p(-law.rate) > 1


def _cut(law: SampledGaussianLaw, c: float, low: float, high: float) -> float:
    """Return a bound on what lies beyond the ends.

    As 0 ≤ l' ≤ 1/σ², the integrand falls beyond an end that is d deviations beyond the farthest peak at least
    as fast as e^(−d·t/σ), t being the way from that end.
    """
    at = losses(law.sigma, law.rate, np.array([low, high]))
    tail = math.erfc(_TAIL / math.sqrt(2))

    def edge(end: float, exponent: float) -> float:
        inside = exponent - end * end / (2 * law.sigma**2)
        return math.exp(inside) * 2 / _TAIL if inside < _LARGEST else math.inf

    if law.removes:
        return tail + edge(high, (1 + c) * float(at[1]))
    right = math.exp(min(max(-c * float(at[1]), 0.0), _LARGEST)) * tail
    return right + (edge(low, -c * float(at[0])) if _leans(law, c) else math.e * tail)


def _rule(
    law: SampledGaussianLaw, c: float, y: float, low: float, high: float, count: int
) -> tuple[float, float, float]:
    """Return a spacing for which the rule is good up to the height y, its error, and one in units of M(c)."""
    good = _GOOD + math.log(law.steps)
    least = math.log1p(-law.rate) * -c  # of what log |w|^−c is at most on all paths
    if law.removes or least < _LEANING:
        # On a path that is turned by θ the integrand is at most e^(σ²θ²/2 + yθ) times what it is, or the normal law.
        turn = min(math.sqrt(2 * good) / law.sigma, _FARTHEST_TURN if law.removes else _TURNS[-1])
        more = y * turn + (law.sigma * turn) ** 2 / 2 + (0.0 if law.removes else least)
        spacing = few_digits(min(2 * math.pi * law.sigma**2 * turn / (good + more), law.sigma / 4))
        if spacing > 0 and count * (high - low) / spacing < _CHEAP:
            rule = 4 * math.exp(more - 2 * math.pi * law.sigma**2 * turn / spacing)
            return (spacing, 0.0, rule) if law.removes else (spacing, rule, 0.0)
    most = min(1.0, 5 / law.sigma) * np.append(0.0, _TURNS if y else _TURNS[3:])
    for smaller in _SMALLER:  # far above c the integrand grows at once
        turns = most / smaller
        moved = _Moved(law, c, turns, y, low, high)
        grown = moved.sums
        lost = np.maximum(grown[1:] - grown[0], 0.0)
        spacings = 2 * math.pi * law.sigma**2 * turns[1:] / (good + 3 + lost)
        best = int(np.argmax(spacings))
        if best or lost[0] < good:
            break
    spacing = few_digits(min(float(spacings[best]), law.sigma / 4, (high - low) / 8))
    rule = grown[best + 1] - 2 * math.pi * law.sigma**2 * turns[best + 1] / spacing
    outside = (moved.outside + math.log1p(spacing / moved.width)) if y else -math.inf
    return spacing, 4 * (math.exp(min(float(rule), _LARGEST)) + math.exp(min(outside, _LARGEST))), 0.0


class _Path:
    """Points x ± iσ²·turn for several turns, the first of which is 0: log |w|, arg w, and the rounding of p·log |w|."""

    def __init__(self, law: SampledGaussianLaw, c: float, turns: Floats, x: Floats) -> None:
        sigma, rate = law.sigma, law.rate
        self.p, self.x, self.turns = (1 + c if law.removes else -c), x, turns[:, None]
        self.width = float(x[1] - x[0])
        u = (2 * x - 1) / (2 * sigma**2)
        # w = 1 − q + q·e^(u + i·turn), scaled by e^−max(u, 0).
        scale = np.maximum(u, 0.0)
        one, two = (1 - rate) * np.exp(-scale), rate * np.exp(u - scale)
        real, imaginary = one + two * np.cos(self.turns), two * np.sin(self.turns)
        self.size = 0.5 * np.log(real * real + imaginary * imaginary) + scale
        self.angle = np.arctan2(imaginary, real)
        self.normal = (sigma * self.turns) ** 2 / 2 - x * x / (2 * sigma**2)
        # Both parts of w are off by a few units of what they are without a turn, and e^u by 2|u| more.
        plain = (2 * np.abs(u) + 8) * two / (one + two) + 8 + 2 * scale
        self.slip = UNIT * (abs(self.p) * plain / np.cos(self.turns / 2) + 4 * np.abs(self.normal) + 4)
        self.share = math.log(self.width / (sigma * math.sqrt(2 * math.pi)))
        # By how much the logarithm may be larger inside a cell than at both of its ends.
        self.inside: Floats | float = (self.width / sigma) ** 2 / 8
        if not law.removes:
            odds = np.log(rate) - math.log1p(-rate) + u
            bend = 0.5 / np.cosh(np.minimum(np.abs(odds), 700.0))
            bend[1:][odds[1:] * odds[:-1] <= 0] = 0.5
            bend = np.maximum(bend, np.maximum(np.append(bend[1:], 0.0), np.append(0.0, bend[:-1])))
            self.inside = (self.width / sigma) ** 2 * (1 / 2 + c / (2 * sigma**2) * bend)

    def sum(self, exponent: Floats) -> Floats:
        top = exponent.max(axis=1)
        return np.asarray(top + np.log(np.exp(exponent - top[:, None]).sum(axis=1)) + self.share)


def _width(law: SampledGaussianLaw, low: float, high: float) -> float:
    return max(min(law.sigma / 8, max(law.sigma**2 / 16, (high - low) / 8000)), (high - low) / _MOST)


class _Moved:
    """Upper bounds of ∫ |integrand at x ± iσ²·turn| dx on the worse side for all heights up to y, by cells.

    At a height the integrand is multiplied by a window that falls beyond the ends: `sums`, as logarithms.
    """

    def __init__(self, law: SampledGaussianLaw, c: float, turns: Floats, y: float, low: float, high: float) -> None:
        sigma = law.sigma
        low, middle, high = low - 3 * sigma, high + _WINDOW * sigma, high + 3 * sigma
        width = _width(law, low, high)
        t = turns[1:, None]
        narrow = sigma * np.minimum(sigma * t / 3, 0.5)
        if y:  # as far as the window needs, if that is not very far
            far = float((narrow * np.sqrt(2 * (y * t + 30))).max())
            high = max(high, middle + min(far, 2000 * width))
        path = _Path(law, c, turns, np.arange(low, high + width, width))
        grown = path.p * path.size + path.normal + path.slip + math.log(2.0) + path.inside
        if y:
            angle = np.append(path.angle[1:, 1:], np.broadcast_to(t, (t.size, 1)), axis=1)
            inner = np.maximum(middle - path.x, 0.0) / (0.5 * sigma)
            self.outside = float(path.sum(grown[:1] - inner**2 / 2)[0])
            beyond = np.maximum(path.x - width - middle, 0.0) / narrow
            grown[1:] += y * angle * (1 + 1e-12) + (sigma**2 * t / narrow) ** 2 / 2 - beyond**2 / 2
        grown[:, [0, -1]] += math.log(sigma / width)  # what lies beyond falls at least as fast as e^(−8t/σ)
        self.sums, self.width = path.sum(grown), width
