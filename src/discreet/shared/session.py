"""A session that asks tables of two populations. It only sequences: plan, charge both, run, release."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias
from unicodedata import normalize

from discreet.errors import BudgetExceeded, DiscreetError, InvalidParameter, LedgerError, UnsupportedQuery
from discreet.plan.least import LEAST_EPSILON, most
from discreet.privacy.exact import Real, exact
from discreet.privacy.guarantee import Budget, decimal
from discreet.privacy.unit import PrivacyUnit

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.backends.backend import Backend
    from discreet.certificate.paid import PaidByBoth
    from discreet.ledger.account import Account
    from discreet.ledger.entry import Entry
    from discreet.ledger.ledger import Ledger
    from discreet.plan.flows.plan import SharedPlan
    from discreet.plan.schema import TableSchema
    from discreet.release import NoisyTable
    from discreet.shared.release import SharedRelease

ForEach: TypeAlias = Real | Mapping[str, Real]
"""A number for both populations, or one for each by its name."""


class SharedSession:
    """Questions to tables whose rows are of two populations at once, each charged to both before the data is read.

    Guarantee:
        Everything that `sql` has returned or raised, together, is differentially private for each unit of either
        population, at its own account's budget, under its own account's relation, for any analyst who chooses each
        question after seeing all earlier answers (docs/proofs/flows.md). Either both accounts are charged for an
        answer, or none is and there is no answer. `plan` reads no data. A session is safe among threads; processes
        share the ledger.
    """

    def __init__(
        self,
        ledger: Ledger,
        accounts: Mapping[str, Account],
        backend: Backend,
        tables: Sequence[TableSchema],
        units: Mapping[str, tuple[PrivacyUnit, PrivacyUnit]],
        version: str | None,
    ) -> None:
        self._ledger = ledger
        self._accounts = {account.population: account for account in accounts.values()}
        self._backend = backend
        self._tables = tuple(tables)
        self._units = dict(units)
        self._version = version
        self._locks: dict[str, threading.Lock] = {}

    @property
    def tables(self) -> list[str]:
        """The names that FROM takes."""
        return [t.name for t in self._tables]

    @property
    def populations(self) -> tuple[str, ...]:
        """Whose accounts pay."""
        return tuple(self._accounts)

    @property
    def promises(self) -> dict[str, list[str]]:
        """What holds for each unit of each population, in sentences."""
        return {name: account.promises() for name, account in self._accounts.items()}

    @property
    def budget(self) -> dict[str, Budget]:
        """Each account's budget, for life; the analyst's cap where one asks."""
        return {name: account.budget for name, account in self._accounts.items()}

    @property
    def spent(self) -> dict[str, PrivacyLoss]:
        """What each account, or its analyst, has paid so far: a tally; the promise is the budget."""
        return {name: account.spent for name, account in self._accounts.items()}

    @property
    def remaining(self) -> dict[str, Budget]:
        """What is left of each budget, and of the caps of who asks."""
        return {name: account.remaining for name, account in self._accounts.items()}

    def history(self) -> dict[str, list[Entry]]:
        """Each account's entries, oldest first: public facts only."""
        return {name: account.history() for name, account in self._accounts.items()}

    def plan(
        self,
        sql: str,
        *,
        epsilon: ForEach | None = None,
        delta: ForEach = 0,
        noise: str | None = None,
        bounds: str | None = None,
        truncation: Real = 0,
        dialect: str = "duckdb",
    ) -> SharedPlan:
        """Decides a question without asking it: free, and no data is touched.

        Args:
            sql: the question.
            epsilon: the ε that no population pays more than, or one for each.
            delta: the same of δ.
            noise: "laplace" (the default) or "gaussian".
            bounds: refused: caps and ranges are declared.
            truncation: refused: who exceeds a cap of two populations is not counted.
            dialect: whose spelling `sql` has: "duckdb", "postgres", "bigquery", "snowflake" or "spark".

        Raises:
            PlanError, InvalidParameter: the question cannot be answered as asked.
        """
        _refuse_chosen(bounds, truncation)
        plan = self._decided(sql, epsilon=epsilon, delta=delta, noise=noise, dialect=dialect)
        return replace(plan, outlook=self._outlook(plan))

    def _decided(
        self, sql: str, *, epsilon: ForEach | None, delta: ForEach, noise: str | None, dialect: str
    ) -> SharedPlan:
        from discreet.plan.dialects.conventions import prepare
        from discreet.plan.flows.plan import make_shared_plan
        from discreet.plan.parameters import epsilon_asked
        from discreet.plan.plan import kind_of

        prepared = prepare(sql, dialect, self._tables)
        if prepared.has_clause:
            raise UnsupportedQuery(
                "WITH DIFFERENTIAL_PRIVACY OPTIONS says one unit, and two populations are protected here.",
                hint="leave the clause out, and pass epsilon=",
            )
        first, second = self._accounts.values()
        epsilons = self._each("epsilon", epsilon)
        deltas = self._each("delta", delta)
        return make_shared_plan(
            prepared.text,
            self._tables,
            self._units,
            populations=(first.population, second.population),
            relations=(first.relation, second.relation),
            version=self._version,
            epsilons=(epsilon_asked(epsilons[0]), epsilon_asked(epsilons[1])),
            deltas=(_delta(deltas[0]), _delta(deltas[1])),
            kind=kind_of(noise),
        )

    def sql(
        self,
        sql: str,
        *,
        epsilon: ForEach | None = None,
        delta: ForEach = 0,
        noise: str | None = None,
        bounds: str | None = None,
        truncation: Real = 0,
        fresh: bool = False,
        dialect: str = "duckdb",
    ) -> SharedRelease:
        """Asks a question: a table with ± intervals, charged to both populations before the data is read.

        Noise is added once, so large that no population pays more than `epsilon`; each is charged by how far one of its
        own units moves the answer. The same question again is answered from the ledger, free; `fresh=True` draws again
        and is charged.

        Args:
            sql: one SELECT over one of the tables, of COUNT, SUM and COUNT(DISTINCT id), with declared keys.
            epsilon: the ε that no population pays more than, above 0; or one for each: {"patients": 0.5, "doctors": 1}.
            delta: the same of δ; Gaussian noise needs it above 0.
            noise: "laplace" (the default) or "gaussian".
            bounds: refused: caps and ranges are declared.
            truncation: refused: who exceeds a cap of two populations is not counted.
            fresh: whether to draw again even if the answer is stored.
            dialect: whose spelling `sql` has: "duckdb", "postgres", "bigquery", "snowflake" or "spark".

        Raises:
            PlanError, InvalidParameter: the question cannot be answered as asked; nothing was charged.
            BudgetExceeded: one of the accounts cannot pay; nothing was charged to either, and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charges, which stand.
        """
        from discreet.tables.shapes import look_again

        _refuse_chosen(bounds, truncation)
        self._tables = look_again(self._backend, self._tables)
        plan = self._decided(sql, epsilon=epsilon, delta=delta, noise=noise, dialect=dialect)
        try:
            if fresh:
                return self._ask(plan)
            with self._asking(plan.identity):
                return self._stored(plan) or self._ask(plan)
        except BudgetExceeded as refusal:
            refused = refusal

        def fits(part: Fraction) -> bool:
            try:
                smaller = _part(plan, part)
                other = self._decided(sql, epsilon=smaller, delta=delta, noise=noise, dialect=dialect)
                return self._affords(other)
            except DiscreetError:  # too little for this question to be planned at all
                return False

        share = most(fits, Fraction(1))
        raise _fitting(refused, plan, share)

    def close(self) -> None:
        """Closes the database and the ledger."""
        self._backend.close()
        self._ledger.close()

    def __enter__(self) -> SharedSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            left = ", ".join(f"{name}: {budget!r}" for name, budget in self.remaining.items())
        except LedgerError:
            left = "unknown, since the ledger cannot be read"
        return f"SharedSession(tables={', '.join(self.tables)}; remaining: {left})"

    @contextmanager
    def _asking(self, identity: str) -> Iterator[None]:
        """One thread at a time asks a question; another that asks the same waits, and gets the stored answer free."""
        with self._locks.setdefault(
            identity, threading.Lock()
        ):  # setdefault on a dict is one step for threads
            yield

    def _stored(self, plan: SharedPlan) -> SharedRelease | None:
        """The answer that both accounts have; None when one of them has none."""
        from discreet.ledger.entry import release_in
        from discreet.ledger.joint_charge import find_together
        from discreet.release import NoisyTable

        found = find_together(list(self._accounts.values()), plan.identity)
        if found is None:
            return None
        return self._released(plan, NoisyTable.from_json(release_in(found)), found.time, stored=True)[0]

    def _ask(self, plan: SharedPlan) -> SharedRelease:
        """Rehearses, charges both, measures and stores, in this order."""
        from discreet.noise.entropy import SystemEntropy
        from discreet.shared.run import measure_shared
        from discreet.tables.shapes import check_views

        check_views(self._backend, self._tables)
        self._backend.rehearse(plan.sql, {})
        entries = self._charge(plan)
        table = measure_shared(plan, lambda text: self._backend.rows(text, {}), SystemEntropy())
        release, proof = self._released(plan, table, entries[0].time, stored=False)
        proof.keep(entries, release.columns, release.rows)
        return release

    def _released(
        self, plan: SharedPlan, table: NoisyTable, time: str, *, stored: bool
    ) -> tuple[SharedRelease, PaidByBoth]:
        """The release of a table, and what both accounts keep and prove of it."""
        from discreet.certificate.paid import PaidByBoth
        from discreet.release import Drawn
        from discreet.shared.release import SharedRelease

        first, second = self._accounts.values()
        proof = PaidByBoth((first, second), plan.identity, table.to_json, lambda: plan.claim)
        drawn = Drawn(time, self._version)
        return SharedRelease(plan, table, stored=stored, proof=proof, drawn=drawn), proof

    def _charge(self, plan: SharedPlan) -> list[Entry]:
        from discreet.certificate.seal import noted
        from discreet.ledger.joint_charge import charge_together

        asked = {"sql": plan.question.text, "table": plan.question.table.name, "version": self._version}
        note = {**asked, **noted(plan.claim)}
        charges = plan.charges
        return charge_together(
            [(account, charges[name]) for name, account in self._accounts.items()], plan.identity, note=note
        )

    def _outlook(self, plan: SharedPlan) -> str:
        """What each account would say to it now."""
        from discreet.ledger.joint_charge import find_together
        from discreet.ledger.outlook import outlook

        if find_together(list(self._accounts.values()), plan.identity) is not None:
            return "It has been answered: asking it again is free."
        charges = plan.charges
        said = [
            f"{name!r}: {outlook(account, charges[name]).words}" for name, account in self._accounts.items()
        ]
        return " ".join(said)

    def _affords(self, plan: SharedPlan) -> bool:
        """Whether both accounts would pay for it now; nothing is charged."""
        charges = plan.charges
        return all(account.refusal(charges[name]) is None for name, account in self._accounts.items())

    def _each(self, name: str, given: ForEach | None) -> tuple[Real | None, Real | None]:
        """A number for each population, in their order."""
        first, second = self._accounts
        if not isinstance(given, Mapping):
            return given, given
        given = {normalize("NFC", str(n)): each for n, each in given.items()}  # as accounts are named
        if set(given) != {first, second}:
            raise InvalidParameter(
                f"{name} must be one number, or one for each of {first!r} and {second!r}.",
                hint=f"{name}={{{first!r}: 0.5, {second!r}: 1}}",
            )
        return given[first], given[second]


