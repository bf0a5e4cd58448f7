"""Estimates over a tree of units: least squares in two passes, their variances, and whole numbers that add up.

Everything here is post-processing of noisy numbers, or follows from public numbers alone. Children of a unit stand
side by side, so that sums over children are sums over slices.

References:
    Hay, Rastogi, Miklau, Suciu 2010 (two passes), https://arxiv.org/abs/0904.0942; Cumings-Menon 2024 (the same for
    census tables), https://arxiv.org/abs/2404.13164; Abowd and others 2022 (top-down),
    https://arxiv.org/abs/2204.08986; 2026 (BlueDown: least squares first, then top-down),
    https://arxiv.org/abs/2603.10099.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.synth.domain import Floats, Integers

_ADDED, _SCALED = 12, 8  # rounds of additive and of multiplicative fitting to both sums
_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class UnitTree:
    """Levels of units below one root, which is level 0."""

    # for each level below the root, of each unit the place of its parent one level above; in order, and every unit
    # above the last level is somebody's parent
    parents: tuple[Integers, ...]

    @cached_property
    def starts(self) -> tuple[Integers, ...]:
        """For each level below the root, where the children of each unit above begin."""
        return tuple(np.flatnonzero(np.diff(p, prepend=-1)) for p in self.parents)

    @property
    def sizes(self) -> list[int]:
        """How many units each level has, from the root down."""
        return [1, *(len(p) for p in self.parents)]

    def summed(self, level: int, values: Floats) -> Floats:
        """Return the sums over children of what the units of a level have: one line for each unit above."""
        return np.asarray(np.add.reduceat(values, self.starts[level - 1], axis=0))

    def fit(self, noisy: Sequence[Floats], variances: Sequence[float], root: Floats | None = None) -> list[Floats]:
        """Return the least-squares estimates of each level, each with units in lines; they add up over children.

        Args:
            noisy: of each level, from the root down, the noisy numbers.
            variances: of each level the variance of each of its numbers.
            root: the exact numbers of the root where these are public; `noisy[0]` counts for nothing then.
        """
        below, spread = self._upwards(variances)
        z = [np.asarray(noisy[-1], np.float64)]
        for level in range(len(noisy) - 2, -1, -1):
            share = (below[level] / (below[level] + variances[level]))[:, None]
            z.append(share * noisy[level] + (1 - share) * self.summed(level + 1, z[-1]))
        z.reverse()
        found = [z[0] if root is None else np.asarray(root, np.float64)]
        for level, parent in enumerate(self.parents, start=1):
            missing = found[-1] - self.summed(level, z[level])
            part = spread[level] / below[level - 1][parent]
            found.append(z[level] + missing[parent] * part[:, None])
        return found

    def variances(self, variances: Sequence[float], *, known: bool = False) -> list[Floats]:
        """Return the exact variances of these estimates, unit by unit."""
        below, spread = self._upwards(variances)
        found = [np.zeros(1) if known else spread[0]]
        for level, parent in enumerate(self.parents, start=1):
            part = spread[level] / below[level - 1][parent]
            found.append(spread[level] - part**2 * (below[level - 1] - found[-1])[parent])
        return found

    def _upwards(self, variances: Sequence[float]) -> tuple[list[Floats], list[Floats]]:
        """Return for each level the variance of the sum of children's estimates, and that of the best estimate from
        below.
        """
        spread = [np.full(self.sizes[-1], float(variances[-1]))]
        below: list[Floats] = []
        for level in range(len(self.parents) - 1, -1, -1):
            below.append(self.summed(level + 1, spread[-1]))
            spread.append(variances[level] * below[-1] / (variances[level] + below[-1]))
        return below[::-1], spread[::-1]

    def whole_totals(self, level: int, wanted: Floats, above: Integers) -> Integers:
        """Return whole numbers ≥ 0 near those wanted, whose sums over children are the numbers above: the nearest point
        of each simplex, rounded by largest remainders.
        """
        parent, starts = self.parents[level - 1], self.starts[level - 1]
        order = np.lexsort([-wanted, parent])  # a unit's children from the largest on
        v, place = wanted[order], np.arange(len(wanted)) - starts[parent]
        before = np.cumsum(v)
        before -= (before[starts] - v[starts])[parent]
        level_at = (before - above[parent]) / (place + 1)
        kept = np.add.reduceat((v > level_at).astype(np.int64), starts)
        near = np.maximum(wanted - level_at[starts + np.maximum(kept, 1) - 1][parent], 0)
        near *= (above > 0)[parent]
        low = np.floor(near).astype(np.int64)
        left = above - np.add.reduceat(low, starts)
        ranked = np.empty(len(wanted), np.int64)
        ranked[np.lexsort([low - near, parent])] = place
        for unit in np.flatnonzero(left < 0).tolist():  # by the rounding of floats, far from 0
            _take(low[self.children(level, unit)], -int(left[unit]))
        left, size = np.maximum(left, 0), np.diff(np.append(starts, len(wanted)))
        return np.asarray(low + (left // size)[parent] + (ranked < (left % size)[parent]))

    def children(self, level: int, unit: int) -> slice:
        """Return where the units of a level stand that lie in a unit above."""
        starts = self.starts[level - 1]
        return slice(
            int(starts[unit]), int(starts[unit + 1]) if unit + 1 < len(starts) else len(self.parents[level - 1])
        )

    def whole_cells(self, level: int, wanted: Floats, totals: Integers, above: Integers) -> Integers:
        """Return whole numbers ≥ 0 near those wanted, of which each unit's add up to its total, and each cell's over
        children to the cell above.
        """
        parent = self.parents[level - 1]
        y = self._between(level, wanted, totals.astype(np.float64), above.astype(np.float64))
        low = np.floor(y + _TINY).astype(np.int64)
        rows = totals - low.sum(axis=1)
        columns = above - np.add.reduceat(low, self.starts[level - 1], axis=0)
        for unit, cell in np.argwhere(columns < 0).tolist():
            own = self.children(level, unit)
            rows[own] += _take(low[own, cell], -int(columns[unit, cell]))
            columns[unit, cell] = 0
        for unit in np.flatnonzero(rows < 0).tolist():  # by the rounding of floats, far from 0
            columns[parent[unit]] += _take(low[unit], -int(rows[unit]))
            rows[unit] = 0
        _give(low, rows, columns, parent, y - low)
        return low

    def _between(self, level: int, wanted: Floats, totals: Floats, above: Floats) -> Floats:
        """Return numbers ≥ 0 near those wanted with about these sums; those of lines are met."""
        parent, cells = self.parents[level - 1], wanted.shape[1]
        size = np.diff(np.append(self.starts[level - 1], len(parent)))[:, None]
        y = np.maximum(wanted, 0)
        for _ in range(_ADDED):
            y = np.maximum(y + ((above - self.summed(level, y)) / size)[parent], 0)
            y = np.maximum(y + ((totals - y.sum(axis=1)) / cells)[:, None], 0)
        y += _TINY
        for _ in range(_SCALED):
            y *= (above / np.maximum(self.summed(level, y), 1e-300))[parent]
            y *= (totals / np.maximum(y.sum(axis=1), 1e-300))[:, None]
        return y


@dataclass(frozen=True, eq=False)
class TreeNoise:
    """Variances of the noise of all levels, the whole table first."""

    tree: UnitTree  # of units
    cells: int  # of each histogram
    totals: tuple[float, ...]  # of the noise of a total; of the whole table 0 where it is public
    shares: tuple[float, ...]  # of the noise of a cell

    @property
    def known(self) -> bool:
        """Whether the total of the whole table is public."""
        return not self.totals[0]

    @cached_property
    def both(self) -> list[float]:
        """Variance of a unit's total, from its own noisy number and from its cells, the better one counting more."""
        return [a * self.cells * b / (a + self.cells * b) for a, b in zip(self.totals, self.shares, strict=True)]

    @cached_property
    def spreads(self) -> tuple[list[Floats], list[Floats]]:
        """Variance of the estimate of each unit's total, and of one that is as many times as large as a cell's
        deviation from the mean of the unit's cells.
        """
        return self.tree.variances(self.both, known=self.known), self.tree.variances(self.shares)

    def errors(self, level: int, cells: int) -> Floats:
        """Return the standard error of the estimated sum over so many cells, for each unit of a level."""
        total, apart = (spread[level] for spread in self.spreads)
        share = cells / self.cells
        return np.asarray(np.sqrt(share**2 * total + cells * (1 - share) * apart))

    def fit(self, totals: Sequence[Floats], cells: Sequence[Floats], rows: float | None) -> list[Floats]:
        """Return the least-squares estimates of all cells, level by level: a unit's total and how its cells differ from
        their mean are estimated apart, since their noise is independent.

        Args:
            totals: the noisy totals, a column for each level; of the whole table nothing counts where it is public.
            cells: the noisy histograms, a line for each unit.
            rows: the public number of rows; None where it is not.
        """
        own = []
        for t, h, a, b in zip(totals, cells, self.totals, self.shares, strict=True):
            own.append((t * self.cells * b + h.sum(axis=1, keepdims=True) * a) / (a + self.cells * b))
        sums = self.tree.fit(own, self.both, None if rows is None else np.array([[rows]]))
        apart = self.tree.fit([h - h.mean(axis=1, keepdims=True) for h in cells], self.shares)
        return [s / self.cells + d for s, d in zip(sums, apart, strict=True)]


