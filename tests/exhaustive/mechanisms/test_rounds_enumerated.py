"""Every neighbour of a small world, through both rounds: the exact law of what is shown, against (ε, δ)."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction as F

import pytest

from discreet.mechanisms.rounds import GaussianRounds, Round, weight
from discreet.privacy.unit import Relation

Own = frozenset[int]
GROUPS = range(3)
SETS = [frozenset(own) for n in range(4) for own in itertools.combinations(GROUPS, n)]
OTHERS = [people for n in range(3) for people in itertools.combinations_with_replacement(SETS[1:], n)]


def law(people: Iterable[Own], rounds: Iterable[Round]) -> Mapping[tuple[Own, ...], float]:
    """Return the probability of each sequence of shown sets, one for each round."""
    found: dict[tuple[Own, ...], float] = {(): 1.0}
    people = list(people)
    for one in rounds:
        after: dict[tuple[Own, ...], float] = defaultdict(float)
        for before, p in found.items():
            known = frozenset[int]().union(*before)
            left = [own - known for own in people]
            sums = [sum(weight(len(own)) for own in left if g in own) for g in GROUPS]
            chances = {g: one.chance(total) for g, total in zip(GROUPS, sums, strict=True) if total}
            for shown in itertools.product((False, True), repeat=len(chances)):
                q, kept = p, set()
                for (g, chance), is_shown in zip(chances.items(), shown, strict=True):
                    q *= chance if is_shown else 1 - chance
                    kept |= {g} if is_shown else set()
                after[(*before, frozenset(kept))] += q
        found = after
    return found


def worst(rounds: Iterable[Round], epsilon: float, *, replaced: bool) -> float:
    """Return the least δ of all pairs of neighbours at this ε."""
    rounds, most = list(rounds), 0.0
    for others in OTHERS:
        laws = [law([*others, own], rounds) for own in SETS]
        pairs = (
            itertools.permutations(laws, 2) if replaced else [p for x in laws[1:] for p in ((x, laws[0]), (laws[0], x))]
        )
        for one, other in pairs:
            most = max(most, sum(max(p - 2.718281828459045**epsilon * other.get(s, 0.0), 0) for s, p in one.items()))
    return most


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize(("epsilon", "delta"), [(F(1), F(1, 100)), (F(3), F(1, 20))])
def test_no_neighbours_in_a_small_world_are_told_apart_better(relation: Relation, epsilon: F, delta: F) -> None:
    rounds = GaussianRounds(epsilon, delta, 3, relation).rounds
    replaced = relation is Relation.REPLACE
    found = worst(rounds, float(epsilon), replaced=replaced)
    assert 0.2 * delta < found <= delta
    twin = [replace(one, least=one.least * 3 // 5) for one in rounds]
    assert worst(twin, float(epsilon), replaced=replaced) > delta
