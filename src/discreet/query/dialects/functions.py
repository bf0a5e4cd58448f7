"""What the parts of other spellings mean: the same, or how it is said here, or that it is refused.

Casts, and the parts of times, as other databases have them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp, parse_one

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.dialects.kinds import DialectQuery
from discreet.query.parse import ENDS, refuse_single_rows
from discreet.query.spelling import equal_tuples, listed, symmetric

Rule: TypeAlias = "Callable[[exp.Expr, DialectQuery], exp.Expr]"

_ALIKE = {"YEAR": "YEAR", "QUARTER": "QUARTER", "MONTH": "MONTH", "DAY": "DAY", "HOUR": "HOUR", "MINUTE": "MINUTE"}
_SUNDAY_0, _SUNDAY_1 = "DAYOFWEEK", "DAYOFWEEK + 1"
PARTS: dict[str, dict[str, str]] = {
    "postgres": {**_ALIKE, "EPOCH": "EPOCH", "DOW": _SUNDAY_0, "ISODOW": "ISODOW", "DOY": "DAYOFYEAR", "WEEK": "WEEK"},
    "bigquery": {**_ALIKE, "DAYOFWEEK": _SUNDAY_1, "DAYOFYEAR": "DAYOFYEAR", "ISOWEEK": "WEEK"},
    "snowflake": {
        **_ALIKE,
        **dict.fromkeys(("DOW", "DAYOFWEEK", "WEEKDAY"), _SUNDAY_0),
        **dict.fromkeys(("DAYOFWEEKISO", "DAYOFWEEK_ISO"), "ISODOW"),
        **dict.fromkeys(("DOY", "DAYOFYEAR"), "DAYOFYEAR"),
        **dict.fromkeys(("WEEK", "WEEKISO", "WEEK_ISO", "WEEKOFYEAR"), "WEEK"),
    },
    "spark": {
        **_ALIKE,
        **dict.fromkeys(("DOW", "DAYOFWEEK"), _SUNDAY_1),
        **dict.fromkeys(("DOW_ISO", "DAYOFWEEK_ISO"), "ISODOW"),
        **dict.fromkeys(("DOY", "DAYOFYEAR"), "DAYOFYEAR"),
        **dict.fromkeys(("WEEK", "WEEKOFYEAR"), "WEEK"),
    },
}
"""Dialect → a part's name there → the part here; weeks are of ISO 8601, days of the week count from Sunday."""

_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.Hour: "HOUR",
    exp.Minute: "MINUTE",
    exp.DayOfWeek: "DAYOFWEEK",
    exp.DayOfWeekIso: "DAYOFWEEK_ISO",
    exp.DayOfYear: "DAYOFYEAR",
    exp.Week: "WEEK",
    exp.WeekOfYear: "WEEKOFYEAR",
}
UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")
"""What a time can be truncated to; weeks begin on Monday."""


def _known(*parts: str, marks: tuple[str, ...] = ()) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(parts), frozenset(marks)


_ONE, _TWO, _LIST = _known("this"), _known("this", "expression"), _known("expressions")

_OF_ONE = (exp.From, exp.Where, exp.Having, exp.Qualify, exp.Boolean, exp.Paren, exp.Not, exp.Neg,
    exp.Abs, exp.Floor, exp.Ceil, exp.Sign, exp.Sqrt, exp.Ln, exp.Exp, exp.Lower, exp.Upper, exp.Sum, exp.Avg,
    exp.Sin, exp.Cos, exp.Tan, exp.Radians, exp.Degrees,
    exp.Min, exp.Max, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop, exp.Median)  # fmt: skip
_OF_TWO = (exp.Filter, exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ,
    exp.NullSafeNEQ, exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Pow, exp.Nullif, exp.StartsWith,
    exp.EndsWith, exp.Contains, exp.CovarPop, exp.CovarSamp, exp.RegrSlope,
    exp.RegrIntercept, exp.RegrR2, exp.RegrCount, exp.RegrAvgx, exp.RegrAvgy, exp.RegrSxx, exp.RegrSxy, exp.RegrSyy,
    exp.PercentileCont,
    exp.PercentileDisc)  # fmt: skip
_OF_LIST = (exp.With, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Order, exp.Tuple)
_BARE = (exp.Star, exp.Null, exp.RowNumber, exp.Rank, exp.DenseRank)

