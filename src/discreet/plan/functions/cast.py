"""Reading a value as another type; what cannot be read is NULL."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from discreet.plan.functions.function import Function, Interval
from discreet.plan.types import Type


def _cast(target: Type) -> Function:
    def bounds(i: Any) -> Interval:
        low, high = i[0]
        return (low - 1, high + 1) if target is Type.INT else (low, high)  # rounding moves by less than 1

    return Function(
        f"as {target.value.lower()}",
        lambda types: (
            ([types[0] or target], target) if len(types) == 1 and _readable(types[0], target) else None
        ),
        lambda args, _: f"TRY_CAST({args[0]} AS {target.value})",
        lambda x: _read(x, target),
        bounds if target.is_number else None,
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
            return str(x).lower() if isinstance(x, bool) else str(x)
        case Type.REAL:
            y = float(x)
            return y if math.isfinite(y) else None
        case Type.INT:
            y = round(float(x)) if not isinstance(x, int) else int(x)
            return y if -(1 << 63) <= y < 1 << 63 else None
        case Type.BOOL:
            return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(
                str(x).lower()
            )
        case Type.DATE:
            return dt.datetime.fromisoformat(str(x)).date()
        case _:
            return dt.datetime.fromisoformat(str(x))


CASTS = tuple(_cast(t) for t in Type)
