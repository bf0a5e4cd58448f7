"""`distinguish`: broken claims are found, kept ones are not accused, whatever comes out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.audit import Audit, Claim
from discreet.audit.evidence.betting import Bets, Cuts, Wealth
from discreet.audit.outputs.shape import Batch
from discreet.audit.sequential import distinguish, longest_call
from discreet.audit.sequential_test import OutputSource, SequentialTest
from discreet.errors import InvalidParameter
from discreet.privacy.guarantee import Budget

FALSE_ALARM = 1e-9
GRID = 2.0**-20


class Tape:
    """A source of numbers that needs no mechanism."""

    def __init__(self, law: Callable[[np.random.Generator, int], NDArray[Any]], seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.law = law

    def draw(self, n: int) -> Batch:
        return self.law(self.rng, n)


def response(chance: float, seed: int) -> OutputSource:
    """Yes with a chance."""
    return Tape(lambda rng, n: (rng.random(n) < chance).astype(np.float64), seed)


def laplace(scale: float, seed: int = 0) -> Callable[..., object]:
    """Noise on a grid, so that no bits leak."""
    rng = np.random.default_rng(seed)
    return lambda x, n: x + np.round(rng.laplace(0, scale, n) / GRID) * GRID


def flipped(epsilon: float, audits: int, samples: int, error: float, claimed: Budget | float) -> list[Audit]:
    """Audits of randomised response."""
    truth = 1 / (1 + math.exp(-epsilon))
    return [
        SequentialTest(
            response(truth, 2 * k),
            response(1 - truth, 2 * k + 1),
            Claim.of(claimed),
            error=error,
            samples=samples,
            until="end",
            effort=0,
        )
        .run()
        .audit("randomised response", 1, 0)
        for k in range(audits)
    ]


def few(count: int, of: int, error: float) -> bool:
    """Whether so many errors are compatible with the stated chance."""
    return bool(stats.binom.sf(count - 1, of, error) > FALSE_ALARM)


@pytest.mark.parametrize(("epsilon", "audits"), [(1.0, 40), pytest.param(0.2, 200, marks=pytest.mark.slow)])
def test_a_claim_at_its_limit_is_accused_no_more_often_than_stated(epsilon: float, audits: int) -> None:
    error = 0.1
    found = flipped(epsilon, audits, 2000, error, epsilon)
    assert few(sum(a.violated for a in found), audits, error)
    assert few(sum(a.epsilon_lower > epsilon for a in found), audits, error)
    assert few(sum(a.delta_lower > 0 for a in found), audits, error)
    truth = 1 / (1 + math.exp(-epsilon))
    covered = [
        # The event is "yes" or "no" under either neighbour: which one the samples decide.
        a.witness is not None
        and any(a.witness.under_x.low <= chance <= a.witness.under_x.high for chance in (truth, 1 - truth))
        for a in found
    ]
    assert few(covered.count(False), audits, error)
    # The bounds are near the truth, and the claim one step below it is refuted.
    assert np.median([a.epsilon_lower for a in found]) > 0.6 * epsilon


def test_a_smaller_claim_than_the_truth_is_refuted_and_delta_is_bounded() -> None:
    epsilon, claimed = 1.2, 1.0
    for a in flipped(epsilon, 5, 20_000, 1e-3, claimed):
        assert a.violated
        assert claimed <= a.epsilon_lower <= epsilon
        p = 1 / (1 + math.exp(-epsilon))
        delta = p - math.e * (1 - p)
        assert 0.5 * delta < a.delta_lower <= delta
        assert a.samples == 40_000
        assert a.witness is not None
        assert a.witness.epsilon <= epsilon
        assert a.tradeoff is not None
        assert np.any(a.tradeoff.beta_high < a.tradeoff.claimed)


def test_the_lower_bound_of_a_million_samples_is_within_three_per_cent() -> None:
    audit = distinguish(laplace(1), 0.0, 1.0, 1, samples=400_000, error=0.05, probes=False, until="end")
    assert not audit.violated
    assert 0.97 < audit.epsilon_lower <= 1
    assert audit.power is not None
    assert 1 < audit.power.epsilon < 1.05


def test_it_stops_as_soon_as_it_is_sure() -> None:
    audit = distinguish(laplace(0.5), 0.0, 1.0, 1, samples=1_000_000, probes=False)
    assert audit.violated
    assert audit.samples < 50_000
    assert 1 <= audit.epsilon_lower < 2
    assert audit.witness is not None
    assert 1 < audit.witness.epsilon < 2
    assert {audit.witness.x, audit.witness.x_neighbour} == {0.0, 1.0}
    assert audit.witness.under_x.low > audit.witness.under_neighbour.high


def test_events_that_pick_out_single_training_samples_do_not_accuse() -> None:
    # Each output is new: a score that learned the training outputs by heart separates them and nothing else.
    rng = np.random.default_rng(5)
    audit = distinguish(lambda x, n: rng.random((n, 2)), 0, 1, 0.1, samples=6000, error=0.01, probes=False)
    assert not audit.violated
    assert audit.epsilon_lower < 0.1


def test_bets_are_placed_before_the_samples_on_which_they_are_settled_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    placed: dict[int, int] = {}
    batches: list[int] = []
    plan, settle = Wealth.plan, Wealth.settle

    def planning(self: Wealth, past: Sequence[Cuts]) -> Bets:
        bets = plan(self, past)
        placed[id(bets)] = sequential_test.spent
        kept.append(bets)  # so that no other one gets its number
        assert past[0].n <= sequential_test.spent
        return bets

    def settling(self: Wealth, bets: Bets, bins: Sequence[Any], *, left: int | None = None) -> None:
        assert placed[id(bets)] + len(bins[0][0]) == sequential_test.spent
        assert all(cuts.n <= placed[id(bets)] for cuts in sequential_test.counts)
        batches.append(len(bins[0][0]))
        settle(self, bets, bins, left=left)

    kept: list[Bets] = []
    monkeypatch.setattr(Wealth, "plan", planning)
    monkeypatch.setattr(Wealth, "settle", settling)
    sequential_test = SequentialTest(
        response(0.6, 1), response(0.4, 2), Claim.of(1), error=0.01, samples=10_000, until="end", effort=0
    )
    sequential_test.run()
    assert sum(batches) == 10_000 - 500  # all but the first batch, which only trains


def test_an_output_that_only_one_neighbour_has_refutes_any_claim() -> None:
    rng = np.random.default_rng(6)
    audit = distinguish(lambda x: "leak" if x and rng.random() < 0.02 else "fine", 0, 1, 2, samples=20_000, until="end")
    assert audit.violated
    assert audit.epsilon_lower > 2
    assert audit.witness is not None
    assert "leak" in audit.witness.event
    assert audit.witness.x == 1
    assert 0.005 < audit.delta_lower <= 0.02 * 1.0001


def test_a_delta_that_was_claimed_is_not_held_against_a_mechanism() -> None:
    def mechanism(x: int, n: int) -> NDArray[np.float64]:
        return np.where(rng.random(n) < 0.02, 7.0 * x, 1.0)

    rng = np.random.default_rng(7)
    assert not distinguish(mechanism, 0, 1, Budget(0.1, 0.02), samples=50_000, probes=False).violated
    assert distinguish(mechanism, 0, 1, Budget(0.1, 0.01), samples=50_000, probes=False).violated


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_both_orders_of_the_neighbours_are_tested(order: tuple[int, int]) -> None:
    # Rare under one of the two: only the ratio of that order breaks the claim.
    rng = np.random.default_rng(8)
    chance = (0.001, 0.04)
    audit = distinguish(lambda x, n: rng.random(n) < chance[x], *order, 2, samples=40_000, probes=False)
    assert audit.violated
    assert audit.witness is not None
    assert audit.witness.x == 1


def test_exceptions_and_constants_are_outputs() -> None:
    audit = distinguish(lambda x: 1 // x, 0, 1, 1, samples=2000, probes=False)
    assert audit.violated
    assert audit.witness is not None
    assert any("ZeroDivisionError" in note for note in audit.notes)
    audit = distinguish(lambda x: "same", 0, 1, 1, samples=2000, probes=False)
    assert not audit.violated
    assert audit.epsilon_lower == audit.delta_lower == 0
    assert any("same output" in note for note in audit.notes)
    audit = distinguish(lambda x, n: np.full(n, np.nan), 0, 1, 1, samples=2000, probes=False)
    assert not audit.violated


def test_a_whole_curve_is_a_claim() -> None:
    claim = Claim(tuple((e, _normal(e)) for e in (3.0, 1.0, 0.0)), "1-GDP")
    for shift, broken in ((1.0, False), (1.15, True)):
        sequential_test = SequentialTest(
            Tape(lambda rng, n, s=shift: np.round(rng.normal(s, 1, n), 3), 1),  # type: ignore[misc]
            Tape(lambda rng, n: np.round(rng.normal(0, 1, n), 3), 2),
            claim,
            error=1e-3,
            samples=100_000,
        ).run()
        assert sequential_test.refuted == broken


def _normal(epsilon: float) -> float:
    """δ(ε) of two normal laws a unit apart. Balle, Wang 2018, Theorem 8, https://arxiv.org/abs/1805.06530"""
    return float(stats.norm.cdf(0.5 - epsilon) - math.exp(epsilon) * stats.norm.cdf(-0.5 - epsilon))


