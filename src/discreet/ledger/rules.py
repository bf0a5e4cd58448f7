"""An account as it follows from its entries, and what each of them may say at that point.

This is the second writing of the rules in `account.py`, `owner.py` and `analysts.py`, from values alone: it reads no
state, so that what those have written can be checked against it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from discreet.accounting.filter import Filter, Tally, reopen_filter, within
from discreet.ledger.entry import (
    AnalystCapped,
    Analysts,
    Charged,
    Closed,
    Frozen,
    GroupCapped,
    Opened,
    PeopleCharged,
    Pinned,
    Rebudgeted,
    Released,
    Thawed,
)
from discreet.ledger.states import Terms, analyst_name, group_name, tally_name, tally_text, terms_name, terms_text
from discreet.ledger.units import SLACK, meter, reopen
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
        for name, member in self.analysts.items():
            found[analyst_name(self.population, name)] = tally_text(member.last, member.spent)
        for name, member in self.groups.items():
            found[group_name(self.population, name)] = tally_text(member.last, member.spent)
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
            wrong.append("is a release that no charge of its question paid for")
        if self.opened.people is not None and released.charge not in self.counted:
            wrong.append("is a release whose people were not charged")
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
        self.analysts[cap.name] = Member(
            cap, seq, self.filter.empty if old is None else old.spent, seq if old is None else old.last
        )
        return wrong + self._reservations()

    def cap_group(self, seq: int, cap: GroupCapped) -> list[str]:
        """Take in a group's cap."""
        old = self.groups.get(cap.name)
        wrong = self._ended() + self._cap(cap, old)
        self.groups[cap.name] = Member(
            cap, seq, self.filter.empty if old is None else old.spent, seq if old is None else old.last
        )
        return wrong + self._reservations()

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
