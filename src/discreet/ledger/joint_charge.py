"""What accounts do together: one query that several populations pay for, all of them or none, and a first charge.

Guarantee:
    The charges are entries that follow each other, made in one transaction: durable together, before the data is read,
    or none of them is there. A release is stored in all of the accounts or in none, each time under the account's own
    charge. Each entry's note names all populations, in their order, and `Ledger.verify` finds a charge that lacks one
    of the others (docs/proofs/flows.md).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from discreet.accounting.filter import Charge
from discreet.errors import InternalError, InvalidParameter
from discreet.ledger.account import Account
from discreet.ledger.chain import canonical
from discreet.ledger.entry import TOGETHER, Analysts, Charged, Entry, Pinned, Released, release_in
from discreet.ledger.log import View


def charge_together(charges: Sequence[tuple[Account, Charge]], question: str, *, note: dict[str, Any]) -> list[Entry]:
    """Charges a query to several accounts of one ledger before its data is read, and returns the durable entries.

    Raises:
        BudgetExceeded, InvalidParameter: one of them cannot pay, or takes no such charge; nothing was charged to any.
        LedgerError: the ledger could not be written. Nothing may be released then, charged or not.
    """
    accounts = [account for account, _ in charges]
    _check(accounts)
    if TOGETHER in note:
        raise InvalidParameter(f"a note's {TOGETHER!r} is written by the ledger.")
    told = {**note, TOGETHER: [account.population for account in accounts]}
    steps = [account.charging(question, charge, told) for account, charge in charges]
    entries = accounts[0].log.write(lambda view: [step(view) for step in steps])
    for account in accounts:
        account.arrive()
    return entries


def store_together(
    accounts: Sequence[Account], entries: Sequence[Entry], question: str, release: dict[str, Any]
) -> None:
    """Keep a finished release in all accounts, each time under the account's own charge.

    Raises:
        InvalidParameter: an entry is no charge of the account for this query, or has another release.
        LedgerError: the ledger could not be written.
    """
    _check(accounts)
    pairs = zip(accounts, entries, strict=True)
    steps = [account.storing(question, entry.seq, release) for account, entry in pairs]
    accounts[0].log.write(lambda view: [step(view) for step in steps])


def find_together(accounts: Sequence[Account], question: str) -> Entry | None:
    """Return the first account's entry of the last release of a query that all have; None where one has none."""
    _check(accounts)
    steps = [account.finding(question) for account in accounts]
    log = accounts[0].log
    look = log.imagine if any(account.pending for account in accounts) else log.read
    found = look(lambda view: [step(view) for step in steps])
    kept = [None if entry is None else canonical(release_in(entry)) for entry in found]
    return None if None in kept or len({*kept}) > 1 else found[0]


def _check(accounts: Sequence[Account]) -> None:
    if len({account.population for account in accounts}) < max(len(accounts), 2):
        raise InvalidParameter("several accounts pay together, each of a population of its own.")
    if any(account.log is not accounts[0].log for account in accounts):
        raise InternalError("accounts of several ledgers cannot be charged at once.")
    for account in accounts:
        check_joint(account)


def check_joint(account: Account) -> None:
    """Refuse an account whose promises a query of two populations would not keep."""
    hint = "ask tables that are of this population alone, in a session of their own; or use another population"
    if account.analysts is Analysts.APART:
        raise InvalidParameter(
            f"the analysts of {account.population!r} are kept apart, and a query that another population pays "
            "for as well would tell them what others have asked of that one.",
            hint=hint,
        )
    if account.people is not None:
        raise InvalidParameter(
            f"each person of {account.population!r} has a budget of their own, which is not charged where two "
            "populations are protected.",
            hint=hint,
        )


