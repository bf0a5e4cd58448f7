"""Expressions made at random: those that are said never to fail do not, on rows of extreme values, and what they give
lies where it is said to lie.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest

from discreet.backends.connection import open_database
from discreet.verify.failing import failure
from discreet.verify.kinds import span_of
from discreet.verify.shapes import read
from discreet.verify.totality import TotalityChecker, Value, of_kind

COLUMNS = {"i": "BIGINT", "j": "BIGINT", "x": "DOUBLE", "s": "VARCHAR", "b": "BOOLEAN"}
WHOLE = [0, 1, 4, 100, 127, 128, -1, -128, -129, 32767, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), None]
REAL = [0.0, -1.0, 0.5, 100.0, 2.0**31, 2.0**53, 2.0**62, 2.0**63, -(2.0**63), 1e30, math.inf, math.nan, None]
TEXT = ["1", "a", "", "🎈", "true", None]
TYPES = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"]
EXTREMES = ["0", "1", "2", "4", "100", "127", "128", "1000", "32767", "2147483647", "2147483648",
            f"{2**53 + 1}", f"{2**62}", f"{2**62 + 513}", f"{2**63 - 1}"]  # fmt: skip
DECIMALS = ["0.0", "0.5", "1e3", "100.0", "9007199254740993.0", f"{2**62 + 513}.0", "1e30", "0.30000000000000004"]


class Maker:
    """Makes expressions of whole numbers, of reals, and conditions."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)

    def whole(self, depth: int) -> str:
        choose = self.pick.choice
        if depth <= 0:
            column, narrow = choose("ij"), choose(TYPES)
            return choose(
                [f"s.{column}", choose(EXTREMES), f"-{choose(EXTREMES)}", f"CAST({choose(EXTREMES)} AS {narrow})",
                 f"TRY_CAST(s.{column} AS {narrow})", self.held(f"s.{column}"), self.held("s.x"), "sign(s.x)",
                 "length(s.s)", "unicode(s.s)", "CAST(s.b AS TINYINT)", f"TRY_CAST({choose(DECIMALS)} AS {narrow})"]
            )  # fmt: skip
        one, other, real = self.whole(depth - 1), self.whole(depth - 1), self.real(depth - 1)
        sign = choose(["+", "-", "*", "//", "%"])
        return choose(
            [f"({one} {sign} {other})", f"({one} {sign} {other})", f"({one} {sign} greatest({other}, 1))", f"-({one})",
             f"TRY({one} {sign} {other})", self.held(one), self.held(real), f"TRY_CAST({one} AS {choose(TYPES)})",
             f"TRY_CAST({real} AS {choose(TYPES)})", f"round({one})", f"coalesce({one}, {other})", f"TRY(abs({one}))",
             f"least({one}, {other})", f"greatest({one}, {other})", f"CAST({one} AS {choose(TYPES)})",
             f"CASE WHEN {self.condition(depth - 1)} THEN {one} ELSE {other} END", f"nullif({one}, {other})"]
        )  # fmt: skip

    def held(self, e: str) -> str:
        """Between two numbers, in a type."""
        low, high = sorted(self.pick.sample(EXTREMES, 2), key=int)
        low = self.pick.choice([low, "0", f"-{low}", f"-{high}"])
        return f"CAST(least(greatest({e}, {low}), {high}) AS {self.pick.choice(TYPES)})"

    def real(self, depth: int) -> str:
        choose = self.pick.choice
        if depth <= 0:
            return choose(["s.x", f"CAST({choose(DECIMALS)} AS DOUBLE)", f"CAST(-{choose(DECIMALS)} AS DOUBLE)", "s.x"])
        one, other, whole = self.real(depth - 1), self.real(depth - 1), self.whole(depth - 1)
        return choose(
            [f"({one} {choose('+-*/')} {other})", f"least({one}, {other})", f"greatest({one}, {whole})",
             f"least({one}, {whole})", f"CAST({whole} AS DOUBLE)", f"round({one})", f"coalesce({one}, {whole})",
             f"({one} * {whole})", f"least(greatest({one}, CAST({choose(DECIMALS)} AS DOUBLE)), {choose(EXTREMES)})",
             f"CASE WHEN {self.condition(depth - 1)} THEN {one} ELSE {whole} END", f"floor({one})"]
        )  # fmt: skip

    def condition(self, depth: int) -> str:
        choose = self.pick.choice
        one = choose([self.whole, self.real])(depth - 1)
        return choose(
            [f"{one} > {self.whole(depth - 1)}", "s.b", "s.b IS TRUE", f"({one} <= 5) IS NOT FALSE", "s.s IS TRUE",
             f"{one} IS NULL", f"isfinite({self.real(depth - 1)})", "s.s = 'a'", f"s.s = {choose(EXTREMES)}"]
        )  # fmt: skip


def cells() -> duckdb.DuckDBPyConnection:
    """Rows of extreme values, in every pair of columns."""
    database = open_database()
    database.execute(f"CREATE TABLE cells ({', '.join(f'{n} {kind}' for n, kind in COLUMNS.items())})")
    pairs: Iterator[tuple[object, ...]] = itertools.product(WHOLE, WHOLE)
    rows = [
        (i, j, REAL[k % len(REAL)], TEXT[k % len(TEXT)], [True, False, None][k % 3]) for k, (i, j) in enumerate(pairs)
    ]
    database.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?)", rows)
    return database


def values(database: duckdb.DuckDBPyConnection, expression: str) -> list[object]:
    """What the database gives, row by row."""
    found = database.execute(f"SELECT {expression} AS v FROM main.cells s").fetchall()
    return [v for (v,) in found if v is not None]


PART = 400


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("part", range(4))
def test_what_is_said_not_to_fail_does_not_and_lies_where_it_is_said_to(part: int) -> None:
    accepted = 0
    reader = TotalityChecker(lambda c: of_kind(COLUMNS[c.name]))
    with cells() as database:
        for seed in range(part * PART, (part + 1) * PART):
            maker = Maker(seed)
            made = (maker.whole if seed % 3 else maker.real)(1 + seed % 3)
            if failure(f"SELECT {made} AS v FROM main.cells s", {"cells": COLUMNS}) is not None:
                continue
            accepted += 1
            e = read(f"SELECT {made} AS v FROM main.cells s").expressions[0].this
            said: Value = reader.value(e)
            low, high = span_of(e, frozenset())
            for v in values(database, made):
                assert isinstance(v, int | float | Decimal), made
                if isinstance(v, float) and not math.isfinite(v):
                    assert math.isinf(low if v < 0 else high), made  # NaN is above all
                    continue
                exactly = Fraction(v)
                assert math.isinf(low) or Fraction(low) <= exactly, made
                assert math.isinf(high) or exactly <= Fraction(high), made
                assert not said.width or said.low <= exactly <= said.high, made
    assert accepted > PART / 10
