"""COUNT(*), COUNT(x), COUNT(DISTINCT unit)."""

from __future__ import annotations

from discreet.errors import UnsupportedQuery
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.expr import Expr, Literal
from discreet.plan.measure import KnownCount, RowCount, UnitCount
from discreet.plan.types import Type


def count(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """COUNT(*) for no argument or a constant, else the number of rows whose argument is not NULL."""
    if not arguments:
        return needs.column(RowCount(), Type.INT)
    (argument,) = arguments
    if isinstance(argument, Literal):
        if argument.value is None:
            raise UnsupportedQuery("COUNT(NULL) is always 0.", hint="count rows with COUNT(*)")
        return needs.column(RowCount(), Type.INT)
    return needs.column(KnownCount(argument), Type.INT)


def count_units(_: tuple[Expr, ...], needs: Needs) -> Expr:
    """The number of distinct units."""
    return needs.column(UnitCount(), Type.INT)
