"""Ends of the numbers of an outer query: its text with, beside each noisy number, the least and the most that it can be
while all noisy numbers of its tables lie in known intervals.

What noise chooses (`WHERE`, `HAVING`, `LIMIT`, …) is chosen by the noisy numbers themselves: the ends are carried along
in the rows. So one run gives intervals that hold together for all rows from which noise might have chosen
(docs/proofs/outer-intervals.md). An aggregate or window over rows that noise chose has no ends, since its true value is
over other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from sqlglot import exp

from discreet.query.parse import parse_query

LOW, HIGH = "dp_low ", "dp_high "
"""Before the name of a noisy column, those of its ends."""


MOST_LONG, MOST_DEEP = 5_000, 8
"""Letters of an end, and queries inside each other, beyond which nothing is known: a text could grow without bound."""


class EndKind(IntEnum):
    """What a column is."""

    PUBLIC = 0
    ENDED = 1
    """Noisy, with ends beside it."""
    UNKNOWN = 2


Columns: TypeAlias = Sequence[tuple[str, EndKind]]

_Pair: TypeAlias = tuple[exp.Expr, exp.Expr]


@dataclass(frozen=True, slots=True)
class EndedQuery:
    """A text with the ends of its numbers.

    Attributes:
        sql: the text; its first columns are those of the query.
        places: for each of these with ends, where its low end is; the high one follows it.
        public: those that noise does not move, not even by choosing rows.
    """

    sql: str
    places: Mapping[int, int]
    public: frozenset[int]


def with_ends(sql: str, tables: Mapping[str, Columns]) -> EndedQuery | None:
    """Return a query over these tables with the ends of its numbers; None where nothing is known of it."""
    tree = parse_query(sql)
    if any(
        name.lower().startswith((LOW, HIGH)) for name in (*_named(tree), *(n for c in tables.values() for n, _ in c))
    ):
        return None  # a name of the query's own would be taken for an end
    if any(_depth(node) > MOST_DEEP for node in tree.find_all(exp.Query)):
        return None
    known = {name.lower(): _Relation(tuple(columns)) for name, columns in tables.items()}
    try:
        found = _query(tree, known, ())
    except _UnknownError:
        return None
    places = [i for i, (_, kind) in enumerate(found.columns) if kind is EndKind.ENDED]
    found.append()
    at = {i: len(found.columns) + 2 * j for j, i in enumerate(places)}
    public = frozenset(i for i, (_, kind) in enumerate(found.columns) if kind is EndKind.PUBLIC)
    return EndedQuery(tree.sql(dialect="duckdb", comments=False), at, public)


def _named(tree: exp.Expr) -> list[str]:
    return [i.name for i in tree.find_all(exp.Identifier)]


def _depth(node: exp.Expr) -> int:
    depth, parent = 0, node.parent
    while parent is not None:
        depth, parent = depth + isinstance(parent, exp.Select), parent.parent
    return depth


class _UnknownError(Exception):
    """A part of a query of which nothing is known."""


@dataclass(frozen=True, slots=True)
class _Relation:
    """The columns of rows, whether noise chose these, and the SELECTs that make them, each with its columns' ends."""

    columns: tuple[tuple[str, EndKind], ...]
    is_chosen: bool = False
    leaves: tuple[tuple[exp.Select, tuple[_Pair | None, ...]], ...] = field(default=(), compare=False)

    @property
    def is_noisy(self) -> bool:
        return any(kind for _, kind in self.columns)

    def append(self) -> list[str]:
        """Show the ends of its noisy columns behind these, and return their names."""
        names = [(i, name) for i, (name, kind) in enumerate(self.columns) if kind is EndKind.ENDED]
        for select, pairs in self.leaves:
            for i, name in names:
                pair = pairs[i]
                assert pair is not None
                for end, e in zip((LOW, HIGH), pair, strict=True):
                    select.append("expressions", exp.alias_(e.copy(), end + (name or str(i)), quoted=True))
        return [end + name for _, name in names for end in (LOW, HIGH)]


_Tables: TypeAlias = Mapping[str, _Relation]
_Scope: TypeAlias = tuple[tuple[str, _Relation], ...]


