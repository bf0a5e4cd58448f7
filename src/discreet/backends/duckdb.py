"""DuckDB: files, data frames and DuckDB databases, each read in its pinned shape."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb

from discreet.backends.backend import Pinned
from discreet.backends.connection import open_database
from discreet.backends.contents import Contents, contents
from discreet.backends.frames import EXACT
from discreet.backends.leaving import Leaving, check_hashing, check_views
from discreet.backends.places import LEAVES, bits_of_a_key, rows_about
from discreet.backends.quiet import quietly
from discreet.backends.source import Source, identifier
from discreet.backends.sources import open_source
from discreet.errors import InternalError, SourceError

_TYPES = {
    "BOOLEAN": "BOOLEAN",
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), "BIGINT"
    ),
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM"), "BIGINT"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "DOUBLE"),
    **dict.fromkeys(("VARCHAR", "UUID", "TIME", "TIME_NS", "ENUM", '"NULL"'), "VARCHAR"),
    "DATE": "DATE",
    **dict.fromkeys(
        (
            "TIMESTAMP",
            "TIMESTAMP_S",
            "TIMESTAMP_MS",
            "TIMESTAMP_NS",
            "TIMESTAMP WITH TIME ZONE",
            "TIMESTAMPTZ_NS",
        ),
        "TIMESTAMP",
    ),
}
"""DuckDB's types → the type as which a column is read; other types cannot be asked about."""

_LOSSY = ("UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM", "TIMESTAMP_NS", "TIMESTAMPTZ_NS")
"""Types with values that differ and would be read as the same, or as NULL; so have decimals."""

_NUMBERS = frozenset(k for k, kind in _TYPES.items() if kind in ("BIGINT", "DOUBLE"))

_EXACT = {"FLOAT": 1 << 24, "DOUBLE": 1 << 53}
"""Types of real numbers → where several whole numbers begin to be rounded to one."""

_OWN_WORDS = ("TIME", "TIME_NS", "TIMESTAMP_NS", "TIMESTAMPTZ_NS", "TIMESTAMP WITH TIME ZONE")
"""Types whose text another type of times spells in another way: with a zone ('12:00:00+00'), or with other digits."""

_STRAINED = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIME", "TIME WITH TIME ZONE")
"""Types that the database makes of coarser ones while it reads, and fails where they do not fit."""

