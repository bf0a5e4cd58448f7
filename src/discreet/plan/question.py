"""A query, bound: what is measured of the data, and how the result is made from it: keys and noisy columns."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Never

from sqlglot import exp

from discreet.catalog.schema import TableSchema, Values, find_table, outputs_of
from discreet.catalog.types import Type
from discreet.errors import DiscreetError, MissingBounds, UnknownColumn, UnsupportedQuery
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.plan.aggregates import AGGREGATES
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.aggregates.read import read_aggregate
from discreet.plan.cost import Allocation, PlanTerms
from discreet.plan.measures.measure import Measure, RowCount, UnitCount
from discreet.plan.measures.ranges import CappedRanges, Facts, Missing, Ranges
from discreet.plan.nodes.node import Key, Measured, Node, answer_node, measured_in
from discreet.plan.quantile_tree.shape import TreeRead, TreeShape
from discreet.query.bind import TableScope, as_condition, bind, bind_row, call
from discreet.query.dialects.dialect import written
from discreet.query.expr import Expr, Literal, columns_of
from discreet.query.grouping_sets import Sets
from discreet.query.keys import MOST_SHOWN, GroupKeys, find_keys, in_grid
from discreet.query.merge import merged
from discreet.query.parse import (
    Ordering,
    Select,
    default_name,
    end_of,
    group_nodes,
    has_aggregate,
    interval_end,
    is_aggregate,
    parse_select,
    refuse_end,
    with_earlier_names,
)
from discreet.query.relation.rows import ReadRows, draft
from discreet.query.scope import Scope

OF_ONE_UNIT = "Each group would be of one unit"
"""The beginning of a refusal that says more of a query than whatever else stands in it."""

MOST_MEASURES = 200
"""Different noisy columns in one query."""


@dataclass(slots=True)
class Measures:
    """The distinct measures of a query, in the order in which they were first asked for."""

    found: list[Measure] = field(default_factory=list)
    ranges: Ranges | None = None
    """Of expressions without bounds, where those were chosen."""
    where: Expr | None = None
    """The filter, which narrows bounds."""

    def column(self, measure: Measure, kind: Type) -> Measured:
        """Return the noisy column of a measure; the same measure is measured once."""
        if measure not in self.found:
            if len(self.found) == MOST_MEASURES:
                raise UnsupportedQuery(
                    f"The query asks for more than {MOST_MEASURES} different aggregates.",
                    hint="ask several queries; the budget is divided among the aggregates of one anyway",
                )
            self.found.append(measure)
        return Measured(self.found.index(measure), measure.step, kind)


def bind_answer(
    node: exp.Expr,
    scope: Scope,
    keys: Sequence[Expr],
    measures: Measures,
    names: Mapping[str, Expr | None],
    *,
    totals: bool = False,
    keys_first: bool = False,
) -> Expr:
    """Return an expression over the result: group keys, noisy columns and the output columns in `names`, where None
    stands for several of one name. A name of both a key and an output is the output, where it stands alone and not
    `keys_first`.

    With `totals`, each row has beside its keys a 0 or 1 for each: whether the row adds up over that key.
    """
    ranges = measures.ranges
    if ranges is None and scope.capped:
        ranges = CappedRanges({**scope.capped, **scope.facts})
    plain = ranges is None and measures.where is None
    facts = scope.facts if plain else Facts(scope.facts, ranges, measures.where)
    needs = Needs(facts, measures.column)

    def leaf(e: exp.Expr, depth: int) -> Expr | None:
        if isinstance(e, exp.Column) and not e.table and e.name.lower() in names:
            is_key = (depth or keys_first) and scope.knows(e) and bind_row(e, scope) in keys
            if not is_key:
                return _one_named(e.name, names)
        if isinstance(e, exp.Grouping | exp.GroupingId):
            return _grouping(e, scope, keys, totals=totals)
        if not has_aggregate(e):
            if isinstance(e, exp.Literal | exp.Boolean | exp.Null):
                return None
            try:
                row = bind_row(e, scope)
            except UnknownColumn:
                if isinstance(e, exp.Column | exp.Anonymous):
                    raise
                return None  # a part of it may be an output column
            if row in keys:
                return Key(keys.index(row), row.type)  # type: ignore[arg-type]  # keys are typed, unlike a bare NULL
            if isinstance(e, exp.Column):
                add = f"add it: GROUP BY …, {e.sql('duckdb')}; " if keys else ""
                raise UnsupportedQuery(
                    f"The column {e.name!r} must be in GROUP BY or inside an aggregate.",
                    hint=f"{add}single rows are never released",
                )
        if is_aggregate(e):
            name, arguments = read_aggregate(e, scope)
            return AGGREGATES[name](arguments, needs)
        if isinstance(e, exp.Bracket):
            _refuse_inside(e)
        return None

    def outermost(e: exp.Expr, depth: int) -> Expr | None:
        found = leaf(e, depth)
        if depth and found is not None and found.type is not None and found.type.is_nested:
            _refuse_inside(e)
        return found

    return bind(node, outermost, 0)


def _refuse_inside(node: exp.Expr) -> Never:
    raise UnsupportedQuery(
        "Nothing is made of a result that holds several values: it is a column as it stands.",
        hint="take its parts from release.rows; or ask for each: QUANTILE_CONT(x, 0.25), QUANTILE_CONT(x, 0.5) "
        "cost together what one costs",
    )


def _grouping(node: exp.Expr, scope: Scope, keys: Sequence[Expr], *, totals: bool) -> Expr:
    """GROUPING(a, b, …): the binary number whose digits say of each key whether the row adds up over it."""
    named = [bind_row(e, scope) for e in node.expressions]
    if not named or any(e not in keys for e in named):
        raise UnsupportedQuery("GROUPING takes keys of GROUP BY.", hint="write GROUPING(a) beside GROUP BY ROLLUP (a)")
    number: Expr = Literal(0, Type.INT)
    for e in named:
        digit: Expr = Key(len(keys) + keys.index(e), Type.INT) if totals else Literal(0, Type.INT)
        number = call("+", [call("*", [number, Literal(2, Type.INT)]), digit])
    return number


FORMAT = 1
"""The version of a query's identity; stored releases are found by it."""


