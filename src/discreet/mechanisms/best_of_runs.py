"""The best of several runs of a mechanism, whose number is drawn first and stays hidden.

Guarantee:
    See `BestOfRuns`; the cost is computed in floats, with room for their errors (docs/proofs/model-choice.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.errors import InvalidParameter
from discreet.mechanisms.draws import DrawLaw, NextDraw
from discreet.noise.entropy import Entropy
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.unit import Relation, Sensitivity

_SLACK = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class BestOfRuns(DrawLaw):
    """The result of the highest score of K runs, K geometric; its noise is that of the runs, which the code draws.

    Guarantee:
        (epsilon, delta)-DP, if the code makes independent runs, of which each is `run`-DP, or with delta `run`-zCDP; if
        after each it stops with chance 1/`runs`, whatever the runs gave; and if nothing leaves but the best result.

    References:
        Liu, Talwar 2019, Theorem 3.1; Papernot, Steinke 2022, Theorem 2, https://arxiv.org/abs/2110.03620.

    Attributes:
        epsilon, delta: of all.
        run: the ε of a run, or its ρ.
        runs: how many there are on average.
    """

    epsilon: Fraction
    delta: Fraction
    run: Fraction
    runs: int

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, runs: int) -> BestOfRuns:
        """Return the law at this price, with the costliest runs that it has room for.

        Raises:
            InvalidParameter: there is no room.
        """
        if not delta:
            return cls(epsilon, delta, epsilon / 3, runs)
        low, high = 0.0, float(epsilon)
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if cost(middle, float(delta), runs) <= float(epsilon) * _SLACK else (low, middle)
        if not low:
            raise InvalidParameter("ε is too small for so many runs.", hint="a larger epsilon, or fewer runs=")
        return cls(epsilon, delta, Fraction(low * _SLACK), runs)

    def events(self, moved: Sensitivity, times: int, relation: Relation) -> Composed:
        if not (self.run > 0 and self.runs > 0 and 0 <= self.delta < 1 and self._least <= self.epsilon):
            raise InvalidParameter("the runs cost more than the best of them may.", hint="a smaller run")
        return Composed([ApproximateEvent(self.epsilon, self.delta)]) * times

    @property
    def _least(self) -> Fraction | float:
        """The ε of all."""
        return cost(float(self.run), float(self.delta), self.runs) if self.delta else 3 * self.run

    def secret(self, rng: Entropy) -> Any:
        """Return where the code's own randomness comes from."""
        return rng

    def start(self, rng: Entropy) -> NextDraw:
        return lambda values: values

    @property
    def name(self) -> str:
        each = f"{'ρ' if self.delta else 'ε'} = {float(self.run):.6g}"
        return f"noise of its own: the best of runs at {each} each, whose hidden number is {self.runs:,} on average"


def cost(rho: float, delta: float, runs: int) -> float:
    """Return the ε at δ of the best of a geometric number of runs, each of which is ρ-zCDP."""
    log = math.log(runs)
    inner = max(math.sqrt(log / rho), 1.0)  # the best λ' for 2(λ' − 1)ρ + 2·ln(1/γ)/λ'
    orders = 1 + np.exp(np.linspace(-6, 12, 4000))
    divergence = orders * rho + 2 * (inner - 1) * rho + 2 * log / inner + log / (orders - 1)
    # Canonne, Kamath, Steinke 2020, Proposition 12
    found = divergence + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return float(found.min())
