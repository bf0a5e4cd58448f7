"""Dates and times as they are written: parts, truncation, intervals, differences."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Never

from sqlglot import exp

from discreet.errors import UnsupportedQuery
from discreet.query.functions.calendar import DIFFERENCES
from discreet.query.functions.time import PARTS, UNITS
from discreet.query.syntax.refusals import nothing_but, refuse
from discreet.query.syntax.rules import Applied

_STEPS: dict[str, tuple[str, int]] = {
    "MICROSECOND": ("add_microseconds", 1),
    "MILLISECOND": ("add_microseconds", 1000),
    "SECOND": ("add_microseconds", 1_000_000),
    "MINUTE": ("add_microseconds", 60_000_000),
    "HOUR": ("add_microseconds", 3_600_000_000),
    "DAY": ("add_days", 1),
    "WEEK": ("add_days", 7),
    "MONTH": ("add_months", 1),
    "QUARTER": ("add_months", 3),
    "YEAR": ("add_months", 12),
    "DECADE": ("add_months", 120),
    "CENTURY": ("add_months", 1200),
}
"""Unit of an interval → the function that adds it, and how many of that function's own unit it is."""

_ORDER = ("add_months", "add_days", "add_microseconds")  # as DuckDB adds the parts of one interval
_PART = re.compile(r"\s*([+-]?\d{1,9})\s*([A-Za-z]+)\s*")


def part_of(name: str, argument: exp.Expr) -> Applied:
    """Return a part of a time by its name.

    Raises:
        UnsupportedQuery: no such part.
    """
    part = _PART_NAMES.get(name.lower(), name.lower())
    if part not in PARTS:
        raise UnsupportedQuery(
            f"The part {name!r} of a time is not supported here.", hint=f"parts are {', '.join(sorted(PARTS))}"
        )
    return part, [argument]


def difference_of(family: str, unit: exp.Expr, start: exp.Expr, end: exp.Expr) -> Applied:
    """date_diff ("diff") and date_sub ("sub") with a unit that is written out."""
    name = unit.name.lower().removesuffix("s")
    if not isinstance(unit, exp.Literal | exp.Var) or name not in DIFFERENCES:
        raise UnsupportedQuery(
            f"A difference of times cannot be counted in {unit.name!r:.40} here.",
            hint=f"units are {', '.join(DIFFERENCES)}",
        )
    return f"{family}_{name}", [start, end]


def _extract(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "expression"})
    return part_of(node.this.name, node.expression)


def _truncate(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "unit", "input_type_preserved"})
    unit = node.args["unit"].name.lower()
    if unit not in UNITS:
        raise UnsupportedQuery(f"A time cannot be truncated to {unit!r} here.", hint=f"units are {', '.join(UNITS)}")
    return f"trunc_{unit}", [node.this]


def _difference(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "expression", "unit", "date_part_boundary"})
    return difference_of("diff", node.args.get("unit") or exp.Literal.string("day"), node.expression, node.this)


_TO_CHAR: dict[str, str] = {
    "YYYY": "%Y", "YY": "%y", "IYYY": "%G", "IW": "%V", "MM": "%m", "DDD": "%j", "DD": "%d", "ID": "%u",
    "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S", "US": "%f", "AM": "%p", "PM": "%p",
    "Mon": "%b", "Dy": "%a",
}  # fmt: skip
"""Parts of PostgreSQL's formats, and strftime's."""
_NAMES = {"MONTH": "%B", "DAY": "%A", "MON": "%b", "DY": "%a"}
_TO_CHAR_PART = re.compile(
    '"([^"]*)"|(FM)?(YYYY|IYYY|YY|IW|MM|MONTH|Month|month|MON|Mon|mon|MI|DDD|DD|DAY|Day|day|DY|Dy|dy|ID|D|HH24|HH12|HH|'
    "SS|US|AM|PM|Q)|([^A-Za-z])|(.)",
    re.DOTALL,
)


