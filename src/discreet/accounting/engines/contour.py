"""δ(ε) from a moment generating function, between certified bounds.

δ(ε) = (1/2πi) ∫ M(z) e^(−zε) / (z(z+1)) dz along Re z = c > 0. The trapezoid rule with step 2π/p gives, by
Poisson's summation formula, Σ_j e^(cjp) δ(ε + jp) exactly: every term is positive, so the sum never falls
below δ(ε), and Chernoff bounds say by how much it may exceed it. What is cut off, the quadrature behind M and
the rounding are bounded and added.

Where a few uses may lose very much, M(c) says more of them than of δ(ε). Then the sum is taken for −L under Q
(`Mirrored`), in which they weigh little; and where that is not enough, the law is divided by the largest loss of a
use (`Law.under`, `Law.over`): each band has a line of its own, whose height is that of its losses. Where |M| does
not fall fast enough even so, the loss of a Gaussian use with a tiny μ is composed on top: that can only raise δ(ε),
and it makes the integrand fall.

For parameters that are fixed before the first answer, and only for those: it is not a filter.

References: Zhu, Dong, Wang 2022, https://arxiv.org/abs/2106.08567; proof: docs/proofs/contour.md
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from discreet.accounting.bounds import Bounds
from discreet.accounting.engines.line import (
    SHARE,
    Traced,
    best,
    certain,
    dropped,
    kernel,
    kernels,
    least,
    log_mgf,
    trace,
    trace_mirrored,
)
from discreet.privacy.law import Floats, Law

MOST_NODES = 1 << 15
"""The most heights at which a moment generating function is evaluated."""

_MOST_NUMBERS = 1 << 23  # that are worked on for one line
_FEW_NODES = 1 << 13  # a law that needs more is mirrored or divided first
_SOME_NODES = 3 << 10  # the rest of a divided law is divided again if it needs more
_RATIO = 4.0  # of the levels at which a law is divided
_BANDS, _WIDER = 9, 3
_HIGHER, _NEAR_DELTA = 8, 5.0
_MIRRORED = math.log(1e-15)  # a smaller δ would be lost in the rounding of the masses
_FINE = 4e-7  # of δ: an error that needs no better way
_SHARP = 4.2e-7  # the same, of ε: where δ falls fast, more of δ
_COSTS = (3e-7, 1e-4)  # of ε: what the added Gaussian use may cost
_ROUGH = 1e-2  # of δ: an error that is small enough to see where ε is
_TIME_VALUE = 1 + math.sqrt(2)
_TRIES = 5  # of guesses of where ε is
_REACH = 8.0  # a curve made for one ε still serves for one that many times as large
_TIGHT = 9.2e-7  # of ε: no closer bounds are looked for
_FROM_ABOVE = 1.15  # times the answer: where a law is divided that cannot be just below it
_NEAR_ENOUGH, _A_FEW_NODES = 27.8, 2048  # log of an integrand in units of the error that is allowed
_HARDLY_EVER = 1e-9  # of δ
_NEARLY = 1.0  # of log δ: a guess that is this good serves
_ROUGHLY = 1e-6  # of ε: more than a rough Chernoff bound is off where it serves
_HIGHER_LEVELS = np.array([1.0, 1.15, 1.35, 1.6, 2.0, 2.7, 4.0, 6.0, 10.0, 20.0, 50.0, 100.0])
_HALVINGS = 5
_UNIT = 2.0**-48  # a few dozen rounding units


def epsilon_bounds(law: Law, delta: float) -> Bounds | None:
    """Bounds of the least ε ≥ 0 with δ(ε) ≤ delta; None when the numbers leave the range of floats.

    Where the integrand falls too slowly the Chernoff bound is all that is said, with 0 below.
    """
    return worst_epsilon((law,), delta)


def worst_epsilon(laws: Sequence[Law], delta: float, reverses: bool = False) -> Bounds | None:
    """Bounds of the largest ε of several laws at delta; a law that is not the worst is not looked at closely.

    `reverses` says that the laws are those of a pair and its reverse, and that no loss is infinite: then they
    have the same δ(0), and if ε is 0 for one of them it is for the other.
    """
    log_delta = math.log(delta)
    starts = [(*_rough_chernoff(law, log_delta), law) for law in dict.fromkeys(laws)]
    near = min(first for _, first, _ in starts)
    lower = upper = 0.0
    for c, about, law in sorted(starts, key=lambda start: -start[1]):
        first = about
        if not lower * (1 + _ROUGHLY) < about < math.inf:
            c, first = _chernoff(law, log_delta, 3 * -log_delta / max(lower, 1e-9))
            if first > lower:
                c, first = _chernoff(law, log_delta)
            if not math.isfinite(first):
                return None
            if first <= lower or first <= 0:  # an upper bound already below what another law needs
                upper = max(upper, min(first, lower))
                continue
        found = _solved(law, delta, c, first, near)
        if found is None:
            return None
        if reverses and found.upper == 0.0:
            return found
        lower, upper = max(lower, found.lower), max(upper, found.upper)
    return Bounds(lower, upper)


def delta_bounds(law: Law, epsilon: float) -> Bounds:
    """Bounds of δ(ε), by Chernoff alone (and 0) where the integrand falls too slowly."""
    c = _saddle(law, epsilon)
    log_delta = log_mgf(law, c) + kernel(c) - c * epsilon
    if log_delta < math.log(1e-290):
        return Bounds(0.0, 1e-290)
    chernoff = math.exp(min(log_delta + 1e-9, 0.0))
    curve = _curve(law, c, epsilon, min(log_delta, 0.0) - 5, c, True, True)
    if curve is None:
        return Bounds(0.0, chernoff)
    upper = max(min(curve.upper(epsilon), chernoff), 0.0)
    return Bounds(min(curve.lower(epsilon), upper), upper)


@dataclass(frozen=True, slots=True)
class _Curve:
    """The curve of a law, with a Gaussian use of that μ added, as the sum of those of its parts."""

    lines: tuple[Traced, ...]
    mu: float
    cost: float

    def value(self, epsilon: float) -> tuple[float, float]:
        """Return a number that is at least δ(ε) up to the error, and that error."""
        both = [line.value(epsilon) for line in self.lines]
        return math.fsum(v for v, _ in both), math.fsum(e for _, e in both)

    def upper(self, epsilon: float) -> float:
        return sum(self.value(epsilon))

    def look(self, epsilon: float) -> tuple[float, float, float]:
        """Return the same, and the derivative."""
        value, error, slope = zip(*(line.look(epsilon) for line in self.lines), strict=True)
        return math.fsum(value), math.fsum(error), math.fsum(slope)

    def lower(self, epsilon: float) -> float:
        """Return a δ below the curve: what the added Gaussian use costs is below what as much again costs."""
        value = math.fsum(line.lower(epsilon) for line in self.lines)
        if self.mu:
            once, twice = self.upper(epsilon), math.fsum(line.twice(epsilon) for line in self.lines)
            more = max(twice - value, twice - once, 0.0)
            value -= _TIME_VALUE * math.exp(self.mu**2 / 4) * more
        return max(value, 0.0)

    def solve(self, delta: float, start: float, most: float) -> float | None:
        """Return an ε ≤ most where the upper bound was seen to be at most delta; the least within 1e-12 if it can."""
        low, high, epsilon = 0.0, math.inf, start
        for i in range(60):
            value, error, slope = self.look(epsilon)
            if value + error <= delta:
                high = min(high, epsilon)
                if epsilon == 0.0:
                    return 0.0
            elif epsilon >= most or (high == math.inf and not error <= delta):
                return high if high < math.inf else None
            else:
                low = max(low, epsilon)
            if high - low <= 1e-12 * high < math.inf:
                break
            most_now = high if high < math.inf else min(most, 1.5 * epsilon)
            if value > 4 * error and slope < 0:
                newton = epsilon + math.log((value + error) / delta) * value / -slope
                # From below it would never be passed: the logarithm is convex as a rule.
                newton += (0.03 if high == math.inf else 1e-3) * max(newton - epsilon, 0.0) + 3e-13 * epsilon
                if high - newton < 1e-12 * high:  # it has settled: look just above, or be content
                    if epsilon == high:
                        break
                    newton = min(newton + 5e-13 * high, high)
                newton = min(max(newton, 0.0 if i < 3 else low), most_now)
            else:
                newton = (low + most_now) / 2 if high < math.inf else most_now
            inside = low < newton < high or newton == low == 0.0
            epsilon = newton if inside else (low + most_now) / 2
        return high if high < math.inf else None

    def below(self, delta: float, upper: float) -> float:
        """Return an ε that the least one is at least: there the certified δ still exceeds delta."""
        value, error, slope = self.look(upper)
        gap = value + error - self.lower(upper)
        step = max(1.05 * gap / -slope if slope < 0 else 0.0, 1e-11 * upper, 1e-14)
        for i in range(40):
            epsilon = upper - step
            if epsilon <= 0:
                return 0.0
            if self.lower(epsilon) > delta:
                return epsilon
            step *= min(1.5 + i / 4, 4.0)
        return 0.0


def _solved(law: Law, delta: float, c: float, first: float, near_other: float) -> Bounds | None:
    """From the Chernoff bound `first`, about, on, or from a guess where that is far too large; then from close by.

    None if no more than the Chernoff bound is known, and that leaves the range of floats.
    """
    log_delta = math.log(delta)
    upper, lower, steepness, guess, near = math.inf, 0.0, c, 0.8 * first, False
    divides, curve = _divisible(law, guess) is not None, None
    about = _guess(law, delta, guess, max(0.97 * near_other, 1e-3 * guess))
    if about >= guess and not (divides and _is_unknown(law, c)):
        most = _FEW_NODES if about > guess or not divides else _A_FEW_NODES
        curve = _alone(trace(law, c, guess, log_delta, most), 0.0, 0.0)
    if divides and curve is None:
        guess = 0.97 * min(about, guess)
    for i in range(_TRIES):
        if i or curve is None:
            whole = not divides or (near and curve is not None and len(curve.lines) == 1)
            curve = _curve(law, c, guess, log_delta, steepness, near, whole)
            start = guess
        else:
            start = first
        found = None if curve is None else curve.solve(delta, start, 1.01 * min(upper, first))
        if curve is None or found is None:
            if near:
                break
            below = 0.0 if curve is None else curve.lower(guess)
            if curve is None or below <= delta:
                guess /= _REACH
            else:  # ε is above the guess, and the curve does not reach so far
                lower = max(lower, guess)
                fall = -curve.look(guess)[2] * guess / below
                guess = min(guess * _farther(below / delta, fall), 0.99 * first)
            continue
        upper = min(upper, found)
        lower = max(lower, curve.below(delta, upper))
        if upper - lower <= _TIGHT * upper + 1e-12 or (near and guess >= 0.8 * upper):
            break
        c = steepness = max(-curve.look(upper)[2] / delta, 1 / upper)
        if divides and upper < 0.5 * guess:
            guess, curve = 0.97 * min(_guess(law, delta, upper, upper), upper), None
        else:
            guess, near = 0.97 * upper, True
    if divides and _TIGHT * upper + 1e-12 < upper - lower < upper:  # from above: there it may be divided
        curve = _curve(law, c, _FROM_ABOVE * upper, log_delta, steepness, True, False)
        found = None if curve is None else curve.solve(delta, upper, 1.01 * upper)
        if curve is not None and found is not None:
            upper = min(upper, found)
            lower = max(lower, curve.below(delta, upper))
    if upper == math.inf or upper - lower > _TIGHT * upper:
        upper = min(upper, _chernoff(law, log_delta)[1])
    return Bounds(min(lower, upper), upper) if math.isfinite(upper) else None


def _farther(ratio: float, fall: float) -> float:
    """By what factor ε is about larger than where δ is `ratio` times as large, and falls as that power of ε."""
    return math.exp(min(1.1 * math.log(ratio) / fall, 2.0)) if fall > 0 else math.exp(2.0)


def _guess(law: Law, delta: float, most: float, near: float) -> float:
    """About where ε is: what uses that alone lose more than it add to δ, and what all the others do.

    Infinite where it is above the highest level up to `most` at which the law can be divided. `near` is where it
    may well be.
    """
    log_delta, low, high = math.log(delta), most * 1e-9, _divisible(law, most)
    if high is None:
        return math.inf
    before: tuple[float, float] | None = None
    epsilon, c, highest = min(near, high), 0.0, high
    for _ in range(14):
        excess, c = _about(law, epsilon, c)
        excess -= log_delta
        if excess > 0:
            low = epsilon
        else:
            high = epsilon
        if excess > _NEARLY and epsilon == highest:
            return math.inf
        if abs(excess) < _NEARLY or high < 1.003 * low:
            break
        last, before = before, (math.log(epsilon), excess)
        to = epsilon * math.exp(min(max(excess / (c * epsilon), -1.0), 1.0))
        if last is not None and (last[1] - excess) * (before[0] - last[0]) > 0:
            way = excess * (before[0] - last[0]) / (last[1] - excess)
            to = epsilon * math.exp(min(max(way, -2.0), 2.0))
        if to >= high and high == highest:
            to = high
        epsilon = to if low < to < high or to == highest else math.sqrt(low * high)
    return epsilon


def _is_unknown(law: Law, c: float) -> bool:
    """Return whether nothing is known of how fast the integrand falls through c: it is seldom in reach then."""
    return bool(law.falls(c, np.array([c]))[0] == -math.inf)


def _divisible(law: Law, most: float) -> float | None:
    """Return a level up to `most` at which the law can be divided, among the highest; None if there is none."""
    levels = (most * 2.0**-i for i in range(40))
    return next((level for level in levels if law.over(level, math.inf)), None)


def _about(law: Law, epsilon: float, near: float = 0.0) -> tuple[float, float]:
    """About log δ(ε), within a factor of ten or so, and the c of its Chernoff bound, looked for around `near`."""
    calm = law.under(epsilon)
    c = best(calm, lambda c, log_m: log_m + kernels(c) - c * epsilon, near)
    inside = float(calm.rough(np.array([c]))[0]) - c * epsilon - math.log1p(c) - math.log1p(2 * c * epsilon)
    above, beyond = _log_masses(law, epsilon * np.array([1.0, 1.2]))
    fall = (above - beyond) / math.log(1.2) if above > -math.inf else 1.0
    return float(np.logaddexp(inside, above - math.log1p(max(fall - 1, 0.0) / epsilon))), c


def _curve(
    law: Law, c: float, epsilon: float, log_delta: float, steepness: float, near: bool, whole: bool
) -> _Curve | None:
    """Return the curve near ε, by the first way that is good to _FINE of δ, or else by the best."""
    closest, least_error = None, math.inf
    for cost in (0.0, *_COSTS) if near else (0.0, _COSTS[-1]):
        if closest is not None and least_error <= cost * steepness * epsilon:
            break  # what is added would cost more
        for curve in _curves(law, c, epsilon, log_delta, steepness, cost, whole):
            if curve is None:
                continue
            _, off, slope = curve.look(epsilon)
            error = off / math.exp(log_delta) + cost * steepness * epsilon
            if error < least_error:
                closest, least_error = curve, error
            if error <= _FINE or error <= _SHARP * -slope * epsilon / math.exp(log_delta):
                return closest
        if closest is not None and least_error < (_COSTS[0] if near else _ROUGH):
            break
    return closest


def _curves(
    law: Law, c: float, epsilon: float, log_delta: float, steepness: float, cost: float, whole: bool
) -> Iterator[_Curve | None]:
    """As it is, mirrored, divided; each with a Gaussian use added that may cost that share of ε."""
    mu, most = math.sqrt(2 * cost * epsilon / (steepness + 1)), MOST_NODES if cost else _FEW_NODES
    most, best_c = min(most, max(_MOST_NUMBERS // law.width(), 64)), _saddle(law, epsilon)
    c = min(c, best_c) if whole else best_c
    if not whole:
        cut = _cut(law, epsilon, log_delta, mu, cost)
        yield cut
        if cut is None and _is_near(law, c, epsilon, log_delta) and not _is_unknown(law, c):
            yield _alone(trace(law, c, epsilon, log_delta, _A_FEW_NODES, mu), mu, cost)
        yield _divided(law, epsilon, log_delta, most, mu, cost)
    yield _alone(trace(law, c, epsilon, log_delta, most, mu), mu, cost)
    if whole:
        yield _divided(law, epsilon, log_delta, most, mu, cost)
    if log_delta > _MIRRORED:
        yield _alone(trace_mirrored(law, epsilon, log_delta, most, mu), mu, cost)


def _alone(line: Traced | None, mu: float, cost: float) -> _Curve | None:
    return None if line is None else _Curve((line,), mu, cost)


def _cut(law: Law, epsilon: float, log_delta: float, mu: float, cost: float) -> _Curve | None:
    """Without what loses so much that it hardly ever happens, as one line; None where that is out of reach."""
    high = _rare(law, epsilon, log_delta + math.log(_HARDLY_EVER))
    if not epsilon < high < math.inf:  # it is divided at ε, or not at all
        return None
    rest = law.under(high)
    c = _saddle(rest, epsilon)
    if not _is_near(rest, c, epsilon, log_delta):
        return None
    line = trace(rest, c, epsilon, log_delta, _A_FEW_NODES, mu)
    return None if line is None else _Curve((*map(certain, law.over(high, math.inf)), line), mu, cost)


def _is_near(law: Law, c: float, epsilon: float, log_delta: float) -> bool:
    """Return whether the integrand is so near to δ that what cancels leaves the digits that are needed."""
    excess = float(law.rough(np.array([c]))[0]) - c * epsilon - log_delta
    return excess < _NEAR_ENOUGH + math.log(max(_SHARP * c * epsilon, _FINE))


def _divided(law: Law, epsilon: float, log_delta: float, most: int, mu: float, cost: float) -> _Curve | None:
    """Return what loses more than ε at once mirrored, lower bands of loss as they are, until the rest is in reach."""
    level = epsilon
    if not law.over(level, math.inf):
        return None
    for _ in range(_HIGHER):  # where the masses above are far above δ, more would cancel than floats keep
        if _log_masses(law, np.array([level]))[0] <= log_delta + _NEAR_DELTA:
            break
        level *= 1.15
    high = _rare(law, level, log_delta + math.log(_HARDLY_EVER))
    lines: list[Traced] = [certain(part) for part in law.over(high, math.inf)]
    for part in law.over(level, high) if high > level else ():
        line = trace_mirrored(part, epsilon, log_delta, most, mu)
        if line is None:
            return None
        lines.append(line)
    for _ in range(_BANDS):
        found = _direct(law.under(level), epsilon, log_delta, _SOME_NODES, mu)
        if found is not None:
            return _Curve((*lines, found), mu, cost)
        low = level / _RATIO
        lows = [low]
        for _ in range(_WIDER - 1):  # one wide band does, if it is in reach and what is below may be left out
            if _left_out(law.under(low), _saddle(law.under(low), epsilon), epsilon, log_delta) is not None:
                lows = [low, *lows] if low < level / _RATIO else lows
                break
            low /= _RATIO
        for low in dict.fromkeys(lows):
            parts = law.over(low, level)
            if not parts:  # it is not divided so low
                return None
            known = [_direct(part, epsilon, log_delta, most, mu) for part in parts]
            found_all = [line for line in known if line is not None]
            if len(found_all) == len(known):
                break
        else:
            return None
        lines += found_all
        level = low
    return None


def _rare(law: Law, level: float, log_mass: float) -> float:
    """Return a level above `level` that uses exceed with about that chance; infinite if not divided so high."""
    levels = level * _HIGHER_LEVELS
    about = np.maximum(_log_masses(law, levels), -1e4)
    rare = np.flatnonzero(about <= log_mass)
    if not rare.size:
        return math.inf
    i = int(rare[0])
    if not i:
        return level
    share = (about[i - 1] - log_mass) / (about[i - 1] - about[i])
    high = float(levels[i - 1] * (levels[i] / levels[i - 1]) ** min(share + 0.1, 1.0))
    return high if law.over(high, math.inf) else math.inf


def _log_masses(law: Law, levels: Floats) -> Floats:
    """About the logarithm of the chance of some use with a mark at each of several levels."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(law.marks(levels)))


