"""A ledger in a PostgreSQL database, for any number of hosts.

A write transaction takes one lock first, so that entries have one order. It commits in two steps of one message: the
commit itself, which ends the lock, and a wait until the server's log is on its disk up to there. With the wait outside
of the lock, the waits of many writers are one. Meanwhile others can see what is not on the disk yet; so every
transaction, also one that only reads or that fails, ends with such a wait, unless there was nothing to wait for when
it began. What could still be lost is never told to anybody.

References: https://www.postgresql.org/docs/current/wal-async-commit.html
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from discreet.errors import LedgerError
from discreet.ledger.failures import ANOTHER
from discreet.ledger.memory import Overlay
from discreet.ledger.postgres import failures
from discreet.ledger.postgres.adding import DURABLE, FACTS, OUTCOME, PROCEDURE, STATE, UNSAFE, Adding, Statements
from discreet.ledger.postgres.failures import Lost, Refused
from discreet.ledger.postgres.link import Link, Pool, Step, Values
from discreet.ledger.postgres.url import Address
from discreet.ledger.store import Added, Addition, Row, Transaction

_PIECE = 4 << 20  # bytes of a blob in one row, far from the server's limit for a value
_HABITS = 8  # how many states, and how many entries, are remembered to be asked for at once


@dataclass(frozen=True, slots=True)
class Habits:
    """What the last transaction asked for, and the next one will probably ask for too: states and entries."""

    states: frozenset[str] = frozenset()
    rows: frozenset[int] = frozenset()


class PostgresMoment:
    """What a transaction reads; what it writes lies over this until the commit."""

    def __init__(self, link: Link, statements: Statements, habits: Habits, found: list[Values]) -> None:
        self._link = link
        self._statements = statements
        self._states: dict[str, str | None] = dict.fromkeys(habits.states)
        self._states.update((values[1], values[2]) for values in found if values[0] == STATE)
        self._rows = {row.seq: row for row in _rows(found) if row.seq > 0}
        self._last = max(self._rows, default=0)
        self._asked: set[str] = set()
        self._looked: set[int] = set()

    def last(self) -> Row | None:
        """Return the row with the highest number."""
        return self._rows.get(self._last)

    def row(self, seq: int) -> Row | None:
        """Return the row with that number."""
        self._looked.add(seq)
        return self._rows[seq] if seq in self._rows else self._one(self._statements.row, seq)

    def latest(self, population: str, kind: str, key: str, *, before: int) -> Row | None:
        """Return the last row with these three and a number below `before`."""
        return self._one(self._statements.latest, population, kind, key, before)

    def rows(self, *, after: int, limit: int, population: str | None = None, kind: str | None = None) -> list[Row]:
        """At most `limit` rows with numbers above `after`, in order."""
        return _rows(self._all(self._statements.rows, after, limit, population, kind))

    def get(self, name: str) -> str | None:
        """Return the state of that name."""
        self._asked.add(name)
        if name not in self._states:
            found = self._all(self._statements.state, name)
            self._states[name] = str(found[0][0]) if found else None
        return self._states[name]

    def names(self) -> list[str]:
        """Return the names of all states, sorted."""
        return sorted(str(name) for (name,) in self._all(self._statements.states))

    def blob(self, name: str) -> bytes | None:
        """Return the bytes of that name."""
        pieces = self._all(self._statements.blob, name)
        return b"".join(piece for (piece,) in pieces) if pieces else None

    def blobs(self) -> list[str]:
        """Return the names of all blobs, sorted."""
        return sorted(str(name) for (name,) in self._all(self._statements.blobs))

    def habits(self, added: list[Row]) -> Habits:
        """Return what the next transaction of this store will probably ask for: the last entries it gets unasked."""
        looked = {row.seq for row in added[-1:]} | {seq for seq in self._looked if seq < self._last - 1}
        return Habits(frozenset(sorted(self._asked)[:_HABITS]), frozenset(sorted(looked)[-_HABITS:]))

    def _one(self, statement: str, *values: Any) -> Row | None:
        found = _rows(self._all(statement, *values))
        return found[0] if found else None

    def _all(self, statement: str, *values: Any) -> list[Values]:
        return self._link.ask((statement, *values))[0]


def _rows(found: list[Values]) -> list[Row]:
    return [Row(*values) for values in found]


def stored_blobs(statements: Statements, blobs: Mapping[str, bytes | None]) -> Iterator[Step]:
    """Yield the steps that store these blobs, in pieces; None removes one."""
    for name, value in blobs.items():
        yield (statements.remove_blob, name)
        if value is not None:
            for part, start in enumerate(range(0, max(1, len(value)), _PIECE)):
                yield (statements.add_to_blob, name, part, value[start : start + _PIECE])


FORMAT = 1  # the version of the format that is written, in which docs/ledger-format.md describes the tables

_TABLES = """
DO $make$ BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('a ledger of discreet'), hashtext('{schema}'));
  IF to_regclass('"{schema}".ledger') IS NOT NULL THEN RETURN; END IF;
  IF to_regnamespace('"{schema}"') IS NULL THEN CREATE SCHEMA "{schema}"; END IF;
  CREATE TABLE "{schema}".entry (
    seq bigint PRIMARY KEY,
    population text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    "key" text COLLATE "C" NOT NULL,
    body text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL,
    attempt bigint
  );
  CREATE INDEX entry_by_key ON "{schema}".entry (population, kind, "key", seq);
  CREATE TABLE "{schema}".state (name text COLLATE "C" PRIMARY KEY, value text COLLATE "C" NOT NULL);
  CREATE TABLE "{schema}".blob (
    name text COLLATE "C",
    part integer,
    value bytea NOT NULL,
    PRIMARY KEY (name, part)
  );
  ALTER TABLE "{schema}".blob ALTER value SET STORAGE EXTERNAL;
  CREATE FUNCTION "{schema}".entry_stays() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN RAISE EXCEPTION ''entries never change''; END';
  CREATE TRIGGER entry_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON "{schema}".entry
    EXECUTE FUNCTION "{schema}".entry_stays();
  CREATE TABLE "{schema}".ledger (format integer NOT NULL, fence bigint NOT NULL DEFAULT 0);
  INSERT INTO "{schema}".ledger VALUES ({format});
  {procedure}
