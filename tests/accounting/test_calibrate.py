from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F

import pytest

from discreet import accounting
from discreet.accounting import PrivacyLoss, calibrate
from discreet.accounting.convert import mu_squared_for
from discreet.errors import InvalidParameter
from tests.privacy import curves

FAMILIES: list[tuple[str, Callable[[F], PrivacyLoss], F, F]] = [
    ("gaussian", accounting.gaussian, F(1), F(1, 10**5)),
    ("gaussian, far from the start", accounting.gaussian, F(1, 10**4), F(1, 10**9)),
    ("laplace", lambda b: accounting.laplace(b) * 7, F(3, 10), F(0)),
    ("laplace numeric", lambda b: accounting.laplace(b) * 20, F(1), F(1, 10**6)),
    ("a fixed part", lambda z: accounting.gaussian(z) * 5 + accounting.pure(0.1), F(1), F(1, 10**6)),
    ("discrete gaussian", accounting.discrete_gaussian, F(8), F(1, 10**9)),
    ("discrete laplace", lambda b: accounting.discrete_laplace(b, 3) * 10, F(2), F(1, 10**6)),
]


@pytest.mark.parametrize(("family", "epsilon", "delta"), [f[1:] for f in FAMILIES], ids=[f[0] for f in FAMILIES])
def test_the_parameter_meets_the_promise_and_hardly_a_smaller_one_does(
    family: Callable[[F], PrivacyLoss], epsilon: F, delta: F
) -> None:
    asked: list[F] = []

    def counted(x: F) -> PrivacyLoss:
        asked.append(x)
        return family(x)

    x = calibrate(counted, epsilon=epsilon, delta=delta)
    assert family(x).guarantee(delta).epsilon <= epsilon
    assert x in asked
    assert family(x * (1 - F(2, 10**6))).guarantee(delta).epsilon > epsilon
    assert len(asked) <= 32
    assert x.denominator < 10**20


def test_the_analytic_gaussian_comes_out() -> None:
    assert float(calibrate(accounting.gaussian, epsilon=1, delta=1e-5)) == pytest.approx(3.730631634816, rel=2e-6)


def test_the_calibrated_discrete_gaussian_keeps_its_own_law_where_the_analytic_one_would_not() -> None:
    d, e = F(344, 10**12), F(635, 100)
    sigma = calibrate(accounting.discrete_gaussian, epsilon=e, delta=d)
    analytic = calibrate(accounting.gaussian, epsilon=e, delta=d)
    assert curves.discrete_gaussian(1, sigma**2, 6.35) <= d
    assert curves.discrete_gaussian(1, analytic**2, 6.35) > d
    assert sigma > analytic


def test_a_good_start_saves_evaluations() -> None:
    def evaluations(start: float) -> int:
        asked: list[F] = []

        def family(z: F) -> PrivacyLoss:
            asked.append(z)
            return accounting.gaussian(z)

        calibrate(family, epsilon=1, delta=1e-5, start=start)
        return len(asked)

    assert evaluations(3.7) <= 7
    assert evaluations(3.7) < evaluations(1e-3)


def test_a_family_that_cannot_meet_the_promise_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="no parameter"):
        calibrate(lambda x: accounting.pure(2) + accounting.laplace(x), epsilon=1)
    with pytest.raises(InvalidParameter, match=r"every parameter that was tried, .* meets the promise"):
        calibrate(lambda x: accounting.pure(F(1, 2)), epsilon=1)
    with pytest.raises(InvalidParameter, match="no pure ε"):
        calibrate(accounting.gaussian, epsilon=1)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), True, None])
def test_a_promise_out_of_range_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        calibrate(accounting.gaussian, epsilon=epsilon, delta=1e-5)


SGD = [
    (F(1, 100), 1000, F(1), F(1, 10**5)),
    (F(4, 1000), 10000, F(2), F(1, 10**6)),
    (F(2, 100), 50000, F(8), F(1, 10**8)),
]


@pytest.mark.parametrize(("rate", "steps", "epsilon", "delta"), SGD)
def test_the_noise_of_a_training_run_takes_few_evaluations(rate: F, steps: int, epsilon: F, delta: F) -> None:
    asked: list[F] = []

    def family(sigma: F) -> PrivacyLoss:
        asked.append(sigma)
        return accounting.gaussian(sigma).poisson(rate) * steps

    sigma = calibrate(family, epsilon=epsilon, delta=delta)
    assert len(asked) <= 6
    assert family(sigma).guarantee(delta).epsilon <= epsilon
    assert family(sigma * (1 - F(2, 10**6))).guarantee(delta).epsilon > epsilon


