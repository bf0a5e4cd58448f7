"""Aggregates that measured columns make: COUNT, COUNT_IF, COUNT(DISTINCT …), SUM, AVG, BOOL_OR and BOOL_AND.

AVG is centred: the middle of the bounds plus a noisy sum of differences over a noisy count. COUNT(DISTINCT x) counts
values, of which each unit brings at most max_rows.

BOOL_OR is whether more than half a unit has a true row, by the noisy count of units; BOOL_AND whether less than half a
unit has a false one. Both errors are then alike: with Laplace noise of scale b units, BOOL_OR is TRUE with probability
1/(1 + exp(1/b)) where nobody has a true row, and FALSE with that probability where one unit has. No private result does
much better between nobody and one person; where many have one, it is right. For fewer false alarms, compare COUNT_IF(c)
with another number, and see its interval.
"""

from __future__ import annotations

from fractions import Fraction

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.measures.lattice_value import lattice_value
from discreet.plan.measures.measure import (
    CentredTotal,
    DistinctCount,
    DistinctTotal,
    KnownCount,
    KnownUnits,
    RowCount,
    Total,
    UnitCount,
)
from discreet.plan.nodes.mean import Mean
from discreet.plan.nodes.node import Measured
from discreet.query.bind import call
from discreet.query.expr import Expr, Literal
from discreet.query.ranges import never_null


def count(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """COUNT(*) for no argument or a constant, else the number of rows whose argument is not NULL."""
    if not arguments:
        return needs.column(RowCount(), Type.INT)
    (argument,) = arguments
    if isinstance(argument, Literal):
        if argument.value is None:
            raise UnsupportedQuery("COUNT(NULL) is always 0.", hint="count rows with COUNT(*)")
        return needs.column(RowCount(), Type.INT)
    return needs.column(_known(argument), Type.INT)


def _known(argument: Expr) -> RowCount | KnownCount:
    """Return the number of rows on which it is not NULL: of all of them, where it never is."""
    return RowCount() if never_null(argument) else KnownCount(argument)


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


def total(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the noisy sum; whole when its values are."""
    (argument,) = arguments
    value = lattice_value(argument, needs.facts)
    return needs.column(Total(value), Type.INT if value.is_whole else Type.REAL)


def count_distinct(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the noisy number of different values that are not NULL.

    Raises:
        UnsupportedQuery: a constant, whose count says nothing.
    """
    (argument,) = arguments
    if argument.is_literal or argument.type is None:
        raise UnsupportedQuery("COUNT(DISTINCT …) of a constant counts nothing.", hint="count the values of a column")
    return needs.column(DistinctCount(argument), Type.INT)


def total_distinct(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the noisy sum of the different values."""
    (argument,) = arguments
    value = lattice_value(argument, needs.facts)
    return needs.column(DistinctTotal(value), Type.INT if value.is_whole else Type.REAL)


def mean_distinct(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the noisy mean of the different values, a number inside the bounds whatever the noise."""
    (argument,) = arguments
    value = lattice_value(argument, needs.facts)
    total = needs.column(DistinctTotal(value), Type.REAL)
    count = needs.column(DistinctCount(argument), Type.INT)
    return Mean(total, count, Fraction(0), value.low * value.step, value.high * value.step)


def mean(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the noisy mean, a number inside the bounds whatever the noise."""
    (argument,) = arguments
    value = lattice_value(argument, needs.facts)
    numerator = CentredTotal(value)
    return Mean(
        needs.column(numerator, Type.REAL),
        needs.column(_known(argument), Type.INT),
        numerator.centre * value.step,
        value.low * value.step,
        value.high * value.step,
    )


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
