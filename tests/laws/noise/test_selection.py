"""Selections follow their laws: the closed form, the definition by permutations, the enumeration of noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.noise import selection
from discreet.noise.bernoulli import scaled_exp_neg
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.noise.selection import exponential, noisy_max, permute_and_flip
from tests.noise.chi_square import accepts, refuses

DRAWS = 12_000
UTILITIES = [3, 0, 2, 3, -5]
RATE = Fraction(2, 5)


def exponential_law(u: list[Any], rate: Fraction) -> list[float]:
    weights = [math.exp(float(rate * (Fraction(v) - Fraction(max(u))))) for v in u]
    return [w / sum(weights) for w in weights]


def permute_and_flip_law(u: list[Any], rate: Fraction) -> list[float]:
    """Algorithm 1 of McKenna and Sheldon, over all permutations."""
    coins = [math.exp(float(rate * (Fraction(v) - Fraction(max(u))))) for v in u]
    chances = [0.0] * len(u)
    orders = list(itertools.permutations(range(len(u))))
    for order in orders:
        reached = 1 / len(orders)
        for i in order:
            chances[i] += reached * coins[i]
            reached *= 1 - coins[i]
    return chances


def noisy_max_law(u: list[int], scale: float) -> list[float]:
    """By enumeration of the value of the winner and of the set that ties with it."""
    q = math.exp(-1 / scale)
    reach = int(60 * scale) + 1

    def mass(k: int) -> float:
        return (1 - q) / (1 + q) * q ** abs(k)

    def below(k: int) -> float:
        return q ** (1 - k) / (1 + q) if k <= 0 else 1 - q**k / (1 + q)

    chances = []
    for i, ui in enumerate(u):
        others = [j for j in range(len(u)) if j != i]
        total = 0.0
        for v in range(ui - reach, ui + reach):
            for size in range(len(others) + 1):
                for ties in itertools.combinations(others, size):
                    p = mass(v - ui) / (1 + size)
                    for j in others:
                        p *= mass(v - u[j]) if j in ties else below(v - u[j])
                    total += p
        chances.append(total)
    return chances


LAWS: dict[str, tuple[Callable[..., int], Callable[..., list[float]]]] = {
    "exponential": (exponential, exponential_law),
    "permute and flip": (permute_and_flip, permute_and_flip_law),
}


def draw(select: Callable[..., int], u: Any, rate: Fraction, times: int = DRAWS) -> list[int]:
    rng = SystemEntropy()
    return [select(u, rate, rng) for _ in range(times)]


@pytest.mark.parametrize("name", LAWS)
def test_the_law_is_right_and_a_rate_off_by_a_half_would_show(name: str) -> None:
    select, law = LAWS[name]
    drawn = draw(select, np.array(UTILITIES), RATE)
    truth = law(UTILITIES, RATE)
    assert accepts(drawn, truth)
    assert refuses(drawn, law(UTILITIES, RATE * Fraction(3, 2)), truth)


def test_the_two_laws_differ_and_the_test_can_tell() -> None:
    u = [1, 0, 0, 0]
    one, other = exponential_law(u, Fraction(1)), permute_and_flip_law(u, Fraction(1))
    assert refuses(draw(exponential, np.array(u), Fraction(1)), other, one)
    assert refuses(draw(permute_and_flip, np.array(u), Fraction(1)), one, other)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(
    ("u", "rate"),
    [
        ([0.75, 0.1, 0.6], Fraction(3)),
        ([3 * 10**30, 10**30, 2 * 10**30], Fraction(1, 10**30)),
        ([Fraction(1, 3), Fraction(1, 2), 0], Fraction(3)),
        (np.array([2**62, -(2**62), 0]), Fraction(1, 2**62)),
        (np.array([1.5e308, -1.5e308, 0.0]), Fraction(1, 10**308)),
    ],
    ids=["floats", "big integers", "fractions", "wide integers", "wide floats"],
)
def test_every_kind_of_utility_follows_the_same_law(name: str, u: Any, rate: Fraction) -> None:
    select, law = LAWS[name]
    plain = [v.item() if isinstance(v, np.generic) else v for v in u]
    drawn = draw(select, u, rate, 6000)
    truth = law(plain, rate)
    assert accepts(drawn, truth)
    assert refuses(drawn, law(plain[::-1], rate), truth)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2)])
def test_noisy_max_follows_its_law_ties_included(scale: Fraction) -> None:
    u = [1, 0, 1, -1]
    law = noisy_max_law(u, float(scale))
    assert sum(law) == pytest.approx(1)
    drawn = draw(noisy_max, np.array(u), scale)
    assert accepts(drawn, law)
    assert refuses(drawn, noisy_max_law(u, 1.5 * float(scale)), law)
    # ties given to the lowest index instead of a random one would move chance to index 0
    assert refuses(drawn, [law[0] + 0.1, law[1], law[2] - 0.1, law[3]], law)


@pytest.mark.parametrize("u", [[2**63 - 1, 2**63 - 2], [2**100, 2**100 - 1], [-(2**63), 1 - 2**63]])
def test_noisy_max_does_not_wrap(u: list[int]) -> None:
    lowest = min(u)
    drawn = draw(noisy_max, u, Fraction(3), 6000)
    law = noisy_max_law([v - lowest for v in u], 3.0)
    assert accepts(drawn, law)
    assert refuses(drawn, law[::-1], law)


def test_noisy_max_refuses_what_is_not_whole() -> None:
    for u in ([0.5, 1.0], np.array([0.5]), [Fraction(1, 2), 1]):
        with pytest.raises(InvalidParameter, match="integers"):
            noisy_max(u, Fraction(1), SystemEntropy())  # type: ignore[arg-type]  # the refusal is the point


@pytest.mark.parametrize("select", [exponential, permute_and_flip, noisy_max])
def test_one_candidate_is_taken(select: Callable[..., int]) -> None:
    assert select([-7], Fraction(1), SystemEntropy()) == 0


@pytest.mark.parametrize("select", [exponential, permute_and_flip, noisy_max])
def test_no_candidate_is_refused(select: Callable[..., int]) -> None:
    with pytest.raises(InvalidParameter, match="at least one"):
        select([], Fraction(1), SystemEntropy())


@pytest.mark.parametrize("select", [exponential, permute_and_flip, noisy_max])
def test_equal_candidates_are_equally_likely(select: Callable[..., int]) -> None:
    drawn = draw(select, np.full(6, 10**12), Fraction(1, 3), 8000)
    assert accepts(drawn, [1 / 6] * 6)
    assert refuses(drawn, [1 / 5] * 3 + [2 / 15] * 3, [1 / 6] * 6)


@pytest.mark.parametrize("select", [exponential, permute_and_flip, noisy_max])
def test_a_gap_beyond_2_to_the_60_decides(select: Callable[..., int]) -> None:
    u = np.array([-(2**62), 2**62, 0, -(2**61)])
    assert set(draw(select, u, Fraction(1), 200)) == {1}


@pytest.mark.parametrize("select", [exponential, permute_and_flip])
def test_many_candidates_far_below_one_share_what_is_theirs(select: Callable[..., int]) -> None:
    n = 20_000
    u = np.zeros(n, dtype=np.int64)
    u[17] = 1000
    rate = Fraction(round(1000 * math.log(n)), 1_000_000)  # exp(rate·1000) = n nearly
    rest = (n - 1) * math.exp(-1000 * float(rate))
    drawn = [int(i == 17) for i in draw(select, u, rate, 3000)]
    if select is exponential:
        chance = 1 / (1 + rest)
    else:  # uniform among the best one and a binomial number of others: E 1/(1 + N)
        p = math.exp(-1000 * float(rate))
        chance = (1 - (1 - p) ** n) / (n * p)
    assert accepts(drawn, [1 - chance, chance])
    assert refuses(drawn, [1.5 * (1 - chance), 1 - 1.5 * (1 - chance)], [1 - chance, chance])


@pytest.mark.parametrize("precision", [1, 31, 32, 45, 61, 62])
def test_weights_bound_the_exponential_from_above_and_closely(precision: int) -> None:
    weights = selection._weights(precision)
    with mpmath.workprec(200):
        for j, weight in enumerate(weights.tolist()):
            true = mpmath.ldexp(mpmath.exp(-mpmath.mpf(j) / 256), precision)
            assert true <= weight <= true + 2
    assert weights[0] == 1 << precision
    assert weights[-1] == 1


def test_coins_beyond_their_bound_are_certainly_false() -> None:
    bounds = selection._coin_bounds()
    with mpmath.workprec(200):
        for j, bound in enumerate(bounds.tolist()):
            # 32 bits above the bound leave U ≥ (bound + 1)/2^32 ≥ exp(−j/256)
            assert bound + 1 >= mpmath.ldexp(mpmath.exp(-mpmath.mpf(j) / 256), 32)
    assert bounds[0] == 2**32 - 1


@pytest.mark.parametrize("select", [exponential, permute_and_flip])
def test_a_proposal_is_nearly_always_kept(select: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    proposals = 0

    def counted(x: Fraction, rng: Entropy, **known: int) -> bool:
        nonlocal proposals
        proposals += 1
        return scaled_exp_neg(x, rng, **known)

    monkeypatch.setattr(selection, "scaled_exp_neg", counted)
    u = np.arange(500) * 7
    draw(select, u, Fraction(1, 1000), 1000)
    assert proposals < 1060  # 1.008 expected at most; 60 refusals among 1060 have chance < 1e-25


@pytest.mark.parametrize("name", LAWS)
def test_a_cruder_bound_costs_proposals_and_leaves_the_law(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    select, law = LAWS[name]
    fine = selection._weights
    coarse = np.arange(fine(62).size) // 512 * 512  # gaps taken as if rounded down to multiples of 2
    monkeypatch.setattr(selection, "_weights", lambda precision: fine(precision)[coarse])
    monkeypatch.setattr(selection, "_coin_bounds", lambda: np.full(coarse.size, 2**32 - 1, dtype=np.uint32))
    assert accepts(draw(select, np.array(UTILITIES), RATE), law(UTILITIES, RATE))


def test_proposals_follow_the_integer_weights_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.array([4, 1, 2])
    monkeypatch.setattr(selection, "_weights", lambda precision: weights)
    monkeypatch.setattr(selection, "scaled_exp_neg", lambda x, rng, **known: True)
    targets = iter(range(7))
    monkeypatch.setattr(selection, "below", lambda n, rng: next(targets))
    u = np.array([2, 0, 1])
    steps = Fraction(1, 256)  # the gaps are a little more than 0, 2 and 1 steps
    drawn = [exponential(u, steps * Fraction(1001, 1000), SystemEntropy()) for _ in range(7)]
    assert drawn == [0] * 4 + [1] * 2 + [2]
