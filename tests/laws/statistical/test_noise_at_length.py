"""A hundred million draws of each vector law, at a false-alarm rate of 1e-9 each; and the time of scalars."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.noise import gaussian, laplace
from discreet.noise.cells import Cells
from discreet.noise.entropy import Entropy, SystemEntropy
from tests.noise.laws import counted, counts_agree, discrete_below, edges_of, laplace_below, rounded_below

pytestmark = pytest.mark.slow
RNG = SystemEntropy()
BATCH, BATCHES = 10_000_000, 10
Vector = Callable[[Fraction, int, Entropy], NDArray[np.int64]]


def discrete_vector(sigma: Fraction, size: int, rng: Entropy) -> NDArray[np.int64]:
    return gaussian.discrete_vector(sigma * sigma, size, rng)


def discrete(sigma: Fraction, rng: Entropy) -> int:
    return gaussian.discrete(sigma * sigma, rng)


LAWS: dict[str, tuple[Vector, Callable[[Fraction, int], mpmath.mpf]]] = {
    "laplace": (laplace.sample_vector, laplace_below),
    "rounded": (gaussian.rounded_vector, rounded_below),
    "discrete": (discrete_vector, lambda s, k: discrete_below(s * s, k)),
}
INSIDE = [*range(-(1 << 17), 1 << 17, 1 << 11)]  # for scale 2^20, whose cells are 2^14 wide
SCALES = [Fraction(1), Fraction(10, 3), Fraction(50), Fraction(200), Fraction(1 << 20), Fraction(1 << 40)]


def counts_of(draw: Vector, scale: Fraction, edges: list[int], batches: int) -> NDArray[np.int64]:
    total = np.zeros(len(edges) + 1, dtype=np.int64)
    for _ in range(batches):
        total += counted(draw(scale, BATCH, RNG), edges)
    return total


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_a_long_vector_has_the_law_and_not_one_a_thousandth_away(law: str, scale: Fraction) -> None:
    draw, below = LAWS[law]
    edges = edges_of(scale)
    counts = counts_of(draw, scale, edges, BATCHES)
    assert counts_agree(counts, [float(below(scale, k)) for k in edges])
    for moved in (scale * Fraction(1002, 1000), scale * Fraction(998, 1000)):
        assert not counts_agree(counts, [float(below(moved, k)) for k in edges])


@pytest.mark.parametrize("law", LAWS)
def test_a_sampler_without_its_wedge_test_would_be_refused(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Cells._wedge

    def careless(self: Cells, minus: NDArray[np.int64], rng: Entropy) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        values, accepted = original(self, minus, rng)
        return values, np.ones_like(accepted)

    monkeypatch.setattr(Cells, "_wedge", careless)
    draw, below = LAWS[law]
    scale = Fraction(1 << 20)
    counts = counts_of(draw, scale, INSIDE, BATCHES)
    assert not counts_agree(counts, [float(below(scale, k)) for k in INSIDE])


@pytest.mark.parametrize("law", LAWS)
def test_places_inside_the_cells_have_the_law(law: str) -> None:
    draw, below = LAWS[law]
    scale = Fraction(1 << 20)
    counts = counts_of(draw, scale, INSIDE, BATCHES)
    assert counts_agree(counts, [float(below(scale, k)) for k in INSIDE])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [Fraction(3), Fraction(1 << 30)], ids=str)
def test_neighbours_in_a_vector_are_independent(law: str, scale: Fraction) -> None:
    draws = LAWS[law][0](scale, BATCH, RNG)
    score = np.sign(draws) + 3 * (np.abs(draws) > scale) + 9 * (draws & 1)
    score = score - score.mean()
    for lag in (1, 2, 1 << 14, 12345):
        r = np.corrcoef(score[lag:], score[:-lag])[0, 1]
        assert abs(r) < 6.2 / np.sqrt(BATCH - lag)


@pytest.mark.parametrize("draw", [laplace.sample, gaussian.rounded, discrete], ids=["laplace", "rounded", "discrete"])
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10), Fraction(1 << 40)], ids=str)
def test_the_time_of_a_scalar_does_not_follow_the_noise(
    draw: Callable[[Fraction, Entropy], int], scale: Fraction
) -> None:
    assert abs(time_correlation(draw, scale)) < 0.05


def test_a_sampler_whose_time_follows_the_noise_would_be_seen() -> None:
    def leaky(scale: Fraction, rng: Entropy) -> int:
        value = laplace.sample(scale, rng)
        for _ in range(abs(value)):
            pass
        return value

    assert time_correlation(leaky, Fraction(100)) > 0.1


def time_correlation(draw: Callable[[Fraction, Entropy], int], scale: Fraction) -> float:
    """The correlation of a draw's time, without its slowest fiftieth, with the size of the noise."""
    times, sizes = [], []
    for _ in range(60_000):
        start = time.perf_counter_ns()
        value = draw(scale, RNG)
        times.append(time.perf_counter_ns() - start)
        sizes.append(abs(value))
    took = np.minimum(times, np.quantile(times, 0.98))
    return float(np.corrcoef(took, np.array(sizes, dtype=float))[0, 1])
