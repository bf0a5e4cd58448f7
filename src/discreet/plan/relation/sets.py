"""Set operations: two relations one after the other, or the rows of one that the other has, or has not.

INTERSECT and EXCEPT are semi and anti joins on all columns, in which NULL is a value; with ALL, equal rows of a unit
are numbered first, so that the n-th of one side meets the n-th of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from discreet.errors import UnsupportedQuery
from discreet.plan.bind import call, coerce
from discreet.plan.expr import Column, Expr
from discreet.plan.functions.function import common
from discreet.plan.relation.context import Context, Rows
from discreet.plan.relation.joining import conjunction
from discreet.plan.relation.names import Entry, Item
from discreet.plan.relation.node import Both, Distinct, Join, Kind, Over, Project, Windows, fields, unit_type
from discreet.plan.relation.settle import renamed
from discreet.plan.relation.stage import counted, is_counted, of_rows, still
from discreet.plan.schema import Fact, Range, Values
from discreet.plan.types import Type


def put_together(query: exp.SetOperation, context: Context) -> Rows:
    """The rows of UNION, INTERSECT or EXCEPT, with or without ALL.

    Raises:
        UnknownColumn, UnsupportedQuery: see `discreet.errors`.
    """
    word = query.key.upper()
    for name, part in query.args.items():
        if part and name not in ("this", "expression", "distinct", "with_"):
            raise UnsupportedQuery(
                f"{word} with {name.strip('_').upper()} is not answered here.",
                hint=f"write {word} or {word} ALL, nothing else",
            )
    left, right = context.query(query.this, context), context.query(query.expression, context)
    _check_whose(word, left, right)
    first, second = left.shown(), right.shown()
    if len(first) != len(second):
        raise UnsupportedQuery(
            f"The two sides of {word} have {len(first)} and {len(second)} columns.",
            hint="give both the same columns",
        )
    kinds = [_common(word, a, b) for a, b in zip(first, second, strict=True)]
    a, b = (_cast(r, i, kinds, context) for r, i in ((left, first), (right, second)))
    every = not query.args.get("distinct")
    if not isinstance(query, exp.Union):
        return _kept(query, a, b, context, every=every)
    rows = _both(a, b, context)
    return rows if every else distinct_rows(rows, context)


def distinct_rows(rows: Rows, context: Context) -> Rows:
    """Each different row of a unit once.

    Raises:
        UnsupportedQuery: rows of several people that would become one.
    """
    items = rows.entries[0].items
    if rows.owned and not any(i.holds_unit for i in items):
        raise UnsupportedQuery(
            "DISTINCT over several people's rows would show one row for all of them.",
            hint="keep the unit's column in the SELECT, so that each row belongs to one person",
        )
    moved = {c: context.fresh(c.type) for c in fields(rows.node)}
    found = tuple(replace(i, expr=renamed(i.expr, moved)) for i in items if i.expr is not None)
    node = Distinct(rows.node, tuple((new, old) for old, new in moved.items()))
    return Rows(node, (Entry(rows.entries[0].alias, found),))


def _check_whose(word: str, left: Rows, right: Rows) -> None:
    if word == "UNION" and left.owned != right.owned:
        raise UnsupportedQuery(
            "UNION of private and public rows: the public ones would belong to nobody.",
            hint="join the public table to the private one",
        )
    if right.owned and not left.owned:
        raise UnsupportedQuery(
            f"{word} of public rows with private ones would tell of people.",
            hint="put the private side first",
        )
    if left.owned and right.owned and unit_type(left.node) is not unit_type(right.node):
        raise UnsupportedQuery(
            f"{word} of tables whose unit's columns are of different types.",
            hint="store them as the same type",
        )


def _both(a: Rows, b: Rows, context: Context) -> Rows:
    """The rows of both, one after the other."""
    items, triples = [], []
    pairs = zip(fields(a.node), fields(b.node), a.entries[0].items, b.entries[0].items, strict=True)
    for first_column, second_column, x, y in pairs:
        column = context.fresh(first_column.type)
        triples.append((column, first_column, second_column))
        shown = counted(column) if is_counted(x.read) and is_counted(y.read) else column
        items.append(Item(x.name, shown, _either(x.fact, y.fact), x.is_unit and y.is_unit, x.keys & y.keys))
    return Rows(Both(a.node, b.node, tuple(triples)), (Entry("", tuple(items)),))


def _kept(query: exp.SetOperation, a: Rows, b: Rows, context: Context, *, every: bool) -> Rows:
    """The rows of the first that the second has, or has not."""
    word, kind = query.key.upper(), Kind.SEMI if isinstance(query, exp.Intersect) else Kind.ANTI
    pairs = list(zip(a.entries[0].items, b.entries[0].items, strict=True))
    same_unit = any((x.is_unit and y.is_unit) or x.keys & y.keys for x, y in pairs)
    if a.owned and not (same_unit if b.owned else any(x.holds_unit for x, _ in pairs)):
        raise UnsupportedQuery(
            f"{word} over several people's rows would compare them with each other.",
            hint="keep the unit's column in the SELECT of each side, in one place",
        )
    equal = list(zip(fields(a.node), fields(b.node), strict=True))
    if every:
        (a, first), (b, second) = _numbered(a, context), _numbered(b, context)
        equal.append((first, second))
    on = conjunction([call("same", [x, y]) for x, y in equal])
    node = Join(kind, a.node, b.node, on, tuple((c, c) for c in fields(a.node)))
    rows = Rows(node, a.entries)
    return rows if every else distinct_rows(rows, context)


def _numbered(rows: Rows, context: Context) -> tuple[Rows, Column]:
    """The rows with a number among those that are equal to them."""
    number, kept = context.fresh(Type.INT), fields(rows.node)
    over = Over("row_number", (), kept, (), total=True)
    node = Windows(rows.node, tuple((c, c) for c in kept), ((number, over),))
    return Rows(node, rows.entries), number


def _common(word: str, a: Item, b: Item) -> Type:
    kinds = [e.type for e in (a.read, b.read) if e is not None]
    found = common(kinds)
    if found is None:
        words = " and ".join(k.word for k in kinds if k)
        raise UnsupportedQuery(f"A column of {word} is {words}.", hint="CAST both sides to one type")
    return found


def _cast(rows: Rows, items: Sequence[Item], kinds: Sequence[Type], context: Context) -> Rows:
    """The rows with just these columns, of these types."""
    stage = of_rows(rows.node, context.names(rows))
    columns: list[tuple[Column, Expr]] = []
    found: list[Item] = []
    for item, kind in zip(items, kinds, strict=True):
        assert item.read is not None
        expr, column = coerce(item.read, kind), context.fresh(kind)
        columns.append((column, still(expr)))
        found.append(stage.named(item.name, column, expr))
    return Rows(Project(rows.node, tuple(columns)), (Entry("", tuple(found)),))


def _either(a: Fact | None, b: Fact | None) -> Fact | None:
    """What is known of a value that comes from one of two places."""
    if isinstance(a, Values) and isinstance(b, Values) and a.type is b.type:
        return Values(*dict.fromkeys((*a.values, *b.values)))
    if isinstance(a, Range) and isinstance(b, Range):
        return a.hull(b)
    return None
