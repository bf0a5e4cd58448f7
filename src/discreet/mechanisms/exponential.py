"""The exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.mechanisms.abstract import numbered
from discreet.mechanisms.selection import Selection
from discreet.noise import selection
from discreet.noise.entropy import Entropy
from discreet.noise.gaps import Utilities
from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.event import Composed
from discreet.privacy.guarantee import decimal


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Exponential(Selection):
    """Names candidate i with probability proportional to exp(ε uᵢ/2Δ).

    Guarantee:
        ε-DP when the list of candidates is public and each utility moves by at most `sensitivity` = Δ between
        neighbours, in any direction; and ε-bounded-range, which costs less than ε-DP over several uses
        (docs/proofs/exponential.md). With `monotonic=True` the exponent is ε uᵢ/Δ, and all utilities have to
        move in one direction between neighbours.

    References:
        McSherry, Talwar 2007, Theorem 6, https://doi.org/10.1109/FOCS.2007.41; Dwork, Roth, *The Algorithmic
        Foundations of Differential Privacy*, Theorem 3.10 and Corollary 3.12,
        https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf

    >>> Exponential(epsilon=1000).release(["red", "blue"], [3, 8])
    'blue'
    """

    @property
    def events(self) -> Composed:
        return Composed([BoundedRangeEvent(self.epsilon)])

    def _index(self, utilities: Utilities, rng: Entropy) -> int:
        return selection.exponential(utilities, self.rate, rng)

    def explain(self) -> str:
        e, r = decimal(self.epsilon), decimal(self.rate)
        law = f"Law. P(M(x) = i) = exp(r·uᵢ(x)) / Σⱼ exp(r·uⱼ(x)) with r = ε/{self._apart} = {r}."
        if self.monotonic:
            return numbered(
                repr(self),
                self._moves(),
                law,
                f"Numerator. exp(r·uᵢ(x)) / exp(r·uᵢ(y)) lies between 1 and exp(r·Δ) = exp({e}), or between its "
                "inverse and 1.",
                "Denominator. Each of its terms moves by such a factor, in the same direction, and so does it.",
                f"Conclusion. P(M(x) = i) / P(M(y) = i) ≤ exp(r·Δ) = exp({e}): M is {e}-DP.",
            )
        half = decimal(self.epsilon / 2)
        return numbered(
            repr(self),
            self._moves(),
            law,
            f"Numerator. exp(r·uᵢ(x)) / exp(r·uᵢ(y)) ≤ exp(r·Δ) = exp({half}).",
            f"Denominator. Each of its terms moves by at most the same factor: again exp({half}).",
            f"Conclusion. P(M(x) = i) / P(M(y) = i) ≤ exp(2·r·Δ) = exp({e}): M is {e}-DP.",
        )
