"""Aggregates whose result holds several values: lists of quantiles, the commonest values, histograms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

from discreet.catalog.types import Type
from discreet.errors import MissingBounds, UnsupportedQuery
from discreet.mechanisms.additive import Additive
from discreet.plan.aggregates.aggregate import Aggregate, Needs, type_of
from discreet.plan.aggregates.dated import counted_moments
from discreet.plan.nodes.node import Answer, Node, answer_node
from discreet.plan.nodes.of_tree import Histogram, Top
from discreet.plan.quantile_tree.binned import binned_tree
from discreet.plan.quantile_tree.shape import TreeShape, counted_tree
from discreet.query.expr import Expr, Literal
from discreet.query.ranges import range_of

MOST_SHOWN = 1000
"""Values in one histogram."""


def each(aggregate: Aggregate) -> Aggregate:
    """Return the list of an aggregate's results, one for each of the arguments after the first."""

    def found(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
        value, *others = arguments
        return ListOf(tuple(answer_node(aggregate((value, other), needs)) for other in others))

    return found


def top(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the values with the greatest noisy weights, the greatest first: no more than there are."""
    value, most = arguments
    assert isinstance(most, Literal) and isinstance(most.value, int)
    kind = type_of(value, "APPROX_TOP_K")
    shape = _counted(value, needs, "APPROX_TOP_K")
    return Top(shape, min(most.value, shape.leaves), kind)


def histogram(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """Return the noisy number of rows with each declared value or, with boundaries, between each two of them."""
    value, *bounds = arguments
    kind = type_of(value, "HISTOGRAM")
    if bounds:
        return _binned(value, bounds, needs)
    shape = _counted(value, needs, "HISTOGRAM")
    if shape.leaves > MOST_SHOWN:
        raise UnsupportedQuery(
            f"HISTOGRAM shows at most {MOST_SHOWN:,} values; the declared range has {shape.leaves:,}.", hint=_BINS
        )
    return Histogram(shape, kind)


def _binned(value: Expr, bounds: list[Expr], needs: Needs) -> Expr:
    assert value.type is not None
    ends = [e.value for e in bounds if isinstance(e, Literal)]
    return Histogram(binned_tree(value, ends, range_of(value, needs.facts)[1]), value.type)


def _counted(value: Expr, needs: Needs, word: str) -> TreeShape:
    """Return the tree that MODE reads; what is missing is said of this aggregate."""
    try:
        return counted_tree(value, needs.facts)
    except (MissingBounds, UnsupportedQuery) as error:
        if isinstance(error, MissingBounds) and value.type is not None and value.type.is_moment:
            return counted_moments(value, needs.facts)
        said = error.message.replace("Quantiles, MIN, MAX and MODE", f"{word} and the like").replace("MODE", word)
        hint = error.hint.replace("MODE", word) if word == "APPROX_TOP_K" else error.hint
        raise type(error)(said, hint=_BINS if value.type is Type.REAL else hint, missing=error.missing) from None


_BINS = "give the ends of bins: HISTOGRAM(x, [10, 20, 50])"


@dataclass(frozen=True, slots=True)
class ListOf(Node):
    """A list of values, each of which could be a column of its own."""

    items: tuple[Node, ...]
    type: Type = Type.LIST

    @property
    def children(self) -> tuple[Node, ...]:
        return self.items

    def map_children(self, change: Callable[[Any], Any]) -> Self:
        return replace(self, items=tuple(change(e) for e in self.items))

    @property
    def has_interval(self) -> bool:
        return all(e.has_interval for e in self.items)

    def compiled(self) -> Answer:
        each = [e.compiled() for e in self.items]
        return lambda keys, cells: [e(keys, cells) for e in each]

    def interval(self, noises: Sequence[Additive], confidence: Fraction) -> Answer:
        each = [e.interval(noises, confidence) for e in self.items]
        return lambda keys, cells: [e(keys, cells) for e in each]
