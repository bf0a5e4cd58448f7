"""Several ledgers side by side: what it means when one population is in more than one of them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from discreet.ledger.account import Account
from discreet.ledger.entry import Moved
from discreet.ledger.ledger import Ledger
from discreet.ledger.lookalikes import skeleton
from discreet.privacy.guarantee import words


def warnings(ledgers: Mapping[str, Ledger]) -> list[str]:
    """What is to be said about populations that are in more than one of these ledgers.

    Nobody can know of a ledger that is not shown: a population is one budget only as long as one ledger keeps it.
    """
    places: dict[str, dict[str, Account]] = {}
    for place, ledger in ledgers.items():
        for population in ledger.populations():
            account = ledger.account(population)
            if account is not None:
                places.setdefault(skeleton(population), {})[place] = account
    return [_warning(ledgers, found) for found in places.values() if len(found) > 1]


def _warning(ledgers: Mapping[str, Ledger], found: Mapping[str, Account]) -> str:
    name = repr(next(iter(found.values())).population)
    where = " and ".join(found)
    if len({account.secret for account in found.values()}) == len(found):
        budgets = [account.budget for account in found.values()]
        epsilon = sum((b.epsilon for b in budgets), Fraction(0))
        delta = sum((b.delta for b in budgets), Fraction(0))
        return (
            f"{name} has a budget in each of {where}. What holds for each of its units is the sum of all: "
            f"{words(epsilon, delta)}. "
            "Close all but one (`discreet ledger close`), and move nothing between them."
        )
    moved = [place for place, account in found.items() if isinstance(account.history()[-1].content, Moved)]
    if moved and len(moved) == len(found) - 1:
        (on,) = set(found) - set(moved)
        return f"{name} has moved from {' and '.join(moved)} to {on}, and goes on there alone."
    newest = [place for place in found if all(ledgers[place].holds(ledgers[other].head) for other in found)]
    if newest:
        older = [place for place in found if ledgers[place].head != ledgers[newest[0]].head]
        if older:
            return (
                f"{' and '.join(older)} is an older copy of {newest[0]}: use {newest[0]}, and nothing else."
            )
        return f"{where} are copies of one ledger: use one of them, and nothing else."
    return (
        f"{where} were one ledger and both went on: neither alone tells what {name} has spent, and the promise may be "
        "broken. Close all but one, and lower the budget of that one by what the others have charged."
    )
