"""The SQL audit of several tables: neighbours differ in one unit, questions reach every shape, slips are caught."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from discreet.audit import audit_sql
from discreet.audit.outputs.sampling import Raised
from discreet.audit.sql import Ours, RandomDatabases, all_database_queries
from discreet.audit.sql.databases import DATABASE_TRAPS, PUBLIC, SCHEMAS, owners, random_database_query, without
from discreet.audit.sql.ours import Connection
from discreet.audit.sql.tables import Row, Tables
from discreet.errors import InvalidParameter
from discreet.plan.query import Query
from discreet.privacy.guarantee import Budget

ME = 1_000_003


def as_multisets(tables: Tables) -> dict[str, Counter[str]]:
    return {name: Counter(map(repr, rows)) for name, rows in tables.items()}


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_every_pair_of_databases_differs_in_one_unit(relation: str) -> None:
    pairs = RandomDatabases(relation=relation).pairs(np.random.default_rng(0))
    for worlds in itertools.islice(pairs, 60):
        rests = [as_multisets(without(w, ME)) for w in (worlds.first, worlds.second)]
        assert rests[0] == rests[1]
        if relation == "add-remove":
            assert as_multisets(worlds.first) == rests[0]
        assert all(set(r) == set(SCHEMAS[t]) for t, rows in worlds.second.items() for r in rows)


def test_random_databases_hold_dirty_keys() -> None:
    seen = Counter[str]()
    for worlds in itertools.islice(RandomDatabases().pairs(np.random.default_rng(1)), 40):
        for name in set(SCHEMAS) - set(PUBLIC):
            whose = [len(owners(worlds.second, name, row)) for row in worlds.second[name]]
            seen.update(f"{name}: {min(n, 2)}" for n in whose)
    assert {"items: 0", "items: 1", "items: 2", "parts: 2", "people: 0", "orders: 0"} <= seen.keys()


def test_questions_over_several_tables_are_answered_and_those_across_people_refused() -> None:
    ours, rng = Ours.over_databases(), np.random.default_rng(0)
    texts = [*DATABASE_TRAPS, *(random_database_query(rng) for _ in range(20))]
    with ours.open({name: [] for name in SCHEMAS}) as nobody:
        refused = [t for t in texts if isinstance(ours.exact(nobody, t), Raised)]
    assert set(DATABASE_TRAPS[-5:]) <= set(refused) and len(refused) < len(texts) / 4


def test_questions_over_several_tables_are_the_same_for_the_same_seed() -> None:
    one, two = (list(itertools.islice(all_database_queries(np.random.default_rng(7)), 60)) for _ in range(2))
    assert one == two and set(DATABASE_TRAPS) <= set(one)


def test_ids_are_read_as_connecting_reads_them() -> None:
    types = {**SCHEMAS, "orders": {**SCHEMAS["orders"], "buyer": "DOUBLE"}}
    given = Ours.over_databases()
    ours = Ours(unit=given.unit, columns=given.columns, types=types, public=given.public)
    row: Row = {"buyer": 7.0, "oid": 1, "amount": 1.0, "day": 1}
    tables: Tables = {
        **{name: [] for name in SCHEMAS},
        "people": [{"uid": 7, "city": "a", "age": 1}],
        "orders": [row, row | {"buyer": 7.5}],
    }
    with pytest.raises(InvalidParameter, match="ids are whole numbers or text"):
        ours.open(tables)


class AcrossPeople(Ours):
    """Joins forget whose the rows are."""

    def plan(self, connection: Connection, query: str) -> Query:
        plan = super().plan(connection, query)
        return replace(plan, sql=plan.sql.replace("ON l.u = r.u", "ON TRUE"))


def test_a_slip_in_joins_is_found_by_random_questions() -> None:
    audit = audit_sql(
        AcrossPeople.over_databases(delta=0),
        claimed=Budget(epsilon=1),
        tables=RandomDatabases(),
        candidates=30,
        samples=5_000,
        seconds=600,
    )
    assert audit.violated


def test_impossible_random_databases_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="people must be at least 0, and rows at least 1"):
        RandomDatabases(rows=0)