def _query(tree: exp.Expr, tables: _Tables, around: _Scope) -> _Relation:
    tree = tree.unnest()
    clause = tree.args.get("with_")
    for cte in clause.expressions if clause is not None else ():
        tables = {**tables, cte.alias.lower(): _inner(cte.this, cte.args["alias"], tables)}
    match tree:
        case exp.SetOperation():
            left, right = (_query(side, tables, around) for side in (tree.this, tree.expression))
            every = isinstance(tree, exp.Union) and not tree.args.get("distinct")
            both = zip(left.columns, right.columns, strict=True)
            columns = tuple((name, max(a, b)) for (name, a), (_, b) in both)
            found = _Relation(columns, left.is_chosen or right.is_chosen, (*left.leaves, *right.leaves))
            if tree.args.get("by_name") or (not every and found.is_noisy):
                raise _UnknownError
            return _cut(tree, found)
        case exp.Select():
            return _Select(tree, tables, around).relation()
    raise _UnknownError


def _inner(query: exp.Expr, alias: exp.Expr | None, tables: _Tables) -> _Relation:
    """Return the relation of a query inside another one, in which it shows its ends."""
    found = _query(query, tables, ())
    ends = found.append()
    named = (alias.args.get("columns") or []) if alias is not None else []
    columns = [(new.name, kind) for new, (_, kind) in zip(named, found.columns, strict=False)]
    columns += found.columns[len(columns) :]
    if named and ends:
        if len(named) < len(found.columns):
            raise _UnknownError
        fresh = [end + name for name, kind in columns if kind is EndKind.ENDED for end in (LOW, HIGH)]
        assert alias is not None
        alias.set("columns", [*named, *(exp.to_identifier(name, quoted=True) for name in fresh)])
    if len({name.lower() for name, _ in columns}) < len(columns) or (ends and not all(name for name, _ in columns)):
        raise _UnknownError
    return _Relation(tuple(columns), found.is_chosen)


def _cut(tree: exp.Expr, found: _Relation) -> _Relation:
    """Return the relation with what LIMIT takes of its rows: by an order that may be noisy."""
    cut = bool(tree.args.get("limit") or tree.args.get("offset"))
    return _Relation(found.columns, found.is_chosen or (cut and found.is_noisy), found.leaves)


