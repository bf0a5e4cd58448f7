"""A quantile of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive
from discreet.plan.nodes.node import Answer, RowInterval
from discreet.plan.nodes.noise import Laws
from discreet.plan.nodes.of_tree import OfTree
from discreet.plan.quantile_tree.chosen import rank_off
from discreet.plan.quantile_tree.shape import TreeShape


@dataclass(frozen=True, slots=True)
class Quantile(OfTree):
    """The value at a share p of a tree's weight; the least and the greatest value for 0 and 1.

    Its interval inverts a test on ranks (`quantile_tree/tree.py`).
    """

    shape: TreeShape
    p: Fraction
    type: Type
    is_atom: ClassVar[bool] = True

    @property
    def shares(self) -> tuple[Fraction, ...]:
        return (self.p,)

    def compiled(self) -> Answer:
        return lambda _keys, cells: self.tree(cells).quantile(self.p, self.type)

    def atom_interval(self, noises: Sequence[Additive], level: Fraction) -> RowInterval:
        return lambda _keys, cells: self.tree(cells).interval(self.p, level)

    def rank_error(self, laws: Laws, confidence: Fraction) -> float | None:
        if self.p in (0, 1):
            return None
        return rank_off(self.shape, laws.sources[self.shape], confidence, is_row=laws.is_row)
