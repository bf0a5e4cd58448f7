"""Of what kind the values of an SQL expression are: whether sums are exact, and whether equal ones are the same.

GROUP BY, DISTINCT, min, max and the order of a window take equal values as one, and keep or number them in the
order in which the database happens to find them. 0.0 and −0.0 are equal, and so are the NaN of either sign; a cast
to text tells them apart. So a real column may stand there only if it is `PLAIN`: neither −0.0 nor NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from sqlglot import exp

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
_NAMED = {"isfinite": "BOOLEAN", "date_sub": "BIGINT", "to_months": _INTERVAL, "to_microseconds": _INTERVAL}
