"""The commonest values of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive
from discreet.plan.nodes.node import Answer
from discreet.plan.nodes.of_tree import OfTree
from discreet.plan.quantile_tree.shape import TreeShape


@dataclass(frozen=True, slots=True)
class Top(OfTree):
    """A list of the values of type `of` that a tree's `most` heaviest leaves stand for, the heaviest first."""

    shape: TreeShape
    most: int
    of: Type
    type: Type = Type.LIST

    @property
    def has_interval(self) -> bool:
        return self.of.is_number or self.of.is_moment

    def compiled(self) -> Answer:
        """Return the values of the leaves with the greatest noisy weights; of equal ones the first in their order."""

        def value(_keys: Sequence[Scalar], cells: Sequence[Any]) -> list[Scalar]:
            weights = self.tree(cells).leaves
            order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
            return [self.shape.at(i, self.of) for i in order[: self.most]]

        return value

    def interval(self, noises: Sequence[Additive], confidence: Fraction) -> Answer:
        """Between which values the bounded first, second, … commonest value lies; None where values are no numbers.

        With probability `confidence` no noise is beyond t. Then the j-th greatest noisy weight is within t of the j-th
        greatest true one, and so within 2t of the noisy weight of the leaf that truly has it.
        """

        def row(_keys: Sequence[Scalar], cells: Sequence[Any]) -> list[tuple[Any, Any] | None]:
            tree = self.tree(cells)
            ranked = sorted(tree.leaves, reverse=True)[: self.most]
            if not self.has_interval:
                return [None] * len(ranked)
            t = tree.noise.quantile(1 - (1 - confidence) / len(tree.leaves))
            near = [[i for i, w in enumerate(tree.leaves) if abs(w - weight) <= 2 * t] for weight in ranked]
            return [self._reach(leaves[0], leaves[-1]) for leaves in near]

        return row

    def _reach(self, first: int, last: int) -> tuple[Any, Any]:
        if self.of.is_moment:
            return self.shape.at(first, self.of), self.shape.at(last, self.of)
        return self.shape.reach(first, last)
