"""Reading a value as another type; what cannot be read is NULL."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

from discreet.catalog.types import OF_CELLS, Type
from discreet.query.functions.calendar import as_time
from discreet.query.functions.function import Function, Interval


def _cast(target: Type) -> Function:
    def bounds(i: Any) -> Interval:
        low, high = i[0]
        if target is Type.DATE:
            return low - _DAY, high  # cut to the day before
        if target is not Type.INT:
            return low, high
        half = Fraction(1, 2)  # rounding is monotone, and whole ends stay where they are
        return (
            low if math.isinf(low) else Fraction(math.ceil(Fraction(low) - half)),
            high if math.isinf(high) else Fraction(math.floor(Fraction(high) + half)),
        )

    return Function(
        f"as {target.value.lower()}",
        lambda types: ([types[0] or target], target) if len(types) == 1 and _readable(types[0], target) else None,
        lambda args, _: f"TRY_CAST({args[0]} AS {target.value})",
        lambda x: _read(x, target),
        bounds if target.is_number or target in (Type.DATE, Type.TIMESTAMP) else None,
        fragile=target in (Type.REAL, Type.DATE, Type.TIMESTAMP),
    )


def _readable(source: Type | None, target: Type) -> bool:
    if source is None or source is target or Type.TEXT in (source, target):
        return True
    numeric = {Type.INT, Type.REAL, Type.BOOL}
    moments = {Type.DATE, Type.TIMESTAMP}
    return {source, target} <= numeric or {source, target} <= moments


def _read(x: Any, target: Type) -> Any:
    match target:
        case Type.TEXT:
            return _as_text(x)
        case Type.REAL:
            y = float(_plain(x) if isinstance(x, str) else x)
            return y if math.isfinite(y) else None
        case Type.INT:
            return _as_int(x)
        case Type.BOOL:
            return _as_bool(x)
        case Type.DATE:
            return x.date() if isinstance(x, dt.datetime) else _day(str(x))
        case _:
            return as_time(x) if isinstance(x, dt.date) else _moment(str(x))


def _as_int(x: Any) -> int | None:
    match x:
        case int():
            y = int(x)
        case float():
            y = round(x)
        case _:
            y = _whole(_plain(str(x)))
    return y if -(1 << 63) <= y < 1 << 63 else None


def _as_bool(x: Any) -> bool | None:
    match x:
        case int() | float():
            return bool(x)
    return True if str(x).lower() in _TRUE else False if str(x).lower() in _FALSE else None


def _as_text(x: Any) -> str:
    match x:
        case dt.datetime():
            text = x.isoformat(sep=" ")
            return text.rstrip("0") if x.microsecond else text
        case bool():
            return str(x).lower()
    return str(x)


def _plain(text: str) -> str:
    """Return the text, if its digits and the spaces around it are those that the database knows."""
    inner = text.strip(_SPACES)
    if not inner.isascii() or inner != inner.strip() or _UNDERSCORES.search(inner):
        return ""  # no number
    return inner


def _whole(text: str) -> int:
    """Halves go away from zero in text, and to even in a double, as in DuckDB."""
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    number = Decimal(text)
    if not number.is_finite() or number.adjusted() > 20:  # 1e999999999 would fill the memory
        raise OverflowError
    return int(number.to_integral_value(ROUND_HALF_UP))


def _day(text: str) -> dt.date | None:
    inner = text.rstrip(_SPACES)  # allowed after a date, and not after a midnight
    start = _moment(inner)
    return None if start is None else start.date() - dt.timedelta(days=_MIDNIGHT.search(inner) is not None)


def _moment(text: str) -> dt.datetime | None:
    """Return a date and time as DuckDB reads them; what offset is written is dropped."""
    found = _MOMENT.fullmatch(text)
    if text == "epoch":
        return dt.datetime(1970, 1, 1)
    if found is None:
        return None
    year, _, month, day, hour, minute, second, part = found.groups()
    clock = [int(t or 0) for t in (hour, minute, second)]
    start = dt.datetime(int(year), int(month), int(day))
    if clock == [24, 0, 0] and not int(part or 0):
        return start + dt.timedelta(days=1)
    return start.replace(hour=clock[0], minute=clock[1], second=clock[2], microsecond=int(f"{part or ''}000000"[:6]))


_TRUE, _FALSE = ("true", "t", "1", "yes", "y"), ("false", "f", "0", "no", "n")
_SPACES = " \t\n\v\f\r"
_UNDERSCORES = re.compile("^_|_$|__|_[^0-9]|[^0-9]_")
_OTHER_BASE = re.compile("0[xX][0-9a-fA-F]+|0[bB][01]+")
_CLOCK = r"(?:T|\s+)(\d{1,2}):(\d{1,2})(?::(\d{1,2})?(?:\.(\d*))?)?"
_MIDNIGHT = re.compile("[T\\s]24:0")
_OFFSET = r"(?:Z|\s?[+-]\d\d(?::?\d\d)?|\s[\w/]+)?\s*"
_MOMENT = re.compile(rf"\s*(\d{{1,4}})([-/])(\d{{1,2}})\2(\d{{1,2}})(?:{_CLOCK}{_OFFSET})?", re.ASCII)


_DAY = 86_400_000_000  # microseconds, in which times are bounded
CASTS = tuple(map(_cast, OF_CELLS))
