"""The closed language: every function that a question may use, by its name in the tree."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from discreet.plan.functions.arithmetic import ARITHMETIC
from discreet.plan.functions.cast import CASTS
from discreet.plan.functions.function import EVERYTHING, Function, Interval
from discreet.plan.functions.logic import LOGIC
from discreet.plan.functions.text import TEXT
from discreet.plan.functions.time import TIME

FUNCTIONS: MappingProxyType[str, Function] = MappingProxyType(
    {f.name: f for f in (*ARITHMETIC, *LOGIC, *TEXT, *TIME, *CASTS)}
)
"""Name → function. A new function is a row in one of the files beside this one."""


def image(name: str, intervals: Sequence[Interval]) -> Interval:
    """An interval that holds all values of the function over the arguments' intervals."""
    bounds = FUNCTIONS[name].bounds
    try:
        return EVERYTHING if bounds is None else bounds(intervals)
    except OverflowError:  # beyond what a float can bound
        return EVERYTHING
