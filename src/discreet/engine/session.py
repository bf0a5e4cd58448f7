"""The front door: `Session`. It reads what is asked, and has it performed."""

from __future__ import annotations

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
from discreet.engine.wings import Wings, decides
from discreet.errors import DiscreetError, InvalidParameter, LedgerError, MissingBounds, NotPrivate
from discreet.plan.least import WantedErrors, least, read_wanted
from discreet.plan.plan import Plan
from discreet.plan.query import confidence_level
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
    from discreet.privacy.guarantee import Approximate
    from discreet.privacy.unit import PrivacyUnit, Relation

S = TypeVar("S")
R = TypeVar("R")


class Session(Wings):
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
        """The one account. Raises InvalidParameter: there are two."""
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
            error: in place of epsilon, output column → the largest error that it may have with probability
                `confidence`: a number, or a share of its size as "5%". The query is asked at the least ε, to three
                digits, that gives it.
            confidence: of `error`.
            assuming: public guesses at the result, for errors that depend on it: output column → its size, "rows" →
                over how many rows a mean is.
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
        if (wanted := _wanted(error, confidence, assuming)) is not None:
            epsilon = self._least(parameters, epsilon, wanted).epsilon
        recipe = Questions(lambda tables, part: parameters.plan(tables, epsilon, part), self._read_public)
        found = self._desk.perform(recipe, fresh=fresh)
        plan = next(iter(found.values())).plan
        if plan.outer is None:
            return found[""]
        from discreet.engine.outer_release import OuterRelease

        return OuterRelease(plan, found, self._read_public)

    @decides(sql)
    def plan(
        self,
        sql: str,
        epsilon: ForEach | None,
        error: Mapping[str, Real] | None,
        confidence: Real,
        assuming: Mapping[str, Real] | None,
        **asked: Any,
    ) -> Plan:
        """Plan a query, with the arguments of `sql`: free, and no data is touched.

        With `error` in the place of `epsilon` the plan has the least ε that gives it.

        Raises:
            PlanError, InvalidParameter: the query cannot be answered as asked.
        """
        parameters, wanted = self._parameters(sql, **asked), _wanted(error, confidence, assuming)
        if wanted is None:
            return self._desk.payers.with_outlook(parameters.plan(self._desk.tables, epsilon))
        return self._desk.payers.with_outlook(self._least(parameters, epsilon, wanted))

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

    def _least(self, parameters: QueryParameters, epsilon: ForEach | None, wanted: WantedErrors) -> Plan:
        """Return the plan of least ε that has the wanted errors."""
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
        self._refuse_two(f"{name} is a recipe of your own, which")

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


def _wanted(
    error: Mapping[str, Real] | None, confidence: Real, assuming: Mapping[str, Real] | None
) -> WantedErrors | None:
    """Return the errors that a query may have; None where it is asked at an ε."""
    if error is not None:
        return read_wanted(error, confidence_level(confidence), assuming)
    if assuming is not None:
        raise InvalidParameter(
            "assuming goes with error.",
            hint="error={'n': '5%'}, assuming={'n': 10_000}; or plan(…, epsilon=0.5).error('n', assuming=…)",
        )
    return None
