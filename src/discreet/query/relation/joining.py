"""Which joins are owned, and the join itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from discreet.catalog.schema import Fact, Range, Values
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.bind import call, declared
from discreet.query.expr import Column, Expr, Literal
from discreet.query.relation.context import Context, Rows
from discreet.query.relation.names import AliasColumns, Item
from discreet.query.relation.node import (
    Constants,
    Distinct,
    Group,
    Join,
    JoinKind,
    Node,
    Over,
    Project,
    TableScan,
    Windows,
    fields,
    unit_type,
)
from discreet.query.relation.settle import columns_in, renamed
from discreet.query.relation.stage import still
from discreet.query.scope import as_stored


def join(
    kind: JoinKind, left: Rows, right: Rows, conditions: Sequence[Expr], context: Context, proofs: Sequence[Expr] = ()
) -> Rows:
    """Two relations joined; where both belong to people, a condition (or a proof beside them) holds the units equal.

    Guarantee:
        The rows of a unit follow from its own rows on both sides and from public rows: public rows alone never come
        out, and two units' rows never meet.

    Raises:
        UnsupportedQuery: a join for which this is not so.
    """
    if right.owned and not left.owned:
        if kind is not JoinKind.INNER:
            _refuse_public_left(kind)
        left, right = right, left
    if left.owned and right.owned:
        check_units(left, right, [*conditions, *proofs], context)
    elif left.owned and kind is JoinKind.FULL:
        _refuse_public_left(kind)
    if left.owned and context.unit.is_row and not kind.one_sided:
        right, conditions = _once(left, right, conditions, context)
    on = conjunction([c for c in conditions if not (left.owned and right.owned and is_unit_pair(c, left, right))])
    columns = fields(left.node) if kind.one_sided else (*fields(left.node), *fields(right.node))
    node = Join(kind, left.node, right.node, on, tuple((c, c) for c in columns), single=context.unit.is_row)
    if kind.one_sided:
        return Rows(node, left.entries, left.merged)
    first = _nullable(left) if kind is JoinKind.FULL else left
    second = _nullable(right) if kind in (JoinKind.LEFT, JoinKind.FULL) else right
    return Rows(node, (*first.entries, *second.entries), (*first.merged, *second.merged))


def holds_units_equal(condition: Expr, left: Rows, right: Rows) -> bool:
    """Whether an equation holds the two units equal: of the unit's columns, or along a declared foreign key."""
    return (sides := _sides(condition, left, right)) is not None and _same_unit(*sides)


def _same_unit(first: Item, second: Item) -> bool:
    return (first.is_unit and second.is_unit) or bool(first.keys & second.keys or first.links & second.links)


def _once(left: Rows, right: Rows, conditions: Sequence[Expr], context: Context) -> tuple[Rows, list[Expr]]:
    """Return public rows of which one at most meets a row on the left, each of which is a unit, and the conditions.

    Guarantee:
        The text numbers the public rows that have one value in all columns that are held equal, and keeps the first.

    Raises:
        UnsupportedQuery: several would meet it.
    """
    own = set(fields(right.node))
    held: dict[Expr, Column] = {}
    found: list[Expr] = []
    for term in (p for c in conditions for p in c.args_of("and") or (c,)):
        sides, moved = term.args_of("="), term
        for outer, inside in (sides, sides[::-1]) if sides else ():
            if (there := columns_in([inside])) and there <= own and not columns_in([outer]) & own:
                key = held.setdefault(inside, context.fresh(inside.type or Type.TEXT))
                moved = call("=", [outer, key])
        found.append(moved)
    if not _is_key(right.node, list(held)):
        names = ", ".join(dict.fromkeys(e.alias for e in right.entries)) or "public rows"
        raise UnsupportedQuery(
            f"Each row is a unit of its own here, and several rows of {names!r} may meet one of them.",
            hint="join on columns that hold each value once in the public table; or connect with a column that names "
            "the unit: dp.PrivacyUnit('person_id', max_groups=…, max_rows=…)",
        )
    shown = (*((c, still(c)) for c in fields(right.node)), *((key, still(e)) for e, key in held.items()))
    number, kept = context.fresh(Type.INT), tuple((c, c) for c, _ in shown)
    over = Over("row_number", (), tuple(held.values()), (), total=True)
    numbered = Windows(Project(right.node, shown), kept, ((number, over),))
    one = call("=", [number, Literal(1, Type.INT)])
    return Rows(Project(numbered, kept, one), right.entries, right.merged), found


