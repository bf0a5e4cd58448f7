"""FROM: tables, named and nested subqueries, and their joins, in an order in which every step is owned."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Never, TypeAlias

from sqlglot import exp

from discreet.catalog.schema import TableSchema, find_table
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.bind import as_condition, bind_row, call
from discreet.query.expr import Column, Expr
from discreet.query.relation.constants import listed_rows, listed_values
from discreet.query.relation.context import Context, Named, Rows
from discreet.query.relation.joining import holds_units_equal, join
from discreet.query.relation.names import AliasColumns, Item
from discreet.query.relation.node import JoinKind, Project, Reach, TableScan, TextParts, fields, unit_type

_Nodes: TypeAlias = frozenset[int]
"""Columns as they stand in a query, by their identity; the query holds them."""


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return the parts of a condition that have to hold together."""
    if condition is None:
        return []
    node = condition.unnest()
    if isinstance(node, exp.And):
        return [p for side in (node.this, node.expression) for p in conjuncts(side)]
    return [node]


def conjoined(parts: Sequence[exp.Expr]) -> exp.Expr | None:
    """Return one condition of several; None of none."""
    copies = [exp.Paren(this=c.copy()) if isinstance(c, exp.Connector) else c.copy() for c in parts]
    return functools.reduce(lambda one, two: exp.And(this=one, expression=two), copies) if copies else None


def is_nested(node: exp.Expr) -> bool:
    """Whether a query stands inside an expression."""
    return next(node.find_all(exp.Select, exp.SetOperation, exp.Subquery), None) is not None


def read_from(select: exp.Select, where: Sequence[exp.Expr], context: Context) -> tuple[Rows, list[exp.Expr]]:
    """Return the rows of FROM, and the conjuncts of WHERE that no join has taken as its condition.

    Raises:
        UnknownColumn, UnsupportedQuery: see `discreet.errors`.
    """
    first = select.args.get("from_")
    if first is None:
        raise UnsupportedQuery("A subquery names no table.", hint="add FROM and a table's name")
    joins: list[exp.Expr] = [*(select.args.get("joins") or []), *(select.args.get("laterals") or [])]
    sides = {j.args.get("side") for j in joins}
    left = list(where) if not sides & {"RIGHT", "FULL"} else []
    kept = [] if left else list(where)
    rows, rest = _joined(first.this, joins, left, context)
    return rows, [*kept, *rest]


def _joined(
    first: exp.Expr, joins: Sequence[exp.Expr], where: list[exp.Expr], context: Context
) -> tuple[Rows, list[exp.Expr]]:
    """Return a source with its joins, and the conditions that none of them has taken."""
    pool = _Pool([_source(first, context)], where, context)
    for j in joins:
        _one_join(pool, j, context)
    return pool.folded(), pool.optional


