"""Rényi divergences of two laws in integers: exact moments, and their logarithms rounded up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from discreet.privacy.exact import above

_WIDE = 425_000_000
_DIGITS = 60
_SLACK = Fraction(1, 10**45)
MOST_BITS = 50_000_000
"""Of the powers of an exact moment; more would take minutes."""


def moment(p: Sequence[int], q: Sequence[int], whole: int, order: int) -> Fraction | None:
    """Σ P^α Q^(1−α) for an integer α ≥ 1, exactly; None where P has an output that Q never gives."""
    total = Fraction(0)
    for a, b in zip(p, q, strict=True):
        if a and not b:
            return None
        if a:
            total += Fraction(a**order, b ** (order - 1))
    return total / whole


def divergence(p: Sequence[int], q: Sequence[int], whole: int, order: Fraction) -> float:
    """D_α(P ‖ Q) for α ≥ 1, rounded up; for α = 1 the Kullback-Leibler divergence.

    Sixty digits are computed, and as many more as 1/(α − 1) has. A logarithm of a ratio, at most 10⁶ in size for
    ratios of integers that fit a memory, is off by 10⁻⁵³ at most, and so is D_α by it; the sum is off by 10⁻⁵³
    times α − 1, at most, before it is divided by that: all far below the slack that is added.
    """
    if any(a and not b for a, b in zip(p, q, strict=True)):
        return math.inf
    if tuple(p) == tuple(q):
        return 0.0
    more = 0 if order == 1 else len(str(int(1 / (order - 1))))
    c = Context(prec=_DIGITS + more, rounding=ROUND_HALF_EVEN, Emin=-_WIDE, Emax=_WIDE)
    losses = [(Decimal(a), _log(a, b, c)) for a, b in zip(p, q, strict=True) if a]
    # Terms of both signs: the error is relative to their sizes, which the largest loss bounds.
    slack = _SLACK * (1 + max(abs(Fraction(loss)) for _, loss in losses))
    if order == 1:
        mean = Decimal(0)
        for a, loss in losses:
            mean = c.add(mean, c.multiply(a, loss))
        return above(max(Fraction(mean) / whole, Fraction(0)) + slack)
    power = c.divide(Decimal(order.numerator - order.denominator), Decimal(order.denominator))
    top = max(loss for _, loss in losses)
    total = Decimal(0)
    for a, loss in losses:  # relative to the largest loss, so that no power is too large for a decimal
        total = c.add(total, c.multiply(a, c.exp(c.multiply(power, c.subtract(loss, top)))))
    below_top = c.ln(c.divide(total, Decimal(whole)))
    return above(max(Fraction(0), Fraction(top) + Fraction(below_top) / (order - 1)) + slack)


def _log(a: int, b: int, c: Context) -> Decimal:
    """log(a/b) with an error of 10⁻⁵⁸ beside its relative one."""
    return Decimal(0) if a == b else c.ln(c.divide(Decimal(a), Decimal(b)))
