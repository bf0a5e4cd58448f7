"""The chained log: entries over a store, checked against the chain when read and linked to it when added."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar, cast

from discreet.errors import LedgerCorrupt, LedgerError
from discreet.ledger.chain import GENESIS, link
from discreet.ledger.entry import Content, Entry, Opened, Pinned, Released, from_row, to_row
from discreet.ledger.failures import KEEP
from discreet.ledger.forms import MARK, MOVED, read_moved
from discreet.ledger.memory import Overlay
from discreet.ledger.places import Unmade
from discreet.ledger.store import Added, Addition, Adds, Row, Store, Transaction

T = TypeVar("T")

Known: TypeAlias = dict[int, tuple[str, Row, Entry]]
"""By number: the hash before a row, the row, and its entry, which was found to follow from both."""

_KNOWN = 64

HEAD = "head"  # the state that repeats the number and the hash of the last entry, so that a removed end is noticed
NO_END = 1 << 62  # a number that no entry reaches


class Log:
    """The entries of a store, as transactions.

    Attributes:
        adds: whether the store can add to a sum by itself.
    """

    def __init__(self, store: Store) -> None:
        self.store: Store = store
        self.adds = isinstance(store, Adds)
        self._seen = (0, GENESIS)
        self._known: Known = {}
        self._told: dict[int, Entry] = {}

    def read(self, work: Callable[[View], T]) -> T:
        """Return what the work makes of one moment of the log."""
        seen = self._seen  # before that moment: another thread may add an entry right after it

        def reading(transaction: Transaction) -> tuple[T, View]:
            view = View(transaction, self.store.place, seen, self._known, self._told)
            return work(view), view

        return self._remember(*self.store.read(reading))

    def imagine(self, work: Callable[[View], T]) -> T:
        """Return what the work makes of one moment of the log that it may add entries to; nothing of it is kept.

        Its view knows no entry from other transactions: the numbers of those that it adds may be given to others.
        """
        seen = self._seen

        def imagining(now: Transaction) -> T:
            view = View(Overlay(now), self.store.place, seen, {}, {})
            view.imagined_at = view.head
            return work(view)

        return self.store.read(imagining)

    def write(self, work: Callable[[View], T]) -> T:
        """Return what the work returns, once all that it added is durable; nothing of it is kept when it raises."""

        def writing(transaction: Transaction) -> tuple[T, View]:
            view = View(transaction, self.store.place, self._seen, self._known, self._told)
            result = work(view)
            view.seal()
            return result, view

        result = self._remember(*self.store.write(writing))
        if isinstance(unmade := self.store, Unmade):  # made by this
            self.store, self.adds = unmade.store, isinstance(unmade.store, Adds)
        return result

    def add(self, addition: Callable[[tuple[int, str]], Addition]) -> Added | None:
        """Return what the store has added by itself after an entry that was seen here; None when it added nothing.

        Raises:
            LedgerCorrupt: the row does not follow from the one before it. It may stand.
        """
        if not self.adds or not self._seen[0]:
            return None
        added = cast(Adds, self.store).add(addition(self._seen))
        if added is not None:
            if not follows(added.previous, added.row):
                raise LedgerCorrupt(
                    f"the ledger {self.store.place} has a broken chain at entry {added.row.seq}.", hint=KEEP
                )
            self._seen = max(self._seen, (added.row.seq, added.row.hash))
        return added

    def _remember(self, result: T, view: View) -> T:
        if view.head[0] > self._seen[0]:
            self._seen = view.head
        self._told.update(view.learned)  # now that it is known to be durable
        return result


class View:
    """The log inside one transaction.

    Raises:
        LedgerCorrupt: the last entry is not the one that the head names, does not follow from the one
            before it, or an entry that this process has seen is no longer there (an older or another file
            took its place).
    """

    def __init__(
        self, transaction: Transaction, place: str, seen: tuple[int, str], known: Known, told: dict[int, Entry]
    ) -> None:
        self._transaction = transaction
        # rows as they are stored, not looked at; states and blobs are the transaction's own
        self.rows, self.get, self.put = transaction.rows, transaction.get, transaction.put
        self.names, self.blobs = transaction.names, transaction.blobs
        self.blob, self.put_blob = transaction.blob, transaction.put_blob
        self._place = place
        self._known = known
        self._told = told
        self.learned: dict[int, Entry] = {}
        last = transaction.last()
        self.head = (0, GENESIS) if last is None else (last.seq, last.hash)
        if transaction.get(HEAD) not in ([None] if last is None else [self._head_text()]):
            raise self._corrupt("does not end with the entry that its head names")
        if last is not None:
            self.entry(last)
        if seen[0] and ((row := transaction.row(seen[0])) is None or row.hash != seen[1]):
            raise self._corrupt("lacks an entry that it had before: an older or another file is in its place")
        self._sealed = self.head
        self.imagined_at: tuple[int, str] | None = None
        """The last entry that is stored, where what is added is only imagined."""

    def entry(self, row: Row) -> Entry:
        """Return the row's entry, if its hash follows from the row before it."""
        before = self._transaction.row(row.seq - 1) if row.seq != 1 else None
        previous = GENESIS if row.seq == 1 else before.hash if before is not None else ""
        if (known := self._known.get(row.seq)) is not None and known[:2] == (previous, row):
            return known[2]
        if not follows(previous, row):
            raise self._corrupt(f"has a broken chain at entry {row.seq}")
        entry = from_row(row)
        if not isinstance(entry.content, Pinned | Released):  # large, and handed out to be changed by anybody
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[row.seq] = (previous, row, entry)
        return entry

    def opened(self, population: str) -> Opened | None:
        """How the account of a population was opened."""
        found = self.latest(population, Opened.kind, Opened.key)
        return found.content if found is not None and isinstance(found.content, Opened) else None

    def latest(self, population: str, kind: str, key: str, *, before: int = NO_END) -> Entry | None:
        """Return the last entry with these three, and with a number below `before`."""
        row = self._transaction.latest(population, kind, key, before=before)
        return None if row is None else self.entry(row)

    def numbered(self, seq: int) -> Entry | None:
        """Return the entry with that number."""
        row = self._transaction.row(seq)
        return None if row is None else self.entry(row)

    def told(self, seq: int) -> Entry | None:
        """As `numbered`, for an entry that is asked for in every transaction and is not handed out: read once.

        What is read in a transaction that fails is not kept: it may have been lost before it was durable, and
        another entry may have its number now.
        """
        found = self._told.get(seq) or self.learned.get(seq)
        if found is None and (found := self.numbered(seq)) is not None:
            self.learned[seq] = found
        return found

    def append(self, population: str, content: Content, *, paid: Entry | None = None) -> Entry:
        """Return the new last entry, of now; of the time of the charge that `paid` for it, so that no entry tells how
        long the data took: that follows from whose rows are in it.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        time = now if paid is None else paid.time
        entry = Entry(self.head[0] + 1, time, population, content)
        row = to_row(entry, self.head[1])
        self._transaction.append(row)
        self.head = (row.seq, row.hash)
        return entry

    def refuse_moved(self) -> None:
        """Refuse a change to a ledger that goes on elsewhere, or to a store that waits for one to move into it.

        Raises:
            LedgerError: it does; the hint says where. Or it waits: the ledger that moves may have ended in its old
                place.
        """
        if not self.head[0] and self.get(MARK) is not None:
            raise LedgerError(
                f"the ledger {self._place} waits for another one that moves into it.",
                hint="finish that with the same `discreet ledger transfer` as before, or use a new ledger",
            )
        text = self.get(MOVED)
        if text is None:
            return
        try:
            to = read_moved(text)[0]
        except ValueError:
            to = "another store"
        raise LedgerError(
            f"the ledger {self._place} has moved: nothing is charged or kept here any more.", hint=f"open it in {to}"
        )

    def seal(self) -> None:
        """Let the head name the last entry that was added."""
        if self.head != self._sealed:
            self.put(HEAD, self._head_text())

    def _head_text(self) -> str:
        return f"{self.head[0]} {self.head[1]}"

    def _corrupt(self, what: str) -> LedgerCorrupt:
        return LedgerCorrupt(f"the ledger {self._place} {what}.", hint=KEEP)


def follows(previous: str, row: Row) -> bool:
    """Whether a row's hash is that of its body after the previous hash."""
    try:
        return link(previous, row.body) == row.hash if previous else False
    except ValueError:  # a previous hash that is not hexadecimal
        return False


Step: TypeAlias = Callable[[View], object]
"""A part of a transaction that can be taken again: where what it writes is there, it finds it."""
