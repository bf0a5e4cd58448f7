"""Gaps below the best candidate: exact on demand, and their float bounds are never above the truth."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.noise.selection import LAST, STEP_BITS, Utilities, gaps_below_best
from tests.noise.reals import of_numpy

RATES = st.one_of(
    st.fractions(Fraction(1, 10**6), 1000),
    st.builds(lambda n, e: n * Fraction(2) ** e, st.fractions(Fraction(1, 100), 100), st.integers(-1200, 1200)),
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def check(utilities: Utilities, rate: Fraction) -> None:
    values = [Fraction(v.item() if isinstance(v, np.generic) else v) for v in utilities]
    gaps = gaps_below_best(utilities, rate)
    for i, value in enumerate(values):
        true = rate * (max(values) - value)
        assert gaps.exact(i) == true
        step = int(gaps.steps[i])
        assert 0 <= step <= LAST
        assert Fraction(step, 1 << STEP_BITS) <= true
        assert step == LAST or true * (1 << STEP_BITS) < step + 2


@given(u=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8), rate=RATES)
@example(u=[-(2**63), 2**63 - 1, 0], rate=Fraction(1, 2**60))
@example(u=[2**62, -(2**62), 2**62 - 1], rate=Fraction(1))
@example(u=[2**60 - 1, 0], rate=Fraction(1, 2**60))  # the nearest float of the gap is one whole step higher
@example(u=[2**53, 0], rate=Fraction(2**54 - 1, 2**107))  # and here the nearest float of the rate
def test_integer_gaps_are_bounded_from_below(u: list[int], rate: Fraction) -> None:
    check(np.array(u, dtype=np.int64), rate)
    check(u, rate)


@given(u=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=8), rate=RATES)
@example(u=[2**64 - 1, 0], rate=Fraction(1, 2**62))
def test_unsigned_gaps_are_bounded_from_below(u: list[int], rate: Fraction) -> None:
    check(np.array(u, dtype=np.uint64), rate)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32])
def test_the_extremes_of_short_integers_do_not_wrap(dtype: type[np.integer[Any]]) -> None:
    info = np.iinfo(dtype)
    check(np.array([info.min, info.max, 1], dtype=dtype), Fraction(1, info.max))


@given(u=st.lists(FINITE, min_size=1, max_size=8), rate=RATES)
@example(u=[1.7e308, -1.7e308], rate=Fraction(1, 10**308))
@example(u=[5e-324, 0.0, -5e-324], rate=Fraction(10**323))
@example(u=[0.1, 0.2, 0.3], rate=Fraction(10))
def test_float_gaps_are_bounded_from_below(u: list[float], rate: Fraction) -> None:
    values = [Fraction(v) for v in u]
    if rate * (max(values) - min(values)) * (1 << STEP_BITS) < LAST and max(u) - min(u) == math.inf:
        return  # a distance above the largest float is bounded by it: below the truth, and not close
    check(np.array(u), rate)
    check(u, rate)


def test_a_distance_above_the_largest_float_is_bounded_by_it() -> None:
    gaps = gaps_below_best(np.array([1.7e308, -1.7e308]), Fraction(1, 10**308))
    assert gaps.exact(1) == 2 * Fraction(1.7e308) / 10**308
    assert Fraction(int(gaps.steps[1]), 256) <= gaps.exact(1)


@given(u=st.lists(st.integers(-(10**40), 10**40), min_size=1, max_size=8), rate=RATES)
def test_integers_of_any_size_are_bounded_from_below(u: list[int], rate: Fraction) -> None:
    check(u, rate)
    check(np.array(u, dtype=object), rate)


@given(u=st.lists(st.one_of(st.fractions(), FINITE, st.integers()), min_size=1, max_size=8), rate=RATES)
def test_mixtures_of_numbers_are_taken_exactly(u: list[Any], rate: Fraction) -> None:
    check(u, rate)


def test_numbers_of_numpy_in_a_list_are_taken_exactly() -> None:
    values: list[Any] = [np.float32(0.1), np.int64(3), 0.5]
    check(values, Fraction(3))


def test_fractions_of_integers_of_numpy_do_not_wrap() -> None:
    rate = of_numpy(2**62, 2**62 - 1)
    gaps = gaps_below_best([of_numpy(2**62, 3), Fraction(0)], rate)
    assert gaps.exact(1) == Fraction(2**62, 2**62 - 1) * Fraction(2**62, 3)
    check(np.array([1, 2, 3]), of_numpy(1, 7))


def test_short_floats_are_taken_exactly() -> None:
    check(np.array([0.1, 0.2, -3e38], dtype=np.float32), Fraction(3))


@pytest.mark.parametrize(
    "bad",
    [
        [],
        np.array([], dtype=np.int64),
        np.zeros((2, 2)),
        np.array([1.0, math.nan]),
        np.array([1.0, math.inf]),
        [1.0, -math.inf],
        [1, math.nan],
        ["1", "2"],
        np.array(["1"]),
        np.array([True, False]),
        np.array([1 + 2j]),
        np.array([None], dtype=object),
    ],
    ids=repr,
)
def test_utilities_that_are_no_finite_numbers_are_refused(bad: NDArray[Any]) -> None:
    with pytest.raises(InvalidParameter, match="utilities"):
        gaps_below_best(bad, Fraction(1))


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(-1, 3)])
def test_a_rate_that_is_not_positive_is_refused(rate: Fraction) -> None:
    with pytest.raises(InvalidParameter, match="rate"):
        gaps_below_best([1, 2], rate)
