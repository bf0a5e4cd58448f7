"""A hockey-stick curve replaced by a law on a grid: above the curve, and by a known amount at most.

"Connecting the dots" splits every loss between its two neighbours on the grid. That composes to a curve which
is never too low. How much too high is known as well: the split is the likelihood ratio of a mechanism of
bounded range `step`, which is (√(2π)/4)·step-GDP, so the grid law is below the pair composed with one
Gaussian use. Where the losses lie on the grid already nothing is split, which the curve itself shows.

References: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, *Connect the Dots*,
https://arxiv.org/abs/2207.04380; both directions: docs/proofs/lattice-composition.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.pair import ACCURACY, FLOOR, Curve, Pair

FARTHEST = 600.0
"""The largest loss of one use; e^loss stays well inside the range of floats."""

SPLIT = math.sqrt(2 * math.pi) / 4 * (1 + 2.0**-50)
"""The μ of a Gaussian use that covers the splitting of losses over a grid, in steps."""

_UNIT = 2.0**-52  # twice the rounding unit
_EXACT = 1e-7  # a pair that is this close to its grid law, relatively, has its losses on the grid
_PASSES = 16
_SAMPLE = 65  # cells that show whether to look at all of them
_BLOCK = 1 << 16
_BIG = 2.0**200  # differences of the smallest δ are floats when they are so many times larger


@dataclass(frozen=True, slots=True, eq=False)
class GridLaw:
    """Masses under P of the losses `step·(first + i)`, and of an infinite loss.

    Guarantee:
        With U its curve and δ the pair's: δ(ε) ≤ U(ε − nudge) at every ε, and U ≤ e^excess·S + lost, where S is
        δ(ε − nudge) if `exact` and otherwise the curve of the pair with a Gaussian use of μ = SPLIT·step.
    """

    first: int
    step: float
    mass: Curve
    infinite: float
    exact: bool
    nudge: float
    excess: float
    lost: float

    def losses(self) -> Curve:
        """Return the finite losses, each rounded once."""
        return self.step * np.arange(self.first, self.first + self.mass.size, dtype=np.float64)

    def delta(self, epsilon: float) -> float:
        """U(ε), up to rounding."""
        return float(self.mass @ -np.expm1(np.minimum(epsilon - self.losses(), 0.0))) + self.infinite


def reach(pair: Pair, share: float) -> tuple[float, float] | None:
    """Where to end the grid below and above so that about `share` is lost; None when it is out of range."""
    ends = []
    for side, weighs in ((pair.reverse(), True), (pair, False)):
        x = np.append(0.0, np.geomspace(2.0**-40, 1.05 * FARTHEST, 600))
        last = float(side.delta(np.array([side.epsilon_max]))[0]) if math.isfinite(side.epsilon_max) else 0.0
        left = np.maximum(side.upper(x) - last * (1 + 3 * ACCURACY), 0.0)
        small = np.flatnonzero(left * (np.exp(-x) if weighs else 1.0) <= share)
        end = min(float(x[small[0]]) if small.size else math.inf, max(side.epsilon_max, 0.0))
        if end > FARTHEST:
            return None
        ends.append(end)
    return -ends[0], ends[1]


def connect_the_dots(pair: Pair, step: float, low: float, high: float) -> GridLaw:
    """Return the grid law of a pair over [low, high] at least; `low` ≤ 0 ≤ `high`, at most 2^21 steps away."""
    first, last = math.floor(low / step * (1 + _UNIT)) - 1, max(math.ceil(high / step * (1 - 2 * _UNIT)), 1)
    if last * step < high * (1 - 2.0**-45):
        last += 1
    size = last - first + 1
    nudge = step * max(2.0**-32, max(-first, last) * 2.0**-49)
    x = step * np.arange(first, last + 1, dtype=np.float64)
    # At `nudge`/2 beyond the rounded grid: at least the grid itself, and at most the grid and `nudge`.
    y = np.minimum(pair.delta(x + nudge / 2), 1.0)
    y[y < 4 * FLOOR] = 0.0  # an infinite loss covers it: there a curve has no digits

    mass, kept = _bends(y * _BIG, step)
    # The curve of these masses at every dot, by positive terms only: H at e^x_j is `infinite` and the sum over
    # m ≥ j of (e^x_m+1 − e^x_m) Q(loss > x_m).
    shape = _implied(mass, x, step)
    implied, infinite = shape / _BIG + y[-1], float(y[-1])
    total = float(mass.sum()) / _BIG + infinite
    some = kept[y[kept] > 0]
    # Dots that were passed by do not count: the pair's curve, being convex, is below the polygon.
    over = (shape[some] + y[-1] * _BIG) / (y[some] * _BIG)
    rounding = (3 * size + 64) * _UNIT
    scale = max(1 / float(np.min(over, initial=1.0)), 1 / total, 1.0) * (1 + ACCURACY) * (1 + rounding)
    most = max(float(np.max(over, initial=1.0)), total) * scale * (1 + ACCURACY) * (1 + rounding)
    nowhere = 2 * float(np.max(implied[y == 0], initial=0.0)) * scale
    mass *= scale / _BIG  # what becomes less than a float can be joins the infinite loss
    infinite = infinite * scale + 8 * FLOOR

    # What the ends of the grid add: the last dot above, and e^low·δ(−low) of the reverse pair below.
    reverse = pair.reverse()
    lost = nowhere + 16 * FLOOR
    if not x[-1] + nudge / 2 >= pair.epsilon_max:
        lost += infinite
    if not -x[0] - nudge >= reverse.epsilon_max:
        lost += float(np.exp(x[0]) * reverse.upper(np.array([-x[0] - nudge]))[0]) * (1 + 2.0**-20)
    sharp = _on_the_grid(pair, x, implied * (scale * (1 + rounding)), step, nudge)
    exact = sharp <= min(_EXACT, max(_EXACT / 100, step * step / 20))  # a smooth curve is better served otherwise
    excess = math.log1p(max(sharp, most - 1)) if exact else math.log(most)
    return GridLaw(first, step, mass, infinite, exact, nudge, excess * (1 + 2 * _UNIT) + _UNIT, lost)


def _bends(y: Curve, step: float) -> tuple[Curve, NDArray[np.intp]]:
    """Return the masses of the convex polygon from (0, _BIG), with no dot below it, and which dots it meets."""
    keep = np.arange(y.size)
    bend = _bend(y, keep, step)
    for _ in range(_PASSES):
        bad = np.flatnonzero(bend[1:-1] < 0) + 1
        if not bad.size:
            break
        keep = np.delete(keep, bad)  # a dot above the chord of two others is not on the polygon
        bend = _bend(y, keep, step)
    else:
        keep = keep[_walk(keep.tolist(), y[keep].tolist(), bend, step)]
        bend = _bend(y, keep, step)
    mass = np.zeros(y.size)
    mass[keep] = np.maximum(bend, 0.0)  # more mass is a higher curve
    return mass, keep


def _walk(place: list[int], y: list[float], bend: Curve, step: float) -> list[int]:
    """Return the same dot by dot, for a dent that a few passes do not fill."""
    before, after = list(range(-1, len(y) - 1)), list(range(1, len(y) + 1))
    gone = bytearray(len(y))
    bad = (np.flatnonzero(bend[1:-1] < 0) + 1).tolist()
    while bad:
        i = bad.pop()
        a, b = before[i], after[i]
        if gone[i] or a < 0 or b >= len(y):
            continue
        left, right = step * (place[i] - place[a]), step * (place[b] - place[i])
        if (y[a] - y[i]) / -math.expm1(-left) >= (y[i] - y[b]) * math.exp(-right) / -math.expm1(-right):
            continue
        gone[i] = 1
        after[a], before[b] = b, a
        bad += (a, b)
    return [i for i, out in enumerate(gone) if not out]


def _bend(y: Curve, keep: NDArray[np.intp], step: float) -> Curve:
    gap, drop = step * np.diff(keep), -np.diff(y[keep])
    return np.asarray(
        np.append(_BIG - y[keep[0]], drop / -np.expm1(-gap)) - np.append(drop * np.exp(-gap) / -np.expm1(-gap), 0.0)
    )


def _implied(mass: Curve, x: Curve, step: float) -> Curve:
    shift = 50.0  # e^(600 − 50)·2^200, and 2^21 of these, are floats
    above = np.append(np.cumsum((mass * np.exp(-x - shift))[:0:-1])[::-1], 0.0)
    return np.asarray(math.expm1(step) * np.cumsum((np.exp(x + shift) * above)[::-1])[::-1])


def _on_the_grid(pair: Pair, x: Curve, dots: Curve, step: float, nudge: float) -> float:
    """Return the least η found with dots-curve ≤ (1 + η)·δ(ε − nudge) everywhere; infinite when there is none.

    δ is convex in e^ε: to the left of a cell's middle it is above the secant to the right, and conversely. Both
    secants and the dots-curve are straight on half a cell, so comparing at the ends of the halves is enough.
    """
    some = np.unique(np.linspace(0, x.size - 2, _SAMPLE).astype(np.intp))
    if _secants(pair, x[some], dots[some], dots[some + 1], step, nudge)[0] > 1 + _EXACT:
        return math.inf  # a few cells say so already
    most, first = 1.0, math.inf
    for i in range(0, x.size - 1, _BLOCK):
        end = min(i + _BLOCK, x.size - 1)
        ratio, secant = _secants(pair, x[i:end], dots[i:end], dots[i + 1 : end + 1], step, nudge)
        most, first = max(most, ratio), secant if i == 0 else first
    # Below the first dot the curve is above 1 − e^ε, and above the first secant, which ends at e^ε = 0.
    plain = float(dots[0]) / -math.expm1(float(x[0]) - nudge * 7 / 8)
    most = max(most, min(plain, first))
    return (most - 1) * (1 + 2.0**-20) + 2.0**-46


def _secants(
    pair: Pair, x: Curve, left_dots: Curve, right_dots: Curve, step: float, nudge: float
) -> tuple[float, float]:
    """Return the largest ratio of dots-curve to secants in the cells from x, and 1 over the first at e^ε = 0."""
    shift = nudge * 7 / 8  # the rounding of the grid is below an eighth
    first, low, last = (pair.delta(x + step * part) for part in (0.25, 0.5, 0.75))
    low = low * (1 - ACCURACY)
    a, b = -math.expm1(-step / 4), math.expm1(step / 4)  # the distances to the quarters, over e^middle
    far, near = -math.expm1(-step / 2 - shift), math.expm1(step / 2 - shift)
    left = low + far / b * (low - last * (1 + ACCURACY))
    right = low - near / a * (first * (1 + ACCURACY) - low)
    part = math.expm1(step / 2 + shift) / math.expm1(step)  # where the middle is on the chord of the dots
    between = left_dots + part * (right_dots - left_dots)
    lines = np.concatenate([left, low, right])
    curve = np.concatenate([left_dots, between, right_dots])
    if np.any(lines < 0):
        return math.inf, math.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(curve > 0, curve / lines, 1.0)
    at_zero = float(low[0] + (low[0] - last[0] * (1 + ACCURACY)) / b)
    return float(np.max(ratio)), 1 / max(at_zero, 1e-300)
