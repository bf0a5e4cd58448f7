"""The port to a database, and what a public table holds: values of its columns, or how far they reach, and a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.backends.person_filter import PersonFilter
from discreet.backends.source import identifier, literal
from discreet.catalog.ids import Storage
from discreet.catalog.types import TableShape

Ask: TypeAlias = Callable[[str], Sequence[tuple[Any, ...]]]  # runs a query on the attached tables


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a public table. Nothing of the kind is ever asked of a private one."""

    # column → its distinct values, sorted, None last where a cell is NULL; for columns of few values
    values: Mapping[str, tuple[Any, ...]]
    bounds: Mapping[str, tuple[Any, Any]]  # column of numbers → the least and the largest; for the others
    digest: str  # a SHA-256 of the rows in any order: another when a cell changes
    rows: int  # how many there are
    alike: Mapping[str, int]  # column → in how many of them one value stands at most, NULL aside
    # the different rows of the columns in `values`; none where they are more than `MOST_LISTED`
    listed: tuple[tuple[Any, ...], ...] = ()


MOST_LISTED = 50_000
"""Different rows of a public table that are known one by one, so that its columns can be keys together."""


def contents(ask: Ask, table: str, pinned: TableShape, most: int) -> Contents:
    """Return the contents of an attached table; columns of more than `most` values are told by their bounds."""
    values: dict[str, tuple[Any, ...]] = {}
    bounds: dict[str, tuple[Any, Any]] = {}
    alike: dict[str, int] = {}
    cells: list[str] = []
    for name, kind in pinned.columns.items():
        if kind is None:
            continue
        kind = _spelled(ask, table, name) if pinned.text and kind == "VARCHAR" else kind
        cell = _cell(name, kind)
        source = f"FROM main.{identifier(table)}"
        found = [r[0] for r in ask(f"SELECT DISTINCT {cell} {source} LIMIT {most + 1}")]
        if len(found) <= most:
            values[name] = tuple(sorted(v for v in found if v is not None)) + (None,) * (None in found)
            cells.append(cell)
        elif kind in ("BIGINT", "DOUBLE"):
            [reach] = ask(f"SELECT min({cell}), max({cell}) {source}")
            bounds[name] = (reach[0], reach[1])
        each = f"SELECT {cell} AS v, count(*) AS n {source} GROUP BY v"
        [[alike[name]]] = ask(f"SELECT coalesce(max(n), 0) FROM ({each}) WHERE v IS NOT NULL")
    [[rows]] = ask(f"SELECT count(*) FROM main.{identifier(table)}")
    distinct = f"SELECT DISTINCT {', '.join(cells)} FROM main.{identifier(table)} LIMIT {MOST_LISTED + 1}"
    listed = ask(distinct) if len(cells) > 1 else ()
    kept = tuple(sorted(map(tuple, listed), key=repr)) if len(listed) <= MOST_LISTED else ()
    return Contents(values, bounds, _digest(ask, table, pinned), rows, alike, kept)


_PATTERNS = {
    "BIGINT": "0|-?[1-9][0-9]{0,17}",
    "DOUBLE": "-?(0|[1-9][0-9]{0,17})([.][0-9]{1,18})?",
    "DATE": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
}
"""How all cells of a column in a text file are spelled when they are numbers or dates; '007' is neither."""


def _spelled(ask: Ask, table: str, name: str) -> str:
    """As what the cells of a text file are read: numbers or dates when every one of them is spelled as one."""
    cell = identifier(name)
    tests = ", ".join(
        f"coalesce(bool_and(regexp_full_match({cell}, {literal(p)}) AND TRY_CAST({cell} AS {kind}) IS NOT NULL) "
        f"FILTER (WHERE {cell} IS NOT NULL), false)"
        for kind, p in _PATTERNS.items()
    )
    [found] = ask(f"SELECT {tests} FROM main.{identifier(table)}")
    return next((kind for kind, fits in zip(_PATTERNS, found, strict=True) if fits), "VARCHAR")


