"""The most ε that an account can still pay for a question: the smallest change to one that it has refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from discreet.accounting.filter import Charge
from discreet.errors import BudgetExceeded, DiscreetError
from discreet.plan.least import LEAST_EPSILON
from discreet.privacy.guarantee import decimal

_STEPS = 12  # of a bisection between neighbouring powers of two: finer than three digits


def with_fitting(
    refusal: BudgetExceeded,
    charge: Callable[[Fraction], Charge],
    affords: Callable[[Charge], bool],
    asked: Fraction,
) -> BudgetExceeded:
    """The refusal, with the largest ε in its hint that the account can pay, to three digits; it reads no data."""
    found = most(lambda epsilon: _fits(charge, affords, epsilon), asked)
    if found is None:
        return refusal
    hint = f"epsilon={decimal(found)} would fit; {refusal.hint.split('; ', 1)[-1]}"
    return BudgetExceeded(refusal.message, asked=refusal.asked, left=refusal.left, hint=hint)


def most(fits: Callable[[Fraction], bool], below: Fraction) -> Fraction | None:
    """The largest ε below a bound that fits, rounded down to three digits; None when not even the least does.

    What is returned fits; that nothing between it and the bound does is as true as that the cost grows with ε.
    """
    if below <= LEAST_EPSILON or not fits(LEAST_EPSILON):
        return None
    low, high = below / 2, below
    while low > LEAST_EPSILON and not fits(low):
        low, high = low / 2, low
    low = max(low, LEAST_EPSILON)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    found = max(_three_digits(low), LEAST_EPSILON)
    return found if fits(found) else None


def _fits(charge: Callable[[Fraction], Charge], affords: Callable[[Charge], bool], epsilon: Fraction) -> bool:
    try:
        return affords(charge(epsilon))
    except DiscreetError:  # too little for this question to be planned at all
        return False


def _three_digits(x: Fraction) -> Fraction:
    """Rounded down."""
    unit = Fraction(1)
    while x / unit < 100:
        unit /= 10
    while x / unit >= 1000:
        unit *= 10
    return int(x / unit) * unit
