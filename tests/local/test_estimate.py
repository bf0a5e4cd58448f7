"""Intervals are where they say, hold as often as they say for every truth, and shares are the nearest ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from discreet.errors import InvalidParameter
from discreet.local import Estimate, Hadamard, RandomizedResponse, UnaryEncoding
from discreet.local.frequency import FrequencyOracle

Floats = NDArray[np.float64]


def support_law(users: int, held: int, oracle: FrequencyOracle) -> Floats:
    """P(so many reports support a value) when `held` of the users hold it."""
    own, other = float(oracle.scores.own), float(oracle.scores.other)
    mine = stats.binom.pmf(np.arange(held + 1), held, own)
    theirs = stats.binom.pmf(np.arange(users - held + 1), users - held, other)
    return np.convolve(mine, theirs)


def estimates(oracle: FrequencyOracle, users: int) -> Estimate:
    """One estimate for each number of supporting reports."""
    scores = oracle.scores
    gap = float(scores.gap)
    values = (np.arange(users + 1) / users - float(scores.other)) / gap
    return Estimate(
        tuple(range(users + 1)),
        values,
        users=users,
        own=float(scores.own_variance) / gap**2,
        other=float(scores.other_variance) / gap**2,
        reach=float(scores.spread) / gap,
    )


def coverage(oracle: FrequencyOracle, users: int, interval: tuple[Floats, Floats]) -> list[float]:
    """For each truth the exact chance that it lies in the interval."""
    lower, upper = interval
    found = []
    for held in range(users + 1):
        inside = (lower <= held / users) & (held / users <= upper)
        found.append(float(support_law(users, held, oracle)[inside].sum()))
    return found


ORACLES = [RandomizedResponse(2, epsilon=1), RandomizedResponse(20, epsilon=2), UnaryEncoding(9, epsilon=4)]


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("users", [1, 2, 7, 60])
@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_proven_intervals_hold_for_every_truth(oracle: FrequencyOracle, users: int, confidence: float) -> None:
    interval = estimates(oracle, users).proven_interval(confidence)
    assert min(coverage(oracle, users, interval)) >= confidence


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_intervals_hold_as_often_as_they_say_when_there_are_many_reports(oracle: FrequencyOracle) -> None:
    users = 500
    found = estimates(oracle, users)
    covered = coverage(oracle, users, found.interval(0.9))
    assert min(covered[20:-20]) > 0.87 and np.mean(covered) < 0.92
    middle = (np.sum(found.interval(0.9), axis=0)) / 2
    half = (found.interval(0.9)[1] - found.interval(0.9)[0]) / 4
    assert min(coverage(oracle, users, (middle - half, middle + half))) < 0.7, "half of the width must not do"


@pytest.mark.parametrize("value", [-0.4, -0.01, 0.0, 0.13, 0.5, 0.99, 1.0, 1.2])
@pytest.mark.parametrize(("own", "other"), [(2.0, 2.0), (9.0, 0.5), (0.5, 9.0), (3.0, 0.0)])
def test_an_interval_is_all_truths_that_the_estimate_is_near_to(value: float, own: float, other: float) -> None:
    users, reach = 150, 4.0
    estimate = Estimate(("x",), np.array([value]), users=users, own=own, other=other, reach=reach)
    truths = np.linspace(0, 1, 200_001)
    variance = (other + truths * (own - other)) / users
    distance = np.abs(value - truths)
    z = stats.norm.isf(0.025)
    log = math.log(2 / 0.05)
    bernstein = reach * log / (3 * users)
    near = distance <= z * np.sqrt(variance)
    proven = distance <= bernstein + np.sqrt(bernstein**2 + 2 * log * variance)
    for (lower, upper), wanted in ((estimate.interval(), near), (estimate.proven_interval(), proven)):
        if wanted.any():
            assert abs(lower[0] - truths[wanted].min()) < 1e-4 or lower[0] < truths[wanted].min()
            assert abs(upper[0] - truths[wanted].max()) < 1e-4 or upper[0] > truths[wanted].max()
            if 0 <= value <= 1:  # beyond, the interval starts at the bound
                assert lower[0] == pytest.approx(truths[wanted].min(), abs=1e-4)
                assert upper[0] == pytest.approx(truths[wanted].max(), abs=1e-4)
        else:
            assert lower[0] == upper[0] == np.clip(value, 0, 1)


def test_a_mean_has_its_own_bounds_and_no_shares() -> None:
    mean = Estimate(("mean",), np.array([9.5]), users=100, own=25.0, reach=20.0, bounds=(-10.0, 10.0))
    lower, upper = mean.interval(0.95)
    assert lower[0] == pytest.approx(9.5 - 1.959964 * 0.5) and upper[0] == 10
    assert mean.standard_error[0] == 0.5
    with pytest.raises(InvalidParameter, match="shares"):
        mean.simplex()


@pytest.mark.parametrize("seed", range(8))
def test_projected_shares_are_the_nearest_point_of_the_simplex(seed: int) -> None:
    values = np.sin(np.arange(1, 7) * (seed + 1.7)) * 0.6 + 0.1
    whole = Estimate(tuple(range(6)), values, users=9, own=1.0, reach=1.0, whole=True).simplex().values
    sums: Any = {"type": "eq", "fun": lambda x: x.sum() - 1}
    minimize: Any = optimize.minimize  # its overloads know no constraints as dicts of Any
    found = minimize(
        lambda x: ((x - values) ** 2).sum(),
        np.full(6, 1 / 6),
        bounds=[(0.0, 1.0)] * 6,
        constraints=[sums],
        options={"ftol": 1e-14},
    )
    assert whole.min() >= 0 and whole.sum() == pytest.approx(1)
    assert np.abs(whole - found.x).max() < 1e-5


def test_shares_of_some_labels_need_not_sum_to_one() -> None:
    some = Estimate(("a", "b"), np.array([0.2, -0.1]), users=9, own=1.0, reach=1.0)
    assert some.simplex().values.tolist() == [0.2, 0.0]
    many = Estimate(("a", "b"), np.array([0.9, 0.5]), users=9, own=1.0, reach=1.0)
    assert many.simplex().values == pytest.approx([0.7, 0.3])


def test_an_estimate_is_a_table_and_a_sequence() -> None:
    oracle = UnaryEncoding(["red", "blue"], epsilon=50)
    estimate = oracle.estimate(oracle.randomize(["red"] * 3 + ["blue"]), domain=["blue", "red"])
    assert len(estimate) == 2 and [label for label, _ in estimate] == ["blue", "red"]
    assert repr(estimate).startswith("Estimate from 4 reports\nlabel") and "blue" in repr(estimate)
    assert "share" in repr(estimate.simplex()) and len(estimate.simplex()) == 2
    assert [label for label, _ in estimate.simplex()] == ["blue", "red"]
    with pytest.raises(ValueError, match="read-only"):
        estimate.values[0] = 1
    assert "… 80 more" in repr(UnaryEncoding(100, epsilon=1).estimate([UnaryEncoding(100, epsilon=1).randomize(1)]))


def test_hadamard_bounds_the_share_of_a_block_and_says_what_that_leaves_open() -> None:
    oracle = Hadamard(64, epsilon=4)
    estimate = oracle.estimate(oracle.randomize(np.zeros(40_000, dtype=np.int64)))
    worst = float(oracle.scores.variance(0))  # type: ignore[arg-type]  # an integer share does as well
    assert estimate.slack == 1e-30 and estimate.other.max() == pytest.approx(worst, rel=0.2)
    assert estimate.other.min() < worst / 4  # nobody is in most blocks
    with pytest.raises(InvalidParameter, match="confidence must be at most"):
        estimate.proven_interval("0." + "9" * 40)
    assert estimate.proven_interval(1 - 1e-9)[0][0] > 0.8


@pytest.mark.parametrize("bad", [0, 1, 1.5, math.nan, "x", True])
def test_an_impossible_confidence_is_refused(bad: float) -> None:
    estimate = Estimate(("x",), np.array([0.5]), users=9, own=1.0, reach=1.0)
    for call in (estimate.interval, estimate.proven_interval):
        with pytest.raises(InvalidParameter, match="confidence"):
            call(bad)


def test_an_estimate_has_a_value_for_each_label() -> None:
    with pytest.raises(InvalidParameter, match="as many values"):
        Estimate(("x", "y"), np.array([0.5]), users=9, own=1.0, reach=1.0)
