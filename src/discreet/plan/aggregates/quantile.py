"""MEDIAN, QUANTILE_CONT, QUANTILE_DISC, MIN, MAX and MODE: read from a tree, which several shares of a column have."""

from __future__ import annotations

from fractions import Fraction

from discreet.catalog.types import Type
from discreet.errors import MissingBounds
from discreet.plan.aggregates.aggregate import Needs, type_of
from discreet.plan.aggregates.dated import as_moment, counted_moments
from discreet.plan.nodes.of_tree import Mode, Quantile
from discreet.plan.quantile_tree.shape import counted_tree, ordered_tree
from discreet.query.expr import Expr, Literal


def quantile(arguments: tuple[Expr, ...], needs: Needs, *, continuous: bool = True) -> Expr:
    """Return the value of a leaf, near the one below which a share of the rows lies: never between two leaves.

    A continuous quantile is a REAL, a discrete one has the type of its column; both are the same leaf. The interval
    covers either definition.
    """
    value, share = arguments
    assert isinstance(share, Literal)
    kind = Type.REAL if continuous or value.type is None else value.type
    return Quantile(ordered_tree(value, needs.facts), Fraction(str(share.value)), kind)


def extreme(arguments: tuple[Expr, ...], needs: Needs, *, greatest: bool) -> Expr:
    """MIN or MAX: the value beyond which hardly any rows lie, fewer than noise alone would show.

    One person may be the only one at the true extreme, so it cannot be told; the interval holds it, and reaches to the
    declared bound on that side.
    """
    (value,) = arguments
    assert value.type is not None
    return Quantile(ordered_tree(value, needs.facts), Fraction(int(greatest)), value.type)


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
