"""The front of the ledger: open a file, open accounts, look at its head, verify it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from discreet.accounting.filter import open_filter
from discreet.accounting.loss import PrivacyLoss
from discreet.accounting.renyi_filter import curve_of
from discreet.errors import InvalidParameter, LedgerCorrupt, LedgerError
from discreet.ledger.account import Account
from discreet.ledger.entry import Opened
from discreet.ledger.log import NO_END, Log, View
from discreet.ledger.memory import MemoryStore
from discreet.ledger.names import population as population_name
from discreet.ledger.sqlite import SQLiteStore
from discreet.ledger.states import read_secret, secret_name, tally_name, tally_text
from discreet.ledger.store import Store
from discreet.ledger.verify import Report, verify
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import Relation

MEMORY = ":memory:"
"""The path that asks for a ledger that ends with the process."""


class Ledger:
    """A durable record of accounts, safe among threads, processes and forked children.

    >>> with Ledger.open(":memory:") as ledger:
    ...     account = ledger.open_account("customers", Budget(3))
    ...     account.remaining
    Budget(epsilon=3, delta=0)
    """

    def __init__(self, store: Store) -> None:
        self._log = Log(store)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """The ledger at a path, made (for its owner only) if nothing is there; ":memory:" has no file.

        Raises:
            LedgerError: it cannot be read and written, or is of a newer format.
            LedgerCorrupt: the file is no ledger, or is damaged.
        """
        if path == MEMORY:
            return cls(MemoryStore())
        where = _place(path)
        if not where.exists():
            SQLiteStore.create(where)
        store = SQLiteStore(where)
        store.rehearse()  # a ledger that cannot be written is refused now and not at the first charge
        ledger = cls(store)
        ledger._log.read(lambda view: None)
        return ledger

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> Ledger:
        """The ledger at a path, which must exist; enough permission to read it is enough to look at it.

        Raises:
            LedgerError: it is not there, cannot be read, or is of a newer format.
            LedgerCorrupt: the file is no ledger, or is damaged.
        """
        store = SQLiteStore(_place(path))
        store.read(lambda transaction: None)
        return cls(store)

    def populations(self) -> list[str]:
        """The populations that have an account, in the order of their opening."""
        rows = self._log.read(lambda view: view.rows(after=0, limit=NO_END, kind=Opened.kind))
        return [row.population for row in rows]

    def account(self, population: str) -> Account | None:
        """The account of a population; None when it has none."""
        known = population_name(population)
        return self._log.read(lambda view: self._account(view, known))

    def open_account(
        self,
        population: str,
        budget: Budget | None,
        *,
        relation: Relation | str | None = None,
        filter: str | None = None,  # noqa: A002  # the field's word, and the front door's
        curve: PrivacyLoss | None = None,
    ) -> Account:
        """The account of a population, opened now if it has none.

        An account keeps for life what it was opened with; None means "as it is", and for a new account
        add-remove and "basic". Of any number of processes that open it at once, one does and the others
        find it.

        Args:
            population: whose account it is.
            budget: the promise, for life.
            relation: which populations are neighbours.
            filter: the rule by which charges add up.
            curve: for filter='renyi-curve', the loss of the work that all charges together may not exceed.

        Raises:
            InvalidParameter: a new account without a budget, or terms other than those of the existing
                account.
        """
        name = population_name(population)
        wanted = None if relation is None else Relation.parse(relation)

        def find_or_open(view: View) -> Account:
            account = self._account(view, name)
            if account is None:
                return self._open(view, name, budget, wanted or Relation.ADD_REMOVE, filter or "basic", curve)
            _same(name, "budget", account.budget, budget)
            _same(name, "relation", account.relation.value, None if wanted is None else wanted.value)
            _same(name, "filter", account.filter, filter)
            if curve is not None and not _is_curve_of(view, name, curve):
                raise InvalidParameter(
                    f"the account {name!r} was opened with another curve than this asks for.",
                    hint="leave curve= out to use the account as it is; what it was opened with holds for life",
                )
            return account

        return self._log.write(find_or_open)

    @property
    def head(self) -> str:
        """The hash of the last entry. Published, it commits to everything before it: see `verify(head)`."""
        return self._log.read(lambda view: view.head[1])

    def verify(self, head: str | None = None) -> Report:
        """Whether the whole ledger is what it must be, derived anew from its entries.

        Args:
            head: a head that was published earlier. A ledger that does not contain it is an older copy or
                another one.
        """
        return verify(self._log.store, head)

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

    def _account(self, view: View, population: str) -> Account | None:
        opened = view.opened(population)
        if opened is None:
            return None
        secret = read_secret(view.get(secret_name(population)), opened.secret_sha256)
        if secret is None:
            raise LedgerCorrupt(
                f"the ledger {self._log.store.place} has lost the secret key of {population!r}.",
                hint="go back to a good copy",
            )
        return Account(self._log, population, opened, secret)

    def _open(
        self,
        view: View,
        population: str,
        budget: Budget | None,
        relation: Relation,
        rule: str,
        curve: PrivacyLoss | None,
    ) -> Account:
        if budget is None or budget.epsilon <= 0:
            raise InvalidParameter(
                f"a new account for {population!r} needs a budget with ε above 0.",
                hint="give budget=dp.Budget(epsilon=3); on the command line --budget 3",
            )
        accounting = open_filter(rule, budget, curve=curve)
        secret = os.urandom(32)
        opened = Opened(budget, relation, rule, accounting.capacity, hashlib.sha256(secret).hexdigest())
        entry = view.append(population, opened)
        view.put(secret_name(population), secret.hex())
        view.put(tally_name(population), tally_text(entry.seq, accounting.empty))
        return Account(self._log, population, opened, secret)


def _is_curve_of(view: View, population: str, curve: PrivacyLoss) -> bool:
    opened = view.opened(population)
    return opened is not None and opened.filter == "renyi-curve" and opened.capacity[:-1] == curve_of(curve)


def _same(population: str, what: str, has: Any, wanted: Any) -> None:
    if wanted is not None and wanted != has:
        raise InvalidParameter(
            f"the account {population!r} was opened with {what} {has}, and this asks for {what} {wanted}.",
            hint=f"leave {what}= out to use the account as it is; what it was opened with holds for life",
        )


def _place(path: str | os.PathLike[str]) -> Path:
    """The absolute path, symbolic links followed, so that neither a new directory nor a new link moves it."""
    text = os.fspath(path)
    if not text or type(text) is not str or "\0" in text:
        raise LedgerError("a ledger needs the path of a file.", hint='give ledger="customers.ledger"')
    if text == MEMORY:
        raise LedgerError("the ledger :memory: ends with its process: there is none to look at.")
    if text.startswith(("postgresql://", "postgres://")):
        raise LedgerError(
            "ledgers in PostgreSQL are not supported by this version.",
            hint="give the path of a file on a local disk",
        )
    try:
        where = Path(os.path.realpath(text))
        if where.is_dir():
            raise LedgerError(f"the ledger {text} is a folder.", hint="name a file in it")
    except OSError as error:
        raise LedgerError(f"the ledger {text} cannot be reached.", hint="look at the path") from error
    return where