def _is_key(node: Node, exprs: Sequence[Expr]) -> bool:
    """Whether it is known that one public row at most has the same known values of all these expressions."""
    match node:
        case TableScan(table, columns):
            # what is known of a column is known of it as it is read, which its text tells apart as well
            read = {c: (c, declared(c, table.facts.get(n))) for c, n in columns}
            there = [n for c, n in columns if any(_told_apart(e, table.facts.get(n)) in read[c] for e in exprs)]
            listed = table.listed
            known = listed is not None and set(there) <= {*listed.columns} and len(listed.of(there)) == table.rows
            return table.rows in (0, 1) or any(table.alike.get(n, 2) < 2 for n in there) or known
        case Constants(columns, rows):
            places = [i for i, c in enumerate(columns) if c in exprs]
            return len({tuple(row[i] for i in places) for row in rows}) == len(rows)
        case Group():
            return {c for c, _ in node.keys} <= set(exprs)
        case Project() | Windows() | Distinct():
            outputs = (
                node.outputs if isinstance(node, Project) else node.kept if isinstance(node, Windows) else node.columns
            )
            plain = {c: e for c, e in outputs if isinstance(e, Column)}
            below = [renamed(e, plain) for e in exprs] + [e for c, e in outputs if c in exprs and c not in plain]
            return (isinstance(node, Distinct) and plain.keys() <= set(exprs)) or _is_key(node.source, below)
        case _:
            return False


def _told_apart(expr: Expr, fact: Fact | None) -> Expr:
    """Return what an expression is but for being read as a type that tells any two of its values apart: as text, and
    whole numbers that a double holds as doubles.
    """
    inner = expr.args_of("as double")
    match fact:
        case Range(low=low, high=high) if inner and inner[0].type is Type.INT and max(-low, high) < _DOUBLES:
            return inner[0]
        case Values(values=values) if inner and all(
            type(v) is int and abs(v) < _DOUBLES for v in values if v is not None
        ):
            return inner[0]
    return as_stored(expr)


_DOUBLES = 1 << 53
"""Smaller whole numbers are different doubles."""


def _sides(condition: Expr, left: Rows, right: Rows) -> tuple[Item, Item] | None:
    """Return the columns of either side that an equation compares."""
    a, b = condition.args_of("=") or (None, None)
    for x, y in ((a, b), (b, a)):
        first, second = (None if e is None else _item(e, r) for e, r in ((x, left), (y, right)))
        if first is not None and second is not None:
            return first, second
    return None


def conjunction(conditions: Sequence[Expr]) -> Expr | None:
    """One condition for several, in an order that does not follow the spelling."""
    flat = [p for c in conditions for p in c.args_of("and") or (c,)]
    kept = sorted({p for p in flat if p != Literal(True, Type.BOOL)}, key=repr)
    return None if not kept else kept[0] if len(kept) == 1 else call("and", kept)