@dataclass(slots=True)
class _Select:
    """One SELECT: the kinds of its columns, and their ends."""

    tree: exp.Select
    tables: _Tables
    around: _Scope
    scope: _Scope = ()
    named: dict[str, exp.Expr] = field(default_factory=dict)
    is_chosen: bool = False
    """Whether noise chose its rows, or its groups, before aggregates."""
    is_cut: bool = False
    """Whether noise chose rows before windows."""
    ended: dict[Hashable, _Pair | None] = field(default_factory=dict)
    known: dict[Hashable, bool] = field(default_factory=dict)
    """What was found to be public, of outputs by their names and of subqueries, each once."""

    def relation(self) -> _Relation:
        tree = self.tree
        first, joins = tree.args.get("from_"), tree.args.get("joins") or []
        own = tuple(self._source(s.this) for s in ([] if first is None else [first, *joins]))
        self.scope = (*own, *self.around)
        using = {e.name.lower() for j in joins for e in j.args.get("using") or []}
        group = tree.args.get("group")
        if (
            any(j.method for j in joins)
            or (using and tree.is_star)
            or (group is not None and any(part for name, part in group.args.items() if name != "expressions"))
        ):
            raise _UnknownError
        items = [part for e in tree.expressions for part in self._expanded(e, own)]
        tree.set("expressions", items)
        self.named = {e.alias.lower(): e.this for e in items if isinstance(e, exp.Alias)}
        before = [j.args["on"] for j in joins if j.args.get("on")]
        before += [tree.args["where"].this] if tree.args.get("where") else []
        before += [self._key(e, items) for e in (group.expressions if group is not None else ())]
        self.is_chosen = any(r.is_chosen for _, r in own) or self._chooses(before)
        self.is_chosen |= any(kind and name.lower() in using for _, r in own for name, kind in r.columns)
        self.is_cut = self.is_chosen or self._chooses([tree.args["having"].this] if tree.args.get("having") else [])
        aggregates = group is not None or any(self._aggregates(e) for e in items)
        pairs = tuple(self._of_item(e.unalias(), within=not aggregates) for e in items)
        columns = tuple(
            (
                e.alias_or_name,
                EndKind.PUBLIC if self._is_public(e.unalias()) else EndKind.ENDED if p else EndKind.UNKNOWN,
            )
            for e, p in zip(items, pairs, strict=True)
        )
        after = self._chooses([tree.args["qualify"].this] if tree.args.get("qualify") else [])
        found = _Relation(columns, self.is_cut or after, ((tree, pairs),))
        if tree.args.get("distinct") and found.is_noisy:
            raise _UnknownError
        return _cut(tree, found)

    def _chooses(self, conditions: Sequence[exp.Expr]) -> bool:
        """Whether noise decides conditions or keys, whatever a name in them means that is in FROM and an output."""
        meant = [self.named[c.name.lower()] for e in conditions for c in e.find_all(exp.Column) if self._is_named(c)]
        return not all(map(self._is_public, [*conditions, *meant]))

    def _is_named(self, node: exp.Column) -> bool:
        return not node.table and node.name.lower() in self.named

    def _source(self, node: exp.Expr) -> tuple[str, _Relation]:
        match node:
            case exp.Subquery():
                return node.alias.lower(), _inner(node.this, node.args.get("alias"), self.tables)
            case exp.Table() if node.name.lower() in self.tables and not (node.args.get("alias") or node).args.get(
                "columns"
            ):
                return (node.alias or node.name).lower(), self.tables[node.name.lower()]
        raise _UnknownError

    def _expanded(self, e: exp.Expr, own: _Scope) -> list[exp.Expr]:
        """Return the columns that a star stands for, without the ends that FROM has beside them."""
        if not e.is_star:
            return [e]
        star, table = (e.this, e.table.lower()) if isinstance(e, exp.Column) else (e, None)
        if any(part for part in star.args.values()):
            raise _UnknownError
        return [
            exp.column(
                exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True) if alias else None
            )
            for alias, r in own
            if table in (None, alias)
            for name, _ in r.columns
        ]

    def _key(self, e: exp.Expr, items: Sequence[exp.Expr]) -> exp.Expr:
        """Return what a key of GROUP BY stands for."""
        if isinstance(e, exp.Literal) and e.name.isdigit() and 1 <= int(e.name) <= len(items):
            return items[int(e.name) - 1].unalias()
        return e

    def _column(self, node: exp.Column) -> tuple[EndKind, exp.Expr | None]:
        """Return the kind of a column of FROM; or UNKNOWN and the expression that it is another name of."""
        name, table = node.name.lower(), node.table.lower()
        for alias, relation in self.scope:
            found = [kind for n, kind in relation.columns if n.lower() == name and table in ("", alias)]
            if found:
                return found[0], None
        if self._is_named(node):
            return EndKind.UNKNOWN, self.named[name]
        raise _UnknownError

    def _is_public(self, node: exp.Expr) -> bool:
        """Whether noise does not move an expression."""
        if isinstance(node, exp.Column):
            kind, other = self._column(node)
            return not kind if other is None else self._once((node.name.lower(), self.is_chosen, self.is_cut), other)
        if isinstance(node, exp.Query):
            return self._once(id(node), node)
        if isinstance(node, exp.Window):
            if self.is_cut:
                return False
        elif self.is_chosen and isinstance(node, exp.AggFunc):
            return False
        if isinstance(node, exp.Count) and isinstance(node.this, exp.Column):
            return True
        return all(map(self._is_public, node.iter_expressions()))

    def _once(self, key: Hashable, node: exp.Expr) -> bool:
        if key not in self.known:
            if isinstance(node, exp.Query):
                found = _query(node.copy(), self.tables, self.scope)
                self.known[key] = not found.is_noisy and not found.is_chosen
            else:
                self.known[key] = self._is_public(node)
        return self.known[key]

    def _aggregates(self, node: exp.Expr) -> bool:
        """Whether an expression has an aggregate of its own query, which is no window."""
        if isinstance(node, exp.Window):
            around = [e for e in node.iter_expressions() if e is not node.this]
            return any(map(self._aggregates, [*node.this.iter_expressions(), *around]))
        return isinstance(node, exp.AggFunc) or (
            not isinstance(node, exp.Query) and any(map(self._aggregates, node.iter_expressions()))
        )

    def _of_item(self, node: exp.Expr, *, within: bool) -> _Pair | None:
        """Return the ends of an expression; `within` an aggregate, or where there is none, columns have theirs."""

        def of(e: exp.Expr | None) -> _Pair | None:
            return None if e is None else self._of_item(e, within=within)

        if self._is_public(node):
            return node, node
        match node:
            case exp.Column():
                return self._ends_of_column(node, within=within)
            case exp.Subquery():
                return self._of_subquery(node)
            case exp.Window():
                return self._of_window(node, within=within)
            case exp.Filter() if self._is_public(node.expression):
                return _map(node, of(node.this))
            case exp.Sum() | exp.Avg() | exp.Max() | exp.Min():
                plain = not self.is_chosen and not isinstance(node.this, exp.Distinct) and not node.expressions
                return _map(node, self._of_item(node.this, within=True)) if plain else None
            case exp.Paren() | exp.Round() | exp.Floor() | exp.Ceil() if self._rest_is_public(node):
                return _map(node, of(node.this))
            case exp.Cast() if node.to.is_type("double", "float"):
                return of(node.this)
            case exp.Cast() if node.to.is_type(*exp.DataType.INTEGER_TYPES):
                return _made(of(node.this), "round({})", "round({})")
            case exp.Nullif() if self._is_public(node.expression):
                return of(node.this)
            case exp.Neg():
                pair = of(node.this)
                return _made(pair and pair[::-1], "-({})", "-({})")
            case exp.Abs():
                low = "CASE WHEN {0} >= 0 THEN {0} WHEN {1} <= 0 THEN -({1}) ELSE 0 END"
                return _made_of([of(node.this)], low, "greatest(-({0}), {1})")
            case exp.Greatest() | exp.Least() | exp.Coalesce():
                return _each(node, [of(e) for e in node.iter_expressions()])
            case exp.Case() if all(self._is_public(i.this) for i in node.args["ifs"]) and node.this is None:
                return _branches(node, of)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
                return _arithmetic(node, of(node.this), of(node.expression))
        return None

    def _rest_is_public(self, node: exp.Expr) -> bool:
        return all(self._is_public(e) for e in node.iter_expressions() if e is not node.this)

    def _ends_of_column(self, node: exp.Column, *, within: bool) -> _Pair | None:
        kind, other = self._column(node)
        if other is not None:
            key = node.name.lower(), within
            if key not in self.ended:
                self.ended[key] = self._of_item(other, within=within)
            return self.ended[key]
        if kind is not EndKind.ENDED or not within:
            return None
        table = node.args.get("table")
        low, high = (
            exp.column(exp.to_identifier(end + node.name, quoted=True), table=table and table.copy())
            for end in (LOW, HIGH)
        )
        return low, high

    def _of_subquery(self, node: exp.Subquery) -> _Pair | None:
        inner = node.this.copy()
        found = _query(inner, self.tables, self.scope)
        if len(found.columns) > 1 or found.is_chosen or found.columns[0][1] is not EndKind.ENDED:
            return None
        found.append()
        name = found.columns[0][0] or "0"
        low, high = (
            exp.Subquery(
                this=exp.select(exp.to_identifier(end + name, quoted=True)).from_(exp.Subquery(this=inner.copy()))
            )
            for end in (LOW, HIGH)
        )
        return low, high

    def _of_window(self, node: exp.Window, *, within: bool) -> _Pair | None:
        order, own = node.args.get("order"), node.this
        around = [*(node.args.get("partition_by") or []), *([node.args["spec"]] if node.args.get("spec") else [])]
        if self.is_cut or not all(map(self._is_public, around)):
            return None
        if order is None or self._is_public(order):
            inner = own.this if isinstance(own, exp.Filter) else own
            moves = isinstance(
                inner, exp.Sum | exp.Avg | exp.Max | exp.Min | exp.Lag | exp.Lead | exp.FirstValue | exp.LastValue
            )
            if not moves or not self._rest_is_public(inner) or not self._rest_is_public(own):
                return None
            pair = _map(inner, self._of_item(inner.this, within=within))
            return _map(node, pair if inner is own else _map(own, pair))
        if not isinstance(own, exp.Rank | exp.RowNumber | exp.DenseRank) or node.args.get("spec"):
            return None
        pair = self._of_item(order.expressions[0].this, within=within)
        keys = [e.sql(dialect="duckdb", comments=False) for e in node.args.get("partition_by") or []]
        parts = ", ".join(keys).replace("{", "{{").replace("}", "}}")
        rank = _ranks(f"PARTITION BY {parts}" if parts else "", falls=bool(order.expressions[0].args.get("desc")))
        first = f"least(2, {rank[0]})" if isinstance(own, exp.DenseRank) else rank[0]
        return _made_of([pair], first, rank[1])


