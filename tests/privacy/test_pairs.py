"""The curves against the definitions at 55 digits, down to δ around 1e-300, and laws that are slightly wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction as F
from typing import TypeAlias

import numpy as np
import pytest

from discreet.privacy.pair import ACCURACY, FLOOR, Pair
from discreet.privacy.pairs.additive import DiscreteGaussianPair, DiscreteLaplacePair, GaussianPair, LaplacePair
from discreet.privacy.pairs.guaranteed import ApproximatePair, ZCDPPair
from tests.privacy import curves

Truth: TypeAlias = Callable[[float], F]
Example: TypeAlias = tuple[str, Pair, Truth, list[float]]

EXAMPLES: list[Example] = [
    ("approximate", ApproximatePair(1.5, 2.0**-20), lambda x: curves.approximate(F(3, 2), F(1, 2**20), x), [1.5]),
    ("pure", ApproximatePair(0.125, 0.0), lambda x: curves.approximate(F(1, 8), F(0), x), [0.125]),
    ("laplace", LaplacePair(0.75), lambda x: curves.laplace(F(3, 4), x), [0.75]),
    ("laplace wide", LaplacePair(9.0), lambda x: curves.laplace(F(9), x), [9.0]),
    ("discrete laplace", DiscreteLaplacePair(3, F(4)), lambda x: curves.discrete_laplace(3, F(4), x), [0.75]),
    (
        "discrete laplace, small",
        DiscreteLaplacePair(5, F(2, 3)),
        lambda x: curves.discrete_laplace(5, F(2, 3), x),
        [7.5],
    ),
    ("gaussian", GaussianPair(F(1)), lambda x: curves.gaussian(F(1), x), [1.0, 8.5, 12.0, 25.0, 36.5]),
    (
        "gaussian, much noise",
        GaussianPair(F(1, 10**6)),
        lambda x: curves.gaussian(F(1, 10**6), x),
        [1e-3, 8e-3, 3.65e-2],
    ),
    ("gaussian, some noise", GaussianPair(F(1, 16)), lambda x: curves.gaussian(F(1, 16), x), [1e-3, 0.5, 2.2, 8.5]),
    ("gaussian, little noise", GaussianPair(F(400)), lambda x: curves.gaussian(F(400), x), [5.0, 200.0, 300.0, 900.0]),
    (
        "discrete gaussian",
        DiscreteGaussianPair(1, F(4)),
        lambda x: curves.discrete_gaussian(1, F(4), x),
        [2.0, 4.4, 9.0],
    ),
    (
        "tiny σ",
        DiscreteGaussianPair(1, F(1, 20)),
        lambda x: curves.discrete_gaussian(1, F(1, 20), x),
        [9.9, 10.1, 99.0],
    ),
    ("shift", DiscreteGaussianPair(30, F(900)), lambda x: curves.discrete_gaussian(30, F(900), x), [1.0, 8.5, 25.0]),
    (
        "narrow",
        DiscreteGaussianPair(2, F(102000)),
        lambda x: curves.discrete_gaussian(2, F(102000), x),
        [0.01, 0.07, 0.25],
    ),
    (
        "wide",
        DiscreteGaussianPair(2, F(103000)),
        lambda x: curves.discrete_gaussian(2, F(103000), x),
        [0.01, 0.07, 0.25],
    ),
    (
        "wide shift",
        DiscreteGaussianPair(900, F(103000)),
        lambda x: curves.discrete_gaussian(900, F(103000), x),
        [5.0, 40.0],
    ),
]
IDS = [name for name, *_ in EXAMPLES]


def at(example: Example) -> list[float]:
    """Where to look: the example's own points, a few below, and just inside the largest."""
    top = max(example[3])
    return [-1.5 * top, -0.3 * top, 0.0, 0.1 * top, 0.37 * top, 0.9 * top, top * (1 - 1e-6), *example[3]]


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_a_curve_is_the_definition_of_its_law(example: Example) -> None:
    _, pair, truth, _ = example
    x = np.array(at(example))
    for epsilon, found, bound in zip(at(example), pair.delta(x), pair.upper(x), strict=True):
        true = truth(epsilon)
        assert abs(F(float(found)) - true) <= F(ACCURACY) * true + F(FLOOR), epsilon
        assert true <= F(float(bound)), epsilon


def test_the_closed_form_of_the_truth_is_the_integral_of_the_definition() -> None:
    for mu_squared, x in ((F(1), 0.5), (F(1, 100), 0.3), (F(9), 12.0)):
        closed, integral = curves.gaussian(mu_squared, x), curves.gaussian_by_quadrature(mu_squared, x)
        assert abs(closed - integral) <= integral * F(1, 10**20)


def test_the_comparison_rejects_a_scale_that_is_off_by_a_percent() -> None:
    wrong: list[tuple[Pair, Truth, float]] = [
        (LaplacePair(0.7575), lambda x: curves.laplace(F(3, 4), x), 0.3),
        (GaussianPair(F(102, 100)), lambda x: curves.gaussian(F(1), x), 4.0),
        (DiscreteLaplacePair(3, F(396, 100)), lambda x: curves.discrete_laplace(3, F(4), x), 0.3),
        (DiscreteGaussianPair(1, F(392, 100)), lambda x: curves.discrete_gaussian(1, F(4), x), 2.0),
        (GaussianPair(F(1, 4)), lambda x: curves.discrete_gaussian(1, F(4), x), 2.0),  # another law
    ]
    for pair, truth, x in wrong:
        true = truth(x)
        assert abs(F(float(pair.delta(np.array([x]))[0])) - true) > true / 1000


