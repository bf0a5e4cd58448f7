"""Parts of people that are histograms of places: the same sums as dense parts, held to the norms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.engine.row_factor import RowPlaces, dense, within
from discreet.errors import InternalError
from discreet.plan.parts import PersonPart
from discreet.privacy.unit import Relation, Sensitivity
from discreet.verify.claim import PartKind
from discreet.verify.parts import part_moves

WIDTH = 5


@given(
    rows=st.lists(st.lists(st.tuples(*[st.integers(0, WIDTH - 1)] * 2), min_size=0, max_size=4), max_size=6),
    norms=st.builds(
        lambda l0, linf, l1, square: Sensitivity(
            l0, linf, l1=min(max(l1, linf), l0 * linf), l2_squared=min(max(square, linf**2), l0 * linf**2)
        ),
        st.integers(1, WIDTH),
        st.integers(1, 4),
        st.integers(1, 8),
        st.integers(1, 20),
    ),
)
def test_a_total_is_the_sum_of_the_dense_parts_within_the_norms(rows: Any, norms: Sensitivity) -> None:
    starts = np.cumsum([0, *map(len, rows)])
    places = np.array([place for own in rows for place in own], np.int64).reshape(-1, 2)
    parts = np.zeros((len(rows), WIDTH), np.int64)
    for person, own in enumerate(rows):
        for pair in own:
            for place in pair:
                parts[person, place] += 1
    found = RowPlaces(starts, places, WIDTH)
    assert (dense(found) == parts).all()
    assert (found.total(norms) == parts[within(parts, norms)].sum(axis=0)).all()


def test_a_row_alone_counts_once() -> None:
    found = RowPlaces(np.arange(4), np.array([[1], [1], [3]]), WIDTH)
    assert found.total(Sensitivity(1, 1)).tolist() == [0, 2, 0, 1, 0]


def test_a_person_without_rows_hides_nobody_with_two() -> None:
    found = RowPlaces(np.array([0, 2, 2]), np.array([[1], [1]]), WIDTH)
    assert found.total(Sensitivity(1, 1)).tolist() == [0] * WIDTH


@pytest.mark.parametrize(
    "places", [[[-1], [0]], [[0], [WIDTH]], [[0]], np.zeros((2, 1)), np.zeros(2, np.int64), "text"]
)
def test_places_that_the_part_has_not_are_refused(places: Any) -> None:
    given = np.array(places, np.int64) if isinstance(places, list) else places
    with pytest.raises(InternalError):
        RowPlaces(np.arange(3), given, WIDTH)


@given(people=st.lists(st.lists(st.integers(0, WIDTH - 1), max_size=3), min_size=2, max_size=2))
def test_two_histograms_differ_by_no_more_than_is_charged_under_replace(people: list[list[int]]) -> None:
    """A broken twin, a part with numbers of both signs, goes beyond what is charged for places."""
    norms = Sensitivity(2, 3, l1=3, l2_squared=9)
    part: Any = SimpleNamespace(kind=PartKind.PLACES, norms=norms, width=WIDTH)
    most = part_moves(part, Relation.REPLACE)
    named: Any = SimpleNamespace(**vars(part), relation=Relation.REPLACE)
    assert PersonPart.moves.__get__(named) == most == Sensitivity(4, 3, l1=6, l2_squared=18)
    x, y = (np.bincount(np.array(own, np.int64), minlength=WIDTH) for own in people)
    moved = x - y
    assert np.abs(moved).max() <= most.linf
    assert np.abs(moved).sum() <= most.l1 and (moved**2).sum() <= most.l2_squared
    signed: Any = SimpleNamespace(**vars(part) | {"kind": PartKind.EACH})
    assert part_moves(signed, Relation.REPLACE).l2_squared == ((3 - -3) ** 2) == 36


def test_the_bound_of_two_histograms_is_reached() -> None:
    x, y = np.array([3, 0]), np.array([0, 3])
    assert ((x - y) ** 2).sum() == 2 * 9
