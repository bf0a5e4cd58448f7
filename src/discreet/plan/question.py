"""A question, bound: what is measured of the data, and how the answer is made from it."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.plan.answer import Measures, bind_answer
from discreet.plan.bind import as_condition, bind_row
from discreet.plan.cost import Kind
from discreet.plan.expr import Call, Expr, Mean, Measured, columns_of, identity
from discreet.plan.keys import Keys, find_keys
from discreet.plan.measure import Measure
from discreet.plan.parse import Ordering, Select, parse_select
from discreet.plan.schema import TableSchema
from discreet.plan.scope import Scope, TableScope

FORMAT = 1
"""The version of a question's identity; stored releases are found by it."""


@dataclass(frozen=True, slots=True)
class OrderBy:
    """One term of ORDER BY over the answer."""

    by: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Outer:
    """The answer's columns and clauses, over keys and noisy columns: all of it post-processing."""

    columns: tuple[tuple[str, Expr], ...]
    having: Expr | None
    order: tuple[OrderBy, ...]
    limit: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class Question:
    """What is measured (`where`, `keys`, `measures`), and what is made of it (`outer`)."""

    text: str
    table: TableSchema
    where: Expr | None
    keys: Keys
    measures: tuple[Measure, ...]
    outer: Outer

    def identity(
        self,
        *,
        population: str,
        version: str | None,
        epsilon: Fraction,
        delta: Fraction,
        kind: Kind,
        report_share: Fraction,
    ) -> str:
        """The question's identity: equal measurements with equal parameters, equal text (decision 0001)."""
        unit = self.table.unit
        described: dict[str, Any] = {
            "format": FORMAT,
            "population": population,
            "table": self.table.name,
            "version": version,
            "where": None if self.where is None else identity(self.where),
            "keys": [identity(e) for e in self.keys.exprs],
            "lists": None
            if self.keys.lists is None
            else [[_cell(v) for v in values] for values in self.keys.lists],
            "measures": [m.identity for m in self.measures],
            "unit": [unit.column, unit.max_groups, unit.max_rows],
            "relation": self.table.relation.value,
            "epsilon": str(epsilon),
            "delta": str(delta),
            "noise": kind.value,
            "reports": str(report_share),
        }
        return hashlib.sha256(json.dumps(described, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def read_question(sql: str, tables: Sequence[TableSchema]) -> Question:
    """The question that a text asks of one of the tables.

    Raises:
        PlanError: see `discreet.errors`; nothing has been read or charged.
    """
    try:
        return _read(sql, tables)
    except RecursionError:
        raise UnsupportedQuery("The question nests too deeply to be read.", hint="write it flatter") from None


def _read(sql: str, tables: Sequence[TableSchema]) -> Question:
    select = parse_select(sql)
    table = _find_table(select.table, tables)
    scope = TableScope(table, select.alias)
    items = select.items
    exprs = _group_nodes(select)
    keys = find_keys(tuple(dict.fromkeys(_key(e, scope) for e in exprs)), table.facts)
    measures = Measures()

    def answer(node: exp.Expr, names: dict[str, Expr]) -> Expr:
        return bind_answer(node, scope, keys.exprs, measures, names)

    columns: list[tuple[str, Expr]] = []
    for name, node in items:
        columns.append((name or _default_name(node, len(columns)), answer(node, {})))
    _refuse_twins([n for n, _ in columns])
    names = {n.lower(): e for n, e in columns}
    having = None if select.having is None else as_condition(answer(select.having, names), "HAVING")
    order = tuple(_order(o, columns, answer, names) for o in select.order)
    where = None if select.where is None else as_condition(bind_row(select.where, scope), "WHERE")
    if not measures.found and keys.lists is not None:
        raise UnsupportedQuery(
            "The question asks nothing of the data: its columns are all public.",
            hint="add an aggregate, such as COUNT(*)",
        )
    outer = Outer(tuple(columns), having, order, select.limit, select.offset)
    return _canonical(Question(sql, table, where, keys, tuple(measures.found), outer))


def _canonical(q: Question) -> Question:
    """The same question with its measures in an order that does not follow the spelling."""
    ordered = sorted(q.measures, key=lambda m: json.dumps(m.identity, sort_keys=True))
    place = {i: ordered.index(m) for i, m in enumerate(q.measures)}
    outer = Outer(
        tuple((n, _moved(e, place)) for n, e in q.outer.columns),
        None if q.outer.having is None else _moved(q.outer.having, place),
        tuple(OrderBy(_moved(o.by, place), o.descending, o.nulls_first) for o in q.outer.order),
        q.outer.limit,
        q.outer.offset,
    )
    return Question(q.text, q.table, q.where, q.keys, tuple(ordered), outer)


def _moved(expr: Expr, place: dict[int, int]) -> Expr:
    match expr:
        case Measured(i, _, _):
            return replace(expr, index=place[i])
        case Mean(numerator, denominator):
            return replace(
                expr,
                numerator=replace(numerator, index=place[numerator.index]),
                denominator=replace(denominator, index=place[denominator.index]),
            )
        case Call(name, args, kind):
            return Call(name, tuple(_moved(a, place) for a in args), kind)
        case _:
            return expr


def _find_table(name: str, tables: Sequence[TableSchema]) -> TableSchema:
    found = [t for t in tables if t.name == name] or [t for t in tables if t.name.lower() == name.lower()]
    if len(found) != 1:
        near = difflib.get_close_matches(name, [t.name for t in tables], n=3, cutoff=0.5)
        listed = ", ".join(near or [t.name for t in tables][:12])
        raise UnknownColumn(f"There is no table {name!r:.60}.", hint=f"connected tables: {listed}")
    return found[0]


def _group_nodes(select: Select) -> list[exp.Expr]:
    """GROUP BY's expressions, with ordinals and output names replaced by what they stand for."""
    named = {n.lower(): e for n, e in select.items if n}
    nodes: list[exp.Expr] = []
    for e in select.group or ():
        if isinstance(e, exp.Literal) and not e.is_string:
            if not e.name.isdigit() or not 1 <= int(e.name) <= len(select.items):
                raise UnsupportedQuery(
                    f"GROUP BY {e.name} names no output column.", hint="use 1 for the first"
                )
            e = select.items[int(e.name) - 1][1]
        elif (
            isinstance(e, exp.Column) and not e.table and e.name.lower() in named and not _same_name(e, named)
        ):
            e = named[e.name.lower()]
        nodes.append(e)
    return nodes


def _same_name(e: exp.Column, named: dict[str, exp.Expr]) -> bool:
    """Whether an output name stands for the column of that very name."""
    target = named[e.name.lower()]
    return isinstance(target, exp.Column) and target.name.lower() == e.name.lower()


def _key(node: exp.Expr, scope: Scope) -> Expr:
    if node.find(exp.AggFunc):
        raise UnsupportedQuery(
            "An aggregate cannot be a group key.", hint="group by columns or expressions of them"
        )
    key = bind_row(node, scope)
    if key.type is None or not _reads_row(key):
        raise UnsupportedQuery(
            "A constant cannot be a group key.", hint="group by columns or expressions of them"
        )
    return key


def _reads_row(key: Expr) -> bool:
    return bool(columns_of(key))


def _order(o: Ordering, columns: list[tuple[str, Expr]], answer: Any, names: dict[str, Expr]) -> OrderBy:
    if isinstance(o.by, exp.Literal) and not o.by.is_string:
        if not o.by.name.isdigit() or not 1 <= int(o.by.name) <= len(columns):
            raise UnsupportedQuery(
                f"ORDER BY {o.by.name} names no output column.", hint="use 1 for the first"
            )
        return OrderBy(columns[int(o.by.name) - 1][1], o.descending, o.nulls_first)
    return OrderBy(answer(o.by, names), o.descending, o.nulls_first)


def _default_name(node: exp.Expr, place: int) -> str:
    if isinstance(node, exp.Column):
        return node.name
    text = node.sql(dialect="duckdb", comments=False).lower()
    return text if len(text) <= 40 else f"column_{place + 1}"


def _refuse_twins(names: list[str]) -> None:
    lowered = [n.lower() for n in names]
    twins = sorted({n for n in names if lowered.count(n.lower()) > 1})
    if twins:
        raise UnsupportedQuery(f"Two output columns are called {twins[0]!r}.", hint="name them apart with AS")


def _cell(value: object) -> Any:
    return value if value is None or isinstance(value, bool | int) else [type(value).__name__, str(value)]
