"""COUNT(DISTINCT x): the number of different values, of which each unit brings at most max_rows."""

from __future__ import annotations

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.measures.measure import DistinctCount
from discreet.query.expr import Expr


def count_distinct(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the noisy number of different values that are not NULL.

    Raises:
        UnsupportedQuery: a constant, whose count says nothing.
    """
    (argument,) = arguments
    if argument.is_literal or argument.type is None:
        raise UnsupportedQuery("COUNT(DISTINCT …) of a constant counts nothing.", hint="count the values of a column")
    return needs.column(DistinctCount(argument), Type.INT)
