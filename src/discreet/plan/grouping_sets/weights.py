"""How much of a column's budget each level gets: chosen from public facts alone, before any data is read.

Every grouping set is a query. Asked alone with its part of the budget (ε divided by the number of sets; μ² with
Gaussian noise) its numbers would have some variance; here the parts are moved between levels such that, after all
levels have been made to agree (`least_squares.py`), no level has more, and the product over levels of what is left of
it is least. Levels that are not worth measuring get nothing and are added up from finer ones.

References:
    Choosing what to measure for what is asked: Li, Miklau, Hay, McGregor, Rastogi 2015, *The matrix mechanism*,
    https://doi.org/10.1007/s00778-015-0398-x; sets of keys: Xiao, He, Zhang, Kifer 2023, *ResidualPlanner*,
    https://arxiv.org/abs/2305.08175. docs/proofs/totals.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

GroupingSet: TypeAlias = tuple[int, ...]
"""The places of the keys that a level keeps, in order."""

MOST_LEVELS = 16
"""Levels that are weighed: CUBE of four keys. Of more, only the finest is measured."""

MOST_WEIGHED_KEYS = 8
"""Keys of the finest groups, of which all subsets are looked at."""

_PARTS = 16  # of the share that each level would have were all alike; shares are whole numbers of them
_STEPS = (12, 6, 3, 1)
_FEASIBLE = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Levels:
    """The declared groups and the levels that are asked for.

    Attributes:
        sizes: how many values each key has.
        kept: the keys of each level; the first keeps all of them.
    """

    sizes: tuple[int, ...]
    kept: tuple[GroupingSet, ...]

    @classmethod
    def of(cls, sizes: Sequence[int], sets: Sequence[GroupingSet]) -> Levels:
        """Return the levels of grouping sets, of which one has all keys, each once."""
        finest = tuple(range(len(sizes)))
        return cls(tuple(sizes), tuple(dict.fromkeys((finest, *sets))))

    def cells(self, kept: GroupingSet) -> int:
        """How many totals a level has."""
        return math.prod(self.sizes[i] for i in kept)

    def parts(self, kept: GroupingSet) -> int:
        """How many finest groups each of them adds up."""
        return math.prod(n for i, n in enumerate(self.sizes) if i not in kept)

    @property
    def weighable(self) -> bool:
        """Whether there is something to weigh, and not too much."""
        return 1 < len(self.kept) <= MOST_LEVELS and len(self.sizes) <= MOST_WEIGHED_KEYS


@dataclass(frozen=True, slots=True)
class LevelCosts:
    """How far one unit moves each level of a column, up to a common factor.

    Attributes:
        moves: for each level ℓ1, or ℓ2² where noise is Gaussian.
        total: where all is one event under replacement (`moves.joint_l1`): k times twice the most that a group moves
            by coming or going, and k times its width; else None.
    """

    moves: tuple[float, ...]
    total: tuple[float, float] | None


def variances(levels: Levels, measured: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variance of each level's numbers after least squares, given those of its measurement (∞ if there is
    none); over the last axis.

    In the components of the analysis of variance, one for each set T of keys, the measurement of level s knows a
    component of T ⊆ s with weight parts(s)/variance(s), and independently of the other components.
    """
    knows, holds = _components(levels)
    known = (1 / measured) @ knows.T
    found: NDArray[np.float64] = (1 / known) @ holds.T
    return found


@lru_cache(maxsize=64)
def _components(levels: Levels) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each component and level how much of the one the other sees, and for each level and component how much of a
    total's indicator lies in the component.
    """
    keys = range(len(levels.sizes))
    subsets = [set(c) for r in range(len(keys) + 1) for c in combinations(keys, r)]
    knows = np.array([[levels.parts(s) if t <= set(s) else 0 for s in levels.kept] for t in subsets], dtype=np.float64)
    holds = np.array([[_share(levels, s, t) for t in subsets] for s in levels.kept], dtype=np.float64)
    return knows, holds


def _share(levels: Levels, kept: GroupingSet, component: set[int]) -> float:
    if not component <= set(kept):
        return 0.0
    size = float(levels.parts(kept))
    for i in kept:
        size *= 1 - 1 / levels.sizes[i] if i in component else 1 / levels.sizes[i]
    return size


@lru_cache(maxsize=256)
def shares(levels: Levels, columns: tuple[LevelCosts, ...], *, gaussian: bool) -> tuple[int, ...] | None:
    """For each level its share of every column's budget, as whole numbers in lowest terms; None where measuring the
    finest groups alone is best, or there is nothing to choose.
    """
    if not levels.weighable or not columns:
        return None
    judge = _Judge(levels, columns, gaussian)
    n = len(levels.kept)
    equal = np.full(n, _PARTS, dtype=np.int64)
    starts = [equal, np.array([n * _PARTS] + [0] * (n - 1))]
    for i in range(1, n):
        without = np.array([_PARTS] * n)
        without[i], without[0] = 0, 2 * _PARTS
        starts.append(without)
    found = [_improved(start, judge) for start in starts if math.isfinite(judge.of(start[None])[0])]
    best = min(found, key=lambda f: round(f[0], 9))[1]
    if not best[1:].any():
        return None
    common = math.gcd(*(int(b) for b in best))
    return tuple(int(b) // common for b in best)


@dataclass(frozen=True, slots=True)
class _Judge:
    """How good shares are: the mean logarithm of each variance against that of the level asked alone; ∞ where some
    level would have more.
    """

    levels: Levels
    columns: tuple[LevelCosts, ...]
    gaussian: bool

    def of(self, candidates: NDArray[np.int64]) -> NDArray[np.float64]:
        """One number for each row of candidates."""
        n = len(self.levels.kept)
        given = candidates / candidates.sum(axis=1, keepdims=True)
        worth = np.zeros(len(candidates))
        with np.errstate(divide="ignore"):
            for column in self.columns:
                moves = np.array(column.moves)
                if self.gaussian:
                    measured, alone = moves / given, moves * n
                else:
                    measured = (moves / given * self._joint(column, given / moves)[:, None]) ** 2
                    alone = (moves * n) ** 2
                left = variances(self.levels, measured) / alone
                worth += np.log(left).mean(axis=1)
                worth[(left > _FEASIBLE).any(axis=1)] = np.inf
        return np.asarray(worth)

    def _joint(self, column: LevelCosts, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what all levels cost together, of 1."""
        if column.total is None:
            return np.ones(len(rates))
        grand = np.array([self.levels.cells(s) == 1 for s in self.levels.kept])
        other, total = rates[:, ~grand].sum(axis=1), rates[:, grand].sum(axis=1)
        twice, width = column.total
        return np.asarray(np.minimum(1.0, np.maximum(twice * other, width * (other + total))))


def _improved(start: NDArray[np.int64], judge: _Judge) -> tuple[float, NDArray[np.int64]]:
    """Move shares between two levels at a time while that is better; the finest level keeps one at least."""
    best, worth, n = start, float(judge.of(start[None])[0]), len(start)
    moves = np.array([[int(k == j) - int(k == i) for k in range(n)] for i in range(n) for j in range(n) if i != j])
    for step in _STEPS:
        while True:
            tried = best + step * moves
            tried = tried[(tried >= 0).all(axis=1) & (tried[:, 0] > 0)]
            if not len(tried):
                break
            found = judge.of(tried)
            i = int(np.argmin(found))
            if not found[i] < worth - 1e-7:
                break
            best, worth = tried[i], float(found[i])
    return worth, best
