"""Wealth, bounds and intervals: true promises are not refuted beyond the stated error, false ones are."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from discreet.audit.claim import Claim, Promises
from discreet.audit.evidence.betting import Bets, Cuts, Wealth
from discreet.audit.evidence.intervals import clopper_pearson, tradeoff_high
from discreet.audit.finding import Chance
from discreet.audit.learned import ScoreEvent, chances, clearest, epsilon_of, shown, tradeoff
from discreet.audit.result import Power, likeliest
from discreet.privacy.guarantee import Budget
from tests.coverage import covers

FALSE_ALARM = 1e-9


def promises(*points: tuple[float, float], rows: int = 1) -> Promises:
    """The same promises again and again, each its own anchor; the first one is the claim."""
    epsilons = np.array([e for e, _ in points for _ in range(rows)])
    deltas = np.array([d for _, d in points for _ in range(rows)])
    every, none = np.arange(len(epsilons)), np.full(len(epsilons), -1)
    return Promises(epsilons, deltas, every[:1], every, every[:0], every, epsilons, deltas, none)


def one_bet(epsilon: float, delta: float, p: float, q: float, n: int, rows: int) -> Bets:
    """Bets on the same event for many audits at once, each with its own samples (its own score)."""
    full = np.full
    grown = math.exp(epsilon) * (1 + 1e-15)
    edge = (p - grown * q - delta) / math.sqrt(p * (1 - p) + grown**2 * q * (1 - q))
    return Bets(
        np.arange(rows),
        np.zeros(rows, dtype=np.intp),
        np.zeros(rows, dtype=np.bool_),
        full(rows, grown),
        full(rows, delta),
        full(rows, p),
        full(rows, q),
        n,
        full(rows, max(edge, 0.02)),
        full(rows, 0.5 / grown),
        full(rows, edge),
    )


def rejections(bets: Bets, epsilon: float, p: float, q: float, n: int, error: float, seed: int) -> int:
    """How many of many audits, n fresh pairs each, refute a promise."""
    rows = len(bets.score) - 1
    rng = np.random.default_rng(seed)
    wealth = Wealth(promises((epsilon, 0.0), rows=rows), error)
    part = n // 4
    for k in range(4):
        bins = [
            ((rng.random(part) < p).astype(np.intp), (rng.random(part) < q).astype(np.intp)) for _ in range(rows + 1)
        ]
        wealth.settle(bets, bins, left=n - (k + 1) * part)
    return int(wealth.refuted.sum())


@pytest.mark.laws
@pytest.mark.parametrize(
    ("epsilon", "p", "n"), [(0.1, 0.525, 400), (1.0, 0.73, 400), (3.0, 0.95, 400), (1.0, 0.02, 2000)]
)
def test_true_promises_at_their_limit_are_refuted_no_more_often_than_the_stated_error(
    epsilon: float, p: float, n: int
) -> None:
    audits, error = 1500, 0.05
    q = p / math.exp(epsilon)
    bets = one_bet(epsilon, 0.0, p, q, n, audits + 1)
    found = rejections(bets, epsilon, p, q, n, error, seed=int(1000 * epsilon * p))
    assert stats.binom.sf(found - 1, audits, error) > FALSE_ALARM
    assert found > 0  # a test that never refutes would be no test: the chance is near 5 %


def test_a_wealth_that_forgets_the_growth_of_the_claim_is_caught() -> None:
    audits, error, epsilon, p = 1500, 0.05, 0.1, 0.525
    q = p / math.exp(epsilon)
    right = one_bet(epsilon, 0.0, p, q, 400, audits + 1)
    # With four fifths of ε and more samples; and without e^ε at all.
    near = replace(right, grown=np.full(audits + 1, math.exp(0.8 * epsilon)))
    far = replace(right, grown=np.ones(audits + 1))
    for wrong, n in ((near, 4000), (far, 400)):
        found = rejections(wrong, epsilon, p, q, n, error, seed=4)
        assert stats.binom.sf(found - 1, audits, error) < FALSE_ALARM


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize(("epsilon", "delta", "q"), [(0.5, 0.0, 0.3), (0.5, 0.1, 0.3), (2.0, 0.02, 0.1)])
@pytest.mark.parametrize("aim", [True, False])
@pytest.mark.parametrize("other", [False, True])
def test_the_expected_wealth_of_a_true_promise_is_at_most_one(
    epsilon: float, delta: float, q: float, aim: bool, other: bool
) -> None:
    # All 4^3 outcomes of three pairs, in two batches; the second batch bets on what the first one showed.
    p = math.exp(epsilon) * q + delta
    past = 20, 0
    if other:  # the same for the complement and the other order
        p, q, past = 1 - q, 1 - p, (30, 10)
    pair_chance = {(a, b): (p if a else 1 - p) * (q if b else 1 - q) for a in (0, 1) for b in (0, 1)}
    mean = refuted = total = 0.0
    error = 0.2
    for outcome in itertools.product(pair_chance, repeat=3):
        chance = math.prod(pair_chance[pair] for pair in outcome)
        cuts = Cuts(np.array([0.0, 1.0]), 30, np.array([past[0], 0]), np.array([past[1], 0]))
        wealth = Wealth(promises((epsilon, delta)), error)
        for k, part in enumerate((outcome[:2], outcome[2:])):
            bets = wealth.plan([cuts])
            assert bets.other[0] == other or k > 0
            a, b = np.array(part).T + 0
            wealth.settle(bets, [(a, b)], left=1 - k if aim else None)
            cuts.add(a, b)
        total += chance
        mean += chance * math.exp(wealth.log_wealth[0])
        refuted += chance * bool(wealth.refuted[0])
    assert total == pytest.approx(1)
    assert mean <= 1
    assert mean > 0.98  # at the limit of the promise little is given away: rounding, and bets on the other event
    assert refuted <= error


def test_the_wealth_of_a_broken_promise_grows() -> None:
    # The same enumeration with P further from Q than the promise says.
    epsilon, p, q = 0.1, 0.8, 0.2
    mean = 0.0
    for outcome in itertools.product((0, 1), repeat=4):
        a, b = np.array(outcome[:2]), np.array(outcome[2:])
        chance = math.prod(p if x else 1 - p for x in a) * math.prod(q if x else 1 - q for x in b)
        wealth = Wealth(promises((epsilon, 0.0)), 0.001)
        bets = wealth.plan([Cuts(np.array([0.0]), 100, np.array([80]), np.array([20]))])
        wealth.settle(bets, [(a, b)])
        mean += chance * wealth.log_wealth[0]
    assert mean > 0.1


def test_both_orders_and_all_points_of_a_claim_are_tested() -> None:
    rng = np.random.default_rng(3)
    n = 4000
    # The event breaks the promise under the first neighbour, then its complement under the second one.
    for p, q in ((0.5, 0.05), (0.95, 0.5)):
        a, b = ((rng.random(n) < chance).astype(np.intp) for chance in (p, q))
        # The first point is true, the second one is false.
        claim = Claim(((3.0, 0.0), (1.0, 0.05)), "two points")
        wealth = Wealth(Promises.of(claim), 1e-3)
        past = Cuts(np.array([0.0]), 100, np.array([round(100 * p)]), np.array([round(100 * q)]))
        wealth.settle(wealth.plan([past]), [(a, b)])
        assert wealth.claim_refuted
        assert not wealth.refuted[wealth.promises.claimed[0]]
        assert wealth.refuted[wealth.promises.claimed[1]]


@pytest.mark.parametrize(
    ("common", "rare", "chosen"), [(18_190, (22, 8), 1), (18_190, (40, 2), 2), (16_000, (16, 8), 0)]
)
def test_the_claim_bets_on_what_happened_often_unless_something_rare_is_sure(
    common: int, rare: tuple[int, int], chosen: int
) -> None:
    """Three events: a common one that is sure for a smaller ε, one of a hundredth, and one of a few hits."""
    wealth = Wealth(Promises.of(Claim.of(Budget(0.2))), 1e-3)
    hits = ((22_000, common), (1000, 760), rare)
    past = [Cuts(np.array([0.0]), 100_000, np.array([p]), np.array([q])) for p, q in hits]
    assert wealth.plan(past).score[-1] == chosen


@pytest.mark.parametrize(("rare", "chosen"), [((16, 5), 0), ((40, 2), 1)])
def test_so_does_a_claim_that_nothing_is_told(rare: tuple[int, int], chosen: int) -> None:
    """ε = 0 has no smaller ε whose event it could take."""
    wealth = Wealth(Promises.of(Claim.of(0.0)), 1e-3)
    past = [Cuts(np.array([0.0]), 100_000, np.array([p]), np.array([q])) for p, q in ((1060, 960), rare)]
    assert wealth.plan(past).score[-1] == chosen


def test_the_bound_on_epsilon_is_the_end_of_the_run_from_zero_on() -> None:
    rows = Promises.of(Claim.of(Budget(1, 1e-3)))
    grid = rows.epsilons[rows.by_epsilon]
    assert grid[0] == 0
    assert 1.0 in grid
    assert np.all(np.diff(grid) > 0)
    assert np.all(rows.deltas[rows.by_epsilon] >= 1e-3)
    refuted = np.zeros(len(rows), dtype=np.bool_)
    assert rows.epsilon_lower(refuted) == 0
    refuted[rows.by_epsilon[:11]] = True
    refuted[rows.by_epsilon[15]] = True  # beyond a gap: does not count
    assert rows.epsilon_lower(refuted) == grid[10]
    refuted[:] = True
    assert rows.epsilon_lower(refuted) == grid[-1]
    assert rows.delta_lower(refuted) == rows.deltas[rows.by_delta[-1]] < 1
    refuted[rows.by_delta[0]] = False
    assert rows.delta_lower(refuted) == 0


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.1, 1.0, 20.0, 700.0])
@pytest.mark.parametrize("delta", [0.0, 1e-12, 0.3, 1.0])
def test_any_claim_has_promises_whose_anchors_come_before_them(epsilon: float, delta: float) -> None:
    rows = Promises.of(Claim(((epsilon, delta), (0.0, 0.5), (2.0, 1e-5)), "three points"))
    assert (rows.epsilons[rows.claimed[0]], rows.deltas[rows.claimed[0]]) == (epsilon, delta)
    assert len(rows.claimed) == 3
    assert np.all(rows.parent < np.arange(len(rows.parent)))
    assert np.all(rows.anchor_epsilons[rows.anchor] <= rows.epsilons)
    assert np.all(rows.anchor_deltas[rows.anchor] <= rows.deltas)
    # Nothing overflows, whatever is seen.
    wealth = Wealth(rows, 1e-3)
    past = Cuts(np.array([0.0]), 50, np.array([50]), np.array([0]))
    for left in (100, None):
        bins = np.ones(100, dtype=np.intp), np.zeros(100, dtype=np.intp)
        wealth.settle(wealth.plan([past]), [bins], left=left)
    assert np.isfinite(wealth.log_wealth).all()
    assert wealth.claim_refuted  # its second point is false
    assert wealth.refuted[rows.claimed[0]] <= (delta < 1 and epsilon < 5)


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (10, 10), (3, 10), (500, 1000), (1, 100_000), (0, 0)])
@pytest.mark.parametrize("error", [0.05, 1e-6])
def test_clopper_pearson_is_that_of_scipy(hits: int, n: int, error: float) -> None:
    low, high = clopper_pearson(hits, n, error)
    if n == 0:
        assert (low, high) == (0, 1)
        return
    truth = stats.binomtest(hits, n).proportion_ci(1 - error, method="exact")
    assert low == pytest.approx(truth.low, rel=1e-6)
    assert high == pytest.approx(truth.high, rel=1e-6)
    # By its definition: at either end the seen count, or one further out, has a chance of error/2 at most.
    if hits:
        assert stats.binom.sf(hits - 1, n, low) <= error / 2 * (1 + 1e-9)
    if hits < n:
        assert stats.binom.cdf(hits, n, high) <= error / 2 * (1 + 1e-9)


def test_the_chances_of_a_complement_are_those_of_the_other_order() -> None:
    fresh = Cuts(np.array([0.0]), 100, np.array([20]), np.array([90]))
    likely, rare = chances(ScoreEvent(0, 0, True), fresh, 0.01)
    assert (likely.hits, rare.hits) == (10, 80) or (likely.hits, rare.hits) == (80, 10)
    likely, rare = chances(ScoreEvent(0, 0, False), fresh, 0.01)
    assert (likely.hits, rare.hits) == (20, 90)
    assert likely.low < 0.2 < likely.high


def test_the_clearest_event_is_the_one_whose_intervals_leave_most() -> None:
    p, q = np.array([90_000, 30_000, 2000]), np.array([60_000, 10_000, 100])
    cuts = Cuts(np.array([0.0, 1.0, 2.0]), 100_000, p, q)
    # With many samples the rarest event, of ratio 20; with fewer those of ratio 3 and (the complement) 4.
    assert clearest([cuts], 0.0, 100_000, 1e-3) == ScoreEvent(0, 2, False)
    assert clearest([cuts], 0.0, 300, 1e-3) == ScoreEvent(0, 0, True)
    assert clearest([cuts], 0.0, 0, 1e-3).score == 0
    useless = Cuts(np.array([0.0]), 1000, np.array([500]), np.array([500]))
    assert clearest([useless, cuts], 0.1, 100_000, 1e-3).score == 1


def test_the_epsilon_of_two_intervals_is_what_they_leave_for_sure() -> None:
    likely, rare = Chance(60, 100, 0.5, 0.7), Chance(10, 100, 0.05, 0.2)
    assert epsilon_of(likely, rare, 0.0) == pytest.approx(math.log(2.5))
    assert epsilon_of(likely, rare, 0.1) == pytest.approx(math.log(2))
    assert epsilon_of(likely, rare, 0.5) == 0
    assert epsilon_of(rare, likely, 0.0) == 0


def test_the_band_of_the_trade_off_covers_the_truth_at_all_points_at_once() -> None:
    # Two normal laws a unit apart: the truth is Φ(Φ⁻¹(1 − α) − 1).
    alpha = np.linspace(0, 1, 201)
    truth = stats.norm.cdf(stats.norm.ppf(1 - alpha) - 1)
    cuts, n, error, runs = np.linspace(-3, 4, 60), 2000, 0.1, 200
    rng = np.random.default_rng(12)
    missed = missed_when_narrow = 0
    for _ in range(runs):
        a, b = rng.normal(1, 1, n), rng.normal(0, 1, n)
        p, q = ((x[:, None] > cuts).sum(0) for x in (a, b))
        beta, high = tradeoff_high(alpha, p, q, n, error)
        assert np.all(beta <= high + 1e-12)
        missed += bool(np.any(high < truth - 1e-9))
        missed_when_narrow += bool(np.any(beta < truth - 1e-9))
    assert covers(runs - missed, runs, 1 - error)
    assert not covers(runs - missed_when_narrow, runs, 1 - error)  # the estimate by itself is no bound


def test_the_band_shows_a_broken_claim() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(2, 1, 20_000), rng.normal(0, 1, 20_000)
    cuts = Cuts.through(a, b)
    cuts.add(cuts.bins(a), cuts.bins(b))
    for other in (False, True):
        curve = tradeoff(ScoreEvent(0, 0, other), cuts, Claim.of(1), 1e-3)
        assert np.any(curve.beta_high < curve.claimed)
        fine = tradeoff(ScoreEvent(0, 0, other), cuts, Claim.of(8), 1e-3)
        assert not np.any(fine.beta_high < fine.claimed)


def test_cuts_count_what_is_above_them_and_put_no_number_lowest() -> None:
    scores = np.array([np.nan, -np.inf, 0.0, 0.0, 1.0, np.inf])
    cuts = Cuts.through(scores, scores[:2])
    assert list(cuts.at) == [-np.inf, 0, 1, np.inf]
    cuts.add(cuts.bins(scores), cuts.bins(scores[:2]))
    assert list(cuts.p) == [4, 2, 1, 0]
    assert list(cuts.q) == [0, 0, 0, 0]
    rng = np.random.default_rng(0)
    many = rng.normal(size=50_000)
    cuts = Cuts.through(many, many)
    assert 100 < len(cuts.at) <= 220
    cuts.add(cuts.bins(many), cuts.bins(-many))
    assert list(cuts.p) == [(many > t).sum() for t in cuts.at]
    assert list(cuts.q) == [(-many > t).sum() for t in cuts.at]


def test_an_epsilon_is_shown_only_when_counts_show_it() -> None:
    cuts = Cuts(np.array([0.0]), 100_000, np.array([60_000]), np.array([20_000]))
    assert math.log(2.9) < shown(cuts, 0.0) < math.log(3)
    assert shown(cuts, 0.7) == pytest.approx(0, abs=1e-9)
    assert shown(Cuts(np.array([0.0]), 0, np.array([0]), np.array([0])), 0.0) == 0


def test_power_grows_with_samples_and_is_infinite_without() -> None:
    found = [Power((1.0, 0.0), 0.5, 1e-3, n, n, 0, 1e-6).epsilon for n in (0, 10, 300, 10_000, 1_000_000)]
    assert found[0] == found[1] == math.inf
    assert found[2] > found[3] > found[4] > 1
    # A test of fixed size for the difference p − e q at level 1e-3 needs z = 3.09 + 0.84 for 80 % power.
    p, n = 0.5, 1_000_000
    q = p * math.exp(-found[4])
    z = (p - math.e * q) / math.sqrt((p * (1 - p) + math.e**2 * q * (1 - q)) / n)
    assert 3.93 < z < 4.5


def test_power_for_delta_is_that_of_a_test_of_fixed_size() -> None:
    power = Power((2.0, 0.01), 0.1, 1e-3, 10**6, 10**6, 0, 1e-6)
    p, q = 0.1 + power.delta - 0.01, 0.09 * math.exp(-2)
    z = (power.delta - 0.01) / math.sqrt((p * (1 - p) + math.exp(4) * q * (1 - q)) / 10**6)
    assert 3.93 < z < 4.5


def test_half_of_a_violation_needs_about_four_times_as_many_samples_and_the_time_for_them() -> None:
    power = Power((1.0, 0.01), 0.3, 1e-3, 80_000, 100_000, 10**6, 1e-5)
    in_delta, in_epsilon = power.unseen
    assert in_delta.delta == pytest.approx((0.01 + power.delta) / 2)
    assert (in_delta.epsilon, in_epsilon.delta) == (1.0, 0.01)
    assert in_epsilon.epsilon == pytest.approx((1 + power.epsilon) / 2)
    for one in power.unseen:
        assert 3 * power.drawn < one.samples < 5 * power.drawn
        assert one.seconds == pytest.approx(1e-5 * one.samples)
    # Where a fifth only teaches, but never more than so many, long tests lose little to it.
    assert power.needs(epsilon=1.0001).samples / power._pairs(*power._larger_epsilon(np.array([1.0001])))[
        0
    ] == pytest.approx(1, rel=0.01)


def test_power_is_judged_by_the_event_that_shows_the_most() -> None:
    common = Cuts(np.array([0.0, 1.0]), 100_000, np.array([50_000, 4]), np.array([20_000, 0]))
    assert likeliest([common], 0.0) == pytest.approx(0.5, abs=1e-4), "four lucky hits are no event to go by"
    same = Cuts(np.array([0.0]), 100_000, np.array([10_000]), np.array([10_050]))
    assert likeliest([same], 0.0) == 0.5
    assert likeliest([], 0.0) == 0.5
