"""Quantiles, extremes and modes of dates and times: those of their whole days, or seconds, since 1970, and back.

What is measured is a whole number between public bounds, as for any number: a date is its day, and a time is read to
the whole second.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Never

from discreet.catalog.schema import Fact
from discreet.catalog.types import Type
from discreet.errors import MissingBounds, MissingFact, UnsupportedQuery
from discreet.plan.aggregates.aggregate import Aggregate, Needs
from discreet.plan.quantile_tree.shape import MOST_LEAVES, TreeShape, counted_tree
from discreet.query.bind import call
from discreet.query.expr import Call, Expr, Literal, cells_of
from discreet.query.functions.calendar import EPOCH
from discreet.query.ranges import range_of


def dated(aggregate: Aggregate, whole: Aggregate) -> Aggregate:
    """Return an aggregate that takes dates and times too: of the numbers that stand for them it is `whole`, a whole
    number.
    """

    def found(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
        value, *rest = arguments
        kind = value.type
        if kind is None or not kind.is_moment:
            return aggregate(arguments, needs)
        return as_moment(whole((as_number(value, needs.facts), *rest), needs), kind)

    return found


def as_number(value: Expr, facts: Mapping[str, Fact]) -> Expr:
    """Return the whole days of a date since 1970, or the whole seconds of a time; NULL where it is NULL.

    Raises:
        MissingBounds: no bounds of it are known.
    """
    if any(math.isinf(end) for end in range_of(value, facts)):
        _refuse_unbounded(value, facts)
    match value:
        case Call("case", (condition, inner, Literal(None, _)), _):  # FILTER
            return call("case", [condition, _whole(inner), Literal(None, None)])
        case _:
            return _whole(value)


def counted_moments(value: Expr, facts: Mapping[str, Fact]) -> TreeShape:
    """Return the tree of a date or time of which each whole day or second is a leaf.

    Raises:
        MissingBounds, UnsupportedQuery: no bounds of it are known, or they are too far apart.
    """
    number = as_number(value, facts)
    low, high = range_of(number, facts)
    if high - low >= MOST_LEAVES:
        raise UnsupportedQuery(
            f"More than {MOST_LEAVES:,} days or seconds lie between the bounds of a date or time, too many to be "
            "counted one by one.",
            hint="count coarser values: the days CAST(x AS DATE) of a time, or date_part('hour', x)",
        )
    return counted_tree(number, facts)


def as_moment(number: Expr, kind: Type) -> Expr:
    """Return the date, or the time, so many whole days or seconds after 1970."""
    if kind is Type.DATE:
        return call("date + days", [Literal(EPOCH.date(), Type.DATE), number])
    microseconds = call("*", [number, Literal(1_000_000, Type.INT)])
    return call("add_microseconds", [Literal(EPOCH, Type.TIMESTAMP), microseconds])


def _whole(value: Expr) -> Expr:
    unit = "day" if value.type is Type.DATE else "second"
    return call(f"diff_{unit}", [Literal(EPOCH, Type.TIMESTAMP), value])


def _refuse_unbounded(value: Expr, facts: Mapping[str, Fact]) -> Never:
    first, last = dt.date(2020, 1, 1), dt.date(2026, 1, 1)
    names = dict.fromkeys(e.name for e in cells_of(value) if any(math.isinf(end) for end in range_of(e, facts)))
    if not names:
        raise MissingBounds(
            "Quantiles, MIN, MAX and MODE of a date or time need its bounds: none follow from those of its columns.",
            hint=f"clamp it in the query: greatest(DATE '{first}', least(DATE '{last}', …))",
        )
    day = "dp.Range(date(2020, 1, 1), date(2026, 1, 1))"
    raise MissingBounds(
        f"Quantiles, MIN, MAX and MODE of a date or time need the bounds of {' and '.join(map(repr, names))}, "
        "which must not be read from the data.",
        hint=f"declare what is publicly known: columns={{{next(iter(names))!r}: {day}}}",
        missing=[MissingFact("moments", f"the bounds of {n!r}", f"columns={{{n!r}: {day}}}", column=n) for n in names],
    )
