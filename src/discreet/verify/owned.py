"""Whether rows that come from several tables belong to units, read from the nested SELECTs alone.

A relation is *owned* when the rows that carry a unit in their column `u` follow from that unit's own data and from
public tables: other people's rows neither add to them, nor take from them, nor change the last bit of them. The
shapes below are those of decision 0005, each matched in full; whatever else is written is an InternalError. It
shares no code with the writer.

References:
    The definition, and a proof for every shape: docs/proofs/ownership.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from discreet.verify.aggregated import aggregate, window
from discreet.verify.kinds import Kind, are_the_same, is_real, kind_of, together
from discreet.verify.shapes import (
    alias_of,
    columns_in,
    conjuncts,
    filters,
    holds_only,
    is_column,
    is_written,
    of_one_row,
    only,
    only_expressions,
    outputs,
    read_from,
    reject,
)


@dataclass(frozen=True, slots=True)
class PublicTable:
    """What is public about a connected table.

    One of four: it has the unit's column, or a foreign key leads to a table that belongs to units, or it is public; or
    it is none of these, and each of its rows is a unit.

    Attributes:
        columns: name → the type as which it is read; None for a column that cannot be asked about.
        unit: the column that says whose a row is.
        key: the foreign key that leads to the unit: this table's column, the other table, and the other's column.
        public: whether it holds no personal data.
        view: the text by which it shows its source (`view`); None where it is connected to none.
    """

    columns: Mapping[str, Kind]
    unit: str | None = None
    key: tuple[str, str, str] | None = None
    public: bool = False
    view: str | None = None

    def __post_init__(self) -> None:
        if [self.unit is not None, self.key is not None, self.public].count(True) > 1:
            reject("whose a table is")


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a relation.

    Attributes:
        kind: the kind of its values (`kinds`).
        origin: the table and column that it passes on: in a row of a unit it holds NULL, or what that column holds in
            some row of the same unit.
    """

    kind: Kind
    origin: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class OwnedSelect:
    """A nested SELECT that has been understood.

    Attributes:
        unit: the kind of its column `u`; None when it is public, and has no such column.
        columns: the others, in order.
    """

    unit: Kind
    columns: Mapping[str, Output]


def owned(nested: exp.Expr, tables: Mapping[str, PublicTable]) -> OwnedSelect:
    """Return the owned relation that the query `(…) s` in FROM gives.

    Guarantee:
        For every unit v, the rows with u = v of what is returned are a function of the rows that v owns and of the
        public tables, whatever all tables hold.

    Raises:
        InternalError: a shape that is not known to be owned.
    """
    found = _relation(_query(nested, "s"), tables)
    if found.unit is None:
        reject("whose the rows are")
    return found


def each_row(nested: exp.Expr, tables: Mapping[str, PublicTable]) -> OwnedSelect:
    """Return the relation that the query `(…) s` in FROM gives, where each row of one table is a unit.

    Guarantee:
        Whatever the tables hold, it is the union over the rows of that table of a function of the row and of the
        public tables, which gives one row at most. So one unit that comes or goes adds or takes one row.

    Raises:
        InternalError: a shape that is not known to be so.
    """
    return _each_row(_query(nested, "s"), tables)


_Tables: TypeAlias = Mapping[str, PublicTable]
_Sources: TypeAlias = Mapping[str, OwnedSelect]
_Whose: TypeAlias = tuple[tuple[str, str], ...]
"""What `u` is: a column, by its alias and name, or the first of two that is not NULL."""


