"""The rows of a query over several tables: a virtual table, and the nested SELECT that stands for it.

A settled tree as JSON: the part of a query's identity that says which rows it reads, and whose they are.

How many rows one row becomes by the public tables that are joined to it, from what is public about them.

The caps hold after all joins, and the database makes what they cut off: one person's row, joined with public tables
again and again, would use up its memory and time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from discreet.catalog.schema import Range, TableSchema
from discreet.errors import MissingBounds, MissingFact, UnsupportedQuery
from discreet.privacy.unit import PrivacyUnit
from discreet.query.expr import Column, Expr, Literal, uncast
from discreet.query.parse import Select, default_name, group_nodes, is_aggregate
from discreet.query.relation.context import Context, Rows
from discreet.query.relation.names import AliasColumns, Item, Names
from discreet.query.relation.nested import SUBQUERY, lift, read_where, subqueries
from discreet.query.relation.node import (
    MOST_PARTS,
    Both,
    Constants,
    Distinct,
    Group,
    Join,
    Node,
    Over,
    Project,
    Reach,
    TableScan,
    TextParts,
    Windows,
    fields,
    inputs,
    is_once,
    is_owned,
    of_row_units,
    tables_of,
    unit_type,
)
from discreet.query.relation.query import read_query, with_named
from discreet.query.relation.settle import Renaming, columns_in, renamed, settle
from discreet.query.relation.sources import conjoined
from discreet.query.relation.unmatched import check_unmatched
from discreet.query.relation.write import write

UNIT = "u"
"""The hidden column that says whose a row is."""

MOST = 1_000_000
"""Rows that one row may become; one public table alone may have more."""


@dataclass(frozen=True, slots=True)
class ReadRows:
    """The rows that a query reads.

    Guarantee:
        They are owned (decision 0005): those of one unit follow from that unit's rows of the private tables and from
        the public tables alone.

    Attributes:
        node: what they are made of.
        table: their columns as a table whose unit is `u`.
        shown: column of it → what the query calls it.
    """

    node: Node
    table: TableSchema
    shown: tuple[tuple[str, str], ...]
    linked: tuple[str, ...] = ()
    """The equations that hold units equal by a link alone."""

    @property
    def tables(self) -> tuple[TableSchema, ...]:
        """The connected tables that are read, private and public, in the order of the text."""
        return tables_of(self.node)

    @property
    def sql(self) -> str:
        """The nested SELECT."""
        return write(self.node)

    @property
    def identity(self) -> Any:
        """Which rows these are, and how their owners are found, as JSON."""
        return describe(self.node)


@dataclass(frozen=True, slots=True)
class Draft:
    """The rows before it is known which of their columns the query reads: `names` notes it.

    Attributes:
        rows: all that FROM and WHERE's subqueries give.
        names: the scope of the query's expressions.
        select: the query with what is left of WHERE, and with columns in place of its subqueries.
        table: the virtual table so far.
    """

    rows: Rows
    names: Names
    select: Select
    table: TableSchema
    linked: tuple[str, ...] = ()

    def settled(self) -> tuple[ReadRows, Names]:
        """Return the rows with the columns that were used, and the same scope over them.

        Raises:
            UnsupportedQuery: joins with public tables make too many rows of one.
        """
        node, names = settle(self.rows.node, self.names.used)
        check_growth(node)
        entries = tuple(AliasColumns(e.alias, tuple(_moved(i, names) for i in e.items)) for e in self.names.entries)
        merged = tuple(_moved(i, names) for i in self.names.merged)
        scope = Names(entries, self.names.unit, merged)
        table = _virtual(self.table, scope, {names[c] for c in self.names.used}, node)
        shown = {n: s for n, s in _shown(scope).items() if n in table.columns}
        written = [*shown.values()]
        for e in (e for e in entries if not e.hidden):  # columns of one name are told apart by their tables'
            alike = [i for i in e.items if written.count(i.name) > 1]
            shown |= {c.name: f"{e.alias}.{i.name}" for i in alike for c in columns_in([i.expr]) if c.name in shown}
        return ReadRows(node, table, tuple(shown.items()), self.linked), scope

    def in_words(self, error: MissingBounds) -> MissingBounds:
        """Return the refusal with columns called as in the query."""
        shown = _shown(self.names)

        def spelled(text: str) -> str:
            return re.sub(r"#\d+", lambda found: shown.get(found[0], found[0]), text)

        hint = spelled(error.hint or "")
        if "clamp in the query" not in hint:
            hint += "; or clamp in the query: least(high, greatest(low, x))"
        named = re.search(r"columns=\{'([^']*)':", hint)
        if SUBQUERY in hint:  # of which nothing can be declared
            hint = (
                f"bounds='values' chooses them privately; or clamp in the query: least(high, greatest(low, {SUBQUERY}))"
            )
        elif named and not self._may_be_declared(named[1]):
            hint = (
                f"bounds='values' chooses them privately; or clamp in the query: least(high, greatest(low, {named[1]}))"
            )
        facts = [MissingFact(f.kind, spelled(f.what), spelled(f.say), column=spelled(f.column)) for f in error.missing]
        known = all(self._may_be_declared(f.column) for f in facts)
        return MissingBounds(spelled(error.message), hint=hint, missing=facts if known else ())

    def _may_be_declared(self, name: str) -> bool:
        """Whether it is a connected table's column of which no range is declared yet, and not a value that is made of
        others inside.
        """
        facts = [t.facts.get(name) for t in tables_of(self.rows.node) if name in t.columns]
        return any(not isinstance(fact, Range) for fact in facts)


def draft(select: Select, tables: Sequence[TableSchema]) -> Draft:
    """Return the rows of a query's FROM and WHERE.

    Raises:
        UnknownColumn, UnsupportedQuery, MissingBounds: see `discreet.errors`.
    """
    unit = _unit(tables)
    _check_places(select)
    context = with_named(select.tree, Context(tables, unit, read_query, unmatched=[]))
    rows, left = read_where(select.tree, context)
    if unit.is_row:
        _check_rows(rows.node)
    if not rows.owned:
        raise UnsupportedQuery(
            "The query reads public tables only, which need no privacy.",
            hint="ask the database itself, or join them to a private table",
        )
    rows, select = _lifted(rows, replace(select, where=conjoined(left)), context)
    names = context.names(rows)
    if context.unmatched:
        check_unmatched(select, names, frozenset(context.unmatched))
    first = next(t for t in tables_of(rows.node) if not t.public)
    named = ", ".join(t.name for t in tables_of(rows.node))
    few = max(t.min_people for t in tables if not t.public)
    table = TableSchema(named, {}, {}, replace_unit(unit), first.relation, min_people=few)
    table = _virtual(table, names, set(), rows.node)
    return Draft(rows, names, select, table, tuple(context.linked))


def _check_rows(node: Node) -> None:
    """Refuses rows that are made of several of people's, or of which one of them becomes several."""
    if of_row_units(node) and not isinstance(node, TableScan | Project | Join):
        raise UnsupportedQuery(
            "Each row is a unit of its own here, so that a subquery over people's rows only picks rows, names "
            "expressions and joins public tables.",
            hint="connect with a column that names the unit: dp.PrivacyUnit('person_id', max_groups=…, max_rows=…)",
        )
    for source in inputs(node):
        _check_rows(source)


