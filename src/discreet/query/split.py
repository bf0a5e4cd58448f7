"""SQL over results: a query is split into the parts that are measured and one outer query over their noisy tables.

A part is the lowest aggregate whose input people own and whose output they do not: `SELECT k, COUNT(*) … GROUP BY k`
over people's rows. It is planned as any other query. What stands around it (HAVING, ORDER BY, LIMIT, windows, joins
with other parts and with public tables, further aggregates) reads noisy numbers, and is post-processing.

A result of one cell may be fed back into people's rows, `WHERE x > (SELECT AVG(x) …)`: the part that reads it has a
function without a value in its place, so that one plan is for every value (decision 0011).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Never, TypeAlias

from sqlglot import exp, parse_one

from discreet.catalog.schema import TableSchema, find_table
from discreet.catalog.types import Type
from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.query.bind import TableScope, bind_row
from discreet.query.dialects.dialect import written
from discreet.query.expr import FED, Expr
from discreet.query.merge import merged
from discreet.query.parse import (
    FED_BACK,
    KNOWN_INSIDE,
    default_name,
    group_nodes,
    group_of,
    has_aggregate,
    is_aggregate,
    is_fed,
    read_text,
    refuse_part,
    sets_of,
)
from discreet.query.relation.context import Context, Named
from discreet.query.relation.names import Names
from discreet.query.relation.nested import without_subqueries
from discreet.query.relation.query import read_query
from discreet.query.relation.sources import conjuncts, is_nested, read_from

MOST_PARTS = 100
"""Measured parts of one query."""
_LONGEST_LIST = 65_536
"""Characters of a list of values that is fed back into rows; a longer one is NULL, as a longer cell is."""

TypeOf: TypeAlias = Callable[[str, Mapping[str, str], Sequence[str]], Type]
"""Outer query of one cell, the texts of its parts by their names, and its public tables → the type of the cell."""


@dataclass(frozen=True, slots=True)
class FedResult:
    """A result of one cell that people's rows read.

    Attributes:
        number: what the parts that read it call it.
        type: of the cell.
        sql: its query in DuckDB's dialect, over noisy tables and public ones.
        parts: the names of these noisy tables.
        public: the public tables that it reads.
    """

    number: int
    type: Type
    sql: str
    parts: tuple[str, ...]
    public: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of its parameter in statements."""
        return f"{FED}{self.number}"

    @property
    def call(self) -> str:
        """Its text in the parts that read it."""
        return f"{FED_BACK.upper()}({self.number}, '{self.type.value}')"


@dataclass(frozen=True, slots=True)
class Split:
    """A query, split.

    Attributes:
        parts: the text of each measured part, by the name of its noisy table in the outer query.
        outer: the outer query in DuckDB's dialect, over these tables and public ones.
        public: the public tables that it reads.
        is_one: whether the text itself is the one part, so that nothing is inside another SELECT.
        aggregates: whether the outer query has aggregates, and so may be over groups.
        said: a sentence for each part that was read as something else than it is written as.
        fed: the results that parts read as a value.
    """

    parts: Mapping[str, str]
    outer: str
    public: tuple[str, ...]
    is_one: bool
    aggregates: bool
    said: tuple[str, ...] = ()
    fed: tuple[FedResult, ...] = ()


def split(sql: str, tables: Sequence[TableSchema], type_of: TypeOf | None = None) -> Split | None:
    """Return the parts and the outer query of a text; None where no measured part is found.

    Args:
        sql: the text.
        tables: the connected tables.
        type_of: finds the type of a result that is fed back into people's rows; without it none is.

    Raises:
        UnknownColumn, UnsupportedQuery: what stands around the parts reads people's rows, or a part cannot be read.
    """
    tree, said = read_text(sql, [t.name for t in tables])
    if not _is_more(tree):
        return None
    private = [t.unit for t in tables if not t.public]
    if not private:
        return None
    for query in tree.find_all(exp.SetOperation):
        _set_of_groups(query)
    splitter = _Splitter(tables, Context(tables, private[0], read_query), sql.lower(), type_of)
    try:
        read = splitter.query(tree, (), inside=False)
    except (UnknownColumn, UnsupportedQuery):
        if splitter.parts or _shows_all_of_a_query(tree):
            raise
        return None
    if read.of_people and splitter.fed:
        raise UnsupportedQuery(
            "The query shows rows of people that read a result: single rows are never released.",
            hint="ask for aggregates of them: COUNT(*), SUM(x), AVG(x)",
        )
    if read.of_people or not splitter.parts:
        return None
    outer = _without_unused(read.tree)
    named = {t.name for t in outer.find_all(exp.Table)}
    texts = [text for text, name in splitter.parts.items() if name in named]
    if not texts:
        raise UnsupportedQuery("The query shows nothing of what it measures.", hint="show it, or leave it out")
    fed = [f for f in splitter.fed.values() if any(f.call in text for text in texts)]
    needed = named.union(*(f.parts for f in fed))
    parts = {name: text for text, name in splitter.parts.items() if name in needed}
    numbered = {name: f"{splitter.fresh('part')}{i}" for i, name in enumerate(parts, 1)}

    def of_parts(tree: exp.Expr) -> str:
        for t in tree.find_all(exp.Table):
            t.set("this", exp.to_identifier(numbered[t.name]) if t.name in parts else t.this)
        return _text(tree)

    return Split(
        {numbered[name]: text for name, text in parts.items()},
        of_parts(outer),
        tuple(t for t in splitter.public if t in named),
        read.is_part,
        outer.find(exp.AggFunc) is not None,
        said,
        tuple(
            replace(f, sql=of_parts(parse_one(f.sql, dialect="duckdb")), parts=tuple(numbered[p] for p in f.parts))
            for f in fed
        ),
    )


