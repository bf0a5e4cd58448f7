"""Any two laws on the line with a monotone likelihood ratio, as an event on finitely many outcomes.

Functions cannot be stored, so they are read once, at given points, and what is kept is a finite pair of laws
whose curve lies above that of the densities everywhere: the polygon through known points of the curve, in exact
fractions. More points bring it as near as is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidParameter
from discreet.privacy.discrete_events import AtomsEvent
from discreet.privacy.exact import Real, above, count, exact

ACCURACY = 1e-13
"""How far a density's logarithm (relative to its size and 1), cdf and sf (relatively) may be off."""

_UNIT = 2.0**-52
_BITS = 50  # of a slope, after rounding it up
_DEEPEST = 10.0  # e^(−t²) at the last quantile, about 1e-44
_TINY = Fraction(1, 2**1000)  # more than what underflows
_FARTHEST = 600  # a loss up to which ratios are floats with room to spare

Floats = NDArray[np.float64]
Vertex = tuple[Fraction, Fraction]


class Density(Protocol):
    """A continuous law on the line; `scipy.stats.norm(0, 1)` is one."""

    def logpdf(self, x: Floats, /) -> ArrayLike:
        """Return the logarithm of the density."""

    def cdf(self, x: Floats, /) -> ArrayLike:
        """Return the probability up to x."""

    def sf(self, x: Floats, /) -> ArrayLike:
        """Return the probability beyond x, to the same relative accuracy."""

    def ppf(self, q: Floats, /) -> ArrayLike:
        """Return the inverse of `cdf`, about."""

    def isf(self, q: Floats, /) -> ArrayLike:
        """Return the inverse of `sf`, about."""


def from_densities(
    p: Density, q: Density, *, points: int | Sequence[float] | Floats = 1024, largest: Real | None = None
) -> AtomsEvent:
    """Return the event of a use whose output has density p on a data set with a unit, and q without it.

    Guarantee:
        Its pair dominates (p, q), and reversed (q, p), when the caller is right that log(p/q) is monotone on
        all of the line, that the functions are as near the truth as `ACCURACY` says, and that no loss
        exceeds `largest` in size. The former is checked at the points, and cannot be checked between them.

    Args:
        p: the law with the unit.
        q: the law without it.
        points: where to read them, or how many quantiles of each to take.
        largest: a bound on |log(p/q)|, if there is one. Without it the losses beyond the last points count as
            infinite, with their probability.

    Raises:
        InvalidParameter: a ratio that is not monotone at the points, values that are no numbers, or too few points.

    References: the polygon is Doroshenko et al. 2022, https://arxiv.org/abs/2207.04380; docs/proofs/densities.md
    """
    bound = None if largest is None else exact("largest", largest)
    if bound is not None and bound < 0:
        raise InvalidParameter(f"largest must be at least 0, not {largest}.")
    x = _points(p, q, points)
    left, right = _dots(_read(p, q, x), bound)
    return _event(*_polygon(left, right))


@dataclass(frozen=True, slots=True)
class _Read:
    """The loss at each point, rising, with a bound on its error, and the masses on either side."""

    loss: Floats
    error: Floats
    p_beyond: Floats
    q_beyond: Floats
    p_before: Floats
    q_before: Floats


