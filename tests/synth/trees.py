"""Random trees of units with noisy numbers, and the dense least squares that they are compared with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from discreet.synth.tree import TreeNoise, UnitTree, whole

DENSE = 150
"""Cells of the last level up to which dense matrices are made."""


class RandomTree(NamedTuple):
    """A tree with exact counts, and noisy numbers of these."""

    tree: UnitTree
    noise: TreeNoise
    totals: list[Any]
    cells: list[Any]
    rows: int | None
    exact: list[Any]


def random_tree(seed: int) -> RandomTree:
    """Uneven trees with single children, units without rows, one cell or some; each fourth has noise of ±2^50."""
    rng = np.random.default_rng(seed)
    sizes, parents = [1], []
    for _ in range(rng.integers(1, 5)):
        children = rng.choice([1, 1, 2, 3, 6], sizes[-1])
        parents.append(np.repeat(np.arange(sizes[-1]), children))
        sizes.append(int(children.sum()))
        if sizes[-1] > DENSE:
            break
    tree, width = UnitTree(tuple(parents)), int(rng.integers(1, 7))
    exact: list[Any] = [rng.poisson(rng.choice([0.0, 0.5, 5, 200], (sizes[-1], 1)), (sizes[-1], width))]
    for level in range(len(parents), 0, -1):
        exact.append(tree.summed(level, exact[-1]))
    exact.reverse()
    known = bool(rng.integers(2))
    totals, shares = rng.uniform(0.1, 50, len(sizes)), rng.uniform(0.1, 50, len(sizes))
    totals[0] *= not known
    noise = TreeNoise(tree, width, tuple(totals.tolist()), tuple(shares.tolist()))
    t, h = noisy(exact, noise, rng)
    if seed % 4 == 3:
        t, h = ([a + rng.choice([-(2.0**50), 0, 2.0**50], a.shape) for a in given] for given in (t, h))
    return RandomTree(tree, noise, t, h, int(exact[0].sum()) if known else None, exact)


def noisy(exact: list[Any], noise: TreeNoise, rng: Any) -> tuple[list[Any], list[Any]]:
    """Totals and histograms with normal noise."""
    sums = [e.sum(axis=1, keepdims=True) for e in exact]
    t = [s + rng.normal(0, v**0.5, s.shape) for s, v in zip(sums, noise.totals, strict=True)]
    return t, [e + rng.normal(0, v**0.5, e.shape) for e, v in zip(exact, noise.shares, strict=True)]


def dense(case: RandomTree) -> tuple[Any, Any, list[Any]]:
    """Least squares over all cells of the last level, with their covariance, and of each level whose they are."""
    noise, n, width = case.noise, case.tree.sizes[-1], case.noise.cells
    whose = [np.arange(n)]
    for parent in reversed(case.tree.parents):
        whose.append(parent[whose[-1]])
    whose.reverse()
    lines, values = [], []
    for level, own in enumerate(whose):
        for unit in range(case.tree.sizes[level]):
            inside = np.zeros((n, width))
            inside[own == unit] = 1
            for cell in range(width):
                line = np.zeros((n, width))
                line[:, cell] = inside[:, cell]
                lines.append(line.ravel() / noise.shares[level] ** 0.5)
                values.append(case.cells[level][unit, cell] / noise.shares[level] ** 0.5)
            if noise.totals[level]:
                lines.append(inside.ravel() / noise.totals[level] ** 0.5)
                values.append(case.totals[level][unit, 0] / noise.totals[level] ** 0.5)
    a, y, ones = np.array(lines), np.array(values), np.ones((n * width, 1))
    if case.rows is None:
        covariance = np.linalg.inv(a.T @ a)
        return (covariance @ a.T @ y).reshape(n, width), covariance, whose
    bordered = np.linalg.inv(np.block([[a.T @ a, ones], [ones.T, np.zeros((1, 1))]]))
    found = bordered @ np.append(a.T @ y, case.rows)
    return found[:-1].reshape(n, width), bordered[:-1, :-1], whose


def check_whole(case: RandomTree) -> None:
    """Checks that the tables are whole numbers, not negative, and add up from level to level."""
    found: list[Any] = whole(case.noise, case.noise.fit(case.totals, case.cells, case.rows), case.rows)
    for level, table in enumerate(found):
        assert table.dtype == np.int64
        assert (table >= 0).all()
        if level:
            assert (case.tree.summed(level, table) == found[level - 1]).all()
    assert case.rows is None or found[0].sum() == case.rows


def check_estimates(case: RandomTree) -> None:
    """Checks estimates and their standard errors against dense least squares."""
    estimates, errors, (found, covariance, whose) = (
        case.noise.fit(case.totals, case.cells, case.rows),
        case.noise.errors,
        dense(case),
    )
    assert np.abs(estimates[-1] - found).max() <= 1e-9 * max(np.abs(found).max(), 1)
    for level, own in enumerate(whose):
        for cells in {1, case.noise.cells}:
            for unit, error in enumerate(errors(level, cells)):
                inside = np.zeros(found.shape)
                inside[own == unit, :cells] = 1
                square = float(inside.ravel() @ covariance @ inside.ravel())
                assert abs(error**2 - square) <= 1e-9 * max(square, 1)
