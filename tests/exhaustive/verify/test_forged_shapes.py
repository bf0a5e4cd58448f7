"""Forged statements that look like known ones, and move further than is claimed: the database shows it, and no
certificate of them passes. All else in it is made to fit.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from discreet.backends.connection import open_database
from discreet.errors import InternalError
from discreet.verify.census import derive_reports
from discreet.verify.certificate.checker import check
from discreet.verify.derive import PrivateRows
from discreet.verify.levels import gaussian_cost, tier_of
from discreet.verify.shapes import nodes_of, nothing_unread, read
from tests.verify.asked import SEVERAL, SINGLE, VISITS, ask, plain, session
from tests.verify.forging import Document, forged, measurement, sealed

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


REPORT = "CAST(count(*) FILTER (WHERE p0 = 1) AS VARCHAR)"


@pytest.mark.parametrize(
    "written",
    [
        "count(*) FILTER (WHERE p0 = 1) + CAST(sum(p0) AS HUGEINT) * 1000000",
        "1000000 * (count(*) FILTER (WHERE p0 = 1))",
        "CAST(count(*) FILTER (WHERE p0 = 1) AS DOUBLE)",
        "TRY_CAST(count(*) FILTER (WHERE p0 = 1) AS VARCHAR)",
        "CAST(sum(p0) FILTER (WHERE p0 = 1) AS VARCHAR)",
        "CAST(count(DISTINCT p0) FILTER (WHERE p0 = 1) AS VARCHAR)",
        "CAST(sum(count(*) FILTER (WHERE p0 = 1)) OVER () AS VARCHAR)",
        "CAST(count(*) FILTER (WHERE p0 >= 1) AS VARCHAR)",
        "CAST(count(*) FILTER (WHERE p0 <> 1) AS VARCHAR)",
        "CAST(count(*) FILTER (WHERE NOT p0 = 1) AS VARCHAR)",
        "CAST(count(*) FILTER (WHERE p0 = 1 OR p0 = 2) AS VARCHAR)",
        "CAST(count(*) FILTER (WHERE p0 = 0) AS VARCHAR)",
        "CAST(count(*) FILTER (WHERE p0 = p0) AS VARCHAR)",
        "CAST(count(*) FILTER (WHERE p0 = '1') AS VARCHAR)",
        "CAST(count(*) FILTER (WHERE p0 = 1.0) AS VARCHAR)",
        "CAST(count(*) FILTER (WHERE p0 = 9007199254740993) AS VARCHAR)",
        'CAST(count(*) FILTER (WHERE "unit places".p0 = 1) AS VARCHAR)',
    ],
)
def test_a_report_is_a_count_of_units_and_nothing_around_it(written: str) -> None:
    honestly = measurement(honest("add-remove", "a report"))["truncation"][0]
    assert REPORT in honestly
    forged_one = honestly.replace(REPORT, written)
    assert answers(forged_one)  # the database runs it
    assert broken("add-remove", "a report", ("truncation", 0), forged_one) == "bounds"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SELECT u, count(*) AS groups", "SELECT unnest(range(1000)) AS u, count(*) AS groups"),
        ("SELECT u, count(*) AS groups", "SELECT 1 AS u, count(*) AS groups"),
        ("max(n) AS most", "max(n) AS most, unnest(range(1000)) AS more"),
        ("max(n) AS most", "max(DISTINCT n) AS most"),
        ("max(n) AS most", "max(n, 1) AS most"),
        ("AS p0", "AS p0, unnest(range(1000)) AS p1"),
        ("AS p0\n", "AS p0, most AS p1\n"),
        ('FROM "unit totals"', 'FROM "unit groups"'),
        ('FROM "unit places"', 'FROM "unit totals"'),
    ],
)
def test_a_unit_has_one_row_of_totals(old: str, new: str) -> None:
    honestly = measurement(honest("add-remove", "a report"))["truncation"][0]
    assert old in honestly
    assert broken("add-remove", "a report", ("truncation", 0), honestly.replace(old, new)) == "bounds"


TWICE = """WITH "unit rows" AS (SELECT s."uid" AS u, CASE WHEN s."day" > 3 THEN 1 END AS y0 FROM main."visits" s
WHERE s."uid" IS NOT NULL),
"unit groups" AS (SELECT u, count(y0) AS n0 FROM "unit rows" GROUP BY u),
"unit places" AS (SELECT {place} AS p0 FROM "unit groups")
SELECT CAST(count(*) FILTER (WHERE p0 = {one}) AS VARCHAR) AS m0,
CAST(count(*) FILTER (WHERE p0 = {other}) AS VARCHAR) AS m1 FROM "unit places\""""
FAR = "floor(log2(greatest(least(CAST(n0 AS DOUBLE), CAST(8.0 AS DOUBLE)), CAST(1.0 AS DOUBLE)))) + 9007199254740992"


