"""Private linear models: scikit-learn's habits, what must be declared, and that no value of the data is an error."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from discreet.catalog.schema import Range, Values
from discreet.errors import InvalidParameter, MissingBounds
from discreet.learn import LinearRegression, LinearSVC, LogisticRegression, PoissonRegressor
from discreet.learn.features import Features, read_bounds

GIVEN: dict[str, Any] = {"epsilon": 2, "delta": 1e-6, "bounds": (-2, 2), "rows": 400}
MODELS = (
    LogisticRegression(**GIVEN, classes=[0, 1]),
    LogisticRegression(**GIVEN, classes=[0, 1, 2], basis="gam", knots=4),
    LinearSVC(**GIVEN, classes=[0, 1]),
    LinearRegression(**GIVEN, target=(0, 2)),
    LinearRegression(**GIVEN, target=(0, 2), loss="huber"),
    PoissonRegressor(**GIVEN, target=(0, 2)),
)


class Unread:
    """Data that may not be touched."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"X was read: {name}")


def rows(n: int = 400) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (n, 3))
    return X, (X[:, 0] + rng.normal(0, 0.5, n) > 0).astype(np.int64)


@pytest.mark.parametrize("missing", ["epsilon", "delta", "bounds", "classes", "target"])
def test_what_must_be_declared_is_asked_for_before_data_is_read(missing: str) -> None:
    tried = 0
    for model in MODELS[2:4]:
        if missing in model.get_params():
            tried += 1
            broken = type(model)(**{**model.get_params(), missing: None})
            with pytest.raises((MissingBounds, InvalidParameter), match=missing):
                broken.fit(Unread(), Unread())
    assert tried


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_no_value_of_the_data_is_an_error(model: Any) -> None:
    X, y = rows()
    X[:7, 0] = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0]
    told = y.astype(float)
    told[:4] = [np.nan, np.inf, -np.inf, 17]
    for rows_of, labels in ((X, told), (X[:0], y[:0]), (X[:1], told[:1]), (np.tile(X[:1], (50, 1)), told[:50])):
        found = type(model)(**model.get_params()).fit(rows_of, labels).predict(X)
        assert np.isfinite(found).all()


def test_labels_that_are_not_declared_are_left_out() -> None:
    X, y = rows()
    named = np.where(y == 1, "yes", "no").astype(object)
    named[::2] = "undeclared"
    named[1] = None
    model = LogisticRegression(epsilon=200, delta=1e-5, bounds=(-2, 2), classes=["yes", "no"]).fit(X, named)
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.predict(X) == np.where(y == 1, "yes", "no")).mean() > 0.8


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_have_declared_columns_of_numbers_and_values(frame: Any) -> None:
    X, y = rows()
    given = frame({"age": X[:, 0] * 20 + 40, "town": ["north" if v > 0 else "nowhere" for v in X[:, 0]]})
    bounds = {"age": Range(0, 80), "town": Values("north", "south")}
    model = LogisticRegression(epsilon=200, delta=1e-5, bounds=bounds, classes=[0, 1]).fit(given, y)
    assert model.terms_ == ["age", "town=north", "town=south", "town=other"]
    assert model.feature_names_in_.tolist() == ["age", "town"]
    assert model.score(given, y) > 0.8
    with pytest.raises(MissingBounds, match="'town'"):
        LogisticRegression(epsilon=1, delta=1e-5, bounds={"age": (0, 80)}, classes=[0, 1]).fit(given, y)
    with pytest.raises(InvalidParameter, match="'sex'"):
        LogisticRegression(epsilon=1, delta=1e-5, bounds={**bounds, "sex": (0, 1)}, classes=[0, 1]).fit(given, y)


def test_coefficients_are_in_the_units_of_the_data() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform([0, 100], [10, 200], (4000, 2))
    y = 3 * X[:, 0] - 0.1 * X[:, 1] + rng.normal(0, 1, 4000)
    declared: dict[str, Any] = {"bounds": [(0, 10), (100, 200)], "target": (-25, 25)}
    model = LinearRegression(epsilon=500, delta=1e-5, **declared).fit(X, y)
    assert model.coef_ == pytest.approx([3, -0.1], abs=0.1)
    assert X @ model.coef_ + model.intercept_ == pytest.approx(model.predict(X), abs=0.05)


def test_a_model_of_counts_and_a_robust_one_find_what_was_planted() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (4000, 2))
    counted = rng.poisson(np.exp(0.5 + X[:, 0]))
    model = PoissonRegressor(epsilon=500, delta=1e-5, bounds=(-1, 1), target=(0, 12)).fit(X, counted)
    assert np.corrcoef(model.predict(X), np.exp(0.5 + X[:, 0]))[0, 1] > 0.98
    assert model.predict(X).mean() == pytest.approx(counted.mean(), abs=0.1)
    y = 0.5 * X[:, 0] + np.where(rng.uniform(size=4000) < 0.1, 1, 0)
    huber = LinearRegression(epsilon=500, delta=1e-5, bounds=(-1, 1), target=(-1, 1), loss="huber").fit(X, y)
    assert huber.coef_ == pytest.approx([0.5, 0], abs=0.05)


