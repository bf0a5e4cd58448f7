"""Numbers at which a mechanism is probed: neighbours at other sizes, and what is hardly a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

_SPECIAL = {"NaN": math.nan, "+∞": math.inf, "-∞": -math.inf, "-0.0": -0.0, "5e-324": 5e-324}


def shifted(x: Any, y: Any, values: Sequence[float]) -> list[tuple[Any, Any]]:
    """Neighbours at other values, no farther from each other than x and y, entry by entry."""
    pairs: list[tuple[Any, Any]] = []
    if not _is_numeric(x) or not _is_numeric(y) or np.shape(x) != np.shape(y):
        return pairs
    for value in values:
        if not math.isfinite(value) or (_whole(x) and value != int(value)):
            continue
        flat = [_next(v, a, b) for v, a, b in zip(_filled(x, value), _entries(x), _entries(y), strict=True)]
        start, end = _like(x, _filled(x, value)), _like(y, flat)
        if start is None or end is None or _entries(start) == _entries(end):
            continue
        if all(_entries(start) != _entries(known) for known, _ in [(x, y), *pairs]):
            pairs.append((start, end))
    return pairs


def _next(value: Any, a: Any, b: Any) -> Any:
    """The value + (b − a), or the float next to it if that is farther away than b is from a."""
    change = Fraction(b) - Fraction(a)
    if isinstance(value, int):
        return value + int(change)
    end = float(Fraction(value) + change)
    return end if abs(Fraction(end) - Fraction(value)) <= abs(change) else math.nextafter(end, value)


def _filled(x: Any, value: float) -> list[Any]:
    return [(int(value) if _whole(x) else float(value)) for _ in _entries(x)]


def _entries(x: Any) -> list[Any]:
    return (
        list(np.asarray(x).ravel().tolist()) if np.ndim(x) else [x.item() if isinstance(x, np.generic) else x]
    )


def _like(x: Any, entries: list[Any]) -> Any:
    """An input of the same kind with other numbers; None where they do not fit its type."""
    if isinstance(x, np.ndarray):
        try:
            filled = np.asarray(entries, dtype=x.dtype).reshape(x.shape)
        except OverflowError:
            return None
        return filled if filled.ravel().tolist() == entries else None
    if isinstance(x, list):
        return entries
    if isinstance(x, tuple):
        return tuple(entries)
    if isinstance(x, np.generic):
        kept = type(x)(entries[0])
        return kept if kept.item() == entries[0] else None
    return entries[0]


def specials(x: Any) -> list[tuple[str, Any, Any]]:
    """(name, input with a special number in its first place, the same with an ordinary one)."""
    if not _is_numeric(x) or _whole(x):
        return []
    found = []
    for name, value in _SPECIAL.items():
        plain = 0.0 if abs(value) < 1 else _entries(x)[0]
        a, b = (_like_any(x, [v, *_entries(x)[1:]]) for v in (value, plain))
        found.append((name, a, b))
    return found


def _like_any(x: Any, entries: list[Any]) -> Any:
    if isinstance(x, np.ndarray):
        return np.asarray(entries, dtype=x.dtype).reshape(x.shape)
    if isinstance(x, (list, tuple)):
        return type(x)(entries)
    return type(x)(entries[0]) if isinstance(x, np.generic) else entries[0]


def is_number(x: object) -> bool:
    return isinstance(x, (int, float, np.integer, np.floating)) and not isinstance(x, bool)


def _is_numeric(x: object) -> bool:
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "fiu" and x.size > 0 and bool(np.isfinite(x).all())
    if type(x) in (list, tuple):
        assert isinstance(x, (list, tuple))
        return bool(x) and all(is_number(v) and math.isfinite(v) for v in x)
    return is_number(x) and math.isfinite(x)  # type: ignore[arg-type]  # a number, as was just seen


def _whole(x: Any) -> bool:
    """Whether an input is made of integers, which stay integers."""
    return all(isinstance(v, int) for v in _entries(x))
