"""Staircase noise: its curve is that of the worst shift, by integrating the densities over every piece."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from discreet.errors import InvalidParameter
from discreet.privacy.pair import ACCURACY
from discreet.privacy.pairs.finite import RandomizedResponsePair
from discreet.privacy.staircase import StaircaseEvent, StaircasePair
from tests.privacy.curves import exactly, real

CASES = [
    (F(1, 2), F(1, 3)),
    (F(1), F(3, 8)),
    (F(3), F(9, 50)),
    (F(1), F(1, 2)),
    (F(2), F(4, 5)),
    (F(1, 4), F(1)),
    (F(1), F(0)),
]
GRID = [-2.5, -1.0, -0.3, 0.0, 0.1, 0.4, 0.99, 1.7, 2.9, 3.5]


def density(x: mpf, epsilon: mpf, gamma: mpf) -> mpf:
    """Geng, Viswanath 2012, equation (18), at Δ = 1."""
    b, x = mpmath.exp(-epsilon), abs(x)
    k = mpmath.floor(x)
    a = (1 - b) / (2 * (gamma + b * (1 - gamma)))
    return a * b ** (k if x - k < gamma else k + 1)


@exactly
def curve(epsilon_zero: F, gamma: F, shift: F, epsilon: float) -> mpf:
    """∫ (f(x) − e^ε f(x − d))₊ dx, exactly on every piece on which both are constant."""
    e, g, d, x = real(epsilon_zero), real(gamma), real(shift), real(epsilon)
    reach = int(40 / epsilon_zero) + 2
    edges = [s * (k + step) for k in range(reach + 1) for step in (mpf(0), g) for s in (-1, 1)]
    cuts = sorted({c + move for c in edges for move in (mpf(0), d)})
    total = mpf(0)
    for low, high in pairwise(cuts):
        middle = (low + high) / 2
        excess = density(middle, e, g) - mpmath.exp(x) * density(middle - d, e, g)
        if excess > mpf(10) ** -45:
            total += (high - low) * excess
    return total


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(2)
@pytest.mark.parametrize(("epsilon", "gamma"), CASES)
def test_the_pair_has_the_curve_of_the_largest_shift(epsilon: F, gamma: F) -> None:
    got = StaircasePair(float(epsilon), gamma).delta(np.array(GRID))
    for x, found in zip(GRID, got, strict=True):
        true = curve(epsilon, gamma, F(1), x)
        assert abs(F(float(found)) - true) <= F(ACCURACY) * true + F(1, 10**15)
        assert abs(x) >= epsilon or abs(F(float(found)) - curve(epsilon * F(101, 100), gamma, F(1), x)) > F(1, 10**6)


@pytest.mark.exhaustive
@pytest.mark.thinned(2)
@pytest.mark.parametrize(("epsilon", "gamma"), CASES)
def test_no_smaller_shift_has_a_larger_curve_at_any_epsilon(epsilon: F, gamma: F) -> None:
    pair = StaircasePair(float(epsilon), gamma)
    for shift in (F(1, 50), F(1, 3), F(5, 8), F(99, 100)):
        for x in (-0.7, 0.0, 0.2, 0.9):
            assert F(float(pair.upper(np.array(x)))) >= curve(epsilon, gamma, -shift, x)


def test_half_a_step_is_randomized_response_and_any_other_share_is_less() -> None:
    grid, epsilon = np.linspace(-1.9, 1.9, 39), 2.0
    best = RandomizedResponsePair(epsilon, 2).delta(grid)
    np.testing.assert_allclose(StaircasePair(epsilon, F(1, 2)).delta(grid), best, rtol=1e-13)
    for gamma in (F(0), F(1, 10), F(49, 100), F(51, 100), F(1)):
        assert (StaircasePair(epsilon, gamma).delta(grid) < best).all()


@pytest.mark.parametrize(("epsilon", "gamma"), CASES)
def test_the_outcomes_have_the_curve_of_the_pair(epsilon: F, gamma: F) -> None:
    pair = StaircasePair(float(epsilon), gamma)
    law = pair.law()
    assert law is not None
    assert law.leak == 0
    assert abs(law.mass.sum() - 1) < 1e-15
    for x in GRID:
        from_law = (law.mass * -np.expm1(np.minimum(x - law.loss, 0))).sum()
        assert abs(from_law - pair.delta(np.array(x))) < 1e-15


def test_a_larger_epsilon_costs_more() -> None:
    grid = np.linspace(0, 0.9, 10)
    for gamma in (F(0), F(1, 4), F(1, 2), F(3, 4), F(1)):
        assert (StaircasePair(1.0, gamma).delta(grid) < StaircasePair(1.01, gamma).delta(grid)).all()


def test_shares_and_epsilons_beyond_floats_stay_sound() -> None:
    for gamma in (F(0), F(1, 10**400), F(1, 3), F(1)):
        curve_there = StaircaseEvent(F(800), gamma).pair().delta(np.array([0.0, 700.0, 800.0]))
        assert np.isfinite(curve_there).all()
        assert curve_there[0] >= 0.499
        assert curve_there[2] == 0


@pytest.mark.parametrize(("epsilon", "gamma"), [(F(0), F(1, 2)), (F(-1), F(1, 2)), (F(1), F(-1, 9)), (F(1), F(10, 9))])
def test_parameters_out_of_range_are_refused(epsilon: F, gamma: F) -> None:
    with pytest.raises(InvalidParameter):
        StaircaseEvent(epsilon, gamma)


def test_an_event_takes_fractions_only() -> None:
    with pytest.raises(InvalidParameter, match="gamma of an event must be a Fraction, not float"):
        StaircaseEvent(F(1), 0.5)  # type: ignore[arg-type]


def test_an_event_is_pure_and_concentrated() -> None:
    event = StaircaseEvent(F(1, 2), F(1, 3))
    assert event.pure == F(1, 2)
    assert event.rho == F(1, 8)
    assert event.mu_squared is None
    assert event.failure == 0
    assert event.relation is None
