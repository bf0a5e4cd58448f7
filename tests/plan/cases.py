"""The reference's cases, asked of the real engine: planned, run by DuckDB, read as exact integers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import duckdb

from discreet.backends.connection import open_database
from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import exact_cells
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.reference.expression import And, Between, Compare, Expression, In, Literal, Row
from tests.reference.measures import CountUnits, OnLattice
from tests.reference.question import Cells, Key, Order, Question, bounded_cells
from tests.reference.sql import table_sql
from tests.reference.values import Kind, Value
from tests.strategies.questions import SCHEMA, TABLE, Case

SECRET = 0x9E3779B97F4A7C15
"""The account's key in these tests."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A DuckDB with one small table in it, which runs a plan's SQL as the backend does."""

    connection: duckdb.DuckDBPyConnection

    @classmethod
    def open(cls) -> Engine:
        """An empty one; it can be filled again and again."""
        connection = open_database()
        connection.execute("SET threads = 1")
        return cls(connection)

    def fill(self, rows: Sequence[Row], schema: Mapping[str, Kind] = SCHEMA) -> None:
        """Replaces the table by these rows."""
        for statement in table_sql(TABLE, schema, rows):
            self.connection.execute(statement)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs SQL with the secret, where it has one."""
        return self.connection.execute(sql, {"secret": SECRET} if "$secret" in sql else {}).fetchall()

    def cells(self, plan: Query, rows: Sequence[Row], schema: Mapping[str, Kind] = SCHEMA) -> Cells:
        """The exact bounded integers of the plan on these rows; where groups are private, the units come last."""
        self.fill(rows, schema)
        return {tuple(map(as_value, k)): tuple(c) for k, c in exact_cells(plan, self.run).items()}

    def order(self, plan: Query) -> Order:
        """The order of a unit's groups that the plan's own hash gives to the table's units; 0 where none ranks."""
        if "$secret" not in plan.sql:
            return lambda _unit, _key: 0
        hashes = self._hashes(plan)
        return lambda unit, key: hashes[unit, key]

    def _hashes(self, plan: Query) -> dict[tuple[Value, Key], int]:
        keys = plan.question.keys
        names = [f"g{i}" for i in range(len(keys.exprs))]
        stage = "unit kept" if '"unit kept"' in plan.sql else "unit groups"  # rows are ranked, or tallies
        stages, ranked = plan.sql.split(f',\n"{stage}" AS')
        start = ranked.index("ORDER BY ") + len("ORDER BY ")
        hashed = ranked[start : ranked.index("$secret)", start) + len("$secret)")]
        found: dict[tuple[Value, Key], int] = {}
        for unit, *key, value in self.run(f'{stages}\nSELECT u, {", ".join(names)}, {hashed} FROM "unit rows"'):
            found[unit, _key(key, keys.lists)] = value
        return found


def schema_of(case: Case, relation: Relation = Relation.ADD_REMOVE) -> TableSchema:
    """The case's table as its owner declares it."""
    unit = PrivacyUnit.row() if case.unit is None else PrivacyUnit(case.unit, case.max_groups, case.max_rows)
    return TableSchema(TABLE, {n: Type(k.value) for n, k in SCHEMA.items()}, facts_of(case.columns), unit, relation)


def facts_of(columns: Mapping[str, tuple[Any, ...]]) -> dict[str, Fact]:
    """Declarations as the owner writes them."""
    return {n: Range(*d[1:]) if d[0] == "range" else Values(*d[1]) for n, d in columns.items()}


def plan_of(case: Case, relation: Relation = Relation.ADD_REMOVE, **asked: Any) -> Query:
    """The plan of a case."""
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, "delta": "1e-6", **asked}
    return make_query(case.sql, [schema_of(case, relation)], **options)


def grid_exponent(m: OnLattice) -> int:
    """The least j with |bound| at most 2^(30 + j): written anew, not taken from the engine."""
    bound = max(abs(m.low), abs(m.high))
    if m.expression.kind is Kind.INT or bound == 0:
        return 0
    return next(j for j in range(-1000, 1000) if bound <= Fraction(2) ** (30 + j))


def reference_cells(case: Case, plan: Query, order: Order) -> Cells:
    """What the referee says; its columns in the plan's order, and the number of units last where groups are private."""
    question = narrowed(with_known_keys(case, plan)).on_lattice(grid_exponent)
    if question.groups is None:
        question = replace(question, measures=(*question.measures, CountUnits()))
    return bounded_cells(case.rows, question, order)


def narrowed(question: Question) -> Question:
    """The question with the bounds and keys that its filter leaves: written anew, not taken from the engine."""
    terms = [(e, o, c) for part in _parts(question.where) for e, o, c in _terms(part)]
    keys = question.declared_keys
    for i, expression in enumerate(question.keys):
        own = [(o, c) for e, o, c in terms if e == expression and None not in c]
        kept = [key for key in keys or () if own and all(_passes(key[i], o, c) for o, c in own)]
        keys = tuple(kept) if kept else keys
    measures = tuple(_cut(m, terms) if isinstance(m, OnLattice) else m for m in question.measures)
    return replace(question, declared_keys=keys, measures=measures)