def test_a_limit_on_time_is_kept_and_said() -> None:
    rng = np.random.default_rng(9)

    def slow(x: float) -> float:
        time.sleep(0.001)
        return float(x + round(rng.laplace(0, 1) * 64) / 64)

    begin = time.monotonic()
    audit = distinguish(slow, 0.0, 1.0, 1, seconds=1, probes=False, error=FALSE_ALARM)
    assert time.monotonic() - begin < 4
    assert not audit.violated
    assert 50 < audit.samples < 4000
    assert audit.limit == 1
    assert "about 1 s were allowed" in str(audit)


def test_the_lower_bound_goes_on_to_rarer_events_of_a_larger_ratio() -> None:
    # 30 % against 25 % refutes ε = 0.1; 2 % against 1 % shows log 2 in the end.
    first, second = (
        Tape(lambda rng, n, c=chances: rng.choice(3, n, p=c).astype(np.float64), seed)  # type: ignore[misc]
        for seed, chances in ((1, [0.68, 0.3, 0.02]), (2, [0.74, 0.25, 0.01]))
    )
    sequential_test = SequentialTest(first, second, Claim.of(0.1), error=1e-3, samples=100_000, until="end").run()
    assert sequential_test.refuted
    assert 0.5 < sequential_test.epsilon_lower <= math.log(2)


