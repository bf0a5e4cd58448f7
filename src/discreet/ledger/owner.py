"""What an owner can do to a whole account: change its budget, freeze, thaw, close it. All stays in the chain."""

from __future__ import annotations

from dataclasses import dataclass, replace

from discreet.accounting.filter import Filter, within
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.ledger import names
from discreet.ledger.account_state import Standing, Status, reserved
from discreet.ledger.entry import Analysts, Closed, Content, Entry, Frozen, Opened, Rebudgeted, Thawed
from discreet.ledger.forms import Act
from discreet.ledger.lock import Key, by_owner
from discreet.ledger.log import View
from discreet.ledger.states import Terms, terms_name, terms_text
from discreet.ledger.units import along, refit
from discreet.privacy.guarantee import Budget


@dataclass(frozen=True, slots=True)
class Owned:
    """An account in the hands of its owner, inside one write transaction."""

    view: View
    now: Standing
    population: str
    opened: Opened
    units: Filter
    place: str
    key: Key | None

    def say(self, content: Content) -> Entry:
        """Append an entry of this account, signed where the ledger's lock asks for it."""
        if isinstance(content, Act):
            content = by_owner(self.view, self.place, self.population, content, self.key)
        return self.view.append(self.population, content)

    def agree(self, terms: Terms) -> None:
        """Keep where the terms are said now."""
        self.view.put(terms_name(self.population), terms_text(terms))

    def refuse_closed(self) -> None:
        """Refuse any change to an account that is closed."""
        if self.now.status is Status.CLOSED:
            raise InvalidParameter(
                f"the account of {self.population!r} is closed, and stays as it is.",
                hint="what is closed never opens again; a new population has a new account, and a promise of its own",
            )


def change_budget(account: Owned, budget: Budget, by: str, reason: str, curve: PrivacyLoss | None) -> Entry:
    """Append the new budget, unless it is below what has been spent or reserved. See `Account.change_budget`."""
    account.refuse_closed()
    limit = account.now.population
    if limit.capacity is None:
        raise InvalidParameter(
            f"{account.population!r} has no budget as a whole: the promise is each person's own budget.",
            hint="it was opened so, and a person's budget never changes",
        )
    if budget == limit.budget and curve is None:
        raise InvalidParameter(f"{account.population!r} has that budget.", hint="give another one")
    found = refit(account.units, budget) if curve is None else along(account.units, budget, curve)
    if not within(limit.spent, found.capacity):
        raise InvalidParameter(
            f"the budget of {account.population!r} cannot be {budget!r}: more than that is spent.",
            hint="freeze or close the account so that no more is spent",
        )
    apart = account.opened.analysts is Analysts.APART
    if apart and not within(
        reserved(account.now.groups(), account.now.analysts(), account.units.empty), found.capacity
    ):
        raise InvalidParameter(
            f"the budget of {account.population!r} cannot be {budget!r}: the caps of analysts kept apart reserve more.",
            hint="caps that are reserved are never lowered",
        )
    entry = account.say(Rebudgeted(budget, found.capacity, names.words("by", by), names.words("reason", reason)))
    account.agree(replace(account.now.terms, budget=entry.seq))
    return entry


def freeze(account: Owned, by: str, reason: str) -> Entry:
    """Append a freeze; an account that is frozen already is refused."""
    account.refuse_closed()
    if account.now.status is Status.FROZEN:
        raise InvalidParameter(f"the account of {account.population!r} is frozen already.")
    return _status(account, Frozen(names.words("by", by), names.words("reason", reason)))


def thaw(account: Owned, by: str, reason: str) -> Entry:
    """Append the end of a freeze."""
    account.refuse_closed()
    if account.now.status is not Status.FROZEN:
        raise InvalidParameter(f"the account of {account.population!r} is not frozen.")
    return _status(account, Thawed(names.words("by", by), names.words("reason", reason)))


def close(account: Owned, by: str, reason: str) -> Entry:
    """Append the end of the account."""
    account.refuse_closed()
    return _status(account, Closed(names.words("by", by), names.words("reason", reason)))


def _status(account: Owned, content: Frozen | Thawed | Closed) -> Entry:
    entry = account.say(content)
    account.agree(replace(account.now.terms, status=entry.seq))
    return entry
