"""Functions inside functions: no row makes them fail, and Python agrees with the database."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

from discreet.backends.connection import open_database
from discreet.catalog.types import OF_CELLS, Type
from discreet.errors import PlanError
from discreet.query.bind import call
from discreet.query.expr import Call, Column, Expr, Literal, finite, walk
from discreet.query.functions import FUNCTIONS
from tests.backends.test_total import NASTY
from tests.query.function_cases import drawn, exact_calls
from tests.query.test_functions import CELLS

NAMES = {kind: [f"{kind.name.lower()}{i}" for i in range(2 if kind is Type.INT else 1)] for kind in OF_CELLS}


def shapes() -> dict[Type, list[tuple[str, tuple[Type | Literal, ...]]]]:
    """Result type → functions that give it, each with the types of its arguments and its constants."""
    found: dict[Type, list[tuple[str, tuple[Type | Literal, ...]]]] = {kind: [] for kind in OF_CELLS}
    for name, f in FUNCTIONS.items():
        if f.constants:
            for e in exact_calls(name):
                found[e.type].append((name, tuple(a if isinstance(a, Literal) else _type(a) for a in e.args)))
            continue
        for types in (t for n in (1, 2, 3) for t in itertools.product(OF_CELLS, repeat=n)):
            fitting = f.signature(list(types))
            if fitting is not None and tuple(fitting[0]) == types:
                found[fitting[1]].append((name, types))
    return found


def _type(e: Expr) -> Type:
    assert e.type is not None
    return e.type


SHAPES = shapes()


def tree(kind: Type, depth: int, rng: random.Random) -> Expr:
    """A random tree over the columns of every type."""
    if depth == 0 or rng.random() < 0.15:
        value = drawn(kind, rng)
        odd = value is None or repr(value) == "-0.0" or (isinstance(value, str) and "\0" in value)
        written = rng.random() < 0.25 and not odd
        return Literal(value, kind) if written else Column(rng.choice(NAMES[kind]), kind)
    name, args = rng.choice(SHAPES[kind])
    return call(name, [a if isinstance(a, Literal) else tree(a, depth - 1, rng) for a in args])


def check(seed: int, n: int) -> None:
    rng = random.Random(seed)
    connection = open_database()
    connection.execute("SET threads = 1")
    before = "NULL"
    for i in range(n):
        if i % 300 == 0:
            connection.execute(_nasty(rng))
        try:
            expr = tree(rng.choice(OF_CELLS), rng.choice([2, 3, 4]), rng)
            text = finite(expr)
        except PlanError:  # too long with its guards
            continue
        # with the one before it, as the database computes what they share beforehand
        connection.execute(f"SELECT count({text}), count({before}) FROM nasty s").fetchall()
        before = text
        if any(isinstance(e, Call) and FUNCTIONS[e.name].inexact for e in walk(expr)):
            continue
        rows = [{name: drawn(kind, rng) for kind, names in NAMES.items() for name in names} for _ in range(20)]
        cells = {
            name: pa.array([row[name] for row in rows], CELLS[kind]) for kind, names in NAMES.items() for name in names
        }
        connection.register("cells", pa.table(cells))
        there = [v for (v,) in connection.execute(f"SELECT {text} FROM cells s").fetchall()]
        here = [expr.of_row(row) for row in rows]
        assert [(type(v), v) for v in here] == [(type(v), v) for v in there], str(expr)


def _nasty(rng: random.Random) -> str:
    columns = []
    for kind, names in NAMES.items():
        values = [f"CAST({v} AS {kind.value})" for v in NASTY[kind] if "repeat" not in v] + ["NULL"]
        for name in names:
            columns.append(f"unnest([{', '.join(rng.choice(values) for _ in range(50))}]) AS {name}")
    return f"CREATE OR REPLACE TABLE nasty AS SELECT {', '.join(columns)}"


def test_places_of_round_that_are_shared_never_fail() -> None:
    """The cast of the places once failed outside the TRY, where two expressions shared it."""
    n, x = Column("int0", Type.INT), Column("real0", Type.REAL)
    twice = call("=", [call("round", [Literal(39.5, Type.REAL), n]), call("round", [x, n])])
    connection = open_database()
    connection.execute("CREATE TABLE t AS SELECT -2147483649::BIGINT AS int0, 1.5::DOUBLE AS real0 FROM range(9)")
    assert connection.execute(f"SELECT count({finite(twice)}) FROM t s").fetchall() == [(0,)]


def test_powers_of_ten_that_are_not_the_nearest_numbers_scale_as_in_the_database() -> None:
    x, n = Column("real0", Type.REAL), Column("int0", Type.INT)
    rounded, connection = call("round", [x, n]), open_database()
    for digits in (22, 23, -23, 210):
        text = f"SELECT {finite(rounded)} FROM (SELECT 0.1::DOUBLE AS real0, {digits}::BIGINT AS int0) s"
        assert connection.execute(text).fetchone() == (rounded.of_row({"real0": 0.1, "int0": digits}),)


@pytest.mark.exhaustive
def test_functions_inside_functions_never_fail_and_agree() -> None:
    check(1, 100)


@pytest.mark.slow
def test_very_many_functions_inside_functions_never_fail_and_agree() -> None:
    check(2, 30_000)
