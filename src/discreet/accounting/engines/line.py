"""The integrand of the inversion along one vertical line: sums at any ε, and all that they may be off.

Chernoff bounds, δ(ε) ≤ M(c) e^(κ(c) − cε) for every c > 0, and the search for the best c. Proof: docs/proofs/contour.md
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from discreet.privacy.law import Complex, Floats, GaussianLaw, Law, SumLaw
from discreet.privacy.nonuniform import dot

SHARE = 1e-10
"""Of δ: what aliases, the cut tail and the rest of a divided law may each add."""

_HALF = 2.0**-51  # what a few elementary operations may lose, relatively
_WIDER = 1e-8
"""The same where a line needs more than a few nodes, if δ falls as fast as ε there."""

_FEW = 256  # nodes
_CANCELS = 2.0  # log of what a mirrored line may exceed the masses by
_WORTH = 6.0  # log of what it may exceed δ by anyway
_FACTORS = np.array([0.05, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0])
"""Of c: where aliases are bounded."""

_AT = 8, 7, 6, 4  # the places through which a line may go, c itself first
_APART = 2.0  # periods times what is between two places: the aliases of less would not add up
_CLOSER = 0.55  # of c
_MORE, _FAR = 2.0, 1.0  # log of what the integrand may be larger there: so much more would cancel
_SHORT = 64.0  # nodes: no place is looked for that needs fewer
_CLOSE = 8.0  # log of what it may be larger than δ there: beyond that, the second of these
_HEIGHTS = np.geomspace(1.0, 2000.0, 16)  # in units of c
_LOG_HEIGHTS = np.log(_HEIGHTS)
_HOPELESS = 3.0  # of the logarithm of what is cut off: it is out of reach if it is roughly that much too large
_SHORTER = 0.8  # of the period: what makes it worth while to look below c

_FLAT = 0.08  # in log c: any c is valid, and the bound is flat around the best
_WIDE = np.geomspace(1e-5, 1e9, 25)
_NEAR = np.geomspace(0.2, 5.0, 12)
_BETWEEN = np.geomspace(0.72, 1.4, 9)
_STEEP = 3.0  # of the logarithm from one place to the next: a parabola says little


@dataclass(frozen=True, slots=True)
class VerticalLine:
    """The integrand at the nodes of one vertical line, ready for any ε.

    `sides` holds, for aliases below and above ε, pairs (t, log M(t) + κ(t)); `whole`, `off` and `turned` are the sums
    of the sizes of the terms, of their errors, and of their sizes times their heights.
    """

    c: float
    step: float
    log_scale: float
    z: Complex
    term: Complex
    tail: float
    sides: tuple[tuple[tuple[float, float], ...], ...]
    mu: float
    whole: float
    off: float
    turned: float

    def value(self, epsilon: float) -> tuple[float, float]:
        """Return the sum at ε, which is at least δ(ε) up to the error, and that error."""
        turned = self.term * self._turns(epsilon)
        return self._scale(epsilon) * float(turned.real.sum()), self._error(epsilon)

    def look(self, epsilon: float) -> tuple[float, float, float]:
        """Return the sum, its error, and its derivative."""
        turned, scale = self.term * self._turns(epsilon), self._scale(epsilon)
        slope = -scale * float(self.c * turned.real.sum() - dot(self.z.imag, turned.imag))
        return scale * float(turned.real.sum()), self._error(epsilon), slope

    def lower(self, epsilon: float) -> float:
        """Return what the curve (with the added Gaussian use) is at least."""
        value, error = self.value(epsilon)
        return value - error - self._aliases(epsilon)

    def twice(self, epsilon: float) -> float:
        """Return what the curve with two of the added Gaussian uses is at most."""
        more = self.mu**2 / 2 * self.z * (self.z + 1)
        total = float((self.term * np.exp(more) * self._turns(epsilon)).real.sum())
        grown = _exp(self.mu**2 / 2 * self.c * (self.c + 1))
        return self._scale(epsilon) * total + grown * self._error(epsilon)

    def _turns(self, epsilon: float) -> Complex:
        return np.asarray(np.exp(-1j * epsilon * self.z.imag))

    def _scale(self, epsilon: float) -> float:
        return self.step / math.pi * _exp(self.log_scale - self.c * epsilon)

    def _error(self, epsilon: float) -> float:
        turns = self.z.size + 8 + abs(self.log_scale) + abs(self.c * epsilon)
        rounding = 2.0**-50 * (self.whole * turns + self.turned * abs(epsilon))
        return self._scale(epsilon) * (self.off + rounding) * 1.01 + _exp(self.tail - self.c * epsilon)

    def _aliases(self, epsilon: float) -> float:
        """Return a bound on the sum of e^(cjp) δ(ε + jp) over j ≠ 0."""
        period, total = 2 * math.pi / self.step, 0.0
        for side in self.sides:
            best = math.inf
            for t, log_all in side:
                ratio = -abs(self.c - t) * period
                if ratio < -1:
                    best = min(best, log_all - t * epsilon + ratio - math.log(-math.expm1(ratio)))
            total += _exp(best)
        return total


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A curve by way of that of −L under Q: δ(ε) = P − e^ε·Q + e^ε·δ'(−ε), P and Q being the whole masses.

    What loses much weighs little in δ'.
    """

    line: VerticalLine
    p: float
    q: float
    off: float

    def value(self, epsilon: float) -> tuple[float, float]:
        value, error = self.line.value(-epsilon)
        constant, rounding = self._constant(epsilon)
        grown = _exp(epsilon)
        return constant + grown * value, grown * error + rounding + _HALF * grown * abs(value)

    def look(self, epsilon: float) -> tuple[float, float, float]:
        value, error = self.value(epsilon)
        mirrored, _, slope = self.line.look(-epsilon)
        return value, error, _exp(epsilon) * (mirrored - slope - self.q)

    def lower(self, epsilon: float) -> float:
        constant, rounding = self._constant(epsilon)
        below = _exp(epsilon) * self.line.lower(-epsilon)
        return constant + below - rounding - _HALF * abs(below)

    def twice(self, epsilon: float) -> float:
        constant, rounding = self._constant(epsilon)
        above = _exp(epsilon) * self.line.twice(-epsilon)
        return constant + above + rounding + _HALF * abs(above)

    def _constant(self, epsilon: float) -> tuple[float, float]:
        grown = self.q * math.expm1(min(epsilon, 709.0))
        return (self.p - self.q) - grown, (self.off + _HALF) * (self.p + self.q + grown) - _HALF * (
            self.p + self.q if not self.off else 0.0
        )


