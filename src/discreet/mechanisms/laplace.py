"""The Laplace mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import numbered, one_changed
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.numeric import Lattice, Numeric, fine_grid
from discreet.mechanisms.parameters import read_dimension, read_size
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real, set_fields
from discreet.privacy.guarantee import called, decimal


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Laplace(Numeric):
    """Adds noise with mass ∝ exp(−|k|/b), b = Δ/ε, to integers, and to floats on a fine lattice.

    Guarantee:
        ε-DP when the value moves by at most `sensitivity` = Δ in ℓ1 between neighbours (for one number: in absolute
        value; for an array: the sum over its entries), under the relation for which Δ was computed. On integers b is
        exactly Δ/ε, a fraction. Floats are rounded to a grid that is chosen from Δ, ε and `dimension` alone; what the
        rounding adds to the sensitivity (at most one step for each number) is paid for by a scale that is larger (by
        one part in a million, at most in four thousand where dimension/ε is beyond 2^34), so ε holds as stated. `loss`
        is pure ε, whatever is released. The type of the value is public: see `Numeric`.

    References:
        Dwork, McSherry, Nissim, Smith 2006, Proposition 1, https://doi.org/10.1007/11681878_14; Dwork, Roth,
        *The Algorithmic Foundations of Differential Privacy*, Theorem 3.6,
        https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf; the lattice is needed because of Mironov
        2012, https://doi.org/10.1145/2382196.2382264; docs/proofs/laplace.md.

    >>> m = Laplace(epsilon=0.5)
    >>> m.scale, m.error(confidence=0.95)
    (2.0, 6.0)
    """

    epsilon: Fraction
    sensitivity: Fraction
    dimension: int | None

    def __init__(
        self,
        *,
        epsilon: Real | None = None,
        sensitivity: Real = 1,
        scale: Real | None = None,
        dimension: int | None = None,
    ) -> None:
        delta = read_size("sensitivity", sensitivity)
        if (epsilon is None) == (scale is None):
            raise InvalidParameter("give either epsilon or scale.", hint="Laplace(epsilon=0.5) or Laplace(scale=2)")
        e = read_size("epsilon", epsilon) if epsilon is not None else delta / read_size("scale", scale)  # type: ignore[arg-type]
        set_fields(self, epsilon=e, sensitivity=delta, dimension=read_dimension(dimension))

    @property
    def scale(self) -> float:
        """The scale b = Δ/ε; `noise.scale` is the same as a fraction."""
        return float(self.noise.scale)

    @property
    def noise(self) -> DiscreteLaplaceNoise:
        return DiscreteLaplaceNoise(self.sensitivity / self.epsilon)

    @property
    def lattice(self) -> Lattice:
        n = self.dimension or 1
        grid = fine_grid(self.noise.scale, self.sensitivity / n)
        steps = grid.sensitivity(self.sensitivity, n)
        return Lattice(grid, steps, DiscreteLaplaceNoise(steps / self.epsilon))

    @property
    def events(self) -> Composed:
        return Composed([ApproximateEvent(self.epsilon)])

    def explain(self) -> str:
        e, d, b = decimal(self.epsilon), decimal(self.sensitivity), decimal(self.noise.scale)
        fine = self.lattice
        return numbered(
            repr(self),
            f"Sensitivity. Neighbours x, y have |f(x) − f(y)| ≤ Δ = {d} (in an array: summed over its entries).",
            f"Noise. M(x) = f(x) + Z with P(Z = k) ∝ exp(−|k|/b) and b = Δ/ε = {d}/{e} = {b}.",
            "Ratio. P(M(x) = o) / P(M(y) = o) = exp((|o − f(y)| − |o − f(x)|)/b).",
            f"Triangle inequality. |o − f(y)| − |o − f(x)| ≤ |f(x) − f(y)| ≤ {d}.",
            f"Conclusion. The ratio is at most exp(Δ/b) = exp({d}/{b}) = exp({e}) for every o: M is {e}-DP.",
            one_changed(self.epsilon),
            f"Floats. Rounded to multiples of 2^{fine.grid.exponent}, neighbours differ by at most {fine.steps} "
            f"steps; noise of scale {decimal(fine.steps / self.epsilon)} steps gives exp({e}) again.",
            f"Error. Within ±{self.error():.6g} with confidence 95%.",
        )

    def __repr__(self) -> str:
        return called(self, "epsilon", "sensitivity", "dimension")
