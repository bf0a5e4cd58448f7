"""Which numbers of an outer query follow from which noisy ones, and whether noise chooses its rows.

An interval of a number is known where the number follows from one noisy number, or smoothly from several, in rows that
noise did not choose. What is not known to be so is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from sqlglot import exp

from discreet.query.parse import parse_query


class Follows(IntEnum):
    """How a cell follows from noisy numbers; the larger, the less is known."""

    PUBLIC = 0
    """From none."""
    LINEAR = 1
    """Affine in one, with public coefficients."""
    ONE = 2
    """From one, rising or falling with it."""
    SUM = 3
    """Affine in several, with public coefficients."""
    SEVERAL = 4
    """Smoothly from several."""
    UNKNOWN = 5
    """In another way."""


class TracedColumn(NamedTuple):
    """A column: its name, how it follows from noisy numbers, and the columns of tables whose cells are its own.

    It has one such column, or one for each side of a UNION; none where it is computed.
    """

    name: str
    follows: Follows
    origins: tuple[tuple[str, str], ...] = ()


Columns: TypeAlias = Sequence[TracedColumn]


@dataclass(frozen=True, slots=True)
class Lineage:
    """How the columns of a query follow from noisy numbers, and whether noise chooses its rows."""

    columns: tuple[TracedColumn, ...]
    is_chosen: bool = False

    def called(self, columns: Sequence[str]) -> Lineage:
        """Return the same columns, the first ones renamed."""
        renamed = tuple(c._replace(name=n) for n, c in zip(columns, self.columns, strict=False))
        return replace(self, columns=(*renamed, *self.columns[len(columns) :]))


@dataclass(frozen=True, slots=True)
class Traced:
    """An outer query's lineage, and its text without an order that noise decides.

    Attributes:
        lineage: of its rows.
        unordered: the text with an order by public columns in place of the outermost ORDER BY.
        is_sorted: whether a window sorts rows, so that rows with the same public cells may stand in any order.
    """

    lineage: Lineage
    unordered: str
    is_sorted: bool = False

    def public_cells(self, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]] | None:
        """Return the public cells of each row of `unordered`; None where these do not tell which row is which."""
        places = [i for i, c in enumerate(self.lineage.columns) if c.follows is Follows.PUBLIC]
        found = [tuple(row[i] for i in places) for row in rows]
        return None if self.is_sorted and len(set(map(repr, found))) < len(found) else found

    @classmethod
    def unknown(cls, sql: str, columns: Sequence[str]) -> Traced:
        """Return the lineage of a query with these columns, of which nothing is known."""
        return cls(Lineage(tuple(TracedColumn(n, Follows.UNKNOWN) for n in columns), True), sql)

    def column(self, name: str) -> TracedColumn:
        """Return an output column."""
        return next(c for c in self.lineage.columns if c.name == name)


def traced(sql: str, tables: Mapping[str, Columns]) -> Traced | None:
    """Return how an outer query over these tables follows from their columns; None where that is unknown."""
    tree = parse_query(sql)
    try:
        found = _query(tree, {name.lower(): Lineage(tuple(columns)) for name, columns in tables.items()}, ())
    except _UnknownError:
        return None
    if not tree.args.get("limit") and not tree.args.get("offset"):
        places = [i for i, c in enumerate(found.columns, 1) if c.follows is Follows.PUBLIC]
        terms = [exp.Ordered(this=exp.Literal.number(i), nulls_first=False) for i in places]
        tree.set("order", exp.Order(expressions=terms) if terms else None)
    is_sorted = any(window.args.get("order") for window in tree.find_all(exp.Window))
    return Traced(found, tree.sql(dialect="duckdb", comments=False), is_sorted)


class _UnknownError(Exception):
    """A part of a query of which nothing is known."""


_Tables: TypeAlias = Mapping[str, Lineage]
_Scope: TypeAlias = tuple[tuple[str, Lineage], ...]
"""What FROM names, by its aliases, the innermost query's first."""


def _query(tree: exp.Expr, tables: _Tables, around: _Scope) -> Lineage:
    tree = tree.unnest()
    clause = tree.args.get("with_")
    for cte in clause.expressions if clause is not None else ():
        columns = [c.name for c in cte.args["alias"].args.get("columns") or []]
        tables = {**tables, cte.alias.lower(): _query(cte.this, tables, ()).called(columns)}
    match tree:
        case exp.SetOperation():
            return _set_operation(tree, tables, around)
        case exp.Select():
            return _select(tree, tables, around)
    raise _UnknownError