_CATALOG = "memory"
"""What DuckDB calls a database that has no file."""


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
        try:
            self._sources: dict[str, Source] = open_source(sources, self._data, names)
        except BaseException:
            self.close()
            raise

    @property
    def tables(self) -> list[str]:
        """The names of the connected tables."""
        return list(self._sources)

    def is_text(self, table: str) -> bool:
        """Whether its source is a text file."""
        return self._sources[table].text

    def discover(self, table: str, ids: Collection[str] = ()) -> Pinned:
        """The shape of a table as it is now; text sources are read as text, and so is an id
        that no number type can hold.

        Raises:
            SourceError: files of the table spell one id in several ways.
        """
        source = self._sources[table]
        kinds: dict[str, set[str]] = {}
        for part in source.parts(None, ids):
            for name, kind in self._described(table, part).items():
                if source.frame is None or not name.endswith(EXACT):
                    kinds.setdefault(name, set()).add(kind)
        columns = {
            n: "VARCHAR" if source.text or (n in ids and _is_lossy(found)) else _read_together(found)
            for n, found in kinds.items()
        }
        lowered = [c.lower() for c in columns]
        twins = sorted({c for c in columns if lowered.count(c.lower()) > 1})
        if twins:
            raise SourceError(
                f"Table {table!r} has two columns called {twins[0]!r}.",
                hint="rename one; upper and lower case make no difference",
            )
        made = () if source.text else self._made(table, {n: kinds[n] for n in ids if n in kinds}, columns)
        return Pinned(columns, source.text, source.delimiter, made)

    def present(self, table: str, ids: Collection[str]) -> Pinned:
        """As what a table stores these columns now; of no type, and left out, is one that holds nothing but NULL."""
        source = self._sources[table]
        if source.text:
            return Pinned(dict.fromkeys(sorted(ids), "VARCHAR"), True, source.delimiter)
        described = [self._described(table, part) for part in source.parts(None, ())]
        found = {n: {_kind_of(n, now) for now in described} - {None, '"NULL"'} for n in sorted(ids)}
        kinds = {n: {k for k in some if k is not None} for n, some in found.items() if some}
        columns = {n: "VARCHAR" if _is_lossy(some) else _read_together(some) for n, some in kinds.items()}
        made = self._made(table, kinds, columns)
        own = {n: kind for n, (kind, *others) in kinds.items() if kind in _OWN_WORDS and not others}
        return Pinned({**columns, **own}, False, source.delimiter, made)

    def _made(
        self, table: str, kinds: Mapping[str, Collection[str]], columns: Mapping[str, str | None]
    ) -> tuple[str, ...]:
        """The columns of ids of which text is made here.

        Raises:
            SourceError: files of the table spell one id in several ways.
        """
        made = {n.lower() for n in self._sources[table].made}
        for name, found in kinds.items():
            if not _spell_alike(found):
                raise SourceError(
                    f"The files of table {table!r} hold the ids {name!r} in types that spell one id in several ways "
                    "('7' and '7.00'): a person would be two.",
                    hint="write all files with one type of ids",
                )
        return tuple(
            n
            for n, found in sorted(kinds.items())
            if columns[n] == "VARCHAR" and (n.lower() in made or not any(_is_text([k]) for k in found))
        )

    def attach(self, table: str, pinned: Pinned, ids: Collection[str] = (), *, trimmed: bool = False) -> None:
        """Creates `main.<table>` in its pinned shape."""
        scans, typed = [], not self._sources[table].text
        described = [(part, self._described(table, part)) for part in self._sources[table].parts(pinned, ids)]
        for part, now in described:
            self._probe(table, part, [n for n, kind in now.items() if kind in _STRAINED])
            exact = {n.lower(): n for n in reversed(now)} | {n: n for n in now}
            found = {n: exact.get(n, exact.get(n.lower())) for n in pinned.columns}
            if self._sources[table].frame is not None:
                found |= {n: f"{found[n]}{EXACT}" for n in ids if f"{found.get(n)}{EXACT}" in now}
            shown = []
            for n, kind in pinned.columns.items():
                apart = n in ids and len({_kind_of(n, other) for _, other in described}) > 1
                type_now = now.get(found[n] or "")
                bare = pinned.text or (trimmed and n in ids)
                shown.append(
                    _as_pinned(n, kind, found[n], type_now, bare, is_id=n in ids, typed=typed, apart=apart)
                )
            scans.append(f"SELECT {', '.join(shown)} FROM {part}")
        empty = ", ".join(f"{identifier(n)} {kind or 'VARCHAR'}" for n, kind in pinned.columns.items())
        name = f"main.{identifier(table)}"
        self._twin.execute(f"CREATE OR REPLACE TABLE {name} ({empty})")
        if not scans:  # no file of it has even a header
            self._data.execute(f"CREATE OR REPLACE TABLE {name} ({empty})")
            return
        try:
            self._data.execute(f"CREATE OR REPLACE VIEW {name} AS {' UNION ALL '.join(scans)}")
        except duckdb.Error:
            raise SourceError(
                f"Table {table!r} cannot be read.", hint="check that its source is a readable file"
            ) from None

    def _probe(self, table: str, part: str, columns: Sequence[str]) -> None:
        """Refuses, when its owner connects it, a source with a time that the database cannot read: the reader
        fails on it before any TRY, so it would stop questions after their charge.
        """
        coarse = columns
        if part.startswith("read_parquet("):
            coarser = (
                "logical_type LIKE '%MILLIS%'",
                "converted_type LIKE '%MILLIS'",
                "logical_type LIKE 'TimeType%'",
            )
            unit = " OR ".join(coarser)
            schema = f"parquet_schema({part.removeprefix('read_parquet(')}"
            listed = self._data.execute(f"SELECT name FROM {schema} WHERE {unit}")
            named = {str(row[0]) for row in listed.fetchall()}
            coarse = [n for n in columns if n in named]
        for name in coarse:
            try:
                self._data.execute(f"SELECT count({identifier(name)}) FROM {part}").fetchall()
                fits = True
            except duckdb.Error:  # its words may quote a cell
                fits = False
            if not fits:
                raise SourceError(
                    f"The column {name!r} of table {table!r} holds a time that the database cannot read.",
                    hint="times reach from about 290,000 BC to 294,000 AD; mend the value, or store the column as text",
                )

    def contents(self, table: str, pinned: Pinned, most: int) -> Contents:
        """What a public table holds, as it is attached."""
        self._check_open()
        try:
            with self._connection() as cursor:
                return contents(lambda sql: cursor.execute(sql).fetchall(), table, pinned, most)
        except duckdb.Error:
            raise SourceError(
                f"The public table {table!r} cannot be read.", hint="check that its source is a readable file"
            ) from None

    def rehearse(self, sql: str, parameters: Mapping[str, int | str]) -> None:
        """Runs a query on the empty twin, so that a query that cannot run is found before anything is charged."""
        self._check_open()
        try:
            with self._rehearsing:
                self._twin.execute(sql, dict(parameters)).fetchall()
        except duckdb.Error as error:
            raise InternalError(
                f"The database does not accept the SQL of this question ({type(error).__name__}). Nothing was charged.",
                hint="please report the question",
            ) from error

    def rows(self, sql: str, parameters: Mapping[str, int]) -> list[tuple[Any, ...]]:
        """Runs a query on the data."""
        self._check_open()

        def read() -> list[tuple[Any, ...]]:
            with self._connection() as cursor:
                asked = [t for t in self.tables if f"main.{identifier(t)}" in sql]
                for table in asked:
                    if table not in self._rows:
                        self._rows[table] = rows_about(cursor, table)
                rows = max((self._rows[t] for t in asked), default=0)
                bits = bits_of_a_key(sql, rows=rows, threads=self._threads)
                if bits != LEAVES:
                    cursor.execute(f"SET SESSION perfect_ht_threshold = {bits}")
                return cursor.execute(sql, dict(parameters)).fetchall()

        return quietly(read)

    def check_ids(self, tables: Mapping[str, str]) -> None:
        """Refuses ids that are 32-bit reals: who has one has another one as text, as a whole number or with 64 bits."""
        for table, column in tables.items():
            source = self._sources[table]
            for part in () if source.text else source.parts(None, ()):
                if _kind_of(column, self._described(table, part)) == "FLOAT":
                    raise SourceError(
                        f"The ids {column!r} of table {table!r} are real numbers of 32 bits, which are rounded: in "
                        "another table the same person may have another id, and would have two budgets.",
                        hint="store the ids as whole numbers or as text, made from what they were before the rounding",
                    )

    def check_leaving(self) -> None:
        """Looks, before anything is charged, whether this database hashes ids and leaves people out as it has to."""
        self._check_open()
        with self._data.cursor() as cursor:
            check_hashing(cursor)
            check_views(self._data, cursor)

    @contextmanager
    def leaving(self, tables: Mapping[str, str]) -> Iterator[Leaving]:
        """A connection of one question's own, on which people can be left out of these tables: name → column of ids."""
        self._check_open()
        with quietly(self._connection) as cursor:
            yield Leaving(cursor, _CATALOG, tables)

    def close(self) -> None:
        """Closes both connections."""
        self._closed = True
        self._data.close()
        self._twin.close()

    def _connection(self) -> duckdb.DuckDBPyConnection:
        """A connection of one question's own; data frames are known to a connection only."""
        cursor = self._data.cursor()
        cursor.execute("SET enable_progress_bar = false")
        for source in self._sources.values():
            if source.frame is not None:
                cursor.register(*source.frame)
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

    def _described(self, table: str, part: str) -> dict[str, str]:
        """Column → DuckDB's type."""
        try:
            described = self._data.execute(f"DESCRIBE SELECT * FROM {part}").fetchall()
        except duckdb.Error:
            raise SourceError(
                f"The source of table {table!r} cannot be read as {self._sources[table].kind}.",
                hint="check that the file is complete and of the kind that its name says",
            ) from None
        return {str(row[0]): str(row[1]) for row in described}


