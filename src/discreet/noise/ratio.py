"""Real numbers of heavy-tailed laws, drawn lazily as ratios of uniforms, and rounded exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeAlias

from discreet.noise.entropy import Entropy, bits
from discreet.noise.fixedpoint import exp_neg, ln_ratio
from discreet.noise.table import LazyUniform

Quotient: TypeAlias = tuple[int, int]
"""A numerator of at least 0 and a denominator above 0."""

_DIGITS = 64  # of a uniform, beyond those that the rounding asks for


class Magnitude(Protocol):
    """A real number of at least 0 of which an interval is known that can be made narrower."""

    def least(self) -> Quotient:
        """Return a lower bound."""
        ...

    def most(self) -> Quotient | None:
        """Return an upper bound; None where there is none yet."""
        ...

    def extend(self) -> None:
        """Draws more digits."""
        ...


class Shape(ABC):
    """An even density h with h(0) = 1, as the region {(u, v): 0 < u ≤ √h(v/u), v ≥ 0} in the unit square.

    For (u, v) uniform on the region, v/u has density ∝ h on the positive half-line.

    References: Kinderman, Monahan 1977, Theorem 1, https://doi.org/10.1145/355744.355750
    """

    __slots__ = ()

    @abstractmethod
    def holds(self, u: int, v: int, k: int) -> bool | None:
        """Return whether all of the square [u, u + 1]×[v, v + 1], in units of 2^−k, lies in the region.

        False: none of it does. None: not decided.
        """


@dataclass(frozen=True, slots=True)
class StudentShape(Shape):
    """Student's t with d degrees of freedom: h(z) = (1 + z²/d)^(−(d+1)/2).

    u ≤ √h is (du² + v²)^(d+1) ≤ d^(d+1) u^(2d−2).
    """

    degrees: int

    def holds(self, u: int, v: int, k: int) -> bool | None:
        d = self.degrees
        unit = d ** (d + 1) << 4 * k
        if (d * (u + 1) ** 2 + (v + 1) ** 2) ** (d + 1) <= unit * u ** (2 * d - 2):
            return True
        if (d * u * u + v * v) ** (d + 1) > unit * (u + 1) ** (2 * d - 2):
            return False
        return None


@dataclass(frozen=True, slots=True)
class QuarticShape(Shape):
    """h(z) = 1/(1 + z⁴). u ≤ √h is u⁴ + v⁴ ≤ u²."""

    def holds(self, u: int, v: int, k: int) -> bool | None:
        if (u + 1) ** 4 + (v + 1) ** 4 <= u * u << 2 * k:
            return True
        if u**4 + v**4 > (u + 1) ** 2 << 2 * k:
            return False
        return None


@dataclass(frozen=True, slots=True)
class NormalShape(Shape):
    """h(z) = exp(−z²/2). u ≤ √h is v² ≤ −4u² ln u."""

    def holds(self, u: int, v: int, k: int) -> bool | None:
        if u == 0:
            return None
        if (v + 1) ** 2 << k <= 4 * u * u * -ln_ratio(u + 1, 1 << k, k)[1]:
            return True
        if v * v << k > 4 * (u + 1) ** 2 * -ln_ratio(u, 1 << k, k)[0]:
            return False
        return None


class Ratio:
    """|Z| for a density ∝ h, as v/u of two lazy uniforms.

    Guarantee:
        Exact in law given ideal bits: a point of the unit square is drawn, and anew until it is in the region; bits are
        added to both coordinates until that is decided, and later until a rounding is. How many points are drawn is
        independent of the accepted one.

    References:
        docs/proofs/smooth-sensitivity.md, "Sampling".
    """

    __slots__ = ("_u", "_v")

    def __init__(self, shape: Shape, digits: int, rng: Entropy) -> None:
        known = _whole_bytes(digits)
        inside: bool | None = False
        while not inside:
            self._u = LazyUniform(bits(rng, known), known, rng)
            self._v = LazyUniform(bits(rng, known), known, rng)
            while (inside := shape.holds(self._u.value, self._v.value, self._u.bits)) is None:
                self.extend()

    def least(self) -> Quotient:
        return self._v.value, self._u.value + 1

    def most(self) -> Quotient | None:
        return (self._v.value + 1, self._u.value) if self._u.value else None

    def extend(self) -> None:
        self._u.extend()
        self._v.extend()


class LaplaceLogNormal:
    """|X|·exp(σY) for a Laplace X of scale 1 and a standard normal Y, both drawn lazily: E·exp(σY), E exponential.

    Guarantee:
        Exact in law given ideal bits: E = −ln U for a lazy uniform U, and proved enclosures of ln and exp.

    References:
        Bun, Steinke 2019, Section 3, https://arxiv.org/abs/1906.02830; docs/proofs/smooth-sensitivity.md, "Sampling".
    """

    __slots__ = ("_minus", "_normal", "_sigma", "_u")

    def __init__(self, sigma: Fraction, digits: int, rng: Entropy) -> None:
        known = _whole_bytes(digits)
        self._sigma = sigma
        self._u = LazyUniform(bits(rng, known), known, rng)
        self._normal = Ratio(NormalShape(), digits, rng)
        self._minus = bits(rng, 1) == 1

    def least(self) -> Quotient:
        k = self._u.bits
        e = max(0, -ln_ratio(self._u.value + 1, 1 << k, k)[1])
        if self._minus:
            y = self._normal.most()
            return (0, 1) if y is None else (e * exp_neg(self._times(y), k)[0], 1 << 2 * k)
        return e, max(1, exp_neg(self._times(self._normal.least()), k)[1])  # exp(y) = 1/exp(−y)

    def most(self) -> Quotient | None:
        k, y = self._u.bits, self._normal.most()
        if not self._u.value or y is None:
            return None
        e = -ln_ratio(self._u.value, 1 << k, k)[0]
        if self._minus:
            return e * exp_neg(self._times(self._normal.least()), k)[1], 1 << 2 * k
        low = exp_neg(self._times(y), k)[0]
        return (e, low) if low else None

    def extend(self) -> None:
        self._u.extend()
        self._normal.extend()

    def _times(self, y: Quotient) -> Fraction:
        return self._sigma * Fraction(*y)


def digits_for(span: int) -> int:
    """Digits of a uniform with which a value on `span` steps is nearly always rounded at once."""
    return _DIGITS + span.bit_length() + 8


def rounded(z: Magnitude, negative: bool, scale: Fraction, centre: int, low: int, high: int) -> int:
    """Return the number centre ± scale·z, to the nearest integer (halves upwards) and cut off at `low` and `high`.

    Guarantee:
        Exact: digits of z are drawn until both ends of its interval give the same integer; a half has probability 0.
    """
    p, q = scale.numerator, scale.denominator

    def at(number: Quotient | None) -> int:
        if number is None:
            return low if negative else high
        n, d = number
        moved = -2 * p * n if negative else 2 * p * n
        return min(max((2 * centre * q * d + moved + q * d) // (2 * q * d), low), high)

    while (found := at(z.least())) != at(z.most()):
        z.extend()
    return found


def _whole_bytes(digits: int) -> int:
    return digits + 7 & ~7
