"""What Bob reaches is what theory says he can, and never surely more than a kept guarantee allows."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import expit, ndtr

from discreet import Budget
from discreet.accounting import gaussian, laplace
from discreet.audit import Claim, attributes, game
from discreet.audit.played import advantage, errors, odds, success
from discreet.errors import InvalidParameter

Floats = NDArray[np.float64]
NEVER = 1e-9  # the rate of false alarms of the random tests here
GRID = 2.0**-10  # noise on a grid: the bits of floats tell nothing


def randomized_response(epsilon: float, seed: int) -> Callable[..., NDArray[np.int_]]:
    rng = np.random.default_rng(seed)

    def mechanism(x: int, n: int) -> NDArray[np.int_]:
        return np.asarray(x ^ (rng.random(n) < expit(-epsilon)))

    return mechanism


def laplace_noise(scale: float, seed: int) -> Callable[..., Floats]:
    rng = np.random.default_rng(seed)

    def mechanism(x: float, n: int) -> Floats:
        return np.asarray(x + GRID * np.round(rng.laplace(scale=scale, size=n) / GRID))

    return mechanism


def gaussian_noise(sigma: float, seed: int) -> Callable[..., Floats]:
    rng = np.random.default_rng(seed)

    def mechanism(x: float, n: int) -> Floats:
        return np.asarray(x + GRID * np.round(rng.normal(scale=sigma, size=n) / GRID))

    return mechanism


def k_ary(k: int, epsilon: float, seed: int) -> Callable[..., NDArray[np.int_]]:
    """The true value with chance e^ε/(e^ε + k − 1), each other one with chance 1/(e^ε + k − 1)."""
    rng = np.random.default_rng(seed)
    told = math.expm1(epsilon) / (math.exp(epsilon) + k - 1)

    def mechanism(x: int, n: int) -> NDArray[np.int_]:
        return np.where(rng.random(n) < told, x, rng.integers(k, size=n))

    return mechanism


def best_success(priors: list[float], epsilon: float, delta: float) -> float:
    """The largest success of any choice among worlds that are pairwise (ε, δ)-close, by a linear program.

    A mechanism may output its guess at once, so its law is a k × k matrix; every set of guesses is an event.
    """
    k = len(priors)
    rows, limits = [], []
    for a, b in itertools.permutations(range(k), 2):
        for size in range(1, k):
            for event in itertools.combinations(range(k), size):
                row = np.zeros((k, k))
                row[a, list(event)] += 1
                row[b, list(event)] -= math.exp(epsilon)
                rows.append(row.ravel())
                limits.append(delta)
    sums = np.kron(np.eye(k), np.ones(k))
    found = linprog(-np.diag(priors).ravel(), A_ub=np.array(rows), b_ub=limits, A_eq=sums, b_eq=np.ones(k))
    assert found.fun is not None
    return -float(found.fun)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("priors", [["1/2", "1/2"], ["0.9", "0.1"], ["1/3"] * 3, ["0.6", "0.3", "0.1"], ["1/4"] * 4])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("delta", [0.0, 0.01, 0.3])
def test_the_bound_on_success_is_what_the_best_mechanism_reaches(
    priors: list[str], epsilon: float, delta: float
) -> None:
    exact = [Fraction(p) for p in priors]
    bound = success(Claim.of(Budget(epsilon=epsilon, delta=delta)), exact)
    best = best_success([float(p) for p in exact], epsilon, delta)
    assert best <= bound + 1e-7
    if delta == 0 or len(priors) == 2:
        assert bound == pytest.approx(best, abs=1e-7)


def test_for_equal_priors_the_bound_is_the_closed_form() -> None:
    for k, epsilon, delta in ((2, 1.0, 0.0), (5, 0.3, 0.02), (10, 2.0, 1e-6)):
        grown = math.exp(epsilon)
        closed = (grown + (k - 1) * delta) / (grown + k - 1)
        assert success(Claim.of(Budget(epsilon=epsilon, delta=delta)), [Fraction(1, k)] * k) == pytest.approx(closed)


def test_the_other_bounds_are_the_closed_forms() -> None:
    pure, both = Claim.of(1), Claim.of(Budget(epsilon=1, delta="0.1"))
    assert advantage(pure) == pytest.approx(math.tanh(0.5))
    assert advantage(both) == pytest.approx((math.e - 1 + 0.2) / (math.e + 1))
    assert odds(pure, Fraction(1, 4)) == pytest.approx(math.e / 3)
    assert odds(both, Fraction(1, 2)) is None
    assert advantage(Claim.of(gaussian(1))) == pytest.approx(2 * ndtr(0.5) - 1, abs=1e-6)
    alpha = np.array([0.0, 0.3, 1.0])
    assert errors(pure, alpha) == pytest.approx(np.maximum(0, np.maximum(1 - math.e * alpha, (1 - alpha) / math.e)))


def holds(found: Any, truth: float) -> bool:
    return bool(found.low <= truth <= found.high)


def test_randomized_response_is_guessed_with_its_own_chance() -> None:
    found = game(randomized_response(1.0, 1), 1, 0, claimed=1, error=NEVER, seed=1)
    first, second, third = found.rows
    assert found.verdict == "consistent"
    assert holds(first, expit(1.0))
    assert holds(second, math.tanh(0.5))
    assert holds(third, math.e)
    assert first.high - first.low < 0.03
    assert first.allowed == pytest.approx(expit(1.0))
    assert game(randomized_response(1.0, 2), 1, 0, claimed="0.9", error=NEVER).violated


def test_laplace_noise_is_guessed_as_its_closed_form_says() -> None:
    """Bob's best test of Laplace noise of scale 1 at distance 1 is the middle: success 1 − e^(−1/2)/2."""
    found = game(laplace_noise(1.0, 3), 0.0, 1.0, claimed=laplace(1), error=NEVER)
    truth = 1 - math.exp(-0.5) / 2
    assert found.verdict == "consistent"
    assert found.rows[0].low <= truth <= found.rows[0].high + 0.002  # what was learned may fall short by a little
    assert found.rows[0].allowed == pytest.approx(truth, abs=2e-3)
    assert game(laplace_noise(0.8, 4), 0.0, 1.0, claimed=laplace(1), error=NEVER).violated


