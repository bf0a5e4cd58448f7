"""Intervals of whatever a column holds: of a number or date, of each value of a list, of each count of a map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from discreet.mechanisms.additive import Additive
from discreet.plan.evaluate import tree_of
from discreet.plan.expr import Expr, Histogram, Key, Several, Top
from discreet.plan.intervals.interval import atoms, interval_of
from discreet.plan.quantile_tree.counted import histogram_intervals, moments, top_intervals
from discreet.plan.schema import Scalar

CellInterval: TypeAlias = Callable[[Sequence[Scalar], Sequence[int]], Any]
"""From a row's keys and noisy integers to what has the shape of the cell: an interval, a list or a dict of them; None
where there is none.
"""


def cell_interval(expr: Expr, noises: Sequence[Additive], confidence: Fraction) -> CellInterval:
    """The interval of an output column, as a function of the released row; of a list or map, of each of its values."""
    match expr:
        case Several(items, _):
            each = [cell_interval(e, noises, confidence) for e in items]
            return lambda keys, cells: [e(keys, cells) for e in each]
        case Top(spread, most, of, _):
            return lambda _keys, cells: top_intervals(tree_of(cells, spread), most, of, confidence)
        case Histogram(spread, of, _):
            return lambda _keys, cells: histogram_intervals(tree_of(cells, spread), of, confidence)
    kind = expr.type
    found = interval_of(expr, noises, confidence)
    if kind is None or not kind.is_moment:
        return found

    def of_moment(keys: Sequence[Scalar], cells: Sequence[int]) -> Any:
        ends = found(keys, cells)
        return None if ends is None else moments(*ends, kind)

    return of_moment


def has_interval(expr: Expr) -> bool:
    """Whether cells of an output column have intervals."""
    match expr:
        case Several(items, _):
            return all(has_interval(e) for e in items)
        case Top(_, _, of, _):
            return of.is_number or of.is_moment
        case Histogram():
            return True
        case Key():
            return False
    kind = expr.type
    return kind is not None and (kind.is_number or (kind.is_moment and bool(atoms(expr))))
