"""The front door: `Session`. It only sequences: plan, charge, run, release."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, overload

from discreet.errors import InvalidParameter, LedgerError
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import Budget

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.backends.backend import Backend
    from discreet.ledger.account import Account
    from discreet.ledger.entry import Entry
    from discreet.ledger.ledger import Ledger
    from discreet.plan.auto_bounds.staged import StagedPlan
    from discreet.plan.batch import Batch
    from discreet.plan.dialects.conventions import Prepared
    from discreet.plan.people.person_cost import PersonCost
    from discreet.plan.plan import Plan
    from discreet.plan.schema import TableSchema
    from discreet.release import NoisyTable, Release
    from discreet.tables.people import Rows


class Session:
    """Questions to private tables, each charged to one population's account before the data is read.

    Guarantee:
        Everything that `sql` has returned or raised, together, is differentially private for each unit of
        the population,
        at the account's budget, under the account's relation, for any analyst who chooses each question
        after seeing all
        earlier answers. `plan` reads no data. A session is safe among threads; processes share the ledger.
    """

    def __init__(
        self,
        ledger: Ledger,
        account: Account,
        backend: Backend,
        tables: Sequence[TableSchema],
        version: str | None,
        *,
        bounds: str | None = None,
    ) -> None:
        from discreet.tables.people import PeopleOf

        self._ledger = ledger
        self._account = account
        self._backend = backend
        self._tables = tuple(tables)
        self._version = version
        from discreet.plan.parameters import bounds_asked

        self._bounds = bounds_asked(bounds)
        self._people = None if account.people is None else PeopleOf(account, backend, tables)
        self._locks: dict[str, threading.Lock] = {}

    @property
    def tables(self) -> list[str]:
        """The names that FROM takes."""
        return [t.name for t in self._tables]

    @property
    def population(self) -> str:
        """Whose account pays."""
        return self._account.population

    @property
    def analyst(self) -> str | None:
        """Who asks; None where the account has no analysts."""
        return self._account.analyst

    @property
    def promises(self) -> list[str]:
        """What holds for each unit, in sentences: of all answers, and where it is so of this analyst's alone."""
        return self._account.promises()

    @property
    def budget(self) -> Budget:
        """The account's budget, for life; the analyst's cap where one asks."""
        return self._account.budget

    @property
    def spent(self) -> PrivacyLoss:
        """What the account, or the analyst, has paid so far: a tally; the promise is the budget."""
        return self._account.spent

    @property
    def remaining(self) -> Budget:
        """What is left of the budget, and of the caps of who asks."""
        return self._account.remaining

    def history(self) -> list[Entry]:
        """The account's entries, oldest first: public facts only, and the own ones of an analyst kept apart."""
        return self._account.history()

    @overload
    def plan(
        self,
        sql: str,
        *,
        epsilon: Real | None = None,
        delta: Real = 0,
        noise: str | None = None,
        truncation: Real = 0,
        error: Mapping[str, Real] | None = None,
        confidence: Real = Fraction(19, 20),
        assuming: Mapping[str, Real] | None = None,
        bounds: None = None,
        dialect: str = "duckdb",
    ) -> Plan: ...

    @overload
    def plan(
        self,
        sql: str,
        *,
        epsilon: Real | None = None,
        delta: Real = 0,
        noise: str | None = None,
        truncation: Real = 0,
        error: Mapping[str, Real] | None = None,
        confidence: Real = Fraction(19, 20),
        assuming: Mapping[str, Real] | None = None,
        bounds: str,
        dialect: str = "duckdb",
    ) -> StagedPlan: ...

    def plan(
        self,
        sql: str,
        *,
        epsilon: Real | None = None,
        delta: Real = 0,
        noise: str | None = None,
        truncation: Real = 0,
        error: Mapping[str, Real] | None = None,
        confidence: Real = Fraction(19, 20),
        assuming: Mapping[str, Real] | None = None,
        bounds: str | None = None,
        dialect: str = "duckdb",
    ) -> Plan | StagedPlan:
        """Decides a question without asking it: free, and no data is touched.

        Args:
            sql: the question.
            epsilon: the ε to be spent; leave it out to have the least one for `error`.
            delta: the δ to be spent.
            noise: "laplace" (the default) or "gaussian".
            truncation: the share of ε, below 1, spent on reporting how much is cut off by caps, ranges and lists.
            error: output column → the largest error that it may have with probability `confidence`: a number, or a
                share of its size as "5%". The plan then has the least ε, to three digits, that gives it.
            confidence: of `error`.
            assuming: public guesses at the answer, for errors that depend on it: output column → its size, "rows" →
                over how many rows a mean is.
            bounds: "auto" or "values" to have caps and bounds chosen by a first stage, as in `sql`.
            dialect: whose spelling `sql` has: "duckdb", "postgres", "bigquery", "snowflake" or "spark".

        Raises:
            PlanError, InvalidParameter: the question cannot be answered as asked.
        """
        from discreet.plan.dialects.conventions import prepare
        from discreet.plan.foretold import foretold
        from discreet.plan.least import least, read_wanted
        from discreet.plan.parameters import bounds_asked, epsilon_asked
        from discreet.plan.plan import confidence_level

        prepared = prepare(sql, dialect, self._tables)
        epsilon, delta = prepared.epsilon_or(epsilon), prepared.delta_or(delta)
        if error is not None and (bounds_asked(bounds) or self._bounds) == "auto":
            raise InvalidParameter(
                "the error follows from caps that bounds='auto' chooses privately.",
                hint="plan with declared caps for the least ε of an error",
            )
        if error is None:
            staged = self._stage(
                prepared, bounds, epsilon=epsilon, delta=delta, noise=noise, truncation=truncation
            )
            if staged is not None:
                return foretold(self._account, staged)

        def make(spent: Fraction) -> Plan:
            return self._plan(prepared, epsilon=spent, delta=delta, noise=noise, truncation=truncation)

        if error is not None and epsilon is None:
            wanted = read_wanted(error, confidence_level(confidence), assuming)
            return foretold(self._account, least(make, wanted, self._account.budget.per_query))
        if error is not None:
            raise InvalidParameter(
                "epsilon and error cannot both be given: each follows from the other.",
                hint="leave epsilon out to have the least one for this error",
            )
        if epsilon is None:
            raise InvalidParameter(
                "A plan needs epsilon= (what may be spent) or error= (how exact the answer must be).",
                hint="epsilon=0.5, or error={'n': 50} for the least ε that gives it",
            )
        if assuming is not None:
            raise InvalidParameter(
                "assuming goes with error.", hint="plan(…, epsilon=0.5).error('n', assuming={'n': 10_000})"
            )
        return foretold(self._account, make(epsilon_asked(epsilon)))

    def sql(
        self,
        sql: str,
        *,
        epsilon: Real | None = None,
        delta: Real = 0,
        noise: str | None = None,
        truncation: Real = 0,
        bounds: str | None = None,
        fresh: bool = False,
        dialect: str = "duckdb",
    ) -> Release:
        """Asks a question: a table with ± intervals, charged to the ledger before the data is read.

        The same question again is answered from the ledger, free; `fresh=True` draws again and is charged.

        Args:
            sql: one SELECT over the connected tables (docs/sql-reference.md).
            epsilon: the ε to be spent, above 0.
            delta: the δ to be spent; private selection of groups and Gaussian noise need it above 0.
            noise: "laplace" (the default) or "gaussian".
            truncation: the share of ε, below 1, spent on reporting how much is cut off by caps, ranges and lists.
            bounds: "auto" to have max_groups and max_rows chosen for the least error, and the bounds of values that
                have none, by a first stage: each of the two costs a tenth of ε. "values" for the bounds of values
                alone, under the declared caps; it costs nothing where none are missing.
            fresh: whether to draw again even if the answer is stored.
            dialect: whose spelling `sql` has: "duckdb", "postgres", "bigquery", "snowflake" or "spark".

        Raises:
            PlanError, InvalidParameter: the question cannot be answered as asked; nothing was charged.
            BudgetExceeded: the account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charge, which stands.
        """
        from discreet.plan.dialects.conventions import prepare
        from discreet.plan.foretold import fitting
        from discreet.plan.parameters import epsilon_asked
        from discreet.tables.shapes import look_again

        self._tables = look_again(self._backend, self._tables)
        prepared = prepare(sql, dialect, self._tables)
        epsilon = prepared.epsilon_or(epsilon)
        staged = self._stage(
            prepared, bounds, epsilon=epsilon, delta=delta, noise=noise, truncation=truncation
        )
        if staged is not None and fresh:
            return self._ask_staged(staged)
        if staged is not None:
            with self._asking(staged.identity):
                return self._stored_staged(staged) or self._ask_staged(staged)
        delta = prepared.delta_or(delta)

        def make(spent: Fraction) -> Plan:
            return self._plan(prepared, epsilon=spent, delta=delta, noise=noise, truncation=truncation)

        plan = make(epsilon_asked(epsilon))
        with fitting(self._account, make, plan.epsilon):
            if fresh:
                return self._ask(plan)
            with self._asking(plan.identity):
                return self._stored(plan) or self._ask(plan)

    def _plan(
        self, prepared: Prepared, *, epsilon: Fraction, delta: Real, noise: str | None, truncation: Real
    ) -> Plan:
        from discreet.plan.parameters import share_asked
        from discreet.plan.plan import make_plan

        return make_plan(
            prepared.text,
            prepared.tables,
            population=self._account.population,
            version=self._version,
            epsilon=epsilon,
            delta=share_asked("delta", delta),
            noise=noise,
            truncation=share_asked("truncation", truncation),
        )

    def _stage(
        self,
        prepared: Prepared,
        bounds: str | None,
        *,
        epsilon: Real | None,
        delta: Real,
        noise: str | None,
        truncation: Real,
    ) -> StagedPlan | None:
        """The question in two stages; None where nothing that was asked to be chosen is missing."""
        from discreet.plan.auto_bounds.asking import plan_in_stages
        from discreet.plan.parameters import bounds_asked, epsilon_asked, share_asked

        chosen = bounds_asked(bounds) or self._bounds
        if chosen is None:
            return None
        return plan_in_stages(
            prepared,
            self._tables,
            caps=chosen == "auto",
            population=self._account.population,
            version=self._version,
            epsilon=epsilon_asked(epsilon),
            delta=share_asked("delta", delta),
            noise=noise,
            truncation=share_asked("truncation", truncation),
        )

    def _stored_staged(self, staged: StagedPlan) -> Release | None:
        """The answer that the ledger has; None when there is none."""
        from discreet.keeping import find_in_stages

        return find_in_stages(self._account, staged, self._version)

    def _ask_staged(self, staged: StagedPlan) -> Release:
        """As `_ask`, with the first stage between the one charge and the question."""
        from discreet.keeping import keep, note_in_stages, released_in_stages
        from discreet.noise.entropy import SystemEntropy
        from discreet.release import Drawn
        from discreet.tables.shapes import check_views

        check_views(self._backend, self._tables)
        for text in staged.first:
            self._backend.rehearse(text, {})
        for plan in staged.rehearsed:
            self._rehearse(plan)
        toll = None if self._people is None else self._people.toll_of_stages(staged)
        note = note_in_stages(staged, self._version)
        entry = self._account.charge(staged.identity, staged.charge, note=note)
        with self._taking_part(toll, entry) as rows:
            choice = staged.choose(lambda text: rows(text, {}), SystemEntropy())
            plan = staged.advised(choice)
            if self._people is not None:
                self._people.check_stages(staged, plan)
            table = self._measure(plan, rows)
        drawn = Drawn(entry.time, self._version)
        release = released_in_stages(self._account, staged.identity, plan, table, drawn, staged.guarantee)
        return keep({"": release}, entry.seq)[""]

    def batch(
        self,
        questions: Mapping[str, str],
        *,
        epsilon: Real | None = None,
        delta: Real = 0,
        noise: str | None = None,
        fresh: bool = False,
        dialect: str = "duckdb",
    ) -> dict[str, Release]:
        """Asks several questions together: one charge, shared by all of their columns.

        What two of them measure alike is measured once, and questions over the same rows and groups are one pass of
        the database. The same measurements again are answered from the ledger, free.

        Args:
            questions: name → SQL.
            epsilon: the ε to be spent on all of them together, above 0.
            delta: the δ to be spent on all of them together.
            noise: "laplace" (the default) or "gaussian", which costs less where there are many columns.
            fresh: whether to draw again even if the answers are stored.
            dialect: whose spelling the questions have: "duckdb", "postgres", "bigquery", "snowflake" or "spark".

        Raises:
            PlanError, InvalidParameter: one of them cannot be answered as asked; none is, and nothing was charged.
            BudgetExceeded: the account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charge, which stands.
        """
        from discreet.plan.batch import plan_batch
        from discreet.plan.parameters import epsilon_asked, share_asked
        from discreet.tables.shapes import look_again

        if self._bounds is not None:
            raise InvalidParameter(
                "a batch is planned for declared caps and bounds, and this session has them chosen for each question.",
                hint="ask one by one, or connect with caps: dp.PrivacyUnit(column, max_groups=…, max_rows=…)",
            )
        self._tables = look_again(self._backend, self._tables)
        batch = plan_batch(
            questions,
            self._tables,
            population=self._account.population,
            version=self._version,
            epsilon=epsilon_asked(epsilon),
            delta=share_asked("delta", delta),
            noise=noise,
            dialect=dialect,
        )
        if fresh:
            return self._ask_batch(batch)
        with self._asking(batch.identity):
            return self._stored_batch(batch) or self._ask_batch(batch)

    def close(self) -> None:
        """Closes the database and the ledger."""
        self._backend.close()
        self._ledger.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            left = repr(self._account.remaining)
        except LedgerError:
            left = "unknown, since the ledger cannot be read"
        who = "" if self.analyst is None else f"; analyst={self.analyst!r}"
        apart = "; kept apart from the others" if self._account.alone else ""
        whose = f"population={self.population!r}{who}{apart}"
        return f"Session(tables={', '.join(self.tables)}; {whose}; remaining={left})"

    @contextmanager
    def _asking(self, identity: str) -> Iterator[None]:
        """One thread at a time asks a question; another that asks the same waits, and gets the stored answer free."""
        with self._locks.setdefault(
            identity, threading.Lock()
        ):  # setdefault on a dict is one step for threads
            yield

    def _stored(self, plan: Plan) -> Release | None:
        """The answer that the ledger has; None when there is none."""
        from discreet.keeping import find

        return find(self._account, plan, self._version)

    def _ask(self, plan: Plan) -> Release:
        """Rehearses, charges, measures and stores, in this order."""
        from discreet.keeping import keep, note, released
        from discreet.release import Drawn
        from discreet.tables.shapes import check_views

        check_views(self._backend, self._tables)
        self._rehearse(plan)
        toll = None if self._people is None else self._people.toll([plan], plan.charge)
        entry = self._account.charge(plan.identity, plan.charge, note=note(plan, self._version))
        with self._taking_part(toll, entry) as rows:
            table = self._measure(plan, rows)
        drawn = Drawn(entry.time, self._version)
        release = released(self._account, plan, table, drawn, plan.allocation.guarantee)
        return keep({"": release}, entry.seq)[""]

    def _stored_batch(self, batch: Batch) -> dict[str, Release] | None:
        """The answers that the ledger has; None when there are none."""
        from discreet.keeping import releases, restored_batch
        from discreet.ledger.entry import release_in
        from discreet.release import Drawn

        found = self._account.found(batch.identity)
        if found is None:
            return None
        drawn = Drawn(found.time, self._version)
        return releases(self._account, batch, restored_batch(release_in(found)), drawn)

    def _ask_batch(self, batch: Batch) -> dict[str, Release]:
        """As `_ask`, for all measurements of a batch: every one is rehearsed before the one charge."""
        from discreet.keeping import keep, releases
        from discreet.release import Drawn
        from discreet.tables.shapes import check_views

        check_views(self._backend, self._tables)
        for plan in batch.measurements:
            self._rehearse(plan)
        toll = None if self._people is None else self._people.toll(batch.measurements, batch.charge)
        entry = self._account.charge(batch.identity, batch.charge, note=batch.note(self._version))
        with self._taking_part(toll, entry) as rows:
            tables = [self._measure(plan, rows) for plan in batch.measurements]
        drawn = Drawn(entry.time, self._version)
        return keep(releases(self._account, batch, tables, drawn, batch.guarantee), entry.seq)

    def _rehearse(self, plan: Plan) -> None:
        for text in plan.statements:
            self._backend.rehearse(text, self._parameters(plan, text))

    @contextmanager
    def _taking_part(self, toll: PersonCost | None, entry: Entry) -> Iterator[Rows]:
        """What runs SQL on the data of those who take part: of everybody, where people have no budgets of their own."""
        if toll is None or self._people is None:
            yield self._backend.rows
            return
        with self._people.taking_part(toll, entry.seq, self._secret) as rows:
            yield rows

    def _measure(self, plan: Plan, rows: Rows) -> NoisyTable:
        """Runs the plan and adds the noise; from here on nothing may depend on the data but the noisy table."""
        from discreet.noise.entropy import SystemEntropy
        from discreet.run import measure

        rng = SystemEntropy()
        return measure(plan, lambda text: rows(text, self._parameters(plan, text)), rng)

    def _parameters(self, plan: Plan, text: str) -> dict[str, int]:
        return {"secret": self._secret} if plan.is_keyed(text) else {}

    @property
    def _secret(self) -> int:
        return int.from_bytes(self._account.secret[:8], "big")
