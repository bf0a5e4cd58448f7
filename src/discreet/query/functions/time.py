"""Dates and times: their parts, their truncation to a unit of the calendar, and their spelling by a written format."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.functions.calendar import as_time, microseconds, moment_at
from discreet.query.functions.function import Bound, Function, Interval, exactly, template

_PARTS: dict[str, tuple[Callable[[Any], int], Interval]] = {
    "year": (lambda d: d.year, (-290308, 294247)),
    "quarter": (lambda d: (d.month + 2) // 3, (1, 4)),
    "month": (lambda d: d.month, (1, 12)),
    "week": (lambda d: d.isocalendar().week, (1, 53)),
    "day": (lambda d: d.day, (1, 31)),
    "dayofweek": (lambda d: d.isoweekday() % 7, (0, 6)),
    "dayofyear": (lambda d: d.timetuple().tm_yday, (1, 366)),
    "hour": (lambda d: getattr(d, "hour", 0), (0, 23)),
    "minute": (lambda d: getattr(d, "minute", 0), (0, 59)),
    "second": (lambda d: getattr(d, "second", 0), (0, 59)),
    "millisecond": (lambda d: _within_minute(d) // 1000, (0, 59_999)),
    "microsecond": (lambda d: _within_minute(d), (0, 59_999_999)),
    "isodow": (lambda d: d.isoweekday(), (1, 7)),
    "isoyear": (lambda d: d.isocalendar().year, (1, 9999)),
    "yearweek": (lambda d: d.isocalendar().year * 100 + d.isocalendar().week, (101, 999_953)),
    "decade": (lambda d: d.year // 10, (0, 999)),
    "century": (lambda d: (d.year + 99) // 100, (1, 100)),
}
PARTS = frozenset({*_PARTS, "epoch"})
"""What can be taken out of a time."""

UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
"""What a time can be truncated to; a function each, since the unit is part of the query."""


_RISING = frozenset({"year", "isoyear", "yearweek", "decade", "century"})
"""Parts that never fall as time goes on."""


def _part(name: str, value: Callable[[Any], int], widest: Interval) -> Function:
    def bounds(i: Sequence[Interval]) -> Interval:
        if name not in _RISING:
            return widest
        low, high = moment_at(i[0][0], up=False), moment_at(i[0][1], up=True)
        return widest[0] if low is None else value(low), widest[1] if high is None else value(high)

    return Function(
        name,
        exactly([Type.TIMESTAMP], Type.INT),
        template(f"TRY(CAST(date_part('{name}', {{0}}) AS BIGINT))"),
        value,
        bounds,
    )


def _truncate(unit: str) -> Function:
    return Function(
        f"trunc_{unit}",
        exactly([Type.TIMESTAMP], Type.TIMESTAMP),
        template(f"TRY(date_trunc('{unit}', {{0}}))"),
        lambda d: _start(unit, as_time(d)),
        lambda i: (_cut(unit, i[0][0], up=False), _cut(unit, i[0][1], up=True)),
    )


def _cut(unit: str, end: Bound, *, up: bool) -> Bound:
    """Where the least or the greatest time of an interval is cut to."""
    time = moment_at(end, up=up)
    if time is None:
        return math.inf if up else -math.inf
    return Fraction(microseconds(_start(unit, time)))


def _within_minute(d: dt.date) -> int:
    time = as_time(d)
    return time.second * 1_000_000 + time.microsecond


def _epoch(d: dt.date) -> float:
    """Seconds since 1970, as DuckDB rounds them: the microseconds first."""
    return float((as_time(d) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)) / 1e6


def _start(unit: str, d: dt.datetime) -> dt.datetime:
    day = d.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "second":
            return d.replace(microsecond=0)
        case "minute":
            return d.replace(second=0, microsecond=0)
        case "hour":
            return d.replace(minute=0, second=0, microsecond=0)
        case "day":
            return day
        case "week":
            return day - dt.timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(month=3 * ((day.month - 1) // 3) + 1, day=1)
        case _:
            return day.replace(month=1, day=1)


TIME = (
    *(_part(n, v, b) for n, (v, b) in _PARTS.items()),
    Function(
        "epoch",
        exactly([Type.TIMESTAMP], Type.REAL),
        template("TRY(date_part('epoch', {0}))"),
        _epoch,
        lambda i: (i[0][0] / 1_000_000, i[0][1] / 1_000_000),
    ),
    *(_truncate(u) for u in UNITS),
)


_LONGEST = 200
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_SPELLED: dict[str, Callable[[dt.datetime], str]] = {
    "Y": lambda d: f"{d.year:04}",
    "y": lambda d: f"{d.year % 100:02}",
    "m": lambda d: f"{d.month:02}",
    "d": lambda d: f"{d.day:02}",
    "H": lambda d: f"{d.hour:02}",
    "I": lambda d: f"{(d.hour + 11) % 12 + 1:02}",
    "M": lambda d: f"{d.minute:02}",
    "S": lambda d: f"{d.second:02}",
    "f": lambda d: f"{d.microsecond:06}",
    "p": lambda d: "AM" if d.hour < 12 else "PM",
    "j": lambda d: f"{d.timetuple().tm_yday:03}",
    "A": lambda d: _DAYS[d.weekday()],
    "a": lambda d: _DAYS[d.weekday()][:3],
    "B": lambda d: _MONTHS[d.month - 1],
    "b": lambda d: _MONTHS[d.month - 1][:3],
    "u": lambda d: str(d.isoweekday()),
    "w": lambda d: str(d.isoweekday() % 7),
    "G": lambda d: f"{d.isocalendar().year:04}",
    "V": lambda d: f"{d.isocalendar().week:02}",
    "%": lambda d: "%",
}
_PART = re.compile("%(.)", re.DOTALL)


def _strftime(d: dt.date, form: str) -> str:
    time = as_time(d)
    return _PART.sub(lambda found: _SPELLED[found[1]](time), form)


def _check(form: str | None) -> None:
    rest = _PART.sub("", form or "")
    unknown = [c for c in _PART.findall(form or "") if c not in _SPELLED]
    if form is None or "%" not in form or len(form) > _LONGEST:
        raise UnsupportedQuery(
            f"STRFTIME needs a format with parts, of at most {_LONGEST} characters.", hint="strftime(d, '%Y-%m')"
        )
    if "%" in rest or unknown:
        raise UnsupportedQuery(
            f"The format of STRFTIME holds a part that is not supported: %{unknown[0] if unknown else ''}.",
            hint=f"parts are {' '.join('%' + c for c in _SPELLED)}",
        )


SPELLED = (
    Function(
        "strftime",
        exactly([Type.TIMESTAMP, Type.TEXT], Type.TEXT),
        template("TRY(strftime({0}, {1}))"),
        _strftime,
        constants=(1,),
        check=_check,
    ),
    Function(
        "dayname",
        exactly([Type.TIMESTAMP], Type.TEXT),
        template("TRY(strftime({0}, '%A'))"),
        lambda d: _DAYS[d.weekday()],
    ),
    Function(
        "monthname",
        exactly([Type.TIMESTAMP], Type.TEXT),
        template("TRY(strftime({0}, '%B'))"),
        lambda d: _MONTHS[d.month - 1],
    ),
)
