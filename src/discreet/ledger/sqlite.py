"""A ledger in one SQLite file.

Each transaction opens the file anew. A connection is therefore never shared among threads, never inherited
by a forked child, and a file that was moved, deleted or replaced is noticed instead of being written to out
of sight. The rollback journal with `synchronous=EXTRA` makes a commit durable before it returns, including
the removal of the journal.

References: https://www.sqlite.org/howtocorrupt.html, https://www.sqlite.org/pragma.html#pragma_synchronous
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from discreet.errors import LedgerCorrupt, LedgerError
from discreet.ledger.failures import busy, is_busy, translated
from discreet.ledger.store import Row, Transaction

APPLICATION = 0x64736372
"""What marks a SQLite file as a ledger ("dscr")."""

FORMAT = 1
"""The version of the format that is written; docs/ledger-format.md describes it."""

PATIENCE = 30.0
"""Seconds to wait for another process before `LedgerBusy`."""

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE entry (
  seq INTEGER PRIMARY KEY,
  population TEXT NOT NULL,
  kind TEXT NOT NULL,
  "key" TEXT NOT NULL,
  body TEXT NOT NULL,
  hash TEXT NOT NULL
);
CREATE INDEX entry_by_key ON entry (population, kind, "key", seq);
CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TRIGGER entry_stays BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entries never change'); END;
CREATE TRIGGER entry_remains BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries remain'); END;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
COMMIT;
"""

_ROW = 'SELECT seq, population, kind, "key", body, hash FROM entry'

T = TypeVar("T")

_ALONE = threading.RLock()
"""Held by this process while any of its connections is open.

A fork in the middle of another thread's transaction would leave the child with SQLite's memory of locks
that the child does not hold. So a fork waits for the end of the transaction, and none begins meanwhile.
"""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_ALONE.acquire, after_in_parent=_ALONE.release, after_in_child=_ALONE.release)


