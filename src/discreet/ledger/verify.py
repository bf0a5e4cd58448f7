"""The whole ledger, derived anew: what it says must follow from its entries alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from discreet.accounting.filter import Filter, Tally, reopen_filter
from discreet.errors import DiscreetError, LedgerCorrupt
from discreet.ledger.account import within
from discreet.ledger.chain import GENESIS
from discreet.ledger.entry import Charged, Entry, Opened, Pinned, Released, from_row
from discreet.ledger.log import HEAD, follows
from discreet.ledger.states import read_secret, secret_name, tally_name, tally_text
from discreet.ledger.store import Row, Store

_AT_ONCE = 2000

_SLACK = 1 + Fraction(1, 1 << 30)
"""A capacity may have been computed on a machine whose logarithms differ in the last digit."""


@dataclass(frozen=True, slots=True)
class Report:
    """What `Ledger.verify` found.

    Attributes:
        entries: how many entries there are.
        accounts: how many accounts.
        head: the hash of the last entry, to be published or kept elsewhere.
        problems: everything that is wrong, in sentences; empty when nothing is.
    """

    entries: int
    accounts: int
    head: str
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(store: Store, head: str | None) -> Report:
    """Every entry of the store, its states and, if given, a head that was published earlier.

    The rows are read in portions, so that a long ledger does not keep writers waiting. Since entries are
    only ever added, the portions together are one state of the ledger, the one in which `last` was the last
    entry.
    """
    state = _Replay(awaited=None if head is None else head.strip().lower())
    try:
        state.problems += store.faults()
        last, states = store.read(
            lambda now: (now.last(), {name: now.get(name) or "" for name in now.names()})
        )
        end = 0 if last is None else last.seq
        while state.seq < end:
            rows = store.read(lambda now: now.rows(after=state.seq, limit=min(_AT_ONCE, end - state.seq)))
            if not rows:
                state.problems.append(f"entries {state.seq + 1} to {end} are missing.")
                break
            for row in rows:
                state.replay(row)
    except LedgerCorrupt as error:
        state.problems.append(error.message)
    else:
        state.compare(states)
    return Report(state.count, len(state.books), state.head, tuple(state.problems))


@dataclass(slots=True)
class _Book:
    """An account as it follows from the entries so far."""

    opened: Opened
    filter: Filter
    spent: Tally
    last: int
    unpaid: dict[int, str] = field(default_factory=dict)  # charges without a release, and their questions
    tables: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Replay:
    awaited: str | None
    seq: int = 0
    count: int = 0
    head: str = GENESIS
    books: dict[str, _Book] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._await()

    def replay(self, row: Row) -> None:
        """Check one row and what it says."""
        if row.seq != self.seq + 1:
            self.problems.append(f"entry {self.seq + 1} is missing.")
        if not follows(self.head, row):
            self.problems.append(
                f"entry {row.seq} does not follow from the one before it: its hash is another."
            )
        self.seq, self.head, self.count = row.seq, row.hash, self.count + 1
        self._await()
        try:
            self._say(from_row(row))
        except DiscreetError as error:
            self.problems.append(error.message)

    def compare(self, states: dict[str, str]) -> None:
        """Check the states, which only repeat what the entries say, and the keys."""
        expected = {HEAD: f"{self.seq} {self.head}"} if self.count else {}
        for population, book in self.books.items():
            expected[tally_name(population)] = tally_text(book.last, book.spent)
            secret = states.pop(secret_name(population), None)
            if read_secret(secret, book.opened.secret_sha256) is None:
                self.problems.append(f"the secret key of {population!r} is not the one it was opened with.")
        for name in sorted(expected.keys() | states.keys()):
            if expected.get(name) != states.get(name):
                self.problems.append(f"the state {name!r} is not what the entries say.")
        if self.awaited is not None:
            self.problems.append(
                "the published head is not in this ledger: it is an older copy, or another ledger."
            )

    def _await(self) -> None:
        if self.awaited == self.head:
            self.awaited = None

    def _say(self, entry: Entry) -> None:
        book = self.books.get(entry.population)
        if isinstance(entry.content, Opened):
            self._open(entry, entry.content)
        elif book is None:
            self._wrong(entry, "has no account")
        elif isinstance(entry.content, Charged):
            self._charge(entry, entry.content, book)
        elif isinstance(entry.content, Released):
            if book.unpaid.pop(entry.content.charge, None) != entry.content.question:
                self._wrong(entry, "is a release that no charge of its question paid for")
        else:
            self._pin(entry, entry.content, book)

    def _open(self, entry: Entry, opened: Opened) -> None:
        if entry.population in self.books:
            self._wrong(entry, "opens an account that was open")
            return
        if opened.budget.epsilon <= 0:
            self._wrong(entry, "opens an account without a budget")
        accounting = reopen_filter(opened.filter, opened.budget, opened.capacity)
        if not within(opened.capacity, tuple(most * _SLACK for most in accounting.capacity)):
            self._wrong(entry, "opens an account with a capacity above its budget")
        self.books[entry.population] = _Book(opened, accounting, accounting.empty, entry.seq)

    def _charge(self, entry: Entry, charged: Charged, book: _Book) -> None:
        cost = book.filter.cost(charged.charge)
        if charged.charge.guarantee.epsilon > book.opened.budget.per_query:
            self._wrong(entry, "is a charge above the cap on one query")
        if charged.charge.events.relation not in (None, book.opened.relation):
            self._wrong(entry, "is a charge that holds for other neighbours than its account's")
        book.spent, book.last = book.filter.add(book.spent, cost), entry.seq
        if not within(book.spent, book.opened.capacity):
            self._wrong(entry, "is a charge that its account could not pay")
        if charged.spent != book.spent:
            self._wrong(entry, "does not tell what was spent")
        book.unpaid[entry.seq] = charged.question

    def _pin(self, entry: Entry, pinned: Pinned, book: _Book) -> None:
        if pinned.table in book.tables:
            self._wrong(entry, "pins a table that was pinned")
        book.tables.add(pinned.table)

    def _wrong(self, entry: Entry, what: str) -> None:
        self.problems.append(f"entry {entry.seq} of {entry.population!r} {what}.")
