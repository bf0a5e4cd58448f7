"""Connections to DuckDB, the only ones on which this package's SQL may run: its meaning rests on their settings.

Up to some key width DuckDB uses a perfect hash table, with one slot for each value of the key. That halves the
cost of counting people whose ids are whole numbers close together. Each thread has such a table, and all of it is made,
however few values there are: so it is for tables that have more rows, and for few aggregates.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from discreet.backends.source import identifier
from discreet.errors import BackendFailed, SourceError, redacted

T = TypeVar("T")

Cursor: TypeAlias = Any  # a connection of the database
Fetch: TypeAlias = Callable[[Cursor], T]  # takes the result of a statement that has run


def rows_of(cursor: Cursor) -> list[tuple[Any, ...]]:
    """Take the rows of a result."""
    found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def columns_of(cursor: Cursor) -> list[NDArray[np.int64]]:
    """Take the columns of a result of whole numbers."""
    found = cursor.fetchnumpy().values()
    return [plain(c if c.dtype == np.int64 else c.astype(np.int64, casting="safe"), np.int64) for c in found]


def plain(column: Any, kind: type[Any]) -> NDArray[Any]:
    """Return a column without NULL, of just this type."""
    if isinstance(column, np.ma.MaskedArray) or column.dtype != kind:
        raise TypeError("a column of another type than it must have")
    return np.asarray(column)


LEAVES = 17  # bits that a key may always have: the leaves of a spread are 2^16 and NULL
_PEOPLE = 24  # bits that it may have at most
_ROWS = 4  # for each place
_BYTES = 1 << 29  # of all threads' places together
_COUNT, _STATE = 8, 32  # bytes of a count in a place, and of any other aggregate at most
_AGGREGATES = re.compile(r"\b(any_value|arg_max|arg_min|bool_and|bool_or|count|first|list|max|min|sum)\(")
_ESTIMATE = re.compile(r'"Estimated Cardinality": "(\d+)"')


def bits_of_a_key(sql: str, *, rows: int, threads: int) -> int:
    """Return the largest key width, in bits, for which DuckDB uses a perfect hash table in this query."""
    if rows // _ROWS < 2 << LEAVES:
        return LEAVES  # whatever it asks: statements with thousands of given keys are long
    # without groups there is one place, and leaves have few
    grouped = "".join(p for p in sql.split("\n)") if "GROUP BY" in p and not p.endswith(" GROUP BY b"))
    state = sum(_COUNT if name == "count" else _STATE for name in _AGGREGATES.findall(grouped))
    places = min(rows // _ROWS, _BYTES // (threads * max(_COUNT, state)))
    return min(max(places.bit_length() - 1, LEAVES), _PEOPLE)


def rows_about(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    """About how many rows a table has, as the database guesses before it reads; 0 where it cannot.

    Nothing but time and memory depends on it.
    """
    try:
        ((_, told),) = connection.execute(f"EXPLAIN (FORMAT JSON) SELECT 1 FROM main.{identifier(table)}").fetchall()
    except duckdb.Error:
        return 0
    return max(map(int, _ESTIMATE.findall(str(told))), default=0)


_SETTINGS = (
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "python_enable_replacements = false",  # a name is a table of ours or nothing, never a variable
    "TimeZone = 'UTC'",  # a time means the same on every machine
    "preserve_insertion_order = false",  # nothing depends on the order of rows; less memory
    f"perfect_ht_threshold = {LEAVES}",
)
"""For all connections to a database: a cursor starts from its global settings."""

SHARES_ERRORS = "common_subexpressions"
"""Optimizer that computes an expression of two TRYs once, outside both, where its error is not NULL."""

_HARMFUL = (
    SHARES_ERRORS,
    "projection_pullup",  # fails, in DuckDB 2.0, on statistics of the data: where a key has one value only
)
"""Optimizers that are turned off, in the versions that have them."""


def open_database(database: str | Path = ":memory:") -> duckdb.DuckDBPyConnection:
    """Return a connection on which no row can make a query fail.

    Raises:
        SourceError: this version of DuckDB does not have the optimizer that must be turned off: it may have
            the same one under another name.
    """
    connection = duckdb.connect(str(database))
    try:
        for setting in (*_SETTINGS, f"disabled_optimizers = '{','.join(_present(connection))}'"):
            connection.execute(f"SET GLOBAL {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


_LOCKED = (
    "allow_community_extensions = false",
    "allow_unsigned_extensions = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "python_enable_replacements = false",
    "python_scan_all_frames = false",
    "TimeZone = 'UTC'",
    "threads = 1",  # sums of reals are added in one order
    "memory_limit = '1GB'",
    "temp_directory = ''",
    "max_temp_directory_size = '0KiB'",
    "enable_external_access = false",
    "lock_configuration = true",
)
"""For a database in which a user's own text runs, over tables that hold noisy and public values alone."""


def open_sandbox() -> duckdb.DuckDBPyConnection:
    """Return a connection to an empty database in memory, from which no statement reaches anything else."""
    connection = duckdb.connect(":memory:")
    try:
        for setting in _LOCKED:
            connection.execute(f"SET GLOBAL {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def _present(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the harmful optimizers of this version."""
    known = {name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
    if SHARES_ERRORS not in known:
        raise SourceError(
            f"DuckDB {duckdb.__version__} has no optimizer {SHARES_ERRORS!r}: whether a row can make a query fail "
            "is unknown in this version.",
            hint="install a version of DuckDB that `discreet doctor` accepts",
        )
    return [name for name in _HARMFUL if name in known]


def redacting_errors(work: Callable[[], T]) -> T:
    """Return the result of work on private data; no failure says anything of it.

    Raises:
        BackendFailed: it failed, for whatever reason.
        KeyboardInterrupt: it was interrupted.
    """

    def interruptible() -> T:
        try:
            return work()
        except RuntimeError as error:
            if str(error) == "Query interrupted":  # Ctrl-C
                raise KeyboardInterrupt("The query was interrupted while it ran. Its charge stands.") from None
            raise

    return redacted(interruptible, _told)


def _told(failed: BaseException | None) -> BaseException:
    """Return what is raised for an error of the database."""
    if failed is not None and not isinstance(failed, Exception):
        return failed
    return BackendFailed(
        "The database failed while it ran the query. The charge stands: a failure may depend on the data.",
        hint="check that the source is still there and readable; the query can be asked again",
    )


def steadily(work: Callable[[], T], is_current: Callable[[], bool]) -> tuple[T] | None:
    """Return the result of work on private data, in a tuple of one; None where a file was written until its end.

    That a file changed is a fact about rows: then it makes no difference whether the work failed.
    """
    try:
        found = redacting_errors(work)
    except BackendFailed:
        if is_current():
            raise
        return None
    return (found,) if is_current() else None
