"""What the second derivation says of an expression's values, against what the database makes of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from discreet.backends.connection import open_database
from discreet.catalog.types import OF_CELLS
from discreet.query.functions import FUNCTIONS
from discreet.verify.kinds import PLAIN, Kind, are_the_same, is_real, kind_of
from discreet.verify.shapes import of_one_row

X, Y = "r.x", "r.y"
ZERO = "CAST(0 AS DOUBLE)"


@cache
def engine() -> duckdb.DuckDBPyConnection:
    connection = open_database()
    reals = ("0.0", "-0.0", "nan", "-nan", "inf", "-inf", "1.5", "-2.5")
    rows = ", ".join(
        f"(CAST('{a}' AS DOUBLE), CAST('{b}' AS DOUBLE), CAST({n} AS BIGINT))"
        for (a, b), n in zip(itertools.product(reals, repeat=2), itertools.cycle((0, 1, -1)), strict=False)
    )
    connection.execute(f"CREATE TABLE r AS SELECT * FROM (VALUES {rows}) r(x, y, n)")
    columns = ", ".join(f'CAST(NULL AS {t.value}) AS "{t.value}"' for t in OF_CELLS)
    connection.execute(f"CREATE TABLE s AS SELECT {columns}")
    return connection


def parsed(text: str) -> exp.Expr:
    found: exp.Expr = sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").expressions[0]
    return found


def of_reals(text: str) -> Kind:
    return kind_of(parsed(text), lambda c: "BIGINT" if c.name == "n" else "DOUBLE")


PLAINLY = [
    f"CASE WHEN isfinite({X}) THEN {X} + {ZERO} END",
    f"CASE WHEN isfinite(({X} + {ZERO})) THEN ({X} + {ZERO}) END",
    f"CASE WHEN isfinite({X}) THEN {X} END + {ZERO}",
    f"(CASE WHEN isfinite(-{X}) THEN -{X} END + CAST(0.0 AS DOUBLE))",
    "CAST(r.n AS DOUBLE)",
    "CAST(1.5 AS DOUBLE)",
    f"coalesce(CASE WHEN isfinite({X}) THEN {X} + {ZERO} END, CAST(r.n AS DOUBLE), NULL)",
    f"CASE WHEN {Y} > 0 THEN CAST(r.n AS DOUBLE) ELSE CAST(2.5 AS DOUBLE) END",
    f"greatest(CASE WHEN isfinite({X}) THEN {X} + {ZERO} END, r.n)",
]
NOT_PLAINLY = [
    X,
    f"{X} + {ZERO}",
    f"CASE WHEN isfinite({X}) THEN {X} END",
    f"CASE WHEN isfinite({Y}) THEN {X} + {ZERO} END",
    f"CASE WHEN isfinite({X}) THEN {X} + {ZERO} ELSE {Y} END",
    f"CASE WHEN isfinite({X}) THEN {X} + {Y} END",
    f"CASE WHEN isfinite({X}) THEN {X} + CAST('-0.0' AS DOUBLE) END",
    f"CASE WHEN isfinite({X}) THEN {X} - {ZERO} END",
    f"CASE WHEN NOT isfinite({X}) THEN {X} + {ZERO} END",
    f"CASE WHEN isfinite({X}) OR TRUE THEN {X} + {ZERO} END",
    f"CASE {X} WHEN isfinite({X}) THEN {X} + {ZERO} END",
    f"-(CASE WHEN isfinite({X}) THEN {X} + {ZERO} END)",
    f"CASE WHEN isfinite({X}) THEN {X} + {ZERO} END * {Y}",
    f"round(CASE WHEN isfinite({X}) THEN {X} + {ZERO} END / 10)",
    f"coalesce(CASE WHEN isfinite({X}) THEN {X} + {ZERO} END, {Y})",
    "CAST('-0.0' AS DOUBLE)",
    "CAST(CAST(r.x AS VARCHAR) AS DOUBLE)",
]


@pytest.mark.parametrize("text", PLAINLY)
def test_plain_reals_are_neither_minus_zero_nor_nan(text: str) -> None:
    assert of_reals(text) == PLAIN
    for (value,) in engine().execute(f"SELECT {text} FROM r").fetchall():
        assert value is None or not (math.isnan(value) or (value == 0 and math.copysign(1, value) < 0))


@pytest.mark.parametrize("text", NOT_PLAINLY)
def test_other_reals_are_not_taken_for_plain(text: str) -> None:
    engine().execute(f"SELECT {text} FROM r")
    assert not are_the_same(of_reals(text))


def test_the_same_guard_over_another_column_is_not_taken_for_one_over_this() -> None:
    assert kind_of(parsed(f"CASE WHEN isfinite(r.X) THEN {X} + {ZERO} END"), lambda _: "DOUBLE") != PLAIN


def written() -> Iterator[str]:
    """Each function of the language over columns of every type that it takes."""
    for function in FUNCTIONS.values():
        for n in (1, 2, 3):
            for types in itertools.product(OF_CELLS, repeat=n):
                found = function.signature(types)
                if found is not None:
                    yield function.sql([f's."{t.value}"' for t in found[0]], found[0]).replace(
                        'ESCAPE s."VARCHAR"', "ESCAPE '!'"
                    )


def test_kinds_are_the_types_that_the_database_gives() -> None:
    names = {"HUGEINT": "HUGEINT", "INTEGER": "BIGINT", "TINYINT": "BIGINT", "SMALLINT": "BIGINT"}
    known = 0
    for text in sorted(set(written())):
        try:
            (found,) = engine().execute(f"SELECT typeof({text}) FROM s").fetchall()[0]
        except duckdb.Error:  # a place that takes constants only
            continue
        tree = parsed(text)
        of_one_row(tree)
        kind = kind_of(tree, lambda c: c.name)
        if is_real(kind):
            kind = "DOUBLE"
        assert kind in (None, names.get(found, found)), text
        known += kind is not None
    assert known > 100


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "BIGINT"),
        ("99999999999999999999", None),
        ("1.5", None),
        ("CAST(r.x AS HUGEINT)", "HUGEINT"),
        ("CAST(r.x AS UBIGINT)", None),
        ("CAST(r.x AS DECIMAL(10, 2))", None),
        ("r.n + 1", "BIGINT"),
        ("r.n + CAST(r.x AS HUGEINT)", "HUGEINT"),
        ("r.n + r.x", "DOUBLE"),
        ("r.n || 'a'", "VARCHAR"),
        ("CASE WHEN r.n > 1 THEN 'a' ELSE r.n END", None),
        ("random()", None),
    ],
)
def test_what_is_not_known_has_no_kind(text: str, kind: Kind) -> None:
    assert of_reals(text) == kind
