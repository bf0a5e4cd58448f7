"""ROLLUP, CUBE and GROUPING SETS: DuckDB's rows, totals that are the sums of their parts, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import discreet as dp
from discreet.errors import UnsupportedQuery

ROWS = pd.DataFrame(
    {
        "id": range(60),
        "a": ["x", "y", "x", "y", None, "x"] * 10,
        "b": [1, 1, 2, 2, 1, 3] * 10,
        "v": [0.5 * (i % 9) for i in range(60)],
    }
)


@pytest.fixture(scope="module")
def session() -> dp.Session:
    """Declared keys, one of them with NULL; each row is a person; ε as large as one likes."""
    return dp.connect(
        {"t": ROWS},
        unit=dp.PrivacyUnit("id", max_groups=1, max_rows=1),
        columns={"a": dp.Values("x", "y", None), "b": dp.Values(1, 2, 3), "v": dp.Range(0, 4)},
        budget=dp.Budget(epsilon=10**9, delta="0.1", per_query=10**7),
        population="p",
        ledger=":memory:",
    )


def exact(sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as db:
        db.register("t", ROWS)
        return db.execute(sql).fetchall()


def sorted_rows(rows: list[tuple[object, ...]]) -> list[str]:
    return sorted(
        repr(tuple(round(float(v), 3) if isinstance(v, int | float) else v for v in r)) for r in rows
    )


@pytest.mark.parametrize(
    "group",
    [
        "ROLLUP (a, b)",
        "CUBE (a, b)",
        "GROUPING SETS ((a, b), (b), ())",
        "a, ROLLUP (b)",
        "ROLLUP ((a, b))",
        "GROUPING SETS (ROLLUP (a, b), (a, b))",
    ],
)
def test_the_rows_are_those_of_the_database_where_no_group_is_empty(session: dp.Session, group: str) -> None:
    sql = (
        "SELECT a, b, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS m, GROUPING(a, b) AS g "
        f"FROM t GROUP BY {group} HAVING COUNT(*) > 0"
    )
    found = session.sql(sql, epsilon=10**6)
    assert sorted_rows(found.rows) == sorted_rows(exact(sql))


def test_totals_are_the_sums_of_their_parts_whatever_the_noise(session: dp.Session) -> None:
    rows = session.sql(
        "SELECT a, b, COUNT(*) AS n, SUM(v) AS s, GROUPING(a) AS ga, GROUPING(b) AS gb FROM t GROUP BY CUBE (a, b)",
        epsilon=0.5,
    ).rows
    finest = [r for r in rows if not r[4] and not r[5]]
    assert len(rows) == 16
    for a, b, n, s, ga, gb in rows:
        parts = [r for r in finest if (ga or r[0] == a) and (gb or r[1] == b)]
        assert n == sum(r[2] for r in parts)
        assert s == pytest.approx(sum(r[3] for r in parts))


def test_totals_are_free_once_their_parts_are_known(session: dp.Session) -> None:
    session.sql("SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b", epsilon="0.7")
    again = session.sql("SELECT a, b, COUNT(*) AS n FROM t GROUP BY ROLLUP (a, b)", epsilon="0.7")
    assert again.stored
    assert again.charged.epsilon == 0


def test_the_interval_of_a_total_covers_as_often_as_it_says(session: dp.Session) -> None:
    """150 draws at 90 %: fewer than 115 or more than 149 hits have a chance below 1e-4 together."""
    hits, runs = 0, 150
    for _ in range(runs):
        r = session.sql("SELECT a, b, COUNT(*) AS n FROM t GROUP BY ROLLUP (a, b)", epsilon="0.3", fresh=True)
        ends = r.interval("n", Fraction(9, 10))[-1]
        assert ends is not None
        hits += ends[0] <= 60 <= ends[1]
    assert binom.cdf(114, runs, 0.9) + binom.sf(149, runs, 0.9) < 1e-4
    assert 115 <= hits <= 149


def test_private_groups_are_added_up_over_those_that_are_shown(session: dp.Session) -> None:
    r = session.sql("SELECT v, COUNT(*) AS n FROM t GROUP BY ROLLUP (v)", epsilon=1000, delta="1e-6")
    counts = np.array([row[1] for row in r.rows])
    assert counts[-1] == counts[:-1].sum()


def test_a_total_over_no_groups_is_a_row_too(session: dp.Session) -> None:
    r = session.sql(
        "SELECT v, COUNT(*) AS n FROM t WHERE v > 100 GROUP BY ROLLUP (v)", epsilon=1, delta="1e-9"
    )
    assert r.rows == [(None, 0)]


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        (
            "SELECT a, COUNT(DISTINCT id) FROM t GROUP BY ROLLUP (a)",
            "A number of different people or values does not add up over groups, as totals (ROLLUP, CUBE) must.",
        ),
        (
            "SELECT a, MEDIAN(v) FROM t GROUP BY ROLLUP (a)",
            "Quantiles and the like do not add up over groups, as totals (ROLLUP, CUBE) must.",
        ),
        (
            "SELECT a, b, COUNT(*) FROM t GROUP BY GROUPING SETS ((a), (b))",
            "None of the GROUPING SETS has all keys, so that totals have no parts to be added up from.",
        ),
        ("SELECT a, COUNT(*) FROM t GROUP BY a WITH ROLLUP", "GROUP BY … WITH ROLLUP is not answered here."),
        ("SELECT a, GROUPING(v), COUNT(*) FROM t GROUP BY ROLLUP (a)", "GROUPING takes keys of GROUP BY."),
        (
            "SELECT COUNT(*) FROM t GROUP BY CUBE (a, b, v, a || 'x', b + 1, v + 1, b + 2)",
            "CUBE of 7 keys has more than 64 grouping sets.",
        ),
        (
            "SELECT COUNT(*) FROM t GROUP BY CUBE (a, b, v), CUBE (a, b), CUBE (b, v)",
            "GROUP BY has more than 64 grouping sets.",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT id FROM t GROUP BY ROLLUP (id))",
            "ROLLUP, CUBE and GROUPING SETS are not answered inside a subquery.",
        ),
    ],
)
def test_what_has_no_totals_is_refused(session: dp.Session, sql: str, sentence: str) -> None:
    with pytest.raises(UnsupportedQuery) as refusal:
        session.plan(sql, epsilon=1, delta="1e-6")
    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize("group", ["()", "(a), (b)", "(a, b)", "a, ()"])
def test_brackets_around_keys_change_nothing(session: dp.Session, group: str) -> None:
    plain = {"()": "", "a, ()": "GROUP BY a"}.get(group, "GROUP BY a, b")
    spelled = session.plan(f"SELECT COUNT(*) AS n FROM t GROUP BY {group}", epsilon=1)
    assert spelled.identity == session.plan(f"SELECT COUNT(*) AS n FROM t {plain}", epsilon=1).identity
    assert spelled.question.outer.sets is None