def _check_places(select: Select) -> None:
    """Refuses a subquery that the result would be computed with, rather than the rows."""
    keys = group_nodes(select.items, select.group)

    def walk(e: exp.Expr) -> None:
        if e in keys or is_aggregate(e):
            return
        if isinstance(e, exp.Query | exp.Exists) or (isinstance(e, exp.In) and e.args.get("query")):
            raise UnsupportedQuery(
                "A subquery beside aggregates, in HAVING or in ORDER BY is not supported: these read the noisy result.",
                hint="put it inside an aggregate or into GROUP BY; ask for a public value itself, and write it here",
            )
        for child in e.iter_expressions():
            walk(child)

    shown = [e for _, e in select.items]
    for e in (*shown, *([select.having] if select.having is not None else []), *(o.by for o in select.order)):
        walk(e)


def _lifted(rows: Rows, select: Select, context: Context) -> tuple[Rows, Select]:
    """Return the rows with a column for each subquery outside WHERE, and the query over these."""
    clauses = [*(select.group or ()), *([select.having] if select.having is not None else [])]
    clauses += [o.by for o in select.order]
    rows, put = lift(rows, [*(e for _, e in select.items), *clauses], context)
    items = [(n or default_name(e, i), put(e)) if subqueries(e) else (n, e) for i, (n, e) in enumerate(select.items)]
    return rows, replace(
        select,
        items=tuple(items),
        group=None if select.group is None else tuple(put(e) for e in select.group),
        having=None if select.having is None else put(select.having),
        order=tuple(replace(o, by=put(o.by)) for o in select.order),
        sets=None if select.sets is None else tuple(tuple(put(e) for e in s) for s in select.sets),
    )


