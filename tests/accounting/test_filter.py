from __future__ import annotations

from fractions import Fraction as F

import mpmath
import pytest
from mpmath import mpf

from discreet import accounting
from discreet.accounting.convert import mu_squared_for, rho_for
from discreet.accounting.filter import Charge, Filter, RenyiFilter, open_filter
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.event import ApproximateEvent, Composed, Event, GaussianEvent, ZCDPEvent
from discreet.privacy.guarantee import Approximate, Budget
from discreet.privacy.pair import Pair
from tests.privacy import curves

BUDGET = Budget(3, 1e-6, per_query=2)
both = pytest.mark.parametrize("name", ["basic", "zcdp"])


def charge(loss: PrivacyLoss, delta: F = F(0)) -> Charge:
    return Charge(loss.events, loss.guarantee(delta))


def spend(f: Filter, c: Charge) -> int:
    """How often a charge is afforded."""
    spent, n = f.empty, 0
    while f.affords(spent, f.cost(c)):
        spent, n = f.add(spent, f.cost(c)), n + 1
    return n


def test_basic_adds_exact_fractions_to_the_last_one() -> None:
    f = open_filter("basic", Budget(3, 1e-6))
    assert spend(f, charge(accounting.pure(0.1))) == 30  # in floats it would be 29
    assert spend(f, charge(accounting.approximate(0.01, 1e-7), F(1, 10**7))) == 10


def test_basic_charges_the_guarantee_as_composed_inside_the_plan() -> None:
    f = open_filter("basic", BUDGET)
    c = charge(accounting.gaussian(10) * 5, F(1, 10**7))
    assert f.cost(c) == (c.guarantee.epsilon, F(1, 10**7))


def test_zcdp_affords_many_more_small_charges_than_basic() -> None:
    small = charge(accounting.pure(0.01))
    basic, zcdp = (spend(open_filter(name, BUDGET), small) for name in ("basic", "zcdp"))
    assert basic == 300
    assert zcdp == rho_for(F(3), F(1, 2 * 10**6)) // F(1, 20000)
    assert zcdp > 10 * basic


def test_what_zcdp_affords_is_within_the_budget() -> None:
    f = open_filter("zcdp", BUDGET)
    rho, half = f.capacity
    everything = PrivacyLoss(Composed([ZCDPEvent(rho), ApproximateEvent(F(0), half)]))
    assert everything.guarantee(BUDGET.delta).epsilon <= BUDGET.epsilon
    more = PrivacyLoss(Composed([ZCDPEvent(rho * F(1001, 1000))]))
    assert F(max(more._closed_epsilons(half))) > BUDGET.epsilon


def test_zcdp_counts_failures_apart_and_to_half_of_delta() -> None:
    f = open_filter("zcdp", BUDGET)
    c = charge(accounting.approximate(0.001, 1e-7), F(1, 10**7))
    assert f.cost(c) == (F(1, 2 * 10**6), F(1, 10**7))
    assert spend(f, c) == 5


@both
def test_no_order_of_charges_exceeds_the_capacity(name: str) -> None:
    f = open_filter(name, BUDGET)
    charges = [charge(accounting.pure(F(k, 7))) for k in range(1, 6)] + [
        charge(accounting.gaussian(F(k, 2)), F(1, 10**8)) for k in range(3, 9)
    ]
    spent = f.empty
    for c in charges * 5:
        cost = f.cost(c)
        if f.affords(spent, cost):
            spent = f.add(spent, cost)
        else:
            assert any(a + b > most for a, b, most in zip(spent, cost, f.capacity, strict=True))
        assert all(a <= most for a, most in zip(spent, f.capacity, strict=True))
    assert f.loss(spent).guarantee(BUDGET.delta).epsilon <= BUDGET.epsilon


