"""Keys that follow from an expression: every value that the database finds is among them, and no δ is needed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.errors import NotPrivate, UnsupportedQuery

MOMENTS = [dt.datetime(2020, 1, 1) + dt.timedelta(hours=37, minutes=11) * i for i in range(395)]
ROWS = {
    "uid": [i // 2 for i in range(400)],
    "t": [*MOMENTS, None, *[dt.datetime(2020, 2, 29, 23, 59, 59), dt.datetime(2020, 12, 31)] * 2],
    "d": [dt.date(2020, 1, 1) + dt.timedelta(days=i % 60) if i % 9 else None for i in range(400)],
    "x": [float("nan") if i == 3 else None if i % 11 == 0 else float(i % 60 - 5) for i in range(400)],
    "k": [None if i % 13 == 0 else i % 7 for i in range(400)],
    "b": [None if i % 3 == 0 else i % 2 == 0 for i in range(400)],
    "s": ["a", "bb"] * 200,
}
COLUMNS: dict[str, Any] = {
    "k": dp.Range(0, 6),
    "t": dp.Range(dt.date(2020, 1, 1), dt.date(2021, 9, 30)),
    "d": dp.Range(dt.date(2020, 1, 1), dt.date(2020, 3, 1)),
}
FREE = {  # of what no fact is declared
    "hour(t)": 25,
    "minute(t)": 61,
    "dayofweek(t)": 8,
    "extract(isodow FROM t)": 8,
    "month(t)": 13,
    "quarter(t)": 5,
    "week(t)": 54,
    "dayofyear(t)": 367,
    "dayname(t)": 8,
    "monthname(t)": 13,
    "x > 10": 3,
    "x IS NULL": 2,
    "s LIKE 'a%'": 3,
    "x > 10 AND b": 3,
    "b": 3,
    "coalesce(b, false)": 2,
    "CASE WHEN x > 10 THEN 'hi' WHEN s = 'a' THEN 'a' END": 3,
    "IF(ln(x + 10) > 2, 1, 2)": 2,
    "width_bucket(x, 0, 50, 5)": 8,
    "hour(t) // 6": 5,
    "hour(t) < 12": 3,
    "dayname(t) || '!'": 8,
    "nullif(dayofweek(t), 0)": 8,
    "CAST(x > 1 AS INTEGER)": 3,
    "least(length(s), 3)": 5,
    "length(left(s, 2))": 4,
    "length(substring(upper(s), 2, 4))": 6,
}
WITHIN = {  # of what bounds are declared
    "k": 8,
    "k + 1": 8,
    "k // 2": 5,
    "k % 3": 4,
    "least(k, 3)": 4,
    "CAST(k AS VARCHAR)": 8,
    "CASE WHEN s = 'a' THEN k ELSE 0 END": 8,
    "year(t)": 3,
    "date_trunc('month', t)": 22,
    "date_trunc('quarter', t)": 8,
    "date_trunc('year', t)": 3,
    "date_trunc('week', d)": 10,
    "CAST(t AS DATE)": 640,
    "d": 62,
    "strftime(t, '%Y-%m')": 22,
    "strftime(d, '%A')": 8,
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("keys") / "v.parquet"
    pl.DataFrame(ROWS).write_parquet(place)
    return place


def connected(source: Path, columns: dict[str, Any], unit: dp.PrivacyUnit) -> dp.Session:
    return dp.connect(source, unit=unit, columns=columns, budget=dp.Budget(1000, 0.1), ledger=":memory:")


@pytest.fixture(scope="module")
def sessions(source: Path) -> Iterator[dict[bool, dp.Session]]:
    with (
        connected(source, {}, dp.PrivacyUnit.row()) as bare,
        connected(source, COLUMNS, dp.PrivacyUnit("uid", max_groups=2, max_rows=2)) as declared,
    ):
        yield {False: bare, True: declared}


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("key", "many", "declared"), [*((k, n, False) for k, n in FREE.items()), *((k, n, True) for k, n in WITHIN.items())]
)
def test_every_value_has_a_group(
    key: str, many: int, declared: bool, source: Path, sessions: dict[bool, dp.Session]
) -> None:
    release = sessions[declared].sql(f"SELECT {key} AS g, COUNT(*) AS n FROM v GROUP BY g", epsilon=20)
    theirs = key.replace(
        "width_bucket(x, 0, 50, 5)", "CASE WHEN NOT isnan(x) THEN floor(greatest(least(x, 50), -1) / 10) + 1 END"
    )
    with open_database() as database:
        exact = dict(database.execute(f"SELECT {theirs} AS g, COUNT(*) FROM '{source}' GROUP BY g").fetchall())
    assert len(release.rows) == many
    assert exact.keys() <= {g for g, _ in release.rows}
    assert all(abs(n - exact.get(g, 0)) <= 8 for g, n in release.rows)
    assert release.cost.delta(epsilon=20) == 0


@pytest.mark.parametrize(
    "key", ["s", "length(s)", "k", "year(t)", "date_trunc('month', t)", "CAST(t AS DATE)", "floor(x)"]
)
def test_what_follows_from_nothing_still_needs_a_delta(key: str, sessions: dict[bool, dp.Session]) -> None:
    with pytest.raises(NotPrivate, match="groups"):
        sessions[False].plan(f"SELECT {key} AS g, COUNT(*) AS n FROM v GROUP BY g", epsilon=1)


def test_too_many_known_groups_are_selected_as_before(sessions: dict[bool, dp.Session]) -> None:
    wide = "SELECT CAST(t AS DATE) AS a, minute(t) AS b, dayofyear(t) AS c, COUNT(*) AS n FROM v GROUP BY a, b, c"
    with pytest.raises(NotPrivate):
        sessions[True].plan(wide, epsilon=1)
    assert sessions[True].plan(wide, epsilon=1, delta=1e-6).query.question.keys.lists is None


def test_notes_say_what_can_be_in_no_group(sessions: dict[bool, dp.Session]) -> None:
    def notes(key: str, *, declared: bool) -> tuple[str, ...]:
        return sessions[declared].plan(f"SELECT {key} AS g, COUNT(*) AS n FROM v GROUP BY g", epsilon=1).notes

    assert [key for key in FREE if notes(key, declared=False)] == []
    assert "In no group: rows in which 'g' is undeclared." in notes("k", declared=True)


@pytest.mark.exhaustive
def test_a_large_grid_gives_way_to_a_selection_where_there_is_a_delta() -> None:
    rows = pd.DataFrame({"id": range(400), "x": pd.array([7] * 200 + [-3] * 100 + [None] * 100, dtype="Int64")})
    grid = {"x": dp.Range(0, 100_000, integer=True)}
    with dp.connect({"t": rows}, unit=dp.PrivacyUnit("id", 1, 1), columns=grid, **BUDGETED) as session:
        sql = "SELECT x, COUNT(*) AS n FROM t GROUP BY x"
        plan = session.plan(sql, epsilon=5, delta="1e-3")
        assert "Groups: private, among the 100,001 declared combinations" in plan.explain()
        release = session.sql(sql, epsilon=5, delta="1e-3")
        assert [x for x, _ in release.rows] == [7, None]  # −3 lies beyond the declared range
        few = session.plan(f"{sql.replace(' GROUP', ' WHERE x BETWEEN 5 AND 8 GROUP')}", epsilon=5, delta="1e-3")
        assert few.query.question.keys.all() == [(5,), (6,), (7,), (8,)]
    wide = {"x": dp.Range(0, 900_000, integer=True), "y": dp.Range(0, 16, integer=True)}
    with dp.connect({"t": rows.assign(y=1)}, unit=dp.PrivacyUnit("id", 1, 1), columns=wide, **BUDGETED) as session:
        sql = "SELECT x, y, COUNT(*) AS n FROM t GROUP BY x, y"
        with pytest.raises(UnsupportedQuery, match="The declared keys have 15,300,017 combinations"):
            session.plan(sql, epsilon=1)
        assert session.plan(sql, epsilon=1, delta="1e-6").query.question.keys.lists is None


BUDGETED: dict[str, Any] = {"budget": dp.Budget(100, "1e-2"), "population": "grid", "ledger": ":memory:"}
