"""The exercises of lecture notes, decided in small worlds; docs/exercises.md works them for a reader."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from statistics import median

import mpmath
import numpy as np
import pytest
from scipy.stats import laplace, norm

import discreet as dp
from discreet.finite import (
    Database,
    Mechanism,
    databases,
    geometric,
    local_sensitivity,
    neighbours,
    sensitivity,
    smooth_sensitivity,
)

F = Fraction


def near(x: int, y: int) -> bool:
    return abs(x - y) == 1


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_no_deterministic_algorithm_is_private_unless_it_is_constant(relation: str) -> None:
    """All of them, for each δ < 1 and each ε: δ = 1 is left."""
    world = databases("ab", 2, relation=relation)
    for answers in itertools.product(range(2), repeat=len(world)):
        M = Mechanism({x: {a: 1} for x, a in zip(world, answers, strict=True)}, neighbours=relation)
        assert M.failure == (len(set(answers)) > 1)
        assert M.ratio(F(999, 1000)) == (None if len(set(answers)) > 1 else 1)


@pytest.mark.parametrize("people", [1, 3, 10])
def test_uniform_noise_leaves_one_eleventh_with_a_witness(people: int) -> None:
    M = Mechanism(lambda n: {n + k: F(1, 11) for k in range(-5, 6)}, inputs=range(people + 1), neighbours=near)
    assert M.failure == F(1, 11)
    # the notes' witness: all zeros never give 6, one 1 gives it with chance 1/11
    assert M.law(0).get(6, 0) == 0
    assert M.law(1)[6] == F(1, 11)
    assert M.ratio("1/12") is None
    assert M.ratio("1/11") == 1
    worst = M.worst()
    assert worst is not None
    assert worst.under_x == F(1, 11)
    assert worst.under_neighbour == 0


def test_the_histograms_sensitivity_is_two_or_one_by_relation() -> None:
    for size in (1, 2, 4):
        assert sensitivity(Counter, universe=range(4), size=size, relation="replace") == 2
        assert sensitivity(Counter, universe=range(4), size=size, relation="add-remove") == 1


@pytest.mark.parametrize("epsilon", ["0.05", "1", "4"])
def test_laplace_noise_on_shifted_intervals_is_within_half_epsilon(epsilon: str) -> None:
    """In closed form at 50 digits; the bound is met for all intervals right of 0, and for none left of −2."""
    with mpmath.workdps(50):
        b = 4 / mpmath.mpf(epsilon)

        def below(y: mpmath.mpf) -> mpmath.mpf:
            return mpmath.exp(y / b) / 2 if y < 0 else 1 - mpmath.exp(-y / b) / 2

        largest = mpmath.exp(mpmath.mpf(epsilon) / 2)
        ends = [mpmath.mpf(k) / 2 for k in range(-12, 13)]
        for low, high in itertools.combinations(ends, 2):
            ratio = (below(high) - below(low)) / (below(high + 2) - below(low + 2))
            assert ratio <= largest * (1 + mpmath.mpf("1e-45"))
            assert abs(ratio / largest - 1) < mpmath.mpf("1e-45") if low >= 0 else ratio < largest


def test_the_laplace_tail_and_variance() -> None:
    """Of the integer noise that is used, summed; and of the continuous one, integrated."""
    for b in (1, 3):
        with mpmath.workdps(30):
            assert (
                abs(
                    2 * mpmath.quad(lambda y, b=b: mpmath.exp(-y / b) / (2 * b), [2, mpmath.inf])
                    - mpmath.exp(-mpmath.mpf(2) / b)
                )
                < 1e-20
            )
            second = 2 * mpmath.quad(lambda y, b=b: y * y * mpmath.exp(-y / b) / (2 * b), [0, b, 10 * b, mpmath.inf])
            assert abs(second - 2 * b * b) < 1e-12
    m = dp.mechanisms.Laplace(epsilon="0.1")
    assert abs(m.error(confidence=0.95) - 10 * math.log(20)) <= 1


def test_the_classical_sigma_is_safe_below_one_wasteful_and_wrong_beyond_seven() -> None:
    for epsilon, delta in itertools.product(("0.1", "0.5", "0.99"), ("1e-9", "1e-5", "0.01")):
        classical = dp.mechanisms.Gaussian(epsilon=epsilon, delta=delta, calibration="classical")
        analytic = dp.mechanisms.Gaussian(epsilon=epsilon, delta=delta)
        assert analytic.sigma < classical.sigma
        mu = 1 / classical.sigma
        e = float(epsilon)
        exact = norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)  # Balle, Wang, Theorem 8
        assert exact < float(delta)
    for epsilon_, broken in ((1, False), (5, False), (8, True), (10, True)):
        mu = epsilon_ / math.sqrt(2 * math.log(1.25 / 0.01))
        exact = norm.cdf(mu / 2 - epsilon_ / mu) - math.exp(epsilon_) * norm.cdf(-mu / 2 - epsilon_ / mu)
        assert (exact > 0.01) == broken


def test_the_laplace_proof_holds_step_by_step() -> None:
    f_x, f_y, epsilon = np.array([3.0, 1, 2]), np.array([2.0, 1, 3]), 0.8
    b = 2 / epsilon
    for z in itertools.product(np.linspace(-4, 8, 7), repeat=3):
        ratio = np.prod(laplace.pdf(z, f_x, b) / laplace.pdf(z, f_y, b))
        first = math.exp((np.abs(f_y - z).sum() - np.abs(f_x - z).sum()) / b)
        assert ratio == pytest.approx(first)
        assert first <= math.exp(np.abs(f_x - f_y).sum() / b) * (1 + 1e-12)
        assert np.abs(f_x - f_y).sum() <= 2


def test_the_gaussian_proof_holds_step_by_step() -> None:
    """P(loss > ε) ≤ δ at the classical σ, and then P(S) ≤ e^ε Q(S) + δ for half-lines and intervals S."""
    for epsilon, delta in itertools.product((0.1, 0.5, 0.99), (1e-8, 1e-4, 0.01)):
        c = math.sqrt(2 * math.log(1.25 / delta))
        sigma = c / epsilon
        assert c >= 1.5
        border = sigma**2 * epsilon - 0.5
        for z in (border - 0.01, border + 0.01):  # the loss is linear in the noise
            loss = norm.logpdf(z, 0, sigma) - norm.logpdf(z, -1, sigma)
            assert loss == pytest.approx((z + 0.5) / sigma**2)
        assert norm.sf(border / sigma) <= delta
        for low, width in itertools.product(np.linspace(-3 * sigma, 6 * sigma, 19), (sigma, np.inf)):
            p = norm.sf(low, 0, sigma) - norm.sf(low + width, 0, sigma)
            q = norm.sf(low, -1, sigma) - norm.sf(low + width, -1, sigma)
            assert p <= math.exp(epsilon) * q + delta


def test_a_small_delta_is_not_a_small_chance_of_a_large_loss() -> None:
    """The notes take P(loss > ε) ≤ δ for the definition; it implies it, and is not implied."""
    M = Mechanism({0: ["0.6", "0.4"], 1: ["0.4", "0.6"]})
    assert M.delta("0.2") < 0.112
    assert M.law(0)[0] == F(3, 5)
    assert math.log(1.5) > 0.2


def test_group_privacy_has_the_notes_bound_for_any_finite_mechanism() -> None:
    M = Mechanism(
        [["0.5", "0.3", "0.2"], ["0.3", "0.5", "0.2"], ["0.3", "0.2", "0.5"], ["0.05", "0.05", "0.9"]],
        neighbours=[(0, 1), (1, 2), (2, 3)],
    )
    for epsilon, t in itertools.product((0.1, 0.4, 0.9), (2, 3)):
        assert M.group(t).delta(t * epsilon) <= t * math.exp(t * epsilon) * M.delta(epsilon) + 1e-15


def test_k_anonymous_tables_fall_to_their_three_attacks() -> None:
    table = [("130**", "2*", "heart"), ("130**", "2*", "viral"), ("130**", "3*", "cancer"), ("130**", "3*", "cancer")]
    groups = Counter(row[:2] for row in table)
    assert min(groups.values()) == 2  # 2-anonymous

    def told(table: list[tuple[str, str, str]], who: tuple[str, str]) -> set[str]:
        return {d for *group, d in table if tuple(group) == who}

    assert told(table, ("130**", "3*")) == {"cancer"}  # homogeneity
    assert told(table, ("130**", "2*")) - {"heart"} == {"viral"}  # background knowledge
    other = [("130**", "2*", "viral"), ("130**", "2*", "stroke")]
    assert told(table, ("130**", "2*")) & told(other, ("130**", "2*")) == {"viral"}  # intersection
    # as a mechanism: two neighbours' tables are never equal
    as_it_is = {x: {x.counts: 1} for x in databases(["cancer", "flu"], 2, relation="replace")}
    assert Mechanism(as_it_is, neighbours="replace").failure == 1


def test_whoever_knows_all_others_learns_at_most_the_odds_of_epsilon() -> None:
    """For every database of others, every output and several priors: posterior odds within e^ε of the prior's."""
    count = geometric(4, epsilon=1)
    for others in range(4):
        M = count.of(lambda bit, others=others: others + bit, inputs=[0, 1])
        for prior, seen in itertools.product(("1/2", "1/10"), range(5)):
            after = M.posterior(seen, [1 - F(prior), prior])
            gained = (after[1] / after[0]) / (F(prior) / (1 - F(prior)))
            assert math.exp(-1) * (1 - 1e-12) <= gained <= math.exp(1) * (1 + 1e-12)


