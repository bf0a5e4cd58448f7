"""BOOL_OR(c), BOOL_AND(c): whether some, or all, rows with a known truth are true, as far as noise lets one tell.

BOOL_OR is whether more than half a unit has a true row, by the noisy count of units; BOOL_AND whether less than half a
unit has a false one. Both errors are then alike: with Laplace noise of scale b units, BOOL_OR is TRUE with probability
1/(1 + exp(1/b)) where nobody has a true row, and FALSE with that probability where one unit has. No private answer does
much better between nobody and one person; where many have one, it is right. Whoever wants fewer false alarms compares
COUNT_IF(c) with a number of his own, and sees its interval.
"""

from __future__ import annotations

from discreet.catalog.types import Type
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.aggregates.count import one_where
from discreet.plan.measures.measure import KnownUnits
from discreet.plan.nodes.node import Measured
from discreet.query.bind import call
from discreet.query.expr import Expr, Literal

_HALF = Literal(0.5, Type.REAL)


def some(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """BOOL_OR(c)."""
    (condition,) = arguments
    return call(">", [_units(condition, needs), _HALF])


def every(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """BOOL_AND(c)."""
    (condition,) = arguments
    return call("<", [_units(call("not", [condition]), needs), _HALF])


def _units(condition: Expr, needs: Needs) -> Measured:
    """How many units have a row on which the condition is true."""
    return needs.column(KnownUnits(one_where(condition)), Type.INT)
