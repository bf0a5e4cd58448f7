"""Rényi bounds against their formulas at 400 digits and closed forms of other laws."""

from __future__ import annotations

from fractions import Fraction as F

import mpmath
import pytest
from mpmath import mpf

from discreet.accounting.renyi import order_for, renyi_epsilon, renyi_for, renyi_upper
from discreet.privacy.event import ApproximateEvent, Event, GaussianEvent, LaplaceEvent, ZCDPEvent
from tests.privacy import curves

ORDERS = [F(10001, 10000), F(3, 2), F(2), F(9356, 1000), F(10**6)]


def randomised_response(epsilon: F, alpha: F) -> mpf:
    """Mironov 2017, Proposition 5."""
    e, a = curves.real(epsilon), curves.real(alpha)
    p, q = 1 / (1 + mpmath.exp(-e)), 1 / (1 + mpmath.exp(e))
    return mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)


def laplace(ratio: F, alpha: F) -> mpf:
    """Mironov 2017, Proposition 6."""
    r, a = curves.real(ratio), curves.real(alpha)
    up, down = mpmath.exp((a - 1) * r), mpmath.exp(-a * r)
    return mpmath.log(a / (2 * a - 1) * up + (a - 1) / (2 * a - 1) * down) / (a - 1)


@pytest.mark.parametrize("alpha", ORDERS)
@pytest.mark.parametrize("epsilon", [F(1, 10**9), F(1, 100), F(1, 3), F(1), F(5), F(300)])
def test_a_pure_use_has_the_divergence_of_randomised_response_rounded_up(epsilon: F, alpha: F) -> None:
    with mpmath.workdps(400):
        true = randomised_response(epsilon, alpha)
        found = renyi_upper(ApproximateEvent(epsilon), alpha)
        assert found is not None
        assert true <= curves.real(found) <= true * (1 + mpf(10) ** -15)
        least = renyi_upper(LaplaceEvent(epsilon), alpha)
        assert least is not None
        assert curves.real(least) >= laplace(epsilon, alpha)


def test_extreme_pure_uses_stay_between_nothing_and_their_epsilon() -> None:
    for epsilon in (F(0), F(1, 10**300), F(10**390)):
        for alpha in ORDERS:
            found = renyi_upper(ApproximateEvent(epsilon, F(1, 10)), alpha)
            assert found is not None
            assert found > 0 if epsilon else found == 0
            assert found <= epsilon


@pytest.mark.parametrize("event", [ZCDPEvent(F(1, 7)), GaussianEvent(F(2, 7))])
def test_other_uses_have_order_times_rho(event: Event) -> None:
    assert renyi_upper(event, F(7, 2)) == F(1, 2)


@pytest.mark.parametrize("delta", [F(9, 10), F(1, 10**6), F(1, 10**100)])
@pytest.mark.parametrize("epsilon", [F(1, 10**5), F(1), F(20)])
def test_a_divergence_converts_as_the_theorem_says_rounded_safely(epsilon: F, delta: F) -> None:
    with mpmath.workdps(80):
        for alpha in (*ORDERS, order_for(epsilon, delta)):
            a, e = curves.real(alpha), curves.real(epsilon)
            true = e + mpmath.log(curves.real(delta) * a) / (a - 1) - mpmath.log(1 - 1 / a)
            found = renyi_for(alpha, epsilon, delta)
            if true < 0:
                assert found == 0
                continue
            size = 1 + mpmath.fabs(e - true) + e
            assert true - size * mpf(10) ** -18 <= curves.real(found) <= true
            back = renyi_epsilon(alpha, found, delta)
            assert epsilon * (1 - F(1, 10**15)) <= back <= epsilon
            above = curves.real(renyi_epsilon(alpha, F(3), delta))
            assert above >= max(mpf(0), mpf(3) - (true - e))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(F(1), F(1, 10**6)), (F(1, 10), F(1, 10**12)), (F(50), F(1, 3))]
)
def test_the_order_affords_as_much_rho_as_any(epsilon: F, delta: F) -> None:
    best = order_for(epsilon, delta)
    most = renyi_for(best, epsilon, delta) / best
    grid = [1 + F(k, 64) for k in range(1, 640)] + [F(k) for k in range(11, 1000, 3)]
    assert all(renyi_for(a, epsilon, delta) / a <= most * (1 + F(1, 10**6)) for a in grid)
