"""Statements that could fail on some row, found from their text and the types of the tables' columns.

The planner writes none. A certificate could have one that bounds what it releases and fails where somebody's row is in
it: whether there is a result would tell of that row. It is read after the second derivation has found the statement
to be of a known shape, so that only the expressions in it are left to judge.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from sqlglot import exp

from discreet.verify.kinds import NULL, Kind, is_real
from discreet.verify.totality import ROWS, MayFail, TotalityChecker, Value, counted, of_kind, one_of

Tables = Mapping[str, Mapping[str, Kind]]
"""Table → column → the type as which it is read."""


def failure(sql: str, tables: Tables) -> str | None:
    """Return what could fail on some row of some table; None where nothing can.

    Guarantee:
        Of a text in which nothing was found, every function, cast and comparison outside of TRY has a value on every
        row, and inside of TRY stands one operation, over arguments that do. Each key is of a type whose every value can
        be read, and of which equal values are read as one.

    Args:
        sql: a statement that has been found to be bounded.
        tables: the connected tables.
    """
    try:
        shown = _relation(sqlglot.parse_one(sql, dialect="duckdb"), tables, {})
        for name, value in shown.items():
            if name.startswith("g") and not (is_real(value.kind) or value.kind in _READ):
                raise MayFail("a key that cannot be read")
    except MayFail as error:
        return str(error)
    return None


_READ = frozenset({"BIGINT", "BOOLEAN", "DATE", "HUGEINT", "TIMESTAMP", "VARCHAR", NULL})
"""Types of keys beside reals; not INTERVAL, of which 30 days and a month are equal and many are beyond any reader."""

Columns = dict[str, Value]
Stages = Mapping[str, Columns]


def _relation(query: exp.Expr, tables: Tables, stages: Stages) -> Columns:
    """Return the columns that a query gives."""
    if isinstance(query, exp.Subquery):
        return _relation(query.this, tables, stages)
    if isinstance(query, exp.Union):
        above, below = (_relation(q, tables, stages) for q in (query.this, query.expression))
        if len(above) != len(below):
            raise MayFail("a union of different columns")
        return {n: one_of([a, b]) for (n, a), b in zip(above.items(), below.values(), strict=True)}
    known = dict(stages)
    listed = query.args.get("with_")
    for stage in [] if listed is None else listed.expressions:
        known[stage.alias] = _relation(stage.this, tables, known)
    return _select(query, tables, known)


def _select(query: exp.Expr, tables: Tables, stages: Stages) -> Columns:
    sources: dict[str, Columns] = {}
    from_, joins = query.args.get("from_"), query.args.get("joins") or []
    for node in [] if from_ is None else [from_.this, *(j.this for j in joins)]:
        sources[node.alias_or_name] = _source(node, tables, stages)
    given: Columns = {}

    def column(c: exp.Column) -> Value:
        if c.table:
            found = sources.get(c.table, {}).get(c.name)
        else:
            found = next((s[c.name] for s in sources.values() if c.name in s), given.get(c.name))
        if found is None:
            raise MayFail("a column that is not there")
        return found

    reader = _Reader(column)
    for e in query.expressions:
        given[e.alias_or_name] = reader.value(e)
    for join in joins:
        reader.booleans([join.args.get("on")])
    for clause in ("where", "qualify", "having"):
        node = query.args.get(clause)
        reader.booleans([None if node is None else node.this])
    group = query.args.get("group")
    reader.all([] if group is None else group.expressions)
    return given


def _source(node: exp.Expr, tables: Tables, stages: Stages) -> Columns:
    """Return the columns of what FROM or a join names."""
    if isinstance(node, exp.Subquery):
        return _relation(node.this, tables, stages)
    if isinstance(node, exp.Values):
        rows = [_Reader(_nothing).all(row.expressions) for row in node.expressions]
        names = [c.name for c in node.args["alias"].columns]
        return {n: one_of(values) for n, *values in zip(names, *rows, strict=True)}
    if not node.args.get("db"):
        return dict(stages[node.name])
    return {n: of_kind(kind) for n, kind in tables.get(node.name, {}).items()}


def _nothing(_column: exp.Column) -> Value:
    raise MayFail("a column among constants")


class _Reader(TotalityChecker):
    """As `TotalityChecker`, with aggregates, windows and lists of constants, whose shapes are known ones."""

    __slots__ = ()

    def _function(self, e: exp.Expr) -> Value:
        match e:
            case exp.Window():
                spec = e.args.get("order")
                self.all([*(e.args.get("partition_by") or []), *([] if spec is None else spec.expressions)])
                return self.value(e.this)
            case exp.Ordered():
                return self.value(e.this)
            case exp.Order():
                self.all(e.expressions)
                return self.value(e.this)
            case exp.Distinct():
                return self.all(e.expressions)[-1]
            case exp.Filter():
                self.booleans([e.expression.this])
                return self.value(e.this)
            case exp.Count():
                self.value(e.this)
                return counted()
            case exp.RowNumber() | exp.Rank() | exp.DenseRank() | exp.Ntile():
                return counted()
            case exp.PercentRank() | exp.CumeDist():
                return Value("DOUBLE")
            case exp.LogicalAnd() | exp.LogicalOr():
                self.booleans([e.this])
                return Value("BOOLEAN")
            case exp.Sum() | exp.Avg():
                return self._added(e)
            case exp.Min() | exp.Max() | exp.FirstValue() | exp.LastValue():
                return self.value(e.this)
            case exp.Lag() | exp.Lead():
                return one_of(self.all([e.this, e.args.get("default")]))
            case exp.GroupingSets() | exp.Tuple():
                self.all(e.expressions)
                return Value(NULL)
            case exp.Explode():
                return self._listed(e.this)
            case _:
                return super()._function(e)

    def _added(self, e: exp.Expr) -> Value:
        """Whole numbers are added in 128 bits, of fewer than 2^40 rows; means and reals are doubles."""
        inner = self.value(e.this)
        if is_real(inner.kind) or (isinstance(e, exp.Avg) and inner.width):
            return Value("DOUBLE")
        low, high = inner.low << ROWS, inner.high << ROWS
        if inner.kind == NULL or (inner.width and max(-low, high) < 1 << 127):
            return Value("HUGEINT", 127, min(low, 0), max(high, 0))
        raise MayFail("a sum that may overflow")

    def _listed(self, e: exp.Expr) -> Value:
        """Return a list: a range of constants, or a text that is split."""
        if isinstance(e, exp.GenerateSeries):
            return one_of(self.all([e.args["start"], e.args["end"]]))
        if isinstance(e, exp.Anonymous) and e.name.lower() == "list_slice":
            return self._listed(e.expressions[0])
        if isinstance(e, exp.Split):
            return one_of(self.all([e.this, e.expression]))
        raise MayFail("a list that is not of constants")
