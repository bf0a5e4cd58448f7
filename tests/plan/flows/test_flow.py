"""Flows between small populations, all of them: against cuts and linear programs, and moved by every unit."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from discreet.errors import InvalidParameter
from discreet.plan.flows.flow import LARGEST, largest_flows

World = NDArray[np.int64]
"""Worlds × units of the first population × units of the second: how much each pair could carry."""

Answers = Callable[[World, int, int], NDArray[np.int64]]
"""Of each world, the answer under the two caps."""

CAPS = list(itertools.product((1, 2, 3), repeat=2))


def worlds(patients: int, doctors: int, values: tuple[int, ...]) -> World:
    """Every world in which each pair has one of the values."""
    cells = list(itertools.product(values, repeat=patients * doctors))
    return np.array(cells, np.int64).reshape(-1, patients, doctors)


def flows(world: World, most_first: int, most_second: int) -> NDArray[np.int64]:
    """The answer of every world: one flow for all, in groups of their own."""
    group, first, second = (part.ravel() for part in np.indices(world.shape))
    return largest_flows(
        group, first, second, world.ravel(), groups=len(world), most_first=most_first, most_second=most_second
    )


def cuts(world: World, most_first: int, most_second: int) -> NDArray[np.int64]:
    """The same as the least of all cuts (Ford and Fulkerson): an answer that shares nothing with the solver."""
    _, patients, doctors = world.shape
    best = np.full(len(world), np.iinfo(np.int64).max)
    for kept in itertools.product((False, True), repeat=patients):
        for left in itertools.product((False, True), repeat=doctors):
            crossing = world[:, kept, :][:, :, [not x for x in left]].sum(axis=(1, 2))
            cut = most_first * (patients - sum(kept)) + most_second * sum(left) + crossing
            best = np.minimum(best, cut)
    return best


def rows_in_order(world: World, most_first: int, most_second: int) -> NDArray[np.int64]:
    """A broken twin: so many rows of each patient are kept, then so many of each doctor."""
    found = []
    for w in world.tolist():
        kept = [0] * len(w[0])
        for row in w:
            room = most_first
            for doctor, n in enumerate(row):
                taken = min(room, n)
                kept[doctor] += taken
                room -= taken
        found.append(sum(min(most_second, n) for n in kept))
    return np.array(found)


def greedy(world: World, most_first: int, most_second: int) -> NDArray[np.int64]:
    """Another: a pair is kept, in a fixed order, if both still have room for all of it."""
    found = []
    for w in world.tolist():
        first, second, total = [most_first] * len(w), [most_second] * len(w[0]), 0
        for patient, row in enumerate(w):
            for doctor, n in enumerate(row):
                if n <= min(first[patient], second[doctor]):
                    first[patient] -= n
                    second[doctor] -= n
                    total += n
        found.append(total)
    return np.array(found)


def moved(answers: NDArray[np.int64], world: World, axis: int) -> NDArray[np.int64]:
    """By how much the answer of each world falls when one unit of a population goes: worlds × units."""
    place = {w.tobytes(): i for i, w in enumerate(world)}
    columns = []
    for unit in range(world.shape[axis]):
        without = world.copy()
        without[(slice(None),) * axis + (unit,)] = 0
        columns.append(answers - answers[[place[w.tobytes()] for w in without]])
    return np.stack(columns, axis=1)


@pytest.fixture(scope="module")
def every() -> World:
    """All worlds of up to three patients and three doctors, with up to two rows of each pair."""
    return worlds(3, 3, (0, 1, 2))


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("caps", CAPS)
def test_a_flow_is_the_least_cut_and_no_unit_moves_it_by_more_than_its_cap(every: World, caps: tuple[int, int]) -> None:
    found = flows(every, *caps)
    assert (found == cuts(every, *caps)).all()
    for axis, cap in zip((1, 2), caps, strict=True):
        fallen = moved(found, every, axis)
        assert fallen.min() == 0
        assert fallen.max() == min(cap, 6, 3 * caps[2 - axis])  # reached, as far as three others can take it


@pytest.mark.parametrize("caps", CAPS)
def test_it_is_the_exact_sum_where_nobody_exceeds_a_cap(every: World, caps: tuple[int, int]) -> None:
    found, total = flows(every, *caps), every.sum(axis=(1, 2))
    within = (every.sum(axis=2).max(axis=1) <= caps[0]) & (every.sum(axis=1).max(axis=1) <= caps[1])
    assert within.any()
    assert (found[within] == total[within]).all()
    assert (found <= total).all()


def test_replacing_a_unit_by_any_other_moves_it_by_the_cap_and_no_more() -> None:
    every = worlds(2, 3, (0, 1, 2))
    for most_first, most_second in CAPS:
        found = flows(every, most_first, most_second)
        for axis, cap in ((1, most_first), (2, most_second)):
            kept = np.delete(every, 0, axis).reshape(len(every), -1)  # all but the unit that is replaced
            order = np.lexsort(kept.T)
            starts = np.flatnonzero(np.any(np.diff(kept[order], axis=0, prepend=-1), axis=1))
            widest = np.maximum.reduceat(found[order], starts) - np.minimum.reduceat(found[order], starts)
            assert widest.max() <= cap
        assert widest.max() == min(most_second, 2 * most_first, 4)


def test_the_difference_of_two_flows_moves_by_one_cap_or_by_both() -> None:
    every = worlds(2, 2, (-2, -1, 0, 1, 2))
    up, down, most_second = 2, 1, 3
    found = flows(np.maximum(every, 0), up, most_second) - flows(np.maximum(-every, 0), down, most_second)
    fallen = moved(found, every, 1)
    assert (fallen.min(), fallen.max()) == (-down, up)
    kept = every[:, 1].reshape(len(every), -1)
    groups = [found[(kept == k).all(axis=1)] for k in np.unique(kept, axis=0)]
    assert max(int(g.max() - g.min()) for g in groups) == up + down


@pytest.mark.exhaustive
@pytest.mark.parametrize(("twin", "shape", "values"), [(rows_in_order, (3, 4), (0, 1)), (greedy, (2, 3), (0, 1, 2, 3))])
def test_cutting_in_an_order_is_found_out(twin: Answers, shape: tuple[int, int], values: tuple[int, ...]) -> None:
    every = worlds(*shape, values)
    worst = 0
    for most_first, most_second in CAPS:
        found = twin(every, most_first, most_second)
        for axis, cap in ((1, most_first), (2, most_second)):
            worst = max(worst, int(np.abs(moved(found, every, axis)).max()) - cap)
    assert worst > 0


def test_cutting_in_an_order_lets_rows_in_without_limit() -> None:
    """One doctor goes, and each of n patients has a row elsewhere that comes in."""
    n = 50
    world = np.ones((1, n, n + 1), np.int64) * np.eye(n, n + 1, 1, dtype=np.int64)
    world[0, :, 0] = 1  # everybody's first row is with the same doctor
    without = world.copy()
    without[0, :, 0] = 0
    assert rows_in_order(without, 1, 1)[0] - rows_in_order(world, 1, 1)[0] == n - 1
    assert abs(flows(without, 1, 1)[0] - flows(world, 1, 1)[0]) <= 1


def test_larger_flows_are_those_of_a_linear_program() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        patients, doctors = rng.integers(1, 9, 2)
        world = rng.integers(0, 50, (1, patients, doctors)) * (rng.random((1, patients, doctors)) < 0.6)
        caps = (int(rng.integers(1, 120)), int(rng.integers(1, 120)))
        by_patient = np.kron(np.eye(patients), np.ones((1, doctors)))
        by_doctor = np.kron(np.ones((1, patients)), np.eye(doctors))
        bounds = [(0, int(w)) for w in world.ravel()]
        limits = [caps[0]] * patients + [caps[1]] * doctors
        best = linprog(-np.ones(world.size), np.vstack([by_patient, by_doctor]), limits, bounds=bounds)
        assert flows(world.astype(np.int64), *caps)[0] == round(-float(best.fun or 0))


def test_sums_of_flows_have_64_bits() -> None:
    n = 10
    world = np.full((1, n, n), 1 << 40, np.int64) * np.eye(n, dtype=np.int64)
    assert flows(world, LARGEST, LARGEST)[0] == n * LARGEST
    assert flows(np.concatenate([world, world]), LARGEST, LARGEST).tolist() == [n * LARGEST] * 2


def test_edges_between_the_same_units_add_up() -> None:
    once = np.zeros(3, np.int64)
    found = largest_flows(once, once, once, np.array([1, 2, LARGEST]), groups=1, most_first=LARGEST, most_second=5)
    assert found.tolist() == [5]


def test_nothing_flows_where_nothing_is_or_nothing_may() -> None:
    none = np.zeros(0, np.int64)
    assert largest_flows(none, none, none, none, groups=2, most_first=1, most_second=1).tolist() == [0, 0]
    one = np.zeros(1, np.int64)
    assert largest_flows(one, one, one + 7, one, groups=1, most_first=1, most_second=1).tolist() == [0]
    assert largest_flows(one, one, one, one + 7, groups=1, most_first=0, most_second=1).tolist() == [0]


@pytest.mark.parametrize("most", [-1, LARGEST + 1])
def test_a_cap_that_the_solver_cannot_hold_is_refused(most: int) -> None:
    one = np.zeros(1, np.int64)
    with pytest.raises(InvalidParameter, match="must lie between 0 and"):
        largest_flows(one, one, one, one, groups=1, most_first=most, most_second=1)
