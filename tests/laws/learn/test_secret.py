"""The secret vector of an objective has the length that the proof says, in all directions alike."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.stats import gamma, kstest

from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.perturbed_minimum import BITS, PerturbedMinimum
from discreet.noise.entropy import SystemEntropy

OUTPUT, ONE = DiscreteLaplaceNoise(Fraction(1)), Fraction(1)


def test_the_length_of_the_secret_vector_is_of_the_gamma_law() -> None:
    law = PerturbedMinimum(ONE, Fraction(0), Fraction(3), ONE, ONE, ONE, 4, OUTPUT)
    rng = SystemEntropy()
    drawn = np.array([law.secret(rng) for _ in range(2000)], object).astype(float) / 2.0**BITS
    assert kstest(np.linalg.norm(drawn, axis=1), gamma(4, scale=3).cdf).pvalue > 1e-4
    cosine = drawn[:, 0] / np.linalg.norm(drawn, axis=1)  # in four dimensions (1 + cosine)/2 is of Beta(3/2, 3/2)
    assert kstest((1 + cosine) / 2, "beta", args=(1.5, 1.5)).pvalue > 1e-4
