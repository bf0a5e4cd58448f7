"""Spellings that other databases have: the result is what DuckDB makes of its own, where nothing is capped."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pandas as pd
import pytest

import discreet as dp
from discreet.errors import DiscreetError
from tests.without_noise import without_noise

VISITS = pd.DataFrame(
    {
        "person": [1, 1, 2, 3, 3, 4],
        "ward": ["a", "b", "a", "b", "b", None],
        "cost": [1.0, 2.5, 4.0, 4.0, 2.5, 9.0],
        "age": [30, 30, 40, 50, 50, 60],
        "seen": pd.to_datetime(
            ["2026-01-05 10:00", "2026-02-06", "2026-02-07", "2026-05-01", "2026-11-01", "2026-12-31"], format="mixed"
        ),
        "until": pd.to_datetime(
            ["2026-01-06 09:00", "2026-02-08", "", "2026-05-01", "2026-10-01", "2026-12-31"], format="mixed"
        ),
    }
)
WARDS = pd.DataFrame({"ward": ["a", "b", "c"], "floor": [1, 2, 2]})
PEOPLE = pd.DataFrame({"person": [1, 2, 3, 4], "sex": ["f", "m", "f", "m"]})
TABLES = {"visits": VISITS, "people": PEOPLE, "wards": WARDS}


@pytest.fixture(scope="module")
def session() -> Iterator[dp.Session]:
    with dp.connect(
        TABLES,
        unit=dp.PrivacyUnit("person", max_groups=9, max_rows=9),
        public=["wards"],
        columns={
            "cost": dp.Range(0, 10),
            "age": dp.Range(30, 60, integer=True),
            "ward": dp.Values("a", "b", None),
            "sex": dp.Values("f", "m"),
            "seen": dp.Range(dt.date(2026, 1, 1), dt.date(2027, 1, 1)),
        },
        population="people",
        budget=dp.Budget(10**9, "0.5", per_query=10**6),
        ledger=":memory:",
    ) as opened:
        yield opened


def of_duckdb(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as plain:
        for name, frame in TABLES.items():
            plain.register(name, frame)
        return [tuple(row) for row in plain.sql(sql).fetchall()]


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows with numbers that may be compared, in an order of their own."""
    kept = [tuple(round(float(v), 6) if isinstance(v, float | Decimal) else v for v in row) for row in rows]
    return sorted(kept, key=repr)