def _is_more(tree: exp.Query) -> bool:
    """Whether a text is more than one plain SELECT, which the reader of queries answers or refuses by name."""
    more = tree.args.get("distinct") or tree.args.get("qualify")
    return bool(more) or sum(1 for _ in tree.find_all(exp.Query, exp.Window)) > 1


def _set_of_groups(tree: exp.SetOperation) -> None:
    """Read the sides of UNION, INTERSECT and EXCEPT, which keep each row once, as SELECT DISTINCT: as groups."""
    for side in (tree.this, tree.expression) if tree.args.get("distinct") else ():
        select = side.unnest()
        plain = isinstance(select, exp.Select) and not any(select.args.get(c) for c in ("distinct", "group", "limit"))
        if plain and not any(map(_aggregates, [*(e.unalias() for e in select.expressions), *_clauses(select)])):
            select.set("distinct", exp.Distinct())


def _shows_all_of_a_query(tree: exp.Query) -> bool:
    """Whether it is SELECT * of a subquery in FROM, about which a refusal has more to say than about the star."""
    source = tree.args["from_"].this if tree.args.get("from_") else None
    return tree.is_star and isinstance(source, exp.Subquery) and isinstance(source.this, exp.Query)


@dataclass(frozen=True, slots=True)
class _Read:
    """A query that was read: over noisy and public tables in place of its parts, unless its rows are people's."""

    tree: exp.Expr
    of_people: bool = False
    is_result: bool = False
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class _With:
    """A subquery of WITH, as it is written and as it was read."""

    named: Named
    cte: exp.Expr
    read: _Read


_Scope: TypeAlias = tuple[_With, ...]
_Put: TypeAlias = Callable[[exp.Expr], exp.Expr | None]
"""What stands in place of a node; None where the node stays, and its parts are looked at."""


