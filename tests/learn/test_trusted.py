"""Code of the caller's beside a session's data: only where it is trusted, and nothing of it leaves but its answers."""

from __future__ import annotations

import copy
import logging
import os
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import discreet as dp
from discreet.engine.person_parts import people_of
from discreet.engine.session import Session
from discreet.errors import InvalidParameter
from discreet.learn import SampleAggregate
from discreet.learn.aggregate import BlockMedians
from discreet.verify.certificate.checker import check

RNG = np.random.default_rng(4)
AGE = RNG.uniform(20, 80, 800)
FRAME = pd.DataFrame(
    {
        "who": np.repeat(np.arange(400), 2),
        "age": np.where(np.arange(800) % 50 == 0, np.nan, AGE),
        "town": np.where(AGE > 50, "north", "elsewhere"),
        "rich": np.where(AGE > 45, "yes", np.where(AGE > 22, "no", "undeclared")),
        "paid": AGE * 10,
    }
)
COLUMNS: dict[str, Any] = {
    "age": dp.Range(20, 80),
    "town": dp.Values("north", "south"),
    "rich": dp.Values("yes", "no"),
    "paid": dp.Range(0, 1000),
}
RICH: dict[str, Any] = {"features": ["age", "town"], "target": "rich"}


def session(**given: Any) -> Session:
    unit = dp.PrivacyUnit("who", max_groups=1, max_rows=2)
    said = {"budget": dp.Budget(1000, "1e-5", per_query=100), "ledger": ":memory:", "population": "p", **given}
    return dp.connect({"people": FRAME}, columns=COLUMNS, unit=unit, **said)


def pipeline() -> Any:
    encoded = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["town"]), remainder="passthrough")
    return make_pipeline(encoded, LogisticRegression()).fit(
        pd.DataFrame({"age": [25.0, 30, 60, 70], "town": ["south", "south", "north", "north"]}),
        ["no", "no", "yes", "yes"],
    )


def test_a_model_of_somebody_elses_is_measured_where_it_is_trusted() -> None:
    with session() as s:
        model, asked = pipeline(), {**RICH, "epsilon": 40}
        with pytest.raises(InvalidParameter, match="trusted_code=True"):
            s.evaluate(model, **asked)
        assert s.remaining.epsilon == 1000
        found = s.evaluate(model, **asked, trusted_code=True)
        declared = FRAME["rich"] != "undeclared"
        shown = FRAME[["age", "town"]].fillna({"age": 50})
        own = (model.predict(shown[declared]) != FRAME["rich"][declared]).sum()
        assert abs(found.errors.value - own) <= 8
        assert s.remaining.epsilon == 960
        assert "trusted" in found.explain()
        certificate = found.certificate()
        assert check(certificate, list(s._ledger.export())).broken is None
        assert "trusted code" in str(certificate["reasons"])
        assert s.evaluate(model, **asked, trusted_code=True).stored
        plain = LinearRegression().fit([[20.0], [80]], [200, 800])
        given: dict[str, Any] = {"features": ["age"], "target": "paid", "epsilon": 40}
        assert s.evaluate(plain, **given, trusted_code=True).mae.value < 30
        with pytest.raises(InvalidParameter, match="and the model has 1"):
            s.evaluate(plain, **{**given, "features": ["age", "town"]}, trusted_code=True)


