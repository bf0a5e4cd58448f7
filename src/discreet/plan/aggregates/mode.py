"""MODE(x): the value that most rows have, among declared ones."""

from __future__ import annotations

from discreet.catalog.types import Type
from discreet.errors import MissingBounds
from discreet.plan.aggregates.aggregate import Needs, type_of
from discreet.plan.aggregates.dated import as_moment, counted_moments
from discreet.plan.nodes.mode import Mode
from discreet.plan.quantile_tree.shape import counted_tree
from discreet.query.expr import Expr


def mode(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the declared value with the greatest noisy weight; the first in their order where several have it.

    Dates and times are listed ones, or the whole days or seconds of a range.
    """
    (value,) = arguments
    kind = type_of(value, "MODE")
    try:
        return Mode(counted_tree(value, needs.facts), kind)
    except MissingBounds:
        if not kind.is_moment:
            raise
    return as_moment(Mode(counted_moments(value, needs.facts), Type.INT), kind)
