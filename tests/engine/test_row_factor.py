"""Weighted sums of rows that stay: exact in every order, and only of the parts that keep to the norms."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from discreet.engine.row_factor import RowFactor, whole_root
from discreet.errors import InternalError
from discreet.privacy.unit import Sensitivity

WIDTH = 6


def rows_of(sizes: list[int], *, large: bool = False) -> tuple[Any, Any, Any]:
    """Return the starts of people with so many rows each, and the places and values of these."""
    rng = np.random.default_rng(len(sizes))
    n = sum(sizes)
    columns = np.sort(rng.permuted(np.tile(np.arange(WIDTH), (n, 1)), axis=1)[:, :3], axis=1)
    most = (1 << 31) - 1 if large else 4000
    return np.cumsum([0, *sizes]), columns, rng.integers(-most, most, (n, 3))


def reference(starts: Any, columns: Any, values: Any, weights: Any, norms: Sensitivity) -> list[int]:
    """Return the same sum in Python's integers, person by person."""
    total = [0] * (weights.shape[1] * WIDTH)
    for first, last in pairwise(starts.tolist()):
        part = [0] * len(total)
        for row in range(first, last):
            for k, weight in enumerate(weights[row].tolist()):
                for column, value in zip(columns[row].tolist(), values[row].tolist(), strict=True):
                    part[k * WIDTH + column] += weight * value
        held = [abs(v) for v in part if v]
        within = (
            len(held) <= norms.l0
            and max(held, default=0) <= norms.linf
            and sum(held) <= norms.l1
            and sum(v * v for v in held) <= norms.l2_squared
        )
        if within:
            total = [a + b for a, b in zip(total, part, strict=True)]
    return total


NORMS = (Sensitivity(6, 1 << 20), Sensitivity(3, 1 << 21, l2_squared=1 << 42), Sensitivity(12, 1 << 16, l1=1 << 17))


@pytest.mark.parametrize("norms", NORMS, ids=str)
@pytest.mark.parametrize("sizes", [[1] * 40, [1, 2, 3] * 8, []], ids=["one row", "some rows", "nobody"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_sum_is_that_of_the_parts_within_the_norms(sizes: list[int], outputs: int, norms: Sensitivity) -> None:
    starts, columns, values = rows_of(sizes)
    factor = RowFactor(starts, columns, values, WIDTH)
    weights = np.random.default_rng(3).integers(-700, 700, (sum(sizes), outputs))
    assert factor.total(weights, norms).tolist() == reference(starts, columns, values, weights, norms)


def test_of_products_no_part_beyond_the_norms_is_added() -> None:
    starts, columns, values = rows_of([1] * 60)
    factor = RowFactor(starts, columns, values, WIDTH)
    norms = Sensitivity(12, 1 << 21, l2_squared=1 << 42)
    rng = np.random.default_rng(4)
    for i in range(60):
        weights = np.zeros((60, 2), np.int64)
        weights[i] = rng.integers(-700, 700, 2)
        assert sum(v * v for v in factor.total(weights, norms).tolist()) <= norms.l2_squared


def test_weights_of_any_size_never_wrap() -> None:
    for sizes in ([1] * 6, [2, 4]):
        starts, columns, values = rows_of(sizes, large=True)
        factor = RowFactor(starts, columns, values, WIDTH)
        for far in (2**63 - 1, -(2**63), 2**62, 2**33):
            weights = np.full((6, 1), far, np.int64)
            assert factor.total(weights, Sensitivity(6, 1 << 20)).tolist() == [0] * WIDTH


def test_neither_the_order_of_rows_nor_blocks_change_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    starts, columns, values = rows_of([1] * 500)
    weights, norms = np.random.default_rng(5).integers(-(10**6), 10**6, (500, 1)), Sensitivity(6, 1 << 50 >> 20)
    first = RowFactor(starts, columns, values, WIDTH).total(weights, norms).tolist()
    order = np.random.default_rng(6).permutation(500)
    other = RowFactor(starts, columns[order], values[order], WIDTH)
    assert other.total(weights[order], norms).tolist() == first
    assert reference(starts, columns, values, weights, norms) == first


def test_the_largest_weight_is_the_largest_that_is_added() -> None:
    starts, columns, values = rows_of([1] * 30)
    factor = RowFactor(starts, columns, values, WIDTH)
    norms = Sensitivity(6, 1 << 28, l2_squared=1 << 56)
    most = factor.most(norms)
    for i in range(30):
        for more in (0, 1):
            weights = np.zeros((30, 1), np.int64)
            weights[i] = most[i] + more
            assert any(factor.total(weights, norms).tolist()) is not bool(more)


@pytest.mark.parametrize("square", [0, 1, 3, 4, 2**62 - 1, (2**31 - 1) ** 2, (2**31 - 1) ** 2 - 1, 2**53 + 1])
def test_roots_are_whole_and_rounded_down(square: int) -> None:
    (root,) = whole_root(np.array([square])).tolist()
    assert root * root <= square < (root + 1) ** 2


def test_a_factor_of_other_numbers_is_refused() -> None:
    starts, columns, values = rows_of([1, 1])
    for places, held in (
        (columns[:, ::-1], values),
        (columns + 9, values),
        (columns, values * 2**40),
        (columns[:1], values),
    ):
        with pytest.raises(InternalError):
            RowFactor(starts, places, held, WIDTH)
