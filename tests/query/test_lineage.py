"""Lineage: how each output of an outer query follows from noisy numbers, and whether noise chooses its rows."""

from __future__ import annotations

import pytest

from discreet.query.lineage import Follows, traced

P, ONE, MANY, NO = Follows.PUBLIC, Follows.ONE, Follows.SEVERAL, Follows.UNKNOWN
TABLES = {"r": [("k", P), ("n", ONE), ("m", ONE), ("t", NO)], "w": [("code", P), ("beds", P)]}

KNOWN = {
    "SELECT k, n, n * 2 + 1, n / 3, -n, ROUND(n / 3, 1) FROM r": [P, ONE, ONE, ONE, ONE, ONE],
    "SELECT n - m, n * m, n / m, 1 / n, n / (n + m) FROM r": [MANY, MANY, MANY, MANY, MANY],
    "SELECT SUM(n), AVG(n), COUNT(*), MAX(n), MIN(k), STDDEV(n) FROM r": [MANY, MANY, P, NO, P, NO],
    "SELECT k, SUM(n) OVER (), n / SUM(n) OVER () FROM r": [P, MANY, MANY],
    "SELECT RANK() OVER (ORDER BY n), RANK() OVER (ORDER BY k), LAG(n) OVER (ORDER BY k) FROM r": [NO, P, NO],
    "SELECT CASE WHEN k = 'a' THEN n ELSE 0 END, CASE WHEN n > 1 THEN 1 ELSE 0 END, abs(n), t FROM r": [
        ONE,
        NO,
        NO,
        NO,
    ],
    "SELECT CAST(n AS VARCHAR), CAST(n AS BOOLEAN), CAST(k AS VARCHAR), CAST(n AS BIGINT) FROM r": [NO, NO, P, ONE],
    "SELECT n * beds FROM r JOIN w ON code = k": [ONE],
    "SELECT a.n - b.n FROM r a JOIN r b ON a.k = b.k": [MANY],
    "WITH x(key, a) AS (SELECT k, n FROM r) SELECT * FROM x": [P, ONE],
    "SELECT k, (SELECT SUM(n) FROM r) FROM w, r": [P, MANY],
    "SELECT k, n FROM r UNION ALL SELECT code, 0 FROM w": [P, ONE],
    "SELECT k, n FROM r ORDER BY k LIMIT 2": [P, ONE],
    "SELECT DISTINCT k FROM r": [P],
    "SELECT k, SUM(n) FILTER (WHERE k > 'a') FROM r GROUP BY k HAVING k > 'a'": [P, MANY],
}


@pytest.mark.parametrize("sql", KNOWN)
def test_each_output_follows_as_it_is_written(sql: str) -> None:
    found = traced(sql, TABLES)
    assert found is not None
    assert [f for _, f in found.lineage.columns] == KNOWN[sql]
    assert not found.lineage.is_chosen


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, n FROM r WHERE n > 3",
        "SELECT k, n FROM r ORDER BY n LIMIT 1",
        "SELECT k, n FROM r ORDER BY 2 LIMIT 1",
        "SELECT k AS x, n AS k FROM r ORDER BY k LIMIT 1",
        "SELECT k, n AS x FROM r ORDER BY x OFFSET 1",
        "SELECT DISTINCT n FROM r",
        "SELECT n, COUNT(*) FROM r GROUP BY n",
        "SELECT k FROM r GROUP BY k HAVING SUM(n) > 2",
        "SELECT k FROM r QUALIFY RANK() OVER (ORDER BY n) = 1",
        "SELECT r.k FROM r JOIN w ON beds = n",
        "SELECT k FROM (SELECT k FROM r WHERE n > 1) x",
        "SELECT n FROM r UNION SELECT m FROM r",
        "SELECT k FROM r WHERE k IN (SELECT k FROM r WHERE n > 1)",
        "SELECT k FROM r WHERE EXISTS (SELECT 1 FROM r x WHERE x.n > 1)",
    ],
)
def test_rows_that_noise_chooses_are_seen(sql: str) -> None:
    found = traced(sql, TABLES)
    assert found is None or found.lineage.is_chosen


@pytest.mark.parametrize("sql", ["SELECT n FROM r NATURAL JOIN w", "SELECT n FROM r, (VALUES (1)) v(x)"])
def test_what_is_not_known_is_unknown(sql: str) -> None:
    assert traced(sql, TABLES) is None


def test_an_order_that_noise_decides_is_left_out_of_the_text() -> None:
    found = traced("SELECT k, n FROM r ORDER BY n", TABLES)
    assert found is not None
    assert found.unordered == "SELECT k, n FROM r"
