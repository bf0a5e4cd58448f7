"""The port to the ledger's storage: an append-only list of rows, named states and named blobs, in transactions.

A store knows nothing of privacy. It promises five things, which the contract tests demand of each of them:

- a write transaction is all or nothing, durable when it returns, and alone: whatever it has read cannot
  change before it ends, in any thread, process or host;
- a read transaction sees one moment;
- what a transaction has seen is durable before it ends, whether it returns or raises: what could still be lost is
  never told;
- rows are added at the end and never changed;
- every failure of the medium is a `LedgerError`.

A transaction is a function that is handed to the store, not a `with` block: Ctrl-C between the start of a
transaction and the first line of a block would leave it open for as long as the traceback is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Row(NamedTuple):
    """An entry as it is stored; `population`, `kind` and `key` repeat the body, so that it can be found."""

    seq: int
    population: str
    kind: str
    key: str
    body: str
    hash: str


class Transaction(Protocol):
    """One moment of a store. `append`, `put` and `put_blob` are refused in a read transaction."""

    def last(self) -> Row | None:
        """The row with the highest number."""

    def row(self, seq: int) -> Row | None:
        """The row with that number."""

    def latest(self, population: str, kind: str, key: str, *, before: int) -> Row | None:
        """The last row with these three and a number below `before`."""

    def rows(
        self, *, after: int, limit: int, population: str | None = None, kind: str | None = None
    ) -> list[Row]:
        """At most `limit` rows numbered above `after`, in order; of one population or kind if it is given."""

    def append(self, row: Row) -> None:
        """Add a row at the end."""

    def get(self, name: str) -> str | None:
        """The state of that name."""

    def put(self, name: str, value: str) -> None:
        """Set the state of that name."""

    def names(self) -> list[str]:
        """The names of all states, sorted by code point."""

    def blob(self, name: str) -> bytes | None:
        """The bytes of that name: what is too large for a state, some MB each."""

    def put_blob(self, name: str, value: bytes | None) -> None:
        """Set the bytes of that name; None removes them."""

    def blobs(self) -> list[str]:
        """The names of all blobs, sorted by code point."""


class Store(Protocol):
    """Where a ledger is kept."""

    @property
    def place(self) -> str:
        """Where it is, in words for messages."""

    def read(self, work: Callable[[Transaction], T]) -> T:
        """What the work makes of one moment of the store."""

    def write(self, work: Callable[[Transaction], T]) -> T:
        """What the work returns, once all that it wrote is durable; nothing of it is kept when it raises."""

    def faults(self) -> list[str]:
        """What is wrong with the medium itself, in sentences; the store's own check of its file."""

    def close(self) -> None:
        """Give back what is held; any later use is refused."""
