"""Dominating pairs, each given by its hockey-stick curve in both directions.

A pair (P, Q) dominates a mechanism when H_α(M(x) ‖ M(y)) ≤ H_α(P ‖ Q) for all neighbours x, y and all α ≥ 0,
with H_α(P ‖ Q) = sup over events S of P(S) − α Q(S). Its curve δ(ε) = H_{exp(ε)} is all that an accountant
needs, and products of dominating pairs dominate adaptive compositions.

References: Zhu, Dong, Wang 2022, Definition 7 and Theorem 10, https://arxiv.org/abs/2106.08567
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from discreet.privacy.law import Law


Curve = NDArray[np.float64]

ACCURACY = 1e-11
"""How far a curve may be off, relatively; accountants add it. Below `FLOOR` a curve may be 0."""

FLOOR = 1e-300
"""A δ so small that it is rounded up to this."""


class Pair(ABC):
    """A dominating pair of distributions, seen through its hockey-stick curve."""

    __slots__ = ()

    @abstractmethod
    def delta(self, epsilon: Curve) -> Curve:
        """H_{exp(ε)}(P ‖ Q) at each ε (any real number), or a bound on it from above.

        Never below the truth by more than the relative `ACCURACY` (or below `FLOOR`); see `upper`.
        """

    def upper(self, epsilon: Curve) -> Curve:
        """`delta` with its rounding errors added: a certified upper bound."""
        return np.minimum(self.delta(epsilon) * (1 + ACCURACY) + FLOOR, 1.0)

    def reverse(self) -> Pair:
        """Return the pair (Q, P). A symmetric pair is its own reverse."""
        return self

    def law(self) -> Law | None:
        """Return the law of the loss of (P, Q), apart from an infinite loss; None when it has no formula.

        Parameters are rounded towards the larger loss.
        """
        return None

    @property
    def exact(self) -> bool:
        """Whether some use has this curve in both directions, up to `ACCURACY`, so that compositions attain theirs.

        Not so where `delta` is a bound from above, or the largest curve of a class at each ε by itself.
        """
        return True

    @property
    def accuracy(self) -> float:
        """How far `delta` may be above the curve, relatively; infinite where that is not bounded everywhere."""
        return ACCURACY

    @property
    def work(self) -> float:
        """About how many times as long as usual a point of `delta` takes: engines that need many then take fewer."""
        return 1.0

    @property
    @abstractmethod
    def epsilon_max(self) -> float:
        """The least ε with δ(ε) = δ(∞), rounded up; infinite when there is none."""


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
