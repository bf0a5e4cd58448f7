"""The front door: `connect` and `Session`. It only sequences: plan, charge, run, release."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidParameter, LedgerError, MissingBounds, UnknownColumn
from discreet.privacy.exact import Real, positive
from discreet.privacy.guarantee import Approximate, Budget
from discreet.privacy.unit import PrivacyUnit, Relation

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.backends.backend import Backend, Pinned
    from discreet.ledger.account import Account
    from discreet.ledger.entry import Entry
    from discreet.ledger.ledger import Ledger
    from discreet.plan.plan import Plan
    from discreet.plan.schema import Fact, TableSchema
    from discreet.release import NoisyTable, Release

DEFAULT_LEDGER = "discreet.ledger"
"""Where spending is kept unless `ledger=` says another place; connecting says so aloud."""

LEAST_EPSILON = Fraction(1, 10**6)
"""The least ε of a question; far below it, reports of errors would leave the range of floats."""


def connect(
    source: object,
    *,
    unit: PrivacyUnit | str,
    columns: Mapping[str, Fact] | None = None,
    budget: Budget | None = None,
    population: str | None = None,
    ledger: str | os.PathLike[str] | None = None,
    version: str | None = None,
    names: Sequence[str] | None = None,
    relation: str | Relation | None = None,
    filter: str | None = None,  # noqa: A002  # the field's word, and the front door's
    curve: PrivacyLoss | None = None,
) -> Session:
    """A session over private tables.

    Args:
        source: a path or glob (Parquet, CSV, JSON, a DuckDB database), a data frame (pandas, polars,
            pyarrow), or a dict of
            table names to these.
        unit: who is protected, with caps: `PrivacyUnit("user_id", max_groups=3, max_rows=10)` or `PrivacyUnit.row()`.
        columns: public facts that the owner declares: column → `Range` or `Values` (`"table.column"` where two tables
            share a name).
        budget: how much may ever be learned about each unit; needed when the population is new.
        population: whose budget it is; the table's name unless said. The same population is the same account, whatever
            the file.
        ledger: where spending is kept: a path (SQLite), or ":memory:" for one that ends with the process.
        version: a public label of the data's version; a new label makes old answers new questions.
        names: column names for CSV files without a header.
        relation: "add-remove" or "replace"; fixed when the account is opened.
        filter: "basic", "zcdp", "gdp", "renyi" or "renyi-curve"; fixed when the account is opened.
        curve: for "renyi-curve", the loss of the work that all questions together may not exceed at any order.

    Raises:
        SourceError, LedgerError, InvalidParameter, MissingBounds: see `discreet.errors`; nothing has been charged.
    """
    from discreet.backends.backend import Pinned
    from discreet.backends.duckdb import DuckDB
    from discreet.ledger.ledger import Ledger

    who, facts, place = _unit(unit), columns or {}, _place(ledger)
    wanted = None if relation is None else Relation.parse(relation)
    _check_given(columns=facts, budget=budget, population=population, version=version)
    backend = DuckDB(source, names=names)
    try:
        whose = population if population is not None else _only_table(backend.tables)
        _check_apart(backend.tables)
        known = _pinned(place, whose, backend.tables)
        ids = () if who.column is None else (who.column,)
        shapes = {t: known[t] if t in known else backend.discover(t, ids) for t in backend.tables}
        _check_columns(who, shapes, facts)
        book = Ledger.open(place)
    except BaseException:
        backend.close()
        raise
    try:
        account = book.open_account(whose, budget, relation=wanted, filter=filter, curve=curve)
        tables: list[TableSchema] = []
        for name, shape in shapes.items():
            kept = account.pin(name.casefold(), {**shape.to_json(), "unit": who.column})
            _check_unit(name, kept["unit"], who)
            pinned = Pinned.from_json(kept)
            backend.attach(name, pinned)
            tables.append(_schema(name, pinned, who, facts, account.relation))
        return Session(book, account, backend, tables, version)
    except BaseException:
        book.close()
        backend.close()
        raise


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
    ) -> None:
        self._ledger = ledger
        self._account = account
        self._backend = backend
        self._tables = tuple(tables)
        self._version = version
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

    def plan(
        self, sql: str, *, epsilon: Real, delta: Real = 0, noise: str | None = None, truncation: Real = 0
    ) -> Plan:
        """Decides a question without asking it: free, and no data is touched.

        Raises:
            PlanError, InvalidParameter: the question cannot be answered as asked.
        """
        from discreet.plan.plan import make_plan

        if positive("epsilon", epsilon) < LEAST_EPSILON:
            raise InvalidParameter(
                f"epsilon must be at least {float(LEAST_EPSILON):g}, not {epsilon!s:.40}.",
                hint="so little ε is drowned by its noise: over a million times what one person can change",
            )
        return make_plan(
            sql,
            self._tables,
            population=self._account.population,
            version=self._version,
            epsilon=epsilon,
            delta=delta,
            noise=noise,
            truncation=truncation,
        )

    def sql(
        self,
        sql: str,
        *,
        epsilon: Real,
        delta: Real = 0,
        noise: str | None = None,
        truncation: Real = 0,
        fresh: bool = False,
    ) -> Release:
        """Asks a question: a table with ± intervals, charged to the ledger before the data is read.

        The same question again is answered from the ledger, free; `fresh=True` draws again and is charged.

        Args:
            sql: one SELECT over one table.
            epsilon: the ε to be spent, above 0.
            delta: the δ to be spent; private selection of groups and Gaussian noise need it above 0.
            noise: "laplace" (the default) or "gaussian".
            truncation: the share of ε, below 1, spent on reporting how many units exceed a cap.
            fresh: whether to draw again even if the answer is stored.

        Raises:
            PlanError, InvalidParameter: the question cannot be answered as asked; nothing was charged.
            BudgetExceeded: the account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charge, which stands.
        """
        plan = self.plan(sql, epsilon=epsilon, delta=delta, noise=noise, truncation=truncation)
        if fresh:
            return self._ask(plan)
        with self._asking(plan.identity):
            return self._stored(plan) or self._ask(plan)

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

        parameters = self._parameters(plan)
        self._backend.rehearse(plan.sql, parameters)
        if plan.truncation is not None:
            self._backend.rehearse(plan.truncation, {})
        entry = self._account.charge(plan.identity, plan.charge, note=self._note(plan))
        table = self._measure(plan, parameters)
        self._account.store(plan.identity, entry.seq, table.to_json())
        return Release(plan, table, charged=plan.allocation.guarantee, stored=False)

    def _measure(self, plan: Plan, parameters: dict[str, int]) -> NoisyTable:
        """Runs the plan and adds the noise; from here on nothing may depend on the data but the noisy table."""
        from discreet.noise.entropy import SystemEntropy
        from discreet.run import measure

        rng = SystemEntropy()
        return measure(
            plan, lambda text: self._backend.rows(text, parameters if text == plan.sql else {}), rng
        )

    def _parameters(self, plan: Plan) -> dict[str, int]:
        return {"secret": int.from_bytes(self._account.secret[:8], "big")} if plan.needs_secret else {}

    def _note(self, plan: Plan) -> dict[str, Any]:
        return {"sql": plan.question.text, "table": plan.question.table.name, "version": self._version}


def _place(ledger: object) -> str | os.PathLike[str]:
    if isinstance(ledger, str | os.PathLike):
        return ledger
    if ledger is not None:
        raise InvalidParameter(
            f"ledger must be a path, not {type(ledger).__name__}.", hint='ledger="customers.ledger"'
        )
    print(f"discreet: spending is kept in ./{DEFAULT_LEDGER} (ledger= names another place)", file=sys.stderr)
    return DEFAULT_LEDGER


def _unit(unit: PrivacyUnit | str) -> PrivacyUnit:
    if isinstance(unit, PrivacyUnit) and (unit.is_row or None not in (unit.max_groups, unit.max_rows)):
        return unit
    column = unit.column if isinstance(unit, PrivacyUnit) else unit
    if not isinstance(column, str):
        raise InvalidParameter(
            f"unit must be a PrivacyUnit, not {type(unit).__name__}.",
            hint='dp.PrivacyUnit("user_id", max_groups=3, max_rows=10), or dp.PrivacyUnit.row()',
        )
    raise MissingBounds(
        f"How much of the data one {column!r} may add has not been said.",
        hint=f"unit=dp.PrivacyUnit({column!r}, max_groups=3, max_rows=10): at most 3 groups per query, 10 rows in each "
        "(--max-groups 3 --max-rows 10)",
    )


def _check_given(*, columns: object, budget: object, population: object, version: object) -> None:
    if not isinstance(columns, Mapping):
        raise InvalidParameter(
            f"columns must be a dict from a column's name to a Range or Values, not {type(columns).__name__}.",
            hint="columns={'age': dp.Range(0, 120)}",
        )
    if budget is not None and not isinstance(budget, Budget):
        raise InvalidParameter(
            f"budget must be a Budget, not {type(budget).__name__}.", hint="budget=dp.Budget(epsilon=3)"
        )
    for name, text in (("population", population), ("version", version)):
        if text is not None and not (isinstance(text, str) and 0 < len(text) <= 1000 and "\0" not in text):
            raise InvalidParameter(f"{name} must be a text of 1 to 1000 characters.")


def _pinned(place: str | os.PathLike[str], population: str, tables: Sequence[str]) -> dict[str, Pinned]:
    """The shapes of the tables that the population's account knows: what a known table holds now is not looked at."""
    from discreet.backends.backend import Pinned
    from discreet.ledger.ledger import MEMORY, Ledger

    if place == MEMORY or not Path(place).exists():
        return {}
    with Ledger.existing(place) as book:
        account = book.account(population)
        found = {} if account is None else {t: account.pinned(t.casefold()) for t in tables}
    return {t: Pinned.from_json(kept) for t, kept in found.items() if kept is not None}


