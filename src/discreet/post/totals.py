"""Rows of ROLLUP, CUBE and GROUPING SETS, added up from the noisy groups.

A total is the sum of the noisy integers of the finest groups, so that totals equal the sum of their parts. Where the
groups are declared, totals are measured as well if that is better (`plan/grouping_sets/`), and the finest groups are
corrected by them; else totals are post-processing of the finest groups alone, and cost nothing. What does not add up
over groups, such as a number of people, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.summed import summed_noises
from discreet.plan.grouping_sets.split_budget import agreements, rollup_order, subsets
from discreet.post.noisy_table import NoisyRow

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar
    from discreet.mechanisms.additive import Additive
    from discreet.plan.grouping_sets.split_budget import Agreement
    from discreet.plan.grouping_sets.weights import GroupingSet
    from discreet.plan.query import Query
    from discreet.post.noisy_table import NoisyTable


def total_rows(query: Query, keys: Sequence[tuple[Scalar, ...]], cells: Sequence[tuple[int, ...]]) -> list[NoisyRow]:
    """Return the rows of all grouping sets, set by set, each in the order in which its first group comes.

    Args:
        query: what was decided; it has grouping sets.
        keys: those of the finest groups.
        cells: their noisy integers.
    """
    rows: list[NoisyRow] = []
    noises_of = _noises_of(query)
    width, columns = len(query.question.keys.exprs), len(query.allocation.noises)
    for kept in query.question.outer.sets or ():
        flags = tuple(int(i not in kept) for i in range(width))
        found: dict[tuple[Scalar, ...], tuple[list[int], int]] = {}
        if not kept:  # a total over no groups is a row as well
            found[(None,) * width] = [0] * columns, 0
        for key, row in zip(keys, cells, strict=True):
            shown = tuple(v if i in kept else None for i, v in enumerate(key))
            summed, parts = found.get(shown, ([0] * len(row), 0))
            found[shown] = [a + b for a, b in zip(summed, row, strict=True)], parts + 1
        rows += [NoisyRow((*key, *flags), tuple(c), noises_of(kept, parts)) for key, (c, parts) in found.items()]
    return rows


def _noises_of(query: Query) -> Callable[[GroupingSet, int], tuple[Additive, ...]]:
    """Return the noise of each column in a row that keeps these keys and adds up so many groups."""
    combined, noises = agreements(query.question, query.allocation), query.allocation.noises
    if not combined:
        of_parts = cache(lambda parts: summed_noises(noises, parts))
        return lambda _, parts: of_parts(parts)
    of_level = cache(lambda kept: tuple(a.noise(kept) for a in combined))
    return lambda kept, _: of_level(kept)


def consistent(query: Query, table: NoisyTable) -> list[tuple[int, ...]]:
    """Return the cells of the finest groups, corrected by the measured totals, so that every total is their sum."""
    combined = agreements(query.question, query.allocation)
    if not combined:
        return list(table.cells)
    columns = [
        adjusted(agreement, [row[i] for row in table.cells], [[row[i] for row in level] for level in table.levels])
        for i, agreement in enumerate(combined)
    ]
    return list(zip(*columns, strict=True))


def adjusted(agreement: Agreement, finest: Sequence[int], totals: Sequence[Sequence[int]]) -> list[int]:
    """Return the finest groups as whole numbers, such that they and their sums are near the least squares.

    Args:
        agreement: how the measurements of the column are combined.
        finest: the noisy integers of the finest groups, in the order of the product of the lists.
        totals: those of the other measured levels.
    """
    sizes = agreement.levels.sizes
    noisy = np.array([*finest, None], dtype=object)[:-1].reshape(sizes)
    correction = np.zeros(sizes)
    means: dict[GroupingSet, NDArray[np.float64]] = {}
    for (kept, noise), numbers in zip(agreement.measured[1:], totals, strict=True):
        others = tuple(i for i in range(len(sizes)) if i not in kept)
        shape = tuple(n if i in kept else 1 for i, n in enumerate(sizes))
        wanted = np.array([*numbers, None], dtype=object)[:-1].reshape(shape)
        missing = (wanted - noisy.sum(axis=others, keepdims=True)).astype(np.float64) / noise.variance
        for component in subsets(kept):
            seen = missing.mean(axis=tuple(i for i in kept if i not in component), keepdims=True)
            means[component] = means.get(component, 0.0) + seen
    for component, mean in means.items():
        pure = mean
        for i in component:
            pure = pure - pure.mean(axis=i, keepdims=True)
        correction += pure / agreement.precision(component)
    whole = _rounded(correction, rollup_order(agreement.levels))
    return [int(a) + b for a, b in zip(noisy.ravel().tolist(), whole, strict=True)]


def _rounded(correction: NDArray[np.float64], order: tuple[int, ...] | None) -> list[int]:
    """Return whole numbers whose running sums are those of the corrections, rounded."""
    if order is None:
        running = correction
        for i in range(correction.ndim):
            running = np.cumsum(running, axis=i)
        whole = _whole(running)
        for i in range(correction.ndim):
            whole = np.diff(whole, axis=i, prepend=0)
        return list(whole.ravel().tolist())
    turned = np.transpose(correction, order)
    whole = np.diff(_whole(np.cumsum(turned.ravel())), prepend=0).reshape(turned.shape)
    return list(np.transpose(whole, np.argsort(order)).ravel().tolist())


def _whole(x: NDArray[np.float64]) -> NDArray[Any]:
    """Return each number rounded, as Python integers, which hold any."""
    found = np.empty(x.size, dtype=object)
    found[:] = [round(v) for v in x.ravel().tolist()]
    return found.reshape(x.shape)
