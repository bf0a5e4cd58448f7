"""The whole ledger, derived anew: what it says must follow from its entries alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from discreet.accounting.filter import Filter, Tally, reopen_filter, within
from discreet.errors import DiscreetError, LedgerCorrupt
from discreet.ledger.account_state import SLACK, meter, reopen
from discreet.ledger.chain import GENESIS
from discreet.ledger.entry import (
    AnalystCapped,
    Analysts,
    Begun,
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
from discreet.ledger.forms import (
    ARRIVED,
    MARK,
    MARKED,
    MOVED,
    Act,
    Terms,
    analyst_name,
    group_name,
    moved_text,
    read_secret,
    secret_name,
    tally_name,
    tally_text,
    terms_name,
    terms_text,
)
from discreet.ledger.joint_charge import Followed
from discreet.ledger.log import HEAD, Log, View, follows
from discreet.ledger.owner import LEDGER, is_signed
from discreet.ledger.person_budgets import problems
from discreet.ledger.store import Row, Store
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import Relation


@dataclass(slots=True)
class Member:
    """An analyst or a group: the entry of the cap, and what has been spent of it up to which entry."""

    cap: AnalystCapped | GroupCapped
    said: int
    spent: Tally
    last: int


@dataclass(slots=True)
class Book:
    """One account. Each method takes an entry in and returns what is wrong with it."""

    population: str
    opened: Opened
    seq: int
    filter: Filter = field(init=False)
    spent: Tally = field(init=False)
    capacity: Tally | None = field(init=False)
    budget: Budget | None = field(init=False)
    last: int = field(init=False)
    said: int = field(init=False)
    status: int | None = None
    is_frozen: bool = False
    is_closed: bool = False
    moved: bool = False
    unpaid: dict[int, str] = field(default_factory=dict)  # charges without a release, and their questions
    counted: set[int] = field(default_factory=set)  # charges whose people have been charged
    charges: set[int] = field(default_factory=set)
    begun: dict[int, int] = field(default_factory=dict)  # draws of charges that were begun
    tables: set[str] = field(default_factory=set)
    analysts: dict[str, Member] = field(default_factory=dict)
    groups: dict[str, Member] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.filter = meter(self.opened)
        self.spent, self.capacity, self.budget = self.filter.empty, self.opened.capacity, self.opened.budget
        self.last = self.said = self.seq

    def states(self) -> dict[str, str]:
        """Return the states that repeat what the entries say, but for the secret."""
        found = {
            tally_name(self.population): tally_text(self.last, self.spent),
            terms_name(self.population): terms_text(
                Terms(
                    self.said,
                    self.status,
                    {name: member.said for name, member in self.analysts.items()},
                    {name: member.said for name, member in self.groups.items()},
                )
            ),
        }
        for members, state_of in ((self.analysts, analyst_name), (self.groups, group_name)):
            for name, member in members.items():
                found[state_of(self.population, name)] = tally_text(member.last, member.spent)
        return found

    def open(self) -> list[str]:
        """Take in the account itself."""
        wrong = []
        if self.budget is not None and self.capacity is not None:
            wrong += _no_epsilon(self.budget) + _above(self.filter, self.capacity, "its budget")
        if (people := self.opened.people) is not None:
            each = reopen_filter(people.filter, people.budget, people.capacity)
            wrong += _no_epsilon(people.budget) + _above(each, people.capacity, "each person's budget")
            if self.opened.relation is not Relation.ADD_REMOVE:
                wrong.append("gives each person a budget for other neighbours than add-remove")
            if self.opened.analysts is Analysts.APART:
                wrong.append("keeps analysts apart who share each person's budget")
        return wrong

    def charge(self, seq: int, charged: Charged) -> list[str]:
        """Take in a charge: every limit has room for it, and its sum is right."""
        cost, wrong = self.filter.cost(charged.charge), []
        members, budgets = [], [self.budget or self.filter.budget]
        if charged.analyst is not None:
            if (own := self.analysts.get(charged.analyst)) is None:
                wrong.append("is a charge by an analyst whom nobody added")
            else:
                members.append(own)
                if isinstance(own.cap, AnalystCapped) and own.cap.group is not None:
                    members.append(self.groups[own.cap.group])
        elif self.analysts or self.opened.analysts is Analysts.APART:
            wrong.append("is a charge that names no analyst")
        budgets += [member.cap.budget for member in members]
        budgets += [] if self.opened.people is None else [self.opened.people.budget]
        if self.is_closed or self.is_frozen:
            wrong.append(f"is a charge to an account that was {'closed' if self.is_closed else 'frozen'}")
        if any(charged.charge.guarantee.epsilon > budget.per_query for budget in budgets):
            wrong.append("is a charge above the cap on one query")
        if charged.charge.events.relation not in (None, self.opened.relation):
            wrong.append("is a charge that holds for other neighbours than its account's")
        self.spent, self.last = self.filter.add(self.spent, cost), seq
        if self.capacity is not None and not within(self.spent, self.capacity):
            wrong.append("is a charge that its account could not pay")
        for member in members:
            member.spent, member.last = self.filter.add(member.spent, cost), seq
            if not within(member.spent, member.cap.capacity):
                wrong.append(f"is a charge above the cap of {member.cap.name!r}")
        if charged.spent != self.spent:
            wrong.append("does not tell what was spent")
        self.unpaid[seq] = charged.question
        self.charges.add(seq)
        return wrong

    def release(self, released: Released) -> list[str]:
        """Take in a release: its charge, and before it that of its people."""
        wrong = []
        if self.unpaid.pop(released.charge, None) != released.question:
            wrong.append("is a release that no charge of its query paid for")
        if self.opened.people is not None and released.charge not in self.counted:
            wrong.append("is a release whose people were not charged")
        return wrong

    def begin(self, begun: Begun) -> list[str]:
        """Take in draws that were begun: of a charge without a release, and more than before."""
        wrong = [] if begun.charge in self.unpaid else ["begins draws that no charge pays for"]
        if self.is_closed or self.is_frozen:
            wrong.append(f"begins draws of an account that was {'closed' if self.is_closed else 'frozen'}")
        if begun.draws <= self.begun.get(begun.charge, 0):
            wrong.append("begins draws that were begun")
        self.begun[begun.charge] = begun.draws
        return wrong

    def pin(self, pinned: Pinned) -> list[str]:
        """Take in a table's schema."""
        wrong = ["pins a table that was pinned"] if pinned.table in self.tables else []
        self.tables.add(pinned.table)
        return wrong

    def count_people(self, people: PeopleCharged) -> list[str]:
        """Take in the person table after a charge, or after a merge."""
        if self.opened.people is None:
            return ["charges people who have no budgets"]
        if people.charge is None:
            return []
        if people.charge not in self.charges or people.charge not in self.unpaid or people.charge in self.counted:
            return ["charges people for no charge of theirs"]
        self.counted.add(people.charge)
        return []

    def rebudget(self, seq: int, said: Rebudgeted) -> list[str]:
        """Take in another budget for the population."""
        wrong = self._ended()
        if self.capacity is None:
            return [*wrong, "gives a budget to a population without one"]
        wrong += self._capacity(said.budget, said.capacity, "its budget")
        if not within(self.spent, said.capacity):
            wrong.append("lowers the budget below what was spent")
        self.budget, self.capacity, self.said = said.budget, said.capacity, seq
        return wrong + self._reservations()

    def change_status(self, seq: int, said: Frozen | Thawed | Closed) -> list[str]:
        """Take in a freeze, its end, or the account's."""
        wrong = self._ended()
        if isinstance(said, Frozen) and self.is_frozen:
            wrong.append("freezes an account that was frozen")
        if isinstance(said, Thawed) and not self.is_frozen:
            wrong.append("thaws an account that was not frozen")
        self.status = seq
        self.is_frozen = isinstance(said, Frozen)
        self.is_closed = self.is_closed or isinstance(said, Closed)
        return wrong

    def cap_analyst(self, seq: int, cap: AnalystCapped) -> list[str]:
        """Take in an analyst's cap."""
        old = self.analysts.get(cap.name)
        wrong = self._ended() + self._cap(cap, old)
        if cap.group is not None and cap.group not in self.groups:
            return [*wrong, "adds an analyst to a group without a cap"]
        if old is not None and isinstance(old.cap, AnalystCapped) and old.cap.group != cap.group:
            wrong.append("moves an analyst to another group")
        self.analysts[cap.name] = self._member(cap, seq, old)
        return wrong + self._reservations()

    def cap_group(self, seq: int, cap: GroupCapped) -> list[str]:
        """Take in a group's cap."""
        old = self.groups.get(cap.name)
        wrong = self._ended() + self._cap(cap, old)
        self.groups[cap.name] = self._member(cap, seq, old)
        return wrong + self._reservations()

    def _member(self, cap: AnalystCapped | GroupCapped, seq: int, old: Member | None) -> Member:
        return Member(cap, seq, self.filter.empty, seq) if old is None else replace(old, cap=cap, said=seq)

    def _cap(self, cap: AnalystCapped | GroupCapped, old: Member | None) -> list[str]:
        wrong = self._capacity(cap.budget, cap.capacity, "its cap")
        if old is not None and not within(old.spent, cap.capacity):
            wrong.append(f"lowers the cap of {cap.name!r} below what was spent")
        apart = self.opened.analysts is Analysts.APART
        if old is not None and apart and not within(old.cap.capacity, cap.capacity):
            wrong.append(f"lowers the cap of {cap.name!r}, which was reserved")
        return wrong

    def _reservations(self) -> list[str]:
        """Check that every cap fits what it is a cap of; asked where analysts are kept apart."""
        if self.opened.analysts is not Analysts.APART or self.capacity is None:
            return []
        caps = [m.cap for m in self.analysts.values() if isinstance(m.cap, AnalystCapped)]
        top = [cap.capacity for cap in caps if cap.group is None]
        top += [member.cap.capacity for member in self.groups.values()]
        wrong = [] if self._fits(top, self.capacity) else ["reserves more than the budget"]
        for name, member in self.groups.items():
            if not self._fits([cap.capacity for cap in caps if cap.group == name], member.cap.capacity):
                wrong.append(f"reserves more than the cap of {name!r}")
        return wrong

    def _fits(self, parts: list[Tally], whole: Tally) -> bool:
        sums = self.filter.empty
        for part in parts:
            sums = self.filter.add(sums, part)
        return within(sums, whole)

    def _capacity(self, budget: Budget, capacity: Tally, whose: str) -> list[str]:
        found = reopen(self.filter, budget, capacity)
        return _no_epsilon(budget) + _above(found, capacity, whose)

    def _ended(self) -> list[str]:
        return ["changes an account that was closed"] if self.is_closed else []


