"""A table to plan against; planning needs no data."""

from __future__ import annotations

from typing import Any

from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation

COLUMNS = {
    "user_id": Type.INT,
    "region": Type.TEXT,
    "day": Type.INT,
    "amount": Type.REAL,
    "seen": Type.DATE,
    "flag": Type.BOOL,
    "blob": None,
}
FACTS: dict[str, Range | Values] = {
    "amount": Range(0, 200),
    "region": Values("north", "south", "east", "west"),
    "day": Range(1, 7, integer=True),
}
USER = PrivacyUnit("user_id", max_groups=3, max_rows=10)


def visits(unit: PrivacyUnit = USER, relation: Relation = Relation.ADD_REMOVE) -> TableSchema:
    """The table of the examples."""
    return TableSchema("visits", COLUMNS, FACTS, unit, relation)


def planned(sql: str, table: TableSchema | None = None, **asked: Any) -> Query:
    """The plan of a question to `visits`, for ε = 1 unless said."""
    options: dict[str, Any] = {"population": "customers", "version": None, "epsilon": 1, **asked}
    return make_query(sql, [table or visits()], **options)