def _ranks(window: str, *, falls: bool) -> tuple[str, str]:
    """Return the least and the most rank of a row with the ends {0} and {1}: by others that are surely before it, and
    by those that may be.
    """
    over = f"FILTER (WHERE {{0}} IS NOT NULL) OVER ({window})"
    above = f"list_position(list_reverse_sort(list_append(list({{0}}) {over}, {{1}})), {{1}})"
    below = f"list_position(list_sort(list_append(list({{1}}) {over}, {{0}})), {{0}})"
    first, last = (above, below) if falls else (below, above)
    return first, f"count(*) OVER ({window}) - {last} + 1"


def _map(node: exp.Expr, pair: _Pair | None) -> _Pair | None:
    """Return the ends of what rises with its first argument."""
    if pair is None:
        return None
    low, high = node.copy(), node.copy()
    low.set("this", pair[0].copy())
    high.set("this", pair[1].copy())
    return low, high


def _made(pair: _Pair | None, low: str, high: str) -> _Pair | None:
    """Return ends from texts in which {} stands for the own end."""
    return None if pair is None else (_parsed(low, pair[0]), _parsed(high, pair[1]))


def _made_of(pairs: Sequence[_Pair | None], low: str, high: str) -> _Pair | None:
    """Return ends from texts in which {0} and {1} stand for the ends of the first number, {2} and {3} of the next."""
    ends = [end for pair in pairs if pair is not None for end in pair]
    return (_parsed(low, *ends), _parsed(high, *ends)) if len(ends) == 2 * len(pairs) else None


