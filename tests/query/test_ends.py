"""Ends of an outer query's numbers: they hold the value for all noisy numbers within their intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.backends.connection import open_database
from discreet.query.ends import EndKind, with_ends

P, E, U = EndKind
TABLES = {"r": [("k", P), ("g", P), ("n", E), ("m", E), ("u", U)], "w": [("code", P), ("beds", P)]}
ROWS = 6

ROWWISE = [
    "SELECT k, 3 * n - 1, n - m, -n, n / 2, n / -4, 2 - n, abs(n - 20), greatest(n, 9), least(n, m), n // 1 FROM r",
    "SELECT k, n * m, n / m, m / (n - m), 1 / n, coalesce(n, 0), ROUND(n / 3, 1), CAST(n AS BIGINT), floor(n) FROM r",
    "SELECT k, CASE WHEN g = 'x' THEN n ELSE m * beds END AS c, n * beds FROM r LEFT JOIN w ON code = k",
    "SELECT k, n / SUM(n) OVER () AS s, n - lag(n) OVER (ORDER BY k), SUM(m) OVER (PARTITION BY g ORDER BY k) FROM r",
    "SELECT g, SUM(n), AVG(n) FILTER (WHERE k > 'b'), MAX(n) - MIN(m), MAX(n) / SUM(n), COUNT(*) FROM r GROUP BY g",
    "SELECT MAX(n), MIN(n), (SELECT SUM(m) FROM r) / nullif(SUM(n), 0), MAX(n) / (SELECT COUNT(*) FROM w) FROM r",
    "WITH a(x, y) AS (SELECT k, n + m FROM r), b AS (SELECT * FROM a) SELECT x, y, y / 2 AS z, z + 1 FROM b",
    "SELECT k, n FROM r UNION ALL SELECT 'all', SUM(n) FROM r UNION ALL SELECT code || '!', beds FROM w",
    "SELECT k, RANK() OVER (ORDER BY n DESC), ROW_NUMBER() OVER (PARTITION BY g ORDER BY n, k) AS x FROM r",
    "SELECT k, DENSE_RANK() OVER (ORDER BY n // 1 DESC) AS a, RANK() OVER (ORDER BY m) AS b FROM r",
    "SELECT g, SUM(n) AS s, RANK() OVER (ORDER BY SUM(n) DESC) AS a FROM r GROUP BY g",
]


def filled(database: Any, values: Any, width: float) -> None:
    """Put noisy numbers into the table, each with ends at this distance."""
    rows = []
    for i, (n, m) in enumerate(values):
        own = ["abcdef"[i], "xyz"[i % 3], n, m, n, n - width, n + width, m - width, m + width]
        rows.append("(" + ", ".join(f"'{v}'" if isinstance(v, str) else f"{v}::DOUBLE" for v in own) + ")")
    ends = ", ".join(f'"dp_{side} {c}"' for c in "nm" for side in ("low", "high"))
    database.execute(f"CREATE OR REPLACE TABLE r AS SELECT * FROM (VALUES {', '.join(rows)}) t(k, g, n, m, u, {ends})")


@pytest.mark.parametrize("sql", ROWWISE)
def test_the_ends_hold_the_value_wherever_the_noisy_numbers_lie(sql: str) -> None:
    ended = with_ends(sql, TABLES)
    assert ended is not None and ended.places
    database, rng = open_database(), np.random.default_rng(5)
    database.execute("CREATE TABLE w AS SELECT * FROM (VALUES ('a', 2), ('c', -3)) t(code, beds)")
    for width in (0.0, 2.0, 15.0):
        noisy = rng.integers(-5, 60, (ROWS, 2)).astype(float)
        filled(database, noisy, width)
        shown = sorted(map(tuple, database.execute(ended.sql).fetchall()), key=repr)
        names = {tuple(row[i] for i in sorted(ended.public)): row for row in shown}
        for _ in range(8):
            filled(database, noisy + rng.uniform(-width, width, (ROWS, 2)), 0)
            for row in database.execute(sql).fetchall():
                known = names[tuple(row[i] for i in sorted(ended.public))]
                for i, at in ended.places.items():
                    low, high = known[at], known[at + 1]
                    if row[i] is not None and low is not None:
                        assert low - 1e-9 <= row[i] <= high + 1e-9, (sql, i, width)
                    elif row[i] is not None:
                        assert known[i] is None


CHOSEN = {
    "SELECT k, n FROM r ORDER BY n DESC LIMIT 1": {1},
    "SELECT k, n, n / SUM(n) OVER () FROM r WHERE m > 3": {1},
    "SELECT g, SUM(n), RANK() OVER (ORDER BY SUM(n)) FROM r GROUP BY g HAVING SUM(n) > 50": {1},
    "SELECT k, n, RANK() OVER (ORDER BY n) AS a FROM r QUALIFY a < 3": {1, 2},
    "SELECT SUM(n), COUNT(*), MAX(n) FROM (SELECT n FROM r ORDER BY n DESC LIMIT 3) x": set(),
    "SELECT COUNT(*) FROM r WHERE n > 50": set(),
    "SELECT n // 10 AS b, COUNT(*), SUM(m) FROM r GROUP BY 1": set(),
    "SELECT g AS n, SUM(m) FROM r GROUP BY n": set(),
    "SELECT k, u, u + n, n FROM r WHERE k IN (SELECT k FROM r WHERE n > 5)": {3},
    "SELECT (SELECT n FROM r ORDER BY n LIMIT 1) AS x, MAX(n) + (SELECT MIN(n) FROM r WHERE m > 2) FROM r": set(),
    "SELECT arg_max(k, n), sqrt(MAX(n)), MAX(n) OVER (ORDER BY m), STDDEV(n), SUM(DISTINCT n) FROM r GROUP BY n": set(),
    "SELECT a.k, a.n FROM r a JOIN r b ON a.n = b.n": {1},
}


@pytest.mark.parametrize("sql", CHOSEN)
def test_what_is_over_rows_that_noise_chose_has_no_ends(sql: str) -> None:
    ended = with_ends(sql, TABLES)
    assert ended is not None
    assert set(ended.places) == CHOSEN[sql]


def test_a_number_of_rows_that_noise_chose_is_not_public() -> None:
    found = with_ends("SELECT COUNT(*), 1, COUNT(*) OVER () FROM r WHERE n > 50", TABLES)
    assert found is not None
    assert found.public == {1}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT n FROM r",
        "SELECT n FROM r UNION SELECT m FROM r",
        "SELECT * FROM r NATURAL JOIN w",
        "SELECT * FROM r a JOIN r b USING (k)",
        "SELECT SUM(n) FROM r GROUP BY ALL",
        "SELECT * FROM (SELECT n / 2 FROM r) x",
        "SELECT * FROM r AS x(a, b)",
        "SELECT z FROM r",
        'WITH x AS (SELECT k, n, u AS "DP_low n" FROM r) SELECT k, n FROM x ORDER BY n LIMIT 1',
    ],
)
def test_what_is_not_known_has_no_text(sql: str) -> None:
    assert with_ends(sql, TABLES) is None


@pytest.mark.parametrize("first", ["n", "1"])
def test_a_text_that_would_grow_without_bound_is_left(first: str) -> None:
    doubled = f"SELECT {first} AS a0, " + ", ".join(f"a{i} + a{i} AS a{i + 1}" for i in range(40)) + " FROM r"
    found = with_ends(doubled, TABLES)
    assert found is None or not found.places
    assert with_ends("SELECT " + "1 / (" * 40 + "n" + ")" * 40 + " FROM r", TABLES) is None
    assert with_ends("SELECT " + "(SELECT " * 20 + "MAX(n) FROM r" + ")" * 20 + " AS x FROM r", TABLES) is None
