"""Intervals of an evaluation hold as often as they say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.learn.evaluation import _of_mistakes
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
