from __future__ import annotations

import copy
import importlib
import math
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction as F
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest

from discreet import accounting
from discreet.accounting import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.event import Composed, DiscreteLaplaceEvent, GaussianEvent, LaplaceEvent
from discreet.privacy.guarantee import Approximate
from discreet.privacy.parallel import ParallelEvent
from discreet.privacy.unit import Relation
from tests.privacy import curves


def test_pure_losses_add_up_exactly_and_print_as_written() -> None:
    loss = accounting.pure(0.1) * 3
    assert loss.pure == F(3, 10)
    assert loss.guarantee() == Approximate(F(3, 10))
    assert loss.epsilon() == 0.3
    assert loss.delta(0.3) == 0.0
    assert repr(loss) == "PrivacyLoss: ε = 0.3 (pure)"


def test_an_approximate_loss_adds_both_parts_exactly() -> None:
    loss = accounting.approximate(0.1, 1e-7) * 3
    assert loss.failure == F(3, 10**7)
    assert loss.pure is None
    # Failures are independent: together 1 − (1 − 1e-7)³, a hair less than their sum.
    assert F(3, 10) * (1 - F(1, 10**9)) < loss.guarantee(3e-7).epsilon <= F(3, 10)
    assert 3e-7 * (1 - 2e-7) < loss.delta(0.3) <= 3e-7
    assert repr(loss) == "PrivacyLoss: ε = 0.3, δ = 3e-07"


def test_nothing_costs_nothing() -> None:
    nothing = PrivacyLoss(Composed())
    assert (nothing.epsilon(), nothing.delta(0), nothing.pure, nothing.rho) == (0.0, 0.0, F(0), F(0))
    assert nothing + accounting.pure(1) == accounting.pure(1)
    assert accounting.gaussian(1) * 0 == nothing


def test_gaussians_have_no_pure_epsilon_and_say_so() -> None:
    for loss in (accounting.gaussian(1), accounting.zcdp(0.1), accounting.gdp(1) + accounting.pure(1)):
        with pytest.raises(InvalidParameter, match="no pure ε") as caught:
            loss.epsilon()
        assert "epsilon(delta=1e-6)" in caught.value.hint


def test_a_delta_below_what_is_spent_apart_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="1e-06 of δ is spent apart"):
        (accounting.gaussian(1) + accounting.approximate(0, 1e-6)).epsilon(1e-7)
    with pytest.raises(InvalidParameter, match="no pure ε"):  # nothing is left for the conversion
        (accounting.gaussian(1) + accounting.approximate(0, 1e-6)).epsilon(1e-6)


def test_each_theorem_is_used_where_it_is_the_best() -> None:
    d = 1e-6
    # Gaussian: the closed form of the total μ.
    assert accounting.gaussian(10).__mul__(100).epsilon(d) == pytest.approx(accounting.gdp(1).epsilon(d), rel=1e-12)
    # Long and pure: inverting the moment generating function beats zCDP, which beats the sum.
    long = accounting.pure(0.01) * 1000
    assert long.epsilon(d) < 0.5 * float(long.pure or 0)
    assert long.epsilon(d) < 0.95 * accounting.zcdp(0.05).epsilon(d)
    assert curves.composed_response(F(1, 100), 1000, long.epsilon(d)) <= F(1, 10**6)
    # Short and pure: numeric beats both.
    short = accounting.pure(0.05) * 20
    assert short.epsilon(d) < 0.99
    assert curves.composed_response(F(1, 20), 20, short.epsilon(d)) <= F(1, 10**6)
    # One large pure use beside a little Gaussian noise: sum of the two theorems.
    mixed = accounting.pure(15) + accounting.gaussian(100) * 100
    assert mixed.epsilon(d) < 15 + accounting.gdp(0.1).epsilon(d) + 1e-9


