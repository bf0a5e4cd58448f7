"""A sum that is read from two noisy columns: the sum of differences from a middle, and the count of its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from discreet.catalog.types import Type
from discreet.plan.nodes.node import Affine, Answer, Measured, Node
from discreet.plan.nodes.noise import Laws


@dataclass(frozen=True, slots=True)
class Recentred(Node):
    """`total` + `centre` · `count`, exactly.

    Attributes:
        total: the sum of x − centre.
        count: the number of values.
        centre: the middle of their bounds, a whole number of steps of `total`.
        type: that of the sum.
        least: the least value; where it is not below 0, neither is the exact sum.
    """

    total: Measured
    count: Measured
    centre: Fraction
    type: Type
    least: Fraction

    def with_columns(self, change: Callable[[Measured], Any]) -> Recentred:
        return replace(self, total=change(self.total), count=change(self.count))

    def compiled(self) -> Answer:
        i, j, step, centre = self.total.index, self.count.index, self.total.step, self.centre
        shown = int if self.type is Type.INT else float
        return lambda _keys, cells: shown(cells[i] * step + cells[j] * centre)

    def _affine(self) -> Affine:
        return Fraction(0), {self.total.index: self.total.step, self.count.index: self.centre}

    def raised(self, cells: Sequence[Any]) -> tuple[Any, ...]:
        found = list(cells)
        if self.least >= 0:
            floor = -found[self.count.index] * self.centre / self.total.step  # whole, as the centre is on the grid
            found[self.total.index] = max(found[self.total.index], int(floor))
        return tuple(found)

    def lowest(self, places: Sequence[bool]) -> float:
        return 0.0 if self.least >= 0 else super(Recentred, self).lowest(places)

    def noise_variance(self, laws: Laws) -> float:
        of_total, of_count = (laws.columns[m.index].variance for m in (self.total, self.count))
        return float(self.total.step) ** 2 * of_total + float(self.centre) ** 2 * of_count

    @property
    def said(self) -> str:
        step, middle = f"{float(self.total.step):,.6g}", f"{float(self.centre):,.6g}"
        total = f"column {self.total.index}" + ("" if self.total.step == 1 else f", in steps of {step},")
        return f"A sum is read from two columns: {total} plus {middle} times column {self.count.index}."
