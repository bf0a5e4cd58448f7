"""Numeric composition against exact sums: never below, close above, and fast."""

from __future__ import annotations

import time
from fractions import Fraction as F

import numpy as np
import pytest

from discreet.accounting.convert import gdp_delta, gdp_epsilon, zcdp_epsilon
from discreet.accounting.loss import PrivacyLoss
from discreet.accounting.pld import LONGEST, composed_delta, composed_epsilon, connect_the_dots
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ZCDPEvent,
)
from discreet.privacy.pair import Curve, Pair
from discreet.privacy.pairs.approximate import ApproximatePair
from discreet.privacy.pairs.gaussian import GaussianPair
from discreet.privacy.pairs.laplace import LaplacePair
from discreet.privacy.pairs.zcdp import ZCDPPair
from tests.privacy import curves


def epsilon_of(events: Composed, delta: F) -> float:
    rho = PrivacyLoss(events).rho
    assert rho is not None
    found = composed_epsilon(events, delta, at_most=zcdp_epsilon(rho, delta))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("epsilon", "n"), [(F(1, 20), 20), (F(1, 64), 64), (F(1, 3), 3), (F(1, 2), 2), (F(2), 10)]
)
def test_randomised_response_composes_to_its_binomial_sum(epsilon: F, n: int) -> None:
    events = Composed([(ApproximateEvent(epsilon), n)])
    for share in (0.2, 0.5, 0.8):
        x = share * float(epsilon) * n
        true = curves.composed_response(epsilon, n, x)
        found = F(composed_delta(events, F(x), at_most=1.0))
        assert true <= found <= true * (1 + F(1, 10**6))
    found_epsilon = epsilon_of(events, F(1, 10**6))
    assert curves.composed_response(epsilon, n, found_epsilon) <= F(1, 10**6)
    assert curves.composed_response(epsilon, n, found_epsilon * (1 - 1e-5)) > F(1, 10**6)


@pytest.mark.parametrize(("mu_squared", "n"), [(F(1, 100), 20), (F(1, 1000), 64), (F(1), 2), (F(4), 5)])
def test_gaussians_compose_to_a_gaussian(mu_squared: F, n: int) -> None:
    events = Composed([(GaussianEvent(mu_squared), n)])
    for delta in (F(1, 100), F(1, 10**6), F(1, 10**15), F(1, 10**60)):
        true = gdp_epsilon(n * mu_squared, delta)
        found = epsilon_of(events, delta)
        assert true * (1 - 1e-9) <= found <= true * (1 + 1e-3)
    for epsilon in (F(0), F(1, 10), F(1), F(3)):
        at_most = PrivacyLoss(events).delta(epsilon) * 100
        true = gdp_delta(n * mu_squared, epsilon)
        found = composed_delta(events, epsilon, at_most=min(at_most, 1.0))
        assert true * (1 - 1e-9) <= found <= true * 1.02 + 1e-290


def test_unequal_discrete_laws_compose_to_their_enumeration() -> None:
    parts: list[tuple[Event, int]] = [
        (DiscreteLaplaceEvent(3, F(10)), 2),
        (DiscreteLaplaceEvent(2, F(3)), 2),
        (ApproximateEvent(F(1, 7), F(1, 1000)), 2),
        (ApproximateEvent(F(1, 5)), 1),
    ]
    laws = [
        *[curves.lattice_laplace(3, F(10))] * 2,
        *[curves.lattice_laplace(2, F(3))] * 2,
        *[curves.response(F(1, 7), F(1, 1000))] * 2,
        curves.response(F(1, 5), F(0)),
    ]
    for x in (0.0, 0.5, 1.0, 1.7, 2.3):
        true = curves.composed(laws, x)
        found = F(composed_delta(Composed(parts), F(x), at_most=1.0))
        assert true <= found <= true * (1 + F(1, 1000))


def test_the_comparison_rejects_a_composition_that_is_off_by_a_percent() -> None:
    events = Composed([(ApproximateEvent(F(99, 2000)), 20)])  # ε smaller by 1 %
    x = 0.5
    assert F(composed_delta(events, F(x), at_most=1.0)) < curves.composed_response(F(1, 20), 20, x)