def _relation(query: exp.Expr, tables: _Tables) -> OwnedSelect:
    """Return what a query of one of the known shapes gives; what it reads and its clauses say which shape it is."""
    if type(query) is exp.Union:
        return _union(query, tables)
    if type(query) is not exp.Select:
        reject("the shape of a nested query")
    source = read_from(query)
    if type(source) is exp.Values:
        return _constants(query, source)
    if type(source) is exp.Table:
        return _reached(query, tables) if query.args.get("joins") else _base(query, tables)
    if query.args.get("joins"):
        return _joined(query, tables)
    inner = _relation(_query(source, "r"), tables)
    given = [e.unalias() for e in query.expressions]
    if query.args.get("distinct"):
        return _distinct(query, inner)
    if query.args.get("group"):
        return _grouped(query, inner)
    if any(type(e) is exp.Explode for e in given):
        return _split(query, inner)
    if any(type(e) is exp.Window for e in given):
        return _windowed(query, inner)
    if inner.unit is None and any(isinstance(e, exp.AggFunc) for e in given):
        return _grouped(query, inner)
    only(query, {"expressions", "from_", "where"})
    _of_rows(filters(query), {"r": inner})
    return _outputs(query, {"r": inner}, _passed_on(inner), inner.unit)


def _base(query: exp.Select, tables: _Tables) -> OwnedSelect:
    """SELECT t."id" AS u, e AS c0, … FROM main."orders" t [WHERE e]; without u over a public table."""
    only(query, {"expressions", "from_", "where"})
    table, rows = _table(query, tables)
    _of_rows(filters(query), {"t": rows})
    if table.public:
        return _outputs(query, {"t": rows}, (), None)
    if table.unit is None or table.columns.get(table.unit) is None:
        reject("whose the rows are")
    return _outputs(query, {"t": rows}, (("t", table.unit),), table.columns[table.unit])


def _constants(query: exp.Select, listed: exp.Values) -> OwnedSelect:
    """SELECT v.a0 AS c0, … FROM (VALUES (e, …), …) v(a0, …): rows that are written out, and so are public."""
    only(query, {"expressions", "from_"})
    alias = listed.args.get("alias")
    if type(alias) is not exp.TableAlias or not holds_only(alias, {"this", "columns"}) or alias.name != "v":
        reject("what is read")
    if not holds_only(listed, {"expressions", "alias"}):
        reject("what is read")
    names = [c.name for c in alias.args.get("columns") or []]
    rows = listed.expressions
    if not rows or names != [f"a{i}" for i in range(len(names))]:
        reject("rows that are written out")
    if not all(type(row) is exp.Tuple and len(row.expressions) == len(names) for row in rows):
        reject("rows that are written out")
    _of_rows([e for row in rows for e in row.expressions], {})
    kinds = [together([kind_of(row.expressions[i], lambda _: None) for row in rows]) for i in range(len(names))]
    if None in kinds:  # a column of two types is read as one of them, or fails
        reject("rows that are written out")
    return _outputs(query, {"v": OwnedSelect(None, dict(zip(names, map(Output, kinds), strict=True)))}, (), None)


def _reached(query: exp.Select, tables: _Tables) -> OwnedSelect:
    """SELECT o.u AS u, e AS c0, … FROM main."items" t JOIN (SELECT DISTINCT u, c7 FROM (…) k) o ON t."order_id" = o.c7.

    c7 passes on the declared key of the declared table, so that each row that is found is one that the unit owns.
    """
    only(query, {"expressions", "from_", "joins", "where"})
    table, rows = _table(query, tables)
    join, *more = query.args["joins"]
    if table.key is None or more or not holds_only(join, {"this", "on"}):
        reject("whose the rows are")
    column, other, key = table.key
    if other not in tables or tables[other].public:
        reject("whose the rows are")
    keys = _query(join.this, "o")
    only(keys, {"distinct", "expressions", "from_"})
    _plainly_distinct(keys)
    owner = _relation(_query(read_from(keys), "k"), tables)
    if owner.unit is None or len(keys.expressions) != 2:
        reject("whose the rows are")
    unit, passed = keys.expressions
    found = owner.columns.get(passed.name)
    if not _passes(unit, "k", "u") or not _passes(passed, "k", passed.name) or found is None:
        reject("whose the rows are")
    if found.origin != (other, key) or found.kind is None or found.kind != table.columns.get(column):
        reject("the key that leads to the unit")
    on = join.args.get("on")
    if type(on) is not exp.EQ or not is_column(on.this, "t", column) or not is_column(on.expression, "o", passed.name):
        reject("the key that leads to the unit")
    _of_rows(filters(query), {"t": rows})
    return _outputs(query, {"t": rows}, (("o", "u"),), owner.unit)


