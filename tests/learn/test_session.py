"""Fits in a session: charged before the data is read, stored, certified, and read from declared columns."""

from __future__ import annotations

import copy
import json
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, InvalidParameter, MissingBounds, UnknownColumn
from discreet.learn import LinearRegression, LinearSVC, LogisticRegression
from discreet.verify.certificate.checker import check

RNG = np.random.default_rng(1)
AGE = RNG.uniform(20, 80, 600)
FRAME = pd.DataFrame(
    {
        "who": np.repeat(np.arange(300), 2),
        "age": np.where(np.arange(600) % 50 == 0, np.nan, AGE),
        "town": np.where(AGE > 50, "no'rth", "elsewhere"),
        "rich": np.where(AGE > 45, "yes", np.where(AGE > 25, "no", "undeclared")),
        "paid": AGE * 10,
        "name": "x",
    }
)
COLUMNS: dict[str, Any] = {
    "age": dp.Range(20, 80),
    "town": dp.Values("no'rth", "south"),
    "rich": dp.Values("yes", "no"),
    "paid": dp.Range(0, 1000),
}
MODEL = LogisticRegression(epsilon=20, delta="1e-6", rows=600)
ASKED: dict[str, Any] = {"features": ["age", "town"], "target": "rich"}


def session(**given: Any) -> Session:
    said: dict[str, Any] = {
        "budget": dp.Budget(50, "1e-5"),
        "unit": dp.PrivacyUnit("who", max_groups=1, max_rows=2),
    } | given
    return dp.connect({"people": FRAME}, columns=COLUMNS, population="p", **{"ledger": ":memory:", **said})


def test_a_fit_is_charged_once_and_answered_again_from_the_ledger(tmp_path: Path) -> None:
    with session(ledger=tmp_path / "a.ledger") as s:
        assert s.plan_fit(MODEL, **ASKED).price == "ε = 20, δ = 1e-06"
        assert s.spent.epsilon(1e-6) == 0
        first = s.fit(MODEL, **ASKED)
        assert not first.stored
        assert s.remaining.epsilon == 30
        assert not hasattr(MODEL, "coef_")
        again = s.fit(MODEL, **ASKED)
        assert again.stored
        assert s.remaining.epsilon == 30
        assert (again.coef_ == first.coef_).all()
        assert first.cost.epsilon(delta=1e-6) <= 20
        verdict = check(json.loads(json.dumps(first.certificate())), list(s._ledger.export()))
        assert verdict.broken is None, verdict.reason
    shown = FRAME[["age", "town"]]
    assert (first.predict(shown) == np.where(AGE > 45, "yes", "no")).mean() > 0.85
    assert first.feature_names_in_.tolist() == ["age", "town"]


def test_what_is_missing_counts_as_the_middle_and_another_value_as_other() -> None:
    with session() as s:
        model = s.fit(MODEL, **ASKED)
    odd = pd.DataFrame({"age": [np.nan, 50.0], "town": ["elsewhere", None]})
    assert np.ptp(model.decision_function(odd)) == 0
    assert model.terms_ == ["age", "town=no'rth", "town=south", "town=other"]


def test_a_regression_and_a_condition() -> None:
    with session() as s:
        asked: dict[str, Any] = {"features": ["age"], "target": "paid"}
        regression = LinearRegression(epsilon=20, delta="1e-6")
        model = s.fit(regression, **asked, where="age > 30")
        assert model.predict(pd.DataFrame({"age": [40.0, 70.0]})) == pytest.approx([400, 700], abs=60)
        first, second = s.plan_fit(regression, **asked), s.plan_fit(regression, **asked, where="age > 30")
        assert first.identity != second.identity


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"features": ["age", "wage"]}, UnknownColumn, "'wage'"),
        ({"features": ["age", "name"]}, MissingBounds, "'name'"),
        ({"features": ["age", "rich"]}, InvalidParameter, "different"),
        ({"features": "age"}, InvalidParameter, "list"),
        ({"where": "age > 30) UNION SELECT 1"}, dp.errors.PlanError, "."),
        ({"where": "nextval(1) > 0.5"}, dp.errors.PlanError, "."),
        ({"table": "persons"}, UnknownColumn, "'persons'"),
        ({"target": "paid"}, MissingBounds, "declared values"),
        ({"target": None}, InvalidParameter, "needs target="),
    ],
)
def test_what_cannot_be_fitted_is_refused_and_charges_nothing(asked: Any, error: Any, words: str) -> None:
    with session() as s:
        with pytest.raises(error, match=words):
            s.fit(MODEL, **{**ASKED, **asked})
        assert s.remaining.epsilon == 50


