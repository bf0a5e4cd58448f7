"""The exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.mechanisms.mechanism import numbered
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
        (docs/proofs/exponential.md).

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
        e, d, r = decimal(self.epsilon), decimal(self.sensitivity), decimal(self.rate)
        return numbered(
            repr(self),
            f"Sensitivity. Between neighbours x, y every utility moves by at most Δ = {d}.",
            f"Law. P(M(x) = i) = exp(r·uᵢ(x)) / Σⱼ exp(r·uⱼ(x)) with r = ε/2Δ = {r}.",
            f"Numerator. exp(r·uᵢ(x)) / exp(r·uᵢ(y)) ≤ exp(r·Δ) = exp({decimal(self.epsilon / 2)}).",
            "Denominator. Each of its terms moves by at most the same factor: again "
            f"exp({decimal(self.epsilon / 2)}).",
            f"Conclusion. P(M(x) = i) / P(M(y) = i) ≤ exp(2·r·Δ) = exp({e}): M is {e}-DP.",
        )
