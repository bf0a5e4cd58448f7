"""A mean: a noisy sum over a noisy count, inside public bounds.

References:
    Inversion for ratios: Fieller 1954, *Some problems in interval estimation*,
    https://doi.org/10.1111/j.2517-6161.1954.tb00159.x
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive
from discreet.plan.nodes.node import Answer, Measured, Node, RowInterval
from discreet.plan.nodes.noise import quantile

_SEGMENTS = 16  # of |θ| in a mean's inversion: the quantile is taken at the far end of each


@dataclass(frozen=True, slots=True)
class Mean(Node):
    """`centre` + numerator/denominator inside [low, high]; the noisy denominator is taken as at least 1."""

    numerator: Measured
    denominator: Measured
    centre: Fraction
    low: Fraction
    high: Fraction
    type: Type = Type.REAL
    is_atom: ClassVar[bool] = True

    def with_columns(self, change: Callable[[Measured], Any]) -> Mean:
        return replace(self, numerator=change(self.numerator), denominator=change(self.denominator))

    @property
    def over(self) -> int:
        return self.denominator.index

    @property
    def mean_width(self) -> Fraction:
        return self.high - self.low

    def of(self, cells: Sequence[int]) -> Fraction:
        """Return the noisy mean before it is moved into its bounds."""
        count = max(cells[self.denominator.index], 1)
        return self.centre + cells[self.numerator.index] * self.numerator.step / count

    def compiled(self) -> Answer:
        low, high = float(self.low), float(self.high)
        return lambda _keys, cells: min(max(float(self.of(cells)), low), high)

    def atom_interval(self, noises: Sequence[Additive], level: Fraction) -> RowInterval:
        """{θ : |numerator − θ·denominator| ≤ t(θ)}, with t at the far end of each of the segments that cover the
        bounds.
        """
        sum_, count, step = self.numerator.index, self.denominator.index, self.numerator.step
        low, high = (self.low - self.centre) / step, (self.high - self.centre) / step
        edges = sorted({low + (high - low) * Fraction(k, _SEGMENTS) for k in range(_SEGMENTS + 1)})
        segments = []
        for a, b in zip(edges, edges[1:] or edges, strict=False):
            far = max(abs(a), abs(b))
            t = quantile(((Fraction(1), noises[sum_]), (far, noises[count])), level)
            segments.append((float(a), float(b), t))
        value = self.compiled()

        def row(keys: Sequence[Scalar], cells: Sequence[Any]) -> tuple[float, float]:
            s, n = float(cells[sum_]), float(cells[count])
            pieces = [p for a, b, t in segments if (p := _solve(s, n, a, b, t)) is not None]
            if not pieces:
                return float(self.low), float(self.high)
            ends = [float(self.centre + Fraction(e) * step) for p in pieces for e in p]
            point = value(keys, cells)
            return min(*ends, point), max(*ends, point)

        return row

    def error_over(self, rows: float, noises: Sequence[Additive], confidence: Fraction) -> float:
        step = self.numerator.step
        of_sum, of_count = noises[self.numerator.index], noises[self.denominator.index]
        ratio = max(abs(self.low - self.centre), abs(self.high - self.centre)) / step
        level = 1 - (1 - confidence) / 2
        top = quantile(((Fraction(1), of_sum), (ratio, of_count)), level)
        fewest = max(rows - of_count.quantile(level), 1)
        return min(float(top * step / fewest), float(self.high - self.low))

    def box(self, value: float, error: float) -> tuple[float, float]:
        return max(value - error, float(self.low)), min(value + error, float(self.high))


def _solve(s: float, n: float, a: float, b: float, t: float) -> tuple[float, float] | None:
    """{θ in [a, b] : |s − θn| ≤ t}."""
    if n == 0:
        return (a, b) if abs(s) <= t else None
    ends = sorted(((s - t) / n, (s + t) / n))
    low, high = max(a, ends[0]), min(b, ends[1])
    return (low, high) if low <= high else None
