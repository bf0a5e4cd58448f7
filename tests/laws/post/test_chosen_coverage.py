"""Intervals of what noise chooses: seven shapes, each over many draws of the noise of 100 groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from discreet.backends.connection import open_database
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.query.ends import EndKind, with_ends

RUNS = 400
GROUPS = 100
SCALE = 4
LEVEL = Fraction(19, 20)

Truth = NDArray[np.int64]
Held = Callable[[list[tuple[Any, ...]], Truth], bool]
"""Whether the rows of a run, each a key, a value and its ends, hold what is true of them."""


def each(of: Callable[[Truth, int], float]) -> Held:
    return lambda rows, truth: all(low <= of(truth, k) <= high for k, _, low, high in rows)


def rank(truth: Truth, k: int) -> float:
    return 1 + float(np.sum(truth > truth[k]))


SHAPES: dict[str, tuple[str, Held, bool]] = {
    "the largest": ("SELECT k, n FROM r ORDER BY n DESC LIMIT 1", each(lambda t, k: t[k]), False),
    "top 5": ("SELECT k, n FROM r ORDER BY n DESC, k LIMIT 5", each(lambda t, k: t[k]), False),
    "HAVING": ("SELECT k, SUM(n) AS n FROM r GROUP BY k HAVING SUM(n) > 50", each(lambda t, k: t[k]), True),
    "MAX": ("SELECT 0 AS k, MAX(n) AS n FROM r", each(lambda t, _: float(t.max())), False),
    "rank": ("SELECT k, RANK() OVER (ORDER BY n DESC) AS n FROM r QUALIFY n <= 10", each(rank), True),
    "share of the largest": (
        "SELECT k, n / SUM(n) OVER () AS n FROM r ORDER BY n DESC LIMIT 1",
        each(lambda t, k: t[k] / t.sum()),
        True,
    ),
    "share of MAX": ("SELECT 0 AS k, MAX(n) / SUM(n) AS n FROM r", each(lambda t, _: t.max() / t.sum()), True),
}


@cache
def drawn(*, spread: bool) -> Any:
    """Noisy numbers of all runs, with their true ones."""
    truth = 20 + np.arange(GROUPS) if spread else np.full(GROUPS, 52)
    p, rng, database = 1 - math.exp(-1 / SCALE), np.random.default_rng(17), open_database()
    noise = rng.geometric(p, (RUNS, GROUPS)) - rng.geometric(p, (RUNS, GROUPS))
    places = {"run": np.repeat(np.arange(RUNS), GROUPS), "k": np.tile(np.arange(GROUPS), RUNS)}
    database.register("frame", pd.DataFrame({**places, "n": (truth + noise).ravel()}))
    database.execute("CREATE TABLE every AS SELECT * FROM frame")
    return database, truth


def coverage(shape: str, level: Fraction) -> float:
    """The share of runs whose rows all hold, when each noisy number has its interval at this level."""
    sql, held, spread = SHAPES[shape]
    ended = with_ends(sql, {"r": [("k", EndKind.PUBLIC), ("n", EndKind.ENDED)]})
    assert ended is not None and set(ended.places) == {1}
    t, at, (database, truth) = (
        DiscreteLaplaceNoise(Fraction(SCALE)).quantile(level),
        ended.places[1],
        drawn(spread=spread),
    )
    ends = f'n - {t} AS "dp_low n", n + {t} AS "dp_high n"'
    count = 0
    for i in range(RUNS):
        database.execute(f"CREATE OR REPLACE TEMP VIEW r AS SELECT k, n, {ends} FROM every WHERE run = {i}")
        count += held([(row[0], row[1], row[at], row[at + 1]) for row in database.execute(ended.sql).fetchall()], truth)
    return count / RUNS


@pytest.mark.parametrize("shape", SHAPES)
def test_what_noise_chooses_lies_in_its_interval_as_often_as_it_says(shape: str) -> None:
    found = coverage(shape, 1 - (1 - LEVEL) / GROUPS)
    assert found >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / RUNS)


@pytest.mark.parametrize("shape", ["the largest", "top 5", "MAX"])
def test_an_interval_of_each_number_alone_misses_what_was_chosen(shape: str) -> None:
    assert coverage(shape, LEVEL) <= 0.2  # .975^100 is 8 %, and each interval of whole numbers holds a little more
