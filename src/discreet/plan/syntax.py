"""From the parser's nodes to functions of the closed language: a table of shapes, and the few that need a rule."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.plan.types import Type

Applied: TypeAlias = tuple[str, list[exp.Expr]]
"""A function's name in the language and its arguments, still syntax."""

_THIS = ("this",)
_TWO = ("this", "expression")
_PLAIN: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Add: ("+", _TWO),
    exp.Sub: ("-", _TWO),
    exp.Mul: ("*", _TWO),
    exp.Div: ("/", _TWO),
    exp.IntDiv: ("//", _TWO),
    exp.Mod: ("%", _TWO),
    exp.Pow: ("power", _TWO),
    exp.Neg: ("neg", _THIS),
    exp.Abs: ("abs", _THIS),
    exp.Floor: ("floor", _THIS),
    exp.Ceil: ("ceil", _THIS),
    exp.Round: ("round", ("this", "decimals")),
    exp.Sign: ("sign", _THIS),
    exp.Sqrt: ("sqrt", _THIS),
    exp.Ln: ("ln", _THIS),
    exp.Exp: ("exp", _THIS),
    exp.Least: ("least", ("this", "expressions")),
    exp.Greatest: ("greatest", ("this", "expressions")),
    exp.EQ: ("=", _TWO),
    exp.NEQ: ("<>", _TWO),
    exp.LT: ("<", _TWO),
    exp.LTE: ("<=", _TWO),
    exp.GT: (">", _TWO),
    exp.GTE: (">=", _TWO),
    exp.And: ("and", _TWO),
    exp.Or: ("or", _TWO),
    exp.Not: ("not", _THIS),
    exp.In: ("in", ("this", "expressions")),
    exp.Coalesce: ("coalesce", ("this", "expressions")),
    exp.Nullif: ("nullif", _TWO),
    exp.Lower: ("lower", _THIS),
    exp.Upper: ("upper", _THIS),
    exp.Trim: ("trim", _THIS),
    exp.Length: ("length", _THIS),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.StartsWith: ("starts_with", _TWO),
    exp.EndsWith: ("ends_with", _TWO),
    exp.Contains: ("contains", _TWO),
    exp.DPipe: ("||", _TWO),
    exp.Year: ("year", _THIS),
    exp.Quarter: ("quarter", _THIS),
    exp.Month: ("month", _THIS),
    exp.Week: ("week", _THIS),
    exp.Day: ("day", _THIS),
    exp.DayOfWeek: ("dayofweek", _THIS),
    exp.DayOfYear: ("dayofyear", _THIS),
    exp.Hour: ("hour", _THIS),
    exp.Minute: ("minute", _THIS),
}
"""Node → function and the places of its arguments, in order; a node with anything in another place is refused."""

_SILENT: dict[type[exp.Expr], set[str]] = {
    exp.DPipe: {"safe"},
    exp.Least: {"ignore_nulls"},
    exp.Greatest: {"ignore_nulls"},
    exp.Div: {"typed", "safe"},
}
"""Marks of the parser for the dialect that is read, which say what the function does here anyway."""

_CASTS = {
    Type.BOOL: ("BOOLEAN", "BOOL"),
    Type.INT: ("INT", "BIGINT", "SMALLINT", "TINYINT", "INTEGER", "UBIGINT", "UINT", "USMALLINT", "UTINYINT"),
    Type.REAL: ("DOUBLE", "FLOAT", "REAL", "DECIMAL"),
    Type.TEXT: ("TEXT", "VARCHAR", "CHAR"),
    Type.DATE: ("DATE",),
    Type.TIMESTAMP: ("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"),
}
_TYPE_OF = {name: kind for kind, names in _CASTS.items() for name in names}


def function_of(node: exp.Expr) -> Applied:
    """The function that a node applies.

    Raises:
        UnsupportedQuery: the node, or a part of it, is not in the language.
        UnknownColumn: a function that nobody knows.
    """
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node)
    plain = _PLAIN.get(type(node))
    if plain is None:
        return _refuse(node)
    name, places = plain
    _nothing_but(node, {*places, *_SILENT.get(type(node), set())})
    args: list[exp.Expr] = []
    for place in places:
        part = node.args.get(place)
        args += part if isinstance(part, list) else [part] if part is not None else []
    return name, args


def _is(node: exp.Expr) -> Applied:
    _nothing_but(node, {"this", "expression"})
    if isinstance(node.expression, exp.Null):
        return "is null", [node.this]
    if isinstance(node.expression, exp.Boolean):  # NULL IS TRUE is false
        return "coalesce", [exp.EQ(this=node.this, expression=node.expression), exp.false()]
    return _refuse(node)


