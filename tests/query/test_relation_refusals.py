"""What is refused of joins, subqueries and windows: by name, and with a way round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.errors import MissingBounds, PlanError, UnknownColumn, UnsupportedQuery
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.query.relations import narrow, read, tables

PAIRED = (
    "Two private tables are joined on something that does not hold their units equal, "
    "which would pair people with each other."
)
UNMATCHED = "An aggregate would count public rows that nobody matches."
PUBLIC_LEFT = "Public rows that no person matches would come out of this join beside people's rows."
OVER_PEOPLE = "A subquery that aggregates over people is a result of its own."
OF_ANSWER = "A subquery beside aggregates, in HAVING or in ORDER BY is not supported: these read the noisy result."
FRAME_END = "A frame is counted in written whole numbers of rows."
FRAMED = "SELECT COUNT(*) FROM (SELECT {0} OVER (PARTITION BY customer {1}) FROM orders) t"
SPLIT = "UNNEST(string_split({}, ','))"
SEVERAL = "IN (SELECT …) compares each value with one column, and several of them only as a condition of WHERE."
WINDOW = "A window over several people's rows would show one person's rows beside another's."

REFUSED = [
    # joins
    ("SELECT COUNT(*) FROM customers, orders", PAIRED),
    ("SELECT COUNT(*) FROM customers c CROSS JOIN orders o", PAIRED),
    ("SELECT COUNT(*) FROM customers c JOIN orders o ON c.age = o.day", PAIRED),
    ("SELECT COUNT(*) FROM customers c JOIN orders o ON c.id = o.id", PAIRED),
    ("SELECT COUNT(*) FROM customers c JOIN orders o ON c.id <= o.customer", PAIRED),
    ("SELECT COUNT(*) FROM customers c JOIN orders o ON c.id = o.customer OR c.age > 3", PAIRED),
    ("SELECT COUNT(*) FROM customers a JOIN products p ON p.id = a.id JOIN orders b ON b.id = p.id", PAIRED),
    ("SELECT COUNT(*) FROM customers c LEFT JOIN orders o ON o.customer = c.id LEFT JOIN orders p USING (customer)",
     PAIRED),
    ("SELECT COUNT(*) FROM products p LEFT JOIN items i ON p.id = i.product", UNMATCHED),
    ("SELECT COUNT(*) FROM items i RIGHT JOIN products p ON p.id = i.product", UNMATCHED),
    ("SELECT SUM(cost) FROM products p LEFT JOIN items i ON p.id = i.product", UNMATCHED),
    ("SELECT COUNT(coalesce(price, 1)) FROM products p LEFT JOIN items i ON p.id = i.product", UNMATCHED),
    ("SELECT COUNT(price) FROM products p LEFT JOIN items i ON p.id = i.product WHERE i.price IS NULL",
     "A condition may keep public rows that nobody matches, which would tell of people."),
    ("SELECT COUNT(price) FROM products p LEFT JOIN items i ON p.id = i.product WHERE i.price > 1 OR p.cost > 1",
     "A condition may keep public rows that nobody matches, which would tell of people."),
    ("SELECT price, COUNT(price) FROM products p LEFT JOIN items i ON p.id = i.product GROUP BY price",
     "Public rows that nobody matches would be a group of their own."),
    ("SELECT COUNT(price) FROM products p LEFT JOIN items i ON p.id = i.product ANTI JOIN regions r ON r.city = kind",
     "Beside a LEFT JOIN from a public table stands a join that would keep its rows."),
    ("SELECT COUNT(n) FROM (SELECT p.id, i.price AS n FROM products p LEFT JOIN items i ON p.id = i.product) t",
     PUBLIC_LEFT),
    ("SELECT COUNT(price) FROM products p LEFT JOIN items i ON p.id = i.product RIGHT JOIN regions r ON r.city = kind",
     PUBLIC_LEFT),
    ("SELECT COUNT(*) FROM items i FULL JOIN products p ON p.id = i.product", PUBLIC_LEFT),
    ("SELECT COUNT(*) FROM products p SEMI JOIN items i ON p.id = i.product",
     "Which public rows have a match in a private table would tell of a person."),
    ("SELECT COUNT(*) FROM products p ANTI JOIN items i ON p.id = i.product",
     "Which public rows have no match in a private table would tell of a person."),
    ("SELECT COUNT(*) FROM products p WHERE EXISTS (SELECT * FROM items i WHERE p.id = i.product)",
     "Which public rows have a match in a private table would tell of a person."),
    ("SELECT COUNT(*) FROM products", "The query reads public tables only, which need no privacy."),
    ("SELECT COUNT(*) FROM orders, LATERAL (SELECT 1) x", "LATERAL is not supported here."),
    ("SELECT COUNT(*) FROM orders ASOF JOIN products p ON day >= p.id", "ASOF JOIN is not supported here."),
    ("SELECT COUNT(*) FROM orders POSITIONAL JOIN products", "POSITIONAL JOIN is not supported here."),
    ("SELECT COUNT(*) FROM orders JOIN orders ON orders.customer = orders.customer",
     "Two tables here are called 'orders'."),
    ("SELECT COUNT(*) FROM orders o FULL JOIN customers c ON o.customer = c.id AND EXISTS (SELECT 1 FROM products)",
     "A subquery cannot stand in ON."),
    ("SELECT COUNT(*) FROM customers c JOIN orders o ON c.id = o.customer WHERE id = 3",
     "The column 'id' is in several of the tables here."),
    ("SELECT COUNT(*) FROM products NATURAL JOIN regions", "NATURAL JOIN finds no common column."),
    # subqueries in FROM
    ("SELECT COUNT(*) FROM (SELECT day, AVG(total) a FROM orders GROUP BY day) t", OVER_PEOPLE),
    ("SELECT COUNT(*) FROM (SELECT AVG(total) a FROM orders) t", OVER_PEOPLE),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT day FROM orders) t",
     "DISTINCT over several people's rows would show one row for all of them."),
    ("SELECT COUNT(*) FROM (SELECT day FROM orders UNION SELECT age FROM customers) t",
     "DISTINCT over several people's rows would show one row for all of them."),
    ("SELECT COUNT(*) FROM (SELECT id FROM orders UNION ALL SELECT id FROM products) t",
     "UNION of private and public rows: the public ones would belong to nobody."),
    ("SELECT COUNT(*) FROM (SELECT id, day FROM orders UNION ALL SELECT id FROM customers) t",
     "The two sides of UNION have 2 and 1 columns."),
    ("SELECT COUNT(*) FROM (SELECT customer > 1 FROM orders UNION ALL SELECT id FROM customers) t",
     "A column of UNION is true or false and a whole number."),
    ("SELECT COUNT(*) FROM (SELECT day FROM orders EXCEPT SELECT age FROM customers) t",
     "EXCEPT over several people's rows would compare them with each other."),
    ("SELECT COUNT(*) FROM (SELECT id FROM orders INTERSECT ALL SELECT id FROM customers) t",
     "INTERSECT over several people's rows would compare them with each other."),
    ("SELECT COUNT(*) FROM (SELECT city FROM customers EXCEPT SELECT city FROM regions) t",
     "EXCEPT over several people's rows would compare them with each other."),
    ("SELECT COUNT(*) FROM (SELECT city FROM regions EXCEPT SELECT city FROM customers) t",
     "EXCEPT of public rows with private ones would tell of people."),
    ("SELECT COUNT(*) FROM (SELECT id, age FROM customers INTERSECT SELECT id FROM customers) t",
     "The two sides of INTERSECT have 2 and 1 columns."),
    ("SELECT COUNT(*) FROM (SELECT id FROM customers EXCEPT BY NAME SELECT id FROM customers) t",
     "EXCEPT with BY_NAME is not supported here."),
    ("SELECT COUNT(*) FROM (SELECT * FROM orders LIMIT 3) t",
     "LIMIT would choose among people's rows inside a subquery."),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT ON (day) customer FROM orders) t",
     "A window over several people's rows would show one person's rows beside another's."),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT ON (customer) customer FROM orders GROUP BY customer) t",
     "DISTINCT ON beside GROUP BY or QUALIFY is not supported here."),
    ("SELECT COUNT(*) FROM customers c, UNNEST([1, c.age]) AS s(x)", "There is no table 'c' in this query."),
    ("SELECT COUNT(*) FROM customers c, UNNEST(range(age)) AS s(x)",
     "UNNEST is supported for the parts of a text only."),
    ("SELECT COUNT(*) FROM customers c, (VALUES (1), (2, 3)) v(x)",
     "Rows that are written out have different lengths."),
    ("SELECT COUNT(*) FROM customers c, (VALUES (DATE '2020-01-01'), (2)) v(x)",
     "A column of written rows is a date and a whole number."),
    ("SELECT COUNT(*) FROM customers c, generate_series(1, 100000) v(x)",
     "A run of numbers has 1 to 10,000 of them here."),
    ("SELECT COUNT(*) FROM orders WHERE day IN (SELECT id FROM products LIMIT 1 + 1)",
     "LIMIT and OFFSET take a whole number here."),
    ("SELECT COUNT(*) FROM orders WHERE day IN (SELECT day FROM orders LIMIT 3)",
     "LIMIT would choose among people's rows inside a subquery."),
    ("SELECT COUNT(*) FROM customers c LEFT JOIN UNNEST(string_split(city, ',')) AS s(x) ON TRUE",
     "UNNEST is joined with a comma or CROSS JOIN."),
    ("SELECT COUNT(*) FROM customers c, UNNEST(string_split(city, city)) AS s(x)",
     "string_split takes a text and a written separator."),
    ("SELECT COUNT(*) FROM (SELECT UNNEST(string_split(city, 'a')), UNNEST(string_split(city, 'b')) FROM customers)",
     "Two lists are unnested beside each other."),
    ("SELECT COUNT(*) FROM (SELECT id, COUNT(*), UNNEST(string_split('a', 'b')) FROM customers GROUP BY id)",
     "UNNEST beside groups, aggregates or windows is not supported here."),
    (f"SELECT COUNT(*) FROM customers, {SPLIT.format('city')} a(x), {SPLIT.format('x')} b(y), {SPLIT.format('y')} c(z)",
     "The joins with public tables and split texts make more than 1,000,000 rows of one row."),
    ("SELECT COUNT(*) FROM (SELECT UNNEST(string_split(kind, 'a')) FROM products) t",
     "The query reads public tables only, which need no privacy."),
    ("SELECT COUNT(*) FROM (SELECT * REPLACE (1 AS day) FROM orders) t",
     "* with REPLACE or RENAME is not supported here."),
    ("SELECT COUNT(*) FROM (SELECT * EXCLUDE (age) FROM orders) t",
     "EXCLUDE names 'age', which * does not have."),
    ("SELECT COUNT(*) FROM (SELECT customer, day FROM orders GROUP BY customer) t",
     "The column 'day' must be in GROUP BY or inside an aggregate."),
    ("SELECT COUNT(*) FROM (SELECT customer, string_agg(day, ',') FROM orders GROUP BY customer) t",
     "GROUP_CONCAT is not supported inside a subquery here: it depends on the order of rows."),
    ("SELECT COUNT(*) FROM (SELECT customer, first(day) FROM orders GROUP BY customer) t",
     "FIRST is not supported inside a subquery here: it depends on the order of rows."),
    ("SELECT COUNT(*) FROM (SELECT customer, BOOL_OR(DISTINCT day > 1) FROM orders GROUP BY customer) t",
     "BOOL_OR(DISTINCT …) is not supported inside a subquery."),
    ("SELECT COUNT(*) FROM (SELECT 1) t", "The query reads public tables only, which need no privacy."),
    ("SELECT COUNT(*) FROM (SELECT COUNT(*)) t", "A subquery names no table."),
    ("WITH RECURSIVE t AS (SELECT id FROM orders UNION ALL SELECT id FROM t) SELECT COUNT(*) FROM t",
     "WITH RECURSIVE is not supported here."),
    ("WITH t AS (SELECT id FROM customers) SELECT COUNT(*) FROM orders",
     "The subquery 't' of WITH is not used."),
    # subqueries in WHERE and in the place of values
    ("SELECT COUNT(*) FROM orders WHERE day > 3 OR EXISTS (SELECT 1 FROM customers WHERE age > 3)", PAIRED),
    ("SELECT SUM(CASE WHEN day IN (SELECT age FROM customers) THEN 1 ELSE 0 END) FROM orders", PAIRED),
    ("SELECT COUNT(*) FROM orders WHERE total > (SELECT AVG(total) FROM orders)", OVER_PEOPLE),
    ("SELECT COUNT(*) FROM orders o WHERE total > (SELECT AVG(p.total) FROM orders p WHERE p.day = o.day)",
     OVER_PEOPLE),
    ("SELECT COUNT(*) FROM orders o WHERE total > (SELECT AVG(p.total) FROM orders p WHERE p.customer <= o.customer)",
     OVER_PEOPLE),
    ("SELECT COUNT(*) FROM orders o WHERE 1 > (SELECT AVG(total) FROM orders p WHERE p.customer = o.customer OR TRUE)",
     OVER_PEOPLE),
    ("SELECT COUNT(*) FROM orders WHERE total > (SELECT MAX(cost) FROM products GROUP BY kind)",
     "A subquery with GROUP is not supported in place of a value."),
    ("SELECT COUNT(*) FROM orders WHERE total > (SELECT cost FROM products ORDER BY id LIMIT 2)",
     "A subquery with LIMIT is not supported in place of a value."),
    ("SELECT COUNT(*) FROM orders WHERE total > (SELECT total FROM orders ORDER BY id LIMIT 1)",
     "LIMIT would choose among people's rows inside a subquery."),
    ("SELECT COUNT(*) FROM orders WHERE total > (SELECT MAX(cost), MIN(cost) FROM products)",
     "A subquery of several columns is not supported in place of a value."),
    ("SELECT COUNT(*) FROM orders o WHERE 3 < (SELECT MAX(o.total) FROM products)",
     "An aggregate in a subquery has to read the subquery's own columns."),
    ("SELECT COUNT(*) FROM orders WHERE total > (SELECT MEDIAN(cost) FROM products)",
     "MEDIAN is not supported inside a subquery."),
    ("SELECT COUNT(*) FROM orders WHERE total > (SELECT cost + MAX(cost) FROM products)",
     "There is no column 'cost' in orders."),
    ("SELECT COUNT(*) FROM orders WHERE day > 3 OR total > ALL (SELECT cost FROM products)",
     "ALL (SELECT …) is not supported here."),
    ("SELECT COUNT(*) FROM orders WHERE NOT total > ANY (SELECT cost FROM products)",
     "ANY (SELECT …) is not supported here."),
    ("SELECT COUNT(*) FROM orders WHERE total > ANY (SELECT total FROM orders)", PAIRED),
    ("SELECT COUNT(*) FROM orders WHERE day = ANY (SELECT age FROM customers)", PAIRED),
    ("SELECT COUNT(*) FROM orders WHERE total > ALL (SELECT total FROM orders)", PAIRED),
    ("SELECT COUNT(*) FROM orders WHERE (day, total) IN (SELECT day, total FROM orders)", PAIRED),
    ("SELECT COUNT(*) FROM orders JOIN products p ON p.id = day AND EXISTS (SELECT 1 FROM customers)", PAIRED),
    ("SELECT COUNT(*) FROM orders LEFT JOIN products p ON p.id = day AND day IN (SELECT id FROM products)",
     "A subquery cannot stand in ON."),
    ("SELECT COUNT(*) FROM orders WHERE (SELECT MAX(id) FROM products) IN (SELECT id FROM products) OR day = 3",
     "A subquery in this place is not supported here."),
    ("SELECT COUNT(*) FROM orders WHERE day > 3 OR (day, id) IN (SELECT id, id FROM products)",
     SEVERAL),
    ("SELECT (SELECT COUNT(*) FROM products) FROM orders", OF_ANSWER),
    ("SELECT COUNT(*) / (SELECT COUNT(*) FROM products) FROM orders", OF_ANSWER),
    ("SELECT day, COUNT(*) AS n FROM orders GROUP BY day HAVING n > (SELECT COUNT(*) FROM products)", OF_ANSWER),
    ("SELECT day, COUNT(*) FROM orders GROUP BY day ORDER BY day IN (SELECT id FROM products)", OF_ANSWER),
    ("SELECT COUNT(*) FROM (SELECT EXISTS (SELECT 1 FROM items WHERE order_id = o.id) FROM orders o GROUP BY customer)",
     "A subquery must be in GROUP BY or inside an aggregate."),
    ("SELECT COUNT(*) FROM orders o SEMI JOIN products p ON o.day = p.id AND p.cost IN (SELECT cost FROM products)",
     "A subquery cannot stand in ON."),
    ("SELECT COUNT(*) FROM customers WHERE city IN (SELECT (SELECT MAX(city) FROM customers) FROM regions) OR age = 3",
     "What a private table holds for a public row would tell of people."),
    ("SELECT COUNT(*) FROM orders WHERE EXISTS (SELECT * FROM customers WHERE age > 3)", PAIRED),
    ("SELECT COUNT(*) FROM orders WHERE day IN (SELECT age FROM customers)", PAIRED),
    ("SELECT COUNT(*) FROM orders WHERE day IN (SELECT id, cost FROM products)",
     SEVERAL),
    ("SELECT COUNT(*) FROM orders o WHERE day NOT IN (SELECT age FROM customers c WHERE c.age > o.day)", PAIRED),
    # windows
    ("SELECT COUNT(*) FROM (SELECT rank() OVER (ORDER BY day) FROM orders) t", WINDOW),
    ("SELECT COUNT(*) FROM (SELECT count(*) OVER (PARTITION BY day) FROM orders) t", WINDOW),
    ("SELECT COUNT(*) FROM (SELECT sum(total) OVER (PARTITION BY customer) FROM orders) t",
     "Windows add whole numbers only: a sum of others would depend on the order of rows in its last digit."),
    (FRAMED.format("sum(day)", "ROWS 1 PRECEDING"), "A frame of rows needs an order."),
    (FRAMED.format("sum(total)", "ORDER BY id ROWS 1 PRECEDING"),
     "Windows add whole numbers only: a sum of others would depend on the order of rows in its last digit."),
    (FRAMED.format("sum(day)", "ORDER BY id RANGE 3 PRECEDING"),
     "Frames of windows are supported as ROWS only, not as RANGE and GROUPS."),
    (FRAMED.format("sum(day)", "ORDER BY id GROUPS 3 PRECEDING"),
     "Frames of windows are supported as ROWS only, not as RANGE and GROUPS."),
    (FRAMED.format("sum(day)", "ORDER BY id ROWS day PRECEDING"), FRAME_END),
    (FRAMED.format("sum(day)", "ORDER BY id ROWS 1.5 PRECEDING"), FRAME_END),
    (FRAMED.format("sum(day)", "ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING"),
     "This frame ends before it starts."),
    (FRAMED.format("sum(day)", "ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES"),
     "EXCLUDE in a window is not supported here."),
    (FRAMED.format("row_number()", "ORDER BY id ROWS 1 PRECEDING"), "ROW_NUMBER takes no frame."),
    ("SELECT COUNT(*) FROM (SELECT sum(day) OVER v FROM orders WINDOW w AS (PARTITION BY customer)) t",
     "OVER names a window that WINDOW does not."),
    ("SELECT COUNT(*) FROM (SELECT sum(day) OVER w FROM orders WINDOW w AS (PARTITION BY day)) t", WINDOW),
    (FRAMED.format("last_value(day)", "ORDER BY id"), "LAST_VALUE without a frame is the current row's own value."),
    ("SELECT COUNT(*) FROM (SELECT lag(day, id) OVER (PARTITION BY customer ORDER BY id) FROM orders) t",
     "LAG, LEAD and NTILE take a written whole number."),
    ("SELECT COUNT(*) FROM (SELECT lag(day, 1, id) OVER (PARTITION BY customer ORDER BY id) FROM orders) t",
     "The default of LAG and LEAD has to be a constant."),
    ("SELECT COUNT(*) FROM (SELECT ntile(0) OVER (PARTITION BY customer) FROM orders) t",
     "NTILE takes a number above 0."),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "sentence"), REFUSED)
def test_what_is_not_owned_or_not_answered_is_refused_by_name(sql: str, sentence: str) -> None:
    with pytest.raises((UnsupportedQuery, UnknownColumn)) as caught:
        read(sql)
    assert caught.value.message == sentence
    assert caught.value.hint, "a way round"
    assert "\0" not in f"{caught.value}", "a name that no query can write"


def test_the_hint_of_a_subquery_over_people_is_the_one_that_is_answered() -> None:
    asked = "SELECT COUNT(*) FROM orders o WHERE total > (SELECT AVG(total) FROM orders p{})"
    with pytest.raises(UnsupportedQuery) as caught:
        read(asked.format(""))
    assert caught.value.hint == (
        "ask it first, and write the number here; or hold the units equal in it: "
        "WHERE o.id = p.id or o.customer = p.customer"
    )
    read(asked.format(" WHERE o.customer = p.customer"))


def test_a_question_that_reads_itself_again_for_each_subquery_is_stopped() -> None:
    later = "(SELECT COUNT(*) FROM orders p WHERE p.customer = o.customer AND p.day > o.day + {})"
    read(f"SELECT COUNT(*) FROM orders o WHERE {' + '.join(map(later.format, range(9)))} > 1")
    with pytest.raises(UnsupportedQuery, match="reads more than 100 tables"):
        read(f"SELECT COUNT(*) FROM orders o WHERE {' + '.join(map(later.format, range(99)))} > 1")


def test_a_subquery_without_bounds_is_to_be_clamped() -> None:
    with pytest.raises(MissingBounds) as caught:
        read("SELECT AVG((SELECT SUM(i.product) FROM items i WHERE i.order_id = o.id)) FROM orders o")
    assert (
        caught.value.message
        == "SUM, AVG and the like need the bounds of '(SELECT …)', which must not be read from the data."
    )
    assert caught.value.hint == (
        "bounds='values' chooses them privately; or clamp in the query: least(high, greatest(low, (SELECT …)))"
    )
    read("SELECT AVG(least(9, (SELECT COUNT(*) FROM items i WHERE i.order_id = o.id))) FROM orders o")


def test_the_hint_of_a_refused_join_is_the_join_that_is_answered() -> None:
    with pytest.raises(UnsupportedQuery) as caught:
        read("SELECT COUNT(*) FROM orders o JOIN items i ON o.day = i.quantity")
    assert caught.value.hint == (
        "join on o.id = i.order_id; further conditions may stand beside it; or, if each of these keys is of one "
        "person, declare it: links={'orders': 'day -> items.quantity'}"
    )
    read("SELECT COUNT(*) FROM orders o JOIN items i ON o.id = i.order_id AND o.day = i.quantity")


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("SELECT COUNT(*) FROM orders o JOIN nothing n ON n.id = o.id", "There is no table 'nothing'."),
        ("SELECT COUNT(*) FROM orders o JOIN customers c ON c.id = o.customr", "There is no column 'customr' in o."),
        ("SELECT COUNT(x.id) FROM orders o JOIN customers c ON c.id = o.customer",
         "There is no table 'x' in this query."),
        ("SELECT COUNT(*) FROM (SELECT x.* FROM orders o) t", "There is no table 'x' in this subquery."),
        ("SELECT COUNT(t.n) FROM (SELECT id FROM orders) t", "There is no column 'n' in t."),
    ],
)  # fmt: skip
def test_names_that_are_not_there_are_errors(sql: str, sentence: str) -> None:
    with pytest.raises(UnknownColumn) as caught:
        read(sql)
    assert caught.value.message == sentence


def test_units_of_different_types_are_not_compared() -> None:
    given = narrow(tables(), "orders", columns={"id": Type.INT, "customer": Type.TEXT, "total": Type.REAL})
    with pytest.raises(UnsupportedQuery) as caught:
        read("SELECT COUNT(*) FROM orders o JOIN customers c ON c.id = o.customer", given)
    assert "a whole number in one table and text in the other" in caught.value.message or "text in one" in (
        caught.value.message
    )


def test_a_foreign_key_of_another_type_is_not_followed() -> None:
    given = narrow(tables(), "items", columns={"order_id": Type.TEXT, "product": Type.INT})
    with pytest.raises(UnsupportedQuery, match="of different types"):
        read("SELECT COUNT(*) FROM items", given)


def test_where_each_row_is_a_unit_no_join_multiplies_it() -> None:
    rows = TableSchema("rows", {"a": Type.INT}, {}, PrivacyUnit.row(), Relation.ADD_REMOVE)
    with pytest.raises(UnsupportedQuery) as caught:
        read("SELECT COUNT(*) FROM rows JOIN products p ON p.id = a", [rows, *tables()[3:]])
    assert caught.value.message == "Each row is a unit of its own here, and several rows of 'p' may meet one of them."
    with pytest.raises(UnsupportedQuery) as caught:
        read("SELECT COUNT(*) FROM rows JOIN products p ON p.id = a", [rows, *tables()])
    assert caught.value.message.startswith("Each row of 'rows' is a unit of its own")


def test_caps_that_were_not_said_are_asked_for() -> None:
    given = [replace(t, unit=PrivacyUnit(t.unit.column)) for t in tables()]
    with pytest.raises(MissingBounds, match="How much of the data one unit may add"):
        read("SELECT COUNT(*) FROM orders o JOIN products p ON p.id = o.day", given)


def test_a_with_that_doubles_itself_is_stopped() -> None:
    steps = "WITH t0 AS (SELECT * FROM orders)" + "".join(
        f", t{i} AS (SELECT a.* FROM t{i - 1} a JOIN t{i - 1} b ON a.customer = b.customer)" for i in range(1, 12)
    )
    with pytest.raises(PlanError):
        read(f"{steps} SELECT COUNT(*) FROM t11")