@dataclass(frozen=True, slots=True)
class Dropped:
    """A curve that is left out: it lies between 0 and its Chernoff bound e^(log_bound − cε)."""

    c: float
    log_bound: float
    mu: float

    def value(self, epsilon: float) -> tuple[float, float]:
        return 0.0, _exp(self.log_bound - self.c * epsilon)

    def look(self, epsilon: float) -> tuple[float, float, float]:
        return (*self.value(epsilon), 0.0)

    def lower(self, epsilon: float) -> float:
        return 0.0

    def twice(self, epsilon: float) -> float:
        return _exp(self.log_bound - self.c * epsilon + self.mu**2 / 2 * self.c * (self.c + 1))


Traced: TypeAlias = VerticalLine | Mirrored | Dropped


def dropped(law: Law, c: float, epsilon: float, log_delta: float, mu: float = 0.0) -> Dropped | None:
    """Nothing, where the curve is below SHARE of δ from ε on, with a Gaussian use of that μ added."""
    if mu:
        law = SumLaw((law, GaussianLaw(mu * mu)))
    log_bound = log_mgf(law, c) + kernel(c) + 1e-9
    small = log_bound - c * epsilon <= log_delta + math.log(SHARE)
    return Dropped(c, log_bound, mu) if small else None


def certain(law: Law) -> Dropped:
    """Nothing, up to the mass of the law, which no δ exceeds."""
    return Dropped(0.0, math.log(max(law.p_most(), 1e-300)) + 1e-12, 0.0)