def _read_as(kind: str) -> str | None:
    if kind.startswith("DECIMAL") and not kind.endswith("]"):
        return "DOUBLE"
    if kind.startswith("ENUM(") and not kind.endswith("]"):
        return "VARCHAR"
    return _TYPES.get(kind)


def _read_together(kinds: Collection[str]) -> str | None:
    """As what a column is read whose files have it in several types: the one type that holds all of them, else text."""
    found = {_read_as(k) for k in kinds}
    if len(found) == 1:
        return found.pop()
    if None in found:
        return None
    if found == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return "TIMESTAMP" if found == {"DATE", "TIMESTAMP"} else "VARCHAR"


def _is_lossy(kinds: Collection[str]) -> bool:
    """Whether two ids might be read as one: the caps would then hold for two people together."""
    return len({_read_as(k) for k in kinds}) > 1 or any(k in _LOSSY or k.startswith("DECIMAL") for k in kinds)


def _spell_alike(kinds: Collection[str]) -> bool:
    """Whether files that have ids in these types spell one id in one way, once text is made of them where that is
    needed: numbers have one spelling, and beside whole ones text is taken at its word.
    """
    told = [k for k in kinds if k != '"NULL"']
    if len(told) < 2:
        return True
    whole = [k for k in told if _TYPES.get(k) == "BIGINT"]
    return (
        all(k in _NUMBERS or _read_as(k) == "DOUBLE" for k in told)
        or all(k in whole or _is_text([k]) for k in told)
        or (
            not _is_lossy(told)
            and _read_as(told[0]) not in (None, "VARCHAR")
            and len({k.endswith("ZONE") for k in told}) == 1
        )
    )


