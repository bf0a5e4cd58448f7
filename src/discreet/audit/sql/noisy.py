"""Many noisy tables of one plan at once: each neighbour's exact cells, and fresh noise for every replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.sampling import Raised
from discreet.audit.sql.engine import Draws
from discreet.noise.entropy import SystemEntropy
from discreet.plan.keys import sort_key
from discreet.run import level_sums

if TYPE_CHECKING:
    from discreet.mechanisms.additive import Additive
    from discreet.plan.plan import Plan
    from discreet.plan.schema import Scalar
    from discreet.run import Cells

Key: TypeAlias = "tuple[Scalar, ...]"

_UNMOVED = 2
"""So many groups that no neighbour moves are drawn all the same."""


@dataclass(frozen=True, slots=True)
class Exact:
    """What the database gave for one neighbour; private."""

    plan: Plan
    cells: Cells
    reports: tuple[int, ...] = ()

    @property
    def tables(self) -> list[Cells]:
        """The cells, and the totals of each level that is measured as well."""
        return [self.cells, *(level_sums(level.kept, self.cells) for level in self.plan.allocation.levels)]


def noisy_tables(first: Exact | Raised, second: Exact | Raised) -> tuple[Draws, Draws]:
    """For each neighbour a function that draws so many noisy tables, a row of numbers each.

    A group is a number for whether it is shown, where groups are selected, and one for each noisy integer (0
    where it is hidden). The row is the noisy table written out, over the groups of both neighbours, but
    for groups that neither neighbour moves, of which two are kept: their numbers are independent of the rest
    and have the same law under both, so that nothing can be learned from them.
    """
    tables = [e.tables if isinstance(e, Exact) else [] for e in (first, second)]
    keys = [_looked_at(one, two) for one, two in zip_longest(*tables, fillvalue={})]
    one, two = (_draws(e, keys) for e in (first, second))
    return one, two


def _looked_at(one: Cells, two: Cells) -> list[Key]:
    """The groups that differ, and a few that do not."""
    found = {*one, *two}
    moved = [k for k in found if one.get(k) != two.get(k)]
    kept = sorted(found - set(moved), key=sort_key)[:_UNMOVED]
    return sorted([*moved, *kept], key=sort_key)


def _draws(exact: Exact | Raised, keys: Sequence[Sequence[Key]]) -> Draws:
    if isinstance(exact, Raised):
        return lambda n: [exact] * n

    def draw(n: int) -> NDArray[np.float64]:
        columns = [*_groups(exact, keys[0], n), *_levels(exact, keys[1:], n), *_reports(exact, n)]
        return np.column_stack(columns or [np.zeros(n)])

    return draw


def _groups(exact: Exact, keys: Sequence[Key], n: int) -> list[NDArray[np.float64]]:
    columns: list[NDArray[np.float64]] = []
    allocation, rng = exact.plan.allocation, SystemEntropy()
    for key in keys:
        cells = exact.cells.get(key)
        shown = np.full(n, float(cells is not None))
        if allocation.threshold is not None:
            if cells is not None:
                shown = np.asarray(allocation.threshold.keep([cells[-1]] * n, rng), dtype=np.float64)
            columns.append(shown)
        for i, noise in enumerate(allocation.noises):
            values = np.zeros(n) if cells is None else _noisy(cells[i], noise, n)
            columns.append(np.where(shown > 0, values, 0.0))
    return columns


def _levels(exact: Exact, keys: Sequence[Sequence[Key]], n: int) -> list[NDArray[np.float64]]:
    levels = zip(exact.plan.allocation.levels, exact.tables[1:], keys, strict=True)
    return [
        _noisy(totals[key][i], noise, n)
        for level, totals, found in levels
        for key in found
        for i, noise in enumerate(level.noises)
    ]


def _reports(exact: Exact, n: int) -> list[NDArray[np.float64]]:
    each = zip(exact.plan.reports, exact.plan.allocation.reports, strict=True)
    noises = [noise for report, noise in each for _ in range(report.places)]
    return [_noisy(count, noise, n) for count, noise in zip(exact.reports, noises, strict=True)]


def _noisy(cell: int, noise: Additive, n: int) -> NDArray[np.float64]:
    """The cell plus fresh noise as floats, which loses digits only beyond 2^53 and tells nothing by that."""
    drawn = noise.draw(n, SystemEntropy())
    if abs(cell) < 1 << 52:
        return np.asarray(drawn + cell, dtype=np.float64)
    return np.asarray([float(int(z) + cell) for z in drawn], dtype=np.float64)
