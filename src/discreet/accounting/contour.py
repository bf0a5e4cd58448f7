"""δ(ε) from a moment generating function, between certified bounds.

δ(ε) = (1/2πi) ∫ M(z) e^(−zε) / (z(z+1)) dz along Re z = c > 0. The trapezoid rule with step 2π/p gives, by
Poisson's summation formula, Σ_j e^(cjp) δ(ε + jp) exactly: every term is positive, so the sum never falls
below δ(ε), and Chernoff bounds say by how much it may exceed it. What is cut off, the quadrature behind M and
the rounding are bounded and added.

Where a few uses may lose very much, M(c) says more of them than of δ(ε). Then the sum is taken for −L under Q
(`Mirrored`), in which they weigh little; and where δ is too small for that, the law is first divided (`Law.calm`)
into a part in which some use loses much and the rest. Where |M| does not fall fast enough, the loss of a Gaussian
use with a tiny μ is composed on top: that can only raise δ(ε), and it makes the integrand fall.

For parameters that are fixed before the first answer, and only for those: it is not a filter.

References: Zhu, Dong, Wang 2022, https://arxiv.org/abs/2106.08567; proof: docs/proofs/contour.md
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from discreet.accounting.bounds import Bounds
from discreet.accounting.line import Traced, trace, trace_mirrored
from discreet.accounting.saddle import kernel, least, log_mgf
from discreet.privacy.law import Law

MOST_NODES = 1 << 15
"""The most heights at which a moment generating function is evaluated."""

_MOST_NUMBERS = 1 << 23  # that are worked on for one line
_FEW_NODES = 1 << 13  # a law that needs more is mirrored or divided first
_LEVELS = (0.5, 0.35, 0.25, 0.15, 0.06)  # of ε: where the law may be divided
_MIRRORED = math.log(1e-15)  # a smaller δ would be lost in the rounding of the masses
_FINE = 4e-7  # of δ: an error that needs no better way
_COSTS = (3e-7, 1e-4)  # of ε: what the added Gaussian use may cost
_ROUGH = 1e-2  # of δ: an error that is small enough to see where ε is
_TIME_VALUE = 1 + math.sqrt(2)
_TRIES = 5  # of guesses of where ε is
_REACH = 8.0  # a curve made for one ε still serves for one that many times as large
_TIGHT = 5e-7  # of ε: no closer bounds are looked for
_UNIT = 2.0**-48  # a few dozen rounding units


def epsilon_bounds(law: Law, delta: float) -> Bounds | None:
    """Bounds of the least ε ≥ 0 with δ(ε) ≤ delta; None when the numbers leave the range of floats.

    Where the integrand falls too slowly the Chernoff bound is all that is said, with 0 below.
    """
    return worst_epsilon((law,), delta)


def worst_epsilon(laws: Sequence[Law], delta: float) -> Bounds | None:
    """Bounds of the largest ε of several laws at delta; a law that is not the worst is not looked at closely."""
    log_delta = math.log(delta)
    starts = [(*_chernoff(law, log_delta), law) for law in dict.fromkeys(laws)]
    lower = upper = 0.0
    for c, first, law in sorted(starts, key=lambda start: -start[1]):
        if not math.isfinite(first):
            return None
        if first <= lower or first <= 0:  # an upper bound already below what another law needs
            upper = max(upper, min(first, lower))
            continue
        found = _solved(law, delta, c, first)
        lower, upper = max(lower, found.lower), max(upper, found.upper)
    return Bounds(lower, upper)


def delta_bounds(law: Law, epsilon: float) -> Bounds:
    """Bounds of δ(ε), by Chernoff alone (and 0) where the integrand falls too slowly."""
    c, log_delta = _saddle(law, epsilon, 8.0)
    if log_delta < math.log(1e-290):
        return Bounds(0.0, 1e-290)
    chernoff = math.exp(min(log_delta + 1e-9, 0.0))
    curve = _curve(law, c, epsilon, min(log_delta, 0.0) - 5, c, True)
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
        """A number that is at least δ(ε) up to the error, and that error."""
        both = [line.value(epsilon) for line in self.lines]
        return math.fsum(v for v, _ in both), math.fsum(e for _, e in both)

    def upper(self, epsilon: float) -> float:
        return sum(self.value(epsilon))

    def slope(self, epsilon: float) -> float:
        return math.fsum(line.slope(epsilon) for line in self.lines)

    def lower(self, epsilon: float) -> float:
        """A δ that the curve is at least: what the added Gaussian use costs is below what as much again costs."""
        value = math.fsum(line.lower(epsilon) for line in self.lines)
        if self.mu:
            once, twice = self.upper(epsilon), math.fsum(line.twice(epsilon) for line in self.lines)
            more = max(twice - value, twice - once, 0.0)
            value -= _TIME_VALUE * math.exp(self.mu**2 / 4) * more
        return max(value, 0.0)

    def solve(self, delta: float, start: float) -> float | None:
        """An ε ≥ 0 at which the upper bound was seen to be at most delta, within 1e-12 of the least if it can be."""
        low, high, epsilon = 0.0, math.inf, start
        for i in range(60):
            value, error = self.value(epsilon)
            slope = self.slope(epsilon)
            if value + error <= delta:
                high = min(high, epsilon)
                if epsilon == 0.0:
                    return 0.0
            elif i == 0:
                return None
            else:
                low = max(low, epsilon)
            if high - low <= 1e-12 * high:
                break
            if value > 4 * error and slope < 0:
                newton = epsilon + math.log((value + error) / delta) * value / -slope
                if high - newton < 1e-12 * high:  # it has settled: look just above, or be content
                    if epsilon == high:
                        break
                    newton = min(newton + 5e-13 * high, high)
                newton = max(newton, 0.0 if i < 3 else low)
            else:
                newton = (low + high) / 2
            epsilon = newton if low < newton < high or newton == low == 0.0 else (low + high) / 2
        return high if high < math.inf else None

    def below(self, delta: float, upper: float) -> float:
        """An ε that the least one is at least: there the certified δ still exceeds delta."""
        slope = self.slope(upper)
        gap = self.upper(upper) - self.lower(upper)
        step = max(2 * gap / -slope if slope < 0 else 0.0, 1e-11 * upper, 1e-14)
        for _ in range(40):
            epsilon = upper - step
            if epsilon <= 0:
                return 0.0
            if self.lower(epsilon) > delta:
                return epsilon
            step *= 3
        return 0.0


def _solved(law: Law, delta: float, c: float, first: float) -> Bounds:
    """From the Chernoff bound `first` on, or from a guess where that is far too large; then from close by."""
    log_delta = math.log(delta)
    best, lower, steepness = first, 0.0, c
    line = trace(law, c, 0.8 * first, log_delta, _FEW_NODES)
    curve, guess, near = _alone(line, 0.0, 0.0), 0.8 * first, False
    for i in range(_TRIES):
        if i or curve is None:
            guess = _guess(law, delta, 0.8 * first) if i == 0 else guess
            curve = _curve(law, c, guess, log_delta, steepness, near)
        upper = None if curve is None else curve.solve(delta, min(best, _REACH * guess if i else best))
        if curve is None or upper is None:
            if near:
                break
            guess /= _REACH
            continue
        best = min(best, upper)
        lower = max(lower, curve.below(delta, best))
        if best - lower <= _TIGHT * best + 1e-12 or near:
            break
        c = steepness = max(-curve.slope(best) / delta, 1 / best)
        guess, near = 0.95 * best, True
    return Bounds(min(lower, best), best)


def _guess(law: Law, delta: float, most: float) -> float:
    """About where ε is: the Chernoff bound of what is mirrored, and a level that some use exceeds with about δ."""
    mirror = law.mirror()
    if mirror is None:
        return most
    low, high = 0.0, most
    for _ in range(12):
        level = (low + high) / 2
        found = law.calm(level)
        if found is None:
            return most
        if math.fsum(part.masses()[0] for part in found[0]) > delta:
            low = level
        else:
            high = level
    return min(max(_chernoff(mirror, math.log(delta))[1], 0.0) + low, most)


def _curve(
    law: Law, c: float, epsilon: float, log_delta: float, steepness: float, near: bool
) -> _Curve | None:
    """The curve near ε, by the first way that is good to _FINE of δ, or else by the best."""
    best, least_error = None, math.inf
    whole, divided = (
        [(0.0, ()), (_COSTS[-1], ())],
        [(0.0, _LEVELS), *((cost, _LEVELS[:1]) for cost in _COSTS)],
    )
    for cost, levels in divided if near else whole + divided:
        for curve in _curves(law, c, epsilon, log_delta, steepness, cost, levels):
            if curve is None:
                continue
            error = curve.value(epsilon)[1] / math.exp(log_delta) + cost * steepness * epsilon
            if error < least_error:
                best, least_error = curve, error
            if error <= _FINE:
                return best
        if best is not None and least_error < (_COSTS[0] if near else _ROUGH):
            break
    return best


def _curves(
    law: Law,
    c: float,
    epsilon: float,
    log_delta: float,
    steepness: float,
    cost: float,
    levels: tuple[float, ...],
) -> Iterator[_Curve | None]:
    """As it is, mirrored, divided; each with a Gaussian use added that may cost that share of ε."""
    mu, most = math.sqrt(2 * cost * epsilon / (steepness + 1)), MOST_NODES if cost else _FEW_NODES
    most = min(most, max(_MOST_NUMBERS // law.width(), 64))
    yield _alone(trace(law, c, epsilon, log_delta, most, mu), mu, cost)
    if log_delta > _MIRRORED:
        yield _alone(trace_mirrored(law, epsilon, log_delta, most, mu), mu, cost)
    for share in levels:
        yield _divided(law, share * epsilon, c, epsilon, log_delta, most, mu, cost)


def _alone(line: Traced | None, mu: float, cost: float) -> _Curve | None:
    return None if line is None else _Curve((line,), mu, cost)


def _divided(
    law: Law, level: float, c: float, epsilon: float, log_delta: float, most: int, mu: float, cost: float
) -> _Curve | None:
    """The rest where no use loses much as it is, and the parts where some use does mirrored."""
    found = law.calm(level)
    if found is None:
        return None
    parts, rest = found
    best, _ = _saddle(rest, epsilon, c)
    # Far beyond its mark M may grow without bounds: the best c is then too near to that.
    tries = (trace(rest, share * best, epsilon, log_delta, most, mu) for share in (1.0, 0.5))
    lines: list[Traced | None] = [next((line for line in tries if line is not None), None)]
    for part in parts:
        if lines[-1] is None:
            return None
        lines.append(trace_mirrored(part, epsilon, log_delta, most, mu))
    known = tuple(line for line in lines if line is not None)
    return _Curve(known, mu, cost) if len(known) == len(lines) else None


def _saddle(law: Law, epsilon: float, start: float) -> tuple[float, float]:
    """The c of the best Chernoff bound of log δ(ε), and that bound."""
    start = min(max(start, 1e-3), 1e6)
    return least(lambda c: log_mgf(law, c) + kernel(c) - c * epsilon, start)


def _chernoff(law: Law, log_delta: float) -> tuple[float, float]:
    """The c of the best Chernoff bound, and the ε that it gives."""

    def epsilon(c: float) -> float:
        terms = (log_mgf(law, c), kernel(c), -log_delta)
        return (math.fsum(terms) + _UNIT * math.fsum(map(abs, terms))) / c

    return least(epsilon)
