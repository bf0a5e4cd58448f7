"""The k best: its law and its privacy by enumeration, its error, doors."""

from __future__ import annotations

import math
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms import TopK
from discreet.privacy.unit import Relation
from tests.coverage import covers
from tests.noise.chi_square import accepts, refuses

ALARM = 1e-9


def law(m: TopK, u: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The chance of each ordered choice."""
    found = {}
    for chosen in permutations(range(len(u)), m.k):
        left, chance = set(range(len(u))), 1.0
        for i in chosen:
            chance *= math.exp(float(m.rate) * u[i]) / sum(math.exp(float(m.rate) * u[j]) for j in left)
            left.remove(i)
        found[chosen] = chance
    return found


@pytest.mark.parametrize("relation", list(Relation), ids=lambda r: r.value)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_among_four_candidates_no_choice_is_more_telling_than_epsilon(k: int, relation: Relation) -> None:
    m = TopK(k, epsilon=2, relation=relation)
    steps = (0, 1) if relation is Relation.ADD_REMOVE else (-1, 0, 1)
    worst = 0.0
    for u in ((0, 0, 0, 0), (2, 1, 1, 0), (5, 0, 0, 0)):
        mine = law(m, u)
        for move in product(steps, repeat=4):
            theirs = law(m, tuple(a + b for a, b in zip(u, move, strict=True)))
            worst = max(worst, *(abs(math.log(mine[c] / theirs[c])) for c in mine))
    assert 0.7 < worst <= 2 + 1e-12


def test_choices_follow_their_law_which_is_that_of_the_largest_with_gumbel_noise() -> None:
    m, u = TopK(2, epsilon=3), (4, 3, 2, 0)
    wanted = law(m, u)
    outcomes = sorted(wanted)
    drawn = [outcomes.index(tuple(m.release(range(4), u))) for _ in range(3000)]
    assert accepts(drawn, [wanted[o] for o in outcomes])
    wrong = law(TopK(2, epsilon=5), u)
    assert refuses(drawn, [wrong[o] for o in outcomes], [wanted[o] for o in outcomes])
    noisy = np.array(u) + np.random.default_rng(1).gumbel(0, 1 / float(m.rate), (20_000, 4))
    once = [outcomes.index(tuple(row)) for row in np.argsort(-noisy, axis=1)[:, :2].tolist()]
    assert accepts(once, [wanted[o] for o in outcomes])


def test_names_are_different_and_the_best_with_much_epsilon() -> None:
    u = np.random.default_rng(5).permutation(2000)
    found = TopK(25, epsilon=10_000).release(np.arange(2000).tolist(), u)
    assert found == np.argsort(-u)[:25].tolist()
    assert sorted(TopK(4, epsilon=1).release("abcd", [0, 0, 0, 0])) == ["a", "b", "c", "d"]


def test_utilities_of_every_kind_and_any_distance_are_taken() -> None:
    assert TopK(1, epsilon=1).release("ab", [10**40, 0]) == ["a"]
    assert TopK(1, epsilon=1).release("ab", [1e308, -1e308]) == ["a"]
    assert TopK(1, epsilon=1, sensitivity="1e-9").release("ab", np.array([0.5, 0.25])) == ["a"]


def test_the_error_covers() -> None:
    m, u = TopK(3, epsilon=1), np.arange(40)
    t = m.error("0.9", candidates=40)
    short = [max(39 - place - u[i] for place, i in enumerate(m.release(range(40), u))) for _ in range(200)]
    assert covers(sum(s <= t for s in short), 200, 0.9)
    assert not covers(sum(s <= t / 5 for s in short), 200, 0.9)


@pytest.mark.parametrize(
    ("candidates", "utilities", "hint"),
    [
        ("ab", [1, 2], "fewer than k"),
        ("", [], "fewer than k"),
        ("abcd", [1, 2, 3], "one number"),
        ("abc", [1, 2, math.nan], "finite"),
        ("abc", [1, 2, math.inf], "finite"),
        ("abc", [True, False, True], "utilities"),
        ("abc", np.ma.masked_array([1, 2, 3]), "plain"),
        ("abc", np.ones((3, 1)), "one-dimensional"),
    ],
    ids=repr,
)
def test_utilities_that_cannot_be_are_refused(candidates: str, utilities: Any, hint: str) -> None:
    with pytest.raises(InvalidParameter, match=hint):
        TopK(3, epsilon=1).release(candidates, utilities)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None])
def test_k_is_a_count(k: Any) -> None:
    with pytest.raises(InvalidParameter, match="k"):
        TopK(k, epsilon=1)
