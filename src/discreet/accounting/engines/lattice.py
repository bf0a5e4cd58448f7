"""ε and δ of a composition of any pairs, between certified bounds: grid laws and a tilted Fourier transform.

Every pair becomes a law on one grid (dots.py), and the laws are convolved by FFT after a tilt by e^(cℓ), with c
near the saddle point of what was asked (tilted.py). All errors are inside the bounds. Two plans are tried: the
step that divides every loss, if there is one, splits nothing; otherwise the step follows from the gap wanted.

For parameters that are fixed before the first answer, and only for those: it is not a filter.

References:
    Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, *Connect the Dots*, https://arxiv.org/abs/2207.04380;
    Koskela, Jälkö, Honkela 2020 (accounting by FFT), https://arxiv.org/abs/1906.03049; Zhu, Dong, Wang 2022,
    Theorem 10 (products of pairs), https://arxiv.org/abs/2106.08567; proof: docs/proofs/lattice-composition.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from discreet.accounting.bounds import Bounds
from discreet.accounting.engines.connect_the_dots import FARTHEST, GridLaw, connect_the_dots, reach
from discreet.accounting.engines.tilted import TiltedSums, TiltedWindow, log_kernel, log_mgf, tilt, transformed
from discreet.privacy.law import AtomsLaw
from discreet.privacy.pair import ACCURACY, FLOOR, Pair

Parts: TypeAlias = Sequence[tuple[Pair, int]]

MOST_POINTS = 1 << 19
"""The longest transform but for the hardest compositions; with many pairs, or slow curves, a shorter one."""

_GAP = 1e-7  # of ε: what the grid may cost, if the points suffice
_ROUGH_GAP = 1e-5  # the same for a whole curve
_NEAR = 1e-4  # of δ: where the bounds of a whole curve are as near as this, no other tilt is tried
_PLACES = (0.3, 0.0, 1.0, 0.1, 0.6)  # of the largest ε: where it is looked
_COARSEST = 0.25  # of all steps: where ε is so large that its share would be longer
_LARGEST = 1e6  # the largest sum of losses: beyond it the points of a grid have too few digits
_PATIENCE = 6  # times as much for slow curves
_HARD = 3.2  # a composition whose step would be so many times too long takes twice the points
_SHARE = 1e-11  # of δ: what the window and the ends of the grids may each cost
_COARSE = 1200  # points of the laws on which the tilt and the window are found
_LATTICE = 1 << 14  # the most steps of one pair's grid for trying the step that divides all losses
_STEEPEST = 2e4  # the largest c·ε
_STEEP_STEP = 10.0  # the largest c·step where losses are multiples of the step: more would blur the point below
_MOST_TILT = 20.0
_MOST_STEEP = 2.0**30  # over the sum of the largest losses: a larger t would lose the digits of log M
_GOLDEN = (math.sqrt(5) - 1) / 2


def epsilon_bounds(parts: Parts, delta: float) -> Bounds | None:
    """Bounds of the least ε ≥ 0 at which the product of the pairs, each with its count, has δ(ε) ≤ delta.

    None when there is none, or when losses leave the range of floats.

    Guarantee:
        The product's curve at `upper` is at most delta; at every ε below `lower` it is above delta, if the
        pairs' curves are exact up to `ACCURACY`. Both are for one direction: the caller reverses the pairs.
    References: docs/proofs/lattice-composition.md, "The result".
    """
    unseen = _unseen(parts)
    if unseen > delta * 2.0**-54:
        return None
    parts = _merged(parts)
    if not parts:
        return Bounds(0.0, 0.0)
    delta = math.nextafter(delta, 0.0)  # which leaves room for it
    if len(parts) == 1 and parts[0][1] == 1:
        return _single(parts[0][0], delta)
    log_delta = math.log(delta)
    plan = _plan(
        parts, math.log(max(delta * _SHARE, FLOOR)), lambda k: lambda c: (k(c) + log_kernel(c) - log_delta) / c
    )
    if plan is None:
        return None
    start = max(plan.value, 0.0)
    sums = _sums(plan, start, max(start, 1e-3))
    return None if sums is None else sums.epsilon(delta)


def delta_bounds(parts: Parts, epsilon: float) -> Bounds:
    """Bounds of the δ(ε) of the product of the pairs, each with its count; 0 and 1 where floats do not reach.

    Guarantee:
        The product's curve at `epsilon` ≥ 0 is at most `upper`, and at least `lower` if the pairs' curves are
        exact up to `ACCURACY`.
    References: docs/proofs/lattice-composition.md, "The result".
    """
    unseen = _unseen(parts)
    parts = _merged(parts)
    if not parts:
        return Bounds(0.0, unseen)
    if len(parts) == 1 and parts[0][1] == 1:
        at = np.array([epsilon])
        value = float(parts[0][0].delta(at)[0])
        upper = float(parts[0][0].upper(at)[0])
        return Bounds(max(value * (1 - 2 * ACCURACY) - FLOOR, 0.0), upper)
    if epsilon > FARTHEST:
        return Bounds(0.0, delta_bounds(parts, FARTHEST / 2).upper)  # a smaller ε has the larger δ
    share, plan = math.log(_SHARE), None
    for _ in range(3):  # how far the grids must go follows from δ, which is found on the way
        plan = _plan(parts, share, partial(_at, epsilon), epsilon)
        if plan is None:
            return Bounds(0.0, 1.0)
        wanted = max(plan.value + math.log(_SHARE / 100), math.log(FLOOR))
        if share <= wanted + 1:
            break
        share = wanted
    assert plan is not None
    sums = _sums(plan, epsilon, max(epsilon, 1e-3))
    if sums is None:
        return Bounds(0.0, 1.0)
    return Bounds(max(sums.below(epsilon), 0.0), min(sums.above(epsilon) + unseen, 1.0))


@dataclass(frozen=True, slots=True)
class UpperCurve:
    """An upper bound of the curve of a product of pairs at every ε ≥ 0, from a few tilts.

    Guarantee:
        δ(ε) of the product is at most `delta(ε)`.
    References: docs/proofs/lattice-composition.md, "The result": each of the sums bounds the curve everywhere.
    """

    top: float
    """An ε beyond which δ is at most what was asked for."""
    sums: tuple[TiltedSums, ...]
    unseen: float

    def delta(self, epsilon: float) -> float:
        """At least δ(ε); 1 where the sums do not reach."""
        return min(min((known.above(epsilon) for known in self.sums), default=0.0) + self.unseen, 1.0)

    def is_near(self, epsilon: float, small: float) -> bool:
        """Return whether a lower bound shows that little is lost there."""
        above = self.delta(epsilon)
        below = max((known.below(epsilon) for known in self.sums), default=above)
        return above - below <= max(_NEAR * above, small)


def upper_curve(parts: Parts, delta: float) -> UpperCurve | None:
    """Return the curve of the product of the pairs, each with its count, down to `delta`; None when out of range."""
    unseen = _unseen(parts)
    parts = _merged(parts)
    if not parts:
        return UpperCurve(0.0, (), unseen)
    log_delta, share = math.log(delta), math.log(max(delta * _SHARE, FLOOR))
    steep = _plan(parts, share, lambda k: lambda c: (k(c) + log_kernel(c) - log_delta) / c)
    if steep is None or unseen > delta / 2:
        return None
    top = max(steep.value, 0.0) + 1e-9
    curve = UpperCurve(top, (), unseen)
    for place in _PLACES:
        epsilon = place * top
        if curve.sums and curve.is_near(epsilon, delta / 10):
            continue
        plan = _plan(parts, share, partial(_at, epsilon), epsilon)
        sums = None if plan is None else _sums(plan, epsilon, max(epsilon, 0.3 * top), _ROUGH_GAP)
        if sums is None:
            return None
        curve = replace(curve, sums=(*curve.sums, sums))
    return curve


@dataclass(frozen=True, slots=True)
class _Plan:
    """The grids' ends, the tilt and what is expected there."""

    parts: Parts
    ends: list[tuple[float, float]]
    laws: list[GridLaw]
    c: float
    value: float
    tail: float
    """The logarithm of the share of the tilted sum that may fall outside the window."""

    def counts(self) -> list[int]:
        return [n for _, n in self.parts]

    def log_mgf(self, c: float) -> float:
        return math.fsum(n * log_mgf(law, c) for law, (_, n) in zip(self.laws, self.parts, strict=True))

    def above(self) -> tuple[float, float]:
        """Return the t for the tilted sum's Chernoff bound above, and the loss that it gives."""
        return self._chernoff(1.0)

    def below(self) -> tuple[float, float]:
        """Return the same below."""
        t, value = self._chernoff(-1.0)
        return t, -value

    def _chernoff(self, side: float) -> tuple[float, float]:
        k = self.log_mgf(self.c)

        def loss(t: float) -> float:
            return (self.log_mgf(self.c + side * t) - k - self.tail) / t

        t, value = _least(loss, at=self._t())
        # Near the largest loss of all, t grows without end, until rounding is all that is left.
        farthest = max(max(-low, high) for low, high in self.ends)
        most = _MOST_STEEP / (sum(self.counts()) * (1 + farthest) + FARTHEST)
        return (t, value) if t <= most else (most, loss(most))

    def _t(self) -> float:
        variance = math.fsum(n * _variance(law, self.c) for law, (_, n) in zip(self.laws, self.parts, strict=True))
        return min(math.sqrt(-2 * self.tail / max(variance, 1e-30)), math.exp(_MOST_TILT))


