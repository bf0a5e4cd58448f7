"""Casts, and the parts of times, as other databases have them."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from discreet.plan.dialects.kinds import DialectQuery
from discreet.plan.types import Type

_ALIKE = {
    "YEAR": "YEAR",
    "QUARTER": "QUARTER",
    "MONTH": "MONTH",
    "DAY": "DAY",
    "HOUR": "HOUR",
    "MINUTE": "MINUTE",
}
_SUNDAY_0, _SUNDAY_1 = "DAYOFWEEK", "DAYOFWEEK + 1"
PARTS: dict[str, dict[str, str]] = {
    "postgres": {**_ALIKE, "DOW": _SUNDAY_0, "ISODOW": "ISODOW", "DOY": "DAYOFYEAR", "WEEK": "WEEK"},
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


def extract(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """EXTRACT(part FROM x), DATE_PART('part', x)."""
    return _part(node, node.this.name.upper(), node.expression, reader)


def part_function(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """YEAR(x) and the like; Spark's parser first reads x as a date."""
    if {k for k, v in node.args.items() if v} != {"this"}:
        reader.refuse(node)
    inner = node.this
    if isinstance(inner, exp.TsOrDsToDate) and {k for k, v in inner.args.items() if v} == {"this"}:
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
    if not {k for k, v in node.args.items() if v} <= {"this", "unit", "input_type_preserved"}:
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
    keeps = reader.dialect == "snowflake" or (
        reader.dialect == "bigquery" and isinstance(node, exp.DateTrunc)
    )
    if keeps and kind not in (Type.DATE, Type.TIMESTAMP):
        reader.refuse(
            node,
            "gives a date or a time, after what it is given, which is not clear here",
            "CAST it to DATE first",
        )
    if (keeps and kind is Type.DATE) or (reader.dialect == "spark" and isinstance(node, exp.DateTrunc)):
        return exp.Cast(this=found, to=exp.DataType(this=exp.DataType.Type.DATE))
    return found


def as_date(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """DATE(x), TO_DATE(x)."""
    if not {k for k, v in node.args.items() if v} <= {"this", "safe"}:
        reader.refuse(node)
    if reader.kinds.of(node.this) not in (Type.DATE, Type.TIMESTAMP, Type.TEXT):
        reader.refuse(node, "reads what is no date or text", "CAST it to TIMESTAMP first")
    return exp.Cast(this=reader.read(node.this), to=exp.DataType(this=exp.DataType.Type.DATE))


def cast(node: exp.Expr, reader: DialectQuery) -> exp.Expr:
    """CAST, where it rounds, cuts and spells as here."""
    target = node.args["to"]
    word = target.this.value if isinstance(target.this, exp.DataType.Type) else str(target.this)
    parts = {k for k, v in node.args.items() if v} - {"this", "to", "safe", "requires_string"}
    if isinstance(node.this, exp.IntDiv) and word == "DECIMAL" and reader.dialect == "postgres":
        return reader.read(node.this)  # as the parser reads DIV(a, b)
    whole = reader.dialect == "snowflake" and [e.name for e in target.expressions] == [
        "38",
        "0",
    ]  # NUMBER itself
    if parts or (target.expressions and not whole):
        reader.refuse(node, "rounds or cuts to a size", "cast to a type without a size")
    made = _TARGETS.get((reader.dialect, word)) or _TARGETS.get(("", word))
    if made is None:
        reader.refuse(
            node,
            "has a type that is not answered",
            "cast to a 64-bit number, text, DATE or a time without zone",
        )
    kind = reader.kinds.of(node.this)
    if made == "BIGINT" and not reader.kinds.is_whole(node.this):
        reader.refuse(
            node,
            "rounds in another way in other databases",
            "write CAST(ROUND(x, 0) AS …), or FLOOR, which say how",
        )
    if made == "TEXT" and kind not in (Type.TEXT, Type.INT, Type.DATE, Type.BOOL):
        reader.refuse(node, "may be spelled in another way", "cast whole numbers and dates only")
    if made == "BOOLEAN" and kind not in (Type.INT, Type.BOOL):
        reader.refuse(node, "reads words that others do not", "compare with the words: x = 'yes'")
    return exp.Cast(this=reader.read(node.this), to=exp.DataType.build(made, dialect="duckdb"))


_TARGETS: dict[tuple[str, str], str] = {
    **{("", word): "BIGINT" for word in ("INT", "BIGINT", "SMALLINT", "TINYINT")},
    ("", "DOUBLE"): "DOUBLE",
    ("postgres", "DECIMAL"): "DOUBLE",  # without a size it keeps all digits
    ("snowflake", "FLOAT"): "DOUBLE",  # all of Snowflake's have 64 bits
    ("snowflake", "DECIMAL"): "BIGINT",  # NUMBER without a size is whole
    ("", "TEXT"): "TEXT",
    ("", "VARCHAR"): "TEXT",
    ("", "DATE"): "DATE",
    ("postgres", "TIMESTAMP"): "TIMESTAMP",
    (
        "bigquery",
        "TIMESTAMP",
    ): "TIMESTAMP",  # DATETIME; BigQuery's TIMESTAMP has a zone, and another name in the parser
    ("snowflake", "TIMESTAMP"): "TIMESTAMP",
    ("snowflake", "TIMESTAMPNTZ"): "TIMESTAMP",
    ("spark", "TIMESTAMPNTZ"): "TIMESTAMP",
    ("", "BOOLEAN"): "BOOLEAN",
}

TIMES: dict[type[exp.Expr], Callable[[exp.Expr, DialectQuery], exp.Expr]] = {
    exp.Extract: extract,
    **dict.fromkeys(_FUNCTIONS, part_function),
    exp.DateTrunc: truncate,
    exp.TimestampTrunc: truncate,
    exp.DatetimeTrunc: truncate,
    exp.Date: as_date,
    exp.TsOrDsToDate: as_date,
    exp.Cast: cast,
    exp.TryCast: cast,
}
"""Nodes of times and casts, with their rules."""