def _above(found: Filter, capacity: Tally, whose: str) -> list[str]:
    fits = within(capacity, tuple(most * SLACK for most in found.capacity))
    return [] if fits else [f"has a capacity above {whose}"]


def _no_epsilon(budget: Budget) -> list[str]:
    return ["gives a budget without an ε"] if budget.epsilon <= 0 else []


_PEOPLE = "people/"  # the states of a person table, which is private and checked where it is kept


@dataclass(slots=True)
class Replay:
    """What follows from the entries so far, and everything that was wrong with them."""

    awaited: str | None  # a published head that has not been met yet
    seq: int = 0  # the number of the last entry
    count: int = 0  # how many there were
    head: str = GENESIS  # its hash
    books: dict[str, Book] = field(default_factory=dict)  # the accounts, by their populations
    problems: list[str] = field(default_factory=list)  # in sentences
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
            self.problems.append(f"entry {row.seq} does not follow from the one before it: its hash is another.")
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

    @property
    def lock_key(self) -> str | None:
        """The owner's public key, where the lock names one."""
        return None if self._lock is None else self._lock.public_key

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
            self.problems.append("the published head is not in this ledger: it is an older copy, or another ledger.")

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
            case Begun() as content:
                return book.begin(content)
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
            wrong = [f"{'locks' if said.locked else 'unlocks'} a ledger that was {'' if self.locked else 'not '}locked"]
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
    """Return what is wrong with an act's signature: it is by the key that the lock names, or there is none."""
    key = None if lock is None else lock.public_key
    if key is None:
        return [] if act.signature is None else ["is signed, and no lock names a key"]
    return [] if is_signed(head, population, act, key) else ["lacks the signature of the ledger's owner"]


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
        lock_key: the public key that the lock names; None where it names none.
    """

    entries: int
    accounts: int
    head: str
    problems: tuple[str, ...]
    locked: bool = False
    lock_key: str | None = None

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
        last, states = store.read(lambda now: (now.last(), {name: now.get(name) or "" for name in now.names()}))
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
    return LedgerReport(state.count, len(state.books), state.head, tuple(state.problems), state.locked, state.lock_key)
