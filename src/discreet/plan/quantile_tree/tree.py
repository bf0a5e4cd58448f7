"""A noisy tree of one group: nodes are drawn when they are looked at, and quantiles and modes are read from them.

Guarantee:
    Which nodes are looked at follows from noisy nodes and from public facts alone, and the noise of a node does not
    depend on when it is drawn: so what is known of the tree is a part of the tree with all noise drawn
    (docs/proofs/quantile-trees.md).

References:
    Hay, Rastogi, Miklau, Suciu 2010, *Boosting the accuracy of differentially private histograms through
    consistency*, https://arxiv.org/abs/0904.0942 (trees of counts)
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.exponential_quantile import rank_error
from discreet.plan.quantile_tree.shape import TreeRead, TreeShape

Family: TypeAlias = tuple[int, int]
"""The children of one node: its level below the root, and its place there."""

Families: TypeAlias = Mapping[Family, tuple[int, ...]]
"""The noisy weights of those children that have been looked at."""

CONFIDENCES = (Fraction(19, 20), Fraction(199, 200))
"""Intervals at these levels are looked at when the tree is drawn, so that they reach down to the leaves."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A place between two leaves, and its noisy rank: the weight to its left.

    Attributes:
        rank: a sum of noisy nodes.
        left: how many of the root's children are summed.
        deep: how many nodes below them are, with either sign.
    """

    rank: int
    left: int
    deep: int


class NoisyTree:
    """The noisy nodes of one tree in one group."""

    __slots__ = ("_draw", "families", "is_row", "noise", "raised", "shape")

    def __init__(
        self,
        shape: TreeShape,
        noise: Additive,
        families: Families,
        *,
        is_row: bool,
        draw: Callable[[int, int], tuple[int, ...]] | None = None,
    ) -> None:
        self.shape = shape
        self.noise = noise
        self.is_row = is_row
        self.families = dict(families)
        self._draw = draw
        self.raised = False
        """Whether counts that are read from it are shown as 0 where noise took them below."""

    def family(self, level: int, place: int) -> tuple[int, ...] | None:
        """Return the noisy weights of a node's children, drawn now if they never were; None when they cannot be."""
        if (level, place) not in self.families:
            if self._draw is None:
                return None
            self.families[level, place] = self._draw(level, place)
        return self.families[level, place]

    def look(self, tree_read: TreeRead) -> None:
        """Draws what the results to a query read."""
        for level in range(1 if self.shape.layers is None else self.shape.depth):
            self.family(level, 0)
        for p in tree_read.at:
            self._leaf(p)
            for confidence in CONFIDENCES:
                self._between(p, confidence)

    def quantile(self, p: Fraction, kind: Type) -> Scalar:
        """Return the value at share p of the weight, inside the bounds for any noise; it never falls when p grows."""
        return self.shape.at(self._leaf(p), kind)

    def interval(self, p: Fraction, confidence: Fraction) -> tuple[float, float]:
        """Where the bounded quantile lies with probability `confidence`, whichever usual definition of it is meant."""
        enough = next((c for c in CONFIDENCES if c >= confidence), confidence)
        first, last = self._between(p, enough)
        leaf = self._leaf(p)
        return self.shape.reach(min(first, leaf), max(last, leaf))

    def commonest(self, kind: Type) -> Scalar:
        """Return the value of the heaviest leaf: the first of them where several are."""
        weights = self.leaves
        return self.shape.at(weights.index(max(weights)), kind)

    def commonest_interval(self, confidence: Fraction) -> tuple[float, float]:
        """Between which numbers the bounded mode lies with probability `confidence`."""
        weights = self.leaves
        t = self.noise.quantile(1 - (1 - confidence) / len(weights))
        least = max(weights) - 2 * t
        near = [i for i, w in enumerate(weights) if w >= least]
        return self.shape.reach(near[0], near[-1])

    @property
    def leaves(self) -> tuple[int, ...]:
        """All noisy leaves of a tree of one level."""
        leaves = self.family(0, 0)
        assert self.shape.depth == 1 and leaves is not None
        return leaves

    def _leaf(self, p: Fraction) -> int:
        """Return the leaf where the noisy rank reaches p times the noisy total, and so far from both ends (half a row
        at least) that noise alone would seldom have taken it there.
        """
        top = self.family(0, 0)
        assert top is not None
        total, row = max(sum(top), 0), self.shape.steps(is_row=self.is_row)

        wanted = float(p) * total
        from_low, from_high = self._error(Fraction(0), _SELDOM), self._error(Fraction(1), _SELDOM)

        def passes(e: Edge) -> bool:
            low = min(max(from_low(e), row / 2), total / 2)
            high = max(total - max(from_high(e), row / 2), total / 2)
            return e.rank >= min(max(wanted, low), high)

        return self._descend(lambda edges: _first(edges, passes))[0]

    def _between(self, p: Fraction, confidence: Fraction) -> tuple[int, int]:
        """Return the first and the last leaf of an interval: at the true leaf's ancestors' edges, `depth` on each side,
        the test on the rank fails with the probability that is left, all of them together.
        """
        sides = 1 if p in (0, 1) else 2
        level = 1 - 2 * (1 - confidence) / (sides * self.shape.depth)
        top = self.family(0, 0)
        assert top is not None
        level, share, row = (max(level, Fraction(0)), float(p) * sum(top), self.shape.steps(is_row=self.is_row))

        error = self._error(p, level)

        def lower(e: Edge) -> bool:
            return e.rank - share > -error(e) - row

        def upper(e: Edge) -> bool:
            return e.rank - share < error(e) + row

        first = 0 if p == 0 else self._descend(lambda edges: _first(edges, lower))[0]
        last = self.shape.leaves - 1 if p == 1 else self._descend(lambda edges: _last(edges, upper))[1]
        return first, last

    def _error(self, p: Fraction, confidence: Fraction) -> Callable[[Edge], float]:
        """How far the noise moves an edge's rank less p times the total."""
        if confidence <= 0:
            return lambda e: 0.0
        n, left, one = len(self.families[0, 0]), 1 - p, Fraction(1)
        return lambda e: rank_error(self.noise, ((left, e.left), (p, n - e.left), (one, e.deep)), confidence)

    def _descend(self, choose: Callable[[Sequence[Edge]], int]) -> tuple[int, int]:
        """Return the first and the last leaf below the node that is reached: a leaf, unless children are not drawn."""
        level = place = 0
        low = high = Edge(0, 0, 0)
        while level < self.shape.depth and (weights := self.family(level, place)) is not None:
            edges = _edges(weights, low, high) if level else _top_edges(weights)
            child = choose(edges)
            low, high = edges[child], edges[child + 1]
            level, place = level + 1, place * self.shape.fanout + child
        size = self.shape.fanout ** (self.shape.depth - level)
        return place * size, min((place + 1) * size, self.shape.leaves) - 1


