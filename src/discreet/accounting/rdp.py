"""Rényi divergence of one order: what (ε, δ) it converts to, and the order that suits a budget.

In decimal arithmetic, whose logarithm and exponential are correctly rounded: a ledger that is verified on
another machine finds the same capacity to the last digit. Proofs: docs/proofs/filters.md
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

from discreet.accounting.decimals import EXACT, ONE, SLACK, decimal, exp_above, log, short
from discreet.accounting.divergence import renyi_upper as renyi_upper
from discreet.privacy.exact import above
from discreet.privacy.pair import FLOOR

_COARSE = Context(prec=5, Emin=-999999, Emax=999999, clamp=0, traps=[])
_GOLDEN = Decimal("0.61803398874989")


def renyi_epsilon(alpha: Fraction, divergence: Fraction, delta: Fraction) -> Fraction:
    """Return an ε for which a divergence of order α implies (ε, δ)-DP, rounded up.

    References: Canonne, Kamath, Steinke 2020, Proposition 12, https://arxiv.org/abs/2004.00010
    """
    return max(divergence - _gain(alpha - 1, delta), Fraction(0))


def renyi_delta(alpha: Fraction, divergence: Fraction, epsilon: Fraction) -> float:
    """Return a δ for which a divergence of order α implies (ε, δ)-DP, rounded up.

    References: Canonne, Kamath, Steinke 2020, Proposition 12, https://arxiv.org/abs/2004.00010
    """
    x = alpha - 1
    logs = (-log(1 + 1 / x) * x, -log(alpha))
    size = SLACK * (1 + abs(logs[0]) + abs(logs[1]))
    exponent = x * (divergence - epsilon) + sum(logs) + size
    if exponent < -690:
        return FLOOR
    return 1.0 if exponent >= 0 else min(above(Fraction(exp_above(exponent))), 1.0)


def renyi_for(alpha: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest divergence of order α, rounded down, that implies (ε, δ)-DP by `renyi_epsilon`."""
    return max(epsilon + _gain(alpha - 1, delta), Fraction(0))


@lru_cache(maxsize=256)  # each account of a filter by one order has it computed where it is opened
def order_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the order at which (ε, δ) affords the most ρ of zCDP, to five digits of α − 1.

    Any order would do for privacy; it depends on the budget alone.
    """

    def rho(s: Decimal) -> Fraction:
        x = _order(s)
        return (epsilon + _gain(x, delta)) / (1 + x)

    return 1 + _order(_best(rho))


def _gain(x: Fraction, delta: Fraction) -> Fraction:
    """(log δ + log α)/(α − 1) − log(1 − 1/α) at α = 1 + x, rounded down."""
    c, d = EXACT, decimal(x)
    logs = (c.ln(decimal(delta)), c.ln(decimal(1 + x)))
    last = c.ln(c.add(ONE, c.divide(ONE, d)))
    size = sum((abs(Fraction(term)) for term in logs), Fraction(1)) / x + Fraction(last) + 1
    return -short(size * SLACK - sum(map(Fraction, logs)) / x - Fraction(last))


def _order(s: Decimal) -> Fraction:
    return Fraction(_COARSE.exp(s))


def _best(f: Callable[[Decimal], Fraction]) -> Decimal:
    """Where golden-section search over s = log(α − 1) sees the greatest value."""
    low, high = Decimal(-45), Decimal(90)
    while high - low > Decimal("1e-4"):
        step = _GOLDEN * (high - low)
        a, b = high - step, low + step
        low, high = (low, b) if f(a) >= f(b) else (a, high)
    return low
