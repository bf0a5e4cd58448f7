"""AVG(x), centred: the middle of the bounds plus a noisy sum of differences over a noisy count."""

from __future__ import annotations

from discreet.catalog.types import Type
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.measures.lattice_value import lattice_value
from discreet.plan.measures.measure import CentredTotal, KnownCount
from discreet.plan.nodes.mean import Mean
from discreet.query.expr import Expr


def mean(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the noisy mean, a number inside the bounds whatever the noise."""
    (argument,) = arguments
    value = lattice_value(argument, needs.facts)
    numerator = CentredTotal(value)
    return Mean(
        needs.column(numerator, Type.REAL),
        needs.column(KnownCount(argument), Type.INT),
        numerator.centre * value.step,
        value.low * value.step,
        value.high * value.step,
    )
