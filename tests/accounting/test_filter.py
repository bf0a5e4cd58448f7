from __future__ import annotations

import math
from fractions import Fraction as F
from functools import cache

import mpmath
import pytest
from mpmath import mpf

from discreet import accounting
from discreet.accounting.convert import mu_squared_for, rho_for, zcdp_epsilon
from discreet.accounting.filter import (
    EXACT,
    ORDERS,
    Charge,
    CurveFilter,
    Filter,
    RenyiFilter,
    open_filter,
    reopen_filter,
)
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
    assert zcdp_epsilon(rho * F(1001, 1000), half) > BUDGET.epsilon


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

    with pytest.raises(InvalidParameter, match="no Rényi divergence") as caught:
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


SGD = accounting.gaussian(1).poisson(F(1, 100)) * 1000
WORK = open_filter("renyi-curve", Budget(3, 1e-5, per_query=2), curve=SGD)


def test_a_curve_affords_exactly_the_work_that_it_was_taken_from() -> None:
    part = charge(SGD * 1, F(1, 10**6))
    assert WORK.cost(part)[:-1] == WORK.capacity[:-1]
    assert spend(WORK, part) == 1
    step = charge(accounting.gaussian(1).poisson(F(1, 100)), F(1, 10**6))
    assert WORK.affords(WORK.capacity, WORK.empty)
    assert not WORK.affords(WORK.capacity, WORK.cost(step))
    assert all(x * 1000 == most for x, most in zip(WORK.cost(step)[:-1], WORK.capacity[:-1], strict=True))


def test_a_curve_refuses_what_is_above_it_at_one_order_only() -> None:
    least, next_least = sorted(most / order for order, most in zip(ORDERS, WORK.capacity, strict=False))[:2]
    assert spend(WORK, charge(accounting.zcdp(least), F(1, 10))) == 1
    costs = WORK.cost(charge(accounting.zcdp(next_least), F(1, 10)))
    assert sum(cost > most for cost, most in zip(costs, WORK.capacity, strict=True)) == 1
    assert not WORK.affords(WORK.empty, costs)


def test_what_a_curve_affords_is_within_the_budget_by_the_conversion_of_its_best_order() -> None:
    assert isinstance(WORK, CurveFilter)
    half = WORK.budget.delta / 2
    with mpmath.workdps(40):
        best = min(
            curves.real(b)
            - mpmath.log(curves.real(half) * curves.real(a)) / (curves.real(a) - 1)
            + mpmath.log(1 - 1 / curves.real(a))
            for a, b in zip(ORDERS, WORK.curve, strict=True)
        )
        reported = WORK.loss((*WORK.curve, F(0))).guarantee(half).epsilon
        assert curves.real(reported) <= best * (1 + mpf(10) ** -12)
        assert reported <= WORK.budget.epsilon
    assert SGD.epsilon(float(half)) <= float(reported)  # the curve is above the truth


def test_a_curve_above_the_budget_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="above the budget's 2") as caught:
        open_filter("renyi-curve", Budget(2, 1e-5), curve=SGD)
    assert "less work" in caught.value.hint


def test_a_curve_reports_what_is_spent_and_left_soundly_and_far_better_than_one_order() -> None:
    few = accounting.gaussian(1).poisson(F(1, 100)) * 50
    c = charge(few, F(1, 10**6))
    spent = WORK.add(WORK.empty, WORK.cost(c))
    assert WORK.loss(WORK.empty) == PrivacyLoss(Composed())
    found = WORK.loss(spent).epsilon(1e-5)
    assert few.epsilon(1e-5) <= found < 1.5
    assert few.epsilon(1e-9) <= WORK.loss(spent).epsilon(1e-9) < 3
    one = open_filter("renyi", WORK.budget)
    assert found <= one.loss(one.cost(c)).epsilon(1e-5)
    assert WORK.remaining(WORK.empty) == WORK.budget
    left = WORK.remaining(spent)
    assert found < left.epsilon < WORK.budget.epsilon
    assert left.per_query == 2
    assert WORK.remaining(WORK.capacity).epsilon == 0