def test_nothing_learned_is_impossible_and_no_difference_is_not() -> None:
    n, worlds = 20, {"causes": F(1, 2), "does not": F(1, 10)}

    def binomial(n: int, p: Fraction) -> list[Fraction]:
        return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]

    study = geometric(n, epsilon="1/2")
    nature = study.mixture({w: binomial(n, p) for w, p in worlds.items()})

    def belief(seen: int) -> Fraction:
        return sum((nature.posterior(seen)[w] * p for w, p in worlds.items()), F(0))

    before = sum(worlds.values(), F(0)) / 2
    assert before == F(3, 10)
    assert belief(1) < F(1, 5) < before < F(9, 20) < belief(12)  # an outsider's risk has become known
    for p in worlds.values():
        others = binomial(n - 1, p)
        with_him = study.mixture({"well": [*others, 0], "ill": [0, *others]})
        ratio = with_him.ratio()
        assert ratio is not None
        assert float(ratio) <= math.exp(0.5) * (1 + 1e-12)


def test_the_largest_value_and_a_gradient() -> None:
    for size in (1, 3, 5):
        assert sensitivity(max, relation="replace", universe=range(5), size=size) == 4
    records = [(u, v) for u in (-1, 0, 1) for v in (-3, 0, 3)]

    def gradient(rows: tuple[tuple[int, int], ...], most: int) -> int:
        return sum(max(-most, min(most, (2 * u - v) * u)) for u, v in rows)

    for most, (relation, factor) in itertools.product((1, 2), (("replace", 2), ("add-remove", 1))):
        found = sensitivity(lambda rows, c=most: gradient(rows, c), universe=records, size=2, relation=relation)
        assert found <= factor * most
        assert found == factor or most == 2  # reached where both ends are clipped
    assert sensitivity(lambda rows: gradient(rows, 10**6), relation="replace", universe=records, size=2) == 6


