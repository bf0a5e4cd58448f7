"""The commonest values of a spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.mechanisms.additive import Additive
from discreet.plan.expr import Answer
from discreet.plan.nodes.of_spread import OfSpread
from discreet.plan.quantile_tree.counted import top, top_intervals
from discreet.plan.quantile_tree.shape import Spread
from discreet.plan.types import Type


@dataclass(frozen=True, slots=True)
class Top(OfSpread):
    """A list of the values of type `of` that a spread's `most` heaviest leaves stand for, the heaviest first."""

    spread: Spread
    most: int
    of: Type
    type: Type = Type.LIST

    @property
    def has_interval(self) -> bool:
        return self.of.is_number or self.of.is_moment

    def compiled(self) -> Answer:
        return lambda _keys, cells: top(self.tree(cells), self.most, self.of)

    def interval(self, noises: Sequence[Additive], confidence: Fraction) -> Answer:
        return lambda _keys, cells: top_intervals(self.tree(cells), self.most, self.of, confidence)
