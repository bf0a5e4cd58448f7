"""The discrete Gaussian mechanism: its own δ, by sums in fifty digits."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms import DiscreteGaussian, Gaussian
from discreet.privacy.event import Composed, DiscreteGaussianEvent, ZCDPEvent

mp.mp.dps = 50

GRID = [(e, d) for e in ("0.5", "1", "3", "8") for d in ("1e-3", "1e-6", "1e-9")]


def delta_of(shift: int, sigma_squared: Fraction, epsilon: str) -> mp.mpf:
    """Σ_k (p(k) − e^ε p(k − shift))₊, summed as it stands."""
    v = 2 * mp.mpf(sigma_squared.numerator) / sigma_squared.denominator
    last = int(30 * mp.sqrt(v)) + 2 * shift + 3
    mass = {k: mp.exp(-mp.mpf(k) * k / v) for k in range(-last - shift, last + shift + 1)}
    total = mp.fsum(mass.values())
    grow = mp.exp(mp.mpf(epsilon))
    return mp.fsum(max(mp.mpf(0), mass[k] - grow * mass[k - shift]) for k in range(-last, last + 1)) / total


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_calibration_keeps_delta_by_its_own_law(epsilon: str, delta: str, sensitivity: int) -> None:
    mechanism = DiscreteGaussian(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    assert delta_of(sensitivity, mechanism.noise.sigma_squared, epsilon) <= mp.mpf(delta)
    # and with one part in a hundred thousand less noise it would not
    assert delta_of(sensitivity, mechanism.noise.sigma_squared * Fraction(99999, 100000), epsilon) > mp.mpf(delta)


@pytest.mark.parametrize(("epsilon", "delta", "factor"), [("5", "1e-3", 1.9), ("8", "1e-6", 3.0), ("3", "1e-3", 1.4)])
def test_the_analytic_sigma_would_under_protect(epsilon: str, delta: str, factor: float) -> None:
    analytic = Gaussian(epsilon=epsilon, delta=delta).noise.sigma
    assert delta_of(1, analytic**2, epsilon) > factor * mp.mpf(delta)


def test_more_noise_can_cost_more_at_one_epsilon() -> None:
    # Why the answer of the calibration is checked itself: δ(8) is 0.0038 at σ = 0.3 and 0.030 at σ = 0.4.
    assert delta_of(1, Fraction(16, 100), "8") > 7 * delta_of(1, Fraction(9, 100), "8")
    mechanism = DiscreteGaussian(epsilon=8, delta="0.005")
    assert delta_of(1, mechanism.noise.sigma_squared, "8") <= mp.mpf("0.005")


@pytest.mark.parametrize("sensitivity", [Fraction(3, 2), 2, 5])
def test_vectors_are_calibrated_for_every_way_to_move(sensitivity: Fraction) -> None:
    # Every integer shift v in two dimensions with ‖v‖² ≤ Δ²: δ by summing over the plane.
    epsilon, delta = 1.0, 1e-3
    mechanism = DiscreteGaussian(epsilon=1, delta="1e-3", sensitivity=sensitivity, dimension=2)
    variance = float(mechanism.noise.sigma_squared)
    last = math.ceil(10 * math.sqrt(variance)) + 6
    k = np.arange(-last, last + 1)
    mass = np.exp(-(k * k) / (2 * variance))
    mass /= mass.sum()
    for a, b in product(range(6), repeat=2):
        if not 0 < a * a + b * b <= sensitivity**2:
            continue
        there = np.outer(mass, mass)
        back = np.outer(np.roll(mass, a), np.roll(mass, b))
        assert np.maximum(there - math.exp(epsilon) * back, 0)[6:-6, 6:-6].sum() <= delta


def test_the_costs_follow_what_can_move() -> None:
    one = DiscreteGaussian(sigma=3, sensitivity=2)
    assert one.events == Composed([DiscreteGaussianEvent(2, Fraction(9))])
    assert DiscreteGaussian(sigma=3, sensitivity=2, dimension=1).events == one.events
    assert DiscreteGaussian(sigma=3, sensitivity="2.7").events == one.events
    assert DiscreteGaussian(sigma=3, dimension=10).events == Composed([DiscreteGaussianEvent(1, Fraction(9))])
    assert DiscreteGaussian(sigma=3, sensitivity=2, dimension=10).events == Composed([ZCDPEvent(Fraction(2, 9))])


def test_an_array_that_may_move_in_two_places_is_not_taken_for_a_number() -> None:
    # Δ = 1.5 lets (1, 1) move, of norm √2, though one number moves by 1 at most.
    with pytest.raises(InvalidParameter, match="√2"):
        DiscreteGaussian(sigma=3, sensitivity="1.5").release(np.array([1, 2]))
    assert DiscreteGaussian(sigma=3, sensitivity="1.5", dimension=2).events == Composed([ZCDPEvent(Fraction(1, 9))])
    DiscreteGaussian(sigma=3, sensitivity="1.4").release(np.array([1, 2]))


def test_a_step_scales_everything() -> None:
    mechanism = DiscreteGaussian(sigma=3, sensitivity=2, step="1/8")
    # 2 is 16 steps; half-way cases go to the even step, so an even distance stays 16.
    assert mechanism.events == Composed([DiscreteGaussianEvent(16, Fraction(24 * 24))])
    assert mechanism.sigma == 3.0
    assert mechanism.error(0.95) == pytest.approx(3 * 1.959963985, abs=0.2)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"epsilon": 1},
        {"epsilon": 1, "delta": 0},
        {"epsilon": 1, "delta": 1},
        {"epsilon": -1, "delta": 1e-6},
        {"epsilon": float("nan"), "delta": 1e-6},
        {"epsilon": 1, "delta": 1e-6, "sigma": 1},
        {"sigma": 0},
        {"sigma": True},
        {"sigma": 1, "sensitivity": "0.5"},
        {"sigma": 1, "sensitivity": 0},
        {"sigma": 1, "dimension": 0},
    ],
)
def test_impossible_parameters_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        DiscreteGaussian(**arguments)  # type: ignore[arg-type]


def test_the_error_covers_by_its_own_law() -> None:
    mechanism = DiscreteGaussian(sigma=2)
    k = np.arange(-60, 61)
    mass = np.exp(-(k * k) / 8)
    mass /= mass.sum()
    t = mechanism.error(0.95)
    assert mass[np.abs(k) <= t].sum() >= 0.95 > mass[np.abs(k) <= t - 1].sum()


def test_explain_fills_in_the_numbers() -> None:
    text = DiscreteGaussian(epsilon=1, delta=1e-6, sensitivity=2).explain()
    for piece in ("Δ² = 4", "p(k) − e^ε p(k − 2)", "at ε = 1", "M is (1, 1e-06)-DP"):
        assert piece in text
    text = DiscreteGaussian(sigma=3, sensitivity=2, dimension=5).explain()
    assert "4/2σ² = 0.222222" in text and "M is 0.222222-zCDP" in text
    assert "steps of 2^-3" in DiscreteGaussian(sigma=3, step="1/8").explain()


@pytest.mark.parametrize(
    "mechanism",
    [DiscreteGaussian(sigma=2, dimension=3), DiscreteGaussian(epsilon=1, delta=1e-6, step="0.125")],
    ids=repr,
)
def test_repr_reads_back(mechanism: DiscreteGaussian) -> None:
    assert eval(repr(mechanism), {"DiscreteGaussian": DiscreteGaussian}) == mechanism
