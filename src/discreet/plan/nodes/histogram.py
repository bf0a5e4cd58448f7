"""How many rows have each value of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive
from discreet.plan.nodes.node import Answer
from discreet.plan.nodes.noise import Laws
from discreet.plan.nodes.of_tree import OfTree
from discreet.plan.quantile_tree.shape import TreeShape


@dataclass(frozen=True, slots=True)
class Histogram(OfTree):
    """A map from the value of type `of` that each leaf of a tree stands for to how many rows it holds."""

    shape: TreeShape
    of: Type
    type: Type = Type.MAP

    @property
    def has_interval(self) -> bool:
        return True

    def compiled(self) -> Answer:
        """Return the noisy number of rows of each leaf, rounded to whole rows; below 0 where noise took it there."""

        def value(_keys: Sequence[Scalar], cells: Sequence[Any]) -> dict[Scalar, int]:
            tree = self.tree(cells)
            row = self.shape.steps(is_row=tree.is_row)
            return {self.shape.at(i, self.of): round(Fraction(w, row)) for i, w in enumerate(tree.leaves)}

        return value

    def interval(self, noises: Sequence[Additive], confidence: Fraction) -> Answer:
        """Where the bounded number of rows of each leaf lies, each with probability `confidence`."""

        def row(_keys: Sequence[Scalar], cells: Sequence[Any]) -> dict[Scalar, tuple[float, float]]:
            tree = self.tree(cells)
            steps, t = self.shape.steps(is_row=tree.is_row), tree.noise.quantile(confidence)
            ends = ((float(Fraction(w - t, steps)), float(Fraction(w + t, steps))) for w in tree.leaves)
            return {self.shape.at(i, self.of): pair for i, pair in enumerate(ends)}

        return row

    def known_error(self, laws: Laws, confidence: Fraction) -> float:
        return self.shape.rows(laws.of(self.shape).quantile(confidence), is_row=laws.is_row)
