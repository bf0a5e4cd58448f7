"""Fourier sums at many heights against their definition, in many digits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from discreet.privacy.nonuniform import PHASE, Floats, line_sizes, line_sums, summed


@pytest.mark.parametrize("count", [1, 2, 7, 100])
@pytest.mark.parametrize("spread", [1e-9, 1.0, 40.0])
def test_the_sums_are_those_of_the_definition_within_the_stated_error(count: int, spread: float) -> None:
    point = spread * np.sin(np.arange(1, 41) ** 2)
    weight = np.exp(-0.3 * np.arange(40.0))
    step = 0.37
    got = line_sums(weight, point, step, count)
    heights: Floats = np.asarray(step * np.arange(count), dtype=np.float64)
    size = line_sizes(weight, point, heights)
    phases = heights * float(weight @ np.abs(point))
    with mp.workprec(160):
        for j in range(0, count, 9):
            terms = [
                mp.mpf(w) * mp.expm1(mp.mpc(0, mp.mpf(step) * j * mp.mpf(p)))
                for w, p in zip(weight.tolist(), point.tolist(), strict=True)
            ]
            error = abs(mp.mpc(complex(got[j])) - mp.fsum(terms))
            assert error <= 2.0**-52 * (summed(40) * size[j] + PHASE * phases[j])
            assert mp.fsum(abs(t) for t in terms) <= size[j] * (1 + 1e-12)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_any_number_of_heights_and_points_stays_within_the_stated_error(seed: int) -> None:
    draw = np.random.default_rng(seed)
    points, count = int(draw.integers(1, 200)), int(10 ** draw.uniform(0.4, 4.3))
    point = draw.standard_normal(points) * 10 ** draw.uniform(-6, 0.5, points)
    weight, step = draw.random(points) ** 8, 10 ** draw.uniform(-3, 2)
    got = line_sums(weight, point, step, count)
    heights: Floats = np.asarray(step * np.arange(count), dtype=np.float64)
    size, phases = line_sizes(weight, point, heights), heights * float(weight @ np.abs(point))
    with mp.workprec(160):
        for j in [*draw.integers(0, count, 5).tolist(), count - 1]:
            terms = [
                mp.mpf(w) * mp.expm1(mp.mpc(0, mp.mpf(step) * j * mp.mpf(p)))
                for w, p in zip(weight.tolist(), point.tolist(), strict=True)
            ]
            allowed = 2.0**-52 * (summed(points) * size[j] + PHASE * phases[j])
            error = abs(mp.mpc(complex(got[j])) - mp.fsum(terms))
            assert error <= allowed
            beside = complex(got[j - 1]) if j else complex(got[1])  # another height is told apart
            assert abs(mp.mpc(beside) - mp.fsum(terms)) > allowed


def test_many_points_in_several_blocks_add_up() -> None:
    point = np.linspace(-3, 5, 40_000)
    weight = np.full(point.size, 1 / point.size)
    got = line_sums(weight, point, 2.0, 400)
    y = 2.0 * 399
    exact = (np.exp(1j * y * point) - 1).mean()
    assert abs(got[399] - exact) < 1e-11
