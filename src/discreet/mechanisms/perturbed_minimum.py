"""Objective perturbation: the minimum of a sum of people's losses to which b·w is added, for a secret random b.

The private code is handed b, finds the minimum as closely as was planned, and noise on a grid hides what it missed.

Guarantee:
    See `PerturbedMinimum`. The law of b is exact up to a rounding of 2^-86 of its scale, which the distance that the
    code may miss the minimum by has room for (docs/proofs/objective-perturbation.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.accounting.convert import gdp_delta, mu_squared_for
from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.draws import AddedNoise, DrawLaw, NextDraw
from discreet.noise.entropy import Entropy
from discreet.noise.fixedpoint import ln
from discreet.noise.gaussian import rounded
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.unit import Relation, Sensitivity

BITS = 96
"""The secret vector is of multiples of 2^-96."""

_FINE = 128  # bits of the standard normal numbers that it is made of
_SLACK = 1 + 2.0**-30
_LEAST, _WIDEST = Fraction(1, 1 << 40), 1 << 20


@dataclass(frozen=True, slots=True)
class PerturbedMinimum(DrawLaw):
    """The point where Σ losses + weight·‖w‖²/2 + b·w is least, nearly, with noise on each of its numbers.

    Guarantee:
        (epsilon, delta)-DP and, composed with it, that of `output` for the moves given; if each person has one loss of
        a linear score of w, which is convex, whose gradient is no longer than `slope` and whose second derivative is
        no larger than `curvature` along any direction; and if the code misses the exact minimum by half of those
        moves at most. Without delta the density of b is ∝ exp(−‖b‖/scale), with it b is Gaussian with σ = scale.

    References:
        Chaudhuri, Monteleoni, Sarwate 2011, https://arxiv.org/abs/0912.0071; Iyengar et al. 2019 (approximate minima);
        Redberg, Koskela, Wang 2023, Theorem 3.1, https://arxiv.org/abs/2401.00583.

    Attributes:
        epsilon, delta: of b.
        scale: of b.
        slope: the largest length of the gradient of a person's loss.
        curvature: the largest second derivative of a person's loss.
        weight: of ‖w‖²/2: a public total.
        width: how many numbers w has.
        output: noise on the minimum.
    """

    epsilon: Fraction
    delta: Fraction
    scale: Fraction
    slope: Fraction
    curvature: Fraction
    weight: Fraction
    width: int
    output: Additive

    def __post_init__(self) -> None:
        if not (self.scale >= _LEAST and self.weight > 0 and 0 < self.width <= _WIDEST):
            raise InvalidParameter("the noise of an objective has a scale of at least 2^-40.", hint="a smaller epsilon")

    def events(self, moved: Sensitivity, times: int, relation: Relation) -> Composed:
        left, s = self.epsilon - bending(self.curvature, self.weight), moving(self.slope, relation) / self.scale
        holds = s <= left if not self.delta else tail(left, s * s, relation) <= float(self.delta)
        if not holds:
            raise InvalidParameter("the noise of the objective is smaller than its ε and δ need.", hint="a wider scale")
        return (Composed([ApproximateEvent(self.epsilon, self.delta)]) + self.output.event(moved)) * times

    def secret(self, rng: Entropy) -> Any:
        """Return b, in steps of 2^-96."""
        if self.delta:
            return [rounded(self.scale * (1 << BITS), rng) for _ in range(self.width)]
        # b = scale·‖h‖·g, where h has one normal number more than g: its characteristic function is
        # E exp(−scale²·‖h‖²·t²/2) = (1 + scale²·t²)^(−(width + 1)/2), that of the density ∝ exp(−‖b‖/scale)
        one = Fraction(1 << _FINE)
        long = math.isqrt(sum(rounded(one, rng) ** 2 for _ in range(self.width + 1)))
        factor = self.scale * long / (1 << 2 * _FINE - BITS)
        return [math.floor(factor * rounded(one, rng)) for _ in range(self.width)]

    def start(self, rng: Entropy) -> NextDraw:
        return AddedNoise(self.output).start(rng)

    @property
    def name(self) -> str:
        slope, curvature = f"{float(self.slope):.6g}", f"{float(self.curvature):.6g}"
        return (
            f"{'Gaussian' if self.delta else 'Gamma'} noise in an objective of people's losses, of slopes within "
            f"{slope} and curvatures within {curvature} as is promised, and {AddedNoise(self.output).name} on its "
            "minimum"
        )


def moving(slope: Fraction, relation: Relation) -> Fraction:
    """Return how far one unit moves the gradient of the objective."""
    return slope * (2 if relation is Relation.REPLACE else 1)


def bending(curvature: Fraction, weight: Fraction) -> Fraction:
    """Return ln(1 + curvature/weight), rounded up: what one loss may change the volume of b for w by."""
    return Fraction(ln(1 + curvature / weight, 64)[1], 1 << 64)


def tail(epsilon: Fraction, square: Fraction, relation: Relation) -> float:
    """Return a δ at which Gaussian noise in an objective hides a move of √square times σ, beside its volume."""
    if epsilon < square / 2:
        return 1.0
    if relation is Relation.ADD_REMOVE:
        return 2 * gdp_delta(square, epsilon)
    # two losses: b counts in a plane, where its length is of Rayleigh's law; Φ(−x) ≤ φ(x)/x
    e, s = float(epsilon), math.sqrt(square)
    return s / (e / s + s / 2) * math.exp(-((e / s - s / 2) ** 2) / 2) * _SLACK


def calibrated(
    epsilon: Fraction,
    delta: Fraction,
    relation: Relation,
    *,
    slope: Fraction,
    curvature: Fraction,
    weight: Fraction,
    width: int,
    output: Additive,
) -> PerturbedMinimum:
    """Return the law with the least noise in the objective that costs (ε, δ) without the output's.

    Raises:
        InvalidParameter: the weight is so small that nothing of ε is left.
    """
    left, move = epsilon - bending(curvature, weight), moving(slope, relation)
    if left <= 0:
        raise InvalidParameter("nothing of ε is left beside what the curvature costs.", hint="a larger weight")
    if not delta:
        scale = move / left
    else:
        square = min(mu_squared_for(left, delta / 2), 2 * left) * (1 - Fraction(1, 1 << 30))
        while tail(left, square, relation) > float(delta):
            square *= Fraction(1023, 1024)
        scale = move / Fraction(math.sqrt(square) * (1 - 2.0**-40))
    return PerturbedMinimum(epsilon, delta, scale, slope, curvature, weight, width, output)
