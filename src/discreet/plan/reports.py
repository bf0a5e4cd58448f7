"""What `truncation=` buys: counts of units by what is cut off of them, for caps, keys and values.

Guarantee:
    Each report is a vector of counts, and every unit with a row in the query is in exactly one of them, whatever its
    rows hold. So one unit that comes or goes moves one count by 1 (Δ₁ = 1), and one that is replaced moves two
    (Δ₁ = 2), however many parts a report tells apart (docs/proofs/truncation.md). Which reports there are follows from
    the query and what is declared, never from the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.summed import summed_noises
from discreet.plan.bound import BoundedQuery, bounding, columns_sql, totals_sql
from discreet.plan.clamping import bound_of, kept, may_clamp, name_of, possible_values
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.privacy.unit import Relation, Sensitivity
from discreet.query.bind import call
from discreet.query.expr import Call, Expr, Literal, finite
from discreet.query.narrowing import terms_of

if TYPE_CHECKING:
    from discreet.plan.quantile_tree.shape import TreeShape
    from discreet.plan.question import Question


class Part(Enum):
    """What a report tells apart of a unit."""

    GROUPS = "groups"
    """It has rows in more than `max_groups` groups."""
    ROWS = "rows"
    """It has more than `max_rows` rows in one group."""
    ALL = "all rows"
    """It has more than `max_contributions` rows in all."""
    BELOW = "below"
    """A row of it has a value below the bounds."""
    ABOVE = "above"
    """A row of it has a value above them."""
    UNDECLARED = "undeclared"
    """A row of it has a value that is not in the declared list."""
    NULL = "null"
    """A row of it has no value, or one that is not a number."""


@dataclass(frozen=True, slots=True)
class Report:
    """One vector of counts.

    Attributes:
        name: what it is about, for people.
        parts: what it tells apart; where each row is a unit, a row is of one of them or of none.
        tests: SQL for each part: on a row, or for the caps on what is known of a unit.
        of: the clamped value that it is about, or the key; None for the caps.
        bounds: what the value is clamped to, for people; empty for others.
        is_row: whether each row is a unit.
    """

    name: str
    parts: tuple[Part, ...]
    tests: tuple[str, ...]
    of: LatticeValue | Expr | None
    bounds: str
    is_row: bool

    @property
    def places(self) -> int:
        """How many counts there are: for each part or none of them, or for each set of parts."""
        return len(self.parts) + 1 if self.is_row else 1 << len(self.parts)

    @property
    def what(self) -> str:
        """What is counted."""
        return "rows" if self.is_row else "units"

    def counted(self, parts: Sequence[Part]) -> tuple[int, ...]:
        """Return the places of the units of which any of these parts is so."""
        chosen = {i for i, p in enumerate(self.parts) if p in parts}
        if self.is_row:
            return tuple(i + 1 for i in sorted(chosen))
        return tuple(p for p in range(self.places) if any(p >> i & 1 for i in chosen))


def count_margin(report: Report, noise: Additive, part: Part) -> int:
    """Return by how much the noise of a report's counts moves the count of a part at most, with 95 %."""
    return summed_noises((noise,), len(report.counted([part])))[0].quantile(Fraction(19, 20))


def report_moves(relation: Relation) -> Sensitivity:
    """How far one unit moves a report: it is in one count, and leaves it, or leaves it for another."""
    return Sensitivity(2 if relation is Relation.REPLACE else 1, 1)


def reports_of(question: Question) -> tuple[Report, ...]:
    """Return the reports of a query: on the caps where a unit has many rows, then on keys and values, each of these
    once.

    Raises:
        UnsupportedQuery: nothing can be cut off of it.
    """
    unit = question.table.unit
    assert unit.caps is not None
    b, (most_groups, most_rows) = bounding(question), unit.caps
    tests = {Part.GROUPS: f"groups > {most_groups}", Part.ROWS: f"most > {most_rows}"}
    if not b.ranks_groups:
        del tests[Part.GROUPS]  # there are no more, or fewer rows are kept
    if b.most is not None:
        tests[Part.ALL] = f"total > {b.most}"
        if b.most <= most_rows:
            del tests[Part.ROWS]
    caps = [] if unit.is_row else [Report("the caps", tuple(tests), tuple(tests.values()), None, "", False)]
    found = {r.of: r for r in (*_of_keys(question), *_of_values(question))}
    if not caps and not found:
        raise UnsupportedQuery(
            "Nothing is cut off of this query: each row is a unit, and no bounds or lists of values apply to it.",
            hint="leave truncation out",
        )
    return (*caps, *_named_apart(list(found.values())))


