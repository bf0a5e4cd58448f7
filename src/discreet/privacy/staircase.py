"""Events and dominating pairs of staircase noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.errors import InvalidParameter
from discreet.privacy.event import Event, at_least_zero
from discreet.privacy.exact import above
from discreet.privacy.pair import Curve, Pair
from discreet.privacy.pairs.finite import FinitePair, Outcomes, response


@dataclass(frozen=True, slots=True)
class StaircasePair(FinitePair):
    """Staircase noise around 0 and around the sensitivity Δ: the losses are ε, 0 and −ε.

    The density is a·e^(−kε) on [kΔ, (k+γ)Δ) and a·e^(−(k+1)ε) on [(k+γ)Δ, (k+1)Δ), and the same to the left.
    Among all shifts up to Δ the largest is the worst at every ε; it is its own reverse.

    References: the law is Geng, Viswanath 2012, https://arxiv.org/abs/1212.1186; the curve is
    docs/proofs/pairs.md, "Staircase"
    """

    epsilon: float
    gamma: Fraction

    def delta(self, epsilon: Curve) -> Curve:
        """p(1 − e^(ε−ε₀))₊ + r(1 − e^ε)₊ + p e^−ε₀ (1 − e^(ε+ε₀))₊, p and r the masses of the losses ε₀ and 0."""
        told, neither = self._masses()
        above = -np.expm1(np.minimum(epsilon - self.epsilon, 0.0))
        plain = -np.expm1(np.minimum(epsilon, 0.0))
        below = -np.expm1(np.minimum(epsilon + self.epsilon, 0.0))
        return told * (above + math.exp(-self.epsilon) * below) + neither * plain

    @property
    def epsilon_max(self) -> float:
        return self.epsilon

    def outcomes(self) -> Outcomes | None:
        """Return the losses ε, 0 and −ε."""
        return response(self.epsilon, *self._masses())

    def _masses(self) -> tuple[float, float]:
        """Those of the losses ε and 0; see the proof. With w = γ + b(1 − γ), b = e^−ε:

        (γ + b(½ − γ))/w and b(½ − γ)(1 − b)/w for γ ≤ ½, 1/2w and (γ − ½)(1 − b)/w for γ ≥ ½.
        """
        gamma, half = self.gamma or Fraction(1), Fraction(1, 2)  # without a first half a step is a whole step
        b, rest = math.exp(-self.epsilon), -math.expm1(-self.epsilon)
        whole = float(gamma) + b * float(1 - gamma)
        if self.epsilon > 700 and gamma < half:  # e^−ε and γ may have few digits: a larger ε dominates
            return 1.0, 0.0
        if gamma >= half:
            return 0.5 / whole, float(gamma - half) * rest / whole
        short = b * float(half - gamma)
        return (float(gamma) + short) / whole, short * rest / whole


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
