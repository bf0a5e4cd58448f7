"""Odometers against exact laws of losses, the martingale bound at high precision, and an adaptive analyst."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction as F
from itertools import product

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from discreet import accounting
from discreet.accounting import PrivacyLoss
from discreet.accounting.divergence import renyi_upper
from discreet.accounting.odometer import _ORDERS, _WEIGHT, Odometer
from discreet.errors import InvalidParameter
from discreet.privacy.event import Composed, Event
from discreet.privacy.pair import Pair
from tests.privacy import curves

DELTA = 1e-6


def reading(*losses: PrivacyLoss, delta: float = DELTA) -> float:
    odometer = Odometer(delta)
    for loss in losses:
        odometer.charge(loss.events)
    return odometer.epsilon


def test_nothing_charged_reads_nothing() -> None:
    assert reading() == 0
    assert reading(PrivacyLoss(Composed())) == 0


@pytest.mark.parametrize(
    "loss",
    [
        accounting.gaussian(20) * 10,
        accounting.gaussian(3) * 1000,
        accounting.gaussian(1000),
        accounting.pure("0.01") * 1000,
        accounting.laplace(10) * 300,
        accounting.gaussian(1).poisson(F(1, 100)) * 1000,
    ],
)
def test_a_reading_is_above_the_loss_and_not_far_above_what_zcdp_or_the_order_says(loss: PrivacyLoss) -> None:
    found = reading(loss)
    events = loss.events
    by_order = min(
        sum(float(renyi_upper(e, a) or 0) * n for e, n in events) - math.log(DELTA) / float(a - 1) for a in _ORDERS
    )
    assert loss.epsilon(DELTA) < found < 1.4 * by_order


def test_the_reading_is_where_the_mixture_of_martingales_reaches_one_over_delta() -> None:
    loss = accounting.gaussian(5) * 30 + accounting.laplace(2) * 3
    found = mpf(reading(loss))

    def mixture(epsilon: mpf) -> mpf:
        total = mpf(0)
        for order, log_weight in zip(_ORDERS, _WEIGHT, strict=True):
            spent = sum((renyi_upper(e, order) or F(0)) * n for e, n in loss.events)
            total += mpmath.exp(mpf(float(log_weight)) + curves.real(order - 1) * (epsilon - curves.real(F(spent))))
        return total

    with mpmath.workdps(40):
        assert mixture(found) >= mpf(2) * 10**6
        assert mixture(found * (1 - mpf(10) ** -9)) < mpf(2) * 10**6
        assert mpmath.fsum(mpmath.exp(mpf(float(w))) for w in _WEIGHT) <= 1


def test_a_pure_reading_is_never_above_the_sum() -> None:
    assert reading(*[accounting.pure(0.5)] * 3) == 1.5
    assert reading(accounting.pure(1), accounting.gaussian(100)) < 1.3


def test_readings_only_grow() -> None:
    odometer, last = Odometer(DELTA), 0.0
    for k in range(1, 30):
        odometer.charge((accounting.gaussian(k) if k % 2 else accounting.laplace(k)).events)
        assert odometer.epsilon > last
        last = odometer.epsilon


def test_failures_take_half_of_delta_and_then_there_is_no_reading() -> None:
    odometer = Odometer(DELTA)
    odometer.charge(accounting.approximate(0.1, 3e-7).events)
    assert odometer.failure == F(3, 10**7)
    assert odometer.epsilon == 0.1
    odometer.charge(accounting.approximate(0.1, 3e-7).events)
    assert odometer.epsilon == math.inf


def adaptive(strategy: Callable[[tuple[int, ...]], F], rounds: int, delta: float) -> tuple[float, float]:
    """An analyst who asks randomised responses with the ε that the answers so far suggest.

    Returns with what probability the loss is ever above the reading, and Σ (P − e^reading Q)₊ over all paths.
    """
    ever, excess = 0.0, 0.0
    for bits in product((0, 1), repeat=rounds):
        odometer, p, q, crossed = Odometer(delta), 1.0, 1.0, False
        for t in range(rounds):
            epsilon = strategy(bits[:t])
            odometer.charge(accounting.zcdp(epsilon * epsilon / 2).events)
            likely = 1 / (1 + math.exp(-float(epsilon)))
            p, q = (p * likely, q * (1 - likely)) if bits[t] else (p * (1 - likely), q * likely)
            crossed = crossed or math.log(p / q) > odometer.epsilon + 1e-9
        ever += p * crossed
        excess += max(p - math.exp(odometer.epsilon) * q, 0.0)
    return ever, excess


@pytest.mark.laws
def test_an_adaptive_analyst_who_chases_the_loss_hardly_ever_gets_above_the_reading() -> None:
    def chase(bits: tuple[int, ...]) -> F:
        return F(2) if sum(bits) * 2 >= len(bits) else F(1, 20)

    for delta in (0.05, 0.5):
        ever, excess = adaptive(chase, 6, delta)
        assert 0 <= ever <= delta
        assert 0 <= excess <= delta


def test_a_reading_without_room_for_many_moments_would_be_crossed_more_often_than_delta() -> None:
    # The loss of many Gaussian uses is a Brownian path: at one fixed time it is above the bound of that time
    # with probability at most δ, and at some time far more often. The odometer holds at all of them.
    delta, sigma, rounds, paths = 0.05, 1.0, 60, 4000
    steps = np.arange(1, rounds + 1)
    rng = np.random.default_rng(7)
    noise = rng.standard_normal((paths, rounds)).cumsum(axis=1) / sigma
    loss = noise + steps / (2 * sigma**2)
    odometer, readings = Odometer(delta), []
    for _ in steps:
        odometer.charge(accounting.gaussian(sigma).events)
        readings.append(odometer.epsilon)
    quantile = steps / (2 * sigma**2) + np.sqrt(steps) / sigma * 1.6448536  # exact at each time alone
    assert (loss > quantile).any(axis=1).mean() > 3 * delta
    assert (loss > np.array(readings)).any(axis=1).mean() < delta


def test_an_event_that_cannot_be_counted_is_refused_and_nothing_changes() -> None:
    class Unknown(Event):
        pure = None
        rho = None

        def pair(self) -> Pair:
            raise AssertionError

    odometer = Odometer(DELTA)
    odometer.charge(accounting.gaussian(1).events)
    before = odometer.epsilon
    with pytest.raises(InvalidParameter, match="without a Rényi divergence"):
        odometer.charge(Composed([Unknown()]))
    with pytest.raises(TypeError, match="not a PrivacyLoss"):
        odometer.charge(accounting.gaussian(1))  # type: ignore[arg-type]  # the point of this line
    assert odometer.epsilon == before


@pytest.mark.parametrize("delta", [0, 1, -0.1, "1e-300", float("nan")])
def test_a_delta_out_of_range_is_refused(delta: float) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        Odometer(delta)


def test_extreme_charges_give_a_reading() -> None:
    assert reading(accounting.zcdp("1e-300")) < 1e-3
    assert reading(accounting.zcdp("1e390")) == math.inf
    assert reading(accounting.zcdp("1e100")) > 1e100
    assert "ε = " in repr(Odometer(DELTA))