@dataclass(slots=True)
class _Pool:
    """Relations beside each other that are yet to be inner-joined, and the conditions to do it by.

    Attributes:
        parts: in the order of the query.
        optional: conjuncts of WHERE; those over several parts become conditions of joins.
        context: where this is read.
        needed: conjuncts of ON, all of which become conditions of joins.
        named: identity → the condition, and the columns that it names; None where a query stands inside it.
    """

    parts: list[Rows]
    optional: list[exp.Expr]
    context: Context
    needed: list[exp.Expr]
    named: dict[int, tuple[exp.Expr, list[exp.Column] | None]]

    def __init__(self, parts: list[Rows], optional: list[exp.Expr], context: Context) -> None:
        self.parts, self.optional, self.context, self.needed, self.named = parts, optional, context, [], {}

    def folded(self) -> Rows:
        """All of them joined: from a private one on, each next one along a condition where there is one."""
        start = next((r for r in self.parts if r.owned), self.parts[0])
        rows, rest = start, [r for r in self.parts if r is not start]
        known = {id(r): self._known(r) for r in self.parts} if rest else {}
        here = known.get(id(start), frozenset())  # as what is joined keeps the columns of both
        while rest:
            best = next((r for r in rest if self._leads(rows, r, here, known[id(r)])), None)
            best = best or next((r for r in rest if not (r.owned and rows.owned)), rest[0])
            rest = [r for r in rest if r is not best]
            rows = self._joined(rows, best, here, known[id(best)], last=not rest)
            here |= known[id(best)]
        self.parts = [rows]
        return rows

    def _leads(self, rows: Rows, other: Rows, here: _Nodes, there: _Nodes) -> bool:
        """Whether a condition connects the two, and holds their units equal where both have one."""
        between = self._over_both((*self.needed, *self.optional), here, there)
        if not (rows.owned and other.owned):
            return bool(between)
        names = self.context.names(rows, other)
        equations = (c for c in between if isinstance(c, exp.EQ))
        return any(holds_units_equal(bind_row(c, names), rows, other) for c in equations)

    def _joined(self, rows: Rows, other: Rows, here: _Nodes, there: _Nodes, *, last: bool) -> Rows:
        taken = self.needed if last else self._within(self.needed, here | there)
        taken = [*taken, *self._over_both(self.optional, here, there)]
        self.needed = [c for c in self.needed if c not in taken]
        self.optional = [c for c in self.optional if c not in taken]
        names = self.context.names(rows, other)
        return join(JoinKind.INNER, rows, other, [as_condition(bind_row(c, names), "ON") for c in taken], self.context)

    def _known(self, rows: Rows) -> _Nodes:
        """Return the columns that conditions name and that these rows have."""
        names = self.context.names(rows)
        named = [n for c in (*self.needed, *self.optional) for n in self._columns(c) or ()]
        return frozenset(id(n) for n in named if names.knows(n))

    def _over_both(self, conditions: Sequence[exp.Expr], here: _Nodes, there: _Nodes) -> list[exp.Expr]:
        """Those of the conditions that are over columns of both, and over nothing else."""
        found = self._within(conditions, here | there)
        nodes = [(c, [id(n) for n in self._columns(c) or ()]) for c in found]
        return [c for c, ns in nodes if not here.isdisjoint(ns) and not there.isdisjoint(ns)]

    def _within(self, conditions: Sequence[exp.Expr], known: _Nodes) -> list[exp.Expr]:
        """Those of the conditions that are over nothing else than these columns."""
        named = [(c, self._columns(c)) for c in conditions]
        return [c for c, ns in named if ns is not None and all(id(n) in known for n in ns)]

    def _columns(self, condition: exp.Expr) -> list[exp.Column] | None:
        """Return the columns that a condition of this pool names; None where a query stands inside it."""
        if id(condition) not in self.named:
            columns = None if is_nested(condition) else list(condition.find_all(exp.Column))
            self.named[id(condition)] = condition, columns
        return self.named[id(condition)][1]


def split_rows(rows: Rows, node: exp.Expr, alias: str, name: str, context: Context) -> Rows:
    """Return a row for each part of a text: string_split(text, separator), under a name of its own.

    Raises:
        UnsupportedQuery: another list, or a separator that is not written.
    """
    if not isinstance(node, exp.Split) or any(p for n, p in node.args.items() if n not in ("this", "expression")):
        raise UnsupportedQuery(
            "UNNEST is supported for the parts of a text only.",
            hint="UNNEST(string_split(x, ',')), with a written separator",
        )
    value, separator = bind_row(node.this, context.names(rows)), node.expression
    if (
        value.type is not Type.TEXT
        or not isinstance(separator, exp.Literal)
        or not (separator.is_string and separator.name)
    ):
        raise UnsupportedQuery(
            "string_split takes a text and a written separator.", hint="CAST(x AS VARCHAR); string_split(x, ',')"
        )
    kept, text, part = fields(rows.node), context.fresh(Type.TEXT), context.fresh(Type.TEXT)
    below = Project(rows.node, (*((c, c) for c in kept), (text, value)))
    found = TextParts(below, tuple((c, c) for c in kept), part, text, separator.name)
    return Rows(found, (*rows.entries, AliasColumns(alias, (Item(name, part),))), rows.merged)


def _unnested(j: exp.Expr) -> tuple[exp.Expr, str, str] | None:
    """Return the list of a comma or CROSS JOIN with UNNEST(list) AS alias(name), or LATERAL (SELECT unnest(list) AS
    name) alias, with the alias and the name; None for any other join.
    """
    source = j.this if isinstance(j, exp.Join) else None
    if not isinstance(source, exp.Unnest | exp.Lateral):
        return None
    if j.args.get("side") or j.args.get("kind") not in (None, "", "CROSS") or j.args.get("on") or j.args.get("using"):
        raise UnsupportedQuery("UNNEST is joined with a comma or CROSS JOIN.", hint="FROM t, UNNEST(…) AS s(part)")
    named = source.args.get("alias")
    columns = [c.name for c in named.args.get("columns") or []] if named is not None else []
    match source:
        case exp.Unnest(expressions=lists):
            if len(lists) != 1 or source.args.get("offset"):
                raise UnsupportedQuery(
                    "This form of UNNEST is not supported here.", hint="FROM t, UNNEST(…) AS s(part)"
                )
            return lists[0], source.alias or "unnest", columns[0] if columns else "unnest"
        case exp.Lateral(this=exp.Subquery() as inner):
            match inner.unnest():
                case exp.Select(expressions=[shown]) as query if not any(
                    part for clause, part in query.args.items() if clause != "expressions"
                ):
                    match shown.unalias():
                        case exp.Explode(this=of):
                            return of, source.alias, columns[0] if columns else shown.alias or "unnest"
    return None


