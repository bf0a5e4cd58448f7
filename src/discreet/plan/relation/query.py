"""An inner query as a relation: one SELECT, or two that a set operation puts together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from sqlglot import exp

from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.plan.bind import as_condition
from discreet.plan.expr import Column, Expr
from discreet.plan.parse import default_name, group_nodes, inner_parts
from discreet.plan.relation.context import Context, Named, Rows
from discreet.plan.relation.grouping import grouped
from discreet.plan.relation.lifting import lift, subqueries
from discreet.plan.relation.names import Entry, Item, Names
from discreet.plan.relation.nested import filtered_by, read_where
from discreet.plan.relation.node import Project
from discreet.plan.relation.sets import distinct_rows, put_together
from discreet.plan.relation.stage import Stage, folds_in, of_rows, still
from discreet.plan.relation.windows import with_windows
from discreet.plan.types import Type


def read_query(query: exp.Expr, context: Context) -> Rows:
    """The rows of an inner query, under no alias.

    Raises:
        UnknownColumn, UnsupportedQuery: see `discreet.errors`.
    """
    query = query.unnest()
    context = with_named(query, context)
    if isinstance(query, exp.SetOperation):
        return put_together(query, context)
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
    clauses = [e for e in (inner.having, inner.qualify, *(inner.group or ())) if e is not None]
    rows, put = lift(rows, [*(e for _, e in outputs if isinstance(e, exp.Expr)), *clauses], context)
    outputs = [
        (n or default_name(e, i), put(e)) if isinstance(e, exp.Expr) and subqueries(e) else (n, e)
        for i, (n, e) in enumerate(outputs)
    ]
    names = context.names(rows)
    written = {
        (n or default_name(e, i)).lower(): e for i, (n, e) in enumerate(outputs) if isinstance(e, exp.Expr)
    }
    having = None if inner.having is None else _spelled(put(inner.having), written, names)
    qualify = None if inner.qualify is None else _spelled(put(inner.qualify), written, names)
    asked = [e for _, e in outputs if isinstance(e, exp.Expr)] + [
        e for e in (having, qualify) if e is not None
    ]
    group = None if inner.group is None else [put(e) for e in inner.group]
    keys = group_nodes([(n, e) for n, e in outputs if isinstance(e, exp.Expr)], group)
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
    return distinct_rows(rows, context) if distinct else rows


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
