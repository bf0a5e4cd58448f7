"""MODE(x): the value that most rows have, among declared ones."""

from __future__ import annotations

from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.expr import Commonest, Expr
from discreet.plan.spread import counted_spread


def mode(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """The declared value with the greatest noisy weight; the first in their order where several have it."""
    (value,) = arguments
    spread = counted_spread(value, needs.facts)
    assert value.type is not None
    return Commonest(spread, value.type)