@dataclass(slots=True)
class _Splitter:
    """The reading of one text: the parts and the public tables found so far."""

    tables: Sequence[TableSchema]
    context: Context
    text: str
    type_of: TypeOf | None = None
    parts: dict[str, str] = field(default_factory=dict)
    public: dict[str, None] = field(default_factory=dict)
    single: set[str] = field(default_factory=set)
    fed: dict[str, FedResult] = field(default_factory=dict)

    def query(self, tree: exp.Expr, scope: _Scope, *, inside: bool) -> _Read:
        """Read a SELECT, or several that a set operation puts together; it may be correlated `inside` another."""
        tree = tree.unnest()
        clause, around = tree.args.get("with_"), len(scope)
        if clause is not None:
            if clause.args.get("recursive"):
                raise UnsupportedQuery("WITH RECURSIVE is not supported here.", hint="generate_series(1, 10); or joins")
            for cte in clause.expressions:
                columns = tuple(c.name for c in cte.args["alias"].args.get("columns") or [])
                named = Named(cte.alias, cte.this, columns, tuple(w.named for w in scope))
                scope = (*scope, _With(named, cte, self.query(cte.this, scope, inside=False)))
        if isinstance(tree, exp.SetOperation):
            read = self._set_operation(tree, scope)
        elif isinstance(tree, exp.Select):
            read = self._select(tree, scope, inside=inside)
        else:
            raise UnsupportedQuery("A subquery has to be a SELECT.", hint="connect a list of values as a public table")
        kept = [] if read.of_people else [_cte(w) for w in scope[around:] if not w.read.of_people]
        if kept:
            read.tree.set("with_", exp.With(expressions=kept))
        return replace(read, is_part=read.is_part and clause is None)

    def _set_operation(self, tree: exp.SetOperation, scope: _Scope) -> _Read:
        sides = [self.query(side, scope, inside=False) for side in (tree.this, tree.expression)]
        if any(s.of_people for s in sides):
            return _Read(tree, of_people=True)
        args = _moved_args(tree, self.subqueries(scope), ("this", "expression", "with_"))
        brackets = [exp.Subquery(this=s.tree) if _has_brackets(s.tree) else s.tree for s in sides]
        made = type(tree)(this=brackets[0], expression=brackets[1], **args)
        return _Read(made, is_result=any(s.is_result for s in sides))

    def _select(self, tree: exp.Select, scope: _Scope, *, inside: bool) -> _Read:
        rows = [t.name for t in self.tables if not t.public and t.unit.is_row]
        named = {w.named.name.lower(): w.named.query for w in scope if not w.named.columns} if rows else {}
        tree = (merged(tree, named, rows) if rows else None) or tree
        counted = self._number_of_groups(tree, scope)
        if counted is not None:
            return self._over_people(counted, scope, inside=inside)
        first, joins = tree.args.get("from_"), tree.args.get("joins") or []
        read = [self._source(s.this, scope) for s in ([] if first is None else [first, *joins])]
        if any(r.of_people for r in read):
            if any(r.is_result for r in read):
                self._values_of_joined(tree, read, scope)
            return self._over_people(tree, scope, inside=inside)
        if tree.args.get("laterals"):
            raise UnsupportedQuery("LATERAL is not supported here.", hint="join the tables, with the condition in ON")
        _check_clauses(tree)
        before, put = len(self.parts), self.subqueries(scope)
        made = exp.Select(**_moved_args(tree, put, ("from_", "joins", "with_")))
        if first is not None:
            made.set("from_", exp.From(this=read[0].tree))
        moved = [exp.Join(this=r.tree, **_moved_args(j, put, ("this",))) for j, r in zip(joins, read[1:], strict=True)]
        made.set("joins", moved or None)
        return _Read(made, is_result=any(r.is_result for r in read) or len(self.parts) > before)

    def _values_of_joined(self, tree: exp.Select, read: Sequence[_Read], scope: _Scope) -> None:
        """Put subqueries in the place of the columns of results of one row that FROM joins with every row of people,
        and IN over a result in the place of its join with rows of one value, each of which it has once.
        """
        values: dict[tuple[str, str], exp.Expr] = {}
        kept, lists, conditions = list[exp.Expr](), list[exp.Expr](), conjuncts(_condition(tree, "where"))
        for place, found in zip([tree.args["from_"], *tree.args["joins"]], read, strict=True):
            if place.args.get("kind") not in (None, "", "INNER", "CROSS"):
                _refuse_beside()
            if place.args.get("side") or place.args.get("method"):
                _refuse_beside()
            if isinstance(place.this, exp.Subquery) and not place.this.alias:
                unnamed = f"{self.fresh('result')}{len(kept) + len(lists) + len(values)}"
                place.this.set("alias", exp.TableAlias(this=exp.to_identifier(unnamed)))
            columns = self._columns_of_result(place.this, scope) if found.is_result else {}
            values |= columns
            if not columns:
                (lists if found.is_result else kept).append(place.this)
            conditions += conjuncts(place.args.get("on"))
            using = place.args.get("using") or []
            if using and len(lists) != 1:
                _refuse_beside()
            conditions += [
                exp.EQ(this=exp.column(u.copy()), expression=exp.column(u.copy(), table=lists[0].alias_or_name))
                for u in using
            ]
        among = [self._among(node, conditions, scope) for node in lists]
        taken = {name for _, name in values}
        if any(isinstance(e, exp.Star) or (e.alias and e.alias.lower() in taken) for e in tree.expressions):
            _refuse_beside()
        if not kept:
            _refuse_beside()
        same = {name: value for pair in among for name, value in pair.items()}
        values |= same
        gone = {node.alias_or_name.lower() for node in lists}
        queries = [next((w.named.query for w in scope if w.named.name == node.name), node) for node in lists]
        hidden = {e.alias_or_name.lower() for query in queries for e in query.unnest().expressions}
        tree.set("from_", exp.From(this=kept[0]))
        tree.set("joins", [exp.Join(this=k, kind="CROSS") for k in kept[1:]] or None)
        tree.set("where", exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None)
        names = self._names(tree, scope)
        read_here = [part for n, part in tree.args.items() if part and n not in ("from_", "joins", "with_")]
        parts = [e for part in read_here for e in (part if isinstance(part, list) else [part])]
        for column in [c for part in parts for c in part.find_all(exp.Column) if c.find_ancestor(exp.Select) is tree]:
            table, name = column.table.lower(), column.name.lower()
            of = next((o for o in values if o[1] == name and table in ("", o[0])), None)
            if of is None and table not in gone and (table or name not in hidden or names.knows(column)):
                continue
            if of is None or (not table and names.knows(column)):
                if of not in same:
                    _refuse_beside()
            elif column.parent is tree:
                column.replace(_aliased(values[of].copy(), column.name))
            else:
                column.replace(values[of].copy())

    def _among(self, node: exp.Expr, conditions: list[exp.Expr], scope: _Scope) -> dict[tuple[str, str], exp.Expr]:
        """Have a value of rows be IN a result where it is joined with a column of it; return that column and value."""
        name = node.alias_or_name.lower()
        for c in [c for c in conditions if isinstance(c, exp.EQ)]:
            for key, value in ((c.this, c.expression), (c.expression, c.this)):
                of_rows = all(x.table.lower() != name for x in _columns(value)) and not _columns_of_alias(node)
                of_result = isinstance(key, exp.Column) and key.table.lower() == name
                if of_rows and of_result and self._is_unique(node, key.name, scope):
                    listed = exp.Select(expressions=[key.copy()], from_=exp.From(this=node.copy()))
                    conditions[conditions.index(c)] = exp.In(this=value.copy(), query=exp.Subquery(this=listed))
                    return {(name, key.name.lower()): value}
        _refuse_beside()

    def _is_unique(self, query: exp.Expr, column: str, scope: _Scope) -> bool:
        """Whether a query over results has each value of a column in one row: its rows are the groups of this key."""
        if isinstance(query, exp.Table):
            at = next((i for i, w in enumerate(scope) if w.named.name.lower() == query.name.lower()), None)
            named = None if at is None else scope[at].named
            return named is not None and not named.columns and self._is_unique(named.query, column, scope[:at])
        select = query.unnest()
        if not isinstance(select, exp.Select) or select.args.get("laterals") or select.args.get("with_"):
            return False
        items = [(e.alias_or_name, e.unalias()) for e in select.expressions]
        item = next((e for n, e in items if n.lower() == column.lower()), None)
        distinct = select.args.get("distinct")
        if item is None or distinct is not None:
            return item is not None and len(items) == 1 and not (distinct and distinct.args.get("on"))
        if select.args.get("group"):
            return sets_of(select) is None and group_nodes(items, group_of(select)) == [item]
        passed = isinstance(item, exp.Column) and not select.args.get("joins") and select.args.get("from_") is not None
        return passed and self._is_unique(select.args["from_"].this, item.name, scope)

    def _columns_of_result(self, node: exp.Expr, scope: _Scope) -> dict[tuple[str, str], exp.Expr]:
        """Return a subquery for each column of a result of one row in FROM, by the result's name and the column's."""
        named = next((w for w in reversed(scope) if w.named.name.lower() == node.name.lower()), None)
        query = (
            named.read.tree
            if isinstance(node, exp.Table) and named is not None
            else self.query(node, scope, inside=False).tree
        )
        columns = _columns_of_alias(node) or (named is not None and bool(named.named.columns))
        if self.type_of is None or columns:
            _refuse_beside()
        if not _is_one_row(query, self.single, exactly=True):
            return {}
        shown = [
            exp.column(exp.to_identifier(e.alias_or_name, quoted=True), table=node.alias_or_name)
            for e in query.unnest().expressions
        ]
        found = {c.name.lower(): exp.Select(expressions=[c], from_=exp.From(this=node.copy())) for c in shown}
        return {(node.alias_or_name.lower(), n): exp.Subquery(this=select) for n, select in found.items()}

    def _number_of_groups(self, tree: exp.Select, scope: _Scope) -> exp.Select | None:
        """Return the SELECT over people's rows that counts the different keys of a part, where a query counts its rows.

        The noisy table of selected groups has too few rows, and that of declared ones as many as there are keys.
        """
        source = None if tree.args.get("from_") is None else tree.args["from_"].this
        if any(part for name, part in tree.args.items() if name not in ("expressions", "from_", "with_", "order")):
            return None
        if isinstance(source, exp.Table):
            found = next((w for w in reversed(scope) if w.named.name.lower() == source.name.lower()), None)
            inner = None if found is None or found.named.columns or not found.read.is_part else found.named.query
        else:
            inner = source.this if isinstance(source, exp.Subquery) and not _columns_of_alias(source) else None
        inner = None if inner is None else inner.unnest()
        cut = ("having", "qualify", "limit", "offset", "with_", "laterals")
        if not isinstance(inner, exp.Select) or any(inner.args.get(part) for part in cut):
            return None
        items = [(e.alias or None, e.unalias()) for e in inner.expressions]
        keys = [e for _, e in items] if inner.args.get("distinct") else group_nodes(items, group_of(inner))
        if len(keys) != 1 or sets_of(inner) is not None or (inner.args.get("distinct") and inner.args.get("group")):
            return None
        names = [n or default_name(e, i) for i, (n, e) in enumerate(items) if e == keys[0]]
        counts = [_count_of(e.unalias(), keys[0], names) for e in tree.expressions]
        if any(c is None for c in counts) or not self.query(inner, scope, inside=False).is_part:
            return None
        shown = [
            (e.alias or default_name(e, i), c) for i, (e, c) in enumerate(zip(tree.expressions, counts, strict=True))
        ]
        made = exp.Select(**{n: _copied(inner.args.get(n)) for n in ("from_", "joins", "where")})
        made.set("expressions", [_aliased(c, n) for n, c in shown if c is not None])
        return made

    def _source(self, node: exp.Expr, scope: _Scope) -> _Read:
        """Read what one place of FROM names."""
        if isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Table):
            read = self.query(node.this, scope, inside=False)
            return read if read.of_people else replace(read, tree=_bracketed(read.tree, node.args.get("alias")))
        if isinstance(node, exp.Values):
            return _Read(node.copy())
        is_name = isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)
        if not is_name or any(part for name, part in node.args.items() if name not in ("this", "alias")):
            raise UnsupportedQuery(
                "FROM takes the names of connected tables and subqueries, nothing else (no files or functions).",
                hint="connect the file first; its table is named by the file's stem",
            )
        named = next((w for w in reversed(scope) if w.named.name.lower() == node.name.lower()), None)
        if named is not None:
            return replace(named.read, tree=node.copy(), is_part=False)
        table = find_table(node.name, self.tables)
        if not table.public:
            return _Read(node, of_people=True)
        self.public[table.name] = None
        alias = node.args.get("alias")
        made = exp.Table(this=exp.to_identifier(table.name, quoted=True), alias=alias and alias.copy())
        return _Read(made if alias else exp.alias_(made, node.name, table=True))

    def subqueries(self, scope: _Scope) -> _Put:
        """Return what puts a query over noisy tables in the place of each one inside an expression."""

        def put(node: exp.Expr) -> exp.Expr | None:
            if not isinstance(node, exp.Query):
                return None
            read = self.query(node, scope, inside=True)
            if read.of_people:
                raise UnsupportedQuery(
                    "A subquery over people's rows stands in a query over results: it would tell of single people.",
                    hint="aggregate in it: SELECT COUNT(*) …; or put the condition into the query over people's rows",
                )
            return exp.Subquery(this=read.tree) if isinstance(node, exp.Subquery) else read.tree

        return put

    def _over_people(self, tree: exp.Select, scope: _Scope, *, inside: bool) -> _Read:
        """Read a SELECT over people's rows: rows of people again, or a measured part."""
        shown, clauses = [e.unalias() for e in tree.expressions], _clauses(tree)
        aggregates = any(map(_aggregates, shown + clauses))
        distinct = tree.args.get("distinct") is not None and not aggregates and not tree.args.get("group")
        if not (aggregates or distinct or tree.args.get("group")) or any(e.is_star for e in shown if not _counts(e)):
            return self._rows_of_people(tree, scope)
        named = [(e.alias or None, e.unalias()) for e in tree.expressions]
        keys = group_nodes(named, shown if distinct else group_of(tree))
        self._feed(tree, [*_on_rows(tree), *keys, *(a for e in shown + clauses for a in _aggregates_in(e))], scope)
        items = [(e.alias or None, e.unalias()) for e in tree.expressions]
        keys = group_nodes(items, [e for _, e in items] if distinct else group_of(tree))
        if any(is_nested(k) for k in keys):
            return self._rows_of_people(tree, scope)
        names = self._names(tree, scope)
        bound = {bind_row(k, names): k for k in keys if not has_aggregate(k)}
        if any(names.unit_key(b) is not None for b in bound):
            return self._rows_of_people(tree, scope)
        return _Part(self, tree, scope, items, names, bound).read(inside=inside)

    def _rows_of_people(self, tree: exp.Select, scope: _Scope) -> _Read:
        self._feed(tree, [*_on_rows(tree), *tree.expressions, *_clauses(tree)], scope)
        return _Read(tree, of_people=True)

    def _feed(self, tree: exp.Select, read: Sequence[exp.Expr], scope: _Scope) -> None:
        """Put a value that is fed back in the place of each subquery in what is read of people's rows whose result is
        one, and a search in a list in the place of each IN over a result.
        """
        if self.type_of is None:
            return
        for node in [n for e in read for n in _queries_in(e)]:
            try:
                found = self.query(node, scope, inside=False)
            except (UnknownColumn, UnsupportedQuery):
                continue
            around = node.parent
            is_value = isinstance(node, exp.Subquery) and not isinstance(around, exp.In | exp.Any | exp.All)
            if isinstance(around, exp.Any) and isinstance(around.parent, exp.EQ) and around.arg_key == "expression":
                around = around.parent
            if not found.is_result or _names_around(node):
                continue
            if is_value and (fed := self._result(*self._text_of(found, scope))) is not None:
                node.replace(parse_one(fed.call, dialect="duckdb"))
            elif isinstance(around, exp.In | exp.EQ) and (search := self._search(around.this, found, tree, scope)):
                around.replace(search)

    def _search(self, value: exp.Expr, read: _Read, tree: exp.Select, scope: _Scope) -> exp.Expr | None:
        """Return what `value IN` a result is of the one text that lists the result; None where it reads the row.

        The text is `|v1|v2|` of the values 1 and 2, whose bars are written otherwise, with N before it for a NULL.
        """
        text, measured, public = self._text_of(read, scope)
        found = self._type(text, measured, public)
        try:
            kind = bind_row(value, self._names(tree, scope)).type
        except (UnknownColumn, UnsupportedQuery):
            return None
        if found is None or kind is None:
            return None
        numbers = {kind, found} == {Type.INT, Type.REAL}
        if kind is not found and not numbers:
            raise UnsupportedQuery(
                f"IN compares {kind.value} with a result of {found.value}.", hint="CAST one of them to the other's type"
            )
        cast = "CAST(CAST({} AS DOUBLE) AS VARCHAR)" if numbers else "CAST({} AS VARCHAR)"
        told = "replace(replace({}, '~', '~~'), '|', '~p')" if kind is Type.TEXT else cast
        listed = f"string_agg('v' || {told.format('v')}, '|' ORDER BY v)"
        listing = f"concat(CASE WHEN count(*) > count(v) THEN 'N' ELSE '' END, '|', {listed}, '|')"
        shown = (
            f"SELECT CASE WHEN length(t) <= {_LONGEST_LIST} THEN t END FROM (SELECT {listing} AS t FROM (r) AS r(v)) l"
        )
        fed = self._result(_text(parse_one(shown.replace("(r)", f"({text})"), dialect="duckdb")), measured, public)
        if fed is None:
            return None
        x = f"({value.sql('duckdb')})"
        search = (
            f"CASE WHEN contains({fed.call}, '|v' || {told.format(x)} || '|') THEN TRUE WHEN {fed.call} = '||' OR "
            f"({x} IS NOT NULL AND NOT starts_with({fed.call}, 'N')) THEN FALSE END"
        )
        return exp.paren(parse_one(search, dialect="duckdb"))

    def _text_of(self, read: _Read, scope: _Scope) -> tuple[str, dict[str, str], tuple[str, ...]]:
        """Return the text of a query over results, its parts and the public tables that it reads."""
        around = exp.With(expressions=[_cte(w).copy() for w in scope if not w.read.of_people])
        tree = read.tree.copy()
        own = tree.args.get("with_")
        around.set("expressions", [*around.expressions, *([] if own is None else own.expressions)])
        tree.set("with_", around if around.expressions else None)
        tree = _without_unused(tree)
        used = {t.name for t in tree.find_all(exp.Table)}
        parts = {name: text for text, name in self.parts.items() if name in used}
        return _text(tree), parts, tuple(t for t in self.public if t in used)

    def _type(self, text: str, parts: Mapping[str, str], public: tuple[str, ...]) -> Type | None:
        """Return the type of the one column of a query over results; None where it reads the row around it."""
        assert self.type_of is not None
        try:
            return self.type_of(text, parts, public)
        except UnknownColumn:
            return None

    def _result(self, text: str, parts: Mapping[str, str], public: tuple[str, ...]) -> FedResult | None:
        """Return the result that a query is in the place of a value; None where it reads the row around it."""
        kind = self._type(text, parts, public)
        if kind is None:
            return None
        if not _is_one_row(parse_one(text, dialect="duckdb"), self.single):
            raise UnsupportedQuery(
                "A subquery stands for one value in people's rows, and its result may have several rows.",
                hint="leave GROUP BY out of it, aggregate its rows, or add LIMIT 1",
            )
        return self.fed.setdefault(text, FedResult(len(self.fed) + 1, kind, text, tuple(parts), public))

    def _names(self, tree: exp.Select, scope: _Scope) -> Names | TableScope:
        """Return the names of the columns of FROM."""
        source = tree.args["from_"].this
        if not tree.args.get("joins") and isinstance(source, exp.Table):
            table = next((t for t in self.tables if t.name.lower() == source.name.lower()), None)
            if table is not None and table.unit.is_row and not any(w.named.name == source.name for w in scope):
                return TableScope(table, source.alias_or_name)
        where = [c for c in conjuncts(_condition(tree, "where")) if not is_nested(c)]
        c, named = self.context, tuple(w.named for w in scope)
        context = Context(c.tables, c.unit, c.query, named, c.numbers, [], unmatched=[])
        return context.names(read_from(without_subqueries(tree)[0], where, context)[0])

    def table_of(self, part: str) -> str:
        """Return the name of a part's noisy table; the same part is measured once."""
        if part not in self.parts and len(self.parts) == MOST_PARTS:
            raise UnsupportedQuery(f"The query has more than {MOST_PARTS} measured parts.", hint="ask several queries")
        return self.parts.setdefault(part, f"{self.fresh('part')}{len(self.parts) + 1}")

    def fresh(self, word: str) -> str:
        """Return the beginning of names that the text has not."""
        while f"{word}_" in self.text:
            word += "_"
        return f"{word}_"


