"""How many bits a key may have for DuckDB to give each of its values a place of its own, where it need not look it up.

That halves the cost of counting people whose ids are whole numbers close together. Each thread has such a table, and
all of it is made, however few values there are: so it is for tables that have more rows, and for few aggregates.
"""

from __future__ import annotations

import re

import duckdb

from discreet.backends.source import identifier

LEAVES = 17
"""Bits that a key may always have: the leaves of a spread are 2^16 and NULL."""

_PEOPLE = 24  # bits that it may have at most
_ROWS = 4  # for each place
_BYTES = 1 << 29  # of all threads' places together
_COUNT, _STATE = 8, 32  # bytes of a count in a place, and of any other aggregate at most
_AGGREGATES = re.compile(r"\b(any_value|arg_max|arg_min|bool_and|bool_or|count|first|list|max|min|sum)\(")
_ESTIMATE = re.compile(r'"Estimated Cardinality": "(\d+)"')


def bits_of_a_key(sql: str, *, rows: int, threads: int) -> int:
    """The bits of a key up to which tables with a place for each value are worth their memory in this statement."""
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
        ((_, told),) = connection.execute(
            f"EXPLAIN (FORMAT JSON) SELECT 1 FROM main.{identifier(table)}"
        ).fetchall()
    except duckdb.Error:
        return 0
    return max(map(int, _ESTIMATE.findall(str(told))), default=0)
