"""Variances and covariances; their intervals, by inverting one test while the means lie in theirs.

With n rows, centred sums sx, sy, p = Σ(xy − q) and means x̄ = sx/n, ȳ = sy/n, the covariance v = q + p/n − x̄ȳ solves

    T(v; x̄, ȳ) = p + n(q + x̄ȳ − v) − x̄·sy − ȳ·sx = 0,

in an empty group too, where all of it is 0. T is linear in the four integers, so that with noisy ones it is pure noise
of known law. The means are not known, but T does not feel them at first order: with noisy integers its value moves by
n(x̄ − sx/n)(ȳ − sy/n) only. So nearly all of the risk is given to T, and the rest to the intervals of the means.

Guarantee:
    The interval contains the bounded result with probability at least `confidence` over the noise, whatever the data:
    where T is within its quantile and the means within their intervals, v is in it.

References:
    Inversion for ratios: Fieller 1954, https://doi.org/10.1111/j.2517-6161.1954.tb00159.x
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive
from discreet.plan.nodes.mean import Mean
from discreet.plan.nodes.node import Answer, Measured, Node, RowInterval
from discreet.plan.nodes.noise import Terms, quantile

Width: TypeAlias = Callable[[int, int, int], float]
"""The quantile of T, by how large x̄, ȳ and the factor of the count are at most, in parts of their greatest size."""

_FOR_MEANS = Fraction(1, 10)  # of the risk; they matter at second order
_FOR_ROWS = Fraction(1, 20)  # of the risk, for n/(n − 1)
_SEGMENTS = 16  # of the covariance's bounds, each with the quantile of its far end
_PARTS = 16  # so many sizes of each mean, and of the count's factor, are told apart


@dataclass(frozen=True, slots=True)
class Covariance(Node):
    """`product` − `first`·`second` inside [low, high]: means over the same rows of numbers less a public centre.

    For a sample it is times n/(n − 1), with the noisy number of rows n taken as at least 2.
    """

    product: Mean
    first: Mean
    second: Mean
    low: Fraction
    high: Fraction
    sample: bool
    type: Type = Type.REAL
    is_atom: ClassVar[bool] = True

    def with_columns(self, change: Callable[[Measured], Any]) -> Covariance:
        product, first, second = (m.with_columns(change) for m in (self.product, self.first, self.second))
        return replace(self, product=product, first=first, second=second)

    @property
    def over(self) -> int:
        return self.product.over

    def compiled(self) -> Answer:
        """Only the result is kept inside its bounds, not the means: their errors partly cancel."""

        def value(_keys: Sequence[Scalar], cells: Sequence[Any]) -> float:
            found = self.product.of(cells) - self.first.of(cells) * self.second.of(cells)
            inside = float(min(max(found, self.low), self.high))
            return inside * _sample_factor(cells[self.over]) if self.sample else inside

        return value

    def atom_interval(self, noises: Sequence[Additive], level: Fraction) -> RowInterval:
        risk, rows, least, most = 1 - level, self.over, float(self.low), float(self.high)
        means = [self.first] if self.first == self.second else [self.first, self.second]
        of_means = [m.atom_interval(noises, 1 - risk * _FOR_MEANS / len(means)) for m in means]
        reach = noises[rows].quantile(1 - risk * _FOR_ROWS) if self.sample else 0
        left = risk * (1 - _FOR_MEANS - (_FOR_ROWS if self.sample else 0))
        width, value = _width(self, noises, 1 - left), self.compiled()
        segments, factor = _segments(self), _factor(self)

        def row(keys: Sequence[Scalar], cells: Sequence[Any]) -> tuple[float, float]:
            boxes = [b for b in (m(keys, cells) for m in of_means) if b is not None]
            first, second = boxes[0], boxes[-1]
            low, high = self.numerators(first, second, cells)
            x, y = _part(self.first, first), _part(self.second, second)
            pieces = [
                p
                for a, b in segments
                if (p := _solved(low, high, float(cells[rows]), a, b, width(x, y, factor(x, y, a, b)))) is not None
            ]
            ends = [min(max(e, least), most) for p in pieces for e in p] or [least, most]
            if self.sample:  # n/(n − 1) falls as n grows
                ends = [e * _sample_factor(cells[rows] + r) for e in ends for r in (reach, -reach)]
            point = value(keys, cells)
            return min(*ends, point), max(*ends, point)

        return row

    def error_over(self, rows: float, noises: Sequence[Additive], confidence: Fraction) -> float:
        risk = 1 - confidence
        fewest = max(rows - noises[self.over].quantile(1 - risk * _FOR_ROWS), 1)
        x, y = (_of_sum(m, noises, 1 - risk * _FOR_MEANS / 2) / fewest for m in (self.first, self.second))
        width = _width(self, noises, 1 - risk * (1 - _FOR_MEANS - _FOR_ROWS))
        off = min(width(_PARTS, _PARTS, _PARTS) / fewest + x * y, float(self.high - self.low))
        if not self.sample:
            return off
        most = _sample_factor(fewest)
        return off * most + float(max(abs(self.low), abs(self.high))) * (most - 1)

    def box(self, value: float, error: float) -> tuple[float, float]:
        return max(value - error, float(self.low)), min(value + error, float(self.high))

    def numerators(
        self, first: tuple[float, float], second: tuple[float, float], cells: Sequence[int]
    ) -> tuple[float, float]:
        """Return the least and the greatest p + n(q + x̄ȳ) − x̄·sy − ȳ·sx over the means' intervals."""
        n, q = float(cells[self.over]), float(self.product.centre)
        p, sx, sy = (
            float(cells[m.index] * m.step) for m in (x.numerator for x in (self.product, self.first, self.second))
        )
        if self.first == self.second:
            at = [*first, *([m] if n and first[0] < (m := sx / n) < first[1] else [])]  # the vertex of the parabola
            found = [p + n * (q + m * m) - 2 * m * sx for m in at]
        else:  # linear in each mean, so extreme at corners
            found = [p + n * (q + x * y) - x * sy - y * sx for x in first for y in second]
        return min(found), max(found)


def _sample_factor(count: float) -> float:
    """n/(n − 1), by which a covariance over n rows becomes that of a sample; n is taken as at least 2."""
    n = max(count, 2)
    return n / (n - 1)


def _of_sum(m: Mean, noises: Sequence[Additive], level: Fraction) -> float:
    """How far the noisy sum less the noisy count times the mean may be from 0."""
    of_sum = (m.numerator.step, noises[m.numerator.index])
    return quantile((of_sum, (_size(m), noises[m.denominator.index])), level)


def _width(c: Covariance, noises: Sequence[Additive], level: Fraction) -> Width:
    p, s1, s2 = (m.numerator for m in (c.product, c.first, c.second))
    x, y, n = _size(c.first), _size(c.second), _largest_factor(c)

    @cache
    def width(of_x: int, of_y: int, of_n: int) -> float:
        coefficients = {p.index: p.step, c.over: n * of_n / _PARTS}
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
    """Return the most that |q + x̄ȳ − v| can be."""
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


def _solved(low: float, high: float, n: float, a: float, b: float, t: float) -> tuple[float, float] | None:
    """{v in [a, b] : |u − v·n| ≤ t for some u in [low, high]}."""
    if n == 0:
        return (a, b) if low <= t and high >= -t else None
    ends = sorted(((low - t) / n, (high + t) / n))
    least, most = max(a, ends[0]), min(b, ends[1])
    return (least, most) if least <= most else None