def _set_operation(tree: exp.SetOperation, tables: _Tables, around: _Scope) -> Lineage:
    left, right = (_query(side, tables, around) for side in (tree.this, tree.expression))
    if len(left.columns) != len(right.columns) or tree.args.get("by_name"):
        raise _UnknownError
    columns = tuple(
        TracedColumn(a.name, _worst(a.follows, b.follows), (*a.origins, *b.origins) if a.origins and b.origins else ())
        for a, b in zip(left.columns, right.columns, strict=True)
    )
    every = isinstance(tree, exp.Union) and not tree.args.get("distinct")
    chosen = left.is_chosen or right.is_chosen or (not every and _is_noisy(columns))
    return Lineage(columns, chosen or _is_cut_by_noise(tree, columns, tables, ()))


def _select(tree: exp.Select, tables: _Tables, around: _Scope) -> Lineage:
    first, joins = tree.args.get("from_"), tree.args.get("joins") or []
    sources = [_source(s.this, tables) for s in ([] if first is None else [first, *joins])]
    scope: _Scope = (*sources, *around)
    conditions = [tree.args[c].this for c in ("where", "having", "qualify") if tree.args.get(c)]
    matched = False
    for j in joins:
        using = [e.name.lower() for e in j.args.get("using") or []]
        if j.method or (using and (j.side not in ("", "LEFT") or tree.is_star)):
            raise _UnknownError
        conditions += [j.args["on"]] if j.args.get("on") else []
        matched |= any(c.follows for _, s in sources for c in s.columns if c.name.lower() in using)
    group = tree.args.get("group")
    if group is not None and any(part for name, part in group.args.items() if name != "expressions"):
        raise _UnknownError
    items = [_item(e, tables, scope) for e in tree.expressions]
    columns = tuple(c for item in items for c in item)
    names = {c.name.lower(): c.follows for c in columns}
    chosen = matched or any(s.is_chosen for _, s in sources)
    chosen |= any(_follows(c, tables, scope, names) for c in conditions)
    chosen |= group is not None and any(_key(e, columns, tables, scope, names) for e in group.expressions)
    distinct = tree.args.get("distinct")
    if distinct is not None:
        chosen |= bool(distinct.args.get("on")) or _is_noisy(columns)
    return Lineage(columns, chosen or _is_cut_by_noise(tree, columns, tables, scope))


def _is_cut_by_noise(tree: exp.Expr, columns: Columns, tables: _Tables, scope: _Scope) -> bool:
    """Whether LIMIT or OFFSET takes rows from an order that noise decides."""
    if not tree.args.get("limit") and not tree.args.get("offset"):
        return False
    order, names = tree.args.get("order"), {c.name.lower(): c.follows for c in columns}
    return order is not None and any(_key(o.this, columns, tables, scope, names) for o in order.expressions)


def _key(node: exp.Expr, columns: Columns, tables: _Tables, scope: _Scope, names: Mapping[str, Follows]) -> bool:
    """Whether a term of GROUP BY or ORDER BY is noisy."""
    match node:
        case exp.Literal(is_string=False):
            place = int(node.name) if node.name.isdigit() else 0
            return not 1 <= place <= len(columns) or columns[place - 1].follows > Follows.PUBLIC
    return _follows(node, tables, scope, names) > Follows.PUBLIC


def _is_noisy(columns: Columns) -> bool:
    return any(c.follows > Follows.PUBLIC for c in columns)


def _source(node: exp.Expr, tables: _Tables) -> tuple[str, Lineage]:
    alias = node.args.get("alias")
    renamed = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
    match node:
        case exp.Subquery():
            return node.alias.lower(), _query(node.this, tables, ()).called(renamed)
        case exp.Table() if node.name.lower() in tables:
            return (node.alias or node.name).lower(), tables[node.name.lower()].called(renamed)
    raise _UnknownError


def _item(e: exp.Expr, tables: _Tables, scope: _Scope) -> Columns:
    if e.is_star:
        star = e.this if isinstance(e, exp.Column) else e
        if any(part for part in star.args.values()):
            raise _UnknownError
        table = e.table.lower() if isinstance(e, exp.Column) else None
        return [c for name, source in scope if table in (None, name) for c in source.columns]
    inner = e.unalias()
    own = _cells(inner, scope) if isinstance(inner, exp.Column) else ()
    return [TracedColumn(e.alias_or_name, _follows(inner, tables, scope, {}), own)]


