"""Estimates over random trees: least squares, their variances, and whole numbers that add up."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.synth.tree import UnitTree
from tests.synth.trees import DENSE, check_estimates, check_whole, random_tree


@pytest.mark.parametrize("seed", range(16))
def test_tables_are_whole_not_negative_and_add_up(seed: int) -> None:
    check_whole(random_tree(seed))


@pytest.mark.parametrize("seed", [s for s in range(16) if s % 4 < 3])
def test_estimates_and_errors_are_those_of_dense_least_squares(seed: int) -> None:
    case = random_tree(seed)
    if case.tree.sizes[-1] * case.noise.cells <= DENSE:
        check_estimates(case)


def test_whole_totals_are_the_nearest_point_of_the_simplex_rounded() -> None:
    tree = UnitTree((np.array([0, 0, 0, 1]),))
    wanted = np.array([3.4, 1.4, -5.0, 7.9])
    # the nearest point of sum 4 with no number below 0 is (3, 1, 0)
    assert tree.whole_totals(1, wanted, np.array([4, 2])).tolist() == [3, 1, 0, 2]
    assert tree.whole_totals(1, wanted, np.array([0, 0])).tolist() == [0, 0, 0, 0]


def test_whole_cells_near_whole_numbers_that_add_up_are_these() -> None:
    tree = UnitTree((np.array([0, 0, 1]),))
    cells = np.array([[3, 0], [1, 7], [2, 2]])
    found = tree.whole_cells(1, cells + 0.01, cells.sum(axis=1), np.array([[4, 7], [2, 2]]))
    assert (found == cells).all()
