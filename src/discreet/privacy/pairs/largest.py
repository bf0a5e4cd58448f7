"""The pair whose curve is the largest of several curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.privacy.pair import Curve, Pair


@dataclass(frozen=True, slots=True)
class LargestPair(Pair):
    """At each ε the largest curve of some pairs, in each direction by itself.

    A maximum of convex functions is convex, so it is the curve of a pair: Zhu, Dong, Wang 2022,
    https://arxiv.org/abs/2106.08567; see docs/proofs/parallel.md. The two directions' maxima are not the curves
    of one and the same pair and its reverse, and need not be: each direction is composed by itself.
    """

    pairs: tuple[Pair, ...]

    def delta(self, epsilon: Curve) -> Curve:
        """Return the largest δ_i(ε)."""
        return np.asarray(np.max([pair.delta(epsilon) for pair in self.pairs], axis=0))

    def upper(self, epsilon: Curve) -> Curve:
        """Return the largest of the pairs' own certified bounds."""
        return np.asarray(np.max([pair.upper(epsilon) for pair in self.pairs], axis=0))

    def reverse(self) -> Pair:
        """Return the same of the reverses."""
        return LargestPair(tuple(pair.reverse() for pair in self.pairs))

    @property
    def exact(self) -> bool:
        """Whether there is but one pair, and it is: no use attains the largest of several."""
        return len(set(self.pairs)) == 1 and self.pairs[0].exact

    @property
    def work(self) -> float:
        return sum(pair.work for pair in self.pairs)

    @property
    def epsilon_max(self) -> float:
        return max(pair.epsilon_max for pair in self.pairs)
