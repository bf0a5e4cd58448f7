"""Local and smooth sensitivities beside exhaustive search over small worlds, and beside the formula on larger data."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from discreet.mechanisms.stable.spread import (
    FARTHEST,
    Deviation,
    Interquartile,
    ModeBounds,
    Rank,
    SensitivityBounds,
    Weights,
)
from discreet.privacy.unit import Relation
from tests.mechanisms.stable import worlds as small
from tests.mechanisms.stable.worlds import SPAN, VALUES, Function, World

HALF = Fraction(1, 2)
P = {"median": HALF, "upper": Fraction(3, 4), "third": Fraction(1, 3)}
FUNCTIONS: dict[str, Function] = {
    **{name: small.quantile(p) for name, p in P.items()},
    "iqr": small.interquartile,
    "mad": small.deviation,
    "mode": small.mode,
}
BASE = Fraction(5, 4)


def spread(name: str, x: World, relation: Relation, changes: int = 1) -> SensitivityBounds:
    ordered = np.array(x, dtype=np.int64)
    if name in P:
        return Rank(ordered, SPAN, P[name], relation, changes=changes)
    if name == "mode":
        return ModeBounds([x.count(v) for v in VALUES], VALUES, SPAN, relation, changes=changes)
    kind = Interquartile if name == "iqr" else Deviation
    return kind(ordered, SPAN, relation, changes=changes)


every = pytest.mark.parametrize("name", FUNCTIONS)
both = pytest.mark.parametrize("relation", list(Relation), ids=lambda r: r.value)


@every
def test_the_statistic_is_that_of_its_definition(name: str) -> None:
    for n in range(6):
        for x in small.worlds(n):
            assert spread(name, x, Relation.REPLACE).value() == FUNCTIONS[name](x)


@every
@both
@pytest.mark.parametrize("changes", [1, 2])
def test_no_data_set_so_near_can_be_moved_farther(name: str, relation: Relation, changes: int) -> None:
    for n in range(5 if changes == 1 else 4):
        for x in small.worlds(n):
            found = spread(name, x, relation, changes)
            for k in range(3 if changes == 1 else 2):
                exact = small.farthest(FUNCTIONS[name], x, k, relation, changes)
                assert exact <= found.most(k) <= SPAN
                if relation is Relation.REPLACE and name in P and changes == 1 and n:
                    assert found.most(k) == exact
                if relation is Relation.ADD_REMOVE and name == "median" and changes == 1:
                    assert found.most(k) == exact


@every
@both
@pytest.mark.parametrize("changes", [1, 2])
def test_bounds_are_nested_and_grow(name: str, relation: Relation, changes: int) -> None:
    for n in range(1, 5 if changes == 1 else 4):
        for x in small.worlds(n):
            mine = [spread(name, x, relation, changes).most(k) for k in range(6)]
            assert all(a <= b for a, b in pairwise(mine))
            for y in small.within(x, changes, relation):
                theirs = [spread(name, y, relation, changes).most(k) for k in range(7)]
                assert all(a <= b for a, b in zip(mine, theirs[1:], strict=True))


@every
@both
@pytest.mark.parametrize(
    ("changes", "most"),
    [(1, 4), (2, 2), pytest.param(1, 6, marks=pytest.mark.slow), pytest.param(2, 4, marks=pytest.mark.slow)],
)
def test_smooth_sensitivity_bounds_the_local_one_and_is_smooth_exactly(
    name: str, relation: Relation, changes: int, most: int
) -> None:
    weights = Weights.of(BASE)
    for n in range(most + 1):
        for x in small.worlds(n):
            s = spread(name, x, relation, changes).smooth(weights)
            assert s >= small.local(FUNCTIONS[name], x, relation, changes)
            for y in small.within(x, changes, relation):
                assert s <= BASE * spread(name, y, relation, changes).smooth(weights)


def test_a_local_sensitivity_is_not_smooth() -> None:
    x, y = (0, 0, 0, 7, 7), (0, 0, 0, 0, 7)
    assert y in small.neighbours(x, Relation.REPLACE)
    one, two = (small.local(FUNCTIONS["median"], z, Relation.REPLACE) for z in (x, y))
    assert (one, two) == (7, 0)


@pytest.mark.parametrize("name", P)
def test_under_replace_it_is_the_least_smooth_bound(name: str) -> None:
    """max over k of Aₖ/B^k with exhaustive Aₖ; a weight is at most the next larger multiple of 2^-62."""
    weights = Weights.of(BASE)
    for x in small.worlds(4):
        best = max(
            small.farthest(FUNCTIONS[name], x, k, Relation.REPLACE) * Fraction(w, weights.listed[0])
            for k, w in enumerate(weights.listed[:5])
        )
        floor = Fraction(weights.listed[-1] * SPAN, weights.listed[0])
        assert spread(name, x, Relation.REPLACE).smooth(weights) == max(best, floor)


def test_weights_fall_by_the_factor_and_no_faster() -> None:
    for base in (Fraction(3, 2), Fraction(1001, 1000), Fraction(10**9 + 1, 10**9), Fraction(40)):
        listed = Weights.of(base).listed
        some = [*listed[:3000], *listed[-1:]] if len(listed) > 10_000 else listed
        assert listed[0] == 1 << 62
        assert all(v <= w <= base * v for w, v in pairwise(listed[:3000]))
        assert all(base * (v - 1) < w for w, v in pairwise(listed[:3000]))
        assert sorted(some, reverse=True) == list(some)
        assert listed[-1] <= 1 << 20 or len(listed) == 1 << 18


def plainly(x: list[int], span: int, weights: Weights, changes: int) -> Fraction:
    """Nissim, Raskhodnikova, Smith's formula for the median, by its double loop."""
    n, m = len(x), -(-len(x) // 2)

    def at(s: int) -> int:
        return 0 if s < 1 else span if s > n else x[s - 1]

    best = weights.listed[-1] * span
    for k in range(min(n + 1, len(weights.listed))):
        moves = (k + 1) * changes
        widest = max(at(m + t) - at(m + t - moves) for t in range(moves + 1))
        best = max(best, weights.listed[k] * widest)
    return Fraction(best, weights.listed[0])


@pytest.mark.parametrize("changes", [1, 3])
@pytest.mark.parametrize("kind", ["even", "lognormal", "ties", "clusters", "all alike"])
def test_branch_and_bound_finds_what_the_double_loop_finds(kind: str, changes: int) -> None:
    rng = np.random.default_rng(7)
    span = 1 << 41
    data = {
        "even": np.linspace(0, span, 201),
        "lognormal": rng.lognormal(20, 2, 200),
        "ties": rng.integers(0, 5, 199) * (span // 5),
        "clusters": np.concatenate([rng.normal(0.3, 1e-6, 70), rng.normal(0.7, 1e-6, 71)]) * span,
        "all alike": np.full(90, span // 3),
    }[kind]
    x = np.sort(np.clip(data, 0, span).astype(np.int64))
    for base in (Fraction(11, 10), Fraction(101, 100), Fraction(2)):
        weights = Weights.of(base)
        found = Rank(x, span, HALF, Relation.REPLACE, changes=changes).smooth(weights)
        assert found == plainly(x.tolist(), span, weights, changes)


@pytest.mark.parametrize("p", [HALF, Fraction(9, 10)])
def test_branch_and_bound_agrees_with_the_sequence_under_add_remove(p: Fraction) -> None:
    x = np.sort(np.random.default_rng(8).integers(0, 1 << 40, 300))
    rank = Rank(x, 1 << 40, p, Relation.ADD_REMOVE, changes=2)
    for base in (Fraction(11, 10), Fraction(101, 100)):
        assert rank.smooth(Weights.of(base)) == SensitivityBounds.smooth(rank, Weights.of(base))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("p", [HALF, Fraction(9, 10)])
def test_no_data_set_makes_it_large(relation: Relation, p: Fraction) -> None:
    """Equal values, with the whole range in reach of two thirds of the weights at the earliest."""
    weights = Weights.of(Fraction(301, 300))
    reach = len(weights.listed) * 2 // 3
    n = 2 * reach if p == HALF else 10 * reach
    tracemalloc.start()
    found = Rank(np.full(n, 1 << 39), 1 << 40, p, relation).smooth(weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found > 0 and peak < 1 << 26


@every
@both
def test_the_distance_to_instability_is_exact_or_less_and_moves_by_one(name: str, relation: Relation) -> None:
    for n in (1, 2, 3):
        for x in small.worlds(n):
            for bound in (1, 3):
                found = spread(name, x, relation).stable_for(bound)
                exact = next((k for k in range(4) if small.farthest(FUNCTIONS[name], x, k, relation) > bound), 4)
                assert min(found, 4) <= exact
                if relation is Relation.REPLACE and name in P:
                    assert min(found, 4) == exact
                for y in small.neighbours(x, relation):
                    assert abs(spread(name, y, relation).stable_for(bound) - found) <= 1
    assert spread(name, (0, 7), relation).stable_for(SPAN) == FARTHEST


@both
@pytest.mark.parametrize("changes", [1, 2])
def test_the_lead_of_a_mode_hides_every_unit_until_it_is_gone(relation: Relation, changes: int) -> None:
    for n in range(1, 7):
        for x in small.worlds(n):
            found = spread("mode", x, relation, changes)
            assert isinstance(found, ModeBounds)
            lead = found.lead()
            for y in small.within(x, changes, relation):
                theirs = spread("mode", y, relation, changes)
                assert isinstance(theirs, ModeBounds) and abs(theirs.lead() - lead) <= 1
                assert not lead or small.mode(x) == small.mode(y)


def test_deviation_beside_all_centres_on_a_fine_grid() -> None:
    """The largest and smallest distances over all centres, by trying every half step."""
    rng = np.random.default_rng(9)
    span = 400
    for n in (7, 8, 15):
        x = np.sort(rng.integers(0, span + 1, n))
        m = -(-n // 2)
        found = Deviation(x, span, Relation.REPLACE)
        for k in range(n // 2 - 1):
            low, high = m - k - 1, m + k + 1
            if low < 1 or high > n:
                continue
            centres = np.arange(2 * x[low - 1], 2 * x[high - 1] + 1) / 2
            far = np.sort(np.abs(x[None, :] - centres[:, None]), axis=1)
            exact = np.ceil(far[:, high - 1].max()) - np.floor(far[:, low - 1].min())
            assert found.most(k) == exact