def _between(node: exp.Expr) -> Applied:
    _nothing_but(node, {"this", "low", "high"})
    return "and", [
        exp.GTE(this=node.this, expression=node.args["low"]),
        exp.LTE(this=node.this, expression=node.args["high"]),
    ]


def _like(name: str) -> Callable[[exp.Expr], Applied]:
    def rule(node: exp.Expr) -> Applied:
        _nothing_but(node, {"this", "expression", "negate"})
        if node.args.get("negate"):
            return "not", [type(node)(this=node.this, expression=node.expression)]
        return name, [node.this, node.expression]

    return rule


def _case(node: exp.Expr) -> Applied:
    _nothing_but(node, {"this", "ifs", "default"})
    args: list[exp.Expr] = []
    for arm in node.args["ifs"]:
        condition = exp.EQ(this=node.this, expression=arm.this) if node.args.get("this") else arm.this
        args += [condition, arm.args["true"]]
    return "case", [*args, node.args.get("default") or exp.Null()]


def _if(node: exp.Expr) -> Applied:
    _nothing_but(node, {"this", "true", "false"})
    return "case", [node.this, node.args["true"], node.args.get("false") or exp.Null()]


def _log(node: exp.Expr) -> Applied:
    """DuckDB's log(x) and log10(x) are both decimal; the parser writes the second as a logarithm to base 10."""
    _nothing_but(node, {"this", "expression"})
    if not node.args.get("expression"):
        return "log10", [node.this]
    if node.this == exp.Literal.number(10):
        return "log10", [node.expression]
    return "/", [exp.Ln(this=node.expression), exp.Ln(this=node.this)]


def _cast(node: exp.Expr) -> Applied:
    target = node.args["to"]
    word = target.this.value if isinstance(target.this, exp.DataType.Type) else str(target.this)
    kind = _TYPE_OF.get(word)
    if kind is None or {k for k, v in node.args.items() if v} - {"this", "to", "safe"}:
        raise UnsupportedQuery(
            f"CAST to {word} is not answered here.", hint="cast to BIGINT, DOUBLE, VARCHAR, DATE or TIMESTAMP"
        )
    return f"as {kind.value.lower()}", [node.this]


def _extract(node: exp.Expr) -> Applied:
    _nothing_but(node, {"this", "expression"})
    return _part(node.this.name, node.expression)


def _part(name: str, argument: exp.Expr) -> Applied:
    part = {"dow": "dayofweek", "doy": "dayofyear"}.get(name.lower(), name.lower())
    if part not in _PARTS:
        raise UnsupportedQuery(
            f"The part {name!r} of a time is not answered here.",
            hint=f"parts are {', '.join(sorted(_PARTS))}",
        )
    return part, [argument]


def _truncate(node: exp.Expr) -> Applied:
    from discreet.plan.functions.time import UNITS

    _nothing_but(node, {"this", "unit", "input_type_preserved"})
    unit = node.args["unit"].name.lower()
    if unit not in UNITS:
        raise UnsupportedQuery(
            f"A time cannot be truncated to {unit!r} here.", hint=f"units are {', '.join(UNITS)}"
        )
    return f"trunc_{unit}", [node.this]


def _left(node: exp.Expr) -> Applied:
    _nothing_but(node, {"this", "expression"})
    return "substring", [node.this, exp.Literal.number(1), node.expression]


def _concat(node: exp.Expr) -> Applied:
    """concat() reads NULL as nothing, unlike ||."""
    _nothing_but(node, {"expressions", "safe", "coalesce"})
    return "||", [exp.Coalesce(this=_text(e), expressions=[exp.Literal.string("")]) for e in node.expressions]


def _text(e: exp.Expr) -> exp.Expr:
    return exp.Cast(this=e, to=exp.DataType.build("VARCHAR"))


def _named(node: exp.Expr) -> Applied:
    """Functions that the parser leaves as names."""
    name, args = node.name.lower(), node.expressions
    if name in ("date_part", "datepart") and len(args) == 2:
        if not isinstance(args[0], exp.Literal):
            raise UnsupportedQuery(
                "The part of a time must be written out.", hint="date_part('year', x), for instance"
            )
        return _part(args[0].name, args[1])
    if name in ("suffix", "ends_with") and len(args) == 2:
        return "ends_with", list(args)
    if name == "prefix" and len(args) == 2:
        return "starts_with", list(args)
    if name in _CLOCKS:
        raise UnsupportedQuery(
            "The current time is refused: a question means the same tomorrow.", hint="write the time itself"
        )
    near = difflib.get_close_matches(name, _KNOWN_NAMES, n=3, cutoff=0.7)
    raise UnknownColumn(
        f"There is no function {name!r:.60} here.",
        hint=f"perhaps {' or '.join(near)} is meant" if near else _REFERENCE,
    )