@both
def test_what_is_spent_is_reported_soundly(name: str) -> None:
    f = open_filter(name, BUDGET)
    c = charge(accounting.laplace(5) * 4)
    spent = f.add(f.empty, f.cost(c))
    reported, true = f.loss(spent), PrivacyLoss(c.events)
    assert reported.epsilon(1e-6) >= true.epsilon(1e-6) * (1 - 1e-9)
    assert f.loss(f.empty) == PrivacyLoss(Composed())
    if name == "basic":
        assert reported == accounting.pure(0.8)
    else:
        assert reported == accounting.zcdp(0.08)


@both
def test_remaining_starts_as_the_budget_and_falls_to_nothing(name: str) -> None:
    f = open_filter(name, BUDGET)
    assert f.remaining(f.empty) == BUDGET
    spent, last = f.empty, BUDGET
    c = charge(accounting.approximate(0.1, 1e-8), F(1, 10**8))
    for _ in range(20):
        spent = f.add(spent, f.cost(c))
        left = f.remaining(spent)
        assert left.epsilon < last.epsilon
        assert left.delta < last.delta
        assert left.per_query == 2
        last = left
    assert f.remaining(f.capacity).epsilon == 0


def test_remaining_under_basic_is_the_exact_difference() -> None:
    f = open_filter("basic", BUDGET)
    assert f.remaining((F(1, 10), F(1, 10**7))) == Budget(2.9, 9e-7, per_query=2)


def test_a_filter_with_a_free_charge_affords_it_even_when_all_is_spent() -> None:
    for name in ("basic", "zcdp", "renyi"):
        f = open_filter(name, BUDGET)
        assert f.affords(f.capacity, f.cost(Charge(Composed(), Approximate(F(0)))))
        assert not f.affords(f.capacity, f.cost(charge(accounting.pure("1e-300"))))


def test_a_budget_of_zero_affords_nothing() -> None:
    f = open_filter("basic", Budget(0))
    assert spend(f, charge(accounting.pure("1e-9"))) == 0


def test_gdp_affords_gaussian_noise_up_to_the_analytic_calibration() -> None:
    f = open_filter("gdp", BUDGET)
    (most,) = f.capacity
    n = 100
    fits = charge(PrivacyLoss(Composed([GaussianEvent(most / n)])), BUDGET.delta)
    assert spend(f, fits) == n
    over = charge(PrivacyLoss(Composed([GaussianEvent(most / n * F(10**12 + 1, 10**12))])), BUDGET.delta)
    assert spend(f, over) == n - 1
    with mpmath.workdps(50):
        assert gaussian_delta(most) <= curves.real(BUDGET.delta)
        assert gaussian_delta(most * (1 + F(1, 10**9))) > curves.real(BUDGET.delta)
    assert PrivacyLoss(Composed([GaussianEvent(most)])).guarantee(BUDGET.delta).epsilon <= BUDGET.epsilon


def gaussian_delta(mu_squared: F) -> mpf:
    """Balle, Wang 2018, Theorem 8, at the budget's ε."""
    mu, e = mpmath.sqrt(curves.real(mu_squared)), curves.real(BUDGET.epsilon)
    return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)


def test_gdp_affords_more_gaussian_noise_than_zcdp() -> None:
    noise = charge(accounting.gaussian(40), BUDGET.delta)
    zcdp, gdp = (spend(open_filter(name, BUDGET), noise) for name in ("zcdp", "gdp"))
    assert gdp == mu_squared_for(BUDGET.epsilon, BUDGET.delta) // F(1, 1600)
    assert gdp > zcdp


@pytest.mark.parametrize(
    "loss", [accounting.pure(1), accounting.zcdp(1), accounting.gaussian(9) + accounting.approximate(0, 1e-8)]
)
def test_gdp_refuses_what_has_no_mu(loss: PrivacyLoss) -> None:
    with pytest.raises(InvalidParameter, match="not Gaussian") as caught:
        open_filter("gdp", BUDGET).cost(charge(loss, BUDGET.delta))
    assert "zcdp" in caught.value.hint