# (as it is asked, as DuckDB asks it where its spelling is another)
SAME: list[tuple[str, str]] = [
    ("SELECT VAR(cost), VARP(cost) FROM visits", "SELECT VAR_SAMP(cost), VAR_POP(cost) FROM visits"),
    (
        "SELECT ward, STD(cost), STDEV(age), STDEVP(cost), COUNT(*) FROM visits GROUP BY ward HAVING ward IS NOT NULL",
        "SELECT ward, STDDEV(cost), STDDEV(age), STDDEV_POP(cost), COUNT(*) FROM visits WHERE ward > '' GROUP BY 1",
    ),
    ("SELECT TOTAL(cost) FROM visits WHERE ward > ''", "SELECT SUM(cost) FROM visits WHERE ward > ''"),
    (("SELECT COUNT(*) FROM visits WHERE julianday(until) - julianday(seen) > 1 "
     "AND julianday('2026-03-01') > julianday(seen)"),
     "SELECT COUNT(*) FROM visits WHERE epoch(until) - epoch(seen) > 86400 AND seen < '2026-03-01'"),
    ("SELECT COUNT(*) FROM visits WHERE unixepoch(until) - unixepoch(seen) >= 0",
     "SELECT COUNT(*) FROM visits WHERE until >= seen"),
    ("SELECT COUNT(*) FROM main.visits WHERE main.visits.cost > 2 AND visits.age < 60", ""),
    ("SELECT COUNT(*) FROM my.main.visits WHERE my.main.visits.cost > 2", "SELECT COUNT(*) FROM visits WHERE cost > 2"),
    ("SELECT COUNT(*) FROM public.visits v JOIN Main.people p ON v.person = p.person",
     "SELECT COUNT(*) FROM visits v JOIN people p ON v.person = p.person"),
    ("SELECT TOP 2 ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC, ward;",
     "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC, ward LIMIT 2"),
    ("SELECT DISTINCT TOP (1) sex FROM people ORDER BY sex", "SELECT DISTINCT sex FROM people ORDER BY sex LIMIT 1"),
    ("SELECT COUNT(*), COUNT(*), SUM(cost) AS n, COUNT(ward) AS N FROM visits", ""),
    ("SELECT DISTINCT ward FROM visits", ""),
    ("SELECT DISTINCT ward, month(seen) AS m FROM visits WHERE cost > 2", ""),
    ("SELECT DISTINCT ward FROM visits GROUP BY ward, cost", ""),
    ("SELECT DISTINCT ward, COUNT(*) FROM visits GROUP BY ward", ""),
    ("SELECT DISTINCT sex, floor FROM visits JOIN people USING (person) JOIN wards USING (ward)", ""),
    ("SELECT DISTINCT COUNT(*) FROM visits", ""),
    ("SELECT ward FROM visits GROUP BY ward HAVING ward <> 'a'", ""),
    ("SELECT COUNT(*) FROM (visits v JOIN people p ON v.person = p.person)", ""),
    ("SELECT q.sex, COUNT(*) FROM (visits v JOIN people p USING (person)) q GROUP BY q.sex", ""),
    ("SELECT v.sex, COUNT(*) FROM (people) AS v GROUP BY v.sex",
     "SELECT sex, COUNT(*) FROM people GROUP BY sex"),
    ("SELECT COUNT(*) FROM people p LEFT JOIN (visits v JOIN wards w ON v.ward = w.ward) ON p.person = v.person", ""),
    ("SELECT sex AS gender, ward AS sex, COUNT(*) FROM visits JOIN people USING (person) GROUP BY sex, ward", ""),
    ("SELECT age AS years, ward AS age, COUNT(*) FROM visits GROUP BY age, ward HAVING age > 40 ORDER BY age + 1",
     "SELECT age AS years, ward, COUNT(*) FROM visits GROUP BY age, ward HAVING age > 40"),
    ("SELECT to_char(seen, 'YYYY-MM') AS m, COUNT(*) FROM visits GROUP BY to_char(seen, 'YYYY-MM')",
     "SELECT strftime(seen, '%Y-%m') AS m, COUNT(*) FROM visits GROUP BY 1"),
    ("SELECT to_char(seen, 'FMMonth FMDD, YYYY (Q) HH24:MI \"h%\"') AS m, COUNT(*) FROM visits GROUP BY 1",
     ("SELECT strftime(seen, '%B ') || day(seen) || strftime(seen, ', %Y (') || quarter(seen) || "
     "strftime(seen, ') %H:%M h%%'), "
     "COUNT(*) FROM visits GROUP BY 1")),
    ("SELECT to_char(seen, 'DY Day D') AS m, COUNT(*) FROM visits GROUP BY 1",
     ("SELECT upper(strftime(seen, '%a')) || ' ' || rpad(strftime(seen, '%A'), 9, ' ') || ' ' || "
     "(dayofweek(seen) + 1), "
     "COUNT(*) FROM visits GROUP BY 1")),
    (("SELECT SUM(CAST(cost / 7 AS DECIMAL(4, 2))), SUM((cost / 7)::DECIMAL), SUM(CAST(cost / 7 AS DECIMAL(3))) "
     "FROM visits"), ""),
    ("SELECT SUM(least(9, greatest(0, CAST(age AS DECIMAL(3, 1))))), CAST(AVG(cost) AS DECIMAL(9, 1)) FROM visits",
     "SELECT 54.0, CAST(AVG(cost) AS DECIMAL(9, 1)) FROM visits"),
    ("SELECT SUM(CAST(age AS DECIMAL(3, 2))) FROM visits WHERE age = 30", "SELECT 0.0"),  # an error is NULL
    ("SELECT COUNT(*) FROM visits WHERE until - seen > INTERVAL '23 hours' OR seen - until >= INTERVAL 1 MONTH", ""),
    ("SELECT COUNT(*) FROM visits WHERE INTERVAL '1 day' < until - seen AND (until - seen) <> INTERVAL '2' DAY", ""),
    ("SELECT COUNT(*) FROM visits WHERE EXTRACT(day FROM until - seen) = 0", ""),
    ("SELECT SUM(greatest(-90, least(90, EXTRACT(day FROM (until - seen))))) FROM visits", ""),
    ("SELECT SUM(greatest(-9e6, least(9e6, date_part('epoch', until - seen)))) FROM visits", ""),
    ("SELECT COUNT(*) FROM visits WHERE EXTRACT(day FROM seen - INTERVAL 1 DAY) < 7", ""),
    ("SELECT SUM(DISTINCT cost), AVG(DISTINCT cost), COUNT(DISTINCT cost), SUM(DISTINCT age) FROM visits", ""),
    ("SELECT ward, SUM(DISTINCT cost - 4), COUNT(*) FROM visits GROUP BY ward", ""),
    ("SELECT SUM(DISTINCT age) FILTER (WHERE cost > 2) FROM visits v JOIN people p USING (person) WHERE sex = 'f'", ""),
    ("SELECT upper(ward) AS ward, COUNT(*) FROM visits GROUP BY ward", ""),
    ("SELECT COUNT(*) FROM other.visits", "SELECT COUNT(*) FROM visits"),
    ("SELECT COUNT(*) FROM my.other.visits v WHERE v.age > 30", "SELECT COUNT(*) FROM visits v WHERE v.age > 30"),
    ("SELECT COUNT(*) FROM visits WHERE age BETWEEN SYMMETRIC 50 AND 40", ("SELECT COUNT(*) FROM visits WHERE "
     "age >= 40 "
     "AND age <= 50")),
    ("SELECT COUNT(*) FROM visits WHERE age IN (VALUES (30), (60))", ""),
    ("SELECT COUNT(*) FROM visits WHERE (ward, age) IN (('a', 30), ('b', 50), (NULL, 60))", ""),
    ("SELECT COUNT(*) FROM visits WHERE (ward, age) NOT IN (('a', 30), ('b', 50))", ""),
    ("SELECT COUNT(*) FROM visits WHERE (ward, age) = ('a', 30)", ""),
    ("SELECT COUNT(*) FROM visits WHERE strftime('%m', seen) = '02'", ""),
    ("SELECT SUM(least(strlen(ward || 'é'), 9)) FROM visits", ""),
    ("SELECT ward, 1, 'x' AS x, COUNT(*) FROM visits GROUP BY ward, 2, x", ""),
    ("SELECT 'all' AS who, COUNT(*) FROM visits GROUP BY who", ""),
    ("SELECT person % 2 AS odd, odd + 1 AS k, COUNT(*) FROM visits GROUP BY odd, k", ("SELECT person % 2 AS odd, "
     "odd + 1 AS k, COUNT(*) FROM visits GROUP BY person % 2")),
    ("SELECT SUM(age) AS s, COUNT(*) AS n, s / n AS mean FROM visits", ""),
    ("SELECT SUM(least(c, 99)) FROM (SELECT person, age * 2 AS b, b + 1 AS c FROM visits) t", ""),
    ("SELECT SUM(n) FROM (SELECT person, 'x' AS k, COUNT(*) AS n FROM visits GROUP BY person, k) t", ""),
    ("SELECT COUNT(*) FROM visits WHERE age > (SELECT DISTINCT floor * 20 FROM wards WHERE floor = 2)", ""),
    ("SELECT COUNT(*) FROM visits WHERE age > (SELECT DISTINCT MAX(floor) * 20 FROM wards)", ""),
    (("SELECT d, COUNT(person) FROM (SELECT UNNEST(generate_series(DATE '2026-01-31', DATE '2026-12-31', "
     "INTERVAL 1 MONTH)"
     ") AS d) s LEFT JOIN visits ON date_trunc('month', seen) = date_trunc('month', d) GROUP BY d HAVING "
     "COUNT(person) > 0"), ""),
    (("SELECT d, COUNT(person) FROM generate_series(DATE '2026-02-01', DATE '2026-02-08', INTERVAL '1 day') "
     "s(d) LEFT JOIN "
     "visits ON CAST(seen AS DATE) = d GROUP BY d HAVING COUNT(person) > 0"), ""),
    ("SELECT SUM(date_diff('day', TRY_CAST('no date' AS DATE), seen)), COUNT(*) FROM visits", "SELECT 0, 6"),
    *(((f"SELECT SUM(EXTRACT(year FROM age(seen, TIMESTAMP '{t}'))), SUM(date_part('year', age(DATE '{t}', seen))) "
       "FROM visits"), "") for t in ("2020-02-07", "1996-02-29", "2030-05-01", "2020-11-01")),
]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.sampled(20)
@pytest.mark.thinned(4)
@pytest.mark.parametrize(("sql", "plain"), SAME, ids=[sql for sql, _ in SAME])
def test_a_spelling_means_what_duckdb_makes_of_its_own(
    session: dp.Session, monkeypatch: pytest.MonkeyPatch, sql: str, plain: str
) -> None:
    without_noise(monkeypatch, lambda *_: None)
    found = session.sql(sql, epsilon=10**5, delta="1e-3")
    counts = [i for i, column in enumerate(found.columns) if column.lower().startswith("count")]
    empty = [
        tuple(row) for row in found.rows if 0 < len(counts) < len(row) and not any(row[i] for i in counts)
    ]  # known groups of nobody
    kept = [tuple(row) for row in found.rows if tuple(row) not in empty]
    assert in_order(kept) == in_order(of_duckdb(plain or sql))


