"""A quantile and an interval for it, by the exponential mechanism over the cells of a public grid.

The interval: an edge x lies between the cells x − 1 and x. Noisy counts of the parts between edges give each edge a
noisy rank. The interval ends at the edges whose ranks are surely too low and too high; where these lie decides how wide
it is, and has no say in how often it holds the quantile. It is post-processing of what was named and of noisy counts,
and holds the quantile with probability at least `confidence`, for every table and all edges that do not depend on the
noise of the counts (docs/proofs/exponential-quantile.md).
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism, numbered
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise
from discreet.mechanisms.parameters import read_confidence, read_size, read_whole
from discreet.mechanisms.values import plain
from discreet.noise import selection
from discreet.noise.entropy import Entropy, SystemEntropy, below
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
    ends follow from the first, the ranks between which the quantile lies.

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


REACHES = (2.8, 3.6, 5.0, 8.0)
"""How many rows from the named cell the edges on each side aim to be, in multiples of 1/rate: by trial."""

EDGES = len(REACHES) + 1
"""How many edges there are on each side at most: those, and one where that side surely has many rows."""

_MOST = 10**200  # a noisy count beyond it counts as this much, so that its products stay floats
_CLEAR = 4.5  # standard deviations from which on a density on both sides is taken as known
_SEEN = 3.0  # and one on a single side
_APART = 4.0  # by so many deviations the two sides differ, before each has a density of its own
_GAP = 14  # times the first edge's distance: if all seen of a side lies further, edges lie evenly on the way there

Weights: TypeAlias = tuple[tuple[Fraction, int], ...]
"""(size of a coefficient, how many independent noises have it)."""


def doubling(cell: int, cells: int) -> list[int]:
    """Edges at distances 1, 2, 4, … on both sides of a cell, those of a grid of so many cells."""
    far = [1 << k for k in range(cells.bit_length())]
    return [x for x in (*(cell + 1 - d for d in reversed(far)), *(cell + d for d in far)) if 0 < x < cells]


def edges_about(cell: int, cells: int, noisy: Sequence[int], noise: Additive, unit: float) -> list[int]:
    """Edges some multiples of `unit` rows away from the cell, as the noisy counts between `doubling` edges say.

    The rows are taken to lie evenly up to the nearest distance at which noise is a small part of the count, on both
    sides alike unless they clearly differ. One more edge on each side lies where that side surely has many rows; where
    that is much further than rows that lie evenly would be, the cell is in a gap, and all others lie on the way there.
    """
    ends = np.array([0, *doubling(cell, cells), cells], dtype=np.float64)
    middle = int(np.searchsorted(ends, cell, side="right")) - 1
    counts = np.array([float(max(min(n, _MOST), -_MOST)) for n in noisy])
    widths = np.diff(ends)
    sides = [(counts[middle::-1], widths[middle::-1]), (counts[middle:], widths[middle:])]
    length = max(len(n) for n, _ in sides)
    both = np.sum([[np.pad(x, (0, length - len(x))) for x in side] for side in sides], axis=0)
    deviation = max(math.sqrt(noise.variance), 1e-6)  # so that no noise at all divides by nothing
    near, common, clear = _density(both[0], both[1], math.sqrt(2) * deviation, _CLEAR)
    found = set[int]()
    for (n, width), sign in zip(sides, (-1, 1), strict=True):
        own, density = min(near, len(n) - 1), common
        alone, error = _fit(n, width, deviation)
        if clear and abs(alone[own] - common) > _APART * error[own]:
            _, density, _ = _density(n, width, deviation, _SEEN)
        last, _, _ = _density(n[1:], width[1:], deviation, _SEEN) if len(n) > 1 else (-1, 0.0, False)
        wanted = [reach * unit / density if density > 0 else math.inf for reach in REACHES]
        far = float(np.sum(width[: last + 2]))
        if far > _GAP * wanted[0]:
            wanted = [wanted[0] * (far / wanted[0]) ** (k / len(REACHES)) for k in range(EDGES)]
        else:
            wanted.append(max(far, 1.3 * wanted[-1]))
        distance = 0
        for d in wanted:
            distance = max(distance + 1, math.ceil(min(d, cells)))
            found.add(cell + distance if sign > 0 else cell + 1 - distance)
    return sorted(x for x in found if 0 < x < cells)


def _fit(
    counts: NDArray[np.float64], widths: NDArray[np.float64], deviation: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By least squares the density up to each distance, and its standard deviation."""
    size = np.cumsum(widths * widths)
    return np.cumsum(counts * widths) / size, deviation / np.sqrt(size)


