"""The Rényi divergence of one order that an event has at most, what (ε, δ) it converts to, and the order that suits.

In decimal arithmetic throughout: a ledger that is verified on another machine finds the same costs to the
last digit. A bound that an event may have from floats is rounded up to nine digits first.
Proofs: docs/proofs/filters.md, "What an event costs"
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache, singledispatch

from discreet.accounting.decimals import (
    EXACT,
    ONE,
    SLACK,
    coarse,
    decimal,
    exp,
    exp_above,
    log,
    log_above,
    short,
    softplus,
)
from discreet.privacy.discrete_events import AtomsEvent, BoundedRangeEvent, RandomizedResponseEvent
from discreet.privacy.event import (
    ApproximateEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    RenyiEvent,
    ZCDPEvent,
)
from discreet.privacy.exact import above
from discreet.privacy.grouping import GroupEvent
from discreet.privacy.pair import FLOOR
from discreet.privacy.parallel import ParallelEvent
from discreet.privacy.sampling import PoissonEvent

_MOST_ORDER = 512  # the binomial sum of a sampled use has one term more than its order
_SYMMETRIC = (
    ApproximateEvent,
    LaplaceEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    DiscreteGaussianEvent,
    RandomizedResponseEvent,
)
"""Events whose two laws, exchanged, have the same law of losses, apart from a failure."""

_EXACT = (*_SYMMETRIC, ZCDPEvent, BoundedRangeEvent, RenyiEvent)
"""Events whose ε and ρ are exact functions of their parameters."""


@lru_cache(maxsize=4096)
def renyi_upper(event: Event, alpha: Fraction) -> Fraction | None:
    """Return the Rényi divergence of order α that an event has at most, apart from its failure; None if it has none.

    The least of αρ, of ε and the divergence of randomised response for an ε-DP use, and of the event's own
    formula: Laplace and discrete Laplace noise, randomised response, finite laws, and uses on Poisson samples
    with noise of a symmetric law.

    Guarantee:
        It depends on the event and the order alone, and is the same on every machine.

    References: Bun, Steinke 2016, Definition 1.1, https://arxiv.org/abs/1605.02065; Mironov 2017,
    Propositions 5 and 6, https://arxiv.org/abs/1702.07476; Mironov, Talwar, Zhang 2019, section 3
    (samples), https://arxiv.org/abs/1908.10530; Kairouz, Oh, Viswanath 2015 (no ε-DP use is worse than
    randomised response), https://arxiv.org/abs/1311.0776
    """
    bounds = list(_known(event, alpha))
    return min(bounds, default=None)


def orders_of(event: Event) -> tuple[Fraction, ...]:
    """Return the orders at which an event's divergence is what is known of it; none of most events."""
    return event.orders if isinstance(event, RenyiEvent) else ()


def _known(event: Event, alpha: Fraction) -> list[Fraction]:
    own = _own(event, alpha)
    bounds = [] if own is None else [own]
    if isinstance(
        event, PoissonEvent | AtomsEvent | GroupEvent | ParallelEvent
    ):  # their own formulas are at least as good
        return bounds
    rho, pure = event.rho, event.pure
    if not isinstance(event, _EXACT):
        rho, pure = (None if x is None else coarse(x) for x in (rho, pure))
    if rho is not None:
        bounds.append(alpha * rho)
    if pure is not None:
        bounds += [pure, _responses(pure, 2, alpha)]
    return bounds


@singledispatch
def _own(event: Event, alpha: Fraction) -> Fraction | None:
    """Return an event's own formula, if it has one here."""
    return None


@_own.register(LaplaceEvent)
def _(event: LaplaceEvent, alpha: Fraction) -> Fraction:
    """D = r + log((α + (α−1)e^(−(2α−1)r))/(2α−1))/(α−1)."""
    r, twice = event.ratio, 2 * alpha - 1
    inside = (alpha + (alpha - 1) * exp(-twice * r)) / twice
    return _above(r + (log(inside) + SLACK) / (alpha - 1))


@_own.register(DiscreteLaplaceEvent)
def _(event: DiscreteLaplaceEvent, alpha: Fraction) -> Fraction | None:
    """D = r + log((1 + v^m + (1−t)(v − v^m)/(1−v))/(1+t))/(α−1), t = e^(−1/b), v = t^(2α−1), m the shift."""
    if event.shift == 0:
        return Fraction(0)
    r, twice = event.shift / event.scale, 2 * alpha - 1
    t, v, far = exp(-1 / event.scale), exp(-twice / event.scale), exp(-twice * r)
    if t == 1 or v == 1:  # a scale beyond 10^60
        return None
    inside = (1 + far + (1 - t) * (v - far) / (1 - v)) / (1 + t)
    return _above(r + (log(inside) + SLACK * (1 + event.scale)) / (alpha - 1))


