"""The closing table of docs/sql-reference.md: what each row says is refused, and what it says instead is answered."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import discreet as dp
from discreet.catalog.schema import TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.outer_release import type_of_result
from discreet.errors import PlanError
from discreet.plan.cost import Kind, PlanTerms
from discreet.plan.plan import Plan
from discreet.plan.planner import make_plan
from discreet.privacy.unit import Relation

UNIT = dp.PrivacyUnit("person", max_groups=2, max_rows=9)
TABLES = [
    TableSchema(
        "visits",
        {"person": Type.INT, "ward": Type.TEXT, "cost": Type.INT, "at": Type.TIMESTAMP},
        {"cost": dp.Range(0, 9, integer=True), "ward": Values("a", "b")},
        UNIT,
        Relation.ADD_REMOVE,
        view=None,
    ),
    TableSchema(
        "wards",
        {"ward": Type.TEXT, "floor": Type.INT},
        {"floor": dp.Range(0, 9, integer=True), "ward": Values("a", "b")},
        dp.PrivacyUnit("person"),
        Relation.ADD_REMOVE,
        public=True,
        digest="ab" * 32,
        rows=2000,
        alike={"ward": 1, "floor": 2000},
    ),
]
N = "SELECT COUNT(*) FROM visits"
IN = "SELECT COUNT_IF(c > 1) FROM (SELECT COUNT(*) OVER (PARTITION BY person ORDER BY cost {}) AS c FROM visits) w"

ROWS: dict[str, tuple[list[str], list[str]]] = {
    "anything but one `SELECT`": (
        [
            "INSERT INTO visits VALUES (1)",
            "COPY visits TO 'x'",
            "ATTACH 'x'",
            "PRAGMA x",
            "SET threads = 1",
            f"EXPLAIN {N}",
            f"{N}; {N}",
        ],
        [N],
    ),
    "`SELECT *`, a column outside": (
        ["SELECT * FROM visits", "SELECT cost FROM visits"],
        ["SELECT ward, SUM(cost) FROM visits GROUP BY ward"],
    ),
    "files, functions, system tables": (
        [
            "SELECT COUNT(*) FROM 'a.csv'",
            "SELECT COUNT(*) FROM range(3)",
            "SELECT COUNT(*) FROM duckdb_tables",
            "SELECT COUNT(*) FROM pg_catalog.visits",
        ],
        [N],
    ),
    "private tables joined on anything but": (
        [f"{N} a JOIN visits b ON a.cost = b.cost"],
        [f"{N} a JOIN visits b ON a.cost = b.cost AND a.person = b.person"],
    ),
    "public tables joined until more than": (
        [f"{N} v JOIN wards a ON a.floor = v.cost JOIN wards b ON b.floor = a.floor"],
        [f"{N} v JOIN wards a ON a.ward = v.ward JOIN wards b ON b.ward = a.ward"],
    ),
    "`FULL` and (but for groups) `LEFT JOIN` from a public table": (
        [f"SELECT COUNT(*) FROM wards {how} JOIN visits USING (ward)" for how in ("FULL", "LEFT", "SEMI", "ANTI")],
        [f"{N} {how} JOIN wards USING (ward)" for how in ("LEFT", "SEMI", "ANTI")],
    ),
    "groups of one unit each": (
        ["SELECT person, COUNT(*) FROM visits GROUP BY person"],
        ["SELECT AVG(least(n, 9)) FROM (SELECT person, COUNT(*) AS n FROM visits GROUP BY person) w"],
    ),
    "windows inside": (
        [
            "SELECT COUNT(*) FROM (SELECT row_number() OVER (ORDER BY cost) AS r FROM visits) w",
            "SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 3) w",
        ],
        [
            "SELECT COUNT(*) FROM (SELECT DISTINCT person, ward FROM visits) w",
            N.replace("visits", "(SELECT * FROM visits QUALIFY row_number() OVER (PARTITION BY person) = 1) w"),
        ],
    ),
    "a result for each row": (
        [f"{N} v WHERE cost > (SELECT AVG(cost) FROM visits w WHERE w.ward = v.ward)"],
        [
            f"{N} WHERE cost > CASE ward WHEN 'a' THEN 4 ELSE 5 END",
            f"{N} WHERE cost > (SELECT AVG(cost) FROM visits)",
            f"{N} WHERE cost IN (SELECT COUNT(*) FROM visits)",
        ],
    ),
    "`= ANY (SELECT": (
        [f"{N} WHERE cost > 3 OR ward = ANY (SELECT ward FROM wards)"],
        [
            "SELECT COUNT_IF(cost > (SELECT MAX(floor) FROM wards)) FROM visits",
            f"{N} WHERE cost > (SELECT MAX(floor) FROM wards)",
            f"{N} WHERE ward IN (SELECT ward FROM wards)",
        ],
    ),
    "a result of several rows beside people's rows": (
        ["SELECT SUM(cost) FROM visits v JOIN (SELECT ward, AVG(cost) AS a FROM visits GROUP BY 1) m ON cost > a"],
        [
            "SELECT SUM(cost) FROM visits JOIN (SELECT AVG(cost) AS a FROM visits) m ON cost > a",
            "SELECT ward, RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY ward",
            "SELECT SUM(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) w",
            "SELECT COUNT(*) + (SELECT MAX(floor) FROM wards) FROM visits",
            *(f"{N} {how} {N}" for how in ("UNION", "INTERSECT", "EXCEPT")),
        ],
    ),
    "`RANGE` and `GROUPS` frames": (
        [IN.format(f"{how} BETWEEN 1 PRECEDING AND CURRENT ROW") for how in ("RANGE", "GROUPS")]
        + [f"{N}, LATERAL (SELECT 1) l", f"{N} ASOF JOIN wards USING (ward)", f"WITH RECURSIVE x AS (SELECT 1) {N}"]
        + [f"{N} PIVOT (COUNT(*) FOR ward IN ('a'))"],
        [
            IN.format("ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"),
            "SELECT COUNT(CASE ward WHEN 'a' THEN 1 END) FROM visits",
        ],
    ),
    "`random()`, `uuid()`, the current date": (
        [f"{N} WHERE {c}" for c in ("random() < 1", "uuid() < 'a'", "current_date > DATE '2020-01-01'", "now() > at")]
        + [f"{N} WHERE current_setting('x') = 'a'", f"{N} WHERE current_user = 'a'"],
        [f"{N} WHERE at > TIMESTAMP '2020-01-01 00:00:00'"],
    ),
    "parameters": ([f"{N} WHERE cost > {p}" for p in ("?", "$1")], [f"{N} WHERE cost > 1"]),
    "`SAMPLE`, `AT (VERSION …)`": ([f"{N} USING SAMPLE 10%", f"{N} TABLESAMPLE 10%", f"{N} AT (VERSION => 3)"], [N]),
    "`COLLATE`, `AT TIME ZONE`, bits": (
        [f"{N} WHERE {c}" for c in ("ward COLLATE NOCASE = 'A'", "at AT TIME ZONE 'UTC' = at", "cost & 1 = 1")]
        + [f"{N} WHERE {c}" for c in ("md5(ward) = 'a'", "[1][1] = 1", "{'a': 1}.a = 1", "f(cost) = 1")]
        + [f"{N} WHERE list_transform([1], x -> x) = [1]"],
        [f"{N} WHERE lower(ward) = 'a'", f"{N} WHERE at + INTERVAL 2 HOUR > TIMESTAMP '2020-01-01 00:00:00'"],
    ),
    "more than 200 different aggregates": (
        [
            "SELECT " + ", ".join(f"COUNT_IF(cost > {i}) AS n{i}" for i in range(201)) + " FROM visits",
            N + "".join(f" JOIN wards w{i} ON w{i}.ward = visits.ward" for i in range(101)),
            f"{N} GROUP BY GROUPING SETS ({', '.join(65 * ['(ward)'])})",
            f"{N} WHERE ward <> '{'x' * 100000}'",
            f"{N} WHERE {'abs(' * 18}cost{')' * 18} > 1",
        ],
        [
            "SELECT " + ", ".join(f"COUNT_IF(cost > {i}) AS n{i}" for i in range(200)) + " FROM visits",
            f"{N} WHERE {'abs(' * 10}cost{')' * 10} > 1",
        ],
    ),
}


def planned(sql: str) -> Plan:
    return make_plan(
        sql, TABLES, PlanTerms("p", None, Fraction(1), Fraction("1e-6"), Kind.LAPLACE), type_of=type_of_result
    )


def table() -> list[str]:
    """The first cells of the table."""
    page = (Path(__file__).parents[2] / "docs" / "sql-reference.md").read_text(encoding="utf-8")
    lines = page.split("| refused | because | instead |\n")[1].split("\n\n")[0].splitlines()[1:]
    return [line.removeprefix("| ").split(" | ")[0] for line in lines]


def test_every_row_of_the_table_is_here() -> None:
    assert len(table()) == len(ROWS)
    for cell, start in zip(table(), ROWS, strict=True):
        assert cell.startswith(start)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("row", ROWS)
def test_what_the_table_says_is_so(row: str) -> None:
    refused, answered = ROWS[row]
    for sql in refused:
        with pytest.raises(PlanError) as caught:
            planned(sql)
        assert caught.value.hint, sql
    for sql in answered:
        planned(sql)
