"""Questions to ask of the random databases: every shape of reading several tables, under every aggregate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from discreet.audit.sql.queries import by_turns

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
    (
        "orders o JOIN items i ON i.oid = o.oid JOIN parts t ON t.iid = i.iid",
        "grams",
        "sku",
        "price",
    ),
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
    (
        "(SELECT buyer, COUNT(*) AS n, MAX(day) AS d FROM orders GROUP BY buyer) s",
        "greatest(0, least(n, 5))",
        "d",
        "n",
    ),
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
"""Every shape once, and questions across people, which an engine has to refuse or to get right."""


def random_database_query(rng: np.random.Generator) -> str:
    """One question: some source, up to two aggregates, a key and a condition."""
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
    """Return questions without end: each trap once, then traps and random ones by turns."""
    return by_turns(DATABASE_TRAPS, random_database_query, rng)
