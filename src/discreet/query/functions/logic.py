"""Truth: comparisons, three-valued logic, CASE, COALESCE and the like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from discreet.catalog.types import Type
from discreet.query.functions.function import EVERYTHING, Function, Interval, alike, common, template


def _comparison(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
    kind = common(types) if len(types) == 2 else None
    return None if kind is None else ([kind, kind], Type.BOOL)


def _membership(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
    kind = common(types) if len(types) >= 2 else None
    return None if kind is None else ([kind] * len(types), Type.BOOL)


def _booleans(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
    fit = bool(types) and all(t in (Type.BOOL, None) for t in types)
    return ([Type.BOOL] * len(types), Type.BOOL) if fit else None


def _anything(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
    return ([types[0] or Type.TEXT], Type.BOOL) if len(types) == 1 else None


def _pair_alike(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
    return alike(types) if len(types) == 2 else None


def _case(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
    """Condition, value, condition, value, ..., otherwise."""
    if len(types) < 3 or len(types) % 2 == 0:
        return None
    kind = common([*types[1::2], types[-1]])
    if kind is None or not all(t in (Type.BOOL, None) for t in types[:-1:2]):
        return None
    return [*([Type.BOOL, kind] * (len(types) // 2)), kind], kind


def _case_sql(args: Sequence[str], _types: Sequence[Type]) -> str:
    arms = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(args[:-1:2], args[1::2], strict=True))
    return f"CASE {arms} ELSE {args[-1]} END"


def _case_value(*args: Any) -> Any:
    for condition, value in zip(args[:-1:2], args[1::2], strict=True):
        if condition:
            return value
    return args[-1]


def _case_bounds(i: Sequence[Interval]) -> Interval:
    return hull([*i[1::2], i[-1]])


def hull(i: Sequence[Interval]) -> Interval:
    """Return the least interval that holds all of these."""
    return min(x[0] for x in i), max(x[1] for x in i)


def truth(name: str, i: Sequence[Interval]) -> Interval:
    """Return the least and the greatest truth value, 0 or 1, of a condition on arguments in these intervals."""
    (a, b), (c, d) = i[0], i[-1]
    match name:
        case "<" | "<=":
            return (int(b < c), int(a < d)) if name == "<" else (int(b <= c), int(a <= d))
        case ">" | ">=":
            return truth("<" if name == ">" else "<=", i[::-1])
        case "=" | "<>":
            apart = int(b < c or d < a)
            return (0, 1 - apart) if name == "=" else (apart, 1)
        case "not":
            return 1 - b, 1 - a
        case "and" | "or":
            pick = min if name == "and" else max
            return pick(x[0] for x in i), pick(x[1] for x in i)
        case _:
            return EVERYTHING


def _and(*args: bool | None) -> bool | None:
    if any(a is False for a in args):
        return False
    return None if any(a is None for a in args) else True


def _or(*args: bool | None) -> bool | None:
    if any(a is True for a in args):
        return True
    return None if any(a is None for a in args) else False


def _in(x: Any, *options: Any) -> bool | None:
    if x is None:
        return None
    if any(o is not None and x == o for o in options):
        return True
    return None if any(o is None for o in options) else False


def _first_known(*args: Any) -> Any:
    return next((a for a in args if a is not None), None)


def _unless_equal(a: Any, b: Any) -> Any:
    return None if a == b else a


def _compare(symbol: str, value: Callable[[Any, Any], bool]) -> Function:
    return Function(symbol, _comparison, template(f"({{0}} {symbol} {{1}})"), value)


LOGIC = (
    _compare("=", lambda a, b: a == b),
    _compare("<>", lambda a, b: a != b),
    _compare("<", lambda a, b: a < b),
    _compare("<=", lambda a, b: a <= b),
    _compare(">", lambda a, b: a > b),
    _compare(">=", lambda a, b: a >= b),
    Function("same", _comparison, template("({0} IS NOT DISTINCT FROM {1})"), lambda a, b: a == b, takes_null=True),
    Function("and", _booleans, lambda a, _: f"({' AND '.join(a)})", _and, takes_null=True),
    Function("or", _booleans, lambda a, _: f"({' OR '.join(a)})", _or, takes_null=True),
    Function("not", lambda t: _booleans(t) if len(t) == 1 else None, template("(NOT {0})"), lambda a: not a),
    Function("in", _membership, lambda a, _: f"({a[0]} IN ({', '.join(a[1:])}))", _in, takes_null=True),
    Function("is null", _anything, template("({0} IS NULL)"), lambda a: a is None, takes_null=True),
    Function("coalesce", alike, lambda a, _: f"coalesce({', '.join(a)})", _first_known, hull, takes_null=True),
    Function("nullif", _pair_alike, template("nullif({0}, {1})"), _unless_equal, lambda i: i[0], takes_null=True),
    Function("case", _case, _case_sql, _case_value, _case_bounds, takes_null=True),
)  # fmt: skip
