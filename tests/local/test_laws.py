"""The law of every randomizer over a small domain, exactly: privacy, unbiasedness and variance follow from it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from itertools import permutations
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from discreet.local import (
    FrequencyOracle,
    Hadamard,
    RandomizedResponse,
    Randomizer,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from discreet.local.coins import Coin
from tests.local.branches import Branches, NoEntropy, branches, plain

__all__ = ["branches"]

Law = dict[Hashable, Fraction]
OUTSIDE = "not in the domain"
EPSILONS = [Fraction(1, 10**6), Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(12), Fraction(60)]
ORACLES: dict[str, Callable[[Fraction], FrequencyOracle]] = {
    "binary": lambda e: RandomizedResponse(epsilon=e),
    "response": lambda e: RandomizedResponse(5, epsilon=e),
    "response with other": lambda e: RandomizedResponse(["a", "b"], epsilon=e, other="z"),
    "optimised": lambda e: UnaryEncoding(4, epsilon=e),
    "symmetric": lambda e: UnaryEncoding(4, epsilon=e, variant="symmetric"),
    "subsets": lambda e: SubsetSelection(6, epsilon=e),
    "subsets of 3": lambda e: SubsetSelection(5, epsilon=e, size=3),
    "hadamard": lambda e: Hadamard(6, epsilon=e),
    "hadamard, full": lambda e: Hadamard(7, epsilon=e),
}


def law_of(randomizer: Randomizer, x: object, tree: Branches) -> Law:
    return tree.law(lambda: plain(randomizer.randomize(x, rng=NoEntropy())))


def labels(oracle: FrequencyOracle) -> list[Any]:
    return list(oracle.domain.find(None)[0])


def largest_ratio(laws: list[Law]) -> Fraction:
    assert all(law.keys() == laws[0].keys() for law in laws)
    return max(p[report] / q[report] for p, q in permutations(laws, 2) for report in p)


def exp_bounds(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Fractions around e^ε, a relative 1e-40 apart."""
    with mp.workdps(80):
        value = mp.exp(mp.mpf(epsilon.numerator) / epsilon.denominator)
        middle = Fraction(int(value * mp.mpf(2) ** 200), 1 << 200)
    return middle * (1 - Fraction(1, 10**40)), middle * (1 + Fraction(1, 10**40))


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("name", ORACLES)
def test_no_likelihood_ratio_is_above_e_to_epsilon(name: str, epsilon: Fraction, branches: Branches) -> None:
    oracle = ORACLES[name](epsilon)
    laws = [law_of(oracle, x, branches) for x in labels(oracle)]
    low, _ = exp_bounds(epsilon)
    ratio = largest_ratio(laws)
    assert ratio <= low
    assert largest_ratio([*laws, law_of(oracle, OUTSIDE, branches)]) == ratio
    if 1 / Fraction(100) <= epsilon <= 12:  # beyond them 64 bits are coarse, on the private side
        assert ratio >= low * (1 - Fraction(1, 10**12)), "privacy is given away"


@pytest.mark.parametrize("name", ORACLES)
def test_a_chance_of_one_more_in_two_to_the_64_would_break_it(name: str, branches: Branches) -> None:
    """The bound above has power: the next larger weight of the coin is too large."""
    oracle = ORACLES[name](Fraction(1))
    _, high = exp_bounds(Fraction(1))
    for field in ("coin", "true", "false"):
        coin = getattr(oracle, field, None)
        if coin is not None and field != "true":
            object.__setattr__(oracle, field, Coin(coin.weight + (1 if field == "coin" else -1)))
    if name == "symmetric":
        object.__setattr__(oracle, "true", Coin((1 << 64) - oracle.false.weight))  # type: ignore[attr-defined]
    assert largest_ratio([law_of(oracle, x, branches) for x in labels(oracle)]) > high


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(3)], ids=str)
@pytest.mark.parametrize("name", ORACLES)
def test_estimates_are_unbiased_and_their_variance_is_what_is_said(
    name: str, epsilon: Fraction, branches: Branches
) -> None:
    oracle = ORACLES[name](epsilon)
    exact = name not in ("hadamard", "hadamard, full")  # there the variance is that of the worst other value
    for i, x in enumerate(labels(oracle)):
        law = law_of(oracle, x, branches)
        estimates = [oracle.estimate([report]) for report in law]
        values = np.array([e.values for e in estimates])
        chances = np.array([float(p) for p in law.values()])
        mean = chances @ values
        scale = np.abs(values).max()
        assert np.abs(mean - np.eye(len(mean))[i]).max() < 1e-9 * scale
        variance = chances @ (values - mean) ** 2
        others = np.arange(len(mean)) != i
        said = estimates[0]
        assert abs(variance[i] - said.own[i]) < 1e-9 * scale**2
        assert (variance[others] <= said.other[others] * (1 + 1e-9)).all()
        assert not exact or (variance[others] >= said.other[others] * (1 - 1e-9)).all()
        assert np.abs(values - mean).max() <= said.reach * (1 + 1e-9)


