"""scikit-learn's habits around the estimators: pipelines, columns, clones, outputs and searches run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from discreet.learn import LinearRegression, LogisticRegression, StandardScaler

RNG = np.random.default_rng(3)
FRAME = pd.DataFrame({"a": RNG.uniform(-2, 2, 600), "b": RNG.uniform(0, 1000, 600)})
LABELS = (FRAME["a"] > 0).astype(np.int64)
GIVEN: dict[str, Any] = {"epsilon": 20, "delta": 1e-6, "rows": 600}


def test_public_steps_and_private_ones_make_a_pipeline() -> None:
    columns = ColumnTransformer([("log", FunctionTransformer(np.log1p), ["b"]), ("as is", "passthrough", ["a"])])
    model = LogisticRegression(**GIVEN, bounds=[(0, 7), (-2, 2)], classes=[0, 1])
    steps = clone(make_pipeline(columns, model))
    assert steps.fit(FRAME, LABELS).score(FRAME, LABELS) > 0.8
    assert not hasattr(model, "coef_")


def test_a_private_scaler_gives_frames_where_they_are_asked_for() -> None:
    scaler = StandardScaler(epsilon=20, delta=1e-6, bounds=[(-2, 2), (0, 1000)]).set_output(transform="pandas")
    assert [*scaler.fit_transform(FRAME).columns] == ["a", "b"]
    with config_context(transform_output="pandas"):
        both = make_pipeline(scaler, LinearRegression(**GIVEN, bounds=(-4, 4), target=(-2, 2)))
        assert both.fit(FRAME, FRAME["a"]).score(FRAME, FRAME["a"]) > 0.5


def test_a_search_fits_as_often_as_it_says_and_each_fit_costs_its_epsilon() -> None:
    model = LogisticRegression(**GIVEN, bounds=[(-2, 2), (0, 1000)], classes=[0, 1])
    found = GridSearchCV(model, {"knots": [3, 5], "basis": ["gam"]}, cv=2).fit(FRAME, LABELS)
    assert len(found.cv_results_["params"]) == 2
    assert found.best_estimator_.loss_.epsilon(1e-6) <= 20
    assert found.score(FRAME, LABELS) > 0.8
