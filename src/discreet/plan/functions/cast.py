"""Reading a value as another type; what cannot be read is NULL."""

from __future__ import annotations

import datetime as dt
import math
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

from discreet.plan.functions.function import Function, Interval
from discreet.plan.types import Type


def _cast(target: Type) -> Function:
    def bounds(i: Any) -> Interval:
        low, high = i[0]
        if target is not Type.INT:
            return low, high
        half = Fraction(1, 2)  # rounding is monotone, and whole ends stay where they are
        return (
            low if math.isinf(low) else Fraction(math.ceil(Fraction(low) - half)),
            high if math.isinf(high) else Fraction(math.floor(Fraction(high) + half)),
        )

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
            y = int(x) if isinstance(x, int) else round(x) if isinstance(x, float) else _from_text(str(x))
            return y if -(1 << 63) <= y < 1 << 63 else None
        case Type.BOOL if isinstance(x, int | float):
            return bool(x)
        case Type.BOOL:
            return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(
                str(x).lower()
            )
        case Type.DATE:
            return dt.datetime.fromisoformat(str(x)).date()
        case _:
            return dt.datetime.fromisoformat(str(x)).replace(tzinfo=None)  # DuckDB drops a written offset


def _from_text(text: str) -> int:
    """Halves go away from zero in text, and to even in a double, as in DuckDB."""
    return int(Decimal(text).to_integral_value(ROUND_HALF_UP))


CASTS = tuple(_cast(t) for t in Type)
