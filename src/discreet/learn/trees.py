"""Boosted trees of one column each, of public shape: a generalized additive model of step functions.

A number has a complete binary tree. A split sends a row left or right at a cut, and has one weight: a row adds it to
its score on the right, and takes it away on the left. Cuts halve the rows of their node by a noisy histogram of each
column on public bins, which is drawn once; where noise hides the rows, they halve its bins. A declared value has a
weight of its own. Each round draws the sums of residuals of all splits of all trees at once; rounds have momentum, and
the last half of them is averaged (`descent.py`).

Guarantee:
    As of `LinearDescent`: the histogram is one more Gaussian draw. Cuts are public from then on, and a row's path
    follows from that row and from cuts.

References:
    Nori, Caruana, Bu, Shen, Kulkarni 2021 (DP-EBM: boosting in rounds, one column each, on bins of a noisy histogram),
    https://arxiv.org/abs/2106.09680; Biau, Cadre, Rouvière 2019 (accelerated boosting),
    https://arxiv.org/abs/1803.02042; docs/proofs/learn.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.engine.recipe import Draw
from discreet.engine.row_factor import RowFactor, RowPlaces
from discreet.errors import InvalidParameter
from discreet.learn.asked import histogram_part
from discreet.learn.descent import LinearDescent, PreparedRows
from discreet.learn.estimator import parameters
from discreet.learn.features import BITS, DeclaredColumn, Features
from discreet.learn.gram import spread_of
from discreet.learn.linear import LinearModel, Probabilities, ScaledRegressor
from discreet.learn.losses import Floats, Logistic, RowLoss, Softmax

if TYPE_CHECKING:
    from discreet.engine.person_parts import Parts, PeopleRows
    from discreet.engine.recipe import Running
    from discreet.plan.parts import PersonPart
    from discreet.plan.person_rows import PersonRows
    from discreet.plan.plan import Plan

DEPTH, SHALLOW = 6, 3  # the most and the fewest levels of a tree
FINE = 5.5  # a tree has so many levels less than the logarithm of μ·rows to the base 2
SPLITS = (1 << DEPTH) - 1  # splits of a tree: of level l from 2^l − 1 on, in their order
BINS = 256  # public bins of a number

FULL, FEWEST = 2, 3
"""A histogram has 256 bins where their noise hides 1/`FULL` of the rows at most, and fewer else: 2^`FEWEST` or more."""

HISTOGRAM = Fraction(3, 100)  # the part of μ² for the histogram
LEVEL = 2**-0.5  # a level has so much of the square of a row's length as the one above
HIDDEN = 3  # a node with fewer rows than so many deviations of their noise is cut in the middle


@dataclass(frozen=True)
class SplitFeatures(Features):
    """What rows are at the splits of the trees of declared columns: ±1, or 0 off their path."""

    # for each number the first bin on the right of each split; none before they are known
    cuts: tuple[tuple[int, ...], ...] = ()
    depth: int = DEPTH  # how many levels are in use

    @cached_property
    def starts(self) -> list[int]:
        sizes = [SPLITS if c.values is None else len(c.values) + 1 for c in self.columns]
        return [0, *np.cumsum(sizes).tolist()]

    @cached_property
    def numbers(self) -> list[int]:
        """The places of the columns that are numbers."""
        return [i for i, c in enumerate(self.columns) if c.values is None]

    @cached_property
    def names(self) -> list[str]:
        found, cuts = [], iter(self.cuts or [(0,) * SPLITS] * len(self.numbers))
        for c in self.columns:
            own = next(cuts) if c.values is None else ()
            found += c.names([f"{c.name} split {i + 1} at bin {cut}" for i, cut in enumerate(own)])
        return found

    @property
    def said(self) -> Any:
        return ["splits", BINS, super().said]

    def active(self, depth: int) -> Floats:
        """Return 1 for each weight that trees of so many levels have, and 0 for the others."""
        found = np.ones(self.width)
        for i in self.numbers:
            found[self.starts[i] + (1 << depth) - 1 : self.starts[i] + SPLITS] = 0
        return found

    def binned(self, columns: Iterable[NDArray[Any]], n: int) -> NDArray[np.int64]:
        """Return the bin of each number, and the place of each declared value, one line a row."""
        found = np.empty((n, len(self.columns)), np.int64)
        for j, (c, cells) in enumerate(zip(self.columns, columns, strict=True)):
            if c.values is not None:
                found[:, j] = np.clip(np.rint(cells), 0, len(c.values))
            else:
                found[:, j] = np.minimum(self.position(c, cells) * BINS, BINS - 1)
        return found

    def encode(self, columns: Iterable[NDArray[Any]], n: int) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
        return self.paths(self.binned(columns, n))

    def paths(self, bins: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
        """Return the places and the values of the features of rows of these bins, in steps of 2^-12."""
        n, unit, cuts = len(bins), 2.0**BITS * self.scale, iter(self.cuts)
        share = LEVEL ** np.arange(self.depth)
        sizes = np.rint(unit * np.sqrt(share / share.sum())).astype(np.int16)
        width = sum(self.depth if c.values is None else 1 for c in self.columns) + 1
        places, values = np.empty((n, width), np.int32), np.full((n, width), round(unit), np.int16)
        places[:, -1], at = self.starts[-1], 0
        for j, (c, start) in enumerate(zip(self.columns, self.starts, strict=False)):
            if c.values is not None:
                places[:, at] = start + bins[:, j]
                at += 1
                continue
            own, node = np.array(next(cuts)), np.zeros(n, np.int64)
            for level, size in enumerate(sizes):
                split = (1 << level) - 1 + node
                right = bins[:, j] >= own[split]
                places[:, at], values[:, at] = start + split, np.where(right, size, -size)
                node = 2 * node + right
                at += 1
        return places, values


def cuts_of(counts: Floats, spread: float) -> list[int]:
    """Return the cuts of a tree: each halves the rows of its node, or its bins where noise hides how many there are."""
    below = np.concatenate([[0.0], np.cumsum(counts)])
    found: list[int] = []
    nodes = [(0, len(counts))]
    for _ in range(DEPTH):
        cuts = [_cut(below[a : b + 1], a, spread) for a, b in nodes]
        found += cuts
        nodes = [pair for (a, b), m in zip(nodes, cuts, strict=True) for pair in ((a, m), (m, b))]
    return found


def _cut(below: Floats, first: int, spread: float) -> int:
    size, rows = len(below) - 1, below[-1] - below[0]
    if size < 2 or rows <= HIDDEN * spread * math.sqrt(size):
        return first + (size + 1) // 2
    return first + 1 + int(np.argmin(np.abs(below[1:-1] - below[0] - rows / 2)))


@dataclass(frozen=True)
class TreeDescent(LinearDescent):
    """Weights of the splits of trees, and their cuts."""

    @cached_property
    def features(self) -> SplitFeatures:
        """The splits, of which only the columns are known before the histogram."""
        return SplitFeatures(self.columns)

    def _first(self, rows: PersonRows) -> list[PersonPart]:
        d = len(self.features.numbers)
        return [histogram_part(rows, d, BINS, HISTOGRAM)] if d else []

    def _shaped(self, parts: Mapping[str, Any], rows: float, ratio: float) -> Running[tuple[dict[str, Any], Floats]]:
        depth = min(max(round(math.log2(rows * ratio) - FINE), SHALLOW), DEPTH)
        cuts: list[list[int]] = []
        if "histogram" in parts:
            spread = spread_of(parts["histogram"])
            # the logarithm of how many bins together are above their noise, which may be next to none
            some = 2 * (math.log2(rows / (FULL * HIDDEN)) - math.log2(max(spread, sys.float_info.min)))
            wide = BINS >> min(max(int(some), FEWEST), BINS.bit_length() - 1)
            noisy = np.array((yield Draw("histogram", wide)), np.float64).reshape(-1, BINS)[:, : BINS // wide]
            cuts = [cuts_of(np.repeat(own / wide, wide), spread / math.sqrt(wide)) for own in noisy]
        return {"cuts": cuts, "depth": depth}, self.features.active(depth)

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        columns, rows = super().table(plan, state)
        names = [*grown(self.columns, state).names, "intercept"]
        return columns, [[name, *row[1:]] for name, row in zip(names, rows, strict=True)]

    # ------------------------------------------------------------------ private: of people's rows
    def prepare(self, people: PeopleRows) -> Any:
        bins = self.features.binned(self.cells(people), len(people.matrix))
        return _Binned(bins, *self._goal(people), {})

    def each(self, people: PeopleRows, of: str, args: Any) -> Parts:
        if of != "histogram":
            return super().each(people, of, args)
        numbers = self.features.numbers
        cells = people.prepared.bins[:, numbers] // args + BINS * np.arange(len(numbers))
        return RowPlaces(people.starts, cells, len(numbers) * BINS)

    def _known(self, people: PeopleRows, args: Any) -> PreparedRows:
        rows: _Binned = people.prepared
        grow = grown(self.columns, args) if args is not None else None
        if grow not in rows.made:  # paths of these cuts, which are the same in all draws of a run
            rows.made.clear()
            paths = None if grow is None else grow.paths(rows.bins)
            made: Any = None if paths is None else RowFactor(people.starts, *paths, self.features.width)
            rows.made[grow] = PreparedRows(made, rows.y, rows.counts)
        return rows.made[grow]


class _Binned(NamedTuple):
    """What all draws need of the rows: their bins, targets, and what was made of them for the last cuts."""

    bins: NDArray[np.int64]
    y: Floats
    counts: Floats
    made: dict[SplitFeatures | None, PreparedRows]


def grown(columns: Sequence[DeclaredColumn], state: Mapping[str, Any]) -> SplitFeatures:
    """Return the features of a state's cuts and depth."""
    cuts = tuple(tuple(min(max(int(m), 0), BINS) for m in own) for own in state["cuts"])
    return SplitFeatures(tuple(columns), cuts=cuts, depth=min(max(int(state["depth"]), 1), DEPTH))


