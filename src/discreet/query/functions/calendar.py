"""Arithmetic of the calendar: moving a time, counting between two, building a date.

An interval is no value of the language. `d + INTERVAL '1 month 3 days'` is one function around another, as DuckDB adds
its parts: months, then days, then the rest.
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from discreet.catalog.types import Type
from discreet.query.functions.function import Function, Interval, Signature, exactly, template

_DATE, _TIME, _INT = Type.DATE, Type.TIMESTAMP, Type.INT
_MICROSECOND = dt.timedelta(microseconds=1)
EPOCH = dt.datetime(1970, 1, 1)
"""From where the days, seconds and microseconds of dates and times are counted."""

_MICROSECONDS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
DIFFERENCES = (*_MONTHS, *_MICROSECONDS)
"""What differences can be counted in; two functions each, since the unit is part of the query."""


def as_time(d: dt.date) -> dt.datetime:
    """Return a date as its midnight."""
    return d if isinstance(d, dt.datetime) else dt.datetime.combine(d, dt.time())


def _add_months(d: dt.date, n: int) -> dt.datetime:
    """Return the same day of another month, or that month's last day where it has no such day."""
    time = as_time(d)
    year, month = divmod(time.year * 12 + time.month - 1 + n, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    return time.replace(year, month + 1, min(time.day, calendar.monthrange(year, month + 1)[1]))


def _difference(unit: str) -> Callable[[dt.date, dt.date], int]:
    """date_diff: how many starts of a unit lie between; whole weeks of days, as DuckDB 2.0 counts them."""

    def value(a: dt.date, b: dt.date) -> int:
        if unit in _MONTHS:
            return _month(b) // _MONTHS[unit] - _month(a) // _MONTHS[unit]
        if unit == "week":
            return _toward_zero(b.toordinal() - a.toordinal(), 7)
        size = _MICROSECONDS[unit]
        return microseconds(b) // size - microseconds(a) // size

    return value


def _elapsed(unit: str) -> Callable[[dt.date, dt.date], int]:
    """date_sub: how many whole units have passed."""

    def value(a: dt.date, b: dt.date) -> int:
        if unit in _MONTHS:
            return _toward_zero(_whole_months(as_time(a), as_time(b)), _MONTHS[unit])
        return _toward_zero(microseconds(b) - microseconds(a), _MICROSECONDS[unit])

    return value


def _whole_months(a: dt.datetime, b: dt.datetime) -> int:
    """Count months; the last day of one is as good as any that it lacks: 31 January to 29 February is a month."""
    if a > b:
        return -_whole_months(b, a)
    last = calendar.monthrange(b.year, b.month)[1]
    day = min(a.day, last) if b.day == last else a.day
    return _month(b) - _month(a) - ((b.day, b.time()) < (day, a.time()))


def _month(d: dt.date) -> int:
    return d.year * 12 + d.month - 1


def microseconds(d: dt.date) -> int:
    """From 1970 to a date or time."""
    return (as_time(d) - EPOCH) // _MICROSECOND


def _toward_zero(n: int, size: int) -> int:
    return -(-n // size) if n < 0 else n // size


def _just(*wanted: Type, result: Type) -> Signature:
    """Just these types as they come: a text beside a date could be either."""
    return lambda types: (list(wanted), result) if list(types) == list(wanted) else None


def _counted(family: str, unit: str, value: Callable[[dt.date, dt.date], int]) -> Function:
    def bounds(i: Sequence[Interval]) -> Interval:
        return between(value, i)

    return Function(
        f"{family}_{unit}",
        exactly([_TIME, _TIME], _INT),
        template(f"TRY(date_{family}('{unit}', {{0}}, {{1}}))"),
        value,
        bounds,
    )


def between(value: Callable[[dt.datetime, dt.datetime], int], i: Sequence[Interval]) -> Interval:
    """Return the least and the greatest difference of two times in these intervals of microseconds; it falls with the
    first and rises with the second.
    """
    (a, b), (c, d) = ((moment_at(low, up=False), moment_at(high, up=True)) for low, high in i)
    low = value(b, c) if b is not None and c is not None else float("-inf")
    high = value(a, d) if a is not None and d is not None else float("inf")
    return low, high


def moment_at(x: Any, *, up: bool) -> dt.datetime | None:
    """Return the time so many microseconds from 1970, rounded up or down; None beyond the years that there are."""
    try:
        n = -(-x // 1) if up else x // 1
        return EPOCH + int(n) * _MICROSECOND
    except (OverflowError, ValueError):
        return None


def moment_range(moments: Sequence[dt.date]) -> Interval:
    """Return the first and the last of some dates or times, as microseconds since 1970: their bounds."""
    return Fraction(min(map(microseconds, moments))), Fraction(max(map(microseconds, moments)))


def moments(low: float, high: float, kind: Type) -> tuple[dt.date, dt.date]:
    """Return an interval of microseconds since 1970 as one of dates or times, cut to the ends of the calendar."""
    ends = _moment(low), _moment(high)
    return (ends[0].date(), ends[1].date()) if kind is Type.DATE else ends


def _moment(x: float) -> dt.datetime:
    found = moment_at(x, up=False)
    return (dt.datetime.max if x > 0 else dt.datetime.min) if found is None else found


def _shifted(by: int) -> Callable[[Sequence[Interval]], Interval]:
    return lambda i: (i[0][0] + i[1][0] * by, i[0][1] + i[1][1] * by)


def _shifted_months(i: Sequence[Interval]) -> Interval:
    """Return a month has 28 to 31 days; the end of a month is at most 3 days early."""
    day = _MICROSECONDS["day"]
    ends = [n * days * day for n in i[1] for days in (28, 31)]
    return i[0][0] + min(ends) - 3 * day, i[0][1] + max(ends)


def _days(i: Sequence[Interval]) -> Interval:
    day = _MICROSECONDS["day"]
    return (i[0][0] - i[1][1]) / day, (i[0][1] - i[1][0]) / day


CALENDAR = (
    Function(
        "add_months",
        exactly([_TIME, _INT], _TIME),
        template("TRY({0} + to_months(TRY_CAST({1} AS INTEGER)))"),
        _add_months,
        _shifted_months,
        fragile=True,
    ),
    Function(
        "add_days",
        exactly([_TIME, _INT], _TIME),
        template("TRY({0} + to_days(TRY_CAST({1} AS INTEGER)))"),
        lambda d, n: as_time(d) + dt.timedelta(days=n),
        _shifted(_MICROSECONDS["day"]),
        fragile=True,
    ),
    Function(
        "add_microseconds",
        exactly([_TIME, _INT], _TIME),
        template("TRY({0} + to_microseconds({1}))"),
        lambda d, n: as_time(d) + n * _MICROSECOND,
        _shifted(1),
        fragile=True,
    ),
    Function(
        "date + days",
        _just(_DATE, _INT, result=_DATE),
        template("TRY({0} + TRY_CAST({1} AS INTEGER))"),
        lambda d, n: d + dt.timedelta(days=n),
        _shifted(_MICROSECONDS["day"]),
        fragile=True,
    ),
    Function(
        "days + date",
        _just(_INT, _DATE, result=_DATE),
        template("TRY({1} + TRY_CAST({0} AS INTEGER))"),
        lambda n, d: d + dt.timedelta(days=n),
        lambda i: _shifted(_MICROSECONDS["day"])([i[1], i[0]]),
        fragile=True,
    ),
    Function(
        "date - days",
        _just(_DATE, _INT, result=_DATE),
        template("TRY({0} - TRY_CAST({1} AS INTEGER))"),
        lambda d, n: d - dt.timedelta(days=n),
        lambda i: _shifted(_MICROSECONDS["day"])([i[0], (-i[1][1], -i[1][0])]),
        fragile=True,
    ),
    Function(
        "date - date", _just(_DATE, _DATE, result=_INT), template("TRY({0} - {1})"), lambda a, b: (a - b).days, _days
    ),
    *(_counted("diff", unit, _difference(unit)) for unit in DIFFERENCES),
    *(_counted("sub", unit, _elapsed(unit)) for unit in DIFFERENCES),
    Function(
        "make_date",
        exactly([_INT, _INT, _INT], _DATE),
        template("TRY(make_date({0}, {1}, {2}))"),
        dt.date,
        fragile=True,
    ),
    Function(
        "last_day",
        exactly([_DATE], _DATE),
        template("TRY(last_day({0}))"),
        lambda d: d.replace(day=calendar.monthrange(d.year, d.month)[1]),
        lambda i: (i[0][0], i[0][1] + 30 * _MICROSECONDS["day"]),
    ),
)