@_own.register(RandomizedResponseEvent)
def _(event: RandomizedResponseEvent, alpha: Fraction) -> Fraction:
    return _responses(event.epsilon, event.categories, alpha)


@_own.register(AtomsEvent)
def _(event: AtomsEvent, alpha: Fraction) -> Fraction | None:
    """D = log Σ p^α q^(1−α)/(α−1) over the outcomes that both laws have, in the larger of the two directions."""
    both = [(p, q) for p, q in zip(event.p, event.q, strict=True) if p and q]
    found = [_atoms(both, alpha), _atoms([(q, p) for p, q in both], alpha)]
    return None if None in found else max(x for x in found if x is not None)


@_own.register(RenyiEvent)
def _(event: RenyiEvent, alpha: Fraction) -> Fraction | None:
    return event.divergence(alpha)


@_own.register(PoissonEvent)
def _(event: PoissonEvent, alpha: Fraction) -> Fraction | None:
    """Return the binomial sum, between integer orders by interpolating (α − 1)·D; never above the unsampled."""
    bounds = [whole] if (whole := renyi_upper(event.event, alpha)) is not None else []
    low = math.floor(alpha)
    if low < _MOST_ORDER and isinstance(event.event, _SYMMETRIC):
        ends = [_sampled(event, low), _sampled(event, low + 1)]
        if ends[0] is not None and ends[1] is not None:
            part = alpha - low
            bounds.append(_above(((1 - part) * ends[0] + part * ends[1]) / (alpha - 1)))
    return min(bounds, default=None)


@lru_cache(maxsize=4096)
def _sampled(event: PoissonEvent, order: int) -> Fraction | None:
    """At least log Σ_j C(k, j)(1−q)^(k−j) q^j e^((j−1)D_j) for an integer order k, which is (k − 1)·D_k."""
    if order == 1:
        return Fraction(0)
    moments = [_moment(event.event, j) for j in range(order + 1)]
    takes, leaves = _powers(event.rate, order), _powers(1 - event.rate, order)
    total = Decimal(0)
    for j, moment in enumerate(moments):
        ways = EXACT.multiply(Decimal(math.comb(order, j)), moment)
        total = EXACT.add(total, EXACT.multiply(ways, EXACT.multiply(takes[j], leaves[order - j])))
    return log_above(total)


@lru_cache(maxsize=8192)
def _moment(event: Event, j: int) -> Decimal:
    """At least e^((j−1)D_j)."""
    if j < 2:
        return Decimal(1)
    divergence = renyi_upper(event, Fraction(j))
    return Decimal("Infinity") if divergence is None else exp_above((j - 1) * divergence)


def _powers(x: Fraction, most: int) -> list[Decimal]:
    """1, x, x², … rounded up."""
    powers = [Decimal(1)]
    for _ in range(most):
        powers.append(EXACT.multiply(powers[-1], decimal(x)))
    return powers


def _responses(epsilon: Fraction, categories: int, alpha: Fraction) -> Fraction:
    """D = log((e^(αε) + e^((1−α)ε) + k − 2)/(e^ε + k − 1))/(α−1): randomised response with k answers, rounded up.

    As ε + log((1 + e^(−(2α−1)ε) + (k−2)e^(−αε))/(1 + (k−1)e^(−ε)))/(α−1), in which nothing overflows.
    """
    if categories == 2:
        near, far = (softplus(-factor * epsilon) for factor in (2 * alpha - 1, Fraction(1)))
    else:
        categories = min(categories, 2**1000)  # fewer of them have the larger divergence
        told, other = exp(-(2 * alpha - 1) * epsilon), (categories - 2) * exp(-alpha * epsilon)
        near, far = log(1 + told + other), log(1 + (categories - 1) * exp(-epsilon))
    size = SLACK * (1 + abs(near) + abs(far))
    return _above(epsilon + (near - far + size) / (alpha - 1))


def _atoms(both: list[tuple[Fraction, Fraction]], alpha: Fraction) -> Fraction | None:
    total = Decimal(0)
    for p, q in both:
        up, down = log(p), log(q)
        size = SLACK * (alpha * (abs(up) + abs(down) + 1))
        total = EXACT.add(total, exp_above(alpha * up - (alpha - 1) * down + size))
    if total <= 1:
        return Fraction(0)
    found = log_above(total)
    return None if found is None else _above(found / (alpha - 1))


def _above(x: Fraction) -> Fraction:
    return max(short(x), Fraction(0))


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
