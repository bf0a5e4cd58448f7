"""The closed language: every function that a query may use, by its name in the tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

from discreet.catalog.types import Type
from discreet.query.functions.arithmetic import ARITHMETIC, TRANSCENDENTAL
from discreet.query.functions.calendar import CALENDAR
from discreet.query.functions.cast import CASTS
from discreet.query.functions.function import EVERYTHING, Function, Interval
from discreet.query.functions.logic import LOGIC
from discreet.query.functions.pattern import PATTERN
from discreet.query.functions.text import TEXT
from discreet.query.functions.time import SPELLED, TIME

FUNCTIONS: MappingProxyType[str, Function] = MappingProxyType(
    {f.name: f for f in (*ARITHMETIC, *TRANSCENDENTAL, *LOGIC, *TEXT, *PATTERN, *TIME, *SPELLED, *CALENDAR, *CASTS)}
)
"""Name → function. A new function is a row in one of the files beside this one."""

_OVERLOADS = {"+": ("+", "date + days", "days + date"), "-": ("-", "date - days", "date - date")}

HINTS = {
    "-": "CAST the argument to what it takes; date_diff('hour', a, b) counts hours between two times",
    "+": "CAST the argument to what it takes; add to a time with t + INTERVAL (n) HOUR",
    "//": "write floor(a / b), CAST(a AS BIGINT) // b, or declare the column as Range(low, high, integer=True)",
    "*": "CAST the argument to what it takes; INTERVAL (n) DAY takes a number of days",
}
"""The way round, where arguments do not fit, for functions that have one."""


def fitting(name: str, types: Sequence[Type | None]) -> tuple[str, list[Type], Type] | None:
    """Return the function that a name means for arguments of these types, the types that it wants, and its result's."""
    for candidate in _OVERLOADS.get(name, (name,)):
        found = FUNCTIONS[candidate].signature(types)
        if found is not None:
            return candidate, *found
    return None


def image(name: str, intervals: Sequence[Interval]) -> Interval:
    """Return an interval that holds all values of the function over the arguments' intervals."""
    bounds = FUNCTIONS[name].bounds
    try:
        found = EVERYTHING if bounds is None else bounds(intervals)
    except OverflowError:  # beyond what a float can bound
        return EVERYTHING
    return EVERYTHING if any(isinstance(end, float) and math.isnan(end) for end in found) else found