def _sums(plan: _Plan, epsilon: float, size: float, share: float = _GAP) -> TiltedSums | None:
    work = sum(pair.work for pair, _ in plan.parts)
    most = max(min(MOST_POINTS, int(4 * MOST_POINTS / (work + 3))), 1 << 14)
    common = _common_step(plan)
    if common is not None and max(high - low for low, high in plan.ends) < common * _LATTICE:
        # Where all losses are multiples of one step nothing is split. A tilt that leaves one step alone is enough.
        laws = _dots(plan, common)
        gentle = replace(plan, laws=laws, c=min(plan.c, _STEEP_STEP / common))
        window = _window(gentle, epsilon) if all(law.exact for law in laws) else None
        if window is not None and window.length < common * most:
            return transformed(laws, plan.counts(), gentle.c, epsilon, window)
    window = _window(plan, epsilon)
    if window is None:
        return None
    # Splitting costs about SPLIT²/2·1.5 + 1/12 of a squared step in (c + 1)ε for every use.
    gap = share * min(work, _PATIENCE)
    step = min(math.sqrt(gap * size / (0.7 * sum(n for _, n in plan.parts) * (plan.c + 1))), _COARSEST)
    if window.length > _HARD * step * most:
        most *= 2
    step = max(step, window.length / (0.98 * most - 8))
    if common is not None and common > step:
        step = common / math.floor(common / step)
    return transformed(_dots(plan, step), plan.counts(), plan.c, epsilon, window)


