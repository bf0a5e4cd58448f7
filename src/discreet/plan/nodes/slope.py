"""The slope of a line of least squares; its interval, by inverting one test while the means lie in theirs.

As in `covariance.py`, n times the covariance of x and y is A = p + n(q + x̄ȳ) − x̄·sy − ȳ·sx, and n times the
variance of x is B, written so too. The slope β solves A − β·B = 0, which is linear in the noisy integers and does not
feel the means at first order. It is inverted inside the quotient of the two intervals, which says how large β is
at most; where that reaches to the least variance that is divided by, the quotient is all there is.

Guarantee:
    The interval contains the bounded result with probability at least `confidence` over the noise, whatever the data:
    where both intervals hold, the means lie in theirs and A − βB within its quantile, β is in it.

References:
    Inversion for ratios: Fieller 1954, https://doi.org/10.1111/j.2517-6161.1954.tb00159.x
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive
from discreet.plan.nodes.covariance import Covariance
from discreet.plan.nodes.node import Answer, Measured, Node, RowInterval
from discreet.plan.nodes.noise import Terms, quantile

_FOR_EACH = Fraction(1, 10)  # of the risk: the covariance, the variance, and the two means together
_RATIO = Fraction(7, 6)  # sizes of coefficients are rounded up to its powers: few quantiles are computed
_ROUNDED = 2.0**-27  # of n times both reaches: what rounding to the grids can take from A − βB = 0, and more


@dataclass(frozen=True, slots=True)
class Slope(Node):
    """`covariance` over `variance`, of the same rows, inside ±`most`; the variance is taken as at least `flattest`."""

    covariance: Covariance
    variance: Covariance
    flattest: Fraction
    most: Fraction
    type: Type = Type.REAL
    is_atom: ClassVar[bool] = True

    def with_columns(self, change: Callable[[Measured], Any]) -> Slope:
        covariance, variance = (c.with_columns(change) for c in (self.covariance, self.variance))
        return replace(self, covariance=covariance, variance=variance)

    def compiled(self) -> Answer:
        covariance, variance = self.covariance.compiled(), self.variance.compiled()
        flattest, most = float(self.flattest), float(self.most)

        def value(keys: Sequence[Scalar], cells: Sequence[Any]) -> float:
            found = covariance(keys, cells) / max(variance(keys, cells), flattest)
            return float(min(max(found, -most), most))

        return value

    def atom_interval(self, noises: Sequence[Additive], level: Fraction) -> RowInterval:
        c, v, risk = self.covariance, self.variance, 1 - level
        x_first = c.first == v.first
        x, y = (c.first, c.second) if x_first else (c.second, c.first)
        of_x, of_y = (m.atom_interval(noises, 1 - risk * _FOR_EACH / 2) for m in (x, y))
        of_c, of_v = (m.atom_interval(noises, 1 - risk * _FOR_EACH) for m in (c, v))
        width, value = _width(self, noises, 1 - risk * (1 - 3 * _FOR_EACH)), self.compiled()
        rows, flattest, most = c.over, float(self.flattest), float(self.most)

        def row(keys: Sequence[Scalar], cells: Sequence[Any]) -> tuple[float, float]:
            found = (f(keys, cells) for f in (of_c, of_v, of_x, of_y))
            (cov, var, mx, my) = (f or (-math.inf, math.inf) for f in found)
            low, high = _quotient(cov, (max(var[0], flattest), max(var[1], flattest)))
            point = value(keys, cells)
            if var[0] >= flattest and -most < low and high < most:
                a = c.numerators(*((mx, my) if x_first else (my, mx)), cells)
                b = v.numerators(mx, mx, cells)
                if b[0] > 0:
                    t = width(mx, my, (low, high)) + abs(cells[rows]) * float(c.high) * _ROUNDED
                    inner = _quotient((a[0] - t, a[1] + t), b)
                    low, high = max(low, inner[0]), min(high, inner[1])
            return min(max(low, -most), point), max(min(high, most), point)

        return row


def _quotient(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    """All a/b, for b above 0."""
    ends = [x / y for x in a for y in b]
    return min(ends), max(ends)


def _width(
    s: Slope, noises: Sequence[Additive], level: Fraction
) -> Callable[[tuple[float, float], tuple[float, float], tuple[float, float]], float]:
    """Return the quantile of A − βB for means and a slope in given intervals."""
    c, v = s.covariance, s.variance
    x, y = (c.first, c.second) if c.first == v.first else (c.second, c.first)
    measured: list[Measured] = [m.numerator for m in (c.product, v.product, x, y)]
    qc, qv = float(c.product.centre), float(v.product.centre)

    @cache
    def rounded(powers: tuple[int | None, ...]) -> float:
        sizes = [Fraction(0) if k is None else _RATIO**k for k in powers]
        of_noise = [(m.index, a * m.step) for m, a in zip(measured, [Fraction(1), *sizes[:3]], strict=True)]
        of_noise.append((c.over, sizes[3]))
        terms: Terms = tuple((a, noises[i]) for i, a in sorted(of_noise))
        return quantile(terms, level)

    def width(mx: tuple[float, float], my: tuple[float, float], slopes: tuple[float, float]) -> float:
        beta, size_x = max(map(abs, slopes)), max(map(abs, mx))
        # linear in each: worst at a corner
        of_sx = max(abs(b - 2 * k * a) for a in mx for b in my for k in slopes)
        squares = (0.0 if mx[0] <= 0 <= mx[1] else min(map(abs, mx)) ** 2, size_x**2)
        of_n = max(abs(qc + a * b - k * (qv + q)) for a in mx for b in my for k in slopes for q in squares)
        return rounded(tuple(_power(w) for w in (beta, of_sx, size_x, of_n)))

    return width


def _power(size: float) -> int | None:
    """Return the least k with `size` at most _RATIO^k."""
    return math.ceil(math.log(size) / math.log(_RATIO) + 1e-9) if size else None