def _direct(law: Law, epsilon: float, log_delta: float, most: int, mu: float) -> Traced | None:
    """Return a line through the best c, or nothing where that is as good."""
    c = _saddle(law, epsilon)
    easiest = _left_out(law, c, epsilon, log_delta)
    if easiest is not None:
        found = dropped(law, easiest, epsilon, log_delta, mu)
        if found is not None:
            return found
    return trace(law, c, epsilon, log_delta, most, mu)


def _left_out(law: Law, c: float, epsilon: float, log_delta: float) -> float | None:
    """Return the least c that seems to serve to leave the law out; c is that of the best Chernoff bound."""
    tried = c * np.geomspace(1e-4, 1.0, 17)
    bounds = law.rough(tried) + kernels(tried) - tried * epsilon
    small = np.flatnonzero(bounds < log_delta + math.log(SHARE) - 1)
    return float(tried[small[0]]) if small.size else None


@lru_cache(maxsize=8)
def _saddle(law: Law, epsilon: float) -> float:
    """Return the c of the best Chernoff bound of log δ(ε), about."""
    return best(law, lambda c, log_m: log_m + kernels(c) - c * epsilon)


def _rough_chernoff(law: Law, log_delta: float) -> tuple[float, float]:
    """Return the c of the best Chernoff bound, and about the ε that it gives."""
    c = best(law, lambda c, log_m: (log_m + kernels(c) - log_delta) / c)
    with np.errstate(all="ignore"):
        found = (float(law.rough(np.array([c]))[0]) + kernel(c) - log_delta) / c
    return c, found if found > -math.inf else math.inf


def _chernoff(law: Law, log_delta: float, most: float = math.inf) -> tuple[float, float]:
    """Return the c of the best Chernoff bound, or where that is larger `most`, and the ε that it gives."""

    def epsilon(c: float) -> float:
        terms = (log_mgf(law, c), kernel(c), -log_delta)
        return (math.fsum(terms) + _UNIT * math.fsum(map(abs, terms))) / c

    c = min(best(law, lambda c, log_m: (log_m + kernels(c) - log_delta) / c), most)
    for _ in range(_HALVINGS):  # nearest to a c at which M leaves the range of floats
        found = epsilon(c)
        if math.isfinite(found):
            return c, found
        c /= 2
    return least(epsilon)