def _named_apart(found: Sequence[Report]) -> Iterator[Report]:
    """Yield the reports, with a number behind names that others have as well."""
    names = [r.name for r in found]
    for i, r in enumerate(found):
        number = f" ({names[:i].count(r.name) + 1})" if names.count(r.name) > 1 else ""
        yield replace(r, name=r.name + number)


def report_sql(b: BoundedQuery, reports: Sequence[Report]) -> tuple[str, ...]:
    """Return the statements of the reports, in their order: each gives one row of counts, those of a report side by
    side.
    """
    caps = [r for r in reports if r.of is None]
    columns = [r for r in reports if r.of is not None]
    texts = [totals_sql(b, caps[0].tests, caps[0].places)] if caps else []
    return (*texts, *([columns_sql(b, [(r.tests, r.places) for r in columns])] if columns else []))


def _of_keys(question: Question) -> Iterator[Report]:
    """For each key with a list of values: which rows have another one, and are in no group."""
    lists = question.keys.lists or ()
    for i, (expr, values) in enumerate(zip(question.keys.exprs, lists, strict=False)):
        can_be, unknown, listed = (
            possible_values(expr, question.where),
            f"({finite(call('is null', [expr]))})",
            f"k{i}.g IS NULL",
        )
        tests = {}
        if can_be is None or can_be - {None, *values}:
            tests[Part.UNDECLARED] = f"{listed} AND NOT {unknown}"
        if None not in values and (None in can_be if can_be is not None else not terms_of(expr, question.where)):
            tests[Part.NULL] = f"{listed} AND {unknown}"
        if tests:
            name = f"the key {name_of(expr, question)}"
            yield Report(name, tuple(tests), tuple(tests.values()), expr, "", question.table.unit.is_row)


def _of_values(question: Question) -> Iterator[Report]:
    """For each value that is clamped, or counted only where it is listed: which rows have another one, or none."""
    sums = [v for m in question.measures for v in m.clamped]
    trees = [tree_read.shape for tree_read in question.trees if tree_read.shape.layers is None]
    for value in (*sums, *(s.value for s in trees if s.listed is None)):
        if may_clamp(value, question.where):
            yield _report(value.expr, value, _beyond(value), question)
    for shape in trees:
        listed = _listed(shape)
        if listed is not None:
            other = call("and", [call("not", [call("is null", [listed])]), call("is null", [shape.value.expr])])
            yield _report(listed, shape.value, {Part.UNDECLARED: other}, question)


def _report(expr: Expr, of: LatticeValue, tests: dict[Part, Expr], question: Question) -> Report:
    tests[Part.NULL] = _unknown(expr)
    bounds = "" if Part.UNDECLARED in tests else f"[{bound_of(of, of.low)}, {bound_of(of, of.high)}]"
    texts = tuple(finite(test) for test in tests.values())
    return Report(name_of(expr, question), tuple(tests), texts, of, bounds, question.table.unit.is_row)


def _beyond(value: LatticeValue) -> dict[Part, Expr]:
    """Whether a row's value is moved by the clamp: by more than the one step of the grid by which it may be rounded, so
    that a declared bound that lies between two grid points is itself inside.
    """
    step = 0 if value.is_whole else 1
    low, high = (_number(value, k) for k in (value.low - step, value.high + step))
    return {Part.BELOW: call("<", [value.expr, low]), Part.ABOVE: call(">", [value.expr, high])}


def _number(value: LatticeValue, steps: int) -> Literal:
    if value.is_whole:
        return Literal(steps, Type.INT)
    return Literal(float(steps * value.step), Type.REAL)  # exact: 32 bits times a power of two


def _unknown(expr: Expr) -> Expr:
    """Whether a row has no value; a row that FILTER leaves out is not asked for one."""
    match expr:
        case Call("case", (condition, value, Literal(None, _)), _):
            return call("case", [condition, _unknown(value), Literal(False, Type.BOOL)])
        case _:
            return call("is null", [expr])


def _listed(shape: TreeShape) -> Expr | None:
    """Return the value whose places in a list are a tree's leaves; None where every value has a leaf."""
    parts = shape.value.expr.children
    if shape.listed is None or not parts or not (told := parts[0].args_of("=")):
        return None  # among others bins, which hold all values
    can_be = possible_values(kept(told[0]))
    return None if can_be is not None and can_be - {None} <= {*shape.listed} else told[0]
