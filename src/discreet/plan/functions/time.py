"""Dates and times: their parts, and their truncation to a unit of the calendar."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from discreet.plan.functions.function import Function, Interval, exactly, template
from discreet.plan.types import Type

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
}
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute")
"""What a time can be truncated to; a function each, since the unit is part of the question."""


def _part(name: str, value: Callable[[Any], int], bounds: Interval) -> Function:
    return Function(
        name,
        exactly([Type.TIMESTAMP], Type.INT),
        template(f"TRY(CAST(date_part('{name}', {{0}}) AS BIGINT))"),
        value,
        lambda _: bounds,
    )


def _truncate(unit: str) -> Function:
    return Function(
        f"trunc_{unit}",
        exactly([Type.TIMESTAMP], Type.TIMESTAMP),
        template(f"TRY(date_trunc('{unit}', {{0}}))"),
        lambda d: _start(unit, _as_time(d)),
    )


def _as_time(d: dt.date) -> dt.datetime:
    return d if isinstance(d, dt.datetime) else dt.datetime.combine(d, dt.time())


def _start(unit: str, d: dt.datetime) -> dt.datetime:
    day = d.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
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


TIME = (*(_part(n, v, b) for n, (v, b) in _PARTS.items()), *(_truncate(u) for u in UNITS))
