"""A ledger in one SQLite file.

Between transactions a store keeps one connection, which one thread at a time can take. Before a fork all that are kept
are closed, so that a child inherits none; and once a transaction holds its lock, it is made sure that the file at the
path is still the one that the connection has open: one that was moved, deleted or replaced is noticed instead of being
written to out of sight.

The rollback journal with `synchronous=EXTRA` makes a commit durable before it returns, including the removal of the
journal.

References: https://www.sqlite.org/howtocorrupt.html, https://www.sqlite.org/pragma.html#pragma_synchronous
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from discreet.errors import LedgerCorrupt, LedgerError
from discreet.ledger.failures import ANOTHER, KEEP, busy, is_busy, translated
from discreet.ledger.store import Row, Transaction

APPLICATION = 0x64736372  # what marks a SQLite file as a ledger ("dscr")
FORMAT = 1  # the version of the format that is written; docs/ledger-format.md describes it
PATIENCE = 30.0  # seconds to wait for another process before `LedgerBusy`

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
CREATE TABLE blob (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TRIGGER entry_stays BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entries never change'); END;
CREATE TRIGGER entry_remains BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries remain'); END;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
COMMIT;
"""

_PAUSE, _LONGEST_PAUSE = 0.0005, 0.003  # seconds between two looks whether the file is free: at first, and later

_SETTINGS = (
    "synchronous = EXTRA",
    "fullfsync = 1",
    "trusted_schema = 0",
    "cell_size_check = 1",
    "busy_timeout = 0",  # the store waits by itself
    "secure_delete = 0",  # some builds overwrite what is removed, which for blobs of many MB takes seconds
)

_ROW = 'SELECT seq, population, kind, "key", body, hash FROM entry'

_READ, _WRITE = "BEGIN", "BEGIN IMMEDIATE"

_HABITS = 8  # states that are asked for at once

T = TypeVar("T")

_ALONE = threading.RLock()
"""Held by this process while any of its connections is in use.

A fork in the middle of another thread's transaction would leave the child with SQLite's memory of locks
that the child does not hold. So a fork waits for the end of the transaction, and none begins meanwhile.
"""


@dataclass(slots=True, eq=False)
class Kept:
    """A connection, which file it has open (its device and number), and how its transactions begin as it is set now."""

    connection: sqlite3.Connection
    identity: tuple[int, int]
    begin: str = ""


_KEPT: weakref.WeakSet[SQLiteStore] = weakref.WeakSet()


def release() -> None:
    """Close every connection of this process that waits for its next use."""
    with _ALONE:
        for store in list(_KEPT):
            _close(store._kept)


def _before_fork() -> None:
    _ALONE.acquire()
    release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_ALONE.release, after_in_child=_ALONE.release)


