"""The geometric law: its values turn at exactly e^(−k/s), and its frequencies are the closed form's."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.noise.entropy import SystemEntropy
from discreet.noise.geometric import sample, sample_vector
from tests.noise.chi_square import accepts, refuses
from tests.noise.reals import replayed
from tests.noise.test_bernoulli import NEAR, exponential


def law(scale: float, length: int) -> list[float]:
    """P(X = k) for k below `length`."""
    return [-math.expm1(-1 / scale) * math.exp(-k / scale) for k in range(length)]


@given(scale=st.fractions(Fraction(1, 10), 10**12), k=st.integers(1, 40))
@example(scale=Fraction(1), k=1)
@example(scale=Fraction(2**40), k=40)
@example(scale=Fraction(1, 10), k=7)
def test_a_value_turns_at_exactly_its_quantile(scale: Fraction, k: int) -> None:
    k = max(1, min(k, int(40 * scale)))
    turn = exponential(k / scale)  # X ≥ k exactly when U < e^(−k/s), up to a null set
    first = (80 + max(0, scale.numerator.bit_length() - scale.denominator.bit_length())) // 8
    chunks = (first, 8, 8, 8)
    assert sample(scale, replayed(turn - NEAR, chunks)) == k
    assert sample(scale, replayed(turn + NEAR, chunks)) == k - 1


def test_a_uniform_number_that_begins_with_zeros_is_read_on() -> None:
    rng = replayed(Fraction(1, 2**100), (10, 8))
    assert sample(Fraction(1), rng) == math.floor(100 * math.log(2))
    assert rng.left == 0


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2)])
def test_scalar_frequencies_are_right_and_a_scale_off_by_a_fifth_would_show(scale: Fraction) -> None:
    rng = SystemEntropy()
    drawn = [sample(scale, rng) for _ in range(30_000)]
    assert accepts(drawn, law(float(scale), 30))
    assert refuses(drawn, law(1.2 * float(scale), 30), law(float(scale), 30))


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(50)])
def test_vector_frequencies_are_right_and_a_scale_off_by_a_twentieth_would_show(scale: Fraction) -> None:
    drawn = sample_vector(scale, 400_000, SystemEntropy())
    assert drawn.dtype == np.int64
    assert accepts(drawn, law(float(scale), 600))
    assert refuses(drawn, law(1.05 * float(scale), 600), law(float(scale), 600))


def test_vectors_of_a_large_scale_follow_the_exponential_law() -> None:
    scale = 2**40
    drawn = sample_vector(Fraction(scale), 200_000, SystemEntropy())
    uniform = np.exp(-drawn / scale)
    cells = np.minimum((uniform * 32).astype(np.int64), 31)
    assert accepts(cells, [1 / 32] * 32)
    edges = (np.arange(33) / 32) ** (1 / 1.05)  # where the cells of a scale 1.05 times as large would lie
    assert refuses(cells, np.diff(edges).tolist(), [1 / 32] * 32)


def test_any_scale_has_scalars() -> None:
    rng = SystemEntropy()
    assert sample(Fraction(1, 10**30), rng) == 0
    huge = [sample(Fraction(10**60), rng) for _ in range(100)]
    assert len(set(huge)) == 100
    assert 10**59 < sum(huge) / 100 < 10**61


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1)])
def test_scales_that_are_not_positive_are_refused(scale: Fraction) -> None:
    with pytest.raises(InvalidParameter):
        sample(scale, SystemEntropy())
    with pytest.raises(InvalidParameter):
        sample_vector(scale, 3, SystemEntropy())


@pytest.mark.slow
@pytest.mark.parametrize("scale", [Fraction(10), Fraction(2**40)])
def test_the_time_of_a_draw_does_not_follow_its_value(scale: Fraction) -> None:
    rng = SystemEntropy()
    drawn, spent = np.empty(100_000), np.empty(100_000)
    for i in range(drawn.size):
        start = time.perf_counter_ns()
        drawn[i] = sample(scale, rng)
        spent[i] = time.perf_counter_ns() - start
    assert abs(float(np.corrcoef(drawn, spent)[0, 1])) < 0.05
