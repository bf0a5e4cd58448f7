"""Permute-and-flip, the better of the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.mechanisms.abstract import numbered
from discreet.mechanisms.selection import Selection
from discreet.noise import selection
from discreet.noise.entropy import Entropy
from discreet.noise.gaps import Utilities
from discreet.privacy.guarantee import decimal


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PermuteAndFlip(Selection):
    """Names the first candidate, in random order, whose coin of bias exp(ε(uᵢ − max u)/2Δ) shows up.

    Guarantee:
        ε-DP when the list of candidates is public and each utility moves by at most `sensitivity` = Δ between
        neighbours. Its expected utility is never below that of `Exponential` at the same ε
        (docs/proofs/permute-and-flip.md). With `monotonic=True` the coins have bias exp(ε(uᵢ − max u)/Δ), and
        all utilities have to move in one direction between neighbours.

    References:
        McKenna, Sheldon 2020, Algorithm 1 and its theorems on privacy and utility,
        https://arxiv.org/abs/2010.12603; the bound of `error` is that of Dwork, Roth, Corollary 3.12, which
        holds for it all the more.

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
