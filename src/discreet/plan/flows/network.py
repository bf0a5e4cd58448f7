"""A noisy column over two populations: the flows that it is made of, and how far a unit of either moves it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Never

from discreet.errors import InvalidParameter, MissingBounds, UnsupportedQuery
from discreet.plan.flows.flow import LARGEST
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.measures.measure import (
    CentredTotal,
    DistinctCount,
    KnownCount,
    KnownUnits,
    Measure,
    RowCount,
    Total,
    UnitCount,
)
from discreet.privacy.guarantee import Approximate
from discreet.privacy.unit import PrivacyUnit
from discreet.query.expr import Expr, Literal
from discreet.verify.flows import Side

FEWEST = 1 << 10
"""The fewest grid steps from 0 to the larger bound of a real value: what is lost by rounding is far below the noise."""

_MEANS = re.compile(r"\b(avg|mean|var\w*|std\w*|covar\w*|corr|regr_\w+|sem|skewness|kurtosis\w*)\s*\(", re.IGNORECASE)
_CONSTANT = re.compile(r"'[^']*'|\"[^\"]*\"")

Caps = tuple[int, int]
"""How much a unit of each of the two populations passes in a group."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One maximum flow in each group.

    Attributes:
        sign: 1 where it is added to the column, −1 where it is taken off.
        of: what each row can carry: None for 1; an expression for 1 where it is known; a lattice value for how far it
            is above 0, or below 0 where the sign is −1.
        caps: how much a unit of each population passes.
    """

    sign: int
    of: Expr | LatticeValue | None
    caps: Caps

    @property
    def most(self) -> int:
        """How much one pair of units can carry at all."""
        return min(self.caps)


@dataclass(frozen=True, slots=True)
class Network:
    """A column: its flows, one or two of opposite signs."""

    flows: tuple[Flow, ...]

    def span(self, side: int) -> tuple[int, int]:
        """Return what a unit of that population adds to a group at least and at most: 0 lies between."""
        least = sum(f.caps[side] for f in self.flows if f.sign < 0)
        return -least, sum(f.caps[side] for f in self.flows if f.sign > 0)


def coarser(measure: Measure, units: tuple[PrivacyUnit, PrivacyUnit]) -> Measure:
    """Return the measure on a grid on which what a unit adds at most is within a flow's caps; public facts alone
    decide.

    Raises:
        InvalidParameter: whole numbers whose bounds times `max_rows` are beyond them, or so many rows that a grid would
            have fewer than `FEWEST` steps up to the larger bound, or a bound other than 0 would become 0.
    """
    if not isinstance(measure, Total):
        return measure
    value, rows = measure.value, _within(max(_rows(unit) for unit in units))
    if max(-value.low, value.high, 0) * rows <= LARGEST:
        return measure
    if value.is_whole:
        raise InvalidParameter(
            "max_rows times the bounds of these whole numbers is beyond 2^31 − 1, which is as much as a flow between "
            "two populations carries.",
            hint="sum them as reals, SUM(CAST(x AS DOUBLE)), which are rounded; or declare narrower bounds",
        )
    times = 2
    while -(-max(-value.low, value.high) // times) * rows > LARGEST:  # rounded up, as a single point may be
        times *= 2
    low, high = -(-value.low // times), value.high // times
    if low > high:  # one point, between two grid points
        low = high = value.low // times
    if max(-low, high) < FEWEST or (value.low < 0 <= low) or (value.high > 0 >= high):
        raise InvalidParameter(
            f"max_rows={rows} is so many rows that a flow between two populations carries them only on too coarse a "
            f"grid: one of {float(value.step * times):.3g} for values from {float(value.low * value.step):.6g} to "
            f"{float(value.high * value.step):.6g}.",
            hint="lower max_rows; or declare bounds that are nearer to each other in size",
        )
    return replace(measure, value=LatticeValue(value.expr, low, high, value.step * times))


def network(
    measure: Measure,
    units: tuple[PrivacyUnit, PrivacyUnit],
    columns: tuple[str, str],
    names: tuple[str, str],
    text: str = "",
) -> Network:
    """Return the flows of a measure.

    Args:
        measure: what is asked of the rows.
        units: the two units, with their caps on rows.
        columns: the columns of their ids; a measure's own unit is the first.
        names: what the populations are called, for messages.
        text: the query, from which a refusal takes the name of what is not supported.

    Raises:
        UnsupportedQuery, InvalidParameter: what no flow answers.
    """
    rows = _rows(units[0]), _rows(units[1])
    match measure:
        case RowCount():
            return _one(None, rows)
        case KnownCount(argument):
            return _one(argument, rows)
        case UnitCount():
            return _one(None, (1, rows[1]))
        case KnownUnits(argument):
            return _one(argument, (1, rows[1]))
        case DistinctCount(argument) if _is_id(argument, columns[1]):
            return _one(argument, (rows[0], 1))
        case Total(value):
            up, down = max(value.high, 0), max(-value.low, 0)
            above = Flow(1, value, (rows[0] * up, rows[1] * up))
            below = Flow(-1, value, (rows[0] * down, rows[1] * down))
            return Network(tuple(f for f in (above, below) if f.most) or (above,))
        case _:
            _refuse(measure, names, text)


def _one(of: Expr | None, caps: Caps) -> Network:
    _within(max(caps))
    return Network((Flow(1, of, caps),))


def _within(rows: int) -> int:
    if rows > LARGEST:
        raise InvalidParameter(
            f"max_rows must be at most 2^31 − 1 where two populations are protected, not {rows}.",
            hint="a cap so high bounds nothing",
        )
    return rows


def _rows(unit: PrivacyUnit) -> int:
    if unit.max_rows is None:
        raise MissingBounds(
            f"How many rows one {unit.column!r} may add has not been said.",
            hint=f"dp.PrivacyUnit({unit.column!r}, max_rows=10)",
        )
    return unit.max_rows


def _is_id(argument: Expr, column: str) -> bool:
    """Whether it is the id as it stands, or CASE WHEN … THEN id END: a cast could make one id of two."""
    if parts := argument.args_of("case"):
        *arms, otherwise = parts
        return len(arms) == 2 and otherwise == Literal(None, otherwise.type) and _is_id(arms[1], column)
    return argument.column == column


def _refuse(measure: Measure, names: tuple[str, str], text: str) -> Never:
    both = f"both {names[0]!r} and {names[1]!r} are protected"
    if measure.is_apart:
        raise UnsupportedQuery(
            f"COUNT(DISTINCT x) of anything but the two ids is not supported where {both}.",
            hint="ask for the number of people of either population, or of rows",
        )
    if isinstance(measure, CentredTotal):
        found = _MEANS.search(_CONSTANT.sub("''", text))
        asked = "AVG" if found is None else found[1].upper()
        raise UnsupportedQuery(
            f"{asked} is not supported where {both}: what caps cut off a sum and a count need not be the same rows.",
            hint="write SUM(x) / COUNT(x), which is two results; VAR and the like need the same of x * x",
        )
    raise UnsupportedQuery(
        f"{measure.word.capitalize()} is not supported where {both}.",
        hint="COUNT(*), COUNT(x), SUM(x) and COUNT(DISTINCT id) of either population are",
    )


@dataclass(frozen=True, slots=True)
class FlowPayer:
    """One of the two populations, in one query.

    Attributes:
        population: whose account it is.
        unit: the column of its ids in the table, and the cap on rows.
        allowed: what it may pay.
        side: its neighbours, how far one of its units moves each column, and what it pays.
    """

    population: str
    unit: PrivacyUnit
    allowed: Approximate
    side: Side
