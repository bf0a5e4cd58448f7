"""Rows that are units, joined with public tables: each gives one row at most, and the text sees to it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlglot

import discreet as dp
from discreet.backends.connection import open_database
from discreet.errors import InternalError, UnsupportedQuery
from discreet.verify.certificate.checker import check
from discreet.verify.owned import PublicTable, each_row
from tests.verify.asked import plain

T = 'SELECT t."x" AS c0, t."k" AS c1 FROM main."t" t'
P = 'SELECT t."id" AS c2, t."name" AS c3, t."n" AS c4 FROM main."p" t'
NUMBER = "row_number() OVER (PARTITION BY r.c2 ORDER BY r.c2, r.c3, r.c4)"
ONE = "CAST(1 AS BIGINT)"
FIRST = (
    f"SELECT r.c6 AS c9, r.c7 AS c10 FROM (SELECT r.c2 AS c6, r.c3 AS c7, {NUMBER} AS c8 FROM ({P}) r) r "
    f"WHERE r.c8 = {ONE}"
)
MET = f"SELECT l.c0 AS c11, r.c10 AS c12 FROM ({T}) l JOIN ({FIRST}) r ON l.c1 = r.c9"
GROUPED = f"SELECT r.c2 AS c20, count(*) AS c21 FROM ({P}) r GROUP BY r.c2"
VALUE = f"SELECT l.c0 AS c11, r.c21 AS c12 FROM ({T}) l LEFT JOIN ({GROUPED}) r ON l.c1 = r.c20"
BESIDE = f"SELECT l.c0 AS c11, r.c21 AS c12 FROM ({T}) l JOIN (SELECT count(*) AS c21 FROM ({P}) r) r ON TRUE"
SOME = f"SELECT l.c0 AS c11 FROM ({T}) l SEMI JOIN ({P}) r ON l.c1 < r.c2"
TEXTS = (
    f'{T} WHERE t."x" > 1',
    MET,
    MET.replace(" JOIN", " LEFT JOIN").replace("= r.c9", "= r.c9 AND (l.c0 > 2 OR r.c10 = 'a')"),
    VALUE,
    BESIDE,
    SOME,
    SOME.replace("SEMI", "ANTI"),
    f"SELECT r.c11 + 1 AS c13 FROM ({MET}) r WHERE r.c12 = 'a'",
)
TABLES = {
    "t": PublicTable({"x": "BIGINT", "k": "BIGINT"}),
    "p": PublicTable({"id": "BIGINT", "name": "VARCHAR", "n": "BIGINT"}, public=True),
    "o": PublicTable({"uid": "BIGINT"}, unit="uid"),
}
TWINS = (
    (MET, "all of the public rows that fit", f" WHERE r.c8 = {ONE}", ""),
    (MET, "several of them", f"r.c8 = {ONE}", "r.c8 = CAST(2 AS BIGINT) OR r.c8 = CAST(1 AS BIGINT)"),
    (MET, "the first two", f"r.c8 = {ONE}", f"r.c8 <= {ONE} + {ONE}"),
    (MET, "the first under OR", f"r.c8 = {ONE}", f"(r.c8 = {ONE} OR r.c6 = {ONE})"),
    (MET, "numbers of another key", "PARTITION BY r.c2", "PARTITION BY r.c3"),
    (MET, "numbers of two keys", "PARTITION BY r.c2", "PARTITION BY r.c2, r.c3"),
    (MET, "ranks, which several may share", "row_number()", "rank()"),
    (MET, "another column", "l.c1 = r.c9", "l.c1 = length(r.c10)"),
    (MET, "more than is equal", "l.c1 = r.c9", "l.c1 >= r.c9"),
    (MET, "under OR", "l.c1 = r.c9", "(l.c1 = r.c9 OR l.c0 = 1)"),
    (MET, "an expression of it", "l.c1 = r.c9", "l.c1 = r.c9 % 2"),
    (MET, "equal to itself", "l.c1 = r.c9", "r.c9 = r.c9"),
    (MET, "equal as another type", "l.c1 = r.c9", "CAST(l.c1 AS VARCHAR) = r.c9"),
    (MET, "NULL as a value", "l.c1 = r.c9", "l.c1 IS NOT DISTINCT FROM r.c9"),
    (MET, "public rows that nobody meets", " JOIN", " FULL JOIN"),
    (MET, "people on both sides", f"({FIRST}) r", f"({T}) r"),
    (MET, "another population's rows", 'main."t"', 'main."o"'),
    (MET, "public rows in their place", 'FROM main."t" t', 'FROM main."p" t'),
    (MET, "a row more than once", 'FROM main."t" t', 'FROM main."t" t, main."t" s'),
    (VALUE, "groups of two keys", "GROUP BY r.c2", "GROUP BY r.c2, r.c3"),
    (VALUE, "all rows", GROUPED, P.replace("c2", "c20").replace("c3", "c21")),
    (BESIDE, "groups without their key", f"FROM ({P}) r)", f"FROM ({P}) r GROUP BY r.c2)"),
    (SOME, "a join", "SEMI JOIN", "JOIN"),
    (TEXTS[0], "each different row once", "SELECT t", "SELECT DISTINCT t"),
    (TEXTS[0], "a count of everybody", 't."k" AS c1', "count(*) OVER () AS c1"),
    (TEXTS[0], "the place of the row", 't."k" AS c1', "row_number() OVER () AS c1"),
    (TEXTS[0], "several rows of one", 't."k" AS c1', "unnest([1, 2]) AS c1"),
    (TEXTS[0], "rows twice", TEXTS[0], f"SELECT c0 AS c5 FROM ({T}) l UNION ALL SELECT c0 FROM ({T}) r"),
)


def read(nested: str) -> None:
    query = sqlglot.parse_one(f"SELECT 1 FROM ({nested}) s", dialect="duckdb")
    each_row(query.args["from_"].this, TABLES)


def moved(nested: str) -> list[Counter[Any]]:
    """What each row that goes takes with it, and what comes in its place; the public keys are not unique."""
    connection, found = open_database(), []
    connection.execute("CREATE TABLE p AS SELECT * FROM (VALUES (1, 'a', 5), (1, 'b', 6), (2, 'a', 7), (NULL, 'c', 8)) v(id, name, n)")  # fmt: skip  # noqa: E501
    rows = [(1, 1), (2, 1), (2, 1), (3, 2), (4, None), (5, 9)]
    for gone in (None, *range(len(rows))):
        kept = [r for i, r in enumerate(rows) if i != gone]
        connection.execute("CREATE OR REPLACE TABLE t (x BIGINT, k BIGINT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", kept)
        found.append(Counter(connection.execute(nested).fetchall()))
    return [d for after in found[1:] for d in (found[0] - after, after - found[0])]


@pytest.mark.parametrize("nested", TEXTS)
def test_a_row_that_goes_takes_one_row_with_it_at_most(nested: str) -> None:
    read(nested)
    assert all(takes.total() <= 1 and not brings for takes, brings in zip(*[iter(moved(nested))] * 2, strict=True))


@pytest.mark.parametrize(("nested", "what", "old", "new"), TWINS, ids=[w for _, w, _, _ in TWINS])
def test_a_text_of_which_that_is_not_known_is_refused(nested: str, what: str, old: str, new: str) -> None:
    assert old in nested
    with pytest.raises(InternalError):
        read(nested.replace(old, new))


def test_the_definition_tells_a_broken_text() -> None:
    assert max(d.total() for d in moved(MET.replace(f" WHERE r.c8 = {ONE}", ""))) == 2


@pytest.fixture(scope="module")
def session() -> dp.Session:
    visits = pd.DataFrame({"vid": range(60), "dept": [i % 3 for i in range(60)], "cost": [i % 20 for i in range(60)]})
    depts = pd.DataFrame({"id": [0, 1, 2, 3], "name": ["a", "b", "c", "d"], "beds": [5, 10, 15, 20]})
    rates = pd.DataFrame({"dept": [0, 0, 1, 1], "year": [1, 2, 1, 2], "rate": [3.0, 4.0, 5.0, 6.0]})
    return dp.connect(
        {"visits": visits, "depts": depts, "rates": rates},
        unit=dp.PrivacyUnit.row(),
        public=["depts", "rates"],
        columns={"cost": dp.Range(0, 20)},
        population="visits",
        budget=dp.Budget(epsilon=1e6, per_query=1e4),
        ledger=":memory:",
    )


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT d.name, COUNT(*) AS n FROM visits v JOIN depts d ON v.dept = d.id GROUP BY d.name ORDER BY d.name",
         [("a", 20), ("b", 20), ("c", 20), ("d", 0)]),
        ("WITH j AS (SELECT cost, beds FROM visits v LEFT JOIN depts d ON d.id = v.dept AND beds > 5) "  # noqa: ISC004
         "SELECT COUNT(*) AS n, COUNT_IF(cost > beds) AS over FROM j", [(60, 13)]),
        ("SELECT COUNT(*) AS n FROM visits v JOIN rates r USING (dept) WHERE r.year = 1 AND r.rate > 3", None),
        ("SELECT COUNT(*) AS n FROM visits v JOIN rates r ON v.dept = r.dept AND r.year = 1", [(40,)]),
        ("SELECT COUNT(*) AS n FROM visits, (VALUES (15)) p(most) WHERE cost > most", [(12,)]),
        ("SELECT COUNT(*) AS n FROM visits v WHERE dept IN (SELECT id FROM depts WHERE beds > 5) "  # noqa: ISC004
         "AND cost > (SELECT AVG(beds) FROM depts)", [(14,)]),
        ("SELECT COUNT(*) AS n FROM visits a JOIN visits b ON a.vid = b.vid", None),
        ("SELECT COUNT(*) AS n FROM (SELECT cost FROM visits UNION ALL SELECT cost FROM visits) v", None),
        ("SELECT COUNT(*) AS n FROM visits v JOIN depts d ON v.dept <= d.id", None),
        ("SELECT COUNT(*) AS n FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.vid = v.vid)", None),
    ],
)  # fmt: skip
def test_what_meets_one_public_row_is_answered_and_all_else_refused(
    session: dp.Session, sql: str, rows: list[tuple[Any, ...]] | None
) -> None:
    if rows is not None:
        assert session.sql(sql, epsilon=1000).rows == rows
        return
    with pytest.raises(UnsupportedQuery, match="Each row is a unit of its own here"):
        session.plan(sql, epsilon=1)


def test_its_certificate_is_judged_by_the_text(session: dp.Session) -> None:
    sql = "SELECT name, COUNT(*) AS n, MEDIAN(cost) AS m FROM visits v JOIN depts d ON v.dept = d.id GROUP BY name"
    document = plain(session.sql(sql, epsilon=5).certificate())
    verdict = check(document, None)
    assert (verdict.broken, verdict.reason) == (None, "")


def test_numbers_of_text_files_meet_once_as_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("vid,dept\n" + "\n".join(f"{i},{i % 3}" for i in range(30)))
    (tmp_path / "d.csv").write_text("id,name\n0,a\n1,b\n2,b\n")
    files = {name: tmp_path / f"{name}.csv" for name in "vd"}
    with dp.connect(files, unit=dp.PrivacyUnit.row(), public=["d"], budget=dp.Budget(5000, per_query=5000), ledger=":memory:") as s:  # fmt: skip  # noqa: E501
        sql = "SELECT name, COUNT(*) AS n FROM v JOIN d ON v.dept = d.id GROUP BY name ORDER BY name"
        assert s.sql(sql, epsilon=1000).rows == [("a", 10), ("b", 20)]
        with pytest.raises(UnsupportedQuery, match="several rows of 'd'"):
            s.plan("SELECT COUNT(*) FROM v JOIN d ON v.dept = d.name", epsilon=1)