def trace_mirrored(law: Law, epsilon: float, log_delta: float, most_nodes: int, mu: float = 0.0) -> Mirrored | None:
    """`trace` of the law of −L under Q; None too where the law has no formula for that."""
    mirror = law.mirror()
    if mirror is None or not 0 < epsilon < 600:
        return None
    masses = law.masses()
    # The smaller c is, the less cancels, and the more nodes there are.
    tried = np.geomspace(16.0, 1 / 64, 11) / epsilon
    most = max(math.log(max(masses[1], 1e-300)) + _CANCELS, log_delta - epsilon + _WORTH)
    good = np.flatnonzero(mirror.rough(tried) + tried * epsilon < most)
    c = float(tried[good[0] if good.size else -1])
    line = trace(mirror, c, -epsilon, log_delta - epsilon, most_nodes, mu)
    return None if line is None else Mirrored(line, *masses)


def trace(
    law: Law, c: float, epsilon: float, log_delta: float, most_nodes: int, mu: float = 0.0, *, again: bool = True
) -> VerticalLine | None:
    """Return the line through c, good to SHARE of δ (or `_wider`) for ε and above, with a Gaussian use of that μ added.

    None when that takes too many nodes. If `again`, a smaller c is tried where bounds alone say so.
    """
    whole = law
    if mu:
        law = SumLaw((law, GaussianLaw(mu * mu)))
    tried = _FACTORS * c
    with np.errstate(all="ignore"):
        about = law.rough(tried)
    bounds = np.where(np.isnan(about), math.inf, about + kernels(tried) - tried * epsilon) - log_delta
    at, nodes, fallen = _place(law, tried, bounds)
    if nodes > 1.5 * most_nodes:
        return None
    c, k = float(tried[at]), float(about[at])
    # What is rough decides whether the line is in reach at all: little is lost where it is not.
    ways = ((SHARE, min(_FEW, most_nodes)), (_wider(c * epsilon), most_nodes))
    for share, most in ways if nodes < 2 * _FEW else ways[1:]:
        target = log_delta + math.log(share)
        below, above, period = _period(tried, bounds - math.log(share), at)
        simple = -target / c  # with no more than δ ≤ 1
        chosen = [(above,), (below,) if period[0] < _SHORTER * simple else ()]
        nearest = min(simple, period[0]) if chosen[1] else simple
        found, step = None, 2 * math.pi / max(12 / c, nearest, period[1])
        if math.isfinite(k) and 0 < step < math.inf:
            found = _height(law, c, k - c * epsilon - target, step, most, fallen)
        if found is not None:
            break
    if found is None:
        if again and 0 < nodes < _SHORT:  # so few are not in reach: nearer to 0 the bounds of heights are better
            return trace(whole, _CLOSER * c, epsilon, log_delta, most_nodes, mu, again=False)
        return None
    height, decay = found
    upper, lower = ([(t, log_mgf(law, t) + kernel(t)) for t in tried[list(at)].tolist()] for at in chosen)
    sides = ((0.0, 0.0), *lower), tuple(upper)
    period = max(
        12 / c, *(min(max(top - t * epsilon - target, _APART) / abs(c - t) for t, top in side) for side in sides)
    )
    if not height * period < (1.2 * most_nodes + 64) * 2 * math.pi:
        return None
    step = 2 * math.pi / period
    n = math.ceil(height / step) + 2
    with np.errstate(all="ignore"):
        value, error = law.line(c, step, n)
    if not (value.real < math.inf).all():
        return None
    k = float(value[0].real)
    z: Complex = np.asarray(c + 1j * step * np.arange(n), dtype=np.complex128)
    term: Complex = np.asarray(np.exp(value - k) / (z * (z + 1)), dtype=np.complex128)
    term[0] /= 2
    tail = k + float(error[0]) + decay - math.log(math.pi * height)
    size = np.abs(term)
    sums = float(size.sum()), dot(size, np.expm1(np.minimum(error, 500.0))), dot(size, z.imag)
    return VerticalLine(c, step, k, z, term, tail, sides, mu, *sums)


def _period(tried: Floats, excess: Floats, at: int) -> tuple[int, int, tuple[float, float]]:
    """Where the aliases below and above are bounded best, and the periods that make them small enough."""
    periods = np.maximum(excess, _APART) / np.abs(np.where(tried == tried[at], math.nan, tried - tried[at]))
    below, above = int(np.argmin(periods[:at])), at + 1 + int(np.argmin(periods[at + 1 :]))
    return below, above, (float(periods[below]), float(periods[above]))