@pytest.mark.parametrize(
    "pair",
    [ApproximatePair(0.3, 1e-7), LaplacePair(1.0), GaussianPair(F(1, 9)), GaussianPair(F(4)), ZCDPPair(0.05)],
    ids=repr,
)
@pytest.mark.parametrize("step", [2.0**-9, 2.0**-4, 0.5])
def test_connecting_the_dots_is_above_the_curve_everywhere(pair: Pair, step: float) -> None:
    law = connect_the_dots(pair, step, int(2 / step))
    x = np.linspace(-3.0, 3.0, 1001)
    implied = np.array([law.delta(e) for e in x])
    assert np.all(implied >= pair.delta(x))
    if not isinstance(pair, ZCDPPair):  # whose curve is a bound, and need not be convex
        assert np.all(implied <= pair.delta(x) + float(pair.delta(np.array([2.0]))[0]) + step)
    assert float(law.mass.sum()) + law.infinite >= 1.0


def test_truncation_moves_masses_upwards_only() -> None:
    law = connect_the_dots(GaussianPair(F(1, 4)), 2.0**-6, 256)
    plain, cut = law.convolve(law, 0.0), law.convolve(law, 1e-4)
    assert cut.mass.size < plain.mass.size
    for x in np.linspace(0.0, 4.0, 50):
        assert plain.delta(float(x)) <= cut.delta(float(x)) * (1 + 1e-12) <= plain.delta(float(x)) + 2.1e-4


class Lopsided(Pair):
    """One outcome that only P can have: no loss one way, an infinite one the other."""

    def delta(self, epsilon: Curve) -> Curve:
        return np.maximum(1.0 - 0.9 * np.exp(epsilon), 0.1)  # P = (0.1, 0.9), Q = (0, 0.9) and 0.1 elsewhere

    def reverse(self) -> Pair:
        return Tame()

    @property
    def epsilon_max(self) -> float:
        return 0.0


class Tame(Pair):
    def delta(self, epsilon: Curve) -> Curve:
        return np.maximum(-np.expm1(epsilon), 0.0)

    def reverse(self) -> Pair:
        return Lopsided()

    @property
    def epsilon_max(self) -> float:
        return 0.0


class OneWay(Event):
    """An event whose forward pair is harmless and whose reverse is not."""

    @property
    def pure(self) -> F | None:
        return None

    @property
    def rho(self) -> F | None:
        return F(1)

    def pair(self) -> Pair:
        return Tame()


def test_both_directions_of_a_pair_are_counted() -> None:
    # The event as declared is harmless; its mirror leaks with probability 1/10 each time.
    two = Composed([OneWay(), ApproximateEvent(F(1, 10))])
    assert composed_delta(two, F(1), at_most=1.0) >= 0.1
    assert composed_delta(Composed([OneWay()]), F(1), at_most=1.0) >= 0.1


def test_losses_too_large_for_floats_are_left_to_the_closed_forms() -> None:
    events = Composed([LaplaceEvent(F(1000)), GaussianEvent(F(10**8))])
    assert composed_epsilon(events, F(1, 10**6), at_most=1e9) is None
    assert composed_delta(events, F(1), at_most=1.0) == 1.0
    assert PrivacyLoss(events).epsilon(1e-6) > 10**7


def test_twenty_compositions_take_milliseconds() -> None:
    cases = [
        Composed([(LaplaceEvent(F(1, 20)), 20)]),
        Composed([(LaplaceEvent(F(1, 20 + i)), 1) for i in range(20)]),
        Composed([(DiscreteLaplaceEvent(1, F(20)), 10), (DiscreteGaussianEvent(5, F(10**4)), 10)]),
        Composed([(ZCDPEvent(F(1, 1000)), 10), (LaplaceEvent(F(1, 20)), 10)]),
    ]
    assert all(len(c) <= LONGEST for c in cases)
    for events in cases:
        epsilon_of(events, F(1, 10**6))
        took = []
        for _ in range(5):
            start = time.process_time()
            epsilon_of(events, F(1, 10**6))
            took.append(time.process_time() - start)
        assert min(took) < 0.1  # about 0.01 on a quiet machine
