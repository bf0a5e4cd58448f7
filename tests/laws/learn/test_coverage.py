"""Intervals of an evaluation hold as often as they say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from discreet.learn.evaluation import _FINE, BINS, REACH, EvaluatedTarget, Evaluating, _of_cells, _of_mistakes
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.noise.entropy import SystemEntropy

REPETITIONS, LEVEL = 2000, 0.95


@pytest.mark.parametrize("epsilon", [0.1, 1])
@pytest.mark.parametrize(("rows", "chance"), [(200, 0.5), (2000, 0.9), (20_000, 0.99)])
def test_intervals_of_mistakes_and_accuracy_hold_as_often_as_they_say(rows: int, chance: float, epsilon: float) -> None:
    rng, law = np.random.default_rng(rows), DiscreteLaplaceNoise(2 / Fraction(str(epsilon)))
    right = rng.binomial(rows, chance, REPETITIONS)
    noise = law.draw(2 * REPETITIONS, SystemEntropy()).reshape(-1, 2)
    held = np.zeros(3)
    for k, z in zip(right.tolist(), noise.tolist(), strict=True):
        found = _of_mistakes([k + z[0], rows - k + z[1]], law, LEVEL)
        errors, accuracy = found["errors"], found["accuracy"]
        assert accuracy.population is not None
        held += [
            errors.sample[0] <= rows - k <= errors.sample[1],
            accuracy.sample[0] <= k / rows <= accuracy.sample[1],
            accuracy.population[0] <= chance <= accuracy.population[1],
        ]
    # a false alarm at four standard errors has a probability of 3e-5, and the draws of a test are the same in each run
    assert (held / REPETITIONS >= LEVEL - 4 * math.sqrt(LEVEL * (1 - LEVEL) / REPETITIONS)).all(), held


SHORT_AND_FULL = (100, pytest.param(REPETITIONS, marks=pytest.mark.slow))
ROWS = ((300, 0.2), (3000, 0.6), (20_000, 0.05))


def drawn(rows: int, error: float, rng: np.random.Generator) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Sums of a regressor's errors and numbers, and MAE and R² of these rows."""
    y = rng.uniform(-0.8, 0.8, rows) * rng.integers(0, 2, rows)
    e = np.clip(rng.normal(0, error, rows), -2, 2)
    sums = np.array([rows, np.abs(e).sum() / 2, (e * e).sum() / 4, y.sum(), (y * y).sum()])
    return sums, (float(np.abs(e).mean()), float(1 - (e * e).mean() / y.var()))


@pytest.mark.parametrize("repetitions", SHORT_AND_FULL)
@pytest.mark.parametrize("epsilon", [0.1, 1])
@pytest.mark.parametrize(("rows", "error"), ROWS)
def test_intervals_of_a_regressor_hold_as_often_as_they_say(
    rows: int, error: float, epsilon: float, repetitions: int
) -> None:
    rng, law = np.random.default_rng(rows), DiscreteLaplaceNoise(5 * 2**_FINE / Fraction(str(epsilon)))
    of = EvaluatedTarget(target=(-1.0, 1.0))
    asked = Evaluating((), Fraction(1), Fraction(0), asked=of, confidence=Fraction(str(LEVEL)))
    truth = drawn(2_000_000, error, rng)[1]
    held = np.zeros(4)
    for _ in range(repetitions):
        sums, own = drawn(rows, error, rng)
        noisy = (sums * 2**_FINE).astype(np.int64) + law.draw(5, SystemEntropy())
        found = asked._of_sums(noisy.tolist(), law)
        for i, name in enumerate(("mae", "r2")):
            low, high = found[name].population or (math.nan, math.nan)
            held[2 * i] += found[name].sample[0] <= own[i] <= found[name].sample[1]
            held[2 * i + 1] += low <= truth[i] <= high
    assert (held / repetitions >= LEVEL - 4 * math.sqrt(LEVEL * (1 - LEVEL) / repetitions)).all(), held / repetitions


@pytest.mark.parametrize("repetitions", SHORT_AND_FULL)
@pytest.mark.parametrize("epsilon", [0.1, 1])
@pytest.mark.parametrize(("rows", "apart"), [(1000, 1.0), (5000, 0.2), (20_000, 2.0)])
def test_intervals_of_the_auc_hold_as_often_as_they_say(
    rows: int, apart: float, epsilon: float, repetitions: int
) -> None:
    rng, law = np.random.default_rng(rows), DiscreteLaplaceNoise(2 / Fraction(str(epsilon)))
    edges = np.linspace(-REACH, REACH, BINS + 1)[1:-1]
    held = np.zeros(2)
    for _ in range(repetitions):
        scores = [rng.normal(shift, 1, rows // 2) for shift in (0, apart)]
        ranks = rankdata(np.concatenate(scores))[rows // 2 :]
        own = (ranks.sum() - rows // 2 * (rows // 2 + 1) / 2) / (rows // 2) ** 2
        cells = np.stack([np.bincount(np.searchsorted(edges, s), minlength=BINS) for s in scores])
        noisy = cells + law.draw(cells.size, SystemEntropy()).reshape(cells.shape)
        found = _of_cells(noisy.astype(np.float64), law, LEVEL)
        low, high = found.population or (math.nan, math.nan)
        held += [found.sample[0] <= own <= found.sample[1], low <= norm.cdf(apart / math.sqrt(2)) <= high]
    assert (held / repetitions >= LEVEL - 4 * math.sqrt(LEVEL * (1 - LEVEL) / repetitions)).all(), held / repetitions