def _is_number(kind: str) -> bool:
    """Whether `_cast` makes one whole number of one number, and of no two; of bits it makes one of '1' and '01'."""
    return kind == "BOOLEAN" or kind in _NUMBERS or kind.startswith("DECIMAL")


def _is_text(kinds: Collection[str]) -> bool:
    """Whether a column was text as it stands, and no text is made of it here."""
    return all(k == "VARCHAR" or k.startswith("ENUM(") for k in kinds)


def _kind_of(column: str, described: Mapping[str, str]) -> str | None:
    """DuckDB's type of a column, whose name is looked up as `attach` does."""
    lowered = {n.lower(): kind for n, kind in reversed(list(described.items()))}
    return described.get(column, lowered.get(column.lower()))


def _as_pinned(
    name: str,
    kind: str | None,
    found: str | None,
    now: str | None,
    text: bool,
    *,
    is_id: bool = False,
    typed: bool = False,
    apart: bool = False,
) -> str:
    """One column of the view: the cell in its pinned type, NULL where it does not fit.

    `text` where cells are as those of a text file, without spaces around them. `typed` where the source is no text
    file now: then ids that are spelled in two ways are two. `apart` where files of the table have the column in
    several types.
    """
    shown = identifier(name)
    if kind is None:
        return f"NULL::VARCHAR AS {shown}"
    if found is None or now is None:
        return f"CAST(NULL AS {kind}) AS {shown}"
    cell = identifier(found)
    if (
        is_id
        and now in _EXACT
        and kind in ("VARCHAR", "DOUBLE")
        and (apart or (now, kind) != ("DOUBLE", "DOUBLE"))
    ):
        # A real may be what several ids were rounded to, in one table or file and not in the next: one person would be
        # two. In a column that is one table's and of 64-bit reals alone everybody is one at least.
        whole = f"{_cast(cell, now, 'BIGINT')} IS NOT NULL"
        cell = f"CASE WHEN {whole} THEN {cell if now == kind else _cast(cell, now, kind)} END"
    elif now != kind:
        cast = _cast(cell, now, kind)
        # 2^53 and 2^53 + 1 are one double, and all times of a day one date: two people's ids would share one cap;
        # so would '7' and '007', where they are not just what a text file makes of a number
        exact = is_id and (
            kind not in ("BIGINT", "VARCHAR")
            or (kind == "BIGINT" and not _is_number(now) and (typed or now != "VARCHAR"))
        )
        cell = f"CASE WHEN TRY_CAST({cast} AS {now}) = {cell} THEN {cast} END" if exact else cast
    if text and kind == "VARCHAR":
        # a text file holds no id with spaces around it: elsewhere ' a' is another one than 'a', which is nobody here
        plain = f"CASE WHEN length(trim({cell})) = length({cell}) THEN {cell} END"
        cell = f"nullif({plain if is_id and typed else f'trim({cell})'}, '')"
    if kind == "VARCHAR":
        # A collation would make two texts one: a key would match twice, two ids would share one cap, and the spelling
        # that is shown of a group would be some person's own
        cell = f"{cell} COLLATE C"
    return f"{cell} AS {shown}"


def _cast(cell: str, now: str, kind: str) -> str:
    """The cell in another type, so that one id stays one id: 1.0 is 1, and 1.4 is no whole number."""
    if now == "TIMESTAMPTZ_NS" and kind != "VARCHAR":  # which casts to no time without a zone
        cell = f"TRY_CAST({cell} AS TIMESTAMP WITH TIME ZONE)"
    if now == "BIGNUM":  # its own cast to a narrower type stops the whole database
        cell = f"CAST({cell} AS VARCHAR)"
    plain = f"TRY_CAST({cell} AS {kind})"
    is_decimal = now.startswith("DECIMAL")
    if kind == "BIGINT" and now in _EXACT:
        most = _EXACT[now]
        exact = f"{plain} BETWEEN {1 - most} AND {most - 1}"
        return f"CASE WHEN {cell} = TRY_CAST({plain} AS DOUBLE) AND {exact} THEN {plain} END"
    if kind == "BIGINT" and (now == "VARCHAR" or is_decimal):
        exact = f"TRY({cell} = {plain})" if is_decimal else f"TRY_CAST({cell} AS DECIMAL(38, 18)) = {plain}"
        return f"CASE WHEN {exact} THEN {plain} END"
    if kind == "VARCHAR" and (now in _EXACT or is_decimal):
        whole = f"TRY_CAST({cell} AS HUGEINT)"
        shortest = f"rtrim({plain}, '0')" if is_decimal else plain  # 1.50 is 1.5, whatever the column's scale
        return f"CASE WHEN TRY({cell} = {whole}) THEN CAST({whole} AS VARCHAR) ELSE {shortest} END"
    return plain
