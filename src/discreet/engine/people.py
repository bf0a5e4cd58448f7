"""The people of a query: what it costs each of them, who can pay, and the tables without the others.

Guarantee:
    Queries are settled one after another, each before a number of its result is read: a person who cannot pay what
    the query costs it is left out of everything that is read, and nothing else tells of it (docs/proofs/people.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.backends.person_filter import PERSON, PersonFilter, hashed
from discreet.engine.meter import after_charge
from discreet.errors import BudgetExceeded, InternalError, InvalidParameter
from discreet.privacy.guarantee import words

if TYPE_CHECKING:
    from discreet.accounting.filter import Charge
    from discreet.backends.backend import Backend
    from discreet.catalog.schema import TableSchema
    from discreet.ledger.account import Account
    from discreet.ledger.people.person_budgets import PersonBudgets
    from discreet.plan.people.person_cost import PersonCost
    from discreet.plan.plan import Plan
    from discreet.plan.query import Query


class Readable(Protocol):
    """What runs SQL with parameters on the data."""

    def rows(self, sql: str, parameters: Mapping[str, int]) -> list[tuple[Any, ...]]: ...
    def columns(self, sql: str, parameters: Mapping[str, int]) -> list[NDArray[np.int64]]: ...


class PeopleOf:
    """What a session knows of its account's people, where each has a budget of their own."""

    __slots__ = ("_account", "_backend", "_tables")

    def __init__(self, account: Account, backend: Backend, tables: Sequence[TableSchema]) -> None:
        if any(t.unit.is_row for t in tables):
            raise InvalidParameter(
                "A budget for each person needs to know who is who, and here each row is a unit of its own.",
                hint="connect with a column that names the person: "
                "dp.PrivacyUnit('person_id', max_groups=3, max_rows=10)",
            )
        backend.check_person_filter()
        self._account, self._backend = account, backend
        own = [t for t in tables if not t.public and t.reached is None]
        self._tables = {t.name: t.unit.column for t in own if t.unit.column is not None}

    @property
    def _budgets(self) -> PersonBudgets:
        """As they are now: the account's secret key is that of whoever charges it first."""
        budgets = self._account.person_budgets
        assert budgets is not None
        return budgets

    def cost(self, plan: Plan) -> PersonCost:
        """Return what a charge for a plan costs each person; its statement has been tried on empty tables. Where a
        first stage chooses something, a result is fed back into rows, or a recipe of one's own draws, each person in it
        pays the worst case.

        Raises:
            PlanError, InvalidParameter: it cannot be charged to each person.
            BudgetExceeded: it costs everybody in it more than a whole budget.
        """
        from discreet.plan.people.person_cost import (
            before_results,
            everybody_cost,
            person_cost_of,
            scope_of,
            whole_cost,
        )

        rule, capacity, charge = self._budgets.filter, self._budgets.capacity, plan.charge
        if plan.recipe:
            scopes = [*(part.rows.bounded for part in plan.parts), *(scope_of(query) for query in plan.measurements)]
            return self._rehearsed(everybody_cost(scopes, charge, rule, capacity), charge)
        if plan.outer is not None and plan.outer.fed:
            scopes = [before_results(query) for query in plan.measurements]
            return self._rehearsed(everybody_cost(scopes, charge, rule, capacity), charge)
        if plan.stages is not None:
            return self._rehearsed(whole_cost(plan.stages.last, charge, rule, capacity), charge)
        return self._rehearsed(person_cost_of(plan.measurements, charge, rule, capacity), charge)

    def check_stages(self, last: Query, chosen: Query) -> None:
        """Look whether what was chosen asks of the people who were charged.

        Raises:
            InternalError: it asks of others.
        """
        from discreet.plan.people.person_cost import same_people

        if not same_people(last, chosen):
            raise InternalError(
                "The second stage asks of other people than were charged. The charge stands.",
                hint="please report the query",
            )

    @contextmanager
    def taking_part(self, cost: PersonCost, charge: int, secret: int) -> Iterator[Readable]:
        """Settles the people of a charge, and gives what runs SQL on the data of those who can pay.

        Raises:
            LedgerError: they could not be settled; nothing may be released.
            BackendFailed: the database failed; the charge stands.
        """
        with self._backend.person_filter(self._tables) as person_filter:
            after_charge(lambda: self._settle(person_filter, cost, charge, secret))
            yield person_filter

    def _settle(self, person_filter: PersonFilter, cost: PersonCost, charge: int, secret: int) -> None:
        hashes, costs = person_filter.people(hashed(cost.sql, cost.sums), self._parameters(cost, secret), cost.sums)
        worst = np.array(cost.worst, np.int64)[:, None]
        costs = np.where(costs[0] > worst[0], worst, costs)  # both are prices of the whole charge
        person_filter.leave_out(self._budgets.settle(charge, hashes, costs))

    def _rehearsed(self, cost: PersonCost, charge: Charge) -> PersonCost:
        if cost.hopeless:
            asked, has = charge.guarantee, self._budgets.filter.budget
            raise BudgetExceeded(
                f"The query needs {words(asked.epsilon, asked.delta)} of everybody in it, and each person has "
                f"{words(has.epsilon, has.delta)}: nobody would be left to answer it.",
                asked=words(asked.epsilon, asked.delta),
                left=words(has.epsilon, has.delta),
                hint="ask for less; sums and counts are charged by what each person adds, other results in full",
            )
        self._backend.rehearse(hashed(cost.sql, cost.sums), self._parameters(cost, 0))
        return cost

    def _parameters(self, cost: PersonCost, secret: int) -> dict[str, int | str]:
        key: dict[str, int | str] = {PERSON.removeprefix("$"): self._budgets.key}
        return key | {"secret": secret} if cost.keyed else key
