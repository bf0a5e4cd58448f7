"""A question, bound: what is measured of the data, and how the answer is made from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from discreet.catalog.schema import TableSchema, find_table
from discreet.errors import MissingBounds, UnsupportedQuery
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.plan.answer import Measures, bind_answer
from discreet.plan.cost import Allocation, PlanTerms
from discreet.plan.measures.measure import Measure
from discreet.plan.measures.ranges import Missing, Ranges
from discreet.plan.nodes.node import Measured, Node, answer_node
from discreet.plan.quantile_tree.shape import Spread, TreeRead
from discreet.query.aggregate_nodes import has_aggregate
from discreet.query.bind import TableScope, as_condition, bind_row
from discreet.query.expr import Expr, columns_of
from discreet.query.grouping_sets import Sets
from discreet.query.keys import Keys, find_keys
from discreet.query.parse import (
    Ordering,
    Select,
    default_name,
    end_of,
    group_nodes,
    interval_end,
    parse_select,
    refuse_end,
)
from discreet.query.relation.rows import ReadRows, draft
from discreet.query.scope import Scope

FORMAT = 1
"""The version of a question's identity; stored releases are found by it."""


@dataclass(frozen=True, slots=True)
class OrderBy:
    """One term of ORDER BY over the answer."""

    by: Node
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Outer:
    """The answer's columns and clauses, over keys and noisy columns: all of it post-processing."""

    columns: tuple[tuple[str, Node], ...]
    having: Node | None
    order: tuple[OrderBy, ...]
    limit: int | None
    offset: int
    ends: tuple[tuple[int, bool], ...] = ()
    """Places of columns that are an end of their expression's interval, and whether it is the upper one."""
    sets: Sets | None = None
    """The keys of each grouping set, where totals are asked for as well."""

    @property
    def expressions(self) -> list[Node]:
        """All that is read of the measurement."""
        having = [] if self.having is None else [self.having]
        return [*(e for _, e in self.columns), *having, *(o.by for o in self.order)]

    def with_columns(self, change: Callable[[Measured], Node]) -> Outer:
        """Return the same clauses with each noisy column in them replaced."""
        return replace(
            self,
            columns=tuple((n, e.with_columns(change)) for n, e in self.columns),
            having=None if self.having is None else self.having.with_columns(change),
            order=tuple(replace(o, by=o.by.with_columns(change)) for o in self.order),
        )