def replace_unit(unit: PrivacyUnit) -> PrivacyUnit:
    """Return the unit of a virtual table: the same caps, by the hidden column."""
    return unit.capped_like(None if unit.is_row else UNIT)


def _unit(tables: Sequence[TableSchema]) -> PrivacyUnit:
    """Who is protected: the tightest caps that any private table has, as a query that joins them has to keep all."""
    private = [t.unit for t in tables if not t.public]
    named = [u for u in private if u.column is not None]
    if not named:
        return PrivacyUnit.row()
    groups, rows, totals = (
        min((n for n in caps if n is not None), default=None)
        for caps in zip(*((u.max_groups, u.max_rows, u.max_contributions) for u in named), strict=True)
    )
    found = PrivacyUnit(named[0].column, groups, rows, max_contributions=totals)
    if found.caps is None:
        raise MissingBounds(
            "How much of the data one unit may add has not been said.",
            hint=f"unit=dp.PrivacyUnit({named[0].column!r}, max_groups=3, max_rows=10)",
        )
    return found


def _shown(names: Names) -> dict[str, str]:
    hidden = [i for e in names.entries if e.hidden for i in e.items]
    written = [i for i in names.items() if i not in hidden]
    return {c.name: i.name for i in (*hidden, *written) for c in columns_in([i.expr])}


def _virtual(table: TableSchema, names: Names, used: set[Column], node: Node) -> TableSchema:
    own = {} if table.unit.is_row else {UNIT: unit_type(node)}
    columns = own | {c.name: c.type for c in sorted(used, key=lambda c: int(c.name[1:]))}
    facts = {n: f for n, f in names.facts.items() if n in columns or not used}
    unit = PrivacyUnit(table.unit.column, 1, 1) if is_once(node) else table.unit
    return replace(table, columns=columns, facts=facts, unit=unit)


def _moved(item: Item, names: Renaming) -> Item:
    """Return the item over settled columns; one that was not read has none, and is never asked for again."""
    if item.expr is None or not columns_in([item.expr]) <= names.keys():
        return replace(item, fact=None)
    return replace(item, expr=renamed(item.expr, names))


def describe(node: Node) -> list[Any]:
    """Equal trees over tables that are resolved alike, equal lists."""
    match node:
        case TableScan(table, columns):
            return ["scan", table.name, _whose(table), _pairs(columns)]
        case Constants(columns, rows):
            cells = [[Literal(v, c.type).identity for v, c in zip(row, columns, strict=True)] for row in rows]
            return ["constants", [[c.name, c.type.value] for c in columns], cells]
        case Reach(table, columns, owners, key):
            assert table.reached is not None
            way = [table.reached.column, table.reached.table, table.reached.key, key.name]
            return ["reach", table.name, way, _pairs(columns), describe(owners)]
        case Project(source, outputs, where):
            return ["project", [[c.name, e.identity] for c, e in outputs], _maybe(where), describe(source)]
        case Join(kind, left, right, on, columns, _):
            return ["join", kind.name, _pairs(columns), _maybe(on), describe(left), describe(right)]
        case Group(source, keys, folds, _):
            told = [[c.name, [f.name, _maybe(f.argument)]] for c, f in folds]
            return ["group", [[c.name, e.identity] for c, e in keys], told, describe(source)]
        case Windows(source, kept, columns):
            return ["windows", _pairs(kept), [[c.name, _over(o)] for c, o in columns], describe(source)]
        case TextParts(source, kept, part, text, separator):
            return ["split", _pairs(kept), part.name, text.name, separator, describe(source)]
        case Distinct(source, columns):
            return ["distinct", _pairs(columns), describe(source)]
        case Both(left, right, columns):
            return ["both", [[c.name for c in triple] for triple in columns], describe(left), describe(right)]


