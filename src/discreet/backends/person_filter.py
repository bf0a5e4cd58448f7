"""Queries over the people who take part: their ids and costs are read, and the rows of all others are left out.

Guarantee:
    Between `people` and `rows` nothing leaves but the hashes and costs that `people` returns, which are private. Every
    query runs the same statements in the same order, whether somebody is left out or not. Once a file is written, all
    reads are of empty tables. In `rows` a private table lacks every row whose id is left out. Tables reached by
    a foreign key are read only through the rows that lead to them, so that theirs vanish too (docs/proofs/people.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.backends.connection import Cursor, Fetch, columns_of, plain, rows_of, steadily
from discreet.backends.source import identifier
from discreet.errors import InternalError

T = TypeVar("T")

PERSON = "$person"  # the placeholder of the key under which ids are hashed
_CATALOG = "memory"  # what DuckDB calls a database that has no file
_TOUCHED, _LEFT_OUT, _HASHES = '"touched\x01"', '"left out\x01"', "hashes\x01"  # as no table can be called

_WORD = (1 << 64) - 1


class PersonFilter:
    """Connection of one query, which can leave people out."""

    __slots__ = ("_cursor", "_is_current", "_of_nobody", "_tables")

    def __init__(
        self,
        cursor: Cursor,
        tables: Mapping[str, str],
        is_current: Callable[[], bool],
        of_nobody: Callable[[str, Mapping[str, Any], Fetch[Any]], Any],
    ) -> None:
        """Take a connection of the query's own.

        Args:
            cursor: the connection.
            tables: those with a column of ids: name → column.
            is_current: whether no file was written since; else whoever was charged need not be who is read.
            of_nobody: answers a query on empty tables.
        """
        self._cursor, self._tables = cursor, dict(tables)
        self._is_current, self._of_nobody = is_current, of_nobody

    def people(
        self, sql: str, parameters: Mapping[str, Any], sums: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the hash of each person in the query, and its costs, a row for each sum; from a statement that
        gives an id `u` and the parts `p0`, … of each sum, with `$person` among its parameters. Private.
        """
        columns = [f"p{i}" for i in range(sums)]
        touched = f"CREATE TEMP TABLE {_TOUCHED} AS {sql}"
        shown = f"SELECT {', '.join(['h', *columns])} FROM temp.main.{_TOUCHED}"

        def read() -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
            self._cursor.execute(touched, dict(parameters))
            found = self._cursor.execute(shown).fetchnumpy()
            costs = [plain(found[c], np.int64) for c in columns]
            return plain(found["h"], np.uint64), np.stack(costs)

        return self._steadily(read, lambda: (np.empty(0, np.uint64), np.empty((sums, 0), np.int64)))

    def leave_out(self, hashes: NDArray[np.uint64]) -> None:
        """Let every table lack, from here on, the rows of these people, none or many."""

        def leave() -> None:
            self._cursor.register(_HASHES, {"h": hashes})
            self._cursor.execute(
                f"CREATE TEMP TABLE {_LEFT_OUT} AS SELECT t.u FROM temp.main.{_TOUCHED} t "
                f"SEMI JOIN {identifier(_HASHES)} o ON t.h = o.h"
            )
            self._cursor.unregister(_HASHES)
            self._cursor.execute(f"DROP TABLE temp.main.{_TOUCHED}")
            for table, column in self._tables.items():
                self._cursor.execute(
                    f"CREATE TEMP VIEW {identifier(table)} AS SELECT x.* "
                    f"FROM {_CATALOG}.main.{identifier(table)} x "
                    f"ANTI JOIN temp.main.{_LEFT_OUT} o ON x.{identifier(column)} = o.u"
                )

        self._steadily(leave, lambda: None)

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run a query on the data of those who take part; any failure is BackendFailed."""
        return self._read(sql, parameters, rows_of)

    def columns(self, sql: str, parameters: Mapping[str, Any]) -> list[NDArray[np.int64]]:
        """Run a query of whole numbers as `rows` does, and return its columns."""
        return self._read(sql, parameters, columns_of)

    def _read(self, sql: str, parameters: Mapping[str, Any], fetch: Fetch[T]) -> T:
        return self._steadily(
            lambda: fetch(self._cursor.execute(sql, dict(parameters))), lambda: self._empty(sql, parameters, fetch)
        )

    def _empty(self, sql: str, parameters: Mapping[str, Any], fetch: Fetch[T]) -> T:
        found: T = self._of_nobody(sql, parameters, fetch)
        return found

    def _steadily(self, work: Callable[[], T], instead: Callable[[], T]) -> T:
        """Return what the work returns, or the other where a file was written meanwhile, whether it failed or not."""
        found = steadily(work, self._is_current)
        return found[0] if found else instead()


def hashed(sql: str, sums: int) -> str:
    """Return the statement that `PersonFilter.people` takes, from one that gives ids `u` and the parts."""
    columns = ", ".join(f"p{i}" for i in range(sums))
    return f"SELECT u, {hash_of('u')} AS h, {columns} FROM ({sql}) s"


def hash_of(unit: str) -> str:
    """Return the SQL for the 64-bit hash of an id: of MD5 over the key and the id's text.

    One id has one text, whichever of the two kinds it is of (`catalog/ids.py`), and two ids have two.
    """
    return f"CAST(md5_number({PERSON} || CAST({unit} AS VARCHAR)) & CAST({_WORD} AS UHUGEINT) AS UBIGINT)"


def check_person_filter(data: Cursor) -> None:
    """Refuse a database in which every person would have a new budget, or nobody would be left out.

    Raises:
        InternalError: it hashes ids otherwise than it always has, or `main.<table>` is not the query's own view.
    """
    key = "0123456789abcdef0123456789abcdef"
    with data.cursor() as cursor:
        for cell, text in _KNOWN.items():
            asked = {PERSON.removeprefix("$"): key}
            ((found,),) = cursor.execute(f"SELECT {hash_of(cell)}", asked).fetchall()
            if found != hash_in_python(key, text):
                raise InternalError(
                    "This version of the database hashes ids in another way. Nothing was charged.",
                    hint="install the version of duckdb that the ledger was written with, and please report this",
                )
        data.execute('CREATE OR REPLACE VIEW main."seen\x01" AS SELECT 0 AS x')
        cursor.execute('CREATE TEMP VIEW "seen\x01" AS SELECT 1 AS x')
        if cursor.execute('SELECT x FROM main."seen\x01" s').fetchall() != [(1,)]:
            raise InternalError(
                "This version of the database does not let a query see its own tables. Nothing was charged.",
                hint="install an older version of duckdb, and please report this",
            )


def hash_in_python(key: str, text: str) -> int:
    """Return what `hash_of` computes, of an id's text."""
    return int.from_bytes(hashlib.md5((key + text).encode(), usedforsecurity=False).digest()[:8], "little")


_KNOWN = {"CAST(-12345678901234567 AS BIGINT)": "-12345678901234567", "'7'": "7", "'Zoë'": "Zoë"}
"""SQL of ids, and the texts that stand for them."""
