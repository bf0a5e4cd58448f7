"""The square root: its coefficients, its sensitivity by enumeration, its published error."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from discreet.mechanisms import BinaryTree
from discreet.mechanisms.square_root import SquareRoot, convolved


def toeplitz(column: NDArray[Any]) -> NDArray[Any]:
    n = len(column)
    return np.array([[column[i - j] if i >= j else 0 for j in range(n)] for i in range(n)])


def still(size: int) -> NDArray[Any]:
    return np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize("bits", [12, 30, 60])
def test_what_is_measured_are_the_rounded_coefficients_of_the_square_root(bits: int) -> None:
    root = SquareRoot(200, bits)
    for k, r in enumerate(root._right.tolist()):
        exact = Fraction(math.comb(2 * k, k), 4**k) * 2**bits
        assert abs(r - exact) <= Fraction(1, 2) + exact / 2**44  # floats make it, and whatever they make is used


@pytest.mark.parametrize("steps", [1, 2, 3, 40, 1000])
def test_both_factors_make_prefix_sums(steps: int) -> None:
    root = SquareRoot(steps, 20)
    left, right = root._left, root._right.astype(np.float64)
    product = np.convolve(left, right)[:steps]
    assert np.allclose(product, 1, atol=1e-9)


@pytest.mark.parametrize("contributions", [1, 2, 3, 7])
def test_the_sensitivity_is_the_largest_that_enumeration_finds(contributions: int) -> None:
    root = SquareRoot(7, 9)
    matrix = toeplitz(root._right)
    l1 = l2 = 0
    for places in itertools.combinations(range(7), contributions):
        for signs in itertools.product((-1, 1), repeat=contributions):
            moved = matrix[:, places] @ np.array(signs)
            l1, l2 = max(l1, int(np.abs(moved).sum())), max(l2, int((moved**2).sum()))
    assert root.sensitivity(contributions) == l2
    assert root.l1(contributions) >= l1 and (contributions > 1 or root.l1(1) == l1)


@pytest.mark.parametrize("values", [[5, -3, 0, 2**20, 7], [2**63 - 1, -(2**63), 2**63 - 1, 1, 0]])
def test_without_noise_answers_are_prefix_sums_one_by_one_and_at_once(values: list[int]) -> None:
    root = SquareRoot(5, 20)
    exact = np.cumsum(np.array(values, dtype=object)).astype(np.float64)
    near = 1e-9 * max(map(abs, values))
    assert np.allclose(root.release(np.array(values), still), exact, atol=near)
    growing = root.begin(still)
    assert np.allclose([growing.add(v) for v in values], exact, atol=near)


def test_a_long_run_agrees_with_a_release() -> None:
    root = SquareRoot(2500, 24)
    values = np.arange(2500) % 17
    growing = root.begin(still)
    assert np.allclose([growing.add(int(v)) for v in values], root.release(values, still), atol=1e-6)


@pytest.mark.parametrize("steps", [2, 10, 100, 10_000])
def test_the_error_lies_between_the_published_bounds(steps: int) -> None:
    # The column's length times the row's, for sensitivity 1. Below: Henzinger, Upadhyay, Upadhyay 2023,
    # https://arxiv.org/abs/2211.05006, 1 + (γ + ln T)/π. Above: no factorisation has less than the sum of the singular
    # values of the matrix of prefix sums over T, and they are 1/(2 sin((2j − 1)π/(4T + 2))).
    root = SquareRoot(steps, 30)
    column = math.sqrt(root.sensitivity(1))
    largest = column * math.sqrt(root.squares(root.worst()))
    mean = column * math.sqrt(root.mean_squares())
    j = np.arange(1, steps + 1)
    nuclear = float((1 / (2 * np.sin((2 * j - 1) * math.pi / (4 * steps + 2)))).sum()) / steps
    assert nuclear <= mean <= largest <= 1 + (0.57722 + math.log(steps)) / math.pi
    if steps <= 100:
        exact = sum((math.comb(2 * k, k) / 4**k) ** 2 for k in range(steps))
        assert largest == pytest.approx(exact, rel=1e-6)
    assert mean <= nuclear + 0.4


@pytest.mark.parametrize("steps", [8, 100, 10_000, 100_000])
def test_it_has_less_error_than_the_tree_with_the_same_noise(steps: int) -> None:
    tree, root = (
        BinaryTree(epsilon=1, delta=1e-6, steps=steps, factorization=kind) for kind in ("tree", "square-root")
    )
    assert root.error() < tree.error() and root.root_mean_square < tree.root_mean_square
    assert steps < 10_000 or root.deviation() < tree.deviation() / 2


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2**40), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=70),
    st.integers(0, 45),
)
def test_convolutions_are_exact(pairs: list[tuple[int, int]], small: int) -> None:
    a = np.array([p[0] >> small for p in pairs], dtype=np.int64)
    b = np.array([p[1] >> small for p in pairs], dtype=np.int64)
    exact = [sum(int(a[i]) * int(b[n - i]) for i in range(n + 1)) for n in range(len(pairs))]
    assert convolved(a, b).tolist() == exact


def test_convolutions_are_exact_where_the_highest_digit_lies_at_the_end_of_64_bits() -> None:
    for value in (2**41 - 2**20 - 1, 2**41 - 2**20, 2**41 - 1):
        assert convolved(np.array([2**20]), np.array([value])).tolist() == [value << 20]


@pytest.mark.parametrize("n", [4096, 60_000])
def test_long_convolutions_of_the_largest_digits_are_exact(n: int) -> None:
    # All digits as large as they get, and of one sign, so that sums of products are as large as the bound allows.
    a = np.full(n, 2**30 - 1)
    b = np.full(n, 2**31 - 1)
    exact = [(2**30 - 1) * (2**31 - 1) * (i + 1) for i in range(n)]
    assert convolved(a, b).tolist() == exact
    assert convolved(a, -b).tolist() == [-x for x in exact]
