"""The k candidates with the highest counts, by peeling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from discreet.mechanisms.abstract import Mechanism, numbered
from discreet.mechanisms.parameters import read_confidence, read_size
from discreet.mechanisms.selection import paired
from discreet.noise import selection
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.noise.selection import Utilities, as_array
from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real, count, set_fields
from discreet.privacy.guarantee import called, decimal
from discreet.privacy.unit import Relation

T = TypeVar("T")


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TopK(Mechanism):
    """Names k of n candidates, one after the other: each time by the exponential mechanism among those that are left.

    The same law as the k largest of all utilities with Gumbel noise, in their order ("one shot").

    Guarantee:
        ε-DP, and k bounded-range uses of ε/k, when the list of candidates is public. Under add-remove a unit
        raises each utility by something from 0 to `sensitivity` = Δ (counts do), and the rate is ε/kΔ; under
        replace each moves by Δ at most in any direction, and it is ε/2kΔ. A unit may bear on any number of
        candidates. Which are named, and in which order, is released, not their utilities. The draw is exact.

    References:
        Durfee, Rogers 2019, Section 4.1 (one shot is peeling), https://arxiv.org/abs/1905.04273; Dong, Durfee,
        Rogers 2020 (bounded range), https://arxiv.org/abs/1909.13830; McSherry, Talwar 2007, Theorem 6,
        https://doi.org/10.1109/FOCS.2007.41; docs/proofs/top-k.md.

    >>> TopK(2, epsilon=1000).release(["red", "blue", "green"], [3, 8, 5])
    ['blue', 'green']
    """

    k: int
    epsilon: Fraction
    sensitivity: Fraction
    relation: Relation

    def __init__(
        self, k: int, *, epsilon: Real, sensitivity: Real = 1, relation: Relation | str = Relation.ADD_REMOVE
    ) -> None:
        set_fields(self, k=count("k", k), epsilon=read_size("epsilon", epsilon))
        set_fields(self, sensitivity=read_size("sensitivity", sensitivity), relation=Relation.parse(relation))

    @property
    def rate(self) -> Fraction:
        """By which utilities are weighed."""
        return self.epsilon / (self.k * self._width)

    @property
    def _width(self) -> Fraction:
        """Of an interval in which the changes of all utilities lie."""
        return self.sensitivity * (2 if self.relation is Relation.REPLACE else 1)

    @property
    def events(self) -> Composed:
        return Composed([(BoundedRangeEvent(self.epsilon / self.k), self.k)])

    def release(self, candidates: Sequence[T], utilities: Utilities, *, rng: Entropy | None = None) -> list[T]:
        """Return the named candidates, the first named first.

        Args:
            candidates: what may be named; public.
            utilities: one finite number for each candidate, in the same order; higher is better.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: fewer than k candidates, another number of utilities, or one that is not a finite
            number. The
                message does not quote it.
        """
        listed, numbers = paired(candidates, utilities, least=self.k)
        source = SystemEntropy() if rng is None else rng
        left, u = np.arange(len(listed)), as_array(numbers)
        found = []
        for _ in range(self.k):
            i = selection.exponential(u, self.rate, source)
            found.append(listed[int(left[i])])
            left, u = np.delete(left, i), np.delete(u, i)
        return found

    def error(self, confidence: Real = 0.95, *, candidates: int) -> float:
        """Return how far the utility of each named one may be below that of the same place in the true order.

        (ln n + ln k/(1 − confidence))/rate: Dwork, Roth, Theorem 3.11, for each of k selections.
        """
        doubt = (1 - read_confidence(confidence)) / self.k
        return (math.log(count("candidates", candidates)) - math.log(doubt)) / float(self.rate) * (1 + 2.0**-48)

    def explain(self) -> str:
        e, share, w, r = (decimal(x) for x in (self.epsilon, self.epsilon / self.k, self._width, self.rate))
        return numbered(
            repr(self),
            f"Sensitivity. Under {self.relation.value} the changes of all utilities lie in an interval of width {w}.",
            f"Law. {self.k} times, of those that are left, P(i) ∝ exp(r·uᵢ) with r = {r}.",
            "Range. The loss of one selection is r(uᵢ(x) − uᵢ(y)) less a number that is the same for all i: an "
            f"interval of width r·{w} = {share}, which holds 0.",
            f"Composition. {self.k} selections at {share}; which were named before is public to the next.",
            f"Conclusion. M is {e}-DP.",
        )

    def __repr__(self) -> str:
        return called(self, "epsilon", "sensitivity", first=str(self.k), relation=Relation.ADD_REMOVE)