def _one_join(pool: _Pool, j: exp.Expr, context: Context) -> None:
    if listed_rows(j.this) is None and (listed := _unnested(j)) is not None:
        pool.parts = [split_rows(pool.folded(), *listed, context)]
        _refuse_twins(pool.parts)
        return
    if not isinstance(j, exp.Join) or isinstance(j.this, exp.Lateral):
        raise UnsupportedQuery("LATERAL is not supported here.", hint="join the tables, with the condition in ON")
    for name, part in j.args.items():
        if part and name not in ("this", "side", "kind", "method", "on", "using"):
            _refuse_join(name.strip("_").upper())
    if j.method not in ("", "NATURAL") or j.kind not in ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"):
        _refuse_join(j.method or j.kind)
    other = _source(j.this, context)
    _refuse_twins([*pool.parts, other])
    on, using = j.args.get("on"), [i.name for i in j.args.get("using") or []]
    if on is not None and is_nested(on):
        raise UnsupportedQuery("A subquery cannot stand in ON.", hint="join the subquery itself, or put it into WHERE")
    one_sided = j.kind in ("SEMI", "ANTI")
    if not j.side and not one_sided and not using and j.method != "NATURAL":
        pool.parts.append(other)
        pool.needed += conjuncts(on)
        return
    rows = pool.folded()
    if j.method == "NATURAL":
        using = _common(rows, other)
    pairs = [_pair(name, rows, other, context) for name in using]
    kind = JoinKind[j.kind] if one_sided else JoinKind[j.side] if j.side in ("LEFT", "FULL") else JoinKind.INNER
    if j.side == "RIGHT":
        rows, other, kind = other, rows, JoinKind.LEFT
        pairs = [(b, a) for a, b in pairs]
    if kind is JoinKind.LEFT and other.owned and not rows.owned and context.unmatched == []:
        context.unmatched.extend(fields(rows.node))
        kind = JoinKind.INNER  # where the rest of the question fits, `check_unmatched`
    names = context.names(rows, other)
    conditions = [call("=", [a.read, b.read]) for a, b in pairs if a.read is not None and b.read is not None]
    conditions += [as_condition(bind_row(c, names), "ON") for c in conjuncts(on)]
    joined = join(kind, rows, other, conditions, context)
    if not one_sided:
        merged = tuple(_merged(kind, a, b, joined) for a, b in pairs)
        joined = Rows(joined.node, joined.entries, (*merged, *_unhidden(joined.merged, merged)))
    pool.parts = [joined]


def _source(node: exp.Expr, context: Context) -> Rows:
    """Return what one place of FROM names."""
    joins = node.args.get("joins") or []
    if joins:  # in brackets
        first = node.copy()
        first.set("joins", None)
        return _joined(first, joins, [], context)[0]
    alias = node.args.get("alias")
    renamed = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
    listed = listed_rows(node)
    if listed is not None:
        return listed_values(*listed, context).called(node.alias or listed[0][0], renamed)
    for name, part in node.args.items():
        if part and name not in ("this", "alias"):
            _refuse_beside(node, name)
    match node:
        case exp.Subquery(this=exp.Table() | exp.Subquery()):  # a join in brackets, or just a table
            rows = _source(node.this, context)
            return rows.called(node.alias, renamed) if node.alias else rows
        case exp.Subquery():
            return context.query(node.this, context).called(node.alias, renamed)
        case exp.Table(this=exp.Identifier()):
            pass
        case _:
            raise UnsupportedQuery(
                "FROM takes the names of connected tables and subqueries, nothing else (no files or functions).",
                hint="connect the file first; its table is named by the file's stem",
            )
    named = next((n for n in reversed(context.named) if n.name.lower() == node.name.lower()), None)
    if named is not None:
        return _named(named, context).called(node.alias or named.name, renamed)
    rows = open_table(find_table(node.name, context.tables), node.alias or node.name, context)
    return rows.called(node.alias or node.name, renamed) if renamed else rows


def _named(named: Named, context: Context) -> Rows:
    """Return a subquery of WITH is read anew wherever it is named, so that each has columns of its own."""
    context.read(named.name)
    inner = replace(context, named=named.before)
    return context.query(named.query, inner).called(named.name, named.columns)


def _common(rows: Rows, other: Rows) -> list[str]:
    there = {i.name.lower() for i in other.shown()}
    found = [i.name for i in rows.shown() if i.name.lower() in there]
    if not found:
        raise UnsupportedQuery("NATURAL JOIN finds no common column.", hint="write the condition in ON")
    return list(dict.fromkeys(found))


