"""Each function of the language twice, in Python on public values and in the database on rows: one meaning."""

from __future__ import annotations

import math
import random
import unicodedata
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from discreet.catalog.schema import Fact, Range
from discreet.catalog.types import OF_CELLS, Type
from discreet.query.expr import Call, Column, Expr, Literal, finite
from discreet.query.functions import FUNCTIONS
from discreet.query.ranges import range_of
from tests.plan.cases import Engine
from tests.query.function_cases import CORNERS, INEXACT, SPELLINGS, columns, drawn, exact_calls

ENGINE = Engine.open()
CELLS = {
    Type.BOOL: pa.bool_(),
    Type.INT: pa.int64(),
    Type.REAL: pa.float64(),
    Type.TEXT: pa.string(),
    Type.DATE: pa.date32(),
    Type.TIMESTAMP: pa.timestamp("us"),
}
MOST = 300  # combinations of corners for each signature, spread evenly over all

Row = tuple[Any, ...]


def in_the_database(expr: Call, rows: list[Row]) -> list[Any]:
    """The rendered expression on each row."""
    cells = {f"c{i}": pa.array([row[i] for row in rows], CELLS[kind]) for i, kind in enumerate(columns(expr))}
    ENGINE.connection.register("cells", pa.table(cells))
    return [found for (found,) in ENGINE.run(f"SELECT {finite(expr)} FROM cells s")]


def disagreements(expr: Call, rows: list[Row]) -> list[tuple[Any, ...]]:
    """The rows where Python and the database differ."""
    found = in_the_database(expr, rows)
    here = [expr.of_row({f"c{i}": v for i, v in enumerate(row)}) for row in rows]
    slack = INEXACT if FUNCTIONS[expr.name].inexact else 0.0
    return [(r, h, t) for r, h, t in zip(rows, here, found, strict=True) if not same(h, t, slack)]


def same(here: Any, there: Any, slack: float) -> bool:
    if isinstance(here, float) and isinstance(there, float):
        return here == there or math.isclose(here, there, rel_tol=slack, abs_tol=0.0)
    return type(here) is type(there) and bool(here == there)


@pytest.mark.exhaustive
@pytest.mark.sampled(14)
@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_a_function_means_the_same_in_python_and_in_the_database(name: str) -> None:
    exprs = list(exact_calls(name))
    assert exprs
    rng = random.Random(name)
    for expr in exprs:
        kinds = columns(expr)
        every = list(product(*(CORNERS[kind] for kind in kinds)))
        rows = every[:: max(len(every) // MOST, 1)]
        rows += [tuple(drawn(kind, rng) for kind in kinds) for _ in range(100)]
        assert disagreements(expr, rows) == [], name


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_a_function_means_the_same_on_many_random_rows(name: str) -> None:
    rng = random.Random(name + " at length")
    for expr in exact_calls(name):
        rows = [tuple(drawn(kind, rng) for kind in columns(expr)) for _ in range(10_000)]
        assert disagreements(expr, rows) == [], name


_X = Column("c0", Type.TEXT)
_Y = Column("c1", Type.TEXT)


@pytest.mark.parametrize(
    ("name", "args", "most"),
    [
        ("||", (_X, _X), 32768),
        ("||", (_X, Literal("ab", Type.TEXT)), 65534),
        ("concat_ws", (Literal("--", Type.TEXT), _X, _Y, Literal("a", Type.TEXT)), 65533),
        ("concat_ws", (_Y, _X, _X), 65536),
        ("replace", (_X, Literal("ab", Type.TEXT), Literal("cdefg", Type.TEXT)), 21845),
        ("replace", (_X, Literal("abc", Type.TEXT), Literal("d", Type.TEXT)), 65536),
        ("regexp_replace", (_X, Literal("b", Type.TEXT), Literal("cd", Type.TEXT)), 32768),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_text_that_would_become_too_long_is_null(name: str, args: tuple[Expr, ...], most: int) -> None:
    expr = Call(name, args, Type.TEXT)
    if "c1" not in repr(args):
        expr = Call("nullif", (expr, _Y), Type.TEXT)
    rows: list[Row] = [("é" * n, None) for n in (most - 1, most, most + 1, 5 * most)]
    assert disagreements(expr, rows) == []
    wanted = [False, False, True, True] if args[0] != _Y else [True] * 4  # NULL, as the separator is
    assert [expr.of_row(dict(zip(("c0", "c1"), row, strict=True))) is None for row in rows] == wanted


def test_texts_joined_one_by_one_have_one_guard() -> None:
    joined: Expr = _X
    for _ in range(30):
        joined = Call("||", (joined, _Y), Type.TEXT)
    assert finite(joined).count("CASE") == 1


@pytest.mark.parametrize("kind", [k for k in OF_CELLS if k is not Type.TEXT])
def test_text_is_read_as_another_type_as_the_database_reads_it(kind: Type) -> None:
    expr = Call(f"as {kind.value.lower()}", (Column("c0", Type.TEXT),), kind)
    assert disagreements(expr, [(text,) for text in SPELLINGS]) == []


@pytest.mark.parametrize("name", ["lower", "upper"])
def test_every_character_of_long_standing_has_the_same_lower_and_upper_case_in_python(name: str) -> None:
    """Those of Unicode 3.2: what came later, or was given another case later, depends on the Python."""
    expr = Call(name, (Column("c0", Type.TEXT),), Type.TEXT)
    known = unicodedata.ucd_3_2_0.category
    characters = [chr(n) for n in range(0x11000) if not 0xD800 <= n < 0xE000]
    settled = [c for c in characters if all(known(d) != "Cn" for d in c + c.lower() + c.upper())]
    assert disagreements(expr, [(c,) for c in settled]) == []


def test_the_bounds_of_an_expression_hold_on_every_row_within_its_columns_bounds() -> None:
    values = [-3.0, -2.5, -0.5, 0.0, 0.3, 1.0, 2.0]
    facts: dict[str, Fact] = {"a": Range(-3, 2), "b": Range("0.3", 2)}
    a, b = Column("a", Type.REAL), Column("b", Type.REAL)
    for name in FUNCTIONS:
        for args in ((a,), (a, b), (b, a)):
            found = FUNCTIONS[name].signature([Type.REAL] * len(args))
            if (
                found is None
                or FUNCTIONS[name].bounds is None
                or not found[1].is_number
                or set(found[0]) != {Type.REAL}
            ):
                continue
            call = Call(name, args, found[1])
            low, high = range_of(call, facts)
            for x, y in product([*values, None], [v for v in values if v >= 0.3] + [None]):
                value = call.of_row({"a": x, "b": y})
                if isinstance(value, int | float):
                    assert float(low) <= value <= float(high), (name, x, y)