def test_mixed_losses_are_never_below_their_parts() -> None:
    a, b = accounting.laplace(3) * 2, accounting.gaussian(4) * 3
    for d in (1e-3, 1e-9):
        assert max(a.epsilon(d), b.epsilon(d)) <= (a + b).epsilon(d) <= a.epsilon() + b.epsilon(d) + 1e-9
    for e in (0.1, 1.0):
        assert max(a.delta(e), b.delta(e)) <= (a + b).delta(e) <= 1.0


def test_a_laplace_and_a_gaussian_together_are_their_product_law() -> None:
    # The truth: δ(ε) = E over the Laplace loss L of the Gaussian curve at ε − L, by quadrature.
    import mpmath

    loss = PrivacyLoss(Composed([LaplaceEvent(F(1, 2)), GaussianEvent(F(1, 4))]))
    with mpmath.workdps(25):

        def gauss(x: Any) -> Any:
            mu = mpmath.mpf(1) / 2
            return mpmath.ncdf(mu / 2 - x / mu) - mpmath.exp(x) * mpmath.ncdf(-mu / 2 - x / mu)

        def middle(l: Any, e: float) -> Any:
            return mpmath.exp((l - r) / 2) / 4 * gauss(e - l)

        r = mpmath.mpf(1) / 2
        for e in (0.2, 1.0, 2.5):
            # P(L = r) = 1/2, P(L = −r) = e^−r/2, and in between the density e^((l−r)/2)/4.
            inside = mpmath.quad(partial(middle, e=e), [-r, 0, r])
            true = gauss(e - r) / 2 + mpmath.exp(-r) / 2 * gauss(e + r) + inside
            assert true <= loss.delta(e) <= true * (1 + mpmath.mpf("1e-4"))


def test_huge_counts_are_counted_and_not_enumerated() -> None:
    loss = accounting.gaussian(10**6) * 10**12
    assert loss.rho == F(1, 2)
    assert loss.epsilon(1e-6) == pytest.approx(accounting.gdp(1).epsilon(1e-6), rel=1e-12)
    assert (accounting.pure(1e-9) * 10**9).epsilon() == 1.0


def test_equal_losses_are_equal_however_they_came_about() -> None:
    a, b = accounting.pure(1), accounting.gaussian(2)
    assert a + b == b + a
    assert hash(a + b + b) == hash(2 * b + a)
    assert pickle.loads(pickle.dumps(a + b)) == copy.deepcopy(a + b) == a + b


def test_a_loss_says_in_words_what_it_is() -> None:
    assert repr(accounting.gaussian(2)) == "PrivacyLoss: μ = 0.5 (Gaussian: ε = 2.254 at δ = 1e-06)"
    assert repr(accounting.zcdp("1/8")) == "PrivacyLoss: ρ = 0.125 (zCDP)"
    assert repr(accounting.zcdp("1/8") + accounting.approximate(0, 1e-6)) == (
        "PrivacyLoss: ρ = 0.125 (zCDP, apart from δ = 1e-06)"
    )


def test_the_constructors_mean_their_events() -> None:
    assert accounting.laplace(scale=2, sensitivity=3).pure == F(3, 2)
    assert accounting.gaussian(0.5).mu_squared == 4
    assert accounting.gdp("1/2").mu_squared == F(1, 4)
    assert accounting.discrete_laplace(4, 2).pure == F(1, 2)
    assert accounting.discrete_gaussian(10).rho == F(1, 200)
    assert accounting.approximate(1, 0.5).failure == F(1, 2)


NOT_NUMBERS: list[Any] = [math.nan, math.inf, True, np.True_, None, "x", "1e999999999", Decimal("NaN"), [1]]


@pytest.mark.parametrize("bad", [*NOT_NUMBERS, -1])
def test_bad_parameters_are_refused_by_every_constructor(bad: Any) -> None:
    makers: list[Any] = [
        accounting.pure,
        accounting.zcdp,
        accounting.gdp,
        accounting.laplace,
        accounting.gaussian,
        accounting.discrete_laplace,
        accounting.discrete_gaussian,
        lambda x: accounting.approximate(x, 0),
        lambda x: accounting.approximate(1, x),
        lambda x: accounting.laplace(1, x),
        lambda x: accounting.discrete_laplace(1, x),
        lambda x: accounting.discrete_gaussian(1, x),
    ]
    for make in makers:
        with pytest.raises(InvalidParameter):
            make(bad)


