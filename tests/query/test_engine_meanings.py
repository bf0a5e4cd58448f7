"""Every function and operator as an analyst writes it, against plain DuckDB on the same text.

An error, NaN or infinity of DuckDB on a row is NULL here. Two more things are stated in docs/sql-reference.md, and the
truth follows them: numbers with a decimal point are doubles, and a text cell beside a number, date or time is read as
one. Texts that DuckDB refuses are left out: what is answered beyond it has no truth there.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
import re
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from typing import Any

import duckdb
import pytest
import sqlglot

from discreet.backends.connection import open_database
from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.errors import DiscreetError
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.query.bind import TableScope, bind_row
from discreet.query.expr import finite

KINDS = {"b": Type.BOOL, "i": Type.INT, "d": Type.REAL, "v": Type.TEXT, "e": Type.DATE, "t": Type.TIMESTAMP}
CELLS: dict[str, list[Any]] = {
    "b": [True, False, None],
    "i": [0, 1, -1, 3, -7, 12, 2024, 1 << 31, -(1 << 31) - 1, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63), None],
    "d": [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -3.0, 0.1, 12.0, 1e20, 1.7e308, -1.7e308, 5e-324, None],
    "v": [
        *("", "a", "12", "-7", "2.5", " 7 ", "1e2", "nan", "inf", "true", "2024-02-29", "2024-02-29 10:00:00"),
        *("07", "12.0", "0x10", "1_000", "é", "x" * 50, "%", "a%", None),
    ],
    "e": [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), None],
    "t": [
        *(dt.datetime(2024, 2, 29, 13, 45, 59, 123456), dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29)),
        *(dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None),
    ],
}
CONSTANTS = [
    *("'12'", "'2.5'", "''", "'a'", "' 7 '", "'1e2'", "'2024-02-29'", "'true'", "'-7'", "'+7'", "'1_000'", "'２'"),
    *("'2024-02-29x'", "'20240229'", "'2024-2-9'", "'2024-02-29 10:00:00+02:00'", "'2024-02-29 24:00:00'", "'.5'"),
    *("'epoch'", "0", "3", "-7", "2147483648", "0.5", "2.5", "1e300", "-0.0"),
    *("NULL", "TRUE", "DATE '2024-02-29'", "TIMESTAMP '2024-02-29 10:00:00'"),
]  # fmt: skip
ONE = [
    *("- {}", "NOT {}", "{} IS NULL", "{} IS NOT NULL", "{} IS TRUE", "{} IS NOT TRUE", "{} IS FALSE", "abs({})"),
    *("floor({})", "ceil({})", "trunc({})", "round({})", "sign({})", "sqrt({})", "cbrt({})", "ln({})", "log({})"),
    *("log10({})", "exp({})", "sin({})", "cos({})", "tan({})", "asin({})", "acos({})", "atan({})", "radians({})"),
    *("degrees({})", "lower({})", "upper({})", "length({})", "trim({})", "ltrim({})", "rtrim({})", "ascii({})"),
    *("unicode({})", "ord({})", "year({})", "quarter({})", "month({})", "week({})", "day({})", "dayofweek({})"),
    *("isodow({})", "dayofyear({})", "hour({})", "minute({})", "second({})", "epoch({})", "dayname({})"),
    *("monthname({})", "last_day({})", "isoyear({})", "yearweek({})", "decade({})", "century({})"),
    *("millisecond({})", "microsecond({})", "date({})", "least({})", "coalesce({})", "concat({})", "try({})"),
    *("CAST({} AS BOOLEAN)", "CAST({} AS BIGINT)", "CAST({} AS DOUBLE)", "CAST({} AS VARCHAR)", "CAST({} AS DATE)"),
    *("CAST({} AS TIMESTAMP)", "date_part('week', {})", "date_trunc('month', {})", "date_trunc('hour', {})"),
    *("strftime({}, '%Y-%m')", "{} BETWEEN 1 AND 3", "{} BETWEEN '1' AND '3'", "{} IN ('12', 'a')", "{} IN (12, 3)"),
    *("{} IN (NULL, 3)", "left({}, 2)", "right({}, -2)", "substring({}, 2, 3)", "substring({}, 2, -1)"),
    *("lpad({}, 5, 'xy')", "replace({}, 'a', 'bb')", "split_part({}, '-', -1)", "regexp_extract({}, '[0-9]+')"),
    *("regexp_replace({}, '[0-9]', 'x', 'g')", "round({}, 1)", "round({}, -1)", "{} % 2", "{} // 2", "2 // {}"),
    *("{} // 0.5", "concat_ws({}, 'a', 'b')", "make_date(2024, 2, {})", "{} LIKE '1%'", "{} LIKE '!%%' ESCAPE '!'"),
]  # fmt: skip
TWO = [
    *("{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} // {}", "{} % {}", "{} = {}", "{} <> {}", "{} < {}", "{} >= {}"),
    *("{} IS DISTINCT FROM {}", "{} IS NOT DISTINCT FROM {}", "{} AND {}", "{} OR {}", "{} || {}", "{} LIKE {}"),
    *("{} ILIKE {}", "{} NOT LIKE {}", "{} IN ({})", "{} NOT IN ({})", "coalesce({}, {})", "ifnull({}, {})"),
    *("nullif({}, {})", "least({}, {})", "greatest({}, {})", "CASE WHEN b1 THEN {} ELSE {} END", "if(b1, {}, {})"),
    *("CASE {} WHEN {} THEN 1 ELSE 0 END", "concat({}, {})", "concat_ws('-', {}, {})", "log({}, {})", "pow({}, {})"),
    *("fmod({}, {})", "mod({}, {})", "atan2({}, {})", "round({}, {})", "strpos({}, {})", "contains({}, {})"),
    *("starts_with({}, {})", "suffix({}, {})", "left({}, {})", "right({}, {})", "substring({}, {})", "trim({}, {})"),
    *("date_diff('day', {}, {})", "date_diff('hour', {}, {})", "date_sub('month', {}, {})", "nvl2(b1, {}, {})"),
    *("{} + INTERVAL ({}) DAY", "{} + INTERVAL ({}) MONTH", "{} - INTERVAL ({}) HOUR"),
]  # fmt: skip
NAMES = [f"{kind}{n}" for kind in KINDS for n in (1, 2)]
ROWS = 60
SAMPLE = 45
"""Texts of each form with two places that the default run tries, of about 1,500."""

SCOPE = TableScope(TableSchema("r", {n: KINDS[n[0]] for n in NAMES}, {}, PrivacyUnit.row(), Relation.ADD_REMOVE), "r")
_DECIMAL = re.compile(r"(?<![\w'.])(\d+\.\d+|1e300)(?![\w'])")
_TEXT_CELL = re.compile(r"\bv[12]\b")


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    rng = random.Random(5)
    with closing(open_database()) as connection:
        connection.execute("SET threads = 1")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE r ({', '.join(f'{n} {KINDS[n[0]].value}' for n in NAMES)})")
        cells = [
            [CELLS[n[0]][i % len(CELLS[n[0]])] if n.endswith("1") else rng.choice(CELLS[n[0]]) for n in NAMES]
            for i in range(ROWS)
        ]
        connection.executemany(f"INSERT INTO r VALUES ({', '.join('?' * len(NAMES))})", cells)
        yield connection


def here(text: str, database: duckdb.DuckDBPyConnection) -> list[Any] | None:
    """What is answered here, None where it is refused."""
    try:
        sql = finite(bind_row(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").expressions[0], SCOPE))
    except DiscreetError:
        return None
    return [value for (value,) in database.execute(f"SELECT {sql} FROM r s").fetchall()]


def there(text: str, database: duckdb.DuckDBPyConnection) -> list[Any] | None:
    """What DuckDB says, an error on a row as NULL; None where it refuses the text."""
    try:
        return _cells(f"SELECT {text} FROM r", database)
    except duckdb.Error as error:
        if str(error).startswith(("Binder", "Catalog", "Parser")):
            return None
    try:
        return _cells(f"SELECT TRY({text}) FROM r", database)
    except duckdb.Error:  # computed outside of TRY
        return [_one(f"SELECT {text} FROM (SELECT * FROM r LIMIT 1 OFFSET {n})", database) for n in range(ROWS)]


def _one(sql: str, database: duckdb.DuckDBPyConnection) -> Any:
    try:
        return _cells(sql, database)[0]
    except duckdb.Error:
        return None


def _cells(sql: str, database: duckdb.DuckDBPyConnection) -> list[Any]:
    cursor = database.execute(sql)
    moments = str(cursor.description[0][1]) in ("DATE", "TIMESTAMP")
    return [_plain(value, moments) for (value,) in cursor.fetchall()]


def _plain(value: Any, moments: bool) -> Any:
    value = float(value) if isinstance(value, decimal.Decimal) else value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return None if moments and isinstance(value, str) else value  # a date that Python lacks is given as text


def readings(text: str) -> Iterator[str]:
    """The text, and its readings that docs/sql-reference.md states, as DuckDB spells them."""
    yield text
    if (found := re.fullmatch(r"fmod\((.*), (.*)\)", text)) is not None:
        x, y = (f"CAST({part} AS DOUBLE)" for part in found.groups())
        yield f"({x} - {y} * floor({x} / {y}))"
    doubles = _DECIMAL.sub(r"CAST(\1 AS DOUBLE)", text)
    yield doubles
    for kind in ("DOUBLE", "DATE", "TIMESTAMP") if _TEXT_CELL.search(text) else ():
        yield _TEXT_CELL.sub(
            lambda m, kind=kind: (  # type: ignore[misc]  # kind is bound now, which mypy cannot infer
                f"(CASE WHEN isfinite(TRY_CAST({m[0]} AS {kind})) THEN TRY_CAST({m[0]} AS {kind}) END)"
            ),
            doubles,
        )


def same(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, float) or isinstance(b, float):
        return isinstance(a, int | float) and isinstance(b, int | float) and (
            a == b or math.isclose(a, b, rel_tol=1e-12, abs_tol=0)
        )  # fmt: skip
    if isinstance(a, dt.date) and isinstance(b, dt.date):
        return str(a)[:10] == str(b)[:10] and str(a)[11:] in (str(b)[11:], "00:00:00")
    return type(a) is type(b) and bool(a == b)


def disagrees(text: str, database: duckdb.DuckDBPyConnection) -> bool:
    """Whether a text is answered here, and by DuckDB in another way under each of its readings."""
    ours = here(text, database)
    if ours is None or there(text, database) is None:
        return False
    theirs = (there(reading, database) for reading in readings(text))
    return not any(t is not None and all(map(same, ours, t)) for t in theirs)


def texts(form: str) -> list[str]:
    """A form with columns and constants in its places."""
    places = [[*(n for n in NAMES if n.endswith(str(i))), *CONSTANTS] for i in (1, 2)][: form.count("{}")]
    return [form.format(*args) for args in product(*places) if not _is_stated(form, args)]


def _is_stated(form: str, args: tuple[str, ...]) -> bool:
    """What sql-reference.md says is different here."""
    if form.startswith("nullif"):  # an error of the comparison is no equality
        return args[0].startswith("v")
    cuts = form.startswith(("left", "substring")) and len(args) == 2
    return cuts and args[1].startswith("i")  # places beyond 2^31 are the end of the text


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(6)
@pytest.mark.parametrize("form", ONE)
def test_a_form_with_one_place_means_what_it_means_in_duckdb(form: str, database: duckdb.DuckDBPyConnection) -> None:
    assert [t for t in texts(form) if disagrees(t, database)] == []


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(4)
@pytest.mark.parametrize("form", TWO)
def test_a_form_with_two_places_means_what_it_means_in_duckdb(form: str, database: duckdb.DuckDBPyConnection) -> None:
    sample = random.Random(form).sample(texts(form), SAMPLE)
    assert [t for t in sample if disagrees(t, database)] == []


@pytest.mark.slow
@pytest.mark.parametrize("form", TWO)
def test_a_form_with_two_places_means_what_it_means_in_duckdb_everywhere(
    form: str, database: duckdb.DuckDBPyConnection
) -> None:
    assert [t for t in texts(form) if disagrees(t, database)] == []


@pytest.mark.parametrize(
    "text",
    [
        *("'12' // 7", "i1 // '7'", "i1 + '1'", "'12' % i2", "i1 IN ('12', '3')", "greatest('12', i1)", "mod('12', 5)"),
        *("log(0, 2)", "log(0, i2)", "log(1, d1)", "log(d1, d2)", "log(7, 11)", "log(-2, 8)", "log(2, 0)"),
        *("nullif(i1, 12.0)", "nullif('12', i1)", "nullif(e1, t2)", "nullif(e1, '2024-02-29')", "nullif(i1, NULL)"),
        *("e1 + INTERVAL (d2) MONTH", "t1 - INTERVAL (d2) HOUR", "CAST(2.5 AS BIGINT)", "CAST(-0.5 AS BIGINT)"),
        *("date_diff('hour', e1, '2024-02-29 10:00:00')", "e1 = '2024-02-29 10:00:00'", "concat(-0.0, 'x')"),
        *("t1 = '2024-02-29T13:45:59.123456+02'", "e1 = '2024-2-29'", "i1 BETWEEN '1' AND '20'"),
    ],
)  # fmt: skip
def test_what_meant_something_else_once_means_what_it_means_in_duckdb(
    text: str, database: duckdb.DuckDBPyConnection
) -> None:
    assert here(text, database) is not None
    assert not disagrees(text, database)


@pytest.mark.parametrize(
    "text",
    [
        *("i1 + '2.5'", "i1 = '1e2'", "'2.5' // 7", "i1 IN ('3', '2.5')", "coalesce(i1, 'x')", "i1 = '２'"),
        *("e1 = '20240229'", "e1 = '2024-02-29x'", "e1 = '2024-W09-4'", "t1 = '20240229T100000'", "d1 = '２'"),
        *("i1 = '9223372036854775808'", "e1 + INTERVAL ('２') MONTH", "d1 // 2", "v1 // 7", "7.5 // 2"),
    ],
)  # fmt: skip
def test_what_duckdb_would_round_or_not_read_is_refused(text: str, database: duckdb.DuckDBPyConnection) -> None:
    assert here(text, database) is None
