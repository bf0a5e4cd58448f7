"""Random neighbouring databases (what people own one and two steps away, dirty keys, a public table), and queries."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from discreet.audit.sql.tables import _MOST, _REALS, _TEXTS, _WILD, UNIT, Neighbours, Row, Tables, by_turns
from discreet.errors import InvalidParameter
from discreet.privacy.unit import Relation

SCHEMAS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "people": MappingProxyType({UNIT: "BIGINT", "city": "VARCHAR", "age": "BIGINT"}),
        "orders": MappingProxyType({"buyer": "BIGINT", "oid": "BIGINT", "amount": "DOUBLE", "day": "BIGINT"}),
        "items": MappingProxyType({"oid": "BIGINT", "iid": "BIGINT", "price": "BIGINT", "sku": "VARCHAR"}),
        "parts": MappingProxyType({"iid": "BIGINT", "grams": "BIGINT"}),
        "zones": MappingProxyType({"city": "VARCHAR", "zone": "VARCHAR", "rate": "BIGINT"}),
    }
)
"""The columns of the random tables, with their SQL types."""

PATHS: Mapping[str, str] = MappingProxyType(
    {"orders": "buyer", "items": "oid -> orders.oid", "parts": "iid -> items.iid"}
)
"""How the units of tables without a column of the unit's name are found."""

PUBLIC = ("zones",)
"""The tables without personal data."""

_ME = 1_000_003  # nobody else has this id
_KEYS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {"items": ("oid", "orders", "oid"), "parts": ("iid", "items", "iid")}
)
_ZONES: tuple[Row, ...] = tuple(
    {"city": city, "zone": zone, "rate": rate}
    for city, zone, rate in (("a", "n", 2), ("a", "s", 2), ("a", "n", 1), ("b", "s", 2), (None, "s", 1))
)
_UNITS: Mapping[str, str] = MappingProxyType({"people": UNIT, "orders": "buyer"})

_PO = "people p {} JOIN orders o ON p.uid = o.buyer"
_SOURCES: tuple[tuple[str, str, str, str], ...] = (
    (_PO.format(""), "amount", "city", "age"),
    (_PO.format("LEFT"), "amount", "day", "age"),
    (_PO.format("RIGHT"), "amount", "day", "age"),
    (_PO.format("FULL"), "amount", "city", "age"),
    (_PO.format("SEMI"), "age", "city", "age"),
    (_PO.format("ANTI"), "age", "city", "age"),
    (_PO.format("") + " AND o.amount > p.age", "amount", "day", "age"),
    ("orders a JOIN orders b ON a.buyer = b.buyer AND a.oid < b.oid", "a.amount", "b.day", "b.amount"),
    ("items", "price", "sku", "iid"),
    ("parts", "grams", "iid", "grams"),
    ("orders o JOIN items i ON i.oid = o.oid", "price", "sku", "amount"),
    ("orders o LEFT JOIN items i ON i.oid = o.oid", "price", "day", "amount"),
    ("orders o JOIN items i ON i.oid = o.oid JOIN parts t ON t.iid = i.iid", "grams", "sku", "price"),
    ("people p JOIN zones z ON p.city = z.city", "rate", "zone", "age"),
    ("people p LEFT JOIN zones z ON p.age >= z.rate", "rate", "zone", "age"),
    ("people p SEMI JOIN zones z ON p.city = z.city", "age", "city", "age"),
    ("people p ANTI JOIN zones z ON p.city = z.city", "age", "city", "age"),
    ("(SELECT * FROM people WHERE uid IN (SELECT buyer FROM orders)) s", "age", "city", "age"),
    (
        "(SELECT * FROM people p WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.buyer = p.uid AND o.day = 1)) s",
        "age",
        "city",
        "age",
    ),
    ("(SELECT * FROM people WHERE city IN (SELECT city FROM zones)) s", "age", "city", "age"),
    ("(SELECT buyer, COUNT(*) AS n, MAX(day) AS d FROM orders GROUP BY buyer) s", "greatest(0, least(n, 5))", "d", "n"),
    (
        "(SELECT buyer, day, SUM(amount) AS n FROM orders GROUP BY buyer, day) s",
        "greatest(0, least(n, 30))",
        "day",
        "n",
    ),
    ("(SELECT DISTINCT buyer, day, oid FROM orders) s", "day", "day", "oid"),
    (
        "(SELECT uid, age AS x FROM people UNION ALL SELECT buyer AS uid, day AS x FROM orders) s",
        "greatest(0, least(x, 9))",
        "x",
        "x",
    ),
    (
        "(SELECT uid, age AS x FROM people UNION SELECT buyer AS uid, day AS x FROM orders) s",
        "greatest(0, least(x, 9))",
        "x",
        "x",
    ),
    (
        "(SELECT buyer, amount, day, row_number() OVER (PARTITION BY buyer ORDER BY oid) AS k FROM orders) s",
        "amount",
        "day",
        "k",
    ),
    (
        "(SELECT buyer, amount, day, lag(amount) OVER (PARTITION BY buyer ORDER BY oid) AS k FROM orders) s",
        "amount",
        "day",
        "k",
    ),
)
"""What is read; a column of it with bounds, one to group by, and one for conditions."""

