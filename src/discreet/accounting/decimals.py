"""Decimal arithmetic that gives the same digits on every machine, with its errors on a known side.

Sums, products and quotients are rounded as asked, logarithms and exponentials correctly, at sixty digits.
What a ledger adds up comes from here, so that a reader elsewhere finds the same cost to the last digit.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

_WIDE = 425_000_000  # the largest exponent that every build of the library takes
EXACT = Context(prec=60, rounding=ROUND_CEILING, Emin=-_WIDE, Emax=_WIDE, clamp=0, traps=[])
"""Sixty digits, upwards where it has a choice; an overflow is an infinity, and no error."""

_SHORT = Context(prec=20, rounding=ROUND_CEILING, Emin=-_WIDE, Emax=_WIDE, clamp=0, traps=[])
_COARSE = Context(prec=9, rounding=ROUND_CEILING, Emin=-_WIDE, Emax=_WIDE, clamp=0, traps=[])
SLACK = Fraction(1, 10**55)
"""A few roundings at sixty digits are less than this, relatively."""

ONE = Decimal(1)
_NUDGE = Decimal(1) + Decimal("1e-58")


def decimal(x: Fraction) -> Decimal:
    """Sixty digits of a fraction, rounded up."""
    return EXACT.divide(Decimal(x.numerator), Decimal(x.denominator))


def short(x: Fraction) -> Fraction:
    """Twenty digits, rounded up: sums of many costs stay short."""
    return Fraction(_SHORT.divide(Decimal(x.numerator), Decimal(x.denominator)))


def coarse(x: Fraction) -> Fraction:
    """Nine digits, rounded up: for what was computed in floats, whose last digits differ between machines."""
    return Fraction(_COARSE.divide(Decimal(x.numerator), Decimal(x.denominator)))


def log(x: Fraction) -> Fraction:
    """Return the logarithm of sixty digits of x > 0."""
    return Fraction(EXACT.ln(decimal(x)))


def softplus(x: Fraction) -> Fraction:
    """log(1 + e^x) for x ≤ 0."""
    return Fraction(EXACT.ln(EXACT.add(ONE, EXACT.exp(decimal(x)))))


def exp(x: Fraction) -> Fraction:
    """e^x for x ≤ 0, and 0 where that is below 10^-4000: a fraction of it would fill the memory."""
    return Fraction(EXACT.exp(decimal(x))) if x > -10_000 else Fraction(0)


def exp_above(x: Fraction) -> Decimal:
    """At least e^x; infinite when that is beyond all decimals."""
    return EXACT.multiply(EXACT.exp(decimal(x)), _NUDGE)


def log_above(x: Decimal) -> Fraction | None:
    """At least log x, for x ≥ 1; None for an infinite x."""
    if not x.is_finite():
        return None
    return Fraction(EXACT.ln(x)) * (1 + SLACK) + SLACK
