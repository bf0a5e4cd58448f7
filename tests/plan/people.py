"""A table of people inside public bounds, for tests of aggregates."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import exact_cells
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.plan.cases import Engine
from tests.reference.expression import Row
from tests.reference.values import Kind

LEVEL = Fraction(19, 20)
SCHEMA = {"uid": Kind.INT, "region": Kind.TEXT, "x": Kind.INT, "v": Kind.REAL, "w": Kind.REAL, "flag": Kind.BOOL}
FACTS: dict[str, Fact] = {
    "x": Range(-3, 12, integer=True),
    "v": Range(-2, 3),
    "w": Range(100, 200),
    "region": Values("a", "b", "c"),
}


def table(unit: PrivacyUnit | None = None, relation: Relation = Relation.ADD_REMOVE, **facts: Fact) -> TableSchema:
    caps = unit or PrivacyUnit("uid", max_groups=3, max_rows=50)
    return TableSchema("t", {n: Type(k.value) for n, k in SCHEMA.items()}, FACTS | facts, caps, relation)


def plan(sql: str, unit: PrivacyUnit | None = None, **asked: Any) -> Query:
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, **asked}
    return make_query(sql, [table(unit)], **options)


@cache
def rows_of(n: int) -> list[Row]:
    """Rows well inside the bounds, five for a person, a tenth of the cells NULL."""
    rng = np.random.default_rng(7)
    rows: list[Row] = []
    for i in range(n):
        x, z, e = int(rng.integers(-3, 13)), float(rng.normal()), float(rng.normal())
        row: Row = {
            "uid": i // 5,
            "region": "ab"[i % 2],
            "x": x,
            "v": min(max(0.2 * x + 0.3 * z - 0.5, -2.0), 3.0),
            "w": min(max(150 - 3 * x + 4 * e, 100.0), 200.0),
            "flag": bool(rng.integers(0, 2)),
        }
        for name in ("x", "v", "w", "flag"):
            if rng.random() < 0.1:
                row = {**row, name: None}
        rows.append(row)
    return rows


@cache
def engine_of(rows: int) -> Engine:
    """A database with so many rows."""
    engine = Engine.open()
    engine.fill(rows_of(rows), SCHEMA)
    return engine


def exact_on(decided: Query, rows: int) -> list[int]:
    """The exact integers of a question without groups."""
    (exact,) = exact_cells(decided, engine_of(rows).run).values()
    return list(exact)
