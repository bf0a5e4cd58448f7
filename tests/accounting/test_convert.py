"""Conversions against their formulas at 50 digits, minimised by mpmath, and against published numbers."""

from __future__ import annotations

from fractions import Fraction as F

import mpmath
import pytest
from mpmath import mpf

from discreet.accounting.convert import (
    gdp_delta,
    gdp_epsilon,
    invert,
    mu_squared_for,
    rho_for,
    zcdp_delta,
    zcdp_epsilon,
)
from discreet.errors import InvalidParameter
from discreet.privacy.pair import ACCURACY
from tests.privacy import curves

DELTAS = [F(1, 100), F(1, 10**6), F(1, 10**15), F(1, 10**100), F(1, 10**250)]


def log_delta(rho: F, epsilon: F) -> mpf:
    """The bound of Canonne, Kamath, Steinke, Proposition 12, at its best α: the root of its derivative."""
    r, e = curves.real(rho), curves.real(epsilon)

    def slope(s: mpf) -> mpf:
        a = 1 + mpmath.exp(s)
        return (2 * a - 1) * r - e + mpmath.log(1 - 1 / a)

    low, high = mpf(-60), mpf(120)
    for _ in range(220):
        s = (low + high) / 2
        low, high = (s, high) if slope(s) < 0 else (low, s)
    a = 1 + mpmath.exp((low + high) / 2)
    return (a - 1) * (a * r - e) + a * mpmath.log(1 - 1 / a) - mpmath.log(a - 1)


@pytest.mark.parametrize("rho", [F(1, 10**8), F(1, 1000), F(1, 8), F(1, 2), F(10)])
def test_the_zcdp_delta_is_the_best_bound_of_the_theorem_rounded_up(rho: F) -> None:
    with mpmath.workdps(50):
        for epsilon in (rho * 2, rho + F(1, 100), F(1, 3), F(1), F(7), F(25)):
            true = min(mpmath.exp(log_delta(rho, epsilon)), mpf(1))
            found = mpf(zcdp_delta(rho, epsilon))
            assert found >= true or found == 1
            assert found <= true * (1 + mpf(10) ** -10) + mpf(10) ** -299


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", [F(1, 10**8), F(1, 8), F(10)])
def test_the_zcdp_epsilon_is_the_least_that_the_theorem_gives_rounded_up(rho: F, delta: F) -> None:
    with mpmath.workdps(50):
        epsilon = F(zcdp_epsilon(rho, delta))
        target = mpmath.log(curves.real(delta))
        assert log_delta(rho, epsilon) <= target
        assert epsilon == 0 or log_delta(rho, epsilon * (1 - F(1, 10**11))) > target


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", [F(1, 10**5), F(1, 10), F(1), F(20)])
def test_rho_for_is_the_largest_that_the_theorem_allows_rounded_down(epsilon: F, delta: F) -> None:
    with mpmath.workdps(50):
        rho = rho_for(epsilon, delta)
        target = mpmath.log(curves.real(delta))
        assert log_delta(rho, epsilon) <= target
        assert log_delta(rho * (1 + F(1, 10**9)), epsilon) > target


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", [F(1, 10**5), F(1, 10), F(1), F(20)])
def test_mu_squared_for_is_the_analytic_calibration_rounded_down(epsilon: F, delta: F) -> None:
    mu_squared = mu_squared_for(epsilon, delta)
    assert curves.gaussian(mu_squared, float(epsilon)) <= delta
    assert curves.gaussian(mu_squared * (1 + F(1, 10**9)), float(epsilon)) > delta * (1 - F(1, 10**8))
    assert gdp_delta(mu_squared, epsilon) <= float(delta)


@pytest.mark.parametrize("delta", DELTAS)
def test_at_an_epsilon_of_zero_the_gaussian_delta_is_the_total_variation(delta: F) -> None:
    mu_squared = mu_squared_for(F(0), delta)
    with mpmath.workdps(300):
        true = mpmath.erf(mpmath.sqrt(curves.real(mu_squared) / 8))  # 2Φ(μ/2) − 1
        assert true <= curves.real(delta)
        assert true >= curves.real(delta) * (1 - mpf("0.01"))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu_squared", [F(1, 10**6), F(1, 4), F(1), F(100)])
def test_the_gaussian_epsilon_is_the_least_rounded_up(mu_squared: F, delta: F) -> None:
    epsilon = gdp_epsilon(mu_squared, delta)
    assert curves.gaussian(mu_squared, epsilon) <= delta
    if epsilon:
        assert curves.gaussian(mu_squared, epsilon * (1 - 1e-9)) > delta * (1 - F(1, 10**7))


def test_published_numbers_come_out() -> None:
    # σ of the analytic Gaussian mechanism for Δ = 1, as printed by the authors' own code for (1, 1e-5): 3.730631634816.
    assert float(mu_squared_for(F(1), F(1, 10**5))) ** -0.5 == pytest.approx(3.730631634816, rel=1e-9)
    # Bun, Steinke 2016, Proposition 1.3, ρ + 2√(ρ ln 1/δ), is always worse.
    for rho in (F(1, 100), F(1), F(9)):
        assert zcdp_epsilon(rho, F(1, 10**6)) < float(rho) + 2 * (float(rho) * 13.815510557964274) ** 0.5


def test_the_gaussian_form_is_never_worse_than_zcdp() -> None:
    for mu_squared in (F(1, 100), F(1), F(50)):
        for delta in DELTAS:
            assert gdp_epsilon(mu_squared, delta) <= zcdp_epsilon(mu_squared / 2, delta)
        assert gdp_delta(mu_squared, F(3)) <= zcdp_delta(mu_squared / 2, F(3))


def test_no_noise_lost_and_nothing_revealed_are_exact() -> None:
    assert gdp_epsilon(F(0), F(1, 10)) == zcdp_epsilon(F(0), F(1, 10)) == 0.0
    assert gdp_delta(F(0), F(0)) == zcdp_delta(F(0), F(0)) == 0.0


def test_too_little_noise_still_has_an_honest_epsilon() -> None:
    assert gdp_epsilon(F(10**8), F(1, 10**6)) >= 10**8 / 2
    assert gdp_delta(F(10**8), F(1)) == 1.0


@pytest.mark.parametrize("delta", [F(0), F(1, 10**400), F(1, 10**290)])
def test_a_delta_of_zero_or_below_the_floats_is_refused(delta: F) -> None:
    for ask in (lambda d: rho_for(F(1), d), lambda d: mu_squared_for(F(1), d), lambda d: zcdp_epsilon(F(1), d)):
        with pytest.raises(InvalidParameter, match="delta must be at least 1e-280"):
            ask(delta)


def test_inverting_finds_the_corner_and_says_when_there_is_none() -> None:
    import numpy as np

    found = invert(lambda x: np.maximum(1 - x / 3, 0.0), 0.25, high=10.0)
    assert found is not None
    assert 2.25 <= found <= 2.25 * (1 + ACCURACY)
    assert invert(lambda x: np.ones_like(x), 0.25, high=10.0) is None
    assert invert(lambda x: np.zeros_like(x), 0.25, high=10.0) == 0.0