def test_the_largest_rate_and_epsilon_per_query_that_meet_a_promise_are_found_from_below() -> None:
    delta = F(1, 10**6)
    families: list[tuple[Callable[[F], PrivacyLoss], F]] = [
        (lambda q: accounting.gaussian(1).poisson(q) * 1000, F(1, 100)),
        (lambda e: accounting.pure(e) * 40, F(1, 10)),
        (lambda e: accounting.laplace(1 / e) * 3 + accounting.pure(F(1, 9)), F(3)),
    ]
    for family, start in families:
        x = calibrate(family, epsilon=2, delta=delta, increasing=True, start=start)
        assert family(x).guarantee(delta).epsilon <= 2
        assert family(x * (1 + F(2, 10**6))).guarantee(delta).epsilon > 2


def test_a_parameter_with_an_end_stops_there() -> None:
    def family(q: F) -> PrivacyLoss:
        assert q <= 1
        return accounting.gaussian(5).poisson(q)

    assert calibrate(family, epsilon=1, delta=1e-5, increasing=True, most=1, start=0.9) == 1
    assert calibrate(family, epsilon=0.5, delta=1e-5, increasing=True, most=1, start=5) < 1
    assert calibrate(lambda s: accounting.laplace(s), epsilon=1, most=3) == pytest.approx(1, rel=2e-6)
    with pytest.raises(InvalidParameter, match="no parameter"):
        calibrate(accounting.laplace, epsilon=0.1, most=3)


def test_the_largest_number_of_steps_is_exact() -> None:
    most = mu_squared_for(F(1), F(1, 10**6))
    n = calibrate(lambda t: accounting.gaussian(20) * t, epsilon=1, delta=1e-6, increasing=True, integer=True)
    assert type(n) is int
    assert n == most // F(1, 400)
    for count in (1, 7, 10, 3000):

        def family(t: int) -> PrivacyLoss:
            return accounting.pure(F(1, 7)) * t

        assert calibrate(family, epsilon=F(count, 7), increasing=True, integer=True) == count
        below = F(count, 7) - F(1, 10**9)
        if count > 1:
            assert calibrate(family, epsilon=below, increasing=True, integer=True, start=50) == count - 1
    with pytest.raises(InvalidParameter, match="no parameter"):
        calibrate(lambda t: accounting.pure(2) * t, epsilon=1, increasing=True, integer=True)


def test_the_least_integer_parameter_is_exact() -> None:
    least = calibrate(lambda b: accounting.laplace(b), epsilon=F(1, 37), integer=True)
    assert least == 37
    assert calibrate(accounting.laplace, epsilon=F(10, 371), integer=True, start=1000) == 38
    assert calibrate(accounting.laplace, epsilon=5, integer=True, start=1000) == 1


def test_a_number_of_steps_is_ended_by_failures_too() -> None:
    step = accounting.approximate(F(1, 100), F(1, 10**8))
    found = calibrate(lambda t: step * t, epsilon=5, delta=1e-6, increasing=True, integer=True, start=3000)
    assert found == 100


def test_an_integer_parameter_ends_where_it_is_told() -> None:
    asked: list[int] = []

    def family(t: int) -> PrivacyLoss:
        asked.append(t)
        return accounting.pure(F(1, 100)) * t

    assert calibrate(family, epsilon=1, increasing=True, integer=True, most=60, start=4) == 60
    assert max(asked) == 60
    with pytest.raises(InvalidParameter, match="every parameter that was tried"):
        calibrate(lambda t: accounting.pure(F(1, 2)), epsilon=1, increasing=True, integer=True)
    with pytest.raises(InvalidParameter, match="most"):
        calibrate(family, epsilon=1, increasing=True, integer=True, most=0.5)


def test_several_targets_are_all_met_and_one_of_them_barely() -> None:
    targets = [(F(2), F(1, 10**5)), (F(5), F(1, 10**12)), (F(1, 2), F(1, 10))]
    for order in (targets, targets[::-1]):
        x = calibrate(accounting.gaussian, targets=order)
        assert all(accounting.gaussian(x).guarantee(d).epsilon <= e for e, d in targets)
        less = accounting.gaussian(x * (1 - F(2, 10**6)))
        assert any(less.guarantee(d).epsilon > e for e, d in targets)
    apart = [calibrate(accounting.gaussian, epsilon=e, delta=d) for e, d in targets]
    assert float(x) == pytest.approx(float(max(apart)), rel=2e-6)
    n = calibrate(lambda t: accounting.gaussian(30) * t, targets=targets, increasing=True, integer=True)
    counts = [
        calibrate(lambda t: accounting.gaussian(30) * t, epsilon=e, delta=d, increasing=True, integer=True)
        for e, d in targets
    ]
    assert n == min(counts)


def test_what_meets_an_epsilon_at_a_delta_has_that_delta_at_the_epsilon() -> None:
    x = calibrate(accounting.gaussian, epsilon=1, delta=1e-5)
    assert 1e-5 * (1 - 1e-4) < accounting.gaussian(x).delta(1) <= 1e-5 * (1 + 1e-9)


