"""Connections to DuckDB, the only ones on which this package's SQL may run: its meaning rests on their settings."""

from __future__ import annotations

from pathlib import Path

import duckdb

from discreet.backends.places import LEAVES
from discreet.errors import SourceError

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
