"""Estimators of others on blocks of people: what it costs, whom it keeps together, and failures that say nothing."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor

from discreet.errors import InvalidParameter, MissingBounds
from discreet.learn import SampleAggregate, evaluate

RNG = np.random.default_rng(6)
X = RNG.uniform(-1, 1, (3000, 2))
Y = 2 * X[:, 0] - X[:, 1] + 1
GIVEN: dict[str, Any] = {"blocks": 30, "epsilon": 60, "weights": (-4, 4)}


@pytest.mark.parametrize("aggregation", ["median", "winsorized"])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_weights_of_blocks_are_brought_together(aggregation: str, relation: str) -> None:
    model = clone(SampleAggregate(LinearRegression(), **GIVEN, aggregation=aggregation, relation=relation))
    model.fit(X, Y)
    assert model.model_.coef_ == pytest.approx([2, -1], abs=0.3)
    assert model.model_.intercept_ == pytest.approx(1, abs=0.3)
    assert model.loss_.epsilon(delta=0) == 60
    assert model.score(X, Y) > 0.9
    assert "60-DP" in model.explain()


def test_a_classifier_has_declared_labels() -> None:
    labels = np.where(X[:, 0] > 0, "yes", "no").astype(object)
    labels[::100] = "undeclared"
    model = SampleAggregate(LogisticRegression(), **{**GIVEN, "weights": (-8, 8)}, classes=["yes", "no"])
    model.fit(X, labels)
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.predict(X) == labels).mean() > 0.9
    found = evaluate(model, X, labels, epsilon=10, classes=["yes", "no"])
    assert found.accuracy.value > 0.9
    with pytest.raises(MissingBounds, match="classes="):
        SampleAggregate(LogisticRegression(), **GIVEN).fit(X, labels)


class Watched(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator that fails on some rows, and says which rows it was fitted to."""

    seen: list[Any] = []  # noqa: RUF012

    def fit(self, X: Any, y: Any) -> Watched:
        self.seen.append(X[:, 0].tolist())
        if (X[:, 0] == 7).any():
            raise RuntimeError(f"a secret: {X}")
        self.coef_, self.intercept_ = np.zeros(1), 3.0
        return self


def test_rows_of_a_person_are_in_one_block_and_a_failure_changes_one_answer() -> None:
    who = RNG.integers(0, 100, 500)
    Watched.seen = []
    model = SampleAggregate(Watched(), blocks=10, epsilon=10**4, weights=(0, 4))
    model.fit(who[:, None], np.zeros(500), who=who)
    blocks = Watched.seen[1:]
    assert sum(map(len, blocks)) == 500
    assert sum(len({*block}) for block in blocks) == len({*who.tolist()})
    assert model.model_.intercept_ == pytest.approx(3, abs=0.1)
    rows = np.where(np.arange(500) == 5, 7.0, 1.0)[:, None]
    assert model.fit(rows, np.zeros(500)).model_.intercept_ == pytest.approx(3, abs=0.1)
    assert model.fit(rows[:0], np.zeros(0)).model_.intercept_ == pytest.approx(2, abs=0.1)


class Shuffling(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """It draws as many numbers of numpy's generator as there are rows, and learns the next."""

    learnt: ClassVar[list[float]] = []

    def fit(self, X: Any, y: Any) -> Shuffling:
        np.random.rand(len(X))
        self.coef_, self.intercept_ = np.zeros(X.shape[1]), float(np.random.rand())
        self.learnt.append(self.intercept_)
        return self


def test_what_a_block_draws_of_numpys_generator_does_not_decide_what_others_draw() -> None:
    np.random.seed(0)
    drawn, first = np.random.rand(3), Shuffling.learnt
    for _ in range(2):
        np.random.seed(0)
        SampleAggregate(Shuffling(), **GIVEN).fit(X, Y)
        assert (np.random.rand(3) == drawn).all()
    assert len({*first}) == len(first) == 62  # seeds of the caller repeat none of them


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"epsilon": None}, "needs epsilon"),
        ({"weights": None}, "needs weights="),
        ({"weights": [(0, 1)]}, "1 pairs, and the estimator 3"),
        ({"estimator": DecisionTreeRegressor()}, "has no coef_"),
    ],
)
def test_what_must_be_declared_is_asked_for(changed: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match="X holds numbers"):
        SampleAggregate(LinearRegression(), **GIVEN).fit(np.array([["a secret"]]), [1])
    with pytest.raises((InvalidParameter, MissingBounds), match=words):
        SampleAggregate(**{"estimator": LinearRegression(), **GIVEN, **changed}).fit(X, Y)
