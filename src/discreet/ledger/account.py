"""One population's budget, as it is spent, by everybody or by one analyst."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from discreet.accounting.filter import Charge, Filter, Tally
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import DiscreetError, InternalError, InvalidParameter, LedgerCorrupt, LedgerError
from discreet.ledger import analysts, fast_charge, owner
from discreet.ledger.account_state import (
    LONG,
    Limit,
    Standing,
    Status,
    above_each_query,
    above_one_query,
    meter,
    refused,
    shut,
    too_long,
)
from discreet.ledger.analysts import Standings
from discreet.ledger.chain import canonical
from discreet.ledger.entry import (
    TOGETHER,
    Analysts,
    Begun,
    Charged,
    Entry,
    Opened,
    People,
    PeopleCharged,
    Pinned,
    Released,
    from_row,
    release_in,
)
from discreet.ledger.forms import read_secret, secret_name, tally_text
from discreet.ledger.log import NO_END, Log, Step, View
from discreet.ledger.names import name, person
from discreet.ledger.owner import Key, refuse_new_analyst
from discreet.ledger.person_budgets import PersonBudgets
from discreet.privacy.guarantee import Budget, words
from discreet.privacy.unit import Relation

T = TypeVar("T")


@dataclass(slots=True, eq=False, repr=False)
class Account:
    """The account of one population of people: what may be learned about each of them, and what has been.

    Guarantee:
        Everything that was charged here, in any order, by any number of analysts, threads and processes, each
        query chosen with all earlier results known, together satisfies `budget` under `relation`,
        provided that each charge was made before its data was read and that its events dominate what was
        released for it. The tally only
        grows: no call, crash, clock or restart lowers it (docs/proofs/ledger.md). Where analysts are "apart",
        what one of them sees through `seen_by` satisfies that analyst's own cap, as long as they do not talk
        (docs/proofs/analysts.md).

    An account of a session may not be in the ledger yet, or lack tables of the session: its first accepted charge
    writes them, in its own transaction, if they still fit what is there then (`joint_charge.foresee`). Until then it is
    read as if they were there.

    Attributes:
        population: whose account it is.
        relation: which populations are neighbours, fixed at opening.
        filter: the name of the filter that adds charges up, fixed at opening.
        people: the promise to each person by itself, fixed at opening; None without one.
        analysts: whether a promise is made about analysts apart, fixed at opening.
        analyst: who asks and looks; None for the owner, or where there are no analysts.
        secret: 32 random bytes that key the choice of a unit's groups. Never shown.
        opened: the entry that opens it.
        pending: the steps that the next accepted charge takes before itself, in its transaction.
    """

    _log: Log
    population: str
    opened: Opened
    secret: bytes
    analyst: str | None = None
    pending: tuple[Step, ...] = ()
    relation: Relation = field(init=False)
    filter: str = field(init=False)
    people: People | None = field(init=False)
    analysts: Analysts = field(init=False)
    _units: Filter = field(init=False)

    def __post_init__(self) -> None:
        opened = self.opened
        self.relation, self.filter, self.people = opened.relation, opened.filter, opened.people
        self.analysts, self._units = opened.analysts, meter(opened)

    def __repr__(self) -> str:
        who = "" if self.analyst is None else f", analyst={self.analyst!r}"
        try:
            budget = repr(self.budget)
        except LedgerError:
            budget = "a budget that cannot be read"
        return f"Account({self.population!r}, {budget}, {self.relation.value}, {self.filter}{who})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("an account is not pickled: it holds a secret. Open the ledger again where it is needed.")

    def seen_by(self, analyst: str) -> Account:
        """Return the account as one analyst asks it and sees it.

        Raises:
            InvalidParameter: the owner has not added this analyst.
        """
        if self.analyst is not None:
            raise InvalidParameter(f"this is the account as {self.analyst!r} sees it; its owner's has every analyst.")
        who = analysts.known(self._read(lambda now: now.terms.analysts), self.population, analyst)
        return self._as(who)

    def asked_by(self, analyst: str | None) -> Account:
        """Return the account for queries: as this analyst sees it, or as it is where there are none.

        Raises:
            InvalidParameter: an unknown analyst, or nobody where the account has analysts.
        """
        if analyst is not None:
            return self.seen_by(analyst)
        capped = self._read(lambda now: now.terms.analysts)
        if self._is_unnamed(capped):
            raise analysts.unnamed(self.population)
        return self

    @property
    def log(self) -> Log:
        """The log that it is in, for what concerns several accounts at once."""
        return self._log

    @property
    def alone(self) -> bool:
        """Whether nothing that others ask may show here: the view of an analyst who is kept apart."""
        return self.analyst is not None and self.analysts is Analysts.APART

    @property
    def budget(self) -> Budget:
        """The promise: the analyst's cap, or the population's budget, or where it has none that of each person."""
        budget = self._read(lambda now: self._limits(now)[0].budget)
        if budget is None:
            assert self.people is not None
            return self.people.budget
        return budget

    @property
    def person_budgets(self) -> PersonBudgets | None:
        """Each person's own budget, as queries are settled by it; None where there is none."""
        if self.people is None:
            return None
        return PersonBudgets(self._log, self.population, self.people, self.secret)

    @property
    def limited(self) -> bool:
        """Whether the population as a whole has a budget, and not only each person."""
        return self._read(lambda now: now.population.capacity is not None)

    @property
    def status(self) -> Status:
        """Whether charges are taken."""
        return self._read(lambda now: now.status)

    @property
    def spent(self) -> PrivacyLoss:
        """What all charges together, or those of the analyst, may have revealed about one unit."""
        mine = self._read(lambda now: self._limits(now)[0])
        return mine.filter.loss(mine.spent)

    @property
    def remaining(self) -> Budget:
        """What can still be charged: the least of every limit. A person's own remainder is told to nobody."""
        return analysts.least(self._read(self._seen))

    def limits(self) -> list[Limit]:
        """Every limit that a charge must pass, the narrowest first; an analyst kept apart sees their own only."""
        return self._read(self._seen)

    def refusal(self, charge: Charge) -> DiscreetError | None:
        """How a charge would be refused now; None when it would be taken. Nothing is charged.

        Raises:
            InvalidParameter: a charge that this account can never take.
        """
        return self.considered(charge, lambda refusal, limits, cost, limited: refusal)

    def considered(self, charge: Charge, work: Callable[[DiscreetError | None, list[Limit], Tally, bool], T]) -> T:
        """As `refusal`: what the work makes of it, of the limits that may be told, of the cost, and of whether the
        population as a whole has a budget (`limited`), at one moment.
        """
        units, own = self._units, self._cost(charge)

        def look(view: View) -> T:
            account = self.brought(view)
            cost = own if account._units is units else account._cost(charge)
            now = account._now(view)
            limits = account._limits(now)
            refusal, told = account._refusal(now, limits, charge, cost), limits[: 1 if self.alone else None]
            return work(refusal, told, cost, now.population.capacity is not None)

        return self._look(look)

    def after(self, charge: Charge) -> Budget | None:
        """Return what would be left after this charge; None when it would be refused. Otherwise as `refusal`."""
        return self.considered(charge, lambda refusal, limits, cost, _: analysts.left_after(refusal, limits, cost))

    def times(self, charge: Charge) -> int | None:
        """How many more charges like this one fit; None when any number does."""
        return analysts.times(self._read(self._seen), self._cost(charge))

    def charge(self, question: str, charge: Charge, *, note: dict[str, Any]) -> Entry:
        """Charge a query before its data is read, and return the entry, which is durable.

        The population, the analyst's group and the analyst are charged, or none of them.

        Args:
            question: the identity of the query.
            charge: its events and its (ε, δ).
            note: public facts for the history.

        Raises:
            BudgetExceeded: the account cannot pay, is frozen or closed; nothing was charged.
            InvalidParameter: more than the owner allows for one query, or a cost that holds for other neighbours
                than the account's, or an account with analysts and nobody named; nothing was charged.
            LedgerError: the ledger could not be written. Nothing may be released then, charged or not.
        """
        if TOGETHER in note:
            raise InvalidParameter(f"a note's {TOGETHER!r} is written by charges of several accounts at once.")
        if self.analyst is None and not self.pending and self._log.adds:
            return fast_charge.charge(self, question, charge, note)
        entry = self._log.write(self.charging(question, charge, note))
        self.arrive()
        return entry

    def charging(self, question: str, charge: Charge, note: dict[str, Any]) -> Callable[[View], Entry]:
        """As `charge`, as a step of a transaction, which several accounts may share (`joint_charge.py`)."""
        name("question", question)
        units, own = self._units, self._cost(charge)

        def add(view: View) -> Entry:
            account = self.brought(view)
            # another thread's charge may have brought an account with other units meanwhile
            cost = own if account._units is units else account._cost(charge)
            now = account._now(view)
            limits = account._limits(now)
            if (refusal := account._refusal(now, limits, charge, cost)) is not None:
                raise refusal
            totals = [limit.filter.add(limit.spent, cost) for limit in limits]
            for limit, total in zip(limits, totals, strict=True):
                if any(after < before for after, before in zip(total, limit.spent, strict=True)):
                    raise InternalError("a charge would have lowered the tally; nothing was charged.")
            entry = view.append(self.population, Charged(question, charge, totals[-1], note, self.analyst))
            for limit, total in zip(limits, totals, strict=True):
                view.put(limit.state, tally_text(entry.seq, total))
            return entry

        return add

    def store(self, question: str, charge_seq: int, release: dict[str, Any]) -> None:
        """Keep a finished release, so that the same query is answered with it for free.

        Each charge pays for one release. Storing the same one again does nothing; another one is refused.

        Raises:
            InvalidParameter: no such charge of this query, or it has another release.
            LedgerError: the ledger has moved, or the release's people were not charged.
        """
        self._log.write(self.storing(question, charge_seq, release))

    def storing(self, question: str, charge_seq: int, release: dict[str, Any]) -> Callable[[View], None]:
        """As `store`, as a step of a transaction, which several accounts may share."""

        def add(view: View) -> None:
            view.refuse_moved()
            paid = view.numbered(charge_seq)
            if paid is None or (paid.population, paid.kind, paid.question, paid.analyst) != (
                self.population,
                Charged.kind,
                question,
                self.analyst,
            ):
                raise InvalidParameter(f"entry {charge_seq} is not a charge for this query.")
            if stored := self._release_of(view, question, charge_seq):
                if canonical(stored) != canonical(release):
                    raise InvalidParameter(f"the charge {charge_seq} has another release already.")
                return
            if self.people and view.latest(self.population, PeopleCharged.kind, str(charge_seq)) is None:
                raise InternalError("a release was made before its people were charged; it is not handed out.")
            view.append(self.population, Released(question, charge_seq, release), paid=paid)

        return add

    def find(self, question: str) -> dict[str, Any] | None:
        """Return the last stored release of a query, the analyst's own where kept apart; None if there is none."""
        found = self.found(question)
        return None if found is None else release_in(found)

    def found(self, question: str) -> Entry | None:
        """As `find`, the entry, whose time is that of the charge which paid for it."""
        return self._look(self.finding(question))

    def finding(self, question: str) -> Callable[[View], Entry | None]:
        """As `found`, as a step of a transaction."""

        def find(view: View) -> Entry | None:
            self.brought(view)
            found = view.latest(self.population, Released.kind, question)
            while found is not None and isinstance(found.content, Released):
                if not self.alone or self._is_mine(view, found.content.charge):
                    return found
                found = view.latest(self.population, Released.kind, question, before=found.seq)
            return None

        return find

    def broken_off(self, question: str) -> tuple[Entry, int] | None:
        """Return the analyst's last charge of a query where it has no release, and how many draws of it were begun."""

        def find(view: View) -> tuple[Entry, int] | None:
            self.brought(view)
            paid = view.latest(self.population, Charged.kind, question)
            while paid is not None and paid.analyst != self.analyst:
                paid = view.latest(self.population, Charged.kind, question, before=paid.seq)
            if paid is None or self._release_of(view, question, paid.seq) is not None:
                return None
            return paid, _begun(view, self.population, paid.seq)

        return self._look(find)

    def begin(self, charge_seq: int, before: int, draws: int) -> None:
        """Note, durably, that draws of a charged run may be made from now on, up to so many in all.

        Raises:
            InvalidParameter: not `before` draws were begun: another process goes on with this run.
            BudgetExceeded: the account is frozen or closed since.
            LedgerError: the ledger could not be written. No draw may be made then.
        """

        def add(view: View) -> None:
            now, paid = self._now(view), view.numbered(charge_seq)
            if now.status is not Status.OPEN and paid is not None and isinstance(paid.content, Charged):
                seen = self._limits(now)[: 1 if self.alone else None]
                raise shut(self.population, now.status, paid.content.charge, analysts.least(seen))
            if _begun(view, self.population, charge_seq) != before:
                raise InvalidParameter(
                    "Another process goes on with this run. Its charge stands.", hint="let one of the two go on"
                )
            view.append(self.population, Begun(charge_seq, draws), paid=paid)

        self._log.write(add)

    def pin(self, table: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema that is pinned for a table: the one given now if there was none. Otherwise as `pins`."""
        self._refuse_apart("which tables the others have asked")
        self._refuse_unopened()
        return self._log.write(self.pinning(table, schema))

    def pinning(self, table: str, schema: dict[str, Any]) -> Callable[[View], dict[str, Any]]:
        """As `pin`, as a step of a transaction, which several accounts may share."""
        name("table", table)

        def add(view: View) -> dict[str, Any]:
            found = view.latest(self.population, Pinned.kind, table)
            if found is None:
                view.refuse_moved()
                found = view.append(self.population, Pinned(table, schema))
            assert isinstance(found.content, Pinned)
            return found.content.schema

        return add

    def pinned(self, table: str) -> dict[str, Any] | None:
        """Return the schema that is pinned for a table; None when there is none. Otherwise as `pins`."""
        return self.pins().get(table)

    def pins(self) -> dict[str, dict[str, Any]]:
        """Return the schemas of all tables that are pinned here, by the tables' names.

        Raises:
            InvalidParameter: it is asked by an analyst who is kept apart: others' charges pin tables.
        """
        self._refuse_apart("which tables the others have asked")
        contents = (entry.content for entry in self._entries(Pinned.kind))
        return {pin.table: pin.schema for pin in contents if isinstance(pin, Pinned)}

    def history(self) -> list[Entry]:
        """Everything that happened to this account, oldest first; public facts only.

        An analyst who is kept apart sees the own charges and releases and the owner's entries, numbered anew, and in
        `spent` the own sum: neither a number nor a sum tells what others did.
        """
        entries = self._entries()
        if self.analyst is None or not self.alone:
            return entries
        return analysts.own_history(entries, self.analyst, self._units)

    def change_budget(
        self, budget: Budget, *, by: str, reason: str, curve: PrivacyLoss | None = None, key: Key | None = None
    ) -> Entry:
        """Give the population another budget, for the rest of its life: an owner's decision, kept in the history.

        Args:
            budget: the new promise, for everything from the opening on.
            by: who signs it off.
            reason: why, in public words.
            curve: for the renyi-curve filter, another curve; without one the account's is scaled.
            key: the file of the owner's private key, where the ledger is locked with one.

        Raises:
            InvalidParameter: below what is spent, or reserved; or a population without a budget; or another key.
            LedgerError: the account is closed or the ledger has moved.
        """
        return self._write(lambda its: owner.change_budget(its, budget, by, reason, curve), key)

    def freeze(self, *, by: str, reason: str) -> Entry:
        """Take no charge until `thaw`; stored releases are still handed out."""
        return self._write(lambda its: owner.freeze(its, by, reason))

    def thaw(self, *, by: str, reason: str, key: Key | None = None) -> Entry:
        """End a freeze. The key is as in `change_budget`."""
        return self._write(lambda its: owner.thaw(its, by, reason), key)

    def close(self, *, by: str, reason: str) -> Entry:
        """Never take a charge again; stored releases are still handed out. It cannot be undone."""
        return self._write(lambda its: owner.close(its, by, reason))

    def cap_analyst(
        self, analyst: str, cap: Budget, *, group: str | None = None, by: str, reason: str, key: Key | None = None
    ) -> Entry:
        """Add an analyst, or change the cap of one; from the first on every charge must name its analyst.

        Args:
            analyst: a name, for ever.
            cap: what this analyst may spend of the population's budget, with a `per_query` of its own.
            group: whose cap counts too; fixed when the analyst is added.
            by: who signs it off.
            reason: why, in public words.
            key: as in `change_budget`.

        Raises:
            InvalidParameter: below what the analyst has spent; an unknown or another group; another key; where analysts
                are apart, a lowered cap or more than is unreserved.
        """
        return self._write(lambda its: analysts.cap_analyst(its, analyst, cap, group, by, reason), key)

    def with_analyst(self, analyst: str, cap: Budget, *, by: str, reason: str) -> Account:
        """Return the account with this analyst's cap; the next accepted charge writes the cap where it is not there.

        Raises:
            InvalidParameter: the ledger has another cap, or only an owner's key adds one.
        """
        who = person("analyst", analyst)

        def step(view: View) -> None:
            terms = (self.population, self.opened, self._units, self._log.store.place, None)
            its = owner.Owned(view, self._now(view), *terms)
            if its.now.analyst(who) is None:
                refuse_new_analyst(view, self._log.store.place, self.population, who, cap)
                analysts.cap_analyst(its, who, cap, None, by, reason)

        held = self._read(lambda now: now.analyst(who))
        if held is None:
            return Account(self._log, self.population, self.opened, self.secret, None, (*self.pending, step))
        if (now := held.content.budget) != cap:
            raise InvalidParameter(
                f"the cap of {who!r} is {words(now.epsilon, now.delta)} in the ledger, and this asks for "
                f"{words(cap.epsilon, cap.delta)}.",
                hint="make them the same: its owner changes a cap with `discreet ledger analyst`",
            )
        return self

    def cap_group(self, group: str, cap: Budget, *, by: str, reason: str, key: Key | None = None) -> Entry:
        """Add a group of analysts, or change its cap: what they may spend together. See `cap_analyst`."""
        return self._write(lambda its: analysts.cap_group(its, group, cap, by, reason), key)

    def standings(self) -> list[Standings]:
        """Every analyst and group with cap and spending, groups first: for the owner, and where all see all.

        Raises:
            InvalidParameter: it is asked by an analyst who is kept apart.
        """
        self._refuse_apart("what the others spend")
        return self._read(analysts.standings)

    def promises(self) -> list[str]:
        """Return what is promised, in sentences: to each unit by everything together, and by each analyst apart."""
        return self._read(lambda now: analysts.promises(self.opened, now, self.population, self.analyst))

    def brought(self, view: View) -> Account:
        """Return the account as it is in a view that it is written to first, where it is not there yet."""
        if not self.pending:
            return self
        for step in self.pending:
            step(view)
        found = stored_account(self._log, view, self.population)
        assert found is not None
        return found if self.analyst is None else found._as(self.analyst)

    def arrive(self) -> None:
        """Take over what the first charge, which is durable, has written or found."""
        if not self.pending:
            return
        found = self._log.read(lambda view: stored_account(self._log, view, self.population))
        assert found is not None
        self.opened, self._units, self.secret = found.opened, found._units, found.secret
        self.people = found.people
        self.pending = ()

    def _entries(self, kind: str | None = None) -> list[Entry]:
        rows = self._log.read(lambda view: view.rows(after=0, limit=NO_END, population=self.population, kind=kind))
        return [from_row(row) for row in rows]

    def _as(self, analyst: str) -> Account:
        return Account(self._log, self.population, self.opened, self.secret, analyst, self.pending)

    def _cost(self, charge: Charge) -> Tally:
        cost = self._units.cost(charge)
        if charge.events.relation not in (None, self.relation):
            raise InvalidParameter(
                f"{self.population!r} is an account for {self.relation.value} neighbours, and this charge holds "
                "for others only.",
                hint="derive the cost for the account's neighbours, or open another account",
            )
        return cost

    def _refusal(self, now: Standing, limits: Sequence[Limit], charge: Charge, cost: Tally) -> DiscreetError | None:
        """Why a charge cannot be taken; None when it can. Where analysts are apart, it follows from the own charges."""
        if self._is_unnamed(now.terms.analysts):
            return analysts.unnamed(self.population)
        seen = limits[:1] if self.alone else limits
        if (status := now.status) is not Status.OPEN:
            return shut(self.population, status, charge, analysts.least(seen))
        if (above := next((limit for limit in limits if not limit.allows(charge)), None)) is not None:
            return above_one_query(charge, above)
        asked = charge.guarantee.epsilon, charge.guarantee.delta
        if any(max(x.numerator, x.denominator) >= LONG for x in asked):
            return too_long()
        if self.people is not None and charge.guarantee.epsilon > self.people.budget.per_query:
            return above_each_query(charge, self.people.budget)
        for limit in limits:
            if limit.affords(cost, stored=self.alone):
                continue
            if self.alone and limit is not limits[0]:
                return InternalError("caps that are reserved were not there; nothing was charged.")
            return refused(self.population, limit, charge, seen)
        return None

    def _is_unnamed(self, capped: Collection[str]) -> bool:
        """Return whether a query needs an analyst and has none: a cap that leaving out a name gets round is none."""
        return self.analyst is None and bool(capped or self.analysts is Analysts.APART)

    def _limits(self, now: Standing) -> list[Limit]:
        try:
            return now.limits(self.analyst)
        except KeyError:
            raise analysts.unknown(self.population, str(self.analyst)) from None

    def _seen(self, now: Standing) -> list[Limit]:
        return self._limits(now)[:1] if self.alone else self._limits(now)

    def _is_mine(self, view: View, charge_seq: int) -> bool:
        paid = view.numbered(charge_seq)
        return paid is not None and paid.analyst == self.analyst

    def _now(self, view: View) -> Standing:
        view.refuse_moved()
        return self._standing(view)

    def _standing(self, view: View) -> Standing:
        return Standing(view, self._log.store.place, self.population, self._units)

    def _look(self, work: Callable[[View], T]) -> T:
        """Return what the work makes of one moment, in which it may bring the account to the view."""
        return self._log.imagine(work) if self.pending else self._log.read(work)

    def _read(self, work: Callable[[Standing], T]) -> T:
        return self._look(lambda view: work(self.brought(view)._standing(view)))

    def _write(self, work: Callable[[owner.Owned], Entry], key: Key | None = None) -> Entry:
        if self.analyst is not None:
            raise InvalidParameter("only the owner changes an account, not an analyst.")
        self._refuse_unopened()
        terms = (self.population, self.opened, self._units, self._log.store.place, key)
        return self._log.write(lambda view: work(owner.Owned(view, self._now(view), *terms)))

    def _refuse_apart(self, what: str) -> None:
        if self.alone:
            raise InvalidParameter(f"an analyst who is kept apart does not see {what}.")

    def _refuse_unopened(self) -> None:
        if self.pending:
            raise InvalidParameter(
                f"the account of {self.population!r} is not open yet.",
                hint="Ledger.open_account(…) opens it, as does the first accepted charge",
            )

    def _release_of(self, view: View, question: str, charge_seq: int) -> dict[str, Any] | None:
        """Return the release that this charge paid for, if it has one; it can only stand after the charge."""
        found = view.latest(self.population, Released.kind, question)
        while found is not None and found.seq > charge_seq:
            assert isinstance(found.content, Released)
            if found.content.charge == charge_seq:
                return found.content.release
            found = view.latest(self.population, Released.kind, question, before=found.seq)
        return None


def _begun(view: View, population: str, charge_seq: int) -> int:
    """Return how many draws of a charge were begun."""
    found = view.latest(population, Begun.kind, str(charge_seq))
    return found.content.draws if found is not None and isinstance(found.content, Begun) else 0


def stored_account(log: Log, view: View, population: str) -> Account | None:
    """Return the account of a population that is in the ledger; None when none is.

    Raises:
        LedgerCorrupt: its secret key is lost.
    """
    opened = view.opened(population)
    if opened is None:
        return None
    secret = read_secret(view.get(secret_name(population)), opened.secret_sha256)
    if secret is None:
        raise LedgerCorrupt(
            f"the ledger {log.store.place} has lost the secret key of {population!r}.", hint="go back to a good copy"
        )
    return Account(log, population, opened, secret)
