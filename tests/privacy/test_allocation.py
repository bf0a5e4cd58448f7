"""Random allocation: one and two steps exactly, more of them by simulation, and the laws of any curve."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate
from scipy.special import ndtr

from discreet.errors import InvalidParameter
from discreet.privacy.allocation import AllocationEvent, AllocationPair, _mean_ratio
from discreet.privacy.event import GaussianEvent
from discreet.privacy.unit import Relation

F = Fraction
Values = NDArray[np.float64]


def curve(mu: float, steps: int, removes: bool, epsilon: float) -> float:
    return float(AllocationPair(F(mu) ** 2, steps, removes).upper(np.array([epsilon]))[0])


def two_steps(mu: float, removes: bool, epsilon: float) -> float:
    """E(W − α)₊ or E(1 − αW)₊ with W = (X + Y)/2, the inner expectation in closed form."""
    alpha = math.exp(epsilon)
    edge = 2 * alpha if removes else 2 / alpha

    def given(x: float) -> float:
        left = edge - math.exp(mu * x - mu * mu / 2)  # what the other ratio is compared with
        z = math.log(left) / mu + mu / 2 if left > 0 else -math.inf
        if removes:
            inner = float(ndtr(mu - z) - left * ndtr(-z)) / 2
        else:
            inner = alpha * float(left * ndtr(z) - ndtr(z - mu)) / 2 if left > 0 else 0.0
        return inner * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    kink = math.log(edge) / mu + mu / 2
    cuts = sorted([-13.0, -6.0, 0.0, mu, 6.0, 13.0 + mu, kink - 0.5, kink - 0.05, kink, kink + 0.5])
    pieces = [integrate.quad(given, a, b, epsabs=0, epsrel=1e-9, limit=200)[0] for a, b in pairwise(cuts)]
    return math.fsum(pieces)


@pytest.mark.parametrize("removes", [True, False])
@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 2.0])
def test_two_steps_lie_just_above_the_double_integral(mu: float, removes: bool) -> None:
    for share in (-1.0, 0.0, 0.25, 1.0, 2.0, 4.0):
        truth = two_steps(mu, removes, share * mu)
        assert truth <= curve(mu, 2, removes, share * mu) <= truth * 1.01


def test_one_step_is_the_gaussian_use() -> None:
    x = np.linspace(-3, 3, 13)
    for removes in (True, False):
        assert AllocationPair(F(2), 1, removes).delta(x) == pytest.approx(GaussianEvent(F(2)).pair().delta(x), rel=0)


def losses(mu: float, steps: int, epsilon: float, removes: bool, size: int) -> Values:
    """Independent draws of (1 − e^(ε − loss))₊ under the first of the two distributions."""
    rng = np.random.Generator(np.random.PCG64([20250212, int(100 * mu), steps, removes]))
    x = rng.standard_normal((size, steps))
    if removes:
        x[:, 0] += mu  # by symmetry it is always the first
    ratio = np.exp(mu * x - mu * mu / 2).mean(axis=1)
    excess = 1 - math.exp(epsilon) / ratio if removes else 1 - math.exp(epsilon) * ratio
    return np.asarray(np.maximum(excess, 0.0), dtype=np.float64)


@pytest.mark.laws
@pytest.mark.sampled(6)
@pytest.mark.parametrize("removes", [True, False])
@pytest.mark.parametrize(("mu", "steps", "epsilon"), [(1.0, 10, 0.3), (2.0, 30, 0.3), (0.5, 20, 0.1)])
def test_simulations_agree_with_the_curve_and_not_with_a_quarter_more_steps(
    mu: float, steps: int, epsilon: float, removes: bool
) -> None:
    draws = losses(mu, steps, epsilon, removes, 100_000)
    # Six and a half deviations: a false alarm has a chance below 1e-10.
    miss = 6.5 * float(draws.std()) / math.sqrt(draws.size)
    assert abs(curve(mu, steps, removes, epsilon) - float(draws.mean())) <= miss + 0.005 * float(draws.mean())
    assert curve(mu, steps * 5 // 4, removes, epsilon) < float(draws.mean()) - miss


@pytest.mark.laws
@pytest.mark.sampled(3)
@pytest.mark.parametrize("steps", [2, 7, 100])
@pytest.mark.parametrize("mu", [0.05, 1.0, 3.0])
def test_the_spread_ratio_keeps_its_mean_and_gains_little_variance(steps: int, mu: float) -> None:
    ratio = _mean_ratio(mu, steps)
    assert float(ratio.mass.sum()) == pytest.approx(1, abs=1e-11)
    assert float(ratio.mass @ ratio.at) + ratio.lost == pytest.approx(1, abs=1e-11)
    assert ratio.lost < 1e-30
    truth = math.expm1(mu * mu) / steps
    assert truth * (1 - 1e-6) <= float(ratio.mass @ (ratio.at - 1) ** 2) <= truth * 1.03


@pytest.mark.parametrize("steps", [3, 50])
def test_the_two_directions_are_each_others_reversal(steps: int) -> None:
    x = np.linspace(-2, 2, 41)
    removed = AllocationPair(F(1), steps, True)
    added = removed.reverse()
    # H_α(P ‖ Q) = 1 − α + α·H_{1/α}(Q ‖ P)
    assert removed.delta(x) == pytest.approx(-np.expm1(x) + np.exp(x) * added.delta(-x), abs=1e-9)
    assert added.reverse() == removed


@pytest.mark.parametrize("removes", [True, False])
def test_the_curve_falls_is_convex_in_alpha_and_stays_below_one_use(removes: bool) -> None:
    alpha = np.linspace(0.02, 6, 2000)
    found = AllocationPair(F(1), 12, removes).delta(np.log(alpha))
    assert np.all(np.diff(found) <= 1e-10)
    assert np.all(np.diff(found, 2) >= -1e-10)
    assert np.all(found >= 1 - alpha - 1e-12)
    assert np.all(found <= GaussianEvent(F(1)).pair().upper(np.log(alpha)))


@pytest.mark.exhaustive
def test_more_steps_lose_less() -> None:
    x = np.array([0.05, 0.2, 1.0])
    for removes in (True, False):
        curves = [AllocationPair(F(1), steps, removes).delta(x) for steps in (1, 2, 10, 100, 1000)]
        for fewer, more in pairwise(curves):
            assert np.all(more < fewer)


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize("epsilon", [-1e5, -800.0, -700.0, 0.0, 700.0, 800.0, 1e5])
@pytest.mark.parametrize("mu", [0.0, 1e-9, 1e-5, 11.9, 12.1, 1e3])
def test_extreme_parameters_stay_within_bounds(epsilon: float, mu: float) -> None:
    for removes in (True, False):
        found = curve(mu, 3, removes, epsilon)
        assert max(0.0, -math.expm1(min(epsilon, 0.0)) * (1 - 1e-12)) <= found <= 1


def test_the_event_says_what_holds_for_one_use() -> None:
    event = AllocationEvent(F(4), 10)
    assert (event.pure, event.rho, event.mu_squared, event.failure) == (None, F(2), None, F(0))
    assert event.relation is Relation.ADD_REMOVE
    assert AllocationEvent(F(0), 10).pure == 0
    assert event.pair().epsilon_max == math.inf


@pytest.mark.parametrize(("mu_squared", "steps"), [(F(-1), 3), (F(1), 0), (1.0, 3)])
def test_impossible_allocations_are_refused(mu_squared: Fraction, steps: int) -> None:
    with pytest.raises(InvalidParameter):
        AllocationEvent(mu_squared, steps)
