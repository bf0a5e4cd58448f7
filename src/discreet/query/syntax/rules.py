"""Nodes whose function depends on more than their kind: logic, casts, text, patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.functions import FUNCTIONS
from discreet.query.parse import has_aggregate
from discreet.query.syntax.refusals import nothing_but, refuse

Applied: TypeAlias = tuple[str, list[exp.Expr]]
"""A function's name in the language and its arguments, still syntax."""

_CASTS = {
    Type.BOOL: ("BOOLEAN", "BOOL"),
    Type.INT: ("INT", "BIGINT", "SMALLINT", "TINYINT", "INTEGER", "UBIGINT", "UINT", "USMALLINT", "UTINYINT"),
    Type.REAL: ("DOUBLE", "FLOAT", "REAL", "DECIMAL"),
    Type.TEXT: ("TEXT", "VARCHAR", "CHAR"),
    Type.DATE: ("DATE",),
    Type.TIMESTAMP: ("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"),
}
_TYPE_OF = {name: kind for kind, names in _CASTS.items() for name in names}


def _is(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "expression"})
    match node.expression:
        case exp.Null():
            return "is null", [node.this]
        case exp.Boolean():  # NULL IS TRUE is false
            return "coalesce", [exp.EQ(this=node.this, expression=node.expression), exp.false()]
        case _:
            refuse(node)


def _is_distinct(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "expression"})
    return "not", [exp.NullSafeEQ(this=node.this, expression=node.expression)]


def _between(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "low", "high"})
    return "and", [
        exp.GTE(this=node.this, expression=node.args["low"]),
        exp.LTE(this=node.this, expression=node.args["high"]),
    ]


def _like(name: str) -> Callable[[exp.Expr], Applied]:
    def rule(node: exp.Expr) -> Applied:
        nothing_but(node, {"this", "expression", "negate"})
        if node.args.get("negate"):
            return "not", [type(node)(this=node.this, expression=node.expression)]
        return name, [node.this, node.expression]

    return rule


def _escape(node: exp.Expr) -> Applied:
    """LIKE with an escape."""
    nothing_but(node, {"this", "expression"})
    like = node.this
    if type(like) is not exp.Like:
        raise UnsupportedQuery("ESCAPE is supported for LIKE alone.", hint="write lower(x) LIKE 'pattern' ESCAPE '!'")
    nothing_but(like, {"this", "expression", "negate"})
    if like.args.get("negate"):
        inner = exp.Like(this=like.this, expression=like.expression)
        return "not", [exp.Escape(this=inner, expression=node.expression)]
    return "like_escape", [like.this, like.expression, node.expression]


def _case(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "ifs", "default"})
    args: list[exp.Expr] = []
    for arm in node.args["ifs"]:
        condition = exp.EQ(this=node.this, expression=arm.this) if node.args.get("this") else arm.this
        args += [condition, arm.args["true"]]
    return "case", [*args, node.args.get("default") or exp.Null()]


def _if(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "true", "false"})
    return "case", [node.this, node.args["true"], node.args.get("false") or exp.Null()]


def _nvl2(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "true", "false"})
    known = exp.Not(this=exp.Is(this=node.this, expression=exp.Null()))
    return "case", [known, node.args["true"], node.args.get("false") or exp.Null()]


def _log(node: exp.Expr) -> Applied:
    """Read a logarithm: log(x) and log10(x) are decimal, and the parser writes the second as one to base 10."""
    nothing_but(node, {"this", "expression"})
    if not node.args.get("expression"):
        return "log10", [node.this]
    if node.this == exp.Literal.number(10):
        return "log10", [node.expression]
    return "log", [node.this, node.expression]


def _pi(node: exp.Expr) -> Applied:
    nothing_but(node, set())
    return "coalesce", [exp.Literal.number("3.141592653589793")]


