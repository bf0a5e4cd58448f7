"""Leaves that are chosen by their rank: when that is done instead of a noisy tree, and what is read from them.

Guarantee:
    Whether a quantile is chosen follows from the query, the schema and the kind of noise alone. What is read of the
    leaves that were named is post-processing (docs/proofs/exponential-quantile.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise
from discreet.mechanisms.exponential_quantile import Chosen, ExponentialQuantile, rank_error
from discreet.plan.nodes.node import Node
from discreet.privacy.unit import Sensitivity

if TYPE_CHECKING:
    from discreet.plan.quantile_tree.shape import TreeRead, TreeShape
    from discreet.plan.quantile_tree.tree import Families


class ChosenLeaves:
    """What was released of one group: the named leaf, edges about it, and the noisy weight between them."""

    __slots__ = ("chosen", "noise", "shape")

    def __init__(self, shape: TreeShape, noise: ExponentialQuantile, families: Families) -> None:
        self.shape, self.noise = shape, noise
        self.chosen = Chosen(families[0, 0][0], families[1, 0], families[2, 0])

    def quantile(self, p: Fraction, kind: Type) -> Scalar:
        """Return the value that the named leaf stands for; `p` is the one that it was named for."""
        return self.shape.at(self.chosen.cell, kind)

    def interval(self, p: Fraction, confidence: Fraction) -> tuple[float, float]:
        """Where the bounded quantile lies with probability `confidence`."""
        return self.shape.reach(*self.noise.interval(self.chosen, self.shape.leaves, confidence))


def named(chosen: Chosen) -> Families:
    """Return what was released, as the nodes of a tree are stored."""
    return {(0, 0): (chosen.cell,), (1, 0): chosen.edges, (2, 0): chosen.counts}


@lru_cache(maxsize=256)
def rank_errors(by_rank: ExponentialQuantile, shape: TreeShape, moves: Sensitivity) -> tuple[float, float]:
    """How far the rank of a quantile's edge is off at ε = 1, so that nothing but the query decides: where its leaf
    is chosen by rank, and where it is read from a noisy tree, of which one unit moves a level so far.
    """
    noise = DiscreteLaplaceNoise(Fraction(shape.depth * moves.l1))  # all levels share ε
    confidence = 1 - Fraction(1, 20) / shape.depth
    return replace(by_rank, epsilon=Fraction(1)).reach(), tree_error(shape, by_rank.p, noise, confidence)


def is_alone(exprs: Sequence[Node], tree_read: TreeRead) -> bool:
    """Whether one inner quantile is all that is read of the tree."""
    if len(tree_read.at) != 1 or not 0 < tree_read.at[0] < 1:
        return False
    reading = [e for expr in exprs for e in expr.walk() if e.source == tree_read.shape]
    return all(e.shares and e.type is not None and e.type.is_number for e in reading)


def tree_error(shape: TreeShape, p: Fraction, noise: Additive, confidence: Fraction) -> float:
    """How far the rank of the quantile's edge is off in a tree: it sums the root's children, and a quarter of a family
    on each level below.
    """
    left, side = round(p * shape.fanout), max(shape.fanout // 4, 1) * (shape.depth - 1)
    return rank_error(noise, ((1 - p, left), (p, shape.fanout - left), (Fraction(1), side)), confidence)


def rank_off(shape: TreeShape, law: Additive | ExponentialQuantile, level: Fraction, *, is_row: bool) -> float:
    """How many rows a quantile's rank is off by, or less, with probability `level` where values lie evenly."""
    if isinstance(law, ExponentialQuantile):  # then a rank that is off by t has a chance like exp(−rate·t)
        return -math.log(1 - level) / float(law.rate) / shape.steps(is_row=is_row)
    return tree_error(shape, Fraction(1, 2), law, level) / shape.steps(is_row=is_row)
