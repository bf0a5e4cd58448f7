"""COUNT(DISTINCT x): the number of different values, of which each unit brings at most max_rows."""

from __future__ import annotations

from discreet.catalog.types import Type
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.expr import Expr
from discreet.plan.measures.distinct import counted_once


def count_distinct(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """The noisy number of different values that are not NULL."""
    (argument,) = arguments
    return needs.column(counted_once(argument), Type.INT)
