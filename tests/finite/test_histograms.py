"""Databases as histograms against counting them by hand and by brute force."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.finite import Database, databases, neighbours

RELATIONS = ("add-remove", "replace")


def lists(universe: str, size: int, relation: str) -> set[tuple[str, ...]]:
    """All databases as sorted lists of records, found in another way."""
    sizes = range(size + 1) if relation == "add-remove" else [size]
    return {tuple(sorted(r)) for n in sizes for r in itertools.product(universe, repeat=n)}


def one_step(a: tuple[str, ...], b: tuple[str, ...], relation: str) -> bool:
    """Whether removing one record of the longer, or of both, makes two databases equal."""

    def less(x: tuple[str, ...]) -> set[tuple[str, ...]]:
        return {x[:i] + x[i + 1 :] for i in range(len(x))}

    if relation == "add-remove":
        return a in less(b) or b in less(a)
    return a != b and bool(less(a) & less(b))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("universe", "size"), [("a", 3), ("ab", 4), ("abc", 3), ("abcd", 2), ("ab", 0)])
def test_all_databases_and_all_neighbours_are_found_once(universe: str, size: int, relation: str) -> None:
    found = databases(universe, size, relation=relation)
    assert len(found) == len(set(found))
    known = lists(universe, size, relation)
    assert {x.records for x in found} == known
    edges = neighbours(universe, size, relation=relation)
    wanted = {frozenset(p) for p in itertools.combinations(known, 2) if one_step(*p, relation)}
    assert len(edges) == len(wanted)
    assert {frozenset((x.records, y.records)) for x, y in edges} == wanted
    assert all(x.is_neighbour(y, relation) and y.is_neighbour(x, relation) for x, y in edges)


def test_the_numbers_of_databases_are_binomial() -> None:
    assert len(databases(range(5), 4)) == math.comb(9, 4) == 126
    assert len(databases(range(5), 4, relation="replace")) == math.comb(8, 4) == 70


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=4))
def test_the_distance_is_the_l1_norm_of_the_difference(counts: list[tuple[int, int]]) -> None:
    a, b = zip(*counts, strict=True)
    x, y = Database(range(len(a)), a), Database(range(len(b)), b)
    assert x.distance(y) == y.distance(x) == sum(abs(p - q) for p, q in counts)
    assert x.steps(y, "add-remove") == x.distance(y)
    assert x.steps(y, "replace") == (None if sum(a) != sum(b) else x.distance(y) // 2)


def test_the_notes_example_of_a_distance() -> None:
    x, y = Database("AB", (2, 3)), Database("AB", (2, 4))
    assert (x.size, y.size, x.distance(y)) == (5, 6, 1)
    # "they differ in one kind of record only" is not enough
    assert not Database("AB", (2, 3)).is_neighbour(Database("AB", (5, 3)), "add-remove")


def test_a_database_is_made_of_records_in_any_order() -> None:
    assert Database.of("bab", universe="abc") == Database("abc", (1, 2, 0))
    assert str(Database.of("bab", universe="abc")) == "('a', 'b', 'b')"
    assert repr(Database.of([], universe="abc")) == "Database()"
    assert Database.of([[1], [1]], universe=[[0], [1]]).counts == (0, 2)  # records may be unhashable


def test_what_is_too_large_is_refused_with_its_number() -> None:
    with pytest.raises(InvalidParameter, match="4,598,126 databases of 4 records over 100 kinds"):
        databases(range(100), 4)
    with pytest.raises(InvalidParameter, match=r"about 10\^\d+ databases"):
        databases(range(1000), 1000)
    with pytest.raises(InvalidParameter, match="over 10\\^4000 databases"):
        databases(range(10**5), 10**6)
    with pytest.raises(InvalidParameter, match="pairs of neighbours"):
        neighbours(range(60), 4, relation="replace")
    with pytest.raises(InvalidParameter, match=r"universe has 1\d* elements"):
        databases(range(10**9), 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: databases([], 1), "universe has no elements"),
        (lambda: databases([1, 1], 1), "an element twice"),
        (lambda: databases([[1], [1]], 1), "an element twice"),
        (lambda: databases(7, 1), "universe must be several values"),  # type: ignore[arg-type]
        (lambda: databases("ab", -1), "size must be an integer of at least 0"),
        (lambda: databases("ab", True), "size must be an integer"),
        (lambda: databases("ab", 1, relation="near"), "relation must be"),
        (lambda: Database("ab", (1,)), "2 kinds of records and 1 counts"),
        (lambda: Database("ab", (1, -1)), "a count of records"),
        (lambda: Database.of("c", universe="ab"), "'c' is no element"),
        (lambda: Database("ab", (1, 1)).distance(Database("ac", (1, 1))), "two universes"),
    ],
)
def test_bad_worlds_are_refused(call: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()  # type: ignore[operator]


def test_a_database_is_made_of_counts_by_kind() -> None:
    assert Database.of({"flu": 2, "cold": 0}).counts == (2, 0)
    assert Database.of({4: 2}, universe=range(5)).counts == (0, 0, 0, 0, 2)
    with pytest.raises(InvalidParameter, match="no element"):
        Database.of({7: 1}, universe=range(5))
    with pytest.raises(InvalidParameter, match="universe"):
        Database.of([1, 2])
    with pytest.raises(InvalidParameter, match="count"):
        Database.of({"flu": -1})
