from __future__ import annotations

from fractions import Fraction as F

import pytest

from discreet import accounting
from discreet.accounting.convert import rho_for
from discreet.accounting.filter import Charge, Filter, open_filter
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.event import ApproximateEvent, Composed, ZCDPEvent
from discreet.privacy.guarantee import Approximate, Budget

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
    for name in ("basic", "zcdp"):
        f = open_filter(name, BUDGET)
        assert f.affords(f.capacity, f.cost(Charge(Composed(), Approximate(F(0)))))
        assert not f.affords(f.capacity, f.cost(charge(accounting.pure("1e-300"))))


def test_a_budget_of_zero_affords_nothing() -> None:
    f = open_filter("basic", Budget(0))
    assert spend(f, charge(accounting.pure("1e-9"))) == 0


@pytest.mark.parametrize(
    ("name", "says"), [("renyi", "not available yet"), ("gdp", "not available yet"), ("x", "known")]
)
def test_other_names_are_refused_and_the_two_are_named(name: str, says: str) -> None:
    with pytest.raises(InvalidParameter, match=says) as caught:
        open_filter(name, BUDGET)
    assert "'basic' or 'zcdp'" in caught.value.hint


def test_zcdp_needs_a_delta() -> None:
    with pytest.raises(InvalidParameter, match="delta above 0") as caught:
        open_filter("zcdp", Budget(3))
    assert "basic" in caught.value.hint
