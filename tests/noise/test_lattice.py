"""The public grid: exact rounding, nothing wraps, and the sensitivities that a brute force finds."""

from __future__ import annotations

import itertools
import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.noise.lattice import Grid

EIGHTH = Fraction(1, 8)


def half_even(x: Fraction) -> int:
    """The rule, written out."""
    down = math.floor(x)
    rest = x - down
    if rest == Fraction(1, 2):
        return down + down % 2
    return down + (rest > Fraction(1, 2))


def moves(places: int, most: int) -> dict[tuple[int, ...], list[int]]:
    """For each vector of distances in eighths: the largest distance between roundings, by trying every start.

    Rounding to the even repeats with period 2, so starts in [0, 2) stand for all; and two reals in between
    multiples of 1/8 round like neighbouring multiples (ties are multiples of 1/8 themselves).
    """
    starts = [Fraction(i, 8) for i in range(16)]
    single = [
        max(abs(half_even(x + sign * d * EIGHTH) - half_even(x)) for x in starts for sign in (-1, 1))
        for d in range(most + 1)
    ]
    return {d: [single[i] for i in d] for d in itertools.product(range(most + 1), repeat=places)}


@given(
    x=st.one_of(st.fractions(), st.floats(allow_nan=False, allow_infinity=False), st.integers()),
    exponent=st.integers(-40, 40),
)
@example(x=0.5, exponent=0)
@example(x=1.5, exponent=0)
@example(x=-2.5, exponent=0)
@example(x=5e-324, exponent=-1074)
def test_snapping_is_rounding_half_to_even_in_rationals(x: float | int | Fraction, exponent: int) -> None:
    assert Grid(exponent).snap(x) == half_even(Fraction(x) / Fraction(2) ** exponent)


@given(st.lists(st.floats(-(2.0**50), 2.0**50), max_size=20), st.integers(-12, 1000))
@example([0.5, 1.5, 2.5, -0.5, -1.5, -0.0], 0)
@example([5e-324, 2.0**-1022, 0.3], 500)
def test_vectors_are_snapped_as_scalars_are(values: list[float], exponent: int) -> None:
    grid = Grid(exponent)
    snapped = grid.snap_vector(np.array(values, dtype=np.float64))
    assert snapped.dtype == np.int64
    assert snapped.tolist() == [grid.snap(v) for v in values]


def test_a_subnormal_grid_is_exact_too() -> None:
    assert Grid(-1074).snap_vector(np.array([5e-324, 1.5e-323])).tolist() == [1, 3]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 2.0**63, -(2.0**63), 1e308])
def test_what_is_not_a_number_or_does_not_fit_is_refused(bad: float) -> None:
    with pytest.raises(InvalidParameter, match="finite and below 2\\^63 steps"):
        Grid(0).snap_vector(np.array([1.0, bad]))
    if not math.isfinite(bad):
        with pytest.raises(InvalidParameter, match="finite"):
            Grid(0).snap(bad)
    else:
        assert Grid(0).snap(bad) == int(bad)


def test_the_largest_values_that_fit_are_kept() -> None:
    largest = math.nextafter(2.0**63, 0)
    assert Grid(0).snap_vector(np.array([largest, -largest])).tolist() == [int(largest), -int(largest)]


def test_scalars_of_numpy_are_taken_exactly() -> None:
    whole: Any = np.int64(2**62)
    short: Any = np.float32(0.1)
    assert Grid(-60).snap(whole) == 2**122
    assert Grid(-60).snap(short) == int(float(short) * 2**60)


def test_a_scalar_has_no_limit() -> None:
    assert Grid(-1074).snap(1e308) == int(1e308) << 1074


@given(k=st.integers(-(10**30), 10**30), exponent=st.integers(-60, 60))
def test_values_are_exact_and_snap_back(k: int, exponent: int) -> None:
    grid = Grid(exponent)
    assert grid.value(k) == k * grid.step == k * Fraction(2) ** exponent
    assert grid.snap(grid.value(k)) == k
    assert grid.to_float(k) == float(k * Fraction(2) ** exponent)


@pytest.mark.parametrize("exponent", [-60, 0, 900])
def test_a_point_beyond_the_largest_float_is_shown_as_it(exponent: int) -> None:
    far = 10**400 << 60
    assert Grid(exponent).to_float(far) == sys.float_info.max == -Grid(exponent).to_float(-far)


