"""Lineage: how each output of an outer query follows from noisy numbers, and whether noise chooses its rows."""

from __future__ import annotations

import pytest

from discreet.query.lineage import Follows, TracedColumn, traced

P, LINE, ONE, SUM, MANY, NO = Follows
TABLES = {
    "r": [
        TracedColumn("k", P, (("r", "k"),)),
        *(TracedColumn(n, f) for n, f in {"n": LINE, "m": LINE, "a": ONE, "t": NO}.items()),
    ],
    "w": [TracedColumn("code", P, (("w", "code"),)), TracedColumn("beds", P)],
}

KNOWN = {
    "SELECT k, n, n * 2 + 1, 1 - n / 3, -(n), ROUND(n / 3, 1) FROM r": [P, LINE, LINE, LINE, LINE, ONE],
    "SELECT n - m, n * m, n / m, 1 / n, n / (n + m), a + n FROM r": [SUM, MANY, MANY, MANY, MANY, MANY],
    "SELECT SUM(n), AVG(n), COUNT(*), MAX(n), MIN(k), STDDEV(n) FROM r": [SUM, SUM, P, NO, P, NO],
    "SELECT k, SUM(n) OVER () / 2, SUM(n) OVER () - a, n / SUM(n) OVER () FROM r": [P, SUM, MANY, MANY],
    "SELECT RANK() OVER (ORDER BY n), RANK() OVER (ORDER BY k), LAG(n) OVER (ORDER BY k) FROM r": [NO, P, NO],
    "SELECT CASE WHEN k = 'a' THEN n ELSE 0 END, CASE WHEN n > 1 THEN 1 ELSE 0 END, abs(n), t FROM r": [
        LINE,
        NO,
        NO,
        NO,
    ],
    "SELECT CAST(n AS VARCHAR), CAST(n AS BOOLEAN), CAST(k AS VARCHAR), CAST(n AS BIGINT) FROM r": [NO, NO, P, ONE],
    "SELECT sqrt(n), ln(n + m), ROUND(n + m), CAST(n + m AS DOUBLE) FROM r": [ONE, MANY, NO, SUM],
    "SELECT n * beds FROM r JOIN w ON code = k": [LINE],
    "SELECT a.n - b.n, k FROM r a LEFT JOIN r b USING (k)": [SUM, P],
    "WITH x(key, a) AS (SELECT k, n FROM r) SELECT * FROM x": [P, LINE],
    "SELECT k, (SELECT SUM(n) FROM r) FROM w, r": [P, SUM],
    "SELECT k, n FROM r UNION ALL SELECT code, 0 FROM w": [P, LINE],
    "SELECT a FROM r UNION ALL SELECT SUM(n) FROM r": [MANY],
    "SELECT k, n FROM r ORDER BY k LIMIT 2": [P, LINE],
    "SELECT DISTINCT k FROM r": [P],
    "SELECT k, SUM(n) FILTER (WHERE k > 'a') FROM r GROUP BY k HAVING k > 'a'": [P, SUM],
}

ORIGINS = {
    "SELECT r.k AS x, upper(k) FROM r LEFT JOIN w ON code = k": [(("r", "k"),), ()],
    "WITH x(y) AS (SELECT k FROM r) SELECT y AS z FROM (SELECT * FROM x) v": [(("r", "k"),)],
    "SELECT k FROM r UNION SELECT code FROM w": [(("r", "k"), ("w", "code"))],
    "SELECT k FROM r UNION SELECT 'all'": [()],
    "SELECT MAX(k) FROM r": [()],
}


@pytest.mark.parametrize("sql", ORIGINS)
def test_a_column_that_is_one_of_a_table_says_which(sql: str) -> None:
    found = traced(sql, TABLES)
    assert found is not None
    assert [c.origins for c in found.lineage.columns] == ORIGINS[sql]


@pytest.mark.parametrize("sql", KNOWN)
def test_each_output_follows_as_it_is_written(sql: str) -> None:
    found = traced(sql, TABLES)
    assert found is not None
    assert [c.follows for c in found.lineage.columns] == KNOWN[sql]
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
        "SELECT x.k FROM r x JOIN r y USING (k, n)",
        "SELECT k FROM (SELECT k FROM r WHERE n > 1) x",
        "SELECT n FROM r UNION SELECT m FROM r",
        "SELECT k FROM r WHERE k IN (SELECT k FROM r WHERE n > 1)",
        "SELECT k FROM r WHERE EXISTS (SELECT 1 FROM r x WHERE x.n > 1)",
    ],
)
def test_rows_that_noise_chooses_are_seen(sql: str) -> None:
    found = traced(sql, TABLES)
    assert found is None or found.lineage.is_chosen


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n FROM r NATURAL JOIN w",
        "SELECT k FROM r FULL JOIN r y USING (k)",
        "SELECT * FROM r JOIN r y USING (k)",
        "SELECT n FROM r, (VALUES (1)) v(x)",
    ],
)
def test_what_is_not_known_is_unknown(sql: str) -> None:
    assert traced(sql, TABLES) is None


def test_rows_stand_in_an_order_that_noise_does_not_decide() -> None:
    found = traced("SELECT k, n FROM r ORDER BY n", TABLES)
    assert found is not None
    assert found.unordered == "SELECT k, n FROM r ORDER BY 1"
    assert found.public_cells([("a", 1), ("a", 2)]) == [("a",), ("a",)]
    ranked = traced("SELECT k, RANK() OVER (ORDER BY n) FROM r", TABLES)
    assert ranked is not None
    assert ranked.public_cells([("a", 1), ("a", 2)]) is None  # which row is which follows from noise
