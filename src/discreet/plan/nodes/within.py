"""How many rows fulfil a condition, read from a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.plan.nodes.node import Answer
from discreet.plan.nodes.noise import Laws
from discreet.plan.nodes.of_tree import OfTree
from discreet.plan.partition.counted import Combined
from discreet.plan.quantile_tree.shape import TreeShape


@dataclass(frozen=True, slots=True)
class Within(OfTree):
    """How many rows lie in these leaves of a tree that has layers (`plan/partition`)."""

    shape: TreeShape
    leaves: tuple[int, ...]
    type: Type = Type.INT
    is_drawn: ClassVar[bool] = True

    def counts(self) -> Combined:
        return Combined(self.shape, Fraction(0), ((Fraction(1), self.leaves),))

    def compiled(self) -> Answer:
        counts = self.counts()

        def value(_keys: Sequence[Scalar], cells: Sequence[Any]) -> int:
            tree = self.tree(cells)
            found = round(counts.estimate(tree.families))
            return max(found, 0) if tree.raised else found

        return value

    def lowest(self, places: Sequence[bool]) -> float:
        return 0.0

    def noise_variance(self, laws: Laws) -> float:
        return self.counts().variance(laws.of(self.shape))