def _parsed(text: str, *ends: exp.Expr) -> exp.Expr:
    written = text.format(*(f"({e.sql(dialect='duckdb', comments=False)})" for e in ends))
    if len(written) > MOST_LONG:
        raise _UnknownError
    return exp.maybe_parse(f"({written})", dialect="duckdb")


def _each(node: exp.Expr, pairs: Sequence[_Pair | None]) -> _Pair | None:
    """Return the ends of what rises with each of its arguments."""
    if any(pair is None for pair in pairs):
        return None
    name = type(node).__name__.lower()
    low, high = (", ".join(f"{{{2 * i + side}}}" for i in range(len(pairs))) for side in (0, 1))
    return _made_of(pairs, f"{name}({low})", f"{name}({high})")


def _branches(node: exp.Case, of: Callable[[exp.Expr | None], _Pair | None]) -> _Pair | None:
    low, high = node.copy(), node.copy()
    for i, branch in enumerate(node.args["ifs"]):
        pair = of(branch.args["true"])
        if pair is None:
            return None
        low.args["ifs"][i].set("true", pair[0].copy())
        high.args["ifs"][i].set("true", pair[1].copy())
    if node.args.get("default") is not None:
        pair = of(node.args["default"])
        if pair is None:
            return None
        low.set("default", pair[0].copy())
        high.set("default", pair[1].copy())
    return low, high


_NOTHING, _ANYTHING = "'-inf'::DOUBLE", "'inf'::DOUBLE"


def _arithmetic(node: exp.Expr, left: _Pair | None, right: _Pair | None) -> _Pair | None:
    if left is None or right is None:
        return None
    fixed = right[0] is right[1]
    both = [left, right]
    match node:
        case exp.Add():
            return _made_of(both, "{0} + {2}", "{1} + {3}")
        case exp.Sub():
            return _made_of(both, "{0} - {3}", "{1} - {2}")
        case exp.Mul() if fixed or left[0] is left[1]:
            both = both if fixed else both[::-1]
            return _made_of(
                both,
                "CASE WHEN {2} > 0 THEN {0} * {2} WHEN {2} < 0 THEN {1} * {2} ELSE {2} END",
                "CASE WHEN {2} > 0 THEN {1} * {2} WHEN {2} < 0 THEN {0} * {2} ELSE {2} END",
            )
        case exp.Mul():
            sure = "CASE WHEN {0} >= 0 AND {2} >= 0 THEN "
            return _made_of(
                both, f"{sure}{{0}} * {{2}} ELSE {_NOTHING} END", f"{sure}{{1}} * {{3}} ELSE {_ANYTHING} END"
            )
        case exp.Div() if fixed:
            return _made_of(
                both,
                "CASE WHEN {2} > 0 THEN {0} / {2} WHEN {2} < 0 THEN {1} / {2} END",
                "CASE WHEN {2} > 0 THEN {1} / {2} WHEN {2} < 0 THEN {0} / {2} END",
            )
    return _made_of(
        both,
        f"CASE WHEN {{2}} > 0 THEN {{0}} / CASE WHEN {{0}} >= 0 THEN {{3}} ELSE {{2}} END ELSE {_NOTHING} END",
        f"CASE WHEN {{2}} > 0 THEN {{1}} / CASE WHEN {{1}} >= 0 THEN {{2}} ELSE {{3}} END ELSE {_ANYTHING} END",
    )