def _part(plan: SharedPlan, part: Fraction) -> dict[str, Fraction]:
    """So large a part of the ε that each population was allowed."""
    return {p.population: max(p.allowed.epsilon * part, LEAST_EPSILON) for p in plan.parties}


def _fitting(refusal: BudgetExceeded, plan: SharedPlan, share: Fraction | None) -> BudgetExceeded:
    """The refusal, with what each population would have paid, and the ε that would fit where there is one."""
    pays = ", ".join(f"{p.population!r} ε = {decimal(p.paid.guarantee.epsilon)}" for p in plan.parties)
    hint = refusal.hint
    if share is not None:
        fits = {p: decimal(e) for p, e in _part(plan, share).items()}
        same = len(set(fits.values())) == 1
        said = (
            next(iter(fits.values()))
            if same
            else "{" + ", ".join(f"{p!r}: {e}" for p, e in fits.items()) + "}"
        )
        hint = f"epsilon={said} would fit; {hint.split('; ', 1)[-1]}"
    return BudgetExceeded(
        f"{refusal.message} The question would charge {pays}; nothing was charged to either.",
        asked=refusal.asked,
        left=refusal.left,
        hint=hint,
    )


def _refuse_chosen(bounds: str | None, truncation: Real) -> None:
    """Refuses what a question to one population may ask for beside its answer."""
    if bounds is not None:
        raise InvalidParameter(
            "bounds= is not answered where two populations are protected: a first look would have to bound both.",
            hint="declare caps, dp.PrivacyUnit('patient_id', max_rows=…), and ranges, columns={'x': dp.Range(…)}",
        )
    if exact("truncation", truncation) != 0:
        raise InvalidParameter(
            "truncation= is not answered where two populations are protected: a unit at a cap may be there because of "
            "the other population.",
            hint="leave it out, and choose caps that few exceed",
        )


def _delta(delta: Real | None) -> Fraction:
    from discreet.plan.parameters import share_asked

    return share_asked("delta", 0 if delta is None else delta)
