"""The two-sided geometric mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from discreet.mechanisms.abstract import numbered, one_changed
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.numeric import Numeric
from discreet.mechanisms.parameters import read_dimension, read_size, read_whole
from discreet.privacy.event import ApproximateEvent, Composed, DiscreteLaplaceEvent
from discreet.privacy.exact import Real, set_fields
from discreet.privacy.guarantee import called, decimal


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Geometric(Numeric):
    """Adds two-sided geometric noise to integers: P(Z = k) = (1 − α)/(1 + α) · α^|k| with α = exp(−ε/Δ).

    The same law as `Laplace` on integers; only integers are taken. For counts (Δ = 1) it is optimal at once
    for every user with a loss that grows with the error.

    Guarantee:
        ε-DP when the integers move by at most the integer `sensitivity` = Δ in ℓ1 between neighbours, under
        the relation for which Δ was computed. With `dimension=1` only single numbers are taken, and `loss` is
        that of the law itself; else it is pure ε.

    References:
        Ghosh, Roughgarden, Sundararajan 2009, Section 2 and Theorem 3.1,
        https://arxiv.org/abs/0811.2841; docs/proofs/geometric-mechanism.md.

    >>> Geometric(epsilon=1).error(confidence=0.95)
    3.0
    """

    epsilon: Fraction
    sensitivity: Fraction
    dimension: int | None

    def __init__(self, *, epsilon: Real, sensitivity: Real = 1, dimension: int | None = None) -> None:
        set_fields(self, epsilon=read_size("epsilon", epsilon), sensitivity=read_whole("sensitivity", sensitivity))
        set_fields(self, dimension=read_dimension(dimension))

    @property
    def scale(self) -> float:
        """Δ/ε; `noise.scale` is the same as a fraction."""
        return float(self.noise.scale)

    @property
    def noise(self) -> DiscreteLaplaceNoise:
        return DiscreteLaplaceNoise(self.sensitivity / self.epsilon)

    @property
    def lattice(self) -> None:
        return None

    @property
    def events(self) -> Composed:
        if self.dimension == 1:
            return Composed([DiscreteLaplaceEvent(int(self.sensitivity), self.noise.scale)])
        return Composed([ApproximateEvent(self.epsilon)])

    def explain(self) -> str:
        e, d = decimal(self.epsilon), decimal(self.sensitivity)
        rate = decimal(self.epsilon / self.sensitivity)
        return numbered(
            repr(self),
            f"Sensitivity. Neighbours x, y have |f(x) − f(y)| ≤ Δ = {d}, in integers.",
            f"Noise. M(x) = f(x) + Z with P(Z = k) = (1 − α)/(1 + α) · α^|k| and α = exp(−ε/Δ) = exp(−{rate}).",
            "Ratio. P(M(x) = o) / P(M(y) = o) = α^(|o − f(x)| − |o − f(y)|).",
            f"Triangle inequality. The exponent is at least −|f(x) − f(y)| ≥ −{d}.",
            f"Conclusion. The ratio is at most α^−{d} = exp({e}) for every o: M is {e}-DP.",
            one_changed(self.epsilon),
            f"Error. Within ±{self.error():.6g} with confidence 95%.",
        )

    def __repr__(self) -> str:
        return called(self, "epsilon", "sensitivity", "dimension")
