"""What `release` takes: nothing may come back without noise of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms import DiscreteGaussian, Exponential, Gaussian, Geometric, Laplace, Threshold
from discreet.mechanisms.values import total
from discreet.noise.entropy import SystemEntropy

MASKED = np.ma.array([5, 7, 9], mask=[True, False, True])
MATRIX = np.array([[1, 2, 3, 1000]]).view(np.matrix)


@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace(epsilon=1),
        Geometric(epsilon=1),
        Gaussian(epsilon=1, delta=1e-6),
        DiscreteGaussian(epsilon=1, delta=1e-6),
    ],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.parametrize("value", [MASKED, MATRIX, MATRIX.astype(float)], ids=["masked", "matrix", "real matrix"])
def test_arrays_that_are_not_plain_are_refused(mechanism: Any, value: Any) -> None:
    """A masked array would return its masked cells exactly; a matrix would share one draw among its entries."""
    with pytest.raises(InvalidParameter, match="plain numpy array"):
        mechanism.release(value)


def test_selection_refuses_candidates_under_a_mask() -> None:
    with pytest.raises(InvalidParameter, match="plain numpy array"):
        Exponential(epsilon=1).release(["a", "b", "c"], MASKED)


@pytest.mark.parametrize("order", ["<", ">"])
def test_unsigned_integers_beyond_63_bits_do_not_wrap_in_either_byte_order(order: str) -> None:
    released = Laplace(epsilon=1000).release(np.array([2**63 - 1, 2**63, 2**64 - 1], dtype=f"{order}u8"))
    assert [int(x) for x in released] == pytest.approx([2**63 - 1, 2**63, 2**64 - 1], abs=5)


@pytest.mark.parametrize("counts", [np.array([1.5, 2.5]), MASKED, np.array([2**63], dtype=np.uint64), [1.5]])
def test_counts_that_would_be_rounded_or_wrapped_are_refused(counts: Any) -> None:
    with pytest.raises(InvalidParameter, match="whole numbers"):
        Threshold(1, "1e-6").keep(counts, SystemEntropy())


def test_a_release_never_writes_into_the_callers_array() -> None:
    for kept in (np.full(1000, 7), np.full(1000, 7, dtype=np.int32), np.full(1000, 7.0)):
        before = kept.copy()
        noisy = Laplace(epsilon=1, dimension=1000).release(kept)
        assert np.array_equal(kept, before) and not np.shares_memory(noisy, kept)
        assert not np.array_equal(noisy, before)


def test_sums_at_the_ends_of_64_bits_are_exact() -> None:
    top, bottom = (1 << 63) - 1, -(1 << 63)
    for values, noise in (
        ([top, 0], [0, 5]),
        ([top, 0], [1, 5]),
        ([bottom, top], [0, 0]),
        ([bottom, 3], [-1, 3]),
        ([top, bottom], [bottom, top]),
        ([top, top], [-1, -top]),
    ):
        summed = total(np.array(values), np.array(noise))
        assert summed.tolist() == [v + z for v, z in zip(values, noise, strict=True)]
    assert total(np.empty(0, np.int64), np.empty(0, np.int64)).size == 0
