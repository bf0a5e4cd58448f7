"""A mixed workload, one step at a time, each in a process of its own; and what must hold whenever one was cut off."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import numpy as np

from discreet.accounting.filter import Charge
from discreet.errors import BudgetExceeded, DiscreetError
from discreet.ledger.account import Account
from discreet.ledger.account_state import Status
from discreet.ledger.joint_charge import charge_together, foresee, store_together
from discreet.ledger.ledger import Ledger
from discreet.ledger.people_table import parts_of
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.guarantee import Approximate, Budget

NAME = "campaign.ledger"
BUDGET = Budget(40, "1e-3")
PER_PERSON = Budget(2)
ANALYST = "ana"
BOTH = ("people", "places")
"""The accounts that pay for a question together."""

Tell: TypeAlias = int
"""The pipe on which a worker says what it has been told is done."""

Work: TypeAlias = Callable[[Path, Tell], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is done to a ledger: its name, and the doing."""

    name: str
    work: Work


@dataclass(frozen=True, slots=True)
class Told:
    """What a worker had been told: the ledger's head and, of one population, what was spent and stored.

    Attributes:
        head: a head of the ledger.
        population: whose account.
        spent: the ε that its charges come to.
        answered: the question whose release was stored, or none.
    """

    head: str
    population: str
    spent: Fraction
    answered: str | None

    def say(self, tell: Tell) -> None:
        """Say it on the pipe."""
        fields = [self.head, self.population, str(self.spent), self.answered]
        os.write(tell, json.dumps(fields).encode("ascii") + b"\n")

    @staticmethod
    def read(said: bytes) -> list[Told]:
        """What was said; the last line may have been cut off."""
        whole = said[: said.rfind(b"\n") + 1]
        rows = [json.loads(line) for line in whole.splitlines()]
        return [Told(head, population, Fraction(spent), answered) for head, population, spent, answered in rows]


def charge_of(epsilon: Fraction) -> Charge:
    """The charge of one ε-DP mechanism."""
    return Charge(Composed([ApproximateEvent(epsilon, Fraction(0))]), Approximate(epsilon, Fraction(0)))


def spent_of(account: Account) -> Fraction:
    """What an account's charges come to, added up from its history."""
    return sum((entry.epsilon or Fraction(0) for entry in account.history()), Fraction(0))


def workload(rng: random.Random, *, steps: int) -> Iterator[Step]:
    """Steps in an order of their own: a new ledger and two accounts first, then whatever comes.

    Of the accounts, "places" may get analysts, and "persons", opened when it is first asked, has a budget for each
    person besides its own.
    """
    yield Step("open a ledger", lambda path, tell: Ledger.open(path).close())
    yield Step("open an account", _opens("people"))
    yield Step("open another account", _opens("places"))
    for number in range(steps):
        population = rng.choice(("people", "people", "places"))
        yield rng.choice(_KINDS)(population, f"query {number}", rng)


UNVERIFIED = "verify: "
"""How a fault begins that the ledger itself tells."""


def faults(path: Path, told: list[Told], before: dict[str, Fraction]) -> list[str]:
    """What is wrong with the ledger that a cut-off step left behind, in sentences; nothing when all is well.

    Args:
        path: the ledger, in which what was cut off is not mended yet.
        told: what its workers had been told.
        before: what each population had spent before the step.
    """
    if not path.exists():
        return [UNVERIFIED + "the ledger is gone"] if told or before else []
    found = []
    try:
        with Ledger.open(path) as ledger:
            for promise in told[-1:]:
                found += [UNVERIFIED + problem for problem in ledger.verify(promise.head).problems]
            if not told:
                found += [UNVERIFIED + problem for problem in ledger.verify().problems]
            found += [*_spent_less(ledger, told, before), *_not_usable(ledger)]
    except DiscreetError as error:
        found.append(UNVERIFIED + error.message)
    return found