def test_gaussian_noise_is_guessed_as_its_closed_form_says() -> None:
    found = game(gaussian_noise(1.0, 5), 0.0, 1.0, claimed=gaussian(1), error=NEVER)
    assert found.verdict == "consistent"
    assert found.rows[0].low <= ndtr(0.5) <= found.rows[0].high + 0.002
    assert found.rows[0].allowed == pytest.approx(ndtr(0.5), abs=1e-6)
    assert game(gaussian_noise(0.8, 6), 0.0, 1.0, claimed=gaussian(1), error=NEVER).violated


def test_a_leak_that_hardly_helps_bob_is_seen_in_the_odds() -> None:
    rng = np.random.default_rng(7)

    def leaky(x: int, n: int) -> NDArray[np.int_]:
        """Tells a 1 outright, once in two hundred times."""
        bits = x ^ (rng.random(n) < expit(-1.0))
        return np.where(rng.random(n) < 0.005 * x, 7, bits)

    found = game(leaky, 1, 0, claimed=1, error=1e-6, seed=7)
    assert found.violated
    assert not found.rows[0].violated
    assert found.odds is not None
    assert found.odds.violated
    assert "7" in found.clearest


def test_a_prior_moves_the_guess_and_the_bound() -> None:
    found = game(randomized_response(1.0, 8), 1, 0, claimed=1, prior="0.9", error=NEVER)
    assert found.verdict == "consistent"
    assert holds(found.rows[0], 0.9)  # always "1" is best: 0.9·expit(1) + 0.1·expit(1) is less
    assert found.rows[0].allowed == pytest.approx(0.9)
    clearer = game(randomized_response(4.0, 9), 1, 0, claimed=4, prior="0.9", error=NEVER)
    assert holds(clearer.rows[0], expit(4.0))
    assert found.odds is not None
    assert found.odds.allowed in (pytest.approx(9 * math.e), pytest.approx(math.e / 9))


def test_the_band_covers_the_best_curve_and_nothing_below_it() -> None:
    found = game(laplace_noise(1.0, 10), 0.0, 1.0, claimed=laplace(1), error=NEVER)
    band = found.tradeoff
    assert band is not None
    a = band.alpha
    # Dong, Roth, Su 2019, the trade-off of Laplace noise: F(F⁻¹(1 − α) − 1)
    inverse = np.where(a < 0.5, -np.log(np.maximum(2 * a, 1e-300)), np.log(np.maximum(2 * (1 - a), 1e-300)))
    z = inverse - 1
    best = np.where(z < 0, np.exp(np.minimum(z, 0)) / 2, 1 - np.exp(-np.maximum(z, 0)) / 2)
    assert bool((band.beta_high >= best - 1e-9).all())
    inner = (a > 0.05) & (a < 0.95)
    assert np.max(band.beta_high[inner] - best[inner]) < 0.06
    assert np.max(np.abs(band.claimed - best)) < 0.01


