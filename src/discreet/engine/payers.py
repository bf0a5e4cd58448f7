"""Who pays: one account, those of two populations at once, or each person of an account; and what proves a payment.

And what an account would say to a query that is only planned: what would be left, and how many more like it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.filter import Charge, Tally
from discreet.backends.person_filter import PERSON, PersonFilter, hashed
from discreet.errors import BudgetExceeded, DiscreetError, InternalError, InvalidParameter, redacted
from discreet.ledger.account import Account
from discreet.ledger.account_state import Limit
from discreet.ledger.analysts import left_after, times
from discreet.ledger.entry import Released
from discreet.ledger.joint_charge import charge_together, find_together, store_together
from discreet.plan.least import LEAST_EPSILON, most, with_fitting
from discreet.privacy.guarantee import Budget, decimal, words
from discreet.verify.certificate import seal
from discreet.verify.certificate.document import CertifiedQuery, checks_of, write
from discreet.verify.certificate.entries import names_of
from discreet.verify.certificate.evidence import CERTIFIED, Evidence, evidence_of
from discreet.verify.claim import PlanClaim
from discreet.verify.flows import FlowClaim

if TYPE_CHECKING:
    from discreet.backends.backend import Backend
    from discreet.catalog.schema import TableSchema
    from discreet.ledger.entry import Entry
    from discreet.ledger.person_budgets import PersonBudgets
    from discreet.plan.people.person_cost import PersonCost
    from discreet.plan.plan import Plan
    from discreet.plan.query import Query

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Payers:
    """The accounts that pay for a session's plans, in the order of a plan's payers.

    Guarantee:
        All of them are charged for a plan, in one transaction, or none is.
    """

    accounts: tuple[Account, ...]

    def found(self, identity: str) -> Entry | None:
        """Return the last release of a query, which all accounts have; None where there is none."""
        if len(self.accounts) > 1:
            return find_together(self.accounts, identity)
        return self.accounts[0].found(identity)

    def charge(self, plan: Plan, note: dict[str, Any]) -> list[Entry]:
        """Charges a plan, before its data is read; the entries are durable.

        Raises:
            BudgetExceeded, InvalidParameter: an account cannot pay, or takes no such charge; nothing was charged.
            LedgerError: the ledger could not be written; nothing may be released then.
        """
        charges = [payer.charge for payer in plan.payers]
        if len(self.accounts) > 1:
            pairs = list(zip(self.accounts, charges, strict=True))
            return charge_together(pairs, plan.identity, note=note)
        return [self.accounts[0].charge(plan.identity, charges[0], note=note)]

    def store(self, identity: str, charges: Sequence[Entry], release: dict[str, Any]) -> None:
        """Store a release under the charges that paid for it, in all accounts or in none.

        Raises:
            LedgerError: the ledger could not be written; nothing is released then.
        """
        if len(self.accounts) > 1:
            store_together(self.accounts, charges, identity, release)
        else:
            self.accounts[0].store(identity, charges[0].seq, release)

    def with_outlook(self, plan: Plan) -> Plan:
        """Return the plan with what the accounts would say to it now; a query that was answered costs nothing."""
        known = self.found(plan.identity) is not None
        if len(self.accounts) == 1:
            (account,) = self.accounts
            if known:
                left = account.remaining
                has = words(left.epsilon, left.delta)
                said = f"It has been answered: asking it again is free, and leaves {has}."
                return replace(plan, left=left, outlook=said)
            found = outlook(account, plan.charge)
            return replace(plan, left=found.left, outlook=found.words)
        if known:
            return replace(plan, outlook="It has been answered: asking it again is free.")
        told = [
            f"{account.population!r}: {outlook(account, charge).words}"
            for account, charge in zip(self.accounts, plan.charges.values(), strict=True)
        ]
        return replace(plan, outlook=" ".join(told))

    def fitting(self, refusal: BudgetExceeded, plan: Plan, at: Callable[[Fraction], Plan]) -> BudgetExceeded:
        """Return the refusal of a plan, with the ε that would fit where there is one. No data is read."""
        if len(self.accounts) > 1:
            share = most(lambda part: self._affords(at, part), Fraction(1))
            return _fitting_flows(refusal, plan, share)
        (account,) = self.accounts
        if account.filter == "basic":  # ε itself adds up, and the account has said it
            if plan.parts and plan.payers[0].guarantee.delta and not account.remaining.delta:  # no query's way round
                hint = "what is drawn needs a budget with δ: budget=dp.Budget(epsilon=3, delta=1e-6)"
                if account.budget.delta:
                    hint = "no δ is left, and this needs one; the owner can raise it with `discreet ledger budget`"
                return BudgetExceeded(refusal.message, asked=refusal.asked, left=refusal.left, hint=hint)
            return refusal
        asked = plan.epsilon
        return with_fitting(refusal, lambda e: at(e / asked).charge, lambda c: account.refusal(c) is None, asked)

    def _affords(self, at: Callable[[Fraction], Plan], part: Fraction) -> bool:
        """Whether all accounts would pay now for a plan at a part of its ε."""
        try:
            charges = at(part).charges.values()
            return all(a.refusal(c) is None for a, c in zip(self.accounts, charges, strict=True))
        except DiscreetError:  # too little for this question to be planned at all
            return False


def part_of(epsilon: Fraction, part: Fraction) -> Fraction:
    """So large a part of an ε, and never too little for a query."""
    return max(epsilon * part, LEAST_EPSILON)


def _fitting_flows(refusal: BudgetExceeded, plan: Plan, share: Fraction | None) -> BudgetExceeded:
    """Return the refusal, with what each population would have paid, and the ε that would fit where there is one."""
    pays = ", ".join(f"{p.population!r} ε = {decimal(p.guarantee.epsilon)}" for p in plan.payers)
    hint = refusal.hint
    if share is not None and plan.flows is not None:
        fits = {p.population: decimal(part_of(p.allowed.epsilon, share)) for p in plan.flows.parties}
        same = len(set(fits.values())) == 1
        said = next(iter(fits.values())) if same else "{" + ", ".join(f"{p!r}: {e}" for p, e in fits.items()) + "}"
        hint = f"epsilon={said} would fit; {hint.split('; ', 1)[-1]}"
    return BudgetExceeded(
        f"{refusal.message} The query would charge {pays}; nothing was charged to either.",
        asked=refusal.asked,
        left=refusal.left,
        hint=hint,
    )


@dataclass(frozen=True, slots=True)
class Outlook:
    """Standing that a query now would lead to; another query may come in between.

    Attributes:
        left: what would be left; None where the query would be refused.
        more: how many more like it would then fit; None where any number would.
        words: a sentence.
    """

    left: Budget | None
    more: int | None
    words: str


def outlook(account: Account, charge: Charge) -> Outlook:
    """Return the outlook of a charge; nothing is charged."""
    try:
        refusal, left, more, whole = account.considered(charge, _foreseen)
    except DiscreetError as error:  # a cost that this account can never take
        refusal, left, more, whole = error, None, None, None
    if left is None:
        return Outlook(None, 0, "" if refusal is None else f"It would be refused now: {refusal.message}")
    if whole is None:
        return Outlook(left, None, "No budget of the population as a whole limits it.")
    has = words(left.epsilon, left.delta)
    enough = "" if more is None else f", enough for {forecast(more - 1)} like it"
    return Outlook(
        left,
        None if more is None else more - 1,
        f"Asked now, it leaves {has} of {words(whole.epsilon, whole.delta)}{enough}.",
    )


def _foreseen(
    refusal: DiscreetError | None, limits: Sequence[Limit], cost: Tally, limited: bool
) -> tuple[DiscreetError | None, Budget | None, int | None, Budget | None]:
    """Return how a charge would be refused; else what it would leave, how often it fits, and the budget of which."""
    if refusal is not None:
        return refusal, None, None, None
    return None, left_after(None, limits, cost), times(limits, cost), limits[0].budget if limited else None


def forecast(more: int) -> str:
    """So many more queries, in words."""
    return "no more" if more <= 0 else f"{more:,} more"


def note_of(plan: Plan, version: str | None) -> dict[str, Any]:
    """Return the public facts beside a charge; they commit to all that will run, before the data is read."""
    says: dict[str, Any] = {"version": version, **seal.noted(plan.claim)}
    if plan.recipe:
        read = {part.rows.bounded.table.name for part in plan.parts}
        read |= {q.question.table.name for q in plan.measurements}
        stays = {} if plan.draws is None else {"open": True}
        return {"sql": plan.recipe, "tables": sorted(read), **stays, **says}
    if [*plan.outputs] == [""]:
        question = plan.query.question
        return {"sql": question.text, "table": question.table.name, **says}
    texts = {name: output.query.question.text for name, output in plan.outputs.items()}
    tables = sorted({q.question.table.name for q in plan.measurements})
    outer: dict[str, Any] = {} if plan.outer is None else {"outer": plan.outer.text}
    if plan.outer is not None and plan.outer.fed:
        outer["fed"] = {fed.name: fed.sql for fed in plan.outer.fed}
    return {"batch": texts, "tables": tables, **outer, **says}


class Readable(Protocol):
    """What runs SQL with parameters on the data."""

    def rows(self, sql: str, parameters: Mapping[str, int]) -> list[tuple[Any, ...]]: ...
    def columns(self, sql: str, parameters: Mapping[str, int]) -> list[NDArray[np.int64]]: ...


class PeopleOf:
    """What a session knows of its account's people, where each has a budget of their own.

    Guarantee:
        Queries are settled one after another, each before a number of its result is read: a person who cannot pay what
        the query costs it is left out of everything that is read, and nothing else tells of it (docs/proofs/people.md).
    """

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
        """Look whether what was chosen asks of the people who were charged. Raises InternalError: it asks of others."""
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


def seals_of(evidence: Evidence, own: str) -> dict[str, Any]:
    """Return the digests in a stored release, of which that of its claim is this.

    Raises:
        InvalidParameter: there are none, or of another claim.
    """
    content = evidence.release.read().content
    assert isinstance(content, Released)
    seals: dict[str, Any] = content.release.get(CERTIFIED, {})
    if seals.get("claim") != own:
        raise InvalidParameter(
            "this result was measured by another version of discreet, which would write its certificate.",
            hint="use that version; or ask again with fresh=True, which is charged anew",
        )
    return seals


@dataclass(frozen=True, slots=True)
class Paid:
    """A release in a ledger.

    Attributes:
        accounts: who paid; of two populations in the order of the claim's sides.
        identity: of what was measured.
        kept: the noisy numbers as they are stored, without digests.
        claim: what was paid for.
    """

    accounts: tuple[Account, ...]
    identity: str
    kept: Callable[[], dict[str, Any]]
    claim: Callable[[], PlanClaim | FlowClaim]

    @property
    def remaining(self) -> list[str]:
        """What the accounts have left now, in words, for a reader; nothing where the ledger cannot be read any more."""
        try:
            left = [(a.population, a.remaining) for a in self.accounts]
        except DiscreetError:
            return []
        of = " of {!r}" if len(left) > 1 else ""
        return [f"{words(budget.epsilon, budget.delta)}{of.format(name)}" for name, budget in left]

    def certificate(self, own: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Return the certificate of the release whose result these rows are; `own` is its name in a batch, "" without
        one.

        Raises:
            InvalidParameter: the ledger does not keep the release, or keeps it without digests or with others.
        """
        claim = self.claim()
        tables = {name for source, _ in checks_of(claim).sources(0) for name in names_of(source)}
        found = evidence_of(self.accounts, self.identity, self.kept(), tables)
        answers, *_ = [seals_of(evidence, seal.of_claim(claim))["answers"] for evidence in found]
        answer = seal.answer(columns, rows)
        name = _stored_as(answers, own, seal.digest(answer))
        charged = found[0].charge.read().note
        texts = charged.get("batch") or {"": charged.get("sql")}
        # the same numbers may answer a question that makes something else of them: its rows were never stored
        known = name is not None
        name = name if name is not None else own if own in texts else next(iter(texts))
        question = CertifiedQuery(
            texts[name], self.identity, name if "batch" in charged else None, charged.get("outer")
        )
        return write(question, claim, answer if known else None, found)


def _stored_as(answers: Mapping[str, str], name: str, own: str) -> str | None:
    """Return the name under which a result of this digest is stored; None when it is not."""
    if answers.get(name) == own:
        return name
    return next((name for name, found in answers.items() if found == own), None)


def after_charge(work: Callable[[], T]) -> T:
    """Return the result of work on private data that was paid for; an error of it says nothing of the data.

    Raises:
        InternalError: a failure of code, whatever it was.
        DiscreetError, KeyboardInterrupt: as the work raises them, without the frames that held private numbers.
    """
    return redacted(work, _told)


def _told(failed: BaseException | None) -> BaseException:
    """Return what is raised for an error of private work."""
    if isinstance(failed, KeyboardInterrupt):
        return KeyboardInterrupt("The query was interrupted while it ran. Its charge stands.")
    return failed or InternalError(
        "The measurement failed. The charge stands: a failure may depend on the data.", hint="please report the query"
    )