def test_a_scale_of_zero_is_refused() -> None:
    for make in (accounting.laplace, accounting.gaussian, accounting.discrete_laplace, accounting.discrete_gaussian):
        with pytest.raises(InvalidParameter, match="above 0"):
            make(0)


@pytest.mark.parametrize("bad", [*NOT_NUMBERS, -1e-9])
def test_bad_questions_are_refused(bad: Any) -> None:
    loss = accounting.gaussian(1)
    for ask in (loss.epsilon, loss.delta, loss.guarantee):
        with pytest.raises(InvalidParameter):
            ask(bad)
    with pytest.raises(InvalidParameter):
        loss.epsilon(1)


@pytest.mark.parametrize("bad", [-1, 1.5, True, "2", None])
def test_a_loss_is_multiplied_by_counts_only(bad: Any) -> None:
    with pytest.raises(InvalidParameter):
        accounting.pure(1) * bad


def test_a_sample_of_a_use_for_other_neighbours_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="neighbours"):
        accounting.laplace(1).fixed_size(1, 10).poisson(0.1)
    with pytest.raises(InvalidParameter, match="neighbours"):
        accounting.randomized_response(3).shuffle(1000).poisson(0.01)
    with pytest.raises(InvalidParameter, match="neighbours"):
        accounting.gaussian(1).fixed_size(1, 10) + accounting.gaussian(1).poisson(0.1)
    both = PrivacyLoss(Composed([ParallelEvent((GaussianEvent(F(1)), GaussianEvent(F(2))))]))
    with pytest.raises(InvalidParameter, match="replaced units"):
        both.fixed_size(9, 10)


def test_a_group_is_not_sampled_as_if_it_came_and_went_as_one() -> None:
    # Of three units in a sample at rate 1/10, more than one enters now and then: their mixture has δ(0) = 0.11216,
    # and the three of them entering together 0.07769.
    attempts: list[Callable[[], PrivacyLoss]] = [
        lambda: accounting.laplace(1).group(3).poisson(0.1),
        lambda: accounting.laplace(1).group(3).fixed_size(1, 10),
        lambda: accounting.laplace(1).group(3).shuffle(10),
        lambda: (accounting.gaussian(1).group(3) * 2).poisson(0.1),
    ]
    for sampled in attempts:
        with pytest.raises(InvalidParameter, match="groups of 3 units"):
            sampled()
    assert accounting.laplace(1).poisson(0.1).group(3).delta(0) >= 0.11216


def test_a_vector_is_not_grouped_number_by_number() -> None:
    released = PrivacyLoss(Composed([(DiscreteLaplaceEvent(1, F(2)), 3)]))
    with pytest.raises(InvalidParameter, match="released together"):
        released.group(2)
    assert (accounting.discrete_laplace(2) * 3).group(2).pure == 3
    assert PrivacyLoss(Composed([(GaussianEvent(F(1)), 3)])).group(2).mu_squared == 12


def test_a_divergence_counts_masses_that_no_curve_would_show() -> None:
    p, q = F("1e-305"), F("1e-325")
    loss = accounting.from_pmfs([p, 1 - p], [q, 1 - q])
    alpha = 40
    with mpmath.workdps(60):
        truth = mpmath.log(mpmath.mpf(10) ** (-305 * alpha - 325 * (1 - alpha)) + 1) / (alpha - 1)
    assert truth * (1 - mpmath.mpf("1e-9")) <= loss.rdp(alpha) <= truth * (1 + mpmath.mpf("1e-9"))


def test_a_loss_says_what_answered_and_for_whom() -> None:
    text = (accounting.gaussian(1).poisson(0.01) * 1000).explain(1e-5)
    assert "contour inversion" in text
    assert "Theorem 10" in text
    assert "add-remove" in text
    assert "those that the uses were derived for" in accounting.pure(1).explain().lower()