def test_probabilities_of_an_unbalanced_label_are_not_biased_by_clipping() -> None:
    rng = np.random.default_rng(4)
    X = 1 - 0.05 * rng.uniform(0, 1, (20_000, 3))  # all columns within 5 % of one end
    y = (rng.uniform(size=20_000) < 0.04).astype(np.int64)
    model = LogisticRegression(epsilon=1, delta=1e-5, bounds=(0, 1), classes=[0, 1]).fit(X, y)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.01)
    two = np.where(y == 1, 1.0, -1.0)
    regression = LinearRegression(epsilon=1, delta=1e-5, bounds=(0, 1), target=(-1, 1)).fit(X, two)
    assert regression.predict(X).mean() == pytest.approx(two.mean(), abs=0.02)
    line = (X[:, 0] - 0.975) * 20 + rng.normal(0, 0.1, 20_000)  # λ is .93: longer steps are unstable
    assert regression.fit(X, line).score(X, line) > 0.4


def test_a_pickle_holds_no_row_and_predicts_the_same() -> None:
    X, y = rows()
    X[5, 1] = 1.2345678901234567
    model = LogisticRegression(**GIVEN, classes=[0, 1]).fit(X, y)
    stored = pickle.dumps(model)
    assert np.float64(X[5, 1]).tobytes() not in stored
    assert len(stored) < 40_000
    assert (pickle.loads(stored).predict(X) == model.predict(X)).all()


def test_what_a_fit_cost_is_what_was_asked() -> None:
    X, y = rows(50)
    for relation in ("add-remove", "replace"):
        model = LogisticRegression(**GIVEN, classes=[0, 1], relation=relation).fit(X, y)
        assert 1.99 < model.loss_.epsilon(delta=1e-6) <= 2
        assert "steps" in model.explain()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"delta": 0}, "delta above 0"),
        ({"solver": "newton"}, "'newton'"),
        ({"basis": "cubic"}, "'cubic'"),
        ({"knots": 1}, "knots"),
        ({"relation": "swap"}, "'swap'"),
        ({"classes": "secret"}, "'secret'"),
        ({"classes": [1, 1]}, "differ"),
        ({"bounds": [(0, 1)] * 7}, "7 pairs"),
        ({"bounds": 3}, "bounds"),
        ({"bounds": (2, 2)}, "low < high"),
    ],
)
def test_what_cannot_be_is_refused_by_name(wrong: dict[str, Any], words: str) -> None:
    X, y = rows(20)
    with pytest.raises(InvalidParameter, match=words):
        LogisticRegression(**{**GIVEN, "classes": [0, 1], **wrong}).fit(X, y)


def test_objects_that_are_no_numbers_are_missing_and_quoted_by_nobody() -> None:
    X, y = rows(20)
    told = X.astype(object)
    told[3, 1] = "a secret"
    model = LogisticRegression(**GIVEN, classes=[0, 1]).fit(told, y)
    assert model.predict(told).shape == (20,)
    told[3, 1] = {"a secret": 1}
    with pytest.raises(TypeError) as error:
        model.fit(told, y)
    assert "secret" not in str(error.value)


def test_rows_are_no_longer_than_1_and_hats_add_up() -> None:
    columns = read_bounds([(0, 1), (0, 5000), Values("a", "b")], ["p", "q", "r"], named=False)
    features = Features(columns, "gam", 5)
    cells = [columns[0].read(np.linspace(-1, 2, 50)), columns[1].read(np.linspace(0, 5000, 50)), np.full(50, 2.0)]
    places, values = features.encode(cells, 50)
    assert (np.diff(places, axis=1) > 0).all()
    assert places.max() == features.width - 1
    assert (np.sqrt((values.astype(float) ** 2).sum(axis=1)) / 2**12 < 1.001).all()
    assert np.abs(values.sum(axis=1) / 2**12 / features.scale - 4).max() < 0.01


def test_a_number_of_rows_that_noise_hides_is_said() -> None:
    x = np.zeros((500, 1))
    model = LogisticRegression(epsilon=1, delta=1e-6, bounds=(-1, 1), classes=["Yes", "No"])
    assert "look at the spelling of labels" in model.fit(x, np.array(["yes", "no"] * 250)).explain()
    assert "spelling" not in model.fit(x, np.array(["Yes", "No"] * 250)).explain()
