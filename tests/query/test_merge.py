"""Derived tables merged into the SELECT around them, where each row is a unit: the same rows, in plain DuckDB."""

from __future__ import annotations

import pandas as pd
import pytest
from sqlglot import exp

import discreet as dp
from discreet.backends.connection import open_database
from discreet.errors import UnsupportedQuery
from discreet.query.dialects.dialect import written
from discreet.query.merge import merged
from discreet.query.parse import parse_query

ROWS = "SELECT i % 7 AS a, (i * 5) % 11 AS b, nullif(['x', 'y', 'z'][1 + i % 3], 'z') AS k FROM range(100) r(i)"

MERGED = [
    "SELECT AVG(x) FROM (SELECT a + b AS x FROM t WHERE a > 3) s",
    "SELECT SUM(x * x) FROM (SELECT a - b AS x FROM t) s WHERE x > 0 OR x < -3",
    "SELECT SUM(b) FROM (SELECT a AS b, b AS a FROM t WHERE b > 4 OR a = 1) s WHERE a > 5",
    "WITH v AS (SELECT *, a * 2 AS c FROM t u WHERE u.k <> 'x') SELECT k, SUM(c) AS s FROM v GROUP BY k ORDER BY s",
    "WITH v AS (SELECT k w, b c FROM t), u AS (SELECT w, c FROM v WHERE c > 2) SELECT w, SUM(u.c) FROM u GROUP BY w",
    "SELECT band, COUNT(*) AS n FROM (SELECT CASE WHEN a < 3 THEN 'l' ELSE 'h' END AS band FROM t) s GROUP BY band",
    "SELECT b AS a, COUNT(*) FROM (SELECT a, b FROM t) s GROUP BY b ORDER BY a",
    "SELECT one, COUNT(*) FROM (SELECT 1 AS one, a FROM t) s GROUP BY one",
    "SELECT SUM(s.x) FILTER (WHERE x > 3) FROM (SELECT b AS x FROM t) AS s",
]

KEPT = [
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM (SELECT DISTINCT k FROM t) s",
    "SELECT COUNT(*) FROM (SELECT k FROM t LIMIT 3) s",
    "SELECT COUNT(*) FROM (SELECT k, COUNT(*) FROM t GROUP BY k) s",
    "SELECT COUNT(*) FROM (SELECT row_number() OVER () AS k FROM t) s",
    "SELECT COUNT(*) FROM (SELECT unnest([1, 2]) AS k FROM t) s",
    "SELECT COUNT(*) FROM (SELECT a AS k FROM t) s, t",
    "SELECT COUNT(*) FROM (SELECT a AS k FROM t) s WHERE k IN (SELECT a FROM t)",
    "SELECT COUNT(*) FROM (SELECT a FROM t) s(k)",
    "SELECT COUNT(k) FROM (SELECT a FROM t) s",
    "SELECT COUNT(*) FROM (SELECT * EXCLUDE (a) FROM t) s",
    "WITH t AS (SELECT * FROM t WHERE a > 2) SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM (SELECT a FROM other) s",
]


def merged_text(sql: str) -> str | None:
    query = parse_query(sql)
    assert isinstance(query, exp.Select)
    made = merged(query, {}, ["t"])
    return None if made is None else written(made)


@pytest.mark.parametrize("sql", MERGED)
def test_a_merged_query_has_the_rows_of_the_one_that_was_asked(sql: str) -> None:
    db = open_database()
    db.execute(f"CREATE TABLE t AS {ROWS}")
    text = merged_text(sql)
    assert text is not None and text.upper().count("SELECT") == 1
    found = db.execute(text)
    assert sorted(found.fetchall(), key=str) == sorted(db.execute(sql).fetchall(), key=str)


def test_outputs_keep_their_names() -> None:
    text = merged_text("SELECT x, AVG(x) FROM (SELECT a + b AS x FROM t) s GROUP BY x")
    assert text == 'SELECT (a + b) AS "x", AVG((a + b)) AS "avg(x)" FROM t GROUP BY (a + b)'


@pytest.mark.parametrize("sql", KEPT)
def test_what_does_more_than_pick_rows_is_not_merged(sql: str) -> None:
    assert merged_text(sql) is None


def test_rows_that_are_units_are_asked_about_through_derived_tables() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3, 4] * 5, "k": ["x", "y"] * 10})
    with dp.connect(
        {"t": frame}, unit=dp.PrivacyUnit.row(), columns={"a": dp.Range(0, 4), "k": dp.Values("x", "y")},
        budget=dp.Budget(10**10, per_query=10**10), ledger=":memory:",
    ) as session:  # fmt: skip
        share = (
            "WITH v AS (SELECT k, 2 * a AS c FROM t WHERE a > 1), r AS (SELECT k, SUM(c) AS s FROM v GROUP BY k) "
            "SELECT k, s / SUM(s) OVER () AS p FROM r ORDER BY k"
        )
        assert session.sql(share, epsilon=10**6).rows == [("x", pytest.approx(1 / 3)), ("y", pytest.approx(2 / 3))]
        with pytest.raises(UnsupportedQuery, match="LIMIT would choose among"):
            session.plan("SELECT COUNT(*) FROM (SELECT k FROM t LIMIT 3) s", epsilon=1)
