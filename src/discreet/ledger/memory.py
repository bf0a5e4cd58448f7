"""A ledger that lives as long as its process, and what is written over a moment of any store."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import islice
from typing import TypeVar

from discreet.errors import LedgerError
from discreet.ledger.store import Moment, Row, Transaction


class Overlay:
    """A transaction over a moment of a store, which is only read, or over an empty store.

    Attributes:
        added: the rows that were added.
        changed: the states that were set.
        stored: the bytes that were set; None for those that were removed.
    """

    def __init__(self, base: Moment | None = None, *, writes: bool = True, place: str = ":memory:") -> None:
        self._base = base
        self._place = place
        self._writes = writes
        self.added: list[Row] = []
        self.changed: dict[str, str] = {}
        self.stored: dict[str, bytes | None] = {}

    def after(self, later: Overlay) -> Overlay:
        """Return the moment that begins when a transaction over this one, which has no base, ends; it is only read."""
        moment = Overlay(writes=False)
        moment.added = [*self.added, *later.added]
        moment.changed = self.changed | later.changed
        moment.stored = {n: value for n, value in (self.stored | later.stored).items() if value is not None}
        return moment

    def last(self) -> Row | None:
        """Return the row with the highest number."""
        return self.added[-1] if self.added else None if self._base is None else self._base.last()

    def row(self, seq: int) -> Row | None:
        """Return the row with that number; numbers are 1, 2, 3, …"""
        if self.added and seq >= (first := self.added[0].seq):
            return self.added[seq - first] if seq - first < len(self.added) else None
        return None if self._base is None else self._base.row(seq)

    def latest(self, population: str, kind: str, key: str, *, before: int) -> Row | None:
        """Return the last row with these three and a number below `before`."""
        for row in reversed(self.added):
            if row[1:4] == (population, kind, key) and row.seq < before:
                return row
        return None if self._base is None else self._base.latest(population, kind, key, before=before)

    def rows(self, *, after: int, limit: int, population: str | None = None, kind: str | None = None) -> list[Row]:
        """At most `limit` rows with numbers above `after`, in order."""
        found = self._base.rows(after=after, limit=limit, population=population, kind=kind) if self._base else []
        skipped = max(after + 1 - self.added[0].seq, 0) if self.added else 0
        more = (
            row
            for row in islice(self.added, skipped, None)
            if population in (None, row.population) and kind in (None, row.kind)
        )
        return [*found, *islice(more, limit - len(found))]

    def append(self, row: Row) -> None:
        """Add a row at the end."""
        self._check()
        self.added.append(row)

    def get(self, name: str) -> str | None:
        """Return the state of that name."""
        return self.changed[name] if name in self.changed else None if self._base is None else self._base.get(name)

    def put(self, name: str, value: str) -> None:
        """Set the state of that name."""
        self._check()
        self.changed[name] = value

    def names(self) -> list[str]:
        """Return the names of all states, sorted."""
        return sorted({*(self._base.names() if self._base else ()), *self.changed})

    def blob(self, name: str) -> bytes | None:
        """Return the bytes of that name."""
        return self.stored[name] if name in self.stored else None if self._base is None else self._base.blob(name)

    def put_blob(self, name: str, value: bytes | None) -> None:
        """Set the bytes of that name; None removes them."""
        self._check()
        self.stored[name] = None if value is None else bytes(value)

    def blobs(self) -> list[str]:
        """Return the names of all blobs, sorted."""
        gone = {name for name, value in self.stored.items() if value is None}
        return sorted({*(self._base.blobs() if self._base else ()), *self.stored} - gone)

    def _check(self) -> None:
        if not self._writes:
            raise LedgerError(f"the ledger {self._place} is only being read.")


EMPTY = Overlay(writes=False)  # a store in which nothing was written yet
T = TypeVar("T")


class MemoryStore:
    """Rows and states in memory, safe among threads.

    A forked child would get a copy whose charges its parent never sees, so that one budget could be spent
    twice: it is refused there.
    """

    place = ":memory:"

    def __init__(self) -> None:
        self._now = EMPTY
        self._lock = threading.RLock()
        self._closed = False
        self._pid = os.getpid()

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Return what the work makes of one moment of the store."""
        return work(self._state())

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Return what the work returns; what it wrote becomes the store's when it has ended."""
        self._state()  # looks at the process before it waits for a lock that the parent may have held
        with self._lock:
            before = self._state()
            overlay = Overlay(before)
            result = work(overlay)
            if self._now is not before:  # a signal handler of this thread, say
                raise LedgerError("the ledger :memory: was written to in the middle of a transaction of this thread.")
            self._now = before.after(overlay)
            return result

    def faults(self) -> list[str]:
        """Nothing: there is no medium that could fail."""
        return []

    def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._now = EMPTY

    def _state(self) -> Overlay:
        if os.getpid() != self._pid:
            raise LedgerError(
                "a :memory: ledger cannot be used in a forked child: its parent would not see the charges.",
                hint="give the ledger a file, which any number of processes can share",
            )
        if self._closed:
            raise LedgerError("the ledger :memory: is closed.")
        return self._now
