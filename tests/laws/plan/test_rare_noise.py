"""Intervals where noise is nearly always 0: they hold, and take no longer than others."""

from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest

from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.nodes.noise import quantile
from discreet.privacy.pairs.additive import DiscreteLaplacePair

SIZES = (Fraction(1), Fraction(7, 3), Fraction(5), Fraction(1000))


def mass(k: int, scale: Fraction) -> float:
    """P(Z = k), from the definition."""
    rate = float(1 / scale)
    return math.tanh(rate / 2) * math.exp(-rate * abs(k))


@pytest.mark.parametrize("scale", [Fraction(1, 16), Fraction(1, 10), Fraction(1, 3)])
@pytest.mark.parametrize("confidence", [Fraction(19, 20), 1 - Fraction(1, 10**4), 1 - Fraction(1, 10**6)])
def test_a_sum_of_rare_noises_stays_within_its_quantile_and_takes_no_time(
    scale: Fraction, confidence: Fraction
) -> None:
    started = time.process_time()
    t = quantile(tuple((a, DiscreteLaplaceNoise(scale)) for a in SIZES), confidence)
    assert time.process_time() - started < 1  # it took minutes where cells were as narrow as the deviation
    reach = range(-6, 7)
    inside = math.fsum(
        float(np.prod([mass(k, scale) for k in ks]))
        for ks in itertools.product(reach, repeat=len(SIZES))
        if abs(sum((a * k for a, k in zip(SIZES, ks, strict=True)), Fraction(0))) <= t
    )
    assert inside >= float(confidence) - 1e-8


def test_a_loss_of_a_hundred_million_is_reckoned_without_overflow() -> None:
    pair = DiscreteLaplacePair(3, Fraction(3, 10**8))
    assert pair.delta(np.array([0.0, 1.0, 1e8, 2e8])) == pytest.approx([1.0, 1.0, 0.0, 0.0])
