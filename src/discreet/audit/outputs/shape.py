"""Any value as one of four shapes: a number, a sequence, a mapping, or a label."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import math
import re
import sys
from collections.abc import Mapping, Set
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Batch: TypeAlias = "list[object] | NDArray[Any]"
"""Outputs; axis 0 counts the samples."""

NUMBER = "number"
SEQUENCE = "sequence"
MAPPING = "mapping"
LABEL = "label"

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_NUMBERS = (int, float, Fraction, decimal.Decimal, np.number, np.bool_, dt.date, dt.timedelta)


def unfolded(value: Any) -> tuple[str, Any]:
    """Return the shape of a value, and the value as float, list, dict with text as keys, or text."""
    try:
        return _unfolded(value)
    except Exception:  # it does not let itself be looked at
        return LABEL, label(value)


def _unfolded(value: Any) -> tuple[str, Any]:
    if type(value) is dict:  # the first of all: most outputs that are not numbers
        return MAPPING, value if all(type(k) is str for k in value) else {label(k): v for k, v in value.items()}
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
        return MAPPING, {label(v): True for v in sorted(value, key=label)}
    if isinstance(value, Mapping):
        return MAPPING, {label(k): v for k, v in value.items()}
    found = frame(value)
    if found is not None:
        return MAPPING, found
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return MAPPING, {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    inner = attributes(value)
    return (LABEL, label(value)) if inner is None else (MAPPING, inner)


def attributes(value: Any) -> dict[str, Any] | None:
    """Return what an object without a text of its own holds; None for one that has a text, or holds nothing."""
    if not textless(value):
        return None
    slots = [name for c in type(value).__mro__ for name in _slots(c) if hasattr(value, name)]
    held = {name: getattr(value, name) for name in slots} | getattr(value, "__dict__", {})
    return held or None


def textless(value: Any) -> bool:
    """Whether an object has no text of its own but its address."""
    return getattr(type(value), "__repr__", None) is object.__repr__


def _slots(cls: type) -> tuple[str, ...]:
    found = cls.__dict__.get("__slots__", ())
    names = (found,) if isinstance(found, str) else tuple(found)
    return tuple(n for n in names if not n.startswith("__"))


def frame(value: Any) -> dict[str, list[Any]] | None:
    """Return the columns of a data frame of pandas, polars or pyarrow, or of a release; None for anything else."""
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
    release = sys.modules.get("discreet.engine.release")
    if release is not None and isinstance(value, release.Release):
        return {c: [row[i] for row in value.rows] for i, c in enumerate(value.columns)} | {"notes": value.notes}
    return None


def label(value: Any) -> str:
    """Return a value as text that tells values apart; where it is in memory is no part of it, nor of an output."""
    return value if isinstance(value, str) else in_words(value)


def in_words(value: Any) -> str:
    """Return the text that a value has as code, without addresses, whatever its `__repr__` does."""
    try:
        return without_addresses(repr(value))
    except Exception:  # somebody else's __repr__ must not end an audit
        return f"<{type(value).__name__}>"


def without_addresses(text: str) -> str:
    """Return a text without places in memory, which repeat in patterns that have nothing to do with a mechanism."""
    return _ADDRESS.sub("", text) if " at 0x" in text else text


def kind(value: Any) -> str:
    """Return the name of a value's type; NaN has its own. All numbers of numpy are floats, as `codes_of` says."""
    if isinstance(value, (float, np.floating)) and math.isnan(value):
        return "NaN"
    if isinstance(value, (np.integer, np.floating, np.bool_)) and not isinstance(value, np.timedelta64):
        return "float"
    if isinstance(value, np.generic):
        value = value.item()
    return type(value).__name__


def number(value: Any) -> float:
    """Return a number as the nearest float; beyond floats, an infinity. Days for dates, seconds for times."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=value.tzinfo or dt.UTC).timestamp()
    if isinstance(value, dt.date):
        return float(value.toordinal())
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, np.timedelta64):
        return math.nan if np.isnat(value) else float(value.astype(np.int64))
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
