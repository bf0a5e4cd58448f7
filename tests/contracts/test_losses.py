"""The laws of losses, for uses of any kind: how they compose, what amplifiers do to them, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction as F
from itertools import pairwise, permutations
from math import comb
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting import (
    PrivacyLoss,
    approximate,
    discrete_gaussian,
    discrete_laplace,
    exponential,
    from_pmfs,
    gaussian,
    gdp,
    geometric,
    laplace,
    parallel,
    permute_and_flip,
    pure,
    random_allocation,
    randomized_response,
    renyi,
    staircase,
    textbook_group,
    zcdp,
)
from discreet.errors import InvalidParameter
from discreet.privacy.event import Composed
from tests.privacy import curves

TIGHT = 1e-6  # what a router's answer may be above the least, where an engine certifies it
NOTHING = PrivacyLoss(Composed())

QUICK: list[PrivacyLoss] = [
    pure("0.1"),
    laplace(7),
    gaussian(3),
    approximate("0.05", "1e-8"),
    discrete_laplace(5, 2),
    randomized_response("0.3", 4),
    exponential("0.2"),
    zcdp("0.01"),
    gaussian(2).poisson("0.05"),
]
KINDS = st.sampled_from(QUICK)
DELTAS = st.sampled_from([F(1, 100), F(1, 10**5), F(1, 10**9)])


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(KINDS, st.integers(1, 9)), min_size=2, max_size=4), DELTAS)
def test_the_order_of_uses_does_not_matter(uses: list[tuple[PrivacyLoss, int]], delta: F) -> None:
    answers, curve = set(), set()
    for order in list(permutations(uses))[:3]:
        composed = sum((loss * n for loss, n in order), NOTHING)
        answers.add(composed.epsilon(delta + composed.failure))
        curve.add(composed.delta("0.5"))
    assert len(answers) == len(curve) == 1


@settings(max_examples=20, deadline=None)
@given(KINDS, st.integers(1, 12), DELTAS)
def test_a_multiple_is_a_sum(loss: PrivacyLoss, n: int, delta: F) -> None:
    summed = sum([loss] * n, NOTHING)
    assert summed == loss * n == n * loss
    if delta > summed.failure:
        assert summed.epsilon(delta) == (loss * n).epsilon(delta)


@settings(max_examples=20, deadline=None)
@given(KINDS, st.integers(1, 30), DELTAS)
def test_delta_and_epsilon_lead_back_in_the_safe_direction(loss: PrivacyLoss, n: int, delta: F) -> None:
    composed = loss * n
    if delta <= composed.failure:
        return
    epsilon = composed.guarantee(delta).epsilon
    back = composed.delta(epsilon)
    assert F(back) <= delta * (1 + F(1, 10**4))
    assert composed.epsilon(back) <= float(epsilon) * (1 + TIGHT) + 1e-15
    if epsilon and (composed.pure is None or epsilon < composed.pure):
        assert back > float(delta) * 0.999  # nearly tight, as the curve falls there


def test_samples_of_all_or_nothing_are_no_samples() -> None:
    for loss in QUICK:
        assert loss.poisson(1) == loss
        assert loss.poisson(0) == NOTHING
        if loss.relation is None:
            assert loss.fixed_size(8, 8) == loss
            assert loss.fixed_size(0, 8) == NOTHING
    assert gaussian(1).poisson("1/3").poisson("1/4") == gaussian(1).poisson("1/12")


@pytest.mark.parametrize("loss", [pure("0.2"), laplace(4), gaussian(2), zcdp("0.02"), gaussian(1).poisson("0.1")])
def test_a_larger_group_costs_more(loss: PrivacyLoss) -> None:
    assert loss.group(1) == loss
    costs = [loss.group(k).epsilon("1e-6") for k in (1, 2, 3, 5, 8)]
    assert all(a < b for a, b in pairwise(costs))


@pytest.mark.parametrize("k", [2, 5, 20])
def test_a_group_costs_no_more_than_the_textbook_says(k: int) -> None:
    said = textbook_group("0.1", "1e-9", k)
    assert F(approximate("0.1", "1e-9").group(k).delta(said.epsilon)) <= said.delta * (1 + F(1, 10**9))


COSTLIER: dict[str, list[PrivacyLoss]] = {
    "epsilon": [pure(x) * 4 for x in ("0.1", "0.10001", "0.2", "0.4")],
    "delta": [approximate("0.1", x) * 4 for x in ("0", "1e-8", "1e-7", "2e-7")],
    "rho": [zcdp(x) * 5 for x in ("0.001", "0.0010001", "0.002", "0.1")],
    "mu": [gdp(x) for x in ("0.01", "0.010001", "0.5", "2")],
    "laplace scale": [laplace(x) * 6 for x in (9, "8.9999", 5, 2)],
    "laplace sensitivity": [laplace(9, x) * 6 for x in (1, "1.0001", 2)],
    "discrete laplace scale": [discrete_laplace(x) * 6 for x in (9, "8.9999", 5, 2)],
    "discrete laplace shift": [discrete_laplace(9, x) * 6 for x in (0, 1, 2, 5)],
    "discrete gaussian shift": [discrete_gaussian(9, x) * 6 for x in (0, 1, 2, 5)],
    "response epsilon": [randomized_response(x, 3) * 5 for x in ("0.1", "0.10001", "0.3")],
    "categories": [randomized_response(1, x) * 5 for x in (9, 4, 3, 2)],
    "range": [exponential(x) * 5 for x in ("0.1", "0.10001", "0.3")],
    "staircase": [staircase(x, gamma="0.4") * 5 for x in ("0.1", "0.10001", "0.3")],
    "divergences": [renyi([2, 8, 32], [x, 4 * F(x), 16 * F(x)]) * 3 for x in ("0.01", "0.0101", "0.02")],
    "rate": [gaussian(2).poisson(x) * 50 for x in ("0.01", "0.010001", "0.02", "0.5")],
    "rate of laplace": [laplace(1).poisson(x) * 20 for x in ("0.01", "0.0101", "0.1")],
    "sample": [gaussian(2).fixed_size(n, 100) * 20 for n in (1, 2, 10)],
    "population": [gaussian(2).fixed_size(5, n) * 20 for n in (1000, 999, 100)],
    "users": [pure(1).shuffle(n) * 3 for n in (10**5, 10**4, 500)],
    "steps": [random_allocation(1, n) * 2 for n in (100, 99, 10)],
    "noise of steps": [random_allocation(x, 20) * 2 for x in (2, "1.999", 1)],
    "uses": [gaussian(2).poisson("0.05") * n for n in (10, 11, 100, 1000)],
    "mixed uses": [laplace(9) * n + gaussian(8) * 3 for n in (0, 1, 2, 9)],
    "k": [approximate("0.1", "1e-9").group(k) * 3 for k in (1, 2, 3)],
    "k of samples": [gaussian(2).poisson("0.05").group(k) * 3 for k in (1, 2, 3)],
}


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", COSTLIER)
def test_every_bound_rises_with_what_costs_more(name: str) -> None:
    epsilons = [loss.epsilon("1e-6") for loss in COSTLIER[name]]
    assert all(a <= b * (1 + TIGHT) for a, b in pairwise(epsilons))
    assert epsilons[0] < epsilons[-1]
    deltas = [loss.delta("0.25") for loss in COSTLIER[name]]
    assert all(a <= b * (1 + 1e-4) for a, b in pairwise(deltas))


def contains(loss: PrivacyLoss, epsilon: F, truth: F) -> None:
    lower, upper = loss.bounds(epsilon=epsilon)
    assert F(lower) <= truth <= F(upper)
    assert upper <= float(truth) * (1 + 1e-4) + 1e-299


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 60), st.integers(1, 400), st.integers(0, 300))
def test_gaussian_uses_lie_where_the_closed_form_says(n: int, noise: int, hundredths: int) -> None:
    x = F(hundredths, 100)
    loss = gaussian(F(noise, 10)) * n
    contains(loss, x, curves.gaussian(n * F(10, noise) ** 2, float(x)))


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 400), st.integers(1, 40), st.integers(0, 99))
def test_pure_uses_lie_where_the_binomial_sum_says(n: int, twentieths: int, share: int) -> None:
    size = F(twentieths, 20) / n
    x = size * n * share / 100
    lower, upper = (pure(size) * n).bounds(epsilon=x)
    truth = curves.composed_response(size, n, x)  # type: ignore[arg-type]  # any real number will do
    assert F(lower) <= truth * (1 + F(1, 10**11)) and truth <= F(upper)
    assert upper <= float(truth) * (1 + 1e-4)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 19), st.integers(1, 19), st.integers(1, 8), st.integers(0, 40))
def test_uses_of_two_laws_lie_where_enumeration_says(a: int, b: int, n: int, share: int) -> None:
    p, q = F(a, 20), F(b, 20)
    x = F(share, 10)
    lower, upper = (from_pmfs([p, 1 - p], [q, 1 - q]) * n).bounds(epsilon=x)

    def curve(s: F, t: F) -> mpmath.mpf:
        with mpmath.workdps(60):
            alpha = mpmath.exp(curves.real(x))
            terms = (
                comb(n, k) * (curves.real(s**k * (1 - s) ** (n - k)) - alpha * curves.real(t**k * (1 - t) ** (n - k)))
                for k in range(n + 1)
            )
            return sum((max(term, mpmath.mpf(0)) for term in terms), mpmath.mpf(0))

    truth = max(curve(p, q), curve(q, p))
    assert lower <= truth * (1 + mpmath.mpf(10) ** -11)
    assert truth <= upper <= truth * (1 + mpmath.mpf(10) ** -6) + mpmath.mpf(10) ** -40


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([F(1, 2), F(1), F(3)]), st.sampled_from([F(1, 100), F(1, 5), F(3, 4)]), st.integers(0, 15))
def test_one_sampled_gaussian_use_lies_where_its_densities_say(noise: F, rate: F, tenths: int) -> None:
    x = F(tenths, 10)
    loss = gaussian(noise).poisson(rate)
    contains(loss, x, curves.sampled_gaussian(1 / noise**2, rate, float(x)))


@pytest.mark.parametrize(("scale", "epsilon"), [(F(2), 0.3), (F(2), 0.9), (F(1, 2), 1.5), (F(10), 0.05)])
def test_two_laplace_uses_lie_where_quadrature_says(scale: F, epsilon: float) -> None:
    # The curve of one, averaged over the loss of the other: atoms at ±r, and r − 2x between.
    with mpmath.workdps(30):
        r, e = curves.real(1 / scale), curves.real(epsilon)

        def one(x: mpmath.mpf) -> mpmath.mpf:
            if x >= r:
                return mpmath.mpf(0)
            return -mpmath.expm1(x) if x <= -r else -mpmath.expm1((x - r) / 2)

        cuts = sorted({mpmath.mpf(0), r, *(c for c in (e / 2, e / 2 - r, r - e / 2) if 0 < c < r)})
        between = mpmath.quad(lambda t: one(e - r + 2 * t) * mpmath.exp(-t) / 2, cuts)
        truth = one(e - r) / 2 + one(e + r) * mpmath.exp(-r) / 2 + between
    lower, upper = (laplace(scale) * 2).bounds(epsilon=epsilon)
    assert lower <= truth <= upper <= truth * (1 + 1e-5)


def test_parts_cost_the_dearest_of_them_and_no_more_than_all() -> None:
    for one in QUICK:
        if one.relation is None or one == gaussian(2).poisson("0.05"):
            assert parallel(one, one).epsilon("1e-6") == one.epsilon("1e-6")
            other = laplace(5)
            both = parallel(one * 2, other)
            assert both.epsilon("1e-6") <= (one * 2 + other).epsilon("1e-6")
            assert both.epsilon("1e-6") >= max((one * 2).epsilon("1e-6"), other.epsilon("1e-6")) * (1 - TIGHT)


def test_uses_for_different_neighbours_do_not_compose() -> None:
    added, replaced = gaussian(1).poisson("0.1"), gaussian(1).fixed_size(1, 10)
    mixed: list[Callable[[], object]] = [
        lambda: added + replaced,
        lambda: replaced + added * 3,
        lambda: parallel(added, replaced),
        lambda: added.fixed_size(1, 10),
        lambda: replaced.poisson("0.1"),
        lambda: parallel(replaced, replaced),
        lambda: random_allocation(1, 9) + pure(1).shuffle(100),
    ]
    for ask in mixed:
        with pytest.raises(InvalidParameter):
            ask()


def test_nothing_is_free_whatever_is_asked() -> None:
    for nothing in (NOTHING, gaussian(1) * 0, sum([], NOTHING), gaussian(1).poisson(0) * 5):
        assert nothing.epsilon() == nothing.epsilon("1e-9") == nothing.delta(0) == nothing.delta(3) == 0
        assert nothing.bounds("1e-9") == nothing.bounds(epsilon=1) == (0, 0)
        assert nothing.rdp(2) == nothing.zcdp() == nothing.gdp() == nothing.advantage() == 0
        assert 0.75 - 1e-12 <= nothing.tradeoff("0.25") <= 0.75  # rounded down
        assert np.allclose(nothing.tradeoff(np.array([0.0, 0.5])), [1.0, 0.5], rtol=0, atol=1e-12)
        assert nothing.hockey_stick(2) == 0
        assert nothing.failure == nothing.pure == nothing.rho == nothing.mu_squared == 0
        assert "ε ≤ 0 " in nothing.explain("1e-6")
        assert nothing.group(3) == nothing.poisson("0.5") == nothing.fixed_size(1, 2) == nothing.shuffle(9) == nothing


SLIPS: tuple[Any, ...] = (
    math.nan, -math.inf, -1, "-0.5", True, None, "", "much", "1/0", "nan", "inf", b"1", 1j, [0.5], {}, object(),
    "1e999999999", 10**5000, np.True_,
)  # fmt: skip
NO_ORDERS: tuple[Any, ...] = tuple(x for x in SLIPS if not isinstance(x, str) or x != "inf")
NUMBERS: tuple[Any, ...] = (*SLIPS, math.inf, np.array([0.5, 0.5]))
COUNTS: tuple[Any, ...] = (*NUMBERS, 1.5, 2.0, "2", F(2))
LISTS: tuple[Any, ...] = (None, 1, 0.5, "0.5", [], [math.nan], [-1, 2], [True, False], ["x"], [[0.5], [0.5]], {})
RATES: tuple[Any, ...] = (*NUMBERS, 1.0000001, 2)
Maker = Callable[[Any], object]

REFUSED: list[tuple[str, Maker, tuple[Any, ...]]] = [
    ("epsilon", pure, NUMBERS),
    ("epsilon", lambda x: approximate(x, "1e-6"), NUMBERS),
    ("delta", lambda x: approximate(1, x), (*NUMBERS, 1, 1.5)),
    ("rho", zcdp, NUMBERS),
    ("mu", gdp, NUMBERS),
    ("scale", laplace, (*NUMBERS, 0)),
    ("sensitivity", lambda x: laplace(1, x), NUMBERS),
    ("noise_multiplier", gaussian, (*NUMBERS, 0)),
    ("scale", discrete_laplace, (*NUMBERS, 0)),
    ("shift", lambda x: discrete_laplace(1, x), COUNTS),
    ("sigma", discrete_gaussian, (*NUMBERS, 0)),
    ("shift", lambda x: discrete_gaussian(1, x), COUNTS),
    ("epsilon", randomized_response, NUMBERS),
    ("categories", lambda x: randomized_response(1, x), (*COUNTS, 0, 1)),
    ("epsilon", exponential, NUMBERS),
    ("epsilon", geometric, (*NUMBERS, 0)),
    ("sensitivity", lambda x: geometric(1, sensitivity=x), (*COUNTS, 0)),
    ("epsilon", staircase, (*NUMBERS, 0)),
    ("gamma", lambda x: staircase(1, gamma=x), (*(x for x in NUMBERS if x is not None), 2)),
    ("epsilon", permute_and_flip, NUMBERS),
    ("p", lambda x: from_pmfs(x, [0.5, 0.5]), (*LISTS, [0.5, 0.6], [1])),
    ("q", lambda x: from_pmfs([0.5, 0.5], x), (*LISTS, [0.5, 0.6], [1])),
    ("orders", lambda x: renyi(x, [0.1]), (*LISTS, [1], [0], [2, 3], [3, 2])),
    ("diverg", lambda x: renyi([2], x), (*LISTS, [0.1, 0.2])),
    ("noise_multiplier", lambda x: random_allocation(x, 5), (*NUMBERS, 0)),
    ("steps", lambda x: random_allocation(1, x), (*COUNTS, 0)),
    ("count", lambda x: gaussian(1) * x, COUNTS),
    ("count", lambda x: x * gaussian(1), (*SLIPS[:-1], 1.5)),
    ("rate", gaussian(1).poisson, RATES),
    ("sample", lambda x: gaussian(1).fixed_size(x, 10), (*COUNTS, 11)),
    ("population", lambda x: gaussian(1).fixed_size(1, x), (*COUNTS, 0)),
    ("users", pure(1).shuffle, (*COUNTS, 0)),
    ("k", gaussian(1).group, (*COUNTS, 0)),
    ("losses", lambda x: parallel(gaussian(1), x), (None, 1, "x", [gaussian(1)])),
    ("losses", gaussian(1).max, (None, 0, "x")),
]
ASKED = {
    "gaussian": gaussian(1),
    "laplace": laplace(2) * 3,
    "samples": gaussian(1).poisson("0.1") * 9,
    "class": zcdp("0.1") * 3,
    "part": parallel(gaussian(1), pure(1)),
    "nothing": NOTHING,
}
QUESTIONS: list[tuple[str, Callable[[PrivacyLoss], Maker], tuple[Any, ...]]] = [
    ("delta", lambda loss: loss.epsilon, (*NUMBERS, 1, 1.5)),
    ("delta", lambda loss: loss.guarantee, (*NUMBERS, 1)),
    ("delta", lambda loss: lambda x: loss.bounds(delta=x), (*NUMBERS, 1)),
    ("delta", lambda loss: loss.explain, (*NUMBERS, 1)),
    ("epsilon", lambda loss: loss.delta, NUMBERS),
    ("epsilon", lambda loss: lambda x: loss.bounds(epsilon=x), NUMBERS),
    ("alpha", lambda loss: loss.rdp, (*NO_ORDERS, 0, 1, 0.5)),
    ("alpha", lambda loss: loss.hockey_stick, NUMBERS),
    ("alpha", lambda loss: loss.tradeoff, (*SLIPS, 1.0000001, 2, np.array([2.0]))),
]  # fmt: skip


def refuses(name: str, make: Maker, bad: tuple[Any, ...]) -> None:
    for x in bad:
        with pytest.raises(InvalidParameter) as refusal:
            make(x)
        assert name in str(refusal.value), (name, repr(x)[:40])


@pytest.mark.parametrize(("name", "make", "bad"), REFUSED, ids=[f"{i}-{r[0]}" for i, r in enumerate(REFUSED)])
def test_what_is_no_parameter_is_refused_by_its_name(name: str, make: Maker, bad: tuple[Any, ...]) -> None:
    refuses(name, make, bad)


@pytest.mark.parametrize("loss", ASKED)
@pytest.mark.parametrize(("name", "ask", "bad"), QUESTIONS, ids=[f"{i}-{q[0]}" for i, q in enumerate(QUESTIONS)])
def test_what_is_no_question_is_refused_by_its_name(
    loss: str, name: str, ask: Callable[[PrivacyLoss], Maker], bad: tuple[Any, ...]
) -> None:
    refuses(name, ask(ASKED[loss]), bad)


def test_what_is_no_loss_is_not_added() -> None:
    for other in (1, None, "x", 0.5):
        with pytest.raises(TypeError):
            gaussian(1) + other  # type: ignore[operator]  # what a caller may slip
    with pytest.raises(InvalidParameter, match="parts"):
        parallel()
    with pytest.raises(InvalidParameter, match="delta or an epsilon"):
        gaussian(1).bounds()


def test_a_delta_of_nothing_or_nearly_so_is_refused_where_no_epsilon_is_known() -> None:
    for loss in (gaussian(1), gaussian(1) * 3 + pure(1), zcdp("0.1"), gaussian(1).poisson("0.1") * 5, renyi([2], [1])):
        for delta in (0, "1e-300", 5e-324, "1e-390"):
            with pytest.raises(InvalidParameter, match=r"no (pure )?ε"):
                loss.epsilon(delta)
    assert (laplace(1) * 3).epsilon("1e-300") == (laplace(1) * 3).epsilon(5e-324) == 3


@pytest.mark.parametrize("n", [10**6, 10**18, 10**30])
@pytest.mark.parametrize(
    "loss",
    [gaussian(1), pure("0.1"), pure("1e-12"), laplace(2), laplace(10**9), gaussian(1).poisson("0.1"), zcdp("0.1"),
     approximate("0.1", "1e-40"), random_allocation(1, 10), pure(1).shuffle(1000), exponential("0.1"), geometric(1)],
    ids=str,
)  # fmt: skip
def test_any_number_of_uses_is_answered_at_once_and_without_overflow(loss: PrivacyLoss, n: int) -> None:
    many = loss * n
    epsilon, delta = many.epsilon("1e-6"), many.delta(1)
    assert math.isfinite(epsilon) and epsilon >= loss.epsilon("1e-6") * (1 - TIGHT)
    assert loss.delta(1) <= delta <= 1


def test_a_use_that_only_fails_composes() -> None:
    failing = approximate(0, "1/1000") * 3
    assert failing.epsilon("1/100") == 0
    truth = 1 - F(999, 1000) ** 3
    lower, upper = failing.bounds(epsilon="0.5")
    assert F(lower) <= truth <= F(upper) <= F(3, 1000)


@pytest.mark.parametrize("loss", [pure("1e390"), zcdp("1e300"), gaussian("1e-320"), laplace("1e-320"), gdp("1e390")])
def test_a_loss_beyond_all_floats_is_refused_and_not_answered_by_infinity(loss: PrivacyLoss) -> None:
    for ask in (loss.zcdp, loss.gdp, lambda: loss.epsilon("1e-6"), lambda: loss.delta(1), lambda: loss.rdp(2)):
        with pytest.raises(InvalidParameter, match="range of floats"):
            ask()
