"""Functions that the parser leaves as names."""

from __future__ import annotations

import difflib

from sqlglot import exp

from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.query.parse import ENDS, refuse_end
from discreet.query.syntax.moments import difference_of, part_of
from discreet.query.syntax.refusals import REFERENCE, clock
from discreet.query.syntax.rules import Applied


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
    near = difflib.get_close_matches(name, _KNOWN_NAMES, n=3, cutoff=0.7)
    raise UnknownColumn(
        f"There is no function {name!r:.60} here.", hint=f"perhaps {' or '.join(near)} is meant" if near else REFERENCE
    )


_ALIASES = {
    ("suffix", 2): "ends_with",
    ("ends_with", 2): "ends_with",
    ("prefix", 2): "starts_with",
    ("ord", 1): "unicode",
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
    "concat_ws", "contains", "cos", "count", "date_diff", "date_part", "date_sub", "date_trunc", "day", "dayname",
    "dayofweek", "dayofyear", "degrees", "ends_with", "epoch", "exp", "extract", "floor", "greatest", "hour",
    "ifnull", "instr", "isodow", "isoyear", "last_day", "least", "left", "length", "ln", "log", "log10", "lower",
    "lpad", "ltrim", "make_date", "minute", "mod", "month", "monthname", "nullif", "pi", "position", "pow", "power",
    "prefix", "quarter", "radians", "regexp_extract", "regexp_full_match", "regexp_matches", "regexp_replace",
    "replace", "right", "round", "rpad", "rtrim", "second", "sign", "sin", "split_part", "sqrt", "starts_with",
    "strftime", "strpos", "substr", "substring", "suffix", "sum", "tan", "trim", "trunc", "try_cast", "unicode",
    "upper", "week", "width_bucket", "year", "yearweek",
)  # fmt: skip
