"""Two uses by going through the outcomes of one, against numbers computed elsewhere and the grid."""

from __future__ import annotations

import json
from fractions import Fraction as F
from pathlib import Path
from typing import Any

import mpmath
import pytest
from mpmath import mpf

from discreet import accounting
from discreet.accounting.engines import lattice, two_sampled_uses
from discreet.accounting.engines.contour import epsilon_bounds
from discreet.accounting.engines.sampled_gaussian import SampledGaussianLaw
from discreet.privacy.event import GaussianEvent
from discreet.privacy.pair import Pair
from discreet.privacy.sampling import PoissonEvent

# Computed at 160 bits and more by tests/accounting/truth.py, which shares no code with the package.
TRUTH = [
    c
    for c in json.loads(Path(__file__).parents[1].joinpath("sgd_truth.json").read_text())
    if c["steps"] == 2 and c.get("few")
][:5]


def _pair(sigma: object, rate: object) -> Pair:
    return PoissonEvent(GaussianEvent(1 / F(str(sigma)) ** 2), F(str(rate))).pair()


@pytest.mark.parametrize("case", TRUTH, ids=lambda c: f"{c['sigma']}-{c['q']}-{c['delta']}")
def test_two_uses_are_bounded_around_the_truth_and_a_wrong_rate_is_told_apart(case: dict[str, Any]) -> None:
    truth = float(case["epsilon_remove"])
    for factor, holds in ((F(1), True), (1 - F(1, 10**5), False), (1 + F(1, 10**5), False)):
        found = two_sampled_uses.epsilon_bounds(
            [(_pair(case["sigma"], F(str(case["q"])) * factor), 2)], float(case["delta"])
        )
        assert found is not None
        assert (found.lower * (1 - 1e-11) <= truth <= found.upper * (1 + 1e-11)) == holds
        assert found.upper - found.lower <= max(1e-6 * truth, 1e-9)


@pytest.mark.parametrize("removes", [True, False])
@pytest.mark.parametrize(
    ("sigma", "rate", "delta"),
    [(7.86083, "4.968e-05", "1.0527661e-7"), (0.43243, "1.0e-05", "1e-5"), (1.3, "0.01", "1e-12")],
)
def test_bounds_of_small_samples_are_as_near_as_digits_allow(
    sigma: float, rate: str, delta: str, removes: bool
) -> None:
    pair = _pair(sigma, rate) if removes else _pair(sigma, rate).reverse()
    found = two_sampled_uses.epsilon_bounds([(pair, 2)], float(delta))
    assert found is not None
    assert found.upper - found.lower <= max(4e-7 * found.upper, 3e-11)


@pytest.mark.exhaustive
@pytest.mark.parametrize("removes", [True, False])
def test_chords_are_above_and_tangents_below_the_integral_over_every_outcome(removes: bool) -> None:
    sigma, q, epsilon = 1.7, 3e-4, 2e-4
    with mpmath.workdps(30):
        mu = 1 / mpf(sigma)

        def normal(x: mpf) -> mpf:
            return mpmath.erfc(x / mpmath.sqrt(2)) / 2

        def one(e: mpf) -> mpf:  # the curve of one use, by the region where its density is the larger
            q_, ee = mpf(q), mpmath.exp(e)
            level = (ee - 1 + q_) / q_ if removes else (1 / ee - 1 + q_) / q_
            if level <= 0:
                return 1 - ee if removes else mpf(0)
            t = mpmath.log(level) / mu + mu / 2
            if removes:
                return (1 - q_) * normal(t) + q_ * normal(t - mu) - ee * normal(t)
            return normal(-t) - ee * ((1 - q_) * normal(-t) + q_ * normal(mu - t))

        def integrand(x: mpf) -> mpf:
            w = 1 - q + q * mpmath.exp(mu * x - mu * mu / 2)
            loss, weight = (mpmath.log(w), w) if removes else (-mpmath.log(w), mpf(1))
            return mpmath.npdf(x) * weight * one(epsilon - loss)

        truth = float(mpmath.quad(integrand, mpmath.linspace(-10, 11, 22)))
    pair = _pair(sigma, F(str(q))) if removes else _pair(sigma, F(str(q))).reverse()
    found = two_sampled_uses.delta_bounds([(pair, 2)], epsilon)
    assert found.lower <= truth * (1 + 1e-12)
    assert found.upper >= truth * (1 - 1e-12)
    assert found.upper - found.lower <= 3e-6 * truth


@pytest.mark.parametrize(
    ("sigma", "rate", "delta", "removes"), [(1.2, 0.2, 1e-4, True), (0.5, 0.6, 1e-9, False), (6.0, 0.9, 1e-3, False)]
)
def test_both_directions_of_two_uses_agree_with_the_grid(
    sigma: float, rate: float, delta: float, removes: bool
) -> None:
    pair = _pair(sigma, rate) if removes else _pair(sigma, rate).reverse()
    grid, found = (lattice.epsilon_bounds([(pair, 2)], delta), two_sampled_uses.epsilon_bounds([(pair, 2)], delta))
    assert grid is not None
    assert found is not None
    assert grid.lower <= found.upper
    assert found.lower <= grid.upper
    at = (found.lower + found.upper) / 2
    chance = two_sampled_uses.delta_bounds([(pair, 2)], at)
    assert chance.lower <= delta * (1 + 1e-2)
    assert chance.upper >= delta * (1 - 1e-2)
    assert chance.upper - chance.lower <= 1e-4 * delta


# Once wider than a millionth, or slower than all others.
HARD = [
    (1.56669, "0.17380505", 2, "0.0002667"),
    (1.31423, "0.00089498", 2, "0.00034102"),
    (1.28457, "6.626e-05", 4, "3.845e-6"),
    (7.86083, "4.968e-05", 2, "1.0527661e-7"),
    (8.75939, "1.074e-05", 2, "1.3032883e-7"),
    (5.66247, "1.65e-05", 2, "5.8533204e-7"),
    (1.10052, "0.00159811", 2, "0.00045264518"),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("sigma", "rate", "steps", "delta"), HARD)
def test_few_uses_of_small_cost_are_bounded_closely(sigma: float, rate: str, steps: int, delta: str) -> None:
    lower, upper = (accounting.gaussian(sigma).poisson(F(rate)) * steps).bounds(F(delta))
    assert 0 < lower <= upper
    assert upper - lower <= max(1e-6 * upper, 1e-9)
    sides = [
        lattice.epsilon_bounds([(p, steps)], float(delta)) for p in (_pair(sigma, rate), _pair(sigma, rate).reverse())
    ]
    assert lower <= max(b.upper for b in sides if b is not None)
    assert upper >= max(b.lower for b in sides if b is not None)


@pytest.mark.exhaustive
def test_a_delta_above_that_at_zero_costs_nothing_in_either_direction() -> None:
    sigma, rate, steps, delta = 0.54509, "1.108e-05", 75, 0.000164187
    assert (accounting.gaussian(sigma).poisson(F(rate)) * steps).bounds(delta) == (0.0, 0.0)
    for pair in (_pair(sigma, rate), _pair(sigma, rate).reverse()):
        assert lattice.delta_bounds([(pair, steps)], 0.0).upper <= delta
        assert lattice.delta_bounds([(pair, 2 * steps)], 0.0).lower > delta  # it would not be so for twice as many
    found = epsilon_bounds(SampledGaussianLaw(sigma, float(rate), 2 * steps, True), delta)
    assert found is not None
    assert found.upper > 0
