"""The reference's questions over several tables, asked of the real engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import reject

from discreet.catalog.schema import Reached, TableSchema
from discreet.catalog.types import Type
from discreet.engine.cells import exact_cells
from discreet.errors import UnsupportedQuery
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.plan.cases import Engine, as_value, facts_of, in_reference_order, reference_cells
from tests.reference.question import Cells
from tests.reference.relation import Database, Table, unit_rows
from tests.reference.relation_sql import database_sql
from tests.strategies.questions import Case
from tests.strategies.relation import RelationCase


def schema_of(table: Table, case: RelationCase, relation: Relation) -> TableSchema:
    """A table as its owner declares it."""
    q = case.question
    link = table.link
    unit = PrivacyUnit.row() if table.unit is None else PrivacyUnit(table.unit, q.max_groups, q.max_rows)
    reached = None if link is None or table.unit is not None else Reached(link.column, link.table, link.key)
    columns = {n: Type(k.value) for n, k in table.columns.items()}
    facts = facts_of(case.facts[table.name])
    return TableSchema(table.name, columns, facts, unit, relation, reached=reached, public=table.public)


def relation_plan(case: RelationCase, relation: Relation = Relation.ADD_REMOVE, **asked: Any) -> Query:
    """The plan of a case."""
    tables = [schema_of(t, case, relation) for t in case.database.tables]
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, "delta": "1e-6", **asked}
    try:
        return make_query(case.sql, tables, **options)
    except UnsupportedQuery as error:
        # groups that are units (of a SELECT DISTINCT as well), which nothing is measured of, or too long a query
        meant = ("Each group would be of one unit", "A result stands beside people's rows", "more than 100 tables")
        if any(text in error.message for text in meant):
            reject()
        raise


@dataclass(frozen=True, slots=True)
class RelationEngine:
    """A DuckDB with a few small tables in it."""

    engine: Engine

    @classmethod
    def open(cls) -> RelationEngine:
        """An empty one; it can be filled again and again."""
        return cls(Engine.open())

    def fill(self, database: Database) -> None:
        """Replaces the tables."""
        for statement in database_sql(database):
            self.engine.connection.execute(statement)

    def cells(self, plan: Query, database: Database) -> Cells:
        """The exact bounded integers of the plan on this database."""
        self.fill(database)
        return {tuple(map(as_value, k)): tuple(c) for k, c in exact_cells(plan, self.engine.run).items()}


def both(
    engine: RelationEngine, case: RelationCase, relation: Relation, plan: Query | None = None
) -> tuple[Cells, Cells]:
    """The cells as the engine and as the referee have them, in the referee's order."""
    plan = plan or relation_plan(case, relation)
    rows = tuple(unit_rows(case.relation, case.database))
    single = Case(case.question, case.sql, rows, {})
    found = in_reference_order(engine.cells(plan, case.database), single, plan)
    return found, reference_cells(single, plan, engine.engine.order(plan))