def test_windows_over_totals_are_planned(session: dp.Session) -> None:
    plan = session.plan(
        "SELECT ward, sex, COUNT(*) AS n, GROUPING(sex) AS g, rank() OVER (PARTITION BY GROUPING(ward) ORDER "
        "BY COUNT(*)) "
        "FROM visits JOIN people USING (person) GROUP BY ROLLUP (ward, sex)",
        epsilon=1,
    )
    assert len(plan.columns) == 5


def test_another_schema_is_read_as_the_connected_table_and_said(session: dp.Session) -> None:
    plan = session.plan("SELECT COUNT(*) FROM my.other.visits", epsilon=1)
    assert "my.other.visits is read as the connected table 'visits'." in plan.notes
    for other in ("other.visits", "visits", "main.visits"):
        with pytest.raises(DiscreetError):
            session.plan(f"SELECT COUNT(*) FROM my.visits v WHERE person IN (SELECT person FROM {other})", epsilon=1)


def test_another_schema_is_refused_where_tables_of_the_name_are_connected_from_two() -> None:
    rows = pd.DataFrame({"person": [1, 2], "ward": ["a", "b"]})
    session = dp.connect(
        {"visits": rows, "old.visits": rows},
        unit=dp.PrivacyUnit("person", 1, 1),
        budget=dp.Budget(epsilon=1),
        population="p",
        ledger=":memory:",
    )
    for known in ("visits", "main.visits", "old.visits"):
        session.plan(f"SELECT COUNT(*) FROM {known}", epsilon=1)
    with pytest.raises(DiscreetError, match="a schema before it that is not connected"):
        session.plan("SELECT COUNT(*) FROM new.visits", epsilon=1)


