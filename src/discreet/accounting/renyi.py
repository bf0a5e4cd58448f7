"""Rényi divergence at one order: what an event has at most, and what (ε, δ) it converts to.

In decimal arithmetic, whose logarithm and exponential are correctly rounded: a ledger that is verified on
another machine finds the same costs to the last digit. Proofs: docs/proofs/filters.md
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from discreet.privacy.event import Event

_EXACT = Context(prec=60, rounding=ROUND_CEILING, Emin=-999999, Emax=999999, clamp=0, traps=[])
_SHORT = Context(prec=20, rounding=ROUND_CEILING, Emin=-999999, Emax=999999, clamp=0, traps=[])
_COARSE = Context(prec=5, Emin=-999999, Emax=999999, clamp=0, traps=[])
_SLACK = Decimal("1e-55")  # a few roundings at 60 digits are less than this, relatively
_ONE = Decimal(1)
_GOLDEN = Decimal("0.61803398874989")


def renyi_upper(event: Event, alpha: Fraction) -> Fraction | None:
    """The Rényi divergence of order α that an event has at most, apart from its failure; None if it has none.

    The least of αρ and, for an ε-DP use, ε and the divergence of randomised response.

    References: Bun, Steinke 2016, Definition 1.1, https://arxiv.org/abs/1605.02065; Mironov 2017,
    Proposition 5, https://arxiv.org/abs/1702.07476; Kairouz, Oh, Viswanath 2015, Theorem 3.2 (no ε-DP use is
    worse than randomised response), https://arxiv.org/abs/1311.0776
    """
    bounds = [] if event.rho is None else [alpha * event.rho]
    if event.pure is not None:
        bounds += [event.pure, _randomised_response(event.pure, alpha)]
    return min(bounds, default=None)


def renyi_epsilon(alpha: Fraction, divergence: Fraction, delta: Fraction) -> Fraction:
    """An ε for which a divergence of order α implies (ε, δ)-DP, rounded up.

    References: Canonne, Kamath, Steinke 2020, Proposition 12, https://arxiv.org/abs/2004.00010
    """
    return max(divergence - _gain(alpha - 1, delta), Fraction(0))


def renyi_for(alpha: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest divergence of order α, rounded down, that implies (ε, δ)-DP by `renyi_epsilon`."""
    return max(epsilon + _gain(alpha - 1, delta), Fraction(0))


def order_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The order at which (ε, δ) affords the most ρ of zCDP, to five digits of α − 1.

    Any order would do for privacy; it depends on the budget alone.
    """

    def rho(s: Decimal) -> Fraction:
        x = _order(s)
        return (epsilon + _gain(x, delta)) / (1 + x)

    return 1 + _order(_best(rho))


def _gain(x: Fraction, delta: Fraction) -> Fraction:
    """(log δ + log α)/(α − 1) − log(1 − 1/α) at α = 1 + x, rounded down."""
    c, d = _EXACT, _decimal(x)
    logs = (c.ln(_decimal(delta)), c.ln(_decimal(1 + x)))
    last = c.ln(c.add(_ONE, c.divide(_ONE, d)))
    size = sum((abs(Fraction(term)) for term in logs), Fraction(1)) / x + Fraction(last) + 1
    return -_short(size * Fraction(_SLACK) - sum(map(Fraction, logs)) / x - Fraction(last))


def _randomised_response(epsilon: Fraction, alpha: Fraction) -> Fraction:
    """log(p^α q^(1−α) + q^α p^(1−α))/(α − 1) with p = 1 − q = e^ε/(1 + e^ε), rounded up.

    As ε + (log(1 + e^(−(2α−1)ε)) − log(1 + e^−ε))/(α − 1), in which nothing overflows.
    """
    near, far = (_softplus(-factor * epsilon) for factor in (2 * alpha - 1, Fraction(1)))
    return _short(epsilon + (near - far + Fraction(_SLACK)) / (alpha - 1))


def _softplus(x: Fraction) -> Fraction:
    """log(1 + e^x) for x ≤ 0."""
    return Fraction(_EXACT.ln(_EXACT.add(_ONE, _EXACT.exp(_decimal(x)))))


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


def _decimal(x: Fraction) -> Decimal:
    return _EXACT.divide(Decimal(x.numerator), Decimal(x.denominator))


def _short(x: Fraction) -> Fraction:
    """Twenty digits, rounded up: sums of many costs stay short."""
    return Fraction(_SHORT.divide(Decimal(x.numerator), Decimal(x.denominator)))
