"""How many rows have each value of a spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.mechanisms.additive import Additive
from discreet.plan.expr import Answer
from discreet.plan.nodes.noise import Laws
from discreet.plan.nodes.of_spread import OfSpread
from discreet.plan.quantile_tree.counted import histogram, histogram_error, histogram_intervals
from discreet.plan.quantile_tree.shape import Spread
from discreet.plan.types import Type


@dataclass(frozen=True, slots=True)
class Histogram(OfSpread):
    """A map from the value of type `of` that each leaf of a spread stands for to how many rows it holds."""

    spread: Spread
    of: Type
    type: Type = Type.MAP

    @property
    def has_interval(self) -> bool:
        return True

    def compiled(self) -> Answer:
        return lambda _keys, cells: histogram(self.tree(cells), self.of)

    def interval(self, noises: Sequence[Additive], confidence: Fraction) -> Answer:
        return lambda _keys, cells: histogram_intervals(self.tree(cells), self.of, confidence)

    def known_error(self, laws: Laws, confidence: Fraction) -> float:
        moved = laws.of(self.spread).quantile(confidence)
        return histogram_error(self.spread, moved, is_row=laws.is_row)
