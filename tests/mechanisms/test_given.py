"""What a newcomer hands to a mechanism: columns, sets, names that are none. A sentence, or the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from discreet import mechanisms
from discreet.errors import InvalidParameter

SELECTIONS = (
    mechanisms.Exponential(epsilon=60),
    mechanisms.PermuteAndFlip(epsilon=60),
    mechanisms.NoisyMax(epsilon=60),
    mechanisms.NoisyMax(epsilon=60, noise="gumbel"),
    mechanisms.TopK(1, epsilon=60),
)


def name(mechanism: Any) -> str:
    return type(mechanism).__name__


@pytest.mark.parametrize("mechanism", SELECTIONS, ids=name)
def test_a_column_of_a_data_frame_is_read_by_place_and_not_by_its_index(mechanism: Any) -> None:
    labels, utilities = ["worst", "best", "middle"], [0, 1000, 500]
    shuffled = pd.Series(labels, index=[1, 2, 0])  # by label, place 1 would be the worst
    gappy = pd.Series(labels, index=[7, 8, 9])  # by label, no place exists: an error that tells what was drawn
    for column in (shuffled, gappy, pd.Index(labels), pd.Categorical(labels), pl.Series(labels), np.array(labels)):
        for numbers in (utilities, np.array(utilities), pd.Series(utilities, index=[2, 0, 1]), pl.Series(utilities)):
            named = mechanism.release(column, numbers)
            assert (named[0] if isinstance(named, list) else named) == "best"


@pytest.mark.parametrize("mechanism", SELECTIONS, ids=name)
@pytest.mark.parametrize(
    ("candidates", "utilities", "message"),
    [
        ({"a", "b"}, [1, 2], "candidates must be a list or an array, not set"),
        ({"a": 1, "b": 2}, [1, 2], "candidates must be a list or an array, not dict"),
        (["a", "b"], {1, 2}, "utilities must be a list or an array, not set"),
        (["a", "b"], iter([1, 2]), "utilities must be a list or an array"),
        (pd.DataFrame({"a": [1, 2]}), [1, 2], "candidates must be a list or an array, not DataFrame"),
        (None, [1, 2], "candidates must be a list or an array, not NoneType"),
        (["a", "b"], None, "utilities must be a list or an array, not NoneType"),
        (3, [1, 2], "candidates must be a list or an array, not int"),
        ([], [], "at least one candidate"),
        (["a", "b"], [1], "one number for each of the 2 candidates"),
        (["a", "b"], [1, None], "utilities must be integers, floats or fractions"),
    ],
)
def test_what_has_no_order_is_refused_with_a_hint(
    mechanism: Any, candidates: Any, utilities: Any, message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message) as refused:
        mechanism.release(candidates, utilities)
    assert refused.value.hint


CHOICES: dict[str, Callable[[Any], object]] = {
    "calibration": lambda v: mechanisms.Gaussian(epsilon=0.5, delta=1e-6, calibration=v),
    "noise of a selection": lambda v: mechanisms.NoisyMax(epsilon=1, noise=v),
    "noise of a tree": lambda v: mechanisms.BinaryTree(epsilon=1, steps=4, noise=v),
    "noise of a histogram": lambda v: mechanisms.Histogram(["a"], epsilon=1, noise=v),
    "factorization": lambda v: mechanisms.BinaryTree(epsilon=1, steps=4, factorization=v),
    "strategy": lambda v: mechanisms.MatrixMechanism(np.eye(2), v, epsilon=1),
    "statistic": lambda v: mechanisms.SmoothSensitivity(v, epsilon=1, lower=0, upper=1),
    "law": lambda v: mechanisms.SmoothSensitivity(epsilon=1, lower=0, upper=1, law=v),
    "aggregation": lambda v: mechanisms.SampleAndAggregate(
        np.mean, blocks=4, epsilon=1, lower=0, upper=1, aggregation=v
    ),
    "answers": lambda v: mechanisms.SparseVector(epsilon=1, threshold=3, answers=v),
    "values": lambda v: mechanisms.SmoothSensitivity("mode", epsilon=1, lower=0, upper=9, values=v),
    "p": lambda v: mechanisms.Quantiles(v, epsilon=1, lower=0, upper=1),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(
    "value",
    ["no such name", 3, 1.5, True, [object()], {}, np.array(["a", "b"], dtype=object)[:, None], pd.Series([1, 2])],
    ids=lambda value: type(value).__name__,
)
def test_a_name_that_is_none_ends_in_a_sentence(choice: str, value: Any) -> None:
    with pytest.raises(InvalidParameter):
        CHOICES[choice](value)


@pytest.mark.parametrize("value", [0, -1, "0", float("inf"), float("nan")])
def test_an_impossible_epsilon_or_sensitivity_comes_with_a_hint(value: Any) -> None:
    for given in ({"epsilon": value}, {"epsilon": 1, "sensitivity": value}):
        with pytest.raises(InvalidParameter) as refused:
            mechanisms.Laplace(**given)
        assert refused.value.hint


@pytest.mark.parametrize("keys", ["abc", 3, {}, np.ma.array([1, 2])], ids=repr)
def test_keys_that_are_none_are_called_keys(keys: Any) -> None:
    with pytest.raises(InvalidParameter, match="keys must") as refused:
        mechanisms.Histogram(keys, epsilon=1)
    assert refused.value.hint


def test_public_numbers_may_be_arrays() -> None:
    shares: Any = np.array([0.25, 0.5])
    values: Any = np.arange(3)
    assert mechanisms.Quantiles(shares, epsilon=1, lower=0, upper=1) == mechanisms.Quantiles(
        [0.25, 0.5], epsilon=1, lower=0, upper=1
    )
    assert mechanisms.SmoothSensitivity(
        "mode", epsilon=1, lower=0, upper=9, values=values
    ) == mechanisms.SmoothSensitivity("mode", epsilon=1, lower=0, upper=9, values=[0, 1, 2])


def test_a_column_of_private_numbers_is_read_as_its_array() -> None:
    column: Any = pd.Series([1, 2, 3], index=[7, 7, None])
    for mechanism in (
        mechanisms.Laplace(epsilon=1),
        mechanisms.AboveThreshold(epsilon=1, threshold=3),
        mechanisms.Median(epsilon=1, lower=0, upper=9),
        mechanisms.SampleAndAggregate(np.mean, epsilon=1, lower=0, upper=9, blocks=3),
    ):
        assert mechanism.release(column) is not None
    with pytest.raises(InvalidParameter):
        mechanisms.Median(epsilon=1, lower=0, upper=9).release(pd.Series(["1", "2"]))  # type: ignore[arg-type]


def test_texts_count_in_the_singular_and_leave_out_what_is_empty() -> None:
    whole = mechanisms.Staircase(epsilon=1).explain()  # one whole number is as wide as the step
    assert "for 0 ≤ j < 1." in whole and "1 ≤ j < 1" not in whole
    assert "for 2 ≤ j < 4." in mechanisms.Staircase(epsilon=1, sensitivity=4, gamma=0.5).explain()
    assert "at most 1 value in all" in mechanisms.Quantiles([0.5], epsilon=1, lower=0, upper=1).explain()
    assert "at most 1 count of" in mechanisms.Threshold(1, 1e-6).explain()
    run = mechanisms.BinaryTree(epsilon=1, steps=4).start()
    run.add(1)
    assert repr(run) == "<CountingRun: 1 taken, 3 left>"
