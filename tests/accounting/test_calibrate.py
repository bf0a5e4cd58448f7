from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F

import pytest

from discreet import accounting
from discreet.accounting import PrivacyLoss, calibrate
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


@pytest.mark.parametrize(
    ("family", "epsilon", "delta"), [f[1:] for f in FAMILIES], ids=[f[0] for f in FAMILIES]
)
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
    assert float(calibrate(accounting.gaussian, epsilon=1, delta=1e-5)) == pytest.approx(
        3.730631634816, rel=2e-6
    )


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
    with pytest.raises(InvalidParameter, match="no parameter"):
        calibrate(lambda x: accounting.pure(F(1, 2)), epsilon=1)
    with pytest.raises(InvalidParameter, match="no pure ε"):
        calibrate(accounting.gaussian, epsilon=1)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), True, None])
def test_a_promise_out_of_range_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        calibrate(accounting.gaussian, epsilon=epsilon, delta=1e-5)
