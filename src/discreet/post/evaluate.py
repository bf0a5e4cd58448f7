"""Evaluation of an answer: from a noisy table to its rows, after HAVING, ORDER BY, LIMIT and OFFSET.

Guarantee:
    Post-processing: a function of the noisy table and of the query, which is public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from discreet.post.noisy_table import NoisyRow

if TYPE_CHECKING:
    from discreet.plan.nodes.node import Answer
    from discreet.plan.quantile_tree.chosen import ChosenLeaves
    from discreet.plan.quantile_tree.shape import TreeShape
    from discreet.plan.quantile_tree.tree import NoisyTree
    from discreet.plan.query import Query
    from discreet.plan.question import OrderBy
    from discreet.post.noisy_table import NoisyTable


def evaluate(query: Query, table: NoisyTable, *, nonnegative: bool = False) -> list[tuple[NoisyRow, tuple[Any, ...]]]:
    """Return the rows of the answer, each with the values of its output columns.

    Args:
        query: what was decided.
        table: its noisy table.
        nonnegative: whether numbers that cannot be negative are made non-negative.
    """
    outer = query.question.outer
    columns = [_of_row(e.compiled()) for _, e in outer.columns]
    for place, upper in outer.ends:
        from discreet.post.intervals import interval_end

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
        from discreet.post.totals import consistent

        noisy = consistent(query, table)
    cells = raised(table.keys, noisy, sets, never_negative(query.question))
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
    from discreet.post.totals import consistent, total_rows

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
