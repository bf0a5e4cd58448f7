"""The front door: `Session`. It reads what is asked, and has it performed."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.engine.payers import Payers
from discreet.engine.perform import Desk
from discreet.engine.sql_recipe import (
    FlowParameters,
    ForEach,
    QueryParameters,
    Questions,
    bounds_parameter,
    charges_alike,
    epsilon_parameter,
    one,
    share_parameter,
)
from discreet.errors import DiscreetError, InvalidParameter, LedgerError, MissingBounds, NotPrivate
from discreet.policy import refuse_chosen
from discreet.privacy.exact import Real, count
from discreet.privacy.guarantee import Budget

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.backends.backend import Backend
    from discreet.catalog.schema import TableSchema
    from discreet.engine.open_run import OpenRun
    from discreet.engine.public_facts import DescribedTable, Listing
    from discreet.engine.recipe import Recipe
    from discreet.engine.release import Release
    from discreet.ledger.account import Account
    from discreet.ledger.entry import Entry
    from discreet.ledger.ledger import Ledger
    from discreet.mechanisms.abstract import Mechanism
    from discreet.mechanisms.numeric import NoisyValue
    from discreet.plan.least import WantedErrors
    from discreet.plan.plan import Plan
    from discreet.privacy.guarantee import Approximate
    from discreet.privacy.unit import PrivacyUnit, Relation

S = TypeVar("S")
R = TypeVar("R")


class Session:
    """Queries to private tables, each charged to one population's account before the data is read.

    Guarantee:
        Everything that `sql`, `batch` and `perform` have returned or raised, together, is differentially private for
        each unit of the population, at the account's budget, under the account's relation, for any analyst who chooses
        each query after seeing all earlier results. Where rows belong to two populations, this holds for each of
        them at its own account (docs/proofs/flows.md): both are charged for a result, or none is and there is no
        result. `plan` reads no data. A session is safe among threads; processes share the ledger.
    """

    def __init__(
        self,
        ledger: Ledger,
        accounts: Sequence[Account],
        backend: Backend,
        tables: Sequence[TableSchema],
        version: str | None,
        *,
        units: Mapping[str, tuple[PrivacyUnit, PrivacyUnit]] | None = None,
        bounds: str | None = None,
        fixed: Collection[str] = (),
        by_policy: bool = False,
    ) -> None:
        self._ledger = ledger
        self._desk = Desk(Payers(tuple(accounts)), backend, tables, version)
        self._units = units
        self._opened: set[OpenRun[Any, Any]] = set()
        self._bounds = bounds_parameter(bounds)
        self._fixed, self._by_policy = frozenset(fixed), by_policy  # caps that a policy says, where there is one

    @property
    def tables(self) -> list[str]:
        """The names that FROM takes."""
        return [t.name for t in self._desk.tables]

    @property
    def schema(self) -> Listing:
        """What is public of all tables: columns, types, and what is known of them; free."""
        from discreet.engine.public_facts import schema_of

        return schema_of(self._described)

    @property
    def _described(self) -> dict[str, DescribedTable]:
        from discreet.engine.public_facts import DescribedTable

        return {t.name: DescribedTable.of(t) for t in self._desk.tables}

    @property
    def accounts(self) -> dict[str, Account]:
        """Who pays, by the names of the populations: one account, or those of two populations."""
        return {account.population: account for account in self._desk.payers.accounts}

    @property
    def population(self) -> str:
        """Whose account pays; of two, look at `accounts`, as for all that follows."""
        return self._account.population

    @property
    def analyst(self) -> str | None:
        """Who asks; None where the account has no analysts."""
        return self._account.analyst

    @property
    def promises(self) -> list[str]:
        """What holds for each unit, in sentences: of all results, and where it is so of this analyst's alone."""
        return self._account.promises()

    @property
    def budget(self) -> Budget:
        """The account's privacy budget, which never resets; the analyst's cap where one asks."""
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
        """Return the account's entries, oldest first: public facts only; of an analyst kept apart, only their own."""
        return self._account.history()

    def certificate(self, entry: int) -> dict[str, Any]:
        """Return the certificate of a mechanism's charge, for `discreet verify`: its number is `seq` in `history()`.

        A result of a query has its own, `Release.certificate`, also when the query is run again later, which is free.

        Guarantee:
            Shows what was charged, to whom and for which mechanism; its sensitivity is declared by the caller, not
            derived.

        Raises:
            InvalidParameter: no charge of a mechanism by this account.
        """
        from discreet.verify.certificate.declared import write

        return write(self._account, entry)

    @property
    def _account(self) -> Account:
        """The one account.

        Raises:
            InvalidParameter: there are two.
        """
        accounts = self.accounts
        if len(accounts) == 1:
            return next(iter(accounts.values()))
        raise InvalidParameter(
            "two populations pay in this session, each from an account of its own.",
            hint=f"look at .accounts[{next(iter(accounts))!r}]",
        )

    def perform(self, recipe: Recipe[S, R], *, fresh: bool = False, trusted_code: bool = False) -> R:
        """Do what a recipe asks: charged to the ledger before the data is read, and answered from there again, free.

        Args:
            recipe: what is asked.
            fresh: whether to draw again even if the result is stored.
            trusted_code: whether the recipe's code may run beside the data. Its plan is verified anew; but it runs in
                the owner's process, where Python cannot keep it from reading memory. No policy lets it.

        Raises:
            PlanError, InvalidParameter: it cannot be done as asked; nothing was charged.
            BudgetExceeded: an account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charge, which stands.
        """
        self._refuse_recipe(recipe, trusted_code)
        return self._desk.perform(recipe, fresh=fresh, ours=False)

    def charge(
        self, mechanism: Mechanism, *, relation: str | Relation | None = None, delta: Real | None = None
    ) -> Approximate:
        """Charge the account for one release of a mechanism that the data's owner uses by hand; return what it cost.

        Guarantee:
            That of the mechanism, which is counted in the account as any other. Its sensitivity is the caller's word:
            it must hold for the account's units and neighbours. The ledger's entry says that it was declared by the
            caller, not derived.

        Args:
            mechanism: what is used once, after this.
            relation: the relation for which its sensitivity holds, to be compared with the account's.
            delta: the δ at which it is charged, where the mechanism has none of its own.

        Raises:
            InvalidParameter: another relation than the account's, or an account with a budget for each person.
            BudgetExceeded: the account cannot pay.
            LedgerError: the ledger cannot be used.
        """
        from discreet.engine.declared import charge_mechanism

        return charge_mechanism(self._account, mechanism, relation, delta, self._desk.version).guarantee

    def release(
        self, mechanism: Mechanism, *data: Any, relation: str | Relation | None = None, delta: Real | None = None
    ) -> NoisyValue:
        """Charge a mechanism as `charge` does, and then release it once: `session.release(laplace, 42)`.

        Args:
            mechanism: what is used once.
            *data: what its `release` takes: a number or an array; of a selection the candidates and their utilities.
            relation: as in `charge`.
            delta: as in `charge`.

        Raises:
            InvalidParameter: as `charge`; or data that the mechanism refuses, after the charge, which stands.
            BudgetExceeded, LedgerError: as `charge`.
        """
        from discreet.engine.declared import check_releases, released

        check_releases(mechanism, data)
        self.charge(mechanism, relation=relation, delta=delta)
        return released(mechanism, data)

    def open(self, recipe: Recipe[S, R], *, trusted_code: bool = False) -> OpenRun[S, R]:
        """Open a recipe whose run waits for inputs: charged whole now, and never answered from the ledger.

        Guarantee:
            Inputs may follow from everything that was released before, by this run and by others
            (docs/proofs/pipeline.md).

        Args:
            recipe: what is opened; its `run` yields `Wait()` for each input.
            trusted_code: as in `perform`.

        Raises:
            PlanError, InvalidParameter, BudgetExceeded, LedgerError, BackendFailed: as `perform`.
        """
        self._refuse_recipe(recipe, trusted_code)
        run = self._desk.open(recipe)
        self._opened.difference_update([other for other in self._opened.copy() if not other.is_open])
        self._opened.add(run)
        return run

    def plan(
        self,
        sql: str,
        *,
        epsilon: ForEach | None = None,
        delta: ForEach = 0,
        noise: str | None = None,
        truncation: Real = 0,
        error: Mapping[str, Real] | None = None,
        confidence: Real = Fraction(19, 20),
        assuming: Mapping[str, Real] | None = None,
        min_people: int = 1,
        bounds: str | None = None,
        dialect: str = "duckdb",
    ) -> Plan:
        """Plan a query: free, and no data is touched.

        Args:
            sql: the query.
            epsilon: the ε to be spent; leave it out to have the least one for `error`.
            delta: the δ to be spent.
            noise: "auto" (the default), "laplace" or "gaussian". "auto" is Laplace noise, or Gaussian noise where the
                query spends a δ anyhow, no number has a wider 95 % interval by it, and the account charges both alike
                (filter "basic", no budget of each person).
            truncation: the share of ε, below 1, spent on reporting how much is cut off by caps, ranges and lists.
            error: output column → the largest error that it may have with probability `confidence`: a number, or a
                share of its size as "5%". The plan then has the least ε, to three digits, that gives it.
            confidence: of `error`.
            assuming: public guesses at the result, for errors that depend on it: output column → its size, "rows" →
                over how many rows a mean is.
            min_people: of how many people a group is at least that is shown, where that is more than the owner says;
                above 1 it needs a δ.
            bounds: "auto" or "values" to have caps and bounds chosen by a first stage, as in `sql`.
            dialect: SQL dialect of `sql`: "duckdb", "postgres", "bigquery", "snowflake" or "spark".

        Raises:
            PlanError, InvalidParameter: the query cannot be answered as asked.
        """
        from discreet.plan.least import read_wanted
        from discreet.plan.query import confidence_level

        parameters = self._parameters(sql, delta, noise, truncation, bounds, dialect, min_people)
        tables, payers = self._desk.tables, self._desk.payers
        if error is None and assuming is not None:
            raise InvalidParameter(
                "assuming goes with error.", hint="plan(…, epsilon=0.5).error('n', assuming={'n': 10_000})"
            )
        if error is None:
            return payers.with_outlook(parameters.plan(tables, epsilon))
        wanted = read_wanted(error, confidence_level(confidence), assuming)
        return payers.with_outlook(self._least(parameters, epsilon, wanted))

    def sql(
        self,
        sql: str,
        *,
        epsilon: ForEach | None = None,
        delta: ForEach = 0,
        noise: str | None = None,
        truncation: Real = 0,
        error: Mapping[str, Real] | None = None,
        confidence: Real = Fraction(19, 20),
        assuming: Mapping[str, Real] | None = None,
        min_people: int = 1,
        bounds: str | None = None,
        fresh: bool = False,
        dialect: str = "duckdb",
    ) -> Release:
        """Run a query: a table with ± intervals, charged to the ledger before the data is read.

        The same query again is answered from the ledger, free; `fresh=True` draws again and is charged. Where rows
        belong to two populations, noise is added once, so large that neither pays more than `epsilon`; each is charged
        by how far one of its own units moves the result. `SHOW TABLES` and `DESCRIBE table` are free, and return rows
        as `schema` does.

        Args:
            sql: one SELECT over the connected tables (docs/sql-reference.md).
            epsilon: the ε to be spent, above 0; of two populations one for both or each: {"patients": 0.5, …}.
            delta: the δ to be spent; private selection of groups and Gaussian noise need it above 0.
            noise: "auto" (the default), "laplace" or "gaussian". "auto" is Laplace noise, or Gaussian noise where the
                query spends a δ anyhow, no number has a wider 95 % interval by it, and the account charges both alike
                (filter "basic", no budget of each person).
            truncation: the share of ε, below 1, spent on reporting how much is cut off by caps, ranges and lists.
            error: in place of epsilon, the largest error of output columns: the query is asked at the least ε that
                gives it, as `plan` finds it.
            confidence: of `error`.
            assuming: public guesses at the result, for errors that depend on it, as in `plan`.
            min_people: of how many people a group is at least that is shown, where that is more than the owner says;
                above 1 it needs a δ.
            bounds: "auto" to have caps chosen for the least error, and the bounds of values that
                have none, by a first stage: each of the two costs a tenth of ε. "values" for the bounds of values
                alone, under the declared caps; it costs nothing where none are missing. "ranges" as "values", with 99 %
                of ε for the bounds, where these are wanted and the result is not: `release.plan.query.chosen`.
            fresh: whether to draw again even if the result is stored.
            dialect: SQL dialect of `sql`: "duckdb", "postgres", "bigquery", "snowflake" or "spark".

        Raises:
            PlanError, InvalidParameter: the query cannot be answered as asked; nothing was charged.
            BudgetExceeded: an account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charge, which stands.
        """
        from discreet.engine.public_facts import ASKS_FOR_SCHEMA, described

        if isinstance(sql, str) and ASKS_FOR_SCHEMA.fullmatch(sql):  # type: ignore[redundant-expr]  # it may be anything
            return described(sql, self._described)  # type: ignore[return-value]  # a query returns a release, and this is none
        parameters = self._parameters(sql, delta, noise, truncation, bounds, dialect, min_people)
        if error is not None:
            from discreet.plan.least import read_wanted
            from discreet.plan.query import confidence_level

            epsilon = self._least(
                parameters, epsilon, read_wanted(error, confidence_level(confidence), assuming)
            ).epsilon
        elif assuming is not None:
            raise InvalidParameter(
                "assuming goes with error.", hint="sql(…, error={'n': '5%'}, assuming={'n': 10_000})"
            )
        recipe = Questions(lambda tables, part: parameters.plan(tables, epsilon, part), self._read_public)
        found = self._desk.perform(recipe, fresh=fresh)
        plan = next(iter(found.values())).plan
        if plan.outer is None:
            return found[""]
        from discreet.engine.outer_release import OuterRelease

        return OuterRelease(plan, found, self._read_public)

    def _read_public(self, text: str) -> list[tuple[Any, ...]]:
        return self._desk.backend.rows(text, {})

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
        """Run several queries together: one charge, shared by all of their columns.

        What two of them measure alike is measured once, and queries over the same rows and groups are one pass of
        the database. The same measurements again are answered from the ledger, free.

        Args:
            questions: name → SQL.
            epsilon: the ε to be spent on all of them together, above 0.
            delta: the δ to be spent on all of them together.
            noise: of all of them, as in `sql`; "gaussian" costs less where there are many columns.
            fresh: whether to draw again even if the results are stored.
            dialect: SQL dialect of the queries: "duckdb", "postgres", "bigquery", "snowflake" or "spark".

        Raises:
            PlanError, InvalidParameter: one of them cannot be answered as asked; none is, and nothing was charged.
            BudgetExceeded: the account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charge, which stands.
        """
        from discreet.plan.planner import plan_batch

        if self._bounds is not None:
            raise InvalidParameter(
                "a batch is planned for declared caps and bounds, and this session has them chosen for each query.",
                hint="ask one by one, or connect with caps: dp.PrivacyUnit(column, max_groups=…, max_rows=…)",
            )
        if self._units is not None:
            raise InvalidParameter(
                "a batch is planned for one population, and two populations pay here: "
                f"{' and '.join(map(repr, self.accounts))}.",
                hint="ask one by one, with session.sql",
            )
        population = self._account.population

        def make(tables: Sequence[TableSchema], part: Fraction) -> Plan:
            try:
                return plan_batch(
                    questions,
                    tables,
                    population=population,
                    version=self._desk.version,
                    epsilon=epsilon_parameter(epsilon) * part,
                    delta=share_parameter("delta", delta),
                    noise=noise,
                    dialect=dialect,
                    alike=charges_alike(self._account),
                )
            except (MissingBounds, NotPrivate, InvalidParameter) as refused:
                if epsilon is None or not isinstance(refused, InvalidParameter):
                    self._refuse_with_all_missing(questions, tables, epsilon, delta, noise, dialect)
                raise

        return self._desk.perform(Questions(make), fresh=fresh)

    def _refuse_with_all_missing(
        self,
        questions: Mapping[str, str],
        tables: Sequence[TableSchema],
        epsilon: Real | None,
        delta: Real,
        noise: str | None,
        dialect: str,
    ) -> None:
        """Refuse a batch with all the facts that its queries lack, where these are several."""
        from discreet.engine.public_facts import EPSILON

        found = [EPSILON] if epsilon is None else []
        for sql in questions.values():
            try:
                self._parameters(sql, delta, noise, 0, None, dialect, 1).complete(tables, Fraction(1))
            except (MissingBounds, NotPrivate) as refused:
                found = [*(fact for fact in refused.missing if fact not in found), *found]
            except DiscreetError:
                continue  # of another kind, which the batch's own refusal names
        if len(found) > 1:
            raise MissingBounds.of(found)

    def fit(
        self,
        estimator: Any,
        *,
        features: Sequence[str] | None = None,
        target: str | None = None,
        table: str | None = None,
        where: str | None = None,
        fresh: bool = False,
        trusted_code: bool = False,
    ) -> Any:
        """Fit a clone of one of discreet's own estimators, charged to the ledger before the data is read.

        The same fit again is answered from the ledger, free; `fresh=True` draws again and is charged. Bounds, labels
        and the target's range are those of `columns=`; what is missing counts as the middle of its bounds.

        Args:
            estimator: of `discreet.learn`, with its ε and δ; it stays unfitted.
            features: columns; left out, all of which something is declared, without the target.
            target: the column that is predicted, of an estimator that predicts one.
            table: the table, where there are several.
            where: a condition on its rows, in SQL.
            fresh: whether to draw again even if the fit is stored.
            trusted_code: whether the estimator that a `SampleAggregate` has may run beside the data, as in `perform`;
                no policy lets it.

        Returns:
            A fitted clone, with `cost` and `certificate()`.

        Raises:
            PlanError, InvalidParameter: it cannot be fitted as asked; nothing was charged.
            BudgetExceeded: the account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charge, which stands.
        """
        own = self._own(estimator, "asked_of", trusted_code)
        asked = own.asked_of(self._desk.tables, features, target, table, where)
        return self._desk.perform(asked, fresh=fresh, ours=False)

    def plan_fit(
        self,
        estimator: Any,
        *,
        features: Sequence[str] | None = None,
        target: str | None = None,
        table: str | None = None,
        where: str | None = None,
        trusted_code: bool = False,
    ) -> Plan:
        """Decide a fit without asking for it, with the arguments of `fit`: free, and no data is touched.

        Raises:
            PlanError, InvalidParameter: it cannot be fitted as asked.
        """
        own = self._own(estimator, "asked_of", trusted_code)
        return self._desk.plan(own.asked_of(self._desk.tables, features, target, table, where))

    def evaluate(
        self,
        model: Any,
        *,
        features: Sequence[str],
        target: str,
        epsilon: Real,
        delta: Real = 0,
        table: str | None = None,
        where: str | None = None,
        confidence: Real = Fraction(19, 20),
        fresh: bool = False,
        trusted_code: bool = False,
    ) -> Any:
        """Measure how well a fitted model predicts, charged to the ledger before the data is read.

        Args:
            model: fitted, of `discreet.learn`: it is evaluated by its coefficients, so that no other code runs; or with
                `trusted_code` any other with `predict`, whose labels, or range, are those of the target.
            features: columns, in the order of the model's.
            target: the column that is predicted.
            epsilon: the ε to be spent.
            delta: the δ to be spent: above 0 for Gaussian noise.
            table: the table, where there are several.
            where: a condition on its rows, in SQL.
            confidence: of the intervals.
            fresh: whether to draw again even if the evaluation is stored.
            trusted_code: whether a model of somebody else's may run beside the data, as in `perform`; no policy lets
                it.

        Raises:
            PlanError, InvalidParameter, BudgetExceeded, LedgerError, BackendFailed: as `fit`.
        """
        own = self._own(model, "answers_of", trusted_code)
        given = (own, self._desk.tables, (features, target, table, where), epsilon, delta, confidence)
        room = importlib.import_module("discreet.learn.evaluation")
        return self._desk.perform(room.evaluation_of(*given, trusted=own is model), fresh=fresh, ours=False)

    def choose(
        self,
        candidates: Sequence[Any],
        *,
        target: str,
        epsilon: Real,
        delta: Real = 0,
        features: Sequence[str] | None = None,
        runs: int | None = None,
        table: str | None = None,
        where: str | None = None,
        fresh: bool = False,
    ) -> Any:
        """Choose the best of several models, charged to the ledger before the data is read.

        Random candidates are fitted and measured a random number of times, which stays hidden; it costs about three
        times the ε of one run, however many candidates there are. The same choice again is free.

        Args:
            candidates: of `discreet.learn`, classifiers or regressors, without ε and δ, which are chosen here.
            target: the column that is predicted.
            epsilon: the ε to be spent in all.
            delta: the δ to be spent in all.
            features: as in `fit`.
            runs: how many runs there are on average: 4 for each candidate by default.
            table: as in `fit`.
            where: as in `fit`.
            fresh: whether to draw again even if the choice is stored.

        Returns:
            A `discreet.learn.ChosenModel`, whose model has `cost` and `certificate()`.

        Raises:
            PlanError, InvalidParameter, BudgetExceeded, LedgerError, BackendFailed: as `fit`.
        """
        recipe = self._choice(candidates, (features, target, table, where), epsilon, delta, runs)
        return self._desk.perform(recipe, fresh=fresh, ours=False)

    def plan_choose(
        self,
        candidates: Sequence[Any],
        *,
        target: str,
        epsilon: Real,
        delta: Real = 0,
        features: Sequence[str] | None = None,
        runs: int | None = None,
        table: str | None = None,
        where: str | None = None,
    ) -> Plan:
        """Decide a choice without asking for it, with the arguments of `choose`: free, and no data is touched.

        Raises:
            PlanError, InvalidParameter: it cannot be chosen as asked.
        """
        return self._desk.plan(self._choice(candidates, (features, target, table, where), epsilon, delta, runs))

    def _choice(self, candidates: Sequence[Any], *asked: Any) -> Any:
        own = [self._own(model, "answers_of") for model in candidates]
        room = importlib.import_module("discreet.learn.choice")
        return room.choice_of(own, self._desk.tables, *asked)

    def train(
        self,
        trainer: Any,
        *,
        features: Sequence[str] | None = None,
        target: str | None = None,
        table: str | None = None,
        where: str | None = None,
        encode: str = "one-hot",
        transform: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        scheduler: Any = None,
        progress: bool = False,
        fresh: bool = False,
        trusted_code: bool = False,
    ) -> Any:
        """Train a PyTorch model, in place, on rows of people, charged to the ledger before the data is read.

        People are drawn for each step; all rows of a person enter together, and their gradients are clipped as one. All
        steps are charged at once, as a run that stays open. Where the number of people is private, a query counts it
        first, for 2 % of ε.

        Args:
            trainer: a `discreet.learn.torch.PrivateTrainer` that was made without a dataset; its `rows` and
                `batch_size` count people.
            features: columns; left out, all of which something is declared, without the target. Numbers are scaled by
                their bounds to [−1, 1], as float32, in this order.
            target: the column that is predicted: the place of its value among the sorted ones, or its number. A row
                with another value adds nothing.
            table: the table, where there are several.
            where: a condition on its rows, in SQL.
            encode: "one-hot", declared values among the numbers, with a last place for every other; or "index", each
                column of values as a tensor of places, after that of the numbers.
            transform: makes what the loss is given of the tensors of one row; a row that it fails on adds nothing.
            checkpoint: a file that keeps the model while it is trained. With it the same training again is free, and
                one that was broken off takes the steps that were not begun, without another charge.
            scheduler: of the learning rate, stepped after each step.
            progress: whether to show step, ε so far, and the norm of the noisy gradient.
            fresh: whether to train again, and be charged, even if there is one.
            trusted_code: whether the model and its loss may run beside the data, as in `perform`; no policy lets them.

        Returns:
            A `discreet.learn.torch.TrainedModel`, with `model`, `cost` and `certificate()`.

        Raises:
            MissingExtra: PyTorch is not installed.
            PlanError, InvalidParameter: it cannot be trained as asked; nothing was charged.
            BudgetExceeded: the account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charge, which stands.
        """
        given: dict[str, Any] = {"features": features, "target": target, "table": table, "where": where}
        given |= {
            "encode": encode,
            "transform": transform,
            "checkpoint": checkpoint,
            "scheduler": scheduler,
            "progress": progress,
        }
        recipe = self._training(trainer, trusted_code, **given)
        if recipe.counting is not None:
            sql, epsilon = recipe.counting
            counted = self.plan(sql, epsilon=epsilon, noise="laplace")
            if self._desk.payers.found(counted.identity) is None:
                self._desk.refuse_costlier(recipe.with_count)
            ((people,),) = self.sql(sql, epsilon=epsilon, noise="laplace").rows
            recipe = recipe.of(people)
        return self._desk.perform(recipe, fresh=fresh, ours=False, in_steps=True)

    def plan_train(self, trainer: Any, *, people: int | None = None, trusted_code: bool = False, **asked: Any) -> Any:
        """Decide a training without asking for it: its price, steps and noise, free, and no data is touched.

        Args:
            trainer: as in `train`.
            people: a guess at their number, where it is private.
            trusted_code: as in `train`.
            asked: everything else but `fresh`, as in `train`.

        Returns:
            A `discreet.learn.torch.TrainingPlan`.

        Raises:
            MissingExtra, PlanError, InvalidParameter: as `train`.
        """
        recipe = self._training(trainer, trusted_code, **asked)
        if recipe.counting is not None:
            if people is None:
                raise InvalidParameter("The number of people is private.", hint="give a guess: people=10_000")
            recipe = recipe.of(count("people", people))
        return recipe.described(self._desk.plan(recipe, in_steps=True))

    def _training(self, trainer: Any, trusted_code: bool, **asked: Any) -> Any:
        self._refuse_code(f"the model of a {type(trainer).__name__}", trusted_code)
        self._refuse_two("a training")
        return importlib.import_module("discreet.learn.torch.session").training_of(trainer, self._desk.tables, **asked)

    def synthesize(
        self,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        table: str | None = None,
        columns: Sequence[str] | None = None,
        workload: str | Sequence[str] | Sequence[tuple[str, str]] | Mapping[tuple[str, str], int] | None = None,
        label: str | None = None,
        bins: int = 100,
        structural_zeros: Sequence[Mapping[str, Any]] = (),
        method: str = "adaptive",
        rows: int | None = None,
        fresh: bool = False,
    ) -> Any:
        """Make a synthetic data set of a table, charged to the ledger before the data is read.

        The same again is answered from the ledger, free. Values and bounds are those of `columns=` when you connected;
        at most `max_rows` rows of a person are read.

        Args:
            epsilon: the ε to be spent.
            delta: the δ to be spent, above 0.
            table: the table, where there are several.
            columns: columns of it; all but the person's where they are left out.
            workload: pairs of columns to be measured, [("age", "income")], or their weights from 1 to 100 as a dict;
                or queries in SQL, each of which adds 1 to the weight of every pair of columns that it names.
            label: a column whose pairs have twice the weight, since it will be predicted.
            bins: the most bins of a range.
            structural_zeros: combinations that never occur, [{"age": (0, 14), "married": True}].
            method: "adaptive" measures all columns and the pairs that matter most, "independent" columns alone; "mst",
                "aim" and "mwem" are the methods of these names.
            rows: the number of rows, where it is public, for "mwem", which measures it else.
            fresh: whether to draw again even if it is stored.

        Returns:
            A `discreet.synth.Synthetic`, with `sample`, `marginal`, `report`, `save` and `certificate`.

        Raises:
            PlanError, InvalidParameter: it cannot be made as asked; nothing was charged.
            BudgetExceeded: the account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charge, which stands.
        """
        given = (table, columns, workload, label, bins, structural_zeros, method, rows)
        _, recipe = self._synthesis(epsilon, delta, *given)
        made: Any = self._desk.perform(recipe, fresh=fresh, ours=False)
        return made.checked_by(lambda check: self._desk.perform(check, ours=False), recipe.source, recipe.per_person)

    def plan_synthesis(self, **asked: Any) -> Any:
        """Decide a synthesis without asking for it: its price and its size, free, and no data is touched.

        Args:
            asked: everything but `fresh`, as in `synthesize`.

        Returns:
            A plan, with `cells`, `pairs`, `sigma`, `pair_error`, `memory` and `seconds`.

        Raises:
            PlanError, InvalidParameter: it cannot be made as asked.
        """
        room, recipe = self._synthesis(**asked)
        return room.SynthesisPlan.of(recipe, self._desk.plan(recipe))

    def _synthesis(self, *given: Any, **asked: Any) -> tuple[Any, Any]:
        """Return the room of synthesis, and the recipe; the room stands above the engine and is found by its name."""
        self._refuse_two("a synthesis")
        room = importlib.import_module("discreet.synth.asked")
        return room, room.AskedSynthesis(*given, **asked).recipe(self._desk.tables)

    def hierarchy(
        self,
        *,
        levels: Sequence[str] | Mapping[str, int],
        attributes: Sequence[str],
        epsilon: Real | None = None,
        delta: Real | None = None,
        table: str | None = None,
        code: str | None = None,
        units: object = None,
        invariants: Collection[str] = (),
        weights: str | Mapping[str, tuple[Real, Real]] | None = None,
        loss: Mapping[tuple[str, str], Real] | None = None,
        filler: Mapping[str, Any] | None = None,
        bins: int = 100,
        fresh: bool = False,
    ) -> Any:
        """Make census-style tables of all levels of units that agree, charged to the ledger before the data is read.

        The same again is answered from the ledger, free. At most `max_rows` rows of a person are read.

        Args:
            levels: nested columns of units from the coarsest to the finest; or with `code` the length of each level's
                prefix, {"county": 5, "tract": 11}.
            attributes: columns of the histograms, whose values or bounds are declared.
            epsilon: the ε to be spent.
            delta: the δ to be spent, above 0.
            table: the table, where there are several.
            code: the column of which the levels are prefixes.
            units: the public units: a frame, the path of a CSV file, or the name of a public table; what is declared
                of their columns where it is left out.
            invariants: ["total"], where each row is a unit that is replaced: then the number of rows is exact.
            weights: shares of the budget, as pairs of totals and histograms for "all" and each level; or "optimise".
            loss: for "optimise", how much each error counts: {("tract", "cells"): 1}.
            filler: for columns, the value that NULL and what is not public count as; else they are apart.
            bins: the most bins of a range.
            fresh: whether to draw again even if it is stored.

        Returns:
            A `discreet.synth.Hierarchy`, with `table`, `microdata`, `errors`, `to_arrow` and `certificate`.

        Raises:
            PlanError, InvalidParameter, BudgetExceeded, LedgerError, BackendFailed: as `synthesize`.
        """
        given = (levels, attributes, table, code, units, invariants, weights, loss, filler, bins)
        recipe = self._hierarchy(epsilon, delta, *given)
        made: Any = self._desk.perform(recipe, fresh=fresh, ours=False)
        return made.checked_by(lambda check: self._desk.perform(check, ours=False), recipe.source, recipe.per_person)

    def plan_hierarchy(self, **asked: Any) -> Any:
        """Decide a census-style release without asking for it: its price and its errors, free; no data is touched.

        Args:
            asked: everything but `fresh`, as in `hierarchy`.

        Returns:
            A plan, with `errors`, `spectrum`, `weights` and `cost`.

        Raises:
            PlanError, InvalidParameter: it cannot be made as asked.
        """
        recipe = self._hierarchy(**asked)
        return recipe.described(self._desk.plan(recipe))

    def _hierarchy(self, *given: Any, **asked: Any) -> Any:
        self._refuse_two("a release")
        room = importlib.import_module("discreet.synth.hierarchical")
        return room.AskedHierarchy(*given, **asked).recipe(self._desk.tables)

    def _own(self, estimator: Any, can: str, trusted_code: bool = False) -> Any:
        """Return a plain copy of an estimator of the package's own: only these run beside the data untrusted; of any
        other, that is trusted, itself.
        """
        from discreet.engine.plain_copy import is_own_class, plain_copy

        kind = type(estimator)
        own = is_own_class(kind, "learn") and hasattr(kind, can)
        foreign = not own or getattr(kind, "runs_foreign_code", False)
        if (foreign and not trusted_code) or (not own and can == "asked_of"):
            raise InvalidParameter(
                f"{kind.__name__} is no estimator of discreet.learn, and it would run beside the data."
                if not own
                else f"the estimator of this {kind.__name__} would run beside the data.",
                hint=("trusted_code=True, in a process of the data's owner" if own else "SampleAggregate(…)")
                if can == "asked_of"
                else "trusted_code=True, in a process of the data's owner; or dp.learn.evaluate on rows of your own",
            )
        self._refuse_two("a fit")
        if not foreign:
            return plain_copy(estimator)
        self._refuse_under_policy(kind.__name__)
        return estimator

    def _refuse_code(self, what: str, trusted_code: bool) -> None:
        if not trusted_code:
            raise InvalidParameter(
                f"{what} would run beside the data.", hint="pass trusted_code=True, in a process of the data's owner"
            )
        self._refuse_under_policy(what)

    def _refuse_under_policy(self, name: str) -> None:
        if self._by_policy:
            raise InvalidParameter(
                f"{name} would run code beside the data, and this session is opened by a policy.",
                hint="the owner of the data connects to the source itself",
            )

    def _refuse_two(self, what: str) -> None:
        """Refuse what bounds one population where two pay."""
        if self._units is not None:
            both = " and ".join(map(repr, self.accounts))
            raise InvalidParameter(
                f"{what} bounds one population, and two populations pay here: {both}.",
                hint="connect to a table that is of one population alone, with dp.connect",
            )

    def _least(self, parameters: QueryParameters, epsilon: ForEach | None, wanted: WantedErrors) -> Plan:
        """Return the plan of least ε that has the wanted errors."""
        from discreet.plan.least import least

        account = self._account
        if parameters.chosen == "auto":
            raise InvalidParameter(
                "the error follows from caps that bounds='auto' chooses privately.",
                hint="plan with declared caps for the least ε of an error",
            )
        prepared = parameters.prepared(self._desk.tables)
        if prepared.epsilon_or(None if epsilon is None else one("epsilon", epsilon)) is not None:
            raise InvalidParameter(
                "epsilon and error cannot both be given: each follows from the other.",
                hint="leave epsilon out to have the least one for this error",
            )
        try:
            return least(lambda e: parameters.at_once(prepared, e), wanted, account.budget.per_query)
        except (MissingBounds, NotPrivate):
            parameters.complete(self._desk.tables, Fraction(1))  # names all that is missing
            raise

    def _parameters(
        self,
        sql: str,
        delta: ForEach,
        noise: str | None,
        truncation: Real,
        bounds: str | None,
        dialect: str,
        min_people: int,
    ) -> QueryParameters:
        """Return a query as it was asked, without its ε."""
        chosen = bounds if self._units else bounds_parameter(bounds) or self._bounds
        if self._fixed:
            refuse_chosen(chosen, self._fixed)
        desk = self._desk
        few = count("min_people", min_people)
        given = (sql, dialect, delta, noise, truncation, chosen, desk.version, desk.payers.accounts, few)
        return QueryParameters(*given) if self._units is None else FlowParameters(*given, units=self._units)

    def _refuse_recipe(self, recipe: object, trusted_code: bool) -> None:
        name = type(recipe).__name__
        self._refuse_code(f"{name} is a recipe of your own, and it", trusted_code)
        if self._units is not None:
            raise InvalidParameter(
                f"{name} is a recipe of your own, which bounds one population, and two populations pay here: "
                f"{' and '.join(map(repr, self.accounts))}.",
                hint="connect to a table that is of one population alone, with dp.connect",
            )

    def close(self) -> None:
        """Close the runs that are open, the database and the ledger."""
        with ExitStack() as closing:
            for end in (self._ledger.close, self._desk.backend.close, *(run.close for run in self._opened)):
                closing.callback(end)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            told = [_described(account) for account in self.accounts.values()]
        except LedgerError:
            told = ["remaining=unknown, since the ledger cannot be read"]
        return f"Session(tables={', '.join(self.tables)}; {'; '.join(told)})"


def _described(account: Account) -> str:
    """Who pays, who asks, and what is left."""
    who = "" if account.analyst is None else f"; analyst={account.analyst!r}"
    apart = "; kept apart from the others" if account.alone else ""
    return f"population={account.population!r}{who}{apart}; remaining={account.remaining!r}"
