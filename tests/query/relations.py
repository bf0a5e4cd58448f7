"""Tables of which some belong to people, some lead to people and some are public; small data in them; questions."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import duckdb

from discreet.backends.connection import open_database
from discreet.catalog.schema import Fact, Range, Reached, TableSchema, Values
from discreet.catalog.types import Type
from discreet.plan.bound import bounded_sql, bounding
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.plan.question import Question, read_question
from discreet.privacy.unit import PrivacyUnit, Relation

WIDE = 1 << 20
"""Caps that cut nothing here."""

_TYPES = {"i": Type.INT, "t": Type.TEXT, "r": Type.REAL}
COLUMNS = {
    "customers": "id i city t age i",
    "orders": "id i customer i day i total r",
    "items": "order_id i product i price r quantity i",
    "products": "id i kind t cost r",
    "regions": "city t region t",
}
FACTS: Mapping[str, Mapping[str, Fact]] = {
    "customers": {"age": Range(0, 120, integer=True)},
    "orders": {"total": Range(0, 100), "day": Range(1, 7, integer=True)},
    "items": {"price": Range(0, 50), "quantity": Range(0, 9, integer=True)},
    "products": {"kind": Values("food", "toy", "book")},
    "regions": {"region": Values("n", "s")},
}
OWNERS = {"customers": "id", "orders": "customer"}
PUBLIC = ("products", "regions")

Data: TypeAlias = dict[str, list[tuple[Any, ...]]]


def columns(name: str) -> dict[str, Type]:
    """A table's columns."""
    words = COLUMNS[name].split()
    return {n: _TYPES[k] for n, k in zip(words[::2], words[1::2], strict=True)}


def tables(max_groups: int = WIDE, max_rows: int = WIDE) -> list[TableSchema]:
    """The five tables: a customer is the unit, items lead to one by their order."""
    unit = PrivacyUnit("id", max_groups, max_rows)
    found = []
    for name in COLUMNS:
        own = PrivacyUnit(OWNERS.get(name, "id"), unit.max_groups, unit.max_rows)
        reached = Reached("order_id", "orders", "id") if name == "items" else None
        public = name in PUBLIC
        found.append(TableSchema(name, columns(name), FACTS[name], own, Relation.ADD_REMOVE, reached, public))
    return found


def data(seed: int) -> Data:
    """Few rows, many ties, NULLs, orders of customers that are not there and items without an order."""
    r = random.Random(seed)

    def one(*values: Any) -> Any:
        return r.choice(values)

    rows: Data = {
        "customers": [(i, one("a", "b", "c", None), one(None, *range(0, 90, 9))) for i in range(5)],
        "orders": [(i, r.randrange(6), r.randrange(1, 8), one(None, 1.5, 2.25, -0.0, 0.0, 10.0)) for i in range(12)],
        "items": [(r.randrange(14), r.randrange(5), one(0.5, 3.0, 8.0, None), one(None, 1, 2)) for _ in range(25)],
        "products": [(i, one("food", "toy", "book", None), one(1.0, 4.0, None)) for i in range(4)],
        "regions": [(one(c, c, c, None), one("n", "s")) for c in "abb"],
    }
    for table in rows.values():
        r.shuffle(table)
    return rows


def of_unit(rows: Data, unit: int) -> Data:
    """The public tables, and what belongs to one unit of the others."""
    own = {i for i, customer, *_ in rows["orders"] if customer == unit}
    return {
        **rows,
        "customers": [c for c in rows["customers"] if c[0] == unit],
        "orders": [o for o in rows["orders"] if o[1] == unit],
        "items": [i for i in rows["items"] if i[0] in own],
    }


def database(rows: Data, schema: Mapping[str, Mapping[str, Type]] | None = None) -> duckdb.DuckDBPyConnection:
    """A database with the rows in it, set up as the backend's is."""
    db = open_database()
    db.execute("SET threads = 1")
    db.execute("SET disabled_optimizers = 'common_subexpressions,projection_pullup'")
    for name, content in rows.items():
        kinds = columns(name) if schema is None else schema[name]
        db.execute(f"CREATE TABLE {name} ({', '.join(f'{c} {k.value}' for c, k in kinds.items())})")
        if content:
            places = ", ".join(f"({', '.join('?' * len(kinds))})" for _ in content)
            db.execute(f"INSERT INTO {name} VALUES {places}", [c for row in content for c in row])
    return db


def read(sql: str, given: Sequence[TableSchema] | None = None) -> Question:
    """The question, without its price."""
    return read_question(sql, given or tables())


def planned(sql: str, given: Sequence[TableSchema] | None = None, **asked: Any) -> Query:
    """The plan, which has passed the second derivation."""
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, "delta": "1e-6", **asked}
    return make_query(sql, given or tables(3, 10), **options)


def answered(question: Question, db: duckdb.DuckDBPyConnection) -> dict[tuple[Any, ...], list[float]]:
    """Group → its measures as numbers, exactly; groups in which all are 0 left out."""
    sql = bounded_sql(bounding(question))
    rows = db.execute(sql, {"secret": 7} if "$secret" in sql else {}).fetchall()
    n, m = len(question.keys.exprs), len(question.measures)
    found = {}
    for row in rows:
        lists = question.keys.lists
        key = tuple(row[:n]) if lists is None else tuple(v[i] for v, i in zip(lists, row[:n], strict=True))
        found[key] = [float(int(c) * q.step) for c, q in zip(row[n : n + m], question.measures, strict=True)]
    return {k: v for k, v in found.items() if any(v)}


def exact(sql: str, db: duckdb.DuckDBPyConnection, question: Question) -> dict[tuple[Any, ...], list[float]]:
    """The same by the database itself, which has never heard of privacy; keys come first in SELECT."""
    n, lists = len(question.keys.exprs), question.keys.lists
    found = {tuple(r[:n]): [float(c or 0) for c in r[n:]] for r in db.execute(sql).fetchall()}
    known = {k: v for k, v in found.items() if lists is None or all(c in x for c, x in zip(k, lists, strict=True))}
    return {k: v for k, v in known.items() if any(v)}


def narrow(given: Sequence[TableSchema], name: str, **changes: Any) -> list[TableSchema]:
    """The tables with one of them changed."""
    return [replace(t, **changes) if t.name == name else t for t in given]