class SQLiteStore:
    """Rows and states in a SQLite file on a local disk, for any threads, processes and forked children."""

    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        self._path = path
        self._patience = patience
        self._closed = False
        self._kept: list[Kept] = []  # one at most
        self._habits: dict[str, tuple[str, ...]] = {_READ: (), _WRITE: ()}
        _KEPT.add(self)
        weakref.finalize(self, _close, self._kept)

    @classmethod
    def create(cls, path: Path) -> None:
        """Make a new, empty ledger at `path` unless something is there.

        It is made under another name and linked into place: nobody ever sees it half made, and a file that is
        found empty is therefore a damaged ledger and not a new one.
        """
        with _drafted(path) as draft:
            with suppress(FileExistsError):
                os.link(draft, path)
            _sync_folder(path.parent)

    def rehearse_making(self) -> None:
        """Make a ledger beside the file and remove it: where none can be made, this raises."""
        with _drafted(self._path):
            pass

    @property
    def place(self) -> str:
        """The path of the file."""
        return str(self._path)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Return what the work makes of one moment of the file."""
        return self._transaction(_READ, lambda connection: self._worked(_READ, connection, work))

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Return what the work returns, durable; it holds the file's only write lock from its start."""
        return self._transaction(_WRITE, lambda connection: self._worked(_WRITE, connection, work))

    def rehearse(self) -> None:
        """Undo a write: where the file, or a journal beside it, cannot be written, this raises."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO state VALUES ('rehearsal', '')")
            connection.rollback()

        self._transaction(_WRITE, work)

    def faults(self) -> list[str]:
        """Return what SQLite's own integrity check finds."""

        def check(connection: sqlite3.Connection) -> list[str]:
            return [str(text) for (text,) in connection.execute("PRAGMA integrity_check(20)").fetchall()]

        found = self._transaction(_READ, check)
        return [] if found == ["ok"] else [f"SQLite finds the file damaged: {'; '.join(found)}."]

    def close(self) -> None:
        """Refuse any later use, and close the file."""
        self._closed = True
        with _ALONE:
            _close(self._kept)

    def _worked(self, begin: str, connection: sqlite3.Connection, work: Callable[[Transaction], T]) -> T:
        transaction = SQLiteTransaction(connection, self.place, self._habits[begin])
        result = work(transaction)
        self._habits[begin] = transaction.habits()
        return result

    def _transaction(self, begin: str, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise LedgerError(f"the ledger {self.place} is closed.")
        deadline, pause = time.monotonic() + self._patience, _PAUSE
        with translated(self.place):
            while True:
                with _ALONE:
                    # Ctrl-C may come at any instruction. A connection is held here before its transaction begins,
                    # and the calls below are each one call into C, so that it is heard after them: an open
                    # transaction never outlives this function.
                    held: list[Kept] = []
                    whole = False
                    try:
                        if self._begun(begin, held):
                            connection = held[0].connection
                            result = work(connection)
                            self._commit(connection, deadline)
                            whole = True
                            return result
                    finally:
                        if held:
                            try:
                                held[0].connection.rollback()  # does nothing after a commit
                            finally:
                                if whole and not self._kept and not self._closed:
                                    self._kept.append(held[0])
                                else:
                                    held[0].connection.close()
                self._wait(deadline, pause)
                pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _begun(self, begin: str, held: list[Kept]) -> bool:
        """Whether `held` now has a connection in a transaction on the file at the path: not while another has it."""
        while self._kept:
            held.append(self._kept.pop())
            if not self._try(begin, held):
                return False
            if self._is_at_path(held[0]):
                return True
            try:
                held[0].connection.rollback()
            finally:
                held.pop().connection.close()
        before = _identity(self._path)
        try:
            connection = _connect(self._path)
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise
        after = _identity(self._path)
        if before is None or before != after:  # replaced while it was opened: it is not known which one is open
            connection.close()
            return False
        held.append(Kept(connection, before))
        return self._try(begin, held)

    def _try(self, begin: str, held: list[Kept]) -> bool:
        """Whether the connection is in a transaction; if another one has the file, it is put back for later."""
        connection = held[0].connection
        try:
            if held[0].begin != begin:  # seldom: all statements that were prepared expire with it
                held[0].begin = ""
                connection.execute(f"PRAGMA query_only = {int(begin == _READ)}")
                held[0].begin = begin
            connection.execute(begin)
            _check_format(connection, self.place)  # the first read too, with which a plain BEGIN locks
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            connection.rollback()
            idle = held.pop()
            if self._kept:
                connection.close()
            else:
                self._kept.append(idle)
            return False
        return True

    def _is_at_path(self, kept: Kept) -> bool:
        """Whether a kept connection has the right file open still, in the journal mode that it was opened with.

        A link may lead to that file now. Then a connection that was opened before would write its journal beside the
        link, where nobody who opens the file looks for it.
        """
        (mode,) = kept.connection.execute("PRAGMA journal_mode").fetchone()
        same = _identity(self._path) == kept.identity and os.path.realpath(self._path) == str(self._path)
        return bool(mode == "delete") and same

    def _commit(self, connection: sqlite3.Connection, deadline: float) -> None:
        while connection.in_transaction:
            try:
                connection.execute("COMMIT")
            except sqlite3.OperationalError as error:  # somebody reads; nobody can start to
                if not is_busy(error):
                    raise
                self._wait(deadline, _LONGEST_PAUSE)

    def _wait(self, deadline: float, pause: float) -> None:
        if time.monotonic() > deadline:
            raise busy(self.place)
        time.sleep(pause)


@contextmanager
def _drafted(path: Path) -> Iterator[Path]:
    """Yield a new, empty ledger beside `path`, removed at the end."""
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}.new")
    with _ALONE, translated(str(path)):
        try:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            connection = _connect(draft)
            try:
                connection.executescript(_SCHEMA)
            finally:
                connection.close()
            yield draft
        finally:
            draft.unlink(missing_ok=True)


