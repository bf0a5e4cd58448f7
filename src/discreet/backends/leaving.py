"""Asking of the people who take part: their ids and costs are read, and the others are left out of what is asked.

Guarantee:
    Between `people` and `rows` nothing leaves but the hashes and costs that `people` returns, which are private. Every
    question runs the same statements in the same order, whether somebody is left out or not. In `rows` a private table
    is what it is without every row whose id is one of those left out; tables that are reached by a foreign key are only
    read through the rows that they lead to, so that theirs vanish with them (docs/proofs/people.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.backends.quiet import quietly
from discreet.backends.source import identifier
from discreet.errors import InternalError

Cursor: TypeAlias = Any
"""A connection of the database."""

PERSON = "$person"
"""The placeholder of the key under which ids are hashed."""

_TOUCHED, _LEFT_OUT, _HASHES = '"touched\x01"', '"left out\x01"', "hashes\x01"  # as no table can be called

_WORD = (1 << 64) - 1

_EXACT = 1 << 53  # below it a real number is one whole number


class Leaving:
    """One question's connection."""

    __slots__ = ("_catalog", "_cursor", "_sums", "_tables")

    def __init__(self, cursor: Cursor, catalog: str, tables: Mapping[str, str]) -> None:
        """`tables` are those with a column of ids: name → column."""
        self._cursor, self._catalog, self._tables, self._sums = cursor, catalog, dict(tables), 0

    def people(
        self, sql: str, parameters: Mapping[str, Any], sums: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The hash of each person in the question, and its costs, a row for each sum; from a statement that gives an
        id `u` and the parts `p0`, … of each sum, with `$person` among its parameters. Private.
        """
        columns = [f"p{i}" for i in range(sums)]
        touched = f"CREATE TEMP TABLE {_TOUCHED} AS {sql}"
        shown = f"SELECT {', '.join(['h', *columns])} FROM temp.main.{_TOUCHED} WHERE NOT nobody"

        def read() -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
            self._cursor.execute(touched, dict(parameters))
            found = self._cursor.execute(shown).fetchnumpy()
            costs = [_plain(found[c], np.int64) for c in columns]
            return _plain(found["h"], np.uint64), np.stack(costs)

        return quietly(read)

    def leave_out(self, hashes: NDArray[np.uint64]) -> None:
        """Lets every table lack, from here on, the rows of these people, none or many, and those of nobody's ids."""

        def leave() -> None:
            self._cursor.register(_HASHES, {"h": hashes})
            self._cursor.execute(
                f"CREATE TEMP TABLE {_LEFT_OUT} AS SELECT t.u FROM temp.main.{_TOUCHED} t "
                f"SEMI JOIN {identifier(_HASHES)} o ON t.h = o.h "
                f"UNION ALL SELECT u FROM temp.main.{_TOUCHED} WHERE nobody"
            )
            self._cursor.unregister(_HASHES)
            self._cursor.execute(f"DROP TABLE temp.main.{_TOUCHED}")
            for table, column in self._tables.items():
                self._cursor.execute(
                    f"CREATE TEMP VIEW {identifier(table)} AS SELECT x.* "
                    f"FROM {identifier(self._catalog)}.main.{identifier(table)} x "
                    f"ANTI JOIN temp.main.{_LEFT_OUT} o ON x.{identifier(column)} = o.u"
                )

        quietly(leave)

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Runs a query on the data of those who take part; any failure is BackendFailed."""
        return quietly(lambda: self._cursor.execute(sql, dict(parameters)).fetchall())


def hashed(sql: str, kind: str, sums: int) -> str:
    """The statement that `Leaving.people` takes, from one that gives `u`, of this SQL type, and the parts.

    A real number that is not whole, or of 2^53 and beyond, is nobody's id, as where ids are compared across tables
    (`tables/ids.py`): several decimals or whole numbers may have been rounded to it, and who has one of these in
    another table would have two budgets. Where such a column is read as another type, the backend has made it NULL.
    """
    columns = ", ".join(f"p{i}" for i in range(sums))
    nobody = f"NOT (abs(u) < {_EXACT} AND u = trunc(u))" if kind == "DOUBLE" else "FALSE"
    return f"SELECT u, {hash_of('u', kind)} AS h, {nobody} AS nobody, {columns} FROM ({sql}) s"


def hash_of(unit: str, kind: str) -> str:
    """SQL for the 64-bit hash of an id: of MD5 over the key and the id's text.

    One id has one text, whatever its type: 7 and 7.0 and '7' have the text 7, as `tables/ids.py` compares them; and
    two ids of one type have two texts.
    """
    text = f"CAST({unit} AS VARCHAR)"
    if kind == "DOUBLE":
        whole = f"TRY_CAST({unit} AS HUGEINT)"
        text = f"CASE WHEN {whole} = {unit} THEN CAST({whole} AS VARCHAR) ELSE {text} END"
    return f"CAST(md5_number({PERSON} || {text}) & CAST({_WORD} AS UHUGEINT) AS UBIGINT)"


def check_hashing(cursor: Cursor) -> None:
    """Refuses a database that hashes ids otherwise than it always has: every person would have a new budget.

    Raises:
        InternalError: it does.
    """
    key = "0123456789abcdef0123456789abcdef"
    for value, kind, text in _KNOWN:
        sql = f"SELECT {hash_of(f'CAST({value} AS {kind})', kind)}"
        ((found,),) = cursor.execute(sql, {PERSON.removeprefix("$"): key}).fetchall()
        if found != hash_in_python(key, text):
            raise InternalError(
                "This version of the database hashes ids in another way. Nothing was charged.",
                hint="install the version of duckdb that the ledger was written with, and please report this",
            )


def hash_in_python(key: str, text: str) -> int:
    """What `hash_of` computes, of an id's text."""
    return int.from_bytes(hashlib.md5((key + text).encode(), usedforsecurity=False).digest()[:8], "little")


_KNOWN = (
    ("-12345678901234567", "BIGINT", "-12345678901234567"),
    ("7", "DOUBLE", "7"),
    ("'-0.0'", "DOUBLE", "0"),
    ("'1e300'", "DOUBLE", "1e+300"),
    ("0.1", "DOUBLE", "0.1"),
    ("'Zoë'", "VARCHAR", "Zoë"),
    ("TRUE", "BOOLEAN", "true"),
    ("'2020-02-29'", "DATE", "2020-02-29"),
    ("'2020-02-29 01:02:03.004'", "TIMESTAMP", "2020-02-29 01:02:03.004"),
)
"""Ids, their types, and the texts that stand for them for ever."""


def check_views(data: Cursor, cursor: Cursor) -> None:
    """Refuses a database in which `main.<table>` is not the question's own view of the table.

    Raises:
        InternalError: it is not.
    """
    data.execute('CREATE OR REPLACE VIEW main."seen\x01" AS SELECT 0 AS x')
    cursor.execute('CREATE TEMP VIEW "seen\x01" AS SELECT 1 AS x')
    if cursor.execute('SELECT x FROM main."seen\x01" s').fetchall() != [(1,)]:
        raise InternalError(
            "This version of the database does not let a question see its own tables. Nothing was charged.",
            hint="install an older version of duckdb, and please report this",
        )


def _plain(column: Any, kind: type[Any]) -> NDArray[Any]:
    """A column without NULL, of just this type."""
    if isinstance(column, np.ma.MaskedArray) or column.dtype != kind:
        raise TypeError("a column of another type than it must have")
    return np.asarray(column)