def test_a_curve_counts_failures_apart_and_to_half_of_delta() -> None:
    c = charge(accounting.approximate(0.001, 1e-6), F(1, 10**6))
    assert spend(WORK, c) == 5


def test_an_account_is_reopened_with_the_curve_that_was_stored_and_no_larger_one() -> None:
    assert reopen_filter("renyi-curve", WORK.budget, WORK.capacity) == WORK
    assert reopen_filter("zcdp", BUDGET, (F(5), F(1))) == open_filter("zcdp", BUDGET)
    larger = (*(b * 2 for b in WORK.capacity[:-1]), WORK.capacity[-1])
    with pytest.raises(InvalidParameter, match="above the budget"):
        reopen_filter("renyi-curve", WORK.budget, larger)
    for broken in (WORK.capacity[1:], (F(-1), *WORK.capacity[1:]), ()):
        with pytest.raises(InvalidParameter, match="one divergence for each"):
            reopen_filter("renyi-curve", WORK.budget, broken)


@pytest.mark.parametrize(("name", "curve"), [("renyi-curve", None), ("renyi", SGD), ("basic", SGD)])
def test_a_curve_goes_with_its_filter_and_with_no_other(name: str, curve: PrivacyLoss | None) -> None:
    with pytest.raises(InvalidParameter, match="curve") as caught:
        open_filter(name, BUDGET, curve=curve)
    assert "curve=" in caught.value.hint


@pytest.mark.parametrize("name", ["renyi", "zcdp", "basic", "gdp"])
def test_numeric_composition_is_no_charge_by_type(name: str) -> None:
    f, loss = open_filter(name, BUDGET), accounting.gaussian(10) * 100
    with pytest.raises(TypeError, match="no filter"):
        f.cost(loss)  # type: ignore[arg-type]  # the point of this test
    with pytest.raises(TypeError, match="made of Composed events"):
        Charge(loss, loss.guarantee(F(1, 10**6)))  # type: ignore[arg-type]  # likewise
    with pytest.raises(TypeError, match="made of Composed events"):
        Charge(loss.events, 1.0)  # type: ignore[arg-type]  # likewise
    with pytest.raises(TypeError):
        Charge.of(loss, 1e-6) + Charge.of(loss, 1e-6)  # type: ignore[operator]  # likewise


def test_a_charge_of_a_loss_is_its_guarantee_as_one_use() -> None:
    loss = accounting.gaussian(10) * 4
    assert Charge.of(loss, 1e-6) == Charge(loss.events, loss.guarantee(F(1, 10**6)))


def test_under_basic_two_plans_cost_the_sum_of_their_own_guarantees_and_never_their_joint_one() -> None:
    f, loss = open_filter("basic", BUDGET), accounting.gaussian(5) * 30
    c = Charge.of(loss, 1e-7)
    spent = f.add(f.cost(c), f.cost(c))
    assert spent == (2 * c.guarantee.epsilon, F(2, 10**7))
    assert spent[0] > (loss * 2).guarantee(F(2, 10**7)).epsilon


def test_renyi_charges_noise_by_its_own_divergence_and_affords_more_of_it() -> None:
    renyi = open_filter("renyi", BUDGET)
    for loss, pure in [
        (accounting.laplace(1), accounting.pure(1)),
        (accounting.discrete_laplace(2, 2), accounting.pure(1)),
    ]:
        assert renyi.cost(charge(loss))[0] < renyi.cost(charge(pure))[0]
    step = charge(accounting.gaussian(1).poisson(F(1, 100)), F(1, 10**6))
    assert spend(renyi, step) > 50 * spend(open_filter("zcdp", BUDGET), step)


