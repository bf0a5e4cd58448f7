"""Derived tables that only pick rows and name expressions, merged into the SELECT around them.

Where each row of a table is a unit, a query reads one table as it stands: `SELECT AVG(x) FROM (SELECT a + b AS x FROM t
WHERE c) s` is `SELECT AVG(a + b) FROM t WHERE c`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from discreet.query.parse import MOST_NODES, default_name, has_aggregate, refuse_size


def merged(select: exp.Select, named: Mapping[str, exp.Expr], tables: Collection[str]) -> exp.Select | None:
    """Return the same SELECT over one of these tables; None where it reads anything but such derived tables of it.

    `named` has the queries of WITH around it, by their names in lower case.
    """
    clause = select.args.get("with_")
    for cte in clause.expressions if clause is not None and not clause.args.get("recursive") else ():
        if not cte.args["alias"].args.get("columns"):
            named = {**named, cte.alias.lower(): cte.this}
    if any(t.lower() in named for t in tables):  # the name of a table means something else
        return None
    source = select.args["from_"].this if select.args.get("from_") else None
    if source is None or select.args.get("joins") or select.args.get("laterals"):
        return None
    inner: exp.Expr | None = None
    if isinstance(source, exp.Subquery) and not (source.args.get("alias") and source.args["alias"].args.get("columns")):
        inner = source.this.unnest()
    elif isinstance(source, exp.Table) and not source.db:
        inner = named.get(source.name.lower())
        if inner is not None:  # a name means what stood before it
            named = {name: query for name, query in named.items() if name != source.name.lower()}
    if inner is None or not isinstance(inner, exp.Select):
        return None
    below = merged(inner, named, tables) or inner
    around = [part for name, part in select.args.items() if name not in ("from_", "with_")]
    nested = [e for part in around for e in (part if isinstance(part, list) else [part]) if isinstance(e, exp.Expr)]
    if not _only_picks(below, tables) or any(e.find(exp.Query) for e in nested):
        return None
    return _put_together(select, below, source.alias_or_name.lower())


def _only_picks(query: exp.Select, tables: Collection[str]) -> bool:
    """Whether a query is of the rows of one table, one by one."""
    source = query.args["from_"].this if query.args.get("from_") else None
    plain = all(name in ("expressions", "from_", "where") for name, part in query.args.items() if part)
    if not plain or not isinstance(source, exp.Table) or source.name.lower() not in {t.lower() for t in tables}:
        return False
    if source.args.get("alias") and source.args["alias"].args.get("columns"):
        return False
    return not any(has_aggregate(e) or e.find(exp.Window, exp.Query, exp.Explode) for e in query.expressions)


def _put_together(select: exp.Select, below: exp.Select, alias: str) -> exp.Select | None:
    source = below.args["from_"].this
    made, inner = select.copy(), _without_aliases(below.copy(), source.alias_or_name.lower())
    made.set("from_", exp.From(this=exp.Table(this=source.this.copy())))
    made.set("with_", None)
    shown = {e.alias_or_name.lower(): e.unalias() for e in inner.expressions if not e.is_star}
    stars = [e for e in inner.expressions if e.is_star]
    if any(not isinstance(e, exp.Star) or any(e.args.values()) for e in stars) or "" in shown:
        return None
    sizes = {name: sum(1 for _ in e.walk()) for name, e in shown.items()}
    if sum(sizes.get(c.name.lower(), 1) for c in made.find_all(exp.Column)) > MOST_NODES:
        refuse_size()
    outputs = {e.alias.lower() for e in made.expressions if e.alias}
    ordered = {id(o.this) for o in (made.args["order"].expressions if made.args.get("order") else ())}
    for i, e in enumerate(list(made.expressions)):  # an output keeps its name
        if not isinstance(e, exp.Alias | exp.Star):
            e.replace(exp.alias_(e.copy(), default_name(e, i), quoted=True))
    for column in list(made.find_all(exp.Column)):
        name = column.name.lower()
        if column.table and column.table.lower() != alias:
            return None
        if id(column) in ordered and name in outputs and not column.table:
            continue
        if name in shown:
            value = shown[name].copy()
            column.replace(value if isinstance(value, exp.Column) else exp.Paren(this=value))
        elif stars or (name in outputs and not column.table):
            column.set("table", None)
        else:
            return None
    conditions = [q.args["where"].this for q in (inner, made) if q.args.get("where")]
    made.set("where", exp.Where(this=exp.and_(*conditions)) if conditions else None)
    return made


def _without_aliases(query: exp.Select, alias: str) -> exp.Select:
    for column in query.find_all(exp.Column):
        if column.table.lower() == alias:
            column.set("table", None)
    return query
