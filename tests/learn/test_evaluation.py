"""Private evaluation: what is counted, that nobody counts more than once, and models of somebody else's."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression as Plain
from sklearn.metrics import roc_auc_score

import discreet as dp
from discreet.engine.person_parts import PeopleRows
from discreet.errors import InvalidParameter, MissingBounds
from discreet.learn import LinearRegression, LogisticRegression, evaluate
from discreet.learn.evaluation import EvaluatedTarget, Evaluating
from discreet.privacy.unit import PrivacyUnit
from tests.contracts.recipes import SHORT, RecipeRow, faults

RNG = np.random.default_rng(7)
X = RNG.uniform(-2, 2, (3000, 2))
Y = (X[:, 0] + RNG.normal(0, 0.7, 3000) > 0).astype(np.int64)
GIVEN: dict[str, Any] = {"epsilon": 50, "delta": 1e-6, "bounds": (-2, 2), "rows": 3000}
MODEL = LogisticRegression(**GIVEN, classes=[0, 1])
SQL = "SELECT CAST(x AS DOUBLE) - (0.0) AS x0, CAST(n AS DOUBLE) - (2.5) AS x1, {} AS y FROM t"


def test_of_many_rows_the_numbers_are_nearly_exact() -> None:
    model = MODEL.fit(X, Y)
    found = evaluate(model, X, Y, epsilon=100)
    wrong = int((model.predict(X) != Y).sum())
    assert abs(found.errors.value - wrong) <= 2
    assert found.accuracy.value == pytest.approx(1 - wrong / 3000, abs=0.002)
    low, high = found.auc.sample
    assert low <= roc_auc_score(Y, model.decision_function(X)) <= high
    assert high - low < 0.1
    assert found.confusion is not None
    assert found.confusion.sum() == pytest.approx(3000, abs=20)
    assert found.confusion[0, 1] + found.confusion[1, 0] == pytest.approx(wrong, abs=20)
    shares = [share for _, _, share in found.calibration if share is not None]
    assert shares[0] < 0.2 < 0.8 < shares[-1]
    assert found.loss.epsilon() == 100


def test_a_regressor_has_mae_and_r2() -> None:
    y = X[:, 0] + RNG.normal(0, 0.3, 3000)
    model = LinearRegression(**GIVEN, target=(-3, 3)).fit(X, y)
    found = evaluate(model, X, y, epsilon=50)
    assert found.mae.value == pytest.approx(np.abs(model.predict(X) - y).mean(), abs=0.01)
    assert found.r2.value == pytest.approx(model.score(X, y), abs=0.02)
    other = evaluate(Plain().fit(X, y), X, y, epsilon=50, target=(-3, 3))
    assert other.mae.value == pytest.approx(found.mae.value, abs=0.02)


class Odd(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Somebody else's model: it fails on one row, answers another by its place, and knows a label of its own."""

    def fit(self, X: Any, y: Any) -> Odd:
        self.fitted_ = True
        return self

    def predict(self, X: Any) -> Any:
        if (X[:, 0] == 13).any():
            raise ValueError(f"a secret: {X[0]}")
        found = (X[:, 0] > 0).astype(object)
        found[X[:, 0] == 17] = "undeclared"
        places = np.flatnonzero(X[:, 0] == 19)
        found[places] = places[0] % 2 if len(places) else 0
        return found


def test_a_model_of_somebody_elses_makes_mistakes_where_it_fails() -> None:
    rows = np.where(np.arange(600) % 2, 1.0, -1.0)[:, None]
    truth = (rows[:, 0] > 0).astype(np.int64)
    model = Odd().fit(rows, truth)
    exact: dict[str, Any] = {"epsilon": 10**4, "classes": [False, True]}
    assert evaluate(model, rows, truth, **exact).errors.value == 0
    for odd in (13, 17, 19):
        rows[5] = odd
        assert evaluate(model, rows, truth, **exact).errors.value == 1
    with pytest.raises(MissingBounds, match="classes="):
        evaluate(model, rows, truth, epsilon=1)
    with pytest.raises(InvalidParameter, match="lengths"):
        evaluate(model, rows[1:], truth, **exact)


class Listing(Odd):
    """Its answers are a list."""

    def predict(self, X: Any) -> Any:
        return ["undeclared" if x == 17 else int(x > 0) for x in X[:, 0]]


def test_an_answer_of_another_type_is_a_mistake_of_its_row_alone() -> None:
    rows = np.where(np.arange(600) % 2, 1.0, -1.0)[:, None]
    truth = (rows[:, 0] > 0).astype(np.int64)
    rows[5], listed = 17, [[x] for x in rows[:, 0].tolist()]
    exact: dict[str, Any] = {"epsilon": 10**4, "classes": [0, 1]}
    assert evaluate(Listing().fit(rows, truth), rows, truth, **exact).errors.value == 1
    listed[5] = ["a text"]
    assert evaluate(Odd().fit(rows, truth), listed, truth, **exact).errors.value == 1


def test_labels_that_are_not_declared_are_in_no_cell() -> None:
    model = MODEL.fit(X, Y)
    told = Y.astype(object)
    told[:1000] = "undeclared"
    found = evaluate(model, X, told, epsilon=10**4)
    assert found.confusion is not None
    assert found.confusion.sum() == 2000