class SQLiteTransaction:
    """One moment of a `SQLiteStore`. Rows are always fetched at once: no statement outlives its call.

    Rows never change, and nobody else writes before the end of a transaction that does: what was read once is kept.
    """

    def __init__(self, connection: sqlite3.Connection, place: str, habits: tuple[str, ...]) -> None:
        self._connection = connection
        self._place = place
        self._rows: dict[int, Row] = {}
        self._last: int | None = None
        self._states: dict[str, str | None] = {}
        self._likely = habits
        self._asked: set[str] = set()

    def last(self) -> Row | None:
        """Return the row with the highest number; the one before it, from which its hash follows, is fetched too."""
        if self._last is None:
            found = self._all(f"{_ROW} ORDER BY seq DESC LIMIT 2")
            self._rows.update((row.seq, row) for row in found)
            self._last = found[0].seq if found else 0
        return self._rows.get(self._last)

    def row(self, seq: int) -> Row | None:
        """Return the row with that number."""
        found = self._rows.get(seq)
        return found if found is not None else self._one(f"{_ROW} WHERE seq = ?", seq)

    def latest(self, population: str, kind: str, key: str, *, before: int) -> Row | None:
        """Return the last row with these three and a number below `before`."""
        where = 'WHERE population = ? AND kind = ? AND "key" = ? AND seq < ?'
        return self._one(f"{_ROW} {where} ORDER BY seq DESC LIMIT 1", population, kind, key, before)

    def rows(self, *, after: int, limit: int, population: str | None = None, kind: str | None = None) -> list[Row]:
        """At most `limit` rows with numbers above `after`, in order."""
        where = "WHERE seq > ?1 AND (?3 IS NULL OR population = ?3) AND (?4 IS NULL OR kind = ?4)"
        return self._all(f"{_ROW} {where} ORDER BY seq LIMIT ?2", after, limit, population, kind)

    def append(self, row: Row) -> None:
        """Add a row at the end."""
        self._connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", row)
        self._last = None

    def get(self, name: str) -> str | None:
        """Return the state of that name."""
        self._asked.add(name)
        if name not in self._states:
            names = tuple(dict.fromkeys((name, *self._likely)))
            places = ", ".join("?" * len(names))
            asked = self._connection.execute(f"SELECT name, value FROM state WHERE name IN ({places})", names)
            found = {str(known): str(value) for known, value in asked.fetchall()}
            self._states = {known: found.get(known) for known in names} | self._states
            self._likely = ()
        return self._states[name]

    def put(self, name: str, value: str) -> None:
        """Set the state of that name."""
        self._connection.execute(
            "INSERT INTO state VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value)
        )
        self._states[name] = value

    def habits(self) -> tuple[str, ...]:
        """Return the states that the next transaction of its kind will probably ask for: those that this one did."""
        return tuple(sorted(self._asked)[:_HABITS])

    def names(self) -> list[str]:
        """Return the names of all states, sorted."""
        return [str(name) for (name,) in self._connection.execute("SELECT name FROM state ORDER BY name").fetchall()]

    def blob(self, name: str) -> bytes | None:
        """Return the bytes of that name."""
        found = self._connection.execute("SELECT value FROM blob WHERE name = ?", (name,)).fetchone()
        if found is not None and type(found[0]) is not bytes:
            raise LedgerCorrupt(f"a blob of the ledger {self._place} is not bytes.", hint=KEEP)
        return None if found is None else found[0]

    def put_blob(self, name: str, value: bytes | None) -> None:
        """Set the bytes of that name; None removes them."""
        if value is None:
            self._connection.execute("DELETE FROM blob WHERE name = ?", (name,))
        else:
            self._connection.execute(
                "INSERT INTO blob VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value)
            )

    def blobs(self) -> list[str]:
        """Return the names of all blobs, sorted."""
        return [str(name) for (name,) in self._connection.execute("SELECT name FROM blob ORDER BY name").fetchall()]

    def _one(self, sql: str, *values: Any) -> Row | None:
        found = self._all(sql, *values)
        return found[0] if found else None

    def _all(self, sql: str, *values: Any) -> list[Row]:
        found = [Row(*values) for values in self._connection.execute(sql, values).fetchall()]
        if any(type(text) is not str for row in found for text in row[1:]):
            raise LedgerCorrupt(f"an entry of the ledger {self._place} is not text.")
        return found


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is at the path; None for none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _close(kept: list[Kept]) -> None:
    while kept:
        kept.pop().connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    # "rw" never creates: a ledger that has gone must be noticed. as_uri quotes what a URI would read
    # otherwise.
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=0.1, isolation_level=None, check_same_thread=False
    )
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        for setting in _SETTINGS:
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
            hint=ANOTHER,
        )


def _sync_folder(folder: Path) -> None:
    """Make the new name durable where folders can be synchronised (not on Windows)."""
    if os.name != "nt":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