def _parts(where: Expression | None) -> list[Expression]:
    if isinstance(where, And):
        return [*_parts(where.left), *_parts(where.right)]
    return [] if where is None else [where]


def _terms(part: Expression) -> list[tuple[Expression, str, tuple[Value, ...]]]:
    """The comparisons of an expression with constants of its own kind that a term of the filter makes."""
    match part:
        case Between(e, low, high):
            found: list[tuple[Expression, str, tuple[Expression, ...]]] = [(e, ">=", (low,)), (e, "<=", (high,))]
        case In(e, options):
            found = [(e, "in", options)]
        case Compare(op, left, right) if op in _TURNED:
            found = [(left, op, (right,)), (right, _TURNED[op], (left,))]
        case _:
            return []
    return [
        (e, op, tuple(c.value for c in constants if isinstance(c, Literal)))
        for e, op, constants in found
        if all(isinstance(c, Literal) and c.kind == e.kind for c in constants)
    ]


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _passes(value: Value, op: str, constants: tuple[Value, ...]) -> bool:
    if value is None or op in ("=", "in"):
        return value is not None and value in constants
    (c,) = constants
    if isinstance(value, str) or isinstance(c, str) or c is None:
        return True
    return {"<": value < c, "<=": value <= c, ">": value > c, ">=": value >= c}[op]


def _cut(m: OnLattice, terms: Sequence[tuple[Expression, str, tuple[Value, ...]]]) -> OnLattice:
    low, high, whole = m.low, m.high, int(m.expression.kind is Kind.INT)
    for e, op, constants in terms:
        numbers = [Fraction(c) for c in constants if isinstance(c, int | float) and math.isfinite(c)]
        if e != m.expression or len(numbers) < len(constants):
            continue
        if op in (">", ">=", "=", "in"):
            low = max(low, min(numbers) + whole * (op == ">"))
        if op in ("<", "<=", "=", "in"):
            high = min(high, max(numbers) - whole * (op == "<"))
    return m if low > high or (whole and math.ceil(low) > math.floor(high)) else replace(m, low=low, high=high)


def with_known_keys(case: Case, plan: Query) -> Question:
    """The case's question, with the keys that the plan knows of its expressions."""
    question, lists = case.question, plan.question.keys.lists
    if question.groups is not None or lists is None:
        return question
    places = key_places(case, plan)
    known = {tuple(as_value(key[i]) for i in places) for key in product(*lists)}
    return replace(question, declared_keys=tuple(known))


def columns_of(case: Case, plan: Query) -> list[dict[int, int]]:
    """For each integer column of the case's measures, the places of the plan's that add up to it, and how often."""
    from discreet.plan.nodes.mean import Mean
    from discreet.plan.nodes.node import Measured
    from discreet.plan.rules.recentred import Recentred

    found: list[dict[int, int]] = []
    for _, e in plan.question.outer.columns[len(case.question.keys) :]:
        match e:
            case Mean():
                found += [{e.numerator.index: 1}, {e.denominator.index: 1}]
            case Recentred():
                times = e.centre / e.total.step
                assert times.denominator == 1
                found.append({e.total.index: 1, e.count.index: times.numerator})
            case _:
                assert isinstance(e, Measured)
                found.append({e.index: 1})
    return found


def in_reference_order(cells: Cells, case: Case, plan: Query) -> Cells:
    """The engine's cells with the columns as the reference has them."""
    columns = columns_of(case, plan)
    if plan.question.keys.lists is None:
        columns.append({len(plan.question.measures): 1})
    keys = key_places(case, plan)
    return {
        tuple(k[i] for i in keys): tuple(sum(c[i] * times for i, times in each.items()) for each in columns)
        for k, c in cells.items()
    }


def key_places(case: Case, plan: Query) -> list[int]:
    """For each key of the case, its place among the plan's."""
    from discreet.plan.nodes.node import Key as KeyOf

    shown = [e for _, e in plan.question.outer.columns[: len(case.question.keys)]]
    return [e.index for e in shown if isinstance(e, KeyOf)]


def _key(key: Sequence[Any], lists: Sequence[Sequence[object]] | None) -> Key:
    if lists is not None:
        return tuple(as_value(values[i]) for values, i in zip(lists, key, strict=True))
    return tuple(v + 0.0 if isinstance(v, float) else v for v in key)


def as_value(cell: object) -> Value:
    """A cell of the database, as the referee has it."""
    assert cell is None or isinstance(cell, bool | int | float | str), "the referee knows no dates"
    return cell
