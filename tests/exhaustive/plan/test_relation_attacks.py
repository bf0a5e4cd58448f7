"""Questions over several tables with which somebody tried to break the planner: what came of them stays mended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import discreet as dp
from discreet.engine.cells import exact_cells
from tests.query.relations import answered, data, database, exact, narrow, planned, read, tables

OVER_REGIONS = "SELECT region, COUNT(*) AS n FROM customers c JOIN regions r ON c.city = r.city GROUP BY region"


def identity_over(digest: str | None) -> str:
    return planned(OVER_REGIONS, narrow(tables(3, 10), "regions", digest=digest)).identity


def test_with_other_rows_in_a_public_table_it_is_another_question() -> None:
    found = {identity_over(digest) for digest in (None, "a", "b")}
    assert len(found) == 3
    assert identity_over("a") in found


def test_the_rows_of_a_public_table_that_is_not_read_are_nothing_to_a_question() -> None:
    sql = "SELECT COUNT(*) AS n FROM customers c JOIN orders o ON c.id = o.customer"
    first, second = (planned(sql, narrow(tables(3, 10), "regions", digest=digest)).identity for digest in ("a", "b"))
    assert first == second


ADDED = [
    "SUM(coalesce(total, -1.5))",
    "SUM(-1.5)",
    "SUM(greatest(total, -2.5))",
    "AVG(CASE WHEN day > 3 THEN 1.5 ELSE -1 END)",
    "SUM(floor(total))",
    "AVG(ceil(day / 2))",
    "SUM(abs(total))",
    "MAX(epoch(TIMESTAMP '2020-01-02 00:00:00'))",
]
"""Reals of which the reader of the text does not see by itself that they are numbers."""


@pytest.mark.parametrize("aggregate", ADDED)
@pytest.mark.parametrize("seed", range(2))
def test_inside_every_real_number_can_be_added(aggregate: str, seed: int) -> None:
    assert_as_the_database(
        f"SELECT SUM(least(100, greatest(-100, round(v)))) AS a FROM "
        f"(SELECT customer, {aggregate} AS v FROM orders WHERE customer < 5 GROUP BY customer) x",
        seed,
    )


WINDOWS = [
    "SUM(1) OVER (PARTITION BY customer ORDER BY day)",
    "SUM(-7) OVER (PARTITION BY customer)",
    "length(MIN('abc') OVER (PARTITION BY customer))",
    "LAG(3) OVER (PARTITION BY customer ORDER BY day, id)",
    "LEAD(3, 2, 5) OVER (PARTITION BY customer ORDER BY day, id)",
    "FIRST_VALUE(2) OVER (PARTITION BY customer ORDER BY day, id)",
    "NTILE(2) OVER (PARTITION BY customer ORDER BY day, id)",
    "COUNT(9) OVER (PARTITION BY customer)",
]


@pytest.mark.parametrize("window", WINDOWS)
def test_a_window_may_look_at_a_constant(window: str) -> None:
    for seed in range(2):
        assert_as_the_database(
            f"SELECT SUM(least(100, greatest(-100, v))) AS a FROM (SELECT customer, {window} AS v FROM orders) x", seed
        )


@pytest.mark.parametrize("window", ["ROW_NUMBER() OVER (ORDER BY kind)", "MAX(1.5) OVER ()"])
def test_of_a_public_subquery_with_windows_no_column_has_to_be_read(window: str) -> None:
    inner = f"(SELECT kind, {window} AS v FROM products) p"
    for sql in (
        f"SELECT COUNT(*) AS n FROM customers c JOIN {inner} ON c.age > 20",
        f"SELECT COUNT(*) AS n FROM customers c WHERE EXISTS (SELECT v FROM {inner})",
        f"SELECT COUNT(*) AS n FROM customers c WHERE NOT EXISTS (SELECT v FROM {inner})",
    ):
        for seed in range(2):
            assert_as_the_database(sql, seed)


def assert_as_the_database(sql: str, seed: int) -> None:
    """The question passes the second derivation, and its exact answer is the database's own."""
    planned(sql)
    question, db = read(sql), database(data(seed))
    assert as_numbers(answered(question, db)) == as_numbers(exact(sql, db, question))


def as_numbers(found: dict[tuple[Any, ...], list[float]]) -> dict[tuple[Any, ...], list[float]]:
    """The first column of each group, to the steps of the grid in which reals are added."""
    return {k: [round(v[0], 6)] for k, v in found.items() if v[0]}


@pytest.mark.parametrize(
    ("before", "one", "other"),
    [pytest.param("7", 7, 8, id="whole numbers after text"), pytest.param(7, "7", "07", id="text after whole numbers")],
)
def test_two_ids_never_become_one_in_the_type_that_was_pinned(
    before: object, one: object, other: object, tmp_path: Path
) -> None:
    def cells(people: list[tuple[object, str]]) -> list[int]:
        ids, groups = zip(*people, strict=True)
        with dp.connect(
            {"people": pa.table({"pid": list(ids), "g": list(groups)})},
            unit=dp.PrivacyUnit("pid", max_groups=1, max_rows=1),
            population="p",
            columns={"g": dp.Values("a", "b")},
            budget=dp.Budget(epsilon=1),
            ledger=tmp_path / "ledger",
        ) as session:
            query = session.plan("SELECT g, COUNT(*) AS n FROM people GROUP BY g", epsilon=1).query
            desk = session._desk
            found = exact_cells(query, lambda sql: desk.backend.rows(sql, desk._parameters(query.is_keyed(sql))))
            return [n for (n,) in found.values()]

    assert cells([(before, "a")]) == [1, 0]
    both = cells([(one, "a"), (other, "b")])
    assert sum(both) >= 1
    for left in ((one, "a"), (other, "b")):
        assert sum(abs(x - y) for x, y in zip(both, cells([left]), strict=True)) <= 1
