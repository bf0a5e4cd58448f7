"""SUM_WITHIN(x, low, high), COUNT_WITHIN(x, low, high): a unit's part of a group is clamped to its bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from discreet.catalog.schema import Fact
from discreet.catalog.types import Type
from discreet.errors import InvalidParameter, MissingBounds
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.measures.capped import CappedCount, CappedTotal, refuse_wide
from discreet.plan.measures.lattice_value import LatticeValue, lattice_value
from discreet.plan.measures.measure import Total
from discreet.query.expr import Expr, Literal


def sum_within(arguments: tuple[Expr, ...], needs: Needs, *, is_row: bool = False) -> Expr:
    """Return the noisy sum of what each unit has in a group, clamped to [low, high]."""
    bounds = _bounds(arguments[1:])
    value = _value(arguments[0], needs.facts)
    low, high = math.ceil(bounds[0] / value.step), math.floor(bounds[1] / value.step)
    kind = Type.INT if value.is_whole else Type.REAL
    if not is_row:
        return needs.column(CappedTotal(value, low, high), kind)
    if low < min(value.low, 0) or high > max(value.high, 0):
        refuse_wide()
    inside = replace(value, low=min(max(value.low, low), high), high=max(min(value.high, high), low))
    return needs.column(Total(inside), kind)


def _value(expr: Expr, facts: Mapping[str, Fact]) -> LatticeValue:
    """Return the values that are added up; whole ones without bounds of their own are clamped far beyond what a unit
    may add in all.
    """
    try:
        return lattice_value(expr, facts, narrows=False)
    except MissingBounds:
        if expr.type is not Type.INT:
            raise
        return LatticeValue(expr, -FAR, FAR, Fraction(1))


FAR = 1 << 31
"""How far whole numbers are added up that have no bounds."""


def count_within(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the noisy count of each unit's rows in a group, at most `high`; of all rows without an argument."""
    counted, bounds = arguments[:-2], _bounds(arguments[-2:])
    most = math.floor(bounds[1])
    if most < 1:
        raise InvalidParameter("the bounds on what a unit adds to a count must reach 1.", hint="(0, 5), for instance")
    return needs.column(CappedCount(counted[0] if counted else None, most), Type.INT)


def _bounds(arguments: tuple[Expr, ...]) -> tuple[Fraction, Fraction]:
    values: list[Any] = [a.value for a in arguments if isinstance(a, Literal)]
    if len(values) != 2 or any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        raise InvalidParameter(
            "the bounds on what a unit adds to a group must be two written numbers.", hint="(0, 100)"
        )
    low, high = Fraction(values[0]), Fraction(values[1])
    if not low <= 0 <= high or low == high:
        raise InvalidParameter(
            "the bounds on what a unit adds to a group must hold 0, and differ: a unit may have nothing there.",
            hint="(0, 100), for instance",
        )
    return low, high
