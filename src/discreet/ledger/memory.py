"""A ledger that lives as long as its process: for trying out, for tests, and only when it was asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from discreet.errors import LedgerError
from discreet.ledger.overlay import EMPTY, Overlay
from discreet.ledger.store import Transaction

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
        return work(self._state())

    def write(self, work: Callable[[Transaction], T]) -> T:
        """What the work returns; what it wrote becomes the store's when it has ended."""
        self._state()  # looks at the process before it waits for a lock that the parent may have held
        with self._lock:
            before = self._state()
            overlay = Overlay(before)
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

    def _state(self) -> Overlay:
        if os.getpid() != self._pid:
            raise LedgerError(
                "a :memory: ledger cannot be used in a forked child: its parent would not see the charges.",
                hint="give the ledger a file, which any number of processes can share",
            )
        if self._closed:
            raise LedgerError("the ledger :memory: is closed.")
        return self._now