def test_disjoint_parts_cost_the_largest_of_them() -> None:
    small, large, other = accounting.laplace(2), accounting.laplace(1), accounting.gaussian(3)
    assert accounting.parallel(small, large).epsilon(1e-6) == large.epsilon(1e-6)
    both = large.max(other)
    assert both.epsilon(1e-6) == max(large.epsilon(1e-6), other.epsilon(1e-6))
    assert (both + small).epsilon(1e-6) == max((large + small).epsilon(1e-6), (other + small).epsilon(1e-6))
    assert both.relation is Relation.ADD_REMOVE
    with pytest.raises(InvalidParameter, match="largest of 2"):
        _ = both.events
    assert both.tradeoff(0.1) == min(large.tradeoff(0.1), other.tradeoff(0.1))


def test_what_a_class_of_uses_loses_is_bracketed_by_one_of_its_members() -> None:
    lower, upper = (accounting.zcdp(F(1, 8)) * 4).bounds(1e-6)
    member = (accounting.gaussian(2) * 4).epsilon(1e-6)  # μ² = 1/4 is ρ = 1/8
    assert member * (1 - 1e-6) < lower <= member < upper
    lower, upper = (accounting.exponential(1) * 10).bounds(1e-6)
    member = (accounting.pure(0.5) * 10).epsilon(1e-6)
    assert member * (1 - 1e-6) < lower <= member < upper
    assert accounting.zcdp(F(1, 8)).poisson(0.1).bounds(1e-6)[0] > 0
    assert accounting.random_allocation(1, 10).bounds(1e-5)[0] == 0  # none is known


def test_no_module_of_the_package_takes_the_place_of_a_name_that_it_offers() -> None:
    offered = [name for name in vars(accounting) if not name.startswith("_")]
    callables = [name for name in offered if callable(getattr(accounting, name))]
    for module in pkgutil.iter_modules(accounting.__path__):
        importlib.import_module(f"discreet.accounting.{module.name}")
    assert [name for name in callables if not callable(getattr(accounting, name))] == []
    assert {"renyi", "zcdp", "gdp", "parallel", "calibrate"} <= set(callables)


def test_two_given_laws_have_an_order_unless_they_are_mirror_images() -> None:
    p, q = ["0.9", "0.09", "0.01"], ["0.5", "0.25", "0.25"]
    with_unit, without = accounting.from_pmfs(p, q), accounting.from_pmfs(q, p)
    assert with_unit.relation is without.relation is Relation.ADD_REMOVE
    assert accounting.from_pmfs(["0.75", "0.25"], ["0.25", "0.75"]).relation is None
    # q being the law with the unit, a sample of it costs far more: its rare outcome is the telling one.
    assert with_unit.poisson(0.1).epsilon(1e-3) < 0.1
    assert without.poisson(0.1).epsilon(1e-3) > 1.19
    either = accounting.from_pmfs(p, q, relation="replace")
    assert either == accounting.from_pmfs(p, q, relation=Relation.REPLACE)
    assert either.relation is Relation.REPLACE
    assert either.epsilon(1e-3) == max(with_unit.epsilon(1e-3), without.epsilon(1e-3))
    with pytest.raises(InvalidParameter, match="neighbours"):
        either.poisson(0.1)


def test_replaced_units_may_have_two_laws_in_opposite_orders() -> None:
    p, q = [F(701, 1000), F(27, 100), F(29, 1000)], [F(265, 1000), F(0), F(735, 1000)]
    ratio = F(12.0855)  # e^2.492 is a little less: the true δ there is a little more
    true = sum(max(p[i] * q[j] - ratio * q[i] * p[j], F(0)) for i in range(3) for j in range(3))
    assert (accounting.from_pmfs(p, q, relation="replace") * 2).delta("2.492") > true > F(69, 100)
    assert (accounting.from_pmfs(p, q) * 2).delta("2.492") < true  # which is for one order only


