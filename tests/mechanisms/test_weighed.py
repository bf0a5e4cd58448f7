"""The law of weighed noise, against convolutions of exact mass functions and the normal law."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.summed import SummedNoise, WeighedNoise
from discreet.plan.nodes.noise import quantile
from discreet.privacy.unit import Sensitivity
from discreet.testing import ReplayEntropy

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


def laplace(scale: float, reach: int) -> np.ndarray:
    k = np.arange(-reach, reach + 1)
    mass = np.exp(-np.abs(k) / scale)
    return np.asarray(mass / mass.sum())


def test_the_tail_is_an_upper_bound_and_close_by() -> None:
    """½X + ⅓Y: the exact law on sixths."""
    found = WeighedNoise(
        ((HALF, DiscreteLaplaceNoise(Fraction(9))), (THIRD, DiscreteLaplaceNoise(Fraction(20)))), Fraction(0)
    )
    x, y = laplace(9, 500), laplace(20, 900)
    law = np.zeros(2 * 3400 + 1)
    for i, p in enumerate(x):
        law[3400 + 3 * (i - 500) + 2 * np.arange(-900, 901)] += p * y
    for t in (0, 1, 5, 12, 25, 60):
        exact = 1 - law[3400 - 6 * t : 3400 + 6 * t + 1].sum()
        assert exact <= found.tail(t)
        assert found.tail(t) <= (1 - law[3400 - 6 * t + 1 : 3400 + 6 * t].sum()) * 1.01 + 1e-9
    assert found.variance == pytest.approx((law * (np.arange(-3400, 3401) / 6) ** 2).sum())


def test_rounding_is_allowed_for_wherever_it_goes() -> None:
    noise = DiscreteLaplaceNoise(Fraction(6))
    parts = ((Fraction(1), noise), (HALF, noise))
    plain, rounded = WeighedNoise(parts, Fraction(0)), WeighedNoise(parts, Fraction(2))
    level = Fraction(19, 20)
    assert rounded.quantile(level) == plain.quantile(level) + 2
    assert rounded.tail(1) == 1.0
    both = ((Fraction(3), rounded), (Fraction(1), noise))
    apart = ((Fraction(3), plain), (Fraction(1), noise))
    assert quantile(both, level) == pytest.approx(quantile(apart, level) + 6)


def test_many_small_parts_are_nearly_normal() -> None:
    z = SummedNoise(RoundedGaussianNoise(Fraction(300)), 400)
    found = WeighedNoise(((Fraction(1, 50), z), (Fraction(1, 7), RoundedGaussianNoise(Fraction(700)))), HALF)
    deviation = math.sqrt(120**2 + 100**2)
    assert math.sqrt(found.variance) == pytest.approx(deviation, rel=1e-4)
    assert found.quantile(Fraction(19, 20)) == pytest.approx(norm.ppf(0.975) * deviation + 0.5, rel=5e-3)
    at = np.array([-200.0, 0.0, 100.0])
    assert found.cdf(at) == pytest.approx(norm.cdf(at / deviation), abs=3e-3)


def test_every_confidence_has_a_quantile() -> None:
    found = WeighedNoise(((HALF, DiscreteLaplaceNoise(Fraction(2))),), Fraction(0))
    assert found.quantile(1 - Fraction(1, 10**18)) > found.quantile(Fraction(999, 1000))


def test_draws_are_the_rounded_sum_of_draws() -> None:
    one, two = DiscreteLaplaceNoise(Fraction(5)), DiscreteLaplaceNoise(Fraction(8))
    bits = bytes(range(256)) * 300
    found = WeighedNoise(((HALF, one), (THIRD, two)), Fraction(1)).draw(4, ReplayEntropy(bits)).tolist()
    again = ReplayEntropy(bits)
    parts = [one.draw(4, again).tolist(), two.draw(4, again).tolist()]
    assert found == [round(Fraction(a, 2) + Fraction(b, 3)) for a, b in zip(*parts, strict=True)]


def test_it_has_no_price_of_its_own() -> None:
    noise = WeighedNoise(((HALF, DiscreteLaplaceNoise(Fraction(5))),), Fraction(1))
    with pytest.raises(TypeError):
        noise.event(Sensitivity(1, 1))


@pytest.mark.parametrize(
    ("weight", "rounding"), [(Fraction(0), Fraction(0)), (Fraction(-1), HALF), (HALF, Fraction(-1))]
)
def test_weights_and_rounding_have_a_sign(weight: Fraction, rounding: Fraction) -> None:
    with pytest.raises(InvalidParameter, match="weights must be above 0"):
        WeighedNoise(((weight, DiscreteLaplaceNoise(Fraction(5))),), rounding)
    with pytest.raises(InvalidParameter):
        WeighedNoise((), Fraction(0))
