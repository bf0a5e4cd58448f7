"""What a table's view makes of its source, read from the text of the view alone.

The view is the one step between a source and `main.<table>`. It may change cells, never rows: each row of the source is
one row of the view, each column is made of the source's column of that name, and columns of ids have the canonical form
(docs/proofs/ids.md). A text of any other form is an InternalError. It shares no code with the writer.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Never

from sqlglot import exp

from discreet.verify.derive import PrivateRows
from discreet.verify.kinds import Kind
from discreet.verify.shapes import columns_in, holds_only, nodes_of, read, reject


def check_views(source: PrivateRows, others: Collection[str] = ()) -> dict[str, dict[str, Kind]]:
    """Return the columns and types in which each table that may be read shows its source.

    Args:
        source: the rows that may be read; a table without a view is connected to nothing, and is left out.
        others: columns of ids of other populations.

    Raises:
        InternalError: a view that does not show its source row by row, or in other columns than are claimed.
    """
    found: dict[str, dict[str, Kind]] = {}
    if source.table is not None and source.view is not None:
        ids = {*others, *([] if source.unit is None else [source.unit])}
        found[source.table] = read_view(source.view, ids)
        if found[source.table].keys() != source.columns:
            _refuse()
    for name, table in source.tables.items():
        if table.view is None:
            continue
        ids = {t.key[2] for t in source.tables.values() if t.key is not None and t.key[1] == name}
        ids |= {c for c in (table.unit, None if table.key is None else table.key[0]) if c is not None}
        found[name] = read_view(table.view, ids)
        if found[name] != {n: kind or "VARCHAR" for n, kind in table.columns.items()}:
            _refuse()
    return found


def read_view(text: str, ids: Collection[str]) -> dict[str, Kind]:
    """Return the columns of a view with their types.

    Args:
        text: the SELECTs of its parts, with placeholders for what their files are.
        ids: the columns of ids.

    Raises:
        InternalError: a part that is not a row-by-row picture of its source.
    """
    return dict(_read_once(text, frozenset(ids)))


@lru_cache(maxsize=64)
def _read_once(text: str, ids: frozenset[str]) -> tuple[tuple[str, Kind], ...]:
    """Return the columns of a view, which follow from its text alone: a session reads the same one for each query."""
    parts, rest = [], read(text)
    while isinstance(rest, exp.Union):
        if rest.args.get("distinct") or not holds_only(rest, {"this", "expression"}):
            _refuse()
        parts.append(rest.expression)
        rest = rest.this
    found = [_part(part, ids) for part in (rest, *parts)]
    if any(list(types.items()) != list(found[0].items()) for types in found):
        _refuse()
    return tuple(found[0].items())


def _part(part: exp.Expr, ids: Collection[str]) -> dict[str, Kind]:
    if not isinstance(part, exp.Select) or not holds_only(part, {"expressions", "from_"}):
        _refuse()
    types: dict[str, Kind] = {}
    for shown in part.expressions:
        if not isinstance(shown, exp.Alias) or shown.alias in types:
            _refuse()
        types[shown.alias] = _column(shown.alias, shown.this, is_id=shown.alias in ids)
    if not set(ids) <= types.keys() or not _is_known(part.args["from_"], list(types), ids):
        _refuse()
    return types


def _column(name: str, cell: exp.Expr, *, is_id: bool) -> str:
    """Return the type of a column, which is made of the source's column of its name, upper and lower case aside."""
    found = {c.name for c in columns_in(cell)}
    if any(c.table for c in columns_in(cell)) or len(found) > 1 or any(f.lower() != name.lower() for f in found):
        _refuse()
    if not all(type(node) in _OF_ONE_ROW for node in nodes_of(cell)):
        _refuse()
    collated = isinstance(cell, exp.Collate)
    if isinstance(cell, exp.Collate):
        if cell.expression.name != "C":
            _refuse()
        cell = cell.this
    if is_id and found:
        kind = "VARCHAR" if collated else "BIGINT"
        if cell != read(f"SELECT {_canonical(found.pop(), kind)}").expressions[0]:
            _refuse()
        return kind
    typed = _type_of(cell)
    if typed is None or collated != (typed == "VARCHAR"):  # a collation of its own makes two texts one
        _refuse()
    return typed


_NODES = (
    "Alias And Ascii Between Boolean Bracket Case Cast Collate Column DataType DataTypeParam EQ GT GTE Identifier If "
    "In Length Literal LTE Neg Null Nullif Or Paren RegexpFullMatch StartsWith Trim Try TryCast Typeof Var"
)
_OF_ONE_ROW = frozenset(getattr(exp, name) for name in _NODES.split(" "))
"""Nodes that are computed of one row."""


