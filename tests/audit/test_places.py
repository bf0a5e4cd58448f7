"""Numbers find their places among cuts as by bisection, and the lowest bits of floats are those of their fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.audit.outputs.tree import lowest_bit
from discreet.audit.places import binned, places

Floats = NDArray[np.float64]
RANDOM = np.random.default_rng(0)
SAMPLES = {
    "normal": RANDOM.normal(size=9000),
    "heavy tails": RANDOM.standard_cauchy(9000),
    "whole numbers": np.rint(RANDOM.laplace(0.0, 40.0, 9000)),
    "many sizes": RANDOM.lognormal(0.0, 9.0, 9000),
    "a sentinel": np.where(RANDOM.random(9000) < 0.3, -2000.0, RANDOM.normal(0.0, 60.0, 9000)),
    "below normal floats": RANDOM.normal(size=9000) * 1e-310,
    "the ends of floats": 1.7e308 * RANDOM.uniform(-1.0, 1.0, 9000),
    "neighbouring floats": 1.0 + RANDOM.integers(0, 200, 9000) * 2.0**-52,
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("many", [1, 12, 90, 250])
@pytest.mark.parametrize("ends", [False, True])
def test_places_are_those_of_bisection(name: str, many: int, ends: bool) -> None:
    x: Floats = np.concatenate([SAMPLES[name], [np.inf, -np.inf, 0.0, -0.0]])
    # The cuts themselves are among the numbers.
    cuts = np.unique(np.random.default_rng(many).choice(SAMPLES[name], many))
    if ends:
        cuts = np.concatenate([[-np.inf], cuts, [np.inf]])
    assert np.array_equal(places(cuts, x), np.searchsorted(cuts, x))
    assert np.array_equal(places(cuts, x[:100]), np.searchsorted(cuts, x[:100]))
    assert np.array_equal(binned(cuts, x), np.searchsorted(cuts, x) + 1)


@pytest.mark.parametrize("size", [10, 9000])
@pytest.mark.parametrize("many", [1, 2, 8, 9, 40])
def test_what_is_no_number_has_the_place_zero(size: int, many: int) -> None:
    x = np.linspace(0.0, 1.0, size)
    x[3] = np.nan
    cuts = np.linspace(-1.0, 1.0, many)
    assert places(cuts, x)[3] == binned(cuts, x)[3] == 0
    assert binned(cuts, x)[4] > 0


def test_the_lowest_bit_is_the_largest_power_of_two_that_divides_a_float() -> None:
    bits = RANDOM.integers(0, 0x7FF0 << 48, 3000)
    some: Floats = np.concatenate([bits.view(np.float64), [1.0, -3.0, 0.5, 96.0, 5e-324, 2.0**-1022, 2.0**1023]])
    for x, found in zip(some, lowest_bit(some), strict=True):
        exact = Fraction(float(x))
        # The numerator of a float is odd, or its denominator is 1.
        power = exact.numerator & -exact.numerator
        assert found == math.log2(power) - math.log2(exact.denominator)
    assert np.array_equal(lowest_bit(np.resize(some, (6000, 7))), np.resize(lowest_bit(some), (6000, 7)))


def test_what_has_no_lowest_bit_is_said() -> None:
    assert lowest_bit(np.array([0.0, -0.0])).tolist() == [np.inf, np.inf]
    assert np.isnan(lowest_bit(np.array([np.nan, np.inf, -np.inf]))).all()
