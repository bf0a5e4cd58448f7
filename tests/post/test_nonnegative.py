"""Non-negative counts: the nearest ones with their totals, by brute force over all whole numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.post.nonnegative import nearest, raised

SMALL = st.lists(st.integers(-4, 6), min_size=1, max_size=4)


def of_total(width: int, total: int) -> Iterator[tuple[int, ...]]:
    for values in itertools.product(range(total + 1), repeat=width):
        if sum(values) == total:
            yield values


def distance(a: Sequence[int], b: Sequence[int]) -> int:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


@pytest.mark.exhaustive
@settings(max_examples=300, deadline=None)
@given(SMALL, st.integers(0, 8))
def test_the_nearest_whole_numbers_of_a_total(values: list[int], total: int) -> None:
    found = nearest(values, total)
    assert sum(found) == total
    assert min(found) >= 0
    assert distance(found, values) == min(distance(w, values) for w in of_total(len(values), total))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**90), 2**90), min_size=1, max_size=6), st.integers(0, 2**92))
def test_sums_of_very_large_numbers_are_exact(values: list[int], total: int) -> None:
    found = nearest(values, total)
    assert sum(found) == total
    assert min(found) >= 0


def test_alone_each_number_becomes_its_own_nearest() -> None:
    cells = [(3, -3), (-2, 5), (0, -1)]
    keys: list[tuple[str]] = [("a",), ("b",), ("c",)]
    assert raised(keys, cells, None, (True, False)) == [(3, -3), (0, 5), (0, -1)]
    assert raised(keys, cells, None, (True, True)) == [(3, 0), (0, 5), (0, 0)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-5, 9), min_size=6, max_size=6))
def test_totals_keep_their_values_and_are_the_sums_of_their_parts(column: list[int]) -> None:
    keys = list(itertools.product("ab", "xyz"))
    rollup = ((0, 1), (0,), ())
    found = [c for (c,) in raised(keys, [(x,) for x in column], rollup, (True,))]
    assert min(found) >= 0
    total = max(sum(column), 0)
    assert sum(found) == total
    regions = [sum(column[:3]), sum(column[3:])]
    shares = [sum(found[:3]), sum(found[3:])]
    assert distance(shares, regions) == min(distance(w, regions) for w in of_total(2, total))
    if min(column) >= 0:
        assert found == column


@pytest.mark.parametrize("sets", [((0, 1), (0,), (1,), ()), ((0,), (1,))])
def test_totals_of_a_cube_are_sums_of_numbers_from_0_on(sets: tuple[tuple[int, ...], ...]) -> None:
    keys = list(itertools.product("ab", "xyz"))
    column = [4, -3, 2, -1, 7, -2]
    found = [c for (c,) in raised(keys, [(x,) for x in column], sets, (True,))]
    assert min(found) >= 0
    assert sum(found) == sum(column)


def test_nothing_is_left_as_it_is() -> None:
    assert raised([], [], None, (True,)) == []
    assert raised([()], [()], None, ()) == [()]