def _whose(table: TableSchema) -> Any:
    """Return the unit's column, or what a public table holds: with other rows there, it is another query."""
    if not table.public:
        return ["unit", table.unit.column]
    return "public" if table.digest is None else ["public", table.digest]


def _pairs(columns: tuple[tuple[Column, Column | str], ...]) -> list[list[str]]:
    return [[c.name, c.type.value, there if isinstance(there, str) else there.name] for c, there in columns]


def _maybe(expr: Expr | None) -> Any:
    return None if expr is None else expr.identity


def _over(over: Over) -> list[Any]:
    order = [[c.name, descending, nulls_first] for c, descending, nulls_first in over.order]
    return [
        over.name,
        [a.identity for a in over.arguments],
        [c.name for c in over.partition],
        order,
        over.total,
        *([list(over.frame)] if over.frame is not None else []),
    ]


def check_growth(node: Node) -> None:
    """Refuses joins with public tables that make too many rows of one.

    Raises:
        UnsupportedQuery: more than `MOST`, and than each of the tables has.
    """
    _growth(node)


def _growth(node: Node) -> tuple[int, int]:
    """How many rows a public relation has, or one person's row becomes, at most; and the largest public table's."""
    match node:
        case TableScan(table, _):
            rows = (table.rows or 1) if table.public else 1
            return rows, rows
        case Constants():
            return len(node.rows), len(node.rows)
        case Both():
            (one, large), (other, larger) = _growth(node.left), _growth(node.right)
            return one + other, max(large, larger)
        case Join():
            return _joined(node)
        case TextParts():
            rows, largest = _growth(node.source)
            return _checked(rows * MOST_PARTS, largest), largest
        case _:
            return _growth(inputs(node)[0])


def _joined(node: Join) -> tuple[int, int]:
    (one, large), (other, larger) = _growth(node.left), _growth(node.right)
    largest = max(large, larger)
    if node.kind.one_sided or node.single:
        return one, largest
    rows = one * (other if is_owned(node.right) else min(other, _met(node.right, node.on, other)))
    return _checked(rows, largest), largest


def _checked(rows: int, largest: int) -> int:
    if rows > max(MOST, largest):
        raise UnsupportedQuery(
            f"The joins with public tables and split texts make more than {MOST:,} rows of one row.",
            hint="join on columns of the public tables that hold each value once, or join fewer of them",
        )
    return rows


def _met(node: Node, on: Expr | None, rows: int) -> int:
    """How many rows of a public relation fit one row beside it: those with one value of a column that is held equal."""
    conditions = () if on is None else on.args_of("and") or (on,)
    pairs = [sides for c in conditions if (sides := c.args_of("="))]
    own = set(fields(node))
    found = [_alike(node, a, rows) for x, y in pairs for a, b in ((x, y), (y, x)) if not own & columns_in([b])]
    return min(found, default=rows)


def _alike(node: Node, expr: Expr, rows: int) -> int:
    """In how many rows one value stands, of a column of the relation; all where it is not known."""
    expr = uncast(expr)  # the column itself
    match node:
        case TableScan(table, columns):
            return next((table.alike.get(there, rows) for c, there in columns if c == expr), rows)
        case Constants(columns, values):
            held = [[row[i] for row in values] for i, c in enumerate(columns) if c == expr]
            return max(Counter(held[0]).values()) if held else rows
        case Project():
            return next((_alike(node.source, e, rows) for c, e in node.outputs if c == expr), rows)
        case Distinct():
            return next((_alike(node.source, there, rows) for c, there in node.columns if c == expr), rows)
        case Group():
            return 1 if len(node.keys) == 1 and node.keys[0][0] == expr else rows
        case _:
            return rows