def _cast(node: exp.Expr) -> Applied:
    target = node.args["to"]
    word = target.this.value if isinstance(target.this, exp.DataType.Type) else str(target.this)
    kind = _TYPE_OF.get(word)
    if kind is None or {k for k, v in node.args.items() if v} - {"this", "to", "safe"}:
        raise UnsupportedQuery(
            f"CAST to {word} is not supported here.", hint="cast to BIGINT, DOUBLE, VARCHAR, DATE or TIMESTAMP"
        )
    if word == "DECIMAL":
        return _decimal(node, [str(e) for e in target.expressions])
    number = node.this.unnest()
    number = number.this if isinstance(number, exp.Neg) else number
    if kind is Type.INT and isinstance(number, exp.Literal) and not number.is_string and "." in number.name:
        return "as bigint", [exp.Round(this=node.this)]  # halves of a decimal go away from zero, a double's to even
    return f"as {kind.value.lower()}", [node.this]


def _try_cast(node: exp.Expr) -> Applied:
    """TRY_CAST, which is the constant NULL of a text that is written out and no date."""
    name, args = _cast(node)
    text = args[0].unnest()
    if name in ("as date", "as timestamp") and text.key == "literal" and FUNCTIONS[name].value(text.name) is None:
        return name, [exp.Null()]
    return name, args


def _decimal(node: exp.Expr, sizes: list[str]) -> Applied:
    """DECIMAL(p, s): a double with s decimals; NULL on a row where it would have more than p digits."""
    digits, decimals = (int(n) for n in (sizes or ["18", "3"]) + ["0"] * (2 - len(sizes or ["18", "3"])))
    rounded = exp.Round(this=_real(node.this), decimals=exp.Literal.number(decimals))
    if has_aggregate(node.this):
        return "round", [rounded.this, rounded.args["decimals"]]
    fits = exp.LT(this=exp.Abs(this=rounded), expression=exp.Literal.number(f"1e{digits - decimals}"))
    return "case", [fits, rounded, exp.Null()]


def _real(e: exp.Expr) -> exp.Expr:
    return exp.Cast(this=e, to=exp.DataType.build("DOUBLE"))


def _trim(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "expression", "position"})
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "trim")
    return name, [node.this, *([node.expression] if node.args.get("expression") else [])]


def _pad(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "expression", "fill_pattern", "is_left"})
    fill = node.args.get("fill_pattern") or exp.Literal.string(" ")
    return ("lpad" if node.args.get("is_left") else "rpad"), [node.this, node.expression, fill]


def _left(node: exp.Expr) -> Applied:
    """Return a written length is one of substring as well; below 0, left() leaves so many characters away instead."""
    nothing_but(node, {"this", "expression"})
    n = node.expression
    if isinstance(n, exp.Literal) and not n.is_string:
        return "substring", [node.this, exp.Literal.number(1), n]
    return "left", [node.this, n]


def _concat(node: exp.Expr) -> Applied:
    """concat() reads NULL as nothing, unlike ||."""
    nothing_but(node, {"expressions", "safe", "coalesce"})
    return "||", [exp.Coalesce(this=_text(e), expressions=[exp.Literal.string("")]) for e in node.expressions]


def _text(e: exp.Expr) -> exp.Expr:
    return exp.Cast(this=e, to=exp.DataType.build("VARCHAR"))


def _extracted(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "expression", "group", "parameters", "null_if_pos_overflow"})
    group, options = node.args.get("group") or exp.Literal.number(0), node.args.get("parameters")
    return "regexp_extract", [node.this, node.expression, group, *([options] if options else [])]


RULES: dict[type[exp.Expr], Callable[[exp.Expr], Applied]] = {
    exp.Is: _is,
    exp.NullSafeNEQ: _is_distinct,
    exp.Between: _between,
    exp.Like: _like("like"),
    exp.ILike: _like("ilike"),
    exp.Escape: _escape,
    exp.Case: _case,
    exp.If: _if,
    exp.Nvl2: _nvl2,
    exp.Log: _log,
    exp.Pi: _pi,
    exp.Cast: _cast,
    exp.TryCast: _try_cast,
    exp.Trim: _trim,
    exp.Pad: _pad,
    exp.Left: _left,
    exp.Concat: _concat,
    exp.RegexpExtract: _extracted,
}
"""Node → the rule that reads it."""
