"""DuckDB: files, data frames and DuckDB databases, each read in its pinned shape."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from discreet.backends.backend import Pinned
from discreet.backends.sources import Source, open_source
from discreet.errors import BackendFailed, InternalError, SourceError

_TYPES = {
    "BOOLEAN": "BOOLEAN",
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), "BIGINT"
    ),
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT"), "BIGINT"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "DOUBLE"),
    **dict.fromkeys(("VARCHAR", "UUID", "TIME", "ENUM"), "VARCHAR"),
    "DATE": "DATE",
    **dict.fromkeys(
        ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"), "TIMESTAMP"
    ),
}
"""DuckDB's types → the type as which a column is read; other types cannot be asked about."""

_SETTINGS = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_progress_bar = false",
    "SET preserve_insertion_order = false",  # nothing depends on the order of rows; less memory
)


class DuckDB:
    """The DuckDB backend: one in-memory database with a view for each source, and a twin with empty tables."""

    def __init__(self, sources: Mapping[str, object] | object, *, names: Sequence[str] | None = None) -> None:
        self._data = _connection()
        self._twin = _connection()
        self._lock = threading.Lock()
        self._sources: dict[str, Source] = open_source(sources, self._data, names)

    @property
    def tables(self) -> list[str]:
        """The names of the connected tables."""
        return list(self._sources)

    def discover(self, table: str) -> Pinned:
        """The shape of a table as it is now; text sources are read as text."""
        source = self._sources[table]
        columns = {
            name: "VARCHAR" if source.text else _read_as(kind)
            for name, kind in self._shape(table, None).items()
        }
        lowered = [c.lower() for c in columns]
        twins = sorted({c for c in columns if lowered.count(c.lower()) > 1})
        if twins:
            raise SourceError(
                f"Table {table!r} has two columns called {twins[0]!r}.", hint="rename one of them"
            )
        return Pinned(columns, source.text, source.delimiter)

    def attach(self, table: str, pinned: Pinned) -> None:
        """Creates `main.<table>` in its pinned shape."""
        now = self._shape(table, pinned)
        shown = [_as_pinned(name, kind, now.get(name), pinned.text) for name, kind in pinned.columns.items()]
        scan = self._sources[table].scan(pinned)
        try:
            self._data.execute(
                f"CREATE OR REPLACE VIEW main.{_quoted(table)} AS SELECT {', '.join(shown)} FROM {scan}"
            )
        except duckdb.Error:
            raise SourceError(
                f"Table {table!r} cannot be read.", hint="check that its source is a readable file"
            ) from None
        empty = ", ".join(f"{_quoted(n)} {kind or 'VARCHAR'}" for n, kind in pinned.columns.items())
        self._twin.execute(f"CREATE OR REPLACE TABLE main.{_quoted(table)} ({empty})")

    def rehearse(self, sql: str, parameters: Mapping[str, int]) -> None:
        """Runs a query on the empty twin, so that a query that cannot run is found before anything is charged."""
        try:
            with self._lock:
                self._twin.execute(sql, dict(parameters)).fetchall()
        except duckdb.Error as error:
            raise InternalError(
                f"The database does not accept the SQL of this question ({type(error).__name__}). Nothing was charged.",
                hint="please report the question",
            ) from error

    def rows(self, sql: str, parameters: Mapping[str, int]) -> list[tuple[Any, ...]]:
        """Runs a query on the data."""
        cursor = self._data.cursor()
        try:
            return cursor.execute(sql, dict(parameters)).fetchall()
        except (duckdb.Error, MemoryError, RuntimeError, UnicodeError, OverflowError, ValueError):
            # The database's own words may quote a cell, and its exception would stay reachable as the context
            failed = True
        finally:
            cursor.close()
        assert failed
        raise BackendFailed(
            "The database failed while it ran the question. The charge stands: a failure may depend on the data.",
            hint="check that the source is still there and readable; the question can be asked again",
        )

    def close(self) -> None:
        """Closes both connections."""
        self._data.close()
        self._twin.close()

    def _shape(self, table: str, pinned: Pinned | None) -> dict[str, str]:
        scan = self._sources[table].scan(pinned)
        try:
            described = self._data.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
        except duckdb.Error:
            raise SourceError(
                f"The source of table {table!r} cannot be read as {self._sources[table].kind}.",
                hint="check that the file is complete and of the kind that its name says",
            ) from None
        return {str(row[0]): str(row[1]) for row in described}


def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    for setting in _SETTINGS:
        connection.execute(setting)
    return connection


def _read_as(kind: str) -> str | None:
    if kind.startswith("DECIMAL") and not kind.endswith("]"):
        return "DOUBLE"
    if kind.startswith("ENUM(") and not kind.endswith("]"):
        return "VARCHAR"
    return _TYPES.get(kind)


def _as_pinned(name: str, kind: str | None, now: str | None, text: bool) -> str:
    """One column of the view: the cell in its pinned type, NULL where it does not fit."""
    column = _quoted(name)
    if kind is None:
        return f"NULL::VARCHAR AS {column}"
    if now is None:
        return f"CAST(NULL AS {kind}) AS {column}"
    if text and now == "VARCHAR":
        return f"nullif(trim({column}), '') AS {column}"
    return f"{column}" if now == kind else f"TRY_CAST({column} AS {kind}) AS {column}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
