"""SUM(x)."""

from __future__ import annotations

from discreet.catalog.types import Type
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.measures.lattice_value import lattice_value
from discreet.plan.measures.measure import Total
from discreet.query.expr import Expr


def total(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the noisy sum; whole when its values are."""
    (argument,) = arguments
    value = lattice_value(argument, needs.facts)
    return needs.column(Total(value), Type.INT if value.is_whole else Type.REAL)