def test_a_rate_next_to_one_is_taken_for_one() -> None:
    tiny = F(1, 10**200)
    rare = accounting.from_pmfs([F(1, 2), F(1, 2) - tiny, tiny], [F(45, 100), F(45, 100), F(1, 10)])
    whole = (accounting.gaussian("0.1") * 2 + rare).epsilon("0.100001")
    nearly = (accounting.gaussian("0.1").poisson(1 - F(1, 10**60)) * 2 + rare).epsilon("0.100001")
    assert nearly == pytest.approx(whole, rel=1e-9)


def test_so_many_uses_that_tiny_leaks_add_up_are_not_free() -> None:
    leak = F(1, 10**301)
    loss = accounting.from_pmfs([leak, F(1, 2) - leak, F(1, 2)], [0, F(1, 2), F(1, 2)]) * 10**300
    assert loss.delta(0) >= 0.095
    assert (loss + accounting.discrete_gaussian(3) + accounting.laplace(1)).delta(50) >= 0.095
    with pytest.raises(InvalidParameter, match="spent apart"):
        loss.epsilon(1e-3)
    with pytest.raises(InvalidParameter, match="uses"):
        (accounting.pure(0.1) * 10**310).epsilon(1e-6)


@pytest.mark.parametrize(
    ("loss", "delta"), [(accounting.staircase(4), F(1, 10**9)), (accounting.pure("0.094"), F(1, 10**13))]
)
def test_a_reported_float_is_not_below_the_answer_when_read_as_its_decimal(loss: PrivacyLoss, delta: F) -> None:
    assert F(repr(loss.epsilon(delta))) >= loss.guarantee(delta).epsilon


def test_a_lower_bound_allows_for_the_rounding_of_parameters() -> None:
    epsilon = F(5404319552844595, 2**54)  # the float nearest 3/10, which is below it by 1.1e-17
    lower, upper = accounting.pure("0.3").bounds(epsilon=epsilon)
    with mpmath.workdps(60):
        gap = curves.real(F(3, 10) - epsilon)
        truth = -mpmath.expm1(-gap) * mpmath.exp(mpmath.mpf("0.3")) / (1 + mpmath.exp(mpmath.mpf("0.3")))
    assert lower <= truth <= upper


def test_a_sample_of_everybody_is_no_sample() -> None:
    twice = accounting.gaussian(3) * 2
    assert twice.poisson(1) == twice.fixed_size(5, 5) == twice
    assert twice.poisson(0) == twice.fixed_size(0, 5) == accounting.pure(0) * 0


def test_divergences_of_one_order_add_up() -> None:
    first, short = accounting.renyi([2, 4, 16], [0.02, 0.04, 0.16]), accounting.renyi([2, 4], [0.01, 0.02])
    delta, total = 1e-6, {2: 0.02 * 3 + 0.01 * 2, 4: 0.04 * 3 + 0.02 * 2}
    by_hand = min(
        d + (math.log(1 / delta) + (a - 1) * math.log(1 - 1 / a) - math.log(a)) / (a - 1) for a, d in total.items()
    )
    assert (first * 3 + short * 2).epsilon(delta) <= by_hand * (1 + 1e-12)


def test_a_delta_of_laws_that_floats_cannot_say_has_no_lower_bound_from_them() -> None:
    nearly = accounting.gaussian("0.9").poisson(1 - F(1, 10**17)) + accounting.gaussian(3).poisson(0.5)
    lower, upper = nearly.bounds(epsilon=5)
    truth = (accounting.gaussian("0.9") + accounting.gaussian(3).poisson(0.5)).delta(5)  # but for 1e-17 of it
    assert lower <= truth * (1 + 1e-6) and upper >= truth * (1 - 1e-6)


def test_importing_the_accountant_loads_no_engine() -> None:
    code = (
        "import sys, discreet.accounting as a; "
        "known = {m for m in sys.modules if m.startswith('discreet.')}; "
        "print(*sorted(known & {'discreet.privacy.law', 'discreet.privacy.grouping', "
        "'discreet.accounting.engines.contour'})); "
        "print(a.Odometer.__name__, a.textbook_group.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Odometer", "textbook_group"]