def _joined(query: exp.Select, tables: _Tables) -> OwnedSelect:
    """(…) l JOIN (…) r ON …: two owned relations on the same unit, or an owned one on the left of a public one."""
    only(query, {"expressions", "from_", "joins"})
    join, *more = query.args["joins"]
    kind = _JOINS.get((join.side, join.kind))
    if more or kind is None or not holds_only(join, {"this", "on", "side", "kind"}):
        reject("how two relations are joined")
    l = _relation(_query(read_from(query), "l"), tables)
    r = _relation(_query(join.this, "r"), tables)
    terms = conjuncts(join.args.get("on"))
    whose: _Whose = _passed_on(l, "l")
    if not terms:
        reject("how two relations are joined")
    if l.unit is not None and r.unit is not None:
        if l.unit != r.unit or not any(map(_is_same_unit, terms)):
            reject("that a join holds the units equal")
        terms = [t for t in terms if not _is_same_unit(t)]
        whose = (("l", "u"), ("r", "u")) if kind == "FULL" else whose
    elif r.unit is not None:
        reject("the side of a join that says whose the rows are")
    elif l.unit is not None and kind == "FULL":
        reject("rows of a public table that nobody matches")
    _of_rows(terms, {"l": l, "r": r})
    seen = {"l": l} if kind in ("SEMI", "ANTI") else {"l": l, "r": r}
    return _outputs(query, seen, whose, l.unit)


def _each_row(query: exp.Expr, tables: _Tables) -> OwnedSelect:
    """SELECT t."x" AS c0, … FROM main."visits" t [WHERE e], over a table of which each row is a unit; functions of one
    row of such a relation; and its joins with public ones.
    """
    if type(query) is not exp.Select:
        reject("the shape of a nested query")
    if query.args.get("joins"):
        return _met_once(query, tables)
    only(query, {"expressions", "from_", "where"})
    source = read_from(query)
    if type(source) is exp.Table:
        table, rows = _table(query, tables)
        if table.public or table.unit is not None or table.key is not None:
            reject("whose the rows are")
        sources = {"t": rows}
    else:
        sources = {"r": _each_row(_query(source, "r"), tables)}
    _of_rows(filters(query), sources)
    return _outputs(query, sources, (), None)


def _met_once(query: exp.Select, tables: _Tables) -> OwnedSelect:
    """(…) l JOIN (…) r ON l.c0 = r.c5 AND …: of public rows r with one value of c5 there is one at most."""
    only(query, {"expressions", "from_", "joins"})
    join, *more = query.args["joins"]
    kind = _JOINS.get((join.side, join.kind))
    if more or kind in (None, "FULL") or not holds_only(join, {"this", "on", "side", "kind"}):
        reject("how two relations are joined")
    right = _query(join.this, "r")
    l, r = _each_row(_query(read_from(query), "l"), tables), _relation(right, tables)
    terms = _terms(join.args.get("on"))
    if r.unit is not None or not terms:
        reject("how two relations are joined")
    _of_rows(terms, {"l": l, "r": r})
    if kind in ("SEMI", "ANTI"):
        return _outputs(query, {"l": l}, (), None)
    key, kinds = _key(right), _kinds({"l": l, "r": r})
    for term in terms:
        sides = (term.this, _or_null(term.expression)) if type(term) is exp.EQ else ()
        for a, b in (sides, (term.expression, _or_null(term.this))) if sides else ():
            one, other = kind_of(a, kinds), kind_of(b, kinds)  # a value of another type may be equal to several
            same = (one == other and one is not None) or (is_real(one) and is_real(other))
            if type(b) is exp.Column and b.table == "r" and same and all(c.table == "l" for c in columns_in(a)):
                key -= {b.name}
    if key:
        reject("how many public rows meet one row")
    return _outputs(query, {"l": l, "r": r}, (), None)


