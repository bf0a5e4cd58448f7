"""Weights that fall by at most a fixed factor from one to the next: what makes a sensitivity smooth."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

BITS = 62
"""The first weight is 2^BITS."""

_LAST = 1 << 20  # the last weight, or nearly: 2^-42 of the first, less than a step of the grid of 2^41 steps
_MOST = 1 << 18  # weights; beyond, all are alike, which is as smooth


@dataclass(frozen=True, slots=True)
class Weights:
    """Whole numbers w₀ = 2^62, w₁, w₂, … with wₖ ≤ B·wₖ₊₁ for a fraction B > 1; from the last on they stay the same.

    Guarantee:
        wₖ ≤ B·wₖ₊₁ holds exactly: wₖ₊₁ = ⌈wₖ/B⌉. So for any Aₖ(x) ≤ Aₖ₊₁(y) between neighbours, max wₖ·Aₖ is smooth
        with the factor B, in whole numbers (docs/proofs/smooth-sensitivity.md).
    """

    base: Fraction
    listed: tuple[int, ...]

    @classmethod
    def of(cls, base: Fraction) -> Weights:
        """The weights of B = `base`."""
        return _weights(base)


@lru_cache(maxsize=8)
def _weights(base: Fraction) -> Weights:
    p, q = base.numerator, base.denominator
    listed = [1 << BITS]
    while listed[-1] > _LAST and len(listed) < _MOST:
        listed.append(-(-listed[-1] * q // p))
    return Weights(base, tuple(listed))
