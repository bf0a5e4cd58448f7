"""Rényi curves against the conversion at 55 digits, and against laws whose divergences are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction as F

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from discreet.errors import InvalidParameter
from discreet.privacy.event import RenyiEvent
from discreet.privacy.pair import ACCURACY, FLOOR
from tests.privacy import curves
from tests.privacy.curves import exactly, real

ORDERS = tuple(F(n, 4) for n in (5, 6, 8, 12, 16, 32, 64, 128, 256))
X = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)


@exactly
def converted(orders: Sequence[F], divergences: Sequence[F], epsilon: float) -> mpf:
    """Canonne, Kamath, Steinke 2020, Proposition 12: the least over the orders."""
    x = real(epsilon)
    best = mpf(1)
    for a, t in zip(orders, divergences, strict=True):
        alpha, tau = real(a), real(t)
        best = min(best, mpmath.exp((alpha - 1) * (tau - x)) * (1 - 1 / alpha) ** alpha / (alpha - 1))
    return best


@exactly
def response(epsilon: F, order: F) -> mpf:
    """The divergence of randomised response, a sum of two terms."""
    alpha, p = real(order), 1 / (1 + mpmath.exp(-real(epsilon)))
    moment = p**alpha * (1 - p) ** (1 - alpha) + (1 - p) ** alpha * p ** (1 - alpha)
    return mpmath.log(moment) / (alpha - 1)


def gaussian(mu_squared: F) -> RenyiEvent:
    return RenyiEvent(ORDERS, tuple(a * mu_squared / 2 for a in ORDERS))


def at(event: RenyiEvent, epsilon: float) -> F:
    return F(float(event.pair().delta(np.array([epsilon]))[0]))


@pytest.mark.parametrize("event", [gaussian(F(1)), gaussian(F(1, 100)), RenyiEvent((F(10**6),), (F(3),))], ids=repr)
def test_the_curve_is_the_best_conversion_of_any_order(event: RenyiEvent) -> None:
    for x in X:
        true, found = converted(event.orders, event.divergences, x), at(event, x)
        assert found >= true * (1 - F(ACCURACY)) - F(FLOOR)
        assert found <= true * (1 + F(1, 10**7)) + F(FLOOR)
        more = converted(event.orders, [t * F(101, 100) for t in event.divergences], x)
        assert found < more or true == 1 or more < F(FLOOR)


def test_a_use_that_meets_the_divergences_lies_below_the_curve_in_both_directions() -> None:
    for mu_squared in (F(1), F(1, 16)):
        event = gaussian(mu_squared)
        assert event.pair().reverse() == event.pair()
        for x in (-3.0, -1.0, -0.1, *X):
            assert curves.gaussian(mu_squared, x) <= at(event, x) * (1 + F(ACCURACY)) + F(FLOOR)
    # It is no vacuous bound either: twice the noise would break it.
    assert curves.gaussian(F(4), 2.0) > at(gaussian(F(1)), 2.0)


def test_orders_between_are_bounded_by_the_chord_and_never_below_the_truth() -> None:
    event = RenyiEvent(ORDERS, tuple(response(F(1), a) * (1 + F(1, 10**40)) for a in ORDERS))
    for order in (F(11, 10), F(7, 5), F(5, 2), F(7, 2), F(10), F(50), F(64)):
        true, bound = response(F(1), order), event.divergence(order)
        assert bound is not None
        assert true <= bound <= event.divergences[-1]
        assert bound <= min(t for a, t in zip(ORDERS, event.divergences, strict=True) if a >= order)
    assert event.divergence(F(65)) is None
    between = event.divergence(F(7, 2))
    assert between is not None
    assert between < event.divergences[ORDERS.index(F(4))]
    with pytest.raises(InvalidParameter, match="alpha"):
        event.divergence(F(1))


def test_finitely_many_orders_bound_no_epsilon_unless_nothing_is_told() -> None:
    event, nothing = gaussian(F(1)), RenyiEvent((F(2),), (F(0),))
    assert event.pure is event.rho is None
    assert event.pair().epsilon_max == math.inf
    assert nothing.pure == nothing.rho == 0
    assert nothing.divergence(F(100)) == 0
    assert np.array_equal(nothing.pair().delta(np.array([0.0, 1.0])), [0.0, 0.0])
    assert nothing.pair().epsilon_max == 0


@pytest.mark.parametrize(
    ("orders", "divergences"),
    [
        ((), ()),
        ((F(2),), (F(1), F(2))),
        ((F(1),), (F(1),)),
        ((F(3), F(2)), (F(1), F(1))),
        ((F(2), F(2)), (F(1), F(1))),
        ((F(10**6 + 1),), (F(1),)),
        ((F(2),), (F(-1),)),
        ((2.0,), (F(1),)),
        ((F(2),), (1,)),
        ([F(2)], [F(1)]),
    ],
)
def test_a_curve_that_is_none_is_refused(orders: tuple[F, ...], divergences: tuple[F, ...]) -> None:
    with pytest.raises(InvalidParameter):
        RenyiEvent(orders, divergences)
