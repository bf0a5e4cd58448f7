"""DuckDB: files, data frames and DuckDB databases, each read in its pinned shape."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from discreet.backends.backend import Contents, contents
from discreet.backends.connection import (
    LEAVES,
    Fetch,
    bits_of_a_key,
    columns_of,
    open_database,
    redacting_errors,
    rows_about,
    rows_of,
    steadily,
)
from discreet.backends.person_filter import PersonFilter, check_person_filter
from discreet.backends.source import Scan, Source, State, first_twin, found_as, identifier, projection, read_together
from discreet.backends.sources import foreign_keys, open_source, views_beside
from discreet.catalog.ids import Storage
from discreet.catalog.types import TableShape
from discreet.errors import DiscreetError, InternalError, InvalidParameter, SourceError
from discreet.verify.view import read_view

T = TypeVar("T")

_AGAIN = 2  # number of times that a read is repeated when its files were written meanwhile


@dataclass(frozen=True, slots=True)
class Attached:
    """A table as it was attached."""

    pinned: TableShape  # its shape
    ids: frozenset[str]  # its columns of ids
    state: State  # the state of its source just before that
    form: str  # the text of its view, with placeholders for the files


class DuckDB:
    """The DuckDB backend: one in-memory database with a view for each source, and a twin with empty tables."""

    def __init__(self, sources: Mapping[str, object] | object, *, names: Sequence[str] | None = None) -> None:
        self._process = os.getpid()
        self._closed = False
        self._data = open_database()
        (self._threads,) = self._data.execute("SELECT current_setting('threads')").fetchall()[0]
        self._rows: dict[str, int] = {}  # of the tables that were asked for, about
        self._data.execute("ATTACH ':memory:' AS twin")
        self._twin = self._data.cursor()
        self._twin.execute("USE twin")  # on this connection, main.<table> is the empty one
        self._rehearsing = threading.Lock()
        self._attached: dict[str, Attached] = {}
        self._frames: dict[tuple[str, frozenset[str]], Mapping[str, Any]] = {}  # made once for each set of ids
        self._attaching = threading.RLock()
        try:
            self._sources: dict[str, Source] = open_source(sources, self._data, names)
            self.tables, self.views = list(self._sources), views_beside(self._data)
        except BaseException:
            self.close()
            raise

    def discover(self, table: str) -> TableShape:
        """Return the shape of a table as it is now; text sources are read as text."""
        source = self._sources[table]
        kinds: dict[str, set[str]] = {}
        for _, described in self._parts(table):
            for name, kind in described.items():
                kinds.setdefault(name, set()).add(kind)
        columns = {n: "VARCHAR" if source.text else read_together(found) for n, found in kinds.items()}
        if twin := first_twin(columns):
            raise SourceError(
                f"Table {table!r} has two columns called {twin!r}.",
                hint="rename one; upper and lower case make no difference",
            )
        return TableShape(columns, source.text, source.delimiter)

    def foreign_keys(self) -> dict[str, list[str]]:
        """Return the foreign keys that a DuckDB database declares, by table, each as `column -> table.key`."""
        return foreign_keys(self._data)

    def storages(self, table: str, ids: Collection[str]) -> dict[str, set[Storage]]:
        """Return the current storage types of each named column; none for a column that is not there."""
        source = self._sources[table]
        if source.text:
            return {n: {Storage.CELLS} for n in ids}
        untyped = {n.lower() for n in source.untyped}
        found: dict[str, set[Storage]] = {n: set() for n in ids}
        for _, described in self._parts(table):
            for name, there in found_as(ids, described).items():
                stored = Storage.CELLS if name.lower() in untyped else Storage.of(described[there])
                if stored is None:
                    raise _no_id(table, name, described[there], source)
                found[name].add(stored)
        return found

    def attach(self, table: str, pinned: TableShape, ids: Collection[str] = ()) -> str:
        """Create `main.<table>` in its pinned shape, and return the form of its view."""
        name, texts, forms = f"main.{identifier(table)}", [], []
        empty = ", ".join(f"{identifier(n)} {kind or 'VARCHAR'}" for n, kind in pinned.columns.items())
        with self._attaching:  # from the state on: no view of an earlier state takes the place of a later one
            state = self._sources[table].state()
            parts = self._parts(table, pinned, ids)
            for scan, now in parts or [(Scan(f"twin.{name}"), {})]:  # no file of it has even a header
                shown = projection(now, pinned, ids)
                texts.append(f"SELECT {shown} FROM {scan.sql}")
                forms.append(f"SELECT {shown} FROM {scan.form}")
            cursor = self._connection(table, ids)
            with self._reading(table):
                if table not in self._attached:
                    self._twin.execute(f"CREATE OR REPLACE TABLE {name} ({empty})")
                cursor.execute(f"CREATE OR REPLACE VIEW {name} AS {' UNION ALL '.join(texts)}")
            form = " UNION ALL ".join(dict.fromkeys(sorted(forms)))
            wanted = {n: kind or "VARCHAR" for n, kind in pinned.columns.items()}
            if read_view(form, ids) != wanted:
                raise InternalError(f"The view of table {table!r} is not in its pinned shape.")
            self._attached[table] = Attached(pinned, frozenset(ids), state, form)
        return form

    def refresh(self) -> dict[str, str]:
        """Attach again the tables whose files were written since, and return the form of each table's view."""
        self._check_open()
        for table, attached in list(self._attached.items()):
            if self._sources[table].state() != attached.state:
                self.storages(table, attached.ids)
                self.attach(table, attached.pinned, attached.ids)
        return {table: attached.form for table, attached in self._attached.items()}

    def contents(self, table: str, pinned: TableShape, most: int) -> Contents:
        """Return what a public table holds, as it is attached."""
        self._check_open()
        with self._reading(table), self._connection() as cursor:
            return contents(lambda sql: cursor.execute(sql).fetchall(), table, pinned, most)

    def rehearse(self, sql: str, parameters: Mapping[str, int | str]) -> None:
        """Run a query on the empty twin, so that a query that cannot run is found before anything is charged."""
        self._check_open()
        try:
            self._on_twin(sql, parameters, rows_of)
        except duckdb.Error as error:
            raise InternalError(
                f"The database does not accept the SQL of this query ({type(error).__name__}). Nothing was charged.",
                hint="please report the query",
            ) from error

    def rows(self, sql: str, parameters: Mapping[str, int]) -> list[tuple[Any, ...]]:
        """Run a query on the data as it stands at one moment.

        A file that was written meanwhile is read again, at most twice; then the result is that of empty tables.
        """
        return self._at_one_moment(sql, parameters, rows_of)

    def columns(self, sql: str, parameters: Mapping[str, int]) -> list[NDArray[np.int64]]:
        """Run a query of whole numbers as `rows` does, and return its columns."""
        return self._at_one_moment(sql, parameters, columns_of)

    def _at_one_moment(self, sql: str, parameters: Mapping[str, int], fetch: Fetch[T]) -> T:
        self._check_open()
        asked = [t for t in self._attached if f"main.{identifier(t)}" in sql]
        forms = {t: self._attached[t].form for t in asked}
        for again in range(1 + _AGAIN):
            if again and not self._attach_again(asked, forms):
                break
            before = {t: self._attached[t] for t in asked}
            read = partial(self._read, asked, sql, parameters, fetch)
            if found := steadily(read, partial(self._is_current, before)):
                return found[0]
        return self._of_nobody(sql, parameters, fetch)

    def _read(self, asked: Sequence[str], sql: str, parameters: Mapping[str, int], fetch: Fetch[T]) -> T:
        with self._connection() as cursor:
            for table in asked:
                if table not in self._rows:
                    self._rows[table] = rows_about(cursor, table)
            rows = max((self._rows[t] for t in asked), default=0)
            bits = bits_of_a_key(sql, rows=rows, threads=self._threads)
            if bits != LEAVES:
                cursor.execute(f"SET SESSION perfect_ht_threshold = {bits}")
            return fetch(cursor.execute(sql, dict(parameters)))

    def _of_nobody(self, sql: str, parameters: Mapping[str, Any], fetch: Fetch[T]) -> T:
        """Return the result of empty tables."""
        return redacting_errors(lambda: self._on_twin(sql, parameters, fetch))

    def _on_twin(self, sql: str, parameters: Mapping[str, Any], fetch: Fetch[T]) -> T:
        with self._rehearsing:
            return fetch(self._twin.execute(sql, dict(parameters)))

    def _attach_again(self, tables: Collection[str], forms: Mapping[str, str]) -> bool:
        """Whether the tables could be attached as they are now, in the views that were charged for."""
        try:
            return all(self.attach(t, self._attached[t].pinned, self._attached[t].ids) == forms[t] for t in tables)
        except (DiscreetError, OSError):  # it is gone or broken, or needs a package that is not there
            return False

    def _is_current(self, attached: Mapping[str, Attached]) -> bool:
        try:
            return all(
                self._attached[t] is found and self._sources[t].state() == found.state for t, found in attached.items()
            )
        except SourceError:
            return False

    def check_person_filter(self) -> None:
        """Look, before anything is charged, whether this database hashes ids and leaves people out as it has to."""
        self._check_open()
        check_person_filter(self._data)

    @contextmanager
    def person_filter(self, tables: Mapping[str, str]) -> Iterator[PersonFilter]:
        """Give a connection of one query's own, on which people can be left out of these tables: name → column of ids.

        Whoever was charged is who is read: once a file was written, all results are those of empty tables.
        """
        self._check_open()
        before = dict(self._attached)
        with redacting_errors(self._connection) as cursor:
            yield PersonFilter(cursor, tables, partial(self._is_current, before), self._of_nobody)

    def close(self) -> None:
        """Close both connections."""
        self._closed = True
        self._data.close()
        self._twin.close()

    def _connection(self, table: str = "", ids: Collection[str] = ()) -> duckdb.DuckDBPyConnection:
        """Return a connection of one query's own; data frames are known to a connection only.

        `table` is one that is about to be attached, with these columns of ids.
        """
        cursor = self._data.cursor()
        cursor.execute("SET enable_progress_bar = false")
        for name, source in self._sources.items():
            attached = self._attached.get(name)
            of = ids if name == table else () if attached is None else attached.ids
            made = (name, frozenset(of))
            if made not in self._frames:
                self._frames[made] = source.frames(of)
            for view, frame in list(self._frames[made].items()):
                cursor.register(view, frame)
        return cursor

    def _check_open(self) -> None:
        """Refuses, before anything is charged, what would hang or fail: a closed session, and a forked child's copy."""
        if self._closed:
            raise SourceError("The session is closed.", hint="connect again")
        if self._process != os.getpid():
            raise SourceError(
                "A session cannot be used in a forked child: the database's threads stayed in the parent.",
                hint="connect in the child; the ledger is shared",
            )

    def _parts(
        self, table: str, pinned: TableShape | None = None, ids: Collection[str] = ()
    ) -> list[tuple[Scan, dict[str, str]]]:
        """Return the scans of a table now, each with its columns and DuckDB's types of them."""
        with self._attaching, self._reading(table):  # a source keeps what its last scans need
            scans, parts = self._sources[table].scans(pinned, ids), []
            for scan in scans:
                described = self._connection().execute(f"DESCRIBE SELECT * FROM {scan.sql}").fetchall()
                parts.append((scan, {str(row[0]): str(row[1]) for row in described}))
            return parts

    @contextmanager
    def _reading(self, table: str) -> Iterator[None]:
        """Refuse a source that the database cannot read."""
        try:
            yield
        except duckdb.Error:
            raise SourceError(
                f"The source of table {table!r} cannot be read as {self._sources[table].kind}.",
                hint="check that its files are complete and of the kind that their names say",
            ) from None


def _no_id(table: str, column: str, kind: str, source: Source) -> InvalidParameter:
    """Return what to do about ids of a type that has no canonical spelling."""
    to = "BIGINT" if kind in ("FLOAT", "DOUBLE", "BIGNUM") or kind.startswith("DECIMAL") else "VARCHAR"
    name = identifier(column)
    if source.kind != "a data frame":
        select = f"SELECT * REPLACE (CAST({name} AS {to}) AS {name})"
        copy = f"COPY ({select} FROM 'old.parquet') TO 'new.parquet'"
        hint = copy if source.kind == "Parquet" else f"CREATE TABLE new AS {select} FROM {identifier(table)}"
    else:
        hint = f"frame[{column!r}] = frame[{column!r}].astype({'Int64' if to == 'BIGINT' else 'string'!r})"
    return InvalidParameter(
        f"The ids {column!r} of table {table!r} are stored as {kind if len(kind) < 40 else 'a nested value'}: "
        "ids are whole numbers or text.",
        hint=hint,
    )