def test_sound_mechanisms_are_accused_no_more_often_than_stated() -> None:
    accused = sum(
        game(randomized_response(1.0, seed), 1, 0, claimed=1, error=0.2, samples=2000).violated for seed in range(100)
    )
    assert accused <= 46  # a binomial of 100 trials of chance 0.2 is above that with chance 1e-9


def test_k_ary_randomized_response_is_guessed_with_its_own_chance() -> None:
    k, epsilon = 4, 1.5
    truth = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    found = attributes(k_ary(k, epsilon, 11), range(k), claimed=epsilon, error=NEVER, samples=60_000)
    assert found.verdict == "consistent"
    assert holds(found.rows[0], truth)
    assert found.rows[0].allowed == pytest.approx(truth)
    assert found.kind == "attribute"
    assert sum(c.samples for c in found.by_world) == found.success.samples == 30_000
    assert attributes(k_ary(k, epsilon, 12), range(k), claimed="1.3", error=NEVER, samples=60_000).violated


def test_priors_are_used_in_the_choice_of_the_likeliest_world() -> None:
    priors = ["0.7", "0.2", "0.1"]
    found = attributes(k_ary(3, 1.0, 13), range(3), claimed=1, priors=priors, error=NEVER, samples=40_000)
    told, else_ = math.e / (math.e + 2), 1 / (math.e + 2)
    truth = sum(max(p * (told if i == o else else_) for i, p in enumerate((0.7, 0.2, 0.1))) for o in range(3))
    assert found.verdict == "consistent"
    assert holds(found.rows[0], truth)


def test_numbers_among_three_worlds_are_told_apart_nearly_as_well_as_can_be() -> None:
    found = attributes(gaussian_noise(1.0, 14), [0.0, 2.0, 4.0], error=NEVER, samples=40_000)
    truth = (2 * ndtr(1.0) + (2 * ndtr(1.0) - 1)) / 3
    assert found.verdict == "unclaimed"
    assert found.rows[0].low <= truth <= found.rows[0].high + 0.01


def test_outputs_that_tell_nothing_win_nothing() -> None:
    constant = game(lambda x: "hello", 0, 1, claimed=0, samples=1000, error=NEVER)
    assert constant.verdict == "consistent"
    assert constant.rows[1].found == 0
    raising = game(lambda x: 1 / x, 0, 1, claimed=1, samples=1000)
    assert raising.violated
    assert any("ZeroDivisionError" in note for note in raising.notes)
    nothing = attributes(lambda x: None, "abc", claimed=0, samples=900, error=NEVER)
    assert nothing.verdict == "consistent"


def test_the_game_is_told_in_words_and_in_json() -> None:
    found = game(
        randomized_response(1.0, 15), 1, 0, claimed=Budget(epsilon="0.5"), samples=20_000, name="coins", seed=2
    )
    words = str(found)
    assert words.startswith("coins: VIOLATED")
    assert "Alice puts in 1 with chance 0.5 or 0 with chance 0.5." in words
    assert "of 10,000 games; the guarantee allows at most 62.2 %." in words
    assert "Without the output he would be right in 50.0 %." in words
    read = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert read["verdict"] == "violated"
    assert read["success"]["samples"] == 10_000
    assert [row["what"] for row in read["rows"]] == ["success", "advantage", "odds"]
    assert len(read["tradeoff"]["alpha"]) == len(read["tradeoff"]["claimed"])
    free = game(randomized_response(9.0, 16), 1, 0, samples=1000)
    assert "guarantee" not in str(free)
    assert json.dumps(free.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("priors must lie strictly between 0 and 1", {"prior": 0}),
        ("priors must lie strictly between 0 and 1", {"prior": 2}),
        ("error must lie strictly between 0 and 1", {"error": 1}),
        ("samples must be an integer of at least 100", {"samples": 10}),
        ("claimed must be", {"claimed": object()}),
    ],
)
def test_bad_input_is_refused_in_words(words: str, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=words):
        game(lambda x: x, 0, 1, **changed)


def test_worlds_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="at least two"):
        attributes(lambda x: x, [1])
    with pytest.raises(InvalidParameter, match="2 worlds and 1 priors"):
        attributes(lambda x: x, [1, 2], priors=[1])
    with pytest.raises(InvalidParameter, match="sum to 1"):
        attributes(lambda x: x, [1, 2], priors=["0.5", "0.6"])
