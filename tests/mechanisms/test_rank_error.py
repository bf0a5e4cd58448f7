"""How far a sum of noises reaches, against the exact law of the sum on the integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.exponential_quantile import rank_error

HALF = Fraction(1, 2)
LEVELS = [Fraction(1, 2), Fraction(19, 20), Fraction(999, 1000)]
NOISES: list[Additive] = [
    DiscreteLaplaceNoise(Fraction(1, 2)),
    DiscreteLaplaceNoise(Fraction(9)),
    RoundedGaussianNoise(Fraction(7)),
]


def exact_law(noise: Additive, weights: tuple[tuple[Fraction, int], ...], scale: int, reach: int) -> np.ndarray:
    """The law of scale·Σ aᵢ Zᵢ on the integers, by convolution term by term."""
    k = np.arange(-reach, reach + 1)
    one = np.diff(noise.cdf(np.arange(-reach - 1, reach + 1, dtype=np.float64)))
    law = np.ones(1)
    for a, n in weights:
        step = int(a * scale)
        spread = np.zeros(2 * reach * step + 1)
        spread[(k + reach) * step] = one
        for _ in range(n):
            law = np.convolve(law, spread)
    return law


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize(
    "weights",
    [
        ((Fraction(1), 1),),
        ((Fraction(1), 7),),
        ((HALF, 5), (Fraction(1), 2)),
        ((Fraction(1, 4), 3), (Fraction(3, 4), 2)),
    ],
    ids=str,
)
def test_the_error_holds_the_sum_as_often_as_asked_and_is_hardly_larger(
    noise: Additive, weights: tuple[tuple[Fraction, int], ...], confidence: Fraction
) -> None:
    t = rank_error(noise, weights, confidence)
    law = exact_law(noise, weights, 4, 150)
    middle = len(law) // 2
    within = np.concatenate(([law[middle]], law[middle] + np.cumsum(law[middle + 1 :] + law[:middle][::-1])))
    assert within[min(int(np.floor(t * 4 + 1e-9)), len(within) - 1)] >= float(confidence) - 1e-9
    least = int(np.flatnonzero(within >= float(confidence))[0]) / 4
    deviation = (noise.variance * float(sum(n * a * a for a, n in weights))) ** 0.5
    steps = 1.0 if noise.variance < 1 else 0.5  # a law on few integers has few quantiles
    assert t <= least + 0.05 * deviation + steps


def test_no_noise_has_no_error_and_noise_that_hardly_moves_has_almost_none() -> None:
    assert rank_error(DiscreteLaplaceNoise(Fraction(5)), (), HALF) == 0
    assert rank_error(DiscreteLaplaceNoise(Fraction(5)), ((Fraction(0), 9),), HALF) == 0
    assert rank_error(DiscreteLaplaceNoise(Fraction(1, 1000)), ((Fraction(1), 9),), Fraction(19, 20)) == 0


def test_more_terms_reach_further() -> None:
    noise = DiscreteLaplaceNoise(Fraction(4))
    found = [rank_error(noise, ((Fraction(1), n),), Fraction(19, 20)) for n in (1, 4, 16, 64)]
    assert found == sorted(found) and found[-1] < 9 * found[0]


def test_a_level_beyond_what_is_convolved_is_the_sum_of_single_errors() -> None:
    noise, level = DiscreteLaplaceNoise(Fraction(4)), 1 - Fraction(1, 10**13)
    assert rank_error(noise, ((Fraction(1), 3),), level) == 3 * noise.quantile(1 - (1 - level) / 3)


def test_huge_noise_has_the_error_of_the_same_noise_in_larger_steps() -> None:
    weights, level = ((HALF, 16), (Fraction(1), 12)), Fraction(199, 200)
    small, huge = (rank_error(DiscreteLaplaceNoise(Fraction(b)), weights, level) for b in (1000, 10**9))
    assert abs(huge / small / 10**6 - 1) < 1e-3
