"""The commonest value of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive
from discreet.plan.nodes.node import Answer, RowInterval
from discreet.plan.nodes.of_tree import OfTree
from discreet.plan.quantile_tree.shape import TreeShape


@dataclass(frozen=True, slots=True)
class Mode(OfTree):
    """The value of a tree's heaviest leaf."""

    shape: TreeShape
    type: Type
    is_atom: ClassVar[bool] = True

    def compiled(self) -> Answer:
        return lambda _keys, cells: self.tree(cells).commonest(self.type)

    def atom_interval(self, noises: Sequence[Additive], level: Fraction) -> RowInterval:
        if not self.type.is_number:
            return lambda _keys, _cells: None
        return lambda _keys, cells: self.tree(cells).commonest_interval(level)