@dataclass(frozen=True, slots=True)
class Question:
    """What is measured (`where`, `keys`, `measures`), and what is made of it (`outer`).

    `table` is the one private table that is read; where there are several, or subqueries, it is the virtual table of
    the rows that `relation` gives.
    """

    text: str
    table: TableSchema
    where: Expr | None
    keys: Keys
    measures: tuple[Measure, ...]
    outer: Outer
    relation: ReadRows | None = None
    spreads: tuple[TreeRead, ...] = field(init=False, repr=False, compare=False)
    """What is read of spreads: measured beside `measures`, each by a statement of its own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "spreads", looked_at(self.outer.expressions))

    def identity(self, terms: PlanTerms, allocation: Allocation | None = None) -> str:
        """Return the question's identity: equal measurements with equal parameters, equal text (decision 0001).

        An allocation says which totals are measured as well, and which quantiles are chosen by rank.
        """
        levels = () if allocation is None else allocation.levels
        spreads = () if allocation is None else allocation.spreads
        by_rank = [i for i, law in enumerate(spreads) if isinstance(law, ExponentialQuantile)]
        unit = self.table.unit
        described: dict[str, Any] = {
            "format": FORMAT,
            "population": terms.population,
            "table": self.table.name,
            "version": terms.version,
            "where": None if self.where is None else self.where.identity,
            "keys": [e.identity for e in self.keys.exprs],
            "lists": None if self.keys.lists is None else [[_cell(v) for v in values] for values in self.keys.lists],
            "measures": [m.identity for m in self.measures],
            "unit": [unit.column, unit.max_groups, unit.max_rows],
            "relation": self.table.relation.value,
            "epsilon": str(terms.epsilon),
            "delta": str(terms.delta),
            "noise": terms.kind.value,
            "reports": str(terms.report_share),
        }
        if self.relation is not None:
            described["rows"] = self.relation.identity
        if levels:
            described["levels"] = [[list(level.kept), str(level.share)] for level in levels]
        if self.spreads:
            described["spreads"] = [s.identity for s in self.spreads]
        if by_rank:
            described["by rank"] = by_rank
        return hashlib.sha256(json.dumps(described, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def looked_at(exprs: Iterable[Node]) -> tuple[TreeRead, ...]:
    """Return the spreads that expressions over the answer read, each once, in an order of their own."""
    found: dict[Spread, set[Fraction]] = {}
    for e in (node for expr in exprs for node in expr.walk()):
        if isinstance(e.source, Spread):
            found.setdefault(e.source, set()).update(e.shares)
    return tuple(sorted((TreeRead(s, tuple(sorted(p))) for s, p in found.items()), key=lambda s: repr(s.identity)))


def read_question(sql: str, tables: Sequence[TableSchema], ranges: Ranges | None = None) -> Question:
    """Return the question that a text asks of one of the tables; `ranges` are of values without bounds, where chosen.

    Raises:
        PlanError: see `discreet.errors`; nothing has been read or charged.
    """
    try:
        return _read(sql, tables, ranges)
    except RecursionError:
        raise UnsupportedQuery("The question nests too deeply to be read.", hint="write it flatter") from None


def _read(sql: str, tables: Sequence[TableSchema], ranges: Ranges | None) -> Question:
    select = parse_select(sql)
    if select.table is not None:
        table = find_table(select.table, tables)
        if table.reached is None and not table.public:
            ways = [t.reached for t in tables if t.reached is not None]
            led = frozenset(way.key for way in ways if way.table == table.name)
            return _bound(sql, select, table, TableScope(table, select.alias, led), None, ranges)
    drafted = draft(select, tables)
    select = drafted.select
    try:
        # finds out which columns are read; they have other names yet
        _bound(sql, select, drafted.table, drafted.names, None, None if ranges is None else Missing())
        relation, names = drafted.settled()
    except MissingBounds as error:
        raise drafted.in_words(error) from None
    return _bound(sql, select, relation.table, names, relation, ranges)


def _bound(
    sql: str, select: Select, table: TableSchema, scope: Scope, relation: ReadRows | None, ranges: Ranges | None
) -> Question:
    items = select.items
    exprs = group_nodes(items, select.group)
    keys = find_keys(tuple(dict.fromkeys(_key(e, scope) for e in exprs)), table.facts)
    _refuse_units_as_groups(keys, scope)
    measures = Measures(ranges=ranges)

    def answer(node: exp.Expr, names: dict[str, Expr]) -> Expr:
        return bind_answer(node, scope, keys.exprs, measures, names, totals=select.sets is not None)

    columns: list[tuple[str, Expr]] = []
    ends: list[tuple[int, bool]] = []
    for name, node in items:
        end = interval_end(node)
        if end is not None:
            ends.append((len(columns), end[1]))
        of = node if end is None else end_of(end[0], items)
        columns.append((name or default_name(node, len(columns)), answer(of, {})))
    _refuse_twins([n for n, _ in columns])
    names = {n.lower(): e for i, (n, e) in enumerate(columns) if i not in dict(ends)}
    having = None if select.having is None else as_condition(answer(select.having, names), "HAVING")
    _check_ends(ends, columns, select.order)
    order = tuple(_order(o, columns, answer, names) for o in select.order)
    where = None if select.where is None else as_condition(bind_row(select.where, scope), "WHERE")
    sets = _sets(select, scope, keys, measures)
    shown, kept = (tuple((n, answer_node(e)) for n, e in columns), None if having is None else answer_node(having))
    _refuse_names_of_ends(shown, dict(ends))
    outer = Outer(shown, kept, order, select.limit, select.offset, tuple(ends), sets)
    found, outer = _canonical(measures.found, outer)
    question = Question(sql, table, where, keys, found, outer, relation)
    if sets is not None and question.spreads:
        raise UnsupportedQuery(
            "Quantiles and the like do not add up over groups, as totals (ROLLUP, CUBE) must.",
            hint="ask one question for each set of keys: session.batch answers them together",
        )
    if not measures.found and not question.spreads and keys.lists is not None:
        raise UnsupportedQuery(
            "The question asks nothing of the data: its columns are all public.",
            hint="add an aggregate, such as COUNT(*)",
        )
    return question


def _sets(select: Select, scope: Scope, keys: Keys, measures: Measures) -> Sets | None:
    """Return the grouping sets as places among the keys, where all that is measured adds up over groups."""
    if select.sets is None:
        return None
    found = []
    for nodes in select.sets:
        exprs = [_key(e, scope) for e in group_nodes(select.items, nodes)]
        found.append(tuple(sorted({keys.exprs.index(e) for e in exprs})))
    if not any(len(s) == len(keys.exprs) for s in found):
        raise UnsupportedQuery(
            "None of the GROUPING SETS has all keys, so that totals have no parts to be added up from.",
            hint="add the set of all keys, or ask one question for each set: session.batch answers them together",
        )
    for m in measures.found:
        if not m.adds_up:
            raise UnsupportedQuery(
                "A number of different people or values does not add up over groups, as totals (ROLLUP, CUBE) must.",
                hint="ask one question for each set of keys: session.batch answers them together",
            )
    return tuple(found)


def _canonical(measures: Sequence[Measure], outer: Outer) -> tuple[tuple[Measure, ...], Outer]:
    """Return the measures in an order that does not follow the spelling, and what is made of them in that order."""
    ordered = tuple(sorted(measures, key=lambda m: json.dumps(m.identity, sort_keys=True)))
    place = {i: ordered.index(m) for i, m in enumerate(measures)}
    return ordered, outer.with_columns(lambda m: replace(m, index=place[m.index]))


def _key(node: exp.Expr, scope: Scope) -> Expr:
    if has_aggregate(node):
        raise UnsupportedQuery("An aggregate cannot be a group key.", hint="group by columns or expressions of them")
    key = bind_row(node, scope)
    if key.type is None or not columns_of(key):
        raise UnsupportedQuery("A constant cannot be a group key.", hint="group by columns or expressions of them")
    return key


def _refuse_units_as_groups(keys: Keys, scope: Scope) -> None:
    """Refuses private groups each of which is one unit: none would be shown, and the empty answer would be charged."""
    own = [name for e in keys.exprs if (name := scope.unit_key(e)) is not None]
    if own and keys.lists is None:
        named = own[0]
        raise UnsupportedQuery(
            f"Each group would be of one unit, as {named!r} says whose a row is, and so small a group is never shown.",
            hint="leave it out of GROUP BY; for averages over units put it inside: SELECT AVG(least(n, 40)) FROM "
            f"(SELECT {named}, COUNT(*) AS n FROM … GROUP BY {named}) units",
        )


def _order(o: Ordering, columns: list[tuple[str, Expr]], answer: Any, names: dict[str, Expr]) -> OrderBy:
    if isinstance(o.by, exp.Literal) and not o.by.is_string:
        if not o.by.name.isdigit() or not 1 <= int(o.by.name) <= len(columns):
            raise UnsupportedQuery(f"ORDER BY {o.by.name} names no output column.", hint="use 1 for the first")
        return OrderBy(_sortable(columns[int(o.by.name) - 1][1]), o.descending, o.nulls_first)
    return OrderBy(_sortable(answer(o.by, names)), o.descending, o.nulls_first)


def _sortable(expr: Expr) -> Node:
    if expr.type is not None and expr.type.is_nested:
        raise UnsupportedQuery(
            f"Rows are not put in order by {expr.type.word}.", hint="ORDER BY one value: COUNT(*), MEDIAN(x)"
        )
    return answer_node(expr)


def _check_ends(
    ends: Sequence[tuple[int, bool]], columns: Sequence[tuple[str, Expr]], order: Sequence[Ordering]
) -> None:
    """Check that the end of an interval is that of a number, and that rows are not put in order by it."""
    for place, _ in ends:
        kind = columns[place][1].type
        by = any(o.by == exp.Literal.number(place + 1) for o in order)
        if by or kind is None or not kind.is_number:
            refuse_end()


def _refuse_twins(names: list[str]) -> None:
    lowered = [n.lower() for n in names]
    twins = sorted({n for n in names if lowered.count(n.lower()) > 1})
    if twins:
        raise UnsupportedQuery(f"Two output columns are called {twins[0]!r}.", hint="name them apart with AS")


def _refuse_names_of_ends(columns: Sequence[tuple[str, Node]], ends: Mapping[int, bool]) -> None:
    """Refuses an output `n_low` beside a noisy `n` that is not the lower end of its interval, as frames call that."""
    place = {name.lower(): i for i, (name, _) in enumerate(columns)}
    for i, (name, node) in enumerate(columns):
        for word in ("low", "high") if i not in ends and node.has_interval else ():
            other = place.get(f"{name}_{word}".lower())
            if other is not None and (ends.get(other), columns[other][1]) != (word == "high", node):
                raise UnsupportedQuery(
                    f"The output {columns[other][0]!r} has the name of an end of the interval of {name!r}.",
                    hint=f"call it otherwise with AS; frames have {name}_low and {name}_high beside {name}",
                )


def _cell(value: object) -> Any:
    return value if value is None or isinstance(value, bool | int) else [type(value).__name__, str(value)]
