"""Functions whose last bit depends on the machine's mathematical library: no declared key may pass through them."""

from __future__ import annotations

import math

from discreet.plan.functions.arithmetic import rising
from discreet.plan.functions.function import Function, Interval, numbers, template, unbounded
from discreet.plan.types import Type

_ONE = numbers(1, wanted=Type.REAL)
_TWO = numbers(2, wanted=Type.REAL)
_HALF_TURN = (-3.1415926535897936, 3.1415926535897936)  # a bit beyond π on either side, as a double may be


def _log(base: float, x: float) -> float | None:
    """Return the decimal logarithms' ratio; to base 0 it is −0.0, as that of 0 is −∞."""
    if base < 0 or x < 0:
        return None
    below, above = (math.log10(y) if y else -math.inf for y in (base, x))
    return above / below if below else None


def _only(low: float, high: float) -> Interval:
    return low, high


TRANSCENDENTAL = (
    Function(
        "ln", _ONE, template("TRY(ln({0}))"), math.log, rising(math.log, 0.0), fragile=True, inexact=True
    ),
    Function(
        "log10",
        _ONE,
        template("TRY(log10({0}))"),
        math.log10,
        rising(math.log10, 0.0),
        fragile=True,
        inexact=True,
    ),
    Function("log", _TWO, template("TRY(log({0}, {1}))"), _log, unbounded, fragile=True, inexact=True),
    Function("exp", _ONE, template("TRY(exp({0}))"), math.exp, rising(math.exp), fragile=True, inexact=True),
    Function(
        "power", _TWO, template("TRY(pow({0}, {1}))"), math.pow, unbounded, fragile=True, inexact=True
    ),
    Function("cbrt", _ONE, template("TRY(cbrt({0}))"), math.cbrt, rising(math.cbrt), fragile=True, inexact=True),
    Function("sin", _ONE, template("TRY(sin({0}))"), math.sin, lambda _: _only(-1, 1), fragile=True, inexact=True),
    Function("cos", _ONE, template("TRY(cos({0}))"), math.cos, lambda _: _only(-1, 1), fragile=True, inexact=True),
    Function("tan", _ONE, template("TRY(tan({0}))"), math.tan, unbounded, fragile=True, inexact=True),
    Function("asin", _ONE, template("TRY(asin({0}))"), math.asin, lambda _: _HALF_TURN, fragile=True, inexact=True),
    Function("acos", _ONE, template("TRY(acos({0}))"), math.acos, lambda _: _HALF_TURN, fragile=True, inexact=True),
    Function("atan", _ONE, template("TRY(atan({0}))"), math.atan, rising(math.atan), fragile=True, inexact=True),
    Function(
        "atan2", _TWO, template("TRY(atan2({0}, {1}))"), math.atan2, lambda _: _HALF_TURN, fragile=True, inexact=True
    ),
)  # fmt: skip
