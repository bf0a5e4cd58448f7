"""What the nodes share that are read from a spread's noisy tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from discreet.plan.nodes.node import Node
from discreet.plan.quantile_tree.shape import Spread

if TYPE_CHECKING:
    from discreet.plan.quantile_tree.tree import NoisyTree


class OfSpread(Node):
    """A node that is read from the noisy tree of a spread."""

    __slots__ = ()
    spread: Spread

    @property
    def source(self) -> Spread:
        return self.spread

    def tree(self, cells: Sequence[Any]) -> NoisyTree:
        """Return the noisy tree of its spread, from a row of the noisy table."""
        trees: dict[Spread, NoisyTree] = cells[-1]
        return trees[self.spread]