def _canonical(name: str, kind: str) -> str:
    """Return the canonical form of the ids in a column, as the proof states it."""
    c = '"' + name.replace('"', '""') + '"'
    s = f"CAST({c} AS VARCHAR)"
    bare = f"ASCII({s}) > 32 AND ASCII(({s})[-1]) > 32"
    t = f"CASE WHEN {bare} THEN {s} ELSE NULLIF(TRIM({s}, ' \t\n\r\v\f'), '') END"
    integers = "TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT HUGEINT UHUGEINT"
    is_whole = f"TYPEOF({c}) IN ({', '.join(repr(i) for i in integers.split())})"
    is_text = f"TYPEOF({c}) IN ('VARCHAR', 'UUID') OR STARTS_WITH(TYPEOF({c}), 'ENUM(')"
    whole, text = f"CAST({c} AS VARCHAR)", t
    if kind == "BIGINT":
        whole = f"TRY_CAST({c} AS BIGINT)"
        text = f"CASE WHEN REGEXP_FULL_MATCH({t}, '0|-?[1-9][0-9]*') THEN TRY_CAST({t} AS BIGINT) END"
    return f"CASE WHEN {is_whole} THEN {whole} WHEN {is_text} THEN {text} END"


def _type_of(cell: exp.Expr) -> str | None:
    """Return the type that explicit casts give an expression; None where there is none."""
    if isinstance(cell, exp.Cast):  # and TRY_CAST
        return "VARCHAR" if cell.to.this is exp.DataType.Type.TEXT else cell.to.sql("duckdb")
    if isinstance(cell, exp.Case):
        ends = [branch.args["true"] for branch in cell.args["ifs"]]
        ends += [cell.args["default"]] if cell.args.get("default") else []
        kinds = {_type_of(end) for end in ends}
        return kinds.pop() if len(kinds) == 1 else None
    return _type_of(cell.this) if isinstance(cell, exp.Nullif | exp.Trim) else None


_PLAIN = "hive_partitioning = FALSE, union_by_name = FALSE, filename = FALSE"
"""Columns come from the files themselves, not from the names of their folders."""


def _is_known(source: exp.Expr, columns: Collection[str], ids: Collection[str]) -> bool:
    """Whether it reads a frame, a table of a database, or files in one of the ways that keep rows apart."""
    table = source.this
    if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
        if table.args.get("catalog") is None:
            return holds_only(table, {"this"}) and table.name.startswith("frame\x01")
        return holds_only(table, {"this", "db", "catalog"}) and table.catalog in ("source", "twin")
    # a key to which tables lead that are not asked has the form of an id as well
    told = {
        a.alias
        for a in source.find_all(exp.Alias)
        if isinstance(a.this, exp.Case) and a.find_ancestor(exp.Subquery) is table
    }
    marks = [
        str(e.expression.this)
        for e in source.find_all(exp.EQ)
        if e.this.name == "delim" and isinstance(e.expression, exp.Literal)
    ]
    known = [
        f"READ_PARQUET($files, {_PLAIN}, utf8_validation = 'replace')",
        *_json(columns, {*ids, *told} & set(columns)),
    ]
    for mark in marks[:1]:
        known += [
            f"READ_CSV($files, auto_detect = FALSE, header = {header}, columns = $header, delim = {_text(mark)}, "
            "quote = '\"', escape = '\"', null_padding = TRUE, ignore_errors = TRUE, strict_mode = FALSE, "
            f"parallel = FALSE, {_PLAIN})"
            for header in ("TRUE", "FALSE")
        ]
    return any(source == read(f"SELECT 1 FROM {text}").args["from_"] for text in known)


def _json(columns: Collection[str], ids: Collection[str]) -> tuple[str, str]:
    """Objects by lines, and those of arrays. An id is a string, or a whole number as it is written."""

    def one(cell: str) -> str:
        whole = f"REGEXP_FULL_MATCH(CAST({cell} AS VARCHAR), '0|-?[1-9][0-9]*')"
        return f"CASE WHEN JSON_TYPE({cell}) = 'VARCHAR' OR {whole} THEN ({cell} ->> '$') END"

    named = {n: '"' + n.replace('"', '""') + '"' for n in columns}
    types = ", ".join(f"{_text(n)}: '{'JSON' if n in ids else 'VARCHAR'}'" for n in columns)
    lines = (
        "READ_JSON($files, auto_detect = FALSE, format = 'newline_delimited', records = 'true', "
        f"columns = {{{types}}}, ignore_errors = TRUE, maximum_object_size = 1073741824, {_PLAIN})"
    )
    if own := [n for n in columns if n in ids]:
        lines = f"(SELECT * REPLACE ({', '.join(f'{one(named[n])} AS {named[n]}' for n in own)}) FROM {lines})"
    at = {n: _text("/" + n.replace("~", "~0").replace("/", "~1")) for n in columns}
    cells = [
        f"{one(f'json_extract(object, {at[n]})')} AS {named[n]}"
        if n in ids
        else f"json_extract_string(object, {at[n]}) AS {named[n]}"
        for n in columns
    ]
    valid = "SELECT CASE WHEN JSON_VALID(object) THEN object END AS object FROM $files"
    return lines, f"(SELECT {', '.join(cells)} FROM ({valid}) WHERE JSON_TYPE(object) = 'OBJECT')"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _refuse() -> Never:
    reject("how a table shows its source")
