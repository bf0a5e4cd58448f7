"""Every function of the language, with every type of argument, on the nastiest rows: no row makes a question fail."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from discreet.backends.connection import open_database
from discreet.catalog.types import Type
from discreet.query.expr import finite
from discreet.query.functions import FUNCTIONS
from tests.query.function_cases import calls, columns

# As SQL; each is read as its type below.
NASTY = {
    Type.BOOL: ["true", "false"],
    Type.INT: [
        "0",
        "1",
        "-1",
        "5",
        "300",
        "-300",
        "2147483648",
        "-2147483649",
        "9223372036854775807",
        "'-9223372036854775808'",
    ],
    Type.REAL: [
        "0",
        "'-0.0'",
        "0.5",
        "2.5",
        "-1",
        "710",
        "1e308",
        "-1e308",
        "5e-324",
        "9223372036854775807",
        "'nan'",
        "'inf'",
        "'-inf'",
    ],
    Type.TEXT: [
        *("''", "'abc'", "'nan'", "'-Infinity'", "'1e309'", "'1e-400'", "'9223372036854775808'", "' 12 '", "'0x10'"),
        *("'1_000'", "'1,5'", "'true'", "'epoch'", "'infinity'", "'2020-02-30'", "'2020-02-28'", "'99999-01-01'"),
        *("'2020-01-01 25:00'", "'2020-01-01 00:00:00+02'", "'0044-01-01 (BC)'", "'290000-01-01'", "'%'", "'_'"),
        *(r"'\'", r"'a\'", "chr(0)", "'a' || chr(0) || 'b'", "'🦊é'", "'e' || chr(769)", "chr(1114109)", "'İßſ'"),
        *("repeat('x', 100000)", "repeat('%', 50)", "chr(65279)", "'''; DROP TABLE t; --'"),
    ],
    Type.DATE: [
        "'2020-01-31'",
        "'0001-01-01'",
        "'9999-12-31'",
        "'infinity'",
        "'-infinity'",
        "'290000-01-01'",
        "'0044-01-01 (BC)'",
        "'5877642-06-25 (BC)'",
        "'5881580-07-10'",
    ],
    Type.TIMESTAMP: [
        "'2020-01-31 23:59:59.999999'",
        "'0001-01-01'",
        "'9999-12-31 23:59:59.999999'",
        "'infinity'",
        "'-infinity'",
        "'294247-01-10 04:00:54.775806'",
        "'290309-12-22 (BC) 00:00:00'",
        "'0044-01-01 (BC)'",
    ],
}

# The same for the answer's side, where everything is public.
PUBLIC: dict[Type, list[Any]] = {
    Type.BOOL: [True, False, None],
    Type.INT: [0, 1, -1, 5, 300, -300, -(2**63), 2**63 - 1, None],
    Type.REAL: [0.0, -0.0, 0.5, 2.5, -1.0, 710.0, 1e308, -1e308, 5e-324, None],
    Type.TEXT: [
        "",
        "abc",
        "1e309",
        "9" * 5000,
        " 12 ",
        "nan",
        "inf",
        "true",
        "2020-02-30",
        "2020-02-28",
        "%",
        "_",
        "\\",
        "a\x00b",
        "🦊",
        "1_000",
        "１２",
        "0x10",
        "20200101",
        "2020-W01",
        "2020-01-01 00:00:00+02",
        "99999-01-01",
        "infinity",
        None,
    ],
    Type.DATE: [dt.date.min, dt.date.max, dt.date(2020, 1, 31), None],
    Type.TIMESTAMP: [dt.datetime.min, dt.datetime.max, dt.datetime(2020, 1, 31, 12), None],
}

PYTHON = {
    Type.BOOL: bool,
    Type.INT: int,
    Type.REAL: float,
    Type.TEXT: str,
    Type.DATE: dt.date,
    Type.TIMESTAMP: dt.datetime,
}


@pytest.fixture(scope="module")
def nasty() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = open_database()
    for kind, values in NASTY.items():
        rows = ", ".join(f"(CAST({v} AS {kind.value}))" for v in [*values, "NULL"])
        connection.execute(f"CREATE TABLE {kind.name} AS SELECT * FROM (VALUES {rows}) t(x)")
    yield connection
    connection.close()


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_row_makes_a_function_fail_in_the_database(name: str, nasty: duckdb.DuckDBPyConnection) -> None:
    tried = 0
    for expr in calls(name, 3):
        types = columns(expr)
        cells = ", ".join(f"t{i}.x AS c{i}" for i in range(len(types)))
        tables = ", ".join(f"{kind.name} t{i}" for i, kind in enumerate(types))
        text = finite(expr)
        nasty.execute(
            f"SELECT count({text}), count(*) FILTER (WHERE {text} IS NULL) FROM (SELECT {cells} FROM {tables}) s"
        )
        nasty.fetchall()
        tried += 1
    assert tried


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_leaves_no_nan_no_infinity_and_no_day_that_python_lacks(
    name: str, nasty: duckdb.DuckDBPyConnection
) -> None:
    for expr in calls(name, 2):
        if expr.type not in (Type.REAL, Type.DATE, Type.TIMESTAMP):
            continue
        types = columns(expr)
        cells = ", ".join(f"t{i}.x AS c{i}" for i in range(len(types)))
        tables = ", ".join(f"{kind.name} t{i}" for i, kind in enumerate(types))
        wild = "NOT isfinite(v)" if expr.type is Type.REAL else "NOT isfinite(v) OR year(v) NOT BETWEEN 1 AND 9999"
        found = nasty.execute(
            f"SELECT count(*) FROM (SELECT {finite(expr)} AS v FROM (SELECT {cells} FROM {tables}) s) WHERE {wild}"
        ).fetchone()
        assert found == (0,), f"{name} {types}"


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_over_the_answer_gives_its_type_or_null_and_never_fails(name: str) -> None:
    for expr in calls(name, 2):
        types = columns(expr)
        for values in itertools.product(*(PUBLIC[kind] for kind in types)):
            value = expr.of_row({f"c{i}": v for i, v in enumerate(values)})
            assert value is None or type(value) is PYTHON[expr.type], f"{name}{values!r:.80} = {value!r:.80}"
            assert getattr(value, "tzinfo", None) is None