def check_units(left: Rows, right: Rows, conditions: Sequence[Expr], context: Context) -> None:
    """Refuses two relations of people's rows that no condition holds to one unit; notes where a link alone does.

    Raises:
        UnsupportedQuery: then, and where their units are of different types.
    """
    if context.unit.is_row:
        raise UnsupportedQuery(
            "Each row is a unit of its own here, so that people's rows are read once: two of them that meet would be "
            "two people's.",
            hint="join public tables; or connect with a column that names the unit: dp.PrivacyUnit('person_id', …)",
        )
    a, b = unit_type(left.node), unit_type(right.node)
    if a is not b:
        assert a is not None
        assert b is not None
        raise UnsupportedQuery(
            f"The unit's column is {a.word} in one table and {b.word} in the other, so they cannot be compared.",
            hint="store it as the same type in both",
        )
    pairs = [sides for c in conditions if (sides := _sides(c, left, right)) is not None]
    tied = [(i, j) for i, j in pairs if _same_unit(i, j)]
    if not tied:
        raise UnsupportedQuery(
            "Two private tables are joined on something that does not hold their units equal, "
            "which would pair people with each other.",
            hint=f"join on {way(left, right)}; further conditions may stand beside it{_link(pairs)}",
        )
    if all(not i.is_unit and not i.keys & j.keys for i, j in tied):
        context.linked[f"{_spelled(tied[0][0], left)} = {_spelled(tied[0][1], right)}"] = None


def _spelled(item: Item, rows: Rows) -> str:
    return next((_shown(e, i) for e in rows.entries for i in e.items if i is item), item.name)


def _link(pairs: Sequence[tuple[Item, Item]]) -> str:
    """Return the link to declare by which a refused join would be answered; nothing where its sides are no columns."""
    for i, j in pairs:
        if i.origin is not None and j.origin is not None and i.origin != j.origin:
            one, other = (i.origin, j.origin) if not _is_own_key(*i.origin) else (j.origin, i.origin)
            key = f"{one[1]} -> {other[0]}.{other[1]}"
            return f"; or, if each of these keys is of one person, declare it: links={{{one[0]!r}: {key!r}}}"
    return ""


def _is_own_key(table: str, column: str) -> bool:
    """Whether a column's name is that of its table's own key."""
    return column.lower() in ("id", f"{table.lower()}_id", f"{table.lower().removesuffix('s')}_id")


def way(left: Rows, right: Rows) -> str:
    """Return the join that would be answered, in the query's words."""
    pairs = [
        f"{_shown(e, i)} = {_shown(f, j)}"
        for e in left.entries
        for i in e.items
        for f in right.entries
        for j in f.items
        if _same_unit(i, j)
    ]
    return " or ".join(pairs[:2]) if pairs else "the unit's column of both, or along a declared foreign key"


def _shown(entry: AliasColumns, item: Item) -> str:
    return f"{entry.alias}.{item.name}" if entry.alias else item.name


def is_unit_pair(condition: Expr, left: Rows, right: Rows) -> bool:
    """Whether the equation says no more than that the units are equal, which is written anyway."""
    if any(a.column is None for a in condition.children):
        return False
    if not holds_units_equal(condition, left, right):
        return False
    items = [_item(a, r) for a in condition.children for r in (left, right)]
    return all(i.is_unit for i in items if i is not None)


def _item(expr: Expr, rows: Rows) -> Item | None:
    known = (*rows.merged, *(i for e in rows.entries for i in e.items))
    return next((i for i in known if i.read is not None and i.read == expr), None)


def _nullable(rows: Rows) -> Rows:
    entries = tuple(replace(e, items=tuple(i.nullable() for i in e.items)) for e in rows.entries)
    return Rows(rows.node, entries, tuple(m.nullable() for m in rows.merged))


def _refuse_public_left(kind: JoinKind) -> None:
    if kind.one_sided:
        raise UnsupportedQuery(
            f"Which public rows have {'a' if kind is JoinKind.SEMI else 'no'} match in a private table "
            "would tell of a person.",
            hint="start FROM the private table, and join the public one to it",
        )
    raise UnsupportedQuery(
        "Public rows that no person matches would come out of this join beside people's rows.",
        hint="use JOIN, or LEFT JOIN with the private table on the left",
    )
