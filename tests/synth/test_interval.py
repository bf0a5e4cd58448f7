"""Intervals of counting queries: of noisy tables themselves, for whole cells, or none with its reason."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.catalog.schema import Range, Values
from discreet.catalog.types import Type
from discreet.errors import InvalidParameter, UnknownColumn, UnsupportedQuery
from discreet.mechanisms.additive import RoundedGaussianNoise
from discreet.noise.entropy import SystemEntropy
from discreet.synth import Adaptive, Synthetic, load
from discreet.synth import asked as asking
from discreet.synth.domain import SynthColumn, read_count
from discreet.synth.synthetic import SyntheticModel, TableFact

PLACE = np.arange(4000)
FRAME = pd.DataFrame(
    {
        "age": 18 + PLACE % 70,
        "town": np.where(PLACE % 3 == 0, "north", np.where(PLACE % 3 == 1, "south", "west")),
        "born": [dt.date(2020, 1, 1) + dt.timedelta(days=int(n)) for n in PLACE % 60],
        "paid": np.where(PLACE % 10 == 0, np.nan, PLACE % 100 + 0.5),
        "old": PLACE % 4 == 0,
    }
)
DOMAIN: dict[str, Any] = {
    "age": dp.Range(18, 87),
    "town": dp.Values("north", "south"),
    "born": dp.Range(dt.date(2020, 1, 1), dt.date(2020, 2, 29)),
    "paid": dp.Range(0, 100),
    "old": dp.Values(True, False),
}


@pytest.fixture(scope="module")
def made() -> Synthetic:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "COMPONENTS", 10)
        pairs = [("age", "town"), ("town", "old"), ("born", "paid"), ("paid", "old")]
        return Adaptive(epsilon=12, delta="1e-6", bins=20, workload=pairs).fit(FRAME, DOMAIN)


@pytest.mark.parametrize(
    ("where", "counted"),
    [
        ("TRUE", lambda f: f.age > 0),
        ("age < 38", lambda f: f.age < 38),
        ("age BETWEEN 38 AND 57 AND town = 'south'", lambda f: f.age.between(38, 57) & (f.town == "south")),
        ("town IN ('north', 'south') AND NOT old", lambda f: f.town.isin(["north", "south"]) & ~f.old),
        ("town IS NOT NULL AND town = 'north'", lambda f: f.town == "north"),
        ("born < DATE '2020-02-01'", lambda f: f.born < dt.date(2020, 2, 1)),
        ("paid IS NULL OR paid >= 50", lambda f: ~(f.paid < 50)),
        ("NOT (paid < 50)", lambda f: f.paid >= 50),
        ("age > 1000", lambda f: f.age > 1000),
    ],
)
def test_the_interval_holds_the_count(made: Synthetic, where: str, counted: Any) -> None:
    found = made.interval(f"SELECT COUNT(*) FROM adults WHERE {where}", confidence=1 - 1e-9)
    true = int(counted(FRAME).sum())
    assert found.low <= true <= found.high
    assert found.high - found.low < 900
    narrow = made.interval(f"SELECT COUNT(*) AS n FROM adults WHERE {where}", confidence=0.5)
    assert narrow.value == found.value
    assert narrow.high - narrow.low <= found.high - found.low


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT COUNT(*) FROM t WHERE age < 40", "a part of the cell"),
        ("SELECT COUNT(*) FROM t WHERE age / 2 < 0", "a part of the cell"),
        ("SELECT COUNT(*) FROM t WHERE age < 38 AND old", "no table has them all"),
        ("SELECT COUNT(*) FROM t WHERE age < 38 AND old AND town = 'south'", "no table has them all"),
        ("SELECT COUNT(*) FROM t WHERE town = 'west'", "'other' of 'town'"),
        ("SELECT COUNT(*) FROM t WHERE town LIKE 'n%'", "'other' of 'town'"),
        ("SELECT COUNT(*) FROM t WHERE town <> 'north'", "a part of the cell"),
        ("SELECT COUNT(*) FROM t WHERE paid = 50", "a part of the cell"),
        ("SELECT COUNT(*) FROM t WHERE CAST(paid AS INT) < 50", "a part of the cell"),
        ("SELECT COUNT(paid) FROM t", "no counting query"),
        ("SELECT COUNT(*) + 1 FROM t", "no counting query"),
        ("SELECT town, COUNT(*) FROM t GROUP BY town", "no counting query"),
        ("SELECT COUNT(*) FROM t, u", "one table"),
    ],
)
def test_there_is_no_interval_and_why(made: Synthetic, sql: str, words: str) -> None:
    with pytest.raises(UnsupportedQuery, match=words):
        made.interval(sql)


def test_unknown_columns_and_confidences_are_refused(made: Synthetic) -> None:
    with pytest.raises(UnknownColumn):
        made.interval("SELECT COUNT(*) FROM t WHERE wage < 3")
    with pytest.raises(InvalidParameter, match="confidence"):
        made.interval("SELECT COUNT(*) FROM t", confidence=1)


def test_centre_and_variance_are_those_of_the_cells(made: Synthetic) -> None:
    fact = made._model.facts[0]
    assert fact.counts is not None and fact.sigma is not None
    found = made.interval("SELECT COUNT(*) FROM t WHERE age < 22")
    assert found.value == fact.counts[0]
    assert found.sigma**2 == pytest.approx(fact.sigma**2 + 1 / 12)
    assert found.high - found.value == pytest.approx(1.959964 * found.sigma + 0.5)


def test_values_that_were_merged_have_no_interval_of_their_own(made: Synthetic) -> None:
    pair = next(f for f in made._model.facts if f.columns == ("age", "town"))
    model, at = made._model, made._model.place("age")
    maps = [*model.maps]
    counts = pair.counts
    object.__setattr__(model, "maps", tuple(np.minimum(m, 3) if i == at else m for i, m in enumerate(maps)))
    object.__setattr__(pair, "counts", counts[:4])  # type: ignore[index]
    try:
        with pytest.raises(UnsupportedQuery, match="rare values were merged"):
            made.interval("SELECT COUNT(*) FROM t WHERE age < 38 AND town = 'north'")
        assert made.interval("SELECT COUNT(*) FROM t WHERE age < 22 AND town = 'north'").sigma > 0
    finally:
        object.__setattr__(model, "maps", tuple(maps))
        object.__setattr__(pair, "counts", counts)


def test_a_model_file_keeps_the_noisy_tables(made: Synthetic, tmp_path: Path) -> None:
    made.save(tmp_path / "a.model")
    sql = "SELECT COUNT(*) FROM t WHERE town = 'south' AND old"
    assert load(tmp_path / "a.model").interval(sql) == made.interval(sql)


@pytest.mark.parametrize(
    "column",
    [
        SynthColumn.of("c", Values("a", None), Type.TEXT, 4),
        SynthColumn.of("c", Values(True, False), Type.BOOL, 4),
        SynthColumn.of("c", Values(1.5, 2.0), Type.REAL, 4),
        SynthColumn.of("c", Range(0, 99, integer=True), Type.INT, 7),
        SynthColumn.of("c", Range(-1, 3), Type.REAL, 7),
        SynthColumn.of("c", Range(dt.date(2020, 1, 1), dt.date(2024, 3, 1)), Type.DATE, 20),
        SynthColumn.of("c", Range(dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 9)), Type.TIMESTAMP, 20),
    ],
    ids=lambda c: f"{c.type.name}{c.size}",
)
def test_points_of_a_cell_lie_in_it_and_declarations_come_back(column: SynthColumn) -> None:
    again = SynthColumn.of("c", column.fact, column.type, column.size)
    assert (again.type, again.values, again.edges[:1], again.edges[-1:]) == (
        column.type,
        column.values,
        column.edges[:1],
        column.edges[-1:],
    )
    for cell in range(column.size):
        for point in column.points(cell):
            if type(point) is not object and not (column.values and cell == column.size - 1):
                assert column.cells_of(point) == [cell]
    assert read_count("SELECT COUNT(*) FROM t WHERE c IS NOT NULL OR c IS NULL", [column]).holds.all()


@pytest.mark.laws
@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(2), Fraction(40)])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_intervals_hold_the_count_as_often_as_they_say(sigma: Fraction, confidence: float) -> None:
    """Beside a twin with half of the noise's variance, which holds it too seldom."""
    column = SynthColumn.of("c", Range(0, 4, integer=True), Type.INT, 5)
    noise, runs, held = RoundedGaussianNoise(sigma), 3000, {1.0: 0, 0.5: 0}
    asked = read_count("SELECT COUNT(*) FROM t WHERE c < 3", [column])
    for _ in range(runs):
        counts = np.array(noise.add([100] * 6, SystemEntropy()), float)
        for factor in held:
            fact = TableFact(("c",), 6, float(sigma) * math.sqrt(factor), 0, counts)
            model = SyntheticModel((column,), np.full((1, 6), 1 / 6, np.float32), 600.0, (fact,), (), (np.arange(6),))
            found = Synthetic(model)._interval(asked, confidence)
            held[factor] += found.low <= 300 <= found.high
    bar = confidence - 4 * math.sqrt(confidence * (1 - confidence) / runs)
    assert held[1.0] / runs >= bar
    if sigma == 40:
        assert held[0.5] / runs < bar
