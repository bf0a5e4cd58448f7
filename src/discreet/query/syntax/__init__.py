"""From the parser's nodes to functions of the closed language: a table of shapes, and the few that need a rule."""

from __future__ import annotations

from sqlglot import exp

from discreet.query.syntax.moments import MOMENT_RULES
from discreet.query.syntax.names import named
from discreet.query.syntax.refusals import nothing_but, refuse
from discreet.query.syntax.rules import RULES, Applied

_THIS, _TWO = ("this",), ("this", "expression")
_NAMED_ALIKE = (
    exp.Neg, exp.Abs, exp.Floor, exp.Ceil, exp.Trunc, exp.Sign, exp.Sqrt, exp.Cbrt, exp.Ln, exp.Exp, exp.Sin,
    exp.Cos, exp.Tan, exp.Asin, exp.Acos, exp.Atan, exp.Radians, exp.Degrees, exp.Not, exp.Lower, exp.Upper,
    exp.Length, exp.Ascii, exp.Unicode, exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.DayOfWeek,
    exp.DayOfYear, exp.Hour, exp.Minute, exp.Second, exp.Dayname, exp.Monthname,
)  # fmt: skip
"""Nodes of one argument that have the function's own name."""

PLAIN: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    **{kind: (kind.key, _THIS) for kind in _NAMED_ALIKE},
    exp.Add: ("+", _TWO),
    exp.Sub: ("-", _TWO),
    exp.Mul: ("*", _TWO),
    exp.Div: ("/", _TWO),
    exp.IntDiv: ("//", _TWO),
    exp.Mod: ("%", _TWO),
    exp.Pow: ("power", _TWO),
    exp.Round: ("round", ("this", "decimals")),
    exp.WidthBucket: ("width_bucket", ("this", "min_value", "max_value", "num_buckets")),
    exp.Least: ("least", ("this", "expressions")),
    exp.Greatest: ("greatest", ("this", "expressions")),
    exp.EQ: ("=", _TWO),
    exp.NEQ: ("<>", _TWO),
    exp.LT: ("<", _TWO),
    exp.LTE: ("<=", _TWO),
    exp.GT: (">", _TWO),
    exp.GTE: (">=", _TWO),
    exp.NullSafeEQ: ("same", _TWO),
    exp.In: ("in", ("this", "expressions")),
    exp.Coalesce: ("coalesce", ("this", "expressions")),
    exp.Try: ("coalesce", _THIS),  # every expression tries
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.StrPosition: ("strpos", ("this", "substr")),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.StartsWith: ("starts_with", _TWO),
    exp.EndsWith: ("ends_with", _TWO),
    exp.DPipe: ("||", _TWO),
    exp.ConcatWs: ("concat_ws", ("expressions",)),
    exp.WeekOfYear: ("week", _THIS),
    exp.DayOfMonth: ("day", _THIS),
    exp.DayOfWeekIso: ("isodow", _THIS),
    exp.TimeToUnix: ("epoch", _THIS),
    exp.LastDay: ("last_day", _THIS),
    exp.DateFromParts: ("make_date", ("year", "month", "day")),
    exp.Date: ("as date", _THIS),
    exp.Atan2: ("atan2", _TWO),
    exp.And: ("and", _TWO),
    exp.Or: ("or", _TWO),
    exp.Nullif: ("nullif", _TWO),
    exp.Right: ("right", _TWO),
    exp.Contains: ("contains", _TWO),
    exp.RegexpLike: ("regexp_matches", ("this", "expression", "flag")),
    exp.RegexpFullMatch: ("regexp_full_match", ("this", "expression", "options")),
    exp.SimilarTo: ("regexp_full_match", ("this", "expression", "options")),
    exp.RegexpReplace: ("regexp_replace", ("this", "expression", "replacement", "modifiers")),
    exp.TimeToStr: ("strftime", ("this", "format")),
}
"""Node → function and the places of its arguments, in order; a node with anything in another place is refused."""

SILENT: dict[type[exp.Expr], set[str]] = {
    exp.DPipe: {"safe"},
    exp.ConcatWs: {"safe", "coalesce"},
    exp.Least: {"ignore_nulls"},
    exp.Greatest: {"ignore_nulls"},
    exp.Div: {"typed", "safe"},
    exp.RegexpReplace: {"single_replace"},
}
"""Marks of the parser for the dialect that is read, which say what the function does here anyway."""


def function_of(node: exp.Expr) -> Applied:
    """Return the function that a node applies: its name in the language and its arguments, still syntax.

    Raises:
        UnsupportedQuery: the node, or a part of it, is not in the language.
        UnknownColumn: a function that nobody knows.
    """
    if isinstance(node, exp.Anonymous):
        return named(node)
    rule = MOMENT_RULES.get(type(node)) or RULES.get(type(node))
    found = rule(node) if rule is not None else None
    if found is not None:
        return found
    plain = PLAIN.get(type(node))
    if plain is None:
        refuse(node)
    name, places = plain
    nothing_but(node, {*places, *SILENT.get(type(node), set())})
    args: list[exp.Expr] = []
    for place in places:
        part = node.args.get(place)
        args += part if isinstance(part, list) else [part] if part is not None else []
    return name, args
