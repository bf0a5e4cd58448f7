"""Columns of ids that are compared with each other, and the one kind of ids that they hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from discreet.backends.backend import Pinned
from discreet.catalog.ids import Place, one_kind
from discreet.tables.owners import Owner

if TYPE_CHECKING:
    from discreet.backends.backend import Backend


def id_columns(owners: Mapping[str, Owner], table: str) -> set[str]:
    """Return the columns of a table that hold ids: its unit's, another table's rows', or its own for others."""
    keys = {o.reached.key for o in owners.values() if o.reached is not None and o.reached.table == table}
    owner = owners[table]
    own = owner.reached.column if owner.reached is not None else owner.column
    return keys if own is None else keys | {own}


def with_id_kinds(
    backend: Backend, shapes: Mapping[str, Pinned], owners: Mapping[str, Owner], known: Collection[str]
) -> dict[str, Pinned]:
    """Return the shapes with each linked set of ids read as one kind (`catalog/ids.py`).

    Linked are all columns that hold the unit's id, and each foreign key with the key that it leads to. Tables that are
    `known` were pinned, and are left as they are.

    Raises:
        InvalidParameter: ids of a type that has none, or of kinds that are not compared.
    """
    stored = {
        (table, column): found
        for table in owners
        for column, found in backend.storages(table, id_columns(owners, table)).items()
    }
    read = dict(shapes)
    for group in _linked(owners):
        pinned = {(t, c): str(shapes[t].columns[c]) for t, c in group if t in known}
        kind = one_kind({place: stored[place] for place in group}, pinned)
        for table, column in group:
            if table not in known:
                read[table] = replace(read[table], columns={**read[table].columns, column: kind})
    return read


def _linked(owners: Mapping[str, Owner]) -> list[list[Place]]:
    """Return the sets of columns that are compared with each other, a column alone among them."""
    groups = [[(table, column)] for table in owners for column in sorted(id_columns(owners, table))]
    units = [(t, o.column) for t, o in owners.items() if o.column is not None]
    edges = [(units[0], other) for other in units[1:]]
    for table, owner in owners.items():
        if (key := owner.reached) is not None:
            edges.append(((table, key.column), (key.table, key.key)))
    for one, other in edges:
        touched = [g for g in groups if one in g or other in g]
        groups = [g for g in groups if g not in touched] + [[place for g in touched for place in g]]
    return groups
