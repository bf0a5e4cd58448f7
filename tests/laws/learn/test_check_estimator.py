"""scikit-learn's own checks of estimators, all but what privacy forbids."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator

from discreet.learn import (
    PCA,
    GaussianNB,
    Gram,
    KMeans,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    StandardScaler,
)

FORBIDDEN = {
    "check_fit_idempotent": "each fit draws fresh noise",
    "check_supervised_y_2d": "it compares two fits, and each draws fresh noise",
    "check_estimators_empty_data_messages": "whether there are rows is private",
}
OF_REGRESSORS = {"check_supervised_y_no_nan": "that a target is missing or infinite is private: it is read as a number"}
GIVEN: dict[str, Any] = {"epsilon": 10**6, "delta": 1e-5, "bounds": (-10, 10)}
FINE: dict[str, Any] = {**GIVEN, "epsilon": 10**11}  # these compare predictions of two fits to 0.01
MODELS = (
    LogisticRegression(**GIVEN, classes="public"),
    LogisticRegression(**GIVEN, classes="public", basis="gam", knots=4),
    LogisticRegression(**{**GIVEN, "delta": 0}, classes="public", solver="objective"),
    LinearSVC(**GIVEN, classes="public"),
    LinearRegression(**FINE, target=(-3, 3)),
    LinearRegression(**FINE, target=(-3, 3), loss="huber"),
    LinearRegression(**{**FINE, "delta": 0}, target=(-3, 3), loss="huber", solver="objective"),
    LinearRegression(**FINE, target=(-3, 3), solver="gram"),
    PoissonRegressor(**FINE, target=(0, 7)),
    GaussianNB(**GIVEN, classes="public"),
    KMeans(**GIVEN),
    Gram(**GIVEN),
    PCA(**GIVEN),
    StandardScaler(**GIVEN),
)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_every_estimator_passes_the_checks_of_scikit_learn(model: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(model, on_fail=None, on_skip=None)
    failed = {each["check_name"] for each in found if each["status"] == "failed"}
    allowed = FORBIDDEN | OF_REGRESSORS if hasattr(model, "target") else FORBIDDEN
    assert failed <= allowed.keys()
    assert len(found) > 35
