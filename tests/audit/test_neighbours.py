"""Neighbours to search are neighbours, whatever is done to them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from discreet.audit.neighbours import Datasets, Given, Numbers, Vectors, read_inputs
from discreet.errors import InvalidParameter

ALL_VECTORS = [
    Vectors(5),
    Vectors(1),
    Vectors(4, change="one", low=0, high=10, integer=True),
    Vectors(4, change="each", low=-3, high=7, size=2.0),
    Vectors(6, change="sum", size=0.5),
    Vectors(5, change="each", integer=True, size=3),
]
ALL_DATASETS = [
    Datasets((0, 1)),
    Datasets(("a", "b", None), most=2),
    Datasets((0.0, math.nan, math.inf)),
    Datasets((0, 1, 5), relation="replace"),
]


def vectors_agree(inputs: Vectors, pair: tuple[Any, Any]) -> bool:
    """Whether two vectors are neighbours in the sense that was asked for."""
    x, y = (np.asarray(v, dtype=np.float64) for v in pair)
    moved = np.abs(x - y)
    inside = bool(np.all((x >= inputs.low) & (x <= inputs.high) & (y >= inputs.low) & (y <= inputs.high)))
    slack = 1e-9
    near = {
        "each": moved.max() <= inputs.size + slack,
        "one": moved.max() <= inputs.size + slack and np.count_nonzero(moved) <= 1,
        "sum": moved.sum() <= inputs.size + slack,
    }[inputs.change]
    return inside and bool(near) and len(x) == len(y) == inputs.length


def worlds_agree(inputs: Datasets, pair: tuple[list[Any], list[Any]]) -> bool:
    """Whether two lists differ by one record: added (and the rest in the same order), or replaced."""
    x, y = ([repr(r) for r in world] for world in pair)
    if inputs.relation == "replace":
        return len(x) == len(y) and sum(a != b for a, b in zip(x, y, strict=True)) <= 1
    longer, shorter = (x, y) if len(x) > len(y) else (y, x)
    return len(longer) == len(shorter) + 1 and any(longer[:i] + longer[i + 1 :] == shorter for i in range(len(longer)))


@pytest.mark.parametrize("inputs", ALL_VECTORS, ids=repr)
def test_vectors_stay_neighbours_through_mutation(inputs: Vectors) -> None:
    rng = np.random.default_rng(1)
    pairs = list(inputs.pairs())
    assert pairs and all(vectors_agree(inputs, pair) for pair in pairs)
    for pair in pairs[:20]:
        for _ in range(30):
            pair = inputs.mutate(pair, rng)
            assert vectors_agree(inputs, pair), pair


@pytest.mark.parametrize("inputs", ALL_DATASETS, ids=repr)
def test_worlds_stay_neighbours_through_mutation(inputs: Datasets) -> None:
    rng = np.random.default_rng(2)
    pairs = list(inputs.pairs())
    assert pairs and all(worlds_agree(inputs, pair) for pair in pairs)
    for pair in pairs:
        for _ in range(30):
            pair = inputs.mutate(pair, rng)
            assert worlds_agree(inputs, pair), pair


@pytest.mark.parametrize(
    "inputs", [Numbers(-10.0, 10.0), Numbers(0, 5, integer=True), Numbers(-1, 1, change=0.1)], ids=repr
)
def test_numbers_stay_neighbours_through_mutation(inputs: Numbers) -> None:
    rng = np.random.default_rng(3)
    for pair in inputs.pairs():
        for _ in range(30):
            a, b = pair
            assert a != b and abs(a - b) <= inputs.change, pair
            assert inputs.low <= min(a, b) and max(a, b) <= inputs.high, pair
            assert not inputs.integer or (isinstance(a, int) and isinstance(b, int))
            pair = inputs.mutate(pair, rng)


def test_the_check_of_neighbours_sees_strangers() -> None:
    assert not vectors_agree(Vectors(2), (np.zeros(2), np.array([0.0, 1.5])))
    assert not vectors_agree(Vectors(2, change="one"), (np.zeros(2), np.ones(2)))
    assert not worlds_agree(Datasets((0, 1)), ([0], [0, 1, 1]))
    assert not worlds_agree(Datasets((0, 1)), ([0, 0], [0, 1, 1]))


def test_the_published_patterns_are_among_the_first_vectors() -> None:
    ones = np.ones(4)
    wanted = {
        "one above": [1, 0, 0, 0],
        "one above, rest below": [1, -1, -1, -1],
        "half and half": [1, 1, -1, -1],
        "all above": [1, 1, 1, 1],
    }
    inputs = Vectors(4, low=0, high=2)
    steps = {tuple(np.round(y - x)) for x, y in inputs.pairs() if np.array_equal(x, ones)}
    for name, step in wanted.items():
        assert tuple(step) in steps or tuple(-s for s in step) in steps, name
    cross = [(x, y) for x, y in inputs.pairs() if np.array_equal(x[::-1], y) and not np.array_equal(x, y)]
    assert cross, "the X shape"


def test_small_worlds_are_all_there() -> None:
    inputs = Datasets((0, 1), most=3)
    found = Counter((tuple(sorted(x)), tuple(sorted(y))) for x, y in inputs.pairs())
    worlds = [w for size in range(3) for w in itertools.combinations_with_replacement((0, 1), size)]
    assert set(found) == {(w, tuple(sorted((*w, v)))) for w in worlds for v in (0, 1)}


def test_pairs_are_taken_as_they_are() -> None:
    given = read_inputs([(0, 1), ("a", "b")])
    assert isinstance(given, Given)
    assert list(given.pairs()) == [(0, 1), ("a", "b")]
    assert given.mutate((0, 1), np.random.default_rng(0)) == (0, 1)


@pytest.mark.parametrize("bad", [[], 5, [1, 2], [(1, 2, 3)]])
def test_what_is_no_pair_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidParameter):
        read_inputs(bad)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Vectors(0),
        lambda: Vectors(3, change="some"),
        lambda: Vectors(3, size=0),
        lambda: Datasets(()),
        lambda: Datasets((1,), relation="neighbours"),
        lambda: Numbers(0, 1, change=2),
    ],
)
def test_impossible_neighbours_are_refused(make: Any) -> None:
    with pytest.raises(InvalidParameter):
        make()
