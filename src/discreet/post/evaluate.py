"""Evaluation of a result: from a noisy table to its rows, after HAVING, ORDER BY, LIMIT and OFFSET.

Guarantee:
    Post-processing: a function of the noisy table and of the query, which is public. Each interval contains the bounded
    result with its confidence, as the nodes of a result prove (`plan/nodes/node.py`).

Totals of ROLLUP, CUBE and GROUPING SETS are sums of the noisy integers of the finest groups, so that they equal the sum
of their parts. Where the groups are declared, totals are measured as well if that is better (`plan/grouping_sets/`),
and the finest groups are corrected by them; else totals are post-processing of the finest groups alone, and cost
nothing. What does not add up over groups, such as a number of people, is refused.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, cmp_to_key
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.summed import summed_noises
from discreet.plan.grouping_sets.split_budget import agreements, rollup_order, subsets
from discreet.post.noisy_table import NoisyRow
from discreet.post.nonnegative import honest, never_negative
from discreet.query.parse import CONFIDENCE

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar
    from discreet.mechanisms.additive import Additive
    from discreet.plan.grouping_sets.split_budget import Agreement
    from discreet.plan.grouping_sets.weights import GroupingSet
    from discreet.plan.nodes.node import Answer, Node
    from discreet.plan.quantile_tree.chosen import ChosenLeaves
    from discreet.plan.quantile_tree.shape import TreeShape
    from discreet.plan.quantile_tree.tree import NoisyTree
    from discreet.plan.query import Query
    from discreet.plan.question import OrderBy
    from discreet.post.noisy_table import NoisyRow, NoisyTable


def evaluate(query: Query, table: NoisyTable, *, nonnegative: bool = False) -> list[tuple[NoisyRow, tuple[Any, ...]]]:
    """Return the rows of the result, each with the values of its output columns.

    Args:
        query: what was decided.
        table: its noisy table.
        nonnegative: whether numbers that cannot be negative are made non-negative.
    """
    outer = query.question.outer
    columns = [_of_row(e.compiled()) for _, e in outer.columns]
    for place, upper in outer.ends:
        from discreet.post.evaluate import interval_end

        columns[place] = interval_end(query, outer.columns[place][1], upper=upper)
    rows = _nonnegative_rows(query, table) if nonnegative else _rows(query, table, table.cells)
    if outer.having is not None:
        having = _of_row(outer.having.compiled())
        rows = [row for row in rows if having(row)]
    for term in reversed(outer.order):
        rows.sort(key=_ordering(term, _of_row(term.by.compiled())))
    end = None if outer.limit is None else outer.offset + outer.limit
    return [(row, tuple(c(row) for c in columns)) for row in rows[outer.offset : end]]


def _of_row(value: Answer) -> Callable[[NoisyRow], Any]:
    return lambda row: value(row.keys, row.cells)


def _nonnegative_rows(query: Query, table: NoisyTable) -> list[NoisyRow]:
    """Return the rows with numbers that cannot be negative made non-negative, and their cells before."""
    from discreet.plan.quantile_tree.tree import NoisyTree
    from discreet.post.nonnegative import never_negative, raised

    sets, noisy = query.question.outer.sets, list(table.cells)
    if sets is not None:
        from discreet.post.evaluate import consistent

        noisy = consistent(query, table)
    cells = raised(table.keys, noisy, sets, never_negative(query.question))
    for node in (e for expr in query.question.outer.expressions for e in expr.walk()):
        cells = [node.raised(row) for row in cells]
    rows = list(zip(_rows(query, table, table.cells), _rows(query, table, cells), strict=True))
    for _, row in rows if table.trees else ():
        for tree in row.cells[-1].values():
            if isinstance(tree, NoisyTree):
                tree.raised = True
    return [NoisyRow(after.keys, after.cells, after.noises, before.cells) for before, after in rows]


def _rows(query: Query, table: NoisyTable, finest: Sequence[tuple[int, ...]]) -> list[NoisyRow]:
    """Return the rows of these finest cells, noisy or non-negative ones; with grouping sets, those added up of them."""
    noises, sets = tuple(query.allocation.noises), query.question.outer.sets
    if sets is None:
        return [NoisyRow(key, _cells(query, table, finest, i), noises) for i, key in enumerate(table.keys)]
    from discreet.post.evaluate import consistent, total_rows

    # cells that were made non-negative agree with their totals already
    return total_rows(query, table.keys, consistent(query, table) if finest is table.cells else finest)


def _cells(query: Query, table: NoisyTable, finest: Sequence[tuple[int, ...]], row: int) -> tuple[Any, ...]:
    """Return the integers of a row and, after them, the noisy trees that it reads."""
    if not table.trees:
        return finest[row]
    from discreet.mechanisms.exponential_quantile import ExponentialQuantile
    from discreet.plan.quantile_tree.chosen import ChosenLeaves
    from discreet.plan.quantile_tree.tree import NoisyTree

    is_row = query.question.table.unit.is_row
    read = zip(query.question.trees, query.allocation.trees, table.trees, strict=True)
    trees: dict[TreeShape, NoisyTree | ChosenLeaves] = {
        s.shape: ChosenLeaves(s.shape, noise, rows[row])
        if isinstance(noise, ExponentialQuantile)
        else NoisyTree(s.shape, noise, rows[row], is_row=is_row)
        for s, noise, rows in read
    }
    return (*finest[row], trees)


def _ordering(term: OrderBy, value: Callable[[NoisyRow], Any]) -> Callable[[NoisyRow], Any]:
    """Return a sort key for one term: NULLs where the term says, equal values in the order they had."""

    def compare(one: NoisyRow, other: NoisyRow) -> int:
        a, b = value(one), value(other)
        if a is None or b is None:
            first = -1 if term.nulls_first else 1
            return 0 if a is None and b is None else first if a is None else -first
        order = int(a > b) - int(a < b)
        return -order if term.descending else order

    key: Callable[[NoisyRow], Any] = cmp_to_key(compare)
    return key


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


def interval_of(query: Query, expr: Node, level: Fraction) -> Callable[[NoisyRow], Any]:
    """Return the interval of a column as a function of a row, prepared once for each noise that rows have."""
    found: dict[tuple[Additive, ...], Any] = {}
    shown, unsure = expr.compiled(), query.is_unsure(expr)
    low = expr.lowest(never_negative(query.question))

    def value(row: NoisyRow) -> Any:
        if row.noises not in found:
            found[row.noises] = expr.interval(row.noises, level)
        interval = found[row.noises](row.keys, row.cells if row.before is None else row.before)
        if unsure:
            interval = _everything(interval)
        return interval if row.before is None else honest(interval, shown(row.keys, row.cells), low)

    return value


def interval_end(query: Query, expr: Node, *, upper: bool) -> Callable[[NoisyRow], float | None]:
    """Return an end of a column's interval as a column of its own."""
    of_row = interval_of(query, expr, CONFIDENCE)

    def value(row: NoisyRow) -> float | None:
        found = of_row(row)
        return None if found is None else found[int(upper)]

    return value


def _everything(interval: Any) -> Any:
    """Return an interval that holds everything, or several, in the shape of those that a cell has."""
    match interval:
        case list():
            return [_everything(inner) for inner in interval]
        case dict():
            return {key: _everything(inner) for key, inner in interval.items()}
        case (dt.datetime(), _):
            return dt.datetime.min, dt.datetime.max
        case (dt.date(), _):
            return dt.date.min, dt.date.max
    return None if interval is None else (-math.inf, math.inf)
