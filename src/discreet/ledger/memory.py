"""A ledger that lives as long as its process: for trying out, for tests, and only when it was asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from discreet.errors import LedgerError
from discreet.ledger.overlay import Overlay
from discreet.ledger.store import Row, Transaction

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
        """What the work makes of one moment of the store."""
        return work(MemoryTransaction(self._state()))

    def write(self, work: Callable[[Transaction], T]) -> T:
        """What the work returns; what it wrote becomes the store's when it has ended."""
        self._state()  # looks at the process before it waits for a lock that the parent may have held
        with self._lock:
            before = self._state()
            overlay = Overlay(MemoryTransaction(before))
            result = work(overlay)
            if self._now is not before:  # a signal handler of this thread, say
                raise LedgerError(
                    "the ledger :memory: was written to in the middle of a transaction of this thread."
                )
            self._now = before.after(overlay)
            return result

    def faults(self) -> list[str]:
        """Nothing: there is no medium that could fail."""
        return []

    def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._now = EMPTY

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

    def after(self, overlay: Overlay) -> Moment:
        """The moment that begins when a transaction over this one ends."""
        blobs = {name: value for name, value in (self.blobs | overlay.stored).items() if value is not None}
        return Moment([*self.rows, *overlay.added], self.states | overlay.changed, blobs)


EMPTY = Moment([], {}, {})
"""Before anything was written."""


class MemoryTransaction:
    """One moment of a `MemoryStore`, which is only read."""

    def __init__(self, moment: Moment) -> None:
        self._rows, self._states, self._blobs = moment

    def last(self) -> Row | None:
        """The row with the highest number."""
        return self._rows[-1] if self._rows else None

    def row(self, seq: int) -> Row | None:
        """The row with that number; numbers are 1, 2, 3, …"""
        return self._rows[seq - 1] if 1 <= seq <= len(self._rows) else None

    def latest(self, population: str, kind: str, key: str, *, before: int) -> Row | None:
        """The last row with these three and a number below `before`."""
        for row in reversed(self._rows):
            if row[1:4] == (population, kind, key) and row.seq < before:
                return row
        return None

    def rows(
        self, *, after: int, limit: int, population: str | None = None, kind: str | None = None
    ) -> list[Row]:
        """At most `limit` rows with numbers above `after`, in order."""
        found = (
            row
            for row in self._rows[after:]
            if population in (None, row.population) and kind in (None, row.kind)
        )
        return [row for row, _ in zip(found, range(limit), strict=False)]

    def get(self, name: str) -> str | None:
        """The state of that name."""
        return self._states.get(name)

    def names(self) -> list[str]:
        """The names of all states, sorted."""
        return sorted(self._states)

    def blob(self, name: str) -> bytes | None:
        """The bytes of that name."""
        return self._blobs.get(name)

    def blobs(self) -> list[str]:
        """The names of all blobs, sorted."""
        return sorted(self._blobs)

    def append(self, row: Row) -> None:
        """Refused."""
        raise _only_read()

    def put(self, name: str, value: str) -> None:
        """Refused."""
        raise _only_read()

    def put_blob(self, name: str, value: bytes | None) -> None:
        """Refused."""
        raise _only_read()


def _only_read() -> LedgerError:
    return LedgerError("the ledger :memory: is only being read.")
