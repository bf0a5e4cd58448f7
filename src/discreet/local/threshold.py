"""From how many supporting reports on a value is listed: exact tails of the binomial law."""

from __future__ import annotations

from fractions import Fraction

from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, exact
from discreet.privacy.guarantee import decimal

_SAFETY = 1 + 1e-6  # far more than the incomplete beta function is off
_SMALLEST = Fraction(1, 10**200)


def least_support(users: int, prime: int, chance: Fraction) -> int:
    """The least k with P(X ≥ k) ≤ chance, for a binomial X of `users` trials of chance 1/prime; users + 1 if none."""
    from scipy.special import betainc

    def tail(k: int) -> float:
        return 1.0 if k <= 0 else float(betainc(k, users - k + 1, 1 / prime)) * _SAFETY

    low, high = 0, users + 1  # tail(low) is above the chance, tail(high) = 0
    while high - low > 1:
        middle = (low + high) // 2
        if tail(middle) <= float(chance):
            high = middle
        else:
            low = middle
    return high


def read_error(error: Real) -> Fraction:
    """The chance of a false find, strictly between 0 and 1."""
    chance = exact("error", error)
    if not _SMALLEST <= chance < 1:
        raise InvalidParameter(f"error must lie between 0 and 1, not {decimal(chance)}.", hint="error=0.05")
    return chance