def _to_char(node: exp.Expr) -> Applied:
    """to_char(t, 'YYYY-MM'), with PostgreSQL's formats of times, as strftime's parts joined together."""
    nothing_but(node, {"this", "format"})
    form = node.args.get("format")
    if not isinstance(form, exp.Literal) or not form.is_string:
        raise UnsupportedQuery("The format of to_char() must be written out.", hint="to_char(t, 'YYYY-MM')")
    texts: list[exp.Expr] = []
    plain = ""
    for quoted, trimmed, part, other, unknown in _TO_CHAR_PART.findall(form.name):
        if unknown:
            raise UnsupportedQuery(
                f"The format of to_char() holds a part that is not supported: {form.name!r:.40}.",
                hint=f"of a time: {' '.join(_TO_CHAR)} Month Day D Q, FM before a name; or strftime(t, '%Y-%m')",
            )
        special = _special(part, node.this, trimmed=bool(trimmed))
        if special is None:
            plain += _TO_CHAR[part] if part else (quoted or other).replace("%", "%%")
            continue
        texts += [*([_strftime(node.this, plain)] if plain else []), special]
        plain = ""
    texts += [_strftime(node.this, plain)] if plain else []
    if not texts:
        raise UnsupportedQuery("The format of to_char() is empty.", hint="to_char(t, 'YYYY-MM')")
    made = texts[0]
    for text in texts[1:]:
        made = exp.DPipe(this=made, expression=text)
    match made:
        case exp.TimeToStr():
            return "strftime", [made.this, made.args["format"]]
        case exp.DPipe():
            return "||", [made.this, made.expression]
    return "coalesce", [made]


def _strftime(moment: exp.Expr, form: str) -> exp.Expr:
    """Return the text of a format, which is itself where it holds no part."""
    if re.search("%[^%]", form):
        return exp.TimeToStr(this=moment, format=exp.Literal.string(form))
    return exp.Literal.string(form.replace("%%", "%"))


def _special(part: str, moment: exp.Expr, *, trimmed: bool) -> exp.Expr | None:
    """Return a part that strftime has no letters for: numbers of one digit, and names that are padded or cased."""
    if part in ("Q", "D") or (trimmed and part in ("MM", "DD")):
        word = {"Q": "QUARTER", "D": "DAYOFWEEK", "MM": "MONTH", "DD": "DAY"}[part]
        number: exp.Expr = exp.Extract(this=exp.Var(this=word), expression=moment)
        number = exp.Add(this=number, expression=exp.Literal.number(1)) if part == "D" else number
        return exp.Cast(this=number, to=exp.DataType.build("VARCHAR"))
    if part.upper() not in _NAMES or part in ("Mon", "Dy"):
        return None
    name: exp.Expr = exp.TimeToStr(this=moment, format=exp.Literal.string(_NAMES[part.upper()]))
    if part.isupper() or part.islower():
        name = exp.Upper(this=name) if part.isupper() else exp.Lower(this=name)
    if trimmed or len(part) < 3 or part.upper() == "MON":
        return name
    return exp.Pad(this=name, expression=exp.Literal.number(9), fill_pattern=exp.Literal.string(" "))


def _plus(node: exp.Expr) -> Applied | None:
    """Return a time and an interval on either side; anything else is a plain sum."""
    nothing_but(node, {"this", "expression"})
    if _is_interval(node.expression):
        return _moved(node.this, node.expression, 1)
    return _moved(node.expression, node.this, 1) if _is_interval(node.this) else None


def _minus(node: exp.Expr) -> Applied | None:
    nothing_but(node, {"this", "expression"})
    return _moved(node.this, node.expression, -1) if _is_interval(node.expression) else None


def _date_add(node: exp.Expr) -> Applied:
    nothing_but(node, {"this", "expression"})
    return _moved(node.this, node.expression, 1) if _is_interval(node.expression) else refuse(node)


def _is_interval(node: exp.Expr) -> bool:
    return isinstance(node.unnest(), exp.Interval | exp.ToDays)


def _moved(moment: exp.Expr, interval: exp.Expr, sign: int) -> Applied:
    """One function around the other, months innermost."""
    steps = _steps(interval.unnest(), sign)
    for name, count in steps[:-1]:
        moment = exp.Anonymous(this=name, expressions=[moment, count])
    name, count = steps[-1]
    return name, [moment, count]


