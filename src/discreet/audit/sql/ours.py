"""This package's own engine as an auditor meets it: through `Session`, or with its cells read once."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.sampling import Raised
from discreet.audit.sql.databases import PATHS, PUBLIC, SCHEMAS
from discreet.audit.sql.tables import SCHEMA, UNIT, Draws, Row, Tables
from discreet.catalog.schema import Fact, Range, Values
from discreet.engine.cells import Run, exact_cells, level_sums, measure
from discreet.engine.connect import connect
from discreet.engine.release import Release
from discreet.engine.session import Session
from discreet.errors import DiscreetError, MissingExtra
from discreet.mechanisms.threshold import Threshold
from discreet.noise.entropy import SystemEntropy
from discreet.plan.plan import alone
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.query.keys import sort_key

if TYPE_CHECKING:
    from discreet.backends.duckdb import DuckDB
    from discreet.catalog.schema import Scalar
    from discreet.engine.cells import Cells
    from discreet.mechanisms.additive import Additive
    from discreet.plan.query import Query

FACTS: Mapping[str, Fact] = MappingProxyType(
    {"x": Range(0, 10), "v": Range(0, 10), "region": Values("a", "b"), "flag": Values(True, False)}
)
"""What the owner of the random tables declares; the values of `level` stay private."""

SEVERAL: Mapping[str, Fact] = MappingProxyType(
    {
        "people.age": Range(0, 10),
        "orders.amount": Range(0, 10),
        "orders.day": Values(1, 2, 3),
        "items.price": Range(0, 10),
        "items.sku": Values("p", "q"),
        "parts.grams": Range(0, 10),
        "zones.rate": Range(0, 2),
    }
)
"""What the owner of the random databases declares; people's cities stay private, and zones say themselves."""

_AMPLE = Budget(epsilon=10**9, delta=Fraction(1, 2))  # for ledgers from which one answer is paid

Key: TypeAlias = "tuple[Scalar, ...]"

_UNMOVED = 2
"""So many groups that no neighbour moves are drawn all the same."""


@dataclass(frozen=True)
class Connection:
    """Open tables: the frames that `connect` takes, a session that plans, and the database that reads cells."""

    frames: Mapping[str, Any]
    planner: Session
    database: DuckDB

    def close(self) -> None:
        """Close session and database."""
        self.planner.close()
        self.database.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, plan: Query, secret: int) -> Run:
        """Run the plan's SQL on the tables, with a secret of the auditor's choice."""
        return lambda text: self.database.rows(text, {"secret": secret} if plan.is_keyed(text) else {})