def _pair(name: str, rows: Rows, other: Rows, context: Context) -> tuple[Item, Item]:
    a, b = (context.names(r).find(exp.column(name)) for r in (rows, other))
    if a.read is None or b.read is None:
        raise UnsupportedQuery(
            f"The column {name!r} holds a nested or binary value, which cannot be compared.", hint="use ON"
        )
    return a, b


def _merged(kind: JoinKind, a: Item, b: Item, joined: Rows) -> Item:
    """Return the one column that USING makes of two: of the side that has a row."""
    if kind is not JoinKind.FULL:
        kept = {i.expr: i for e in joined.entries for i in e.items if i.expr is not None}
        item = a if a.expr is None else kept.get(a.expr, a)
        same = isinstance(a.expr, Column) and isinstance(b.expr, Column) and a.expr.type is b.expr.type
        # what is left of an inner join has the other side's values too
        return replace(item, fact=b.fact) if kind is JoinKind.INNER and item.fact is None and same else item
    expr: Expr = call("coalesce", [e for e in (a.read, b.read) if e is not None])
    return Item(a.name, expr, None, is_unit=a.is_unit and b.is_unit, keys=a.keys & b.keys, links=a.links & b.links)


def _unhidden(old: tuple[Item, ...], new: tuple[Item, ...]) -> list[Item]:
    names = {m.name.lower() for m in new}
    return [m for m in old if m.name.lower() not in names]


def _refuse_twins(parts: Sequence[Rows]) -> None:
    aliases = [e.alias.lower() for r in parts for e in r.entries if e.alias]
    twins = sorted({a for a in aliases if aliases.count(a) > 1})
    if twins:
        raise UnsupportedQuery(f"Two tables here are called {twins[0]!r}.", hint="name them apart with AS")


def _refuse_join(word: str) -> Never:
    raise UnsupportedQuery(f"{word} JOIN is not supported here.", hint="use JOIN … ON with the condition")


def _refuse_beside(node: exp.Expr, name: str) -> Never:
    from discreet.query.parse import refuse_beside

    refuse_beside(node, name)


def open_table(table: TableSchema, alias: str, context: Context) -> Rows:
    """Return the table's rows: public, the unit's by its own column, or by the foreign key that leads to it.

    Raises:
        UnsupportedQuery: each row of the table is a unit, or it has nothing that can be asked about.
    """
    context.read(table.name)
    columns = tuple((context.fresh(kind), name) for name, kind in table.columns.items() if kind is not None)
    if table.public:
        if not columns:
            raise UnsupportedQuery(
                f"The public table {table.name!r} has no column that can be asked about.", hint="leave it out"
            )
        return Rows(TableScan(table, columns), (_entry(table, alias, columns, context),))
    if table.reached is not None:
        way = table.reached
        owners = open_table(find_table(way.table, context.tables), way.table, context)
        key = next((i.expr for i in owners.entries[0].items if i.name == way.key), None)
        here, there = table.columns[way.column], key.type if isinstance(key, Column) else None
        if not isinstance(key, Column) or not owners.owned or here is None or here is not there:
            raise UnsupportedQuery(
                f"The foreign key {way.column!r} of {table.name!r} cannot be compared with {way.table}.{way.key}: "
                "they are of different types.",
                hint="store both as the same type",
            )
        return Rows(Reach(table, columns, owners.node, key), (_entry(table, alias, columns, context),))
    if table.unit.is_row and not context.unit.is_row:
        raise UnsupportedQuery(
            f"Each row of {table.name!r} is a unit of its own, and other tables here have units of many rows.",
            hint="connect it with a column that names the unit: dp.PrivacyUnit('person_id', …)",
        )
    scan = TableScan(table, columns)
    if unit_type(scan) is None and not table.unit.is_row:
        raise UnsupportedQuery(
            f"The unit's column of {table.name!r} holds a nested or binary value.", hint="store it as text or a number"
        )
    return Rows(scan, (_entry(table, alias, columns, context),))


def _entry(table: TableSchema, alias: str, columns: tuple[tuple[Column, str], ...], context: Context) -> AliasColumns:
    known = {name: c for c, name in columns}
    owner = None if table.public or table.reached is not None else table.unit.column
    items = [
        Item(
            name,
            known.get(name),
            table.facts.get(name),
            is_unit=name == owner,
            keys=frozenset() if table.public else context.keys_of(table, name),
            links=frozenset() if table.public else context.links_of(table, name),
            origin=None if table.public else (table.name, name),
            listed=table.listed,
        )
        for name in table.columns
    ]
    return AliasColumns(alias, tuple(items))