def _steps(interval: exp.Expr, sign: int) -> list[tuple[str, exp.Expr]]:
    match interval, interval.args.get("unit"):
        case exp.ToDays(this=days), _:
            return [("add_days", _times(days, sign))]
        case exp.Expr(this=exp.Literal(is_string=True) as text), unit:
            nothing_but(interval, {"this", "unit"})
            return _written(f"{text.name} {unit.name if unit else ''}", sign)
        case _, unit:
            nothing_but(interval, {"this", "unit"})
            name, factor = _unit(unit.name if type(unit) is exp.Var else "")
            return [(name, _times(interval.this, sign * factor))]


def microseconds_of(node: exp.Expr) -> int | None:
    """Return how long a written INTERVAL is, as databases compare it: a month has 30 days; None of anything else."""
    interval = node.unnest()
    if not isinstance(interval, exp.Interval):
        return None
    total = 0
    for name, count in _steps(interval, 1):
        match count:
            case exp.Literal():
                total += int(count.name) * _LENGTHS[name]
            case exp.Neg(this=exp.Literal() as number):
                total -= int(number.name) * _LENGTHS[name]
            case _:
                return None
    return total


_LENGTHS = {"add_months": 30 * 86_400_000_000, "add_days": 86_400_000_000, "add_microseconds": 1}


def _written(text: str, sign: int) -> list[tuple[str, exp.Expr]]:
    """'1 year 2 months', as one number for each function."""
    if not text.strip() or _PART.sub("", text):
        _refuse_interval()
    totals: dict[str, int] = {}
    for number, unit in _PART.findall(text):
        name, factor = _unit(unit)
        totals[name] = totals.get(name, 0) + sign * factor * int(number)
    return [(n, _number(totals[n])) for n in _ORDER if n in totals]


def _unit(word: str) -> tuple[str, int]:
    upper = word.upper()
    found = _STEPS.get(upper) or _STEPS.get(upper.removesuffix("S")) or _STEPS.get(_SHORT.get(upper, ""))
    return found if found is not None else _refuse_interval()


def _times(count: exp.Expr, factor: int) -> exp.Expr:
    """Return a count of units, of which DuckDB takes the whole ones."""
    inner = count.unnest()
    if isinstance(inner, exp.Literal) and inner.name.isdecimal() and inner.name.isascii() and len(inner.name) <= 9:
        return _number(factor * int(inner.name))
    inner = exp.Trunc(this=inner)
    return inner if factor == 1 else exp.Mul(this=inner, expression=_number(factor))


def _number(n: int) -> exp.Expr:
    literal = exp.Literal.number(str(abs(n)))
    return exp.Neg(this=literal) if n < 0 else literal


def _refuse_interval() -> Never:
    raise UnsupportedQuery(
        "This INTERVAL cannot be read.",
        hint="write INTERVAL 3 DAY, INTERVAL (x) HOUR or INTERVAL '1 year 2 months': whole numbers of "
        + ", ".join(_STEPS).lower(),
    )


_SHORT = {
    "CENTURIES": "CENTURY", "YR": "YEAR", "YRS": "YEAR", "Y": "YEAR", "MON": "MONTH", "MONS": "MONTH", "D": "DAY",
    "H": "HOUR", "HR": "HOUR", "HRS": "HOUR", "MIN": "MINUTE", "MINS": "MINUTE", "SEC": "SECOND", "SECS": "SECOND",
    "S": "SECOND", "MS": "MILLISECOND", "US": "MICROSECOND", "W": "WEEK",
}  # fmt: skip
_PART_NAMES = {
    **{f"{part}s": part for part in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")},
    "dow": "dayofweek", "weekday": "dayofweek", "doy": "dayofyear", "weekofyear": "week", "dayofmonth": "day",
}  # fmt: skip

MOMENT_RULES: dict[type[exp.Expr], Callable[[exp.Expr], Applied | None]] = {
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncate,
    exp.DateTrunc: _truncate,
    exp.DateDiff: _difference,
    exp.Add: _plus,
    exp.Sub: _minus,
    exp.DateAdd: _date_add,
    exp.ToChar: _to_char,
}
"""Node → the rule that reads it; None when the node is no business of dates."""
