"""Columns of a release as data frames, Arrow tables and JSON."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from discreet.errors import MissingExtra


def side(interval: Any, place: int) -> Any:
    """Return one end of an interval, or of each of a list or map of them."""
    if isinstance(interval, dict):
        return {key: side(inner, place) for key, inner in interval.items()}
    if isinstance(interval, list):
        return [side(inner, place) for inner in interval]
    return None if interval is None else interval[place]


def to_arrow(columns: Mapping[str, list[Any]]) -> Any:
    """Return the columns as a pyarrow table, in which lists and maps have Arrow's types of these names."""
    pa = _extra("pyarrow", "arrow")
    return pa.table({name: _arrow(cells, pa) for name, cells in columns.items()})


def to_polars(columns: Mapping[str, list[Any]]) -> Any:
    """Return the columns as a polars frame; a map is a list of structs of `key` and `value`, as DuckDB gives it."""
    pl = _extra("polars", "polars")
    return pl.DataFrame({name: [_pairs(v) for v in cells] for name, cells in columns.items()}, strict=False)


def to_pandas(columns: Mapping[str, list[Any]]) -> Any:
    """Return the columns as a pandas frame; lists and maps are Python's lists and dicts."""
    return _extra("pandas", "pandas").DataFrame(columns)


def to_json(columns: Mapping[str, list[Any]]) -> str:
    """Return the rows as a JSON list of objects; what JSON has no word for is null (∞) or text (dates)."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return json.dumps([_plain(row) for row in rows], ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _arrow(column: list[Any], pa: Any) -> Any:
    """Return the column as Arrow takes it."""
    if not any(isinstance(v, dict) for v in column):
        return _storable(column)
    keys, counts = ([x for v in column for x in part(v)] for part in (dict.keys, dict.values))
    kind = pa.map_(pa.array(_storable(keys)).type, pa.array(_storable(counts)).type)
    parts = [[_storable(list(part(v))) for part in (dict.keys, dict.values)] for v in column]
    return pa.array([list(zip(*pair, strict=True)) for pair in parts], type=kind)


def _storable(column: Sequence[Any]) -> Sequence[Any]:
    """Return the column, as floats where a whole number needs more than Arrow's 64 bits, or stands beside one."""
    wide = any(isinstance(v, float) or (isinstance(v, int) and v >> 63 not in (0, -1)) for v in column)
    return [None if v is None else float(v) for v in column] if wide else column


def _pairs(value: Any) -> Any:
    return [{"key": k, "value": v} for k, v in value.items()] if isinstance(value, dict) else value


def _extra(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(
            f"This needs {module}, which is not installed.", hint=f"pip install 'discreet[{extra}]'"
        ) from None
