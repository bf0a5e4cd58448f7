"""What an owner alone can do: lock a ledger, and change a whole account's budget, freeze, thaw, close it. All stays in
the chain.

No charge opens an account in a locked ledger, and only its owner does, with the owner's key where it names one. That
key is also needed for all else that may let an account spend more: a budget, a cap, a thaw (`forms.Act`). The lock
is an entry of the chain, and so is its end. A signature is by an Ed25519 key, under the hash of the entry
before it, so that it stands for one place of one chain and for nothing else, and under all that the entry says.

References: RFC 8032, https://www.rfc-editor.org/rfc/rfc8032
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from discreet.accounting.filter import Filter, within
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter, LedgerError
from discreet.ledger import chain, names
from discreet.ledger.account_state import Standing, Status, along, refit, reserved
from discreet.ledger.chain import canonical
from discreet.ledger.entry import Analysts, Closed, Content, Entry, Frozen, Locked, Opened, Rebudgeted, Thawed
from discreet.ledger.forms import Act, Terms, terms_name, terms_text
from discreet.ledger.log import View
from discreet.privacy.guarantee import Budget, decimal, words

Key: TypeAlias = str | os.PathLike[str]  # the file of an Ed25519 private key
A = TypeVar("A", bound=Act)

LEDGER = ""
"""What stands in the place of a population in the entries about the whole ledger; no population has this name."""

_TAG = b"discreet ledger act, format 1\x00"


def lock_of(view: View) -> Locked | None:
    """Return the lock that holds now; None when none does."""
    last = view.latest(LEDGER, Locked.kind, Locked.key)
    said = None if last is None else last.content
    return said if isinstance(said, Locked) and said.locked else None


def change_lock(view: View, place: str, locked: bool, key: Key | None, by: str, reason: str) -> Entry:
    """Append a lock, with a key one that only this key opens, or the end of one."""
    view.refuse_moved()
    if locked == (lock_of(view) is not None):
        hint = "to lock it with another key, or with one at all, unlock it first" if locked else ""
        raise InvalidParameter(f"the ledger {place} is {'locked already' if locked else 'not locked'}.", hint=hint)
    public = chain.public_key(key) if locked and key is not None else None
    said = Locked(locked, public, names.words("by", by), names.words("reason", reason))
    signed = _signed(view, LEDGER, said, key) if locked else by_owner(view, place, LEDGER, said, key)
    return view.append(LEDGER, signed)


def refuse_locked(view: View, place: str, population: str) -> None:
    """Refuse to open an account by a charge in a locked ledger. Raises LedgerError: it is locked."""
    if lock_of(view) is not None:
        command = shlex.join(["discreet", "ledger", "open", place, population])
        raise LedgerError(
            f"the ledger {place} is locked: no query opens an account in it, and {population!r} has none.",
            hint=f"give population= the name that it has there; its owner opens a new one with `{command} BUDGET`, or "
            "Ledger.open_account(…)",
        )


def refuse_new_analyst(view: View, place: str, population: str, analyst: str, cap: Budget) -> None:
    """Refuse to add an analyst by a charge in a ledger that is locked with a key.

    Raises:
        InvalidParameter: it is locked so.
    """
    held = lock_of(view)
    if held is not None and held.public_key is not None:
        budget = ",".join(decimal(part) for part in (cap.epsilon, cap.delta) if part)
        command = shlex.join(["discreet", "ledger", "analyst", place, population, analyst, budget])
        raise InvalidParameter(
            f"the ledger {place} is locked with a key: no query adds an analyst to it, and it has no {analyst!r}.",
            hint=f"its owner adds them: `{command} --key KEYFILE --by NAME --reason WHY`",
        )


def by_owner(view: View, place: str, population: str, act: A, key: Key | None) -> A:
    """Return an act, signed where the ledger's lock names a key.

    Raises:
        InvalidParameter: it names another key than this one.
    """
    held = lock_of(view)
    if held is None or held.public_key is None:
        return act
    if key is None or chain.public_key(key) != held.public_key:
        raise InvalidParameter(
            f"the ledger {place} is locked with a key, and this {'names none' if key is None else 'is another one'}.",
            hint="key= names the file of its owner's private key",
        )
    return _signed(view, population, act, key)


def is_signed(previous: str, population: str, act: Act, public_key: str) -> bool:
    """Whether an entry after that hash carries the signature of that key.

    Raises:
        InvalidParameter: a signature or a key that is none.
    """
    return act.signature is not None and chain.verified(_message(previous, population, act), act.signature, public_key)


def _signed(view: View, population: str, act: A, key: Key | None) -> A:
    if key is None:
        return act
    signature = chain.signed(_message(view.head[1], population, act), key)
    return replace(act, signature=signature)


def _message(previous: str, population: str, act: Act) -> bytes:
    fields = {**act.to_json(), "kind": act.kind, "population": population}
    del fields["signature"]
    return _TAG + bytes.fromhex(previous) + canonical(fields).encode()


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
    what = f"the budget of {account.population!r} cannot be {words(budget.epsilon, budget.delta)}"
    found = refit(account.units, budget) if curve is None else along(account.units, budget, curve)
    if not within(limit.spent, found.capacity):
        raise InvalidParameter(
            f"{what}: more than that is spent.", hint="freeze or close the account so that no more is spent"
        )
    apart = account.opened.analysts is Analysts.APART
    if apart and not within(
        reserved(account.now.groups(), account.now.analysts(), account.units.empty), found.capacity
    ):
        raise InvalidParameter(
            f"{what}: the caps of analysts kept apart reserve more.", hint="caps that are reserved are never lowered"
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