@dataclass(slots=True)
class Followed:
    """The entries of a ledger, followed for those that several populations have together: one after the other.

    The charges of a query follow each other, and so do its releases, which are the same. A charge for a table that
    was pinned as one of several populations names all of them.
    """

    _met: list[str] = field(default_factory=list)
    _of: list[str] = field(default_factory=list)
    _same: tuple[str, ...] = ()  # what the entries of one run have in common
    _owned: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)  # whose a table is, by its pin
    _paid: dict[int, list[str]] = field(default_factory=dict)  # charges whose release has not been met

    def take(self, entry: Entry) -> str | None:
        """Return what is wrong with an entry at this place; None when nothing is."""
        content, named, wrong = entry.content, None, None
        same: tuple[str, ...] = (entry.kind, str(entry.question))
        if isinstance(content, Pinned) and (others := _others(content)):
            self._owned[entry.population, content.table] = frozenset({entry.population, *others})
        if isinstance(content, Charged):
            named = content.note.get(TOGETHER)
        elif isinstance(content, Released):
            named = self._paid.pop(content.charge, None)
            same = (*same, canonical(content.release))
        if self._met and not (
            named == self._of and same == self._same and entry.population == self._of[len(self._met)]
        ):
            wrong = self._lacking()
            self._met, self._of = [], []
        wrong = wrong or self._left_out(entry, named)
        if named is None:
            return wrong
        if not _is_list(named) or (not self._met and named[0] != entry.population):
            return wrong or "names populations that do not pay together with it"
        if isinstance(content, Charged):
            self._paid[entry.seq] = list(named)
        self._of, self._same = list(named), same
        self._met = [*self._met, entry.population]
        if self._met == self._of:
            self._met, self._of = [], []
        return wrong

    def end(self) -> str | None:
        """Return what is wrong when no entry follows."""
        return self._lacking() if self._met else None

    def _left_out(self, entry: Entry, named: Any) -> str | None:
        """Return what is wrong with a charge for a table that others own as well, and are not named."""
        if not isinstance(entry.content, Charged):
            return None
        note = entry.content.note
        told = note.get("tables")
        for table in [note.get("table"), *(told if isinstance(told, list) else [])]:
            owners = self._owned.get((entry.population, str(table).casefold()))
            if owners is not None and not (_is_list(named) and owners == set(named)):
                lacking = ", ".join(repr(p) for p in sorted(owners - {entry.population}))
                return f"is a charge for table {str(table)!r:.80} that {lacking} did not pay for as well"
        return None

    def _lacking(self) -> str:
        lacking = self._of[len(self._met)]
        if self._same[0] == Released.kind:
            return f"follows a release to {self._met[-1]!r} that {lacking!r} does not have as well"
        return f"follows a charge to {self._met[-1]!r} that {lacking!r} did not pay for as well"


def _others(pinned: Pinned) -> list[str]:
    """Return the populations that a table is of besides the account's, as accounts are named."""
    others = pinned.schema.get("others")
    if not isinstance(others, list):
        return []
    return [unicodedata.normalize("NFC", str(o[0])) for o in others if isinstance(o, list) and o]


def _is_list(named: Any) -> bool:
    return (
        isinstance(named, list)
        and len(named) > 1
        and all(isinstance(n, str) for n in named)
        and len(set(named)) == len(named)
    )


T = TypeVar("T")


def foresee(step: Callable[[View], T], first: Account, *others: Account) -> T:
    """Return what a step of these accounts of one ledger, such as pinning tables, comes to now, and have the first
    charge of each take it.

    That charge takes it in its own transaction, and is refused unless the step comes to the same then. So who only
    connects, plans or is refused leaves nothing behind.
    """
    accounts = (first, *others)
    earlier = tuple(dict.fromkeys(before for account in accounts for before in account.pending))

    def look(view: View) -> tuple[T, bool, tuple[int, str] | None]:
        for before in earlier:
            before(view)
        head = view.head
        return step(view), view.head != head, view.imagined_at

    def again(view: View) -> None:
        if view.imagined_at is not None and view.imagined_at == at:
            return  # it comes to the same, and no budget follows from what it writes
        if step(view) != expected:
            raise InvalidParameter(
                "another session has asked these tables meanwhile, and they had other columns then; nothing was "
                "charged.",
                hint="connect again",
            )

    expected, writes, at = first.log.imagine(look)
    for account in accounts:
        account.pending = (*earlier, *([again] if writes else []))
    return expected
