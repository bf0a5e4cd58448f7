"""What values an SQL expression may have: of which kind, and between which numbers.

GROUP BY, DISTINCT, min, max and the order of a window take equal values as one, and keep or number them in the
order in which the database happens to find them. 0.0 and −0.0 are equal, and so are the NaN of either sign; a cast
to text tells them apart. So a real column may stand there only if it is `PLAIN`: neither −0.0 nor NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from fractions import Fraction
from typing import TypeAlias

from sqlglot import exp

from discreet.verify.shapes import reject

Kind: TypeAlias = str | None
"""A type in DuckDB's words, one of the words below, or None when it is not known."""

NULL = "NULL"
"""The constant NULL, which fits any type."""

PLAIN = "PLAIN DOUBLE"
"""A real number that is neither NaN nor −0.0."""

_NO_NAN, _NO_MINUS_ZERO = "DOUBLE BUT NAN", "DOUBLE BUT −0.0"
_REALS = ("DOUBLE", _NO_NAN, _NO_MINUS_ZERO, PLAIN)
_WHOLES = ("BIGINT", "HUGEINT")
_INTERVAL = "INTERVAL"  # of which 30 days and a month are equal and not the same
_SAME = frozenset({"BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP", NULL, PLAIN, *_WHOLES})

Columns: TypeAlias = Callable[[exp.Column], Kind]


def are_the_same(kind: Kind) -> bool:
    """Whether no function can tell two equal values of this kind apart."""
    return kind in _SAME


def is_real(kind: Kind) -> bool:
    """Whether values of this kind are doubles."""
    return kind in _REALS


def is_a_number(kind: Kind) -> bool:
    """Whether values of this kind are doubles and none is NaN, of which one of two signs would come out of a sum."""
    return kind in (_NO_NAN, PLAIN)


def kind_of(e: exp.Expr, columns: Columns) -> Kind:
    """Return the kind of an expression over columns of known kinds; what it does not know is None."""
    match e:
        case exp.Column():
            return columns(e)
        case exp.Paren() | exp.Try():
            return kind_of(e.this, columns)
        case exp.Literal():
            return _literal(e)
        case exp.Null():
            return NULL
        case exp.Cast():
            return _cast(e, columns)
        case exp.Case():
            return _case(e, columns)
        case exp.If():
            arms = [e.args["true"], *([e.args["false"]] if e.args.get("false") else [])]
            return together([kind_of(x, columns) for x in arms])
        case exp.Coalesce() | exp.Least() | exp.Greatest():
            return together([kind_of(x, columns) for x in (e.this, *e.expressions)])
        case exp.Nullif():
            return kind_of(e.this, columns)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.IntDiv() | exp.Mod():
            return _arithmetic(e, columns)
        case exp.Neg() | exp.Abs() | exp.Round() | exp.Trunc():
            kind = kind_of(e.this, columns)
            return kind if kind in _WHOLES else "DOUBLE" if kind in _REALS else None
        case exp.Anonymous():
            name = e.name.lower()
            epoch = name == "date_part" and e.expressions[:1] == [exp.Literal.string("epoch")]
            return "DOUBLE" if epoch else _NAMED.get(name)
        case _:
            return _RESULTS.get(type(e))


def together(kinds: Collection[Kind]) -> Kind:
    """Return the kind of a value that is any one of these."""
    known = set(kinds) - {NULL}
    if len(known) <= 1:
        return known.pop() if known else NULL
    if known <= set(_WHOLES):
        return "HUGEINT"
    for real in (PLAIN, _NO_NAN, _NO_MINUS_ZERO, "DOUBLE"):
        if all(k in (real, PLAIN, *_WHOLES) or (real == "DOUBLE" and k in _REALS) for k in known):
            return real
    return None


def _literal(e: exp.Literal) -> Kind:
    if e.is_string:
        return "VARCHAR"
    return "BIGINT" if e.name.isdigit() and int(e.name) < 1 << 63 else None


def _cast(e: exp.Cast, columns: Columns) -> Kind:
    name = _NAMES.get(e.to.this)
    if name != "DOUBLE":
        return name
    inner = e.this
    number = type(inner) is exp.Literal and not inner.is_string
    return PLAIN if number or kind_of(inner, columns) in (NULL, *_WHOLES) else "DOUBLE"


def _case(e: exp.Case, columns: Columns) -> Kind:
    arms = [i.args["true"] for i in e.args["ifs"]]
    default = e.args.get("default")
    if e.this is None and default is None and len(arms) == 1:
        guarded = _guarded(e.args["ifs"][0].this, arms[0], columns)
        if guarded is not None:
            return guarded
    return together([kind_of(x, columns) for x in [*arms, *([default] if default else [])]])


def _guarded(condition: exp.Expr, arm: exp.Expr, columns: Columns) -> Kind:
    """CASE WHEN isfinite(x) THEN x END is not NaN, nor is CASE WHEN isfinite(x) THEN x + 0.0 END."""
    if type(condition) is not exp.Anonymous or condition.name.lower() != "isfinite":
        return None
    kind = kind_of(arm, columns)
    if condition.expressions not in ([arm], [arm.this] if _is_zeroed(arm) else None):
        return None
    if kind in (_NO_MINUS_ZERO, PLAIN):
        return PLAIN
    return _NO_NAN if kind in _REALS else None


