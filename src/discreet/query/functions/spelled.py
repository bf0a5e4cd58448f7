"""Dates and times as text, by a written format of which every part means the same on every machine."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.functions.calendar import as_time
from discreet.query.functions.function import Function, exactly, template

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
