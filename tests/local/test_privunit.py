"""PrivUnit: the exact law given the public directions, what it says on average, and how good it is."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from discreet.errors import InvalidParameter
from discreet.local import Memoised, PrivUnit
from discreet.local.privunit import best_numbers, closeness, directions
from tests.local.branches import Branches
from tests.local.public_parts import FixedBytes, largest_ratio, law_of, least_exp, tree

__all__ = ["tree"]

ALARM = 6.5
VECTORS: list[list[float]] = [
    [1.0, 0.0, 0.0],
    [0.0, -1.0, 0.0],
    [0.6, 0.0, -0.8],
    [5.0, 5.0, 5.0],
    [0.0, 0.0, 0.0],
    [1e-300, 0.0, 0.0],
    [math.nan, math.inf, 1.0],
]


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(5)], ids=str)
@pytest.mark.parametrize("candidates", [2, 4, 10])
@pytest.mark.parametrize("public", [7, 8, 250])
def test_given_the_directions_no_ratio_is_above_e_to_epsilon(
    candidates: int, epsilon: Fraction, public: int, tree: Branches
) -> None:
    privunit = PrivUnit(epsilon=epsilon, dimension=3, candidates=candidates)
    laws = [law_of(privunit, x, tree, FixedBytes(public)) for x in VECTORS]
    ratio = largest_ratio(laws)
    assert ratio <= least_exp(epsilon)
    assert ratio >= least_exp(epsilon) * (1 - Fraction(1, 10**12))
    p, k = privunit.coin.chance, privunit.nearest
    for law in laws:
        assert len(law) == candidates and len({nonce for nonce, _ in law}) == 1
        assert sorted(law.values()) == [(1 - p) / (candidates - k)] * (candidates - k) + [p / k] * k


def test_the_nearest_directions_are_the_likely_ones(tree: Branches) -> None:
    privunit = PrivUnit(epsilon=3, dimension=3, candidates=20)
    x = np.array([0.6, 0.0, -0.8])
    law = law_of(privunit, x, tree)
    reports = np.array(list(law))
    inner = privunit._vectors(reports) @ x
    chances = np.array([float(p) for p in law.values()])
    likely = np.sort(inner[chances > chances.min()])
    assert len(likely) == privunit.nearest and likely[0] >= np.sort(inner)[-privunit.nearest]


@pytest.mark.parametrize(
    ("pairs", "nearest", "d"), [(1, 1, 2), (1, 1, 7), (4, 2, 3), (16, 5, 50), (8, 8, 4), (64, 1, 1000)]
)
def test_the_mean_closeness_is_that_of_order_statistics(pairs: int, nearest: int, d: int) -> None:
    p = Fraction(3, 4)
    law = stats.beta(0.5, (d - 1) / 2)  # of ⟨u, x⟩²

    def rank(k: int, power: float) -> float:
        """E T^(2·power) of the k-th largest of `pairs`, by its Beta distributed level."""
        level = stats.beta(pairs - k + 1, k)
        return float(integrate.quad(lambda u: law.ppf(u) ** power * level.pdf(u), 0, 1, limit=400)[0])

    near, square = (sum(rank(k, power) for k in range(1, nearest + 1)) / nearest for power in (0.5, 1.0))
    others = 2 * pairs - nearest
    found = closeness(pairs, nearest, p, d)
    assert found.mean == pytest.approx(0.75 * near - 0.25 * near * nearest / others, rel=1e-6)
    assert found.square == pytest.approx(0.75 * square + 0.25 * (2 * pairs / d - nearest * square) / others, rel=1e-6)


def test_one_pair_is_the_sign_of_a_random_projection() -> None:
    # Duchi, Jordan, Wainwright's ℓ2 mechanism: E|⟨u, x⟩| = Γ(d/2)/(√π·Γ((d + 1)/2))
    for d in (2, 5, 100):
        projection = special.gamma(d / 2) / special.gamma((d + 1) / 2) / math.sqrt(math.pi) if d < 100 else None
        found = closeness(1, 1, Fraction(1), d).mean
        assert found == pytest.approx(projection or math.exp(math.lgamma(50) - math.lgamma(50.5)) / math.sqrt(math.pi))


@cache
def privunit_optimum(epsilon: float, d: int) -> float:
    """The squared error of PrivUnit on the sphere at its best cap: minimised as Asi et al. do."""

    def negative(height: float) -> float:
        a = (d - 1) / 2
        cap = special.betainc(a, 0.5, 1 - height**2) / 2
        likely = cap * math.exp(epsilon) / (cap * math.exp(epsilon) + 1 - cap)
        # E⟨u, x⟩ over the cap times its mass: (1 − h²)^a/(2a·B(1/2, a))
        first = (1 - height**2) ** a / (2 * a * special.beta(0.5, a))
        return -float(first * (likely / cap - (1 - likely) / (1 - cap)))

    found = optimize.minimize_scalar(negative, bounds=(0, 0.999), method="bounded")
    return float(1 / found.fun**2)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 6.0, 8.0])
@pytest.mark.parametrize("d", [5, 100, 1000])
def test_the_squared_error_is_near_that_of_privunit(epsilon: float, d: int) -> None:
    best = privunit_optimum(epsilon, d)
    ours = PrivUnit(epsilon=epsilon, dimension=d)
    assert best * 0.999 <= ours.squared_error <= best * 1.05
    assert ours.candidates <= 1 << 12
    if epsilon <= 6:
        more = PrivUnit(epsilon=epsilon, dimension=d, candidates=1 << 13)
        assert best * 0.999 <= more.squared_error <= best * 1.005


def test_public_directions_are_uniform_on_the_sphere_and_the_same_each_time() -> None:
    nonces = np.arange(4000, dtype=np.uint64)
    found = directions(nonces, np.arange(5), 3)
    assert found.shape == (4000, 5, 3)
    assert np.allclose((found**2).sum(axis=2), 1)
    flat = found.reshape(-1, 3)
    for axis in (np.array([1.0, 0, 0]), np.array([0.6, 0, 0.8]), np.array([1, 1, 1]) / math.sqrt(3)):
        assert stats.kstest(flat @ axis, "uniform", args=(-1, 2)).pvalue > 1e-9  # Archimedes
    assert stats.kstest(flat[:, 0] * 1.05, "uniform", args=(-1, 2)).pvalue < 1e-9
    correlation = (found[:, 0] * found[:, 1]).sum(axis=1)  # of two directions of one number
    assert stats.kstest(correlation, "uniform", args=(-1, 2)).pvalue > 1e-9
    again = directions(nonces[17:18], np.array([[3]]), 3)
    assert np.array_equal(again[0, 0], found[17, 3])


@pytest.mark.parametrize(("epsilon", "d", "length"), [(2, 6, 1.0), (4, 6, 0.5), (3, 2, 0.0)])
def test_the_mean_is_unbiased_and_as_exact_as_is_said(epsilon: int, d: int, length: float) -> None:
    n = 20_000
    axis = np.array([1.0, -2.0, 0.5, 0.0, 1.0, 3.0][:d])
    vector = 3 * length * axis / np.linalg.norm(axis)
    privunit = PrivUnit(epsilon=epsilon, dimension=d, radius=3)
    reports = privunit.randomize(np.tile(vector, (n, 1)))
    estimate = privunit.estimate(reports)
    said = privunit._vectors(reports) * (3 / privunit.closeness.mean)
    deviations = (estimate.values - vector) / (said.std(axis=0) / math.sqrt(n))
    assert np.abs(deviations).max() < ALARM
    moved = (estimate.values - vector - 0.3) / (said.std(axis=0) / math.sqrt(n))
    assert np.abs(moved).min() > ALARM  # a bias of a tenth of the radius would be seen
    total = float(((said - vector) ** 2).sum(axis=1).mean())
    assert total == pytest.approx(privunit.squared_error - 9 * length**2, rel=0.05)
    assert (said.var(axis=0) <= estimate.own * 1.05).all()
    assert (np.abs(said - vector) <= estimate.reach * (1 + 1e-9)).all()


def test_a_vector_along_an_axis_has_the_variance_of_the_interval() -> None:
    privunit = PrivUnit(epsilon=4, dimension=20)
    reports = privunit.randomize(np.tile(np.eye(20)[0], (8_000, 1)))
    said = privunit._vectors(reports)[:, 0] / privunit.closeness.mean
    assert float((said**2).mean()) == pytest.approx(float(privunit.estimate(reports).own[0]), rel=0.08)


def test_longer_vectors_are_cut_to_the_radius_and_none_is_refused() -> None:
    privunit = PrivUnit(epsilon=8, dimension=3, radius=2)
    for vector in VECTORS:
        assert privunit.randomize(vector).shape == (2,)
    reports = privunit.randomize(np.tile([40.0, 0.0, 0.0], (4000, 1)))
    assert privunit.estimate(reports).values[0] == pytest.approx(2.0, abs=0.3)
    assert privunit.randomize(np.empty((0, 3))).shape == (0, 2)


def test_the_numbers_of_candidates_grow_with_epsilon() -> None:
    found = [best_numbers(Fraction(e), 100) for e in (1, 2, 4, 6, 8)]
    assert [p for p, _ in found] == [16, 32, 64, 256, 2048]
    assert all(8 <= k < p for p, k in found)
    assert best_numbers(Fraction(1000), 100)[1] == 1


@pytest.mark.parametrize(
    "given",
    [
        {"dimension": 1},
        {"dimension": 0},
        {"dimension": 2.5},
        {"dimension": True},
        {"dimension": 1 << 40},
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"radius": 0},
        {"radius": math.inf},
        {"radius": 10**200},
        {"candidates": 3},
        {"candidates": 0},
        {"candidates": 1 << 20},
        {"dimension": 1 << 20, "candidates": 1 << 10},
    ],
    ids=str,
)
def test_impossible_parameters_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        PrivUnit(**({"epsilon": 1, "dimension": 4} | given))


def test_what_is_no_vector_and_what_is_no_report_is_refused() -> None:
    privunit = PrivUnit(epsilon=1, dimension=3)
    for x in (1.0, [1.0, 2.0], [[1.0, 2.0]], "abc", np.ma.zeros(3), [True, "a", 1]):
        with pytest.raises(InvalidParameter):
            privunit.randomize(x)
    for reports in ([], [1, 2, 3], [[1, privunit.candidates]], [[-1, 0]], [[0.5, 1.0]]):
        with pytest.raises(InvalidParameter):
            privunit.estimate(reports)


def test_it_is_a_frozen_value_that_explains_itself() -> None:
    privunit = PrivUnit(epsilon="0.5", dimension=4)
    assert pickle.loads(pickle.dumps(privunit)) == privunit == PrivUnit(epsilon=0.5, dimension=4)
    title, *steps = privunit.explain().splitlines()
    assert title == repr(privunit) and len(steps) == 7 and "0.5-DP" in privunit.explain()
    assert privunit.error(10_000) == pytest.approx(2 * privunit.error(40_000), rel=1e-9)
    daily = Memoised(privunit)
    assert len({tuple(daily.randomize([1.0, 0, 0, 0]).tolist()) for _ in range(5)}) == 1
