"""Who pays: one account, or those of two populations at once, whose charges and releases are made together.

And what an account would say to a query that is only planned: what would be left, and how many more like it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.accounting.filter import Charge, Tally
from discreet.errors import BudgetExceeded, DiscreetError
from discreet.ledger.account import Account
from discreet.ledger.account_state import Limit
from discreet.ledger.analysts import left_after, times
from discreet.ledger.joint_charge import charge_together, find_together, store_together
from discreet.plan.least import LEAST_EPSILON, most, with_fitting
from discreet.privacy.guarantee import Budget, decimal, words
from discreet.verify.certificate import seal

if TYPE_CHECKING:
    from discreet.ledger.entry import Entry
    from discreet.plan.plan import Plan


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
        """Return the refusal of a plan, with the ε that would fit where there is one. No data is read.

        Args:
            refusal: what an account said.
            plan: what was refused.
            at: the same at so large a part of the ε asked for.
        """
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
