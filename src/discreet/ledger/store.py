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

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from discreet.errors import LedgerCorrupt

T = TypeVar("T")


class Row(NamedTuple):
    """An entry as it is stored; `population`, `kind` and `key` repeat the body, so that it can be found."""

    seq: int
    population: str
    kind: str
    key: str
    body: str
    hash: str


class Moment(Protocol):
    """One moment of a store, to be read."""

    def last(self) -> Row | None:
        """Return the row with the highest number."""

    def row(self, seq: int) -> Row | None:
        """Return the row with that number."""

    def latest(self, population: str, kind: str, key: str, *, before: int) -> Row | None:
        """Return the last row with these three and a number below `before`."""

    def rows(self, *, after: int, limit: int, population: str | None = None, kind: str | None = None) -> list[Row]:
        """At most `limit` rows numbered above `after`, in order; of one population or kind if it is given."""

    def get(self, name: str) -> str | None:
        """Return the state of that name."""

    def names(self) -> list[str]:
        """Return the names of all states, sorted by code point."""

    def blob(self, name: str) -> bytes | None:
        """Return the bytes of that name: what is too large for a state, some MB each."""

    def blobs(self) -> list[str]:
        """Return the names of all blobs, sorted by code point."""


class Transaction(Moment, Protocol):
    """One moment, and what is written at it; to write is refused in a read transaction."""

    def append(self, row: Row) -> None:
        """Add a row at the end."""

    def put(self, name: str, value: str) -> None:
        """Set the state of that name."""

    def put_blob(self, name: str, value: bytes | None) -> None:
        """Set the bytes of that name; None removes them."""


class Store(Protocol):
    """Where a ledger is kept."""

    @property
    def place(self) -> str:
        """Where it is, in words for messages."""

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Return what the work makes of one moment of the store."""

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Return what the work returns, once all that it wrote is durable; nothing of it is kept when it raises."""

    def faults(self) -> list[str]:
        """Return what is wrong with the medium itself, in sentences; the store's own check of its file."""

    def close(self) -> None:
        """Give back what is held; any later use is refused."""


_AT_ONCE = 2000  # rows that are read in one transaction, so that a long ledger does not keep writers waiting


def rows_up_to(store: Store, end: int) -> Iterator[Row]:
    """Yield the rows of a store up to a number, read in portions. Raises LedgerCorrupt: a row is missing."""
    seq = 0

    def portion(now: Transaction) -> list[Row]:
        return now.rows(after=seq, limit=min(_AT_ONCE, end - seq))

    while seq < end:
        rows = store.read(portion)
        if not rows:
            raise LedgerCorrupt(f"the ledger {store.place} lacks entries {seq + 1} to {end}.")
        yield from rows
        seq = rows[-1].seq


class Addition(NamedTuple):
    """A row that adds to a sum, for a store that can do this by itself, without being asked what was there before."""

    population: str  # as in `Row`; so are `kind` and `key`
    kind: str
    key: str
    before: str  # the body up to its number and its sum, which are written as in the state of the sum
    after: str  # the body behind them
    state: str  # the name of the sum: `{"seq":…,"spent":[…]}`, the row that last changed it and the fractions
    amounts: tuple[Fraction, ...]  # what to add to each fraction
    most: tuple[Fraction, ...] | None  # what none of them may be above; None where there is no limit
    terms: tuple[str, str]  # the name of another state, and its text
    seen: tuple[int, str]  # the number and hash of a row that must be there
    # for each kind of row that is understood, the fields of its body: "kind:field,field"; of the last row, and of the
    # one that the sum names
    known: tuple[str, ...]


class Added(NamedTuple):
    """The row of an addition, the hash before it, and a JSON object whose `spent` is the sum before it."""

    row: Row
    previous: str
    sum: str


@runtime_checkable
class Adds(Protocol):
    """A store that can add to a sum in one step; what it has done must be looked at by whoever asked it."""

    def add(self, addition: Addition) -> Added | None:
        """Return the row, durable; None when nothing was added, for whatever reason: a transaction tells why."""
