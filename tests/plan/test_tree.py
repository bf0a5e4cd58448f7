"""Quantiles and modes from noisy trees: against plain sums, against numpy, and how often intervals hold."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from scipy.stats import binom

from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.quantile_tree.shape import TreeRead
from discreet.plan.quantile_tree.tree import CONFIDENCES, ExactLeaves, NoisyTree, children, families_json, families_of
from tests.coverage import covers
from tests.plan.tree_shapes import HALF, at, drawn, given, shape_of, whole

STILL = DiscreteLaplaceNoise(Fraction(1, 10_000))
SHARES = [Fraction(0), Fraction(1, 20), Fraction(1, 4), HALF, Fraction(9, 10), Fraction(1)]
SHAPES = [(7, 7, 1), (16, 4, 2), (50, 4, 3), (27, 3, 3), (1, 1, 1)]
FALSE_ALARM = 1e-9


@pytest.mark.parametrize(("leaves", "fanout", "depth"), SHAPES)
def test_the_nodes_of_each_level_are_sums_of_their_leaves(leaves: int, fanout: int, depth: int) -> None:
    shape = shape_of(leaves, fanout, depth)
    weights = {i: (i * 7) % 5 for i in range(leaves) if i % 3}
    exact = ExactLeaves.of(weights)
    for level in range(depth):
        found: list[int] = []
        covered: list[int] = []
        for place in range(-(-leaves // fanout ** (depth - level))):
            found += exact.sums(shape, level, place)
            covered += [i for a, b in children(shape, level, place) for i in range(a, b)]
        size = fanout ** (depth - level - 1)
        assert covered == list(range(leaves))
        plain = [sum(weights.get(i, 0) for i in range(a, a + size)) for a in range(0, leaves, size)]
        assert found == plain


@pytest.mark.parametrize(("leaves", "fanout", "depth"), SHAPES)
@pytest.mark.parametrize("p", SHARES, ids=str)
def test_without_noise_a_quantile_is_that_of_numpy(leaves: int, fanout: int, depth: int, p: Fraction) -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(0, leaves, 101)
    tree = drawn(shape_of(leaves, fanout, depth), Counter(values.tolist()), STILL)
    found = at(tree, p)
    assert np.quantile(values, float(p), method="lower") <= found <= np.quantile(values, float(p), method="higher")
    low, high = tree.interval(p, Fraction(19, 20))
    assert low <= found <= high
    if 0 < p < 1:  # one row to each side, whatever definition is meant
        assert np.quantile(values, max(float(p) - 0.03, 0)) <= low
        assert high <= np.quantile(values, min(float(p) + 0.03, 1))


@for_all(
    st.sampled_from(SHAPES),
    st.dictionaries(st.integers(0, 49), st.integers(0, 40), max_size=12),
    st.integers(0, 2**32),
    st.lists(st.fractions(0, 1, max_denominator=100), min_size=2, max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_quantiles_rise_with_their_share_and_stay_in_bounds(
    sizes: tuple[int, int, int], weights: dict[int, int], seed: int, shares: list[Fraction]
) -> None:
    shape = shape_of(*sizes)
    noise = DiscreteLaplaceNoise(Fraction(6))
    rng = np.random.default_rng(seed)
    z: dict[tuple[int, int, int], int] = {}
    tree = given(
        shape,
        {i: w for i, w in weights.items() if i < shape.leaves},
        noise,
        lambda *node: z.setdefault(node, int(rng.laplace(0, 30))),
    )
    found = [at(tree, p) for p in sorted(shares)]
    assert found == sorted(found)
    assert all(0 <= v < shape.leaves for v in found)
    for p, v in zip(sorted(shares), found, strict=True):
        low, high = tree.interval(p, Fraction(19, 20))
        assert 0 <= low <= v <= high < shape.leaves


def test_what_is_drawn_on_demand_is_read_as_from_the_tree_with_all_noise_drawn() -> None:
    shape = shape_of(60, 4, 3)
    noise = DiscreteLaplaceNoise(Fraction(5))
    for seed in range(30):
        rng = np.random.default_rng(seed)
        z = {(i, j, k): int(rng.laplace(0, 5)) for i in range(3) for j in range(16) for k in range(4)}
        weights = Counter(rng.integers(0, 60, 80).tolist())
        lazy = given(shape, weights, noise, lambda i, j, k, z=z: z[i, j, k])  # type: ignore[misc]
        lazy.look(TreeRead(shape, (Fraction(1, 4), HALF)))
        full = whole(given(shape, weights, noise, lambda i, j, k, z=z: z[i, j, k]))  # type: ignore[misc]
        assert lazy.families.items() <= full.families.items() and len(lazy.families) < len(full.families)
        kept = NoisyTree(shape, noise, families_of(families_json(lazy.families)), is_row=True)
        for p in (Fraction(1, 4), HALF):
            assert at(kept, p) == at(full, p)
            for confidence in (HALF, *CONFIDENCES):
                assert kept.interval(p, confidence) == full.interval(p, confidence)


def test_an_interval_at_a_level_that_was_not_looked_at_is_wider_and_not_wrong() -> None:
    shape, noise = shape_of(60, 4, 3), DiscreteLaplaceNoise(Fraction(3))
    beyond = 1 - Fraction(1, 10**6)
    for _ in range(20):
        tree = drawn(shape, Counter(range(0, 60, 2)), noise)
        tree.look(TreeRead(shape, (HALF,)))
        kept = NoisyTree(shape, noise, tree.families, is_row=True)
        near, far = kept.interval(HALF, CONFIDENCES[-1]), kept.interval(HALF, beyond)
        full = tree.interval(HALF, beyond)
        assert far[0] <= full[0] <= near[0] and near[1] <= full[1] <= far[1]


WEIGHTS = {
    "nobody": {},
    "one row": {13: 1},
    "one place": {20: 300},
    "two places": {3: 60, 44: 60},
    "everywhere": dict.fromkeys(range(50), 8),
    "one far": {5: 200, 49: 1},
}


def quantile_of(weights: dict[int, int], p: Fraction) -> int | None:
    """The least leaf at which the weight so far reaches p times the total."""
    total = sum(weights.values())
    reached = 0
    for i in sorted(weights):
        reached += weights[i]
        if reached >= p * total and reached:
            return i
    return None


def misses(noise: Additive, claimed: Additive, weights: dict[int, int], p: Fraction, n: int) -> int:
    """How often the 95 % interval misses the bounded quantile, where the tree believes in `claimed`."""
    shape = shape_of(50, 4, 3)
    truth, missed = quantile_of(weights, p), 0
    for _ in range(n):
        tree = drawn(shape, weights, noise)
        low, high = NoisyTree(shape, claimed, whole(tree).families, is_row=True).interval(p, CONFIDENCES[0])
        assert 0 <= low <= high <= 49
        missed += truth is not None and not low <= truth <= high
    return missed


@pytest.mark.thinned(2)
@pytest.mark.laws
@pytest.mark.sampled(6)
@pytest.mark.parametrize("p", [Fraction(0), Fraction(1, 4), HALF, Fraction(1)], ids=str)
@pytest.mark.parametrize("name", list(WEIGHTS))
def test_an_interval_misses_no_more_often_than_it_says(name: str, p: Fraction) -> None:
    noise = DiscreteLaplaceNoise(Fraction(4))
    n = 150
    assert covers(n - misses(noise, noise, WEIGHTS[name], p, n), n, 0.95)


def test_an_interval_for_too_little_noise_is_seen_to_miss() -> None:
    true, claimed = DiscreteLaplaceNoise(Fraction(24)), DiscreteLaplaceNoise(Fraction(2))
    assert not covers(300 - misses(true, claimed, WEIGHTS["everywhere"], HALF, 300), 300, 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [DiscreteLaplaceNoise(Fraction(4)), RoundedGaussianNoise(Fraction(5))], ids=repr)
@pytest.mark.parametrize("p", SHARES, ids=str)
@pytest.mark.parametrize("name", list(WEIGHTS))
def test_an_interval_misses_no_more_often_than_it_says_at_length(name: str, p: Fraction, noise: Additive) -> None:
    assert covers(3_000 - misses(noise, noise, WEIGHTS[name], p, 3_000), 3_000, 0.95)


def test_the_interval_of_an_extreme_reaches_to_the_bound_since_one_row_cannot_be_told() -> None:
    tree = drawn(shape_of(50, 4, 3), dict.fromkeys(range(10, 30), 50), STILL)
    assert tree.interval(Fraction(0), CONFIDENCES[0])[0] == 0
    assert tree.interval(Fraction(1), CONFIDENCES[0])[1] == 49
    assert 9 <= tree.interval(Fraction(0), CONFIDENCES[0])[1] <= 11
    assert 28 <= tree.interval(Fraction(1), CONFIDENCES[0])[0] <= 30


def test_noise_alone_does_not_take_an_extreme_to_the_bound() -> None:
    """Half of all empty parts look as if they held somebody; the released extreme keeps clear of that."""
    shape, noise = shape_of(4096, 16, 3), DiscreteLaplaceNoise(Fraction(4))
    weights = dict.fromkeys(range(1000, 2000), 3)
    far = sum(at(drawn(shape, weights, noise), Fraction(1)) > 2100 for _ in range(100))
    assert binom.sf(far - 1, 100, 0.3) > FALSE_ALARM


def test_a_mode_is_the_heaviest_leaf_and_its_interval_holds_it() -> None:
    shape, noise = shape_of(6, 6, 1), DiscreteLaplaceNoise(Fraction(1))
    weights = {0: 30, 1: 34, 2: 10, 5: 1}
    trees = [drawn(shape, weights, noise) for _ in range(300)]
    found = Counter(t.commonest(Type.INT) for t in trees)
    assert set(found) <= {0, 1} and found[1] > found[0]
    missed = sum(
        not t.commonest_interval(CONFIDENCES[0])[0] <= 1 <= t.commonest_interval(CONFIDENCES[0])[1] for t in trees
    )
    assert covers(300 - missed, 300, 0.95)


def test_a_mode_of_equal_leaves_is_the_first() -> None:
    assert drawn(shape_of(5, 5, 1), {1: 9, 3: 9}, STILL).commonest(Type.INT) == 1