class SQLiteStore:
    """Rows and states in a SQLite file on a local disk, for any threads, processes and forked children."""

    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        self._path = path
        self._patience = patience
        self._closed = False

    @classmethod
    def create(cls, path: Path) -> None:
        """Make a new, empty ledger at `path` unless something is there.

        It is made under another name and linked into place: nobody ever sees it half made, and a file that is
        found empty is therefore a damaged ledger and not a new one.
        """
        draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}.new")
        with _ALONE, translated(str(path)):
            try:
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                connection = _connect(draft)
                try:
                    connection.executescript(_SCHEMA)
                finally:
                    connection.close()
                with suppress(FileExistsError):
                    os.link(draft, path)
            finally:
                draft.unlink(missing_ok=True)
            _sync_folder(path.parent)

    @property
    def place(self) -> str:
        """The path of the file."""
        return str(self._path)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """What the work makes of one moment of the file."""

        def reading(connection: sqlite3.Connection) -> T:
            connection.execute("PRAGMA query_only = 1")
            return work(SQLiteTransaction(connection, self.place))

        return self._transaction("BEGIN", reading)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """What the work returns, durable; it holds the file's only write lock from its start."""
        return self._transaction(
            "BEGIN IMMEDIATE", lambda connection: work(SQLiteTransaction(connection, self.place))
        )

    def rehearse(self) -> None:
        """A write that is undone: where the file, or a journal beside it, cannot be written, this raises."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO state VALUES ('rehearsal', '')")
            connection.rollback()

        self._transaction("BEGIN IMMEDIATE", work)

    def faults(self) -> list[str]:
        """What SQLite's own integrity check finds."""

        def check(connection: sqlite3.Connection) -> list[str]:
            return [str(text) for (text,) in connection.execute("PRAGMA integrity_check(20)").fetchall()]

        found = self._transaction("BEGIN", check)
        return [] if found == ["ok"] else [f"SQLite finds the file damaged: {'; '.join(found)}."]

    def close(self) -> None:
        """Refuse any later use; no connection is open between transactions."""
        self._closed = True

    def _transaction(self, begin: str, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise LedgerError(f"the ledger {self.place} is closed.")
        deadline = time.monotonic() + self._patience
        with translated(self.place):
            while True:
                with _ALONE:
                    connection = self._begun(begin)
                    if connection is not None:
                        # Ctrl-C may come at any instruction. The two calls below are each one call into C, so
                        # that it is heard after them: an open transaction never outlives this function.
                        try:
                            result = work(connection)
                            self._commit(connection, deadline)
                            return result
                        finally:
                            try:
                                connection.rollback()  # does nothing after a commit
                            finally:
                                connection.close()
                self._wait(deadline)

    def _begun(self, begin: str) -> sqlite3.Connection | None:
        """A connection with an open transaction; None while another one holds the file."""
        try:
            connection = _connect(self._path)
            try:
                connection.execute(begin)
                _check_format(connection, self.place)  # the first read too, with which a plain BEGIN locks
            except BaseException:
                try:
                    connection.rollback()
                finally:
                    connection.close()
                raise
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return None
            raise
        return connection

    def _commit(self, connection: sqlite3.Connection, deadline: float) -> None:
        while connection.in_transaction:
            try:
                connection.execute("COMMIT")
            except sqlite3.OperationalError as error:  # somebody reads; nobody can start to
                if not is_busy(error):
                    raise
                self._wait(deadline)

    def _wait(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise busy(self.place)
        time.sleep(0.002)


class SQLiteTransaction:
    """One moment of a `SQLiteStore`. Rows are always fetched at once: no statement outlives its call."""

    def __init__(self, connection: sqlite3.Connection, place: str) -> None:
        self._connection = connection
        self._place = place

    def last(self) -> Row | None:
        """The row with the highest number."""
        return self._one(f"{_ROW} ORDER BY seq DESC LIMIT 1")

    def row(self, seq: int) -> Row | None:
        """The row with that number."""
        return self._one(f"{_ROW} WHERE seq = ?", seq)

    def latest(self, population: str, kind: str, key: str, *, before: int) -> Row | None:
        """The last row with these three and a number below `before`."""
        where = 'WHERE population = ? AND kind = ? AND "key" = ? AND seq < ?'
        return self._one(f"{_ROW} {where} ORDER BY seq DESC LIMIT 1", population, kind, key, before)

    def rows(
        self, *, after: int, limit: int, population: str | None = None, kind: str | None = None
    ) -> list[Row]:
        """At most `limit` rows with numbers above `after`, in order."""
        where = "WHERE seq > ?1 AND (?3 IS NULL OR population = ?3) AND (?4 IS NULL OR kind = ?4)"
        return self._all(f"{_ROW} {where} ORDER BY seq LIMIT ?2", after, limit, population, kind)

    def append(self, row: Row) -> None:
        """Add a row at the end."""
        self._connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", row)

    def get(self, name: str) -> str | None:
        """The state of that name."""
        found = self._connection.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def put(self, name: str, value: str) -> None:
        """Set the state of that name."""
        self._connection.execute(
            "INSERT INTO state VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def names(self) -> list[str]:
        """The names of all states, sorted."""
        return [
            str(name)
            for (name,) in self._connection.execute("SELECT name FROM state ORDER BY name").fetchall()
        ]

    def _one(self, sql: str, *values: Any) -> Row | None:
        found = self._all(sql, *values)
        return found[0] if found else None

    def _all(self, sql: str, *values: Any) -> list[Row]:
        found = [Row(*values) for values in self._connection.execute(sql, values).fetchall()]
        if any(type(text) is not str for row in found for text in row[1:]):
            raise LedgerCorrupt(f"an entry of the ledger {self._place} is not text.")
        return found


def _connect(path: Path) -> sqlite3.Connection:
    # "rw" never creates: a ledger that has gone must be noticed. as_uri quotes what a URI would read
    # otherwise.
    connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=0.1, isolation_level=None)
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        for setting in ("synchronous = EXTRA", "fullfsync = 1", "trusted_schema = 0", "cell_size_check = 1"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    if mode != "delete":
        connection.close()
        raise LedgerError(
            f"the ledger {path} was switched to SQLite's journal mode {mode!r} and is held open so.",
            hint="close the other program, then run `PRAGMA journal_mode = DELETE` on it",
        )
    return connection


def _check_format(connection: sqlite3.Connection, place: str) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if pages == 0:
            raise LedgerCorrupt(
                f"the ledger {place} is empty: it was never one, or all of it was lost.",
                hint="delete the file if it never was a ledger; otherwise go back to a good copy",
            )
        raise LedgerCorrupt(f"{place} is not a ledger.", hint="name the ledger's own file, or a new one")
    if version != FORMAT:
        raise LedgerError(
            f"the ledger {place} has format {version}, and this version of discreet knows format {FORMAT}.",
            hint="a newer version of discreet wrote it; install that one",
        )


def _sync_folder(folder: Path) -> None:
    """Make the new name durable where folders can be synchronised (not on Windows)."""
    if os.name != "nt":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
