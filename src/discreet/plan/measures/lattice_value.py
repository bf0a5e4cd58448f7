"""A row-level number on its way to a sum: clamped to public bounds and rounded to a public grid, inside SQL."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Never

from discreet.catalog.schema import Fact, Range
from discreet.catalog.types import Type
from discreet.errors import InvalidParameter, MissingBounds, MissingFact
from discreet.plan.measures.ranges import Facts, chosen_range
from discreet.query.expr import Expr, cells_of, columns_of
from discreet.query.functions.function import EVERYTHING, Interval
from discreet.query.keys import domain
from discreet.query.narrowing import narrowed
from discreet.query.ranges import range_of, range_of_fact

WIDEST = 1 << 62
"""The most that one unit may add to one cell, in grid steps; sums of 2^64 such units fit in 128 bits."""

LARGEST = Fraction(2) ** 1000
"""The largest bound of a real value, whose inverse grid step is still a float."""

SMALLEST = Fraction(1, 2**400)
"""The smallest bound of a real value other than 0: the second derivation still bounds what so fine a grid needs."""

RESOLUTION = 30
"""A real value is rounded to at most 2^-30 of its bound: below the noise for fewer than 2^30 rows, and 32 bits wide."""


@dataclass(frozen=True, slots=True)
class LatticeValue:
    """`expr` as an integer number of grid steps in [low, high]; NULL stays NULL.

    Guarantee:
        Whatever the row holds, the value is NULL or an integer in [low, high]. The grid depends on the declared bounds
        alone.
    """

    expr: Expr
    low: int
    high: int
    step: Fraction

    @property
    def identity(self) -> Any:
        """What makes two of them the same."""
        return [self.expr.identity, self.low, self.high, str(self.step)]

    @property
    def is_whole(self) -> bool:
        """Whether the values are whole numbers rather than rounded reals."""
        return self.expr.type is Type.INT


def lattice_value(expr: Expr, facts: Mapping[str, Fact], *, narrows: bool = True) -> LatticeValue:
    """Return the lattice form of a numeric expression whose bounds follow from the declared ones; where `narrows`, cut
    to what the query's filter lets pass.

    Raises:
        MissingBounds: a column without declared bounds leaves the expression unbounded; the message names it.
    """
    moment = expr.type in (Type.DATE, Type.TIMESTAMP)  # bounded in microseconds, and never a number
    low, high = EVERYTHING if moment else range_of(expr, facts)
    if narrows and not moment:
        low, high = _passing(expr, (low, high), facts)
    if low == -math.inf or high == math.inf:
        chosen = chosen_range(expr, facts) or _listed_range(expr, facts)
        if chosen is None:
            _refuse_unbounded(expr, facts)
        low, high = chosen.low, chosen.high
    a, b = Fraction(low), Fraction(high)
    if expr.type is Type.INT:
        return _whole(expr, math.ceil(a), math.floor(b))
    return lattice_within(expr, a, b)


def _passing(expr: Expr, given: Interval, facts: Mapping[str, Fact]) -> Interval:
    """Return bounds cut to what passes the filter; as they were where no grid fits what is left."""
    found = narrowed(expr, given, facts.where if isinstance(facts, Facts) else None)
    if found[0] == -math.inf or found[1] == math.inf:  # fractions may be beyond floats
        return found
    most = max(abs(Fraction(end)) for end in found)
    return found if most == 0 or most >= SMALLEST else given


def lattice_within(expr: Expr, low: Fraction, high: Fraction) -> LatticeValue:
    """Return the lattice form of a real expression that is clamped to given public bounds, whatever bounds it has
    itself.
    """
    a, b = low, high
    if max(abs(a), abs(b)) > LARGEST:
        _refuse_wide()
    if 0 < max(abs(a), abs(b)) < SMALLEST:
        raise InvalidParameter(
            "The bounds of the values under SUM, AVG and the like are too close to 0: within 2^-400.",
            hint="sum a larger multiple: SUM(x * 1e100)",
        )
    step = grid_step(max(abs(a), abs(b)))
    inner_low, inner_high = math.ceil(a / step), math.floor(b / step)
    if inner_low > inner_high:  # one point, between two grid points
        inner_low = inner_high = round(a / step)
    return LatticeValue(expr, inner_low, inner_high, step)


def _whole(expr: Expr, low: int, high: int) -> LatticeValue:
    """Bounds that leave 64 bits are refused: a value clamped to them could not be cast, and would fail on some row."""
    if low > high:
        raise InvalidParameter(
            "No whole number lies between the declared bounds of a whole-number column.",
            hint="declare bounds with a whole number between them",
        )
    if max(abs(low), abs(high)) > WIDEST:
        _refuse_wide()
    return LatticeValue(expr, low, high, Fraction(1))


def _refuse_wide() -> Never:
    raise InvalidParameter(
        "The bounds of the values under SUM, AVG and the like are too wide: beyond 2^62 for whole numbers, "
        "2^1000 for others.",
        hint="sum a smaller multiple, or declare narrower bounds (dp.Range)",
    )


def grid_step(bound: Fraction) -> Fraction:
    """Return the finest power of two of which `bound` is at most 2^RESOLUTION.

    >>> grid_step(Fraction(200))
    Fraction(1, 4194304)
    """
    if bound == 0:
        return Fraction(1)
    # below the answer
    exponent = bound.numerator.bit_length() - bound.denominator.bit_length() - RESOLUTION - 2
    exponent = max(exponent, -_FINEST)
    while bound > Fraction(2) ** (exponent + RESOLUTION):
        exponent += 1
    return Fraction(2) ** exponent


_FINEST = 1000  # both the step and its inverse stay floats


def _listed_range(expr: Expr, facts: Mapping[str, Fact]) -> Range | None:
    """Return the range of an expression over listed values, such as the length of a listed text."""
    found = [v for v in domain(expr, facts, _MOST_LISTED) or () if isinstance(v, int | float)]
    return Range(min(found), max(found)) if found and max(map(abs, found)) <= WIDEST else None


_MOST_LISTED = 1000


def _refuse_unbounded(expr: Expr, facts: Mapping[str, Fact]) -> Never:
    moments = {c.name for c in cells_of(expr) if c.type.is_moment}
    names = [
        n for n in columns_of(expr) if n not in moments and any(math.isinf(end) for end in range_of_fact(facts.get(n)))
    ]
    if any(math.isinf(end) for end in range_of(expr, {**facts, **dict.fromkeys(names, Range(1, 2))})):
        raise MissingBounds(
            "The values under SUM, AVG and the like have no bounds: no bounds follow from those of their columns.",
            hint="bounds='values' chooses them privately; or clamp in the query: least(high, greatest(low, …))",
        )
    listed = " and ".join(repr(n) for n in names)
    raise MissingBounds(
        f"SUM, AVG and the like need the bounds of {listed}, which must not be read from the data.",
        hint=f"declare what is publicly known: columns={{{names[0]!r}: dp.Range(LOW, HIGH)}}; or bounds='values', "
        "which chooses them privately",
        missing=[
            MissingFact("range", f"the bounds of {n!r}", f"columns={{{n!r}: dp.Range(LOW, HIGH)}}", column=n)
            for n in names
        ],
    )
