"""Edges about a named cell, and the interval between those whose ranks are surely too low and too high."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate, combinations, pairwise, product
from typing import TypeAlias

import numpy as np
import pytest

from discreet.mechanisms import ExponentialQuantile, exponential_quantile
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.exponential_quantile import COUNTED, EDGES, NEAR, Chosen, between, doubling, edges_about
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.privacy.unit import Relation
from discreet.testing import ReplayEntropy
from tests.coverage import covers

SHARES = [Fraction(1, 2), Fraction(3, 4), Fraction(1, 10), Fraction(99, 100)]


@pytest.mark.thinned(2)
@pytest.mark.laws
@pytest.mark.sampled(4)
@pytest.mark.parametrize("p", SHARES)
@pytest.mark.parametrize("confidence", [Fraction(9, 10), Fraction(19, 20), Fraction(199, 200)])
def test_an_edge_at_the_quantile_itself_is_passed_as_seldom_as_asked_and_too_little_noise_is_seen(
    p: Fraction, confidence: Fraction
) -> None:
    """The worst table and edges: up to the quantile's cell there are exactly p of the rows, and its ends are edges. To
    believe that noise is two thirds as large as it is falls below the bar.
    """
    runs, cells, quantile = 4000, 200, 100
    noise = DiscreteLaplaceNoise(Fraction(10))
    edges, total = (80, 95, quantile, quantile + 1, 106, 120), 100_000
    ranks = [0, int(p * total) - 400, int(p * total) - 60, int(p * total), int(p * total)]
    ranks += [int(p * total) + 60, int(p * total) + 400, total]
    parts = np.diff(ranks)
    drawn = noise.draw(runs * len(parts), ReplayEntropy(np.random.default_rng(3).bytes(1 << 20)))
    counts = (parts + drawn.reshape(runs, len(parts))).tolist()

    def held(law: DiscreteLaplaceNoise) -> int:
        found = 0
        for noisy in counts:
            low, high = between(edges, noisy, law, p, Fraction(0), cells, confidence)
            found += low <= quantile <= high
        return found

    assert covers(held(noise), runs, confidence)
    assert not covers(held(DiscreteLaplaceNoise(noise.scale * 2 / 3)), runs, confidence)


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 1000, 1 << 32])
def test_edges_lie_inside_the_grid_in_order_and_few_on_each_side_whatever_was_drawn(cells: int) -> None:
    rng = np.random.default_rng(11)
    noise = DiscreteLaplaceNoise(Fraction(7, 2))
    for cell in {0, min(1, cells - 1), cells // 2, cells - 1}:
        at = doubling(cell, cells)
        assert at == sorted(set(at)) and all(0 < x < cells for x in at)
        assert cells == 1 or {cell, cell + 1} & set(at)
        for size in (0, 1, 50, 10**6, 1 << 90):
            for unit in (1e-6, 1.0, 1e9):
                noisy = [int(k) * max(size // 100, 1) - size // 3 for k in rng.integers(-9, 100, len(at) + 1)]
                found = edges_about(cell, cells, noisy, noise, unit)
                assert found == sorted(set(found)) and all(0 < x < cells for x in found)
                left = sum(x <= cell for x in found)
                assert max(left, len(found) - left) <= EDGES


def choose(q: ExponentialQuantile, weights: Sequence[int]) -> Chosen:
    places = [i for i, w in enumerate(weights) if w]
    before = [0, *accumulate(weights[i] for i in places)]
    return q.choose(places, before, len(weights), SystemEntropy())


def test_edges_follow_from_the_cell_and_the_first_histogram_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the first histogram's numbers held fixed neither the data nor the second one's noise has a say in them."""
    q, alike = ExponentialQuantile(epsilon=1), set()
    near = [40, 9, 30, 11, 5, 2, 1, 3, 8, 12, 20, 40, 90, 55, 31, 20, 7]

    def add(noise: DiscreteLaplaceNoise, values: Sequence[int], rng: Entropy) -> list[int]:
        if noise == q.near:
            return [near[i % len(near)] for i in range(len(values))]
        alike.add(tuple(values))
        return [*values]

    monkeypatch.setattr(DiscreteLaplaceNoise, "add", add)
    for weights in ([1] * 500, [0] * 499 + [3000], [500, *[0] * 499], [0] * 500, [7, 0] * 250):
        for _ in range(5):
            found = choose(q, weights)
            noisy = [near[i % len(near)] for i in range(len(doubling(found.cell, 500)) + 1)]
            assert list(found.edges) == edges_about(found.cell, 500, noisy, q.near, 1 / float(q.rate))
    assert len(alike) > 5