def _density(
    counts: NDArray[np.float64], widths: NDArray[np.float64], deviation: float, clear: float
) -> tuple[int, float, bool]:
    """Return the nearest distance at which the density is so many deviations above 0, it, and whether there is one:
    else that at which it is the most above.
    """
    density, error = _fit(counts, widths, deviation)
    ratio = density / error
    enough = np.flatnonzero(ratio >= clear)
    at = int(enough[0]) if len(enough) else int(np.argmax(ratio))
    return at, float(density[at]), bool(len(enough))


def between(
    edges: Sequence[int],
    noisy: Sequence[int],
    noise: Additive,
    p: Fraction,
    slack: Fraction,
    cells: int,
    level: Fraction,
) -> tuple[int, int]:
    """Return the first and the last cell in which the quantile lies with probability `level`.

    From the left, edges are passed while the rank of each is too low for a quantile to its left: a quantile is cut off
    only where noise takes the rank of the first edge to its right that far, one test for each side.
    """
    before, total = list(accumulate(noisy)), sum(noisy)
    low, high = 0, cells

    def reach(left: int) -> float:
        return rank_error(noise, ((1 - p, left), (p, len(noisy) - left)), level) + float(slack)

    ranks = [(x, n - p * total, i + 1) for i, (x, n) in enumerate(zip(edges, before, strict=False))]
    for x, rank, left in ranks:
        if rank >= -reach(left):
            break
        low = x
    for x, rank, left in reversed(ranks):
        if rank <= reach(left):
            break
        high = x
    return low, high - 1


@lru_cache(maxsize=1 << 14)
def rank_error(noise: Additive, weights: Weights, confidence: Fraction) -> float:
    """Return a t with P(|Σ aᵢ Zᵢ| ≤ t) ≥ confidence for independent noises Zᵢ of one law; at most about 3 % above the
    least.

    Guarantee:
        Each aᵢZᵢ is moved to the middle of a cell, by half a cell at most, so that the sum moves by at most half a cell
        for each term, which is added to t. The sum of the moved terms is convolved on a circle; what is beyond it, or
        wraps around it, is less than what is taken off and counts as outside (docs/proofs/quantile-trees.md).
    """
    terms = [(max(float(a), _LEAST), n) for a, n in weights if a and n]
    count = sum(n for _, n in terms)
    if not count:
        return 0.0
    deviation = math.sqrt(sum(n * a * a for a, n in terms) * noise.variance)
    alone = noise.quantile(1 - (1 - confidence) / count)  # all terms are within it at once
    surely = sum(n * a for a, n in terms) * alone
    reach, furthest, beyond = _NEAR if 1 - confidence >= _OFTEN else _FAR
    if 1 - confidence <= 4 * beyond or deviation < _STILL or alone == 0:
        return surely
    step = deviation / (_CELLS * count)
    size = -(-2 * math.ceil(reach * _stretch(deviation)) * _CELLS * count // _ROUND) * _ROUND
    k = np.arange(-(size // 2), size // 2 + 1, dtype=np.float64)
    spectrum = np.ones(size // 2 + 1)
    for a, n in terms:
        mass = np.fft.ifftshift(np.diff(noise.cdf((k - 0.5) * (step / a))))
        spectrum = spectrum * np.fft.rfft(mass).real ** n  # a symmetric law has a real transform
    law = np.fft.irfft(spectrum, size)
    inside = law[0] + np.concatenate(([0.0], 2 * np.cumsum(law[1 : size // 2])))
    enough = np.flatnonzero(inside >= float(confidence) + 2 * beyond)
    if not len(enough) or enough[0] > furthest * _CELLS * count:
        return surely
    return min(surely, (int(enough[0]) + count / 2 + 0.5) * step)


def _stretch(deviation: float) -> float:
    """√κ: how much further than Laplace's a sum of small integers with this deviation may reach."""
    rate = deviation**-2
    if rate < 1e-6:
        return 1.0  # κ is below 1 + 1e-6
    return math.sqrt(2 * rate) / math.acosh(1 + rate)


_CELLS = 25  # of a standard deviation, for each term
_OFTEN = Fraction(1, 10_000)
# Half the circle in standard deviations, the furthest t that is believed, and a bound on what wraps around
# (docs/proofs/quantile-trees.md): P(|S| > x) ≤ 2 min over u of exp(−√2 x u)/(1 − u²), with x twice the first less the
# second.
_NEAR = (12, 8, 1e-8)
_FAR = (20, 12, 1e-11)
_ROUND = 256  # sizes with small factors transform fast
_LEAST = 1e-250  # a smaller coefficient counts as this much, so that what is divided by it stays a float
_STILL = 1e-3  # noise with a deviation below this is 0 but once in a million times
