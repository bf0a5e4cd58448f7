"""Nodes of a result that are read from a quantile tree: values at ranks, the commonest values, counts of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive
from discreet.plan.nodes.node import Answer, Node, RowInterval
from discreet.plan.nodes.noise import Laws
from discreet.plan.partition.counted import Combined
from discreet.plan.quantile_tree.chosen import rank_off
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