@dataclass(frozen=True, slots=True)
class OrderBy:
    """One term of ORDER BY over the result."""

    by: Node
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Outer:
    """The result's columns and clauses, over keys and noisy columns: all of it post-processing."""

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
    keys: GroupKeys
    measures: tuple[Measure, ...]
    outer: Outer
    relation: ReadRows | None = None
    said: tuple[str, ...] = ()
    """What was read as something else than it is written as, a sentence each."""
    trees: tuple[TreeRead, ...] = field(init=False, repr=False, compare=False)
    """What is read of trees: measured beside `measures`, each by a statement of its own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "trees", tree_reads(self.outer.expressions))

    def reads_of(self, shape: TreeShape) -> int:
        """Return how many different counts it reads from a tree; as many columns would have been measured else."""
        return len({e for expr in self.outer.expressions for e in expr.walk() if e.source == shape})

    @property
    def width(self) -> int:
        """In how many parts the budget of its columns is divided: for a count read from a partition one."""
        read = (tree_read.shape for tree_read in self.trees)
        return len(self.measures) + sum(s.depth if s.layers is None else self.reads_of(s) for s in read)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The part of the columns' budget that each column has and each level of each tree, such that all of a
        partition's levels have what its counts would have had together; nothing where all parts are alike anyhow.
        """
        read = [tree_read.shape for tree_read in self.trees]
        if all(s.layers is None for s in read):
            return ()
        each = Fraction(1, self.width)
        levels = [each if s.layers is None else each * self.reads_of(s) / s.depth for s in read]
        return (*(each for _ in self.measures), *levels)

    def identity(self, terms: PlanTerms, allocation: Allocation | None = None) -> str:
        """Return the query's identity: equal measurements with equal parameters, equal text (decision 0001).

        An allocation says which totals are measured as well, and which quantiles are chosen by rank.
        """
        levels = () if allocation is None else allocation.levels
        trees = () if allocation is None else allocation.trees
        by_rank = [i for i, law in enumerate(trees) if isinstance(law, ExponentialQuantile)]
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
        if self.table.min_people > 1:
            described["min people"] = self.table.min_people
        if unit.max_contributions is not None:
            described["unit"].append(unit.max_contributions)
        if self.keys.joint:
            described["joint"] = [
                [list(j.places), [[_cell(v) for v in row] for row in j.rows]] for j in self.keys.joint
            ]
        if self.relation is not None:
            described["rows"] = self.relation.identity
        if levels:
            described["levels"] = [[list(level.kept), str(level.share)] for level in levels]
        if self.trees:
            described["trees"] = [s.identity for s in self.trees]
        if by_rank:
            described["by rank"] = by_rank
        return hashlib.sha256(json.dumps(described, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def tree_reads(exprs: Iterable[Node]) -> tuple[TreeRead, ...]:
    """Return the trees that expressions over the result read, each once, in an order of their own."""
    found: dict[TreeShape, set[Fraction]] = {}
    for e in (node for expr in exprs for node in expr.walk()):
        if isinstance(e.source, TreeShape):
            found.setdefault(e.source, set()).update(e.shares)
    return tuple(sorted((TreeRead(s, tuple(sorted(p))) for s, p in found.items()), key=lambda s: repr(s.identity)))


def read_question(
    sql: str, tables: Sequence[TableSchema], ranges: Ranges | None = None, *, selects: bool = False, fed: bool = False
) -> Question:
    """Return the query that a text asks of one of the tables; `ranges` are of values without bounds, where chosen;
    `selects` says whether it has a δ, with which groups may be selected; `fed` whether results may be fed into it.

    Raises:
        PlanError: see `discreet.errors`; nothing has been read or charged.
    """
    try:
        return _read(sql, tables, ranges, selects=selects, fed=fed)
    except RecursionError:
        raise UnsupportedQuery("The query nests too deeply to be read.", hint="write it flatter") from None


def _read(sql: str, tables: Sequence[TableSchema], ranges: Ranges | None, *, selects: bool, fed: bool) -> Question:
    known = [t.name for t in tables]
    select = parse_select(sql, known, fed=fed)
    if select.table is None and (text := _of_one_table(select.tree, tables)) is not None:
        select = parse_select(text, known, fed=fed)
    if select.table is not None:
        table = find_table(select.table, tables)
        if table.reached is None and not table.public:
            ways = [t.reached for t in tables if t.reached is not None]
            led = frozenset(way.key for way in ways if way.table == table.name)
            scope = TableScope(table, select.alias, led)
            return _bound(sql, select, table, scope, None, ranges, outputs_of(table), selects=selects)
    outputs = outputs_of(*tables)
    drafted = draft(select, tables)
    select = drafted.select
    try:
        # finds out which columns are read; they have other names yet
        missing = None if ranges is None else Missing()
        _bound(sql, select, drafted.table, drafted.names, None, missing, outputs, selects=selects)
        relation, names = drafted.settled()
    except MissingBounds as error:
        raise drafted.in_words(error) from None
    return _bound(sql, select, relation.table, names, relation, ranges, outputs, selects=selects)


def _of_one_table(tree: exp.Select, tables: Sequence[TableSchema]) -> str | None:
    """Return the query without derived tables that only pick rows, where each row is a unit; None of others."""
    rows = [t.name for t in tables if not t.public and t.unit.is_row]
    made = merged(tree, {}, rows) if rows else None
    return None if made is None else written(made)


def _bound(
    sql: str,
    select: Select,
    table: TableSchema,
    scope: Scope,
    relation: ReadRows | None,
    ranges: Ranges | None,
    outputs: Mapping[str, Values],
    *,
    selects: bool,
) -> Question:
    items = with_earlier_names(select.items, scope.knows)
    passing = _filter(select, scope)
    exprs = group_nodes(items, select.group, scope.knows)
    grouped = tuple(dict.fromkeys(k for e in exprs if columns_of(k := _key(e, scope)) or select.sets is not None))
    joint = () if select.sets is not None else scope.joint(grouped)
    named_keys = _named(items, scope, grouped, outputs) if outputs else {}
    most = 0 if table.min_people > 1 else MOST_SHOWN if selects else None
    keys = find_keys(grouped, table.facts, named_keys, passing, joint, most=most)
    _refuse_units_as_groups(keys, scope)
    measures = Measures(ranges=ranges, where=passing)

    def answer(node: exp.Expr, names: Mapping[str, Expr | None], *, keys_first: bool = False) -> Expr:
        totals = select.sets is not None
        return bind_answer(node, scope, keys.exprs, measures, names, totals=totals, keys_first=keys_first)

    columns: list[tuple[str, Expr]] = []
    ends: list[tuple[int, bool]] = []
    for name, node in items:
        end = interval_end(node)
        if end is not None:
            ends.append((len(columns), end[1]))
        of = node if end is None else end_of(end[0], items)
        columns.append((name or default_name(node, len(columns)), answer(of, {})))
    named = [(n.lower(), e) for i, (n, e) in enumerate(columns) if i not in dict(ends)]
    names = {n: e if all(other == e for m, other in named if m == n) else None for n, e in named}
    columns = list(zip(numbered([n for n, _ in columns]), (e for _, e in columns), strict=True))
    having = None if select.having is None else as_condition(answer(select.having, names, keys_first=True), "HAVING")
    _check_ends(ends, columns, select.order)
    order = tuple(_order(o, columns, answer, names) for o in select.order)
    where = passing if passing is not None or select.where is None else _condition(select.where, scope)
    if inside := in_grid(keys):
        where = call("and", inside if where is None else [where, *inside])
    sets = _sets(select, scope, keys, measures)
    shown, kept = (tuple((n, answer_node(e)) for n, e in columns), None if having is None else answer_node(having))
    _refuse_names_of_ends(shown, dict(ends))
    asked = (*(n for _, n in shown), *(o.by for o in order), *([] if kept is None else [kept]))
    if keys.exprs and keys.lists is not None and sets is None and not (measures.found or tree_reads(asked)):
        present = _present(scope, measures)
        kept = answer_node(present if having is None else call("and", [having, present]))
    outer = Outer(shown, kept, order, select.limit, select.offset, tuple(ends), sets)
    found, outer = _canonical(measures.found, outer)
    question = Question(sql, table, where, keys, found, outer, relation, select.said)
    if sets is not None and question.trees:
        raise UnsupportedQuery(
            "Quantiles and the like do not add up over groups, as totals (ROLLUP, CUBE) must.",
            hint="ask one query for each set of keys: session.batch runs them together",
        )
    if not measures.found and not question.trees and keys.lists is not None:
        raise UnsupportedQuery(
            "The query asks nothing of the data: its columns are all public.", hint="add an aggregate, such as COUNT(*)"
        )
    return question


_PRESENT = answer_node(call(">", [Measured(0, Fraction(1), Type.INT), Literal(0.5, Type.REAL)]))


def _present(scope: Scope, measures: Measures) -> Expr:
    """Return whether a group has anybody, by its noisy count: true above a half, as BOOL_OR says it."""
    count = measures.column(RowCount() if scope.unit.is_row else UnitCount(), Type.INT)
    return call(">", [count, Literal(0.5, Type.REAL)])


def shows_present(question: Question) -> bool:
    """Whether known groups are shown by whether they have anybody, as nothing else of them is asked for."""
    only = question.measures in ((RowCount(),), (UnitCount(),)) and question.keys.lists is not None
    kept, shown = question.outer.having, [n for _, n in question.outer.columns]
    return only and kept is not None and not any(measured_in(n) for n in shown) and _PRESENT in kept.walk()


def _one_named(name: str, names: Mapping[str, Expr | None]) -> Expr:
    """Return the output column of a name."""
    found = names[name.lower()]
    if found is None:
        raise UnsupportedQuery(
            f"Two output columns are called {name!r:.60}.",
            hint="name them apart with AS, or give the place: ORDER BY 2",
        )
    return found


def _condition(where: exp.Expr, scope: Scope) -> Expr:
    return as_condition(bind_row(where, scope), "WHERE")


def _filter(select: Select, scope: Scope) -> Expr | None:
    """Return WHERE, which narrows what is read first; None where it cannot be read, which is refused in its turn."""
    try:
        return None if select.where is None else _condition(select.where, scope)
    except DiscreetError:
        return None


def _sets(select: Select, scope: Scope, keys: GroupKeys, measures: Measures) -> Sets | None:
    """Return the grouping sets as places among the keys, where all that is measured adds up over groups."""
    if select.sets is None:
        return None
    found = []
    for nodes in select.sets:
        exprs = [_key(e, scope) for e in group_nodes(with_earlier_names(select.items, scope.knows), nodes, scope.knows)]
        if not all(map(columns_of, exprs)):
            raise UnsupportedQuery("A constant cannot be a key of grouping sets.", hint="leave it out of them")
        found.append(tuple(sorted({keys.exprs.index(e) for e in exprs})))
    if not any(len(s) == len(keys.exprs) for s in found):
        raise UnsupportedQuery(
            "None of the GROUPING SETS has all keys, so that totals have no parts to be added up from.",
            hint="add the set of all keys, or ask one query for each set: session.batch runs them together",
        )
    for m in measures.found:
        if not m.adds_up:
            raise UnsupportedQuery(
                "A number of different people or values does not add up over groups, as totals (ROLLUP, CUBE) must.",
                hint="ask one query for each set of keys: session.batch runs them together",
            )
    return tuple(found)


def _canonical(measures: Sequence[Measure], outer: Outer) -> tuple[tuple[Measure, ...], Outer]:
    """Return the measures in an order that does not follow the spelling, and what is made of them in that order."""
    ordered = tuple(sorted(measures, key=lambda m: json.dumps(m.identity, sort_keys=True)))
    place = {i: ordered.index(m) for i, m in enumerate(measures)}
    return ordered, outer.with_columns(lambda m: replace(m, index=place[m.index]))


def _key(node: exp.Expr, scope: Scope) -> Expr:
    if has_aggregate(node):
        what, inside = ("A window", "put it into a subquery") if node.find(exp.Window) else ("An aggregate", "")
        raise UnsupportedQuery(
            f"{what} cannot be a group key.", hint=inside or "group by columns or expressions of them"
        )
    return bind_row(node, scope)


def _named(
    items: Sequence[tuple[str | None, exp.Expr]], scope: Scope, keys: Sequence[Expr], outputs: Mapping[str, Values]
) -> dict[Expr, Values]:
    """Return what is declared of keys by the names that they have in the result."""
    found = {}
    for place, (name, node) in enumerate(items):
        fact = outputs.get((name or default_name(node, place)).lower())
        if fact is not None and not has_aggregate(node):
            with suppress(UnknownColumn):  # made of other output columns, and so no key
                found[bind_row(node, scope)] = fact
    return {e: fact for e, fact in found.items() if e in keys}


def _refuse_units_as_groups(keys: GroupKeys, scope: Scope) -> None:
    """Refuses private groups each of which is one unit: none would be shown, and the empty result would be charged."""
    own = [name for e in keys.exprs if (name := scope.unit_key(e)) is not None]
    if own and keys.lists is None:
        named = own[0]
        raise UnsupportedQuery(
            f"{OF_ONE_UNIT}, as {named!r} says whose a row is, and so small a group is never shown.",
            hint="leave it out of GROUP BY; for averages over units put it inside: SELECT AVG(least(n, 40)) FROM "
            f"(SELECT {named}, COUNT(*) AS n FROM … GROUP BY {named}) units",
        )


def _order(o: Ordering, columns: list[tuple[str, Expr]], answer: Any, names: Mapping[str, Expr | None]) -> OrderBy:
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


def numbered(names: Sequence[str]) -> list[str]:
    """Return the names with a number behind those that stand there before, as DuckDB gives it."""
    taken: set[str] = set()
    found = []
    for name in names:
        each = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1)))
        found.append(next(n for n in each if n.lower() not in taken))
        taken.add(found[-1].lower())
    return found


def _refuse_names_of_ends(columns: Sequence[tuple[str, Node]], ends: Mapping[int, bool]) -> None:
    """Refuses an output `n_low` beside a noisy `n` that is not the lower end of its interval, as frames call that."""
    place = {name.lower(): i for i, (name, _) in enumerate(columns)}
    for i, (name, node) in enumerate(columns):
        for word in ("low", "high") if i not in ends else ():
            other = place.get(f"{name}_{word}".lower())
            if other is None or not node.has_interval:
                continue
            if (ends.get(other), columns[other][1]) != (word == "high", node):
                raise UnsupportedQuery(
                    f"The output {columns[other][0]!r} has the name of an end of the interval of {name!r}.",
                    hint=f"call it otherwise with AS; frames have {name}_low and {name}_high beside {name}",
                )


def _cell(value: object) -> Any:
    return value if value is None or isinstance(value, bool | int) else [type(value).__name__, str(value)]
