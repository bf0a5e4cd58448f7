"""A plan together with what the account that would pay for it says now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from discreet.errors import BudgetExceeded
from discreet.ledger.outlook import outlook
from discreet.plan.least import with_fitting
from discreet.privacy.guarantee import words

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.plan.auto_bounds.staged import StagedPlan
    from discreet.plan.plan import Plan

    P = TypeVar("P", Plan, StagedPlan)


def foretold(account: Account, plan: P) -> P:
    """The plan with what would be left; a question that has been answered costs nothing."""
    if account.find(plan.identity) is not None:
        left = account.remaining
        has = words(left.epsilon, left.delta)
        return replace(
            plan, left=left, outlook=f"It has been answered: asking it again is free, and leaves {has}."
        )
    found = outlook(account, plan.charge)
    return replace(plan, left=found.left, outlook=found.words)


@contextmanager
def fitting(account: Account, make: Callable[[Fraction], Plan], asked: Fraction) -> Iterator[None]:
    """Where the account refuses for want of budget, the refusal says the largest ε that would fit.

    Where ε itself adds up, the account has said it. No data is read.
    """
    try:
        yield
    except BudgetExceeded as refusal:
        if account.filter == "basic":
            raise
        fits = account.refusal
        raise with_fitting(refusal, lambda e: make(e).charge, lambda c: fits(c) is None, asked) from None