@pytest.mark.parametrize("relation", list(Relation))
def test_no_unit_moves_the_parts_of_a_histogram_further_than_is_paid_for_whatever_the_edges(
    relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables of four cells, all units of weight up to 2, all edges: what noise is added to is compared."""
    cells, most = 4, 2
    units = [w for w in product(range(most + 1), repeat=cells) if sum(w) <= most]
    q = ExponentialQuantile(epsilon=1, sensitivity=most, relation=relation)
    near, counted = (noise.event(q.moved) for noise in (q.near, q.counted))
    assert sum(n * (e.pure or 0) for e, n in near + counted) == NEAR + COUNTED
    worst = 0
    for size in range(cells):
        for edges in combinations(range(1, cells), size):
            monkeypatch.setattr(exponential_quantile, "edges_about", lambda *_, e=edges: [*e])

            def parts(unit: tuple[int, ...]) -> tuple[int, ...]:
                given: list[list[int]] = []

                def add(noise: DiscreteLaplaceNoise, values: Sequence[int], rng: Entropy) -> list[int]:
                    given.append([*values])
                    return [*values]

                with monkeypatch.context() as patch:
                    patch.setattr(DiscreteLaplaceNoise, "add", add)
                    choose(q, [3 + a for a in unit])
                return tuple(given[1])

            known = {unit: parts(unit) for unit in units}
            one = dict.fromkeys(units, known[0, 0, 0, 0])
            pairs = [(known[u], one[u]) for u in units]
            if relation is Relation.REPLACE:
                pairs = [(a, b) for a, b in product(known.values(), repeat=2)]
            for a, b in pairs:
                moved = [abs(x - y) for x, y in zip(a, b, strict=True)]
                assert max(moved) <= q.moved.linf and sum(x > 0 for x in moved) <= q.moved.l0
                assert sum(x * x for x in moved) <= q.moved.l2_squared
                worst = max(worst, sum(moved))
    assert worst == q.moved.l1


@pytest.mark.parametrize("weights", [[0] * 40, [0] * 39 + [10**9], [1], [0], [0, 5], [1 << 70, *[0] * 30, 1 << 70]])
@pytest.mark.parametrize("epsilon", ["1e-24", "1e-12", "1", "1e6", "1e24"])
def test_no_table_and_no_epsilon_makes_a_draw_or_an_interval_fail(weights: list[int], epsilon: str) -> None:
    for p in (Fraction(1, 10**6), Fraction(1, 2), 1 - Fraction(1, 10**6)):
        for level in (Fraction(1, 100), Fraction(19, 20), 1 - Fraction(1, 10**15)):
            q = ExponentialQuantile(epsilon=epsilon, p=p)
            found = choose(q, weights)
            low, high = q.interval(found, len(weights), level)
            assert 0 <= low <= found.cell <= high < len(weights)


Law: TypeAlias = dict[tuple[int, tuple[int, ...]], float]


def law_of_edges(
    q: ExponentialQuantile, weights: Sequence[int], reach: int
) -> dict[tuple[int, tuple[int, ...]], float]:
    """The chance of each named cell with each set of edges, of noise up to `reach`: by definition, no draw."""
    cells, ends = len(weights), [0, *accumulate(weights)]
    target, scale = q.p * ends[-1], float(q.near.scale)
    losses = [max(ends[c] - target if c else 0, target - ends[c + 1] if c < cells - 1 else 0, 0) for c in range(cells)]
    named = np.exp([-float(q.rate * d) for d in losses])
    noise = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    noise = noise * (1 - math.exp(-1 / scale)) / (1 + math.exp(-1 / scale))
    found: Law = {}
    for cell in range(cells):
        at = [0, *doubling(cell, cells), cells]
        parts = [ends[b] - ends[a] for a, b in pairwise(at)]
        for moved in product(range(-reach, reach + 1), repeat=len(parts)):
            noisy = tuple(n + z for n, z in zip(parts, moved, strict=True))
            key = cell, edges_for(cell, cells, noisy, q)
            mass = float(named[cell] / named.sum()) * math.prod(noise[z + reach] for z in moved)
            found[key] = found.get(key, 0.0) + mass
    return found


@cache
def edges_for(cell: int, cells: int, noisy: tuple[int, ...], q: ExponentialQuantile) -> tuple[int, ...]:
    return tuple(edges_about(cell, cells, noisy, q.near, 1 / float(q.rate)))


def most_lost(q: ExponentialQuantile, one: Sequence[int], two: Sequence[int], reach: int) -> float:
    """A lower bound on the greatest log-ratio of the laws of all that is released; that of the second histogram alone
    is Σ|move|/b for its worst outcome. Noise beyond `reach` counts for the other table.
    """
    worst, first, second = 0.0, law_of_edges(q, one, reach), law_of_edges(q, two, reach)
    beyond = 1 - math.fsum(second.values())
    for (cell, edges), mass in first.items():
        at, ends = [0, *edges, len(one)], [[0, *accumulate(w)] for w in (one, two)]
        parts = [[e[b] - e[a] for a, b in pairwise(at)] for e in ends]
        counted = sum(abs(a - b) for a, b in zip(*parts, strict=True)) / float(q.counted.scale)
        worst = max(worst, math.log(mass / (second.get((cell, edges), 0.0) + beyond)) + counted)
    return worst


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(9, 10)])
def test_all_that_is_released_keeps_epsilon_by_its_exact_law_and_comes_close(relation: Relation, p: Fraction) -> None:
    """The choice, edges that follow from noise, and counts between them, of all small tables of two and three cells."""
    q, worst = ExponentialQuantile(epsilon=40, p=p, relation=relation), 0.0
    for cells, base in ((2, 3), (3, 1)):
        units = [tuple(int(i == j) for i in range(cells)) for j in range(cells)]
        for rest in product((0, base), repeat=cells):
            tables = [tuple(a + b for a, b in zip(rest, unit, strict=True)) for unit in units]
            pairs = combinations(tables, 2) if relation is Relation.REPLACE else ((rest, t) for t in tables)
            for one, two in pairs:
                worst = max(worst, most_lost(q, one, two, 4), most_lost(q, two, one, 4))
    assert 0.75 * 40 < worst <= 40 * (1 + 1e-6)
