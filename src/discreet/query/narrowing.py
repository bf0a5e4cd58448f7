"""What a filter says of the values that pass it: `x >= 20 AND k IN ('a', 'b')` narrows bounds and keys.

Guarantee:
    Only the text of the query is read. Rows are filtered as they are; what is summed is clamped in the text to what is
    found here, and keys are listed there, so privacy rests on none of it.

A term counts where it is `expression operator literal`, has to hold for every row that passes, and its expression is
the very one, of the same type: nothing is read of what stands under OR, NOT or a cast.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TypeAlias, TypeGuard

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.query.expr import Expr, Literal
from discreet.query.functions.function import Interval

Term: TypeAlias = tuple[str, tuple[Scalar, ...]]
"""An operator, and the constants that it compares with."""

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def terms_of(expr: Expr, where: Expr | None) -> list[Term]:
    """Return the terms of a condition that compare an expression with constants, each of which has to hold."""
    return [term for part in _conjuncts(where) for term in _term(expr, part)]


def narrowed(expr: Expr, interval: Interval, where: Expr | None) -> Interval:
    """Return the interval of a number's values, cut to what a filter lets pass; as it was where nothing would be left.

    An aggregate's own FILTER is CASE WHEN condition THEN value END, and narrows the value as WHERE does.
    """
    terms = terms_of(expr, where)
    while arms := expr.args_of("case"):
        if len(arms) != 3 or not isinstance(arms[2], Literal) or arms[2].value is not None:
            break
        condition, expr = arms[0], arms[1]
        terms += [*terms_of(expr, condition), *terms_of(expr, where)]
    low, high = interval
    whole = expr.type is Type.INT
    for operator, constants in terms:
        numbers = [Fraction(c) for c in constants if _is_number(c)]
        if len(numbers) < len(constants):
            continue
        if operator in (">", ">=", "=", "in"):
            low = max(low, min(numbers) + (whole and operator == ">"))
        if operator in ("<", "<=", "=", "in"):
            high = min(high, max(numbers) - (whole and operator == "<"))
    known = low != -math.inf and high != math.inf
    if low > high or (whole and known and math.ceil(low) > math.floor(high)):
        return interval
    return low, high


def passing(expr: Expr, values: tuple[Scalar, ...] | None, where: Expr | None) -> tuple[Scalar, ...] | None:
    """Return which of an expression's values pass a filter, in their order; where there is no list (None), those that
    the filter lists. As they were where it leaves none.
    """
    terms = terms_of(expr, where)
    listed = [constants for operator, constants in terms if operator in ("=", "in")]
    if values is None and not listed:
        return None
    found = tuple(dict.fromkeys(listed[0])) if values is None else values
    kept = tuple(v for v in found if v is not None and all(_holds(v, *term) for term in terms))
    return kept if kept and terms else values


def _holds(value: Scalar, operator: str, constants: tuple[Scalar, ...]) -> bool:
    """Whether a value passes a term; also where that is not known here."""
    if operator in ("=", "in"):
        return value in constants
    (constant,) = constants
    if not isinstance(value, int | float) or not isinstance(constant, int | float):
        return True
    match operator:
        case "<":
            return value < constant
        case "<=":
            return value <= constant
        case ">":
            return value > constant
        case _:
            return value >= constant


def _conjuncts(where: Expr | None) -> Iterator[Expr]:
    if where is None:
        return
    parts = where.args_of("and")
    if not parts:
        yield where
    for part in parts:
        yield from _conjuncts(part)


def _term(expr: Expr, part: Expr) -> Iterator[Term]:
    for operator, mirrored in _MIRRORED.items():
        if args := part.args_of(operator):
            left, right = args
            if left == expr and (constant := _constant(expr, right)) is not None:
                yield operator, (constant,)
            elif right == expr and (constant := _constant(expr, left)) is not None:
                yield mirrored, (constant,)
    if args := part.args_of("in"):
        found = [_constant(expr, a) for a in args[1:]]
        if args[0] == expr and None not in found:
            yield "in", tuple(found)


def _is_number(value: Scalar) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _constant(expr: Expr, of: Expr) -> Scalar:
    """Return a constant of the expression's own type; None for anything else."""
    if not isinstance(of, Literal) or of.type is not expr.type:
        return None
    return None if isinstance(of.value, float) and not math.isfinite(of.value) else of.value
