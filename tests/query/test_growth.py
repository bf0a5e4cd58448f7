"""Joins with public tables: those that make too many rows of one are refused, from what is public about the tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import discreet as dp
from discreet.errors import UnsupportedQuery


@pytest.fixture(scope="module")
def session() -> dp.Session:
    hundred = pd.DataFrame({"k": range(100), "same": [1] * 100, "text": [str(i) for i in range(100)]})
    return dp.connect(
        {
            "people": pd.DataFrame({"uid": [1, 2], "x": [1, 2], "name": ["a", "b"]}),
            "r": hundred,
            "large": pd.DataFrame({"n": range(5_000)}),
        },
        unit=dp.PrivacyUnit("uid", max_groups=1, max_rows=1),
        public=["r", "large"],
        population="people",
        budget=dp.Budget(epsilon=100),
        ledger=":memory:",
    )


def times(n: int, on: str = "", table: str = "r") -> str:
    """People joined with the public table n times."""
    joins = [f"JOIN {table} r{i} ON {on.replace('{r}', f'r{i}') or 'TRUE'}" for i in range(n)]
    return f"people p {' '.join(joins)}"


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "source",
    [
        times(4),
        times(4, "{r}.k > p.x"),
        times(4, "{r}.same = p.x"),
        times(4, "{r}.k = {r}.k"),
        times(4, "{r}.k % 2 = p.x"),
        times(2, table="large"),
        times(4, "{r}.k > p.x").replace("JOIN", "LEFT JOIN"),
        times(4, table="(SELECT same AS k FROM r)"),
        times(4, table="(SELECT k FROM r UNION ALL SELECT k FROM r)"),
        "people p JOIN (SELECT a.k FROM r a, r b, r c, r d) q ON q.k = p.x",
        "(SELECT uid, COUNT(*) AS n FROM people p, r a, r b, r c, r d GROUP BY uid) q",
        "people p SEMI JOIN (SELECT a.k FROM r a, r b, r c, r d) q ON q.k = p.x",
    ],
)
def test_public_tables_that_make_too_many_rows_of_one_are_refused(session: dp.Session, source: str) -> None:
    with pytest.raises(UnsupportedQuery, match="more than 1,000,000 rows of one row") as caught:
        session.plan(f"SELECT COUNT(*) AS n FROM {source}", epsilon=1)
    assert "hold each value once" in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        times(3),
        times(20, "{r}.k = p.x"),
        times(20, "p.name = {r}.text AND {r}.k > 5"),
        times(20, "{r}.k = 7"),
        times(1, table="large"),
        times(4, "{r}.k > p.x").replace("JOIN", "SEMI JOIN"),
        times(20, "{r}.k = p.x", table="(SELECT DISTINCT k FROM r)"),
        times(20, "{r}.same = p.x", table="(SELECT same, COUNT(*) AS n FROM r GROUP BY same)"),
        f"people p, {', '.join(f'r r{i}' for i in range(20))} WHERE "
        + " AND ".join(f"r{i}.k = p.x" for i in range(20)),
    ],
)
def test_others_are_answered(session: dp.Session, source: str) -> None:
    session.plan(f"SELECT COUNT(*) AS n FROM {source}", epsilon=1)


def test_one_large_public_table_may_have_more_rows(session: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.query.relation.rows.MOST", 1_000)
    session.plan(f"SELECT COUNT(*) AS n FROM {times(1, table='large')}", epsilon=1)
    with pytest.raises(UnsupportedQuery, match="of one row"):
        session.plan(f"SELECT COUNT(*) AS n FROM {times(1, table='large')}, r", epsilon=1)


def test_the_keys_of_a_public_text_file_are_known(tmp_path: Path) -> None:
    people, codes = tmp_path / "people.csv", tmp_path / "codes.csv"
    people.write_text("uid,x,name\n1,1,a\n2,2,b\n")
    codes.write_text("k,text\n" + "".join(f"{i},t{i}\n" for i in range(2_000)))
    session = dp.connect(
        {"people": people, "codes": codes},
        unit=dp.PrivacyUnit("uid", max_groups=1, max_rows=1),
        public=["codes"],
        population="people",
        budget=dp.Budget(epsilon=100),
        ledger=":memory:",
    )
    for on in ("CAST(p.x AS BIGINT) = {r}.k", "p.name = {r}.text"):
        session.plan(f"SELECT COUNT(*) AS n FROM {times(5, on, 'codes')}", epsilon=1)
    with pytest.raises(UnsupportedQuery, match="of one row"):
        session.plan(f"SELECT COUNT(*) AS n FROM {times(5, 'p.name <> {r}.text', 'codes')}", epsilon=1)
