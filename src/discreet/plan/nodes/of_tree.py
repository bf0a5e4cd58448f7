"""Nodes of an answer that are read from a quantile tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from discreet.plan.nodes.node import Node
from discreet.plan.quantile_tree.shape import TreeShape

if TYPE_CHECKING:
    from discreet.plan.quantile_tree.tree import NoisyTree


class OfTree(Node):
    """A node that is read from a noisy quantile tree."""

    __slots__ = ()
    shape: TreeShape

    @property
    def source(self) -> TreeShape:
        return self.shape

    def tree(self, cells: Sequence[Any]) -> NoisyTree:
        """Return its noisy tree, from a row of the noisy table."""
        trees: dict[TreeShape, NoisyTree] = cells[-1]
        return trees[self.shape]
