"""The exponential mechanism."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import numbered
from discreet.mechanisms.selection import Selection
from discreet.noise import selection
from discreet.noise.entropy import Entropy
from discreet.noise.selection import Utilities
from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import decimal

if TYPE_CHECKING:
    from discreet.finite.mechanism import Mechanism as FiniteMechanism


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

    def matrix(self, universe: Iterable[Sequence[Real]]) -> FiniteMechanism:
        """Return the mechanism on these lists of utilities as a stochastic matrix, for exact calculations with
        `dp.finite`; its outputs are the places of candidates.

        Neighbours are lists in which no utility differs by more than the sensitivity; with `monotonic=True` all that
        differ do so in one direction.

        Raises:
            InvalidParameter: lists of different lengths, or more than can be compared.
        """
        from discreet.finite.laws import exponential

        known = [tuple(row) for row in universe]
        if len({len(row) for row in known}) != 1:
            raise InvalidParameter("universe must be lists of utilities of one length.", hint="[(0, 0), (0, 1)]")

        def near(x: Sequence[Any], y: Sequence[Any]) -> bool:
            apart = [Fraction(a) - Fraction(b) for a, b in zip(x, y, strict=True)]
            directed = not self.monotonic or min(apart) >= 0 or max(apart) <= 0
            return x != y and directed and max(map(abs, apart)) <= self.sensitivity

        return exponential(
            lambda x, i: x[i],
            inputs=known,
            outputs=range(len(known[0])),
            epsilon=self.epsilon,
            sensitivity=self.spread / 2,
            neighbours=near,
        )

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
                self._changed(),
            )
        half = decimal(self.epsilon / 2)
        return numbered(
            repr(self),
            self._moves(),
            law,
            f"Numerator. exp(r·uᵢ(x)) / exp(r·uᵢ(y)) ≤ exp(r·Δ) = exp({half}).",
            f"Denominator. Each of its terms moves by at most the same factor: again exp({half}).",
            f"Conclusion. P(M(x) = i) / P(M(y) = i) ≤ exp(2·r·Δ) = exp({e}): M is {e}-DP.",
            self._changed(),
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PermuteAndFlip(Selection):
    """Names the first candidate, in random order, whose coin of bias exp(ε(uᵢ − max u)/2Δ) shows up.

    Guarantee:
        ε-DP when the list of candidates is public and each utility moves by at most `sensitivity` = Δ between
        neighbours. Its expected utility is never below that of `Exponential` at the same ε
        (docs/proofs/permute-and-flip.md). With `monotonic=True` the coins have bias exp(ε(uᵢ − max u)/Δ), and
        all utilities have to move in one direction between neighbours.

    References:
        McKenna, Sheldon 2020, Algorithm 1 and its theorems on privacy and utility, https://arxiv.org/abs/2010.12603;
        the bound of `error` is that of Dwork, Roth, Corollary 3.12, which holds for it all the more.

    >>> PermuteAndFlip(epsilon=1000).release(["red", "blue"], [3, 8])
    'blue'
    """

    def _index(self, utilities: Utilities, rng: Entropy) -> int:
        return selection.permute_and_flip(utilities, self.rate, rng)

    def explain(self) -> str:
        e, r, far = decimal(self.epsilon), decimal(self.rate), decimal(self.spread)
        apart = self._apart
        return numbered(
            repr(self),
            self._moves(),
            f"Law. The same as argmaxᵢ uᵢ + Eᵢ with independent exponential Eᵢ of rate r = ε/{apart} = {r}.",
            "Others fixed. Given all Eⱼ with j ≠ i, candidate i is named when Eᵢ exceeds a threshold t(x), "
            f"and t(y) ≤ t(x) + {apart} = t(x) + {far}.",
            f"Tail. P(E > t) / P(E > t + {apart}) ≤ exp(r·{apart}) = exp({e}).",
            f"Conclusion. Averaged over the others, P(M(x) = i) / P(M(y) = i) ≤ exp({e}): M is {e}-DP.",
            self._changed(),
        )
