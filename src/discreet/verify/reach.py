"""Between which numbers an SQL expression lies, whatever its columns hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TypeAlias

from sqlglot import exp

from discreet.verify.shapes import reject

Number: TypeAlias = int | Fraction | float
"""A float is a double of the database, which rounds what is computed of it; whole numbers and decimals are exact."""

Span: TypeAlias = tuple[Number, Number]
Spans: TypeAlias = tuple[tuple[int, int], ...]

_INF = math.inf
_KIND = exp.DataType.Type  # not as text, which would be parsed anew for each cast
_WHOLE = {_KIND.TINYINT: 8, _KIND.SMALLINT: 16, _KIND.INT: 32, _KIND.BIGINT: 64, _KIND.INT128: 128}
_NARROW = frozenset({_KIND.TINYINT, _KIND.SMALLINT, _KIND.INT, _KIND.BIGINT})
_UNSIGNED = frozenset({_KIND.UTINYINT, _KIND.USMALLINT, _KIND.UINT, _KIND.UBIGINT, _KIND.UINT128})
_FAILING = _NARROW | _UNSIGNED
"""Whole numbers to which a cast may fail."""


def span_of(e: exp.Expr, counts: frozenset[str]) -> Span:
    """Bounds of an SQL number, NULL aside; the columns in `counts` are at least 0 and never NULL.

    What it does not know is unbounded, so that a larger language makes it refuse, never accept.
    """
    match e:
        case exp.Literal() | exp.Neg():
            n = _constant(e)
            return (-_INF, _INF) if n is None else (n, n)
        case exp.Column():
            return (0 if e.name in counts else -_INF), _INF
        case exp.Paren():
            return span_of(e.this, counts)
        case exp.Cast():
            return _cast(e, span_of(e.this, counts))
        case exp.Least() | exp.Greatest():
            return _extreme(e, counts)
        case exp.Coalesce():
            return _hull([span_of(x, counts) for x in (e.this, *e.expressions)])
        case exp.Case() if e.this is None:
            arms = [i.args["true"] for i in e.args["ifs"]]
            arms += [e.args["default"]] if e.args.get("default") else []
            return _hull([span_of(a, counts) for a in arms])
        case exp.Round() if not e.args.get("decimals"):
            low, high = span_of(e.this, counts)
            return _nearest(low, math.ceil, -1), _nearest(high, math.floor, 1)
        case exp.Mul():
            return _product(span_of(e.this, counts), span_of(e.expression, counts))
        case _:
            return -_INF, _INF


def never_fails(nodes: Iterable[exp.Expr]) -> None:
    """Check that no cast fails: one to whole numbers does on what its type does not hold, so that outside TRY one
    person's row would decide whether the question fails if its argument were not bounded.

    Raises:
        InternalError: a cast whose argument is not known to be bounded.
    """
    for cast in nodes:
        if type(cast) is not exp.Cast or cast.to.this not in _FAILING:
            continue
        if cast.find_ancestor(exp.Try) or isinstance(cast.this, exp.Null | exp.Boolean):
            continue
        if _is_leaf(cast):
            continue  # `spread.py`, which alone knows such a column, has bounds of it from another stage
        if any(math.isinf(end) for end in span_of(cast, frozenset())):
            reject("a cast that could fail on some row")


def _is_leaf(cast: exp.Cast) -> bool:
    """Whether the cast is the whole of the column b of the last SELECT."""
    shown = cast.parent
    return type(shown) is exp.Alias and shown.alias == "b" and _is_last(shown.parent)


def _is_last(select: exp.Expr | None) -> bool:
    return type(select) is exp.Select and select.parent is None


def never_null(e: exp.Expr, counts: frozenset[str]) -> bool:
    """Whether the expression is a number on every row."""
    match e:
        case exp.Literal() | exp.Neg():
            return _constant(e) is not None
        case exp.Column():
            return e.name in counts
        case exp.Paren():
            return never_null(e.this, counts)
        case exp.Cast():
            return type(e) is exp.Cast and never_null(e.this, counts)
        case exp.Coalesce() | exp.Least() | exp.Greatest():
            return any(never_null(x, counts) for x in (e.this, *e.expressions))
        case _:
            return False


def _extreme(e: exp.Expr, counts: frozenset[str]) -> Span:
    """LEAST and GREATEST pass over NULL: only an argument that is never NULL holds the result on its side."""
    args = [e.this, *e.expressions]
    low, high = _hull([span_of(a, counts) for a in args])
    sure = [span_of(a, counts) for a in args if never_null(a, counts)]
    if isinstance(e, exp.Least):
        return low, min((s[1] for s in sure), default=high)
    return max((s[0] for s in sure), default=low), high


def _cast(e: exp.Expr, inner: Span) -> Span:
    """Return a cast to whole numbers rounds, and fails on what its type does not hold, so a span beyond the type is not
    known; one to DOUBLE keeps what a double holds, and decimals up to the last digits; others are not known.
    """
    to = e.args["to"]
    bits = _WHOLE.get(to.this)
    if bits is not None:
        low, high = inner
        low, high = low if low == -_INF else math.floor(low), high if high == _INF else math.ceil(high)
        least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        if any(not math.isinf(end) and not least <= end <= most for end in (low, high)):
            return -_INF, _INF
        return low, high
    if to.this is not _KIND.DOUBLE or any(isinstance(x, int) and float(x) != x for x in inner):
        return -_INF, _INF
    written = e.this.this if isinstance(e.this, exp.Neg) else e.this
    if isinstance(written, exp.Literal) and len(written.name) <= _SHORT:
        return float(inner[0]), float(inner[1])
    return _double(inner[0], -_INF), _double(inner[1], _INF)


def _double(x: Number, towards: float) -> float:
    """Return an end as a double; of a decimal, whose digits the database divides by a power of ten, with room."""
    if not isinstance(x, Fraction):
        return float(x)
    return math.nextafter(math.nextafter(float(x), towards), towards)


def _nearest(x: Number, towards: Callable[[Fraction], int], sign: int) -> Number:
    """Return an end after rounding to the nearest whole number, halves either way."""
    return x if math.isinf(x) else towards(Fraction(x) + Fraction(sign, 2))


def _hull(spans: list[Span]) -> Span:
    return min(s[0] for s in spans), max(s[1] for s in spans)


def _product(one: Span, other: Span) -> Span:
    """Return the product of what is bounded on all sides; else it could be NaN, which no bound holds."""
    if any(not -_FAR < end < _FAR for end in (*one, *other)):
        return -_INF, _INF
    ends = [a * b for a in one for b in other]
    return min(ends), max(ends)


def _constant(e: exp.Expr) -> Number | None:
    if isinstance(e, exp.Neg):
        inner = _constant(e.this) if isinstance(e.this, exp.Literal) else None
        return None if inner is None else -inner
    if not isinstance(e, exp.Literal) or e.is_string:
        return None
    if e.name.isdigit():
        return int(e.name) if int(e.name) < 1 << 127 else None
    if "e" in e.name.lower():
        return None if math.isinf(float(e.name)) else float(e.name)
    return Fraction(e.name) if len(e.name) <= _DIGITS else None


_FAR = 1 << 500
"""Products of what is less far are doubles, and not infinite."""

_SHORT = 16
"""Up to so many characters a decimal becomes the double next to it: its digits and its power of ten are doubles."""

_DIGITS = 38
"""Up to so many characters a number with a point is a decimal to the database, and exact."""
