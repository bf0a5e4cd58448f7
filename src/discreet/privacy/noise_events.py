"""Events of additive noise that is neither Laplace nor Gaussian."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidParameter
from discreet.privacy.event import Event, at_least_zero
from discreet.privacy.exact import above
from discreet.privacy.pair import Pair
from discreet.privacy.pairs.staircase import StaircasePair


@dataclass(frozen=True, slots=True)
class StaircaseEvent(Event):
    """Staircase noise on one real number that moves by at most the sensitivity for which the noise was made.

    `gamma` is the share of each step, of the length of that sensitivity, before the density falls by e^−ε.

    Guarantee:
        `pair` is the noise around the two ends of the largest move, and no smaller move has a larger curve at
        any ε. At γ = 1/2 it is that of randomized response; at every other γ it is smaller.

    References: Geng, Viswanath 2012, https://arxiv.org/abs/1212.1186; the worst move: docs/proofs/pairs.md,
    "Staircase"; ρ = ε²/2 is Bun, Steinke 2016, Proposition 1.4, https://arxiv.org/abs/1605.02065
    """

    epsilon: Fraction
    gamma: Fraction

    def __post_init__(self) -> None:
        at_least_zero("epsilon", self.epsilon)
        at_least_zero("gamma", self.gamma)
        if self.epsilon == 0:
            raise InvalidParameter(f"epsilon must be above 0, not {self.epsilon}.")
        if self.gamma > 1:
            raise InvalidParameter(f"gamma must lie in [0, 1], not {self.gamma}.")

    @property
    def pure(self) -> Fraction:
        return self.epsilon

    @property
    def rho(self) -> Fraction:
        return self.epsilon * self.epsilon / 2

    def pair(self) -> Pair:
        return StaircasePair(above(self.epsilon), self.gamma)
