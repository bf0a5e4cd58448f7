"""Any value as one of four shapes: a number, a sequence, a mapping, or a label."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import math
import sys
from collections.abc import Mapping, Set
from fractions import Fraction
from typing import Any

import numpy as np

NUMBER = "number"
SEQUENCE = "sequence"
MAPPING = "mapping"
LABEL = "label"

_NUMBERS = (int, float, Fraction, decimal.Decimal, np.number, np.bool_, dt.date, dt.timedelta)


def unfolded(value: Any) -> tuple[str, Any]:
    """The shape of a value, and the value as float, list, dict with text as keys, or text."""
    if isinstance(value, _NUMBERS):
        return NUMBER, number(value)
    if isinstance(value, (str, bytes, type(None))):
        return LABEL, label(value)
    if isinstance(value, (list, tuple)):
        return SEQUENCE, value
    if isinstance(value, np.ndarray):
        return (SEQUENCE, value.tolist()) if value.ndim else unfolded(value.item())
    if isinstance(value, np.generic):
        return unfolded(value.item())
    if isinstance(value, Set):
        return MAPPING, {label(v): True for v in sorted(value, key=repr)}
    if isinstance(value, Mapping):
        return MAPPING, {label(k): v for k, v in value.items()}
    found = frame(value)
    if found is not None:
        return MAPPING, found
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return MAPPING, {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return LABEL, label(value)


def frame(value: Any) -> dict[str, list[Any]] | None:
    """The columns of a data frame of pandas, polars or pyarrow, or of a release; None for anything else."""
    home = type(value).__module__.partition(".")[0]
    if home == "pandas" and hasattr(value, "columns"):
        index = {} if _counts(value.index) else {"index": value.index.tolist()}
        return index | {str(c): value.iloc[:, i].tolist() for i, c in enumerate(value.columns)}
    if home == "pandas" and hasattr(value, "tolist"):
        return {"values": value.tolist()}
    if home == "polars" and hasattr(value, "to_dict"):
        return {str(k): list(v) for k, v in value.to_dict(as_series=False).items()}
    if home == "polars" and hasattr(value, "to_list"):
        return {"values": value.to_list()}
    if home == "pyarrow" and hasattr(value, "to_pydict"):
        return {str(k): list(v) for k, v in value.to_pydict().items()}
    release = sys.modules.get("discreet.release")
    if release is not None and isinstance(value, release.Release):
        return {c: [row[i] for row in value.rows] for i, c in enumerate(value.columns)} | {
            "notes": value.notes
        }
    return None


def label(value: Any) -> str:
    """A value as text that tells values apart."""
    return value if isinstance(value, str) else repr(value)


def kind(value: Any) -> str:
    """The name of a value's type; NaN has its own."""
    if isinstance(value, (float, np.floating)) and math.isnan(value):
        return "NaN"
    return type(value).__name__


def number(value: Any) -> float:
    """A number as the nearest float; beyond floats, an infinity. Days for dates, seconds for times."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=value.tzinfo or dt.UTC).timestamp()
    if isinstance(value, dt.date):
        return float(value.toordinal())
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, np.complexfloating):
        return float(value.real)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:  # a signalling NaN of decimal
        return math.nan


def _counts(index: Any) -> bool:
    """Whether an index of pandas is 0, 1, 2, …: then it says no more than the number of rows."""
    return bool(type(index).__name__ == "RangeIndex")
