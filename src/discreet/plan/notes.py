"""What a plan's numbers leave out, in sentences: clamping, caps, undeclared values, groups that are not shown.

Every sentence follows from the plan alone, so that it is the same whatever the rows hold.
"""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.plan.clamping import bound_of, kept, may_clamp, name_of, possible_values
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.quantile_tree.binned import BEYOND
from discreet.plan.quantile_tree.shape import TreeShape
from discreet.plan.question import Question, shows_present
from discreet.privacy.guarantee import decimal
from discreet.query.expr import Expr, Literal, columns_of, walk
from discreet.query.functions.calendar import EPOCH
from discreet.query.narrowing import terms_of
from discreet.query.ranges import range_of
from discreet.query.relation.node import MOST_PARTS, Join, Project, Reach, TableScan, TextParts, is_once, nodes_in

if TYPE_CHECKING:
    from discreet.mechanisms.rounds import Selection
    from discreet.plan.decided import Decided

SHOWN = Fraction(19, 20)
"""The probability with which a group is shown that has as many units as the note on missing groups says."""


def notes(plan: Decided) -> tuple[str, ...]:
    """Return what the plan's numbers leave out, one sentence for each kind of it."""
    found = (
        *plan.question.said,
        linked(plan.question),
        split(plan.question),
        bias(plan),
        undeclared(plan.question),
        missing(plan),
        present(plan.question),
        *unlisted(plan.question),
        *public_read(plan.question),
        one_row_each(plan),
    )
    return tuple(sentence for sentence in found if sentence)


def split(question: Question) -> str:
    """Return how many parts of a text are rows; nothing where none is split."""
    if question.relation is None or not any(isinstance(n, TextParts) for n in nodes_in(question.relation.node)):
        return ""
    return f"Of a text that is split, the first {MOST_PARTS:,} parts are rows."


def linked(question: Question) -> str:
    """Return which joins hold the units equal by a link alone; nothing where none does."""
    pairs = () if question.relation is None else question.relation.linked
    one = f"{_whose(question)} is held equal too where rows meet on {' and on '.join(pairs)}, as its link declares."
    return one if pairs else ""


def present(question: Question) -> str:
    """Return how it is decided which known groups are shown, where nothing else is asked of them."""
    if not shows_present(question):
        return ""
    who = "rows" if question.table.unit.is_row else "units"
    return (
        f"A group is shown where its noisy count of {who} is above 1/2: an empty one may be shown, and one with few "
        f"{who} may be missing. COUNT(*) beside it says how sure that is."
    )


def bias(plan: Decided) -> str:
    """Return what is clamped and what is capped, by column; nothing where neither can be."""
    return said_of([*clamped(plan.question), *capped(plan)])


def said_of(parts: Sequence[str]) -> str:
    """Return the sentence of these causes of truncation bias."""
    return f"Truncation bias, which ± does not cover: {'; '.join(parts)}." if parts else ""


def bias_of_facts(facts: Mapping[str, Fact], rest: str) -> str:
    """Return the sentence of a recipe that reads these columns; `rest` is what undeclared values become."""

    def end(fact: Range, at: Fraction) -> str:
        moment = EPOCH + dt.timedelta(microseconds=float(at)) if fact.type.is_moment else None
        return decimal(at) if moment is None else str(moment.date() if fact.type is Type.DATE else moment)

    held = {n: f"[{end(f, f.low)}, {end(f, f.high)}]" for n, f in facts.items() if isinstance(f, Range)}
    ranges = ", ".join(f"{n!r} to {ends}" for n, ends in held.items()).replace(" to [", " is clamped to [", 1)
    open_ = [repr(n) for n, f in facts.items() if isinstance(f, Values) and not {True, False} <= {*f.values}]
    listed = f"undeclared values of {', '.join(open_)} {rest}" if open_ else ""
    parts = [part for part in (ranges, listed) if part]
    return f"Truncation bias, beside the noise: {'; '.join(parts)}." if parts else ""


def clamped(question: Question, *, apart: Sequence[Expr] = ()) -> list[str]:
    """Return which values are moved into their bounds, and which listed values alone are counted; nothing of values
    that are named `apart`.
    """
    ranges: dict[str, None] = {}
    others: dict[str, None] = {}
    for m in question.measures:
        for value in m.clamped:
            if value.expr not in apart and may_clamp(value, question.where):
                ranges[_moved(value, question)] = None
        if m.has_bounds:
            low, high = (decimal(k * m.step) for k in m.span((question.table.unit.caps or (1, 1))[1]))
            ((_, of),) = m.parts
            expr = of.expr if isinstance(of, LatticeValue) else of
            total = "sum" if m.clamped else "count"
            to = f"the {total} of {'rows' if expr is None else name_of(expr, question)}"
            others[f"what one {_whose(question)} adds to {to} is clamped to [{low}, {high}]"] = None
    for tree_read in question.trees:
        shape = tree_read.shape
        if shape.listed is None and shape.value.expr not in apart and may_clamp(shape.value, question.where):
            ranges[_moved(shape.value, question)] = None
        elif shape.listed is not None and shape.layers is None and (said := _listed(shape, question)):
            others[said] = None
    listed = ", ".join(sorted(ranges)).replace(" to [", " is clamped to [", 1)
    return [*([listed] if listed else []), *others]