def _window(plan: _Plan, epsilon: float) -> TiltedWindow | None:
    (up, top), (down, bottom) = plan.above(), plan.below()
    if not max(abs(top), abs(bottom), epsilon) <= _LARGEST or top - min(bottom, epsilon) > FARTHEST:
        return None
    margin = 0.05 * (top - bottom) + 1e-9
    top, bottom = max(top, epsilon) + margin, min(bottom, epsilon) - margin
    return TiltedWindow(bottom, top, down, up, max(top - bottom, *(high - low for low, high in plan.ends)))


def _dots(plan: _Plan, step: float) -> list[GridLaw]:
    return [connect_the_dots(pair, step, *ends) for (pair, _), ends in zip(plan.parts, plan.ends, strict=True)]


def _plan(
    parts: Parts,
    log_share: float,
    objective: Callable[[Callable[[float], float]], Callable[[float], float]],
    epsilon: float | None = None,
) -> _Plan | None:
    """Return the tilt that makes the objective of log M least, on coarse grids; None when out of range."""
    uses = sum(n for _, n in parts)
    share = max(math.exp(log_share) / uses, 1e3 * FLOOR)
    ends, laws = [], []
    for pair, _ in parts:
        found = reach(pair, share)
        if found is None:
            return None
        ends.append(found)
        low, high = found
        law = connect_the_dots(pair, max((high - low) / _COARSE, 2.0**-40), low, high)
        if not law.mass.any():
            return None
        laws.append(law)
    draft = _Plan(parts, ends, laws, 0.0, 0.0, math.log(_SHARE / 10))
    c, value = _least(objective(draft.log_mgf), at=8.0)
    if not math.isfinite(value):
        return None
    # The largest loss of all may be reached with more than δ: then c grows without end, to no avail.
    largest = math.fsum(n * high for (_, n), (_, high) in zip(parts, ends, strict=True))
    steepest = _STEEPEST / max(min(max(value if epsilon is None else epsilon, largest / 100), largest), 1e-9)
    return _Plan(parts, ends, laws, min(c, steepest), min(value, largest), draft.tail)


