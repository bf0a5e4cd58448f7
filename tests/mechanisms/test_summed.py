"""The law of summed noise, against convolutions of exact mass functions and against the normal limit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.summed import SummedNoise
from discreet.privacy.unit import Sensitivity
from discreet.testing import ReplayEntropy


def convolved(scale: float, n: int, reach: int) -> np.ndarray:
    """The mass function of the sum of n discrete Laplace draws on −reach, …, reach."""
    k = np.arange(-reach, reach + 1)
    one = np.exp(-np.abs(k) / scale)
    one /= one.sum()
    law = one
    for _ in range(n - 1):
        law = np.convolve(law, one, mode="same")
    return law


@pytest.mark.parametrize("n", [1, 2, 5, 17])
@pytest.mark.parametrize("scale", [0.5, 2.0, 7.0])
def test_the_law_of_a_small_scale_is_that_of_exact_convolution(scale: float, n: int) -> None:
    reach = 600
    exact = convolved(scale, n, reach)
    found = SummedNoise(DiscreteLaplaceNoise(Fraction(scale)), n)
    at = np.arange(-40, 41)
    truth = np.cumsum(exact)[at + reach]
    assert np.max(np.abs(found.cdf(at.astype(float)) - truth)) < 1e-9
    for confidence in (Fraction(1, 2), Fraction(19, 20), Fraction(999, 1000)):
        t = found.quantile(confidence)
        inside = exact[reach - t : reach + t + 1].sum()
        fewer = exact[reach - t + 1 : reach + t].sum() if t else 0.0
        assert fewer < float(confidence) <= inside + 1e-9


@pytest.mark.parametrize("n", [3, 40])
def test_the_law_of_a_large_scale_is_right_to_three_digits(n: int) -> None:
    found = SummedNoise(DiscreteLaplaceNoise(Fraction(3000)), n)
    reach = 200_000
    k = np.arange(-reach, reach + 1)
    one = np.exp(-np.abs(k) / 3000)
    spectrum = np.fft.rfft(np.fft.ifftshift(one / one.sum())) ** n
    exact = np.fft.fftshift(np.fft.irfft(spectrum, len(k)))
    t = found.quantile(Fraction(19, 20))
    inside = exact[reach - t : reach + t + 1].sum()
    assert abs(inside - 0.95) < 5e-4


@pytest.mark.parametrize(
    "noise",
    [DiscreteLaplaceNoise(Fraction(10**12)), RoundedGaussianNoise(Fraction(5)), DiscreteLaplaceNoise(Fraction(9))],
)
def test_the_sum_of_many_is_nearly_normal(noise: Additive) -> None:
    found = SummedNoise(noise, 10_000)
    deviation = 100 * math.sqrt(noise.variance)
    assert found.variance == pytest.approx(deviation**2)
    assert found.quantile(Fraction(19, 20)) == pytest.approx(norm.ppf(0.975) * deviation, rel=2e-3)


def test_a_sum_is_drawn_draw_by_draw() -> None:
    noise = DiscreteLaplaceNoise(Fraction(2))
    bits = bytes(range(256)) * 200
    summed = SummedNoise(noise, 3).draw(4, ReplayEntropy(bits)).tolist()
    again = ReplayEntropy(bits)
    parts = [noise.draw(4, again).tolist() for _ in range(3)]
    assert summed == [sum(column) for column in zip(*parts, strict=True)]


def test_a_sum_costs_what_one_draw_costs() -> None:
    noise = DiscreteLaplaceNoise(Fraction(2))
    moved = Sensitivity(2, 3)
    assert SummedNoise(noise, 9).event(moved) == noise.event(moved)


def test_a_sum_of_none_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="n must be at least 1, not 0"):
        SummedNoise(DiscreteLaplaceNoise(Fraction(2)), 0)


@pytest.mark.parametrize("noise", [DiscreteLaplaceNoise(Fraction(20)), RoundedGaussianNoise(Fraction(50))])
def test_a_doubt_below_what_the_grid_holds_has_a_finite_width(noise: Additive) -> None:
    summed = SummedNoise(noise, 20)
    assert (
        summed.quantile(1 - Fraction(1, 10**12))
        <= summed.quantile(1 - Fraction(1, 10**15))
        <= 20 * (noise.quantile(1 - Fraction(1, 20 * 10**15)) + 1)
    )
