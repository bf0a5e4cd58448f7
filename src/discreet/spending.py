"""What people have used of their own budgets, as a private summary: asked for by name, and charged like a query."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.accounting.filter import Charge
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerCorrupt
from discreet.ledger.chain import canonical
from discreet.ledger.entry import SUMMARY, PeopleCharged
from discreet.ledger.failures import KEEP
from discreet.ledger.people_table import BINS, CAPACITY
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.calibrated import AskedGuarantee
from discreet.mechanisms.summed import SummedNoise
from discreet.noise.entropy import SystemEntropy
from discreet.privacy.guarantee import Approximate, Budget, words
from discreet.privacy.unit import Sensitivity
from discreet.table import render

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.log import View
    from discreet.ledger.person_budgets import PersonBudgets
    from discreet.noise.entropy import Entropy
    from discreet.privacy.exact import Real

_PEOPLE = "people"
_CONFIDENCE = Fraction(19, 20)
_ONE_PERSON = Sensitivity(1, 1)


@dataclass(frozen=True, slots=True)
class Spending:
    """How many people have used how much of their own budgets, each number with noise; public.

    Attributes:
        population: whose people they are.
        each: the promise to each of them.
        counts: how many have used up to a tenth, up to two tenths, … of it, this summary included.
        noise: what was added to each count.
        price: what each of them, and the account, was charged.
        stored: whether it is an earlier summary, since which no query was asked of people: it was free. Other
            summaries may have been charged since.
    """

    population: str
    each: Budget
    counts: tuple[int, ...]
    noise: Additive
    price: Approximate
    stored: bool

    @property
    def people(self) -> int:
        """How many there are in all."""
        return sum(self.counts)

    @property
    def margin(self) -> int:
        """Each count is off by this at most, with a chance of 95 %."""
        return self.noise.quantile(_CONFIDENCE)

    @property
    def margin_of_all(self) -> int:
        """The same of their sum."""
        return SummedNoise(self.noise, BINS).quantile(_CONFIDENCE)

    def to_json(self) -> dict[str, Any]:
        """Return the summary for programs."""
        return {
            "used": [
                {"above": Fraction(i, BINS), "up_to": Fraction(i + 1, BINS), "people": n, "margin": self.margin}
                for i, n in enumerate(self.counts)
            ],
            "people": self.people,
            "margin": self.margin_of_all,
            "confidence": _CONFIDENCE,
            "epsilon": self.price.epsilon,
            "delta": self.price.delta,
            "stored": self.stored,
        }

    def __str__(self) -> str:
        step = 100 // BINS
        rows = [[f"{step * i} – {step * (i + 1)} %", f"{n:,} ± {self.margin:,}"] for i, n in enumerate(self.counts)]
        rows.append(["all of these", f"{self.people:,} ± {self.margin_of_all:,}"])
        price = words(self.price.epsilon, self.price.delta)
        paid = (
            f"stored: nobody was asked about since, other summaries apart, and it is free; it cost each of them {price}"
        )
        return "\n".join(
            [
                f"What people of {self.population} have used of {words(self.each.epsilon, self.each.delta)} each:",
                render(["used", "people"], rows, align=["right", "right"]),
                f"± is a 95 % interval; {paid if self.stored else f'charged {price} to each of them'}.",
                f"Counted are those who were in a query and could still pay {price}.",
                "Who had less left is in no line, as in no result.",
            ]
        )


def spending_of(account: Account, *, epsilon: Real, delta: Real | None = None, fresh: bool = False) -> Spending:
    """Return a private summary of how much of their own budgets people have used, for the account's owner.

    Guarantee:
        It is one more query, chosen adaptively: each person who has spent anything pays (ε, δ) of the own budget for
        being counted, and who cannot is left out of it in silence. When a person's records come or go, one count moves
        by one and nothing else does, since what a person has spent follows from the own records and from the results so
        far. So the promise to each person is what it was (docs/proofs/people.md#a-summary).

    Args:
        account: of people with budgets of their own.
        epsilon: what each of them pays, above 0.
        delta: given, the noise is Gaussian; a gdp filter needs it.
        fresh: whether to draw again even if nobody was asked about since the last one like it, other summaries
            apart; it is free else.

    Raises:
        InvalidParameter: people have no budgets of their own, or nobody was asked about yet; nothing was charged.
        BudgetExceeded: the account cannot pay, or nobody could; nothing was charged.
        LedgerError: the ledger cannot be used, and nothing was released.
    """
    budgets = account.person_budgets
    if budgets is None:
        raise InvalidParameter(
            f"{account.population!r} has one budget for all: nothing is counted person by person.",
            hint="an account is opened with per_person=dp.Budget(…) for it",
        )
    asked = AskedGuarantee.read("the summary of what people have used", epsilon, delta, None)
    noise, _ = asked.calibrated(1, 1)
    price = Approximate(asked.epsilon, asked.delta)
    question = _identity(account, noise, price)
    found = None if fresh else account.find(question)
    if found is not None:
        return Spending(account.population, budgets.filter.budget, _counts(found), noise, price, True)
    charge = Charge(noise.event(_ONE_PERSON), price)
    cost = budgets.filter.cost(charge)
    _refuse_hopeless(budgets, budgets.parts(cost), price)
    entry = account.charge(question, charge, note={SUMMARY: _PEOPLE})
    counts = _noisy(budgets, entry.seq, cost, noise, SystemEntropy())
    account.store(question, entry.seq, {"format": 1, "people": [str(n) for n in counts]})
    return Spending(account.population, budgets.filter.budget, counts, noise, price, False)


def _noisy(
    budgets: PersonBudgets, charge: int, cost: tuple[Fraction, ...], noise: Additive, rng: Entropy
) -> tuple[int, ...]:
    """Return the counts with noise; the exact ones are in no frame that lives longer than this."""
    return tuple(noise.add(budgets.summarise(charge, cost), rng))


def _identity(account: Account, noise: Additive, price: Approximate) -> str:
    """Return what is asked, and after which settled query: the same again is the same state of the table, and free.

    Raises:
        InvalidParameter: nobody was ever asked about.
    """
    settled = account._log.read(lambda view: _last_settled(view, account.population))
    if settled is None:
        raise InvalidParameter(
            f"no query about {account.population!r} was charged yet: nobody has used anything.",
            hint="ask for a summary later",
        )
    told = [SUMMARY, _PEOPLE, 1, account.population, repr(noise), str(price.epsilon), str(price.delta)]
    return hashlib.sha256(canonical([*told, settled]).encode()).hexdigest()


def _last_settled(view: View, population: str) -> int | None:
    """Return the number of the last entry that settled people who were asked about, and not only summed up."""
    for seq in range(view.head[0], 0, -1):
        entry = view.numbered(seq)
        if entry is None or entry.population != population or not isinstance(entry.content, PeopleCharged):
            continue
        paid = None if entry.content.charge is None else view.numbered(entry.content.charge)
        if paid is not None and SUMMARY not in paid.note:
            return seq
    return None


def _counts(release: dict[str, Any]) -> tuple[int, ...]:
    found = release.get("people")
    if release.get("format") != 1 or type(found) is not list or len(found) != BINS:
        raise LedgerCorrupt("the stored summary of what people have used cannot be read.", hint=KEEP)
    return tuple(map(int, found))


def _refuse_hopeless(budgets: PersonBudgets, parts: tuple[int, ...], price: Approximate) -> None:
    if any(part > CAPACITY for part in parts):
        has = budgets.filter.budget
        asks, left = words(price.epsilon, price.delta), words(has.epsilon, has.delta)
        raise BudgetExceeded(
            f"The summary asks {asks} of everybody in it, and each person has {left}: nobody would be left.",
            asked=asks,
            left=left,
            hint="ask for less: counts of many people need little",
        )