def _at(epsilon: float, log_mgf: Callable[[float], float]) -> Callable[[float], float]:
    """Return the logarithm of the Chernoff bound of δ(ε)."""
    return lambda c: log_mgf(c) + log_kernel(c) - c * epsilon


def _common_step(plan: _Plan) -> float | None:
    """Return a number of which all losses seem to be multiples: a proposal, which the curves confirm or not."""
    common = 0.0
    for pair, _ in plan.parts:
        law = pair.law()
        losses = np.abs(law.loss[:64]) if isinstance(law, AtomsLaw) else np.array([pair.epsilon_max])
        for loss in losses:
            a, b = float(loss), common
            if not math.isfinite(a):
                return None
            scale = max(a, b)
            while b > 1e-11 * scale:
                a, b = b, abs(a - b * round(a / b))
            common = a if a > 1e-11 * scale else common
        if common < 1e-7:
            return None
    return common


def _merged(parts: Parts) -> list[tuple[Pair, int]]:
    """Equal pairs counted together, without those that reveal less than `FLOOR` tells: see `_unseen`."""
    counts: dict[Pair, int] = {}
    zero = np.zeros(1)
    for pair, n in parts:
        if n and (pair.upper(zero)[0] > 2 * FLOOR or pair.reverse().upper(zero)[0] > 2 * FLOOR):
            counts[pair] = counts.get(pair, 0) + n
    return list(counts.items())


def _unseen(parts: Parts) -> float:
    """Return what uses reveal together that reveal too little for a curve to show each, and its rounding."""
    return min(4 * FLOOR * float(min(sum(n for _, n in parts), 10**300)), 1.0)


def _single(pair: Pair, delta: float) -> Bounds | None:
    """One use needs no grid."""
    high = pair.epsilon_max if math.isfinite(pair.epsilon_max) else 1.0

    def curve(x: float) -> float:
        return float(pair.delta(np.array([x]))[0])

    def fits(x: float) -> bool:
        return float(pair.upper(np.array([x]))[0]) <= delta

    def exceeds(x: float) -> bool:
        return curve(x) * (1 - 2 * ACCURACY) > delta

    while not fits(high):
        if math.isfinite(pair.epsilon_max) or high > FARTHEST:
            return None
        high *= 2
    if fits(0.0):
        return Bounds(0.0, 0.0)
    low, top = 0.0, high
    while top - low > 1e-14 * top:
        middle = (low + top) / 2
        low, top = (low, middle) if fits(middle) else (middle, top)
    upper, low = top, 0.0
    while top - low > 1e-14 * upper:
        middle = (low + top) / 2
        low, top = (middle, top) if exceeds(middle) else (low, middle)
    return Bounds(low, upper)


def _variance(law: GridLaw, c: float) -> float:
    _, w, _ = tilt(law, c)
    x, total = law.losses(), float(w.sum())
    mean = float(w @ x) / total
    return float(w @ (x - mean) ** 2) / total


def _least(f: Callable[[float], float], *, at: float) -> tuple[float, float]:
    """Return the place of the least value found of a quasi-convex function of log x, and the value."""
    middle, step = math.log(at), math.log(2.0)
    here, left, right = f(at), f(at / 2), f(at * 2)
    while left < here and middle > -20:
        middle, right, here = middle - step, here, left
        left = f(math.exp(middle - step))
    while right < here and middle < _MOST_TILT:
        middle, left, here = middle + step, here, right
        right = f(math.exp(middle + step))
    low, high = middle - step, middle + step
    a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    fa, fb = f(math.exp(a)), f(math.exp(b))
    while high - low > 0.02:
        if fa <= fb:
            high, b, fb = b, a, fa
            a = high - _GOLDEN * (high - low)
            fa = f(math.exp(a))
        else:
            low, a, fa = a, b, fb
            b = low + _GOLDEN * (high - low)
            fb = f(math.exp(b))
    return (math.exp(a), fa) if fa <= fb else (math.exp(b), fb)