class _Trees(LinearModel):
    """What boosted trees share."""

    basis, knots, solver = "linear", 2, "gradient"
    _descent = TreeDescent

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        numbers = len(SplitFeatures(self._columns).numbers)
        return {**super()._shapes(), "cuts": (numbers, SPLITS), "depth": ()}

    def _made_of(self, state: Mapping[str, Any]) -> Features:
        return grown(self._columns, state) if state else SplitFeatures(self._columns)

    def _take(self, state: Any) -> None:
        self._features, self._weights = self._made_of(state), np.array(state["weights"])
        self.steps_, self._clip = state["steps"], state.get("clip")

    def rebuild(self, outputs: int) -> Floats:
        self._features = grown(self._features.columns, {"cuts": self._features.cuts, "depth": self._features.depth})
        if [len(own) for own in self._features.cuts] != [SPLITS] * len(self._features.numbers):
            raise InvalidParameter("this model has cuts that no fit gives.", hint="model.fit(X, y)")
        self._weights = np.asarray(self._weights, np.float64).reshape(outputs, self._features.width)
        return self._weights

    def _explained(self) -> str:
        return (
            f"Boosted trees of one column each, of {self._features.depth} levels: {self.steps_} rounds, each person's "
            f"residual clipped to {self._clip:g}, on {len(self._columns)} columns."
        )