def test_estimators_that_do_not_fit_the_account_are_refused() -> None:
    class Foreign(LinearSVC):
        """Somebody's own estimator, which would run beside the data."""

    Foreign.__module__ = "notebook"
    given: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
    with session(relation="replace", budget=dp.Budget(2, "1e-5")) as s:
        for model, words in (
            (LinearSVC(**given), "relation='replace'"),
            (LinearSVC(**given, relation="replace", bounds=(0, 1)), "leave bounds= out"),
            (Foreign(**given), "no estimator of discreet.learn"),
            (LinearSVC(epsilon=1, relation="replace"), "delta"),
        ):
            with pytest.raises(InvalidParameter) as refused:
                s.fit(model, **ASKED)
            assert words in str(refused.value)
        with pytest.raises(BudgetExceeded):
            s.fit(LinearSVC(epsilon=3, delta="1e-6", relation="replace"), **ASKED)
        assert s.fit(LinearSVC(**given, relation="replace"), **ASKED).steps_ > 0


def test_a_model_of_arrays_has_no_certificate() -> None:
    model = LinearSVC(epsilon=1, delta="1e-6", bounds=(0, 1), classes=[0, 1]).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(InvalidParameter, match="without a ledger"):
        model.certificate()


def test_a_class_that_says_it_stands_in_the_package_does_not_run_beside_the_data() -> None:
    disguised = type("LogisticRegression", (LogisticRegression,), {"__module__": "discreet.learn.linear"})
    model = disguised(epsilon=20, delta="1e-6", rows=600)
    with session() as s:
        for ask in (s.fit, s.plan_fit):
            with pytest.raises(InvalidParameter, match="is no estimator"):
                ask(model, **ASKED)
        with pytest.raises(InvalidParameter, match="is no estimator"):
            s.evaluate(model, **ASKED, epsilon=1)
        assert s.remaining.epsilon == 50


class Reading:
    """Stands in the place of a model's features, and reads the rows that it is given."""

    said = ()
    seen: ClassVar[list[Any]] = []

    def __init__(self, columns: Any) -> None:
        self.columns = columns

    def scores(self, columns: Any, weights: Any, n: int) -> Any:
        self.seen.append(columns)
        return np.zeros((n, 1))


def test_what_stands_in_a_model_is_plain_and_runs_no_code_beside_the_data() -> None:
    with session() as s:
        fitted = s.fit(MODEL, **ASKED)
        left = s.remaining.epsilon
        columns = Reading(fitted._features.columns)
        evil: list[tuple[str, Any]] = [
            *(("_features", columns), ("answers_of", len), ("evaluation_of", len), ("get_params", len)),
            *(("_weights", fitted._weights.view(np.ma.MaskedArray)), ("classes_", [Reading(())]), ("rows", print)),
        ]
        for name, value in evil:
            model = copy.copy(fitted)
            setattr(model, name, value)
            with pytest.raises(InvalidParameter, match="is no plain value"):
                s.evaluate(model, **ASKED, epsilon=1)
            with pytest.raises(InvalidParameter, match="is no plain value"):
                s.fit(model, **ASKED)
        assert s.remaining.epsilon == left
        assert not Reading.seen
        assert s.evaluate(fitted, **ASKED, epsilon=1).accuracy.value > 0.5


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "weights", [[[0, 0, np.nan, 0, 0]], [[0, np.inf, 0, 0, 0]], [[0.0, 0]], np.zeros((2, 5)), "many"]
)
def test_a_model_that_some_rows_would_make_fail_is_refused(weights: Any) -> None:
    with session() as s:
        model = s.fit(MODEL, **ASKED)
        model._weights = weights if isinstance(weights, str) else np.array(weights)
        left = s.remaining.epsilon
        with pytest.raises(InvalidParameter, match="no fit gives"):
            s.evaluate(model, **ASKED, epsilon=1)
        assert s.remaining.epsilon == left


def test_what_decides_has_the_arguments_of_what_asks() -> None:
    pairs = {"fit": "plan_fit", "choose": "plan_choose", "synthesize": "plan_synthesis", "hierarchy": "plan_hierarchy"}
    for ask, decide in (pairs | {"train": "plan_train", "sql": "plan"}).items():
        asked, decided = ([*signature(getattr(dp.Session, name)).parameters] for name in (ask, decide))
        assert [name for name in asked if name != "fresh"] == [name for name in decided if name != "people"]
    with session() as s, pytest.raises(TypeError, match="fresh"):
        s.plan_fit(MODEL, **ASKED, fresh=True)