def _place(law: Law, tried: Floats, bounds: Floats) -> tuple[int, float, Floats | None]:
    """Through which of the places a line needs the fewest nodes, or few; how many, about, or 0; and how |M| falls.

    That is the logarithm of what is cut off at each of `_HEIGHTS`, in units of that place, where it is known.
    """
    excess, found = bounds - math.log(SHARE), list[tuple[float, int, Floats]]()
    for at in _AT:
        first = bounds[_AT[0]]
        if at != _AT[0] and not bounds[at] <= max(min(first + _MORE, _CLOSE), first + _FAR):
            break
        y = tried[at] * _HEIGHTS
        fallen = law.falls(float(tried[at]), y) - np.log(math.pi * y)
        if not np.isfinite(fallen).all():
            break
        height = _reached(fallen, float(excess[at])) * float(tried[at])
        period = max(12 / float(tried[at]), _period(tried, excess, at)[2][1])
        found.append((height * period / (2 * math.pi), at, fallen))
        if found[0][0] < _SHORT:
            break
    if not found:
        return _AT[0], 0.0, None
    nodes, at, fallen = min(found, key=lambda one: one[0])
    return at, nodes, fallen


def _reached(fallen: Floats, excess: float) -> float:
    """About the height, in the units of `_HEIGHTS`, at which what is cut off is e^−excess; infinite beyond."""
    low = np.maximum.accumulate(np.maximum(-fallen, 1e-9))
    if not excess < low[-1]:
        return math.inf
    return math.exp(float(np.interp(math.log(max(excess, 1e-9)), np.log(low), _LOG_HEIGHTS)))


def _steepness(fallen: Floats | None, height: float) -> float:
    """About the slope of the logarithm of a height, in units of c, in that of what is cut off; 1 if not known."""
    if fallen is None:
        return 1.0
    i = min(max(int(np.searchsorted(_HEIGHTS, height)), 1), _HEIGHTS.size - 1)
    one, two = max(-float(fallen[i - 1]), 1e-9), max(-float(fallen[i]), 1e-9)
    return min(max(math.log(_HEIGHTS[i] / _HEIGHTS[i - 1]) / max(math.log(two / one), 1e-9), 0.5), 1.0)


def _wider(steepness: float) -> float:
    """Return the share of δ that a long line may miss, δ falling like ε to the power of minus that."""
    return _WIDER * min(max(steepness, SHARE / _WIDER), 10.0)


def _height(
    law: Law, c: float, log_excess: float, step: float, most_nodes: int, fallen: Floats | None
) -> tuple[float, float] | None:
    """Return a height beyond which the integrand adds less than its share, and its decay there; None out of reach."""
    fall = 0.0

    def above(y: float) -> float:
        nonlocal fall
        fall = law.decay(c, y)
        return log_excess + fall - math.log(math.pi * y)

    first, most = 8 * step, most_nodes * step
    y = first
    if fallen is None:
        if above(most) > 0:
            return None
    else:
        y = max(_reached(fallen, log_excess) * c, first)
        if y > most and _reached(fallen, log_excess - _HOPELESS) * c > most:
            return None
        y = min(1.02 * y, most)
    last, left, here = 0.0, math.inf, above(y)
    while here > 0:
        if y >= most:
            return None
        lost, last, left = log_excess - math.log(math.pi * y) - here, y, here
        # As if the logarithm fell in proportion to the height; it does so faster at first, and slower later.
        grown = (1 + here / lost) ** _steepness(fallen, y / c) if lost > 0 else math.inf
        y = min(y * min(max(1.03 * grown, 1.3 if fallen is None else 1.05), 4.0), most)
        fallen_so_far, here = fall, above(y)
        if fall > 1.01 * fallen_so_far and fallen_so_far < 0 and y > 1.25 * last:  # it falls no more
            return None
    found = y, fall
    for _ in range(3):
        if y <= _SHORT * step or y < 1.2 * last:
            break
        share = left / (left - here) if last else 0.5
        middle = max(last * (y / last) ** min(share + 0.05, 0.9) if last else y / 2, first)
        at = above(middle)
        if at <= 0:
            y, here = middle, at
            found = y, fall
        else:
            last, left = middle, at
    return found


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