def recipe(kind: type[Evaluating] = Evaluating, *, regressor: bool = False, several: bool = False) -> Evaluating:
    """An evaluation over the contract's table, of a model that was fitted elsewhere."""
    given: dict[str, Any] = {**GIVEN, "bounds": [(-2, 2), (0, 5)]}
    model: Any = LogisticRegression(**given, classes=[0, 1, 2] if several else [0, 1])
    if regressor:
        model = LinearRegression(**given, target=(-2, 2))
    model.fit(X, Y)
    asked, y = EvaluatedTarget.of(model, None, None), "CASE WHEN n < 2 THEN 0 WHEN n < 4 THEN 1 ELSE 2 END"
    sql = SQL.format("CAST(x AS DOUBLE) - (0.0)" if regressor else y)
    how: dict[str, Any] = {"asked": asked, "confidence": Fraction(19, 20), "weights": ((0.0,),), "model": model}
    return kind(model._columns, Fraction(1), Fraction(0), sql=sql, per_person=2, centred=True, **how)


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("given", [{}, {"regressor": True}, {"several": True}], ids=str)
@pytest.mark.parametrize("unit", [PrivacyUnit("who", max_groups=2, max_rows=2), PrivacyUnit.row()], ids=["who", "row"])
def test_an_evaluation_holds_the_contract_of_recipes(given: Any, unit: PrivacyUnit) -> None:
    asked = recipe(**given)
    asked = replace(asked, per_person=1) if unit.is_row else asked
    assert faults(RecipeRow("evaluation", lambda: asked, unit=unit), SHORT) == []


class CountsTwice(Evaluating):
    """A broken twin: a mistake counts twice."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        found: Any = super().each(people, of, args)
        return found * 2 if of == "mistakes" else found


def test_a_broken_twin_is_seen() -> None:
    asked = recipe(CountsTwice)
    assert "clipped" in {fault.check for fault in faults(RecipeRow("twin", lambda: asked), SHORT)}


def test_a_session_evaluates_discreets_own_models_once() -> None:
    frame = pd.DataFrame({"who": np.arange(3000), "a": X[:, 0], "b": X[:, 1], "y": np.where(Y, "yes", "no")})
    columns: dict[str, Any] = {"a": dp.Range(-2, 2), "b": dp.Range(-2, 2), "y": dp.Values("yes", "no")}
    unit, budget = dp.PrivacyUnit("who", max_groups=1, max_rows=1), dp.Budget(50, "1e-5")
    asked: dict[str, Any] = {"features": ["a", "b"], "target": "y"}
    with dp.connect({"t": frame}, unit=unit, columns=columns, budget=budget, ledger=":memory:") as s:
        model = s.fit(LogisticRegression(epsilon=20, delta="1e-6"), **asked)
        found = s.evaluate(model, **asked, epsilon=10)
        assert s.remaining.epsilon == 20
        wrong = (model.predict(frame[["a", "b"]]) != frame["y"]).sum()
        assert abs(found.errors.value - wrong) <= 8
        again = s.evaluate(model, **asked, epsilon=10)
        assert again.stored
        assert again.errors.value == found.errors.value
        assert s.remaining.epsilon == 20
        assert found.certificate()["claim"]
        with pytest.raises(InvalidParameter, match="no estimator of discreet"):
            s.evaluate(Odd().fit(X, Y), **asked, epsilon=1)
        with pytest.raises(InvalidParameter, match="the model has 2"):
            s.evaluate(model, features=["a"], target="y", epsilon=1)


class Bare:
    """A model of another library's: it has `predict`, and nothing of scikit-learn's."""

    def predict(self, X: Any) -> Any:
        return np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]


class Half(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """One that cannot be fitted."""

    predict = Bare.predict


@pytest.mark.parametrize("model", [Bare(), Half()], ids=["bare", "half"])
def test_any_object_with_predict_is_measured(model: Any) -> None:
    told = np.where(X[:, 0] > 0, "yes", "no")
    assert evaluate(model, X, told, epsilon=100, classes=["no", "yes"]).errors.value <= 2
    with pytest.raises(MissingBounds, match="classes="):
        evaluate(model, X, told, epsilon=1)
    with pytest.raises(InvalidParameter, match="with predict, not object"):
        evaluate(object(), X, told, epsilon=1, classes=["no", "yes"])


def test_a_regressor_without_tags_is_told_by_its_target() -> None:
    class Doubles:
        def predict(self, X: Any) -> Any:
            return 2 * X[:, 0]

    assert evaluate(Doubles(), X, 2 * X[:, 0], epsilon=50, target=(-4, 4)).mae.value < 0.01


def test_numbers_that_noise_alone_could_give_are_said_to_be_so() -> None:
    model = MODEL.fit(X, Y)
    assert "spelled" not in str(evaluate(model, X, Y, epsilon=1))
    assert "spelled" in str(evaluate(model, X, np.where(Y > 0, "Yes", "No"), epsilon=1))
    with pytest.raises(InvalidParameter, match="different lengths"):
        evaluate(model, X, Y[1:], epsilon=1)


def test_public_labels_are_those_that_are_not_missing() -> None:
    told = np.where(Y > 0, "yes", "no").astype(object)
    told[:5], told[5:9] = None, np.nan
    fitted = LogisticRegression(**GIVEN, classes="public").fit(X, told)
    assert fitted.classes_.tolist() == ["no", "yes"]


def test_a_slip_in_the_name_of_a_bound_is_named() -> None:
    frame = pd.DataFrame(X, columns=["age", "hours"])
    bounds = {"age": dp.Range(-2, 2), "hour": dp.Range(-2, 2)}
    with pytest.raises(MissingBounds, match="'hour', which is no column of X"):
        LogisticRegression(epsilon=1, delta=1e-6, bounds=bounds, classes=[0, 1]).fit(frame, Y)
