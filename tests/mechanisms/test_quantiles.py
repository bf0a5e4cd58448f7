"""Quantiles and the median: their laws on few cells by enumeration, their privacy there, their error, doors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms import Median, Quantiles
from discreet.mechanisms.quantiles import named
from discreet.noise.entropy import SystemEntropy
from discreet.privacy.unit import Relation
from tests.noise.chi_square import accepts, refuses

RNG = SystemEntropy()
HALF = Fraction(1, 2)
Cells = tuple[int, ...]


def losses(x: Cells, p: Fraction, low: int, high: int) -> list[Fraction]:
    """How far p·n lies from the ranks of each cell, from the definition."""
    target = p * len(x)
    found = []
    for c in range(low, high + 1):
        before, upto = sum(v < c for v in x), sum(v <= c for v in x)
        above = Fraction(before) - target if c > low else Fraction(0)
        under = target - upto if c < high else Fraction(0)
        found.append(max(above, under, Fraction(0)))
    return found


def selected(x: Cells, p: Fraction, rate: Fraction, low: int, high: int) -> dict[int, float]:
    weights = [math.exp(-float(rate * d)) for d in losses(x, p, low, high)]
    return {low + i: w / sum(weights) for i, w in enumerate(weights)}


def tree(m: Quantiles, x: Cells, cells: int) -> dict[Cells, float]:
    """The law of all quantiles together on so many cells, by the definition."""

    def below(x: Cells, low: int, high: int, first: int, end: int, depth: int) -> Iterator[tuple[Cells, float]]:
        if first == end:
            yield (), 1.0
        elif low > high:
            yield (high,) * (end - first), 1.0
        else:
            middle = (first + end) // 2
            ends = (Fraction(0), *m.p, Fraction(1))
            p = (m.p[middle] - ends[first]) / (ends[end + 1] - ends[first])
            wide = 2 * max(p, 1 - p)
            if m.relation is Relation.REPLACE:
                wide = 2 * wide if depth else Fraction(2)
            rate = m.epsilon / m.levels / (wide * m.changes)
            for c, chance in selected(x, p, rate, low, high).items():
                left, right = tuple(v for v in x if v <= c), tuple(v for v in x if v > c)
                for one, a in below(left, low, c, first, middle, depth + 1):
                    for two, b in below(right, c + 1, high, middle + 1, end, depth + 1):
                        yield (*one, c, *two), chance * a * b

    law: dict[Cells, float] = {}
    for outcome, chance in below(x, 0, cells - 1, 0, len(m.p), 0):
        law[outcome] = law.get(outcome, 0.0) + chance
    return law


def made(relation: Relation | str = "add-remove", changes: int = 1, p: Any = ("1/5", "1/2", "3/4")) -> Quantiles:
    return Quantiles(p, epsilon=1, lower=0, upper=8, relation=relation, changes=changes)


@pytest.mark.parametrize("relation", list(Relation), ids=lambda r: r.value)
@pytest.mark.parametrize("changes", [1, 2])
def test_on_all_small_columns_no_outcome_is_more_telling_than_epsilon(relation: Relation, changes: int) -> None:
    m, cells, most = made(relation, changes), 3, 4
    worlds = [x for n in range(most + 1) for x in combinations_with_replacement(range(cells), n)]
    laws = {x: tree(m, x, cells) for x in worlds}
    worst = 0.0
    for x in worlds:
        for y in worlds:
            rest = list(y)
            for v in x:
                if v in rest:
                    rest.remove(v)
            apart = len(rest)
            near = (
                len(x) == len(y) and apart <= changes
                if relation is Relation.REPLACE
                else len(y) == len(x) + apart and apart <= changes
            )
            if near:
                assert laws[x].keys() == laws[y].keys()
                worst = max(worst, *(abs(math.log(laws[x][o] / laws[y][o])) for o in laws[x]))
    assert 0.3 < worst <= 1 + 1e-12


def test_the_tree_is_drawn_by_its_law() -> None:
    m, cells, x = made(), 4, (0, 1, 1, 3, 3, 3)
    law = tree(m, x, cells)
    outcomes = sorted(law)
    drawn = []
    for _ in range(3000):
        found: list[int] = []
        m._descend(np.array(x), 0, cells - 1, 0, 3, 0, found, RNG)
        drawn.append(outcomes.index(tuple(found)))
    assert accepts(drawn, [law[o] for o in outcomes])
    wrong = tree(Quantiles(m.p, epsilon=12, lower=0, upper=8), x, cells)
    assert refuses(drawn, [wrong[o] for o in outcomes], [law[o] for o in outcomes])


def test_one_rank_is_drawn_by_its_law() -> None:
    x, p, rate = (2, 2, 5, 9), Fraction(1, 3), Fraction(1, 2)
    law = list(selected(x, p, rate, 0, 10).values())
    drawn = [named(np.array(x), 11, p, rate, RNG) for _ in range(5000)]
    assert accepts(drawn, law)
    assert refuses(drawn, list(selected(x, HALF, rate, 0, 10).values()), law)


@pytest.mark.parametrize("relation", list(Relation), ids=lambda r: r.value)
def test_with_much_epsilon_quantiles_are_those_of_the_column_and_rise(relation: Relation) -> None:
    x = np.random.default_rng(2).gamma(3, 1, 5000)
    p = [i / 20 for i in range(1, 20)]
    m = Quantiles(p, epsilon=100, lower=0, upper=32, relation=relation)
    found = m.release(x)
    assert found == sorted(found)
    assert found == pytest.approx(np.quantile(x, p), abs=0.1)
    median = Median(epsilon=50, lower=0, upper=32, relation=relation)
    assert median.release(x) == pytest.approx(np.median(x), abs=0.05)


def test_ties_are_parted_by_rank() -> None:
    x = np.repeat([1.0, 4.0, 7.0], [900, 1800, 300])
    m = Quantiles(["0.1", "0.25", "0.5", "0.75", "0.95"], epsilon=200, lower=0, upper=8)
    assert m.release(x) == pytest.approx([1, 1, 4, 4, 7], abs=1e-4)


def test_ranks_are_off_by_no_more_than_the_error_says() -> None:
    x = np.sort(np.random.default_rng(3).uniform(0, 8, 3000))
    m = made()
    t = m.error("0.9")
    off = [
        max(abs(int(np.searchsorted(x, q)) - float(p) * 3000) for q, p in zip(m.release(x), m.p, strict=True))
        for _ in range(80)
    ]
    assert sum(o <= t + 1 for o in off) >= 48  # fewer have a chance below 1e-12 even at exactly 0.9
    median = Median(epsilon=1, lower=0, upper=8)
    near = [abs(int(np.searchsorted(x, median.release(x))) - 1500) <= median.error("0.9") + 1 for _ in range(100)]
    assert sum(near) >= 65  # the same


def test_what_is_named_lies_in_the_range_whatever_the_values() -> None:
    for values in ([], [math.nan], [1e300, -1e300], [3.0] * 5, np.zeros(0)):
        for m in (made(), made("replace", 3)):
            found = m.release(values)
            assert len(found) == 3 and found == sorted(found) and all(0 <= q <= 8 for q in found)
        assert 0 <= Median(epsilon=1, lower=0, upper=8).release(values) <= 8


def test_levels_are_those_of_a_balanced_tree() -> None:
    for n, levels in ((1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4)):
        m = Quantiles([Fraction(i, n + 1) for i in range(1, n + 1)], epsilon=1, lower=0, upper=1)
        assert m.levels == levels == len(m.events)
        assert m.loss.pure == 1


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"p": []}, "p must"),
        ({"p": "0.5"}, "p must"),
        ({"p": [0]}, "p must"),
        ({"p": [1]}, "p must"),
        ({"p": ["0.5", "0.5"]}, "increase"),
        ({"p": ["0.5", "0.1"]}, "increase"),
        ({"p": [math.nan]}, "p must"),
        ({"p": ["0.123456789"]}, "p must"),
        ({"lower": 9}, "lower"),
        ({"changes": 0}, "changes"),
        ({"epsilon": 0}, "epsilon"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_a_sentence_that_names_it(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(InvalidParameter, match=hint):
        Quantiles(**{"p": ["0.5"], "epsilon": 1, "lower": 0, "upper": 8, **given})


def test_a_representation_makes_it_again() -> None:
    for m in (made("replace", 2), Median(epsilon=1, lower=0, upper=8, relation="replace", changes=2)):
        assert eval(repr(m)) == m