@pytest.mark.parametrize(
    ("place", "one", "other"),
    [
        (FAR, "9007199254740992", "9007199254740993"),
        ("CASE WHEN n0 > 0 THEN 1 ELSE 0 END", "1", "01"),
        ("CASE WHEN n0 > 0 THEN 1 ELSE 0 END", "1", "+1"),
        ("CASE WHEN n0 > 0 THEN 1 ELSE 0 END", "1", "1e0"),
    ],
)
def test_no_two_counts_of_a_report_are_of_one_number(place: str, one: str, other: str) -> None:
    text = TWICE.format(place=place, one=one, other=other)
    assert answers(text, row(day=4)) == [("1", "1")]  # one unit, in both
    assert broken("add-remove", "a report", ("truncation", 1), text) == "bounds"
    with pytest.raises(InternalError):
        derive_reports(text, SOURCE)
    assert derive_reports(TWICE.format(place="CASE WHEN n0 > 0 THEN 1 ELSE 0 END", one="0", other="1"), SOURCE) == (2,)


SOURCE = PrivateRows("visits", frozenset(map(str, VISITS)), "uid")
ROWS = """WITH {lists}"unit rows" AS (SELECT {place} AS p0 FROM main."visits" s{joins}{rest})
SELECT CAST(count(*) FILTER (WHERE p0 = 0) AS VARCHAR) AS m0,
CAST(count(*) FILTER (WHERE p0 = 1) AS VARCHAR) AS m1 FROM "unit rows\""""
LISTED = "CASE WHEN k0.g IS NULL THEN 1 ELSE 0 END"


@pytest.mark.parametrize(
    ("lists", "place", "joins", "rest"),
    [
        (f"{KEYS}, ", LISTED, ' LEFT JOIN "key 0" k0 ON s."ward" > k0.v', ""),
        (f"{KEYS}, ", LISTED, ' LEFT JOIN "key 0" k0 ON s."ward" = k0.v OR TRUE', ""),
        (f"{KEYS}, ", LISTED, ' LEFT JOIN "key 0" k0 ON TRUE', ""),
        (f"{KEYS}, ", LISTED, ' RIGHT JOIN "key 0" k0 ON s."ward" = k0.v', ""),
        (f"{KEYS}, ", LISTED, ' FULL JOIN "key 0" k0 ON s."ward" = k0.v', ""),
        (f"{KEYS}, ", LISTED, ' LEFT JOIN "key 0" k0 USING (v)', ""),
        (f"{KEYS}, ", "1", ' LEFT ANTI JOIN "key 0" k0 ON s."ward" = k0.v', ""),
        (f"{KEYS}, ", "1", ' LEFT SEMI JOIN "key 0" k0 ON s."ward" = k0.v', ""),
        (f"{KEYS}, ", LISTED, ' ASOF LEFT JOIN "key 0" k0 ON s."ward" >= k0.v', ""),
        (KEYS.replace("min(g) AS g", "g").replace(" GROUP BY v", "") + ", ", LISTED,
         ' LEFT JOIN "key 0" k0 ON s."ward" = k0.v', ""),
        ("", "1", ' LEFT JOIN main."visits" k0 ON s."ward" = k0.ward', ""),
        ("", "unnest([0, 1])", "", ""),
        ("", "CAST(count(*) OVER () AS BIGINT)", "", ""),
        ("", "CAST(random() AS BIGINT)", "", ""),
        ("", 'CASE WHEN s."day" > (SELECT avg(day) FROM main."visits") THEN 1 ELSE 0 END', "", ""),
        ("", 's."cost"', "", ""),
        ("", "CASE WHEN TRUE THEN 1 ELSE 0 END", "", " LIMIT 5"),
        ("", "CASE WHEN TRUE THEN 1 ELSE 0 END", "", " ORDER BY 1"),
        ("", "CASE WHEN TRUE THEN 1 ELSE 0 END", "", " GROUP BY s.day"),
        ("", "CASE WHEN TRUE THEN 1 ELSE 0 END", "", " QUALIFY row_number() OVER () < 5"),
        ("", "CASE WHEN TRUE THEN 1 ELSE 0 END", "", ' UNION ALL SELECT 1 AS p0 FROM main."visits" s'),
    ],
)  # fmt: skip
def test_where_rows_are_units_each_is_in_one_count(lists: str, place: str, joins: str, rest: str) -> None:
    text = ROWS.format(lists=lists, place=place, joins=joins, rest=rest)
    assert broken("each row", "a report", ("truncation", 0), text) == "bounds"
    source = PrivateRows("visits", frozenset(map(str, VISITS)), None)
    fine = ROWS.format(lists=f"{KEYS}, ", place=LISTED, joins=' LEFT JOIN "key 0" k0 ON s."ward" = k0.v', rest="")
    assert derive_reports(fine, source) == (2,)
    with pytest.raises(InternalError):
        derive_reports(text, source)


