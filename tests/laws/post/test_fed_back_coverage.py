"""Intervals of a part that reads a result: of its query about the value that was fed back, and of no other value."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

import discreet as dp

RUNS = 150
LEAST = 0.95 - 4 * math.sqrt(0.95 * 0.05 / RUNS)


def test_an_interval_contains_what_is_true_of_the_value_that_was_fed_back() -> None:
    x = np.random.default_rng(5).uniform(49, 51, 1000)
    session = dp.connect(
        {"t": pd.DataFrame({"id": np.arange(1000), "x": x})},
        unit=dp.PrivacyUnit("id", max_groups=1, max_rows=1),
        columns={"x": dp.Range(0, 100)},
        population="p",
        ledger=":memory:",
        budget=dp.Budget(10**6),
    )
    held = twin = 0
    for _ in range(RUNS):
        release = session.sql("SELECT COUNT(*) AS n FROM t WHERE x > (SELECT AVG(x) FROM t)", epsilon=2, fresh=True)
        ((low, high),) = release.interval("n")
        assert release.plan.outer is not None
        (value,) = release.plan.outer.values
        assert isinstance(value, float)
        held += low <= (x > value).sum() <= high
        twin += low <= (x > x.mean()).sum() <= high  # of the mean itself, about which it says nothing
    assert held / RUNS >= LEAST
    assert twin / RUNS < LEAST