def _follows(node: exp.Expr, tables: _Tables, scope: _Scope, names: Mapping[str, Follows]) -> Follows:
    """Return how an expression follows from noisy numbers; `names` are outputs that it may name."""

    def of(e: object) -> Follows:
        return _follows(e, tables, scope, names) if isinstance(e, exp.Expr) else Follows.PUBLIC

    match node:
        case exp.Column():
            return _column(node, scope, names)
        case exp.Subquery():
            found = _query(node.this, tables, scope)
            return Follows.UNKNOWN if len(found.columns) > 1 or found.is_chosen else found.columns[0].follows
        case exp.Query():
            found = _query(node, tables, scope)
            return Follows.UNKNOWN if found.is_chosen or _is_noisy(found.columns) else Follows.PUBLIC
        case exp.Window():
            return _window(node, of)
        case exp.Filter():
            return Follows.UNKNOWN if of(node.expression.this) else of(node.this)
        case exp.Count(this=exp.Column()) | exp.CountIf(this=exp.Column()):
            return Follows.PUBLIC
        case exp.Count() | exp.CountIf():
            return Follows.UNKNOWN if of(node.this) else Follows.PUBLIC
        case exp.Sum() | exp.Avg():
            return _of_several(of(node.this))
        case exp.Cast() if not node.to.is_type(*exp.DataType.NUMERIC_TYPES):
            return Follows.UNKNOWN if of(node.this) else Follows.PUBLIC
        case exp.Neg() | exp.Paren() | exp.Cast() | exp.Round() | exp.Floor() | exp.Ceil() | exp.Sqrt() | exp.Ln():
            inner, rest = of(node.this), max((of(e) for e in _but_first(node)), default=Follows.PUBLIC)
            straight = isinstance(node, exp.Neg | exp.Paren) or _is_real(node)
            if rest or not (straight or inner < Follows.SUM or isinstance(node, exp.Sqrt | exp.Ln)):
                return Follows.UNKNOWN if rest or inner else inner
            return inner if straight else _bent(inner)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            left, right = of(node.this), of(node.expression)
            both = _of_several(_worst(left, right)) if right and (left or isinstance(node, exp.Div)) else None
            if both is None:
                return _worst(left, right)
            return _bent(both) if isinstance(node, exp.Mul | exp.Div) else both
        case exp.Case():
            return (
                Follows.UNKNOWN if any(of(i.this) for i in node.args["ifs"]) or of(node.this) else _branches(node, of)
            )
    parts = [of(e) for e in node.iter_expressions()]
    return Follows.UNKNOWN if any(parts) else Follows.PUBLIC


def _column(node: exp.Column, scope: _Scope, names: Mapping[str, Follows]) -> Follows:
    name, table = node.name.lower(), node.table.lower()
    for alias, source in scope:
        found = [c.follows for c in source.columns if c.name.lower() == name and table in ("", alias)]
        if found:  # an output of that name may be meant
            return _worst(*found, Follows.PUBLIC if table else names.get(name, Follows.PUBLIC))
    if not table and name in names:
        return names[name]
    raise _UnknownError


def _cells(node: exp.Column, scope: _Scope) -> tuple[tuple[str, str], ...]:
    """Return the columns of tables whose cells a column has; none where it is not just one of FROM."""
    name, table = node.name.lower(), node.table.lower()
    found = [[c for c in s.columns if c.name.lower() == name] for alias, s in scope if table in ("", alias)]
    first = next(filter(None, found), [])
    return first[0].origins if len(first) == 1 else ()


def _window(node: exp.Window, of: object) -> Follows:
    assert callable(of)
    around = [of(e) for name, e in node.args.items() if name not in ("this", "order", "partition_by")]
    order = node.args.get("order")
    around += [of(o.this) for o in order.expressions] if order is not None else []
    around += [of(e) for e in node.args.get("partition_by") or []]
    inner = of(node.this)
    if any(around) or inner is Follows.UNKNOWN:
        return Follows.UNKNOWN
    if isinstance(node.this, exp.RowNumber | exp.Rank | exp.DenseRank | exp.Count | exp.Sum | exp.Avg):
        return Follows(inner)
    return Follows.UNKNOWN if inner else Follows.PUBLIC


def _branches(node: exp.Case, of: object) -> Follows:
    assert callable(of)
    branches = [i.args["true"] for i in node.args["ifs"]]
    return _worst(*(of(e) for e in [*branches, node.args.get("default")]))


def _worst(*found: Follows) -> Follows:
    """Return what is known of a number that follows from noisy ones in one of these ways."""
    most = max(found, default=Follows.PUBLIC)
    return Follows.SEVERAL if most is Follows.SUM and Follows.ONE in found else most


def _of_several(follows: Follows) -> Follows:
    return {Follows.LINEAR: Follows.SUM, Follows.ONE: Follows.SEVERAL}.get(follows, follows)


def _bent(follows: Follows) -> Follows:
    return {Follows.LINEAR: Follows.ONE, Follows.SUM: Follows.SEVERAL}.get(follows, follows)


def _but_first(node: exp.Expr) -> list[exp.Expr]:
    return [e for e in node.iter_expressions() if e is not node.this and not isinstance(e, exp.DataType)]


def _is_real(node: exp.Expr) -> bool:
    """Whether a cast is to a real number, which changes nothing but the last digits."""
    return isinstance(node, exp.Cast) and node.to.is_type("double", "float")