def _points(p: Density, q: Density, points: int | Sequence[float] | Floats) -> Floats:
    if hasattr(points, "__len__"):  # an array is no Sequence
        x = np.unique(np.asarray(points, dtype=np.float64))
    else:
        n = count("points", points, least=8)
        level = np.exp(-(np.linspace(0.0, _DEEPEST, n // 2) ** 2)) / 2
        x = np.unique(np.concatenate([np.asarray(f(level)) for law in (p, q) for f in (law.ppf, law.isf)]))
    x = x[np.isfinite(x)]
    if x.size < 2:
        raise InvalidParameter("points must be at least two finite numbers.")
    return np.asarray(x, dtype=np.float64)


def _read(p: Density, q: Density, x: Floats) -> _Read:
    with np.errstate(invalid="ignore"):
        log_p, log_q = (np.asarray(law.logpdf(x), dtype=np.float64) for law in (p, q))
        loss = log_p - log_q  # not a number where both densities are 0
    rows = [loss] + [np.asarray(f(x), dtype=np.float64) for f in (p.sf, q.sf, p.cdf, q.cdf)]
    there = np.isfinite(loss)
    seen = ~((log_p == -np.inf) & (log_q == -np.inf))
    if np.isnan(loss[seen]).any() or np.isnan(rows[1:]).any():
        raise InvalidParameter("a density is not a number at one of the points.")
    error = ACCURACY * (1 + np.abs(np.where(there, log_p, 0)) + np.abs(np.where(there, log_q, 0)))
    falls, rises = (_has_step(sign * loss[seen], error[seen]) for sign in (-1, 1))
    if falls and rises:
        raise InvalidParameter(
            "log(p/q) is not monotone: it rises between some of the points and falls between others.",
            hint="describe the use by the law of its sufficient statistic, whose ratio is monotone",
        )
    order = np.flatnonzero(there)[:: -1 if falls else 1]
    if not order.size:
        raise InvalidParameter("the densities share no point: such a use has no privacy.")
    loss, p_sf, q_sf, p_cdf, q_cdf = (row[order] for row in rows)
    beyond_before = (p_cdf, q_cdf, p_sf, q_sf) if falls else (p_sf, q_sf, p_cdf, q_cdf)
    return _Read(loss, error[order], *beyond_before)


def _has_step(rising: Floats, error: Floats) -> bool:
    """Return whether the values rise somewhere by more than rounding."""
    with np.errstate(invalid="ignore"):  # two infinities have no difference
        step = np.diff(rising)
    return bool(np.any(step > error[1:] + error[:-1]))


def _dots(read: _Read, largest: Fraction | None) -> tuple[list[Vertex], list[Vertex]]:
    """Bounds (α, H_α − (1 − α)) at some α < 1, and (α, H_α) at some α ≥ 1, in rising order of α.

    At the likelihood ratio r of a point, H_r is P − rQ of what lies beyond it, and H_r − (1 − r) is rQ − P of
    what lies before. Masses and ratios are rounded so that these grow, and α to the side where they are less.
    """
    keep = np.abs(read.loss) < _FARTHEST
    down, up = (read.loss - read.error)[keep], (read.loss + read.error)[keep]
    low, high = np.exp(down) * (1 - 4 * _UNIT), np.exp(up) * (1 + 4 * _UNIT)
    more, less = 1 + ACCURACY + 4 * _UNIT, 1 - ACCURACY - 4 * _UNIT
    beyond = read.p_beyond[keep] * more - low * read.q_beyond[keep] * less
    before = high * read.q_before[keep] * more - read.p_before[keep] * less
    left, right = [(Fraction(0), Fraction(0))], list[Vertex]()
    end = None if largest is None or largest > _FARTHEST else _ratio(largest)
    if end is not None:
        left.append((1 / end, Fraction(0)))
    for a, value in zip(low, before, strict=True):
        last, risen = left[-1]
        if last < Fraction(a) < 1:
            # The curve itself falls: nor does its excess over 1 − α rise faster than α.
            left.append((Fraction(a), min(_above_zero(value), risen + Fraction(a) - last)))
    least = 1 - left[-1][0] + left[-1][1]
    for a, value in zip(high, beyond, strict=True):
        if Fraction(a) >= 1 and not (right and Fraction(a) <= right[-1][0]) and not (end and end <= Fraction(a)):
            least = min(least, _above_zero(value))
            right.append((Fraction(a), least))
    if end is not None:
        right.append((end, Fraction(0)))
    return left, right or [(Fraction(1), least)]


def _ratio(loss: Fraction) -> Fraction:
    """Return a number that is at least e^loss."""
    return Fraction(math.exp(above(loss)) * (1 + 8 * _UNIT))


def _above_zero(value: float) -> Fraction:
    return Fraction(max(value, 0.0)) + _TINY


def _polygon(left: list[Vertex], right: list[Vertex]) -> tuple[list[Vertex], list[Fraction]]:
    """Return a convex polygon above the lower hull of the dots: its corners (α, H), and the fall after each but the
    last.

    Slopes are rounded up to few digits: those of H − (1 − α) from the left, those of H from the right, so
    that both tails keep their relative accuracy. One segment between the two has the slope that is left.
    """
    corners = _hull([(a, 1 - a + e) for a, e in left] + right)
    near = [(a, y - (1 - a)) for a, y in corners if a < 1]
    far = [(a, y) for a, y in corners if a >= 1]
    rises = [Fraction(0)]
    for i in range(1, len(near)):
        (a, e), (b, f) = near[i - 1], near[i]
        rises.append(max(rises[-1], _up((f - e) / (b - a))))
        near[i] = (b, e + rises[-1] * (b - a))
    falls = [Fraction(0)]
    for i in range(len(far) - 2, -1, -1):
        (a, y), (b, z) = far[i], far[i + 1]
        falls.insert(0, max(falls[0], _up((y - z) / (b - a))))
        far[i] = (a, z + falls[0] * (b - a))
    while True:
        (a, e), (b, z) = near[-1], far[0]
        middle = (1 - a + e - z) / (b - a)
        if middle < falls[0]:
            far.pop(0)
            falls.pop(0)
        elif 1 - middle < rises[-1]:
            near.pop()
            rises.pop()
        else:
            break
    return [*((a, 1 - a + e) for a, e in near), *far], [*(1 - r for r in rises[1:]), middle, *falls[:-1]]


def _hull(dots: list[Vertex]) -> list[Vertex]:
    """Return the corners of the lower convex hull of points in rising order."""
    hull: list[Vertex] = []
    for c in dots:
        while len(hull) > 1 and _bends_down(hull[-2], hull[-1], c):
            hull.pop()
        hull.append(c)
    return hull


def _bends_down(a: Vertex, b: Vertex, c: Vertex) -> bool:
    return (b[1] - a[1]) * (c[0] - b[0]) >= (c[1] - b[1]) * (b[0] - a[0])


def _event(corners: list[Vertex], falls: list[Fraction]) -> AtomsEvent:
    """Return the finite laws whose curve is the polygon: Q has each corner's change of slope, P has α times it."""
    q = [a - b for a, b in zip([Fraction(1), *falls], [*falls, Fraction(0)], strict=True)]
    p = [a * mass for (a, _), mass in zip(corners, q, strict=True)]
    leak = corners[-1][1]
    both = [(a, b) for a, b in [*zip(p, q, strict=True), (leak, Fraction(0))] if a or b]
    return AtomsEvent(tuple(a for a, _ in both), tuple(b for _, b in both))


def _up(x: Fraction) -> Fraction:
    """Return the least number of `_BITS` binary digits that is at least x ≥ 0, about."""
    if x <= 0:
        return Fraction(0)
    shift = _BITS - (x.numerator.bit_length() - x.denominator.bit_length())
    unit = Fraction(1, 2**shift) if shift >= 0 else Fraction(2**-shift)
    return math.ceil(x / unit) * unit
