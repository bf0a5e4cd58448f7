"""The front of the ledger: open a file, open accounts, look at its head, verify it."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import TracebackType
from typing import Any

from discreet.accounting.filter import curve_of, open_filter
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter, LedgerCorrupt
from discreet.ledger import names
from discreet.ledger.account import Account, stored_account
from discreet.ledger.account_state import Standing, meter
from discreet.ledger.chain import GENESIS, SignedHead, sign_head
from discreet.ledger.entry import Analysts, Entry, Moved, Opened, People
from discreet.ledger.export import export_lines, transfer
from discreet.ledger.forms import (
    MOVED,
    Terms,
    populations_of,
    read_moved,
    secret_name,
    tally_name,
    tally_text,
    terms_name,
    terms_text,
)
from discreet.ledger.log import Log, View
from discreet.ledger.names import population as population_name
from discreet.ledger.names import skeleton
from discreet.ledger.owner import Key, by_owner, change_lock, lock_of, refuse_locked
from discreet.ledger.places import MEMORY, existing_store, made_store, prepared_store
from discreet.ledger.store import Store
from discreet.ledger.verify import LedgerReport, verify
from discreet.privacy.guarantee import PER_QUERY, Budget, decimal, words
from discreet.privacy.unit import Relation


class Ledger:
    """A durable record of accounts, safe among threads, processes and forked children.

    >>> with Ledger.open(":memory:") as ledger:
    ...     account = ledger.open_account("customers", Budget(3))
    ...     account.remaining
    Budget(epsilon=3, delta=0)
    """

    def __init__(self, store: Store) -> None:
        given: object = store  # what came need not be what was annotated
        if isinstance(given, str | os.PathLike):
            raise InvalidParameter("a ledger is not made of a path.", hint=f"dp.Ledger.open({os.fspath(given)!r})")
        self._log = Log(store)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Return the ledger at a path or a PostgreSQL URL, made (for its owner only) if nothing is there.

        ":memory:" is a ledger that ends with the process.

        Raises:
            LedgerError: it cannot be read and written, or is of a newer format.
            LedgerCorrupt: the file is no ledger, or is damaged.
        """
        ledger = cls(made_store(path))  # one that cannot be written is refused now, not at the first charge
        ledger._log.read(lambda view: None)
        return ledger

    @classmethod
    def prepared(cls, path: str | os.PathLike[str]) -> Ledger:
        """As `open`, but where nothing is there it is made with the first entry: who only looks leaves nothing behind.

        Raises:
            LedgerError, LedgerCorrupt: as `open`; also where a new one could not be made.
        """
        ledger = cls(prepared_store(path))
        ledger._log.read(lambda view: None)
        return ledger

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> Ledger:
        """Return the ledger at a path or a URL, which must exist; enough permission to read it is enough to look at it.

        Raises:
            LedgerError: it is not there, cannot be read, or is of a newer format.
            LedgerCorrupt: the file is no ledger, or is damaged.
        """
        return cls(existing_store(path))

    def populations(self) -> list[str]:
        """Return the populations that have an account, in the order of their opening."""

        def opened(view: View) -> list[str]:
            # by the names of the states: there is no index of entries by kind alone
            found = (view.latest(n, Opened.kind, Opened.key) for n in populations_of(view.names()))
            return [e.population for e in sorted((e for e in found if e), key=lambda e: e.seq)]

        return self._log.read(opened)

    def account(self, population: str) -> Account | None:
        """Return the account of a population; None when it has none."""
        known = population_name(population)
        return self._log.read(lambda view: stored_account(self._log, view, known))

    def open_account(
        self,
        population: str,
        budget: Budget | None,
        *,
        relation: Relation | str | None = None,
        filter: str | None = None,  # noqa: A002  # the field's word, and the front door's
        curve: PrivacyLoss | None = None,
        per_person: Budget | None = None,
        analysts: Analysts | str | None = None,
        key: Key | None = None,
    ) -> Account:
        """Return the account of a population, opened now if it has none: its owner's act, also in a locked ledger.

        An account never changes what it was opened with; None means "as it is", and for a new account
        add-remove, "basic" and analysts "together". Of any number of processes that open it at once, one does and
        the others find it.

        Args:
            population: whose account it is.
            budget: the promise; it never resets, and only its owner changes it; not needed where `per_person` is given.
            relation: which populations are neighbours.
            filter: the rule by which charges add up, of the population and of each person.
            curve: for filter='renyi-curve', the loss of the work that all charges together may not exceed.
            per_person: the promise to each person by itself, for add-remove neighbours.
            analysts: "together", or "apart" to promise besides that each analyst alone learns no more than the own
                cap allows.
            key: the file of the owner's private key, where the ledger is locked with one.

        Raises:
            InvalidParameter: a new account without a budget, or whose name looks like that of another, or terms
                other than those of the existing account.
            LedgerError: the ledger has moved.
        """
        wanted = Wanted.read(population, budget, relation, filter, curve, per_person, analysts)

        def find_or_open(view: View) -> Account:
            if (found := self._find(view, wanted)) is not None:
                return found
            _, opened, secret = _draft(wanted)
            opened = by_owner(view, self._log.store.place, wanted.name, replace(opened, owner=True), key)
            self._open(view, wanted.name, opened, secret)
            return Account(self._log, wanted.name, opened, secret)

        return self._log.write(find_or_open)

    def prepared_account(
        self,
        population: str,
        budget: Budget | None,
        *,
        relation: Relation | str | None = None,
        filter: str | None = None,  # noqa: A002  # as above
        curve: PrivacyLoss | None = None,
        per_person: Budget | None = None,
        analysts: Analysts | str | None = None,
    ) -> Account:
        """As `open_account`, but an account that is new is opened by its first accepted charge, in one transaction.

        Until then nothing is written, and it is read as if it were open. Where another process opens one meanwhile, it
        is that one if it has the same terms; else everything that is asked of this one is refused.

        Raises:
            InvalidParameter, LedgerError: as `open_account`.
        """
        wanted = Wanted.read(population, budget, relation, filter, curve, per_person, analysts)

        if (found := self._log.read(lambda view: self._find(view, wanted))) is not None:
            return found
        exactly, opened, secret = _draft(wanted)

        def bring(view: View) -> None:
            if self._find(view, exactly) is None:
                refuse_locked(view, self._log.store.place, wanted.name)
                self._open(view, wanted.name, opened, secret)

        self._log.imagine(bring)
        return Account(self._log, wanted.name, opened, secret, pending=(bring,))

    @property
    def is_locked(self) -> bool:
        """Whether only its owner opens accounts, and no charge does."""
        return self._log.read(lock_of) is not None

    def lock(self, *, key: Key | None = None, by: str, reason: str) -> Entry:
        """From now on have no charge open an account; only `open_account` does.

        Args:
            key: the file of the owner's private key (Ed25519), which is needed then to open an account, to unlock, to
                change a budget or a cap, and to thaw.
            by: who signs it off.
            reason: why, in public words.

        Raises:
            InvalidParameter: it is locked, or the file holds no such key.
            LedgerError: the ledger has moved, or the file cannot be read.
        """
        return self._log.write(lambda view: change_lock(view, self._log.store.place, True, key, by, reason))

    def unlock(self, *, key: Key | None = None, by: str, reason: str) -> Entry:
        """Have charges open accounts again. The arguments are as in `lock`.

        Raises:
            InvalidParameter: it is not locked, or locked with another key.
            LedgerError: as in `lock`.
        """
        return self._log.write(lambda view: change_lock(view, self._log.store.place, False, key, by, reason))

    @property
    def head(self) -> str:
        """The hash of the last entry. Published, it commits to everything before it: see `verify(head)`."""
        return self._log.read(lambda view: view.head[1])

    def holds(self, head: str) -> bool:
        """Whether some entry has this hash; whether the chain before it is whole is for `verify` to say."""
        seq = 0
        while rows := self._log.read(lambda view: view.rows(after=seq, limit=2000)):  # noqa: B023  # read at once
            if any(row.hash == head for row in rows):
                return True
            seq = rows[-1].seq
        return head == GENESIS

    def verify(self, head: str | None = None) -> LedgerReport:
        """Whether the whole ledger is what it must be, derived anew from its entries.

        Args:
            head: a head that was published earlier. A ledger that does not contain it is an older copy or
                another one.
        """
        return verify(self._log.store, head)

    def export(self) -> Iterator[str]:
        """Return the public entries as lines of JSON, which anyone can verify: see `discreet.ledger.export`.

        Everything in it is public, releases too: where analysts are kept apart, handing it to one of them is talking.
        """
        return export_lines(self._log.store)

    def sign_head(self, key: str | os.PathLike[str]) -> SignedHead:
        """Return the head, signed with the Ed25519 private key in that file: see `discreet.ledger.chain`."""
        return sign_head(self.head, key)

    def transfer(self, to: str | os.PathLike[str] | Ledger, *, by: str, reason: str) -> Ledger:
        """Move the whole ledger into another, empty store, and return it; here every account ends.

        A call that was cut off is finished by the same call again. Keep this store: its chain proves the move.

        Args:
            to: the path of a new ledger, its URL, or an empty ledger.
            by: who signs it off.
            reason: why, in public words.

        Raises:
            LedgerError: the other store is not empty, or this ledger has moved to a third one.
            LedgerCorrupt: this ledger does not verify.
        """
        if not (report := self.verify()).ok:
            raise LedgerCorrupt(
                f"the ledger {self._log.store.place} is not what it must be, and is not moved: {report.problems[0]}"
            )
        other = to if isinstance(to, Ledger) else Ledger.open(to)
        transfer(self._log, other._log.store, by=by, reason=reason)
        if not (report := other.verify(self._left())).ok:
            raise LedgerCorrupt(f"the copy in {other._log.store.place} does not verify: {report.problems[0]}")
        return other

    def close(self) -> None:
        """End the use of this object. Nothing is lost without it: every charge is durable when it is made."""
        self._log.store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self._log.store.place!r})"

    def _open(self, view: View, name: str, opened: Opened, secret: bytes) -> None:
        view.refuse_moved()
        names.apart("population", name, populations_of(view.names()))
        entry = view.append(name, opened)
        view.put(secret_name(name), secret.hex())
        view.put(tally_name(name), tally_text(entry.seq, meter(opened).empty))
        view.put(terms_name(name), terms_text(Terms(entry.seq)))

    def _find(self, view: View, wanted: Wanted) -> Account | None:
        """Return the account that there is, unless its terms are others; None when there is none."""
        name, curve = wanted.name, wanted.curve
        found = stored_account(self._log, view, name)
        if found is None:
            return None

        def check(what: str, has: Any, asked: Any, changes: str = "it never changes") -> None:
            if asked != has and (asked is not None or wanted.exactly):
                raise InvalidParameter(
                    f"the account {name!r} has {what} {_said(has)}, and this asks for {what} {_said(asked)}.",
                    hint=f"leave {what}= out to use the account as it is; {changes}",
                )

        if wanted.budget is not None or wanted.exactly:
            place, held = self._log.store.place, lock_of(view)
            now = Standing(view, place, name, meter(found.opened)).population.budget
            keyed = held is not None and held.public_key is not None
            check("budget", now, wanted.budget, _changes(place, name, now, wanted.budget, keyed))
        check("relation", found.relation.value, wanted.relation and wanted.relation.value)
        check("filter", found.filter, wanted.filter)
        check("per_person", found.people and found.people.budget, wanted.per_person)
        check("analysts", found.analysts.value, wanted.analysts and wanted.analysts.value)
        if curve is not None and not _is_curve_of(found.opened, curve):
            raise InvalidParameter(
                f"the account {name!r} was opened with another curve than this asks for.",
                hint="leave curve= out to use the account as it is; what it was opened with never changes",
            )
        return found

    def _left(self) -> str:
        """Return the head up to which another store has a copy of this ledger, which has moved there."""
        return read_moved(self._log.read(lambda view: view.get(MOVED)) or "")[2]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The terms with which an account is to be opened or found; None means "as it is".

    Of one that came meanwhile it means none, `exactly`: what was planned was planned for the account without it.
    """

    name: str
    budget: Budget | None
    relation: Relation | None
    filter: str | None
    curve: PrivacyLoss | None
    per_person: Budget | None
    analysts: Analysts | None
    exactly: bool = False

    @classmethod
    def read(
        cls,
        population: str,
        budget: Budget | None,
        relation: Relation | str | None,
        rule: str | None,
        curve: PrivacyLoss | None,
        per_person: Budget | None,
        analysts: Analysts | str | None,
    ) -> Wanted:
        """Return the terms as an owner says them.

        Raises:
            InvalidParameter: a word that is not known, or what is no name.
        """
        return cls(
            population_name(population),
            budget,
            None if relation is None else Relation.parse(relation),
            rule,
            curve,
            per_person,
            None if analysts is None else Analysts.parse(analysts),
        )


def _draft(wanted: Wanted) -> tuple[Wanted, Opened, bytes]:
    """Return an account to be opened: all its terms, the entry that says them, and its secret key."""
    population, budget, per_person, curve = wanted.name, wanted.budget, wanted.per_person, wanted.curve
    relation, rule = wanted.relation or Relation.ADD_REMOVE, wanted.filter or "basic"
    analysts = wanted.analysts
    if (budget is None and per_person is None) or any(b is not None and b.epsilon <= 0 for b in (budget, per_person)):
        raise InvalidParameter(
            f"a new account for {population!r} needs a budget with ε above 0.", hint="give budget=dp.Budget(epsilon=3)"
        )
    people = None
    if per_person is not None:
        if relation is not Relation.ADD_REMOVE:
            raise InvalidParameter(
                "a budget for each person holds for add-remove neighbours only.",
                hint="leave relation= out: under replacement one person's records stand for another's",
            )
        if analysts is Analysts.APART:
            raise InvalidParameter(
                "analysts cannot be kept apart where each person has a budget: whom it leaves out of one's results "
                "follows from what the others asked.",
                hint="choose one of the two",
            )
        each = open_filter(rule, per_person, curve=curve if budget is None else None)
        people = People(per_person, rule, each.capacity)
    accounting = None if budget is None else open_filter(rule, budget, curve=curve)
    secret = os.urandom(32)
    opened = Opened(
        budget,
        relation,
        rule,
        None if accounting is None else accounting.capacity,
        hashlib.sha256(secret).hexdigest(),
        people,
        analysts or Analysts.TOGETHER,
    )
    exactly = replace(wanted, relation=relation, filter=rule, analysts=opened.analysts, exactly=True)
    return exactly, opened, secret


def _is_curve_of(opened: Opened, curve: PrivacyLoss) -> bool:
    if opened.filter != "renyi-curve":
        return False
    capacity = opened.people.capacity if opened.capacity is None and opened.people is not None else opened.capacity
    return capacity is not None and capacity[:-1] == curve_of(curve)


def _said(term: Any) -> str:
    if not isinstance(term, Budget):
        return str(term)
    most = "" if term.per_query == PER_QUERY else f", at most ε = {decimal(term.per_query)} a query"
    return words(term.epsilon, term.delta) + most


def _changes(place: str, population: str, now: Budget | None, wanted: Budget | None, keyed: bool) -> str:
    """How an owner makes this the budget of an account."""
    if now is None or wanted is None:
        return "it never changes"
    change = f"change_budget(dp.{wanted!r}, by=…, reason=…{', key=…' if keyed else ''})"
    if place == MEMORY:
        return f"its owner changes it with account.{change}"
    # what the command does not say, δ or the cap on a query, stays as it is
    amount = _exactly(wanted.epsilon) + (f",{_exactly(wanted.delta)}" if wanted.delta or now.delta else "")
    command = ["discreet", "ledger", "budget", place, population, amount]
    command += [] if wanted.per_query == now.per_query else ["--per-query", _exactly(wanted.per_query)]
    return (
        f"its owner changes it with `{shlex.join(command)} --by NAME --reason WHY{' --key FILE' if keyed else ''}`, "
        f"or in Python Ledger.open(…).account({population!r}).{change}"
    )


def _exactly(x: Fraction) -> str:
    """Return a number as it is read again."""
    return shown if Fraction(shown := decimal(x)) == x else str(x)


def warnings(ledgers: Mapping[str, Ledger]) -> list[str]:
    """Return what is to be said about populations that are in more than one of these ledgers.

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
            return f"{' and '.join(older)} is an older copy of {newest[0]}: use {newest[0]}, and nothing else."
        return f"{where} are copies of one ledger: use one of them, and nothing else."
    return (
        f"{where} were one ledger and both went on: neither alone tells what {name} has spent, and the promise may be "
        "broken. Close all but one, and lower the budget of that one by what the others have charged."
    )
