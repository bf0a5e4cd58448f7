"""Exponential, permute-and-flip, noisy max: their exact laws by enumeration, their errors, their doors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.mechanisms import Exponential, NoisyMax, PermuteAndFlip
from discreet.mechanisms.selection import Selection
from discreet.noise.entropy import SystemEntropy

ALARM = 1e-9
Law = Callable[[np.ndarray, float], np.ndarray]


def exponential(u: np.ndarray, rate: float) -> np.ndarray:
    weight = np.exp(rate * (u - u.max()))
    return np.asarray(weight / weight.sum())


def permute_and_flip(u: np.ndarray, rate: float) -> np.ndarray:
    """Algorithm 1 of McKenna and Sheldon over all orders: the first whose coin shows up."""
    coin = np.exp(rate * (u - u.max()))
    law = np.zeros(len(u))
    orders = list(permutations(range(len(u))))
    for order in orders:
        left = 1.0
        for i in order:
            law[i] += left * coin[i]
            left *= 1 - coin[i]
    return law / len(orders)


def noisy_max(u: np.ndarray, rate: float) -> np.ndarray:
    """argmax of u + Z with P(Z = k) ∝ exp(−rate·|k|), ties at random, over all ties."""
    k = np.arange(-400, 401)
    mass = np.exp(-rate * np.abs(k))
    mass /= mass.sum()
    tops = np.arange(int(u.min()) - 300, int(u.max()) + 301)
    at = np.array([mass[tops - int(v) + 400] for v in u])
    under = np.array([np.cumsum(mass)[tops - int(v) + 399] for v in u])
    law = np.zeros(len(u))
    for tied in product([False, True], repeat=len(u)):
        if any(tied):
            joint = np.where(np.array(tied)[:, None], at, under).prod(axis=0).sum()
            law += np.array(tied) * joint / sum(tied)
    return law


LAWS: list[tuple[type[Selection], Law]] = [
    (Exponential, exponential),
    (PermuteAndFlip, permute_and_flip),
    (NoisyMax, noisy_max),
]


@pytest.mark.laws
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "law"), LAWS, ids=[k.__name__ for k, _ in LAWS])
def test_draws_follow_the_law_and_not_a_neighbouring_one(kind: type[Selection], law: Law) -> None:
    mechanism, u, draws = kind(epsilon=1, sensitivity=2), np.array([0, 3, 5, 1]), 20_000
    rng = SystemEntropy()
    counts = np.bincount([mechanism.release(range(4), u, rng=rng) for _ in range(draws)], minlength=4)
    chance = law(u, 0.25)
    assert chance.sum() == pytest.approx(1)
    assert stats.chisquare(counts, draws * chance).pvalue > ALARM
    assert stats.chisquare(counts, draws * law(u, 0.3)).pvalue < ALARM


@pytest.mark.parametrize(("kind", "law"), LAWS, ids=[k.__name__ for k, _ in LAWS])
@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_no_neighbour_exceeds_epsilon(kind: type[Selection], law: Law, n: int, epsilon: float) -> None:
    # All utilities in {0, 1, 2}, all neighbours that move each by at most 1.
    rate = float(kind(epsilon=epsilon, sensitivity=1).rate)
    laws = {u: law(np.array(u), rate) for u in product(range(-1, 3), repeat=n)}
    worst = 0.0
    for u in product(range(2), repeat=n):
        for step in product((-1, 0, 1), repeat=n):
            v = tuple(a + b for a, b in zip(u, step, strict=True))
            worst = max(worst, float(np.abs(np.log(laws[u] / laws[v])).max()))
    assert worst <= epsilon + 1e-9
    assert worst > epsilon / 4  # the enumeration sees something


def test_permute_and_flip_is_never_worse_than_exponential() -> None:
    for u in product(range(4), repeat=3):
        v = np.array(u)
        assert permute_and_flip(v, 0.5) @ v >= exponential(v, 0.5) @ v - 1e-12


@pytest.mark.parametrize(("kind", "law"), LAWS, ids=[k.__name__ for k, _ in LAWS])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_the_error_bounds_how_far_below_the_best(kind: type[Selection], law: Law, confidence: float) -> None:
    mechanism = kind(epsilon=1, sensitivity=1)
    for u in product((0, 4, 9, 20), repeat=3):
        chance = law(np.array(u), 0.5)
        bound = mechanism.error(confidence, candidates=3)
        near = np.array([max(u) - v <= bound for v in u])
        assert chance[near].sum() >= confidence - 1e-12


def test_the_error_is_the_books_corollary() -> None:
    # Dwork, Roth, Corollary 3.12: OPT − (2Δ/ε)(ln n + t) with probability 1 − e^−t.
    assert Exponential(epsilon=0.5, sensitivity=3).error(0.9, candidates=7) == pytest.approx(
        2 * 3 / 0.5 * (math.log(7) + math.log(10))
    )


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_utilities_may_be_any_finite_numbers(kind: type[Selection]) -> None:
    sharp = kind(epsilon=10**6)
    for utilities in (
        [1, 2.5, Fraction(7, 3)],
        np.array([1.0, 1e300, -1e300]),
        np.array([1, 9, 3], dtype=np.uint8),
        [10**400, 10**401, 0],
        [0.1, 0.3, 0.2],
    ):
        assert sharp.release(["a", "b", "c"], utilities) == "b"  # type: ignore[arg-type]  # all of them, on purpose
    assert NoisyMax(epsilon=10**6).release(["a", "b", "c"], [10**400, 10**401, 0]) == "b"


BAD = [
    [],
    [1, 2],
    [1, 2, 3, 4],
    [1, float("nan"), 3],
    [1, float("inf"), 3],
    [1, -float("inf"), 3],
    [1, True, 3],
    [1, "2", 3],
    [1, None, 3],
    [1, 2j, 3],
    np.array([1, np.nan, 3]),
    np.array([True, False, True]),
    np.array([["1", "2", "3"]]),
    np.array([[1, 2, 3]]).T,
    np.array([1, 2, 3], dtype=object),
]


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip, NoisyMax])
@pytest.mark.parametrize("utilities", BAD, ids=repr)
def test_what_is_no_utility_is_refused(kind: type[Selection], utilities: object) -> None:
    with pytest.raises(InvalidParameter):
        kind(epsilon=1).release(["a", "b", "c"], utilities)  # type: ignore[arg-type]


def test_no_refusal_quotes_a_utility() -> None:
    with pytest.raises(InvalidParameter) as caught:
        Exponential(epsilon=1).release(["a", "b"], [123456.5, float("nan")])
    assert "12345" not in str(caught.value)


def test_noisy_max_refuses_a_scale_beyond_64_bits() -> None:
    with pytest.raises(InvalidParameter, match=r"2\^56"):
        NoisyMax(epsilon="1e-20")


def test_noisy_max_wants_integers() -> None:
    with pytest.raises(InvalidParameter, match="integers") as caught:
        NoisyMax(epsilon=1).release(["a", "b"], [1.5, 2])
    assert "PermuteAndFlip" in caught.value.hint
    with pytest.raises(InvalidParameter, match="integer"):
        NoisyMax(epsilon=1, sensitivity="0.5")


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip, NoisyMax])
@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), True, "x", None])
def test_impossible_parameters_are_refused(kind: type[Selection], epsilon: object) -> None:
    with pytest.raises(InvalidParameter):
        kind(epsilon=epsilon)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        kind(epsilon=1, sensitivity=epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize("confidence", [0, 1, 2, float("nan")])
def test_impossible_confidences_are_refused(confidence: float) -> None:
    for kind in (Exponential, PermuteAndFlip, NoisyMax):
        with pytest.raises(InvalidParameter):
            kind(epsilon=1).error(confidence, candidates=3)
        with pytest.raises(InvalidParameter):
            kind(epsilon=1).error(0.9, candidates=0)


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip, NoisyMax])
def test_explain_and_repr_carry_the_numbers(kind: type[Selection]) -> None:
    mechanism = kind(epsilon=0.5, sensitivity=3)
    text = mechanism.explain()
    assert "Δ = 3" in text and "exp(0.5)" in text and "M is 0.5-DP" in text
    assert eval(repr(mechanism), {kind.__name__: kind}) == mechanism


@pytest.mark.parametrize("one", [Exponential(epsilon=1), PermuteAndFlip(epsilon=1), NoisyMax(epsilon=1)])
def test_a_copy_with_another_parameter_is_made_anew(one: Selection) -> None:
    copy = replace(one, epsilon=Fraction(4))
    assert copy == type(one)(epsilon=4)
    assert copy.rate == 2
