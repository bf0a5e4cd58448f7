"""Lists of cells: one row of another type changes nothing in the other rows, and no message shows rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Plain

from discreet.errors import InvalidParameter
from discreet.learn import LogisticRegression, SampleAggregate, choose

X = np.linspace(-1, 1, 400)[:, None]
Y = [int(x > 0) for x in X[:, 0]]
GIVEN: dict[str, Any] = {"bounds": (-2, 2), "classes": [0, 1], "solver": "objective"}
ENDS = [[-1.0], [1.0]]


@pytest.mark.parametrize("strange", ["z", None, 0.5, [1, 2]])
def test_one_label_of_another_type_leaves_the_others(strange: Any) -> None:
    y = [*Y[:-1], strange]
    model = LogisticRegression(**GIVEN, epsilon=1000, delta=0)
    assert model.fit(X, y).predict(ENDS).tolist() == [0, 1]
    blocks = SampleAggregate(Plain(), blocks=10, epsilon=10**4, weights=(-10, 10), classes=[0, 1])
    assert blocks.fit(X, y).predict(ENDS).tolist() == [0, 1]
    assert blocks.fit(X.tolist(), y).predict(ENDS).tolist() == [0, 1]
    assert choose([LogisticRegression(**GIVEN)], X.tolist(), y, epsilon=3000, runs=1).score > 0.9


@pytest.mark.parametrize("strange", ["z", None, 2**70, float("nan")])
def test_one_number_of_another_type_leaves_the_others(strange: Any) -> None:
    rows: list[list[Any]] = [*X.tolist()[:-1], [strange]]
    model = LogisticRegression(**GIVEN, epsilon=1000, delta=0).fit(rows, Y)
    assert model.predict(ENDS).tolist() == [0, 1]


def test_ids_of_people_stay_apart_beside_one_of_another_type() -> None:
    ids: list[Any] = [2**53 + i for i in range(4)]
    assert len(SampleAggregate._people(5, [*ids, 0.5])) == 5
    assert len(SampleAggregate._people(4, [1, 1.0, np.int64(1), "1"])) == 2


@pytest.mark.parametrize("wrong", [X[:, 0] + 0.125, X + 0.125j, [0.125, 0.25], [[0.125], [0.125, 0.25]]])
def test_no_message_shows_rows(wrong: Any) -> None:
    with pytest.raises(InvalidParameter) as error:
        LogisticRegression(**GIVEN, epsilon=1, delta=0).fit(wrong, Y[: len(wrong)])
    assert "125" not in str(error.value)


def test_labels_that_are_public_are_those_of_all_rows() -> None:
    y = [0] * 399 + [1]
    model = LogisticRegression(**{**GIVEN, "classes": "public"})
    for _ in range(3):
        assert choose([model], X, y, epsilon=3, runs=4).model.classes_.tolist() == [0, 1]