MENU = [F(1, 2), F(1, 5), F(1, 20)]


def most_that_an_adaptive_analyst_gets(f: Filter, room: int = 1) -> float:
    """The largest Σ (P − e^ε Q)₊ over all strategies of eleven randomised responses from a menu, by recursion.

    The strategies see all earlier answers; the filter's capacity is taken `room` times.
    """
    costs = [f.cost(charge(accounting.pure(e))) for e in MENU]

    @cache
    def fits(uses: tuple[int, ...]) -> bool:
        spent = [sum(n * x for n, x in zip(uses, sums, strict=True)) for sums in zip(*costs, strict=True)]
        return all(x <= room * most for x, most in zip(spent, f.capacity, strict=True))

    @cache
    def best(uses: tuple[int, ...], loss: F) -> float:
        value = max(0.0, 1 - math.exp(float(f.budget.epsilon - loss)))
        for i, e in enumerate(MENU):
            more = tuple(n + (i == k) for k, n in enumerate(uses))
            if sum(more) <= 11 and fits(more):
                p = 1 / (1 + math.exp(-float(e)))
                value = max(value, p * best(more, loss + e) + (1 - p) * best(more, loss - e))
        return value

    return best((0,) * len(MENU), F(0))


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["basic", "zcdp", "renyi", "renyi-curve"])
def test_the_best_adaptive_analyst_stays_within_the_budget(name: str) -> None:
    curve = accounting.zcdp("0.09") if name == "renyi-curve" else None
    f = open_filter(name, Budget(1, F(1, 20)), curve=curve)
    assert most_that_an_adaptive_analyst_gets(f) <= 0.05
    assert most_that_an_adaptive_analyst_gets(f, room=8) > 0.05


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["basic", "zcdp", "gdp", "renyi", "renyi-curve"])
def test_long_costs_are_rounded_up_by_little_and_short_ones_not_at_all(name: str) -> None:
    """What the filter's own formula gives is the truth here, and the rounding is around it."""
    curve = accounting.gaussian(8) * 3 if name == "renyi-curve" else None
    f = open_filter(name, BUDGET, curve=curve)
    short = longer = 0
    for k in range(1, 60):
        sigma = F(200 + k, 7)
        c = charge(PrivacyLoss(Composed([GaussianEvent(1 / sigma**2)])), F(1, 10**9 + k))
        for exact, added, most in zip(f._cost(c), f.cost(c), f.capacity, strict=True):
            assert exact <= added < exact + F(1, 10**60)
            assert (added <= most) == (exact <= most)
            assert EXACT % added.denominator == 0 or added == most
            assert added == exact or EXACT % exact.denominator
            short, longer = short + (added == exact), longer + (added != exact)
    assert longer > 20
    spent = f.empty
    for n in range(10**9, 10**9 + 300):
        c = charge(PrivacyLoss(Composed([GaussianEvent(F(1, n))])), F(1, n))
        spent = f.add(spent, f.cost(c))
    assert max(len(str(x)) for x in spent) < 1500


def test_a_cost_that_is_just_the_capacity_still_fits() -> None:
    most = F(1, 10**9 + 7)
    f = open_filter("basic", Budget(most))
    c = Charge(Composed([ApproximateEvent(most, F(0))]), Approximate(most))
    assert f.cost(c) == (most, F(0))
    assert spend(f, c) == 1
    half = Charge(Composed([ApproximateEvent(most / 2, F(0))]), Approximate(most / 2))
    assert spend(f, half) == 1  # each is rounded up by less than 1e-60


def test_thirds_tenths_and_floats_are_added_as_they_are() -> None:
    for x in (F(1, 3), F("0.1"), F(0.1), F(7, 997 * 991), F("1e-30"), F(5, 999)):
        f = open_filter("basic", Budget(3))
        assert f.cost(Charge(Composed([ApproximateEvent(x, F(0))]), Approximate(x))) == (x, F(0))
