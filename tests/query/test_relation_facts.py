"""What is publicly known of the columns of a relation, and what makes two questions over several tables the same."""

from __future__ import annotations

import pytest

from discreet.catalog.schema import Range, Reached, Values, near_columns
from discreet.catalog.types import Type
from discreet.errors import MissingBounds
from discreet.plan.question import read_question
from discreet.verify.failing import failure
from tests.query.relations import answered, data, database, narrow, planned, read, tables


def test_declared_keys_survive_joins_and_subqueries() -> None:
    keys = read(
        "SELECT k, COUNT(*) FROM (SELECT kind AS k FROM items, products p WHERE p.id = product) GROUP BY k"
    ).keys
    assert keys.lists == (("food", "toy", "book"),)


def test_the_side_of_an_outer_join_that_may_be_missing_adds_null_to_its_values() -> None:
    keys = read("SELECT kind, COUNT(*) FROM items LEFT JOIN products p ON p.id = product GROUP BY kind").keys
    assert keys.lists == (("food", "toy", "book", None),)


def test_an_expression_of_declared_columns_has_declared_values() -> None:
    keys = read("SELECT late, COUNT(*) FROM (SELECT customer, day > 5 AS late FROM orders) GROUP BY late").keys
    assert keys.lists == ((False, True),)


def test_a_range_that_follows_declares_no_keys() -> None:
    keys = read(
        "SELECT n, COUNT(*) FROM (SELECT year(CAST('2024-01-01' AS DATE)) + id AS n FROM customers) GROUP BY n"
    ).keys
    assert keys.lists is None


def test_bounds_pass_through_joins_and_inner_aggregates() -> None:
    question = read(
        "SELECT SUM(price * quantity), AVG(m), AVG(a), SUM(least(n, 20)) FROM items JOIN (SELECT id, customer,"
        " MAX(total) m, AVG(day) a, COUNT(*) n FROM orders GROUP BY id, customer) o ON o.id = order_id"
    )
    spans = [[float(b * m.step) for b in m.span(1)] for m in question.measures]
    for expected in ([0.0, 450.0], [0.0, 20.0], [-50.0, 50.0], [-3.0, 3.0]):  # means from the middle of their bounds
        assert expected in spans


def test_a_column_without_bounds_is_named_as_the_question_names_it() -> None:
    with pytest.raises(MissingBounds) as caught:
        read("SELECT AVG(n) FROM (SELECT customer, SUM(id) AS n FROM orders GROUP BY customer) t")
    assert caught.value.message == "SUM, AVG and the like need the bounds of 'n', which must not be read from the data."
    assert caught.value.hint == (
        "bounds='values' chooses them privately; or clamp in the query: least(high, greatest(low, n))"
    )  # there is no column n that anybody could declare
    for sql in ("SELECT SUM(customer) FROM orders", "SELECT SUM(customer) FROM (SELECT * FROM orders) t"):
        with pytest.raises(MissingBounds) as caught:
            read(sql)
        assert caught.value.hint.startswith("declare what is publicly known: columns={'customer': ")
    with pytest.raises(MissingBounds) as caught:  # a range of it is declared, for each row
        read("SELECT AVG(total) FROM (SELECT customer, 1 / SUM(total) AS total FROM orders GROUP BY customer) t")
    assert caught.value.hint.startswith("bounds='values' chooses them privately; or clamp in the query")
    with pytest.raises(MissingBounds) as caught:  # no range of a text bounds its length
        read("SELECT AVG(length(city)) FROM customers")
    assert caught.value.hint.startswith("bounds='values' chooses them privately; or clamp in the query")


ORDERS = "FROM orders GROUP BY customer"


@pytest.mark.parametrize(
    ("value", "rows", "low", "high"),
    [
        ("n", f"(SELECT customer, COUNT(*) n {ORDERS})", 1, 5),
        ("n", f"(SELECT customer, COUNT(total) n {ORDERS})", 0, 5),
        ("n", f"(SELECT customer, COUNT_IF(total > 3) n {ORDERS})", 0, 5),
        ("n", "(SELECT id, COUNT(DISTINCT kind) n FROM orders JOIN products USING (id) GROUP BY customer, id)", 0, 3),
        ("n", f"(SELECT customer, SUM(total) n {ORDERS})", 0, 500),
        ("n", f"(SELECT customer, SUM(total - 60) n {ORDERS})", -300, 200),
        ("n", f"(SELECT customer, SUM(1 + day) n {ORDERS})", 2, 40),
        ("n", f"(SELECT customer, SUM(total) / COUNT(*) + 1 n {ORDERS})", 1, 501),
        ("2 * n", f"(SELECT customer, COUNT(*) n {ORDERS})", 2, 10),
        ("n", f"(SELECT customer, MAX(n) n FROM (SELECT customer, COUNT(*) n {ORDERS}, day) GROUP BY customer)", 1, 5),
        ("n", f"(SELECT customer, SUM(n) n FROM (SELECT customer, COUNT(*) n {ORDERS}, day) GROUP BY customer)", 1, 25),
        ("n", f"(SELECT customer, COUNT(*) n {ORDERS} UNION ALL SELECT id, age FROM customers)", 0, 120),
        ("n", "(SELECT row_number() OVER (PARTITION BY customer ORDER BY day) n FROM orders)", 1, 5),
        ("n", "(SELECT SUM(day) OVER (PARTITION BY customer) n FROM orders)", 1, 35),
        ("n", "(SELECT COUNT(*) OVER (PARTITION BY customer ORDER BY id ROWS 2 PRECEDING) n FROM orders)", 0, 5),
        ("(SELECT COUNT(*) FROM orders WHERE customer = c.id)", "customers c", 0, 5),
        ("least(n, 20)", f"(SELECT customer, COUNT(*) n {ORDERS})", 0, 20),  # what is written comes first
    ],
)
def test_what_a_person_has_inside_is_clamped_by_the_contribution_bounds(
    value: str, rows: str, low: int, high: int
) -> None:
    question = read_question(f"SELECT MEDIAN({value}) FROM {rows}", tables(max_rows=5))
    (tree,) = question.trees
    found = tree.shape.value
    assert [found.low * found.step, found.high * found.step] == [low, high]


