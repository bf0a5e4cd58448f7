"""The tree: its weights are those of least squares, its sensitivity is what enumeration finds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.mechanisms.binary_tree import BlockTree


def blocks(tree: BlockTree, n: int) -> NDArray[np.float64]:
    """Each complete block of n elements as a row, height by height."""
    rows = [
        [1.0 if k << h <= i < (k + 1) << h else 0.0 for i in range(n)]
        for h in range(tree.levels)
        for k in range(n >> h)
    ]
    return np.array(rows)


def weights(tree: BlockTree, n: int) -> NDArray[np.float64]:
    """What each answer gives to each draw, from answers to zeros with one draw of one."""
    zeros = np.zeros(n, dtype=np.int64)
    found = []
    for i in range(len(blocks(tree, n))):

        def draw(size: int, i: int = i) -> NDArray[Any]:
            return np.asarray(np.arange(size) == i, dtype=np.int64)

        found.append(tree.release(zeros, draw))
    return np.asarray(np.array(found).T)


SHAPES = [(n, h) for n in (1, 2, 3, 4, 6, 7, 8, 11, 13) for h in range(n.bit_length())]


@pytest.mark.parametrize(("n", "height"), SHAPES)
def test_each_answer_is_the_best_unbiased_one_from_the_blocks_that_are_complete(n: int, height: int) -> None:
    tree = BlockTree(n, height)
    found, all_blocks = weights(tree, n), blocks(tree, n)
    for t in range(1, n + 1):
        complete = ~all_blocks[:, t:].any(axis=1)
        seen = all_blocks[complete][:, :t]
        best = np.ones(t) @ np.linalg.pinv(seen)  # Gauss, Markov: the least Σ c² of all unbiased weights
        assert np.allclose(found[t - 1, complete], best)
        assert np.allclose(found[t - 1, ~complete], 0)
        assert tree.squares(t) == pytest.approx(float(best @ best))
        assert tree.absolutes(t) == pytest.approx(float(np.abs(best).sum()))


@pytest.mark.parametrize(("n", "height"), SHAPES)
def test_the_worst_step_and_the_mean_are_those_of_all_steps(n: int, height: int) -> None:
    tree = BlockTree(n, height, bits=3)
    each = [tree.squares(t) for t in range(1, n + 1)]
    assert tree.squares(tree.worst()) == pytest.approx(max(each))
    assert tree.mean_squares() == pytest.approx(float(np.mean(each)))


@pytest.mark.parametrize(("n", "height"), [(8, 2), (8, 3), (7, 2), (4, 0)])
@pytest.mark.parametrize("contributions", [1, 2, 3])
def test_the_sensitivity_is_the_largest_that_enumeration_finds(n: int, height: int, contributions: int) -> None:
    tree = BlockTree(n, height, bits=2)
    matrix = 4 * blocks(tree, n)
    largest = [0.0, 0.0]
    for places in itertools.combinations(range(n), contributions):
        for signs in itertools.product((-1, 0, 1), repeat=contributions):
            change = np.zeros(n)
            change[list(places)] = signs
            moved = matrix @ change
            largest = [max(largest[0], np.abs(moved).sum()), max(largest[1], (moved**2).sum())]
    assert (tree.l1(contributions), tree.sensitivity(contributions)) == tuple(largest)


@pytest.mark.parametrize("bits", [0, 5])
def test_without_noise_answers_are_prefix_sums_one_by_one_and_at_once(bits: int) -> None:
    values = np.array([5, -3, 0, 2**40, 7, -(2**41), 1, 1, 9, 4, -6])
    tree = BlockTree(11, 2, bits)

    def still(size: int) -> NDArray[Any]:
        return np.zeros(size, dtype=np.int64)

    assert np.allclose(tree.release(values, still), np.cumsum(values), rtol=1e-14)
    growing = tree.begin(still)
    assert np.allclose([growing.add(int(v)) for v in values], np.cumsum(values), rtol=1e-14)
    assert growing.taken == 11


def test_a_run_gives_each_draw_the_weight_that_a_release_gives_it() -> None:
    n, tree = 13, BlockTree(13, 2)
    everything = weights(tree, n)
    ways = []
    for i in range(len(blocks(tree, n))):
        drawn = iter(range(10**6))

        def draw(size: int, i: int = i, drawn: Any = drawn) -> NDArray[Any]:
            return np.array([int(next(drawn) == i) for _ in range(size)], dtype=np.int64)

        growing = tree.begin(draw)
        growing._drawn = list(reversed(draw(64).tolist()))
        ways.append([growing.add(0) for _ in range(n)])
    # The same columns in the order in which blocks are completed.
    assert sorted(map(tuple, np.round(everything.T, 12))) == sorted(map(tuple, np.round(np.array(ways), 12)))


def test_sums_that_leave_64_bits_do_not_wrap() -> None:
    values = np.array([2**63 - 1] * 4 + [-(2**63)] * 4)
    exact = np.cumsum([float(v) for v in values.tolist()])
    tree = BlockTree(8, 3, bits=7)
    assert np.allclose(tree.release(values, lambda n: np.zeros(n, dtype=np.int64)), exact, atol=2.0**20)


@pytest.mark.parametrize("steps", [1, 5, 64, 1000, 10**6, 2**40])
@pytest.mark.parametrize("is_pure", [True, False])
def test_the_height_has_the_least_error_of_all(steps: int, is_pure: bool) -> None:
    chosen = BlockTree.best(steps, is_pure=is_pure)

    def error(tree: BlockTree) -> float:
        return tree.levels ** (2 if is_pure else 1) * tree.squares(tree.worst())

    assert error(chosen) == min(error(BlockTree(steps, h)) for h in range(steps.bit_length()))


def test_a_large_block_has_half_the_variance_of_its_noisy_sum() -> None:
    # Honaker 2015: 2^h/(2^(h+1) − 1) of it, which tends to ½.
    assert [BlockTree(2**h, h).squares(2**h) for h in (0, 1, 2)] == pytest.approx([1, 2 / 3, 4 / 7])
    assert math.isclose(BlockTree(2**30, 30).squares(2**30), 0.5, rel_tol=1e-8)