def test_samples_that_were_drawn_before_only_train() -> None:
    first, second = response(0.9, 1), response(0.1, 2)
    sequential_test = SequentialTest(
        first, second, Claim.of(1), error=1e-3, samples=500, until="end", began=(first.draw(1000), second.draw(1000))
    ).run()
    assert sequential_test.spent == 500
    assert sequential_test.refuted


@pytest.mark.parametrize("samples", [2, 7, 101])
def test_a_handful_of_samples_is_no_error(samples: int) -> None:
    audit = distinguish(laplace(1), 0.0, 1.0, 1, samples=samples, probes=False)
    assert audit.samples == 2 * samples
    assert not audit.violated


@pytest.mark.parametrize(
    "wrong",
    [
        {"samples": 0},
        {"samples": 1.5},
        {"samples": True},
        {"seconds": 0},
        {"seconds": math.inf},
        {"error": 0},
        {"error": 0.6},
        {"until": "ever"},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        distinguish(laplace(1), 0.0, 1.0, 1, **wrong)


def test_a_mechanism_that_hangs_is_refused_within_the_time_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [longest_call(x) for x in (None, 1.0, 20.0, 900.0)] == [60, 5, 20, 60]
    monkeypatch.setattr("discreet.audit.sequential.longest_call", lambda seconds: 0.1 * seconds)

    def hangs(x: int) -> int:
        time.sleep(3600)
        return x

    with pytest.raises(InvalidParameter, match=r"did not return within 0\.1 seconds"):
        distinguish(hangs, 0, 1, Budget(1), seconds=1)