def capped(plan: Decided) -> list[str]:
    """Return how much of one unit counts; nothing where a unit has one row."""
    from discreet.plan.bound import bounding

    q = plan.question
    if q.table.unit.is_row or (q.relation is not None and is_once(q.relation.node)):
        return []
    b = bounding(q)
    groups = f"in at most {many(b.max_groups, 'group')}" if b.ranks_groups else ""
    of_rows = [m for m in q.measures if not (m.is_of_units or m.has_bounds)]
    alone = not q.trees and all(m.is_apart for m in of_rows)
    inside = b.most is None or b.max_rows < b.most
    rows = f"for at most {many(b.max_rows, 'value' if alone else 'row')}" if inside and (of_rows or q.trees) else ""
    each = "" if not (rows and q.keys.exprs) else " in each group" if not groups else " in each"
    each = " in it" if groups and each and b.max_groups == 1 else each
    total = "" if b.most is None else f"for at most {many(b.most, 'value' if alone else 'row')} in all"
    both = ", ".join(part for part in (groups, rows + each, total) if part)
    return [f"one {_whose(q)} counts {both}"] if both else []


def undeclared(question: Question) -> str:
    """Return which rows are in no group since the value of a key is not declared; nothing where each has a group."""
    named = {e.key: repr(n) for n, e in reversed(question.outer.columns)}
    found = []
    for i, (expr, values) in enumerate(zip(question.keys.exprs, question.keys.lists or (), strict=False)):
        possible = possible_values(expr, question.where)
        can_be_null = None in possible if possible is not None else not terms_of(expr, question.where)
        null = None not in values and can_be_null
        other = possible is None or bool(possible - {None, *values})
        ways = [way for way, is_so in (("NULL", null), ("undeclared", other)) if is_so]
        if ways:
            found.append(f"{named.get(i) or name_of(expr, question)} is {' or '.join(ways)}")
    for joint in (j for j in question.keys.joint if j.some):
        names = " and ".join(named.get(p) or name_of(question.keys.exprs[p], question) for p in joint.places)
        found.append(f"{names} are together no listed key")
    where = "In no group" if question.outer.sets is None else "In no group and no total"
    return f"{where}: rows in which {', or '.join(found)}." if found else ""


def unlisted(question: Question) -> Iterator[str]:
    """Yield each constant that is compared with a column of listed values and is none of them: a slip, perhaps."""
    places = _origins(question)
    for each in dict.fromkeys(e for expr in _row_level(question) for e in walk(expr)):
        args = each.args_of("=", "<>", "in")
        own = [place for a in args if a.column is not None and (place := places.get(a.column))]
        facts = [(column, fact) for table, column in own if isinstance(fact := table.facts.get(column), Values)]
        for column, fact in facts if len(facts) == 1 else ():
            for other in (a for a in args if isinstance(a, Literal) and a.value not in (None, *fact.values)):
                spelled = {str(v).casefold(): v for v in fact.values[:_LISTED]}
                near = difflib.get_close_matches(str(other.value).casefold(), spelled, n=1)
                listed = ", ".join(map(repr, fact.values[:5])) + (", …" if len(fact.values) > 5 else "")
                known = f"perhaps {spelled[near[0]]!r} is meant" if near else f"these are {listed}"
                yield f"{other.value!r} is none of the known values of {column!r}: {known}."


def public_read(question: Question) -> Iterator[str]:
    """Yield each column of a public table of which a noisy quantile, least or largest value is taken in groups."""
    places = _origins(question)
    for value in dict.fromkeys(t.shape.value.expr for t in question.trees if question.keys.exprs):
        own = [places[n] for n in columns_of(value) if n in places]
        if own and all(table.public for table, _ in own):
            named = " and ".join(dict.fromkeys(repr(column) for _, column in own))
            tables = " and ".join(dict.fromkeys(repr(table.name) for table, _ in own))
            yield (
                f"{named} of the public table {tables} is noisy here and costs ε: where a group has one value of it, "
                "it is exact and free in GROUP BY."
            )


