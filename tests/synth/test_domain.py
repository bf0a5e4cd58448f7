"""Cells of declared columns: the same in SQL and in samples, in calendar units, and back from a file."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import numpy as np
import pytest

from discreet.backends.connection import open_database
from discreet.catalog.schema import Fact, Range, Values
from discreet.catalog.types import Type
from discreet.errors import InvalidParameter
from discreet.synth.domain import SynthColumn

DAY = dt.date(2020, 2, 28)
TIME = dt.datetime(2021, 5, 5, 12, 30)
CASES: list[tuple[Fact, Type, str, list[tuple[Any, int]]]] = [
    (Range(17, 90), Type.INT, "BIGINT", [(17, 0), (90, 73), (-5, 0), (1000, 73), (None, 74)]),
    (Range(0, 10**6), Type.INT, "BIGINT", [(0, 0), (10**6, 99), (10**4, 0), (10**4 + 1, 1), (None, 100)]),
    (Range(0, 1), Type.REAL, "DOUBLE", [(0.0, 0), (1.0, 99), (0.5, 50), (float("nan"), 99), (9.0, 99), (None, 100)]),
    (Range(3, 3), Type.REAL, "DOUBLE", [(3.0, 0), (8.0, 0), (None, 1)]),
    (Range(-(2**62), 2**62), Type.INT, "BIGINT", [(-(2**63), 0), (2**63 - 1, 99), (None, 100)]),
    (Values("a", "it's", None), Type.TEXT, "VARCHAR", [("a", 0), ("it's", 1), (None, 2), ("b", 3)]),
    (Values(True, False), Type.BOOL, "BOOLEAN", [(True, 0), (False, 1), (None, 2)]),
    (Values(-1, 2), Type.INT, "BIGINT", [(-1, 0), (2, 1), (3, 2), (None, 2)]),
    (Values(0.1), Type.REAL, "DOUBLE", [(0.1, 0), (0.2, 1)]),
    (Values(DAY), Type.DATE, "DATE", [(DAY, 0), (dt.date(2020, 2, 29), 1)]),
    (Values(TIME), Type.TIMESTAMP, "TIMESTAMP", [(TIME, 0), (None, 1)]),
    (Range(DAY, dt.date(2020, 3, 2)), Type.DATE, "DATE", [(DAY, 0), (dt.date(2020, 3, 1), 2), (None, 4)]),
    (Range(dt.date(2019, 6, 5), dt.date(2021, 1, 1)), Type.DATE, "DATE", [(dt.date(2019, 7, 1), 1), (DAY, 8)]),
    (Range(DAY, TIME), Type.TIMESTAMP, "TIMESTAMP", [(TIME, 15), (dt.datetime(1999, 1, 1), 0), (None, 16)]),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("fact", "kind", "sql", "cells"), CASES, ids=lambda case: str(case)[:40])
def test_sql_finds_the_cells_and_samples_lie_in_them(fact: Fact, kind: Type, sql: str, cells: Any) -> None:
    column = SynthColumn.of('my "x"', fact, kind, 100)
    rows = open_database()
    rows.execute(f'CREATE TABLE t (place BIGINT, "my ""x""" {sql})')
    rows.executemany("INSERT INTO t VALUES (?, ?)", [[i, value] for i, (value, _) in enumerate(cells)])
    found = [n for (n,) in rows.execute(f"SELECT {column.sql} FROM t ORDER BY place").fetchall()]
    assert found == [cell for _, cell in cells]
    every = np.repeat(np.arange(column.size), 3)
    values = column.sampled(every, np.tile([0.01, 0.37, 0.99], column.size))
    if kind is not Type.INT or max(map(abs, column.edges), default=0) < 2**53:
        rows.execute("DELETE FROM t")
        kept = [(i, v) for i, v in enumerate(values) if v != "other"]
        rows.executemany("INSERT INTO t VALUES (?, ?)", [[i, v] for i, v in kept])
        again = rows.execute(f"SELECT place, {column.sql} FROM t ORDER BY place").fetchall()
        assert again == [(i, every[i]) for i, _ in kept]
    read = SynthColumn.read(json.loads(json.dumps(column.said)))
    assert read == column


def test_values_and_ranges_name_their_cells() -> None:
    age = SynthColumn.of("age", Range(0, 99, integer=True), Type.INT, 10)
    assert age.cells_of(25) == [2]
    assert age.cells_of((25, 31)) == [2, 3]
    assert age.cells_of(None) == [10]
    assert age.label(2) == (20, 29)
    assert age.label(10) is None
    real = SynthColumn.of("x", Range(0, 1), Type.REAL, 4)
    assert real.cells_of(1) == [3]
    assert real.label(3) == (0.75, 1.0)
    days = SynthColumn.of("d", Range(DAY, dt.date(2024, 2, 28)), Type.DATE, 60)
    assert days.cells_of(dt.date(2020, 3, 5)) == [1]
    assert days.label(1) == (dt.date(2020, 3, 1), dt.date(2020, 3, 31))
    town = SynthColumn.of("town", Values("a"), Type.TEXT, 4)
    assert town.cells_of("other") == town.cells_of(None) == [1]
    assert [town.label(0), town.label(1)] == ["a", "other"]
    for column, wanted in ((age, 100), (age, "x"), (age, True), (town, "b"), (days, 3), (real, DAY)):
        with pytest.raises(InvalidParameter):
            column.cells_of(wanted)


def test_whole_cells_hold_nothing_else() -> None:
    age = SynthColumn.of("age", Range(0, 99, integer=True), Type.INT, 10)
    assert age.whole_cells_of((20, 39)) == [2, 3]
    assert age.whole_cells_of((-5, 9)) == [0]
    assert age.whole_cells_of(None) == [10]
    days = SynthColumn.of("d", Range(DAY, dt.date(2024, 2, 28)), Type.DATE, 60)
    assert days.whole_cells_of((dt.date(2020, 3, 1), dt.date(2020, 3, 31))) == [1]
    for column, wanted in ((age, 25), (age, (20, 38)), (age, (21, 39)), (days, dt.date(2020, 3, 1))):
        with pytest.raises(InvalidParameter, match="inside of a bin"):
            column.whole_cells_of(wanted)


def test_ranges_that_have_no_bins_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="no whole number"):
        SynthColumn.of("x", Range("0.2", "0.7"), Type.INT, 4)
    with pytest.raises(InvalidParameter, match="too few"):
        SynthColumn.of("d", Range(dt.date(1, 1, 1), dt.date(9999, 12, 31)), Type.DATE, 4)
    assert SynthColumn.of("d", Range(dt.date(1, 1, 1), dt.date(9999, 12, 31)), Type.DATE, 101).size == 101