def spending(path: Path) -> dict[str, Fraction]:
    """What each population of a ledger has spent."""
    if not path.exists():
        return {}
    with Ledger.existing(path) as ledger:
        accounts = {name: ledger.account(name) for name in ledger.populations()}
        return {name: spent_of(account) for name, account in accounts.items() if account is not None}


def _spent_less(ledger: Ledger, told: list[Told], before: dict[str, Fraction]) -> Iterator[str]:
    least = dict(before)
    for promise in told:
        least[promise.population] = max(least.get(promise.population, Fraction(0)), promise.spent)
    for population, amount in least.items():
        account = ledger.account(population)
        if account is None or spent_of(account) < amount:
            yield f"{population} had spent {amount}, and less is told now"
    for promise in told:
        account = ledger.account(promise.population)
        if promise.answered is not None and (account is None or account.find(promise.answered) is None):
            yield f"the release of {promise.answered!r} is lost"


def _not_usable(ledger: Ledger) -> Iterator[str]:
    for population in ledger.populations():
        account = ledger.account(population)
        if account is None:
            yield f"the account of {population} is there and cannot be found"
            continue
        if account.status is Status.FROZEN:
            account.thaw(by="the campaign", reason="to go on")
        account, spent = _asked(account), spent_of(account)
        try:
            account.charge("the next one", charge_of(Fraction(1, 100)), note={})
        except BudgetExceeded:
            continue
        if spent_of(account) < spent + Fraction(1, 100):  # others may charge meanwhile
            yield f"the next charge of {population} is not counted"


def _asked(account: Account) -> Account:
    """The account as somebody may ask it: once there are analysts, one of them."""
    return account.seen_by(ANALYST) if account.standings() else account


def _opens(population: str) -> Work:
    def work(path: Path, tell: Tell) -> None:
        with Ledger.open(path) as ledger:
            account = ledger.open_account(population, BUDGET)
            Told(ledger.head, population, spent_of(account), None).say(tell)

    return work


def _pins(population: str, question: str, rng: random.Random) -> Step:
    schema = {"columns": [["id", "integer"], ["x" * rng.randrange(1, 3000), "real"]], "unit": "id"}

    def work(path: Path, tell: Tell) -> None:
        with Ledger.open(path) as ledger:
            account = ledger.open_account(population, None)
            account.pin(f"table of {question}", schema)
            Told(ledger.head, population, spent_of(account), None).say(tell)

    return Step("pin a schema", work)


def _arrives(population: str, question: str, rng: random.Random) -> Step:
    name, amount = f"new with {question}", Fraction(rng.randrange(1, 20), 10)
    schema = {"columns": [["id", "integer"], ["x" * rng.randrange(1, 3000), "real"]], "unit": "id"}

    def work(path: Path, tell: Tell) -> None:
        with Ledger.prepared(path) as ledger:
            account = ledger.prepared_account(name, BUDGET)
            foresee(account.pinning("table", schema), account)
            if _charged(account, question, amount):
                Told(ledger.head, name, spent_of(account), None).say(tell)

    return Step("open, pin and charge at once", work)


def _charges(population: str, question: str, rng: random.Random) -> Step:
    amounts = [Fraction(rng.randrange(1, 20), 10) for _ in range(rng.randrange(1, 4))]

    def work(path: Path, tell: Tell) -> None:
        with Ledger.open(path) as ledger:
            account = _asked(ledger.open_account(population, None))
            for amount in amounts:
                if not _charged(account, question, amount):
                    return
                Told(ledger.head, population, spent_of(account), None).say(tell)

    return Step("charge", work)


def _answers(population: str, question: str, rng: random.Random) -> Step:
    amount, release = Fraction(rng.randrange(1, 20), 10), {"rows": ["…" * rng.randrange(1, 4000)]}

    def work(path: Path, tell: Tell) -> None:
        with Ledger.open(path) as ledger:
            account = _asked(ledger.open_account(population, None))
            if account.find(question) is None and _charged(account, question, amount):
                Told(ledger.head, population, spent_of(account), None).say(tell)
                charge = next(e.seq for e in reversed(account.history()) if e.question == question)
                account.store(question, charge, release)
                Told(ledger.head, population, spent_of(account), question).say(tell)

    return Step("charge, and store the release", work)


