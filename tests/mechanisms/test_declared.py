"""A declared range: its grid, where values come to lie in it, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms.values import Declared, numbers

UNIT = Declared.of(0, 1, bits=40)


@pytest.mark.parametrize(
    ("lower", "upper"), [(0, 1), (-3, "0.1"), (10**9, 10**9 + 1), ("1e-20", "2e-20"), (-(10**20), 10**20)]
)
@pytest.mark.parametrize("bits", [20, 40])
def test_the_grid_lies_inside_and_is_as_fine_as_it_says(lower: object, upper: object, bits: int) -> None:
    d = Declared.of(lower, upper, bits=bits)  # type: ignore[arg-type]
    assert d.lower <= d.grid.value(d.first) < d.lower + d.grid.step
    assert d.upper - d.grid.step < d.grid.value(d.first + d.span) <= d.upper
    assert (1 << bits) - 2 <= d.span <= 2 << bits or abs(d.lower) > 10**8
    assert max(abs(d.first), abs(d.first + d.span)) < 1 << 62


def test_values_come_to_the_nearest_place_and_those_outside_to_an_end() -> None:
    values = [0.25, -7.0, 3.5, math.inf, -math.inf, math.nan, 1e308, 5e-324]
    quarter = 1 << 38
    expected = [quarter, 0, UNIT.span, UNIT.span, 0, 0, UNIT.span, 0]
    assert UNIT.places(np.array(values)).tolist() == expected
    assert UNIT.places(values).tolist() == expected
    assert [UNIT.value(p) for p in expected[:3]] == [0.25, 0.0, 1.0]


def test_places_are_those_of_exact_rounding() -> None:
    d = Declared.of("-1.7", "2.9", bits=30)
    values = np.random.default_rng(3).uniform(-2, 3, 200)
    exact = [min(max(d.grid.snap(float(v)) - d.first, 0), d.span) for v in values]
    assert d.places(values).tolist() == exact


def test_no_pattern_of_bits_makes_a_warning() -> None:
    signalling = np.array([0x7FA00001], dtype=np.uint32).view(np.float32)
    assert UNIT.places(signalling).tolist() == [0]


def test_numbers_of_every_kind_are_read_alike() -> None:
    assert numbers([1, 2.5, Fraction(1, 2), Decimal("0.25"), np.float32(2)]).tolist() == [1, 2.5, 0.5, 0.25, 2]
    assert numbers(np.array([3, 4], dtype=np.uint8)).tolist() == [3.0, 4.0]
    assert numbers([10**400, -(10**400)]).tolist() == [math.inf, -math.inf]
    assert numbers([Decimal("sNaN")]).shape == (1,)
    assert numbers([]).shape == (0,) and numbers(np.array([])).shape == (0,)


@pytest.mark.parametrize(
    "bad",
    [
        "12",
        b"12",
        7,
        None,
        [True],
        ["1"],
        [None],
        [1j],
        np.array([True]),
        np.array([[1.0]]),
        np.array(["1"]),
        np.array([1], dtype=object),
        np.array([1j]),
        np.ma.masked_array([1.0, 2.0], mask=[False, True]),
        {1.0, 2.0},
    ],
    ids=repr,
)
def test_what_is_no_list_of_numbers_is_refused(bad: object) -> None:
    with pytest.raises(InvalidParameter):
        numbers(bad)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (1, 1),
        (2, 1),
        (0, math.inf),
        (math.nan, 1),
        (0, "1e30"),
        (0, "1e-30"),
        (None, 1),
        (True, 2),
        ("1e20", "100000000000000000001"),
    ],
)
def test_impossible_ranges_are_refused(lower: object, upper: object) -> None:
    with pytest.raises(InvalidParameter):
        Declared.of(lower, upper, bits=40)  # type: ignore[arg-type]
