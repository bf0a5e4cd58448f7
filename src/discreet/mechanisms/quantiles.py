"""Quantiles of one column by the exponential mechanism: the median in one call, or many in a binary tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism, numbered
from discreet.mechanisms.exponential_quantile import Runs
from discreet.mechanisms.parameters import read_confidence, read_size
from discreet.mechanisms.values import Declared, Values
from discreet.noise import selection
from discreet.noise.entropy import Entropy, SystemEntropy, below, below_vector
from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real, count, exact, set_fields
from discreet.privacy.guarantee import called, decimal
from discreet.privacy.unit import Relation

_BITS = 20  # 2^20 to 2^21 places of a value
_TIES = 1 << 10  # cells of one place, among which equal values are spread
_MOST = 1 << 12  # quantiles
_FINEST = 1 << 20  # denominators of p


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Quantiles(Mechanism):
    """Quantiles of one column: the middle one by the exponential mechanism, then those of the values on either side.

    Values on one side of a named value do not bear on the other side, so each of the ⌈log₂(m + 1)⌉ levels of
    the tree of m quantiles costs one share of ε, however many are named there. Equal values are first spread,
    each by a draw of its own, over 2^10 cells of the grid, so that a named value can part them by rank.

    Guarantee:
        ε-DP, each level bounded-range, when each unit holds at most `changes` = W of the values. With p′ the quantile
        that is aimed at among a part of the values and m = max(p′, 1 − p′), a selection has rate ε′/2mW under
        add-remove, and under replace (the number of values is public) ε′/4mW, or ε′/2W at the root. Values outside
        [lower, upper] are moved to the nearer end; NaN counts as `lower`.

    References:
        Kaplan, Schnapp, Stemmer 2022, Algorithm 1, https://arxiv.org/abs/2110.05429; McSherry, Talwar
        2007, Theorem 6, https://doi.org/10.1109/FOCS.2007.41; docs/proofs/approximate-quantiles.md.

    >>> quartiles = Quantiles(["1/4", "1/2", "3/4"], epsilon=1000, lower=0, upper=8)
    >>> [round(q, 3) for q in quartiles.release([1] * 40 + [5] * 20 + [7] * 40)]
    [1.0, 5.0, 7.0]
    """

    p: tuple[Fraction, ...]
    epsilon: Fraction
    relation: Relation
    changes: int
    _declared: Declared

    def __init__(
        self,
        p: Sequence[Real],
        *,
        epsilon: Real,
        lower: Real,
        upper: Real,
        relation: Relation | str = Relation.ADD_REMOVE,
        changes: int = 1,
    ) -> None:
        set_fields(self, p=_shares(p), epsilon=read_size("epsilon", epsilon), relation=Relation.parse(relation))
        set_fields(self, changes=count("changes", changes), _declared=Declared.of(lower, upper, bits=_BITS))

    @property
    def levels(self) -> int:
        """How many quantiles one after the other lead to any of them."""
        return len(self.p).bit_length()

    @property
    def events(self) -> Composed:
        return Composed([(BoundedRangeEvent(self.epsilon / self.levels), self.levels)])

    def release(self, values: Values, *, rng: Entropy | None = None) -> list[float]:
        """Return a value near each quantile, in the order of `p`; larger ones for larger p.

        Args:
            values: one number for each row; a list or an array in one dimension. It may be empty.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: not such an array. Which values it holds does not matter.
        """
        source = SystemEntropy() if rng is None else rng
        places = self._declared.places(values)
        cells = np.sort(places * _TIES + below_vector(_TIES, len(places), source))
        found: list[int] = []
        last = (self._declared.span + 1) * _TIES - 1
        self._descend(cells, 0, last, 0, len(self.p), 0, found, source)
        return [self._declared.value(cell // _TIES) for cell in found]

    def error(self, confidence: Real = 0.95) -> float:
        """Return how far, in ranks of values that all differ, any of the released values may be off, with this
        confidence.

        The sum over the levels, since a quantile that is off moves those below it by no more than that.
        """
        doubt = (1 - read_confidence(confidence)) / len(self.p)
        cells = (self._declared.span + 1) * _TIES
        rates = [self._rate(depth, Fraction(1)) for depth in range(self.levels)]
        return sum(rank_error(rate, cells, doubt) for rate in rates)

    def explain(self) -> str:
        e, share = decimal(self.epsilon), decimal(self.epsilon / self.levels)
        names = ", ".join(decimal(p) for p in self.p[:8]) + (", …" if len(self.p) > 8 else "")
        return numbered(
            repr(self),
            f"Tree. The quantiles {names} make a tree of {self.levels} levels; each part of the values belongs to one "
            "node of a level, given what was named above.",
            f"Sensitivity. Under {self.relation.value} one unit changes the parts of a level by at most "
            f"{self.changes} {'value' if self.changes == 1 else 'values'} in all.",
            "Law. In each node P(c) ∝ exp(−r·d(c)), d(c) how far the rank aimed at lies from the ranks of cell c.",
            f"Level. Its rates are such that all changes r·d of a level lie in intervals of {share} together.",
            f"Conclusion. {self.levels} levels at {share} are {e}-DP.",
            f"Error. All within {self.error():.6g} ranks with confidence 95%.",
        )

    def _rate(self, depth: int, steeper: Fraction) -> Fraction:
        share = self.epsilon / (self.levels * 2 * self.changes)
        if self.relation is Relation.ADD_REMOVE:
            return share / steeper
        return share if depth == 0 else share / (2 * steeper)

    def _descend(
        self,
        cells: NDArray[np.int64],
        low: int,
        high: int,
        first: int,
        end: int,
        depth: int,
        found: list[int],
        rng: Entropy,
    ) -> None:
        """Names the quantiles first, …, end − 1 of `cells`, which lie from low to high, in their order."""
        if first == end:
            return
        if low > high:  # nothing is left on this side; its public end is all that can be said
            found.extend([high] * (end - first))
            return
        middle = (first + end) // 2
        under = self.p[first - 1] if first else Fraction(0)
        over = self.p[end] if end < len(self.p) else Fraction(1)
        p = (self.p[middle] - under) / (over - under)
        rate = self._rate(depth, max(p, 1 - p))
        cell = low + named(cells - low, high - low + 1, p, rate, rng)
        parted = int(np.searchsorted(cells, cell, side="right"))
        self._descend(cells[:parted], low, cell, first, middle, depth + 1, found, rng)
        found.append(cell)
        self._descend(cells[parted:], cell + 1, high, middle + 1, end, depth + 1, found, rng)

    def __repr__(self) -> str:
        first, ends = repr([str(p) for p in self.p]), ("_declared.lower", "_declared.upper")
        return called(self, "epsilon", *ends, first=first, relation=Relation.ADD_REMOVE, changes=1)


def _shares(p: Sequence[Real]) -> tuple[Fraction, ...]:
    listed: object = p  # what came need not be what was annotated
    if type(listed) is np.ndarray and listed.ndim == 1:
        listed = listed.tolist()
    if isinstance(listed, str | bytes) or not isinstance(listed, Sequence) or not 1 <= len(listed) <= _MOST:
        raise InvalidParameter(f"p must be a list of 1 to {_MOST} numbers.", hint="p=[0.25, 0.5, 0.75]")
    found = tuple(exact("p", q) for q in listed)
    if not all(0 < q < 1 and q.denominator <= _FINEST for q in found):
        raise InvalidParameter(
            "each p must lie strictly between 0 and 1, with a denominator of at most 2^20.",
            hint="the least and the largest value have no rank to aim at: take p=0.01 or p=0.99",
        )
    if list(found) != sorted(set(found)):
        raise InvalidParameter("p must increase, each number once.", hint="p=[0.25, 0.5, 0.75]")
    return found


def named(ordered: NDArray[np.int64], cells: int, p: Fraction, rate: Fraction, rng: Entropy) -> int:
    """Return a cell c of 0, …, cells − 1, with probability ∝ exp(−rate·d(c)), d(c) how far pn lies from the ranks of c.

    Guarantee:
        Exact. One selection of `ExponentialQuantile`, whose proof says how far d moves
        (docs/proofs/exponential-quantile.md): when values are added or removed, w in all, the changes of d lie in an
        interval of width 2w·max(p, 1 − p); when w values become others, in one of 2w.
    """
    places, held = np.unique(ordered, return_counts=True)
    before = [0, *np.cumsum(held).tolist()]
    runs = Runs.of(places.tolist(), before, cells)
    losses = runs.losses(p.numerator * before[-1], p.denominator)
    run = selection.exponential(-losses, rate / p.denominator, rng, copies=runs.lengths)
    return int(runs.starts[run]) + below(int(runs.lengths[run]), rng)


def rank_error(rate: Fraction, cells: int, doubt: Fraction) -> float:
    """Return a t such that d is at least t with probability `doubt` or less: as in `ExponentialQuantile.error`."""
    odds = (cells - 1) * float((1 - doubt) / doubt)
    return math.log(odds) / float(rate) * (1 + 2.0**-40) if odds > 1 else 0.0


_MEDIAN_BITS = 30  # 2^30 to 2^31 cells


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Median(Mechanism):
    """A value of a declared range whose rank is near n/2: cell c with probability ∝ exp(−rate·d(c)).

    d(c) is how far n/2 lies from the ranks of cell c of a public grid of 2^30 cells or more.

    Guarantee:
        ε-DP and ε-bounded-range, when each unit holds at most `changes` = W of the values: under add-remove d moves
        within a range of W, so rate = ε/W; under replace, where the number of values is public, within 2W, so
        rate = ε/2W. Values outside [lower, upper] are moved to the nearer end; NaN counts as `lower`.

    References:
        McSherry, Talwar 2007, Theorem 6, https://doi.org/10.1109/FOCS.2007.41; Smith 2011, Algorithm 2,
        https://doi.org/10.1145/1993636.1993743; docs/proofs/approximate-quantiles.md.

    >>> median = Median(epsilon=1000, lower=0, upper=100)
    >>> round(median.release([7, 1, 40]), 4)
    7.0
    """

    epsilon: Fraction
    relation: Relation
    changes: int
    _declared: Declared

    def __init__(
        self,
        *,
        epsilon: Real,
        lower: Real,
        upper: Real,
        relation: Relation | str = Relation.ADD_REMOVE,
        changes: int = 1,
    ) -> None:
        set_fields(self, epsilon=read_size("epsilon", epsilon), relation=Relation.parse(relation))
        set_fields(self, changes=count("changes", changes), _declared=Declared.of(lower, upper, bits=_MEDIAN_BITS))

    @property
    def rate(self) -> Fraction:
        """By which losses are weighed."""
        return self.epsilon / (self.changes * (2 if self.relation is Relation.REPLACE else 1))

    @property
    def events(self) -> Composed:
        return Composed([BoundedRangeEvent(self.epsilon)])

    def release(self, values: Values, *, rng: Entropy | None = None) -> float:
        """Return a value near the median.

        Args:
            values: one number for each row; a list or an array in one dimension. It may be empty.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: not such an array. Which values it holds does not matter.
        """
        source = SystemEntropy() if rng is None else rng
        cells = self._declared.span + 1
        ordered = np.sort(self._declared.places(values))
        return self._declared.value(named(ordered, cells, Fraction(1, 2), self.rate, source))

    def error(self, confidence: Real = 0.95) -> float:
        """Return how far, in ranks, the released value may be from n/2, with at least this confidence."""
        return rank_error(self.rate, self._declared.span + 1, 1 - read_confidence(confidence))

    def explain(self) -> str:
        e, w = decimal(self.epsilon), decimal(self.epsilon / self.rate)
        return numbered(
            repr(self),
            "Loss. d(c) is the distance from half the number of values to the ranks of cell c.",
            f"Sensitivity. Under {self.relation.value} all changes of d between neighbours lie in an "
            f"interval of width {w}.",
            f"Law. P(M(x) = c) ∝ exp(−r·dₓ(c)) with r = {decimal(self.rate)}.",
            f"Conclusion. log P(M(x) = c)/P(M(y) = c) lies in an interval of width r·{w} = {e} that "
            f"holds 0: M is {e}-DP.",
            f"Error. Within {self.error():.6g} ranks with confidence 95%.",
        )

    def __repr__(self) -> str:
        ends = ("_declared.lower", "_declared.upper")
        return called(self, "epsilon", *ends, relation=Relation.ADD_REMOVE, changes=1)
