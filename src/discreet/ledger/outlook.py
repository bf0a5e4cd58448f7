"""What an account would say to a question that is only planned: what would be left, and how many more like it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discreet.accounting.filter import Charge, Tally
from discreet.errors import DiscreetError
from discreet.ledger.account import Account
from discreet.ledger.account_state import Limit
from discreet.ledger.analysts import left_after, times
from discreet.privacy.guarantee import Budget, words


@dataclass(frozen=True, slots=True)
class Outlook:
    """What asking now would come to; another question may come in between.

    Attributes:
        left: what would be left; None where the question would be refused.
        more: how many more like it would then fit; None where any number would.
        words: a sentence.
    """

    left: Budget | None
    more: int | None
    words: str


def outlook(account: Account, charge: Charge) -> Outlook:
    """Return the outlook of a charge; nothing is charged."""
    try:
        refusal, left, more = account.considered(charge, _foreseen)
    except DiscreetError as error:  # a cost that this account can never take
        refusal, left, more = error, None, None
    if left is None:
        return Outlook(None, 0, "" if refusal is None else f"It would be refused now: {refusal.message}")
    if not account.limited:
        return Outlook(left, None, "No budget of the population as a whole limits it.")
    whole = account.budget
    has = words(left.epsilon, left.delta)
    enough = "" if more is None else f", enough for {forecast(more - 1)} like it"
    return Outlook(
        left,
        None if more is None else more - 1,
        f"Asked now, it leaves {has} of {words(whole.epsilon, whole.delta)}{enough}.",
    )


def _foreseen(
    refusal: DiscreetError | None, limits: Sequence[Limit], cost: Tally
) -> tuple[DiscreetError | None, Budget | None, int | None]:
    """How a charge would be refused; else what it would leave, and how often it fits."""
    if refusal is not None:
        return refusal, None, None
    return None, left_after(None, limits, cost), times(limits, cost)


def forecast(more: int) -> str:
    """So many more questions, in words."""
    return "no more" if more <= 0 else f"{more:,} more"
