"""The discrete Gaussian mechanism, calibrated from its own law."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import numbered, one_changed
from discreet.mechanisms.additive import Additive, DiscreteGaussianNoise
from discreet.mechanisms.gaussian import root_above
from discreet.mechanisms.numeric import Lattice, Numeric
from discreet.mechanisms.parameters import read_dimension, read_guarantee, read_size
from discreet.mechanisms.values import NumberArray
from discreet.noise.lattice import Grid
from discreet.privacy.event import Composed, DiscreteGaussianEvent, Event, ZCDPEvent
from discreet.privacy.exact import Real, above, below, set_fields
from discreet.privacy.guarantee import decimal


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DiscreteGaussian(Numeric):
    """Adds noise with mass ∝ exp(−k²/2σ²) to integers, or to floats on a lattice that the caller names.

    It is another law than the rounded Gaussian: at the σ of `Gaussian`, its δ reaches twice the claim where σ
    is small. So σ comes from its own law: with one number, or Δ² < 2, from the exact sum over the integers;
    with more numbers from zero-concentrated DP.

    Guarantee:
        (ε, δ)-DP when ε and δ were given, and (Δ²/2σ²)-zCDP in any case, when the value moves by at most
        `sensitivity` = Δ in ℓ2 between neighbours, under the relation for which Δ was computed. Without
        `step` only integers are taken, and Δ counts in integers. With `step`, a power of two, only floats
        are: they are rounded to its multiples, and Δ is what remains of `sensitivity` after the rounding, in
        the worst case. Arrays need `dimension=` unless Δ² < 2, where only one entry can move, by 1. The type
        of the value is public: see `Numeric`.

    References:
        Canonne, Kamath, Steinke 2020, Theorem 4 (zCDP), Theorem 7 (δ of one number) and Theorem 14 (vectors),
        https://arxiv.org/abs/2004.00010; docs/proofs/discrete-gaussian.md.

    >>> m = DiscreteGaussian(epsilon=1, delta=1e-6)
    >>> m.sigma > 4
    True
    """

    epsilon: Fraction | None
    delta: Fraction | None
    sensitivity: Fraction
    dimension: int | None
    _grid: Grid | None
    _sigma_squared: Fraction  # in steps of the grid, or in integers

    def __init__(
        self,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        sensitivity: Real = 1,
        sigma: Real | None = None,
        dimension: int | None = None,
        step: Real | None = None,
    ) -> None:
        asked = read_guarantee("DiscreteGaussian", epsilon, delta, sigma)
        e, d = asked or (None, None)
        set_fields(self, epsilon=e, delta=d, sensitivity=read_size("sensitivity", sensitivity))
        set_fields(self, dimension=read_dimension(dimension))
        set_fields(self, _grid=None if step is None else _grid_of(read_size("step", step)))
        if self._grid is None and self.sensitivity < 1:
            raise InvalidParameter(
                f"sensitivity must be at least 1 for integers, not {sensitivity}.", hint="give step= for floats"
            )
        if asked is None:
            assert sigma is not None
            squared = (read_size("sigma", sigma) / self._unit) ** 2
        else:
            try:
                squared = _least_sigma_squared(self._event, self._l2_squared, *asked)
            except OverflowError:
                raise InvalidParameter(
                    "the noise for so many steps leaves the range of floats.", hint="take a coarser step"
                ) from None
        object.__setattr__(self, "_sigma_squared", squared)

    @property
    def sigma(self) -> float:
        """σ in the units of the value; `noise.sigma_squared` is exact, in integers or in steps."""
        return float(root_above(self._sigma_squared) * self._unit)

    @property
    def noise(self) -> DiscreteGaussianNoise:
        return DiscreteGaussianNoise(self._sigma_squared)

    @property
    def lattice(self) -> Lattice | None:
        return None if self._grid is None else Lattice(self._grid, self._l2_squared, self.noise)

    @property
    def events(self) -> Composed:
        return Composed([self._event(self._sigma_squared)])

    def error(self, confidence: Real = 0.95) -> float:
        if self._grid is not None:
            return above(self._grid.step * (self.noise.quantile(confidence) + Fraction(1, 2)))
        return above(Fraction(self.noise.quantile(confidence)))

    def explain(self) -> str:
        l2, squared = self._l2_squared, decimal(self._sigma_squared)
        unit = "integers" if self._grid is None else f"steps of 2^{self._grid.exponent}"
        return numbered(
            repr(self),
            f"Sensitivity. Neighbours x, y have ‖f(x) − f(y)‖₂² ≤ Δ² = {l2}, in {unit}.",
            f"Noise. M(x) = f(x) + Z with P(Z = k) ∝ exp(−k²/2σ²) and σ² = {squared}, in {unit}.",
            "Ratio. With v = f(x) − f(y), the log of the ratio at o = f(x) + k is (2⟨k, v⟩ + ‖v‖²)/2σ².",
            self._tail_line(),
            self._conclusion(),
            one_changed(f"four times ρ, {4 * float(self._rho):.6g}-zCDP"),
            f"Error. Within ±{self.error():.6g} with confidence 95%.",
        )

    def _tail_line(self) -> str:
        if self._moves_one:
            shift = math.isqrt(self._l2_squared)
            how = f"Only one number moves, by at most {shift}: δ(ε) is the sum of (p(k) − e^ε p(k − {shift}))₊"
        else:
            rho = f"{self._l2_squared}/2σ² = {float(self._rho):.6g}"
            how = f"Every Rényi divergence of order α is at most αρ with ρ = {rho}: by conversion δ(ε)"
        reached = (
            "" if self.epsilon is None else f" = {self.loss.delta(self.epsilon):.6g} at ε = {decimal(self.epsilon)}"
        )
        return f"Tail. {how}{reached}."

    def _conclusion(self) -> str:
        if self.epsilon is None or self.delta is None:
            return f"Conclusion. M is {float(self._rho):.6g}-zCDP; loss.epsilon(delta) gives ε."
        e, d = decimal(self.epsilon), decimal(self.delta)
        return f"Conclusion. That is at most δ = {d}: M is ({e}, {d})-DP."

    def __repr__(self) -> str:
        given = f"sensitivity={decimal(self.sensitivity)}"
        given += "" if self.dimension is None else f", dimension={self.dimension}"
        given += "" if self._grid is None else f", step={decimal(self._grid.step)}"
        if self.epsilon is None or self.delta is None:
            return f"DiscreteGaussian(sigma={self.sigma:.6g}, {given})"
        return f"DiscreteGaussian(epsilon={decimal(self.epsilon)}, delta={decimal(self.delta)}, {given})"

    @property
    def _unit(self) -> Fraction:
        return Fraction(1) if self._grid is None else self._grid.step

    @property
    def _rho(self) -> Fraction:
        return self._l2_squared / (2 * self._sigma_squared)

    @property
    def _l2_squared(self) -> int:
        """Δ² in integers, or after rounding in steps."""
        one = self.dimension in (None, 1)
        if self._grid is None:
            return math.floor(self.sensitivity) ** 2 if one else math.floor(self.sensitivity**2)
        if one:
            return self._grid.linf(self.sensitivity) ** 2
        return self._grid.l2_squared(self.sensitivity, self.dimension or 1)

    @property
    def _moves_one(self) -> bool:
        return self.dimension in (None, 1) or self._l2_squared < 2

    def _event(self, sigma_squared: Fraction) -> Event:
        if self._moves_one:
            return DiscreteGaussianEvent(math.isqrt(self._l2_squared), sigma_squared)
        return ZCDPEvent(self._l2_squared / (2 * sigma_squared))

    def _noise_for(self, real: bool) -> tuple[Additive, Grid | None]:
        if not real and self._grid is not None:
            raise InvalidParameter(
                "with step= this mechanism takes floats.", hint="pass float(value), or leave step= out"
            )
        return Numeric._noise_for(self, real)

    def _check_size(self, numbers: NumberArray) -> None:
        if self._grid is None and numbers.is_real:
            raise InvalidParameter(
                "DiscreteGaussian takes integers unless step= is given.",
                hint="DiscreteGaussian(..., step=2**-10) for floats, or Gaussian, which needs no step",
            )
        Numeric._check_size(self, numbers)
        if self.dimension is None and len(numbers.entries) > 1 and self.sensitivity**2 >= 2:
            raise InvalidParameter(
                "an array needs dimension= when the sensitivity is √2 or more: several entries may move.",
                hint=f"DiscreteGaussian(..., dimension={len(numbers.entries)}) where this length is public",
            )


def _grid_of(step: Fraction) -> Grid:
    exponent = step.numerator.bit_length() - step.denominator.bit_length()
    grid = Grid(exponent)
    if grid.step != step:
        raise InvalidParameter(f"step must be a power of two, not {decimal(step)}.", hint="step=2**-10")
    return grid


def _least_sigma_squared(
    event: Callable[[Fraction], Event], l2_squared: int, epsilon: Fraction, delta: Fraction
) -> Fraction:
    """Return a σ² with δ(ε) ≤ δ, the least up to 1e-9 where δ falls with σ.

    The answer itself is checked, whether or not δ falls everywhere.
    """
    e, most = np.array([below(epsilon)]), below(delta * (1 - _SLACK))

    def suffices(sigma_squared: Fraction) -> bool:
        with np.errstate(over="ignore"):  # to infinity, which is above any δ
            return bool(event(sigma_squared).pair().upper(e)[0] <= most)

    high = Fraction(l2_squared)
    while not suffices(high):
        high *= 4
    while suffices(high / 4):
        high /= 4
    low = high / 4
    for _ in range(32):
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


_SLACK = Fraction(1, 10**8)  # of δ, so that an accountant that rounds up finds the claimed ε too