END $make$
"""


def procedure(schema: str, text: str = PROCEDURE) -> str:
    """Return the statement that makes the procedure."""
    return text.format(schema=schema, format=FORMAT)


def tables(schema: str) -> str:
    """Return the statement that makes an empty ledger unless there is one."""
    return _TABLES.format(schema=schema, format=FORMAT, procedure=procedure(schema))


PATIENCE = 30.0  # seconds to wait for other clients before `LedgerBusy`
T = TypeVar("T")


class PostgresStore:
    """Rows, states and blobs in a schema of a database, for any threads, processes, forked children and hosts."""

    def __init__(self, address: Address, *, patience: float = PATIENCE) -> None:
        self._address = address
        self._place = address.place
        self._patience = patience
        self._statements = Statements(address.schema)
        self._pool = Pool(address, patience=patience)
        self._adding = Adding(self._pool, self._statements, address.schema, self._place, patience)
        self._habits = {False: Habits(), True: Habits()}
        self._closed = False

    @property
    def place(self) -> str:
        """The URL of the database and the schema, without a password."""
        return self._place

    def exists(self) -> bool:
        """Whether there is a ledger in the schema."""
        (((found,),),) = self._apart(self._statements.exists)
        return bool(found)

    def create(self) -> None:
        """Make a new, empty ledger in the schema unless there is one."""
        if not self.exists():
            self._apart(tables(self._address.schema))

    def rehearse_making(self) -> None:
        """Make a ledger in a transaction that is undone: where none can be made, this raises."""
        self._apart(f"BEGIN; {tables(self._address.schema)}; ROLLBACK")

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Return what the work makes of one moment of the ledger."""
        return self._transaction(lambda begun: work(begun.transaction), writes=False)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Return what the work returns, durable; from its start to its commit it holds the ledger's only lock."""
        return self._transaction(lambda begun: work(begun.transaction), writes=True)

    def add(self, addition: Addition) -> Added | None:
        """Return the row, durable; None when nothing was added, for whatever reason: a transaction tells why."""
        self._check_open()
        with self._told():
            return self._adding.add(addition)

    def rehearse(self) -> None:
        """Undo a write: where nothing can be written, this raises.

        So it does where the server is set to call durable what is not.
        """

        def work(begun: _Begun) -> list[str]:
            begun.link.ask(self._statements.written([], {"rehearsal": ""}), "ROLLBACK")
            return _unsafe(begun.link)

        if unsafe := self._transaction(work, writes=True):
            raise LedgerError(
                f"the server of the ledger {self.place} runs with {unsafe[0]} = off, and can lose a charge.",
                hint=f"set {unsafe[0]} = on in its configuration",
            )

    def faults(self) -> list[str]:
        """Return the settings of the server under which it can lose what it has committed."""
        unsafe = self._transaction(lambda begun: _unsafe(begun.link), writes=False)
        return [f"The server runs with {setting} = off, and can lose a charge." for setting in unsafe]

    def close(self) -> None:
        """Refuse any later use, and end the connections."""
        self._closed = True
        self._pool.close()

    def _transaction(self, work: Callable[[_Begun], T], *, writes: bool) -> T:
        self._check_open()
        held: list[Link] = []  # filled before the transaction begins: Ctrl-C at any time ends it
        with self._told():
            try:
                begun = self._begin(held, writes=writes)
                try:
                    result = work(begun)
                except Exception:
                    self._leave(begun)  # what the error says may rest on what is not on the disk yet
                    raise
                self._habits[writes] = begun.moment.habits(begun.transaction.added)
                self._commit(begun)
                return result
            finally:
                for link in held:
                    self._pool.give_back(link)

    def _begin(self, held: list[Link], *, writes: bool) -> _Begun:
        """Return an open transaction. A connection that was lost while it waited for its use is replaced."""
        deadline = time.monotonic() + self._patience
        while True:
            link = self._pool.waiting()
            fresh = link is None
            link = link or self._pool.fresh(deadline)
            held[:] = [link]
            habits = self._habits[writes]
            try:
                _, found = link.ask(*self._opening(habits, writes=writes))
            except Lost:
                link.close()
                if fresh:
                    raise
                continue
            except Refused:
                self._check_format(link)
                raise
            number, waiting = self._facts(found)
            moment = PostgresMoment(link, self._statements, habits, found)
            return _Begun(link, moment, Overlay(moment, writes=writes, place=self.place), number, waiting)

    def _opening(self, habits: Habits, *, writes: bool) -> tuple[Step, Step]:
        """Begins a transaction, and asks at once what it will probably need."""
        known = sorted(habits.states), sorted(habits.rows)
        if writes:
            return self._statements.begin_write, (self._statements.start_write, *known)
        return self._statements.begin_read, (self._statements.start_read, *known)

    def _leave(self, begun: _Begun) -> None:
        """End a transaction that wrote nothing, once all that it could see is on the disk."""
        if begun.link.usable:
            begun.link.ask(f"ROLLBACK; {DURABLE}" if begun.waiting else "ROLLBACK")

    def _commit(self, begun: _Begun) -> None:
        written = begun.transaction
        for step in stored_blobs(self._statements, written.stored):  # large: one at a time
            begun.link.ask(step)
        rest = [self._statements.written(written.added, written.changed)] if written.added or written.changed else []
        if not rest and not written.stored:
            self._leave(begun)
            return
        try:
            begun.link.ask(*rest, f"COMMIT; {DURABLE}")
            return
        except Refused:
            if not begun.link.commits:
                raise  # the server has undone it
        except Lost:
            pass
        begun.link.close()
        if not self._found(begun):
            raise failures.undone(self.place)

    def _found(self, begun: _Begun) -> bool:
        """Whether a transaction that was lost while it committed took place; then it is on the disk now.

        It is looked for with the ledger's lock held, so that the lost transaction has ended, one way or the other.
        """
        deadline = time.monotonic() + self._patience
        while True:
            link = None
            try:
                link = self._pool.fresh(deadline)
                _, start, outcome, *rows, _ = link.ask(
                    *self._opening(Habits(), writes=True),
                    (OUTCOME, begun.number),
                    *[(self._statements.found, row.seq, row.hash) for row in begun.transaction.added],
                    f"ROLLBACK; {DURABLE}",
                )
                self._facts(start)
                return outcome == [["committed"]] and all(row == [[1]] for row in rows)
            except (Refused, Lost, LedgerError) as error:
                locked = isinstance(error, Refused) and error.code == failures.LOCKED
            finally:
                if link is not None:
                    self._pool.give_back(link)
            if locked or time.monotonic() > deadline:
                raise failures.unknown(self.place)
            time.sleep(0.1)

    def _apart(self, statements: str) -> list[list[Values]]:
        """Return the answer to statements that are a transaction of their own."""
        self._check_open()
        with self._told():
            link = self._pool.fresh(time.monotonic() + self._patience)
            try:
                return link.ask(statements)
            finally:
                self._pool.give_back(link)

    def _facts(self, found: list[Values]) -> tuple[str, bool]:
        """Return the transaction's number and whether it must wait, if the tables are of the right format."""
        facts = [values for values in found if values[0] == FACTS]
        self._check(facts[0][1] if facts else None)
        return str(facts[0][2]), facts[0][3] == "true"

    def _check_open(self) -> None:
        if self._closed:
            raise LedgerError(f"the ledger {self.place} is closed.")

    def _check_format(self, link: Link) -> None:
        """Whether tables that are not as expected are simply of another format."""
        try:
            _, found = link.ask("ROLLBACK", self._statements.format)
        except Refused:
            return
        self._check(str(found[0][0]) if found else None)

    def _check(self, found: str | None) -> None:
        if found != str(FORMAT):
            raise LedgerError(
                f"the ledger {self.place} has format {found}, and this version of discreet knows format {FORMAT}.",
                hint=ANOTHER,
            )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what is refused or lost inside the block into a `LedgerError`."""
        told = None
        try:
            yield
        except Refused as refused:
            told = failures.failure(refused.code, self.place)
        except Lost:
            told = failures.lost(self.place)
        if told is not None:
            raise told


class _Begun(NamedTuple):
    """An open transaction, its number, and whether it can see what is not on the disk yet."""

    link: Link
    moment: PostgresMoment
    transaction: Overlay
    number: str
    waiting: bool


def _unsafe(link: Link) -> list[str]:
    return [str(name) for (name,) in link.ask(UNSAFE)[0]]
