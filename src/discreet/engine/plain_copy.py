"""Copies of estimators that hold plain values alone, so that no code of the caller's runs beside the data.

The class of an estimator says nothing of what stands in it: an attribute can be an object whose methods read the rows
that it is given, or a function in the place of a method of the class.

Guarantee:
    A copy is of a class of the package. What it holds are numbers, texts, dates, arrays and collections of these of the
    very types, and such copies; no attribute stands in the place of a method.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property
from inspect import getattr_static
from typing import Any

import numpy as np

from discreet.errors import InvalidParameter

WHOLE = frozenset(
    {type(None), bool, int, float, str, bytes, Fraction, Decimal, dt.date, dt.datetime, *np.sctypeDict.values()}
)
"""Types of values without parts."""

_DROPPED = frozenset({"_plan", "loss_", "_receipt", "_metadata_request"})
"""Attributes that say how an estimator was fitted, which nothing that runs beside the data reads."""

_DEEPEST = 20


def is_own_class(kind: type[Any], room: str) -> bool:
    """Return whether a class is the very one that stands under its name in a room, since a class may say any module."""
    home = sys.modules.get(kind.__module__) if kind.__module__.startswith(f"discreet.{room}.") else None
    return getattr(home, kind.__name__, None) is kind


def plain_copy(estimator: Any) -> Any:
    """Return a copy of an estimator of the package's that holds plain values alone.

    Raises:
        InvalidParameter: it holds anything else.
    """
    return _instance(estimator, type(estimator).__name__, 0)


def _copied(value: Any, where: str, depth: int) -> Any:
    kind = type(value)
    if depth > _DEEPEST:
        _refuse(where)
    if kind is Fraction:
        return Fraction(_whole(value.numerator, where), _whole(value.denominator, where))
    if kind in WHOLE:
        return value
    if kind in (tuple, list, set, frozenset):
        return kind(_copied(v, where, depth + 1) for v in value)
    if kind is dict:
        return {_copied(k, where, depth + 1): _copied(v, where, depth + 1) for k, v in value.items()}
    if kind is np.ndarray:
        return _array(value, where, depth)
    if not any(is_own_class(kind, room) for room in ("learn", "catalog", "privacy")):
        _refuse(where)
    return value if issubclass(kind, Enum) else _instance(value, where, depth + 1)


def _array(array: Any, where: str, depth: int) -> Any:
    if array.dtype.kind in "biufUSMm":
        return array.copy()
    if array.dtype.kind != "O":
        _refuse(where)
    found = np.empty(array.size, dtype=object)
    for i, cell in enumerate(array.reshape(-1)):
        found[i] = _copied(cell, where, depth + 1)
    return found.reshape(array.shape)


def _instance(value: Any, where: str, depth: int) -> Any:
    kind = type(value)
    made = object.__new__(kind)
    for name, held in _state(value):
        known = getattr_static(kind, name, None) if type(name) is str else _refuse(where)
        if name in _DROPPED or isinstance(known, cached_property):
            continue
        if callable(known) or isinstance(known, property | classmethod | staticmethod):
            _refuse(f"{where}.{name}")
        object.__setattr__(made, name, _copied(held, f"{where}.{name}", depth))
    return made


def _state(value: Any) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(value, "__dict__", {}).items())
    slots = {s for c in type(value).__mro__ for s in _listed(c.__dict__.get("__slots__", ()))}
    for name in sorted(slots - {"__dict__", "__weakref__"}):
        if hasattr(value, name):
            yield name, getattr(value, name)


def _listed(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _whole(number: Any, where: str) -> int:
    if type(number) is not int:
        _refuse(where)
    return int(number)


def _refuse(where: str) -> Any:
    raise InvalidParameter(
        f"{where} is no plain value, and would run beside the data.",
        hint="lists, numbers, texts and arrays can be given; or dp.learn.evaluate on rows of your own",
    )
