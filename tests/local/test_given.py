"""What is handed to a randomizer, or to its server half, and cannot be: each ends in a sentence with a hint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.local import (
    CountMeanSketch,
    DeviceBudget,
    HadamardSketch,
    HeavyHitters,
    Memoised,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)

ODD = [3.5, [1], {}, np.array(["a", "b"], dtype=object), object()]
SKETCH, COLUMNS = CountMeanSketch(epsilon=1), HadamardSketch(epsilon=1)
TEXTS = HeavyHitters(epsilon=1, length=4)
CALLS: dict[str, Callable[[Any], object]] = {
    "variant must be 'optimised' or 'symmetric'": lambda v: UnaryEncoding(3, epsilon=1, variant=v),
    "path must be the path of a file": lambda v: Memoised(RandomizedResponse(epsilon=1), v),
    "path must be the path": lambda v: DeviceBudget(v),
    "path must be": lambda v: DeviceBudget.create(v, 1),
}


@pytest.mark.parametrize("message", CALLS)
@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_a_name_or_a_path_that_is_none_is_refused(message: str, value: Any) -> None:
    with pytest.raises(InvalidParameter, match=message) as refused:
        CALLS[message](value)
    assert refused.value.hint


@pytest.mark.parametrize("value", [[1], {}, np.array([1.0, 2.0]), float("nan")], ids=lambda v: type(v).__name__)
def test_other_must_be_a_value_that_can_be_looked_up(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="other must be a value"):
        RandomizedResponse(["a", "b"], epsilon=1, other=value)


@pytest.mark.parametrize("users", [None, "1", 0, -1, 2.5, [1], np.array([1.0, 2.0])], ids=repr)
def test_the_error_of_a_sketch_needs_a_number_of_users(users: Any) -> None:
    for sketch in (SKETCH, COLUMNS):
        with pytest.raises(InvalidParameter, match="users must be"):
            sketch.error(users)


@pytest.mark.parametrize("domain", [3, 2.5, True, object(), "abc", []], ids=lambda value: type(value).__name__)
def test_a_list_to_look_up_must_be_a_list(domain: Any) -> None:
    for randomizer in (SKETCH, COLUMNS, TEXTS):
        reports = randomizer.randomize(["a", "b", "a"])
        with pytest.raises(InvalidParameter, match="domain= must") as refused:
            randomizer.estimate(reports, domain=domain)
        assert refused.value.hint


def test_one_other_is_in_the_singular() -> None:
    assert "value and 1 other, else 2 others, out of 15" in SubsetSelection(16, epsilon=2, size=2).explain()
