"""A store that is not there yet: it is empty until its first write makes it, or another process does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from discreet.errors import LedgerError
from discreet.ledger.memory import EMPTY, Overlay
from discreet.ledger.store import Store, Transaction

if TYPE_CHECKING:
    from discreet.ledger.postgres.store import PostgresStore
    from discreet.ledger.sqlite import SQLiteStore

T = TypeVar("T")


class Unmade:
    """A store before its first write.

    Attributes:
        store: the store itself, to be used once `made`.
    """

    def __init__(
        self, store: SQLiteStore | PostgresStore, exists: Callable[[], bool], make: Callable[[], object]
    ) -> None:
        self.store = store
        self._exists = exists
        self._make = make
        self._made = self._closed = False

    @property
    def place(self) -> str:
        """Where it will be."""
        return self.store.place

    @property
    def made(self) -> Store | None:
        """The store, if it is there now; once it was, it is for ever."""
        if self._closed:
            raise LedgerError(f"the ledger {self.place} is closed.")
        self._made = self._made or self._exists()
        return self.store if self._made else None

    def make(self) -> Store:
        """Return the store, made or found, which takes writes."""
        self._make()
        self.store.rehearse()
        self._made = True
        return self.store

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Return what the work makes of one moment."""
        made = self.made
        return work(EMPTY) if made is None else made.read(work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Return what the work returns, durable. Work that raises leaves no store: it is tried in memory first."""
        if self.made is None:
            work(Overlay())
            self.make()
        return self.store.write(work)

    def faults(self) -> list[str]:
        """Return what is wrong with the medium."""
        made = self.made
        return [] if made is None else made.faults()

    def close(self) -> None:
        """Refuse any later use."""
        self._closed = True
        self.store.close()
