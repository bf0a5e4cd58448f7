"""The staircase mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import numbered
from discreet.mechanisms.numeric import Lattice, Numeric, fine_grid
from discreet.mechanisms.parameters import read_dimension, read_size
from discreet.mechanisms.staircase_noise import StaircaseNoise, best_inner
from discreet.mechanisms.values import NumberArray
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real, exact
from discreet.privacy.guarantee import decimal

_FINEST = Fraction(1, 1 << 20)  # floats need no grid finer than this part of Δ, beside 2^-20 of it


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Staircase(Numeric):
    """Adds noise whose mass is a staircase: level on stretches, falling by e^ε every Δ.

    Of all ε-DP noise for one number of sensitivity Δ it has the least expected |error|: Δ/(2·sinh(ε/2)), which
    falls like e^(−ε/2) as ε grows where that of `Laplace`, Δ/ε, falls like 1/ε. Below ε = 1 the two hardly
    differ. On integers with Δ = 1 it is `Geometric`.

    Guarantee:
        ε-DP when the value moves by at most `sensitivity` = Δ between neighbours, under the relation for
        which Δ was computed. An array needs `dimension` = n, and then *each* of its numbers may move by up to
        Δ (ℓ∞, not ℓ1 as for `Laplace`): each has noise for ε/n, since a move by however little can cost all
        of its ε. Floats are rounded to a grid chosen from Δ, ε, gamma and n alone, and what rounding adds to
        Δ widens the steps, so ε holds as stated. Any `gamma` is private. The type of the value is public: see
        `Numeric`.

    References:
        Geng, Viswanath 2014, the Theorems on optimality for real numbers and for integers,
        https://arxiv.org/abs/1212.1186; docs/proofs/staircase.md.

    >>> Staircase(epsilon=5, sensitivity=100).error(confidence=0.95)
    47.0
    """

    epsilon: Fraction
    sensitivity: Fraction
    gamma: Fraction | None
    dimension: int | None

    def __init__(
        self,
        *,
        epsilon: Real,
        sensitivity: Real = 1,
        gamma: Real | None = None,
        dimension: int | None = None,
    ) -> None:
        """Makes the mechanism.

        Args:
            epsilon: the privacy parameter.
            sensitivity: how far the value, or each number of an array, moves between neighbours.
            gamma: the share of each step that is level with it, above 0 and at most 1; by default the one for
                which the expected |error| is least.
            dimension: how many numbers an array holds.
        """
        object.__setattr__(self, "epsilon", read_size("epsilon", epsilon))
        object.__setattr__(self, "sensitivity", read_size("sensitivity", sensitivity))
        object.__setattr__(self, "gamma", None if gamma is None else _share(gamma))
        object.__setattr__(self, "dimension", read_dimension(dimension))

    @property
    def noise(self) -> StaircaseNoise:
        return self._law(max(1, math.floor(self.sensitivity)))

    @property
    def lattice(self) -> Lattice:
        grid = fine_grid(self._width(), self.sensitivity)
        steps = grid.linf(self.sensitivity)
        return Lattice(grid, steps, self._law(steps))

    @property
    def events(self) -> Composed:
        return Composed([(ApproximateEvent(self._each), self.dimension or 1)])

    @property
    def _each(self) -> Fraction:
        """The ε of one number."""
        return self.epsilon / (self.dimension or 1)

    def _law(self, width: int) -> StaircaseNoise:
        if self.gamma is None:
            return StaircaseNoise(self._each, width, best_inner(self._each, width))
        return StaircaseNoise(self._each, width, min(max(1, round(self.gamma * width)), width))

    def _width(self) -> Fraction:
        """About how wide the noise is: that of whole steps, or of the level part of the first one."""
        e = self._each
        if e <= 1:
            return self.sensitivity / e
        share = (
            self.gamma if self.gamma is not None else Fraction(1 / (1 + math.exp(min(float(e) / 2, 99.0))))
        )
        return self.sensitivity * max(share, _FINEST)

    def _check_size(self, numbers: NumberArray) -> None:
        if self.dimension is None and numbers.shape is not None:
            raise InvalidParameter(
                "an array needs dimension=, since its numbers share ε.",
                hint=f"Staircase(..., dimension={len(numbers.entries)}) where this length is public; Laplace, "
                "whose sensitivity is the sum over the entries, is often better for arrays",
            )
        Numeric._check_size(self, numbers)

    def explain(self) -> str:
        e, d = decimal(self._each), decimal(self.sensitivity)
        n, law, fine = self.dimension or 1, self.noise, self.lattice
        many = f" Each of {n} numbers has ε/{n} = {e} of ε = {decimal(self.epsilon)}." if n > 1 else ""
        return numbered(
            repr(self),
            f"Sensitivity. Neighbours x, y have |f(x) − f(y)| ≤ Δ = {d} (in an array: each of its numbers).{many}",
            f"Noise. M(x) = f(x) + Z with P(Z = ±(k·{law.width} + j)) ∝ exp(−k·{e}) for 0 ≤ j < {law.inner}"
            + (
                f", and ∝ exp(−(k + 1)·{e}) for {law.inner} ≤ j < {law.width}."
                if law.inner < law.width
                else "."
            ),
            f"Falling. The mass does not rise with |Z|, and {law.width} further out it is exp(−{e}) of itself.",
            f"Ratio. So P(Z = z) ≤ exp({e})·P(Z = z + d) whenever |d| ≤ {law.width}: |z + d| ≤ |z| + {law.width}.",
            f"Conclusion. P(M(x) = o) / P(M(y) = o) ≤ exp({e}) for every o: "
            + (f"M is {e}-DP." if n == 1 else f"over {n} numbers M is {decimal(self.epsilon)}-DP."),
            f"Floats. Rounded to multiples of 2^{fine.grid.exponent}, neighbours differ by at most {fine.steps} "
            f"steps; a staircase that is {fine.steps} of them wide gives exp({e}) again.",
            f"Error. Within ±{self.error():.6g} with confidence 95%.",
        )

    def __repr__(self) -> str:
        gamma = "" if self.gamma is None else f", gamma={decimal(self.gamma)}"
        dimension = "" if self.dimension is None else f", dimension={self.dimension}"
        return f"Staircase(epsilon={decimal(self.epsilon)}, sensitivity={decimal(self.sensitivity)}{gamma}{dimension})"


def _share(gamma: Real) -> Fraction:
    g = exact("gamma", gamma)
    if not 0 < g <= 1:
        raise InvalidParameter(
            f"gamma must lie above 0 and be at most 1, not {gamma}.", hint="leave it out for the best one"
        )
    return g
