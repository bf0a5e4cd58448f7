"""Expressions over what is already public: noisy columns, keys, declared values. This is post-processing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.plan.expr import (
    Call,
    Column,
    Commonest,
    Covariance,
    Expr,
    Histogram,
    Key,
    Literal,
    Mean,
    Measured,
    Quantile,
    Several,
    Slope,
    Top,
    Within,
)
from discreet.plan.functions import FUNCTIONS
from discreet.plan.quantile_tree.counted import histogram, top
from discreet.plan.schema import Scalar
from discreet.plan.types import Type

if TYPE_CHECKING:
    from discreet.plan.quantile_tree.shape import Spread
    from discreet.plan.quantile_tree.tree import NoisyTree

Answer: TypeAlias = Callable[[Sequence[Scalar], Sequence[int]], Any]
"""From a row's keys and noisy integers to a value; where spreads are read, their noisy trees come last."""


def compiled(expr: Expr) -> Answer:
    """The expression as a function of a row of the noisy table; an error is None, as in SQL it is NULL."""
    match expr:
        case Literal(value, _):
            return lambda _keys, _cells: value
        case Key(i, _):
            return lambda keys, _cells: keys[i]
        case Measured(i, step, kind):
            if step == 1:
                return lambda _keys, cells: cells[i] if kind is Type.INT else float(cells[i])
            return lambda _keys, cells: float(cells[i] * step)
        case Mean():
            return _mean(expr)
        case Covariance():
            return _covariance(expr)
        case Slope():
            return _slope(expr)
        case Quantile(spread, p, kind):
            return lambda _keys, cells: tree_of(cells, spread).quantile(p, kind)
        case Commonest(spread, kind):
            return lambda _keys, cells: tree_of(cells, spread).commonest(kind)
        case Call(name, args, kind):
            return _call(name, [compiled(a) for a in args], kind)
        case Several(items, _):
            each = [compiled(e) for e in items]
            return lambda keys, cells: [e(keys, cells) for e in each]
        case Top(spread, most, of, _):
            return lambda _keys, cells: top(tree_of(cells, spread), most, of)
        case Histogram(spread, of, _):
            return lambda _keys, cells: histogram(tree_of(cells, spread), of)
        case Within():
            from discreet.plan.partition.counted import number  # which compiles what it compares

            return lambda _keys, cells: number(tree_of(cells, expr.spread), expr)
        case Column():
            raise TypeError("a column of the private table is not part of the answer")


def evaluate_row(expr: Expr, row: Mapping[str, Scalar]) -> Scalar:
    """A row-level expression over given public values."""
    match expr:
        case Column(name, _):
            return row[name]
        case Literal(value, _):
            return value
        case Call(name, args, kind):
            values = [evaluate_row(a, row) for a in args]
            result: Scalar = _apply(name, values, kind)
            beyond = kind is Type.INT and isinstance(result, int) and not -(1 << 63) <= result < 1 << 63
            return None if beyond else result  # an overflow in the database
        case _:
            raise TypeError(f"{type(expr).__name__} is not a row-level expression")


def tree_of(cells: Sequence[Any], spread: Spread) -> NoisyTree:
    """The noisy tree of a spread, from a row of the noisy table."""
    trees: dict[Spread, NoisyTree] = cells[-1]
    return trees[spread]


def _mean(m: Mean) -> Answer:
    low, high, centre, step = float(m.low), float(m.high), m.centre, m.numerator.step

    def value(_keys: Sequence[Scalar], cells: Sequence[int]) -> float:
        count = max(cells[m.denominator.index], 1)
        return min(max(float(centre + cells[m.numerator.index] * step / count), low), high)

    return value


def _covariance(c: Covariance) -> Answer:
    """Only the result is kept inside its bounds, not the means: their errors partly cancel."""
    rows = c.product.denominator.index

    def mean(m: Mean, cells: Sequence[int]) -> Fraction:
        return m.centre + cells[m.numerator.index] * m.numerator.step / max(cells[rows], 1)

    def value(_keys: Sequence[Scalar], cells: Sequence[int]) -> float:
        found = mean(c.product, cells) - mean(c.first, cells) * mean(c.second, cells)
        inside = float(min(max(found, c.low), c.high))
        return inside * sample_factor(cells[rows]) if c.sample else inside

    return value


def _slope(s: Slope) -> Answer:
    covariance, variance = _covariance(s.covariance), _covariance(s.variance)
    flattest, most = float(s.flattest), float(s.most)

    def value(keys: Sequence[Scalar], cells: Sequence[int]) -> float:
        found = covariance(keys, cells) / max(variance(keys, cells), flattest)
        return float(min(max(found, -most), most))

    return value


def sample_factor(count: float) -> float:
    """n/(n − 1), by which a covariance over n rows becomes that of a sample; n is taken as at least 2."""
    n = max(count, 2)
    return n / (n - 1)


def _call(name: str, args: list[Answer], kind: Type) -> Answer:
    return lambda keys, cells: _apply(name, [a(keys, cells) for a in args], kind)


def _apply(name: str, values: list[Any], kind: Type) -> Any:
    function = FUNCTIONS[name]
    if not function.takes_null and any(v is None for v in values):
        return None
    try:
        result = function.value(*values)
    except (ValueError, ArithmeticError):
        return None
    if kind is Type.REAL and result is not None:
        result = float(result)
        return result if math.isfinite(result) else None
    return result