def test_noise_for_the_local_sensitivity_is_not_private_and_for_the_smooth_one_the_scale_is() -> None:
    world = databases([0, 10], 5, relation="replace")
    local = {x: int(local_sensitivity(median, x, relation="replace", universe=[0, 10])) for x in world}
    assert sorted(local.values()) == [0, 0, 0, 0, 10, 10]

    def law(x: Database) -> dict[object, object]:
        middle = int(median(x.records))
        if not local[x]:
            return {middle: 1}
        return dict(geometric(10, epsilon=1, sensitivity=local[x]).law(middle))

    M = Mechanism({x: law(x) for x in world}, neighbours="replace")
    assert M.ratio() is None
    # closed form: outputs other than 0 under (0,0,0,10,10), whose neighbour says 0 for sure
    assert float(M.failure) == pytest.approx(math.exp(-0.1) / (1 + math.exp(-0.1)), rel=1e-9)
    smooth = {x: smooth_sensitivity(median, x, 1, relation="replace", universe=[0, 10]) for x in world}
    for x, y in neighbours([0, 10], 5, relation="replace"):
        assert math.exp(-1) * (1 - 1e-12) <= smooth[x] / smooth[y] <= math.exp(1) * (1 + 1e-12)


def test_the_unnormalised_exponential_density_is_no_law() -> None:
    weights = {x: {o: math.exp(-abs(x - o) / 6) for o in range(4)} for x in range(4)}
    sums = [sum(row.values()) for row in weights.values()]
    assert min(sums) > 3
    assert max(sums) - min(sums) > 0.2  # and what it misses depends on the data
    with pytest.raises(dp.errors.InvalidParameter, match=r"under 0 must sum to 1; the sum is off by 2\.1695"):
        Mechanism(weights)
    # normalising costs a second Δ: with exp(εu/Δ) it would be up to 2ε
    bold = dp.finite.exponential(lambda x, o: x if o else -x, inputs=[0, 1], outputs=[0, 1], epsilon=2, sensitivity=1)
    assert 1 < bold.epsilon() <= 2


def test_running_the_second_algorithm_on_the_first_result_alone_adds_nothing() -> None:
    first = geometric(3, epsilon=1)
    for second in (geometric(3, epsilon=5), Mechanism({k: {k % 2: 1} for k in range(4)}, neighbours=near)):
        after = first.post(second).ratio()
        before = first.ratio()
        assert after is not None
        assert before is not None
        assert after <= before
