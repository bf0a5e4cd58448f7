"""Intervals by drawing noise again: twelve shapes of outer queries, each over 2,000 draws of the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

from discreet.post.redraw import PAIRS, spread

RUNS = 2000
TRUTHS = ([500, 300, 200], [60, 40, 25])
SCALE = 4

SHAPES: dict[str, Callable[[Sequence[int]], float]] = {
    "sum": lambda c: float(sum(c)),
    "difference": lambda c: float(c[0] - c[1]),
    "mean of groups": lambda c: sum(c) / len(c),
    "weighted mean": lambda c: sum(i * x for i, x in enumerate(c)) / sum(c),
    "running sum": lambda c: float(c[0] + c[1]),
    "share": lambda c: c[0] / sum(c),
    "difference of shares": lambda c: (c[0] - c[1]) / sum(c),
    "ratio": lambda c: c[0] / c[1],
    "growth": lambda c: c[2] / c[1] - 1,
    "odds": lambda c: c[0] / (c[1] + c[2]),
    "product": lambda c: c[0] * c[1] / 1000,
    "logarithm": lambda c: math.log(c[0]),
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("truth", TRUTHS, ids=["large", "small"])
def test_an_interval_contains_the_truth_as_often_as_it_says(shape: str, truth: list[int]) -> None:
    rng = np.random.default_rng(11)

    def of(cells: Sequence[int]) -> float:
        try:
            return SHAPES[shape](cells)
        except (ValueError, ZeroDivisionError):
            return math.nan

    held = known = 0
    for _ in range(RUNS):
        noise = rng.laplace(0, SCALE, (PAIRS + 1, len(truth))).round().astype(int).tolist()
        noisy = [a + z for a, z in zip(truth, noise[0], strict=True)]
        runs = [tuple([[of([c + s * z for c, z in zip(noisy, w, strict=True)])]] for s in (1, -1)) for w in noise[1:]]
        (width,) = spread([[of(noisy)]], 0, runs, Fraction(19, 20))  # type: ignore[arg-type]
        known += width is not None
        held += width is None or abs(of(noisy) - of(truth)) <= width
    assert held / RUNS >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / RUNS)
    assert known >= RUNS / 2 or truth[0] < 100  # an interval that is always unknown holds nothing


def test_a_width_that_is_too_small_is_seen() -> None:
    rng = np.random.default_rng(12)
    held = 0
    for _ in range(RUNS):
        noise = rng.laplace(0, SCALE, PAIRS + 1).tolist()
        runs = [([[0.8 * z]], [[-0.8 * z]]) for z in noise[1:]]
        (width,) = spread([[0.0]], 0, runs, Fraction(19, 20))
        assert width is not None
        held += abs(noise[0]) <= width
    assert held / RUNS < 0.95 - 4 * math.sqrt(0.95 * 0.05 / RUNS)