def _arithmetic(e: exp.Expr, columns: Columns) -> Kind:
    left, right = kind_of(e.this, columns), kind_of(e.expression, columns)
    if left in ("DATE", "TIMESTAMP") and right == _INTERVAL:
        return "TIMESTAMP"
    if "DATE" in (left, right) and type(e) in (exp.Add, exp.Sub):  # days later, or the days between
        both = left == right and type(e) is exp.Sub
        days = right if left == "DATE" else left if type(e) is exp.Add else None
        return "BIGINT" if both else "DATE" if days == "BIGINT" else None
    if left in _WHOLES and right in _WHOLES:
        return together([left, right])
    if left not in (*_REALS, *_WHOLES) or right not in (*_REALS, *_WHOLES):
        return None
    if not _is_zeroed(e):
        return "DOUBLE"
    return _NO_MINUS_ZERO if left in ("DOUBLE", _NO_MINUS_ZERO) else PLAIN  # −0.0 + 0.0 is 0.0


def _is_zeroed(e: exp.Expr) -> bool:
    """Whether it is … + CAST(0 AS DOUBLE)."""
    if type(e) is not exp.Add or type(e.expression) is not exp.Cast or not e.expression.to.is_type(_KIND.DOUBLE):
        return False
    zero = e.expression.this
    return type(zero) is exp.Literal and not zero.is_string and zero.name in ("0", "0.0")


_KIND = exp.DataType.Type  # not as text, which would be parsed anew for each cast
_TYPES = {
    "BIGINT": (_KIND.TINYINT, _KIND.SMALLINT, _KIND.INT, _KIND.BIGINT),
    "HUGEINT": (_KIND.INT128,),
    "DOUBLE": (_KIND.DOUBLE,),
    "VARCHAR": (_KIND.VARCHAR, _KIND.TEXT),
    "DATE": (_KIND.DATE,),
    "TIMESTAMP": (_KIND.TIMESTAMP, _KIND.TIMESTAMPNTZ),
    "BOOLEAN": (_KIND.BOOLEAN,),
}
_NAMES = {kind: name for name, written in _TYPES.items() for kind in written}
_RESULTS: dict[type[exp.Expr], Kind] = {
    **dict.fromkeys(
        (exp.Boolean, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE), "BOOLEAN"
    ),
    **dict.fromkeys((exp.NullSafeEQ, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike), "BOOLEAN"),
    **dict.fromkeys((exp.Contains, exp.StartsWith, exp.EndsWith), "BOOLEAN"),
    **dict.fromkeys((exp.Escape, exp.RegexpLike, exp.RegexpFullMatch), "BOOLEAN"),
    **dict.fromkeys((exp.DPipe, exp.Substring, exp.Trim, exp.Lower, exp.Upper, exp.ConcatWs, exp.Left), "VARCHAR"),
    **dict.fromkeys((exp.Right, exp.SplitPart, exp.Replace, exp.Pad, exp.RegexpExtract), "VARCHAR"),
    **dict.fromkeys((exp.RegexpReplace, exp.TimeToStr), "VARCHAR"),
    **dict.fromkeys((exp.Div, exp.Pow, exp.Sqrt, exp.Ln, exp.Log, exp.Exp, exp.Floor, exp.Ceil), "DOUBLE"),
    **dict.fromkeys((exp.Radians, exp.Degrees, exp.Cbrt, exp.Sin, exp.Cos, exp.Tan), "DOUBLE"),
    **dict.fromkeys((exp.Asin, exp.Acos, exp.Atan, exp.Atan2), "DOUBLE"),
    **dict.fromkeys((exp.Sign, exp.Length, exp.StrPosition, exp.Ascii, exp.Unicode, exp.DateDiff), "BIGINT"),
    exp.TimestampTrunc: "TIMESTAMP",
    exp.ToDays: _INTERVAL,
    **dict.fromkeys((exp.DateFromParts, exp.LastDay), "DATE"),
}
_NAMED = {
    "isfinite": "BOOLEAN",
    "strlen": "BIGINT",
    "date_sub": "BIGINT",
    "to_months": _INTERVAL,
    "to_microseconds": _INTERVAL,
}


Number: TypeAlias = int | Fraction | float
"""A float is a double of the database, which rounds what is computed of it; whole numbers and decimals are exact."""

Span: TypeAlias = tuple[Number, Number]
Spans: TypeAlias = tuple[tuple[int, int], ...]

_INF = math.inf
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
            return _span_of_cast(e, span_of(e.this, counts))
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
    person's row would decide whether the query fails if its argument were not bounded.

    Raises:
        InternalError: a cast whose argument is not known to be bounded.
    """
    for cast in nodes:
        if type(cast) is not exp.Cast or cast.to.this not in _FAILING:
            continue
        if cast.find_ancestor(exp.Try) or isinstance(cast.this, exp.Null | exp.Boolean):
            continue
        if _is_leaf(cast):
            continue  # `quantile_tree.py`, which alone knows such a column, has bounds of it from another stage
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


def _span_of_cast(e: exp.Expr, inner: Span) -> Span:
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
