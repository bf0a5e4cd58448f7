"""What is kept to learn from once more: the newest outputs, and no more than there is room for."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from discreet.audit.outputs.shape import Batch
from discreet.audit.sequential_test import KEPT, SampleBuffer

ROOM = 2**27


def learned(batch: Batch) -> SampleBuffer:
    """The past after a lesson of these outputs, of both neighbours alike."""
    past = SampleBuffer((batch, batch))
    past.lesson()
    return past


def test_the_newest_outputs_are_learned_from() -> None:
    past = SampleBuffer((np.arange(400_000), -np.arange(400_000)))
    past.add(np.arange(300_000), -np.arange(300_000))
    assert len(past) == 700_000
    p, q = past.lesson()
    assert len(p) == len(q) == len(past) == past.learned_from == KEPT
    assert p[0] == 100_000 and p[-1] == 299_999
    assert np.array_equal(np.asarray(p), -np.asarray(q))
    past.clear()
    assert len(past) == 0


def test_lists_and_arrays_are_joined() -> None:
    past = SampleBuffer((["a", "b"], [None, 1]))
    past.add(np.array([1.0, 2.0]), [2, 3])
    assert past.lesson() == (["a", "b", 1.0, 2.0], [None, 1, 2, 3])


@pytest.mark.parametrize(
    ("size", "enough", "room"), [(1000, 4000, True), (200_000, KEPT, True), (300_001, KEPT, False)]
)
def test_enough_are_four_times_as_many_but_no_more_than_are_learned_from(size: int, enough: int, room: bool) -> None:
    past = learned(np.zeros(size, dtype=np.int8))
    assert past.enough == enough
    assert past.has_room() is room


def test_an_array_takes_what_its_numbers_take() -> None:
    outputs = 5000
    width = ROOM // (2 * 4 * outputs * 8)  # floats of both neighbours, four times as many outputs
    assert learned(np.zeros((outputs, width))).has_room()
    assert not learned(np.zeros((outputs, width + 1))).has_room()
    assert learned(np.zeros((outputs, width + 1), dtype=np.float32)).has_room()


def objects(of: list[Any]) -> Any:
    found = np.empty(len(of), dtype=object)
    found[:] = of
    return found


class Holds:
    def __init__(self, value: object) -> None:
        self.value = value


class Closed:
    def __sizeof__(self) -> int:
        raise ValueError("not told")


@pytest.mark.parametrize(
    "wide",
    [
        [np.zeros(20_000) for _ in range(200)],
        objects([np.zeros(20_000) for _ in range(200)]),
        [objects([np.zeros(10_000), np.zeros(10_000)]) for _ in range(200)],
        ["x" * 160_000] * 200,
        np.array(["x" * 40_000] * 200),
        [{"a": [np.zeros(20_000)]} for _ in range(200)],
        [Holds(("y", np.zeros(20_000))) for _ in range(200)],
        [list(range(20_000)) for _ in range(200)],
        [Closed()] * 200,
    ],
    ids=lambda v: type(v[0]).__name__,
)
def test_outputs_of_any_type_are_weighed(wide: Batch) -> None:
    """200 outputs of 160 kB: 800 of both are twice what there is room for."""
    assert not learned(wide).has_room()


@pytest.mark.parametrize(
    "small",
    [[1.5] * 200, ["text"] * 200, [{"a": 1, "b": [1, 2]}] * 200, [Holds(1)] * 200, [sys] * 200, [int] * 200],
    ids=lambda v: type(v[0]).__name__,
)
def test_small_outputs_of_any_type_have_room_unless_they_hold_the_world(small: list[object]) -> None:
    assert learned(small).has_room() is (small[0] is not sys)


def test_an_output_that_holds_itself_is_weighed_once() -> None:
    own: list[object] = [1]
    own.append(own)
    assert learned([own] * 100).has_room()