def _key(query: exp.Select) -> set[str]:
    """Return columns of a public relation such that one row at most has the same known values in all; what is no
    column of it, and so is held equal by nothing, where none are known.

    The keys of GROUP BY, none for aggregates without one; or PARTITION BY of c9 = row_number() OVER (…), under c9 = 1.
    """
    if type(query) is not exp.Select or query.args.get("joins") or type(read_from(query)) is not exp.Subquery:
        return {""}
    named, inner = outputs(query), read_from(query).this
    group = query.args.get("group")
    if group is not None or any(isinstance(e, exp.AggFunc) for e in named.values()):
        keys = [] if group is None else group.expressions
        return {next((n for n, e in named.items() if e == key), "") for key in keys}
    below = outputs(inner) if type(inner) is exp.Select else {}
    where = query.args.get("where")
    for term in _terms(None if where is None else where.this):
        number = below.get(term.this.name) if type(term) is exp.EQ and _is_one(term.expression) else None
        if (
            type(number) is exp.Window
            and type(number.this) is exp.RowNumber
            and is_column(term.this, "r", term.this.name)
        ):
            by = [next((n for n, e in below.items() if e == p), "") for p in number.args.get("partition_by") or []]
            return {next((n for n, e in named.items() if is_column(_or_null(e), "r", p)), "") for p in by}
    return {""}


def _or_null(e: exp.Expr) -> exp.Expr:
    """Return the x of CASE WHEN … THEN x END, which is x or NULL, and so is equal to what x is equal to at most."""
    e = e.unnest()
    if type(e) is exp.Case and e.this is None and not e.args.get("default") and len(e.args["ifs"]) == 1:
        e = e.args["ifs"][0].args["true"].unnest()
    return e