def _settles(population: str, question: str, rng: random.Random) -> Step:
    amount, people = Fraction(rng.randrange(1, 10), 10), rng.randrange(1, 4000)

    def work(path: Path, tell: Tell) -> None:
        with Ledger.open(path) as ledger:
            account = ledger.open_account("persons", BUDGET, per_person=PER_PERSON)
            if not _charged(account, question, amount):
                return
            Told(ledger.head, "persons", spent_of(account), None).say(tell)
            charge = next(e.seq for e in reversed(account.history()) if e.question == question)
            budgets = account.person_budgets
            assert budgets is not None
            costs = np.full((len(budgets.capacity), people), parts_of(amount, PER_PERSON.epsilon), np.int64)
            budgets.settle(charge, np.arange(people, dtype=np.uint64), costs)
            Told(ledger.head, "persons", spent_of(account), None).say(tell)
            account.store(question, charge, {"rows": [people]})
            Told(ledger.head, "persons", spent_of(account), question).say(tell)

    return Step("charge, settle its people, store", work)


def _decides(population: str, question: str, rng: random.Random) -> Step:
    more = rng.randrange(1, 20)

    def work(path: Path, tell: Tell) -> None:
        with Ledger.open(path) as ledger:
            account = ledger.open_account(population, None)
            by, reason = "the owner", question
            account.freeze(by=by, reason=reason)
            Told(ledger.head, population, spent_of(account), None).say(tell)
            account.thaw(by=by, reason=reason)
            account.change_budget(Budget(account.budget.epsilon + more, BUDGET.delta), by=by, reason=reason)
            Told(ledger.head, population, spent_of(account), None).say(tell)

    return Step("freeze, thaw, change the budget", work)


def _caps(population: str, question: str, rng: random.Random) -> Step:
    cap = Budget(30 + rng.randrange(5), BUDGET.delta)

    def work(path: Path, tell: Tell) -> None:
        with Ledger.open(path) as ledger:
            account = ledger.open_account("places", None)
            account.cap_analyst(ANALYST, cap, by="the owner", reason=question)
            Told(ledger.head, "places", spent_of(account), None).say(tell)
            if _charged(account.seen_by(ANALYST), question, Fraction(1, 10)):
                Told(ledger.head, "places", spent_of(account), None).say(tell)

    return Step("cap an analyst, who asks", work)


def _pays_with_another(population: str, question: str, rng: random.Random) -> Step:
    amounts = [Fraction(rng.randrange(1, 10), 10) for _ in BOTH]
    release = {"rows": ["…" * rng.randrange(1, 4000)]}

    def work(path: Path, tell: Tell) -> None:
        with Ledger.open(path) as ledger:
            accounts = [_asked(ledger.open_account(name, None)) for name in BOTH]
            charges = [(a, charge_of(amount)) for a, amount in zip(accounts, amounts, strict=True)]
            try:
                entries = charge_together(charges, question, note={"asked": question})
            except BudgetExceeded:
                return
            for account in accounts:
                Told(ledger.head, account.population, spent_of(account), None).say(tell)
            store_together(accounts, entries, question, release)
            for account in accounts:
                Told(ledger.head, account.population, spent_of(account), question).say(tell)

    return Step("charge two accounts together, store", work)


def _charged(account: Account, question: str, amount: Fraction) -> bool:
    try:
        account.charge(question, charge_of(amount), note={"asked": question})
    except BudgetExceeded:
        return False
    return True


_KINDS: tuple[Callable[[str, str, random.Random], Step], ...] = (
    _pins,
    _arrives,
    _charges,
    _answers,
    _answers,
    _settles,
    _settles,
    _decides,
    _caps,
    _pays_with_another,
)
