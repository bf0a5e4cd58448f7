"""Counts that a limit on time cannot choose, and witnesses that a reader can check."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv

from discreet.audit.evidence.betting import Cuts
from discreet.audit.evidence.intervals import clopper_pearson
from discreet.audit.learned import clearest
from discreet.audit.sequential import distinguish
from discreet.audit.sequential_test import Fresh


def bits(n: int) -> Cuts:
    return Cuts(np.array([0.5]), 0, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))


def test_without_a_limit_on_time_every_pair_counts() -> None:
    fresh = Fresh([bits(1)], 100, timed=False)
    for n in (7, 30):
        fresh.add([(np.ones(n, dtype=np.intp), np.zeros(n, dtype=np.intp))])
    (counts,) = fresh.counts
    assert (counts.n, int(counts.p[0]), int(counts.q[0]), fresh.share) == (37, 37, 0, 1.0)


def test_with_one_only_sixteenths_of_what_was_expected_are_shown() -> None:
    random = np.random.default_rng(0)
    p, q = random.integers(0, 2, 400), random.integers(0, 2, 400)
    fresh = Fresh([bits(1)], 320, timed=True)
    shown, drawn = [], 0
    for n in (5, 14, 1, 100, 33, 200, 47):
        fresh.add([(p[drawn : drawn + n], q[drawn : drawn + n])])
        drawn += n
        (counts,) = fresh.counts
        shown.append(counts.n)
        assert (int(counts.p[0]), int(counts.q[0])) == (p[: counts.n].sum(), q[: counts.n].sum())
    assert shown == [0, 0, 20, 120, 140, 320, 320]
    assert fresh.share == 1 / 16


def test_a_stop_that_follows_the_outcomes_does_not_push_the_interval_off() -> None:
    # Stops where the interval is highest: that of all samples until then misses far too often.
    random = np.random.default_rng(1)
    error, missed, naive, runs, n = 0.05, 0, 0, 2000, 320
    for _ in range(runs):
        hits = np.cumsum(random.random(n) < 0.1)
        ends = np.where(hits > 0, betaincinv(np.maximum(hits, 1), np.arange(1, n + 1) - hits + 1, error / 2), 0)
        stop = 1 + int(np.argmax(ends))
        fresh = Fresh([bits(1)], n, timed=True)
        bins = np.diff(hits, prepend=0)[:stop]
        fresh.add([(bins, bins)])
        (counts,) = fresh.counts
        missed += clopper_pearson(int(counts.p[0]), counts.n, error * fresh.share)[0] > 0.1
        naive += ends.max() > 0.1
    assert naive > 3 * runs * error / 2  # such a stop does harm
    assert missed < runs * error / 2 + 6 * np.sqrt(runs * error / 2)


def test_the_plainest_event_is_taken_of_those_that_are_nearly_as_good() -> None:
    def cuts(p: int, q: int) -> Cuts:
        return Cuts(np.array([0.5]), 10_000, np.array([p]), np.array([q]))

    past = [cuts(5000, 1000), cuts(5000, 950), cuts(5000, 200)]
    assert clearest(past[:2], 0.0, 10_000, 1e-3, plain=(0, 3)).score == 0
    assert clearest(past[:2], 0.0, 10_000, 1e-3).score == 1
    assert clearest(past, 0.0, 10_000, 1e-3, plain=(0, 1, 3)).score == 2  # far better
    # An event that does not exceed the claim is no witness where another one does.
    assert clearest(past[:2], 0.0, 10_000, 1e-3, epsilon=1.43, plain=(0, 3)).score == 1


def test_the_witness_against_float_laplace_is_its_law_or_its_lowest_bit() -> None:
    random = np.random.default_rng(3)
    for claimed, cause, event in ((0.5, "law", "output (grid 2^-"), (1.0, "bits", "lowest bit of output")):
        audit = distinguish(
            lambda x, n=1: x + random.laplace(size=n), 0, 1, claimed=claimed, samples=20_000, probes=False
        )
        assert audit.violated and audit.cause == cause
        assert audit.witness is not None
        assert event in audit.witness.event


def test_the_complement_of_an_interval_is_put_into_words_as_intervals() -> None:
    random = np.random.default_rng(4)

    def mechanism(x: float, n: int = 1) -> object:
        return np.clip(np.round(x + 64 * random.laplace(size=n)), -20, 20 - 4 * x)

    for order in ((0, 1), (1, 0)):
        audit = distinguish(mechanism, *order, claimed=1, samples=5000, probes=False)
        assert audit.violated
        assert audit.witness is not None
        assert "not" not in audit.witness.event


def test_the_bound_does_not_stay_behind_a_verdict_that_comes_early() -> None:
    # The true ε is infinite; the samples after the verdict, from which the witness is counted, are bet on as well.
    bounds = []
    for seed in range(3):
        random = np.random.default_rng(seed)
        audit = distinguish(
            lambda x, n=1: np.clip(np.round(64 * (x + random.laplace(size=n))), 64 * (x - 3), 64 * (x + 3)),  # noqa: B023
            0,
            1,
            claimed=1,
            samples=50_000,
            probes=False,
        )
        bounds.append(audit.epsilon_lower)
    assert np.mean(bounds) > 3.0
