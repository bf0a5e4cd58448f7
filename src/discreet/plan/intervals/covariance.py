"""Intervals for variances and covariances, by inverting one test while the means lie in theirs.

With n rows, centred sums sx, sy, p = Σ(xy − q) and means x̄ = sx/n, ȳ = sy/n, the covariance v = q + p/n − x̄ȳ solves

    T(v; x̄, ȳ) = p + n(q + x̄ȳ − v) − x̄·sy − ȳ·sx = 0,

in an empty group too, where all of it is 0. T is linear in the four integers, so that with noisy ones it is pure noise
of known law. The means are not known, but T does not feel them at first order: with noisy integers its value moves by
n(x̄ − sx/n)(ȳ − sy/n) only. So nearly all of the risk is given to T, and the rest to the intervals of the means.

Guarantee:
    The interval contains the bounded answer with probability at least `confidence` over the noise, whatever the data:
    where T is within its quantile and the means within their intervals, v is in it.

References:
    Inversion for ratios: Fieller 1954, https://doi.org/10.1111/j.2517-6161.1954.tb00159.x
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import TypeAlias

from discreet.mechanisms.additive import Additive
from discreet.plan.evaluate import compiled, sample_factor
from discreet.plan.expr import Covariance, Mean
from discreet.plan.intervals.interval import RowInterval, Terms, mean_interval, quantile
from discreet.plan.schema import Scalar

Width: TypeAlias = Callable[[int, int, int], float]
"""The quantile of T, by how large x̄, ȳ and the factor of the count are at most, in parts of their greatest size."""

_FOR_MEANS = Fraction(1, 10)  # of the risk; they matter at second order
_FOR_ROWS = Fraction(1, 20)  # of the risk, for n/(n − 1)
_SEGMENTS = 16  # of the covariance's bounds, each with the quantile of its far end
_PARTS = 16  # so many sizes of each mean, and of the count's factor, are told apart


def covariance_interval(c: Covariance, noises: Sequence[Additive], level: Fraction) -> RowInterval:
    """The interval of a variance or covariance, as a function of the released row."""
    risk = 1 - level
    means = [c.first] if c.first == c.second else [c.first, c.second]
    of_means = [mean_interval(m, noises, 1 - risk * _FOR_MEANS / len(means)) for m in means]
    rows = c.product.denominator.index
    reach = noises[rows].quantile(1 - risk * _FOR_ROWS) if c.sample else 0
    left = risk * (1 - _FOR_MEANS - (_FOR_ROWS if c.sample else 0))
    width, value = _width(c, noises, 1 - left), compiled(c)
    segments, factor = _segments(c), _factor(c)
    least, most = float(c.low), float(c.high)

    def row(keys: Sequence[Scalar], cells: Sequence[int]) -> tuple[float, float]:
        boxes = [b for b in (m(keys, cells) for m in of_means) if b is not None]
        first, second = boxes[0], boxes[-1]
        low, high = numerators(c, first, second, cells)
        x, y = _part(c.first, first), _part(c.second, second)
        pieces = [
            p
            for a, b in segments
            if (p := _solved(low, high, float(cells[rows]), a, b, width(x, y, factor(x, y, a, b))))
            is not None
        ]
        ends = [min(max(e, least), most) for p in pieces for e in p] or [least, most]
        if c.sample:  # n/(n − 1) falls as n grows
            ends = [e * sample_factor(cells[rows] + r) for e in ends for r in (reach, -reach)]
        point = value(keys, cells)
        return min(*ends, point), max(*ends, point)

    return row


@dataclass(frozen=True, slots=True)
class CovarianceError:
    """How far a noisy variance or covariance may be from the bounded one, given how many rows it is over."""

    covariance: Covariance
    noises: tuple[Additive, ...]

    def at(self, count: float, confidence: Fraction) -> float:
        """A half-width that holds for every value of the covariance when the bounded count is `count`."""
        c, risk = self.covariance, 1 - confidence
        fewest = max(count - self.noises[c.product.denominator.index].quantile(1 - risk * _FOR_ROWS), 1)
        x, y = (self._of_sum(m, 1 - risk * _FOR_MEANS / 2) / fewest for m in (c.first, c.second))
        width = _width(c, self.noises, 1 - risk * (1 - _FOR_MEANS - _FOR_ROWS))
        off = min(width(_PARTS, _PARTS, _PARTS) / fewest + x * y, float(c.high - c.low))
        if not c.sample:
            return off
        most = sample_factor(fewest)
        return off * most + float(max(abs(c.low), abs(c.high))) * (most - 1)

    def _of_sum(self, m: Mean, level: Fraction) -> float:
        """How far the noisy sum less the noisy count times the mean may be from 0."""
        terms: Terms = (
            (m.numerator.step, self.noises[m.numerator.index]),
            (_size(m), self.noises[m.denominator.index]),
        )
        return quantile(terms, level)


def _width(c: Covariance, noises: Sequence[Additive], level: Fraction) -> Width:
    p, s1, s2 = (m.numerator for m in (c.product, c.first, c.second))
    x, y, n = _size(c.first), _size(c.second), _largest_factor(c)

    @cache
    def width(of_x: int, of_y: int, of_n: int) -> float:
        coefficients = {p.index: p.step, c.product.denominator.index: n * of_n / _PARTS}
        for i, a in ((s1.index, y * of_y * s1.step / _PARTS), (s2.index, x * of_x * s2.step / _PARTS)):
            coefficients[i] = coefficients.get(i, Fraction(0)) + a  # once and the same noise in a variance
        terms: Terms = tuple((a, noises[i]) for i, a in sorted(coefficients.items()))
        return quantile(terms, level)

    return width


def _segments(c: Covariance) -> list[tuple[float, float]]:
    """Parts of all that q + p/n − x̄ȳ can be; what lies outside of [low, high] stands for its nearer end."""
    x, y = _size(c.first), _size(c.second)
    inner = [c.low + (c.high - c.low) * Fraction(k, _SEGMENTS) for k in range(_SEGMENTS + 1)]
    edges = sorted({c.product.low - x * y, *inner, c.product.high + x * y})
    return [(float(a), float(b)) for a, b in pairwise(edges)]


def _size(m: Mean) -> Fraction:
    return max(abs(m.low), abs(m.high))


def _largest_factor(c: Covariance) -> Fraction:
    """The most that |q + x̄ȳ − v| can be."""
    x, y, q = _size(c.first), _size(c.second), c.product.centre
    return max(c.product.high - q, q - c.product.low) + 2 * x * y


def _factor(c: Covariance) -> Callable[[int, int, float, float], int]:
    """How large |q + x̄ȳ − v| is at most for means of given sizes and v in [a, b], in parts of the greatest size."""
    q, most = float(c.product.centre), float(_largest_factor(c))
    unit, square = float(_size(c.first) * _size(c.second)) / _PARTS**2, c.first == c.second

    @cache
    def factor(x: int, y: int, a: float, b: float) -> int:
        high = unit * x * y
        size = max(abs(q + high - a), abs(q - (0.0 if square else high) - b))
        return min(math.ceil(size / most * _PARTS), _PARTS) if most else 0

    return factor


def _part(m: Mean, box: tuple[float, float]) -> int:
    """How large a mean in the box is at most, in parts of the greatest size."""
    size = float(_size(m))
    return min(math.ceil(max(map(abs, box)) / size * _PARTS), _PARTS) if size else 0


def numerators(
    c: Covariance, first: tuple[float, float], second: tuple[float, float], cells: Sequence[int]
) -> tuple[float, float]:
    """The least and the greatest p + n(q + x̄ȳ) − x̄·sy − ȳ·sx over the means' intervals."""
    n, q = float(cells[c.product.denominator.index]), float(c.product.centre)
    p, sx, sy = (
        float(cells[m.index] * m.step) for m in (x.numerator for x in (c.product, c.first, c.second))
    )
    if c.first == c.second:
        at = [
            *first,
            *([m] if n and first[0] < (m := sx / n) < first[1] else []),
        ]  # the vertex of the parabola
        found = [p + n * (q + m * m) - 2 * m * sx for m in at]
    else:  # linear in each mean, so extreme at corners
        found = [p + n * (q + x * y) - x * sy - y * sx for x in first for y in second]
    return min(found), max(found)


def _solved(low: float, high: float, n: float, a: float, b: float, t: float) -> tuple[float, float] | None:
    """{v in [a, b] : |u − v·n| ≤ t for some u in [low, high]}."""
    if n == 0:
        return (a, b) if low <= t and high >= -t else None
    ends = sorted(((low - t) / n, (high + t) / n))
    least, most = max(a, ends[0]), min(b, ends[1])
    return (least, most) if least <= most else None