def children(shape: TreeShape, level: int, place: int) -> list[tuple[int, int]]:
    """Return the leaves below each child of a node, as (first, one after the last); children without leaves are left
    out.
    """
    size = shape.fanout ** (shape.depth - level - 1)
    first = place * shape.fanout * size
    starts = range(first, min(first + shape.fanout * size, shape.leaves), size)
    return [(s, min(s + size, shape.leaves)) for s in starts]


@dataclass(frozen=True, slots=True)
class ExactLeaves:
    """The exact weights of a group's leaves. Private: only what adds noise to them calls it."""

    leaves: Sequence[int]
    before: Sequence[int]

    @classmethod
    def of(cls, weights: Mapping[int, int]) -> ExactLeaves:
        """From leaf → weight; a leaf that is not there has none."""
        leaves = sorted(weights)
        return cls(leaves, [0, *itertools.accumulate(weights[i] for i in leaves)])

    def sums(self, shape: TreeShape, level: int, place: int) -> list[int]:
        """Return the weight of each child of a node; of each node of a level, where these are listed."""
        if shape.layers is not None:
            held = dict(zip(self.leaves, pairwise(self.before), strict=True))
            weights = {leaf: after - before for leaf, (before, after) in held.items()}
            return [sum(weights.get(leaf, 0) for leaf in node) for node in shape.layers[level]]
        return [self._below(end) - self._below(start) for start, end in children(shape, level, place)]

    def _below(self, leaf: int) -> int:
        return self.before[bisect_left(self.leaves, leaf)]


def families_json(families: Families) -> list[Any]:
    """Return the stored form of what was looked at; integers are text."""
    return [[level, place, [str(w) for w in weights]] for (level, place), weights in sorted(families.items())]


def families_of(kept: Sequence[Any]) -> dict[Family, tuple[int, ...]]:
    """Return what `families_json` wrote."""
    return {(int(level), int(place)): tuple(int(w) for w in weights) for level, place, weights in kept}


_SELDOM = Fraction(9, 10)  # noise alone takes an edge of an empty part past an extreme once in twenty times


def _top_edges(weights: Sequence[int]) -> list[Edge]:
    return [Edge(rank, i, 0) for i, rank in enumerate([0, *itertools.accumulate(weights)])]


def _edges(weights: Sequence[int], low: Edge, high: Edge) -> list[Edge]:
    """Return the edges of a node's children, each reckoned from that edge of the node which takes fewer noisy nodes."""
    n, before = len(weights), [0, *itertools.accumulate(weights)]
    edges = [low]
    for j in range(1, n):
        if low.deep + j <= high.deep + n - j:
            edges.append(Edge(low.rank + before[j], low.left, low.deep + j))
        else:
            edges.append(Edge(high.rank - (before[n] - before[j]), high.left, high.deep + n - j))
    return [*edges, high]


def _first(edges: Sequence[Edge], passes: Callable[[Edge], bool]) -> int:
    """Return the first child whose right edge passes; the last child when none does."""
    return next((j for j in range(len(edges) - 2) if passes(edges[j + 1])), len(edges) - 2)


def _last(edges: Sequence[Edge], passes: Callable[[Edge], bool]) -> int:
    """Return the last child whose left edge passes; the first child when none does."""
    return next((j for j in range(len(edges) - 2, 0, -1) if passes(edges[j])), 0)
