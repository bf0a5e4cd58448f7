"""A quantile and an interval for it, by the exponential mechanism over the cells of a public grid."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism, numbered
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.flanks import EDGES, between, doubling, edges_about, rank_error
from discreet.mechanisms.parameters import read_confidence, read_size, read_whole
from discreet.mechanisms.values import plain
from discreet.noise import selection
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.noise.uniform import below
from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real, count, exact, set_fields
from discreet.privacy.guarantee import called, decimal
from discreet.privacy.unit import Relation, Sensitivity

NAMED, NEAR, COUNTED = Fraction(3, 10), Fraction(1, 10), Fraction(6, 10)
"""How ε is divided: between the choice of the cell, and the two histograms of which its interval is made."""

MOST_CELLS = 1 << 32
"""Cells of a grid; with more of them, exact proposals of empty ones would be refused too often."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ExponentialQuantile(Mechanism):
    """Names the cell of a public grid in which a quantile lies, and counts what lies about it.

    The weight left of a cell and the weight up to its end are its ranks. Cell c has the loss d(c), the distance from
    the rank that is aimed at, p times the total weight, to the ranks of c; the first cell reaches down to −∞ and the
    last one up to ∞. It is named with probability proportional to exp(−rate·d(c)). A noisy histogram of parts whose
    ends are at distances 1, 2, 4, … from it then says how dense the weight is there, and a second one, of parts whose
    ends follow from the first, the ranks between which the quantile lies (`flanks.py`).

    Guarantee:
        ε-DP for all three in all groups together, when one unit adds whole weights of at most `sensitivity` in all,
        none below 0, to the cells of each of at most `max_groups` of `groups` groups (None: any number), under
        `relation`. The choice's losses lie in an interval as wide as one of `ranges`: the bounded-range event. The
        draw is exact. For every data set `interval` holds the quantile with the probability that it is asked for
        (docs/proofs/exponential-quantile.md).

    References:
        Smith 2011, *Privacy-preserving statistical estimation with optimal convergence rates*, Algorithm 2 (the
        exponential mechanism on ranks), https://doi.org/10.1145/1993636.1993743; McSherry, Talwar 2007, Theorem 6,
        https://doi.org/10.1109/FOCS.2007.41; Dong, Durfee, Rogers 2020 (bounded range),
        https://arxiv.org/abs/1909.13830

    >>> ExponentialQuantile(epsilon=1000).release([0, 10, 90, 10, 0])
    (2, 2, 2)
    """

    epsilon: Fraction
    p: Fraction
    sensitivity: Fraction
    relation: Relation
    max_groups: int
    groups: int | None
    row: int

    def __init__(
        self,
        *,
        epsilon: Real,
        p: Real = Fraction(1, 2),
        sensitivity: Real = 1,
        relation: Relation | str = Relation.ADD_REMOVE,
        max_groups: int = 1,
        groups: int | None = 1,
        row: int = 1,
    ) -> None:
        share = exact("p", p)
        if not 0 < share < 1:
            raise InvalidParameter(
                f"p must lie strictly between 0 and 1, not {decimal(share)}.",
                hint="the least and the largest value have no rank to aim at: take p=0.01 or p=0.99",
            )
        set_fields(self, epsilon=read_size("epsilon", epsilon), p=share)
        set_fields(self, sensitivity=read_whole("sensitivity", sensitivity), relation=Relation.parse(relation))
        set_fields(self, max_groups=count("max_groups", max_groups))
        set_fields(self, groups=None if groups is None else count("groups", groups), row=count("row", row, least=0))

    @property
    def ranges(self) -> tuple[tuple[Fraction, int], ...]:
        """How wide an interval the changes of all losses lie in when one unit changes, and how often.

        Once for each group under add-remove. Under replacement once for each group that both units enter, and once for
        each pair of groups, one of which the old unit enters and the other the new one.
        """
        k = self.max_groups if self.groups is None else min(self.max_groups, self.groups)
        weight, steeper = self.sensitivity, max(self.p, 1 - self.p)
        if self.relation is Relation.ADD_REMOVE:
            return ((2 * steeper * weight, k),)
        shared = 0 if self.groups is None else max(2 * k - self.groups, 0)
        found = ((2 * weight, shared), (4 * steeper * weight, k - shared))
        return tuple((width, n) for width, n in found if n)

    @property
    def rate(self) -> Fraction:
        """By which losses are weighed: the choice's part of ε over all that one unit can change."""
        return NAMED * self.epsilon / sum(width * n for width, n in self.ranges)

    @property
    def moved(self) -> Sensitivity:
        """How far one unit moves each of the two histograms over all groups, whatever the parts are."""
        k = self.max_groups if self.groups is None else min(self.max_groups, self.groups)
        weight = int(self.sensitivity)
        l1 = (1 if self.relation is Relation.ADD_REMOVE else 2) * k * weight
        # weights are whole, so at most l1 parts move
        return Sensitivity(l1, weight, l1=l1, l2_squared=l1 * weight)

    @property
    def near(self) -> DiscreteLaplaceNoise:
        """The noise of the histogram that says how dense the weight is."""
        return DiscreteLaplaceNoise(self.moved.l1 / (NEAR * self.epsilon))

    @property
    def counted(self) -> DiscreteLaplaceNoise:
        """The noise of the histogram that says between which edges the quantile lies."""
        return DiscreteLaplaceNoise(self.moved.l1 / (COUNTED * self.epsilon))

    @property
    def events(self) -> Composed:
        named = Composed([(BoundedRangeEvent(self.rate * width), n) for width, n in self.ranges])
        return named + self.near.event(self.moved) + self.counted.event(self.moved)

    def error(self, confidence: Real = 0.95, *, cells: int) -> float:
        """Return how far, in weight, the named cell's ranks may be from the rank that is aimed at.

        A t with P(d ≥ t) ≤ 1 − confidence: (1/rate) ln((cells − 1) confidence/(1 − confidence)), from below 1/(1 + y)
        of all chance being left where y is at most (cells − 1) exp(−rate·t).
        """
        likely = read_confidence(confidence)
        odds = (count("cells", cells) - 1) * likely / (1 - likely)
        return _up(_up(math.log(odds)) / float(self.rate)) if odds > 1 else 0.0

    def reach(self, confidence: Real = 0.95) -> float:
        """Return how far, in weight, the noise of the interval may move the rank of an edge, with one row's share."""
        sizes = ((1 - self.p, EDGES + 1), (self.p, EDGES))
        slack = max(self.p, 1 - self.p) * self.row
        return rank_error(self.counted, sizes, read_confidence(confidence)) + float(slack)

    def release(
        self, counts: Sequence[int] | NDArray[Any], *, confidence: Real = Fraction(19, 20), rng: Entropy | None = None
    ) -> tuple[int, int, int]:
        """Return the cell that is named, the first and the last cell of the interval, by their places in the grid.

        Args:
            counts: the weight in each cell, whole numbers of at least 0; how many cells there are is public.
            confidence: of the interval.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: no cells, or a weight that is not such a number. The message does not quote it.
        """
        level, counts = read_confidence(confidence), plain(counts)
        if isinstance(counts, np.ndarray) and (counts.ndim != 1 or counts.dtype.kind not in "iu"):
            raise InvalidParameter("counts must be whole numbers in one dimension.")
        given: object = counts  # what came need not be what was annotated
        if type(given) is not np.ndarray and not isinstance(given, Sequence):
            raise InvalidParameter(
                f"counts must be a list or a plain array, not {type(given).__name__}.", hint="[3, 0, 4]"
            )
        weights = counts.tolist() if isinstance(counts, np.ndarray) else list(counts)
        if not all(isinstance(w, int | np.integer) and not isinstance(w, bool) and w >= 0 for w in weights):
            raise InvalidParameter("counts must be whole numbers of at least 0.")
        places = [i for i, w in enumerate(weights) if w]
        before = [0, *itertools.accumulate(int(weights[i]) for i in places)]
        chosen = self.choose(places, before, len(weights), SystemEntropy() if rng is None else rng)
        return chosen.cell, *self.interval(chosen, len(weights), level)

    def choose(self, places: Sequence[int], before: Sequence[int], cells: int, rng: Entropy) -> Chosen:
        """Return what is released, for weights in few of many cells.

        Args:
            places: the cells that hold any weight, in their order.
            before: the weight left of each of them, and the total.
            cells: how many cells there are.
            rng: where randomness comes from.
        """
        if not 1 <= cells <= MOST_CELLS:
            raise InvalidParameter(f"there must be 1 to {MOST_CELLS:,} cells.", hint="take a coarser grid")
        runs = Runs.of(places, before, cells)
        losses = runs.losses(self.p.numerator * before[-1], self.p.denominator)
        run = selection.exponential(-losses, self.rate / self.p.denominator, rng, copies=runs.lengths)
        cell = int(runs.starts[run]) + below(int(runs.lengths[run]), rng)

        def noisy(edges: Sequence[int], noise: DiscreteLaplaceNoise) -> list[int]:
            ranks = [0, *(before[bisect_left(places, x)] for x in edges), before[-1]]
            return noise.add([b - a for a, b in itertools.pairwise(ranks)], rng)

        near = noisy(doubling(cell, cells), self.near)
        edges = edges_about(cell, cells, near, self.near, 1 / float(self.rate))
        return Chosen(cell, tuple(edges), tuple(noisy(edges, self.counted)))

    def interval(self, chosen: Chosen, cells: int, confidence: Fraction) -> tuple[int, int]:
        """Return the first and the last cell between which the quantile lies with probability `confidence`, whichever
        usual definition of it is meant; the named cell is one of them.
        """
        # ranks of Hyndman and Fan's definitions (1996), but for the fourth, are no further from p times the weight
        edges, slack = chosen.edges, max(self.p, 1 - self.p) * self.row
        low, high = between(edges, chosen.counts, self.counted, self.p, slack, cells, confidence)
        return min(low, chosen.cell), max(high, chosen.cell)

    def explain(self) -> str:
        moves = " and ".join(f"{decimal(width)} ({n} time{'s' if n > 1 else ''})" for width, n in self.ranges)
        r = decimal(self.rate)
        return numbered(
            repr(self),
            f"Loss. d(c) is the distance from {decimal(self.p)} times the total weight to the ranks of cell c.",
            f"Sensitivity. Between neighbours x, y all changes dₓ(c) − d_y(c) lie in an interval as wide as {moves}.",
            f"Law. P(M(x) = c) = exp(−r·dₓ(c)) / Σ exp(−r·dₓ(j)) with r = {r}.",
            "Ratio. log P(M(x) = c)/P(M(y) = c) = r(d_y(c) − dₓ(c)) + a number that is the same for all c, and 0 is in "
            "its range: bounded range, r times that width.",
            f"Histograms. Two for each group, of which all parts together move by {self.moved.l1}: discrete "
            f"Laplace noise of scale {decimal(self.near.scale)} and {decimal(self.counted.scale)}.",
            f"Conclusion. The widths add up, times r, to {decimal(NAMED * self.epsilon)}; with the moves over the "
            f"scales all three are {decimal(self.epsilon)}-DP.",
        )

    def __repr__(self) -> str:
        first = f"epsilon={decimal(self.epsilon)}" + ("" if self.p == Fraction(1, 2) else f", p={str(self.p)!r}")
        return called(self, first=first, sensitivity=1, relation=Relation.ADD_REMOVE, max_groups=1, groups=1, row=1)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is released of one group: the named cell, edges about it, and the noisy weight of the parts between them."""

    cell: int
    edges: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Runs:
    """Neighbouring cells of equal loss, whatever is aimed at: their first cell, how many, and their ranks."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    low: NDArray[Any]
    high: NDArray[Any]

    @classmethod
    def of(cls, places: Sequence[int], before: Sequence[int], cells: int) -> Runs:
        """Each cell that holds weight is a run, as are the empty ones between two of them; the first and the last
        cell stand alone, as their ranks have no end.
        """
        held = np.asarray(places, dtype=np.int64)
        edges = np.sort(np.concatenate((held, held + 1, [0, 1, cells - 1])), kind="stable")
        starts = edges[np.append(edges[1:] != edges[:-1], True) & (edges < cells)]  # each once
        lengths = np.diff(np.append(starts, cells))
        wide = before[-1] >= 1 << 63
        ranks = np.array(before, dtype=object if wide else np.int64)
        low = ranks[np.searchsorted(held, starts)]
        high = ranks[np.searchsorted(held, starts + 1)]  # an empty run's ranks are one number
        return cls(starts, lengths, low, high)

    def losses(self, target: int, scale: int) -> NDArray[Any]:
        """Return how far the target is from `scale` times the ranks of each run: whole numbers, exactly."""
        low, high = self.low, self.high
        # in Python's integers where 64 bits could overflow: by `scale` alone where there is no weight
        if scale * max(int(high[-1]), 1) + abs(target) >= 1 << 62:
            low, high = low.astype(object), high.astype(object)
        above, under = low * scale - target, target - high * scale
        above[0], under[-1] = 0, 0
        found: NDArray[Any] = np.maximum(np.maximum(above, under), 0)
        return found


def _up(x: float) -> float:
    return x * (1 + 2.0**-48)