def whole(noise: TreeNoise, wanted: Sequence[Floats], rows: int | None) -> list[Integers]:
    """Return whole numbers ≥ 0 near estimates, from the whole table down: totals first, and then cells within these. A
    unit's cells are sums of those of its children.
    """
    tree = noise.tree
    sums = [np.array([max(round(float(wanted[0].sum())), 0) if rows is None else rows])]
    for level in range(1, len(wanted)):
        sums.append(tree.whole_totals(level, wanted[level].sum(axis=1), sums[-1]))
    of_one = UnitTree((np.zeros(noise.cells, np.int64),))
    shift = [(s - w.sum(axis=1))[:, None] / noise.cells for s, w in zip(sums, wanted, strict=True)]
    found = [of_one.whole_totals(1, (wanted[0] + shift[0])[0], sums[0])[None]]
    for level in range(1, len(wanted)):
        found.append(tree.whole_cells(level, wanted[level] + shift[level], sums[level], found[-1]))
    return found


def _take(numbers: Integers, most: int) -> Integers:
    """Take so much from these numbers, the largest first, and return what was taken of each."""
    taken = np.zeros(len(numbers), np.int64)
    for i in np.argsort(-numbers, kind="stable").tolist():
        taken[i] = min(int(numbers[i]), most)
        most -= int(taken[i])
    numbers -= taken
    return taken


def _give(low: Integers, rows: Integers, columns: Integers, parent: Integers, share: Floats) -> None:
    """Give units and cells what they are owed: 1 to the largest shares first, then whatever is left to anybody."""
    width = low.shape[1]
    wanted = (share > _TINY * 10) & (rows > 0)[:, None] & (columns > 0)[parent]
    places = np.flatnonzero(wanted.reshape(-1))
    places = places[np.argsort(-share.reshape(-1)[places], kind="stable")]
    owed, wants, up = rows.tolist(), columns.reshape(-1).tolist(), (parent * width).tolist()
    given = []
    for place in places.tolist():
        unit, cell = divmod(place, width)
        if owed[unit] and wants[up[unit] + cell]:
            owed[unit] -= 1
            wants[up[unit] + cell] -= 1
            given.append(place)
    low.reshape(-1)[given] += 1
    cells = iter([at for at, want in enumerate(wants) if want])
    at, left = 0, 0
    for unit in [i for i, n in enumerate(owed) if n]:  # by parent, as cells are: what is left is the same of both
        while owed[unit]:
            if not left:
                at = next(cells)
                left = wants[at]
            n = min(owed[unit], left)
            low[unit, at % width] += n
            owed[unit] -= n
            left -= n