def test_a_family_that_jumps_is_met_at_the_jump() -> None:
    def family(x: F) -> PrivacyLoss:
        return accounting.pure(2 if x < F(10, 3) else F(1, 2))

    x = calibrate(family, epsilon=1)
    assert F(10, 3) <= x <= F(10, 3) * (1 + F(1, 10**6))


def test_a_family_that_is_not_monotone_still_gets_a_parameter_that_meets_the_promise() -> None:
    def family(x: F) -> PrivacyLoss:
        return accounting.pure(abs(x - 5) + F(1, 3))

    for increasing in (False, True):
        x = calibrate(family, epsilon=1, start=4.5, increasing=increasing)
        assert family(x).guarantee(F(0)).epsilon <= 1


def test_a_narrow_tolerance_is_kept() -> None:
    x = calibrate(accounting.gaussian, epsilon=1, delta=1e-5, tolerance=1e-10)
    assert accounting.gaussian(x).guarantee(F(1, 10**5)).epsilon <= 1
    assert accounting.gaussian(x * (1 - F(2, 10**10))).guarantee(F(1, 10**5)).epsilon > 1
    for wrong in (0, 1, -1e-6):
        with pytest.raises(InvalidParameter, match="tolerance"):
            calibrate(accounting.gaussian, epsilon=1, delta=1e-5, tolerance=wrong)


def test_one_promise_or_several_are_given_and_not_both() -> None:
    with pytest.raises(InvalidParameter, match="not both"):
        calibrate(accounting.gaussian)
    with pytest.raises(InvalidParameter, match="not both"):
        calibrate(accounting.gaussian, epsilon=1, targets=[(1, 1e-5)])
    with pytest.raises(InvalidParameter, match="at least one"):
        calibrate(accounting.gaussian, targets=[])


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("family", "options"),
    [
        (accounting.pure, {}),
        (lambda q: accounting.gaussian(1).poisson(F(q) / 100) * 100, {"delta": 1e-5, "most": 99}),
        (lambda n: accounting.gaussian(10) * n, {"delta": 1e-5, "integer": True}),
        (lambda n: accounting.gaussian(1) * n, {"delta": 1e-5, "integer": True}),
    ],
)
def test_a_loss_that_grows_where_it_was_to_fall_is_said_to_grow(
    family: Callable[[F], PrivacyLoss], options: dict[str, object]
) -> None:
    with pytest.raises(InvalidParameter, match=r"grows with its parameter.*\n.*increasing=True"):
        calibrate(family, epsilon=1, **options)  # type: ignore[call-overload]  # options of both kinds


def test_a_loss_that_falls_where_it_was_to_grow_is_said_to_fall() -> None:
    with pytest.raises(InvalidParameter, match=r"falls as its parameter grows.*\n.*leave increasing=True out"):
        calibrate(accounting.gaussian, epsilon=1, delta=1e-5, increasing=True)
    with pytest.raises(InvalidParameter, match="falls as its parameter grows"):
        calibrate(accounting.laplace, epsilon=1, increasing=True)


def test_a_family_of_whole_numbers_is_said_to_be_one() -> None:
    families: list[Callable[[F], PrivacyLoss]] = [
        lambda n: accounting.gaussian(10) * n,  # type: ignore[operator]  # what a caller may slip
        lambda n: accounting.gaussian(2).fixed_size(n, 100),  # type: ignore[arg-type]
        lambda n: accounting.pure(1).shuffle(n),  # type: ignore[arg-type]
    ]
    for family in families:
        with pytest.raises(InvalidParameter, match=r"is a whole number.*\n.*integer=True"):
            calibrate(family, epsilon=1, delta=1e-5, increasing=True)


def test_a_search_beyond_the_end_of_a_family_says_where_it_had_come_to() -> None:
    with pytest.raises(InvalidParameter, match=r"rate must lie in \[0, 1\].*\n.*give most="):
        calibrate(lambda q: accounting.gaussian(1).poisson(q) * 100, epsilon=1, delta=1e-5)
    with pytest.raises(InvalidParameter, match=r"rate must lie in \[0, 1\], not 3\.$"):  # the caller's own
        calibrate(lambda q: accounting.gaussian(1).poisson(q), epsilon=1, delta=1e-5, start=3)


def test_what_is_no_family_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="must return a loss, not float"):
        calibrate(lambda x: 1.0, epsilon=1)  # type: ignore[arg-type, return-value]  # what a caller may slip


def test_a_least_count_of_one_is_an_answer_where_the_loss_falls() -> None:
    assert calibrate(lambda n: accounting.pure(F(1, n)), epsilon=2, integer=True) == 1
    assert calibrate(lambda n: accounting.pure(1), epsilon=2, integer=True) == 1
    assert calibrate(lambda n: accounting.pure(1) * n, epsilon=2, integer=True, most=1) == 1