def _check_apart(tables: Sequence[str]) -> None:
    """Refuses two tables of one name: FROM makes no difference between upper and lower case."""
    folded = [t.casefold() for t in tables]
    twins = sorted({t for t in tables if folded.count(t.casefold()) > 1})
    if twins:
        raise InvalidParameter(
            f"Two tables are called {twins[0]!r}, upper and lower case aside.", hint="name them apart"
        )


def _only_table(tables: Sequence[str]) -> str:
    if len(tables) == 1:
        return tables[0]
    raise InvalidParameter(
        "Several tables need the name of the population whose budget they share.",
        hint='population="customers"',
    )


def _check_columns(unit: PrivacyUnit, shapes: Mapping[str, Pinned], facts: Mapping[str, Fact]) -> None:
    """Refuses a unit or a declaration of a column that no table has."""
    from discreet.plan.schema import Range, Values

    for table, shape in shapes.items():
        if unit.column is not None and unit.column not in shape.columns:
            raise UnknownColumn(
                f"The unit's column {unit.column!r} is not in table {table!r}.",
                hint=f"columns are: {', '.join(list(shape.columns)[:12])}",
            )
        if unit.column is not None and shape.columns[unit.column] is None:
            raise InvalidParameter(
                f"The unit's column {unit.column!r} holds a nested or binary value.",
                hint="use text or numbers",
            )
    known = {n for shape in shapes.values() for n in shape.columns}
    qualified = {f"{t}.{n}" for t, shape in shapes.items() for n in shape.columns}
    for name, fact in facts.items():
        if name not in known | qualified:
            raise UnknownColumn(
                f"columns= declares {name!r}, which no table has.",
                hint=f"columns are: {', '.join(sorted(known)[:12])}",
            )
        if not isinstance(fact, Range | Values):
            raise InvalidParameter(
                f"columns={{{name!r}: …}} must be a Range or Values, not {type(fact).__name__}.",
                hint=f"columns={{{name!r}: dp.Range(0, 200)}} or dp.Values('a', 'b')",
            )


def _check_unit(table: str, pinned: str | None, unit: PrivacyUnit) -> None:
    """Refuses to read a table that is known to hold many rows per person as if each row were one, or by another id."""
    if pinned == unit.column:
        return
    was, now = (f"the column {c!r}" if c is not None else "each row" for c in (pinned, unit.column))
    raise InvalidParameter(
        f"Who is protected in table {table!r} was fixed when it was first connected: {was}, not {now}.",
        hint="connect it with the same unit, or use another population= for another promise",
    )


def _schema(
    table: str, pinned: Pinned, unit: PrivacyUnit, facts: Mapping[str, Fact], relation: Relation
) -> TableSchema:
    from discreet.plan.schema import TableSchema
    from discreet.plan.types import Type

    types = {n: None if k is None else Type(k) for n, k in pinned.columns.items()}
    mine = {n: facts[n] for n in types if n in facts}
    mine |= {n: facts[f"{table}.{n}"] for n in types if f"{table}.{n}" in facts}
    return TableSchema(table, types, mine, unit, relation)
