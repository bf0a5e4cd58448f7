"""The two shapes of noise, exp(−x/s) and exp(−x²/2σ²), with certified heights on an even grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from discreet.noise.fixedpoint import exp_neg


@dataclass(frozen=True, slots=True)
class Decay:
    """f(x) = exp(−rate·x^power) for x ≥ 0, where power is 1 (Laplace) or 2 (Gaussian)."""

    rate: Fraction
    power: int

    def exponent(self, x: Fraction) -> Fraction:
        """q(x) = rate·x^power, so that f = exp(−q)."""
        return self.rate * x**self.power

    def width_log2(self) -> int:
        """⌊log₂ width⌋, the width being the scale s or the standard deviation σ."""
        width = 1 / self.rate if self.power == 1 else 1 / (2 * self.rate)
        log2 = width.numerator.bit_length() - width.denominator.bit_length()
        if width < Fraction(2) ** log2:
            log2 -= 1
        return log2 // self.power

    def reach(self, step: Fraction, bits: int) -> int:
        """Return some n ≥ 1 with f(n·step) ≤ 2^−bits: 7/10 stands for ln 2 < 0.694."""
        unit = self.exponent(step)
        n = bits * 7 * unit.denominator // (10 * unit.numerator) + 1
        return n if self.power == 1 else math.isqrt(n) + 1

    def heights(self, step: Fraction, n: int, bits: int) -> tuple[list[int], int]:
        """Integers h₀ … h_n and E with h_c ≤ 2^bits·f(c·step) ≤ h_c + E for every c.

        Guarantee:
            h_{c+1} = ⌊h_c·m_c⌋ with m_c = f((c+1)·step)/f(c·step), itself by a recurrence; everything is
            rounded down, and E = 3n² covers what all roundings lose (docs/proofs/table.md, Lemma 1).
        """
        multiplier, _ = exp_neg(self.exponent(step), bits)
        h = 1 << bits
        out = [h]
        if self.power == 1:
            for _ in range(n):
                h = h * multiplier >> bits
                out.append(h)
            return out, 3 * n * n
        growth = multiplier * multiplier >> bits
        for _ in range(n):
            h = h * multiplier >> bits
            multiplier = multiplier * growth >> bits
            out.append(h)
        return out, 3 * n * n

    def rest(self, step: Fraction, n: int, bits: int, height: tuple[int, int]) -> tuple[int, int]:
        """Bounds of 2^bits·Σ_{c>n} f(c·step), given bounds of 2^bits·f(n·step).

        The ratio ρ of neighbours does not grow with c, so the rest is at most f(n·step)·ρ/(1 − ρ). For the
        Laplace shape ρ is constant, and the rest is just that.
        """
        lo, hi = exp_neg(self.exponent(step) * ((n + 1) ** self.power - n**self.power), bits)
        most = -(-height[1] * hi // ((1 << bits) - hi))
        least = height[0] * lo // ((1 << bits) - lo) if self.power == 1 else 0
        return least, most


def exponential(scale: Fraction) -> Decay:
    """exp(−x/scale), the shape of the Laplace law."""
    return Decay(Fraction(1) / scale, 1)


def bell(sigma_squared: Fraction) -> Decay:
    """exp(−x²/2σ²), the shape of the Gaussian law."""
    return Decay(Fraction(1) / (2 * sigma_squared), 2)