def test_rows_of_no_list_stay_out_of_all_other_statements() -> None:
    sql = measurement(honest("add-remove", "groups"))["sql"]
    assert broken("add-remove", "groups", ("sql",), sql.replace(" JOIN ", " LEFT JOIN ")) == "bounds"


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


@pytest.mark.parametrize(("name", "lists"), [("two keys", [5, 3]), ("two keys", [1, 15]), ("totals", [15, 1])])
@pytest.mark.parametrize("kind", ["add-remove", "replace", "each row"])
def test_each_list_of_keys_is_as_long_as_is_claimed(kind: str, name: str, lists: list[int]) -> None:
    document = forged(honest(kind, name), lambda d: measurement(d).update(lists=lists))
    assert measurement(honest(kind, name))["lists"] == [3, 5]
    assert check(sealed(document)).broken == "bounds"


def test_totals_of_lists_of_other_lengths_would_cost_less_than_they_do() -> None:
    """Twelve groups of a unit, in rows of twelve, are one total of one key, and twelve totals of the other."""
    truly, falsely = ([tier_of(sizes, (0,), Fraction(1))] for sizes in ([2, 12], [24, 1]))
    costs = [
        gaussian_cost([t for t in tiers if t is not None], (0, 1), 12, replace=False) for tiers in (truly, falsely)
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
            sql.replace(" AS v0", f" AS {name}").replace("r.v0", f"r.{name}").replace("count(v0)", f"count({name})")
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
    (said,) = before["registry"][0]["unit"]["contribution"]
    assert said == {"groups": 2, "of_groups": 15 if name == "two keys" else 3}


@pytest.mark.parametrize(("old", "new"), [("SELECT l.u AS u", "SELECT l.u AS u, CASE l.c1 WHEN 1 THEN 2 END AS c99")])
def test_nor_is_one_in_a_nested_query(old: str, new: str) -> None:
    where = session("add-remove", True)
    document = plain(ask(where, *SEVERAL["a join"]).certificate())
    sql = measurement(document)["sql"]
    assert old in sql and check(document).ok
    change = forged(document, lambda d: measurement(d).update(sql=sql.replace(old, new)))
    assert check(sealed(change)).broken == "bounds"


def test_a_first_look_at_rows_finds_each_in_a_list_once() -> None:
    document = honest("each row", "bounds chosen")
    text = document["claim"]["looks"][0]["sql"]
    grouped = "(SELECT v, min(g) AS g FROM (VALUES ('a', 0), ('b', 1), ('c', 2)) l(v, g) GROUP BY v)"
    assert grouped in text
    often = "(SELECT v, g FROM (VALUES ('a', 0), ('a', 1), ('a', 2)) l(v, g))"

    def change(d: Document) -> None:
        d["claim"]["looks"][0]["sql"] = text.replace(grouped, often)

    assert check(sealed(forged(document, change))).broken == "bounds"
