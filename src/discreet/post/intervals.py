"""Intervals of an answer's columns, row by row.

Guarantee:
    Each contains the bounded answer with its confidence, as the nodes of an answer prove (`plan/nodes/node.py`).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.post.nonnegative import honest, never_negative
from discreet.query.parse import CONFIDENCE

if TYPE_CHECKING:
    from discreet.mechanisms.additive import Additive
    from discreet.plan.nodes.node import Node
    from discreet.plan.query import Query
    from discreet.post.noisy_table import NoisyRow


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
