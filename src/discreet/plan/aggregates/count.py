"""COUNT(*), COUNT(x), COUNT_IF(c), COUNT(DISTINCT unit)."""

from __future__ import annotations

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.measures.measure import KnownCount, KnownUnits, RowCount, UnitCount
from discreet.query.bind import call
from discreet.query.expr import Expr, Literal


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


def count_if(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the number of rows on which a condition is true: COUNT(CASE WHEN c THEN 1 END)."""
    (condition,) = arguments
    return count((one_where(condition),), needs)


def count_units(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the number of distinct units; with an argument, of those that have a row where it is not NULL."""
    if arguments:
        return needs.column(KnownUnits(*arguments), Type.INT)
    return needs.column(UnitCount(), Type.INT)


def one_where(condition: Expr) -> Expr:
    """CASE WHEN condition THEN 1 END."""
    return call("case", [condition, Literal(1, Type.INT), Literal(None, None)])
