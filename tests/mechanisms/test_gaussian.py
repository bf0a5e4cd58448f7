"""The Gaussian mechanism: calibration against fifty digits and published numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.mechanisms import Gaussian
from discreet.mechanisms.gaussian import root_above
from discreet.privacy.event import Composed, GaussianEvent

mp.mp.dps = 50

GRID = [(e, d) for e in ("0.01", "0.5", "1", "3", "10") for d in ("1e-3", "1e-6", "1e-12")]


def delta_of(mu_squared: Fraction, epsilon: Fraction) -> mp.mpf:
    """Balle, Wang, Theorem 8, in fifty digits."""
    mu = mp.sqrt(mp.mpf(mu_squared.numerator) / mu_squared.denominator)
    e = mp.mpf(epsilon.numerator) / epsilon.denominator
    return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_analytic_calibration_keeps_delta_and_is_tight(epsilon: str, delta: str) -> None:
    mechanism = Gaussian(epsilon=epsilon, delta=delta, sensitivity=3)
    claimed = mp.mpf(delta)
    assert delta_of(mechanism.mu_squared, Fraction(epsilon)) <= claimed
    assert delta_of(mechanism.mu_squared * (1 + Fraction(1, 10**6)), Fraction(epsilon)) > claimed


def test_analytic_calibration_gives_the_published_sigma() -> None:
    # Balle, Wang's own code (analytic-gaussian-mechanism), ε = 1, δ = 1e-5, Δ = 1: 3.730632.
    assert Gaussian(epsilon=1, delta=1e-5).sigma == pytest.approx(3.730632, abs=2e-6)


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "0.5", "0.99"])
@pytest.mark.parametrize("delta", ["0.4", "0.1", "1e-3", "1e-6", "1e-12"])
def test_classical_calibration_is_the_textbook_and_keeps_delta(epsilon: str, delta: str) -> None:
    mechanism = Gaussian(epsilon=epsilon, delta=delta, sensitivity=3, calibration="classical")
    textbook = 3 * mp.sqrt(2 * mp.log(mp.mpf("1.25") / mp.mpf(delta))) / mp.mpf(epsilon)
    sigma = mechanism.noise.sigma
    assert textbook <= mp.mpf(sigma.numerator) / sigma.denominator <= textbook * (1 + mp.mpf(2) ** -46)
    assert delta_of(mechanism.mu_squared, Fraction(epsilon)) <= mp.mpf(delta)
    assert mechanism.sigma >= Gaussian(epsilon=epsilon, delta=delta, sensitivity=3).sigma


@pytest.mark.parametrize("epsilon", [1, "1.5", 10])
def test_classical_calibration_is_refused_outside_its_range(epsilon: object) -> None:
    with pytest.raises(InvalidParameter, match="below 1") as caught:
        Gaussian(epsilon=epsilon, delta=1e-6, calibration="classical")  # type: ignore[arg-type]
    assert "analytic" in caught.value.hint


def test_classical_calibration_would_break_its_promise_there() -> None:
    # The reason for the refusal: at ε = 8 the formula's σ has a δ above the claim.
    sigma = math.sqrt(2 * math.log(1.25 / 1e-2)) / 8
    assert delta_of(Fraction(1 / sigma**2), Fraction(8)) > 1e-2


def test_classical_calibration_is_refused_where_its_proof_ends() -> None:
    with pytest.raises(InvalidParameter, match=r"at most 0\.4"):
        Gaussian(epsilon=0.5, delta=0.5, calibration="classical")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"epsilon": 1},
        {"delta": 1e-6},
        {"epsilon": 1, "delta": 0},
        {"epsilon": 1, "delta": 1},
        {"epsilon": 1, "delta": -1e-6},
        {"epsilon": 1, "delta": float("nan")},
        {"epsilon": 1, "delta": True},
        {"epsilon": 0, "delta": 1e-6},
        {"epsilon": float("inf"), "delta": 1e-6},
        {"epsilon": 1, "delta": 1e-6, "sigma": 2},
        {"epsilon": 1, "sigma": 2},
        {"sigma": 0},
        {"sigma": float("nan")},
        {"sigma": "two"},
        {"sigma": 2, "sensitivity": 0},
        {"epsilon": 1, "delta": 1e-6, "calibration": "exact"},
        {"epsilon": 1, "delta": 1e-6, "calibration": None},
        {"sigma": 2, "dimension": 0},
    ],
)
def test_impossible_parameters_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        Gaussian(**arguments)  # type: ignore[arg-type]


def test_a_given_sigma_says_what_it_costs() -> None:
    mechanism = Gaussian(sigma="2.5", sensitivity=2)
    assert mechanism.events == Composed([GaussianEvent(Fraction(16, 25))])
    assert mechanism.epsilon is None and mechanism.delta is None and mechanism.sigma == 2.5
    truth = delta_of(Fraction(16, 25), Fraction(1))
    assert float(truth) <= mechanism.loss.delta(1.0) <= float(truth) * (1 + 1e-6)


def test_the_error_is_that_of_the_normal_law() -> None:
    assert Gaussian(sigma=2, sensitivity="0.5").error(0.95) == pytest.approx(2 * 1.959963985, rel=1e-5)
    # On integers: P(|round Z| ≤ 3) = erf(3.5/√8) = 0.9199, and 0.9756 at 4.
    assert Gaussian(sigma=2).error(0.95) == 4.0


@given(x=st.fractions(min_value=Fraction(1, 10**30), max_value=10**30))
def test_roots_are_rounded_up_by_little(x: Fraction) -> None:
    r = root_above(x)
    assert x <= r * r <= x * (1 + Fraction(1, 1 << 46))
    assert root_above(x * x) == x


@pytest.mark.parametrize("exponent", [-300, -100, 100, 300])
def test_roots_of_extreme_fractions_are_rounded_up_by_little(exponent: int) -> None:
    x = 3 * Fraction(10) ** exponent
    assert x <= root_above(x) ** 2 <= x * (1 + Fraction(1, 1 << 46))


def test_explain_fills_in_the_numbers() -> None:
    text = Gaussian(epsilon=0.5, delta=1e-6, sensitivity=2).explain()
    for piece in ("Δ = 2", "N(μ²/2, μ²)", "Triangle inequality", "Balle, Wang", "M is (0.5, 1e-06)-DP", "16.11"):
        assert piece in text
    text = Gaussian(epsilon=0.5, delta=1e-6, calibration="classical").explain()
    for piece in ("√(2 ln(1.25/1e-06))/0.5 = 10.5976", "ε = 0.5 < 1", "Theorem A.1"):
        assert piece in text
    text = Gaussian(sigma=2).explain()
    assert "μ = Δ/σ = 0.5" in text and "0.125)-zCDP" in text


@pytest.mark.parametrize(
    "mechanism",
    [
        Gaussian(sigma=2),
        Gaussian(sigma=2, sensitivity=3, dimension=4),
        Gaussian(epsilon=0.5, delta=1e-6),
        Gaussian(epsilon=0.5, delta=1e-6, calibration="classical"),
    ],
    ids=repr,
)
def test_repr_reads_back(mechanism: Gaussian) -> None:
    assert eval(repr(mechanism), {"Gaussian": Gaussian}) == mechanism