def _cell(name: str, kind: str) -> str:
    """Return a cell as a query reads it: what is no number is NULL, and −0.0 is 0; a time that Python lacks is left
    out.
    """
    cell = f"TRY_CAST({identifier(name)} AS {kind})"
    match kind:
        case "DOUBLE":
            return f"CASE WHEN isfinite({cell}) THEN {cell} + 0.0 END"
        case "DATE":
            return f"CASE WHEN {cell} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {cell} END"
        case "TIMESTAMP":
            least, most = "TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'"
            return f"CASE WHEN {cell} BETWEEN {least} AND {most} THEN {cell} END"
        case "VARCHAR":  # a NUL character cannot be declared
            return f"CASE WHEN NOT contains({cell}, chr(0)) THEN {cell} END"
    return cell


def _digest(ask: Ask, table: str, pinned: TableShape) -> str:
    """Return sums of the rows' hashes: the order of rows is nothing, and how often each is there counts."""
    cells = [f"CAST({identifier(n)} AS VARCHAR)" for n, kind in pinned.columns.items() if kind is not None]
    row = " || ".join(f"coalesce(strlen({c}) || ':' || {c}, '-')" for c in cells) or "''"
    halves = ", ".join(f"CAST(sum(CAST(md5_number_{h}({row}) AS HUGEINT)) AS VARCHAR)" for h in ("lower", "upper"))
    [found] = ask(f"SELECT count(*), {halves} FROM main.{identifier(table)}")
    return hashlib.sha256(json.dumps([list(pinned.columns.items()), list(found)]).encode()).hexdigest()


class Backend(Protocol):
    """A database that holds private tables.

    Every method but `rows` is about public facts. After `attach`, `main.<table>` has exactly the pinned
    columns with the
    pinned types, whatever the source holds now: a cell that does not fit is NULL, a missing column is all NULL.
    """

    @property
    def tables(self) -> list[str]:
        """The names of the connected tables."""

    @property
    def views(self) -> list[str]:
        """The names of the database's views, which are not read."""

    def discover(self, table: str) -> TableShape:
        """Return the shape of a table as it is now."""

    def storages(self, table: str, ids: Collection[str]) -> dict[str, set[Storage]]:
        """Return the current storage types of each named column; names are looked up as `attach` does.

        Raises:
            InvalidParameter: a type of which no ids are made.
        """

    def attach(self, table: str, pinned: TableShape, ids: Collection[str] = ()) -> str:
        """Make the table answerable in its pinned shape, with ids in their canonical form (`catalog/ids.py`).

        Returns:
            The text of its view, without what files are now: what the second derivation reads.

        Raises:
            SourceError: there is no file any more, or none that can be read.
        """

    def refresh(self) -> dict[str, str]:
        """Attach again the tables whose sources were written since, and return the text of each table's view.

        Raises:
            SourceError: as `attach`.
        """

    def contents(self, table: str, pinned: TableShape, most: int) -> Contents:
        """Return what a public table holds, once it is attached; columns of more than `most` values by their bounds.

        Raises:
            SourceError: it cannot be read.
        """

    def rehearse(self, sql: str, parameters: Mapping[str, int | str]) -> None:
        """Run a query on empty tables of the pinned shape.

        Raises:
            InternalError: it cannot run.
            SourceError: the backend is closed, or is a forked child's copy.
        """

    def rows(self, sql: str, parameters: Mapping[str, int]) -> list[tuple[Any, ...]]:
        """Run a query on the data; any failure is BackendFailed, with no text from the data.

        Each statement is answered from one state of the sources. Where they do not stay as they are while it runs, also
        not when it is repeated, it is answered as if the tables were empty.
        """

    def columns(self, sql: str, parameters: Mapping[str, int]) -> list[NDArray[np.int64]]:
        """Run a query of whole numbers of 64 bits, none of them NULL, as `rows` does, and return its columns."""

    def check_person_filter(self) -> None:
        """Look, before anything is charged, whether this database hashes ids and leaves people out as it has to.

        Raises:
            InternalError: it does not.
        """

    def person_filter(self, tables: Mapping[str, str]) -> AbstractContextManager[PersonFilter]:
        """Return a connection of one query, on which people can be left out of these tables: name → column of ids."""

    def close(self) -> None:
        """Lets go of the database."""
