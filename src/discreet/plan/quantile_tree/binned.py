"""The tree of a column over bins whose ends are written in the query."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.quantile_tree.shape import TreeShape
from discreet.query.bind import call
from discreet.query.expr import Expr, Literal
from discreet.query.functions.function import Bound
from discreet.query.ranges import range_of

BEYOND: dict[Type, Scalar] = {
    Type.INT: float("inf"),
    Type.REAL: float("inf"),
    Type.DATE: dt.date.max,
    Type.TIMESTAMP: dt.datetime.max,
}
"""What the bin above the last end is called, by the type of the values: as in DuckDB, but for whole numbers."""


def binned_tree(value: Expr, ends: Sequence[Scalar], high: Bound) -> TreeShape:
    """Return a leaf for each bin: from above the end before it up to its own. NULL is in none.

    Where values above the last end can be, since `high` is above it, one more leaf has them; else the last bin has all
    that is left.
    """
    kind = value.type
    assert kind is not None and ends
    keys: list[Any] = sorted({*ends})  # all of one type
    if high > range_of(Literal(keys[-1], kind), {})[1] and keys[-1] != BEYOND[kind]:
        keys.append(BEYOND[kind])
    arms: list[Expr] = []
    for i, key in enumerate(keys[:-1]):
        arms += [call("<=", [value, Literal(key, kind)]), Literal(i, Type.INT)]
    arms += [call("not", [call("is null", [value])]), Literal(len(keys) - 1, Type.INT)]
    place = call("case", [*arms, Literal(None, None)])
    return TreeShape(LatticeValue(place, 0, len(keys) - 1, Fraction(1)), 1, tuple(keys), len(keys), 1)
