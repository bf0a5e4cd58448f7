"""Half-widths of weighed sums hold for all weights, and are close to the exact ones."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, special, stats

from discreet.mechanisms import Laplace
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.calibrated import AskedGuarantee, bits_for, half_width, laplace_reach


def outside(t: float, n: int) -> float:
    """P(|S| > t) for the mean of n Laplace numbers scaled to variance 1: N(0, W) with W gamma of mean 1."""
    law = stats.gamma(n, scale=1 / n)
    found, _ = integrate.quad(lambda w: special.erfc(t / math.sqrt(2 * w)) * law.pdf(w), 0, math.inf, limit=500)
    return float(found)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_the_reach_is_enough_for_any_number_of_equal_weights(confidence: float) -> None:
    reach = laplace_reach(1 - confidence)
    assert all(outside(reach, n) <= (1 - confidence) * (1 + 1e-6) for n in (1, 2, 3, 5, 10, 40))
    assert math.erfc(reach / math.sqrt(2)) <= 1 - confidence  # infinitely many: the normal law


def test_the_reach_is_enough_for_unequal_weights() -> None:
    # Weights c: the characteristic function is Π 1/(1 + c²u²/2), inverted by partial fractions in 40 digits.
    with mp.workdps(40):
        for weights in ([1, "0.5"], [1, "0.9", "0.1"], ["0.2", "0.3", "0.4", "0.5", "0.6"]):
            c = [mp.mpf(w) for w in weights]
            unit = mp.sqrt(sum(x * x for x in c))
            b = [x / unit / mp.sqrt(2) for x in c]  # scales of Laplace numbers whose sum has variance 1
            parts = [
                mp.fprod(b[i] ** 2 / (b[i] ** 2 - b[j] ** 2) for j in range(len(b)) if j != i) for i in range(len(b))
            ]
            for alpha in (0.2, 0.05, 0.001):
                t = mp.mpf(laplace_reach(alpha))
                tail = mp.fsum(p * mp.exp(-t / x) for p, x in zip(parts, b, strict=True))
                assert 0 < tail <= alpha


@pytest.mark.parametrize(("alpha", "waste"), [(0.05, 0.02), (0.01, 0.002), (1e-3, 1e-4), (1e-9, 1e-6), (1e-200, 1e-6)])
def test_the_reach_is_close_to_the_quantile_of_one_laplace_number(alpha: float, waste: float) -> None:
    exact = -math.log(alpha) / math.sqrt(2)
    assert exact <= laplace_reach(alpha) <= exact * (1 + waste)


def test_any_confidence_has_a_half_width() -> None:
    for noise in (DiscreteLaplaceNoise(Fraction(1 << 20)), RoundedGaussianNoise(Fraction(1 << 20))):
        widths = [half_width(noise, 1.0, 1.0, Fraction(c)) for c in ("1e-200", "1e-9", "0.5", "0.99999")]
        widths.append(half_width(noise, 1.0, 1.0, 1 - Fraction(1, 10**279)))
        assert all(0 < w < math.inf for w in widths) and widths == sorted(widths)


def test_a_reach_that_is_a_little_shorter_would_not_be_enough() -> None:
    assert outside(laplace_reach(0.01) * 0.998, 1) > 0.01


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(30)])
@pytest.mark.parametrize("weights", [(1,), (1, 1), (3, 1, 1), (2, 1, 1, 1, 1)])
def test_the_half_width_covers_discrete_noise_of_any_scale(scale: Fraction, weights: tuple[int, ...]) -> None:
    # The exact law of Σ c Z by convolution, for weights that are whole numbers.
    p = math.exp(-1 / scale)
    mass = np.array([1.0])
    for c in weights:
        k = np.arange(-math.ceil(45 * scale), math.ceil(45 * scale) + 1)
        spread = np.zeros((len(k) - 1) * c + 1)
        spread[::c] = (1 - p) / (1 + p) * p ** np.abs(k)
        mass = np.convolve(mass, spread)
    places = np.arange(len(mass)) - len(mass) // 2
    squares = float(sum(c * c for c in weights))
    for confidence in (0.5, 0.9, 0.99):
        width = half_width(DiscreteLaplaceNoise(scale), squares, float(sum(weights)), confidence)
        assert mass[np.abs(places) <= width].sum() >= confidence - 1e-12


def test_the_half_width_of_gaussian_noise_is_the_normal_quantile_plus_what_rounding_adds() -> None:
    sigma = Fraction(1 << 20)
    width = half_width(RoundedGaussianNoise(sigma), 4.0, 6.0, 0.95)
    assert width == pytest.approx(2 * float(sigma) * stats.norm.isf(0.025) + 3, rel=1e-8)


def test_one_number_is_as_wide_as_the_mechanism_for_one_number_says() -> None:
    noise: Additive = DiscreteLaplaceNoise(Fraction(1 << 20))
    exact = Laplace(epsilon=1, sensitivity=1 << 20).error(0.99)
    assert exact <= half_width(noise, 1.0, 1.0, 0.99) <= 1.01 * exact


def test_noise_in_so_many_digits_is_fine() -> None:
    for width in (
        Fraction(1, 10**20),
        Fraction(1, 3),
        Fraction(1),
        Fraction(1000),
        Fraction(1 << 20),
        Fraction(10**30),
    ):
        assert width * 2 ** bits_for(width) >= 1 << 20
        assert bits_for(width) == 0 or width * 2 ** bits_for(width) <= 1 << 22


def test_the_cost_is_never_above_what_was_asked_for() -> None:
    for l1, l2_squared in ((1, 1), (7, 13), (10**9, 10**17 + 3)):
        law, events = AskedGuarantee.read("M", "0.3", None, None).calibrated(l1, l2_squared)
        assert isinstance(law, DiscreteLaplaceNoise) and law.scale == l1 / Fraction(3, 10)
        asked = AskedGuarantee.read("M", "0.3", "1e-7", None)
        law, events = asked.calibrated(l1, l2_squared)
        ((event, _),) = events
        assert event.mu_squared is not None and isinstance(law, RoundedGaussianNoise)
        assert event.mu_squared == l2_squared / law.sigma**2 and event.mu_squared * asked.unit <= 1
