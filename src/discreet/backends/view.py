"""The view of a table: each column of its source, by name and with an explicit cast, in its pinned shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from discreet.backends.source import identifier
from discreet.catalog.ids import INTEGERS, WIDE_INTEGERS, id_sql
from discreet.catalog.shape import TableShape

_TYPES = {
    "BOOLEAN": "BOOLEAN",
    **dict.fromkeys((*INTEGERS, *WIDE_INTEGERS, "BIGNUM"), "BIGINT"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "DOUBLE"),
    **dict.fromkeys(("VARCHAR", "UUID", "TIME", "TIME_NS", "ENUM", '"NULL"'), "VARCHAR"),
    "DATE": "DATE",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "TIMESTAMP"),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"), "TIMESTAMP"),
}
"""DuckDB's types → the type as which a column is read; other types cannot be asked about."""


_EXACT = {"FLOAT": 1 << 24, "DOUBLE": 1 << 53}
"""Types of real numbers → where several whole numbers begin to be rounded to one."""


LONGEST = 65_536
"""Characters of a text cell; a longer one is NULL, since each query that reads it would copy it."""

_FIRST = {"DATE": "5877642-06-25 (BC)", "TIMESTAMP": "290309-12-22 (BC) 00:00:00"}
"""The first day and time that the database has: a file may hold ones before, on which a cast stops it."""


def read_together(kinds: Collection[str]) -> str | None:
    """Return the type of a column whose files store it in these: the one type that holds all of them, else text."""
    found = {read_as(k) for k in kinds}
    if len(found) == 1:
        return found.pop()
    if None in found:
        return None
    if found == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return "TIMESTAMP" if found == {"DATE", "TIMESTAMP"} else "VARCHAR"


def found_as(columns: Collection[str], described: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that are there, each with its name there: upper and lower case aside if not as it is."""
    lowered = {n.lower(): n for n in reversed(list(described))}
    names = {c: c if c in described else lowered.get(c.lower()) for c in columns}
    return {c: there for c, there in names.items() if there is not None}


def projection(described: Mapping[str, str], pinned: TableShape, ids: Collection[str]) -> str:
    """Return the SELECT list that shows a part of a table in the pinned shape.

    Args:
        described: its columns now, with the database's types.
        pinned: the shape.
        ids: the columns of ids, whose canonical form is shown.
    """
    found, shown = found_as(pinned.columns, described), []
    for name, kind in pinned.columns.items():
        there = found.get(name)
        if kind is None or there is None:
            cell = f"CAST(NULL AS {kind or 'VARCHAR'})"
        elif name in ids:
            cell = id_sql(identifier(there), kind)
        else:
            cell = _value(identifier(there), described[there], kind, bare=pinned.text)
        # A collation would make two texts one: a key would match twice, two ids would share one cap, and the spelling
        # that is shown of a group would be some person's own
        shown.append(f"{cell}{' COLLATE C' if kind in (None, 'VARCHAR') else ''} AS {identifier(name)}")
    return ", ".join(shown)


def _value(cell: str, now: str, kind: str, *, bare: bool) -> str:
    """Return a cell in its pinned type, NULL where it does not fit; `bare` where cells lose the spaces around them."""
    value = f"TRY_CAST({cell} AS {kind})" if now == kind else _cast(cell, now, kind)
    value = f"nullif(trim({value}), '')" if bare and kind == "VARCHAR" else value
    if kind == now == "VARCHAR":
        return f"CASE WHEN length({cell}) <= {LONGEST} THEN {value} END"
    if kind in _FIRST and now != "VARCHAR":
        return f"CASE WHEN {value} >= {kind} '{_FIRST[kind]}' OR {value} = {kind} '-infinity' THEN {value} END"
    return value


def read_as(kind: str) -> str | None:
    """Return the type as which a type of the database is read; None of one that cannot be asked about."""
    if kind.startswith("DECIMAL") and not kind.endswith("]"):
        return "DOUBLE"
    if kind.startswith("ENUM(") and not kind.endswith("]"):
        return "VARCHAR"
    return _TYPES.get(kind)


def _cast(cell: str, now: str, kind: str) -> str:
    """Return the cell in another type, so that one id stays one id: 1.0 is 1, and 1.4 is no whole number."""
    if now == "TIMESTAMPTZ_NS" and kind != "VARCHAR":  # which casts to no time without a zone
        cell = f"TRY_CAST({cell} AS TIMESTAMP WITH TIME ZONE)"
    if now == "BIGNUM":  # its own cast to a narrower type stops the whole database
        cell = f"CAST({cell} AS VARCHAR)"
    plain = f"TRY_CAST({cell} AS {kind})"
    is_decimal = now.startswith("DECIMAL")
    if kind == "BIGINT" and now in _EXACT:
        most = _EXACT[now]
        exact = f"{plain} BETWEEN {1 - most} AND {most - 1}"
        return f"CASE WHEN {cell} = TRY_CAST({plain} AS DOUBLE) AND {exact} THEN {plain} END"
    if kind == "BIGINT" and (now == "VARCHAR" or is_decimal):
        exact = f"TRY({cell} = {plain})" if is_decimal else f"TRY_CAST({cell} AS DECIMAL(38, 18)) = {plain}"
        return f"CASE WHEN {exact} THEN {plain} END"
    if kind == "VARCHAR" and (now in _EXACT or is_decimal):
        whole = f"TRY_CAST({cell} AS HUGEINT)"
        shortest = f"rtrim({plain}, '0')" if is_decimal else plain  # 1.50 is 1.5, whatever the column's scale
        return f"CASE WHEN TRY({cell} = {whole}) THEN CAST({whole} AS VARCHAR) ELSE {shortest} END"
    return plain