_AGGREGATES = (
    "COUNT(*)",
    "COUNT({x})",
    "COUNT({y})",
    "COUNT(DISTINCT {g})",
    "SUM({x})",
    "SUM({x}) FILTER (WHERE {y} > 2)",
    "AVG({x})",
    "VAR_SAMP({x})",
    "STDDEV_POP({x})",
    "CORR({x}, {x})",
    "COUNT_IF({y} > 1)",
    "BOOL_OR({y} > 3)",
    "MEDIAN({x})",
    "QUANTILE_CONT({x}, 0.9)",
    "MIN({x})",
    "MAX({x})",
)
_CONDITIONS = ("{y} > 2", "{x} IS NOT NULL", "{x} / {y} > 1", "{g} IS NOT NULL", "{y} * {y} * {y} < 1000")

DATABASE_TRAPS: tuple[str, ...] = (
    *(f"SELECT COUNT(*) AS n, SUM({x}) AS s FROM {source}" for source, x, _, _ in _SOURCES),
    "SELECT city, COUNT(*) FROM people p JOIN orders o ON p.uid = o.buyer GROUP BY city",
    "SELECT zone, COUNT(*), SUM(rate) FROM people p JOIN zones z ON p.city = z.city GROUP BY zone",
    "SELECT sku, day, COUNT(*) FROM items i JOIN orders o ON i.oid = o.oid GROUP BY ROLLUP (sku, day)",
    "SELECT COUNT(DISTINCT sku) FROM items",
    "SELECT MEDIAN(price), MAX(price) FROM items",
    "SELECT VAR_POP(amount), CORR(amount, age) FROM people p JOIN orders o ON p.uid = o.buyer",
    # what has to be refused, whatever the data
    "SELECT COUNT(*) FROM people p JOIN orders o ON p.age = o.day",
    "SELECT COUNT(*) FROM people p FULL JOIN zones z ON p.city = z.city",
    "SELECT COUNT(*) FROM zones WHERE city IN (SELECT city FROM people)",
    "SELECT COUNT(*) FROM orders WHERE amount > (SELECT AVG(amount) FROM orders)",
    "SELECT COUNT(*) FROM (SELECT oid, row_number() OVER (ORDER BY oid) AS k FROM orders) s WHERE k < 3",
)
"""Every shape once, and queries across people, which an engine has to refuse or to get right."""


@dataclass(frozen=True, slots=True)
class RandomDatabases:
    """An endless supply of neighbouring databases over `SCHEMAS`.

    A row that a foreign key leads to several units belongs to each of them, and is gone with the last: so the
    neighbours of a database follow from it, and not from the rows that were drawn for somebody.

    Attributes:
        relation: "add-remove" or "replace".
        people: at most so many units are in both databases.
        rows: the unit that differs has at most so many rows in each table.
    """

    relation: str = Relation.ADD_REMOVE.value
    people: int = 12
    rows: int = 12

    def __post_init__(self) -> None:
        Relation.parse(self.relation)
        if self.people < 0 or self.rows < 1:
            raise InvalidParameter("people must be at least 0, and rows at least 1.")

    def pairs(self, rng: np.random.Generator) -> Iterator[Neighbours]:
        """Neighbours without end: the first crowd is tame, and the first unit has many rows everywhere."""
        for i in itertools.count():
            wild = 0.2 if i % 3 else 0.0
            crowd = _crowd(int(rng.integers(0, self.people + 1)), rng, wild)
            kind = _KINDS[i % len(_KINDS)]
            second = _with(crowd, _newcomer(kind, self.rows, rng), rng)
            first, words = without(second, _ME), f"one unit more, {kind}"
            if Relation.parse(self.relation) is Relation.REPLACE:
                other = _KINDS[int(rng.integers(len(_KINDS)))]
                became = _with(first, _newcomer(other, self.rows, rng), rng)
                if _same(without(became, _ME), first):
                    first, words = became, f"one unit was {other}, and becomes {kind}"
                # else its new rows would have owned what nobody owned; the row without a unit gets one then
            yield Neighbours(first, second, words)


def owners(tables: Tables, name: str, row: Row) -> set[object]:
    """Return the units that own a row of a private table."""
    if name in _UNITS:
        return {row[_UNITS[name]]} - {None}
    column, other, key = _KEYS[name]
    found = [r for r in tables[other] if row[column] is not None and r[key] == row[column]]
    return set().union(*(owners(tables, other, r) for r in found))


def without(tables: Tables, unit: object) -> Tables:
    """Return the neighbour without that unit: what it alone owned is gone."""
    return {
        name: [r for r in rows if name in PUBLIC or owners(tables, name, r) != {unit}] for name, rows in tables.items()
    }


_KINDS = (
    "with many rows in every table",
    "with keys that others have too",
    "with one order of many items",
    "with many orders and no items",
    "with items of orders that nobody had",
    "with rows in one table only",
    "with random rows",
)


