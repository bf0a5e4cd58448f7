"""An inner query as a relation: one SELECT, or two that UNION puts together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.plan.bind import as_condition, coerce
from discreet.plan.expr import Column, Expr
from discreet.plan.functions.function import common
from discreet.plan.parse import default_name, group_nodes, inner_parts
from discreet.plan.relation.context import Context, Named, Rows
from discreet.plan.relation.grouping import grouped
from discreet.plan.relation.names import Entry, Item, Names
from discreet.plan.relation.nested import filtered_by, read_where, refuse_nested
from discreet.plan.relation.node import Both, Distinct, Project, fields, unit_type
from discreet.plan.relation.settle import renamed
from discreet.plan.relation.sources import is_nested
from discreet.plan.relation.stage import Stage, counted, folds_in, is_counted, of_rows, still
from discreet.plan.relation.windows import with_windows
from discreet.plan.schema import Fact, Range, Values
from discreet.plan.types import Type


def read_query(query: exp.Expr, context: Context) -> Rows:
    """The rows of an inner query, under no alias.

    Raises:
        UnknownColumn, UnsupportedQuery: see `discreet.errors`.
    """
    query = query.unnest()
    context = with_named(query, context)
    if isinstance(query, exp.Union):
        return _union(query, context)
    if isinstance(query, exp.SetOperation):
        raise UnsupportedQuery(
            f"{query.key.upper()} is not answered here.",
            hint="use [NOT] EXISTS or [NOT] IN, which a join with the same unit's rows can answer",
        )
    if not isinstance(query, exp.Select):
        raise UnsupportedQuery(
            "A subquery has to be a SELECT.", hint="connect a list of values as a public table"
        )
    return _select(query, context)


def with_named(query: exp.Expr, context: Context) -> Context:
    """The context in which the subqueries of a WITH have their names."""
    clause = query.args.get("with_")
    if clause is None:
        return context
    if clause.args.get("recursive"):
        raise UnsupportedQuery(
            "WITH RECURSIVE is not answered here: how often it goes round would depend on the data.",
            hint="write the steps out as joins",
        )
    named = context.named
    for cte in clause.expressions:
        alias = cte.args["alias"]
        columns = tuple(c.name for c in alias.args.get("columns") or [])
        if any(part and name not in ("this", "alias", "materialized") for name, part in cte.args.items()):
            raise UnsupportedQuery(
                "This form of WITH is not answered here.", hint="write WITH name AS (SELECT …)"
            )
        used = [t.name.lower() for t in query.find_all(exp.Table)]
        if alias.name.lower() not in used:
            raise UnsupportedQuery(f"The subquery {alias.name!r} of WITH is not used.", hint="leave it out")
        named = (*named, Named(alias.name, cte.this, columns, named))
    return Context(context.tables, context.unit, context.query, named, context.numbers, context.reads)


def _select(query: exp.Select, context: Context) -> Rows:
    inner = inner_parts(query)
    rows, left = read_where(query, context)
    rows = filtered_by(rows, left, context)
    outputs = [o for e in query.expressions for o in _outputs(e, rows)]
    names = context.names(rows)
    written = {
        (n or default_name(e, i)).lower(): e for i, (n, e) in enumerate(outputs) if isinstance(e, exp.Expr)
    }
    having = None if inner.having is None else _spelled(inner.having, written, names)
    qualify = None if inner.qualify is None else _spelled(inner.qualify, written, names)
    asked = [e for _, e in outputs if isinstance(e, exp.Expr)] + [
        e for e in (having, qualify) if e is not None
    ]
    for e in asked:
        if is_nested(e):
            refuse_nested(e)
    keys = group_nodes([(n, e) for n, e in outputs if isinstance(e, exp.Expr)], inner.group)
    stage = of_rows(rows.node, names)
    if keys or having is not None or folds_in(asked):
        stage = grouped(rows, keys, asked, context)
    where = None if having is None else as_condition(stage.bind(having), "HAVING")
    if next((w for e in asked for w in e.find_all(exp.Window)), None) is not None:
        stage, where = with_windows(stage, asked, where, context), None
    if qualify is not None:
        where = as_condition(stage.bind(qualify), "QUALIFY")
    return _shown(outputs, stage, where, context, distinct=inner.distinct)


Output: TypeAlias = "tuple[str | None, exp.Expr | Item]"
"""A name that was given, and what stands under it: syntax, or a column that `*` stands for."""


def _shown(
    outputs: Sequence[Output], stage: Stage, where: Expr | None, context: Context, *, distinct: bool
) -> Rows:
    """The SELECT list over a stage."""
    columns: list[tuple[Column, Expr]] = []
    items: list[Item] = []
    for place, (name, what) in enumerate(outputs):
        if isinstance(what, Item):
            expr, shown = what.read, what.name
            assert expr is not None
        else:
            expr, shown = stage.bind(what), name or default_name(what, place)
        column = context.fresh(expr.type or Type.TEXT)
        items.append(stage.named(shown, column, expr))
        columns.append((column, still(expr) if distinct else expr))
    rows = Rows(Project(stage.node, tuple(columns), where), (Entry("", tuple(items)),))
    return _distinct(rows, context) if distinct else rows


def _outputs(e: exp.Expr, rows: Rows) -> list[Output]:
    if not e.is_star or isinstance(e, exp.Count):
        if isinstance(e, exp.Aliases):
            raise UnsupportedQuery("One name for each output column.", hint="write x AS a")
        return [(e.alias, e.this) if isinstance(e, exp.Alias) else (None, e)]
    star = e.this if isinstance(e, exp.Column) else e
    if not isinstance(star, exp.Star) or any(part for part in star.args.values()):
        raise UnsupportedQuery(
            "* with EXCLUDE, REPLACE or RENAME is not answered here.", hint="name the columns"
        )
    items = rows.shown()
    if isinstance(e, exp.Column):
        items = tuple(
            i for entry in rows.entries if entry.alias.lower() == e.table.lower() for i in entry.items
        )
        if not items:
            raise UnknownColumn(
                f"There is no table {e.table!r} in this subquery.", hint="name one of its tables"
            )
    return [(i.name, i) for i in items if i.read is not None]


def _spelled(e: exp.Expr, written: Mapping[str, exp.Expr], names: Names) -> exp.Expr:
    """HAVING and QUALIFY with output names replaced by what they stand for."""

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and not names.knows(node):
            found = written.get(node.name.lower())
            return node if found is None else exp.Paren(this=found.copy())
        return node

    return e.copy().transform(replaced)


def _distinct(rows: Rows, context: Context) -> Rows:
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


def _union(query: exp.Union, context: Context) -> Rows:
    for name, part in query.args.items():
        if part and name not in ("this", "expression", "distinct", "with_"):
            raise UnsupportedQuery(
                f"UNION with {name.strip('_').upper()} is not answered here.",
                hint="write UNION or UNION ALL, nothing else",
            )
    left, right = context.query(query.this, context), context.query(query.expression, context)
    if left.owned != right.owned:
        raise UnsupportedQuery(
            "UNION of private and public rows: the public ones would belong to nobody.",
            hint="join the public table to the private one",
        )
    if unit_type(left.node) is not unit_type(right.node):
        raise UnsupportedQuery(
            "UNION of tables whose unit's columns are of different types.", hint="store them as the same type"
        )
    first, second = left.shown(), right.shown()
    if len(first) != len(second):
        raise UnsupportedQuery(
            f"The two sides of UNION have {len(first)} and {len(second)} columns.",
            hint="give both the same columns",
        )
    kinds = [_common(a, b) for a, b in zip(first, second, strict=True)]
    a, b = (_cast(r, i, kinds, context) for r, i in ((left, first), (right, second)))
    items, triples = [], []
    pairs = zip(fields(a.node), fields(b.node), a.entries[0].items, b.entries[0].items, strict=True)
    for first_column, second_column, x, y in pairs:
        column = context.fresh(first_column.type)
        triples.append((column, first_column, second_column))
        shown = counted(column) if is_counted(x.read) and is_counted(y.read) else column
        items.append(Item(x.name, shown, _either(x.fact, y.fact), x.is_unit and y.is_unit, x.keys & y.keys))
    rows = Rows(Both(a.node, b.node, tuple(triples)), (Entry("", tuple(items)),))
    return _distinct(rows, context) if query.args.get("distinct") else rows


def _common(a: Item, b: Item) -> Type:
    kinds = [e.type for e in (a.read, b.read) if e is not None]
    found = common(kinds)
    if found is None:
        words = " and ".join(k.word for k in kinds if k)
        raise UnsupportedQuery(f"A column of UNION is {words}.", hint="CAST both sides to one type")
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
        return Range(min(a.low, b.low), max(a.high, b.high), integer=a.integer and b.integer)
    return None
