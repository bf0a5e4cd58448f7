"""One population's budget, as it is spent."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

from discreet.accounting.filter import Charge, Filter, Tally, reopen_filter
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import BudgetExceeded, InternalError, InvalidParameter, LedgerCorrupt
from discreet.ledger.chain import canonical
from discreet.ledger.entry import Charged, Entry, Opened, Pinned, Released, from_row
from discreet.ledger.failures import KEEP
from discreet.ledger.log import NO_END, Log, View
from discreet.ledger.names import name
from discreet.ledger.states import read_tally, tally_name, tally_text
from discreet.privacy.guarantee import Budget, decimal
from discreet.privacy.unit import Relation


class Account:
    """The account of one population of people: what may be learned about each of them, and what has been.

    Guarantee:
        Everything that was charged here, in any order, by any number of analysts, threads and processes, each
        question chosen with all earlier answers known, together satisfies `budget` under `relation`,
        provided that each charge was made before its data was read and that its events dominate what was
        released for it. The tally only
        grows: no call, crash, clock or restart lowers it (docs/proofs/ledger.md).

    Attributes:
        population: whose account it is.
        budget: the promise, fixed at opening.
        relation: which populations are neighbours, fixed at opening.
        filter: the name of the filter that adds charges up, fixed at opening.
        secret: 32 random bytes that key the choice of a unit's groups. Never shown.
    """

    __slots__ = ("_capacity", "_filter", "_log", "budget", "filter", "population", "relation", "secret")

    population: str
    budget: Budget
    relation: Relation
    filter: str
    secret: bytes

    def __init__(self, log: Log, population: str, opened: Opened, secret: bytes) -> None:
        self._log = log
        self._filter: Filter = reopen_filter(opened.filter, opened.budget, opened.capacity)
        self._capacity = opened.capacity
        self.population = population
        self.budget = opened.budget
        self.relation = opened.relation
        self.filter = opened.filter
        self.secret = secret

    def __repr__(self) -> str:
        return f"Account({self.population!r}, {self.budget!r}, {self.relation.value}, {self.filter})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "an account is not pickled: it holds a secret. Open the ledger again where it is needed."
        )

    @property
    def spent(self) -> PrivacyLoss:
        """What all charges together may have revealed about one unit."""
        return self._filter.loss(self._log.read(self._tally))

    @property
    def remaining(self) -> Budget:
        """What can still be charged."""
        return self._filter.remaining(self._log.read(self._tally))

    def charge(self, question: str, charge: Charge, *, note: dict[str, Any]) -> Entry:
        """Charge a question before its data is read, and return the entry, which is durable.

        Args:
            question: the identity of the question.
            charge: its events and its (ε, δ).
            note: public facts for the history.

        Raises:
            BudgetExceeded: the account cannot pay; nothing was charged.
            InvalidParameter: more than the owner allows for one query, or a cost that holds for other neighbours
                than the account's; nothing was charged.
            LedgerError: the ledger could not be written. Nothing may be released then, charged or not.
        """
        name("question", question)
        if charge.guarantee.epsilon > self.budget.per_query:
            asked, most = _up(charge.guarantee.epsilon), decimal(self.budget.per_query)
            raise InvalidParameter(
                f"one query may ask ε = {most} at most, and this one asks ε = {asked}.",
                hint="ask for less; the owner sets the cap with Budget(per_query=…) at opening",
            )
        if charge.events.relation not in (None, self.relation):
            raise InvalidParameter(
                f"{self.population!r} is an account for {self.relation.value} neighbours, and this charge holds "
                "for others only.",
                hint="derive the cost for the account's neighbours, or open another account",
            )
        cost = self._filter.cost(charge)

        def add(view: View) -> Entry:
            spent = self._tally(view)
            total = self._filter.add(spent, cost)
            if not (self._filter.affords(spent, cost) and within(total, self._capacity)):
                raise self._refusal(charge, spent)
            if len(total) != len(spent) or any(
                after < before for after, before in zip(total, spent, strict=True)
            ):
                raise InternalError("a charge would have lowered the tally; nothing was charged.")
            entry = view.append(self.population, Charged(question, charge, total, note))
            view.put(tally_name(self.population), tally_text(entry.seq, total))
            return entry

        return self._log.write(add)

    def store(self, question: str, charge_seq: int, release: dict[str, Any]) -> None:
        """Keep a finished release, so that the same question is answered with it for free.

        Each charge pays for one release. Storing the same one again does nothing; another one is refused.

        Raises:
            InvalidParameter: no such charge of this question, or it has another release.
        """

        def add(view: View) -> None:
            paid = view.numbered(charge_seq)
            if paid is None or (paid.population, paid.kind, paid.question) != (
                self.population,
                Charged.kind,
                question,
            ):
                raise InvalidParameter(f"entry {charge_seq} is not a charge for this question.")
            if stored := self._release_of(view, question, charge_seq):
                if canonical(stored) != canonical(release):
                    raise InvalidParameter(f"the charge {charge_seq} has another release already.")
                return
            view.append(self.population, Released(question, charge_seq, release))

        self._log.write(add)

    def find(self, question: str) -> dict[str, Any] | None:
        """The last stored release of a question; None when there is none."""
        found = self._log.read(lambda view: view.latest(self.population, Released.kind, question))
        return found.content.release if found is not None and isinstance(found.content, Released) else None

    def pin(self, table: str, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema that is pinned for a table: the one given now if there was none."""
        name("table", table)

        def add(view: View) -> Entry:
            found = view.latest(self.population, Pinned.kind, table)
            return found or view.append(self.population, Pinned(table, schema))

        entry = self._log.write(add)
        assert isinstance(entry.content, Pinned)
        return entry.content.schema

    def pinned(self, table: str) -> dict[str, Any] | None:
        """The schema that is pinned for a table; None when there is none."""
        found = self._log.read(lambda view: view.latest(self.population, Pinned.kind, table))
        return found.content.schema if found is not None and isinstance(found.content, Pinned) else None

    def history(self) -> list[Entry]:
        """Everything that happened to this account, oldest first; public facts only."""
        rows = self._log.read(lambda view: view.rows(after=0, limit=NO_END, population=self.population))
        return [from_row(row) for row in rows]

    def _tally(self, view: View) -> Tally:
        """The tally, which is written twice, and must be the same in both places."""
        text = view.get(tally_name(self.population))
        try:
            seq, spent = read_tally(text or "")
        except ValueError:
            raise self._corrupt() from None
        entry = view.numbered(seq)
        if entry is None or entry.population != self.population:
            raise self._corrupt()
        match entry.content:
            case Charged():
                same = entry.content.spent == spent
            case Opened():
                same = spent == self._filter.empty
            case _:
                same = False
        if not same:
            raise self._corrupt()
        return spent

    def _release_of(self, view: View, question: str, charge_seq: int) -> dict[str, Any] | None:
        """The release that this charge paid for, if it has one; it can only stand after the charge."""
        found = view.latest(self.population, Released.kind, question)
        while found is not None and found.seq > charge_seq:
            assert isinstance(found.content, Released)
            if found.content.charge == charge_seq:
                return found.content.release
            found = view.latest(self.population, Released.kind, question, before=found.seq)
        return None

    def _refusal(self, charge: Charge, spent: Tally) -> BudgetExceeded:
        asked, left = charge.guarantee, self._filter.remaining(spent)
        asks = _amounts(asked.epsilon, asked.delta, _up, always=bool(left.delta))
        has = _amounts(left.epsilon, left.delta, _down, always=bool(asked.delta))
        whole = decimal(self.budget.epsilon) + (f" and {decimal(self.budget.delta)}" if "δ" in has else "")
        # The other filters count in units of their own, in which an ε that is left may be too much.
        rule = "" if self.filter == "basic" else f", counted by the {self.filter} filter"
        return BudgetExceeded(
            f"{self.population!r}: the question asks {asks}, and {has} is left of {whole}{rule}.",
            asked=asks,
            left=has,
            hint="ask for less, or ask again what has been answered, which is free; a budget is for life",
        )

    def _corrupt(self) -> LedgerCorrupt:
        return LedgerCorrupt(
            f"the ledger {self._log.store.place} contradicts itself on what {self.population!r} has spent.",
            hint=KEEP,
        )


def within(spent: Tally, capacity: Tally) -> bool:
    """Whether no sum is above its capacity."""
    return all(x <= most for x, most in zip(spent, capacity, strict=True))


def _amounts(epsilon: Fraction, delta: Fraction, words: Any, *, always: bool) -> str:
    return f"ε = {words(epsilon)}" + (f", δ = {words(delta)}" if delta or always else "")


def _up(x: Fraction) -> str:
    return _rounded(x, ROUND_CEILING)


def _down(x: Fraction) -> str:
    return _rounded(x, ROUND_FLOOR)


def _rounded(x: Fraction, direction: str) -> str:
    """Six digits: what is asked is rounded up and what is left down, so that a refusal never looks wrong."""
    digits = Context(prec=6, rounding=direction).divide(Decimal(x.numerator), Decimal(x.denominator))
    return f"{float(digits):.6g}"
