"""Public bounds of row expressions, from the declared bounds of their columns."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from discreet.catalog.schema import Fact, Range, Values
from discreet.catalog.types import Type
from discreet.query.expr import Call, Column, Expr, Literal, columns_of
from discreet.query.functions import FUNCTIONS, image
from discreet.query.functions.calendar import moment_range
from discreet.query.functions.function import EVERYTHING, Bound, Interval


def range_of(expr: Expr, facts: Mapping[str, Fact]) -> Interval:
    """Bounds of an expression from the declared bounds of its columns; infinite where none follow.

    They need not be true of the data, since every value is clamped to them.
    """
    match expr:
        case Column(name, _):
            return range_of_fact(facts.get(name))
        case Literal(value, _) if isinstance(value, bool | int | float):
            return (Fraction(value), Fraction(value))
        case Literal(dt.date() as moment, _):
            return moment_range([moment])
        case Call("as date" | "as timestamp" as name, (Literal(str() as text, _),), _):
            return _written_moment(name, text)
        case Call(_, _, kind) if kind.is_moment and not columns_of(expr):
            value = expr.of_row({})
            return moment_range([value]) if isinstance(value, dt.date) else EVERYTHING
        case Call("as date", (Column(name, Type.TEXT),), _) if isinstance(facts.get(name), Range):
            return range_of_fact(facts.get(name))
        case Call("as bigint" | "as double", (inner,), _) if inner.type is Type.BOOL:
            return (0, 1)
        case Call("as bigint" | "as double" as name, (Call("as varchar", (text,), _),), kind) if text.type is Type.TEXT:
            return range_of(Call(name, (text,), kind), facts)
        case Call("as bigint" | "as double", (Call("strftime", (moment, Literal(str() as form, _)), _),), _):
            return _in_digits(range_of(moment, facts), form)
        case Call("coalesce", args, _):
            return _hull(args, facts)
        case Call("case", args, _):
            return _hull((*args[1::2], args[-1]), facts)
        case Call("least" | "greatest" as name, args, _):
            return _extreme(name, args, facts)
        case Call("length", (text,), _):
            return 0, _longest(text)
        case Call("strlen", (text,), _):
            return 0, 4 * _longest(text)
        case Call(name, args, _):
            found = image(name, [range_of(a, facts) for a in args])
            return (0, 0) if found == EVERYTHING and _is_never(expr) else found
        case _:
            return EVERYTHING


def _in_digits(moments: Interval, form: str) -> Interval:
    """Return the bounds of a date's digits as a number, whose order is that of the dates."""
    if form not in _DIGITS or any(math.isinf(end) for end in moments):
        return EVERYTHING
    first, last = (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=math.floor(end)) for end in moments)
    low, high = (Fraction(d.year * 10_000 + d.month * 100 + d.day) for d in (first, last))
    return Fraction(low // _DIGITS[form]), Fraction(high // _DIGITS[form])


_DIGITS = {"%Y%m%d": 1, "%Y%m": 100, "%Y": 10_000}
"""Formats that are numbers in the order of dates, and what the digits of a day are divided by."""


def range_of_fact(fact: Fact | None) -> Interval:
    """Return the bounds that a declaration gives; infinite where it gives none."""
    match fact:
        case Range(low, high):
            return low, high
        case Values() if fact.type.is_number:
            known = [Fraction(v) for v in fact.values if isinstance(v, int | float)]
            return min(known), max(known)
        case Values() if fact.type.is_moment:
            return moment_range([v for v in fact.values if isinstance(v, dt.date)])
        case _:
            return EVERYTHING


def _hull(args: Sequence[Expr], facts: Mapping[str, Fact]) -> Interval:
    """Return what holds whichever of them is taken; NULL is no number, so it widens nothing."""
    ranges = [range_of(a, facts) for a in args if not _is_null(a)]
    return (min(r[0] for r in ranges), max(r[1] for r in ranges)) if ranges else (0, 0)


def _extreme(name: str, args: Sequence[Expr], facts: Mapping[str, Fact]) -> Interval:
    """LEAST and GREATEST pass over NULL, so that only what is never NULL bounds them from both sides."""
    low, high = _hull(args, facts)
    sure = [range_of(a, facts) for a in args if never_null(a)]
    if sure and name == "least":
        return low, min(r[1] for r in sure)
    return (max(r[0] for r in sure), high) if sure else (low, high)


def _longest(text: Expr) -> Bound:
    """Return how many characters a text has at most; infinite where that does not follow from its form."""
    match text:
        case Literal(str() as value, _):
            return Fraction(len(value))
        case Call("lower" | "upper" | "trim" | "ltrim" | "rtrim", (inner, *_), _):
            return _longest(inner)
        case Call("left" | "right", (inner, Literal(int() as size, _)), _) if size >= 0:
            return min(Fraction(size), _longest(inner))
        case Call("substring", (inner, _, Literal(int() as size, _)), _):
            return min(Fraction(abs(size)), _longest(inner))
        case Call("lpad" | "rpad", (_, Literal(int() as size, _), _), _):
            return Fraction(size)
    return math.inf


def never_null(expr: Expr) -> bool:
    """Return whether it has a value on every row, by its form alone."""
    match expr:
        case Literal(value, _):
            return value is not None
        case Call("as date" | "as timestamp" as name, (Literal(str() as text, _),), _):
            return _written_moment(name, text) != EVERYTHING
        case Call("coalesce" | "least" | "greatest", args, _):
            return any(never_null(a) for a in args)
        case Call("case", args, _):
            return all(never_null(a) for a in (*args[1::2], args[-1]))
        case _:
            return False


def _is_never(expr: Expr) -> bool:
    """Whether it is NULL on every row, as a NULL that is written in it makes it."""
    match expr:
        case Literal(value, _):
            return value is None
        case Call("coalesce", args, _):
            return all(map(_is_never, args))
        case Call(name, args, _):
            return not FUNCTIONS[name].takes_null and any(map(_is_never, args))
    return False


def _is_null(expr: Expr) -> bool:
    """Return the constant NULL, read as a number or not."""
    return isinstance(expr, Literal) and expr.value is None


def _written_moment(name: str, text: str) -> Interval:
    """Return a date or time that is written in the query; NULL when it is none."""
    try:
        moment = FUNCTIONS[name].value(text)
    except (ValueError, ArithmeticError):
        moment = None
    return EVERYTHING if moment is None else moment_range([moment])
