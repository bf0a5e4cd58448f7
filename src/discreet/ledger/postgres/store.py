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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from discreet.errors import LedgerError
from discreet.ledger.failures import ANOTHER
from discreet.ledger.postgres import failures
from discreet.ledger.postgres.adding import Adding
from discreet.ledger.postgres.failures import Lost, Refused
from discreet.ledger.postgres.link import Link, Step, Values
from discreet.ledger.postgres.pool import Pool
from discreet.ledger.postgres.statements import DURABLE, FACTS, OUTCOME, UNSAFE, Statements
from discreet.ledger.postgres.tables import FORMAT, tables
from discreet.ledger.postgres.transaction import Habits, PostgresTransaction
from discreet.ledger.postgres.url import Address
from discreet.ledger.store import Added, Addition, Transaction

PATIENCE = 30.0
"""Seconds to wait for other clients before `LedgerBusy`."""

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
                self._habits[writes] = begun.transaction.habits()
                changes = begun.transaction.changes()
                if changes is None:
                    self._leave(begun)
                else:
                    self._commit(begun, changes)
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
            transaction = PostgresTransaction(link, self._statements, self.place, habits, found, writes=writes)
            return _Begun(link, transaction, number, waiting)

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

    def _commit(self, begun: _Begun, changes: list[Step]) -> None:
        try:
            begun.link.ask(*changes, f"COMMIT; {DURABLE}")
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
    transaction: PostgresTransaction
    number: str
    waiting: bool


def _unsafe(link: Link) -> list[str]:
    return [str(name) for (name,) in link.ask(UNSAFE)[0]]
