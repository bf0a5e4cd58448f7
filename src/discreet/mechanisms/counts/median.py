"""The median by the exponential mechanism, in one call."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.mechanisms.abstract import Mechanism, numbered
from discreet.mechanisms.counts.quantiles import named, rank_error
from discreet.mechanisms.declared import Declared, Values
from discreet.mechanisms.parameters import read_confidence, read_size
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real, count, set_fields
from discreet.privacy.guarantee import called, decimal
from discreet.privacy.unit import Relation

_BITS = 30  # 2^30 to 2^31 cells


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
        set_fields(self, changes=count("changes", changes), _declared=Declared.of(lower, upper, bits=_BITS))

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
