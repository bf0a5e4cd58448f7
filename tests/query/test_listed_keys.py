"""Keys that the owner lists as whole tuples: which groups there are, and what is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import discreet as dp
from discreet.errors import DiscreetError, InternalError, InvalidParameter, UnknownColumn
from discreet.plan.query import Query
from tests.plan.claims import check

ROWS = pd.DataFrame(
    {
        "id": [1, 1, 1, 2, 2, 3],
        "year": [2024, 2025, 2026, 2024, 2025, 2027],
        "part": ["a", "a", None, "b", "b", "a"],
        "x": [1.0, 2, 3, 4, 5, 6],
    }
)
TUPLES = {"year": [2024, 2024, 2026, 2024], "part": ["a", "b", None, "a"]}
BY_BOTH = "SELECT year, part, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY year, part"


def opened(keys: object = TUPLES, rows: Any = ROWS, **given: Any) -> dp.Session:
    options: dict[str, Any] = {
        "unit": dp.PrivacyUnit("id", max_groups=2, max_rows=2),
        "columns": {"x": dp.Range(0, 10)},
        "budget": dp.Budget(10**7, per_query=10**6),
        "population": "p",
        "ledger": ":memory:",
        **given,
    }
    return dp.connect({"t": rows}, keys=dp.Keys(keys), **options)


def groups(session: dp.Session, sql: str) -> list[tuple[Any, ...]]:
    return session.plan(sql, epsilon=1).query.question.keys.all()


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "frame", [dict, pd.DataFrame, pl.DataFrame, pa.table], ids=["dict", "pandas", "polars", "arrow"]
)
def test_the_listed_tuples_are_the_groups_each_once(frame: Callable[..., Any]) -> None:
    with opened(frame(TUPLES)) as session:
        assert groups(session, BY_BOTH) == [(2024, "a"), (2024, "b"), (2026, None)]
        assert groups(session, "SELECT part, COUNT(*) AS n FROM t GROUP BY part") == [("a",), ("b",), (None,)]
        assert groups(session, BY_BOTH.replace("FROM t", "FROM t WHERE year < 2025")) == [(2024, "a"), (2024, "b")]
        assert groups(session, "SELECT part, x > 2 AS big, year, COUNT(*) AS n FROM t GROUP BY 1, 2, 3")[:2] == [
            ("a", False, 2024),
            ("a", True, 2024),
        ]


@pytest.mark.parametrize(
    "unit",
    [dp.PrivacyUnit("id", max_groups=1, max_rows=2), dp.PrivacyUnit("id", max_contributions=2), dp.PrivacyUnit.row()],
    ids=["groups", "contributions", "rows"],
)
def test_other_rows_are_in_no_group_and_take_no_place(unit: dp.PrivacyUnit) -> None:
    rows = ROWS[(ROWS["id"] != 1) | (ROWS["year"] != 2026)]  # each person has one row in a listed group
    with opened(rows=rows, unit=unit) as session:
        release = session.sql(BY_BOTH, epsilon=10**5)
        assert [(y, p, round(n), round(s)) for y, p, n, s in release.rows] == [
            (2024, "a", 1, 1),
            (2024, "b", 1, 4),
            (2026, None, 0, 0),
        ]
        assert any("'year' and 'part' are together no listed key" in note for note in release.notes)
        release.certificate()


def test_a_file_lists_text_that_is_read_as_the_columns_types(tmp_path: Path) -> None:
    place = tmp_path / "keys.csv"
    place.write_text("year,part\n2024,a\n2024,b\n2026,\n", encoding="utf-8")
    with opened(str(place)) as session:
        assert groups(session, BY_BOTH) == [(2024, "a"), (2024, "b"), (2026, None)]
    place.write_text("year,part\n02024,a\n", encoding="utf-8")
    with pytest.raises(InvalidParameter, match="A value of 'year' in keys= is not what the column stores"):
        opened(place)


def test_a_policy_and_the_command_line_name_the_file(tmp_path: Path) -> None:
    ROWS.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "keys.csv").write_text("year,part\n2024,a\n2026,\n", encoding="utf-8")
    (tmp_path / "discreet.toml").write_text(
        '[population.p]\nledger = "p.ledger"\nbudget = { epsilon = 3 }\n'
        '[table.t]\nsource = "t.parquet"\nunit = "id"\nmax_contributions = 3\nkeys = "keys.csv"\n',
        encoding="utf-8",
    )
    with dp.connect(str(tmp_path / "discreet.toml")) as session:
        sql = "SELECT year, part, COUNT(*) AS n FROM t GROUP BY 1, 2"
        assert groups(session, sql) == [(2024, "a"), (2026, None)]
    with pytest.raises(InvalidParameter, match="keys= is fixed by the policy"):
        dp.connect(str(tmp_path / "discreet.toml"), keys=dp.Keys(TUPLES))


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ([1, 2], "Keys takes a data frame"),
        ({}, "Keys takes a data frame"),
        ({"year": []}, "at least one tuple"),
        ({"year": [1], "part": []}, "columns of one length"),
        ({"year": [1, "a"]}, "all be of one kind"),
        ({"year": [object()]}, "no number, text, date or truth value"),
        ({"year": [1 << 60 | 1, 0.5]}, "too large to stand beside others"),
        ({"year": [2024.5]}, "is not what the column stores: a whole number"),
        ({"year": ["2024"]}, "is not what the column stores"),
        ({"x": [1.0]}, "columns= and keys= both declare 'x'"),
        ("nowhere.csv", "no file .nowhere.csv. with keys"),
    ],
)
def test_what_is_no_list_of_keys_is_refused(frame: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        opened(frame)


def test_columns_that_no_table_or_two_have_are_refused() -> None:
    with pytest.raises(UnknownColumn, match="no private table has"):
        opened({"yeer": [1], "part": ["a"]})
    with pytest.raises(DiscreetError, match="both have"):
        dp.connect(
            {"t": ROWS, "s": ROWS},
            unit=dp.PrivacyUnit("id", max_contributions=3),
            keys=dp.Keys(TUPLES),
            budget=dp.Budget(1),
            population="p",
            ledger=":memory:",
        )
    with pytest.raises(InvalidParameter, match=r"keys must be dp\.Keys"):
        dp.connect({"t": ROWS}, unit="id", keys=TUPLES)  # type: ignore[arg-type]


def test_values_are_cast_only_where_none_is_lost() -> None:
    rows = ROWS.assign(year=ROWS["year"].astype(float), day=pd.to_datetime("2024-01-01"))
    with opened({"year": [2024, 2025], "part": ["a", "b"]}, rows=rows) as session:
        assert groups(session, BY_BOTH) == [(2024.0, "a"), (2025.0, "b")]
    with opened({"day": [dt.datetime(2024, 1, 1)], "part": ["a"]}, rows=rows) as session:
        assert groups(session, "SELECT day, part, COUNT(*) AS n FROM t GROUP BY 1, 2") == [
            (dt.datetime(2024, 1, 1), "a")
        ]


def test_a_text_that_filters_otherwise_is_refused() -> None:
    with opened() as session:
        query: Query = session.plan(BY_BOTH, epsilon=1).query
    check(query.sql, query)
    on = "ON (k0.g * 3 + k1.g) = k2.v"
    for old, new in (
        (on, "ON (k0.g * 3 + k1.v) = k2.v"),
        (on, "ON (k0.g * 3 + k1.g) <= k2.v"),
        (on, "ON (k0.g * 3 + k3.g) = k2.v"),
        (on, "ON (k0.g * 3 + k2.g) = k2.v"),
        ('l(v, g) GROUP BY v),\n"unit rows"', 'l(v, g) GROUP BY v, g),\n"unit rows"'),
    ):
        assert old in query.sql, query.sql
        with pytest.raises(InternalError):
            check(query.sql.replace(old, new), query)
