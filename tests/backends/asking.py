"""Connecting and asking in tests: a session over anything, and its exact bounded answers without noise."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import discreet as dp
from discreet.backends.duckdb import DuckDB
from discreet.catalog.owners import Owner, id_columns
from discreet.catalog.schema import Fact, TableSchema
from discreet.catalog.types import Type
from discreet.engine.cells import exact_cells
from discreet.engine.session import Session
from discreet.engine.tables import with_id_kinds
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.unit import Relation
from tests.written import written

ROW = dp.PrivacyUnit.row()
PERSON = dp.PrivacyUnit("uid", max_groups=2, max_rows=3)
BUDGET = dp.Budget(1000, "0.1", per_query=1000)

REGIONS: dict[str, Fact] = {"amount": dp.Range(0, 100), "region": dp.Values("north", "south")}
CLEAN_ROWS: list[dict[str, Any]] = [
    {"uid": 1, "region": "north", "amount": 10},
    {"uid": 2, "region": "south", "amount": 20},
    {"uid": 3, "region": "north", "amount": 30},
]
EVERYTHING = (
    "SELECT region, COUNT(*) AS n, COUNT(amount) AS k, SUM(amount) AS s, COUNT(DISTINCT uid) AS u "
    "FROM t GROUP BY region"
)


def connected(source: object, **options: Any) -> Session:
    """A session, with each row a person and a ledger in memory unless said."""
    said: dict[str, Any] = {"unit": ROW, "budget": BUDGET, "ledger": ":memory:", "population": "people", **options}
    return dp.connect(source, **said)


def exact(session: Session, sql: str) -> dict[tuple[Any, ...], list[int]]:
    """The bounded integers that the noise would be added to; nothing is charged."""
    query, desk = session.plan(sql, epsilon=1, delta="1e-6").query, session._desk
    return exact_cells(query, lambda text: desk.backend.rows(text, desk._parameters(query.is_keyed(text))))


def answers(source: object, sql: str, **options: Any) -> dict[tuple[Any, ...], list[int]]:
    """The bounded integers of a question to a source."""
    with connected(source, **options) as session:
        return exact(session, sql)


class Known:
    """A table `t` whose shape was pinned when it was first connected, and whose source changes afterwards.

    This is what a session does with a table that its ledger knows; it is done here without a ledger, to be quick.
    """

    def __init__(self, source: object, unit: dp.PrivacyUnit = PERSON, facts: dict[str, Fact] | None = None) -> None:
        with closing(DuckDB({"t": source})) as backend:
            owners = {"t": Owner(unit.column)}
            self.pinned = with_id_kinds(backend, {"t": backend.discover("t")}, owners, ())["t"]
            self.ids = id_columns(owners, "t")
        types = {n: None if k is None else Type(k) for n, k in self.pinned.columns.items()}
        self.table = TableSchema("t", types, REGIONS if facts is None else facts, unit, Relation.ADD_REMOVE)
        self.plan = make_query(EVERYTHING, [self.table], population="people", version=None, epsilon=1)

    def counted(self, source: object) -> dict[str, tuple[int, int, float]]:
        """Region → (people, amounts known, their sum), as the engine bounds them, of what the source holds now."""
        with closing(DuckDB({"t": source})) as backend:
            backend.attach("t", self.pinned, self.ids)
            return by_region(self.plan, exact_cells(self.plan, lambda text: backend.rows(text, {})))


def counted(source: object, **options: Any) -> dict[str, tuple[int, int, float]]:
    """The same through a session."""
    with written(connected(source, **{"unit": PERSON, "columns": REGIONS, **options})) as session:
        return by_region(session.plan(EVERYTHING, epsilon=1).query, exact(session, EVERYTHING))


def by_region(plan: Query, cells: dict[tuple[Any, ...], list[int]]) -> dict[str, tuple[int, int, float]]:
    """The numbers of each region, as the result is made from its cells."""
    known, total, units = (plan.column(name).compiled() for name in "ksu")
    return {key[0]: (units(key, c), known(key, c), float(total(key, c))) for key, c in cells.items()}
