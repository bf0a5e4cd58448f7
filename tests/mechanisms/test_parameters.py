"""The range of public parameters, and that within it nothing breaks."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms import DiscreteGaussian, Exponential, Gaussian, Geometric, Laplace, Threshold

EDGES = ["1e-24", "1e24"]


@pytest.mark.parametrize("size", ["9e-25", "1.1e24", 1e-300, 1e300])
def test_sizes_far_out_of_any_use_are_refused(size: object) -> None:
    for make in (
        lambda: Laplace(epsilon=size),  # type: ignore[arg-type]
        lambda: Laplace(scale=size),  # type: ignore[arg-type]
        lambda: Laplace(epsilon=1, sensitivity=size),  # type: ignore[arg-type]
        lambda: Gaussian(sigma=size),  # type: ignore[arg-type]
        lambda: DiscreteGaussian(sigma=size),  # type: ignore[arg-type]
        lambda: Exponential(epsilon=size),  # type: ignore[arg-type]
        lambda: Threshold(size, "1e-6"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidParameter, match="between 1e-24 and 1e24"):
            make()


@pytest.mark.parametrize(("epsilon", "sensitivity"), list(product(EDGES, EDGES)))
def test_the_edges_of_the_range_work(epsilon: str, sensitivity: str) -> None:
    delta = "1e-280"
    for mechanism in (
        Laplace(epsilon=epsilon, sensitivity=sensitivity),
        Laplace(scale=epsilon, sensitivity=sensitivity, dimension=1),
        Gaussian(epsilon=epsilon, delta=delta, sensitivity=sensitivity),
        Gaussian(sigma=epsilon, sensitivity=sensitivity),
    ):
        assert math.isfinite(mechanism.release(1.5))
        assert 0 < mechanism.error() < math.inf
        assert mechanism.explain()
    if sensitivity == "1e24":
        for whole in (
            Geometric(epsilon=epsilon, sensitivity=sensitivity),
            DiscreteGaussian(epsilon=epsilon, delta=delta, sensitivity=sensitivity),
            DiscreteGaussian(epsilon=epsilon, delta=delta, sensitivity=sensitivity, dimension=1),
            DiscreteGaussian(sigma=epsilon, sensitivity=sensitivity),
        ):
            assert isinstance(whole.release(3), int)
            assert 0 <= whole.error() < math.inf
            assert whole.explain()
    assert Exponential(epsilon=epsilon, sensitivity=sensitivity).error(candidates=9) > 0
    assert Exponential(epsilon=epsilon, sensitivity=sensitivity).release("ab", np.array([1.0, 2.0])) in "ab"


def test_a_delta_below_the_range_of_tails_is_refused() -> None:
    for make in (
        lambda: Gaussian(epsilon=1, delta="1e-300"),
        lambda: DiscreteGaussian(epsilon=1, delta="1e-300"),
        lambda: Threshold(1, "1e-300"),
    ):
        with pytest.raises(InvalidParameter, match="1e-280"):
            make()


def test_a_step_too_fine_for_the_noise_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="range of floats"):
        DiscreteGaussian(epsilon="1e-24", delta="1e-280", sensitivity="1e24", step=f"1/{2**79}")