def test_gdp_reports_what_is_spent_and_left_by_converting_mu() -> None:
    f = open_filter("gdp", BUDGET)
    spent = f.add(f.empty, f.cost(charge(accounting.gaussian(10) * 4, BUDGET.delta)))
    assert f.loss(f.empty) == PrivacyLoss(Composed())
    assert f.loss(spent) == accounting.gdp(0.2)
    assert f.remaining(f.empty) == BUDGET
    left = f.remaining(spent)
    assert 0 < left.epsilon < BUDGET.epsilon
    assert (left.delta, left.per_query) == (BUDGET.delta, BUDGET.per_query)
    assert f.remaining(f.capacity).epsilon == 0


def test_renyi_affords_zcdp_up_to_what_its_order_converts_to_the_budget() -> None:
    f = open_filter("renyi", BUDGET)
    assert isinstance(f, RenyiFilter)
    n, (most, half) = 100, f.capacity
    assert half == BUDGET.delta / 2
    rho = most / f.order / n
    assert spend(f, charge(accounting.zcdp(rho), BUDGET.delta)) == n
    assert spend(f, charge(accounting.zcdp(rho * F(10**12 + 1, 10**12)), BUDGET.delta)) == n - 1
    plain = rho_for(BUDGET.epsilon, half)
    assert plain * (1 - F(1, 10**7)) < most / f.order <= plain * (1 + F(1, 10**10))
    assert f.loss(f.capacity).guarantee(BUDGET.delta).epsilon <= BUDGET.epsilon


def test_renyi_affords_more_pure_charges_than_zcdp() -> None:
    big, small = charge(accounting.pure("0.5")), charge(accounting.pure(0.01))
    zcdp, renyi = (open_filter(name, BUDGET) for name in ("zcdp", "renyi"))
    assert spend(renyi, big) > spend(zcdp, big)
    assert spend(renyi, small) >= spend(zcdp, small)


def test_renyi_counts_failures_apart_and_to_half_of_delta() -> None:
    c = charge(accounting.approximate(0.001, 1e-7), F(1, 10**7))
    assert spend(open_filter("renyi", BUDGET), c) == 5


def test_renyi_reports_what_is_spent_and_left_soundly() -> None:
    f = open_filter("renyi", BUDGET)
    c = charge(accounting.laplace(5) * 4)
    spent = f.add(f.empty, f.cost(c))
    assert f.loss(f.empty) == PrivacyLoss(Composed())
    assert f.loss(spent).epsilon(1e-6) >= PrivacyLoss(c.events).epsilon(1e-6)
    assert f.remaining(f.empty) == BUDGET
    left = f.remaining(spent)
    assert 0 < left.epsilon < BUDGET.epsilon
    assert left.per_query == BUDGET.per_query
    assert f.remaining(f.capacity).epsilon == 0


def test_renyi_refuses_an_event_without_a_divergence() -> None:
    class Unknown(Event):
        pure = None
        rho = None

        def pair(self) -> Pair:
            raise AssertionError

    with pytest.raises(InvalidParameter, match="without a Rényi divergence") as caught:
        open_filter("renyi", BUDGET).cost(Charge(Composed([Unknown()]), Approximate(F(1))))
    assert "basic" in caught.value.hint


@pytest.mark.parametrize("name", ["x", "", "ZCDP"])
def test_other_names_are_refused_and_the_known_ones_are_named(name: str) -> None:
    with pytest.raises(InvalidParameter, match="not known") as caught:
        open_filter(name, BUDGET)
    assert "'basic', 'zcdp', 'gdp' or 'renyi'" in caught.value.hint


@pytest.mark.parametrize("name", ["zcdp", "gdp", "renyi"])
def test_all_but_basic_need_a_delta(name: str) -> None:
    with pytest.raises(InvalidParameter, match="delta above 0") as caught:
        open_filter(name, Budget(3))
    assert "basic" in caught.value.hint