def test_hadamard_says_the_variance_of_the_worst_other_value(branches: Branches) -> None:
    oracle = Hadamard(6, epsilon="1.5")  # several values in a block, and several blocks
    assert oracle.blocks > 1 and oracle.domain.size > oracle.blocks
    worst = np.zeros(6)
    for i in range(6):
        law = law_of(oracle, i, branches)
        values = np.array([oracle.estimate([r]).values for r in law])
        variance = np.array([float(p) for p in law.values()]) @ values**2
        worst = np.maximum(worst, np.where(np.arange(6) == i, 0, variance))
    assert worst.max() == pytest.approx(float(oracle.scores.variance(Fraction(0))))


@pytest.mark.parametrize("name", ORACLES)
def test_a_value_outside_has_the_average_law_or_that_of_other(name: str, branches: Branches) -> None:
    oracle = ORACLES[name](Fraction(1))
    outside = law_of(oracle, OUTSIDE, branches)
    if name == "response with other":
        assert outside == law_of(oracle, "z", branches)
    else:
        laws = [law_of(oracle, x, branches) for x in labels(oracle)]
        assert outside == {r: sum(law[r] for law in laws) / len(laws) for r in outside}


def test_randomized_response_is_the_textbook_law(branches: Branches) -> None:
    law = law_of(RandomizedResponse(4, epsilon=2), 1, branches)
    with mp.workdps(40):
        p = mp.e**2 / (mp.e**2 + 3)
        assert abs(mp.mpf(law[1].numerator) / law[1].denominator - p) < mp.mpf(2) ** -60
    assert law[0] == law[2] == law[3] == (1 - law[1]) / 3


def test_subsets_are_uniform_among_those_that_hold_the_value_and_those_that_do_not(branches: Branches) -> None:
    law = law_of(SubsetSelection(6, epsilon=1, size=3), 2, branches)
    assert len(law) == 20 and len({p for s, p in law.items() if 2 in s}) == 1  # type: ignore[operator]
    assert len({p for s, p in law.items() if 2 not in s}) == 1  # type: ignore[operator]
    assert all(tuple(sorted(s)) == s for s in law)  # type: ignore[call-overload]


def test_hadamard_sets_follow_the_matrix(branches: Branches) -> None:
    from scipy.linalg import hadamard

    oracle = Hadamard(6, epsilon=3)
    for x in range(6):
        law = law_of(oracle, x, branches)
        likely = {r for r, p in law.items() if p == max(law.values())}
        block, row = x % oracle.blocks, x // oracle.blocks + 1
        columns = np.flatnonzero(hadamard(oracle.order)[row] == 1)
        assert likely == {block * oracle.order + int(c) for c in columns}


RAPPORS = [
    Rappor(epsilon=1, bits=4, hashes=1, cohorts=2),
    Rappor(epsilon=3, bits=4, hashes=2, cohorts=2),
    Rappor(epsilon=1, lifetime=3, bits=3, hashes=1, cohorts=2),
    Rappor(epsilon=Fraction(1, 2), lifetime=4, bits=3, hashes=2, cohorts=2),
]


@pytest.mark.parametrize("rappor", RAPPORS, ids=repr)
def test_rappor_keeps_its_epsilon_for_one_report_and_its_lifetime_for_what_is_kept(
    rappor: Rappor, branches: Branches
) -> None:
    texts = ["a", "b", "c", "d", 5, None]
    one = [law_of(rappor, x, branches) for x in texts]
    low, _ = exp_bounds(rappor.epsilon)
    assert largest_ratio(one) <= low
    kept = [branches.law(lambda x=x: plain(rappor.fix(x, NoEntropy()))) for x in texts]  # type: ignore[misc]
    assert largest_ratio(kept) <= exp_bounds(rappor.lifetime)[0]
    if rappor.bloom.hashes == 1:  # some two texts share no bit in some cohort: nothing is given away
        assert largest_ratio(one) >= low * (1 - Fraction(1, 10**12))
        assert largest_ratio(kept) >= exp_bounds(rappor.lifetime)[0] * (1 - Fraction(1, 10**12))


def test_rappor_is_unbiased_with_the_variance_that_it_says(branches: Branches) -> None:
    rappor = Rappor(epsilon=2, lifetime=5, bits=4, hashes=2, cohorts=2)
    texts = ["a", "b", "c"]
    for i, x in enumerate(texts):
        law = law_of(rappor, x, branches)
        estimates = [rappor.estimate([report], domain=texts) for report in law]
        values = np.array([e.values for e in estimates])
        chances = np.array([float(p) for p in law.values()])
        mean = chances @ values
        assert np.abs(mean - np.eye(3)[i]).max() < 1e-9
        variance = chances @ (values - mean) ** 2
        assert variance[i] == pytest.approx(estimates[0].own[i])
        others = np.arange(3) != i
        assert (variance[others] <= estimates[0].other[others] * (1 + 1e-6)).all()
        assert np.abs(values - mean).max() <= estimates[0].reach