def test_the_continuous_formula_would_under_protect_the_discrete_gaussian() -> None:
    x = 6.35
    assert curves.discrete_gaussian(1, F(1), x) > 2 * curves.gaussian(F(1), x)


def test_more_discrete_gaussian_noise_can_cost_more_at_one_epsilon() -> None:
    # Up to σ = 1/4 the loss 8 is the largest that the mass at 0 has; beyond, only p(±1), which grows, counts at ε = 8.
    more, less = (curves.discrete_gaussian(1, F(x), 8.0) for x in ("0.0637", "0.0625"))
    assert more > 1.1 * less
    pairs = (DiscreteGaussianPair(1, F(x)) for x in ("0.0637", "0.0625"))
    assert float(next(pairs).delta(np.array([8.0]))[0]) > 1.1 * float(next(pairs).delta(np.array([8.0]))[0])


@pytest.mark.parametrize("sigma_squared", [F(1, 3), F(5), F(1000), F(10**6)])
def test_a_larger_shift_and_a_smaller_scale_never_cost_less(sigma_squared: F) -> None:
    sigma = math.sqrt(sigma_squared)
    x = np.linspace(-2.0, 5.0, 57)
    last = np.zeros_like(x)
    for shift in range(1, 8):
        shift *= max(1, int(sigma) // 4)
        found = DiscreteGaussianPair(shift, sigma_squared).upper(x)
        assert np.all(found >= last * (1 - 2 * ACCURACY))
        last = found
    last = np.zeros_like(x)
    for scale in (F(50), F(10), F(3), F(1), F(1, 2)):
        found = DiscreteLaplacePair(2, scale).upper(x)
        assert np.all(found >= last * (1 - 2 * ACCURACY))
        last = found


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_a_curve_falls_and_is_convex_in_the_exponential_of_epsilon(example: Example) -> None:
    _, pair, _, points = example
    x = np.linspace(-1.2, 1.2, 401) * min(max(points), 300.0)
    y, t = pair.delta(x), np.exp(x)
    assert np.all(np.diff(y) <= 1e-11 * y[:-1])
    chord = y[:-2] + (y[2:] - y[:-2]) * (t[1:-1] - t[:-2]) / (t[2:] - t[:-2])
    assert np.all(y[1:-1] <= chord * (1 + 1e-10) + 1e-15)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_reversing_follows_the_identity_between_both_directions(example: Example) -> None:
    _, pair, _, points = example
    x = np.linspace(-1.2, 1.2, 101) * min(max(points), 300.0)
    other = -np.expm1(x) + np.exp(x) * pair.reverse().delta(-x)
    assert np.allclose(pair.delta(x), other, rtol=1e-9, atol=1e-9 * np.exp(max(0.0, x.max())) * 1e-3)


@pytest.mark.parametrize("rho", [1e-4, 0.125, 0.5, 3.0])
def test_the_zcdp_curve_is_above_every_mechanism_of_that_rho(rho: float) -> None:
    x = np.linspace(-1.0, 6.0, 50)
    bound = ZCDPPair(rho).upper(x)
    inside: list[Pair] = [
        GaussianPair(F(rho) * 2),
        ApproximatePair(math.sqrt(2 * rho), 0.0),
        LaplacePair(math.sqrt(2 * rho)),
        DiscreteGaussianPair(1, 1 / (F(rho) * 2)),
    ]
    for pair in inside:
        assert np.all(bound >= pair.delta(x))


@pytest.mark.parametrize(
    "pair",
    [
        ApproximatePair(0.0, 0.0),
        LaplacePair(0.0),
        DiscreteLaplacePair(0, F(3)),
        GaussianPair(F(0)),
        DiscreteGaussianPair(0, F(3)),
        ZCDPPair(0.0),
    ],
)
def test_a_use_that_reveals_nothing_has_the_least_curve(pair: Pair) -> None:
    x = np.array([-3.0, -1e-3, 0.0, 1e-3, 3.0])
    assert np.allclose(pair.delta(x), np.maximum(-np.expm1(x), 0.0), rtol=1e-15, atol=0.0)
    assert pair.epsilon_max == 0.0


@pytest.mark.parametrize("pair", [GaussianPair(F(10**8)), DiscreteGaussianPair(10**6, F(1))])
def test_noise_too_small_to_compute_counts_as_none(pair: Pair) -> None:
    assert np.all(pair.delta(np.array([0.0, 1e3, 1e9])) == 1.0)


def test_very_large_parameters_stay_finite_and_ordered() -> None:
    x = np.array([0.0, 0.5, 1.0, 2.0])
    for pair in (DiscreteGaussianPair(2**40, F(2**80)), DiscreteLaplacePair(2**50, F(2**50))):
        y = pair.delta(x)
        assert np.all((y >= 0) & (y <= 1))
        assert np.all(np.diff(y) <= 0)
    # At that size the discrete law is the continuous one.
    near = DiscreteGaussianPair(2**40, F(2**80)).delta(x)
    assert np.allclose(near, GaussianPair(F(1)).delta(x), rtol=1e-11)


@pytest.mark.parametrize(("pair", "top"), [(LaplacePair(0.5), 0.5), (DiscreteLaplacePair(1, F(2)), 0.5)])
def test_a_bounded_loss_ends_at_its_largest_epsilon(pair: Pair, top: float) -> None:
    assert pair.epsilon_max == top
    assert pair.delta(np.array([top]))[0] == 0.0
    assert pair.delta(np.array([math.nextafter(top, 0.0)]))[0] > 0.0