def _terms(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return the terms that all have to hold, in whatever brackets."""
    e = None if condition is None else condition.unnest()
    if type(e) is exp.And:
        return [*_terms(e.this), *_terms(e.expression)]
    return [] if e is None else [e]


def _is_one(e: exp.Expr) -> bool:
    return type(e) is exp.Cast and e.to.is_type("bigint") and holds_only(e, {"this", "to"}) and is_written(e.this, 1)


def _distinct(query: exp.Select, inner: OwnedSelect) -> OwnedSelect:
    """SELECT DISTINCT r.u AS u, e AS c1, … FROM (…) r."""
    only(query, {"distinct", "expressions", "from_"})
    _plainly_distinct(query)
    found = _outputs(query, {"r": inner}, _passed_on(inner), inner.unit)
    if not all(are_the_same(c.kind) for c in found.columns.values()):
        reject("which of equal values is kept")
    return found


def _grouped(query: exp.Select, inner: OwnedSelect) -> OwnedSelect:
    """SELECT r.u AS u, e AS c1, agg(e) AS c2, … FROM (…) r GROUP BY r.u, e, …."""
    only(query, {"expressions", "from_", "group"})
    group = query.args.get("group")
    keys: list[exp.Expr] = []
    if group is not None:
        only_expressions(group)
        keys = list(group.expressions)
    if inner.unit is not None and (not keys or not is_column(keys.pop(0), "r", "u")):
        reject("that rows are grouped by their unit")
    kinds = _kinds({"r": inner})
    _of_rows(keys, {"r": inner})
    for key in keys:
        # a number would be the place of an output
        if isinstance(key.unnest(), exp.Literal | exp.Neg) or not are_the_same(kind_of(key, kinds)):
            reject("what is grouped by")
    named = _after_unit(query, _passed_on(inner))
    measured = {n: e for n, e in named.items() if e not in keys}
    _of_rows([c for e in measured.values() for c in columns_in(e)], {"r": inner})
    columns = {n: Output(aggregate(e, kinds)) if n in measured else _output(e, {"r": inner}) for n, e in named.items()}
    return OwnedSelect(inner.unit, columns)


def _windowed(query: exp.Select, inner: OwnedSelect) -> OwnedSelect:
    """SELECT r.u AS u, r.c0 AS c1, f(e) OVER (PARTITION BY r.u, … ORDER BY …, every column) AS c2, … FROM (…) r."""
    only(query, {"expressions", "from_"})
    kinds = {n: c.kind for n, c in inner.columns.items()}
    columns: dict[str, Output] = {}
    orders: set[str] = set()
    for name, e in _after_unit(query, _passed_on(inner)).items():
        if type(e) is not exp.Window:
            _of_rows([e], {"r": inner})
            columns[name] = _output(e, {"r": inner})
            continue
        by = e.args.get("partition_by") or []
        units = [p for p in by if is_column(p, "r", "u")]
        if inner.unit is not None and not units:
            reject("that a window stays within a unit")
        _of_rows([c for c in columns_in(e) if not any(c is p for p in units)], {"r": inner})
        kind, order = window(e, kinds)
        columns[name] = Output(kind)
        orders |= {order} if order is not None else set()
    if len(orders) > 1:
        reject("how equal rows are numbered")
    return OwnedSelect(inner.unit, columns)


def _split(query: exp.Select, inner: OwnedSelect) -> OwnedSelect:
    """SELECT r.u AS u, e AS c1, …, unnest(list_slice(string_split(r.c0, ','), 1, 1000)) AS c2 FROM (…) r: each row
    comes out once for each of the first parts of a text of its own.
    """
    only(query, {"expressions", "from_"})
    columns: dict[str, Output] = {}
    for name, e in _after_unit(query, _passed_on(inner)).items():
        if type(e) is exp.Explode:
            _of_rows([_split_text(e)], {"r": inner})
            columns[name] = Output("VARCHAR")
        else:
            _of_rows([e], {"r": inner})
            columns[name] = _output(e, {"r": inner})
    if sum(type(e.unalias()) is exp.Explode for e in query.expressions) != 1:
        reject("what is split")
    return OwnedSelect(inner.unit, columns)


def _split_text(e: exp.Explode) -> exp.Expr:
    """Return the column that is split."""
    listed = e.this
    known = type(listed) is exp.Anonymous and listed.name.lower() == "list_slice" and len(listed.expressions) == 3
    if not holds_only(e, {"this"}) or not known:
        reject("what is split")
    split, first, last = listed.expressions
    whole = all(type(n) is exp.Literal and not n.is_string and n.name.isdigit() for n in (first, last))
    if type(split) is not exp.Split or not holds_only(split, {"this", "expression"}) or not whole:
        reject("what is split")
    separator = split.expression
    if type(split.this) is not exp.Column or type(separator) is not exp.Literal or not separator.is_string:
        reject("what is split")
    text: exp.Expr = split.this
    return text


def _union(query: exp.Union, tables: _Tables) -> OwnedSelect:
    """SELECT u, c0 AS c2, … FROM (…) l UNION ALL SELECT u, c1, … FROM (…) r."""
    only(query, {"this", "expression"})
    l, above = _branch(query.this, "l", tables)
    r, below = _branch(query.expression, "r", tables)
    if l.unit != r.unit or len(above) != len(below):
        reject("the columns of a union")
    columns: dict[str, Output] = {}
    for (name, a), (_, b) in zip(above, below, strict=True):
        kind = together([a.kind, b.kind])
        if kind is None:  # a column of two types is read as one of them, or fails
            reject("the columns of a union")
        columns[_fresh(name)] = Output(kind, a.origin if a.origin == b.origin else None)
    if len(columns) != len(above):
        reject("the names of a stage's columns")
    return OwnedSelect(l.unit, columns)


def _branch(side: exp.Expr, alias: str, tables: _Tables) -> tuple[OwnedSelect, list[tuple[str, Output]]]:
    """One side of a union, which passes columns on: their names there and what they are, `u` first and left out."""
    if type(side) is not exp.Select:
        reject("the shape of a nested query")
    only(side, {"expressions", "from_"})
    inner = _relation(_query(read_from(side), alias), tables)
    given = list(side.expressions)
    if inner.unit is not None:
        unit = given.pop(0) if given else side
        if not _passes(unit.unalias(), alias, "u") or unit.alias_or_name != "u":
            reject("whose the rows are")
    columns = []
    for e in given:
        found = inner.columns.get(e.unalias().name)
        if found is None or not _passes(e.unalias(), alias, e.unalias().name):
            reject("a column that is not there")
        columns.append((e.alias_or_name, found))
    return inner, columns


def _table(query: exp.Select, tables: _Tables) -> tuple[PublicTable, OwnedSelect]:
    """Return the connected table that FROM names as t, and its rows."""
    source = read_from(query)
    if type(source.this) is not exp.Identifier or not holds_only(source, {"this", "db", "alias"}):
        reject("what is read")
    name = source.name
    table = tables.get(name)
    if table is None or source.text("db") != "main" or alias_of(source) != "t":
        reject("what is read")
    columns = {c: Output(kind, (name, c)) for c, kind in table.columns.items() if kind is not None}
    return table, OwnedSelect(None, columns)


def _query(node: exp.Expr, alias: str) -> exp.Select:
    """Return the query in (…) alias."""
    if type(node) is not exp.Subquery or not holds_only(node, {"this", "alias"}) or alias_of(node) != alias:
        reject("what is read")
    query: exp.Select = node.this  # or a union, which every reader of it looks for
    return query


def _outputs(query: exp.Select, sources: _Sources, whose: _Whose, unit: Kind) -> OwnedSelect:
    """Functions of one row, beside the unit as it is passed on."""
    named = _after_unit(query, whose)
    _of_rows(named.values(), sources)
    return OwnedSelect(unit, {n: _output(e, sources) for n, e in named.items()})


def _after_unit(query: exp.Select, whose: _Whose) -> dict[str, exp.Expr]:
    """Return the outputs beside `u`, which comes first where the relation is owned."""
    named = outputs(query)
    if whose:
        unit = named.pop("u", None)
        if unit is None or query.expressions[0].alias != "u" or not _is_unit(unit, whose):
            reject("whose the rows are")
    return {_fresh(n): e for n, e in named.items()}


def _is_unit(e: exp.Expr, whose: _Whose) -> bool:
    if len(whose) == 1:
        return is_column(e, *whose[0])
    if type(e) is not exp.Coalesce or not holds_only(e, {"this", "expressions"}):
        return False
    parts = [e.this, *e.expressions]
    return len(parts) == len(whose) and all(is_column(p, *w) for p, w in zip(parts, whose, strict=True))


def _passed_on(inner: OwnedSelect, alias: str = "r") -> _Whose:
    return () if inner.unit is None else ((alias, "u"),)


def _is_same_unit(term: exp.Expr) -> bool:
    return type(term) is exp.EQ and is_column(term.this, "l", "u") and is_column(term.expression, "r", "u")


def _passes(e: exp.Expr, alias: str, name: str) -> bool:
    """Return a column as it stands, with the one alias there is or without."""
    return is_column(e, alias, name) or is_column(e, "", name)


def _plainly_distinct(select: exp.Select) -> None:
    """DISTINCT over whole rows, not ON some columns."""
    distinct = select.args.get("distinct")
    if type(distinct) is not exp.Distinct or not holds_only(distinct, ()):
        reject("what is distinct")


def _of_rows(es: Collection[exp.Expr], sources: _Sources) -> None:
    """Functions of one row of these relations, whose columns are named with their alias; `u` is none of them."""
    for e in es:
        of_one_row(e)
        for c in columns_in(e):
            inner = sources.get(c.table)
            if inner is None or c.name not in inner.columns or not is_column(c, c.table, c.name):
                reject("a column that is not there")


def _output(e: exp.Expr, sources: _Sources) -> Output:
    origin = sources[e.table].columns[e.name].origin if type(e) is exp.Column else None
    return Output(kind_of(e, _kinds(sources)), origin)


def _kinds(sources: _Sources) -> Callable[[exp.Column], Kind]:
    return lambda c: sources[c.table].columns[c.name].kind


def _fresh(name: str) -> str:
    if re.fullmatch(r"c[0-9]+", name) is None:
        reject("the names of a stage's columns")
    return name


_JOINS = {
    ("", ""): "INNER",
    ("", "INNER"): "INNER",
    ("LEFT", ""): "LEFT",
    ("LEFT", "OUTER"): "LEFT",
    ("FULL", ""): "FULL",
    ("FULL", "OUTER"): "FULL",
    ("", "SEMI"): "SEMI",
    ("", "ANTI"): "ANTI",
}
"""How joins are written, and what they are; RIGHT is written as LEFT."""