NEUTRAL: dict[type[exp.Expr], tuple[frozenset[str], frozenset[str]]] = {
    **dict.fromkeys(_OF_ONE, _ONE),
    **dict.fromkeys(_OF_TWO, _TWO),
    **dict.fromkeys(_OF_LIST, _LIST),
    **dict.fromkeys(_BARE, _known()),
    exp.Distinct: _known("expressions", "on"),
    exp.Select: _known(
        *("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "with_"),
        *("distinct", "qualify"),
    ),
    exp.Union: _known("this", "expression", "distinct", "with_", "order", "limit"),
    exp.ApproxDistinct: _ONE,
    exp.Unnest: _known("expressions", "alias"),
    exp.Array: _known("expressions", marks=("value_constructor", "struct_name_inheritance")),
    exp.Values: _known("expressions", "alias"),
    exp.GenerateSeries: _known("start", "end", "step"),
    exp.CTE: _known("this", "alias"),
    exp.Subquery: _known("this", "alias"),
    exp.TableAlias: _known("this", "columns"),
    exp.Table: _known("this", "alias", "db", "catalog"),
    exp.Join: _known("this", "side", "kind", "on", "using"),
    exp.Group: _known("expressions", "all", "rollup", "cube", "grouping_sets"),
    exp.Ordered: _known("this", "desc", "nulls_first"),
    exp.Limit: _known("expression"),
    exp.Offset: _known("expression"),
    exp.Alias: _known("this", "alias"),
    exp.Column: _known("this", "table", "db", "catalog"),
    exp.Identifier: _known("this", marks=("quoted",)),
    exp.Literal: _known("this", "is_string"),
    exp.Window: _known("this", "partition_by", "order", "spec", "over"),
    exp.WindowSpec: _known("kind", "start", "start_side", "end", "end_side"),
    exp.Lag: _known("this", "offset", "default"),
    exp.Lead: _known("this", "offset", "default"),
    exp.FirstValue: _ONE,
    exp.LastValue: _ONE,
    exp.Ntile: _ONE,
    exp.SplitPart: _known("this", "delimiter", "part_index"),
    exp.WidthBucket: _known("this", "min_value", "max_value", "num_buckets"),
    exp.In: _known("this", "expressions", "query"),
    exp.Between: _known("this", "low", "high", "symmetric"),
    exp.Trunc: _known("this", marks=("fractions_supported",)),
    exp.Coalesce: _known("this", "expressions", marks=("is_nvl", "is_null")),
    exp.Case: _known("this", "ifs", "default"),
    exp.Length: _known("this", marks=("binary",)),  # of a text it counts letters everywhere
    exp.Replace: _known("this", "expression", "replacement"),
    exp.Count: _known("this", marks=("big_int",)),
    exp.CountIf: _known("this", marks=("zero_on_all_null",)),
    exp.Corr: _known("this", "expression", marks=("null_on_zero_variance",)),
}
"""Nodes that mean the same everywhere: the parts that they may have, and the marks that say nothing here."""

PASSED = (exp.Rand, exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.Uuid)
"""Nodes that the reader of queries refuses in its own words."""


def _parts(node: exp.Expr) -> set[str]:
    return {k for k, v in node.args.items() if v}


def _arm(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """WHEN … THEN inside CASE; IF(c, a, b) and IFF elsewhere."""
    if not _parts(node) <= {"this", "true", "false"}:
        reader.refuse(node)
    condition, value = reader.read(node.this), reader.read(node.args["true"])
    arm = exp.If(this=condition, true=value)
    if isinstance(node.parent, exp.Case) and node.arg_key == "ifs":
        return arm
    otherwise = node.args.get("false")
    return exp.Case(ifs=[arm], default=None if otherwise is None else reader.read(otherwise))


def _nvl2(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    known = exp.Not(this=exp.Is(this=reader.read(node.this), expression=exp.Null()))
    arm = exp.If(this=known, true=reader.read(node.args["true"]))
    otherwise = node.args.get("false")
    return exp.Case(ifs=[arm], default=None if otherwise is None else reader.read(otherwise))


def _divide(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    left, right = reader.read(node.this), reader.read(node.expression)
    if reader.dialect == "postgres":
        kind = reader.kinds.of(node)
        if kind is None:
            reader.refuse(
                node,
                "drops the fraction if both numbers are whole, which is not clear here",
                "write CAST(a AS DOUBLE PRECISION) / b, or DIV(a, b) to drop it",
            )
        if kind is Type.INT:
            return exp.IntDiv(this=left, expression=right)
    return exp.Div(this=left, expression=right)


def _whole_divide(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    if {reader.kinds.of(node.this), reader.kinds.of(node.expression)} != {Type.INT}:
        reader.refuse(node, "is supported for whole numbers", "CAST(FLOOR(a / b) AS …) says how others are rounded")
    return exp.IntDiv(this=reader.read(node.this), expression=reader.read(node.expression))


def _round(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    if not _parts(node) <= {"this", "decimals", "casts_non_integer_decimals"}:
        reader.refuse(node)
    digits = node.args.get("decimals")
    if reader.dialect == "postgres" and digits is None and reader.kinds.of(node.this) is not Type.INT:
        reader.refuse(
            node, "rounds halves to even or away from zero, after the type of the number", "write ROUND(x, 0)"
        )
    value = reader.read(node.this)
    if digits is None or digits == exp.Literal.number(0):
        return exp.Round(this=value)
    return exp.Round(this=value, decimals=reader.read(digits))


def _log(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    base = node.args.get("expression")
    if base is None and reader.dialect != "postgres":
        reader.refuse(node, "has another base in other databases", "write LN(x) or LOG10(x)")
    if base is None:
        return exp.Log(this=exp.Literal.number(10), expression=reader.read(node.this))
    return exp.Log(this=reader.read(node.this), expression=reader.read(base))


def _extreme(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """LEAST and GREATEST: of NULL and others NULL in BigQuery and Snowflake, the others' elsewhere."""
    args = [reader.read(e) for e in (node.this, *node.expressions)]
    found: exp.Expr = type(node)(this=args[0], expressions=args[1:], ignore_nulls=True)  # as DuckDB has it
    if node.args.get("ignore_nulls") or reader.dialect in ("postgres", "spark"):
        return found
    unknown: exp.Expr = exp.Is(this=args[0].copy(), expression=exp.Null())
    for e in args[1:]:
        unknown = exp.Or(this=unknown, expression=exp.Is(this=e.copy(), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=unknown, true=exp.Null())], default=found)


def _concat(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """CONCAT: NULL is passed over in PostgreSQL, and makes NULL elsewhere."""
    parts = [_as_text(e, reader) for e in node.expressions]
    if reader.dialect == "postgres":
        return exp.Concat(expressions=parts, coalesce=True)  # NULL is nothing
    joined = parts[0]
    for part in parts[1:]:
        joined = exp.DPipe(this=joined, expression=part)
    return joined


def _as_text(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    if reader.kinds.of(node) not in (Type.TEXT, Type.INT) and not isinstance(node, exp.Null):
        reader.refuse(node, "may be spelled in another way when it becomes text", "join texts and whole numbers only")
    return reader.read(node)


def _like(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    pattern = node.expression
    if not _parts(node) <= {"this", "expression", "negate"} or not isinstance(pattern, exp.Literal):
        reader.refuse(node, "has no pattern that is written out", "write the pattern as a text")
    if "\\" in pattern.name:
        reader.refuse(node, "has a backslash, by which databases escape or do not", "use starts_with or contains")
    made = type(node)(this=reader.read(node.this), expression=pattern.copy())
    if node.args.get("negate"):
        made.set("negate", True)
    return made


def _trim(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    if _parts(node) != {"this"} or reader.dialect == "bigquery":
        reader.refuse(node, "does not cut off spaces alone", "ask in DuckDB's dialect: TRIM there cuts off spaces")
    return exp.Trim(this=reader.read(node.this))


def _substring(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    start, length = node.args.get("start"), node.args.get("length")
    if not _natural(start, 1) or not (length is None or _natural(length, 0)):
        reader.refuse(
            node, "counts from a place that databases disagree on", "write a first place from 1 up, and a length"
        )
    made = exp.Substring(this=reader.read(node.this), start=start.copy())  # type: ignore[union-attr]  # it is a number
    if length is not None:
        made.set("length", length.copy())
    return made


def _end(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    if not _natural(node.expression, 0):
        reader.refuse(node, "has a length that databases disagree on", "write a whole number from 0 up")
    return type(node)(this=reader.read(node.this), expression=node.expression.copy())


def _natural(node: exp.Expr | None, least: int) -> bool:
    digits = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    return digits and int(node.name) >= least  # type: ignore[union-attr]  # it is a literal


def _either(word: str) -> Rule:
    def rule(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
        return exp.Anonymous(this=word, expressions=[reader.read(node.this)])

    return rule


def _is(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """IS NULL, IS TRUE, and with NOT, which some parsers note on the node."""
    if not _parts(node) <= {"this", "expression", "negate"}:
        reader.refuse(node)
    made = exp.Is(this=reader.read(node.this), expression=reader.read(node.expression))
    return exp.Not(this=made) if node.args.get("negate") else made


def _exists(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    return exp.Exists(this=reader.read(node.this)) if _parts(node) == {"this"} else reader.refuse(node)


def _last_day(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    return exp.LastDay(this=reader.read(node.this)) if _parts(node) == {"this"} else reader.refuse(node)


def _spelled(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """FORMAT_DATE, DATE_FORMAT and TO_CHAR, of a date or time."""
    form, moment = node.args.get("format"), node.this
    while isinstance(moment, _AS_MOMENT) and _parts(moment) == {"this"}:
        moment = moment.this
    if reader.kinds.of(moment) in (Type.DATE, Type.TIMESTAMP) and _parts(node) == {"this", "format"}:
        if reader.dialect == "postgres":  # whose format the parser has put into another spelling, not knowing all of it
            form = parse_one(node.sql(dialect="postgres"), dialect="duckdb").args.get("format")
        whole = re.sub(r"(%\w)strict", r"\1", form.name) if isinstance(form, exp.Literal) else ""
        if reader.dialect == "postgres" or (isinstance(node, exp.ToChar) and _PARTS.fullmatch(whole)):
            return exp.Anonymous(this="TO_CHAR", expressions=[reader.read(moment), exp.Literal.string(whole)])
        if isinstance(node, exp.TimeToStr) and _FORMAT.fullmatch(whole):
            return exp.TimeToStr(this=reader.read(moment), format=exp.Literal.string(whole))
    reader.refuse(
        node,
        "may be spelled in another way",
        "of a date or time, years, months, days, hours, minutes and seconds are read",
    )


_AS_MOMENT = (exp.TsOrDsToDate, exp.TsOrDsToTimestamp, exp.TsOrDsToDatetime, exp.TimeStrToTime)
_FORMAT = re.compile("(?:%[YymdHMSj]|[^%A-Za-z])+")
_PARTS = re.compile("(?:YYYY|MM|DD|HH24|MI|SS|[^A-Za-z])+")


def _difference(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """Days between dates: what databases agree on; other units count borders in some and whole ones in others."""
    unit = node.args.get("unit")
    name = "DAY" if unit is None else unit.name.upper()
    ends = [e.this if isinstance(e, exp.TsOrDsToDate) else e for e in (node.this, node.expression)]
    days = all(reader.kinds.of(e) is Type.DATE for e in ends)
    borders = reader.dialect in ("snowflake", "bigquery") and bool(node.args.get("date_part_boundary"))
    if not _parts(node) <= {"this", "expression", "unit", "date_part_boundary"}:
        reader.refuse(node)
    if not (name == "DAY" and days) and not (borders and name in ("YEAR", "QUARTER", "MONTH", "DAY")):
        reader.refuse(node, "may count in another way", "days between two dates are read: CAST both to DATE")
    return exp.DateDiff(
        this=reader.read(ends[0]), expression=reader.read(ends[1]), unit=exp.Var(this=name), date_part_boundary=True
    )


def _moved(sign: int) -> Rule:
    """DATE_ADD, DATEADD, DATE_SUB: a time and a number of units."""

    def rule(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
        moment, count, unit = node.this, node.expression, node.args.get("unit")
        if isinstance(moment, exp.TsOrDsToDate) and _parts(moment) == {"this"}:
            moment = moment.this
        if isinstance(count, exp.Interval):
            count, unit = count.this, count.args.get("unit")
        name, kind = _unit(unit), reader.kinds.of(moment)
        if (
            not _parts(node) <= {"this", "expression", "unit"}
            or name is None
            or kind not in (Type.DATE, Type.TIMESTAMP)
        ):
            reader.refuse(node, "may count in another way", "write x + INTERVAL '3' DAY, of a date or time")
        whole = isinstance(count, exp.Literal) and count.name.isdigit()
        if not whole and reader.kinds.of(count) is not Type.INT:
            reader.refuse(node, "may count in another way", "add a whole number of units")
        number = exp.Literal.string(count.name) if whole else exp.Paren(this=reader.read(count))
        step = exp.Interval(this=number, unit=exp.Var(this=name))
        made = (exp.Add if sign > 0 else exp.Sub)(this=exp.Paren(this=reader.read(moment)), expression=step)
        if kind is Type.DATE and name in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY"):
            return exp.Cast(this=made, to=exp.DataType(this=exp.DataType.Type.DATE))
        return exp.Paren(this=made)

    return rule


def _interval(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """INTERVAL '3' DAY, INTERVAL '3 months': a written whole number of units."""
    name, count = _unit(node.args.get("unit")), node.this
    if (
        _parts(node) != {"this", "unit"}
        or name is None
        or not isinstance(count, exp.Literal)
        or not count.name.isdigit()
    ):
        reader.refuse(node, "is no whole number of units", "write INTERVAL '3' MONTH")
    return exp.Interval(this=exp.Literal.string(count.name), unit=exp.Var(this=name))


def _unit(unit: exp.Expr | None) -> str | None:
    name = "" if unit is None else unit.name.upper().removesuffix("S")
    return name if name in (*UNITS, "SECOND") else None


def _safe(kind: type[exp.Expr]) -> Rule:
    """SAFE_ADD(a, b) and the like: an error is NULL in any case."""

    def rule(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
        left, right = (exp.Paren(this=reader.read(e)) for e in (node.this, node.expression))
        return exp.Paren(this=kind(this=left, expression=right))

    return rule


def _position(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    if _parts(node) - {"clamp_position"} != {"this", "substr"}:
        reader.refuse(node)
    return exp.StrPosition(this=reader.read(node.this), substr=reader.read(node.args["substr"]))


def _percentile(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x)."""
    inner, order = node.this, node.expression
    match inner, order:
        case exp.PercentileCont() | exp.PercentileDisc(), exp.Order(expressions=[term]) if not term.args.get("desc"):
            if _parts(inner) == {"this"}:
                return type(inner)(this=reader.read(term.this), expression=reader.read(inner.this))
    reader.refuse(node)


def _quantile(kind: type[exp.Expr]) -> Rule:
    """Spark's percentile(x, p), which lies between values, and percentile_approx(x, p), which is one."""

    def rule(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
        if _parts(node) != {"this", "quantile"} or reader.dialect != "spark":
            reader.refuse(node)
        return kind(this=reader.read(node.this), expression=reader.read(node.args["quantile"]))

    return rule


def _one_of_quantiles(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """BigQuery's APPROX_QUANTILES(x, n)[OFFSET(i)]: the quantile of i / n, and the least and the largest value."""
    match node.this, node.expressions:
        case exp.ApproxQuantiles(this=value, expression=exp.Literal(is_string=False) as of), [exp.Literal() as at]:
            place, parts = int(at.name) - int(node.args.get("offset") or 0), int(of.name)
            if place in (0, parts):
                return (exp.Max if place else exp.Min)(this=reader.read(value))
            if 0 < place < parts:
                share = exp.Literal.number(f"{place / parts:.15g}")
                return exp.PercentileDisc(this=reader.read(value), expression=share)
    reader.refuse(node)


def _units_between(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """BigQuery's TIMESTAMP_DIFF, which counts whole units, and DATETIME_DIFF, which counts borders."""
    unit = node.args["unit"].name.upper()
    whole = node.key == "timestampdiff"
    known = (
        ("DAY", "HOUR", "MINUTE", "SECOND")
        if whole
        else ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
    )
    moments = all(reader.kinds.of(e) is Type.TIMESTAMP for e in (node.this, node.expression))
    if unit not in known or not moments or not _parts(node) <= {"this", "expression", "unit", "date_part_boundary"}:
        reader.refuse(node, "may count in another way", f"of two times, {', '.join(known)} are read")
    start, end, name = reader.read(node.expression), reader.read(node.this), exp.Literal.string(unit.lower())
    if whole:
        return exp.Anonymous(this="DATE_SUB", expressions=[name, start, end])
    return exp.DateDiff(this=end, expression=start, unit=exp.Var(this=unit), date_part_boundary=True)


def _as_time(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """BigQuery's TIMESTAMP(x) of a date or time."""
    if not _parts(node) <= {"this", "with_tz"} or reader.kinds.of(node.this) not in (Type.DATE, Type.TIMESTAMP):
        reader.refuse(node, "reads what is no date or time", "CAST it to DATETIME first")
    return exp.Cast(this=reader.read(node.this), to=exp.DataType.build("TIMESTAMP", dialect="duckdb"))


def _single_rows(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """Refuse aggregates that would show values of single rows."""
    refuse_single_rows(node.sql(reader.dialect).partition("(")[0].upper())


def _lateral(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    raise UnsupportedQuery(
        "LATERAL is not supported here.", hint="GROUP BY the column in a subquery of FROM, and join it"
    )


def _window(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """Read a window; Snowflake's RATIO_TO_REPORT(x) OVER (…) is x / SUM(x) OVER (…)."""
    function = node.this
    if function.key != "anonymous" or function.name.upper() != "RATIO_TO_REPORT" or len(function.expressions) != 1:
        return reader.rebuilt(node)
    summed = node.copy()
    summed.set("this", exp.Sum(this=function.expressions[0].copy()))
    return exp.Div(this=exp.Paren(this=reader.read(function.expressions[0])), expression=reader.rebuilt(summed))


def _ours(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """Functions that only private databases have."""
    if node.name.lower() == "age" and len(node.expressions) == 2 and node.find_ancestor(exp.Extract):
        return exp.Anonymous(this="age", expressions=[reader.read(e) for e in node.expressions])
    if node.name.lower() == "age":
        years = "count years: EXTRACT(YEAR FROM a) - EXTRACT(YEAR FROM b), or days between two dates"
        reader.refuse(node, "is an interval of years, months and days, which is not supported", years)
    if node.name.lower() not in (*ENDS, "sum_within", "count_within", "dp_clamp"):
        reader.refuse(node)
    return exp.Anonymous(this=node.name, expressions=[reader.read(e) for e in node.expressions])


def _unequal(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """Snowflake's parser reads x NOT IN (SELECT …) as x <> ALL (SELECT …), which is the same in all of them."""
    match node.expression:
        case exp.All(this=exp.Select() as inner) | exp.All(this=exp.Subquery(this=exp.Select() as inner)):
            return exp.Not(this=exp.In(this=reader.read(node.this), query=exp.Subquery(this=reader.read(inner))))
        case exp.All():
            reader.refuse(node)
    return reader.rebuilt(node)


def extract(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """EXTRACT(part FROM x), DATE_PART('part', x)."""
    return _part(node, node.this.name.upper(), node.expression, reader)


def part_function(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """YEAR(x) and the like; Spark's parser first reads x as a date."""
    if _parts(node) != {"this"}:
        reader.refuse(node)
    inner = node.this
    if isinstance(inner, exp.TsOrDsToDate) and _parts(inner) == {"this"}:
        inner = inner.this
    return _part(node, _FUNCTIONS[type(node)], inner, reader)


def _part(node: exp.Expr, name: str, argument: exp.Expr, reader: DialectQuery) -> exp.Expr:
    part = PARTS[reader.dialect].get(name)
    if part is None:
        reader.refuse(
            node,
            "is a part of a time that counts in another way here",
            f"parts that mean the same are {', '.join(sorted(PARTS[reader.dialect]))}",
        )
    word, plus, _ = part.partition(" + ")
    found: exp.Expr = exp.Extract(this=exp.Var(this=word), expression=reader.read(argument))
    return exp.Paren(this=exp.Add(this=found, expression=exp.Literal.number(1))) if plus else found


def truncate(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """DATE_TRUNC in its spellings: a time, or a date where the database gives one."""
    if not _parts(node) <= {"this", "unit", "input_type_preserved"}:
        reader.refuse(node)
    unit = node.args["unit"]
    name = unit.name.upper()
    if reader.dialect == "bigquery":
        monday = type(unit).__name__ == "WeekStart" and name == "MONDAY"
        name = "WEEK" if monday or name == "ISOWEEK" else "SUNDAY" if name in ("WEEK", "SUNDAY") else name
    if name not in UNITS:
        reader.refuse(
            node,
            "begins at a time that others do not",
            f"units are {', '.join(UNITS)}; in BigQuery a week from Monday is ISOWEEK",
        )
    found: exp.Expr = exp.TimestampTrunc(this=reader.read(node.this), unit=exp.Var(this=name))
    kind = reader.kinds.of(node.this)
    keeps = reader.dialect == "snowflake" or (reader.dialect == "bigquery" and isinstance(node, exp.DateTrunc))
    if keeps and kind not in (Type.DATE, Type.TIMESTAMP):
        reader.refuse(
            node, "gives a date or a time, after what it is given, which is not clear here", "CAST it to DATE first"
        )
    if (keeps and kind is Type.DATE) or (reader.dialect == "spark" and isinstance(node, exp.DateTrunc)):
        return exp.Cast(this=found, to=exp.DataType(this=exp.DataType.Type.DATE))
    return found


def as_date(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """DATE(x), TO_DATE(x)."""
    if not _parts(node) <= {"this", "safe"}:
        reader.refuse(node)
    if reader.kinds.of(node.this) not in (Type.DATE, Type.TIMESTAMP, Type.TEXT):
        reader.refuse(node, "reads what is no date or text", "CAST it to TIMESTAMP first")
    return exp.Cast(this=reader.read(node.this), to=exp.DataType(this=exp.DataType.Type.DATE))


def cast(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """CAST, where it rounds, cuts and spells as here."""
    target = node.args["to"]
    word = target.this.value if isinstance(target.this, exp.DataType.Type) else str(target.this)
    parts = _parts(node) - {"this", "to", "safe", "requires_string"}
    if isinstance(node.this, exp.IntDiv) and word == "DECIMAL" and reader.dialect == "postgres":
        return reader.read(node.this)  # as the parser reads DIV(a, b)
    if word == "DECIMAL" and not parts and (target.expressions or reader.dialect in ("bigquery", "spark")):
        return _decimal(node, reader)
    whole = reader.dialect == "snowflake" and [e.name for e in target.expressions] == ["38", "0"]  # NUMBER itself
    if parts or (target.expressions and not whole):
        reader.refuse(node, "rounds or cuts to a size", "cast to a type without a size")
    made = _TARGETS.get((reader.dialect, word)) or _TARGETS.get(("", word))
    if made is None:
        reader.refuse(
            node, "has a type that is not supported", "cast to a 64-bit number, text, DATE or a time without zone"
        )
    kind = reader.kinds.of(node.this)
    if made == "BIGINT" and kind is Type.TEXT and reader.dialect == "bigquery":
        return _whole_text(reader.read(node.this))
    if made == "BIGINT" and not reader.kinds.is_whole(node.this):
        rounded = _WHOLE.get(reader.dialect) if reader.kinds.is_number(node.this) else None
        if rounded is None:
            reader.refuse(
                node,
                "may round in another way in other databases",
                "write CAST(ROUND(x, 0) AS …), or FLOOR, which say how",
            )
        return exp.Cast(this=rounded(reader.read(node.this)), to=exp.DataType.build("BIGINT", dialect="duckdb"))
    if made == "TEXT" and kind not in (Type.TEXT, Type.INT, Type.DATE, Type.BOOL):
        reader.refuse(node, "may be spelled in another way", "cast whole numbers and dates only")
    if made == "BOOLEAN" and kind not in (Type.INT, Type.BOOL):
        reader.refuse(node, "reads words that others do not", "compare with the words: x = 'yes'")
    return exp.Cast(this=reader.read(node.this), to=exp.DataType.build(made, dialect="duckdb"))


_TARGETS: dict[tuple[str, str], str] = {
    **{("", word): "BIGINT" for word in ("INT", "BIGINT", "SMALLINT", "TINYINT")},
    ("", "DOUBLE"): "DOUBLE",
    ("", "FLOAT"): "DOUBLE",  # numbers are doubles here
    ("postgres", "DECIMAL"): "DOUBLE",  # without a size it keeps all digits
    ("snowflake", "DECIMAL"): "BIGINT",  # NUMBER without a size is whole
    ("", "TEXT"): "TEXT",
    ("", "VARCHAR"): "TEXT",
    ("", "DATE"): "DATE",
    ("postgres", "TIMESTAMP"): "TIMESTAMP",
    ("bigquery", "TIMESTAMP"): "TIMESTAMP",  # DATETIME; BigQuery's TIMESTAMP has a zone, and another name in the parser
    ("snowflake", "TIMESTAMP"): "TIMESTAMP",
    ("snowflake", "TIMESTAMPNTZ"): "TIMESTAMP",
    ("spark", "TIMESTAMPNTZ"): "TIMESTAMP",
    ("", "BOOLEAN"): "BOOLEAN",
}


def _decimal(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """CAST to DECIMAL(p, s), which rounds halves away from zero in all of them."""
    sizes = [e.name for e in node.args["to"].expressions] or (["10", "0"] if reader.dialect == "spark" else [])
    if sizes == ["38", "0"] and reader.kinds.is_whole(node.this):
        return exp.Cast(this=reader.read(node.this), to=exp.DataType.build("BIGINT", dialect="duckdb"))
    if not reader.kinds.is_number(node.this) and reader.kinds.of(node.this) is not Type.TEXT:
        reader.refuse(node, "may round in another way", "CAST numbers")
    written = f"DECIMAL({', '.join([*sizes, '0'][:2])})" if sizes else "DOUBLE"
    return exp.Cast(this=reader.read(node.this), to=exp.DataType.build(written, dialect="duckdb"))


def _unnest(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """UNNEST(list) AS x, where x is the column: BigQuery has no name for the table."""
    made = reader.rebuilt(node)
    alias = made.args.get("alias")
    if alias is not None and alias.args.get("this") is None:
        alias.set("this", exp.to_identifier("unnest"))
    return made


def _run(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """generate_series in FROM."""
    if not _parts(node) <= {"start", "end", "step"}:
        reader.refuse(node)
    return exp.GenerateSeries(**{name: reader.read(node.args[name]) for name in sorted(_parts(node))})


def _fetch(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """FETCH FIRST n ROWS ONLY, which is LIMIT n."""
    options = node.args.get("limit_options")
    if node.args.get("count") is None or (options is not None and not _parts(options) <= {"rows"}):
        reader.refuse(node)
    return exp.Limit(expression=reader.read(node.args["count"]))


def _whole_text(text: exp.Expr) -> exp.Expr:
    """CAST of a text to a whole number, which is an error where the text is none, and so NULL here."""
    whole = exp.RegexpFullMatch(this=text.copy(), expression=exp.Literal.string(r"\s*[+-]?[0-9]+\s*"))
    number = exp.Cast(this=text, to=exp.DataType.build("BIGINT", dialect="duckdb"))
    return exp.Case(ifs=[exp.If(this=whole, true=number)])


def _time_trunc(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """TIME_TRUNC(PARSE_TIME(format, text), HOUR): a time of day as the text HH:MM:SS, for formats of %H %I %M %S %p."""
    parsed, unit = node.this, str(node.args["unit"].name).upper()
    if (
        not isinstance(parsed, exp.ParseTime)
        or unit not in _OF_DAY
        or not isinstance(parsed.args["format"], exp.Literal)
    ):
        reader.refuse(node)
    pattern, places = "", list[str]()
    written = re.split(r"%(.)", str(parsed.args["format"].name))
    for i, part in enumerate(written):
        if i % 2 and part not in _TIME_PARTS:
            reader.refuse(node)
        if i % 2:
            places.append(part)
        pattern += f"({_TIME_PARTS[part]})" if i % 2 else re.escape(part).replace("\\ ", r"\s*")
    if len(set(places)) != len(places) or not ({"H"} <= set(places) or {"I", "p"} <= set(places)):
        reader.refuse(node)
    text, number = reader.read(parsed.this), exp.DataType.build("BIGINT", dialect="duckdb")

    def found(part: str) -> exp.Expr:
        return exp.RegexpExtract(
            this=text.copy(),
            expression=exp.Literal.string(f"^{pattern}$"),
            group=exp.Literal.number(places.index(part) + 1),
        )

    def two(of: exp.Expr) -> exp.Expr:
        return exp.Pad(this=of, expression=exp.Literal.number(2), fill_pattern=exp.Literal.string("0"), is_left=True)

    if "H" in places:
        hour: exp.Expr = found("H")
    else:
        clock = exp.Paren(this=exp.Mod(this=exp.Cast(this=found("I"), to=number), expression=exp.Literal.number(12)))
        late = exp.EQ(this=exp.Lower(this=found("p")), expression=exp.Literal.string("pm"))
        after = exp.Case(ifs=[exp.If(this=late, true=exp.Literal.number(12))], default=exp.Literal.number(0))
        hour = exp.cast(exp.Paren(this=exp.Add(this=clock, expression=after)), exp.DataType.Type.TEXT)
    shown: list[exp.Expr] = [two(hour)]
    for part, smallest in (("M", "MINUTE"), ("S", "SECOND")):
        kept = part in places and _OF_DAY.index(unit) >= _OF_DAY.index(smallest)
        shown += [exp.Literal.string(":"), two(found(part)) if kept else exp.Literal.string("00")]
    matched = exp.RegexpFullMatch(this=text.copy(), expression=exp.Literal.string(pattern))
    joined = functools.reduce(lambda x, y: exp.DPipe(this=x, expression=y), shown)
    return exp.Case(ifs=[exp.If(this=matched, true=joined)])


_OF_DAY = ("HOUR", "MINUTE", "SECOND")
_TIME_PARTS = {
    "H": "[01]?[0-9]|2[0-3]",
    "I": "0?[1-9]|1[0-2]",
    "M": "[0-5]?[0-9]",
    "S": "[0-5]?[0-9]",
    "p": "[AaPp][Mm]",
}
"""The parts of a time of day, as regular expressions."""

_WHOLE: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "postgres": lambda x: x,  # halves of a double go to even, as in DuckDB
    "bigquery": lambda x: exp.Round(this=x),  # away from zero
    "snowflake": lambda x: exp.Round(this=x),
    "spark": lambda x: exp.Trunc(this=x),
}
"""How a double becomes a whole number."""

TIMES: dict[type[exp.Expr], Callable[[exp.Expr, DialectQuery], exp.Expr]] = {
    exp.Extract: extract,
    **dict.fromkeys(_FUNCTIONS, part_function),
    exp.DateTrunc: truncate,
    exp.TimestampTrunc: truncate,
    exp.DatetimeTrunc: truncate,
    exp.Fetch: _fetch,
    exp.Unnest: _unnest,
    exp.ExplodingGenerateSeries: _run,
    exp.TimeTrunc: _time_trunc,
    exp.Date: as_date,
    exp.TsOrDsToDate: as_date,
    exp.Cast: cast,
    exp.TryCast: cast,
}
"""Nodes of times and casts, with their rules."""

RULES: dict[type[exp.Expr], Rule] = {
    exp.If: _arm,
    exp.Nvl2: _nvl2,
    exp.Div: _divide,
    exp.SafeDivide: _safe(exp.Div),
    exp.In: lambda node, of: listed(made := of.rebuilt(node), exp.EQ) or made,
    exp.EQ: lambda node, of: equal_tuples(made := of.rebuilt(node), exp.EQ) or made,
    exp.Between: lambda node, of: symmetric(made := of.rebuilt(node)) or made,
    exp.SafeAdd: _safe(exp.Add),
    exp.SafeSubtract: _safe(exp.Sub),
    exp.SafeMultiply: _safe(exp.Mul),
    exp.SafeNegate: lambda node, of: exp.Paren(this=exp.Neg(this=exp.Paren(this=of.read(node.this)))),
    exp.Is: _is,
    exp.Exists: _exists,
    exp.LastDay: _last_day,
    exp.TimeToStr: _spelled,
    exp.ToChar: _spelled,
    exp.DateDiff: _difference,
    exp.Interval: _interval,
    **dict.fromkeys((exp.DateAdd, exp.DatetimeAdd, exp.TimestampAdd, exp.TsOrDsAdd), _moved(1)),
    **dict.fromkeys((exp.DateSub, exp.DatetimeSub, exp.TimestampSub), _moved(-1)),
    exp.SafeFunc: lambda node, of: of.read(node.this),  # an error is NULL in any case
    exp.IntDiv: _whole_divide,
    exp.Round: _round,
    exp.Log: _log,
    exp.Least: _extreme,
    exp.Greatest: _extreme,
    exp.Concat: _concat,
    exp.DPipe: lambda node, of: exp.DPipe(this=_as_text(node.this, of), expression=_as_text(node.expression, of)),
    exp.Like: _like,
    exp.ILike: _like,
    exp.Trim: _trim,
    exp.Substring: _substring,
    exp.Left: _end,
    exp.Right: _end,
    exp.StrPosition: _position,
    exp.ApproxQuantiles: lambda node, of: exp.Anonymous(
        this="APPROX_QUANTILES", expressions=[of.read(node.this), of.read(node.expression)]
    ),
    exp.LogicalOr: _either("BOOL_OR"),
    exp.LogicalAnd: _either("BOOL_AND"),
    exp.WithinGroup: _percentile,
    exp.Quantile: _quantile(exp.PercentileCont),
    exp.ApproxQuantile: _quantile(exp.PercentileDisc),
    exp.Bracket: _one_of_quantiles,
    exp.TimestampDiff: _units_between,
    exp.DatetimeDiff: _units_between,
    exp.Timestamp: _as_time,
    exp.Window: _window,
    exp.Lateral: _lateral,
    **dict.fromkeys((exp.AnyValue, exp.ArrayAgg, exp.GroupConcat, exp.First, exp.Last), _single_rows),
    exp.EqualNull: lambda node, of: exp.NullSafeEQ(this=of.read(node.this), expression=of.read(node.expression)),
    exp.NEQ: _unequal,
    exp.Anonymous: _ours,
    **TIMES,
}
"""Nodes that are said in another way, or whose meaning depends on the dialect."""
