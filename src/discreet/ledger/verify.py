"""The whole ledger, derived anew: what it says must follow from its entries alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from discreet.errors import LedgerCorrupt
from discreet.ledger.log import Log, View
from discreet.ledger.people.keeping import problems
from discreet.ledger.replay import Replay
from discreet.ledger.rules import Book
from discreet.ledger.states import read_secret, secret_name
from discreet.ledger.store import Row, Store

_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """What `Ledger.verify` found.

    Attributes:
        entries: how many entries there are.
        accounts: how many accounts.
        head: the hash of the last entry, to be published or kept elsewhere.
        problems: everything that is wrong, in sentences; empty when nothing is.
        locked: whether only its owner opens accounts.
    """

    entries: int
    accounts: int
    head: str
    problems: tuple[str, ...]
    locked: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(store: Store, head: str | None) -> LedgerReport:
    """Every entry of the store, its states and, if given, a head that was published earlier.

    The rows are read in portions, so that a long ledger does not keep writers waiting. Since entries are
    only ever added, the portions together are one state of the ledger, the one in which `last` was the last
    entry.
    """
    state = _begun(head)
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
        state.problems += _people(store, state.books, states)
        state.end()
    return _report(state)


def verify_rows(rows: Iterable[Row], head: str | None) -> LedgerReport:
    """Every entry of an export, which has no states and no secret keys, and a head that was published earlier."""
    state = _begun(head)
    for row in rows:
        state.replay(row)
    state.end()
    return _report(state)


def _people(store: Store, books: Mapping[str, Book], states: Mapping[str, str]) -> list[str]:
    """Whether each account's table of people is the one that its last `people` entry commits to, at one moment."""
    with_people = {name: book for name, book in books.items() if book.opened.people is not None}
    if not with_people:
        return []

    def look(view: View) -> list[str]:
        found = []
        for population, book in with_people.items():
            secret = read_secret(states.get(secret_name(population)), book.opened.secret_sha256)
            found += problems(view, population, book.opened, secret)
        return found

    try:
        return Log(store).read(look)
    except LedgerCorrupt as error:
        return [error.message]


def _begun(head: str | None) -> Replay:
    return Replay(awaited=None if head is None else head.strip().lower())


def _report(state: Replay) -> LedgerReport:
    return LedgerReport(state.count, len(state.books), state.head, tuple(state.problems), state.locked)
