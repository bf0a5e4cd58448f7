"""How far a unit moves totals, against all vectors of small worlds; how levels are combined, against linear algebra."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.grouping_sets.moves import ColumnReach, joint_l1, level_moves
from discreet.plan.grouping_sets.split_budget import Agreement, rounding
from discreet.plan.grouping_sets.weights import GroupingSet, LevelCosts, Levels, shares, variances
from discreet.post.evaluate import adjusted
from discreet.privacy.unit import Relation
from discreet.verify.levels import Tier, gaussian_cost, laplace_cost, tier_of
from tests.coverage import covers

SPANS = [(0, 1), (0, 2), (-1, 1), (-1, 2), (-2, 1)]


def rollup(keys: int) -> list[GroupingSet]:
    return [tuple(range(n)) for n in range(keys, -1, -1)]


def cube(keys: int) -> list[GroupingSet]:
    return [c for n in range(keys, -1, -1) for c in combinations(range(keys), n)]


def vectors(groups: int, k: int, span: tuple[int, int]) -> list[tuple[int, ...]]:
    """All that a unit can add to the finest groups."""
    return [v for v in product(range(span[0], span[1] + 1), repeat=groups) if sum(x != 0 for x in v) <= k]


def moves(groups: int, k: int, span: tuple[int, int], relation: Relation) -> set[tuple[int, ...]]:
    """All by which neighbours can differ."""
    found = vectors(groups, k, span)
    if relation is Relation.ADD_REMOVE:
        return set(found)
    return {tuple(a - b for a, b in zip(x, y, strict=True)) for x in found for y in found}


def sums(sizes: Sequence[int], kept: GroupingSet) -> np.ndarray:
    """The matrix that adds up a level from the finest groups."""
    cells = list(product(*map(range, sizes)))
    rows = list(product(*(range(sizes[i]) for i in kept)))
    return np.array([[float(tuple(c[i] for i in kept) == r) for c in cells] for r in rows])


def small() -> Iterator[tuple[int, int, tuple[int, int]]]:
    for cells, parts in [(1, 1), (1, 3), (3, 1), (2, 2), (3, 2), (2, 3), (4, 1)]:
        for span in SPANS:
            if (span[1] - span[0] + 1) ** (cells * parts) <= 300 or span == (0, 1):
                yield cells, parts, span


@pytest.mark.parametrize("relation", list(Relation))
def test_a_level_moves_by_what_the_worst_of_all_neighbours_moves_it(relation: Relation) -> None:
    for cells, parts, span in small():
        for k in range(1, cells * parts + 1):
            found = np.array(list(moves(cells * parts, k, span, relation)))
            totals = np.abs(found.reshape(len(found), cells, parts).sum(axis=2))
            s = level_moves(ColumnReach(span, k, relation), cells, parts)
            assert (s.l0, s.linf) == ((totals > 0).sum(axis=1).max(), totals.max())
            assert (s.l1, s.l2_squared) == (totals.sum(axis=1).max(), (totals**2).sum(axis=1).max())


@pytest.mark.parametrize("relation", list(Relation))
def test_the_second_derivation_prices_levels_as_the_first_does(relation: Relation) -> None:
    """Each with a level of its own noise, and all together; the two share no code."""
    other = relation is Relation.REPLACE
    for cells, parts, span in [*small(), (40, 25, (-3, 10)), (7, 30, (-10, 3)), (2, 64, (0, 9)), (1, 50, (-5, 5))]:
        for k in sorted({*range(1, min(cells * parts, 6) + 1), min(cells * parts, 77), cells * parts // 2 or 1}):
            reach = ColumnReach(span, k, relation)
            s = level_moves(reach, cells, parts)
            tier = Tier(cells, parts, Fraction(7, 2))
            assert gaussian_cost([tier], span, k, replace=other) == Fraction(2 * s.l2_squared, 7)
            assert laplace_cost([tier], span, k, replace=other) == joint_l1(reach, [s], [cells], [Fraction(2, 7)])
            scales = [Fraction(2), Fraction(5), Fraction(3)]
            shapes = [(cells * parts, 1), (cells, parts), (1, cells * parts)]
            tiers = [Tier(*shape, b) for shape, b in zip(shapes, scales, strict=True)]
            joint = joint_l1(
                reach, [level_moves(reach, *x) for x in shapes], [n for n, _ in shapes], [1 / b for b in scales]
            )
            assert laplace_cost(tiers, span, k, replace=other) == joint


RATES = [(1, 1, 1), (3, 1, 1), (1, 0, 2), (2, 0, 1), (1, 2, 4)]


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    ("sizes", "sets"), [((2, 2), rollup(2)), ((2, 3), rollup(2)), ((2, 2), cube(2)), ((5,), rollup(1))]
)
def test_all_levels_together_cost_what_the_worst_neighbours_lose(
    sizes: tuple[int, ...], sets: list[GroupingSet], relation: Relation
) -> None:
    """Never less; and where the groups are many enough for old and new to lie apart, no more."""
    levels = Levels.of(sizes, sets)
    groups = math.prod(sizes)
    for span, k in [((0, 1), 1), ((0, 1), 2), ((0, 1), 3), ((-1, 2), 1), ((-1, 2), 2), ((-1, 1), 2)]:
        if (span[1] - span[0] + 1) ** groups > 1100:
            continue
        found = np.array(list(moves(groups, k, span, relation)))
        sizes_of = [np.abs(found @ sums(sizes, s).T).sum(axis=1) for s in levels.kept]
        squares = [((found @ sums(sizes, s).T) ** 2).sum(axis=1) for s in levels.kept]
        reach = ColumnReach(span, k, relation)
        moved = [level_moves(reach, levels.cells(s), levels.parts(s)) for s in levels.kept]
        for rates in RATES:
            given = [*rates, *[1] * len(sets)][: len(sets)]
            worst = max(sum(a * x for a, x in zip(given, sizes_of, strict=True)))
            joint = joint_l1(reach, moved, [levels.cells(s) for s in levels.kept], [Fraction(a) for a in given])
            assert joint >= worst
            apart = sizes[0] >= 2 * k or k == 1 or relation is Relation.ADD_REMOVE
            assert joint == worst or not apart
            squared = max(sum(a * x for a, x in zip(given, squares, strict=True)))
            bound = sum(a * s.l2_squared for a, s in zip(given, moved, strict=True))
            assert bound >= squared
            if relation is Relation.ADD_REMOVE and sets == rollup(len(sizes)):
                assert bound == squared


def test_a_level_that_is_forgotten_or_priced_short_is_noticed() -> None:
    """The broken twin: totals that are said to move by what one group moves."""
    tiers = [Tier(12, 1, Fraction(8)), Tier(4, 3, Fraction(8))]
    assert laplace_cost(tiers, (0, 2), 2, replace=False) == 1
    assert laplace_cost(tiers[:1], (0, 2), 2, replace=False) < 1
    assert gaussian_cost(tiers[1:], (0, 2), 2, replace=False) == 16 / Fraction(8)  # (2 + 2)², not 2² + 2²
    assert tier_of([4, 3], [0, 0], Fraction(1)) is None
    assert tier_of([4, 3], [2], Fraction(1)) is None


SHAPES = [
    ((3, 2), rollup(2), rollup(2)),
    ((3, 2, 2), rollup(3), [(0, 1, 2), (0,), ()]),
    ((3, 2, 2), cube(3), cube(3)),
    ((3, 4), cube(2), [(0, 1), (1,)]),
    ((3, 4), [(0, 1), (1,), ()], [(0, 1), (1,), ()]),
    ((3, 1, 2), cube(3), [(0, 1, 2), (1, 2), (0, 2)]),
]


@pytest.mark.parametrize(("sizes", "sets", "measured"), SHAPES, ids=str)
def test_levels_are_combined_by_weighted_least_squares(
    sizes: tuple[int, ...], sets: list[GroupingSet], measured: list[GroupingSet]
) -> None:
    levels, random = Levels.of(sizes, sets), np.random.default_rng(5)
    noises: list[Additive] = [DiscreteLaplaceNoise(Fraction(int(b))) for b in random.integers(20, 90, len(measured))]
    agreement = Agreement(levels, tuple(zip(measured, noises, strict=True)))
    strategy = np.vstack([sums(sizes, s) for s in measured])
    weights = np.repeat([1 / z.variance for z in noises], [levels.cells(s) for s in measured])
    solution = np.linalg.inv(strategy.T * weights @ strategy) @ (strategy.T * weights)
    for _ in range(20):
        read = [random.integers(-500, 500, levels.cells(s)).tolist() for s in measured]
        agreed = adjusted(agreement, read[0], read[1:])
        assert all(isinstance(x, int) for x in agreed)
        exact = solution @ np.concatenate(read)
        for s in levels.kept:
            off = np.abs(sums(sizes, s) @ (np.array(agreed) - exact))
            assert off.max() <= float(rounding(levels, s)) + 1e-6
    found = np.array(
        [dict(zip(measured, noises, strict=True))[s].variance if s in measured else np.inf for s in levels.kept]
    )
    for s, predicted in zip(levels.kept, variances(levels, found), strict=True):
        exactly = (sums(sizes, s) @ solution) ** 2 @ (1 / weights)
        assert agreement.variance(s) == pytest.approx(exactly[0])
        assert exactly == pytest.approx(predicted)


def test_numbers_beyond_floats_are_combined_without_loss() -> None:
    """Sums of large fixed-point numbers: what is added to them is as small as noise."""
    noise = DiscreteLaplaceNoise(Fraction(10))
    agreement = Agreement(Levels.of((2, 2), rollup(2)), (((0, 1), noise), ((0,), noise), ((), noise)))
    base = [2**70 + 1, 2**69 + 3, -(2**71), 5]
    read = [[base[0] + base[1] + 4, base[2] + base[3] - 4], [sum(base)]]
    found = adjusted(agreement, base, read)
    assert sum(found) == sum(base)
    # the pairs are off by 4 and −4, which their two parts and they themselves share in three
    for x, exact, least in zip(found, base, (4, 4, -4, -4), strict=True):
        assert abs(x - exact - Fraction(least, 3)) <= 1


COSTS = st.lists(st.integers(2, 40), min_size=1, max_size=3)


@settings(max_examples=40, deadline=None)
@given(COSTS, st.booleans(), st.booleans())
def test_no_level_has_more_noise_than_alone_with_its_part(sizes: list[int], whole: bool, gaussian: bool) -> None:
    """Truth: the variance of ordinary least squares in floats, and ε or μ² divided evenly."""
    levels = Levels.of(sizes, (cube if whole else rollup)(len(sizes)))
    n = len(levels.kept)
    found = shares(levels, (LevelCosts((1.0,) * n, None),), gaussian=gaussian)
    if found is None:
        if levels.weighable:
            assert all(levels.parts(s) <= (n if gaussian else n * n) for s in levels.kept)
        return
    given = np.array(found) / sum(found)
    with np.errstate(divide="ignore"):
        after = variances(levels, given ** (-1.0 if gaussian else -2.0))
    assert (after <= (n if gaussian else n * n) * (1 + 1e-6)).all()
    assert given[0] > 0


def test_more_levels_than_can_be_weighed_are_added_up() -> None:
    costs = (LevelCosts((1.0,) * 32, None),)
    assert shares(Levels.of((9,) * 5, cube(5)), costs, gaussian=True) is None
    assert shares(Levels.of((9,), [(0,)]), (LevelCosts((1.0,), None),), gaussian=True) is None


@pytest.mark.laws
@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [DiscreteLaplaceNoise, RoundedGaussianNoise])
@pytest.mark.parametrize("sets", [rollup(2), cube(2)], ids=["rollup", "cube"])
def test_the_law_of_each_level_covers_drawn_errors_as_often_as_it_says(kind: Any, sets: list[GroupingSet]) -> None:
    """3,000 draws of numpy's at 90 %; rounding makes the intervals a little wide."""
    sizes, random, runs = (4, 3), np.random.default_rng(11), 3_000
    noises = [kind(Fraction(b)) for b in (40, 60, 50, 90)][: len(sets)]
    levels = Levels.of(sizes, sets)
    agreement = Agreement(levels, tuple(zip(levels.kept, noises, strict=True)))
    drawn = []
    for s, z in zip(levels.kept, noises, strict=True):
        shape = (runs, levels.cells(s))
        if isinstance(z, DiscreteLaplaceNoise):
            p = 1 - math.exp(-1 / float(z.scale))
            drawn.append(random.geometric(p, shape) - random.geometric(p, shape))
        else:
            drawn.append(np.rint(random.normal(0, float(z.sigma), shape)).astype(int))
    errors = np.array(
        [adjusted(agreement, d[0].tolist(), [x.tolist() for x in d[1:]]) for d in zip(*drawn, strict=True)]
    )
    for s in levels.kept:
        t = agreement.noise(s).quantile(Fraction(9, 10))
        far = np.abs(errors @ sums(sizes, s).T[:, 0])
        assert covers(int((far <= t).sum()), runs, 0.9) and (far <= t).sum() <= 2_800
        assert not covers(int((far <= 0.8 * t).sum()), runs, 0.9)
