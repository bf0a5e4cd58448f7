"""Statements that could fail on somebody's row: the database shows that they do; their certificates are rejected."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from discreet.backends.connection import open_database
from discreet.query.expr import finite
from discreet.query.functions import FUNCTIONS
from discreet.verify.certificate.checker import check
from discreet.verify.failing import failure
from tests.query.function_cases import calls, columns
from tests.verify.asked import SINGLE, ask, exported, plain, session
from tests.verify.forging import Document, forged, measurement, sealed

TYPES = {"i": "BIGINT", "j": "BIGINT", "x": "DOUBLE", "s": "VARCHAR", "d": "DATE", "t": "TIMESTAMP"}
GOOD = "(1, 1, 1.0, '1', DATE '2020-01-01', TIMESTAMP '2020-01-01')"
MOST = (1 << 63) - 1

TINY = "CAST(least(greatest(s.i, 0), 100) AS TINYINT)"
HUNDRED = "CAST(100.0 AS DOUBLE)"
SIGN = "least(greatest(sign(-s.x), 0), 1)"
FAILING: list[tuple[str, str]] = [
    ("s.i + s.j", f"({MOST}, 1, 1.0, '1', NULL, NULL)"),
    ("s.i - s.j", f"(-2, {MOST}, 1.0, '1', NULL, NULL)"),
    ("s.i * s.j", f"({MOST}, 2, 1.0, '1', NULL, NULL)"),
    ("abs(s.i)", f"(-{MOST} - 1, 1, 1.0, '1', NULL, NULL)"),
    ("7 // s.i", "(0, 1, 1.0, '1', NULL, NULL)"),
    ("7 % s.i", "(0, 1, 1.0, '1', NULL, NULL)"),
    ("7 // coalesce(s.i, 3)", "(0, 1, 1.0, '1', NULL, NULL)"),
    ("CAST(s.s AS BIGINT)", "(1, 1, 1.0, 'a', NULL, NULL)"),
    ("CAST(s.x AS BIGINT)", "(1, 1, 1e300, 'a', NULL, NULL)"),
    ("CAST(s.x AS HUGEINT)", "(1, 1, 1e300, 'a', NULL, NULL)"),
    ("CAST(s.i AS INTEGER)", f"({MOST}, 1, 1.0, '1', NULL, NULL)"),
    ("CAST(s.i AS UBIGINT)", "(-1, 1, 1.0, '1', NULL, NULL)"),
    ("s.s = 1", "(1, 1, 1.0, 'a', NULL, NULL)"),
    ("s.s IN (1, 2)", "(1, 1, 1.0, 'a', NULL, NULL)"),
    ("NOT s.s", "(1, 1, 1.0, 'a', NULL, NULL)"),
    ("CASE WHEN s.s THEN 1 END", "(1, 1, 1.0, 'a', NULL, NULL)"),
    ("CASE s.s WHEN 1 THEN 1 END", "(1, 1, 1.0, 'a', NULL, NULL)"),
    ("make_date(s.i, s.j, 1)", "(2020, 13, 1.0, 'a', NULL, NULL)"),
    ("lpad(s.s, CAST(s.i AS INTEGER), '')", "(5, 13, 1.0, 'a', NULL, NULL)"),
    ("regexp_matches('a', s.s)", "(1, 1, 1.0, '[', NULL, NULL)"),
    ("s.d + to_days(CAST(s.i AS INTEGER))", "(1000000000, 1, 1.0, 'a', DATE '2020-01-01', NULL)"),
    ("to_days(s.i)", f"({MOST}, 1, 1.0, 'a', DATE '2020-01-01', NULL)"),
    ("CAST(s.d AS TIMESTAMP)", "(1, 1, 1.0, 'a', DATE '290000-01-01' + 2000000, NULL)"),
    ("least(s.i, CAST(NULL AS BIGINT)) + 1", f"({MOST}, 1, 1.0, 'a', NULL, NULL)"),
    ("CASE WHEN s.i <= 0 THEN 0 ELSE s.j + 1 END", f"(1, {MOST}, 1.0, 'a', NULL, NULL)"),
    ("CASE WHEN s.i = 5 THEN CAST('a' AS BIGINT) END", "(5, 1, 1.0, 'a', NULL, NULL)"),
    (f"{TINY} + {TINY}", "(100, 1, 1.0, 'a', NULL, NULL)"),
    (f"{TINY} + 28", "(100, 1, 1.0, 'a', NULL, NULL)"),
    (f"{TINY} * 2", "(100, 1, 1.0, 'a', NULL, NULL)"),
    (f"({TINY} // 1) * 2", "(100, 1, 1.0, 'a', NULL, NULL)"),
    (f"round({TINY}) + {TINY}", "(100, 1, 1.0, 'a', NULL, NULL)"),
    (f"coalesce({TINY}, 0) + {TINY}", "(100, 1, 1.0, 'a', NULL, NULL)"),
    (f"TRY({TINY} + 0) + {TINY}", "(100, 1, 1.0, 'a', NULL, NULL)"),
    (f"TRY(abs({TINY})) * 2", "(100, 1, 1.0, 'a', NULL, NULL)"),
    ("TRY_CAST(s.i AS TINYINT) + TRY_CAST(s.j AS TINYINT)", "(100, 100, 1.0, 'a', NULL, NULL)"),
    ("-CAST(greatest(least(s.i, 0), -128) AS TINYINT)", "(-128, 1, 1.0, 'a', NULL, NULL)"),
    ("CAST(least(greatest(s.i, 0), 1000) AS SMALLINT) * CAST(1000 AS SMALLINT)", "(1000, 1, 1.0, 'a', NULL, NULL)"),
    (f"{SIGN} * 100 + {SIGN} * 100", "(1, 1, -1.0, 'a', NULL, NULL)"),
    ("least(greatest(unicode(s.s), 0), 1000000) * 100000", "(1, 1, 1.0, '🎈', NULL, NULL)"),
    (f"least(greatest(s.i, 0), 4) % 1000 * CAST({1 << 62} AS BIGINT)", "(4, 1, 1.0, 'a', NULL, NULL)"),
    ("CAST(s.x * CAST(0.0 AS DOUBLE) AS BIGINT)", "(1, 1, 'inf', 'a', NULL, NULL)"),
    (
        f"CAST(greatest(greatest(s.x, {HUNDRED}) * CAST(-1.0 AS DOUBLE), -{HUNDRED}) AS BIGINT)",
        "(1, 1, 'nan', 'a', NULL, NULL)",
    ),
    ("s.s IS TRUE", "(1, 1, 1.0, 'a', NULL, NULL)"),
    ("s.s IS NOT FALSE", "(1, 1, 1.0, 'a', NULL, NULL)"),
    (f"CAST(least(greatest(s.x, 0), {MOST}) AS BIGINT)", "(1, 1, 1e30, 'a', NULL, NULL)"),
    (
        f"CAST(coalesce(CASE WHEN s.x > 0 THEN least(greatest(s.x, 0), 1) END, {MOST}) AS BIGINT)",
        "(1, 1, NULL, 'a', NULL, NULL)",
    ),
    (f"CAST(CASE WHEN s.x > 5 THEN {MOST} ELSE 0.0::DOUBLE END AS BIGINT)", "(1, 1, 6.0, 'a', NULL, NULL)"),
    (f"CAST(round(least(greatest(s.x, 0), {MOST}.0::DOUBLE)) AS BIGINT)", "(1, 1, 1e30, 'a', NULL, NULL)"),
]
"""An expression, and a row on which the database fails."""

OF_OTHER_TYPES = [
    ("CAST(TRY_CAST(s.s AS JSON) AS TIME)", "'x'", "'true'"),
    ("CAST(TRY_CAST(s.s AS TIME) AS UUID)", "'x'", "'10:00:00'"),
    ("CAST(TRY_CAST(s.s AS UINTEGER) AS UTINYINT)", "'7'", "'700'"),
]
"""A cast between types that are not known, a text on which it has a value, and one on which the database fails."""


def fails(expression: str, row: str) -> bool:
    with open_database() as database:
        names = ", ".join(f"{n} {kind}" for n, kind in TYPES.items())
        database.execute(f"CREATE TABLE cells ({names})")
        database.execute(f"INSERT INTO cells VALUES {row}")
        try:
            database.execute(f"SELECT {expression} FROM main.cells s").fetchall()
        except duckdb.Error:
            return True
        return False


@pytest.mark.thinned(4)
@pytest.mark.parametrize(("expression", "row"), FAILING, ids=lambda v: str(v)[:40])
def test_what_fails_on_some_row_is_found(expression: str, row: str) -> None:
    assert fails(expression, row) and not fails(expression, GOOD)
    assert failure(f"SELECT {expression} AS v FROM main.cells s", {"cells": TYPES}) is not None


@pytest.mark.parametrize(
    "expression",
    [
        "TRY(s.i + s.j)",
        "TRY(7 // s.i)",
        "TRY_CAST(s.s AS BIGINT)",
        "TRY_CAST(s.i AS INTEGER) + CAST(1 AS BIGINT)",
        "CAST(least(greatest(s.i, 0), 5) AS INTEGER) * CAST(100 AS BIGINT)",
        "7 // greatest(s.i, 1)",
        "CASE WHEN s.x > 0.0::DOUBLE THEN s.x / s.x END",
        "s.x * s.x - s.x",
        "CASE WHEN length(lower(s.s)) + length('a') <= 65536 THEN lower(s.s) || 'a' END",
        "s.d >= CAST('2020-01-01' AS DATE)",
        "CAST(s.i AS HUGEINT) * CAST(s.j AS HUGEINT)",
        f"{TINY} + {TINY} // 4",
        f"least(greatest(s.i, 0), 4) // 1000 * CAST({1 << 62} AS BIGINT)",
        f"{TINY} + CAST(100 AS BIGINT)",
        "sign(s.x) * CAST(100 AS BIGINT)",
        "(s.x > 1.0::DOUBLE) IS TRUE",
        "(s.x > 1.0::DOUBLE) IS NOT NULL",
        f"CAST(least(greatest(s.i, 0), {MOST}) AS BIGINT)",
        "CAST(least(greatest(s.x, 0), 9007199254740992) AS BIGINT)",
    ],
)
def test_what_cannot_fail_is_not(expression: str) -> None:
    assert failure(f"SELECT {expression} AS v FROM main.cells s", {"cells": TYPES}) is None
    nasty = [f"({MOST}, -{MOST}, 1e308, 'a', DATE '9999-12-31', NULL)", "(0, 0, 'nan', '', NULL, NULL)"]
    assert not any(fails(expression, row) for row in [*nasty, GOOD])


@pytest.mark.parametrize(("expression", "good", "bad"), OF_OTHER_TYPES)
def test_a_cast_between_types_that_are_not_known_is_found(expression: str, good: str, bad: str) -> None:
    rows = [f"(1, 1, 1.0, {text}, NULL, NULL)" for text in (good, bad)]
    assert fails(expression, rows[1])
    assert failure(f"SELECT {expression} IS NULL AS v FROM main.cells s", {"cells": TYPES}) is not None


def test_a_try_over_what_fails_inside_of_its_arguments_is_found() -> None:
    for expression in ("TRY((s.i + s.j) * 2)", "TRY(CAST(s.s AS BIGINT) + 1)", "TRY(abs(7 // s.i))"):
        assert failure(f"SELECT {expression} AS v FROM main.cells s", {"cells": TYPES}) is not None


GROWING = [
    "s.s || s.s",
    "CASE WHEN length(s.s) <= 65536 THEN s.s || s.s END",
    "CASE WHEN length(s.s) + length(s.s) <= 65537 THEN s.s || s.s END",
    "CASE WHEN length(s.s) + length(s.s) <= 65536 THEN s.s || s.s || s.s END",
    "CASE WHEN length(s.s) + length(s.s) <= 65536 THEN '' ELSE s.s || s.s END",
    "CASE WHEN length(s.s || s.s) <= 65536 THEN s.s || s.s END",
    "CASE s.b WHEN length(s.s) + length(s.s) <= 65536 THEN s.s || s.s END",
    "TRY(s.s || s.s)",
    "concat_ws('-', s.s, s.s)",
    "CASE WHEN length(s.s) + length(s.s) <= 65536 THEN concat_ws('-', s.s, s.s) END",
    "replace(s.s, 'a', 'aa')",
    "CASE WHEN length(s.s) <= 65536 THEN replace(s.s, 'a', 'aa') END",
    "CASE WHEN length(s.s) <= 65536 THEN replace(s.s, 'a', s.s) END",
    "CASE WHEN length(s.s) <= 65536 THEN TRY(regexp_replace(s.s, 'ab', 'cd', 'g')) END",
    "TRY(lpad(s.s, 1000000, 'x'))",
    "TRY(rpad(s.s, CAST(s.i AS INTEGER), 'x'))",
    "TRY(repeat(s.s, 1000000))",
]


@pytest.mark.parametrize("expression", GROWING)
def test_a_text_that_grows_without_the_guard_of_its_length_is_found(expression: str) -> None:
    kinds = {**TYPES, "b": "BOOLEAN"}
    assert failure(f"SELECT {expression} AS v FROM main.cells s", {"cells": kinds}) is not None


def test_a_text_whose_length_is_held_is_not() -> None:
    for expression in (
        "CASE WHEN length(s.s) + length(s.s) + length('b') <= 65536 THEN s.s || s.s || 'b' END",
        "CASE WHEN length(s.s) <= 32768 THEN replace(s.s, 'a', 'aa') END",
        "CASE WHEN length(s.s) <= 65536 THEN replace(s.s, 'aa', 'bb') END",
        "CASE WHEN length(s.s) <= 32768 THEN TRY(regexp_replace(s.s, 'ab', 'cd', 'g')) END",
        "TRY(lpad(s.s, 1000, 'x'))",
    ):
        assert failure(f"SELECT {expression} AS v FROM main.cells s", {"cells": TYPES}) is None


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_every_function_of_the_language_is_written_so_that_it_cannot_fail(name: str) -> None:
    for call in calls(name):
        kinds = {"cells": {f"c{i}": kind.value for i, kind in enumerate(columns(call))}}
        assert failure(f"SELECT {finite(call)} AS v FROM main.cells s", kinds) is None


FORGED: list[tuple[str, str, str, str]] = [
    ("groups", "a division by a person's number", 'WHERE (s."day"', 'WHERE 7 // (s."day" - 3) > -99 AND (s."day"'),
    ("groups", "a text filled up", 'WHERE (s."day"', """WHERE lpad(s."note", 5, '') <> 'a' AND (s."day\""""),
    ("groups", "a comparison that casts", 'WHERE (s."day"', 'WHERE s."note" <> 5 AND (s."day"'),
    ("groups", "texts that are joined", 'WHERE (s."day"', """WHERE s."note" || s."note" <> 'a' AND (s."day\""""),
    ("two keys", "a product of numbers", "WHERE s.", 'WHERE s."day" * s."day" >= 0 AND s.'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "what", "old", "new"), FORGED, ids=lambda v: str(v)[:30])
def test_a_certificate_of_a_statement_that_could_fail_is_rejected(name: str, what: str, old: str, new: str) -> None:
    where = session("add-remove", False)
    document: Any = plain(ask(where, *SINGLE[name]).certificate())
    assert check(document, exported(where)).ok

    def change(d: Document) -> None:
        assert old in measurement(d)["sql"], measurement(d)["sql"]
        measurement(d)["sql"] = measurement(d)["sql"].replace(old, new)

    verdict = check(sealed(forged(document, change)))
    assert verdict.broken == "tables", what
    assert "could fail on some row" in verdict.reason
