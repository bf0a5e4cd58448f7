"""Files of models: what is written is read back, and nothing that is hostile is taken."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet import learn
from discreet.errors import InvalidParameter
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
    StandardScaler,
    model_file,
)

GIVEN: dict[str, Any] = {"epsilon": "0.1", "delta": 1e-6, "bounds": [(-2, 2), (0, 1)]}
X = np.random.default_rng(1).uniform(0, 1, (300, 2))
Y = (X[:, 0] > 0.5).astype(np.int64)
MODELS = (
    LogisticRegression(**GIVEN, classes=[0, 1]),
    LogisticRegression(**GIVEN, classes="public", basis="gam", knots=4),
    LogisticRegression(**GIVEN, classes=[0, 1, 2]),
    LinearSVC(**GIVEN, classes=[0, 1]),
    LinearRegression(**GIVEN, target=(0, 1)),
    LinearRegression(**GIVEN, target=(0, 1), solver="gram"),
    LogisticRegression(**GIVEN, classes=[0, 1], solver="objective"),
    LinearRegression(**GIVEN, target=(0, 1), solver="objective", loss="huber"),
    PoissonRegressor(**GIVEN, target=(0, 1)),
    GaussianNB(**GIVEN, classes=[0, 1]),
    KMeans(2, **GIVEN),
    BoostedTrees(**GIVEN, classes=[0, 1, 2]),
    BoostedTreesRegressor(**GIVEN, target=(0, 1), loss="huber"),
    Gram(**GIVEN),
    PCA(1, **GIVEN),
    StandardScaler(**GIVEN),
)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_model_that_was_read_does_what_it_did(model: Any, tmp_path: Path) -> None:
    fitted = type(model)(**model.get_params()).fit(X, Y)
    fitted.save(tmp_path / "model.json")
    read = dp.learn.load(tmp_path / "model.json")
    assert type(read) is type(model)
    for name in ("predict", "predict_proba", "transform"):
        if hasattr(model, name):
            assert (getattr(read, name)(X) == getattr(fitted, name)(X)).all()
    own = {name for name in vars(fitted) if name.endswith("_")}
    assert {name for name in vars(read) if name.endswith("_")} == own
    assert read.loss_.epsilon(delta=1e-6) == fitted.loss_.epsilon(delta=1e-6)
    assert read.explain() == fitted.explain()
    read.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "model.json").read_text()


def test_names_values_and_dates_are_kept(tmp_path: Path) -> None:
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
    frame = pd.DataFrame({"x": X[:, 0], "day": [days[k] for k in Y], "odd": [None, 1] * 150})
    bounds = {"x": dp.Range(0, 1), "day": dp.Values(*days), "odd": dp.Values(None, 1)}
    model = LogisticRegression(epsilon=5, delta=1e-6, bounds=bounds, classes=["né", "no"])
    model.fit(frame, np.where(Y == 1, "né", "no")).save(tmp_path / "m")
    read = dp.learn.load(str(tmp_path / "m"))
    assert read.feature_names_in_.tolist() == ["x", "day", "odd"]
    assert (read.decision_function(frame) == model.decision_function(frame)).all()
    assert read.classes_.tolist() == ["no", "né"]
    assert not json.loads((tmp_path / "m").read_text()).keys() & {"rows", "y"}


def test_a_model_of_a_session_is_saved_without_its_certificate(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": X[:, 0], "y": Y})
    given: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "columns": {"a": dp.Range(0, 1), "y": dp.Values(0, 1)}}
    with dp.connect({"t": frame}, budget=dp.Budget(3, "1e-5"), ledger=":memory:", **given) as s:
        model = s.fit(GaussianNB(epsilon=1, delta="1e-6"), features=["a"], target="y")
        model.save(tmp_path / "m")
        read = dp.learn.load(tmp_path / "m")
        assert (read.predict(frame[["a"]]) == model.predict(frame[["a"]])).all()
        assert s.evaluate(read, features=["a"], target="y", epsilon=1).errors.value is not None
        with pytest.raises(InvalidParameter, match="without a ledger"):
            read.certificate()


def changed(told: dict[str, Any], *path: Any, to: Any) -> dict[str, Any]:
    """A file's text with one thing in another's place."""
    found = json.loads(json.dumps(told))
    at = found
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = to
    return dict(found)


HOSTILE: list[tuple[tuple[Any, ...], Any, str]] = [
    (("version",), 2, "another version"),
    (("version",), None, "another version"),
    (("format",), "pickle", "no file of a model"),
    (("estimator",), "os.system", "no estimator"),
    (("estimator",), "LinearModel", "no estimator"),
    (("estimator",), ["PCA"], "no estimator"),
    (("estimator",), "PCA", "parameters"),
    (("parameters", "classes"), 3, "parameters cannot be"),
    (("parameters", "epsilon"), None, "epsilon"),
    (("parameters", "epsilon"), "1e999999999", "no fraction"),
    (("parameters", "knots"), 10**12, "parameters cannot be|shape"),
    (("parameters", "extra"), 1, "are not those of"),
    (("parameters", "basis"), "cubic", "parameters cannot be"),
    (("columns",), [], "do not fit"),
    (("columns", 0, "name"), 3, "names"),
    (("columns", 0, "name"), "b", "names"),
    (("columns", 0, "range"), [1, 0], "parameters cannot be"),
    (("columns", 0, "range"), ["a", "b"], "no numbers"),
    (("columns", 0), 7, "do not fit"),
    (("state", "weights", 0, 0), "1", "another shape"),
    (("state", "weights", 0, 0), 1e301, "another shape"),
    (("state", "weights", 0), [1.0], "another shape"),
    (("state", "weights"), [[[1.0]]], "another shape"),
    (("state", "steps"), {"a": 1}, "another shape"),
    (("state",), [], "not those"),
    (("named",), "yes", "do not fit"),
    (("loss",), [{"event": "evil", "count": 1}], "parameters cannot be|do not fit"),
    (("loss", 0, "mu_squared"), "1e999999999", "parameters cannot be"),
    (("loss",), "free", "do not fit"),
    (("planned",), 4, "do not fit"),
]


def test_a_hostile_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    given = {**GIVEN, "bounds": {"a": dp.Range(0, 1), "b": dp.Range(0, 1)}}
    LogisticRegression(**given, classes=[0, 1], basis="gam", knots=3).fit(frame, Y).save(tmp_path / "m")
    told = json.loads((tmp_path / "m").read_text())
    for path, to, words in HOSTILE:
        (tmp_path / "h").write_text(json.dumps(changed(told, *path, to=to)))
        with pytest.raises(InvalidParameter, match=words):
            learn.load(tmp_path / "h")
    text = json.dumps(told)
    for broken in ("", "{", "[" * 100_000, "null", "[]", text.replace(str(told["state"]["weights"][0][0]), "NaN")):
        (tmp_path / "h").write_text(broken)
        with pytest.raises(InvalidParameter, match="holds no model"):
            learn.load(tmp_path / "h")
    with pytest.raises(InvalidParameter, match="cannot be read"):
        learn.load(tmp_path / "none")


def test_a_file_is_not_read_beyond_its_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.learn.model_file.LARGEST", 1000)
    (tmp_path / "h").write_text(" " * 1001)
    with pytest.raises(InvalidParameter, match="larger than"):
        learn.load(tmp_path / "h")


def test_large_arrays_stand_beside_the_file_and_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "LARGE", 3)
    model = Gram(epsilon=1, delta=0, bounds=(0, 5)).fit([[1.0, 2.0], [3.0, 4.0]])
    place = tmp_path / "gram.json"
    model.save(place)
    assert json.loads(place.read_text())["state"]["gram"] == "npz"
    assert (learn.load(place).covariance_ == model.covariance_).all()
    beside = tmp_path / "gram.json.npz"
    for found in (np.zeros((2, 2)), np.full((3, 3), np.nan), np.array([["a"]]), np.array([{}], object)):
        np.savez(beside, gram=found)
        with pytest.raises(InvalidParameter, match="no model that can be read"):
            learn.load(place)
    for written in (b"no zip", b""):
        beside.write_bytes(written)
        with pytest.raises(InvalidParameter, match="no model that can be read"):
            learn.load(place)
    beside.unlink()
    with pytest.raises(InvalidParameter, match="no model that can be read"):
        learn.load(place)
