"""Spellings of a query that DuckDB does not have, as it does: names of aggregates, schemas of tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import sqlglot
from sqlglot import exp

SCHEMAS = ("main", "public", "dbo")
"""Schemas that databases give a table of which no schema is said."""
_SYSTEM = ("information_schema", "pg_catalog", "sys", "temp", "system")
SAID = "read as"
"""The key of a tree's notes of what was read as something else."""

_AGGREGATES: dict[str, type[exp.Expr]] = {
    "var": exp.Variance,
    "varp": exp.VariancePop,
    "std": exp.StddevSamp,
    "stdev_samp": exp.StddevSamp,
    "stdevp": exp.StddevPop,
}
"""Names in lower case that other databases and frames have: of a sample, but for those with a P."""


_SQLITE = {
    "total": "coalesce(sum(x), 0.0)",
    "julianday": "(epoch(CAST(x AS TIMESTAMP)) / 86400.0 + 2440587.5)",
    "unixepoch": "CAST(floor(epoch(CAST(x AS TIMESTAMP))) AS BIGINT)",
}
"""SQLite's functions of one argument that DuckDB does not have, by what they are of x."""


def respelled(tree: exp.Query, tables: Sequence[str]) -> None:
    """Put DuckDB's spelling in place of others; `tables` are the names of the connected tables."""
    for node in list(tree.find_all(*_CONDITIONS)):
        made = _CONDITIONS[type(node)](node)
        if made is not None:
            node.replace(made)
    for node in list(tree.find_all(exp.Anonymous)):
        kind = _AGGREGATES.get(node.name.lower())
        if kind is not None and len(node.expressions) == 1:
            node.replace(kind(this=node.expressions[0]))
        elif (text := _SQLITE.get(node.name.lower())) and len(node.expressions) == 1:
            of = node.expressions[0]
            if not isinstance(of, exp.Literal) or of.name[:1].isdigit():  # 'now' is no value
                made = sqlglot.parse_one(text, dialect="duckdb")
                next(made.find_all(exp.Column)).replace(of.copy())
                node.replace(made)
    for found in list(tree.find_all(exp.ApproxDistinct)):
        if not found.args.get("accuracy"):
            found.replace(exp.Count(this=exp.Distinct(expressions=[found.this])))
    for distinct in list(tree.find_all(exp.Distinct)):
        if isinstance(distinct.parent, exp.Count):
            _count_one(distinct)
    for fetch in list(tree.find_all(exp.Fetch)):
        options = fetch.args.get("limit_options")
        plain = options is None or not (options.args.get("percent") or options.args.get("with_ties"))
        if fetch.parent is not None and plain and fetch.args.get("count") is not None:
            fetch.parent.set("limit", exp.Limit(expression=fetch.args["count"]))
    _unqualify(tree, tables)


def symmetric(node: exp.Expr) -> exp.Expr | None:
    """Read x BETWEEN SYMMETRIC a AND b: the ends in either order."""
    if not node.args.get("symmetric"):
        return None
    ends = node.args["low"], node.args["high"]
    either = [exp.Between(this=node.this.copy(), low=a.copy(), high=b.copy()) for a, b in (ends, ends[::-1])]
    return exp.Paren(this=exp.Or(this=either[0], expression=either[1]))


def listed(node: exp.Expr, equal: type[exp.Expr] = exp.NullSafeEQ) -> exp.Expr | None:
    """Read x IN (VALUES (1), (2)) as IN (1, 2), and (a, b) IN ((1, 2), (3, 4)) as conditions on a and b.

    DuckDB compares the parts of a tuple as `equal`, and NULL is equal to NULL there.
    """
    options = node.expressions
    match options:
        case [exp.Values(expressions=rows, args={"alias": None} | {})]:
            options = rows
    options = [o.expressions[0] if o.key == "tuple" and len(o.expressions) == 1 else o for o in options]
    if node.this.key == "tuple":
        pairs = [equal_tuples(exp.EQ(this=node.this, expression=o), equal) for o in options]
        met = [p for p in pairs if p is not None]
        return exp.paren(exp.or_(*met), copy=False) if met and len(met) == len(pairs) else None
    return (
        None if options == node.expressions else exp.In(this=node.this.copy(), expressions=[o.copy() for o in options])
    )


