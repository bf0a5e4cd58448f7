"""δ(ε) from a moment generating function, between certified bounds.

δ(ε) = (1/2πi) ∫ M(z) e^(−zε) / (z(z+1)) dz along Re z = c > 0. The trapezoid rule with step 2π/p gives, by
Poisson's summation formula, Σ_j e^(cjp) δ(ε + jp) exactly: every term is positive, so the sum never falls
below δ(ε), and Chernoff bounds say by how much it may exceed it. What is cut off, the quadrature behind M and
the rounding are bounded and added.

Where |M| does not fall fast enough, the law is divided (`Law.calm`) into parts in which some use loses much,
whose |M| does fall, and a rest that is too unlikely to reach ε to matter. Where it cannot be divided, the loss
of a Gaussian use with a tiny μ is composed on top: that can only raise δ(ε), and it makes the integrand fall.

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

MOST_NODES = 1 << 16
"""The most heights at which a moment generating function is evaluated."""

_FEW_NODES = 1 << 12  # a law that needs more is mirrored or divided first
_LEVELS = (0.25, 0.5, 0.1)  # of ε: where the law may be divided
_MIRRORED = math.log(1e-10)  # a smaller δ would be lost in the rounding of the masses
_FINE = 1e-8  # of δ: an error that needs no better way
_SMOOTHING = 2e-7  # of ε: what the added Gaussian use may cost
_TIME_VALUE = 1 + math.sqrt(2)
_TRIES = 6  # of guesses of where ε is
_UNIT = 2.0**-48  # a few dozen rounding units


def epsilon_bounds(law: Law, delta: float) -> Bounds | None:
    """Bounds of the least ε ≥ 0 with δ(ε) ≤ delta; None when the numbers leave the range of floats.

    Where the integrand falls too slowly the Chernoff bound is all that is said, with 0 below.
    """
    return worst_epsilon((law,), delta)


def worst_epsilon(laws: Sequence[Law], delta: float) -> Bounds | None:
    """Bounds of the largest ε of several laws at delta; a law that is not the worst is not looked at closely."""
    log_delta = math.log(delta)
    starts = sorted(((_chernoff(law, log_delta), i) for i, law in enumerate(laws)), key=lambda s: -s[0][1])
    lower = upper = 0.0
    for (c, first), i in starts:
        if not math.isfinite(first):
            return None
        if first <= lower or first <= 0:  # an upper bound already below what another law needs
            upper = max(upper, min(first, lower))
            continue
        found = _solved(laws[i], delta, c, first)
        lower, upper = max(lower, found.lower), max(upper, found.upper)
    return Bounds(lower, upper)


def delta_bounds(law: Law, epsilon: float) -> Bounds:
    """Bounds of δ(ε), by Chernoff alone (and 0) where the integrand falls too slowly."""
    c, log_delta = _saddle(law, epsilon, 8.0)
    if log_delta < math.log(1e-290):
        return Bounds(0.0, 1e-290)
    chernoff = math.exp(min(log_delta + 1e-9, 0.0))
    curve = _curve(law, c, epsilon, log_delta - 5, c)
    if curve is None:
        return Bounds(0.0, chernoff)
    upper = min(curve.upper(epsilon), chernoff)
    return Bounds(min(curve.lower(epsilon), upper), upper)


@dataclass(frozen=True, slots=True)
class _Curve:
    """The curve of a law, with a Gaussian use of that μ added, as the sum of those of its parts."""

    lines: tuple[Traced, ...]
    mu: float = 0.0

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
    """From the Chernoff bound `first` on; where ε proves to be much smaller, once more from there."""
    best, lower, guess, steepness = first, 0.0, 0.8 * first, c
    for _ in range(_TRIES):
        curve = _curve(law, c, guess, math.log(delta), steepness)
        upper = None if curve is None else curve.solve(delta, best)
        if curve is None or upper is None:
            guess *= 0.5
        else:
            best = min(best, upper)
            lower = max(lower, curve.below(delta, best))
            if best - lower <= 1e-7 * best + 1e-12 or (curve.mu and 0.5 * best < guess < 2 * best):
                break
            steepness = max(-curve.slope(best) / delta, 1 / best) if best else c
            guess = max(min(0.95 * best, 0.4 * guess), 0.8 * lower)
        c, _ = _saddle(law, guess, c)
    return Bounds(min(lower, best), best)


def _curve(law: Law, c: float, epsilon: float, log_delta: float, steepness: float) -> _Curve | None:
    """The curve near ε, by the first way that is good to _FINE of δ, or else by the best."""
    best, least_error = None, math.inf
    for curve in _curves(law, c, epsilon, log_delta, steepness):
        if curve is None:
            continue
        error = curve.value(epsilon)[1]
        if error < least_error:
            best, least_error = curve, error
        if error <= _FINE * math.exp(log_delta):
            break
    return best


def _curves(
    law: Law, c: float, epsilon: float, log_delta: float, steepness: float
) -> Iterator[_Curve | None]:
    """As it is, mirrored, divided; then the same with a Gaussian use added."""
    costs = (_SMOOTHING, 30 * _SMOOTHING, 1000 * _SMOOTHING)
    for cost in (0.0, *costs):
        mu, most = math.sqrt(2 * cost * epsilon / (steepness + 1)), MOST_NODES if cost else _FEW_NODES
        yield _alone(trace(law, c, epsilon, log_delta, most, mu), mu)
        if log_delta > _MIRRORED:
            yield _alone(trace_mirrored(law, epsilon, log_delta, most, mu), mu)
        for share in _LEVELS[:1] if cost else _LEVELS:
            yield _divided(law, share * epsilon, c, epsilon, log_delta, most, mu)


def _alone(line: Traced | None, mu: float) -> _Curve | None:
    return None if line is None else _Curve((line,), mu)


def _divided(
    law: Law, level: float, c: float, epsilon: float, log_delta: float, most: int, mu: float
) -> _Curve | None:
    """The rest where no use loses much as it is, and the parts where some use does mirrored."""
    found = law.calm(level)
    if found is None:
        return None
    parts, rest = found
    lines: list[Traced | None] = [trace(rest, _saddle(rest, epsilon, c)[0], epsilon, log_delta, most, mu)]
    for part in parts:
        if lines[-1] is None:
            return None
        lines.append(trace_mirrored(part, epsilon, log_delta, most, mu))
    known = tuple(line for line in lines if line is not None)
    return _Curve(known, mu) if len(known) == len(lines) else None


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
