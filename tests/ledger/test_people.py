"""The person table as a value, against the same in plain Python."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.ledger.people_table import BEYOND, CAPACITY, PeopleTable, parts_of, settle

COSTS = st.sampled_from([0, 1, CAPACITY // 3, CAPACITY // 2, CAPACITY - 1, CAPACITY, BEYOND])
HASHES = st.sampled_from([0, 1, 2, 3, 1 << 63, (1 << 64) - 1])


def array(values: Any, kind: Any) -> Any:
    return np.array(values, kind)


@st.composite
def questions(draw: st.DrawFn) -> tuple[int, list[list[tuple[int, tuple[int, ...]]]]]:
    """A number of sums, and for each question its people: a hash, and a cost for each sum."""
    sums = draw(st.integers(1, 2))
    person = st.tuples(HASHES, st.tuples(*[COSTS] * sums))
    return sums, draw(st.lists(st.lists(person, max_size=6), max_size=8))


def reference(
    spent: dict[int, tuple[int, ...]], people: list[tuple[int, tuple[int, ...]]]
) -> tuple[dict[int, tuple[int, ...]], set[int]]:
    """What people have spent after a question, and who cannot pay it; people of one hash pay together."""
    due: dict[int, tuple[int, ...]] = {}
    for h, cost in people:
        due[h] = tuple(a + b for a, b in zip(due.get(h, (0,) * len(cost)), cost, strict=True))
    after, out = dict(spent), set()
    for h, cost in due.items():
        total = tuple(a + b for a, b in zip(spent.get(h, (0,) * len(cost)), cost, strict=True))
        if max(total) > CAPACITY:
            out.add(h)
        elif any(cost):
            after[h] = total
    return after, out


@given(questions())
def test_settling_is_what_a_dict_does(given_: tuple[int, list[list[tuple[int, tuple[int, ...]]]]]) -> None:
    sums, asked = given_
    table, spent = PeopleTable.nobody(sums), dict[int, tuple[int, ...]]()
    for people in asked:
        hashes = array([h for h, _ in people], np.uint64)
        costs = array([[c[i] for _, c in people] for i in range(sums)], np.int64).reshape(sums, len(people))
        settled = settle(table, hashes, costs)
        table = table.after(settled.paid)
        spent, out = reference(spent, people)
        assert set(settled.out.tolist()) == out and sorted(settled.out.tolist()) == settled.out.tolist()
        kept = dict(zip(table.hashes.tolist(), zip(*table.spent.tolist(), strict=True), strict=True))
        assert kept == spent
        assert PeopleTable.restored(table.portions(2), sums).spent.tolist() == table.spent.tolist()
        wanted = array([0, 1, 7, 1 << 63], np.uint64)
        assert [tuple(c) for c in table.of(wanted).T.tolist()] == [spent.get(h, (0,) * sums) for h in wanted.tolist()]


def test_a_segment_never_lowers_a_sum() -> None:
    table = PeopleTable(array([1, 2], np.uint64), array([[5, 5]], np.int64))
    assert table.after(PeopleTable(array([2, 3], np.uint64), array([[4, 1]], np.int64))).spent.tolist() == [[5, 5, 1]]


def test_so_many_people_of_one_hash_that_sums_would_wrap_cannot_pay() -> None:
    n = (1 << 15) + 1
    settled = settle(PeopleTable.nobody(1), np.zeros(n, np.uint64), np.full((1, n), BEYOND))
    assert settled.out.tolist() == [0] and not len(settled.paid)
    together = settle(PeopleTable.nobody(1), np.zeros(16, np.uint64), np.full((1, 16), CAPACITY // 16))
    assert len(together.paid) == 1 and not len(together.out)


@pytest.mark.parametrize("costs", [[[-1]], [[BEYOND + 1]], [[1, 2]], [[1], [1]]])
def test_costs_that_nobody_can_have_are_a_slip(costs: Any) -> None:
    with pytest.raises((OverflowError, TypeError)):
        settle(PeopleTable.nobody(1), array([1], np.uint64), array(costs, np.int64))


def test_parts_are_rounded_up_and_exact_where_they_can_be() -> None:
    for denominator in (1, 2, 3, 5, 7, 8, 10, 11, 13, 17, 20, 100, 360, 1000, 2000, 10_000):
        assert parts_of(Fraction(1, denominator), Fraction(1)) * denominator == CAPACITY
    assert parts_of(Fraction(1, 10**30), Fraction(1)) == 1
    assert parts_of(Fraction(0), Fraction(0)) == 0 and parts_of(Fraction(1, 10**9), Fraction(0)) == BEYOND
    third = parts_of(Fraction(1, 19), Fraction(1))
    assert Fraction(third, CAPACITY) >= Fraction(1, 19) > Fraction(third - 1, CAPACITY)


def test_what_is_no_table_is_refused() -> None:
    table = PeopleTable(array([1, 2, 9], np.uint64), array([[5, 0, CAPACITY]], np.int64))
    whole, two = table.portions()[0], table.portions(2)
    PeopleTable.restored(two, 1)
    wrong: list[list[bytes]] = [
        [],
        [b""],
        [whole[:-1]],
        [whole + b"\0"],
        [b"x" + whole[1:]],
        two[::-1],
        [two[0], two[0]],
        [whole, whole],
        [whole[:-8] + (CAPACITY + 1).to_bytes(8, "little")],
        [whole[:-8] + (-1).to_bytes(8, "little", signed=True)],
    ]
    for portions in wrong:
        with pytest.raises(ValueError, match=r"\S"):
            PeopleTable.restored(portions, 1)
    with pytest.raises(ValueError, match="size"):
        PeopleTable.restored([whole], 2)


def test_nothing_of_a_table_is_shown() -> None:
    table = PeopleTable(array([12345], np.uint64), array([[678]], np.int64))
    shown = repr(table) + repr(settle(table, array([12345], np.uint64), array([[1]], np.int64)))
    assert "12345" not in shown and "678" not in shown and "1" not in shown
