"""A ledger that lives as long as its process: for trying out, for tests, and only when it was asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from discreet.errors import LedgerError
from discreet.ledger.store import Row, Transaction

T = TypeVar("T")


class MemoryStore:
    """Rows and states in memory, safe among threads.

    A forked child would get a copy whose charges its parent never sees, so that one budget could be spent
    twice: it is refused there.
    """

    place = ":memory:"

    def __init__(self) -> None:
        self._now = Moment([], {}, {})
        self._lock = threading.RLock()
        self._closed = False
        self._pid = os.getpid()

    def read(self, work: Callable[[Transaction], T]) -> T:
        """What the work makes of one moment of the store."""
        return work(MemoryTransaction(self._state(), writes=False))

    def write(self, work: Callable[[Transaction], T]) -> T:
        """What the work returns; what it wrote becomes the store's when it has ended."""
        self._state()  # looks at the process before it waits for a lock that the parent may have held
        with self._lock:
            before = self._state()
            transaction = MemoryTransaction(before, writes=True)
            result = work(transaction)
            if self._now is not before:  # a signal handler of this thread, say
                raise LedgerError(
                    "the ledger :memory: was written to in the middle of a transaction of this thread."
                )
            self._now = transaction.after()
            return result

    def faults(self) -> list[str]:
        """Nothing: there is no medium that could fail."""
        return []

    def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._now = Moment([], {}, {})

    def _state(self) -> Moment:
        if os.getpid() != self._pid:
            raise LedgerError(
                "a :memory: ledger cannot be used in a forked child: its parent would not see the charges.",
                hint="give the ledger a file, which any number of processes can share",
            )
        if self._closed:
            raise LedgerError("the ledger :memory: is closed.")
        return self._now


class Moment(NamedTuple):
    """All that a store holds; it is replaced and never changed."""

    rows: list[Row]
    states: dict[str, str]
    blobs: dict[str, bytes]


class MemoryTransaction:
    """One moment of a `MemoryStore`, with what has been added since."""

    def __init__(self, moment: Moment, *, writes: bool) -> None:
        self._rows, self._states, self._blobs = moment
        self._writes = writes
        self._added: list[Row] = []
        self._changed: dict[str, str] = {}
        self._stored: dict[str, bytes | None] = {}

    def after(self) -> Moment:
        """The moment that begins when this transaction ends."""
        blobs = {name: value for name, value in (self._blobs | self._stored).items() if value is not None}
        return Moment([*self._rows, *self._added], self._states | self._changed, blobs)

    def last(self) -> Row | None:
        """The row with the highest number."""
        rows = self._added or self._rows
        return rows[-1] if rows else None

    def row(self, seq: int) -> Row | None:
        """The row with that number; numbers are 1, 2, 3, …"""
        if not 1 <= seq <= len(self._rows) + len(self._added):
            return None
        return self._rows[seq - 1] if seq <= len(self._rows) else self._added[seq - 1 - len(self._rows)]

    def latest(self, population: str, kind: str, key: str, *, before: int) -> Row | None:
        """The last row with these three and a number below `before`."""
        for rows in (self._added, self._rows):
            for row in reversed(rows):
                if row[1:4] == (population, kind, key) and row.seq < before:
                    return row
        return None

    def rows(
        self, *, after: int, limit: int, population: str | None = None, kind: str | None = None
    ) -> list[Row]:
        """At most `limit` rows with numbers above `after`, in order."""
        found = (
            row
            for row in [*self._rows, *self._added][after:]
            if population in (None, row.population) and kind in (None, row.kind)
        )
        return [row for row, _ in zip(found, range(limit), strict=False)]

    def append(self, row: Row) -> None:
        """Add a row at the end."""
        self._writing()
        self._added.append(row)

    def get(self, name: str) -> str | None:
        """The state of that name."""
        return self._changed.get(name, self._states.get(name))

    def put(self, name: str, value: str) -> None:
        """Set the state of that name."""
        self._writing()
        self._changed[name] = value

    def names(self) -> list[str]:
        """The names of all states, sorted."""
        return sorted(self._states | self._changed)

    def blob(self, name: str) -> bytes | None:
        """The bytes of that name."""
        return self._stored[name] if name in self._stored else self._blobs.get(name)

    def put_blob(self, name: str, value: bytes | None) -> None:
        """Set the bytes of that name; None removes them."""
        self._writing()
        self._stored[name] = None if value is None else bytes(value)

    def blobs(self) -> list[str]:
        """The names of all blobs, sorted."""
        return sorted(self.after().blobs)

    def _writing(self) -> None:
        if not self._writes:
            raise LedgerError("the ledger :memory: is only being read.")
