"""Where values lie whose bounds nobody declared: chosen privately before the query is asked, one range a value.

A whole expression has a range, not each of its columns: the product of two bounds is wider than the bounds of the
product.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from discreet.catalog.schema import Fact, Range
from discreet.catalog.types import Type
from discreet.query.expr import Expr
from discreet.query.ranges import range_of


class Ranges(ABC):
    """The range of an expression whose bounds do not follow from what is declared."""

    __slots__ = ()

    @abstractmethod
    def of(self, expr: Expr) -> Range | None:
        """Return the range that its values are clamped to; None when there is none."""


@dataclass(slots=True)
class Missing(Ranges):
    """Finds out which ranges a query lacks; each is taken to be from −`most` to `most`, or from 0 to 1."""

    most: int | None = None
    whole: int | None = None
    """The same for whole numbers."""
    found: list[Expr] = field(default_factory=list)

    def of(self, expr: Expr) -> Range | None:
        if expr.type not in (Type.INT, Type.REAL):
            return None
        if expr not in self.found:
            self.found.append(expr)
        whole = expr.type is Type.INT
        most = self.whole if whole else self.most
        return Range(0, 1, integer=whole) if most is None else Range(-most, most, integer=whole)


@dataclass(frozen=True, slots=True)
class ChosenRanges(Ranges):
    """Ranges that were chosen, each for its expression."""

    given: Mapping[Expr, Range]

    def of(self, expr: Expr) -> Range | None:
        return self.given.get(expr)


@dataclass(frozen=True, slots=True)
class CappedRanges(Ranges):
    """Ranges by the contribution bounds: of what is made of a unit's number of rows, and of sums over its rows."""

    known: Mapping[str, Fact]

    def of(self, expr: Expr) -> Range | None:
        low, high = range_of(expr, self.known)
        return None if math.isinf(low) or math.isinf(high) else Range(low, high)


class Facts(dict[str, Fact]):
    """What is declared of columns, and beside it the ranges of expressions, and the filter that narrows them."""

    __slots__ = ("ranges", "where")

    def __init__(self, declared: Mapping[str, Fact], ranges: Ranges | None, where: Expr | None = None) -> None:
        super().__init__(declared)
        self.ranges = ranges
        self.where = where


def chosen_range(expr: Expr, facts: Mapping[str, Fact]) -> Range | None:
    """Return the range of an expression that was chosen for it; None when none was."""
    ranges = facts.ranges if isinstance(facts, Facts) else None
    return None if ranges is None else ranges.of(expr)
