"""From the parser's nodes to functions of the closed language: a table of shapes, and the few that need a rule."""

from __future__ import annotations

import difflib

from sqlglot import exp

from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.query.parse import ENDS, refuse_end
from discreet.query.syntax.moments import MOMENT_RULES, difference_of, part_of
from discreet.query.syntax.refusals import REFERENCE, clock, nothing_but, refuse
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


def named(node: exp.Expr) -> Applied:
    """Return the function of a name.

    Raises:
        UnsupportedQuery: one that is refused for a reason.
        UnknownColumn: one that nobody knows; the hint lists near ones.
    """
    name, args = node.name.lower(), node.expressions
    if name in ("date_part", "datepart") and len(args) == 2:
        if not isinstance(args[0], exp.Literal):
            raise UnsupportedQuery("The part of a time must be written out.", hint="date_part('year', x), for instance")
        return part_of(args[0].name, args[1])
    if name == "fmod" and len(args) == 2:  # has the sign of the divisor, and % that of the dividend
        return "-", [
            args[0],
            exp.Mul(this=args[1], expression=exp.Floor(this=exp.Div(this=args[0], expression=args[1]))),
        ]
    if name == "dp_clamp" and len(args) == 3:  # of NULL it is NULL, unlike least and greatest
        inside = exp.Greatest(this=args[1], expressions=[exp.Least(this=args[2], expressions=[args[0]])])
        return "case", [exp.Not(this=exp.Is(this=args[0], expression=exp.Null())), inside, exp.Null()]
    if name in ("date_sub", "datesub") and len(args) == 3:
        return difference_of("sub", *args)
    if name in _PARTS and len(args) == 1:
        return part_of(name, args[0])
    if (name, len(args)) in _ALIASES:
        return _ALIASES[name, len(args)], list(args)
    if name in _CLOCKS:
        clock()
    if name in _REFUSED:
        reason, hint = _REFUSED[name]
        raise UnsupportedQuery(reason, hint=hint)
    if name in ENDS:
        refuse_end()
    near = difflib.get_close_matches(name, _KNOWN_NAMES, n=3, cutoff=0.65)
    raise UnknownColumn(
        f"There is no function {name!r:.60} here.", hint=f"perhaps {' or '.join(near)} is meant" if near else REFERENCE
    )


_ALIASES = {
    ("suffix", 2): "ends_with",
    ("ends_with", 2): "ends_with",
    ("prefix", 2): "starts_with",
    ("ord", 1): "unicode",
    ("strlen", 1): "strlen",
    ("isnull", 1): "is null",
    ("add_months", 2): "add_months",
    ("add_days", 2): "add_days",
    ("add_microseconds", 2): "add_microseconds",
}
_PARTS = {"isoyear", "yearweek", "weekday", "decade", "century", "millisecond", "microsecond"}
_CLOCKS = ("now", "get_current_timestamp", "get_current_time", "transaction_timestamp", "current_localtimestamp")
_REFUSED = {
    "age": ("age() is not supported here.", "count whole years: date_sub('year', born, DATE '2024-12-31')"),
    "to_timestamp": ("to_timestamp() is not supported here.", "write TIMESTAMP '1970-01-01' + INTERVAL (n) SECOND"),
    "to_date": ("to_date() is not supported here.", "write CAST(x AS DATE)"),
    "strptime": ("strptime() is not supported here.", "CAST text such as '2024-12-31' to DATE or TIMESTAMP"),
    "printf": ("printf() is not supported here.", "use ||, lpad and round"),
    **{
        name: (f"{name}() makes an interval, which stands only beside + and -.", "write d + INTERVAL (n) MONTH")
        for name in ("to_years", "to_months", "to_weeks", "to_hours", "to_minutes", "to_seconds")
    },
    "bit_count": ("Operations on bits are not supported here.", "use %, // and comparisons of numbers"),
}  # fmt: skip
_KNOWN_NAMES = (
    "abs", "acos", "ascii", "asin", "atan", "atan2", "avg", "cast", "cbrt", "ceil", "coalesce", "concat",
    "concat_ws", "contains", "corr", "cos", "count", "covar_samp", "date_diff", "date_part", "date_sub",
    "date_trunc", "day", "dayname", "dayofweek", "dayofyear", "degrees", "ends_with", "epoch", "exp", "extract",
    "floor", "greatest", "hour", "ifnull", "instr", "isodow", "isoyear", "last_day", "least", "left", "length",
    "ln", "log", "log10", "lower", "lpad", "ltrim", "make_date", "max", "median", "min", "minute", "mod",
    "month", "monthname", "nullif", "pi", "position", "pow", "power", "prefix", "quantile_cont", "quarter",
    "radians", "regexp_extract", "regexp_full_match", "regexp_matches", "regexp_replace", "replace", "right",
    "round", "rpad", "rtrim", "second", "sign", "sin", "split_part", "sqrt", "starts_with", "stddev",
    "strftime", "strlen",
    "strpos", "substr", "substring", "suffix", "sum", "tan", "trim", "trunc", "try_cast", "unicode",
    "upper", "variance", "week", "width_bucket", "year", "yearweek",
)  # fmt: skip
