"""The front door: `Session`. It only sequences: plan, charge, run, release."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from discreet.errors import InvalidParameter, LedgerError
from discreet.privacy.exact import Real, positive
from discreet.privacy.guarantee import Approximate, Budget

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.backends.backend import Backend
    from discreet.ledger.account import Account
    from discreet.ledger.entry import Entry
    from discreet.ledger.ledger import Ledger
    from discreet.plan.auto.staged import StagedPlan
    from discreet.plan.batch import Batch
    from discreet.plan.dialects.conventions import Prepared
    from discreet.plan.plan import Plan
    from discreet.plan.schema import TableSchema
    from discreet.release import NoisyTable, Release


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
        self._ledger = ledger
        self._account = account
        self._backend = backend
        self._tables = tuple(tables)
        self._version = version
        self._bounds = _bounds(bounds)
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
    def budget(self) -> Budget:
        """The account's budget, for life."""
        return self._account.budget

    @property
    def spent(self) -> PrivacyLoss:
        """What the account has paid so far: a tally; the promise is the budget."""
        return self._account.spent

    @property
    def remaining(self) -> Budget:
        """What is left of the budget."""
        return self._account.remaining

    def history(self) -> list[Entry]:
        """The account's entries, oldest first: public facts only."""
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
            truncation: the share of ε, below 1, spent on reporting how many units exceed a cap.
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
        from discreet.plan.least import least, read_wanted
        from discreet.plan.plan import confidence_level

        prepared = prepare(sql, dialect, self._tables)
        epsilon, delta = prepared.epsilon_or(epsilon), prepared.delta_or(delta)
        if error is not None and (_bounds(bounds) or self._bounds) == "auto":
            raise InvalidParameter(
                "the error follows from caps that bounds='auto' chooses privately.",
                hint="plan with declared caps for the least ε of an error",
            )
        if error is None:
            staged = self._stage(
                prepared, bounds, epsilon=epsilon, delta=delta, noise=noise, truncation=truncation
            )
            if staged is not None:
                return staged

        def make(spent: Fraction) -> Plan:
            return self._plan(prepared, epsilon=spent, delta=delta, noise=noise, truncation=truncation)

        if error is not None and epsilon is None:
            wanted = read_wanted(error, confidence_level(confidence), assuming)
            return least(make, wanted, self._account.budget.per_query)
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
        return make(_epsilon(epsilon))

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
            truncation: the share of ε, below 1, spent on reporting how many units exceed a cap.
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
        plan = self._plan(
            prepared,
            epsilon=_epsilon(epsilon),
            delta=prepared.delta_or(delta),
            noise=noise,
            truncation=truncation,
        )
        if fresh:
            return self._ask(plan)
        with self._asking(plan.identity):
            return self._stored(plan) or self._ask(plan)

    def _plan(
        self, prepared: Prepared, *, epsilon: Fraction, delta: Real, noise: str | None, truncation: Real
    ) -> Plan:
        from discreet.plan.plan import make_plan

        return make_plan(
            prepared.text,
            prepared.tables,
            population=self._account.population,
            version=self._version,
            epsilon=epsilon,
            delta=delta,
            noise=noise,
            truncation=truncation,
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
        from discreet.plan.auto.asking import plan_in_stages

        chosen = _bounds(bounds) or self._bounds
        if chosen is None:
            return None
        return plan_in_stages(
            prepared,
            self._tables,
            caps=chosen == "auto",
            population=self._account.population,
            version=self._version,
            epsilon=_epsilon(epsilon),
            delta=delta,
            noise=noise,
            truncation=truncation,
        )

    def _stored_staged(self, staged: StagedPlan) -> Release | None:
        """The answer that the ledger has; None when there is none."""
        from discreet.plan.auto.staged import restored
        from discreet.release import NoisyTable, Release

        found = self._account.find(staged.identity)
        if found is None:
            return None
        choice, table = restored(found)
        plan = staged.advised(choice)
        return Release(plan, NoisyTable.from_json(table), charged=Approximate(Fraction(0)), stored=True)

    def _ask_staged(self, staged: StagedPlan) -> Release:
        """As `_ask`, with the first stage between the one charge and the question."""
        from discreet.noise.entropy import SystemEntropy
        from discreet.plan.auto.staged import kept
        from discreet.release import Release

        for text in staged.first:
            self._backend.rehearse(text, {})
        for plan in staged.rehearsed:
            self._rehearse(plan)
        entry = self._account.charge(staged.identity, staged.charge, note=self._note(staged.last))
        choice = staged.choose(lambda text: self._backend.rows(text, {}), SystemEntropy())
        plan = staged.advised(choice)
        table = self._measure(plan)
        self._account.store(staged.identity, entry.seq, kept(choice, table.to_json()))
        return Release(plan, table, charged=staged.guarantee, stored=False)

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

        if self._bounds is not None:
            raise InvalidParameter(
                "a batch is planned for declared caps and bounds, and this session has them chosen for each question.",
                hint="ask one by one, or connect with caps: dp.PrivacyUnit(column, max_groups=…, max_rows=…)",
            )
        batch = plan_batch(
            questions,
            self._tables,
            population=self._account.population,
            version=self._version,
            epsilon=_epsilon(epsilon),
            delta=delta,
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
        return f"Session(tables={', '.join(self.tables)}; population={self.population!r}; remaining={left})"

    @contextmanager
    def _asking(self, identity: str) -> Iterator[None]:
        """One thread at a time asks a question; another that asks the same waits, and gets the stored answer free."""
        with self._locks.setdefault(
            identity, threading.Lock()
        ):  # setdefault on a dict is one step for threads
            yield

    def _stored(self, plan: Plan) -> Release | None:
        """The answer that the ledger has; None when there is none."""
        from discreet.release import NoisyTable, Release

        kept = self._account.find(plan.identity)
        if kept is None:
            return None
        return Release(plan, NoisyTable.from_json(kept), charged=Approximate(Fraction(0)), stored=True)

    def _ask(self, plan: Plan) -> Release:
        """Rehearses, charges, measures and stores, in this order."""
        from discreet.release import Release

        self._rehearse(plan)
        entry = self._account.charge(plan.identity, plan.charge, note=self._note(plan))
        table = self._measure(plan)
        self._account.store(plan.identity, entry.seq, table.to_json())
        return Release(plan, table, charged=plan.allocation.guarantee, stored=False)

    def _stored_batch(self, batch: Batch) -> dict[str, Release] | None:
        """The answers that the ledger has; None when there are none."""
        from discreet.batched import releases, restored

        kept = self._account.find(batch.identity)
        if kept is None:
            return None
        return releases(batch, restored(kept), charged=Approximate(Fraction(0)), stored=True)

    def _ask_batch(self, batch: Batch) -> dict[str, Release]:
        """As `_ask`, for all measurements of a batch: every one is rehearsed before the one charge."""
        from discreet.batched import releases, stored

        for plan in batch.measurements:
            self._rehearse(plan)
        entry = self._account.charge(batch.identity, batch.charge, note=batch.note(self._version))
        tables = [self._measure(plan) for plan in batch.measurements]
        self._account.store(batch.identity, entry.seq, stored(tables))
        return releases(batch, tables, charged=batch.guarantee, stored=False)

    def _rehearse(self, plan: Plan) -> None:
        for text in plan.statements:
            self._backend.rehearse(text, self._parameters(plan, text))

    def _measure(self, plan: Plan) -> NoisyTable:
        """Runs the plan and adds the noise; from here on nothing may depend on the data but the noisy table."""
        from discreet.noise.entropy import SystemEntropy
        from discreet.run import measure

        rng = SystemEntropy()
        return measure(plan, lambda text: self._backend.rows(text, self._parameters(plan, text)), rng)

    def _parameters(self, plan: Plan, text: str) -> dict[str, int]:
        return {"secret": int.from_bytes(self._account.secret[:8], "big")} if plan.is_keyed(text) else {}

    def _note(self, plan: Plan) -> dict[str, Any]:
        return {"sql": plan.question.text, "table": plan.question.table.name, "version": self._version}


def _bounds(bounds: str | None) -> str | None:
    """What a first stage chooses: "auto", "values", or nothing."""
    if bounds not in (None, "auto", "values"):
        raise InvalidParameter(
            f"bounds must be 'auto' or 'values' or left out, not {bounds!r:.60}.",
            hint="caps are declared with dp.PrivacyUnit(column, max_groups=…, max_rows=…), bounds with dp.Range",
        )
    return bounds


def _epsilon(epsilon: Real | None) -> Fraction:
    from discreet.plan.least import LEAST_EPSILON

    if epsilon is None:
        raise InvalidParameter(
            "A question needs epsilon=: what it may cost.",
            hint="epsilon=0.5, or epsilon=session.plan(sql, error={'n': 50}).epsilon for a wanted error",
        )
    if positive("epsilon", epsilon) < LEAST_EPSILON:
        raise InvalidParameter(
            f"epsilon must be at least {float(LEAST_EPSILON):g}, not {epsilon!s:.40}.",
            hint="so little ε is drowned by its noise: over a million times what one person can change",
        )
    return positive("epsilon", epsilon)
