"""Hash functions collide as often as their kernel says, and a row's buckets hang on that row alone."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from discreet.noise.entropy import SystemEntropy
from discreet.sketch import DensitySketch
from discreet.sketch.hashing import Hashes

ALARM = 1e-10


def hashes(**given: Any) -> Hashes:
    sketch = DensitySketch(**{"epsilon": 1, "dimension": 2, "bandwidth": "0.5", **given})
    return sketch.counting.family.draw(SystemEntropy())


def collisions(drawn: Hashes, x: list[float], y: list[float]) -> int:
    found = drawn.buckets(drawn.family.box.whole(np.array([x, y])))
    return int((found[0] == found[1]).sum())


def agrees(seen: int, n: int, p: float) -> bool:
    return bool(stats.binomtest(seen, n, p).pvalue > ALARM)


def sliced(distance: float, width: float) -> float:
    """Datar and others 2004, Section 3.1: ∫ f(t/c)/c·(1 − t/w) over slices, f the density of |N(0, 1)|."""
    return float(integrate.quad(lambda t: 2 * stats.norm.pdf(t / distance) / distance * (1 - t / width), 0, width)[0])


@pytest.mark.parametrize("power", [1, 3])
def test_l2_hashes_collide_by_the_integral_over_slices(power: int) -> None:
    n, w = 60_000, 4
    drawn = hashes(repetitions=n, buckets=w, power=power)
    k = sliced(0.3, 0.5) ** power
    seen = collisions(drawn, [0.1, 0.2], [0.28, 0.44])  # at distance 0.3
    assert agrees(seen, n, k + (1 - k) / w)
    assert not agrees(seen, n, k)  # what falls together by accident is there
    wrong = sliced(0.4, 0.5) ** power
    assert not agrees(seen, n, wrong + (1 - wrong) / w)
    assert drawn.family.chance(np.array([0.3, 0.0])) == pytest.approx([k, 1.0])


def test_angular_hashes_collide_by_the_angle_from_the_middle() -> None:
    n, w = 60_000, 256
    drawn = hashes(repetitions=n, buckets=w, kernel="angular", bandwidth=None, power=2, ranges=(-1, 1))
    k = (1 - 60 / 180) ** 2
    seen = collisions(drawn, [1.0, 0.0], [0.25, 0.25 * math.sqrt(3)])
    assert agrees(seen, n, k + (1 - k) / w)
    assert not agrees(seen, n, 0.63**2)
    assert drawn.family.chance(np.array([math.pi / 3])) == pytest.approx([k])


@pytest.mark.parametrize("dimension", [1, 7, 784])
def test_buckets_are_those_of_whole_numbers_of_any_size(dimension: int) -> None:
    drawn = hashes(dimension=dimension, repetitions=5, power=2, buckets=64)
    f = drawn.family
    whole = f.box.whole(np.random.default_rng(1).uniform(0, 1, (4, dimension)))
    expected = []
    for row in whole.astype(int).tolist():
        for r in range(5):
            mixed = int(drawn.shifts[r])
            for j in range(2):
                column = [int(a) for a in drawn.directions[:, 2 * r + j]]
                place = sum(a * u for a, u in zip(column, row, strict=True)) + int(drawn.offsets[2 * r + j])
                mixed += int(drawn.factors[r, j]) * (place // f.width % (1 << 32))
            expected.append(mixed % (1 << 64) >> 58)
    assert drawn.buckets(whole).reshape(-1).tolist() == expected


def test_a_row_has_the_same_buckets_beside_any_others() -> None:
    drawn = hashes(dimension=50, repetitions=40, power=3)
    rows = drawn.family.box.whole(np.random.default_rng(2).uniform(0, 1, (257, 50)))
    together = drawn.buckets(rows)
    alone = np.concatenate([drawn.buckets(row.reshape(1, -1)) for row in rows])
    assert (together == alone).all()
    assert (drawn.buckets(rows[::-1])[::-1] == together).all()
    assert (drawn.buckets(rows[13:140]) == together[13:140]).all()


@pytest.mark.parametrize("dimension", [1, 2, 3, 784, 1 << 16])
def test_no_sum_of_products_leaves_what_a_float_holds_exactly(dimension: int) -> None:
    f = DensitySketch(epsilon=1, dimension=dimension, bandwidth=1, repetitions=1).counting.family
    assert f.finer >= 10 and f.box.bits >= 10
    assert dimension * 2 ** (f.box.bits - 1) * 2 ** (f.finer + 4) <= 2**52
    for bandwidth in (Fraction(1, 1 << 22), Fraction(1 << 11)):
        wide = DensitySketch(epsilon=1, dimension=dimension, bandwidth=bandwidth, repetitions=1)
        assert 1 << 11 <= wide.counting.family.width <= 1 << 60


def in_place(values: list[float], **given: Any) -> NDArray[np.float64]:
    box = DensitySketch(epsilon=1, dimension=1, bandwidth=1, **given).counting.family.box
    return box.whole(np.array([values]).T)[:, 0] / 2.0**box.bits


def test_numbers_are_moved_into_their_range_and_none_is_refused() -> None:
    values = [0.0, 10.0, 5.0, -3.0, 1e308, math.inf, -math.inf, math.nan, 2.5]
    assert in_place(values, ranges=(0, 10)).tolist() == [-0.5, 0.5, 0, -0.5, 0.5, 0.5, -0.5, 0, -0.25]
    assert in_place([1e308, -1e308, math.nan], ranges=(-(10**300), 10**300)).tolist() == [0.5, -0.5, 0]
    assert in_place([1e308, 1.25e308, 1.5e308], ranges=(1e308, 1.5e308)).tolist() == [-0.5, 0, 0.5]
    assert in_place([0.0, 2.0], ranges=("0", "2")).tolist() == [-0.5, 0.5]
