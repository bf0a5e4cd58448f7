"""How far a statistic can be moved by so many changes of a data set, and its smooth sensitivity, in whole numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.parameters import read_choice
from discreet.mechanisms.values import Declared, Values
from discreet.privacy.exact import Real, exact, first_whole
from discreet.privacy.guarantee import decimal
from discreet.privacy.unit import Relation

Places = NDArray[np.int64]
"""Whole numbers from 0 to `span`."""

_SURE = 2.0**-45  # relative; the float products below are right to 2^-51

BITS = 62
"""The first weight is 2^BITS."""

_LAST = 1 << 20  # the last weight, or nearly: 2^-42 of the first, less than a step of the grid of 2^41 steps
_MOST = 1 << 18  # weights; beyond, all are alike, which is as smooth


class SensitivityBounds(ABC):
    """A statistic f at one data set, and bounds Aₖ of its local sensitivity on all data sets within k units' changes.

    Guarantee:
        |f(x) − f(y)| ≤ A₀(x) and Aₖ(x) ≤ Aₖ₊₁(y) for neighbours x, y; Aₖ does not fall with k and is at most `span`.
        Both are proved in docs/proofs/smooth-sensitivity.md.
    """

    __slots__ = ("changes", "relation", "span")

    def __init__(self, span: int, relation: Relation, changes: int) -> None:
        self.span = span
        self.relation = relation
        self.changes = changes

    @abstractmethod
    def value(self) -> int:
        """f, a place."""

    @abstractmethod
    def most(self, k: int) -> int:
        """Aₖ."""

    def smooth(self, weights: Weights) -> Fraction:
        """Return the largest Aₖ·wₖ/w₀: at least A₀, and at most B times that of any neighbour."""
        listed = weights.listed
        best = listed[-1] * self.span  # Aₖ ≤ span from there on
        for k, w in enumerate(listed):
            if w * self.span <= best:
                break
            best = max(best, w * self.most(k))
        return Fraction(best, 1 << BITS)

    def stable_for(self, bound: int) -> int:
        """Return the least k with Aₖ > bound: so many units must change before the local sensitivity can exceed it.

        It moves by at most one between neighbours; where there is no such k it is a public constant.
        """
        if self.span <= bound:
            return FARTHEST
        return first_whole(lambda k: k >= FARTHEST or self.most(k) > bound, -1)


FARTHEST = 1 << 40
"""The largest distance that is told apart."""


class Rank(SensitivityBounds):
    """The p-quantile: the value of rank ⌈pn⌉; below the first rank is the lower end, above the last one the upper end.

    a changes that move ranks down and b that move them up bring it between the ranks L(a, b) and U(a, b), so Aₖ is the
    largest such width with a + b = (k + 1)·changes. Under replace these are ⌈pn⌉ − a and ⌈pn⌉ + b, and Aₖ is attained;
    under add-remove a values are added and b removed, ⌈p(n + a − b)⌉ − a and ⌈p(n + a − b)⌉ + b, and it is attained by
    the median.

    References: Nissim, Raskhodnikova, Smith 2007, Section 3.1, https://doi.org/10.1145/1250790.1250803
    """

    __slots__ = ("_n", "_p", "_sorted")

    def __init__(self, ordered: Places, span: int, p: Fraction, relation: Relation, *, changes: int = 1) -> None:
        super().__init__(span, relation, changes)
        self._sorted = np.concatenate(([0], ordered, [span])).astype(np.int64)
        self._n = len(ordered)
        self._p = p

    def value(self) -> int:
        return int(self._sorted[math.ceil(self._p * self._n)])

    def most(self, k: int) -> int:
        moves = (k + 1) * self.changes
        if moves > self._n:  # all values may be removed or replaced: some window is the whole range
            return self.span
        a = np.arange(moves + 1, dtype=np.int64)
        return int(self._width(a, moves - a).max())

    def smooth(self, weights: Weights) -> Fraction:
        """By branch and bound over squares of (a, b): widths grow and weights fall with both."""
        listed, r = weights.listed, self.changes
        scaled = np.array(listed, dtype=np.float64) / float(listed[0])
        last = len(listed) - 1
        found = {(last, self.span)}
        least = float(scaled[last]) * self.span * (1 - _SURE)
        if self._p == Fraction(1, 2) and self.relation is Relation.ADD_REMOVE:  # a + b alone bears on the window
            all_b = np.arange(1, last + 1, dtype=np.int64) * r
            wide = self._width(np.zeros_like(all_b), all_b)
            values = scaled[:last] * wide
            close = np.flatnonzero(values >= max(least, float(values.max(initial=0.0)) * (1 - _SURE)))
            found.update(zip(close.tolist(), wide[close].tolist(), strict=True))
            return max(Fraction(listed[k] * w, listed[0]) for k, w in found)
        size = 1 << ((len(listed) + 1) * r).bit_length()
        a = b = np.zeros(1, dtype=np.int64)
        while a.size:
            size //= 2
            a, b = _quartered(a, size), np.repeat(np.stack((b, b + size)), 2, axis=0).reshape(-1)
            moves = a + b
            steps = np.minimum(np.maximum(-(-moves // r) - 1, 0), last)
            weighed = scaled[steps]
            near, far = self._width(a, b), self._width(a + size - 1, b + size - 1)
            least = max(least, float(np.where(moves > 0, weighed * near, 0.0).max()) * (1 - _SURE))
            # With the last weight nothing is above w·span; other sums than multiples of r have the weight of the next.
            kept = (weighed * far * (1 + _SURE) >= least) & (steps < last)
            kept &= -(-np.maximum(moves, 1) // r) * r <= moves + 2 * (size - 1)
            done = kept & (near == far)  # the near corner has the largest weight, and a width like any
            found.update(zip(steps[done].tolist(), near[done].tolist(), strict=True))
            kept &= near < far
            a, b = a[kept], b[kept]
        return max(Fraction(listed[k] * w, listed[0]) for k, w in found)

    def _width(self, a: Places, b: Places) -> Places:
        n, p, q = self._n, self._p.numerator, self._p.denominator
        middle = -(-p * n // q) if self.relation is Relation.REPLACE else -(-p * (n + a - b) // q)
        low = np.minimum(np.maximum(middle - a, 0), n + 1)  # which is faster than clip
        high = np.minimum(np.maximum(middle + b, 0), n + 1)
        return np.asarray(self._sorted[high] - self._sorted[low])


def _quartered(a: Places, size: int) -> Places:
    """Return the first coordinates of the four quarters of each square: beside (b, b, b + size, b + size)."""
    return np.asarray(np.concatenate((a, a + size, a, a + size)))


class Interquartile(SensitivityBounds):
    """The distance of the quartiles.

    When one value is replaced both quartiles move in the same direction, so that their distance moves by no more than
    the one that moves more; else by no more than both together.
    """

    __slots__ = ("_low", "_together", "_up")

    def __init__(self, ordered: Places, span: int, relation: Relation, *, changes: int = 1) -> None:
        super().__init__(span, relation, changes)
        self._low = Rank(ordered, span, Fraction(1, 4), relation, changes=changes)
        self._up = Rank(ordered, span, Fraction(3, 4), relation, changes=changes)
        self._together = relation is Relation.ADD_REMOVE or changes > 1

    def value(self) -> int:
        return self._up.value() - self._low.value()

    def most(self, k: int) -> int:
        one, two = self._low.most(k), self._up.most(k)
        return min(one + two, self.span) if self._together else max(one, two)

    def smooth(self, weights: Weights) -> Fraction:
        one, two = self._low.smooth(weights), self._up.smooth(weights)
        return min(one + two, Fraction(self.span)) if self._together else max(one, two)


class Deviation(SensitivityBounds):
    """The median of the distances from the median, both of rank ⌈n/2⌉.

    After j changes the median is some c between two ranks, and the distance that is released lies between the distances
    from c of two ranks. Aₖ is the largest less the smallest of them over all such c, with j = (k + 1)·changes.
    """

    __slots__ = ("_n", "_ordered", "_sorted")

    def __init__(self, ordered: Places, span: int, relation: Relation, *, changes: int = 1) -> None:
        super().__init__(span, relation, changes)
        self._ordered = ordered
        self._sorted: list[int] = ordered.tolist()
        self._n = len(ordered)

    def value(self) -> int:
        middle = -(-self._n // 2)
        return 0 if not middle else int(self._distance(2 * self._at(middle), middle)) // 2

    def most(self, k: int) -> int:
        j = (k + 1) * self.changes
        if self.relation is Relation.REPLACE:
            low, high = -(-self._n // 2) - j, -(-self._n // 2) + j
        else:
            low, high = -(-(self._n - j) // 2), -(-(self._n + j) // 2)
        if high > self._n or low < 1:
            return self.span
        ends = 2 * self._at(low), 2 * self._at(high)
        largest = max(self._distance(c, high) for c in ends)
        smallest = min(self._distance(c, low) for c in ends)
        # distances rise and fall by turns as c moves: they turn up at the middle of `low` neighbouring values, and down
        # half-way between a value and the one `high` ranks on
        peaks, valleys = self._gaps(ends, high), self._gaps(ends, low - 1)
        largest, smallest = max([largest, *peaks]), min([smallest, *valleys])
        return min(-(-largest // 2) - smallest // 2, self.span)

    def _at(self, rank: int) -> int:
        return self._sorted[min(max(rank, 1), self._n) - 1]

    def _distance(self, twice: int, rank: int) -> int:
        """Twice the distance from c = twice/2 of the value that is nearest but rank − 1."""
        x = self._sorted
        first = bisect_left(range(self._n - rank + 1), twice, key=lambda s: x[s] + x[s + rank - 1])
        near = [
            max(twice - 2 * x[s], 2 * x[s + rank - 1] - twice) for s in (first - 1, first) if 0 <= s <= self._n - rank
        ]
        return min(near)

    def _gaps(self, ends: tuple[int, int], apart: int) -> list[int]:
        """Largest and smallest x[s + apart] − x[s] of those whose middle lies between the ends."""
        x = self._sorted
        within = range(max(self._n - apart, 0))
        first = bisect_left(within, ends[0], key=lambda s: x[s] + x[s + apart])
        last = bisect_right(within, ends[1], key=lambda s: x[s] + x[s + apart])
        found = self._ordered[first + apart : last + apart] - self._ordered[first:last]
        return [int(found.max()), int(found.min())] if found.size else []


class ModeBounds(SensitivityBounds):
    """The most frequent of declared values, the first of them when several are; other values count for nothing.

    After j changes only a value can be the most frequent whose count is at most j (add-remove) or 2j (replace)
    below the largest one. Aₖ is the distance of the outermost of these, with j = (k + 1)·changes.
    """

    __slots__ = ("_behind", "_reach", "_value")

    def __init__(
        self, counts: Sequence[int], at: Sequence[int], span: int, relation: Relation, *, changes: int = 1
    ) -> None:
        super().__init__(span, relation, changes)
        top = max(counts)
        self._value = at[list(counts).index(top)]
        order = sorted(range(len(at)), key=lambda i: -counts[i])
        self._behind = [top - counts[i] for i in order]
        places = np.array([at[i] for i in order], dtype=np.int64)
        self._reach: Places = np.maximum.accumulate(places) - np.minimum.accumulate(places)

    def value(self) -> int:
        return int(self._value)

    def most(self, k: int) -> int:
        j = (k + 1) * self.changes * (2 if self.relation is Relation.REPLACE else 1)
        return int(self._reach[bisect_right(self._behind, j) - 1])

    def lead(self) -> int:
        """Return how many units may change, at least, before one more can change the mode.

        A unit changes the lead of the most frequent value over another by its `changes` at most, under replace by twice
        as many; the lead must stay at 1 or more after one unit more.
        """
        step = self.changes * (2 if self.relation is Relation.REPLACE else 1)
        return max(-(-self._behind[1] // step) - 1, 0)


@dataclass(frozen=True, slots=True)
class Weights:
    """Whole numbers w₀ = 2^62, w₁, w₂, … with wₖ ≤ B·wₖ₊₁ for a fraction B > 1; from the last on they stay the same.

    Guarantee:
        wₖ ≤ B·wₖ₊₁ holds exactly: wₖ₊₁ = ⌈wₖ/B⌉. So for any Aₖ(x) ≤ Aₖ₊₁(y) between neighbours, max wₖ·Aₖ is smooth
        with the factor B, in whole numbers (docs/proofs/smooth-sensitivity.md).
    """

    base: Fraction
    listed: tuple[int, ...]

    @classmethod
    def of(cls, base: Fraction) -> Weights:
        """Return the weights of B = `base`."""
        return _weights(base)


@lru_cache(maxsize=8)
def _weights(base: Fraction) -> Weights:
    p, q = base.numerator, base.denominator
    listed = [1 << BITS]
    while listed[-1] > _LAST and len(listed) < _MOST:
        listed.append(-(-listed[-1] * q // p))
    return Weights(base, tuple(listed))


NAMES = ("median", "quantile", "iqr", "mad", "mode")
"""Every statistic."""

GRID_BITS = 40
"""The grid has 2^40 steps or up to twice as many."""

_FINEST_P = 1 << 20  # ranks are computed in 64 bits


@dataclass(frozen=True, slots=True)
class Statistic:
    """A statistic of numbers in a declared range.

    Attributes:
        name: one of `NAMES`.
        p: for "quantile", which one.
        values: for "mode", what is counted.
        declared: the range and its grid.
    """

    name: str
    p: Fraction | None
    values: tuple[Fraction, ...] | None
    declared: Declared

    @classmethod
    def read(cls, name: str, *, lower: Real, upper: Real, p: Real | None, values: Sequence[Real] | None) -> Statistic:
        """Return the statistic that a caller names; refuses what does not fit together."""
        name = read_choice("statistic", name, NAMES)
        if (name == "quantile") != (p is not None):
            raise InvalidParameter("p= belongs to statistic='quantile', which needs it.", hint="p=0.9")
        if (name == "mode") != (values is not None):
            raise InvalidParameter(
                "values= belongs to statistic='mode', which needs it: the values that are counted.",
                hint="values=[0, 1, 2]: declared, never taken from the data",
            )
        declared = Declared.of(lower, upper, bits=GRID_BITS)
        share = None if p is None else _share(p)
        listed = None if values is None else _listed(values, declared)
        return cls(name, share, listed, declared)

    @property
    def width(self) -> Fraction:
        """How far apart two answers can be."""
        if self.values is not None:
            return max(self.values) - min(self.values)
        return self.declared.width

    def of(self, values: Values, relation: Relation, changes: int) -> SensitivityBounds:
        """Return the statistic at these values."""
        places = self.declared.places(values)
        span = self.declared.span
        if self.values is not None:
            at = [int(i) for i in self.declared.places(self.values)]
            found, counts = np.unique(places, return_counts=True)
            held = dict(zip(found.tolist(), counts.tolist(), strict=True))
            return ModeBounds([held.get(i, 0) for i in at], at, span, relation, changes=changes)
        ordered = np.sort(places)
        if self.name == "iqr":
            return Interquartile(ordered, span, relation, changes=changes)
        if self.name == "mad":
            return Deviation(ordered, span, relation, changes=changes)
        return Rank(ordered, span, self.p or Fraction(1, 2), relation, changes=changes)

    def ends(self) -> tuple[int, int]:
        """Between which places an answer lies."""
        if self.values is not None:
            at = self.declared.places(self.values)
            return int(at.min()), int(at.max())
        return 0, self.declared.span

    def answer(self, place: int) -> float:
        """Return the number at a place: a value, a distance, or for the mode the nearest declared value."""
        if self.values is not None:
            exactly = self.declared.grid.value(self.declared.first + place)
            return float(min(self.values, key=lambda v: (abs(v - exactly), v)))
        if self.name in ("iqr", "mad"):
            return self.declared.grid.to_float(place)
        return self.declared.value(place)

    def arguments(self) -> str:
        """As in a call."""
        given = [repr(self.name), f"lower={decimal(self.declared.lower)}", f"upper={decimal(self.declared.upper)}"]
        if self.p is not None:
            given.append(f"p={str(self.p)!r}")
        if self.values is not None:
            given.append(f"values=[{', '.join(decimal(v) for v in self.values)}]")
        return ", ".join(given)


def _share(p: Real) -> Fraction:
    share = exact("p", p)
    if not 0 < share < 1 or share.denominator > _FINEST_P:
        raise InvalidParameter(
            f"p must lie strictly between 0 and 1, with a denominator of at most 2^20, not {decimal(share)}.",
            hint="p=0.9, or p='1/3'",
        )
    return share


def _listed(values: Sequence[Real], declared: Declared) -> tuple[Fraction, ...]:
    listed: object = values  # what came need not be what was annotated
    if type(listed) is np.ndarray and listed.ndim == 1:
        listed = listed.tolist()
    if isinstance(listed, str) or not isinstance(listed, Sequence) or len(listed) < 2:
        raise InvalidParameter("values must be a list of two numbers or more.", hint="values=[0, 1, 2]")
    found = tuple(exact("values", v) for v in listed)
    if not all(declared.lower <= v <= declared.upper for v in found):
        raise InvalidParameter(
            "each of values must lie between lower and upper.", hint="declare a range that holds them all"
        )
    if len(set(declared.places(found).tolist())) < len(found):
        raise InvalidParameter("values must differ from one another.", hint="say each of them once")
    return found
