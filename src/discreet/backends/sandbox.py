"""Sandbox for outer queries: a text of the user's own over noisy and public tables, and nothing else.

Guarantee:
    What a run gives is a function of the text and of these tables: no other table, file, variable, clock or source of
    randomness is read. The connection is locked (`open_sandbox`), and the text is read by the database's own parser
    before it runs: by an allow-list of the kinds of node, tables and functions. So it is post-processing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb

from discreet.backends.connection import Cursor, open_sandbox
from discreet.backends.source import identifier
from discreet.errors import BackendFailed, UnsupportedQuery

FAILURES = duckdb.Error
"""The errors of a text that fails."""

SECONDS = 60
"""Time that an outer query may take."""

Columns = Sequence[tuple[str, str]]
"""The names of a table's columns and their types, as the database calls these."""


@dataclass(slots=True)
class Sandbox:
    """Tables of noisy and public values, over which a user's text runs (`open_tables`)."""

    connection: Cursor
    tables: dict[str, Columns] = field(default_factory=dict)

    def fill(self, table: str, columns: Columns, rows: Sequence[Sequence[Any]]) -> None:
        """Put rows into a table, in the place of those that it has."""
        name, shape = identifier(table), ", ".join(f"{identifier(n)} {kind}" for n, kind in columns)
        self.connection.execute(f"CREATE OR REPLACE TABLE main.{name} ({shape})")
        self.tables[table] = columns
        if rows:
            cells = ", ".join(f"unnest(${i}::{kind}[])" for i, (_, kind) in enumerate(columns, 1))
            self.connection.execute(
                f"INSERT INTO main.{name} SELECT {cells}", [list(c) for c in zip(*rows, strict=True)]
            )

    def check(self, sql: str) -> None:
        """Refuse a text that reads anything but the tables that are here.

        Raises:
            UnsupportedQuery: the text does, or is no SELECT of the database.
        """
        ((told,),) = self.connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [sql]).fetchall()
        tree = json.loads(told)
        if tree.get("error") or len(tree["statements"]) != 1:
            raise UnsupportedQuery("The query over results is no SELECT that can be checked.", hint="write one SELECT")
        nodes = list(_nodes(tree))
        named = {n["key"] for n in nodes if "key" in n and "value" in n}
        tables = {name.lower() for name in (*self.tables, *named)}
        for node in nodes:
            _check_node(node, tables, _functions())

    def run(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the columns and rows of a checked text.

        Raises:
            duckdb.Error: it fails, or takes too long or too much memory.
        """
        alarm = threading.Timer(SECONDS, self.connection.interrupt)
        alarm.start()
        try:
            found = self.connection.execute(sql)
            rows = found.fetchall()
        finally:
            alarm.cancel()
        return [name for name, *_ in found.description], [tuple(map(_plain, row)) for row in rows]


@contextmanager
def open_tables(tables: Mapping[str, tuple[Columns, Sequence[Sequence[Any]]]]) -> Iterator[Sandbox]:
    """Open a sandbox that holds these tables, and close it."""
    with closing(open_sandbox()) as connection:
        sandbox = Sandbox(connection)
        for name, (columns, rows) in tables.items():
            sandbox.fill(name, columns, rows)
        yield sandbox


def rehearsed(sql: str, tables: Mapping[str, Columns]) -> list[str]:
    """Return the columns of an outer query, tried on empty tables before anything is charged.

    Raises:
        UnsupportedQuery: it cannot run, or reads anything else.
    """
    with open_tables({name: (columns, ()) for name, columns in tables.items()}) as sandbox:
        sandbox.check(sql)
        try:
            columns, _ = sandbox.run(sql)
        except duckdb.Error as error:
            raise UnsupportedQuery(
                f"The query over results cannot run: {_first_line(error)}", hint="correct it; nothing was charged"
            ) from None
    return columns


@contextmanager
def naming_failures() -> Iterator[None]:
    """Name what fails in an outer query over noisy tables, which were paid for and are kept.

    Raises:
        BackendFailed: it failed.
    """
    try:
        yield
    except duckdb.Error as error:
        raise BackendFailed(
            f"The query over the noisy results failed: {_first_line(error)} The results are kept, and their charge "
            "stands.",
            hint="correct what stands around the measured parts; the same parts are answered from the ledger, free",
        ) from None


def _first_line(error: duckdb.Error) -> str:
    line = str(error).partition("\n")[0][:300]
    return line if line.endswith((".", "!")) else f"{line}."


@cache
def _functions() -> Collection[str]:
    """Return the functions whose value follows from their arguments."""
    with closing(open_sandbox()) as connection:
        found = connection.execute("SELECT function_name FROM duckdb_functions() WHERE stability = 'CONSISTENT'")
        return {name for (name,) in found.fetchall()} - _REFUSED | _MACROS


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a parsed text."""
    rest = [tree]
    while rest:
        found = rest.pop()
        if isinstance(found, dict):
            yield found
            rest += found.values()
        elif isinstance(found, list):
            rest += found


def _check_node(node: Mapping[str, Any], tables: Collection[str], functions: Collection[str]) -> None:
    kind, group = node.get("type"), node.get("class")
    if node.get("sample") is not None:
        _refuse("A sample", "leave it out: it would draw rows at random")
    if group is not None and group not in _CLASSES:
        _refuse(f"An expression of the kind {str(group).lower()}", "write it in another way")
    if group is None and isinstance(kind, str) and kind not in _KINDS:
        _refuse(f"A part of the kind {kind.lower()}", "write one SELECT over the measured parts and public tables")
    if kind == "BASE_TABLE":
        name, place = node["table_name"], (node.get("catalog_name"), node.get("schema_name"))
        if any(place) or name.lower() not in tables:
            _refuse(f"The table {name!r:.60}", "it has no measured part and is not public")
    if kind == "COLUMN_REF" and len(node["column_names"]) == 1 and node["column_names"][0].lower() in _CLOCK:
        _refuse(node["column_names"][0].upper(), "write the moment that is meant: DATE '2026-01-31'")
    if "function_name" in node:
        name = node["function_name"]
        if node.get("schema") or node.get("catalog") or name.lower() not in functions:
            _refuse(f"The function {name!r:.60}", "only functions whose value follows from their arguments are allowed")


def _refuse(what: str, hint: str) -> None:
    raise UnsupportedQuery(f"{what} is not supported in a query over results.", hint=hint)


_CLASSES = frozenset(
    {
        *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION"),
        *("LAMBDA", "OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE", "WINDOW"),
    }
)
"""Kinds of expression."""

_KINDS = frozenset(
    {
        *("SELECT_NODE", "SET_OPERATION_NODE", "CTE_NODE"),
        *("BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY", "EXPRESSION_LIST"),
        *("ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"),
        *("ORDER_DEFAULT", "ASCENDING", "DESCENDING"),
    }
)
"""Kinds of query, of what FROM names, and of clauses."""

_CLOCK = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
"""Names that read the clock where no column is called so."""

_REFUSED = frozenset(
    {
        *("age", "reservoir_quantile", "version"),
        *("range", "generate_series", "repeat", "lpad", "rpad", "list_resize", "array_resize", "bitstring", "bar"),
        *("format", "printf", "equi_width_bins"),
    }
)
"""Functions that follow from the clock, from chance or from the machine, whatever the catalog says; and functions that
make a value as long as a number says, for which the database's limit of memory does not hold.
"""

_MACROS = frozenset(
    {
        *(
            "nullif",
            "fdiv",
            "fmod",
            "date_add",
            "geomean",
            "geometric_mean",
            "wavg",
            "weighted_avg",
            "split_part",
            "if",
        ),
        *("array_to_string", "list_append", "list_prepend", "list_reverse", "list_avg", "list_sum", "list_min"),
        *("list_max", "list_count", "list_median", "list_first", "list_last", "days_in_month"),
        *("year", "month", "day", "hour", "minute", "second", "quarter", "week", "date_part", "datepart", "date_trunc"),
        *("datetrunc", "date_diff", "datediff", "date_sub", "datesub", "strftime", "dayofweek", "isodow", "dayofyear"),
        *("weekday", "weekofyear", "dayofmonth", "monthname", "dayname", "last_day", "count_star", "+", "-"),
    }
)
"""Macros, and functions that the catalog calls inconsistent for the sake of time zones, of which there is one here."""