def equal_tuples(node: exp.Expr, equal: type[exp.Expr] = exp.NullSafeEQ) -> exp.Expr | None:
    """Read (a, b) = (1, 2), part by part."""
    one, other = node.this, node.expression
    if {one.key, other.key} != {"tuple"} or len(one.expressions) != len(other.expressions):
        return None
    parts = [equal(this=a.copy(), expression=b.copy()) for a, b in zip(one.expressions, other.expressions, strict=True)]
    return exp.paren(exp.and_(*parts), copy=False)


def _format_first(node: exp.Expr) -> exp.Expr | None:
    """strftime('%Y', x), whose arguments DuckDB takes in either order."""
    form = node.args["format"]
    if node.this.key != "literal" or form.key == "literal":
        return None
    return exp.TimeToStr(this=form.copy(), format=node.this.copy())


_CONDITIONS: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr | None]] = {
    exp.Between: symmetric,
    exp.In: listed,
    exp.EQ: equal_tuples,
    exp.TimeToStr: _format_first,
}
"""Conditions and functions, and what stands in their place; None where they stay."""


def _count_one(node: exp.Distinct) -> None:
    """Read COUNT(DISTINCT a, b), where both are known, and COUNT(DISTINCT (a, b)), of all rows, as of one text."""
    parts, whole = node.expressions, False
    if len(parts) == 1 and isinstance(parts[0], exp.Tuple):
        parts, whole = parts[0].expressions, True
    if len(parts) < 2:
        return
    texts = [exp.cast(p.copy(), exp.DataType.Type.TEXT) for p in parts]
    told = [
        exp.func("concat", exp.cast(exp.Length(this=t.copy()), exp.DataType.Type.TEXT), exp.Literal.string(":"), t)
        for t in texts
    ]
    known = [exp.Not(this=exp.Is(this=p.copy(), expression=exp.Null())) for p in parts]
    if whole:
        listed = [
            exp.Case(ifs=[exp.If(this=k, true=t)], default=exp.Literal.string("-"))
            for k, t in zip(known, told, strict=True)
        ]
        value: exp.Expr = exp.func("concat", *listed)
    else:
        value = exp.Case(ifs=[exp.If(this=exp.and_(*known), true=exp.func("concat", *told))])
    node.set("expressions", [value])


def _unqualify(tree: exp.Query, tables: Sequence[str]) -> None:
    """Read `main.t` and `catalog.main.t` as `t`, and `sales.orders` as the table that is connected under that name."""
    known = {name.lower(): name for name in tables}
    named = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    schemas: set[str] = set()
    places = {
        (t.name.lower(), "" if t.db.lower() in SCHEMAS else f"{t.catalog}.{t.db}".lower().strip("."))
        for t in tree.find_all(exp.Table)
    }
    several = {name for name, times in Counter(name for name, _ in places).items() if times > 1}
    for table in tree.find_all(exp.Table):
        schema = table.db
        if not schema or not isinstance(table.this, exp.Identifier):
            continue
        whole = known.get(f"{schema}.{table.name}".lower())
        if whole is not None:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=table.this.copy()))
            table.set("this", exp.to_identifier(whole, quoted=True))
        elif schema.lower() in _SYSTEM or table.name.lower() in named or table.name.lower() not in known:
            continue
        elif schema.lower() not in SCHEMAS:
            elsewhere = any(name.endswith(f".{table.name}".lower()) for name in known)
            if table.name.lower() in several or elsewhere:  # `a.visits`, `b.visits` are not both the one connected
                continue
            said = f"{table.sql('duckdb', comments=False).partition(' AS ')[0]} is read as the connected table"
            tree.meta.setdefault(SAID, []).append(f"{said} {known[table.name.lower()]!r}.")
        table.set("db", None)
        table.set("catalog", None)
        schemas.add(schema.lower())
    for column in tree.find_all(exp.Column) if schemas else ():
        if column.db.lower() in schemas:
            column.set("db", None)
            column.set("catalog", None)
