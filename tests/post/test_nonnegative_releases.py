"""A release whose counts are not below 0: its rows, its totals, its intervals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.engine.release import Release
from discreet.engine.session import Session
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.noise.entropy import SystemEntropy
from discreet.post.noisy_table import NoisyTable
from tests.coverage import covers

REGIONS = [f"r{i}" for i in range(40)]


@pytest.fixture
def session() -> Session:
    frame = pd.DataFrame({"uid": range(30), "region": "r0", "day": 1, "x": 5.0})
    return dp.connect(
        {"t": frame},
        unit=dp.PrivacyUnit("uid", max_groups=1, max_rows=1),
        columns={"region": dp.Values(*REGIONS), "day": dp.Values(1, 2, 3), "x": dp.Range(0, 10)},
        budget=dp.Budget(1000, "0.01"),
        ledger=":memory:",
    )


def test_counts_and_sums_are_not_below_0_and_the_release_itself_stays(session: Session) -> None:
    release = session.sql("SELECT region, COUNT(*) AS n, SUM(x) AS s, -SUM(x) AS m FROM t GROUP BY region", epsilon=1)
    before = release.rows
    shown = release.nonnegative()
    for (_, n, s, m), (_, noisy_n, noisy_s, _) in zip(shown.rows, before, strict=True):
        assert (n, s, m) == (max(noisy_n, 0), max(noisy_s, 0), -max(noisy_s, 0))
    assert min(n for _, n, _, _ in before) < 0  # 39 empty groups with noise
    assert release.rows == before
    assert shown.nonnegative() is shown
    assert any("below 0" in note for note in shown.notes)
    for column in ("n", "s"):
        for (low, high), (wide_low, wide_high) in zip(shown.interval(column), release.interval(column), strict=True):
            assert low == max(wide_low, 0)
            assert high == max(wide_high, 0)


def test_order_and_having_follow_the_numbers_that_are_shown(session: Session) -> None:
    question = "SELECT region, COUNT(*) AS n FROM t GROUP BY region HAVING COUNT(*) >= 0 ORDER BY n DESC"
    shown = session.sql(question, epsilon=1).nonnegative()
    assert len(shown.rows) == 40
    assert [n for _, n in shown.rows] == sorted((n for _, n in shown.rows), reverse=True)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_totals_keep_their_values_and_are_the_sums_of_their_parts(session: Session, noise: str) -> None:
    question = "SELECT region, day, COUNT(*) AS n FROM t GROUP BY ROLLUP (region, day)"
    release = session.sql(question, epsilon=1, delta="1e-6", noise=noise)
    rows = {(region, day): n for region, day, n in release.nonnegative().rows}
    noisy = {(region, day): n for region, day, n in release.rows}
    assert min(rows.values()) >= 0
    assert rows[None, None] == max(noisy[None, None], 0)
    assert sum(rows[region, None] for region in REGIONS) == rows[None, None]
    for region in REGIONS:
        assert sum(rows[region, day] for day in (1, 2, 3)) == rows[region, None]


def test_intervals_of_raised_numbers_cover_the_truth(session: Session) -> None:
    """3,000 draws of empty groups and 75 of one with 2; intervals for a half hold less often."""
    plan = session.plan("SELECT region, COUNT(*) AS n FROM t GROUP BY region", epsilon=1)
    (noise,) = plan.query.allocation.noises
    assert isinstance(noise, DiscreteLaplaceNoise)
    truth = [2] + [0] * 39
    hits, halves = np.zeros(2), np.zeros(2)
    for _ in range(75):
        cells = tuple((c,) for c in noise.add(truth, SystemEntropy()))
        table = NoisyTable(tuple((r,) for r in REGIONS), cells)
        shown = Release(plan, table).nonnegative()
        inside = [low <= t <= high for t, (low, high) in zip(truth, shown.interval("n"), strict=True)]
        hits += inside[0], sum(inside[1:])
        half = shown.interval("n", confidence=Fraction(1, 2))
        inside = [low <= t <= high for t, (low, high) in zip(truth, half, strict=True)]
        halves += inside[0], sum(inside[1:])
        assert all(low <= n <= high for (_, n), (low, high) in zip(shown.rows, shown.interval("n"), strict=True))
    for held, narrow, runs in zip(hits, halves, (75, 75 * 39), strict=True):
        assert covers(held, runs, 0.95) and not covers(narrow, runs, 0.95)