def _crowd(people: int, rng: np.random.Generator, wild: float) -> Tables:
    """Return some people with some rows each, rows of nobody, and keys that lead nowhere or to several."""
    rows: dict[str, list[Row]] = {name: [] for name in SCHEMAS} | {"zones": list(_ZONES)}
    for unit in range(people):
        owner = None if rng.random() < 0.1 else unit
        for name, most in (("people", 2), ("orders", 3), ("items", 3), ("parts", 3)):
            rows[name] += [_row(name, owner, rng, wild) for _ in range(int(rng.integers(0, most + 1)))]
    return rows


def _newcomer(kind: str, most: int, rng: np.random.Generator) -> Tables:
    """Return the rows of the unit that differs: at the top of every range, so that it moves what it can."""
    person: Row = {UNIT: _ME, "city": "a", "age": 10}
    orders: list[Row] = [{"buyer": _ME, "oid": 50 + i, "amount": 10.0, "day": i % 3 + 1} for i in range(most)]
    items: list[Row] = [{"oid": 50 + i % 3, "iid": 70 + i, "price": 10, "sku": "pq"[i % 2]} for i in range(most)]
    parts: list[Row] = [{"iid": 70 + i % 2, "grams": 10} for i in range(most)]
    match kind:
        case "with many rows in every table":
            return {"people": [person] * 3, "orders": orders, "items": items, "parts": parts}
        case "with keys that others have too":
            shared = [o | {"oid": i % 6} for i, o in enumerate(orders)]
            return {"people": [person], "orders": shared, "items": [], "parts": []}
        case "with one order of many items":
            return {"people": [person], "orders": orders[:1], "items": [i | {"oid": 50} for i in items], "parts": []}
        case "with many orders and no items":
            return {"people": [person], "orders": orders, "items": [], "parts": []}
        case "with items of orders that nobody had":
            return {"people": [], "orders": [o | {"oid": 6} for o in orders], "items": items, "parts": parts}
        case "with rows in one table only":
            only = str(rng.choice(["people", "orders"]))
            mine = [person] * most if only == "people" else orders
            return {"people": [], "orders": [], "items": [], "parts": []} | {only: mine}
        case _:
            return {
                name: [_row(name, _ME, rng, 0.4) for _ in range(int(rng.integers(0, 4)))]
                for name in ("people", "orders", "items", "parts")
            }


def _row(name: str, owner: object, rng: np.random.Generator, wild: float) -> Row:
    def some(tame: Sequence[object], nasty: Sequence[object]) -> object:
        values = nasty if rng.random() < wild else tame
        return values[int(rng.integers(len(values)))]

    whole, keys = (*range(11),), (*range(7), 99)
    far = (0, -1, 11, _MOST, -_MOST - 1, None)
    match name:
        case "people":
            return {UNIT: owner, "city": some(("a", "b", "c"), _TEXTS), "age": some(whole, far)}
        case "orders":
            amount = some([x / 8 for x in range(81)], (*_REALS, *_WILD))
            return {"buyer": owner, "oid": some(keys, (None, _MOST)), "amount": amount, "day": some((1, 2, 3), far)}
        case "items":
            return {
                "oid": some(keys, (None, _MOST)),
                "iid": some(keys, (None,)),
                "price": some(whole, far),
                "sku": some(("p", "q", "r"), _TEXTS),
            }
        case _:
            return {"iid": some(keys, (None,)), "grams": some(whole, far)}


def _with(tables: Tables, more: Tables, rng: np.random.Generator) -> Tables:
    """Return the rows among the others: where they stand must not matter."""
    found: dict[str, list[Row]] = {}
    for name, rows in tables.items():
        place = int(rng.integers(0, len(rows) + 1))
        found[name] = [*rows[:place], *more.get(name, ()), *rows[place:]]
    return found


def _same(one: Tables, two: Tables) -> bool:
    return all(sorted(map(repr, one[n])) == sorted(map(repr, two[n])) for n in one)


def random_database_query(rng: np.random.Generator) -> str:
    """One query: some source, up to two aggregates, a key and a condition."""
    source, x, g, y = _SOURCES[int(rng.integers(len(_SOURCES)))]

    def some(choices: tuple[str, ...], least: int, most: int) -> list[str]:
        chosen = rng.permutation(len(choices))[: int(rng.integers(least, most + 1))]
        return [choices[int(i)].format(x=x, g=g, y=y) for i in chosen]

    columns = [f"{a} AS a{i}" for i, a in enumerate(some(_AGGREGATES, 1, 2))]
    keys = some(("{g}",), 0, 1)
    text = f"SELECT {', '.join([*keys, *columns])} FROM {source}"
    if conditions := some(_CONDITIONS, 0, 1):
        text += f" WHERE {conditions[0]}"
    if keys:
        ways = (keys[0], keys[0], f"ROLLUP ({keys[0]})")
        text += f" GROUP BY {ways[int(rng.integers(len(ways)))]}"
    return text


def all_database_queries(rng: np.random.Generator) -> Iterator[str]:
    """Return queries without end: each trap once, then traps and random ones by turns."""
    return by_turns(DATABASE_TRAPS, random_database_query, rng)
