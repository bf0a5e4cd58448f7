"""Where a ledger is: in memory, in a file, or in a PostgreSQL database; and the store for each."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from discreet.errors import LedgerError
from discreet.ledger.memory import EMPTY, MemoryStore, Overlay
from discreet.ledger.sqlite import SQLiteStore
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


MEMORY = ":memory:"  # the path that asks for a ledger that ends with the process
SCHEMES = ("postgresql://", "postgres://")  # how the URL of a PostgreSQL database begins


def made_store(path: str | os.PathLike[str]) -> Store:
    """Return the store at a place, made if nothing is there; one that cannot be written is refused."""
    return MemoryStore() if path == MEMORY else _unmade(path).make()


def prepared_store(path: str | os.PathLike[str]) -> Store:
    """Return the store at a place, which its first write makes if need be; one that cannot be written is refused."""
    if path == MEMORY or is_there(path):
        return made_store(path)
    unmade = _unmade(path)
    unmade.store.rehearse_making()
    return unmade


def _unmade(path: str | os.PathLike[str]) -> Unmade:
    if is_url(path):
        database = _database(path)
        return Unmade(database, database.exists, database.create)
    where = _file(path)
    return Unmade(SQLiteStore(where), where.exists, lambda: where.exists() or SQLiteStore.create(where))


def existing_store(path: str | os.PathLike[str]) -> Store:
    """Return the store at a place, which must be there; enough permission to read it is enough."""
    store = _database(path) if is_url(path) else SQLiteStore(_file(path))
    store.read(lambda transaction: None)
    return store


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether there is a ledger at a place, or another file in its way; in memory there never is."""
    if path == MEMORY:
        return False
    if not is_url(path):
        return _file(path).exists()
    store = _database(path)
    try:
        return store.exists()
    finally:
        store.close()


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether the place is a PostgreSQL database."""
    return isinstance(path, str) and path.startswith(SCHEMES)


def _database(path: str | os.PathLike[str]) -> PostgresStore:
    from discreet.ledger.postgres.store import PostgresStore
    from discreet.ledger.postgres.url import address

    return PostgresStore(address(os.fspath(path)))


def _file(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path, symbolic links followed, so that neither a new directory nor a new link moves it."""
    text = os.fspath(path)
    if not text or type(text) is not str or "\0" in text:
        raise LedgerError("a ledger needs the path of a file.", hint='give ledger="customers.ledger"')
    if text == MEMORY:
        raise LedgerError("the ledger :memory: ends with its process: there is none to look at.")
    try:
        where = Path(os.path.realpath(text))
        if where.is_dir():
            raise LedgerError(f"the ledger {text} is a folder.", hint="name a file in it")
    except OSError as error:
        raise LedgerError(f"the ledger {text} cannot be reached.", hint="look at the path") from error
    return where


def shown(path: str | os.PathLike[str]) -> str:
    """Return a place as it may be shown: a URL without its password."""
    return _database(path).place if is_url(path) else os.fspath(path)


def called(path: str | os.PathLike[str]) -> str:
    """Return a ledger's name in a sentence: the file's own, or the URL without its password."""
    return shown(path) if is_url(path) else Path(path).name