def test_the_length_of_a_listed_text_has_the_bounds_of_the_list() -> None:
    (measure, _) = read("SELECT AVG(length(kind)) FROM products JOIN orders USING (id)").measures
    assert [float(b) for b in measure.span(1)] == [0.0, 1.0]  # 3 to 4, counted from 3


def test_a_text_is_split_into_a_thousand_rows_at_most_and_a_note_says_so() -> None:
    many = "rpad(city, 900, ',') || rpad(city, 900, ',')"
    text = f"SELECT COUNT(*) FROM (SELECT unnest(string_split({many}, ',')) AS part FROM customers) t"
    rows = data(1)
    known = sum(city is not None for _, city, _ in rows["customers"])
    assert answered(read(text), database(rows)) == {(): [1000.0 * known]}
    plan = planned(text)
    assert "Of a text that is split, the first 1,000 parts are rows." in plan.notes
    assert failure(plan.sql, {"customers": {"id": "BIGINT", "city": "VARCHAR"}}) is None


def test_no_bounds_by_caps_for_what_public_rows_hold() -> None:
    with pytest.raises(MissingBounds):
        read("SELECT AVG(n) FROM orders JOIN (SELECT id, COUNT(*) n FROM products GROUP BY id) p USING (id)")


def test_a_column_that_is_not_there_brings_near_ones_or_how_many_there_are() -> None:
    assert near_columns("totl", ["id", "total"]) == "perhaps total is meant"
    assert near_columns("q", ["id", "total"]) == "columns are: id, total"
    many = near_columns("q", [f"column{i}" for i in range(15)])
    assert many.endswith("column11, and 3 more")


def test_units_are_counted_wherever_their_column_is_held_equal() -> None:
    for column in ("c.id", "o.customer"):
        sql = f"SELECT COUNT(DISTINCT {column}) FROM customers c JOIN orders o ON c.id = o.customer"
        assert [m.word for m in read(sql).measures] == ["the number of units"]


def test_a_unit_that_may_be_missing_is_not_counted_as_one() -> None:
    sql = "SELECT COUNT(DISTINCT {}) FROM customers c LEFT JOIN orders o ON c.id = o.customer"
    assert [m.word for m in read(sql.format("c.id")).measures] == ["the number of units"]
    try:
        words = [m.word for m in read(sql.format("o.customer")).measures]
    except Exception:  # refused, or counted as any other column
        return
    assert words != ["the number of units"]


SAME = [
    (
        "SELECT COUNT(*) FROM orders o JOIN customers c ON c.id = o.customer",
        "SELECT COUNT(*) AS people FROM orders x, customers y WHERE x.customer = y.id HAVING people > 3",
    ),
    (
        "WITH a AS (SELECT * FROM orders) SELECT SUM(total) FROM a",
        "SELECT SUM(total) * 2 FROM (SELECT total, id, day, customer FROM orders) b LIMIT 1",
    ),
    (
        "SELECT COUNT(*) FROM orders WHERE id IN (SELECT order_id FROM items WHERE price > 3)",
        "SELECT COUNT(*) FROM orders WHERE EXISTS (SELECT * FROM items WHERE price > 3 AND id = order_id)",
    ),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_spellings_of_one_relation_are_one_question(a: str, b: str) -> None:
    assert planned(a).identity == planned(b).identity


def test_what_a_table_is_resolved_to_is_part_of_the_question() -> None:
    sql = "SELECT COUNT(*) FROM items i JOIN products p ON p.id = i.product"
    given = tables(3, 10)
    other = narrow(narrow(given, "items", reached=Reached("product", "orders", "id")), "products", public=True)
    own = narrow(given, "items", reached=None, unit=given[0].unit, columns={"id": Type.INT, "product": Type.INT})
    found = {planned(sql, t).identity for t in (given, other, own)}
    assert len(found) == 3


def test_a_question_over_one_private_table_is_what_it_was() -> None:
    question = read("SELECT day, SUM(total) FROM orders o WHERE o.day > 2 GROUP BY day")
    assert question.relation is None
    assert question.table.name == "orders"
    assert 'FROM main."orders" s' in planned("SELECT COUNT(*) FROM orders").sql


def test_derived_facts_are_values_or_ranges() -> None:
    relation = read(
        "SELECT d, SUM(t) FROM (SELECT upper(kind) d, price + 1 t FROM items, products p WHERE p.id = product)"
        " GROUP BY d"
    ).relation
    assert relation is not None
    assert sorted(map(repr, relation.table.facts.values())) == sorted(
        map(repr, [Values("FOOD", "TOY", "BOOK"), Range(1, 51)])
    )