@dataclass(slots=True)
class _Part:
    """A measured part, and what its SELECT makes of it."""

    splitter: _Splitter
    tree: exp.Select
    scope: _Scope
    items: Sequence[tuple[str | None, exp.Expr]]
    names: Names | TableScope
    keys: dict[Expr, exp.Expr]
    columns: dict[exp.Expr, str] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    shown: dict[exp.Expr, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def read(self, *, inside: bool) -> _Read:
        """Return the SELECT over the part's noisy table, which is noted."""
        tree, put = self.tree, self._put
        _check_clauses(tree)
        conditions = conjuncts(_condition(tree, "where"))
        around = [c for c in conditions if inside and not is_nested(c) and not all(map(self._knows, _columns(c)))]
        pairs = [self._equation(c) for c in around]
        if pairs and (self.keys or tree.args.get("group")):
            _refuse_correlated()
        for inner, _ in pairs:
            self.keys[bind_row(inner, self.names)] = inner
        names = {key: self._column(key) for key in self.keys.values()}
        args = _moved_args(
            tree, put, ("expressions", "from_", "joins", "laterals", "where", "group", "having", "with_")
        )
        args["expressions"] = [_aliased(_moved(e, put), n or default_name(e, i)) for i, (n, e) in enumerate(self.items)]
        kept = [exp.EQ(this=_named(names[inner]), expression=outer.copy()) for inner, outer in pairs]
        having = _condition(tree, "having")
        if pairs:  # without a group the subquery has a row still: 0 of a count, NULL of other aggregates
            args = {n: _moved(part, self._of_one_group) for n, part in args.items()}
            if having is not None:
                _refuse_correlated()
        elif having is not None:
            kept.append(_moved(having, put))
        made = exp.Select(**args)
        for c in kept:
            made = made.where(c, copy=False)
        part = self._measured([c for c in conditions if c not in around])
        table = self.splitter.table_of(part)
        if not self.keys and not tree.args.get("group"):
            self.splitter.single.add(table)
        made.set("from_", exp.From(this=exp.to_table(table)))
        return _Read(made, is_result=True, is_part=not inside)

    def _measured(self, conditions: Sequence[exp.Expr]) -> str:
        """Return the text of what is measured: keys and aggregates, and nothing that is made of them."""
        tree = self.tree
        made = exp.Select(**{n: _copied(tree.args.get(n)) for n in ("from_", "joins", "laterals")})
        made.set("expressions", [_aliased(e.copy(), name) for e, name in self.columns.items()])
        if conditions:
            made.set("where", exp.Where(this=exp.and_(*(c.copy() for c in conditions))))
        sets = sets_of(tree)
        if sets is not None:
            keys = [[k.copy() for k in group_nodes(self.items, s)] for s in sets]
            resolved = [exp.Paren(this=k[0]) if len(k) == 1 else exp.Tuple(expressions=k) for k in keys]
            made.set("group", exp.Group(expressions=[exp.GroupingSets(expressions=resolved)]))
        elif self.keys:
            made.set("group", exp.Group(expressions=[k.copy() for k in self.keys.values()]))
        used = {t.name.lower() for t in made.find_all(exp.Table)}
        kept: list[exp.Expr] = []
        for w in reversed(self.scope):
            if w.named.name.lower() in used and all(w.named.name.lower() != k.alias.lower() for k in kept):
                used |= {t.name.lower() for t in w.cte.find_all(exp.Table)}
                kept.insert(0, w.cte.copy())
        if kept:
            made.set("with_", exp.With(expressions=kept))
        return _text(made)

    def _column(self, node: exp.Expr) -> str:
        if node not in self.columns:
            self.columns[node] = self._name(node)
        return self.columns[node]

    def _name(self, node: exp.Expr) -> str:
        """Return what a measured column is called: as the output that it is, or of which it is a part."""
        if not self.shown:
            self.shown |= {e: n or default_name(e, i) for i, (n, e) in reversed(list(enumerate(self.items)))}
        found = self.shown.get(node, default_name(node, len(self.columns)))
        if found.lower() in self.taken or any(n.lower() == found.lower() and e != node for e, n in self.shown.items()):
            found = f"{self.splitter.fresh('col')}{len(self.columns) + 1}"
        self.taken.add(found.lower())
        return found

    def _put(self, node: exp.Expr) -> exp.Expr | None:
        """Return the noisy column, key or query over results that stands in a node's place."""
        if isinstance(node, exp.Query):
            return self.splitter.subqueries(self.scope)(node)
        if isinstance(node, exp.Window):
            return _window(node, self._put)
        if is_aggregate(node) or isinstance(node, exp.Grouping | exp.GroupingId):
            return _named(self._column(node))
        if isinstance(node, exp.Ordered) and self._named(node.this) is not None:
            return node.copy()
        fed = any(map(is_fed, node.find_all(exp.Anonymous)))
        if has_aggregate(node) or is_nested(node) or node.find(exp.Window) or not (_columns(node) or fed):
            return None
        try:
            bound = bind_row(node, self.names)
        except (UnknownColumn, UnsupportedQuery):
            bound = None
        if bound in self.keys:
            return _named(self._column(self.keys[bound]))
        if not isinstance(node, exp.Column):
            return None
        named = self._named(node)
        if named is not None and node.name.lower() not in self.open:
            self.open.append(node.name.lower())
            found = exp.Paren(this=_moved(named, self._put))
            self.open.pop()
            return found
        if bound is None:
            return None
        raise UnsupportedQuery(
            f"The column {node.name!r} must be in GROUP BY or inside an aggregate.",
            hint="single rows are never released",
        )

    def _named(self, node: exp.Expr) -> exp.Expr | None:
        """Return the output column that a name without a table stands for."""
        if not isinstance(node, exp.Column) or node.table:
            return None
        return next((e for n, e in self.items if n and n.lower() == node.name.lower()), None)

    def _knows(self, node: exp.Column) -> bool:
        if isinstance(self.names, Names):
            return self.names.knows(node)
        return not node.table and node.name.lower() in [c.lower() for c in self.names.table.columns]

    def _equation(self, condition: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        """Return the two sides of an equation between rows of the part and the row around it."""
        if isinstance(condition, exp.EQ):
            for one, other in ((condition.this, condition.expression), (condition.expression, condition.this)):
                if (
                    _columns(one)
                    and all(map(self._knows, _columns(one)))
                    and not any(map(self._knows, _columns(other)))
                ):
                    return one, other
        _refuse_correlated()

    def _of_one_group(self, node: exp.Expr) -> exp.Expr | None:
        """Return the value of a noisy column in the one group that meets the equations, or as of no rows."""
        if not isinstance(node, exp.Column):
            return None
        aggregate = next((e for e, name in self.columns.items() if name == node.name and not node.table), None)
        if aggregate is None:
            return None
        value = exp.Max(this=node.copy())
        counts = isinstance(aggregate, exp.Count | exp.CountIf)
        return exp.Coalesce(this=value, expressions=[exp.Literal.number(0)]) if counts else value


def _moved(part: Any, put: _Put) -> Any:
    """Return a copy of syntax in which what `put` knows is replaced."""
    if isinstance(part, list):
        return [_moved(p, put) for p in part]
    if not isinstance(part, exp.Expr):
        return part
    found = put(part)
    return type(part)(**{n: _moved(p, put) for n, p in part.args.items()}) if found is None else found


def _moved_args(node: exp.Expr, put: _Put, but: Sequence[str]) -> dict[str, Any]:
    return {name: _moved(part, put) for name, part in node.args.items() if name not in but}


def _window(node: exp.Window, put: _Put) -> exp.Expr:
    """Return a window function over noisy columns: its own function is not measured, what it is of is."""

    def function(inner: exp.Expr) -> exp.Expr:
        around = isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup)
        args = {n: function(p) if around and n == "this" else _moved(p, put) for n, p in inner.args.items()}
        return type(inner)(**args)

    return exp.Window(this=function(node.this), **_moved_args(node, put, ("this",)))


def _aggregates(node: exp.Expr) -> bool:
    """Whether an expression has an aggregate of its own rows, that is no window function and in no subquery."""
    return next(_aggregates_in(node), None) is not None


def _count_of(node: exp.Expr, key: exp.Expr, names: Sequence[str]) -> exp.Expr | None:
    """Return the number of different keys that a COUNT over groups is; None where it is another number."""
    if not isinstance(node, exp.Count) or node.expressions:
        return None
    of = (
        node.this.expressions[0]
        if isinstance(node.this, exp.Distinct) and len(node.this.expressions) == 1
        else node.this
    )
    if isinstance(of, exp.Column) and of.name.lower() in [n.lower() for n in names]:
        value = key.copy()
    elif isinstance(of, exp.Star | exp.Literal) and of is node.this:  # NULL is a group too
        value = _replaced(_KEY_OR_NULL, key)
    else:
        return None
    return exp.Count(this=exp.Distinct(expressions=[value]), big_int=True)


_KEY_OR_NULL = "CASE WHEN k IS NULL THEN '' ELSE concat('=', CAST(k AS VARCHAR)) END"


def _replaced(text: str, key: exp.Expr) -> exp.Expr:
    """Return an expression of which each column is this key."""
    found = _moved(parse_one(text, dialect="duckdb"), lambda e: key.copy() if isinstance(e, exp.Column) else None)
    assert isinstance(found, exp.Expr)
    return found


def _columns_of_alias(node: exp.Expr) -> bool:
    alias = node.args.get("alias")
    return alias is not None and bool(alias.args.get("columns"))


def _check_clauses(tree: exp.Select) -> None:
    for name, part in tree.args.items():
        if part and name not in KNOWN_INSIDE and name not in ("order", "limit", "offset", "windows"):
            refuse_part(name)


def _queries_in(e: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the queries that stand in an expression, and none inside them."""
    if isinstance(e, exp.Query):
        yield e
        return
    for part in e.iter_expressions():
        yield from _queries_in(part)


def _aggregates_in(e: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the aggregates of a SELECT's own rows in an expression: no window function, and none in a subquery."""
    parts = list(e.iter_expressions())
    if isinstance(e, exp.Window):
        inner = e.this
        while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
            inner = inner.this
        parts = [*inner.iter_expressions(), *(p for p in parts if p is not e.this)]
    elif isinstance(e, exp.Query) or is_aggregate(e):
        yield from [] if isinstance(e, exp.Query) else [e]
        return
    for part in parts:
        yield from _aggregates_in(part)


def _on_rows(tree: exp.Select) -> list[exp.Expr]:
    """Return the conditions of a SELECT that choose among the rows of FROM."""
    joins = [j.args["on"] for j in tree.args.get("joins") or [] if j.args.get("on") is not None]
    return [*joins, *conjuncts(_condition(tree, "where"))]


def _is_one_row(tree: exp.Expr, single: Collection[str], *, exactly: bool = False) -> bool:
    """Whether a query over results has one row at most, or `exactly` one; `single` are the tables of one row."""
    tree = tree.unnest()
    if not exactly and getattr(tree.args.get("limit"), "expression", None) == exp.Literal.number(1):
        return True
    fewer = any(tree.args.get(c) for c in ("having", "qualify", "limit", "offset"))
    if not isinstance(tree, exp.Select) or tree.args.get("group") or tree.args.get("laterals") or (exactly and fewer):
        return False
    if any(map(_aggregates, tree.expressions)):
        return True
    first, joins = tree.args.get("from_"), tree.args.get("joins") or []
    if exactly and (tree.args.get("where") or any(j.args.get("on") for j in joins)):
        return False
    ctes = {c.alias: c.this for c in (tree.args["with_"].expressions if tree.args.get("with_") else [])}
    for source in [s.this for s in ([] if first is None else [first, *joins])]:
        inner = ctes.get(source.name, source.this if isinstance(source, exp.Subquery) else None)
        if not (source.name in single if inner is None else _is_one_row(inner, single, exactly=exactly)):
            return False
    return True


def _counts(e: exp.Expr) -> bool:
    return not isinstance(e, exp.Star) and not (isinstance(e, exp.Column) and isinstance(e.this, exp.Star))


def _clauses(tree: exp.Select) -> list[exp.Expr]:
    order = tree.args.get("order")
    found = [c for c in (_condition(tree, "having"), _condition(tree, "qualify")) if c is not None]
    return [*found, *(order.expressions if order is not None else [])]


def _aliased(node: exp.Expr, name: str) -> exp.Expr:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def _named(column: str) -> exp.Column:
    return exp.column(exp.to_identifier(column, quoted=True))


def _condition(tree: exp.Expr, clause: str) -> exp.Expr | None:
    found = tree.args.get(clause)
    return None if found is None else found.this


def _columns(node: exp.Expr) -> list[exp.Column]:
    return list(node.find_all(exp.Column))


def _copied(part: Any) -> Any:
    return _moved(part, lambda _: None)


def _bracketed(tree: exp.Expr, alias: exp.Expr | None) -> exp.Expr:
    return exp.Subquery(this=tree, alias=None if alias is None else alias.copy())


def _has_brackets(tree: exp.Expr) -> bool:
    return any(tree.args.get(part) for part in ("order", "limit", "offset", "with_"))


def _cte(w: _With) -> exp.Expr:
    return exp.CTE(this=w.read.tree, alias=w.cte.args["alias"].copy())


def _without_unused(tree: exp.Expr) -> exp.Expr:
    """Return an outer query without the subqueries of WITH that only parts read."""
    while True:
        named = [t.name.lower() for t in tree.find_all(exp.Table)]
        unused = [cte for cte in tree.find_all(exp.CTE) if cte.alias.lower() not in named]
        if not unused:
            return tree
        for cte in unused:
            clause = cte.parent
            kept = [c for c in clause.expressions if c is not cte] if isinstance(clause, exp.With) else []
            if isinstance(clause, exp.With) and not kept and clause.parent is not None:
                clause.parent.set("with_", None)
            elif isinstance(clause, exp.With):
                clause.set("expressions", kept)


def _text(tree: exp.Expr) -> str:
    """Return the text of syntax, which reads as this very syntax again."""
    text = written(tree)
    if text is None:
        raise UnsupportedQuery(
            "A part of the query over results cannot be written out without a doubt.", hint="write it in another way"
        )
    return text


def _refuse_beside() -> Never:
    raise UnsupportedQuery(
        "A result stands beside people's rows here: noisy numbers cannot choose among rows in the same query.",
        hint="ask for the result first, and write its value into the query over people's rows",
    )


def _names_around(node: exp.Expr) -> bool:
    """Whether a subquery names a table that is none of its own, as with `t.k` in FROM t AS other."""
    own = {a.name.lower() for a in node.find_all(exp.TableAlias)}
    own |= {t.name.lower() for t in node.find_all(exp.Table) if not t.alias}
    return any(c.table and c.table.lower() not in own for c in node.find_all(exp.Column))


def _refuse_correlated() -> Never:
    raise UnsupportedQuery(
        "A subquery that aggregates over people depends on the row around it in a way that is no GROUP BY.",
        hint="GROUP BY the column in a subquery of FROM, and join it",
    )