_REFERENCE = "docs/sql-reference.md lists the functions that are answered"
_CLOCKS = (
    "now",
    "get_current_timestamp",
    "get_current_time",
    "transaction_timestamp",
    "current_localtimestamp",
)
_KNOWN_NAMES = (
    *("abs", "avg", "cast", "ceil", "coalesce", "concat", "contains", "count", "date_part", "date_trunc"),
    *(
        "day",
        "dayofweek",
        "dayofyear",
        "ends_with",
        "exp",
        "extract",
        "floor",
        "greatest",
        "hour",
        "ifnull",
        "least",
    ),
    *("left", "length", "ln", "log", "log10", "lower", "minute", "month", "nullif", "pow", "power", "prefix"),
    *(
        "quarter",
        "round",
        "sign",
        "sqrt",
        "starts_with",
        "substr",
        "substring",
        "suffix",
        "sum",
        "trim",
        "try_cast",
    ),
    *("upper", "week", "year"),
)
_PARTS = {"year", "quarter", "month", "week", "day", "dayofweek", "dayofyear", "hour", "minute"}
_RULES: dict[type[exp.Expr], Callable[[exp.Expr], Applied]] = {
    exp.Is: _is,
    exp.Between: _between,
    exp.Like: _like("like"),
    exp.ILike: _like("ilike"),
    exp.Case: _case,
    exp.If: _if,
    exp.Log: _log,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncate,
    exp.DateTrunc: _truncate,
    exp.Left: _left,
    exp.Concat: _concat,
    exp.Anonymous: _named,
}


def _nothing_but(node: exp.Expr, places: set[str]) -> None:
    if any(part and place not in places for place, part in node.args.items()):
        _refuse(node)


def _refuse(node: exp.Expr) -> Applied:
    text = " ".join(node.sql(dialect="duckdb", comments=False).split())
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    reason, hint = _REASONS.get(
        type(node), (f"This part of the question is not answered: {shown}", _REFERENCE)
    )
    raise UnsupportedQuery(reason, hint=hint)


_REASONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Rand: ("random() is refused: an answer's only randomness is its noise.", "leave it out"),
    exp.Window: ("Window functions are not answered here.", "aggregate with GROUP BY"),
    exp.Filter: ("FILTER (WHERE …) is not answered here.", "put it into WHERE, or sum CASE WHEN … THEN x ELSE 0 END"),
    exp.Subquery: ("Subqueries are not answered here.", "write the question as one SELECT over the table"),
    exp.Placeholder: ("Parameters ($1, ?) are not answered here.", "write the value itself"),
    exp.CurrentDate: ("The current date is refused: a question means the same tomorrow.", "write the date itself"),
    exp.CurrentTimestamp: ("The current time is refused: a question means the same tomorrow.", "write the time itself"),
    exp.CurrentTime: ("The current time is refused: a question means the same tomorrow.", "write the time itself"),
    exp.Localtime: ("The current time is refused: a question means the same tomorrow.", "write the time itself"),
    exp.Localtimestamp: ("The current time is refused: a question means the same tomorrow.", "write the time itself"),
    exp.Uuid: ("uuid() is refused: an answer's only randomness is its noise.", "leave it out"),
    exp.Collate: ("COLLATE is not answered here.", "compare lower(x) where case should not matter"),
    exp.RegexpLike: ("Regular expressions are not answered here.", "use LIKE, starts_with, ends_with or contains"),
    exp.SimilarTo: ("SIMILAR TO is not answered here.", "use LIKE, starts_with, ends_with or contains"),
    exp.Glob: ("GLOB is not answered here.", "use LIKE, starts_with, ends_with or contains"),
    exp.Columns: ("COLUMNS(…) is not answered here.", "name the columns one by one"),
    exp.WithinGroup: ("WITHIN GROUP is not answered here.", "aggregates are COUNT, COUNT(DISTINCT unit), SUM and AVG"),
    exp.Any: ("ANY is not answered here.", "use IN (…), or conditions joined with OR"),
    exp.DateDiff: ("Differences of dates are not answered here.", "compare with a written date"),
    exp.Interval: ("INTERVAL is not answered here.", "compare with a written date"),
    exp.Escape: ("LIKE … ESCAPE is not answered here.", "use starts_with, ends_with or contains"),
    exp.NullSafeEQ: ("IS NOT DISTINCT FROM is not answered here.", "use = and IS NULL"),
    exp.NullSafeNEQ: ("IS DISTINCT FROM is not answered here.", "use <> and IS NULL"),
}  # fmt: skip
