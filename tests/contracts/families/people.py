"""Summaries of what people have used of their own budgets."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from unittest import mock

import numpy as np

from discreet import spending
from discreet.accounting.filter import Charge, Tally
from discreet.ledger import person_budgets
from discreet.ledger.account import Account
from discreet.ledger.ledger import Ledger
from discreet.ledger.people_table import CAPACITY, PeopleTable, Summary, Sums, counted, summarised
from discreet.ledger.person_budgets import PersonBudgets
from discreet.mechanisms.additive import Additive
from discreet.noise.entropy import Entropy
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.guarantee import Approximate, Budget
from tests.contracts.audit_row import ENGINE, AuditRow, sampled


def account(people: int, cost: int) -> Account:
    """An account in which a question has cost each of so many people that many parts."""
    found = Ledger.open(":memory:").open_account("people", None, per_person=Budget(1000))
    price = Approximate(Fraction(1))
    asked = found.charge("q", Charge(Composed([(ApproximateEvent(Fraction(1)), 1)]), price), note={})
    assert found.person_budgets is not None
    found.person_budgets.settle(
        asked.seq, np.arange(people, dtype=np.uint64), np.array([[cost] * people, [0] * people])
    )
    return found


def releases(cost: int, epsilon: int, *, one: Callable[[PeopleTable, Sums], Summary]) -> Callable[..., object]:
    """A summary of three people or of four, as a ledger gives it, with so many draws of its noise."""

    def release(people: int, n: int) -> object:
        drawn: list[list[int]] = []

        def noisy(budgets: PersonBudgets, charge: int, cost: Tally, noise: Additive, rng: Entropy) -> tuple[int, ...]:
            counts = budgets.summarise(charge, cost)
            drawn.extend(noise.add(counts, rng) for _ in range(n))
            return counts

        with mock.patch.object(person_budgets, "summarised", one), mock.patch.object(spending, "_noisy", noisy):
            spending.spending_of(account(people, cost), epsilon=epsilon)
        return np.array(drawn)

    return release


def of_everybody(before: PeopleTable, due: Sums) -> Summary:
    """Who cannot pay is counted all the same."""
    found = summarised(before, due)
    return Summary(found.settled, counted(before.after(found.settled.paid)))


def of_all_below(before: PeopleTable, due: Sums) -> Summary:
    """Each person is in the counts of all that is more than was used."""
    found = summarised(before, due)
    return Summary(found.settled, tuple(np.cumsum(found.counts).tolist()))


AUDITS: tuple[AuditRow, ...] = (
    AuditRow(
        ENGINE,
        "a summary of what people have used",
        sampled(releases(CAPACITY // 4, 1, one=summarised), 3, 4, Budget(epsilon=1)),
        sampled(releases(CAPACITY // 4, 1, one=of_all_below), 3, 4, Budget(epsilon=1)),
        "a person in eight counts of ten",
        1_400,
        100_000,
    ),
    AuditRow(
        ENGINE,
        "a summary when somebody has used up all",
        sampled(releases(CAPACITY, 1, one=summarised), 3, 4, Budget(epsilon="0.01")),
        sampled(releases(CAPACITY, 1, one=of_everybody), 3, 4, Budget(epsilon="0.01")),
        "who cannot pay is counted",
        1_400,
        100_000,
    ),
)
"""The audits of summaries."""