def log_mgf(law: Law, c: float) -> float:
    """Return the logarithm of M(c), rounded up; infinite where it leaves the range of floats."""
    with np.errstate(all="ignore"):
        value, error = law.line(c, 0.0, 1)
        out = float(value[0].real + error[0])
    return math.inf if math.isnan(out) else out


def kernel(c: float) -> float:
    """Return the logarithm of the largest (1 − e^−l)·e^(−cl) over l ≥ 0."""
    return c * math.log(c) - (1 + c) * math.log1p(c)


def best(law: Law, goal: Callable[[Floats, Floats], Floats], start: float = 0.0) -> float:
    """About the c > 0 where goal(c, log M(c)) is least; both are arrays, and log M is rough.

    It is looked for around `start` first, if that is not 0.
    """

    def value(c: Floats) -> Floats:
        with np.errstate(all="ignore"):
            out = goal(c, law.rough(c))
        return np.where(np.isnan(out), math.inf, out)

    near = start * _NEAR
    found = value(near) if start else near
    if not 0 < int(np.argmin(found)) < near.size - 1:
        near = _WIDE[int(np.argmin(value(_WIDE)))] * _NEAR
        found = value(near)
    at, lost = _valley(near, found)
    if lost > _STEEP:  # a steep wall, where M begins to grow: look between
        near = at * _BETWEEN
        at, _ = _valley(near, value(near))
    return at


def _valley(c: Floats, found: Floats) -> tuple[float, float]:
    """Where a parabola through the least of the values and its neighbours is least; how much they are larger."""
    i = min(max(int(np.argmin(found)), 1), c.size - 2)
    left, at, right = found[i - 1 : i + 2].tolist()
    bend = left - 2 * at + right
    move = 0.5 * (left - right) / bend if 0 < bend < math.inf else 0.0
    ratio = float(c[1] / c[0])
    return float(c[i]) * ratio ** min(max(move, -1.0), 1.0), max(left, right) - at


def kernels(c: Floats) -> Floats:
    """`kernel` of several c."""
    return np.asarray(c * np.log(c) - (1 + c) * np.log1p(c))


def least(f: Callable[[float], float], start: float = 8.0) -> tuple[float, float]:
    """Return the least value found of a quasi-convex function of log c, and its place."""
    middle, step = math.log(start), math.log(4.0)
    at, left, right = f(start), f(start / 4), f(start * 4)
    while left < at and middle > -20:
        middle, right, at = middle - step, at, left
        left = f(math.exp(middle - step))
    while (right < at or at == math.inf) and middle < 20 and not (at == right == math.inf):
        middle, left, at = middle + step, at, right
        right = f(math.exp(middle + step))
    while at == math.inf and middle > -30:
        middle, right, at = middle - step, at, left
        left = f(math.exp(middle - step))
    low, high = middle - step, middle + step
    while high - low > _FLAT and at < math.inf:
        to = _next((low, left), (middle, at), (high, right))
        value = f(math.exp(to))
        if value < at:
            low, left, high, right = (low, left, middle, at) if to < middle else (middle, at, high, right)
            middle, at = to, value
        elif to < middle:
            low, left = to, value
        else:
            high, right = to, value
    return math.exp(middle), at


def _next(low: tuple[float, float], middle: tuple[float, float], high: tuple[float, float]) -> float:
    """Where a parabola through three points is least if it may be trusted, else well inside the longer side."""
    (a, fa), (b, fb), (c, fc) = low, middle, high
    longer = b + 0.38 * (c - b) if c - b > b - a else b - 0.38 * (b - a)
    if not max(fa, fc) - fb < 12 * (min(fa, fc) - fb):
        return longer
    bend = (b - a) * (fb - fc) - (b - c) * (fb - fa)
    to = b - ((b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)) / (2 * bend) if bend else longer
    room = 0.35 * _FLAT
    if abs(to - b) < room:  # on the other side of the longer interval, so that it shrinks
        to = b + room if c - b > b - a else b - room
    return to if a + room < to < c - room else longer
