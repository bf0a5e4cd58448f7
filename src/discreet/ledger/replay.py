"""The entries of a ledger, followed one by one: each must be what its account allowed at that point."""

from __future__ import annotations

from dataclasses import dataclass, field

from discreet.errors import DiscreetError
from discreet.ledger.chain import GENESIS
from discreet.ledger.entry import (
    AnalystCapped,
    Charged,
    Closed,
    Entry,
    Frozen,
    GroupCapped,
    Locked,
    Moved,
    Opened,
    PeopleCharged,
    Pinned,
    Rebudgeted,
    Released,
    Thawed,
    from_row,
)
from discreet.ledger.forms import Act
from discreet.ledger.joint_charge import Followed
from discreet.ledger.lock import LEDGER, is_signed
from discreet.ledger.log import HEAD, follows
from discreet.ledger.rules import Book
from discreet.ledger.states import ARRIVED, MARK, MARKED, MOVED, moved_text, read_secret, secret_name
from discreet.ledger.store import Row

_PEOPLE = "people/"  # the states of a person table, which is private and checked where it is kept


@dataclass(slots=True)
class Replay:
    """What follows from the entries so far, and everything that was wrong with them.

    Attributes:
        awaited: a published head that has not been met yet.
        seq: the number of the last entry.
        count: how many there were.
        head: its hash.
        books: the accounts, by their populations.
        problems: in sentences.
    """

    awaited: str | None
    seq: int = 0
    count: int = 0
    head: str = GENESIS
    books: dict[str, Book] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _together: Followed = field(default_factory=Followed)
    _lock: Locked | None = None
    _moved: tuple[str, int, str] | None = None  # to where, and the entry up to which its copy goes

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
        before = (self.seq, self.head)
        self.seq, self.head, self.count = row.seq, row.hash, self.count + 1
        self._await()
        try:
            entry = from_row(row)
        except DiscreetError as error:
            self.problems.append(error.message)
            return
        try:
            self._say(entry, *before)
        except DiscreetError as error:  # an amount that its account's filter cannot count
            self._wrong(entry, f"is impossible: {error.message.rstrip('.')}")
        except (ArithmeticError, ValueError):  # a budget that no filter was ever opened with
            self._wrong(entry, "is impossible: its amounts are beyond all bounds")

    @property
    def locked(self) -> bool:
        """Whether only the ledger's owner opens accounts."""
        return self._lock is not None

    def compare(self, states: dict[str, str]) -> None:
        """Check the states, which only repeat what the entries say, and the keys."""
        expected = {HEAD: f"{self.seq} {self.head}"} if self.count else {}
        if self._moved is not None:
            expected[MOVED] = moved_text(*self._moved)
            if ARRIVED in states:
                expected[ARRIVED] = expected[MOVED]
        drawn = {MARK} if self._moved is None else {MARK, MARKED}  # at random: whatever they are
        expected |= {name: text for name, text in states.items() if name in drawn}
        found = {name: text for name, text in states.items() if not name.startswith(_PEOPLE)}
        for population, book in self.books.items():
            expected |= book.states()
            secret = found.pop(secret_name(population), None)
            if read_secret(secret, book.opened.secret_sha256) is None:
                self.problems.append(f"the secret key of {population!r} is not the one it was opened with.")
        for name in sorted(expected.keys() | found.keys()):
            if expected.get(name) != found.get(name):
                self.problems.append(f"the state {name!r} is not what the entries say.")

    def end(self) -> None:
        """Check what can only be known at the end."""
        if (lacking := self._together.end()) is not None:
            self.problems.append(f"the end of the ledger {lacking}.")
        if self._moved is not None:
            self.problems += [
                f"the account of {population!r} has not moved with the others."
                for population, book in self.books.items()
                if not book.moved
            ]
        if self.awaited is not None:
            self.problems.append(
                "the published head is not in this ledger: it is an older copy, or another ledger."
            )

    def _await(self) -> None:
        if self.awaited == self.head:
            self.awaited = None

    def _say(self, entry: Entry, seq: int, head: str) -> None:
        content, book = entry.content, self.books.get(entry.population)
        if (wrong_order := self._together.take(entry)) is not None:
            self._wrong(entry, wrong_order)
        if self._moved is not None and not isinstance(content, Moved):
            self._wrong(entry, "comes after its ledger had moved")
        if (entry.population == LEDGER) != isinstance(content, Locked):
            wrong = ["is of the whole ledger, or of an account, and its kind is not"]
        elif isinstance(content, Locked):
            wrong = self._change_lock(content, head)
        elif isinstance(content, Opened):
            if book is not None:
                self._wrong(entry, "opens an account that was open")
                return
            book = Book(entry.population, content, entry.seq)
            self.books[entry.population] = book
            wrong = book.open()
            if self.locked and not content.owner:
                wrong.append("opens an account by a charge in a locked ledger")
        elif book is None:
            wrong = ["has no account"]
        else:
            wrong = self._told(entry, book, seq, head)
        if isinstance(content, Act) and not isinstance(content, Locked):
            wrong += _unsigned(content, self._lock, entry.population, head)
        for what in wrong:
            self._wrong(entry, what)

    def _told(self, entry: Entry, book: Book, seq: int, head: str) -> list[str]:
        match entry.content:
            case Charged() as content:
                return book.charge(entry.seq, content)
            case Released() as content:
                return book.release(content)
            case Pinned() as content:
                return book.pin(content)
            case PeopleCharged() as content:
                return book.count_people(content)
            case Rebudgeted() as content:
                return book.rebudget(entry.seq, content)
            case Frozen() | Thawed() | Closed() as content:
                return book.change_status(entry.seq, content)
            case AnalystCapped() as content:
                return book.cap_analyst(entry.seq, content)
            case GroupCapped() as content:
                return book.cap_group(entry.seq, content)
            case Moved() as content:
                return self._move(content, book, seq, head)
            case Opened() | Locked():
                return []

    def _change_lock(self, said: Locked, head: str) -> list[str]:
        wrong = []
        if said.locked == self.locked:
            wrong = [
                f"{'locks' if said.locked else 'unlocks'} a ledger that was {'' if self.locked else 'not '}locked"
            ]
        held, self._lock = self._lock, said if said.locked else None
        return wrong + _unsigned(said, said if said.locked else held, LEDGER, head)

    def _move(self, moved: Moved, book: Book, seq: int, head: str) -> list[str]:
        if self._moved is None:
            self._moved = (moved.to, seq, head)
        wrong = [] if (moved.to, moved.head) == self._moved[::2] else ["moves elsewhere than its ledger"]
        if book.moved:
            wrong.append("moves an account that had moved")
        book.moved = True
        return wrong

    def _wrong(self, entry: Entry, what: str) -> None:
        self.problems.append(f"entry {entry.seq} of {entry.population!r} {what}.")


def _unsigned(act: Act, lock: Locked | None, population: str, head: str) -> list[str]:
    """What is wrong with the signature of an act: where the lock names a key, it is by this key; else there is none."""
    key = None if lock is None else lock.public_key
    if key is None:
        return [] if act.signature is None else ["is signed, and no lock names a key"]
    return [] if is_signed(head, population, act, key) else ["lacks the signature of the ledger's owner"]