def test_equal_names_are_numbered_as_duckdb_numbers_them(session: dp.Session) -> None:
    found = session.sql(
        'SELECT SUM(cost), SUM(age), SUM(cost) AS "sum(age)", COUNT(*) AS n, 2 AS N FROM visits', epsilon=1
    )
    assert found.columns == ["sum(cost)", "sum(age)", "sum(age)_1", "n", "N_1"]


def test_a_group_of_nobody_is_shown_or_missing_by_noise_and_the_release_says_so(session: dp.Session) -> None:
    found = session.sql("SELECT DISTINCT ward FROM visits", epsilon=1)
    assert any("its noisy count of units is above 1/2" in note for note in found.notes)
    asked = session.sql("SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 5", epsilon=1)
    assert not any("above 1/2" in note for note in asked.notes)


REFUSED = {
    "SELECT COUNT(*) FROM visits WHERE to_char(seen, 'W') = '1'": "The format of to_char() holds a part",
    "SELECT COUNT(*) FROM visits WHERE to_char(seen, ward) = '1'": "must be written out",
    "SELECT COUNT(*) FROM visits WHERE to_char(cost, 'YYYY') = '1'": "STRFTIME does not take",
    "SELECT COUNT(until - seen) FROM visits": "- does not take (a time, a time)",
    "SELECT COUNT(*) FROM visits WHERE EXTRACT(hour FROM until - seen) > 1": "- does not take (a time, a time)",
    "SELECT COUNT(*) FROM pg_catalog.visits": "has a schema before it that is not connected",
    "SELECT COUNT(*) FROM my.information_schema.visits": "has a schema before it",
    "SELECT (age, 2), COUNT(*) FROM visits GROUP BY 1": "This part of the query is not supported",
    "SELECT COUNT(*) FROM visits WHERE (age, ward) IN ((1, 'a', 2))": "This part of the query is not supported",
    "WITH visits AS (SELECT * FROM people) SELECT COUNT(*) FROM main.visits, visits v": "has a schema before it",
    "SELECT TOP 5 PERCENT ward, COUNT(*) FROM visits GROUP BY ward": "TOP takes a number of rows",
    "SELECT TOP 5 COUNT(*) FROM visits UNION SELECT COUNT(*) FROM people": "TOP stands beside UNION",
    "SELECT DISTINCT person FROM visits": "of one unit",
    "SELECT DISTINCT ON (ward) COUNT(*) FROM visits": "SELECT DISTINCT ON",
    "SELECT ward AS n, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n": "Two output columns are called 'n'",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_has_no_such_meaning_is_refused_by_name(session: dp.Session, sql: str) -> None:
    with pytest.raises(DiscreetError) as caught:
        session.plan(sql, epsilon=1, delta="1e-3")
    assert REFUSED[sql] in caught.value.message
    assert caught.value.hint