@given(
    scale=st.fractions(Fraction(1, 10**20), 10**20).filter(bool),
    bits=st.integers(0, 30),
    largest=st.none() | st.fractions(0, 10**30),
)
@example(scale=Fraction(1), bits=12, largest=None)
@example(scale=Fraction(1), bits=12, largest=Fraction(2**52))
@example(scale=Fraction(1), bits=12, largest=Fraction(2**52 + 1))
def test_the_grid_for_a_scale_is_the_coarsest_that_is_fine_enough(
    scale: Fraction, bits: int, largest: Fraction | None
) -> None:
    grid = Grid.for_scale(scale, bits=bits, largest=largest)
    most = scale / 2**bits
    if grid.step <= most:
        assert 2 * grid.step > most or largest is not None
        assert 2 * grid.step > most or (largest is not None and largest / (grid.step / 2) > 2**52)
    else:
        assert largest is not None
        assert largest / (grid.step / 2) > 2**52
    if largest is not None:
        assert largest / grid.step <= 2**52


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("places", [1, 2, 3])
def test_the_l1_sensitivity_is_the_largest_that_a_brute_force_finds(places: int) -> None:
    most = 24 if places == 3 else 40
    found = {total: max(sum(m) for d, m in moves(places, most).items() if sum(d) <= total) for total in range(most + 1)}
    for grid in (Grid(0), Grid(-5), Grid(7)):
        stated = {total: grid.sensitivity(total * EIGHTH * grid.step, places) for total in found}
        # Eighths are too coarse a search where each of k coordinates needs room of its own.
        exact = [total for total in found if total % 8 >= places or total % 8 == 0]
        assert all(found[t] <= stated[t] for t in found)
        if places == 1:
            assert found == stated
        assert [found[t] for t in exact] == [stated[t] for t in exact]


def test_the_linf_sensitivity_of_whole_steps_shows_the_even_rule() -> None:
    grid = Grid(0)
    assert [grid.linf(Fraction(d, 2)) for d in range(9)] == [0, 1, 2, 2, 2, 3, 4, 4, 4]
    assert abs(grid.snap(0.5) - grid.snap(1.5)) == 2  # one step apart, and two after rounding


@pytest.mark.parametrize("places", [1, 2, 3])
def test_the_l2_bound_covers_what_a_brute_force_finds(places: int) -> None:
    grid = Grid(-3)
    most = 20
    for d, m in moves(places, most).items():
        squared = Fraction(sum(i * i for i in d), 64)
        # the smallest rational norm that is at least the real one, to 2^-20
        norm = Fraction(math.isqrt(int(squared * 2**40)) + 1, 2**20) if squared else Fraction(0)
        assert sum(i * i for i in m) <= grid.l2_squared(norm * grid.step, places)


@pytest.mark.exhaustive
@given(st.lists(st.tuples(st.fractions(-50, 50), st.fractions(-5, 5)), min_size=1, max_size=6), st.integers(-4, 4))
def test_no_pair_of_real_vectors_breaks_the_three_bounds(pairs: list[tuple[Fraction, Fraction]], exponent: int) -> None:
    grid = Grid(exponent)
    moved = [abs(grid.snap(x + d) - grid.snap(x)) for x, d in pairs]
    size = sum((abs(d) for _, d in pairs), Fraction(0))
    assert sum(moved) <= grid.sensitivity(size, len(pairs))
    assert max(moved) <= grid.linf(max(abs(d) for _, d in pairs))
    squared = sum(d * d for _, d in pairs)
    norm = Fraction(math.isqrt(math.ceil(squared * 2**60)) + 1, 2**30)
    assert sum(m * m for m in moved) <= grid.l2_squared(norm, len(pairs))


def test_nothing_moves_when_nothing_may() -> None:
    grid = Grid(0)
    assert grid.sensitivity(Fraction(0), 5) == grid.linf(Fraction(0)) == grid.l2_squared(Fraction(0), 5) == 0
    assert grid.sensitivity(Fraction(3), 0) == grid.l2_squared(Fraction(3), 0) == 0


def test_grids_and_distances_that_make_no_sense_are_refused() -> None:
    for exponent in (-1075, 1024, True, 0.5):
        with pytest.raises(InvalidParameter, match="exponent"):
            Grid(exponent)  # type: ignore[arg-type]  # the refusal is the point
    for scale in (Fraction(0), Fraction(-1)):
        with pytest.raises(InvalidParameter, match="scale"):
            Grid.for_scale(scale)
    with pytest.raises(InvalidParameter, match="exponent"):
        Grid.for_scale(Fraction(1, 2**1070))
    with pytest.raises(InvalidParameter, match="delta"):
        Grid(0).sensitivity(Fraction(-1), 1)
    with pytest.raises(InvalidParameter, match="coordinates"):
        Grid(0).l2_squared(Fraction(1), -1)
