"""Quantiles that are written with ROW_NUMBER are read as what they mean; near misses are left as they are."""

from __future__ import annotations

import random

import pandas as pd
import pytest
from sqlglot import parse_one

import discreet as dp
from discreet.backends.connection import open_database
from discreet.errors import UnsupportedQuery
from discreet.query.ranked_quantiles import with_quantiles
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
@pytest.mark.sampled(4)
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
    assert any("is read as QUANTILE_DISC(total, 0.5)." in n for n in written.notes)


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
    assert any("is read as QUANTILE_DISC(total, 0.5)." in n for n in plan.notes)