class Loud(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A model that tells of the rows in every way it can, and fails on some."""

    classes_: Any = np.array(["no", "yes"])

    def fit(self, X: Any, y: Any) -> Loud:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Any:
        print("a secret", X)
        print("a secret", X, file=sys.stderr)
        os.write(1, b"a secret")
        logging.getLogger("loud").critical("a secret %s", X)
        warnings.warn("a secret", stacklevel=1)
        np.zeros(1) / 0
        if (X[:, 0] > 75).any():
            raise SystemExit("a secret")
        if (X[:, 0] > 70).any():
            return [self] * len(X)
        return np.where(X[:, 0] > 45, "yes", "no")


@pytest.mark.exhaustive
def test_nothing_of_trusted_code_leaves_but_its_answers(capfd: Any, caplog: Any, recwarn: Any) -> None:
    with session() as s:
        found = s.evaluate(Loud(), features=["age"], target="rich", epsilon=100, trusted_code=True)
    shown = FRAME["age"].fillna(50)
    wrong = (FRAME["rich"] != "undeclared") & ((shown > 70) | ((shown > 45) != (FRAME["rich"] == "yes")))
    assert abs(found.errors.value - wrong.sum()) <= 5
    assert "a secret" not in "".join(capfd.readouterr()) + caplog.text
    assert not [w for w in recwarn if "a secret" in str(w.message)]
    print("said again")
    assert "said again" in capfd.readouterr().out


def test_an_estimator_of_somebody_elses_is_fitted_to_blocks_of_people() -> None:
    given: dict[str, Any] = {"features": ["age"], "target": "paid"}
    model = SampleAggregate(LinearRegression(), blocks=20, epsilon=100, weights=[(-20, 20), (-100, 100)])
    with session() as s:
        with pytest.raises(InvalidParameter, match="would run beside the data"):
            s.fit(model, **given)
        with pytest.raises(InvalidParameter, match="is no estimator"):
            s.fit(LinearRegression(), **given, trusted_code=True)
        assert "trusted code" in s.plan_fit(model, **given, trusted_code=True).explain()
        assert s.remaining.epsilon == 1000
        fitted = s.fit(model, **given, trusted_code=True)
        assert fitted.predict(pd.DataFrame({"age": [40.0]}))[0] == pytest.approx(400, abs=40)
        assert s.remaining.epsilon == 900
        assert fitted.cost.epsilon(delta=0) == 100
        assert "trusted" in fitted.explain()
        assert check(fitted.certificate(), list(s._ledger.export())).broken is None
        again = s.fit(model, **given, trusted_code=True)
        assert again.stored
        assert again.model_.coef_ == fitted.model_.coef_
        classified = SampleAggregate(LogisticRegression(), blocks=10, epsilon=100, weights=(-20, 20))
        assert (
            s.fit(classified, **RICH, trusted_code=True).predict(FRAME[["age", "town"]]) == FRAME["rich"]
        ).mean() > 0.6
        mean = s.fit(model.set_params(aggregation="winsorized"), **given, trusted_code=True)
        assert mean.predict(pd.DataFrame({"age": [40.0]}))[0] == pytest.approx(400, abs=40)
        assert s.remaining.epsilon == 700
        assert mean.cost.epsilon(delta=0) == pytest.approx(100)
        assert check(mean.certificate(), list(s._ledger.export())).broken is None
        with pytest.raises(InvalidParameter, match="not written"):
            fitted.save("model.json")


class BlocksOfRows(BlockMedians):
    """A broken twin: each row has coins of its own, so that a person's are in several blocks."""

    def prepare(self, people: Any) -> Any:
        apart = copy.copy(people)
        apart.person, apart.size = np.arange(len(people.person)), len(people.person)
        return super().prepare(apart)


@pytest.mark.parametrize(("kind", "most"), [(BlockMedians, 1), (BlocksOfRows, 2)])
@pytest.mark.parametrize("quarter", [1, 2])
def test_a_person_moves_each_score_by_one(kind: type[BlockMedians], most: int, quarter: int, monkeypatch: Any) -> None:
    coins: list[Any] = []
    monkeypatch.setattr("discreet.learn.aggregate.words64", lambda rng, n: coins[-1][:n])
    model = SampleAggregate(DummyRegressor(), blocks=12, epsilon=1, weights=(0, 1000), attributes=["constant_"])
    with session() as s:
        tables = s._desk.tables
    fit = model.asked_of(tables, ["age"], "paid", None, None)
    assert isinstance(fit, BlockMedians)
    recipe = kind(**{f.name: getattr(fit, f.name) for f in fields(fit)})
    read = recipe.plan(tables).parts[0].rows
    rng, moved = np.random.default_rng(3), set()
    for _ in range(20):
        who, (age, paid) = np.repeat(np.arange(41), 2), rng.integers(-100, 100, (2, 82))
        coins.append(rng.integers(0, 1 << 60, 200).astype(np.uint64))
        age[-2:], paid[-2:] = 0, 1 << 40
        scores = []
        for n in (80, 82):
            people = people_of(read, [who[:n], age[:n], paid[:n]])
            people.prepared = recipe.prepare(people)
            scores.append(recipe.whole(people, "", {"weight": 0, "quarter": quarter}))
        moved.add(int(np.abs(scores[0] - scores[1]).max()))
    assert max(moved) == most


def test_a_policy_lets_no_code_of_the_callers_run(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "discreet.toml").write_text(
        f'[population.p]\nledger = "{tmp_path / "a.ledger"}"\nbudget = {{ epsilon = 10 }}\n'
        f'[table.people]\nsource = "{tmp_path / "people.parquet"}"\npopulation = "p"\nunit = "who"\nmax_groups = 1\n'
        "max_rows = 2\ncolumns.age = { range = [20, 80] }\ncolumns.rich = { values = ['yes', 'no'] }\n"
    )
    model = SampleAggregate(LinearRegression(), blocks=20, epsilon=1, weights=(0, 1))
    with dp.connect(tmp_path / "discreet.toml") as s:
        with pytest.raises(InvalidParameter, match="opened by a policy"):
            s.evaluate(Loud(), features=["age"], target="rich", epsilon=1, trusted_code=True)
        with pytest.raises(InvalidParameter, match="opened by a policy"):
            s.fit(model, features=["age"], target="rich", trusted_code=True)
        for run in (s.perform, s.open):
            with pytest.raises(InvalidParameter, match="opened by a policy"):
                run(SimpleNamespace(), trusted_code=True)
        assert s.remaining.epsilon == 10
