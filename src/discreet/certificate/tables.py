"""Whether a claim has the tables as the ledger fixed them: their columns, and whose their rows are."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from typing import Any

from discreet.rederive.derive import Source


def names_of(source: Source) -> tuple[str, ...]:
    """The tables that may be read."""
    return tuple(source.tables) if source.table is None else (source.table,)


def types_of(source: Source, pinned: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str | None]]:
    """The tables that may be read, each with its columns and the types as which they are read."""
    return {name: _columns(pinned[name.casefold()]) for name in names_of(source)}


def is_pinned(
    source: Source, pinned: Mapping[str, Mapping[str, Any]], others: Collection[tuple[str, str]] = ()
) -> bool:
    """Whether the rows are as the ledger has them: `pinned` has each table's schema, by its name in lower case.

    `others` are the other populations that each row belongs to as well, with the columns of their ids: no more and no
    less than the ledger has, so that a claim for one of two populations is never taken for all that was promised.
    """
    if any(_others(pinned[name.casefold()]) != set(others) for name in names_of(source)):
        return False
    if source.table is not None:
        schema = pinned[source.table.casefold()]
        owner = (schema.get("unit"), schema.get("reached"), bool(schema.get("public")))
        return set(_columns(schema)) == source.columns and owner == (source.unit, None, False)
    for name, table in source.tables.items():
        schema = pinned[name.casefold()]
        key = None if table.key is None else [table.key[0], table.key[1].casefold(), table.key[2]]
        unit = schema.get("unit") if key is None else None
        owner = (unit, schema.get("reached"), bool(schema.get("public")))
        if _columns(schema) != dict(table.columns) or owner != (table.unit, key, table.public):
            return False
    return True


def shows(views: Mapping[str, Mapping[str, Any]], pinned: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether all tables show their sources in the columns and types that were fixed."""
    wanted = {
        name: {n: kind or "VARCHAR" for n, kind in _columns(pinned[name.casefold()]).items()}
        for name in views
    }
    return dict(views) == wanted


def _others(schema: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The other populations of a table's rows, as accounts are named, with the columns of their ids."""
    return {(unicodedata.normalize("NFC", name), column) for name, column in schema.get("others", ())}


def _columns(schema: Mapping[str, Any]) -> dict[str, str | None]:
    return dict(schema["columns"])
