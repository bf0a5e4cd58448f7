"""What a bent path says of the heights of a line, against sums that know nothing of paths."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.accounting.engines.bent import bent
from discreet.accounting.engines.marked_gaussian import MarkedGaussianLaw
from discreet.accounting.engines.sampled_gaussian import SampledGaussianLaw
from discreet.privacy.law import Floats

MANY = 24_001


def _fallen(sigma: float, rate: float, p: float, heights: Floats, level: float = math.inf) -> Floats:
    """Log |E_Q[w^(p+iv) ψ] / E_Q[w^p ψ]| by a sum over many points of the axis, on which no path is moved.

    −∞ below −25, where the rounding of such a sum begins, and where the points are too few for the height.
    """
    ends = min(p if p < 0 else 0.0, 0.0) - 10 * sigma, max(p, 0.0) + 10 * sigma
    x = np.linspace(*ends, MANY)
    loss = np.logaddexp(0.0, (2 * x - 1) / (2 * sigma**2) + math.log(rate) - math.log1p(-rate))
    exponent = p * loss - x * x / (2 * sigma**2)
    if level < math.inf:
        spread = 1 / (1 / (0.07 * level) + 1 / 0.4)
        t = (loss - level) / (spread * math.sqrt(2))
        kept = np.array([math.erfc(v) / 2 if v < 26 else 0.0 for v in t.tolist()])
        exponent = exponent + np.log(np.maximum(kept, 1e-300)) + np.where(kept > 0, 0.0, -math.inf)
    weight = np.exp(exponent - exponent.max())
    weight /= weight.sum()
    steps = np.diff(loss)[weight[1:] > 1e-14].max()
    known = weight > 1e-16
    weight, loss = weight[known], loss[known]
    sums = [abs(complex(float(np.cos(v * loss) @ weight), float(np.sin(v * loss) @ weight))) for v in heights.tolist()]
    found = np.log(np.array(sums))
    return np.asarray(np.where((found > -25) & (heights * steps < 1.5), found, -math.inf))


CASES = [
    (0.3, 1.5e-5, True, 1.1, math.inf),
    (0.31, 0.33, True, 0.5, math.inf),
    (0.47, 3.3e-5, True, 3.2, math.inf),
    (0.76, 9e-5, True, 6.8, math.inf),
    (0.76, 9e-5, False, 78.0, math.inf),
    (1.39, 1.1e-5, True, 35.0, math.inf),
    (1.39, 1e-3, False, 200.0, math.inf),
    (3.0, 0.1, True, 6.9, math.inf),
    (3.0, 0.1, False, 9.2, math.inf),
    (6.0, 0.7, True, 0.4, math.inf),
    (0.3, 0.999, True, 3.0, math.inf),
    (0.3, 0.999, False, 3.0, math.inf),
    (0.68, 1.1e-5, True, 16.0, 1.5),
    (0.5, 1e-3, True, 4.0, 0.3),
    (1.28457, 6.626e-5, True, 29000.0, 2.1e-4),
    (2.0, 0.01, True, 40.0, 0.05),
    (0.4, 0.1, True, 0.6, 12.0),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.parametrize(("sigma", "rate", "removes", "c", "level"), CASES)
def test_no_height_is_above_what_a_bent_path_says_of_it_and_of_all_beyond(
    sigma: float, rate: float, removes: bool, c: float, level: float
) -> None:
    plain = SampledGaussianLaw(sigma, rate, 1, removes)
    law = plain if level == math.inf else MarkedGaussianLaw(sigma, rate, 1, removes, 0.0, level)
    heights = np.geomspace(0.05 * c, 3000 * c, 24)
    truth = _fallen(sigma, rate, 1 + c if removes else -c, heights, level)
    bounds = np.array([law.decay(c, y) for y in heights.tolist()])
    for i in range(heights.size):
        assert np.all(truth[i:] <= bounds[i] + 1e-9)
    # It is of use; and one that claims two thirds more somewhere would be told apart (of a window, ten times as much).
    seen = np.isfinite(truth) & (truth < -1e-9)
    assert np.any(bounds[seen] * (5 / 3 if level == math.inf else 10) < truth[seen])


def test_many_random_laws_never_fall_more_slowly_than_the_bound() -> None:
    generator = np.random.default_rng(5)
    for _ in range(16):
        sigma, rate = (math.exp(generator.uniform(math.log(0.3), math.log(10))), 10 ** generator.uniform(-5, -0.05))
        removes = bool(generator.integers(2))
        c = 10 ** generator.uniform(-1, 1.5) * (1 if removes else 1 / rate**0.5)
        p = 1 + c if removes else -c
        if abs(p) > 25 * sigma and removes:
            continue
        law = SampledGaussianLaw(sigma, rate, 1, removes)
        heights = np.geomspace(0.1 * c, 1000 * c, 12)
        truth = _fallen(sigma, rate, p, heights)
        for i, y in enumerate(heights.tolist()):
            assert np.all(truth[i:] <= law.decay(c, y) + 1e-9)


def test_where_floats_end_nothing_is_said() -> None:
    for sigma, p in ((0.01, 1e4), (1e-3, 2.0), (1.0, 1e7)):
        assert bent(sigma, 1e-3, p, -14 * sigma, p + 14 * sigma).log(3.0) <= 0
    assert bent(1.0, 0.01, 2.0, -9.5, 11.5).log(0.0) == 0.0