def one_row_each(plan: Decided) -> str:
    """Return that caps of 1 have less noise, where a table is called as the people are whose ids it holds."""
    question = plan.question
    tables = (question.table,) if question.relation is None else question.relation.tables
    private = [t for t in tables if not t.public]
    unit = private[0].unit if private else question.table.unit
    if len(private) != 1 or unit.column is None or unit.caps is None or not capped(plan):
        return ""
    table, column = private[0].name.casefold(), unit.column.casefold()
    if max(unit.caps) == 1 or column not in {f"{stem}{_}id" for stem in (table, table[:-1]) for _ in ("_", "")}:
        return ""
    return f"If {private[0].name!r} has one row for each {unit.column!r}, contribution bounds of 1 have less noise."


def _origins(question: Question) -> dict[str, tuple[TableSchema, str]]:
    """Return of which table each column is that the query and its relation name, as far as it is one of a table."""
    if question.relation is None:
        return {name: (question.table, name) for name in question.table.columns}
    found: dict[str, tuple[TableSchema, str]] = {}
    for node in reversed([*nodes_in(question.relation.node)]):
        match node:
            case TableScan() | Reach():
                found |= {here.name: (node.table, there) for here, there in node.columns}
            case Join():
                found |= {here.name: found[there.name] for here, there in node.columns if there.name in found}
            case Project():
                found |= {here.name: found[e.column] for here, e in node.outputs if e.column in found}
    return found


def _row_level(question: Question) -> Iterator[Expr]:
    """Yield the expressions over rows that the query has, and those of its relation."""
    nodes = () if question.relation is None else nodes_in(question.relation.node)
    for node in nodes:
        yield from [e for _, e in node.outputs] if isinstance(node, Project) else []
        condition = node.where if isinstance(node, Project) else node.on if isinstance(node, Join) else None
        yield from [] if condition is None else [condition]
    yield from [*([] if question.where is None else [question.where]), *question.keys.exprs]
    for value in (value for m in question.measures for _, value in m.parts):
        yield from [value.expr if isinstance(value, LatticeValue) else value] if value is not None else []
    yield from (t.shape.value.expr for t in question.trees if t.shape.listed is None)


_LISTED = 1000
"""Of how many listed values one is sought that is near."""


def missing(plan: Decided) -> str:
    """Return how small a group may be missing for it; nothing where the groups are declared.

    Guarantee:
        Of groups with at least as many units as it says, counted within the caps, each is shown with probability
        `SHOWN` or more; with one fewer, with less, where each unit has as many groups as its cap. Where totals are
        shown, groups are those of all keys, and what is missing of them is in no total.
    """
    threshold: Selection | None = plan.allocation.threshold
    if threshold is None:
        return ""
    unit = plan.question.table.unit
    n = threshold.kept_from(SHOWN)
    of = "rows" if unit.is_row else f"different {_whose(plan.question)}"
    by, missed, seen = (
        ("Groups", "", "shown")
        if plan.question.outer.sets is None
        else ("Groups by all keys", ", from totals too", "counted")
    )
    chance = f"one of {n:,} is {seen} with probability {decimal(SHOWN)}"
    return f"{by} of fewer than {n:,} {of} may be missing{missed}; {chance}."


def _moved(value: LatticeValue, question: Question) -> str:
    low, high = (bound_of(value, k) for k in (value.low, value.high))
    return f"{name_of(value.expr, question)} to [{low}, {high}]"


def _listed(shape: TreeShape, question: Question) -> str:
    """Return which values are not counted as they are, where a tree has leaves for listed values or bins."""
    place = shape.value.expr
    assert shape.listed is not None
    first = place.children[0]
    if told := first.args_of("="):
        value, possible = told[0], possible_values(kept(told[0]))
        known = possible is not None and possible - {None} <= {*shape.listed}
        return "" if known else f"only declared values of {name_of(value, question)} count"
    last, kind = shape.listed[-1], Type.REAL
    value = first
    while inner := value.args_of("<=", "not", "is null"):
        value = inner[0]
    kind = value.type or kind
    if last == BEYOND[kind] or not range_of(value, {})[1] > range_of(Literal(last, kind), {})[1]:
        return ""
    return f"{name_of(value, question)} above {last} counts in the last bin"


def many(n: int, what: str) -> str:
    """Return a number of things."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _whose(question: Question) -> str:
    """Return what says whose a row is: the unit's column, by its own name."""
    if question.relation is None:
        unit = question.table.unit
        return "row" if unit.is_row else repr(unit.column)
    private = [t for t in question.relation.tables if not t.public]
    own = [t.unit.column for t in private if t.reached is None]
    reached = [t.reached.column for t in private if t.reached is not None]
    return repr((own or reached)[0])
