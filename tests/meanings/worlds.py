"""Small tables with what their owners declare, as the fixture's JSON holds them: read into values of the product."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa

import discreet as dp

World: TypeAlias = dict[str, Any]
"""Tables, each with columns (name → letter of its type) and rows; the unit, or one for each of two populations; facts
of columns; and options of `connect`.
"""

_TYPES = (pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.timestamp("us"))
_ARROW = dict(zip("irtbds", _TYPES, strict=True))


def table(stored: Mapping[str, Any]) -> pa.Table:
    """Return an Arrow table of stored columns and rows."""
    columns = {
        name: pa.array([_cell(row[place], kind) for row in stored["rows"]], _ARROW[kind], from_pandas=False)
        for place, (name, kind) in enumerate(stored["columns"].items())
    }
    return pa.table(columns)


def _cell(cell: Any, kind: str) -> Any:
    if cell is None or kind not in "dsr":
        return cell
    if kind == "r":
        return float(cell)  # NaN and infinities are text
    return dt.date.fromisoformat(cell) if kind == "d" else dt.datetime.fromisoformat(cell)


def unit(stored: list[Any] | None) -> dp.PrivacyUnit:
    """Return a privacy unit: a column, caps on groups and rows, and the tables that lead to it; None is a row."""
    if stored is None:
        return dp.PrivacyUnit.row()
    column, groups, rows, *tables = stored
    links = {"tables": tables[0]} if tables else {}
    return dp.PrivacyUnit(column, max_groups=groups, max_rows=rows, **links)


def fact(stored: list[Any]) -> Any:
    """Return a declared fact: listed values, or a range of dates, of times or of numbers."""
    match stored:
        case ["values", *values]:
            return dp.Values(*map(restored_value, values))
        case ["dates", low, high]:
            return dp.Range(dt.date.fromisoformat(low), dt.date.fromisoformat(high))
        case ["times", low, high]:
            return dp.Range(dt.datetime.fromisoformat(low), dt.datetime.fromisoformat(high))
        case ["range", low, high, whole]:
            return dp.Range(low, high, integer=whole)
    raise ValueError(stored)


def plain(value: Any) -> Any:
    """Return a value as JSON; infinities and NaN are as Python's `json` writes them."""
    if isinstance(value, dt.datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    if isinstance(value, Mapping):
        return {"map": [[plain(k), plain(v)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def restored_value(value: Any) -> Any:
    """Return the key or the declared value that `plain` wrote."""
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return dt.datetime.fromisoformat(text) if kind == "timestamp" else dt.date.fromisoformat(text)
    return value
