"""An inner query as a relation: one SELECT, or two that a set operation puts together.

INTERSECT and EXCEPT are semi and anti joins on all columns, in which NULL is a value; with ALL, equal rows of a unit
are numbered first, so that the n-th of one side meets the n-th of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from discreet.catalog.schema import Fact, Range, Values
from discreet.catalog.types import Type
from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.query.bind import as_condition, call, coerce
from discreet.query.expr import Column, Expr
from discreet.query.functions.function import common
from discreet.query.parse import Inner, default_name, group_nodes, inner_parts, whole_number, with_earlier_names
from discreet.query.relation.constants import listed_values, written_rows
from discreet.query.relation.context import Context, Named, Rows
from discreet.query.relation.grouping import grouped
from discreet.query.relation.joining import conjunction
from discreet.query.relation.names import HIDDEN, AliasColumns, Item, Names
from discreet.query.relation.nested import filtered_by, lift, read_where, subqueries
from discreet.query.relation.node import Both, Distinct, Join, JoinKind, Over, Project, Windows, fields, unit_type
from discreet.query.relation.settle import renamed
from discreet.query.relation.sources import split_rows
from discreet.query.relation.stage import Stage, counted, folds_in, is_counted, of_rows, still
from discreet.query.relation.windows import with_windows


def read_query(query: exp.Expr, context: Context) -> Rows:
    """Return the rows of an inner query, under no alias.

    Raises:
        UnknownColumn, UnsupportedQuery: see `discreet.errors`.
    """
    query = query.unnest()
    written = written_rows(query)
    if written is not None:
        return listed_values(*written, context)
    context = replace(with_named(query, context), unmatched=None)
    query = ranked(query, context)
    match query:
        case exp.SetOperation():
            return put_together(query, context)
        case exp.Select():
            return _select(query, context)
    raise UnsupportedQuery("A subquery has to be a SELECT.", hint="connect a list of values as a public table")


def with_named(query: exp.Expr, context: Context) -> Context:
    """Return the context in which the subqueries of a WITH have their names."""
    clause = query.args.get("with_")
    if clause is None:
        return context
    if clause.args.get("recursive"):
        raise UnsupportedQuery(
            "WITH RECURSIVE is not supported here.",
            hint="for a run of numbers, generate_series(1, 10); else write the steps out as joins",
        )
    named = context.named
    for cte in clause.expressions:
        alias = cte.args["alias"]
        columns = tuple(c.name for c in alias.args.get("columns") or [])
        if any(part and name not in ("this", "alias", "materialized") for name, part in cte.args.items()):
            raise UnsupportedQuery("This form of WITH is not supported here.", hint="write WITH name AS (SELECT …)")
        used = [t.name.lower() for t in query.find_all(exp.Table)]
        if alias.name.lower() not in used:
            raise UnsupportedQuery(f"The subquery {alias.name!r} of WITH is not used.", hint="leave it out")
        named = (*named, Named(alias.name, cte.this, columns, named))
    return replace(context, named=named)


def ranked(query: exp.Expr, context: Context) -> exp.Expr:
    """Return a query over public rows with QUALIFY in place of LIMIT, and without an ORDER BY that chooses nothing.

    Ties end in all columns (`windows`), so that which rows there are follows from the public tables alone. Over
    people's rows the query stays as it is, and is refused.
    """
    cut = {name: query.args[name] for name in ("order", "limit", "offset") if query.args.get(name)}
    if not cut:
        return query
    plain = query.copy()
    for name in cut:
        plain.set(name, None)
    if context.query(plain, context).owned:
        return query
    low = whole_number(cut["offset"].expression) if "offset" in cut else 0
    limit = whole_number(cut["limit"].expression) if "limit" in cut else None
    known = low is not None and ("limit" not in cut or (isinstance(cut["limit"], exp.Limit) and limit is not None))
    if not known or any(o.args.get("with_fill") for o in (cut["order"].expressions if "order" in cut else ())):
        raise UnsupportedQuery("LIMIT and OFFSET take a whole number here.", hint="write LIMIT 10")
    if "limit" not in cut and not low:
        return plain
    simple = isinstance(plain, exp.Select) and not any(plain.args.get(c) for c in ("distinct", "qualify"))
    terms = [o.copy() for o in cut["order"].expressions] if "order" in cut else []
    if isinstance(plain, exp.Select):
        for o in terms:
            if (place := whole_number(o.this)) is not None and 1 <= place <= len(plain.expressions):
                shown = plain.expressions[place - 1]
                o.set("this", shown.unalias().copy() if simple else exp.column(shown.alias or shown.output_name))
    if not simple:
        plain = exp.Select(
            expressions=[exp.Star()],
            from_=exp.From(this=exp.Subquery(this=plain, alias=exp.TableAlias(this=exp.to_identifier("cut")))),
        )
    number = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=terms) if terms else None)
    tests: list[exp.Expr] = [exp.GT(this=number, expression=exp.Literal.number(low))] if low else []
    if limit is not None:
        tests.append(exp.LTE(this=number.copy(), expression=exp.Literal.number(limit + (low or 0))))
    plain.set("qualify", exp.Qualify(this=exp.and_(*tests)))
    return plain


def _select(query: exp.Select, context: Context) -> Rows:
    query = _written_out(query)
    inner = inner_parts(query)
    rows, left = read_where(query, context)
    rows = filtered_by(rows, left, context)
    outputs = [o for e in query.expressions for o in _outputs(e, rows)]
    rows, outputs = _split(rows, outputs, inner, context)
    outputs = with_earlier_names(outputs, context.names(rows).knows)
    clauses = [e for e in (inner.having, inner.qualify, *(inner.group or ())) if e is not None]
    rows, put = lift(rows, [*(e for _, e in _written(outputs)), *clauses], context)
    outputs = [
        (n or default_name(e, i), put(e)) if isinstance(e, exp.Expr) and subqueries(e) else (n, e)
        for i, (n, e) in enumerate(outputs)
    ]
    names = context.names(rows)
    written = {(n or default_name(e, i)).lower(): e for i, (n, e) in enumerate(outputs) if isinstance(e, exp.Expr)}
    having = None if inner.having is None else _spelled(put(inner.having), written, names)
    qualify = None if inner.qualify is None else _spelled(put(inner.qualify), written, names)
    asked = [*(e for _, e in _written(outputs)), *(e for e in (having, qualify) if e is not None)]
    group = None if inner.group is None else [put(e) for e in inner.group]
    keys = group_nodes(_written(outputs), group, names.knows)
    stage = of_rows(rows.node, names)
    if keys or having is not None or folds_in(asked):
        stage = grouped(rows, keys, asked, context)
    where = None if having is None else as_condition(stage.bind(having), "HAVING")
    if next((w for e in asked for w in e.find_all(exp.Window)), None) is not None:
        stage, where = with_windows(stage, asked, where, context), None
    if qualify is not None:
        where = as_condition(stage.bind(qualify), "QUALIFY")
    return _shown(outputs, stage, where, context, distinct=inner.distinct)


def _written_out(query: exp.Select) -> exp.Select:
    """Return the query with the windows of a WINDOW clause where they are used, and DISTINCT ON as a QUALIFY."""
    named = {w.name.lower(): w for w in query.args.get("windows") or []}
    distinct = query.args.get("distinct")
    on = None if distinct is None else distinct.args.get("on")
    if not named and on is None:
        return query
    query = query.copy()
    for window in [w for w in query.find_all(exp.Window) if w.args.get("alias") and w.parent_select is query]:
        found = named.get(window.args["alias"].name.lower())
        if found is None or found.args.get("alias"):
            raise UnsupportedQuery("OVER names a window that WINDOW does not.", hint="write the window out")
        for part in ("partition_by", "order", "spec"):
            if found.args.get(part) and not window.args.get(part):
                other = found.args[part]
                window.set(part, [e.copy() for e in other] if isinstance(other, list) else other.copy())
        window.set("alias", None)
    query.set("windows", None)
    if on is not None:
        if query.args.get("qualify") or query.args.get("group"):
            raise UnsupportedQuery(
                "DISTINCT ON beside GROUP BY or QUALIFY is not supported here.",
                hint="QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) = 1 in a query around it",
            )
        order = query.args.get("order")
        terms = [o for o in (order.expressions if order is not None else []) if o.this not in on.expressions]
        first = exp.Window(
            this=exp.RowNumber(), partition_by=on.expressions, order=exp.Order(expressions=terms) if terms else None
        )
        query.set("qualify", exp.Qualify(this=exp.EQ(this=first, expression=exp.Literal.number(1))))
        query.set("distinct", None)
    return query


Output: TypeAlias = "tuple[str | None, exp.Expr | Item]"
"""A name that was given, and what stands under it: syntax, or a column that `*` stands for."""


def _shown(outputs: Sequence[Output], stage: Stage, where: Expr | None, context: Context, *, distinct: bool) -> Rows:
    """Return the SELECT list over a stage."""
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
    rows = Rows(Project(stage.node, tuple(columns), where), (AliasColumns("", tuple(items)),))
    return distinct_rows(rows, context) if distinct else rows


def _split(rows: Rows, outputs: list[Output], inner: Inner, context: Context) -> tuple[Rows, list[Output]]:
    """Return the rows with one for each part of a text that SELECT unnests, and the outputs over these."""
    lists = [i for i, (_, e) in enumerate(outputs) if isinstance(e, exp.Explode)]
    if not lists:
        return rows, outputs
    if len(lists) > 1:
        raise UnsupportedQuery(
            "Two lists are unnested beside each other.", hint="unnest the second in a query around it"
        )
    asked = [e for _, e in _written(outputs)]
    if inner.group or inner.having or inner.qualify or any(e.find(exp.AggFunc, exp.Window) for e in asked):
        raise UnsupportedQuery(
            "UNNEST beside groups, aggregates or windows is not supported here.", hint="group in a query around it"
        )
    (place,) = lists
    name, node = outputs[place]
    assert isinstance(node, exp.Explode)
    rows = split_rows(rows, node.this, PARTS, PARTS, context)
    return rows, [*outputs[:place], (name or "unnest", exp.column(PARTS, table=PARTS)), *outputs[place + 1 :]]


PARTS = f"{HIDDEN}parts"
"""How the parts of a text are called that SELECT unnests."""


def _written(outputs: Sequence[Output]) -> list[tuple[str | None, exp.Expr]]:
    """Return the outputs that are written out, without those that a * stands for."""
    return [(n, e) for n, e in outputs if isinstance(e, exp.Expr)]


def _outputs(e: exp.Expr, rows: Rows) -> list[Output]:
    if not e.is_star or isinstance(e, exp.Count):
        if isinstance(e, exp.Aliases):
            raise UnsupportedQuery("One name for each output column.", hint="write x AS a")
        return [(e.alias, e.this) if isinstance(e, exp.Alias) else (None, e)]
    star = e.this if isinstance(e, exp.Column) else e
    if not isinstance(star, exp.Star) or any(part for name, part in star.args.items() if name != "except_"):
        raise UnsupportedQuery("* with REPLACE or RENAME is not supported here.", hint="name the columns")
    without = {c.name.lower(): c.name for c in star.args.get("except_") or []}
    items = rows.shown()
    if isinstance(e, exp.Column):
        items = tuple(i for entry in rows.entries if entry.alias.lower() == e.table.lower() for i in entry.items)
        if not items:
            raise UnknownColumn(f"There is no table {e.table!r} in this subquery.", hint="name one of its tables")
    missing = [n for lower, n in without.items() if lower not in {i.name.lower() for i in items}]
    if missing:
        raise UnknownColumn(f"EXCLUDE names {missing[0]!r}, which * does not have.", hint="leave it out")
    return [(i.name, i) for i in items if i.read is not None and i.name.lower() not in without]


def _spelled(e: exp.Expr, written: Mapping[str, exp.Expr], names: Names) -> exp.Expr:
    """HAVING and QUALIFY with output names replaced by what they stand for."""

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and not names.knows(node):
            found = written.get(node.name.lower())
            return node if found is None else exp.Paren(this=found.copy())
        return node

    return e.copy().transform(replaced)


def put_together(query: exp.SetOperation, context: Context) -> Rows:
    """Return the rows of UNION, INTERSECT or EXCEPT, with or without ALL.

    Raises:
        UnknownColumn, UnsupportedQuery: see `discreet.errors`.
    """
    word = query.key.upper()
    for name, part in query.args.items():
        if part and name not in ("this", "expression", "distinct", "with_"):
            raise UnsupportedQuery(
                f"{word} with {name.strip('_').upper()} is not supported here.",
                hint=f"write {word} or {word} ALL, nothing else",
            )
    left, right = context.query(query.this, context), context.query(query.expression, context)
    _check_whose(word, left, right)
    first, second = left.shown(), right.shown()
    if len(first) != len(second):
        raise UnsupportedQuery(
            f"The two sides of {word} have {len(first)} and {len(second)} columns.", hint="give both the same columns"
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
    return Rows(node, (AliasColumns(rows.entries[0].alias, found),))


def _check_whose(word: str, left: Rows, right: Rows) -> None:
    if word == "UNION" and left.owned != right.owned:
        raise UnsupportedQuery(
            "UNION of private and public rows: the public ones would belong to nobody.",
            hint="join the public table to the private one",
        )
    if right.owned and not left.owned:
        raise UnsupportedQuery(
            f"{word} of public rows with private ones would tell of people.", hint="put the private side first"
        )
    if left.owned and right.owned and unit_type(left.node) is not unit_type(right.node):
        raise UnsupportedQuery(
            f"{word} of tables whose unit's columns are of different types.", hint="store them as the same type"
        )


def _both(a: Rows, b: Rows, context: Context) -> Rows:
    """Return the rows of both, one after the other."""
    items, triples = [], []
    pairs = zip(fields(a.node), fields(b.node), a.entries[0].items, b.entries[0].items, strict=True)
    for first_column, second_column, x, y in pairs:
        column = context.fresh(first_column.type)
        triples.append((column, first_column, second_column))
        shown = counted(column) if is_counted(x.read) and is_counted(y.read) else column
        capped = _either(x.capped or x.fact, y.capped or y.fact) if x.capped or y.capped else None
        capped = capped if isinstance(capped, Range) else None
        items.append(
            Item(
                x.name,
                shown,
                _either(x.fact, y.fact),
                x.is_unit and y.is_unit,
                x.keys & y.keys,
                capped,
                x.links & y.links,
            )
        )
    return Rows(Both(a.node, b.node, tuple(triples)), (AliasColumns("", tuple(items)),))


def _kept(query: exp.SetOperation, a: Rows, b: Rows, context: Context, *, every: bool) -> Rows:
    """Return the rows of the first that the second has, or has not."""
    word, kind = query.key.upper(), JoinKind.SEMI if isinstance(query, exp.Intersect) else JoinKind.ANTI
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
    """Return the rows with a number among those that are equal to them."""
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
    """Return the rows with just these columns, of these types."""
    stage = of_rows(rows.node, context.names(rows))
    columns: list[tuple[Column, Expr]] = []
    found: list[Item] = []
    for item, kind in zip(items, kinds, strict=True):
        assert item.read is not None
        expr, column = coerce(item.read, kind), context.fresh(kind)
        columns.append((column, still(expr)))
        found.append(stage.named(item.name, column, expr))
    return Rows(Project(rows.node, tuple(columns)), (AliasColumns("", tuple(found)),))


def _either(a: Fact | None, b: Fact | None) -> Fact | None:
    """Return what is known of a value that comes from one of two places."""
    match a, b:
        case Values(), Values() if a.type is b.type:
            both = dict.fromkeys((*a.values, *b.values))
            return a.listed(*both) if a.labels == b.labels else Values(*both)
        case Range(), Range():
            return a.hull(b)
        case _:
            return None
