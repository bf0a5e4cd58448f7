"""Questions over several tables: what the nested text gives is what the database gives, and each unit's alone."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import duckdb
import pytest

from discreet.plan.question import Question
from tests.query.relations import answered, data, database, exact, of_unit, planned, read

_TEXT = """
SELECT COUNT(*) FROM items WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = order_id);
SELECT region, COUNT(*) FROM customers c JOIN regions r ON c.city = r.city GROUP BY region;
SELECT kind, COUNT(*) FROM orders o JOIN items i ON o.id = i.order_id LEFT JOIN products p ON p.id = product AND
cost > 3 GROUP BY kind;
SELECT COUNT(*) FROM orders o JOIN regions r ON o.day > length(r.city) OR r.region = 'n';
SELECT COUNT(*) FROM orders o CROSS JOIN products p;
SELECT COUNT(*) FROM products p RIGHT JOIN orders o ON p.id = o.day;
SELECT kind, COUNT(*) FROM products p, orders o WHERE p.id = o.day AND o.total > 1 GROUP BY kind;
SELECT region, COUNT(*) FROM regions r, items i, orders o, customers c WHERE c.id = o.customer AND i.order_id =
o.id AND c.city = r.city AND day > 3 GROUP BY region;
SELECT COUNT(*) FROM orders a JOIN orders b USING (customer) WHERE a.day < b.day;
SELECT COUNT(*) FROM orders a LEFT JOIN orders b ON a.customer = b.customer AND a.day < b.day;
SELECT COUNT(*) FROM orders a ANTI JOIN orders b ON a.customer = b.customer AND a.day < b.day;
SELECT COUNT(*) FROM customers c SEMI JOIN orders o ON o.customer = c.id AND o.day > 4;
SELECT COUNT(*) FROM customers c FULL JOIN orders o ON c.id = o.customer AND o.day < 5;
SELECT id % 9, COUNT(*) FROM (SELECT customer AS id, day FROM orders) o FULL JOIN customers c USING (id)
GROUP BY id % 9;
SELECT COUNT(*) FROM customers c RIGHT JOIN orders o ON o.customer = c.id AND c.age > 20;
SELECT COUNT(*) FROM items a JOIN items b ON a.order_id = b.order_id AND a.price < b.price JOIN orders o ON o.id
= a.order_id;
SELECT day, COUNT(*), COUNT(DISTINCT customer) FROM orders o LEFT JOIN customers c ON c.id = o.customer GROUP BY
day;
SELECT COUNT(*) FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer HAVING SUM(total) > 3) t
WHERE n > 1;
SELECT n, COUNT(*) FROM (SELECT c.id, COUNT(o.id) AS n FROM customers c LEFT JOIN orders o ON c.id = o.customer
AND o.total > 2 GROUP BY c.id) t GROUP BY n;
SELECT n, COUNT(*) FROM (SELECT id, COUNT(day) FROM customers LEFT JOIN (SELECT customer, day FROM orders) o ON
id = o.customer GROUP BY id) AS t (id, n) GROUP BY n;
SELECT s, a, COUNT(*) FROM (SELECT customer, SUM(day) s, BOOL_OR(total > 2) a, AVG(total) FROM orders GROUP BY
1) t GROUP BY s, a;
SELECT d, COUNT(*) FROM (SELECT COUNT(DISTINCT day) d, COUNT(*) FILTER (WHERE total > 1) f FROM orders GROUP BY
customer) WHERE f > 0 GROUP BY d;
SELECT SUM(greatest(0, least(9, m))) FROM (SELECT MAX(day) m FROM orders GROUP BY customer, total > 2) t;
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer = c.id AND o.day IN (SELECT id FROM products WHERE
kind = 'toy');
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer = c.id AND EXISTS (SELECT 1 FROM items i WHERE
i.order_id = o.id) LEFT JOIN regions r ON r.city = c.city;
SELECT SUM(day) FROM (SELECT DISTINCT ON (customer, total) day FROM (SELECT * FROM orders ORDER BY day) ORDER BY
day DESC, id) t;
SELECT r, COUNT(*) FROM (SELECT rank() OVER (w ORDER BY day) r, sum(day) OVER w AS s FROM orders WINDOW w AS
(PARTITION BY customer)) GROUP BY r;
SELECT SUM(day) FROM (SELECT * EXCLUDE (total, id) FROM orders) t;
SELECT COUNT(*) FROM orders WHERE (customer, day) IN (SELECT customer, MIN(day) FROM orders GROUP BY customer);
SELECT COUNT(*) FROM orders o WHERE (day, 'toy') IN (SELECT id, kind FROM products p WHERE p.cost > 1) AND day <>
ALL (SELECT id FROM products WHERE cost < 2);
SELECT COUNT(*) FROM orders WHERE day = ANY (SELECT id FROM products) AND total >= ANY (SELECT cost FROM products);
SELECT COUNT(*) FROM orders WHERE total > ALL (SELECT cost FROM products WHERE id > 2);
SELECT COUNT(*) FROM orders o WHERE total >= ALL (SELECT total FROM orders i WHERE i.customer = o.customer);
SELECT COUNT(*) FROM orders o WHERE day = ALL (SELECT day FROM orders i WHERE i.customer = o.customer);
SELECT part, COUNT(*) FROM customers c, UNNEST(string_split(c.city || ',x,' || c.city, ',')) AS s(part) GROUP BY
part;
SELECT COUNT(*) FROM customers c, LATERAL (SELECT unnest(string_split(c.city || ' y', ' ')) AS part) s JOIN orders
o ON o.customer = c.id WHERE part <> 'y';
SELECT n, COUNT(*) FROM (SELECT id, COUNT(DISTINCT part) n FROM (SELECT id, UNNEST(string_split(city || ',x,x', ','))
AS part FROM customers) t GROUP BY id) GROUP BY n;
SELECT COUNT(*) FROM orders JOIN (SELECT id, unnest(string_split(kind, 'o')) FROM products) p ON p.id = day;
WITH k(city, n) AS (SELECT 'a', 1 UNION ALL SELECT 'b', NULL UNION ALL SELECT NULL, -3) SELECT n, COUNT(*) FROM
customers c JOIN k ON k.city = c.city GROUP BY n;
SELECT x, COUNT(*) FROM orders, (VALUES (1, -0.0), (2, 2.25), (2, NULL)) v(x, y) WHERE day > x AND total >= y GROUP BY
x;
SELECT m, COUNT(*) FROM orders JOIN generate_series(1, 6, 2) AS g(m) ON day = m CROSS JOIN range(2) GROUP BY m;
SELECT COUNT(*) FROM orders WHERE day IN (SELECT unnest([1, 3, 5])) OR day = (SELECT 4);
SELECT COUNT(*) FROM orders JOIN (SELECT 1 AS d UNION SELECT 2 UNION SELECT 2) t ON day = d;
SELECT COUNT(*) FROM orders WHERE day IN (SELECT id FROM products ORDER BY cost DESC NULLS LAST, id LIMIT 2 OFFSET 1);
SELECT kind, COUNT(*) FROM orders JOIN (SELECT DISTINCT kind FROM products ORDER BY 1 LIMIT 2) p ON length(kind) > day
GROUP BY kind;
SELECT COUNT(*) FROM customers WHERE city IN (SELECT city FROM regions GROUP BY city ORDER BY COUNT(*) DESC, city
LIMIT 1);
SELECT COUNT(*) FROM orders WHERE total > (SELECT cost FROM products ORDER BY cost, id LIMIT 1);
SELECT COUNT(*) FROM orders WHERE total > (SELECT cost FROM products WHERE id = 2);
SELECT COUNT(*) FROM orders o WHERE total > (SELECT age / 30 FROM customers c WHERE c.id = o.customer);
SELECT kind, COUNT(o.id), SUM(total * 2), COUNT(DISTINCT customer) FROM products p LEFT JOIN orders o ON p.id = o.day
WHERE p.cost > 0 GROUP BY kind;
SELECT kind, COUNT(total) FILTER (WHERE p.cost > 0), SUM(total) FROM orders o RIGHT JOIN products p ON p.id = o.day AND
o.total > 1 WHERE NOT o.day = 2 GROUP BY kind;
SELECT id, COUNT(day) FROM (SELECT id FROM products) p LEFT JOIN (SELECT day AS id, day FROM orders) o USING (id) GROUP
BY id;
SELECT r.region, COUNT(o.day) FROM regions r LEFT JOIN customers c ON c.city = r.city LEFT JOIN orders o ON o.customer
= c.id GROUP BY r.region;
SELECT SUM(day) FROM regions r LEFT JOIN customers c ON c.city = r.city JOIN orders o ON o.customer = c.id;
SELECT SUM(n * 2 + d), SUM(n), SUM(s) FROM (SELECT customer, COUNT(*) n, SUM(day) s, COUNT(DISTINCT day) d FROM
orders GROUP BY customer);
SELECT SUM(p), SUM((SELECT COUNT(*) FROM orders WHERE customer = t.customer)) FROM (SELECT customer, row_number()
OVER (PARTITION BY customer ORDER BY day, total) AS p FROM orders) t;
SELECT COUNT(*) FROM (SELECT customer, SUM(n) s FROM (SELECT customer, day, COUNT(*) n FROM orders GROUP BY ALL)
GROUP BY customer) WHERE s > 2;
SELECT COUNT(*) FROM (SELECT order_id FROM items i JOIN orders o ON o.id = i.order_id GROUP BY order_id HAVING
COUNT(*) > 1) t;
SELECT COUNT(*) FROM (SELECT kind, AVG(cost) m FROM products GROUP BY kind HAVING COUNT(*) > 1) k JOIN products
p ON p.kind = k.kind JOIN orders o ON o.day = p.id;
WITH f AS (SELECT *, rank() OVER (PARTITION BY customer ORDER BY day) rk FROM orders) SELECT day, COUNT(*) FROM
f WHERE rk = 1 GROUP BY day;
WITH f AS (SELECT *, dense_rank() OVER (PARTITION BY customer ORDER BY day DESC) rk, sum(day) OVER (PARTITION BY
customer ORDER BY day) sm FROM orders) SELECT rk, sm, COUNT(*) FROM f GROUP BY rk, sm;
SELECT n, COUNT(*) FROM (SELECT row_number() OVER (PARTITION BY customer ORDER BY day, total) AS n FROM orders)
GROUP BY n;
SELECT a, b, COUNT(*) FROM (SELECT row_number() OVER (PARTITION BY customer ORDER BY day, id) a,
row_number() OVER (PARTITION BY customer ORDER BY total DESC, id) b FROM orders) GROUP BY a, b;
SELECT m, n, COUNT(*) FROM (SELECT customer, COUNT_IF(day > 2) n, mean(total) m FROM orders GROUP BY customer)
GROUP BY m, n;
SELECT day, COUNT(*) FROM (SELECT * FROM orders QUALIFY count(*) OVER (PARTITION BY customer) > 1) GROUP BY day;
SELECT d, COUNT(*) FROM (SELECT day - lag(day, 1, 0) OVER (PARTITION BY customer ORDER BY day) d FROM orders)
GROUP BY d;
SELECT f, COUNT(*) FROM (SELECT first_value(day) OVER (PARTITION BY customer ORDER BY day DESC) f FROM orders)
GROUP BY f;
SELECT q, COUNT(*) FROM (SELECT ntile(2) OVER (PARTITION BY customer ORDER BY day) q, max(total) OVER (PARTITION
BY customer) m FROM orders) WHERE m > 1 GROUP BY q;
SELECT COUNT(*) FROM customers c WHERE EXISTS (SELECT * FROM orders o WHERE o.customer = c.id AND o.total > 1)
AND city NOT IN (SELECT city FROM regions WHERE region = 'n');
SELECT COUNT(*) FROM customers c WHERE city NOT IN (SELECT city FROM regions);
SELECT COUNT(*) FROM customers c WHERE NOT (city IN (SELECT city FROM regions WHERE city IS NOT NULL AND region
= 's'));
SELECT COUNT(*) FROM customers c WHERE city IN (SELECT city FROM regions);
SELECT COUNT(*) FROM customers c WHERE NOT EXISTS (SELECT * FROM orders o WHERE o.customer = c.id AND o.day <
c.age);
SELECT COUNT(*) FROM customers c WHERE NOT EXISTS (SELECT * FROM regions r WHERE r.city = c.city);
SELECT COUNT(*) FROM orders WHERE id IN (SELECT order_id FROM items WHERE price > 3);
SELECT COUNT(*) FROM orders WHERE id NOT IN (SELECT order_id FROM items WHERE price > 3);
SELECT COUNT(*) FROM orders WHERE id IN (SELECT order_id FROM items GROUP BY order_id HAVING COUNT(*) > 1);
SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM items i JOIN products p ON p.id = i.product WHERE
i.order_id = o.id AND p.cost < o.total);
SELECT COUNT(*) FROM (SELECT customer u, day FROM orders UNION SELECT id, age FROM customers) t;
SELECT COUNT(*) FROM (SELECT customer u, day FROM orders UNION ALL SELECT id, age FROM customers) t;
SELECT COUNT(*) FROM (SELECT DISTINCT customer u, day FROM orders) t;
WITH a AS (SELECT * FROM orders WHERE day > 2), b (who, n) AS (SELECT customer, COUNT(*) FROM a GROUP BY
customer) SELECT n, COUNT(*) FROM a JOIN b ON a.customer = b.who GROUP BY n;
SELECT city, COUNT(*) FROM (SELECT customer AS id, COUNT(*) n FROM orders GROUP BY customer) o NATURAL JOIN
customers WHERE n > 1 GROUP BY city;
SELECT COUNT(*) FROM orders o JOIN (SELECT MAX(cost) m FROM products) t ON o.total < m;
SELECT COUNT(*) FROM orders WHERE total > (SELECT AVG(cost) FROM products);
SELECT COUNT(*) FROM orders o WHERE total >= (SELECT AVG(p.total) FROM orders p WHERE p.customer = o.customer);
SELECT COUNT(*) FROM orders o WHERE (SELECT COUNT(*) FROM items i WHERE i.order_id = o.id) > 1;
SELECT COUNT(*) FROM orders o WHERE (SELECT COUNT(*) FROM items i WHERE i.order_id = o.id) = 0;
SELECT COUNT(*) FROM orders o WHERE (SELECT COUNT(*) FROM orders p WHERE p.customer = o.customer AND p.day < o.day)
> 1;
SELECT COUNT(*) FROM orders o WHERE (SELECT SUM(p.day - o.day) FROM orders p WHERE p.customer = o.customer) > 3;
SELECT COUNT(*) FROM orders o WHERE (SELECT COUNT(*) FROM products p WHERE p.cost > o.total) >= 1;
SELECT COUNT(*) FROM orders WHERE day > 3 OR id IN (SELECT order_id FROM items);
SELECT COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM items i WHERE i.order_id = o.id)) FROM orders o;
SELECT COUNT(*) FILTER (WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.order_id = o.id AND i.price > o.day)) FROM
orders o;
SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM products p WHERE p.cost > o.total) OR day = 3;
SELECT SUM(CASE WHEN city IN (SELECT city FROM regions) THEN 1 ELSE 0 END) FROM customers;
SELECT SUM(CASE WHEN city NOT IN (SELECT city FROM regions WHERE city IS NOT NULL) THEN 1 WHEN age > 3 THEN 5 ELSE
2 END) FROM customers;
SELECT COUNT(*) FROM customers WHERE (city IN (SELECT city FROM regions)) IS NULL;
SELECT COUNT(*) FROM customers WHERE (city IN (SELECT city FROM regions WHERE city > 'zzz')) IS NULL;
SELECT COUNT(*) FROM customers WHERE age > 40 OR NOT (city IN (SELECT city FROM regions WHERE region = 'n'));
SELECT city IN (SELECT city FROM regions), COUNT(*) FROM customers GROUP BY 1;
SELECT COUNT(*) FROM orders o WHERE id NOT IN (SELECT order_id FROM items i WHERE i.quantity > o.day AND
i.order_id = o.id);
SELECT COUNT(*) FROM customers c WHERE age NOT IN (SELECT day FROM orders o WHERE o.customer = c.id);
SELECT COUNT(*) FROM customers c WHERE age NOT IN (SELECT day FROM orders o WHERE o.customer = c.id AND o.total >
c.age);
SELECT COUNT(*) FROM (SELECT customer, SUM(total) s FROM orders GROUP BY customer HAVING SUM(total) > (SELECT
AVG(cost) FROM products)) t;
SELECT COUNT(*) FROM (SELECT id, (SELECT MAX(total) FROM orders o WHERE o.customer = c.id) m, (SELECT COUNT(*) FROM
products) k FROM customers c) t WHERE m > 1 AND k > 2;
SELECT SUM(least(9, coalesce((SELECT MAX(day) - MIN(day) FROM orders o WHERE o.customer = c.id), 7))) FROM
customers c;
SELECT kind, COUNT(*) FROM products p JOIN orders o ON p.id = o.day WHERE p.cost >= (SELECT AVG(cost) FROM products
q WHERE q.kind = p.kind) GROUP BY kind;
SELECT COUNT(*) FROM orders o WHERE total = (SELECT MAX(total) FROM orders p WHERE p.customer = o.customer AND
(p.day = 3 OR EXISTS (SELECT 1 FROM items i WHERE i.order_id = p.id)));
SELECT COUNT(*) FROM (SELECT customer FROM orders EXCEPT SELECT id FROM customers) t;
SELECT COUNT(*) FROM (SELECT customer, total FROM orders EXCEPT ALL SELECT customer, total FROM orders WHERE day >
3) t;
SELECT COUNT(*) FROM (SELECT customer, total FROM orders WHERE day < 6 INTERSECT ALL SELECT customer, total FROM
orders WHERE day > 3) t;
SELECT COUNT(*) FROM (SELECT customer, total FROM orders WHERE day < 6 INTERSECT SELECT customer, total FROM orders
WHERE day > 3) t;
SELECT COUNT(*) FROM (SELECT id, city FROM customers EXCEPT SELECT 3, city FROM regions) t;
SELECT COUNT(*) FROM customers c JOIN (SELECT city FROM regions EXCEPT ALL SELECT city FROM regions WHERE region =
'n') r ON r.city = c.city;
SELECT s, n, COUNT(*) FROM (SELECT sum(day) OVER (PARTITION BY customer ORDER BY id ROWS 2 PRECEDING) s, count(*)
OVER (PARTITION BY customer ORDER BY id ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) n FROM orders) t GROUP BY s, n;
SELECT s, COUNT(*) FROM (SELECT min(total) OVER (PARTITION BY customer ORDER BY id ROWS BETWEEN 3 PRECEDING AND 1
PRECEDING) s FROM orders) t GROUP BY s;
SELECT s, COUNT(*) FROM (SELECT avg(day) OVER (PARTITION BY customer ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1
FOLLOWING) s FROM orders) t GROUP BY s;
SELECT s, COUNT(*) FROM (SELECT last_value(total) OVER (PARTITION BY customer ORDER BY id ROWS BETWEEN UNBOUNDED
PRECEDING AND UNBOUNDED FOLLOWING) s FROM orders) t GROUP BY s;
SELECT s, COUNT(*) FROM (SELECT sum(day) OVER (PARTITION BY customer ORDER BY total RANGE BETWEEN UNBOUNDED
PRECEDING AND CURRENT ROW) s FROM orders) t GROUP BY s
"""
QUESTIONS = [" ".join(q.split()) for q in _TEXT.split(";")]


@pytest.mark.exhaustive
@pytest.mark.sampled(12)
@pytest.mark.thinned(6)
@pytest.mark.parametrize("sql", QUESTIONS)
def test_the_nested_text_answers_what_the_database_answers(sql: str) -> None:
    question = read(sql)
    for seed in range(3):
        db = stored(seed)
        assert answered(question, db) == exact(sql, db, question), seed


@pytest.mark.exhaustive
@pytest.mark.sampled(12)
@pytest.mark.thinned(6)
@pytest.mark.parametrize("sql", QUESTIONS)
def test_the_rows_of_a_unit_are_the_same_when_it_is_alone(sql: str) -> None:
    question = read(sql)
    together = _rows(question, stored(99))
    for unit in range(6):
        alone = _rows(question, stored(99, unit))
        assert {u for u, *_ in alone} <= {unit}
        assert alone == Counter({r: n for r, n in together.items() if r[0] == unit}), unit


@pytest.mark.exhaustive
@pytest.mark.sampled(15)
@pytest.mark.thinned(6)
@pytest.mark.parametrize("sql", QUESTIONS)
def test_the_second_derivation_accepts_the_text(sql: str) -> None:
    assert planned(sql).question.relation is not None or "JOIN" not in sql


@cache
def stored(seed: int, unit: int | None = None, *, turned: bool = False) -> duckdb.DuckDBPyConnection:
    """A database with the data of a seed: of one unit, or in the opposite order."""
    rows = data(seed) if unit is None else of_unit(data(seed), unit)
    return database({n: list(reversed(t)) if turned else t for n, t in rows.items()})


def _rows(question: Question, db: duckdb.DuckDBPyConnection) -> Counter[tuple[Any, ...]]:
    assert question.relation is not None
    found = db.execute(question.relation.sql).fetchall()
    return Counter((r[0], *map(repr, r[1:])) for r in found if r[0] is not None)


def test_a_key_that_two_units_share_makes_the_row_each_ones_own() -> None:
    rows = data(0) | {"orders": [(1, 0, 2, 1.0), (1, 3, 4, 2.0)], "items": [(1, 2, 8.0, 1)]}
    question = read("SELECT COUNT(*), COUNT(DISTINCT o.customer) FROM items i JOIN orders o ON o.id = i.order_id")
    both = _rows(question, database(rows))
    assert {u for u, *_ in both} == {0, 3}
    assert sum(both.values()) == 2, "each unit sees its own pair, not the other's"


def test_rows_that_lead_to_nobody_are_nobodys() -> None:
    rows = data(0) | {
        "orders": [(1, None, 2, 1.0), (2, 4, 2, 1.0)],
        "items": [(1, 1, 1.0, 1), (None, 1, 1.0, 1), (7, 1, 1.0, 1)],
    }
    assert answered(read("SELECT COUNT(*) FROM items"), database(rows)) == {}
    rows["items"].append((2, 1, 1.0, 1))
    assert answered(read("SELECT COUNT(*) FROM items"), database(rows)) == {(): [1.0]}


def test_not_in_with_nulls_follows_each_units_own_list() -> None:
    rows = data(0) | {"orders": [(1, 0, 1, 1.0), (2, 0, 1, 1.0), (None, 3, 1, 1.0)], "items": [(1, 1, 1.0, 1)]}
    question = read("SELECT COUNT(*) FROM orders WHERE id NOT IN (SELECT order_id FROM items)")
    assert answered(question, database(rows)) == {(): [1.0]}, "the order 2; an unknown id is in no list"


@pytest.mark.exhaustive
@pytest.mark.sampled(12)
@pytest.mark.thinned(6)
@pytest.mark.parametrize("sql", QUESTIONS)
def test_the_order_in_which_rows_are_stored_changes_nothing(sql: str) -> None:
    question = read(sql)
    for seed in range(3):
        assert _rows(question, stored(seed)) == _rows(question, stored(seed, turned=True)), seed


def test_the_engine_needs_no_more_than_the_columns_that_are_asked_for() -> None:
    relation = read("SELECT COUNT(*) FROM orders o JOIN customers c ON c.id = o.customer WHERE c.age > 3").relation
    assert relation is not None
    assert relation.sql == (
        'SELECT l.u AS u, r.c0 AS c1 FROM (SELECT t."customer" AS u FROM main."orders" t) l JOIN '
        '(SELECT t."id" AS u, t."age" AS c0 FROM main."customers" t) r ON l.u = r.u'
    )
    assert [t.name for t in relation.tables] == ["orders", "customers"]


def test_a_database_error_cannot_come_from_one_row() -> None:
    rows = data(1)
    rows["orders"] += [(50, 0, 9_223_372_036_854_775_807, 1.7e308), (51, 0, 9_223_372_036_854_775_807, 1.7e308)]
    rows["orders"] += [(52, 0, -5, float("nan")), (53, 0, 0, float("inf"))]
    sql = (
        "SELECT COUNT(*) FROM (SELECT customer, SUM(day) s, SUM(total) t, AVG(total) a, MAX(total) m FROM orders"
        " GROUP BY customer) x JOIN (SELECT customer, SUM(day) OVER (PARTITION BY customer ORDER BY total) w,"
        " lag(total) OVER (PARTITION BY customer ORDER BY day) l FROM orders) y ON x.customer = y.customer AND"
        " s + w > 0 AND t / l > 0 AND a * m > 1"
    )
    try:
        answered(read(sql), database(rows))
    except duckdb.Error as error:  # pragma: no cover - that would be the failure
        pytest.fail(str(error))


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sql", "once"),
    [
        ("SELECT COUNT(*) FROM (SELECT customer FROM orders GROUP BY customer)", True),
        ("SELECT SUM(least(n, 3)) FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) t", True),
        (
            (
                "SELECT COUNT(*) FROM (SELECT customer FROM orders GROUP BY customer) a JOIN "
                "(SELECT id FROM customers GROUP BY id) b ON a.customer = b.id"
            ),
            True,
        ),
        (
            (
                "SELECT COUNT(*) FROM (SELECT customer FROM orders GROUP BY customer) t "
                "WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = t.customer AND o.day > 2)"
            ),
            True,
        ),
        (
            (
                "SELECT SUM((SELECT COUNT(*) FROM products WHERE cost > n)) FROM (SELECT customer, COUNT(*) AS n, "
                "MAX(total) - (SELECT MIN(cost) FROM products) AS m FROM orders GROUP BY customer) t WHERE n > 9 OR "
                "EXISTS (SELECT 1 FROM orders o WHERE o.customer = t.customer AND o.day > t.n)"
            )
            .replace("SUM((", "SUM(least(5, (")
            .replace(")) FROM (", "))) FROM ("),
            True,
        ),
        ("SELECT COUNT(*) FROM (SELECT customer, day FROM orders GROUP BY customer, day)", False),
        ("SELECT COUNT(*) FROM (SELECT id FROM orders GROUP BY id)", False),
        ("SELECT COUNT(*) FROM (SELECT customer FROM orders GROUP BY customer) t JOIN regions r ON TRUE", False),
        (
            (
                "SELECT COUNT(*) FROM (SELECT customer FROM orders GROUP BY customer) t "
                "JOIN orders o ON o.customer = t.customer"
            ),
            False,
        ),
        (
            (
                "SELECT COUNT(*) FROM (SELECT customer FROM orders GROUP BY customer "
                "UNION ALL SELECT customer FROM orders GROUP BY customer)"
            ),
            False,
        ),
    ],
)
def test_a_unit_with_one_row_has_caps_of_one(sql: str, once: bool) -> None:
    question = planned(sql).question
    caps = question.table.unit.max_groups, question.table.unit.max_rows
    assert (caps == (1, 1)) is once
    if once:  # and it has one row at most, whatever the tables hold
        assert question.relation is not None
        rows = database(data(5)).execute(f"SELECT u, count(*) FROM ({question.relation.sql}) GROUP BY u").fetchall()
        assert rows
        assert all(n == 1 for u, n in rows if u is not None)


@pytest.mark.parametrize(
    "window",
    [
        "lag(total) OVER (PARTITION BY customer ORDER BY day)",
        "lead(total, 2) OVER (PARTITION BY customer ORDER BY day)",
        "sum(CAST(total AS BIGINT)) OVER (PARTITION BY customer ORDER BY day ROWS 1 PRECEDING)",
    ],
)
def test_a_row_finds_the_value_of_its_subquery_again_whatever_else_is_read_of_it(window: str) -> None:
    """What a window says of ties is the same where the rows are read to ask the subquery and where they are read on."""
    rows = data(1) | {"orders": [(i, 1, 1, float(i * 7 % 24)) for i in range(24)]}
    nested = f"(SELECT customer, id, total, {window} AS l FROM orders) w"
    always = "EXISTS (SELECT 1 FROM products p WHERE p.id < w.l OR w.l >= 0 OR w.l IS NULL)"
    sql = f"SELECT COUNT(*) AS n FROM {nested} WHERE w.id < -1 OR {always}"
    planned(sql)
    assert answered(read(sql), database(rows)) == {(): [24.0]}
