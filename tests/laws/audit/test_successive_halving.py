"""Tests of several pairs: successive halving gives the promising ones the samples, and all together have one error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from discreet.audit.claim import Claim, Promises
from discreet.audit.evidence.betting import Cuts, Wealth
from discreet.audit.search import successive_halving
from discreet.audit.sequential_test import SequentialTest

CLAIM = 0.1


class Coin:
    """Ones with a chance."""

    def __init__(self, chance: float, seed: int) -> None:
        self.chance, self._random = chance, np.random.default_rng(seed)

    def draw(self, n: int) -> NDArray[np.int64]:
        """n coins."""
        return (self._random.random(n) < self.chance).astype(np.int64)


def pair(epsilon: float, seed: int, *, samples: int = 8000, error: float = 1e-6, more: int = 31) -> SequentialTest:
    """The test of two coins whose ε is this."""
    return SequentialTest(
        Coin(0.5, 2 * seed),
        Coin(0.5 * math.exp(-epsilon), 2 * seed + 1),
        Claim.of(CLAIM),
        error=error,
        samples=samples,
        more=more * samples,
        effort=0,
    )


def test_the_most_promising_test_goes_on_wherever_it_stands() -> None:
    for seed in range(3):
        # Worth three standard deviations in 8,000 samples; the others have nothing to spare, or much.
        sequential_tests = [pair(e, 10 * seed + k) for k, e in enumerate((CLAIM, 0.0, 0.05, 0.17))]
        successive_halving(sequential_tests)
        assert [sequential_test.refuted for sequential_test in sequential_tests] == [False, False, False, True]
        assert sequential_tests[1].spent == sequential_tests[2].spent == 8000


def test_one_that_is_clear_is_not_kept_waiting() -> None:
    sequential_tests = [pair(e, 100 + k) for k, e in enumerate((0.25, 0.0))]
    successive_halving(sequential_tests)
    assert sequential_tests[0].refuted
    assert sequential_tests[1].spent == 0


def test_tests_without_hope_are_given_up() -> None:
    spent = []
    for seed in range(5):
        sequential_tests = [pair(CLAIM, 200 + 10 * seed + k) for k in range(3)]
        successive_halving(sequential_tests)
        assert not any(sequential_test.refuted for sequential_test in sequential_tests)
        spent.append(sum(sequential_test.spent for sequential_test in sequential_tests))
    assert 3 * 8000 <= np.mean(spent) < 3 * 8 * 8000


def test_a_test_that_began_goes_on_where_it_was() -> None:
    sequential_test = pair(0.17, 300)
    assert sequential_test.begin().spent == 8000
    assert sequential_test.begin().spent == 8000, "there is nothing left to begin"
    assert sequential_test.run(least=-math.inf).spent > 8000
    assert sequential_test.refuted
    spent = sequential_test.spent
    assert sequential_test.run().spent == spent, "it is over"


def test_a_race_that_is_over_keeps_no_outputs() -> None:
    sequential_tests = [pair(CLAIM, 400 + k) for k in range(3)]
    for sequential_test in sequential_tests:
        assert len(sequential_test.begin()._past) > 0
    successive_halving(sequential_tests)
    assert [len(sequential_test._past) for sequential_test in sequential_tests] == [0, 0, 0]


def test_what_a_bet_has_won_is_what_its_event_shows() -> None:
    rng = np.random.default_rng(1)
    p, q = rng.integers(0, 5, 3000), rng.integers(0, 4, 3000)
    cuts = Cuts.through(p.astype(np.float64), q.astype(np.float64))
    bins = [(cuts.bins(p.astype(np.float64)), cuts.bins(q.astype(np.float64)))]
    cuts.add(*bins[0])
    bets = Wealth(Promises.of(Claim.of(CLAIM)), 0.01).plan([cuts])
    won, variance = bets.won(bins)
    # A four is seen under p alone: the event of the largest mean in standard deviations is "above some number".
    above = float(cuts.at[int(bets.cut[-1])])
    likely, rare = (p > above), (q > above)
    if bets.other[-1]:
        likely, rare = ~(q > above), ~(p > above)
    z = likely.astype(np.float64) - math.exp(CLAIM) * rare
    assert won == pytest.approx(z.sum(), rel=1e-9)
    assert variance == pytest.approx(3000 * (likely.var() + math.exp(2 * CLAIM) * rare.var()), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "wrong"), [(CLAIM, False), (1.0, True)])
def test_a_race_that_always_goes_on_accuses_no_more_often_than_stated(
    monkeypatch: pytest.MonkeyPatch, epsilon: float, wrong: bool
) -> None:
    monkeypatch.setattr("discreet.audit.sequential_test._PROMISING", -math.inf)
    monkeypatch.setattr("discreet.audit.sequential_test._ODDS", math.inf)
    monkeypatch.setattr("discreet.audit.search._HOPEFUL", (-math.inf, -math.inf))
    monkeypatch.setattr(Wealth, "needed", lambda wealth, past: 0)
    error, races, accused = 0.3, 30, 0
    for k in range(races):
        sequential_tests = [pair(epsilon, 1000 + 4 * k + j, samples=300, error=error / 3, more=2) for j in range(3)]
        successive_halving(sequential_tests)
        accused += any(sequential_test.refuted for sequential_test in sequential_tests)
    assert bool(binom.sf(accused - 1, races, error) < 1e-9) is wrong