@parameters
class BoostedTrees(_Trees, Probabilities):
    """Classification of two or more classes by boosted trees of one column each.

    Guarantee:
        (ε, δ)-DP for each row, under `relation`, of everything that `fit` leaves: all Gaussian noise of a fit is one
        event (`loss_`). What is public: the number and names of columns, the bounds, the classes, all parameters, and
        under replace the number of rows. Each fit draws fresh noise.

    References:
        docs/proofs/learn.md.

    >>> X = np.array([[-1.0], [0.0], [1.0]] * 2000)
    >>> model = BoostedTrees(epsilon=1, delta=1e-6, bounds=(-2, 2), classes=["middle", "outer"])
    >>> model.fit(X, np.where(X[:, 0] == 0, "middle", "outer")).predict([[-1], [0], [1]]).tolist()
    ['outer', 'middle', 'outer']
    """

    classes: Any = None
    rows: int | None = None

    def _loss(self) -> RowLoss:
        return Logistic() if len(self.classes_) == 2 else Softmax(len(self.classes_))


@parameters
class BoostedTreesRegressor(_Trees, ScaledRegressor):
    """Regression by boosted trees of one column each.

    Guarantee:
        As of `BoostedTrees`, where the target's bounds are public.
    """

    target: Any = None
    loss: str = "squared"
    rows: int | None = None
