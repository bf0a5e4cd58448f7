"""What an aggregate is: a function from its argument to noisy columns and the expression that combines them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from discreet.catalog.schema import Fact
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.plan.measures.measure import Measure
from discreet.plan.nodes.node import Measured
from discreet.query.expr import Expr


@dataclass(frozen=True, slots=True)
class Needs:
    """How an aggregate asks for measures: `column(measure, type)` is the noisy column, the same for the
    same measure.
    """

    facts: Mapping[str, Fact]
    column: Callable[[Measure, Type], Measured]


Aggregate: TypeAlias = Callable[[tuple[Expr, ...], Needs], Expr]
"""The bound arguments (none for `*`) and the needs → the expression over noisy columns."""


def type_of(value: Expr, word: str) -> Type:
    """Return the type of a value that is counted one by one.

    Raises:
        UnsupportedQuery: a constant NULL, of which there is nothing to count.
    """
    if value.type is None:
        raise UnsupportedQuery(f"{word} of NULL counts nothing.", hint=f"name a column: {word}(x)")
    return value.type
