"""The Gaussian mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import numbered, one_changed
from discreet.mechanisms.additive import RoundedGaussianNoise
from discreet.mechanisms.numeric import Lattice, Numeric, fine_grid
from discreet.mechanisms.parameters import read_choice, read_dimension, read_guarantee, read_size
from discreet.noise import fixedpoint
from discreet.privacy.event import Composed, GaussianEvent
from discreet.privacy.exact import Real, set_fields
from discreet.privacy.guarantee import called, decimal


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Gaussian(Numeric):
    """Adds the continuous Gaussian N(0, σ²), rounded to integers or to a fine lattice, in any dimension.

    With `calibration="analytic"`, the default, σ is the least for which N(0, σ²) is (ε, δ)-DP, for any ε.
    With "classical" it is the textbook's Δ√(2 ln(1.25/δ))/ε, which is larger, and is proved for ε < 1 only.
    With `sigma=` it is what was given, and `loss` says what it costs.

    Guarantee:
        μ-GDP with μ = Δ/σ, and (ε, δ)-DP when ε and δ were given, when the value moves by at most `sensitivity` = Δ in
        ℓ2 between neighbours, under the relation for which Δ was computed. On integers rounding the noise is
        post-processing. Floats are first rounded to a grid chosen from Δ, σ and `dimension` alone; what that adds to
        the sensitivity is paid for by a larger σ (by one part in 2^19, at most in 2^11 where √dimension·σ/Δ is beyond
        2^34). σ is a fraction, rounded up. The type of the value is public: see `Numeric`.

    References:
        Balle, Wang 2018, Theorem 8 (analytic), https://arxiv.org/abs/1805.06530; Dwork, Roth, *The
        Algorithmic Foundations of Differential Privacy*, Theorem A.1 (classical),
        https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf; Dong, Roth, Su 2019, Theorem 2.7,
        https://arxiv.org/abs/1905.02383; docs/proofs/gaussian.md.

    >>> m = Gaussian(epsilon=0.5, delta=1e-6)
    >>> round(m.sigma, 4), round(Gaussian(epsilon=0.5, delta=1e-6, calibration="classical").sigma, 4)
    (8.0576, 10.5976)
    """

    epsilon: Fraction | None
    delta: Fraction | None
    sensitivity: Fraction
    dimension: int | None
    calibration: str
    _sigma: Fraction

    def __init__(
        self,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        sensitivity: Real = 1,
        sigma: Real | None = None,
        calibration: str = "analytic",
        dimension: int | None = None,
    ) -> None:
        s = read_size("sensitivity", sensitivity)
        asked = read_guarantee("Gaussian", epsilon, delta, sigma)
        calibration = read_choice("calibration", calibration, _CALIBRATIONS)
        if asked is None:
            assert sigma is not None
            exact_sigma = read_size("sigma", sigma)
        else:
            exact_sigma = root_above(s * s * _CALIBRATIONS[calibration](*asked))
        e, d = asked or (None, None)
        set_fields(self, epsilon=e, delta=d, sensitivity=s, dimension=read_dimension(dimension))
        set_fields(self, calibration=calibration if sigma is None else "given", _sigma=exact_sigma)

    @property
    def sigma(self) -> float:
        """σ; `noise.sigma` is the same as a fraction."""
        return float(self._sigma)

    @property
    def mu_squared(self) -> Fraction:
        """μ² = Δ²/σ²."""
        return (self.sensitivity / self._sigma) ** 2

    @property
    def noise(self) -> RoundedGaussianNoise:
        return RoundedGaussianNoise(self._sigma)

    @property
    def lattice(self) -> Lattice:
        n = self.dimension or 1
        grid = fine_grid(self._sigma, self.sensitivity / (math.isqrt(n - 1) + 1))
        steps = grid.l2_squared(self.sensitivity, n)
        return Lattice(grid, steps, RoundedGaussianNoise(root_above(steps / self.mu_squared)))

    @property
    def events(self) -> Composed:
        return Composed([GaussianEvent(self.mu_squared)])

    def explain(self) -> str:
        mu, fine = math.sqrt(self.mu_squared), self.lattice
        return numbered(
            repr(self),
            f"Sensitivity. Neighbours x, y have ‖f(x) − f(y)‖₂ ≤ Δ = {decimal(self.sensitivity)}.",
            f"Noise. M(x) = f(x) + Z with Z ~ N(0, σ²) rounded to the nearest integer, σ = {self.sigma:.6g}. "
            "For integers f this is round(f(x) + Z), a post-processing of the continuous mechanism.",
            "Density ratio. With v = f(x) − f(y), the log of the ratio at o = f(x) + z is "
            "(‖z + v‖² − ‖z‖²)/2σ² = (2⟨z, v⟩ + ‖v‖²)/2σ². For z ~ N(0, σ²) it is N(‖v‖²/2σ², ‖v‖²/σ²).",
            "Triangle inequality. ‖v‖ ≤ Δ, and a shorter v is easier to hide: at worst the log is "
            f"N(μ²/2, μ²) with μ = Δ/σ = {mu:.6g}.",
            *self._tail_lines(mu),
            one_changed(f"twice μ, {2 * mu:.6g}-GDP"),
            f"Floats. Rounded to multiples of 2^{fine.grid.exponent}, neighbours differ by at most "
            f"√{fine.steps} steps; σ is enlarged to keep μ.",
            f"Error. Within ±{self.error():.6g} with confidence 95%.",
        )

    def _tail_lines(self, mu: float) -> list[str]:
        if self.epsilon is None or self.delta is None:
            rho = f"{mu * mu / 2:.6g}"
            return [f"Conclusion. M is μ-GDP and (μ²/2 = {rho})-zCDP; loss.epsilon(delta) gives ε."]
        e, d, s = decimal(self.epsilon), decimal(self.delta), decimal(self.sensitivity)
        reached = self.loss.delta(self.epsilon)
        if self.calibration == "classical":
            formula = f"Δ√(2 ln(1.25/δ))/ε = {s}·√(2 ln(1.25/{d}))/{e} = {self.sigma:.6g}"
            how = f"σ = {formula}, where ε = {e} < 1 (Dwork, Roth, Theorem A.1)."
        else:
            how = f"σ = {self.sigma:.6g} is the least with δ({e}) ≤ {d} (Balle, Wang, Theorem 8)."
        return [
            f"Tail. δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) = {reached:.6g} at ε = {e}.",
            f"Calibration. {how}",
            f"Conclusion. M is ({e}, {d})-DP.",
        ]

    def __repr__(self) -> str:
        if self.epsilon is None:
            return called(self, "_sigma", "sensitivity", "dimension")
        return called(self, "epsilon", "delta", "sensitivity", calibration="analytic", dimension=None)


def root_above(x: Fraction) -> Fraction:
    """√x where that is a fraction, else a fraction above it by less than one part in 2^48."""
    p, q = math.isqrt(x.numerator), math.isqrt(x.denominator)
    if p * p == x.numerator and q * q == x.denominator:
        return Fraction(p, q)
    shift = 49 - (x.numerator.bit_length() - x.denominator.bit_length()) // 2
    scaled = x * Fraction(4) ** shift  # at least 2^97, so that its root has 49 bits and 1 is less than 2^-48 of it
    return (math.isqrt(math.ceil(scaled) - 1) + 1) / Fraction(2) ** shift


def _analytic(epsilon: Fraction, delta: Fraction) -> Fraction:
    """σ²/Δ² for the least σ with δ(ε) ≤ δ, rounded up: Balle, Wang, Theorem 8."""
    from discreet.accounting.convert import mu_squared_for

    return (1 + _SLACK) / mu_squared_for(epsilon, delta)


def _classical(epsilon: Fraction, delta: Fraction) -> Fraction:
    """σ²/Δ² = 2 ln(1.25/δ)/ε², rounded up: Dwork, Roth, Theorem A.1."""
    if epsilon >= 1:
        raise InvalidParameter(
            f"the classical calibration is proved for epsilon below 1 only, not {decimal(epsilon)}.",
            hint="calibration='analytic' holds for every ε and adds less noise",
        )
    if delta > Fraction(2, 5):  # the proof takes c = √(2 ln(1.25/δ)) ≥ 3/2
        raise InvalidParameter(f"the classical calibration needs delta of at most 0.4, not {decimal(delta)}.")
    ln = Fraction(fixedpoint.ln(Fraction(5, 4) / delta, _BITS)[1], 1 << _BITS)
    return 2 * ln / epsilon**2


_BITS = 128
_SLACK = Fraction(1, 1 << 40)  # so that an accountant that rounds up finds the claimed ε too
_CALIBRATIONS = {"analytic": _analytic, "classical": _classical}
