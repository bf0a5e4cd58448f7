"""Comparisons with e^ε that no rounding can turn."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache

_WIDE = 425_000_000  # the largest exponent that every build of the library takes


@lru_cache(maxsize=256)
def exponential(epsilon: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Rationals below and above e^ε, ε ≥ 0, that agree in about `digits` digits; both 1 for ε = 0.

    The library rounds a quotient and an exponential correctly, so each is off by at most one unit of its last
    place; the error of the quotient, relative to it, is multiplied by ε.
    """
    if not epsilon:
        return Fraction(1), Fraction(1)
    more = len(str(int(epsilon))) + 3
    context = Context(prec=digits + more, rounding=ROUND_HALF_EVEN, Emin=-_WIDE, Emax=_WIDE)
    power = context.exp(context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    middle, slack = Fraction(power), Fraction(1, 10 ** (digits + 1))
    return middle * (1 - slack), middle * (1 + slack)


def exceeds(p: Fraction | int, q: Fraction | int, epsilon: Fraction) -> bool:
    """Return whether p > e^ε q, for p, q ≥ 0 and a rational ε ≥ 0: decided exactly.

    For ε ≠ 0 the number e^ε is irrational (Lindemann 1882), so p = e^ε q only where both are 0, and enough
    digits decide.
    """
    if not q or not p:
        return p > 0 and not q
    if not epsilon:
        return p > q
    ratio = Fraction(p) / Fraction(q)
    if ratio <= 1:
        return False
    if beyond(epsilon, ratio.numerator):  # a huge power would fill the memory
        return False
    digits = 20
    while True:
        low, high = exponential(epsilon, digits)
        if ratio > high:
            return True
        if ratio < low:
            return False
        digits *= 2


def beyond(epsilon: Fraction, most: int) -> bool:
    """Return whether e^ε surely exceeds an integer: most < 2^bits < e^(7 bits/10)."""
    return epsilon * 10 >= 7 * most.bit_length()
