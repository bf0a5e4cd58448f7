"""The second derivation of a query to two populations: from its SQL, and from the caps of its flows.

A grammar of one statement, written apart from its writer. For every text that fits, what the database gives is one
row for each group and pair of units, with whole numbers from 0 to below 2^31 that follow from the rows of this group
and pair alone, whatever the table holds. A flow through caps moves by at most a unit's cap then; the argument is in
docs/proofs/flows.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from discreet.mechanisms.additive import Additive
from discreet.privacy.unit import Relation, Sensitivity
from discreet.verify.claim import Cost
from discreet.verify.derive import PrivateRows, parsed, unit_rows, whole_kind, whose
from discreet.verify.kinds import span_of
from discreet.verify.lists import key_lists
from discreet.verify.plain import ambiguity
from discreet.verify.price import Moves, PricedPart, check_divergence, check_events, check_total, column_moves
from discreet.verify.shapes import filters, grouped_by, is_known, outputs, reads_stage, reject, whole_constant
from discreet.verify.view import check_views

_MOST = 1 << 31

_NARROW = {exp.DataType.Type.TINYINT: -(1 << 7), exp.DataType.Type.SMALLINT: -(1 << 15)}


@dataclass(frozen=True, slots=True)
class ClaimedFlow:
    """A flow: the place of its number in the statement, its sign in the column, and what a unit of each population
    passes.
    """

    place: int
    sign: int
    caps: tuple[int, int]


@dataclass(frozen=True, slots=True)
class FlowColumn:
    """An integer column: its flows, and the noise on it."""

    flows: tuple[ClaimedFlow, ...]
    noise: Additive


@dataclass(frozen=True, slots=True)
class Side:
    """What is promised to one population: its neighbours, how far a unit moves each column, and what is charged."""

    unit: str
    relation: Relation
    sensitivities: tuple[Sensitivity, ...]
    cost: Cost


@dataclass(frozen=True, slots=True)
class FlowClaim:
    """What two charges pay for, each to its own population.

    Attributes:
        table: the one table that is read.
        columns: its columns.
        sql: gives what each pair of units carries in each group.
        lists: how many values each key may have.
        measured: the integer columns.
        sides: the two populations.
        view: the text by which the table shows its source (`view`); None where it is connected to none.
    """

    table: str
    columns: frozenset[str]
    sql: str
    lists: tuple[int, ...]
    measured: tuple[FlowColumn, ...]
    sides: tuple[Side, Side]
    view: str | None = None


@dataclass(frozen=True, slots=True)
class Edges:
    """What a statement gives: the most that each number of a row can be, and how many values each key has."""

    most: tuple[int, ...]
    lists: tuple[int, ...]


def check_flows(claim: FlowClaim) -> None:
    """Refuses a claim whose SQL says something else than it claims, or that charges either population too little.

    Raises:
        InternalError: the two derivations disagree.
    """
    first, second = (side.unit for side in claim.sides)
    check_views(PrivateRows(claim.table, claim.columns, first, view=claim.view), [second])
    derived_flows(claim)
    for place, side in enumerate(claim.sides):
        part = priced_side(claim, place)
        check_total([part], side.cost)
        check_events([part], side.cost)
        check_divergence([part], side.cost)


def derived_flows(claim: FlowClaim) -> Edges:
    """Return what the statement gives; the flows of a claim are of its numbers.

    Raises:
        InternalError: a text that is not known to give such numbers, or does not fit what is claimed of it.
    """
    first, second = claim.sides
    found = derive_edges(claim.sql, claim.table, claim.columns, (first.unit, second.unit), len(claim.lists))
    if found.lists != claim.lists:
        reject("what the groups are")
    for column in claim.measured:
        signs = [flow.sign for flow in column.flows]
        if not signs or len(set(signs)) != len(signs) or not set(signs) <= {1, -1}:
            reject("the flows of a column")
        for flow in column.flows:
            if not 0 <= flow.place < len(found.most) or not all(0 <= cap < _MOST for cap in flow.caps):
                reject("the flows of a column")
    return found


def side_moves(claim: FlowClaim, place: int) -> tuple[Moves, ...]:
    """How far one unit of a population moves each column: by at most its caps, in every group.

    Raises:
        InternalError: further than is claimed.
    """
    side, groups, found = claim.sides[place], math.prod(claim.lists), []
    if len(side.sensitivities) != len(claim.measured):
        reject("the number of columns")
    for column, said in zip(claim.measured, side.sensitivities, strict=True):
        span = span_of_side(column, place)
        moved = column_moves(span, groups, groups, replace=side.relation.value == "replace")
        if not moved.within(said):
            reject("how far a unit moves a column")
        found.append(moved)
    return tuple(found)


def span_of_side(column: FlowColumn, place: int) -> tuple[int, int]:
    """Return what a unit of a population adds to a group of the column, at least and at most."""
    down = sum(flow.caps[place] for flow in column.flows if flow.sign < 0)
    return -down, sum(flow.caps[place] for flow in column.flows if flow.sign > 0)


def priced_side(claim: FlowClaim, place: int) -> PricedPart:
    """Return what the noise is for, for one of the two populations.

    Raises:
        InternalError: a unit moves a column further than is claimed.
    """
    moves = side_moves(claim, place)
    priced = tuple((m, column.noise) for m, column in zip(moves, claim.measured, strict=True))
    none = Fraction(0)
    return PricedPart(priced, priced, (none, none), (), none, none, math.prod(claim.lists))


def derive_edges(sql: str, table: str, columns: frozenset[str], units: tuple[str, str], keys: int) -> Edges:
    """Return what each row of the statement has.

    Raises:
        InternalError: a shape of which it is not known that each number is of one group and one pair of units.
    """
    if (found := ambiguity(sql)) is not None:
        reject(found)
    first, second = (PrivateRows(table, columns, unit) for unit in units)
    tree, ctes, _ = parsed(sql, first)
    _, row, lists = unit_rows(ctes, first)
    named = [f"g{i}" for i in range(keys)]
    if not {*named, "w"} <= row.keys() or units[0] == units[1]:
        reject("the columns of the rows")
    whose(second, row["w"])
    allowed = {"expressions", "from_", "where", "group", "with_"}
    reads_stage(tree, "unit rows", allowed)
    by = [*named, "u", "w"]
    grouped_by(tree, by)
    if [is_known(term, "", "w") for term in filters(tree)] != [True]:
        reject("rows without a unit are not dropped")
    numbers = outputs(tree, by)
    if list(numbers) != [f"m{i}" for i in range(len(numbers))]:
        reject("the order of the columns")
    own = {name: e for name, e in row.items() if name not in by}
    most = tuple(_capped(number, own) for number in numbers.values())
    if set(ctes) != {"unit rows"} | {n for n in ctes if n.startswith(("key ", "list "))}:
        reject("the stages of the query")
    sizes, listed = key_lists(ctes), {}
    for name in named:
        place = row[name]
        if type(place) is not exp.Column or place.name != "g" or place.table not in lists:
            reject("what the groups are")
        listed[place.table] = sizes[lists[place.table]]
    if len(listed) != keys:
        reject("what the groups are")
    return Edges(most, tuple(listed.values()))


def _capped(number: exp.Expr, row: dict[str, exp.Expr]) -> int:
    """Return the c of least(T, c), a constant below 2^31, where T counts rows or adds up whole numbers from 0 on."""
    if type(number) is not exp.Least or len(number.expressions) != 1:
        reject("a number that is not capped")
    most = whole_constant(number.expressions[0])
    if not 0 <= most < _MOST:
        reject("a number that is not capped")
    total = number.this
    if type(total) is exp.Count and not total.expressions:
        if type(total.this) is exp.Star or _is_own(total.this, row):
            return most
        reject("a tally")
    if type(total) is not exp.Coalesce or [str(x) for x in total.expressions] != ["0"]:
        reject("a tally")
    added = total.this.this if type(total.this) is exp.Sum else None
    if type(added) is not exp.Greatest or [str(x) for x in added.expressions] != ["0"]:
        reject("a number below 0")
    negated = type(added.this) is exp.Neg
    value = added.this.this if negated else added.this
    if not _is_own(value, row):
        reject("a tally")
    whole_kind(row[value.name], {})
    ends = span_of(row[value.name], frozenset())
    if any(not -_MOST < end < _MOST for end in ends):
        reject("a contribution without bounds")
    if negated and any(math.floor(ends[0]) <= least for least in _least_of_narrow(row[value.name])):
        reject("a number whose negative may not exist")
    return most


def _least_of_narrow(e: exp.Expr) -> list[int]:
    """Return the least numbers of the types below INTEGER that the expression may be of: they have no negative."""
    casts = list(e.find_all(exp.Cast))
    return [least for kind, least in _NARROW.items() if any(c.to.is_type(kind) for c in casts)]


def _is_own(e: exp.Expr, row: dict[str, exp.Expr]) -> bool:
    """Whether it is just one of the rows' columns."""
    return type(e) is exp.Column and e.table == "" and e.name in row
