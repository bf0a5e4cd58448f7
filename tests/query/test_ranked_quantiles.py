"""Quantiles that are written with ROW_NUMBER are read as what they mean; near misses are left as they are."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pandas as pd
import pytest
from sqlglot import exp, parse_one

import discreet as dp
from discreet.backends.connection import open_database
from discreet.errors import UnsupportedQuery
from discreet.query.over_everybody import with_aggregates as with_quantiles
from tests.query.relations import planned, read

_PICK = "MIN(CASE WHEN nr < {p} * n THEN 9999 ELSE total END)"
_EACH = "FROM (SELECT day, total, ROW_NUMBER() OVER (PARTITION BY day ORDER BY total) AS nr"
_ALL = "FROM (SELECT total, ROW_NUMBER() OVER (ORDER BY total NULLS FIRST) AS nr"

READ = [
    f"SELECT {_PICK}, {_PICK.replace('{p}', '0.9')} {_ALL}, COUNT(*) OVER () AS n FROM orders) t",
    f"SELECT {_PICK} {_ALL}, (SELECT COUNT(*) FROM orders WHERE total > 2) AS n FROM orders WHERE total > 2) t",
    f"SELECT {_PICK} {_ALL}, (SELECT COUNT(*) FROM orders o WHERE o.total > 2) AS n FROM orders q WHERE q.total > 2) t",
    f"WITH a AS (SELECT * FROM orders) SELECT {_PICK} {_ALL} FROM a) t CROSS JOIN (SELECT COUNT(*) AS n FROM a) s",
    f"SELECT day, {_PICK}, COUNT(*) {_EACH}, COUNT(*) OVER (PARTITION BY day) AS n FROM orders) t GROUP BY day",
    (
        f"SELECT t.day, {_PICK} {_EACH} FROM orders) t JOIN (SELECT day, COUNT(*) AS n FROM orders GROUP BY day) s "
        "ON t.day = s.day GROUP BY t.day"
    ),
    f"SELECT s.day, kind, {_PICK} {_EACH} FROM orders) t JOIN (SELECT day, COUNT(day) AS n FROM orders GROUP BY 1) s "
    "ON t.day = s.day JOIN products p ON p.id = s.day GROUP BY s.day, kind".replace("GROUP BY 1", "GROUP BY day"),
    (
        f"WITH o AS (SELECT total, ROW_NUMBER() OVER (ORDER BY total) AS nr, COUNT(*) OVER () AS n FROM orders) "
        f"SELECT {_PICK} FROM o"
    ),
    (
        f"SELECT {_PICK} FROM (SELECT total, n, ROW_NUMBER() OVER (ORDER BY total) AS nr FROM (SELECT total, COUNT(*) "
        "OVER () AS n FROM orders) a) b"
    ),
    "SELECT MAX(CASE WHEN nr = CEIL(n * {p}) THEN total END) " + _ALL + ", COUNT(*) OVER () AS n FROM orders) t",
    "SELECT MIN(CASE WHEN nr >= {p} * n THEN total END) " + _ALL + ", COUNT(*) OVER () AS n FROM orders) t",
    (
        f"SELECT {_PICK} FROM (SELECT SUM(day) AS total, ROW_NUMBER() OVER (ORDER BY SUM(day)) AS nr, "
        "(SELECT COUNT(DISTINCT customer) FROM orders) AS n FROM orders GROUP BY customer) t"
    ),
    (
        f"SELECT {_PICK} FROM (SELECT day + id AS total, ROW_NUMBER() OVER (ORDER BY (o.day + o.id)) AS nr, "
        "COUNT(*) OVER () AS n FROM orders o) t"
    ),
]
NOT_READ = {
    "another order": f"SELECT {_PICK} {_ALL.replace('ORDER BY total', 'ORDER BY id')}, COUNT(*) OVER () n FROM orders)",
    "downwards": f"SELECT {_PICK} {_ALL.replace('total NULLS FIRST', 'total DESC')}, COUNT(*) OVER () n FROM orders) t",
    "other parts": f"SELECT {_PICK} {_EACH}, COUNT(*) OVER () AS n FROM orders) t",
    "no groups": f"SELECT {_PICK} {_EACH}, COUNT(*) OVER (PARTITION BY day) AS n FROM orders) t",
    "finer groups": f"SELECT id, {_PICK} {_EACH}, id, COUNT(*) OVER (PARTITION BY day) n FROM orders) GROUP BY day, id",
    "fewer rows": f"SELECT {_PICK} {_ALL}, COUNT(*) OVER () AS n FROM orders) t WHERE total > 1",
    "rows of a condition": f"SELECT {_PICK} {_ALL}, (SELECT COUNT(*) FROM orders WHERE day > 2) AS n FROM orders) t",
    "other rows": f"SELECT {_PICK} {_ALL}, (SELECT COUNT(*) FROM customers) AS n FROM orders) t",
    "a small number instead": f"SELECT {_PICK.replace('9999', '0')} {_ALL}, COUNT(*) OVER () AS n FROM orders) t",
    "more than all": f"SELECT {_PICK.replace('{p}', '2')} {_ALL}, COUNT(*) OVER () AS n FROM orders) t",
    "the place is shown": f"SELECT MAX(nr), {_PICK} {_ALL}, COUNT(*) OVER () AS n FROM orders) t",
    "the number is shown": f"SELECT MAX(n), {_PICK} {_ALL}, COUNT(*) OVER () AS n FROM orders) t",
    "a join on the value": f"SELECT {_PICK} {_ALL}, COUNT(*) OVER () AS n FROM orders) t JOIN products ON cost = total",
    "a row counted": f"SELECT {_PICK} {_ALL}, COUNT(*) OVER (ORDER BY total) AS n FROM orders) t",
    "rows left out between": f"SELECT {_PICK} FROM (SELECT total, n, ROW_NUMBER() OVER (ORDER BY total) AS nr FROM "
    "(SELECT total, COUNT(*) OVER () AS n FROM orders) a WHERE total > 1) b",
    "rows left out above": f"SELECT {_PICK} FROM (SELECT total, nr, n {_ALL}, COUNT(*) OVER () AS n FROM orders) a "
    "WHERE nr > 2) c",
    "different values": f"SELECT {_PICK} {_ALL.replace('SELECT', 'SELECT DISTINCT')}, COUNT(*) OVER () n FROM orders)",
}


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("text", READ)
def test_a_quantile_by_place_is_the_quantile(text: str) -> None:
    r = random.Random(text)
    db = open_database()
    db.execute("CREATE TABLE orders (id BIGINT, customer BIGINT, day BIGINT, total DOUBLE)")
    db.execute("CREATE TABLE products (id BIGINT, kind VARCHAR)")
    db.executemany("INSERT INTO products VALUES (?, ?)", [(i, f"k{i}") for i in (1, 2, 3)])
    rows = [(i, r.randrange(9), r.randrange(1, 4), r.choice([0.5, 1.5, 2.5, 3.5, 4.5, 7.0])) for i in range(37)]
    db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", rows)
    for share in ("0.25", "0.50", "0.75"):
        written = text.replace("{p}", share)
        tree, said = with_quantiles(parse_one(written, read="duckdb"))
        assert said and all(" is read as QUANTILE_DISC(total, 0" in s for s in said)
        assert sorted(db.execute(tree.sql("duckdb")).fetchall()) == sorted(db.execute(written).fetchall())
        assert "ROW_NUMBER" not in tree.sql("duckdb")


@pytest.mark.parametrize("what", NOT_READ)
def test_what_is_no_quantile_stays_as_it_is(what: str) -> None:
    tree = parse_one(NOT_READ[what].replace("{p}", "0.5"), read="duckdb")
    assert with_quantiles(tree) == (tree, ())


def test_a_quantile_by_place_is_planned_as_the_quantile_and_said() -> None:
    written = planned(READ[4].replace("{p}", "0.5"))
    plain = planned(
        "SELECT day, QUANTILE_DISC(total, 0.5), COUNT(*) FROM (SELECT day, total FROM orders) t GROUP BY day"
    )
    assert written.sql == plain.sql
    assert any("is read as QUANTILE_DISC(total, 0.5), of the rows with a value." in n for n in written.notes)


def test_other_places_over_everybody_are_refused_with_the_quantile_to_write() -> None:
    with pytest.raises(UnsupportedQuery) as caught:
        read(NOT_READ["the place is shown"].replace("{p}", "0.5"))
    assert "QUANTILE_CONT(total, 0.5)" in (caught.value.hint or "")


def test_a_part_of_sql_over_results_may_hold_one() -> None:
    rows = pd.DataFrame({"person": [1, 2, 3], "day": [1, 1, 2], "total": [1.0, 2.0, 3.0]})
    session = dp.connect(
        {"orders": rows},
        unit=dp.PrivacyUnit("person", 1, 3),
        columns={"total": dp.Range(0, 9), "day": dp.Values(1, 2)},
        budget=dp.Budget(epsilon=1),
        population="p",
        ledger=":memory:",
    )
    quantiles = READ[4].replace("{p}", "0.5").replace(", COUNT(*) FROM", " AS q FROM")
    plan = session.plan(
        f"WITH a AS ({quantiles}), b AS (SELECT day, COUNT(*) AS n FROM orders o JOIN (SELECT person AS p FROM orders) "
        "i ON person = p AND p IN (SELECT person FROM orders) GROUP BY day) SELECT a.day, q, n FROM a JOIN b ON a.day "
        "= b.day",
        epsilon=1,
    )
    assert any("is read as QUANTILE_DISC(total, 0.5), of the rows with a value." in n for n in plan.notes)


_NUMBERED = "(SELECT day, total, ROW_NUMBER() OVER (ORDER BY total) AS nr, COUNT(*) OVER () AS n FROM orders) t"
_IN_PARTS = _NUMBERED.replace("OVER (ORDER", "OVER (PARTITION BY day ORDER").replace(
    "OVER ()", "OVER (PARTITION BY day)"
)
_RUNNING = "SUM(1) OVER (PARTITION BY 1 ORDER BY total ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"

PICKED = {
    f"SELECT AVG(total) FROM {_NUMBERED} WHERE nr IN (FLOOR((n + 1) / 2.0), CEIL((n + 1) / 2.0))": "CONT(total, 0.5)",
    f"SELECT AVG(total) FROM {_NUMBERED} WHERE nr BETWEEN n / 2.0 AND n / 2.0 + 1": "CONT(total, 0.5)",
    f"SELECT day, AVG(total) FROM {_IN_PARTS} WHERE ABS(2 * nr - n - 1) <= 1 GROUP BY day": "CONT(total, 0.5)",
    f"SELECT AVG(CASE WHEN nr IN ((n + 1) // 2, (n + 2) // 2) THEN total END) FROM {_NUMBERED}": "CONT(total, 0.5)",
    f"SELECT total FROM {_NUMBERED} WHERE nr = CEIL(n * 0.9)": "DISC(total, 0.9)",
    f"SELECT DISTINCT total FROM {_NUMBERED} WHERE nr = CEIL(n * 10 / 100)": "DISC(total, 0.1)",
    "SELECT MIN(total) FROM (SELECT total, CUME_DIST() OVER (ORDER BY total) AS p FROM orders) t WHERE p >= 0.75": (
        "DISC(total, 0.75)"
    ),
    "SELECT total FROM (SELECT total, CUME_DIST() OVER (ORDER BY total) AS p FROM orders) t WHERE p >= 0.2 ORDER BY p "
    "LIMIT 1": "DISC(total, 0.2)",
    "SELECT MAX(CASE WHEN q = 1 THEN total END), MAX(CASE WHEN q = 3 THEN total END) FROM (SELECT total, NTILE(4) OVER "
    "(ORDER BY total) AS q FROM orders) t": "DISC(total, 0.25)",
    f"WITH o AS (SELECT total, {_RUNNING} AS nr FROM orders) SELECT AVG(total) FROM (SELECT *, (SELECT "
    "COUNT(*) FROM o) AS n FROM o) a WHERE nr = CAST(n * 0.5 AS INT) OR (nr = CAST(n * 0.5 AS INT) + 1 "
    "AND n % 2 = 0)": "CONT(total, 0.5)",
    "SELECT MAX(total) FROM (SELECT total, ROW_NUMBER() OVER (ORDER BY total DESC) AS nr, COUNT(*) OVER () AS n FROM "
    "orders) t WHERE nr > 0.5 * n": "DISC(total, 0.5)",
    "SELECT day, MIN(CASE WHEN nr < 0.25 * n THEN 9999 ELSE total END) AS q FROM (SELECT o.day, total, n, "
    "ROW_NUMBER() OVER (PARTITION BY o.day ORDER BY total) AS nr FROM orders o JOIN (SELECT day, COUNT(*) AS n FROM "
    "orders GROUP BY day) "
    "s ON o.day = s.day) t GROUP BY day": "DISC(total, 0.25)",
}
NOT_PICKED = [
    f"SELECT AVG(total) FROM {_NUMBERED} WHERE nr > 0.9 * n",
    f"SELECT MAX(total) FROM {_NUMBERED} WHERE nr <= 2",
    f"SELECT SUM(total) FROM {_NUMBERED} WHERE nr = CEIL(0.5 * n)",
    f"SELECT MIN(day) FROM {_NUMBERED} WHERE nr >= 0.5 * n",
    f"SELECT MIN(total) FROM {_NUMBERED} WHERE nr >= 0.5 * n AND day > 1",
    f"SELECT total FROM {_NUMBERED} WHERE nr >= 0.5 * n ORDER BY day LIMIT 1",
    f"SELECT total FROM {_NUMBERED} WHERE nr >= 0.5 * n ORDER BY nr LIMIT 2",
    f"SELECT total, nr FROM {_NUMBERED} WHERE nr = CEIL(0.5 * n)",
    f"SELECT MIN(total) FROM {_NUMBERED.replace('ORDER BY total', 'ORDER BY total DESC')} WHERE nr >= 0.5 * n",
    f"SELECT MIN(total), COUNT(*) FROM {_NUMBERED} WHERE nr >= 0.5 * n",
]


def database(seed: str) -> duckdb.DuckDBPyConnection:
    r, db = random.Random(seed), open_database()
    db.execute("CREATE TABLE orders (id BIGINT, customer BIGINT, day BIGINT, total DOUBLE, d DATE)")
    for i in range(38):
        day = r.randrange(1, 4)
        db.execute(
            f"INSERT INTO orders VALUES ({i}, {r.randrange(9)}, {day}, {r.random()}, DATE '2020-01-01' + {day * i})"
        )
    return db


def same_rows(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> bool:
    first, second = (
        sorted(tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in rows) for rows in (one, other)
    )
    return first == second


@pytest.mark.parametrize("text", PICKED)
def test_rows_that_are_picked_by_their_place_are_a_quantile(text: str) -> None:
    tree, said = with_quantiles(parse_one(text, read="duckdb"))
    assert f"is read as QUANTILE_{PICKED[text]}, of the rows with a value." in said[0]
    db = database(text)
    assert same_rows(db.execute(tree.sql("duckdb")).fetchall(), db.execute(text).fetchall())
    assert not tree.find(exp.Window)


@pytest.mark.parametrize(
    ("condition", "own"),
    [
        ("nr >= 0.5 * n", True),
        ("nr > 0.5 * n", False),
        ("nr <= 0.5 * n", False),
        ("nr = CEIL(0.5 * n)", True),
        ("nr = FLOOR(0.5 * n) + 1", False),
    ],
)
@pytest.mark.parametrize("down", [False, True])
def test_a_place_that_may_be_the_one_beside_is_said(condition: str, own: bool, down: bool) -> None:
    picks = "MAX" if "<=" in condition or (down and ">" in condition) else "MIN"
    source = _NUMBERED.replace("ORDER BY total", "ORDER BY total DESC") if down else _NUMBERED
    text = f"SELECT {picks}(total) FROM {source} WHERE {condition}".replace(
        "MAX" if "<=" in condition and down else "?", "MIN"
    )
    tree, said = with_quantiles(parse_one(text, read="duckdb"))
    differs = False
    for rows in (1, 2, 3, 4, 5, 6):
        db = open_database()
        db.execute(f"CREATE TABLE orders AS SELECT 1 AS day, i + 0.5 AS total FROM range({rows}) r(i)")
        one, other = (db.execute(t).fetchone() for t in (tree.sql("duckdb"), text))
        differs |= one != other and (other is None or other[0] is not None)
    assert ("it may be the value beside it" in said[0]) == differs
    assert down or differs == (not own)


@pytest.mark.parametrize("text", NOT_PICKED)
def test_rows_that_are_no_quantile_stay(text: str) -> None:
    tree = parse_one(text, read="duckdb")
    assert with_quantiles(tree) == (tree, ())


GROUPED = [
    "SELECT DISTINCT day, AVG(total) OVER (PARTITION BY day) AS mean, COUNT(*) OVER (PARTITION BY day) FROM orders",
    "SELECT DISTINCT day, ROUND(MAX(total) OVER (PARTITION BY orders.day), 1) AS x FROM orders ORDER BY day",
    (
        "SELECT DISTINCT day, customer % 2 AS odd, COUNT(*) OVER (PARTITION BY customer % 2, day), SUM(total) OVER "
        "(PARTITION BY day) FROM orders"
    ),
    "SELECT DISTINCT COUNT(*) OVER () AS n, 1 AS one, MIN(total) OVER () FROM orders",
    "SELECT AVG(total) OVER () AS mean FROM orders LIMIT 1",
    (
        "SELECT DISTINCT AVG(total) OVER () AS mean FROM (SELECT total, ROW_NUMBER() OVER (ORDER BY id) AS "
        "nr FROM orders) t GROUP BY nr, total"
    ),
    (
        "SELECT first + INTERVAL (CAST(AVG(days) AS BIGINT)) DAY, STDDEV(days), MIN(first) FROM (SELECT day, "
        "date_diff('day', MIN(d) OVER (), d) AS days, MIN(d) OVER () AS first FROM orders) t GROUP BY first"
    ),
    (
        "WITH c AS (SELECT day, date_diff('day', MIN(d) OVER (PARTITION BY day), d) AS days, MIN(d) OVER (PARTITION BY "
        "day) AS first FROM orders), e AS (SELECT day FROM c) SELECT day, first + INTERVAL (MAX(days)) DAY FROM c "
        "GROUP BY day, first"
    ),
    (
        "WITH c AS (SELECT date_diff('day', (SELECT MIN(d) FROM orders WHERE day > 1), d) AS days, (SELECT MIN(o.d) "
        "FROM orders o WHERE o.day > 1) AS first FROM orders WHERE day > 1) SELECT MIN(days), first + INTERVAL "
        "(MAX(days)) DAY AS last FROM c GROUP BY first"
    ),
    (
        "SELECT day, low, ROUND(high - low, 3), mean, SUM(total) FROM (SELECT day, total, MIN(total) OVER (PARTITION "
        "BY day) AS low, MAX(total) OVER (PARTITION BY day) AS high, AVG(total) OVER (PARTITION BY day) AS mean, "
        "COUNT(*) OVER (PARTITION BY day) AS n FROM orders) t GROUP BY day, low, high, mean, n HAVING n > 1"
    ),
    (
        "SELECT day, MIN(days), MAX(days) + 1, first + INTERVAL (MAX(days)) DAY, MIN(CASE WHEN nr < 0.5 * n THEN 9999 "
        "ELSE days END) FROM (SELECT day, days, first, ROW_NUMBER() OVER (PARTITION BY day ORDER BY days) AS nr, "
        "COUNT(*) OVER (PARTITION BY day) AS n FROM (SELECT day, date_diff('day', MIN(d) OVER (PARTITION BY day), d) "
        "AS days, MIN(d) OVER (PARTITION BY day) AS first FROM orders) t) s GROUP BY day, first"
    ),
    "SELECT low, COUNT(*) FROM (SELECT total, MIN(total) OVER () AS low FROM orders WHERE day < 3) t GROUP BY low",
]
NOT_GROUPED = [
    "SELECT day, AVG(total) OVER (PARTITION BY day) AS mean FROM orders",
    "SELECT DISTINCT AVG(total) OVER (PARTITION BY day) AS mean FROM orders",
    "SELECT DISTINCT day, AVG(total) OVER (PARTITION BY customer) AS mean FROM orders",
    "SELECT DISTINCT day, customer, AVG(total) OVER (PARTITION BY day) AS mean FROM orders",
    "SELECT DISTINCT day, total - AVG(total) OVER (PARTITION BY day) AS off FROM orders",
    "SELECT DISTINCT day, SUM(total) OVER (PARTITION BY day ORDER BY id) AS running FROM orders",
    "SELECT DISTINCT day, ROW_NUMBER() OVER (PARTITION BY day) AS nr FROM orders",
    (
        "SELECT first + INTERVAL (SUM(days)) DAY FROM (SELECT date_diff('day', MIN(d) OVER (), d) AS days, "
        "MIN(d) OVER () AS first FROM orders) t GROUP BY first"
    ),
    (
        "SELECT first + INTERVAL (MAX(days)) DAY FROM (SELECT date_diff('day', (SELECT MIN(d) FROM orders), d) AS "
        "days, (SELECT MIN(d) FROM orders) AS first FROM orders WHERE day > 1) t GROUP BY first"
    ),
    "SELECT low, COUNT(*) FROM (SELECT MIN(total) OVER () AS low FROM orders) t WHERE low > 1 GROUP BY low",
    (
        "SELECT MAX(days), first + INTERVAL (MAX(days)) DAY FROM (SELECT day, date_diff('day', MIN(d) OVER (), d) AS "
        "days, MIN(d) OVER () AS first FROM orders) t WHERE day > 1 GROUP BY first"
    ),
    "SELECT low, day FROM (SELECT day, MIN(total) OVER () AS low FROM orders) t GROUP BY low, day",
    (
        "SELECT MIN(CASE WHEN nr > 1 THEN days END) + first FROM (SELECT date_diff('day', MIN(d) OVER (), d) "
        "AS days, MIN(d) OVER () AS first, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY id) AS nr FROM "
        "orders) t GROUP BY first"
    ),
]


@pytest.mark.parametrize("text", GROUPED)
def test_windows_without_an_order_beside_distinct_are_groups(text: str) -> None:
    tree, said = with_quantiles(parse_one(text, read="duckdb"))
    db = database(text)
    assert said
    assert same_rows(db.execute(tree.sql("duckdb")).fetchall(), db.execute(text).fetchall())
    assert all(w.args.get("partition_by") and isinstance(w.this, exp.Sum) for w in tree.find_all(exp.Window))


@pytest.mark.parametrize("text", NOT_GROUPED)
def test_other_windows_stay(text: str) -> None:
    tree = parse_one(text, read="duckdb")
    assert with_quantiles(tree) == (tree, ())


@pytest.mark.parametrize(
    ("subquery", "read"),
    [
        ("o.day IN (SELECT day FROM orders WHERE day IN (1, 3))", True),
        ("day IN (SELECT DISTINCT q.day FROM orders q)", True),
        ("day IN (SELECT day FROM few) AND total > 0.2", True),
        ("day IN (SELECT day FROM orders WHERE customer = 2)", False),
        ("day IN (SELECT customer FROM orders)", False),
        ("day IN (SELECT day FROM orders LIMIT 1)", False),
        ("day NOT IN (SELECT day FROM orders WHERE day > 1)", False),
        ("day IN (SELECT DISTINCT ON (customer) day FROM orders)", False),
    ],
)
def test_a_value_among_those_of_its_own_rows_is_a_condition_of_the_row(subquery: str, read: bool) -> None:
    text = (
        f"WITH few AS (SELECT DISTINCT day FROM orders WHERE day <> 2) SELECT COUNT(*) FROM orders o WHERE {subquery}"
    )
    tree, said = with_quantiles(parse_one(text, read="duckdb"))
    assert (
        bool(said) == read == (len(list(tree.find_all(exp.Select))) < len(list(parse_one(text).find_all(exp.Select))))
    )
    db = database("rows")
    db.execute("INSERT INTO orders VALUES (50, 1, NULL, 1, NULL)")
    assert db.execute(tree.sql("duckdb")).fetchall() == db.execute(text).fetchall()


def test_windows_beside_rows_are_refused_with_the_group_by_to_write() -> None:
    with pytest.raises(UnsupportedQuery) as caught:
        read("SELECT day, AVG(total) OVER (PARTITION BY day) FROM orders")
    assert "SELECT day, AVG(total) FROM … GROUP BY day" in (caught.value.hint or "")