@dataclass(frozen=True)
class Ours:
    """`discreet` with one ε and δ for each query.

    `ask` goes the whole way: a new session with a fresh ledger, the charge, the database, the release. `bulk`
    plans once, reads each neighbour's exact cells once, under one secret, and draws the noisy table a million
    times a second, or with `releases` whole releases, a thousand a second.

    Attributes:
        epsilon, delta: what each query costs: the claim to be audited.
        unit: who is protected, with caps.
        columns: what the owner declares.
        relation: "add-remove" or "replace".
        noise: "laplace" or "gaussian".
        truncation: the share of ε that goes to reports on truncation.
        types: the SQL types of the columns: of every table, or for each table by its name.
        public: the tables without personal data; how the units of the others are found, `unit.tables` says.
        releases: whether `bulk` draws releases.
        secret: the account's key, by which the groups of a unit that has too many are chosen: for `bulk`, whose two
            neighbours belong to one account. `ask` opens an account with a key of its own each time.
    """

    epsilon: Real = 1
    delta: Real = Fraction(1, 10**5)
    unit: PrivacyUnit = field(default_factory=lambda: PrivacyUnit(UNIT, max_groups=2, max_rows=2))
    columns: Mapping[str, Fact] = field(default_factory=lambda: FACTS)
    relation: str = Relation.ADD_REMOVE.value
    noise: str = "laplace"
    truncation: Real = 0
    types: Mapping[str, str] | Mapping[str, Mapping[str, str]] = field(default_factory=lambda: SCHEMA)
    releases: bool = False
    secret: int = 0x9E3779B97F4A7C15
    public: tuple[str, ...] = ()

    @classmethod
    def over_databases(cls, *, max_groups: int = 2, max_rows: int = 2, **settings: Any) -> Self:
        """Return the engine over the tables of `RandomDatabases`."""
        unit = PrivacyUnit(UNIT, max_groups=max_groups, max_rows=max_rows, tables=PATHS)
        return cls(unit=unit, columns=SEVERAL, types=SCHEMAS, public=PUBLIC, **settings)

    def open(self, tables: Tables) -> Connection:
        """Open a session and a database over the tables."""
        from discreet.backends.duckdb import DuckDB
        from discreet.catalog.owners import find_owners, id_columns
        from discreet.engine.tables import find_shapes

        frames = {name: _arrow(rows, self._types_of(name)) for name, rows in tables.items()}
        planner = self.session(frames)  # first: it refuses what cannot be connected
        database = DuckDB(frames)
        # as `connect` does it for a new account, so that ids are of the types that the planner takes for granted
        owners = find_owners(self.unit, self.public, database.tables)
        for name, shape in find_shapes(database, [owners], [{}]).items():
            database.attach(name, shape, id_columns(owners, name))
        return Connection(frames, planner, database)

    def _types_of(self, name: str) -> Mapping[str, str]:
        found = self.types.get(name)
        if isinstance(found, Mapping):
            return found
        return {column: kind for column, kind in self.types.items() if isinstance(kind, str)}

    def ask(self, connection: Connection, query: str) -> object:
        """Asks a new session, with a ledger of its own."""
        with self.session(connection.frames) as session:
            return shown(
                session.sql(query, epsilon=self.epsilon, delta=self.delta, noise=self.noise, truncation=self.truncation)
            )

    def bulk(self, first: Connection, second: Connection, query: str) -> tuple[Draws, Draws]:
        """Draws of the noisy tables of two neighbours, or of their releases."""
        if self.releases or self._reads_more(first, query):
            return self._releases(first, query), self._releases(second, query)
        return noisy_tables(self.exact(first, query), self.exact(second, query))

    def _reads_more(self, connection: Connection, query: str) -> bool:
        """Return whether the result has more in it than cells, or follows from more; then all of it is looked at."""
        try:
            plan = self.plan(connection, query)
            return bool(plan.trees or plan.weights)
        except DiscreetError:
            return False

    def exact(self, connection: Connection, query: str) -> Exact | Raised:
        """Return the plan and the exact cells of a query, or the error that its analyst would see."""
        try:
            plan = self.plan(connection, query)
            run = connection.run(plan, self.secret)
            reports = tuple(int(c) for text in plan.truncation for c in run(text)[0])
            return Exact(plan, exact_cells(plan, run), reports)
        except DiscreetError as refusal:
            return Raised(type(refusal).__name__, str(refusal))

    def plan(self, connection: Connection, query: str) -> Query:
        """Return the decided query."""
        return connection.planner.plan(
            query, epsilon=self.epsilon, delta=self.delta, noise=self.noise, truncation=self.truncation
        ).query

    def _releases(self, connection: Connection, query: str) -> Draws:
        """Draws of releases by `discreet.engine.measure` itself; only the database is asked no more than once."""
        try:
            plan = self.plan(connection, query)
            run = connection.run(plan, self.secret)
            read = cache(run)  # of a later round of selection, for each set of groups shown before
            for text in plan.statements:
                read(text)
        except DiscreetError as refusal:
            raised = Raised(type(refusal).__name__, str(refusal))
            return lambda n: [raised] * n
        rng, whole = SystemEntropy(), alone(plan, "audited")
        return lambda n: [shown(Release(whole, measure(plan, read, rng))) for _ in range(n)]

    def session(self, frames: Mapping[str, Any]) -> Session:
        """Return a new session over the frames, with a fresh in-memory ledger."""
        return connect(
            dict(frames),
            unit=self.unit,
            public=self.public,
            columns=self.columns,
            budget=_AMPLE,
            population="audited",
            ledger=":memory:",
            relation=self.relation,
        )


def shown(release: Release) -> object:
    """Everything that an analyst sees of a release, in the order in which it is shown."""
    return {
        "columns": release.columns,
        "rows": release.rows,
        "intervals": [release.interval(name) for name in release.columns],
        "notes": release.notes,
    }


