"""Forged statements that look like known ones, and move further than is claimed: the database shows it, and no
certificate of them passes. All else in it is made to fit.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from discreet.backends.connection import open_database
from discreet.certificate.checker import check
from discreet.errors import InternalError
from discreet.rederive.arguments import nothing_unread
from discreet.rederive.levels import gaussian_cost, tier_of
from discreet.rederive.reading import read
from discreet.rederive.shapes import nodes_of
from tests.certificate.asked import SEVERAL, SINGLE, VISITS, ask, plain, session
from tests.certificate.forging import Document, forged, measurement, sealed

COUNT = 'SELECT CAST(coalesce(r.m0, 0) AS VARCHAR) AS m0 FROM "row groups" r'
KEYS = "\"key 0\" AS (SELECT v, min(g) AS g FROM (VALUES ('a', 0), ('b', 1), ('c', 2)) l(v, g) GROUP BY v)"


@cache
def honest(kind: str, name: str) -> Document:
    document: Document = plain(ask(session(kind, False), *SINGLE[name]).certificate())
    assert check(sealed(forged(document, lambda d: None))).ok
    return document


def counted(value: str, total: str = "count(d)", by: str = "", last: str = COUNT) -> str:
    """A statement in which each row is a unit, of the columns `value` and what is made of them."""
    shown, group = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
    return (
        f'WITH "unit bounded" AS (SELECT {value} FROM main."visits" s), '
        f'"row groups" AS (SELECT {shown}{total} AS m0 FROM "unit bounded"{group}) {last}'
    )


def broken(kind: str, name: str, place: tuple[Any, ...], sql: str) -> str | None:
    """The step that a certificate breaks, with this statement in place of its own."""

    def change(d: Document) -> None:
        at: Any = measurement(d)
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = sql

    return check(sealed(forged(honest(kind, name), change))).broken


def answers(sql: str, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """What the database gives for rows of (uid, ward, cost, day, note, fee)."""
    with open_database() as database:
        database.execute(
            "CREATE TABLE visits (uid BIGINT, ward VARCHAR, cost DOUBLE, day BIGINT, note VARCHAR, fee DOUBLE)"
        )
        assert list(VISITS) == [column[0] for column in database.execute("SELECT * FROM visits").description]
        for row in rows:
            database.execute("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?)", row)
        return sorted(database.execute(sql).fetchall())


def row(**said: Any) -> tuple[Any, ...]:
    return tuple({"uid": 1, "ward": "a", "cost": 1.0, "day": 1, "note": "n", "fee": 1.0, **said}.values())


REPORT = "CAST(count(*) FILTER (WHERE groups > 2) AS VARCHAR)"


@pytest.mark.parametrize(
    "written",
    [
        "count(*) FILTER (WHERE groups > 2) + CAST(sum(most) AS HUGEINT) * 1000000",
        "1000000 * (count(*) FILTER (WHERE groups > 2))",
        "CAST(count(*) FILTER (WHERE groups > 2) AS DOUBLE)",
        "TRY_CAST(count(*) FILTER (WHERE groups > 2) AS VARCHAR)",
        "CAST(sum(most) FILTER (WHERE groups > 2) AS VARCHAR)",
        "CAST(count(DISTINCT most) FILTER (WHERE groups > 2) AS VARCHAR)",
        "CAST(sum(count(*) FILTER (WHERE groups > 2)) OVER () AS VARCHAR)",
    ],
)
def test_a_report_is_a_count_of_units_and_nothing_around_it(written: str) -> None:
    honestly = measurement(honest("add-remove", "a report"))["truncation"]
    assert REPORT in honestly
    forged_one = honestly.replace(REPORT, written)
    assert answers(forged_one)  # the database runs it
    assert broken("add-remove", "a report", ("truncation",), forged_one) == "bounds"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(SELECT u, count(*) AS groups", "(SELECT unnest(range(1000)) AS u, count(*) AS groups"),
        ("(SELECT u, count(*) AS groups", "(SELECT 1 AS u, count(*) AS groups"),
        ("max(n) AS most", "max(n) AS most, unnest(range(1000)) AS more"),
        ("max(n) AS most", "max(DISTINCT n) AS most"),
        ("max(n) AS most", "max(n, 1) AS most"),
    ],
)
def test_a_unit_has_one_row_of_totals(old: str, new: str) -> None:
    honestly = measurement(honest("add-remove", "a report"))["truncation"]
    assert old in honestly
    assert broken("add-remove", "a report", ("truncation",), honestly.replace(old, new)) == "bounds"


HIGH = 1_000_000
NARROW = f'CAST(least(greatest(s."day", {HIGH}), {HIGH + 1}) AS BIGINT) AS d'


@pytest.mark.parametrize("relation", ["each row"])
@pytest.mark.parametrize(
    "total",
    [
        f"(CAST(sum(d) AS HUGEINT) - CAST(count(DISTINCT d) AS HUGEINT) * {HIGH})",
        f"(sum(d) - count(DISTINCT d) * {HIGH})",
        "CAST(count(DISTINCT d) AS HUGEINT)",
    ],
)
def test_different_values_are_counted_and_nothing_is_made_of_them(relation: str, total: str) -> None:
    sql = counted(NARROW, total)
    assert answers(sql, row())
    assert broken(relation, "values of all", ("distinct", 0, 1), sql) == "bounds"


def test_a_sum_less_the_number_of_different_values_moves_by_all_of_a_value() -> None:
    sql = counted(NARROW, f"(CAST(sum(d) AS HUGEINT) - CAST(count(DISTINCT d) AS HUGEINT) * {HIGH})")
    assert [answers(sql, *[row()] * n) for n in (1, 2, 3)] == [[("0",)], [("1000000",)], [("2000000",)]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"unit values" AS (', '"unit values"(d, g0, u) AS ('),
        ('"unit bounded" AS (', '"unit bounded"(d, g0) AS ('),
        ("CAST(count(DISTINCT d) AS VARCHAR)", "CAST(count(DISTINCT d) * 2 AS VARCHAR)"),
        ("WITH ", "WITH RECURSIVE "),
    ],
)
def test_no_stage_of_different_values_renames_its_columns(old: str, new: str) -> None:
    place = measurement(honest("add-remove", "values"))["distinct"][0]
    assert old in place[1]
    assert broken("add-remove", "values", ("distinct", 0, 1), place[1].replace(old, new)) == "bounds"


SHOWN = 'SELECT k.g AS g0, CAST(coalesce(r.m0, 0) AS VARCHAR) AS m0 FROM "row groups" r JOIN "key 0" k ON '
WARD = 's."ward" AS g0'


@pytest.mark.parametrize("kind", ["each row"])
@pytest.mark.parametrize(
    ("name", "sql"),
    [
        ("a count", counted('s."note" AS k0', "count(*)", "k0")),
        ("a count", counted('s."note" AS k0', "count(*) AS m, unnest(range(5))", "k0", COUNT.replace("r.m0", "r.m"))),
        ("a count", counted("1 AS one", "count(*) AS m, unnest(range(1000))", "", COUNT.replace("r.m0", "r.m"))),
        ("a count", f"WITH {KEYS}, " + counted(WARD, "count(*)", "g0", f"{COUNT} JOIN \"key 0\" k ON r.g0 = k.v")[5:]),
        ("text", f"WITH {KEYS}, " + counted(WARD, "count(*)", "g0", f"{SHOWN}'a' = k.v")[5:]),
        ("text", f"WITH {KEYS}, " + counted(WARD, "count(*)", "g0", f"{SHOWN}upper(r.g0) = k.v")[5:]),
        ("text", f"WITH {KEYS}, " + counted(f'{WARD}, s."note" AS g1', "count(*)", "g0, g1", f"{SHOWN}r.g0 = k.v")[5:]),
    ],
    ids=lambda v: str(v)[-60:],
)  # fmt: skip
def test_each_group_of_rows_is_shown_once(kind: str, name: str, sql: str) -> None:
    answers(sql, row())  # the database runs it
    assert broken(kind, name, ("sql",), sql) == "bounds"


def test_groups_that_are_not_shown_would_tell_of_one_row() -> None:
    sql = counted('s."note" AS k0', "count(*)", "k0")
    assert answers(sql, *[row()] * 5) == [("5",)]
    assert answers(sql, *[row()] * 5, row(note="rare")) == [("1",), ("5",)]


@pytest.mark.parametrize(
    ("name", "lists"), [("two keys", [5, 3]), ("two keys", [1, 15]), ("totals", [15, 1])]
)
@pytest.mark.parametrize("kind", ["add-remove", "replace", "each row"])
def test_each_list_of_keys_is_as_long_as_is_claimed(kind: str, name: str, lists: list[int]) -> None:
    document = forged(honest(kind, name), lambda d: measurement(d).update(lists=lists))
    assert measurement(honest(kind, name))["lists"] == [3, 5]
    assert check(sealed(document)).broken == "bounds"


def test_totals_of_lists_of_other_lengths_would_cost_less_than_they_do() -> None:
    """Twelve groups of a unit, in rows of twelve, are one total of one key, and twelve totals of the other."""
    truly, falsely = ([tier_of(sizes, (0,), Fraction(1))] for sizes in ([2, 12], [24, 1]))
    costs = [
        gaussian_cost([t for t in tiers if t is not None], (0, 1), 12, replace=False)
        for tiers in (truly, falsely)
    ]
    assert costs == [144, 12]


LEAF = "CAST((r.{0} - CAST(0 AS BIGINT)) // 1000000 AS UTINYINT) AS b"


@pytest.mark.parametrize("name", ['"B"', "b", '"b"'])
def test_leaves_are_grouped_by_their_place_and_no_column_of_that_name(name: str) -> None:
    sql = (
        f'WITH "unit rows" AS (SELECT CAST(least(greatest(s."day", 0), 4999999) AS INTEGER) AS {name} '
        f'FROM main."visits" s) SELECT {LEAF.format(name)}, CAST(count(*) AS VARCHAR) AS m0 '
        f'FROM "unit rows" r WHERE r.{name} IS NOT NULL GROUP BY b'
    )
    assert answers(sql, row(day=1), row(day=1), row(day=7)) == [(0, "1"), (0, "2")]  # one leaf, twice
    assert broken("each row", "a histogram", ("trees", 0, "sql"), sql) == "bounds"
    other = sql.replace(f" AS {name} ", " AS v0 ").replace(f"r.{name}", "r.v0")
    assert answers(other, row(day=1), row(day=1), row(day=7)) == [(0, "3")]
    assert broken("each row", "a histogram", ("trees", 0, "sql"), other) is None


@pytest.mark.parametrize("kind", ["add-remove", "replace"])
def test_no_column_of_weighted_rows_has_the_name_of_the_leaf(kind: str) -> None:
    sql = measurement(honest(kind, "quartiles"))["trees"][0]["sql"]
    for name in ('"B"', "b"):
        renamed = (
            sql.replace(" AS v0", f" AS {name}")
            .replace("r.v0", f"r.{name}")
            .replace("count(v0)", f"count({name})")
        )
        assert broken(kind, "quartiles", ("trees", 0, "sql"), renamed) == "bounds"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT max(n, 1)",
        "SELECT CASE n WHEN 1 THEN 2 END",
        "SELECT n IN (SELECT 1)",
        "SELECT list(n)",
        "SELECT a.b.c.n",
        "SELECT round(n, 1, 2)",
        "SELECT n FROM t TABLESAMPLE 5 PERCENT",
        "SELECT n FROM t ORDER BY n",
        "SELECT n FROM t LIMIT 3",
        "SELECT n FROM t GROUP BY ALL",
        "SELECT n FROM t GROUP BY ROLLUP (n)",
        "SELECT n FROM t GROUP BY n HAVING n > 3",
        "SELECT n FROM range(0, 5, 2) t(n)",
        "SELECT first_value(n IGNORE NULLS) OVER (ORDER BY n)",
        "WITH RECURSIVE a AS (SELECT 1 AS n) SELECT n FROM a",
        "SELECT n FROM t JOIN o USING (n)",
        "SELECT n FROM t NATURAL JOIN o",
        "SELECT n FROM t, LATERAL (SELECT t.n) o",
        "SELECT * EXCLUDE (n) FROM t",
        "SELECT COLUMNS('n') FROM t",
    ],
)
def test_a_part_that_no_reader_looks_at_is_refused(sql: str) -> None:
    with pytest.raises(InternalError, match="not read"):
        nothing_unread(nodes_of(read(sql)))


@pytest.mark.parametrize("name", ["two keys", "quartiles", "values"])
def test_a_registry_says_nothing_that_no_statement_says(name: str) -> None:
    """How many rows count is read off no text: whatever is claimed of it, the entry is the same."""
    before = honest("add-remove", name)
    after = sealed(forged(before, lambda d: measurement(d).update(rows=1)))
    assert measurement(before)["rows"] == 3
    assert after["registry"] == sealed(before)["registry"] == before["registry"]
    (said,) = before["registry"]["unit"]["contribution"]
    assert said == {"groups": 2, "of_groups": 15 if name == "two keys" else 3}


@pytest.mark.parametrize(
    ("old", "new"), [("SELECT l.u AS u", "SELECT l.u AS u, CASE l.c1 WHEN 1 THEN 2 END AS c99")]
)
def test_nor_is_one_in_a_nested_query(old: str, new: str) -> None:
    where = session("add-remove", True)
    document = plain(ask(where, *SEVERAL["a join"]).certificate())
    sql = measurement(document)["sql"]
    assert old in sql and check(document).ok
    change = forged(document, lambda d: measurement(d).update(sql=sql.replace(old, new)))
    assert check(sealed(change)).broken == "bounds"
