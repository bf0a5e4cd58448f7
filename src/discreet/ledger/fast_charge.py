"""A charge in one message, where the store adds up by itself: nobody waits for a client while the store is locked.

The store adds the cost to the sum, compares it with the capacity, and links the entry to the chain, under the ledger's
lock. It does so only while the account's terms are those that the last ordinary charge was taken under; in every other
case, a refusal among them, it adds nothing, and the charge is made in the ordinary way. What it has done is computed
here again, before anything is told: an entry with another sum or hash than ours is no charge.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from discreet.accounting.filter import Charge, Tally, within
from discreet.errors import LedgerCorrupt
from discreet.ledger import forms
from discreet.ledger.account_state import Limit, Standing
from discreet.ledger.chain import canonical
from discreet.ledger.entry import KINDS, Charged, Entry, Moved, People
from discreet.ledger.failures import KEEP
from discreet.ledger.forms import tally_text, terms_name
from discreet.ledger.log import Log, View
from discreet.ledger.names import name
from discreet.ledger.store import Added, Addition
from discreet.privacy.unit import Relation

_ALL = ("seq", "time", "population", "kind")

_UNDERSTOOD = tuple(
    f"{kind}:{','.join(sorted({*content.forms, *_ALL}))}" for kind, content in KINDS.items() if content is not Moved
)
"""The kinds of entries after which a charge may follow, and all their fields."""

_BITS = 500  # of the largest numerators and denominators that are left to the store
_EMPTY = tally_text(0, ())[1:-1]


@dataclass(frozen=True, slots=True)
class Known:
    """The terms of a population, as they were when a charge was taken.

    Attributes:
        terms: the name of their state, and its text.
        limit: what follows from them.
        most: the least of the capacity that was written and the one that is computed today; see `Limit.affords`.
    """

    terms: tuple[str, str]
    limit: Limit
    most: Tally | None


class Charging(Protocol):
    """An `Account`, as far as a charge reads it."""

    population: str
    relation: Relation
    people: People | None

    @property
    def log(self) -> Log: ...
    def charging(self, question: str, charge: Charge, note: dict[str, Any]) -> Callable[[View], Entry]: ...
    def _standing(self, view: View) -> Standing: ...


_KNOWN: WeakKeyDictionary[Log, dict[str, Known]] = WeakKeyDictionary()


def charge(account: Charging, question: str, charge: Charge, note: dict[str, Any]) -> Entry:
    """As `Account.charge`, where the log adds by itself, nobody asks by name and nothing is pending."""
    log = account.log
    known = _KNOWN.setdefault(log, {})
    if (terms := known.get(account.population)) is not None:
        entry = _quickly(account, terms, name("question", question), charge, note)
        if entry is not None:
            return entry
    entry, terms = log.write(_noticing(account, terms, account.charging(question, charge, note)))
    known[account.population] = terms  # now that it is durable
    return entry


def _noticing(
    account: Charging, known: Known | None, step: Callable[[View], Entry]
) -> Callable[[View], tuple[Entry, Known]]:
    """Return a charge in the ordinary way that notices, once it was taken, the terms that took it."""
    state = terms_name(account.population)

    def work(view: View) -> tuple[Entry, Known]:
        entry = step(view)
        terms = state, view.get(state) or ""
        if known is not None and known.terms == terms:
            return entry, known
        limit = account._standing(view).population
        if limit.capacity is None:
            return entry, Known(terms, limit, None)
        most = tuple(min(a, b) for a, b in zip(limit.capacity, limit.filter.capacity, strict=True))
        return entry, Known(terms, limit, most)

    return work


def _quickly(account: Charging, known: Known, question: str, charge: Charge, note: dict[str, Any]) -> Entry | None:
    """Return the entry, or None where the ordinary way has to be taken: it refuses what is to be refused."""
    cost, people = known.limit.filter.cost(charge), account.people
    asked = charge.guarantee.epsilon, charge.guarantee.delta
    if (
        charge.events.relation not in (None, account.relation)
        or not known.limit.allows(charge)
        or (people is not None and charge.guarantee.epsilon > people.budget.per_query)
        or any(x.numerator < 0 or max(x.numerator, x.denominator).bit_length() > _BITS for x in (*cost, *asked))
    ):
        return None
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    after = f',"time":"{now}","units":null}}'
    facts = {"seq": 0, "time": now, "population": account.population, "kind": Charged.kind}
    draft = canonical(facts | Charged(question, charge, (), note).to_json())
    before = draft.removesuffix(_EMPTY + after)
    assert len(before) < len(draft)  # by name, a charge ends with its number, sum, time and units
    row = account.population, Charged.kind, question, before, after, known.limit.state
    added = account.log.add(lambda seen: Addition(*row, cost, known.most, known.terms, seen, _UNDERSTOOD))
    if added is None:
        return None
    spent = _spent(account, known, cost, added)
    if added.row.body != before + tally_text(added.row.seq, spent)[1:-1] + after:
        raise _wrong(account)
    return Entry(added.row.seq, now, account.population, Charged(question, charge, spent, note))


def _spent(account: Charging, known: Known, cost: Tally, added: Added) -> Tally:
    """Return the sum with this charge in it, computed here from the one before."""
    try:
        spent = known.limit.filter.add(forms.tally(json.loads(added.sum)["spent"]), cost)
    except (KeyError, TypeError, ValueError):
        raise _wrong(account) from None
    if known.most is not None and not within(spent, known.most):
        raise _wrong(account)
    return spent


def _wrong(account: Charging) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"the server of the ledger {account.log.store.place} has added up wrongly; the charge may stand.", hint=KEEP
    )
