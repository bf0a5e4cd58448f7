"""Columns of one public table are keys as its rows stand, and not multiplied."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.query.keys import GroupKeys, JointKeys

ITEMS = pd.DataFrame({"id": [1, 2, 3, 4], "name": ["a", "b", "c", "c"], "brand": ["x", "x", "y", None]})
SALES = pd.DataFrame({"person": [1, 1, 2, 2, 3], "item": [1, 2, 2, 4, 9], "amount": [1.0, 2, 3, 4, 5]})
FROM = "FROM sales s JOIN items i ON s.item = i.id"


@pytest.fixture(scope="module")
def session() -> Iterator[dp.Session]:
    with dp.connect(
        {"sales": SALES, "items": ITEMS},
        unit=dp.PrivacyUnit("person", max_groups=3, max_rows=2),
        public=["items"],
        columns={"sales.amount": dp.Range(0, 10)},
        budget=dp.Budget(10**7, per_query=10**6),
        population="p",
        ledger=":memory:",
    ) as opened:
        yield opened


def groups(session: dp.Session, sql: str) -> list[tuple[Any, ...]]:
    keys = session.plan(sql, epsilon=1).query.question.keys
    assert len(keys.all()) == keys.shown
    return keys.all()


def test_the_groups_are_the_tables_rows(session: dp.Session) -> None:
    rows = [(1, "a", "x"), (2, "b", "x"), (3, "c", "y"), (4, "c", None)]
    assert groups(session, f"SELECT i.id, i.name, i.brand, COUNT(*) AS n {FROM} GROUP BY 1, 2, 3") == rows
    assert groups(session, f"SELECT i.brand, i.name, COUNT(*) AS n {FROM} GROUP BY 1, 2") == [
        ("x", "a"),
        ("x", "b"),
        ("y", "c"),
        (None, "c"),
    ]


def test_other_keys_are_multiplied_with_them_and_a_filter_leaves_rows_out(session: dp.Session) -> None:
    sql = f"SELECT i.name, s.amount > 2 AS dear, i.brand, COUNT(*) AS n {FROM} WHERE i.brand = 'x' GROUP BY 1, 2, 3"
    names = [("a", "x"), ("b", "x")]
    assert sorted(groups(session, sql), key=repr) == sorted(
        ((n, d, b) for (n, b), d in product(names, (False, True, None))), key=repr
    )


def test_a_left_join_adds_the_row_of_nothing(session: dp.Session) -> None:
    left = FROM.replace("JOIN", "LEFT JOIN")
    found = groups(session, f"SELECT i.id, i.name, COUNT(*) AS n {left} GROUP BY 1, 2")
    assert found == [(1, "a"), (2, "b"), (3, "c"), (4, "c"), (None, None)]


def test_two_scans_of_one_table_and_totals_are_multiplied(session: dp.Session) -> None:
    two = "FROM sales s JOIN items i ON s.item = i.id JOIN items j ON s.item = j.id"
    assert len(groups(session, f"SELECT i.id, j.name, COUNT(*) AS n {two} GROUP BY 1, 2")) == 4 * 3
    assert len(groups(session, f"SELECT i.id, i.name, COUNT(*) AS n {FROM} GROUP BY ROLLUP (1, 2)")) == 4 * 3


def test_exact_counts_are_in_their_groups(session: dp.Session) -> None:
    sql = f"SELECT i.id, i.name, COUNT(*) AS n, SUM(s.amount) AS a, MEDIAN(s.amount) AS m {FROM} GROUP BY 1, 2"
    release = session.sql(sql, epsilon=10**5)
    assert [(i, name, round(n), round(a)) for i, name, n, a, _ in release.rows] == [
        (1, "a", 1, 1),
        (2, "b", 2, 5),
        (3, "c", 0, 0),
        (4, "c", 1, 4),
    ]
    other = session.plan(sql.replace("i.name", "i.brand"), epsilon=1000)
    assert other.query.identity != session.plan(sql, epsilon=1000).query.identity


def test_all_groups_of_joint_and_single_keys() -> None:
    lists = ((1, 2), ("a", "b"), (True, False))
    joint = JointKeys((0, 2), ((1, True), (2, False)))
    keys = GroupKeys((), lists, joint=(joint,))
    assert keys.all() == [(1, "a", True), (1, "b", True), (2, "a", False), (2, "b", False)]
    assert (keys.shown, keys.count) == (4, 8)
