"""scikit-learn's own checks of estimators, all but what privacy forbids."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from sklearn.linear_model import LinearRegression as Plain
from sklearn.utils.estimator_checks import check_estimator

from discreet.learn import (
    PCA,
    BoostedTrees,
    BoostedTreesRegressor,
    GaussianNB,
    Gram,
    KMeans,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    SampleAggregate,
    StandardScaler,
)

FORBIDDEN = {
    "check_fit_idempotent": "each fit draws fresh noise",
    "check_supervised_y_2d": "it compares two fits, and each draws fresh noise",
    "check_estimators_empty_data_messages": "whether there are rows is private",
}
OF_REGRESSORS = {"check_supervised_y_no_nan": "that a target is missing or infinite is private: it is read as a number"}
OF_BLOCKS = OF_REGRESSORS | {"check_estimators_nan_inf": "that a row has no number is private: its block fails"}
OF_BLOCKS |= dict.fromkeys(
    ("check_regressor_data_not_an_array", "check_regressors_int"), "it compares two fits, whose blocks differ"
)
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
    BoostedTrees(**GIVEN, classes="public"),
    BoostedTreesRegressor(**FINE, target=(-3, 3)),
    Gram(**GIVEN),
    PCA(**GIVEN),
    StandardScaler(**GIVEN),
    SampleAggregate(Plain(), blocks=2, epsilon=10**8, weights=(-100, 100)),
)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_every_estimator_passes_the_checks_of_scikit_learn(model: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(model, on_fail=None, on_skip=None)
    failed = {each["check_name"] for each in found if each["status"] == "failed"}
    blocks = isinstance(model, SampleAggregate)
    more: dict[str, str] = OF_BLOCKS if blocks else OF_REGRESSORS if hasattr(model, "target") else {}
    assert failed <= (FORBIDDEN | more).keys()
    assert len(found) > 35
