"""Which values may lie outside their bounds, and what values and bounds are called for people."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from discreet.catalog.types import Type
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.query.expr import Call, Expr, Literal, columns_of
from discreet.query.functions.calendar import EPOCH
from discreet.query.functions.function import EVERYTHING
from discreet.query.keys import MOST_KNOWN, known_values
from discreet.query.narrowing import narrowed, passing
from discreet.query.ranges import range_of

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar
    from discreet.plan.question import Question


def may_clamp(value: LatticeValue, where: Expr | None) -> bool:
    """Return whether a value may lie outside its bounds: whether these do not follow from the query alone."""
    low, high = narrowed(value.expr, range_of(value.expr, {}), where)
    if len({*value.expr.args_of("*")}) == 1:
        low = max(low, 0)  # a square
    # a bound between two grid points is rounded inward, by less than a step
    step = 0 if value.is_whole else 1
    return low < (value.low - step) * value.step or high > (value.high + step) * value.step


def name_of(expr: Expr, question: Question) -> str:
    """Return what an expression is called for people: its column, or the columns that it reads."""
    relation = question.relation
    shown = {} if relation is None else dict(relation.shown)
    value = kept(expr)
    names = [shown.get(n, n) for n in columns_of(value)]
    if value.column is not None:
        return repr(names[0])
    return f"an expression of {' and '.join(map(repr, names))}" if names else "a value of the query"


def kept(expr: Expr) -> Expr:
    """Return the value that an expression is made of by casts, by FILTER, and by counting the days of a date."""
    match expr:
        case Call("as bigint" | "as double" | "as date" | "as timestamp", (value,), _):
            return kept(value)
        case Call("case", (_, value, Literal(None, _)), _):
            return kept(value)
        case Call("diff_day" | "diff_second", (Literal(_, Type.TIMESTAMP), value), _):
            return kept(value)
        case _:
            return expr


def bound_of(value: LatticeValue, steps: int) -> str:
    """Return a bound as it is declared: a date where the value counts the days of one."""
    inner = value.expr
    while arms := inner.args_of("case"):
        inner = arms[1]
    if _since_epoch(inner.args_of("diff_day")):
        return str(EPOCH.date() + dt.timedelta(days=steps))
    if _since_epoch(inner.args_of("diff_second")):
        return str(EPOCH + dt.timedelta(seconds=steps))
    exact = steps * value.step
    return str(exact) if exact.denominator == 1 else f"{float(exact):.6g}"


def _since_epoch(between: Sequence[Expr]) -> bool:
    return bool(between) and between[0] == Literal(EPOCH, Type.TIMESTAMP)


def possible_values(expr: Expr, where: Expr | None = None) -> set[Scalar] | None:
    """Return all values that an expression can have in a row that passes a filter, whatever the row holds; None where
    they do not follow from the query.
    """
    known = passing(expr, known_values(expr, {}), where)
    if known is None and expr.type is Type.INT:
        low, high = narrowed(expr, EVERYTHING, where)
        known = tuple(range(math.ceil(low), math.floor(high) + 1)) if high - low < MOST_KNOWN else None
    return None if known is None else set(known)