def _arrow(rows: Iterable[Row], types: Mapping[str, str]) -> Any:
    try:
        pa = importlib.import_module("pyarrow")
    except ImportError:
        raise MissingExtra("Auditing this package's SQL needs pyarrow.", hint="pip install 'discreet[arrow]'") from None
    listed: Sequence[Row] = list(rows)
    kinds = {
        "BOOLEAN": pa.bool_(),
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        "VARCHAR": pa.string(),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us"),
    }
    return pa.table({n: pa.array([r.get(n) for r in listed], type=kinds[t]) for n, t in types.items()})


@dataclass(frozen=True, slots=True)
class Exact:
    """What the database gave for one neighbour; private."""

    plan: Query
    cells: Cells
    reports: tuple[int, ...] = ()

    @property
    def tables(self) -> list[Cells]:
        """The cells, and the totals of each level that is measured as well."""
        return [self.cells, *(level_sums(level.kept, self.cells) for level in self.plan.allocation.levels)]


def noisy_tables(first: Exact | Raised, second: Exact | Raised) -> tuple[Draws, Draws]:
    """For each neighbour a function that draws so many noisy tables, a row of numbers each.

    A group is a number for whether it is shown, where groups are selected, and one for each noisy integer (0
    where it is hidden). The row is the noisy table written out, over the groups of both neighbours, but
    for groups that neither neighbour moves, of which two are kept: their numbers are independent of the rest
    and have the same law under both, so that nothing can be learned from them.
    """
    tables = [e.tables if isinstance(e, Exact) else [] for e in (first, second)]
    keys = [_looked_at(one, two) for one, two in zip_longest(*tables, fillvalue={})]
    one, two = (_draws(e, keys) for e in (first, second))
    return one, two


def _looked_at(one: Cells, two: Cells) -> list[Key]:
    """Return the groups that differ, and a few that do not."""
    found = {*one, *two}
    moved = [k for k in found if one.get(k) != two.get(k)]
    kept = sorted(found - set(moved), key=sort_key)[:_UNMOVED]
    return sorted([*moved, *kept], key=sort_key)


def _draws(exact: Exact | Raised, keys: Sequence[Sequence[Key]]) -> Draws:
    if isinstance(exact, Raised):
        return lambda n: [exact] * n

    def draw(n: int) -> NDArray[np.float64]:
        columns = [*_groups(exact, keys[0], n), *_levels(exact, keys[1:], n), *_reports(exact, n)]
        return np.column_stack(columns or [np.zeros(n)])

    return draw


def _groups(exact: Exact, keys: Sequence[Key], n: int) -> list[NDArray[np.float64]]:
    columns: list[NDArray[np.float64]] = []
    allocation, rng = exact.plan.allocation, SystemEntropy()
    for key in keys:
        cells = exact.cells.get(key)
        shown = np.full(n, float(cells is not None))
        if allocation.threshold is not None:
            if cells is not None:
                assert isinstance(allocation.threshold, Threshold)  # of rounds whole releases are drawn
                shown = np.asarray(allocation.threshold.keep([cells[-1]] * n, rng), dtype=np.float64)
            columns.append(shown)
        for i, noise in enumerate(allocation.noises):
            values = np.zeros(n) if cells is None else _noisy(cells[i], noise, n)
            columns.append(np.where(shown > 0, values, 0.0))
    return columns


def _levels(exact: Exact, keys: Sequence[Sequence[Key]], n: int) -> list[NDArray[np.float64]]:
    levels = zip(exact.plan.allocation.levels, exact.tables[1:], keys, strict=True)
    return [
        _noisy(totals[key][i], noise, n)
        for level, totals, found in levels
        for key in found
        for i, noise in enumerate(level.noises)
    ]


def _reports(exact: Exact, n: int) -> list[NDArray[np.float64]]:
    each = zip(exact.plan.reports, exact.plan.allocation.reports, strict=True)
    noises = [noise for report, noise in each for _ in range(report.places)]
    return [_noisy(count, noise, n) for count, noise in zip(exact.reports, noises, strict=True)]


def _noisy(cell: int, noise: Additive, n: int) -> NDArray[np.float64]:
    """Return the cell plus fresh noise as floats, which loses digits only beyond 2^53 and tells nothing by that."""
    drawn = noise.draw(n, SystemEntropy())
    if abs(cell) < 1 << 52:
        return np.asarray(drawn + cell, dtype=np.float64)
    return np.asarray([float(int(z) + cell) for z in drawn], dtype=np.float64)
