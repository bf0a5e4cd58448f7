"""Expressions over what is already public: noisy columns, keys, declared values. This is post-processing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from discreet.plan.expr import Call, Column, Expr, Key, Literal, Mean, Measured
from discreet.plan.functions import FUNCTIONS
from discreet.plan.schema import Scalar
from discreet.plan.types import Type

Answer: TypeAlias = Callable[[Sequence[Scalar], Sequence[int]], Any]
"""From a row's keys and noisy integers to a value."""


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
        case Call(name, args, kind):
            return _call(name, [compiled(a) for a in args], kind)
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


def _mean(m: Mean) -> Answer:
    low, high, centre, step = float(m.low), float(m.high), m.centre, m.numerator.step

    def value(_keys: Sequence[Scalar], cells: Sequence[int]) -> float:
        count = max(cells[m.denominator.index], 1)
        return min(max(float(centre + cells[m.numerator.index] * step / count), low), high)

    return value


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
