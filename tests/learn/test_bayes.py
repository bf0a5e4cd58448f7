"""Naive Bayes: contract of the recipe, broken twins, and models that follow from class sums."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB as Plain

import discreet as dp
from discreet.engine.person_parts import PeopleRows
from discreet.learn import GaussianNB
from discreet.learn.bayes import ClassSums, ClassTerms
from discreet.learn.features import DeclaredColumn
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.contracts.recipes import SHORT, RecipeRow, faults
from tests.learn.test_descent import CODES, COLUMNS, LABEL

RNG = np.random.default_rng(1)
Y = np.repeat([0, 1, 2], 2000)
X = RNG.normal(0, 1, (6000, 2)) * [1, 0.5] + np.array([[0, 0], [2, 0], [0, 2]])[Y]
GIVEN: dict[str, Any] = {"epsilon": 5, "delta": 1e-6, "bounds": (-5, 5)}


def recipe(kind: type[ClassSums] = ClassSums, *, rows: int = 2, delta: str = "1e-6") -> ClassSums:
    """Two classes, and rows of none, over the contract's table."""
    sql = f"SELECT x AS x0, n AS x1, {CODES}, {LABEL} FROM t"
    return kind(COLUMNS, Fraction(1), Fraction(delta), sql=sql, per_person=rows)


@pytest.mark.exhaustive
@pytest.mark.parametrize("unit", [PrivacyUnit("who", max_groups=2, max_rows=2), PrivacyUnit.row()], ids=["who", "row"])
def test_class_sums_hold_the_contract_of_recipes(unit: PrivacyUnit) -> None:
    asked = recipe(rows=1, delta="0") if unit.is_row else recipe()
    assert faults(RecipeRow("sums", lambda: asked, unit=unit), SHORT) == []


class CountsUndeclared(ClassSums):
    """A broken twin: a row adds to every class."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        weights, factor = people.prepared
        return np.ones_like(weights), factor


class Centred(ClassSums):
    """A broken twin: sums are of one class less the other, and of how many people there are."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        weights, factor = people.prepared
        return weights * (people.size % 2), factor


@pytest.mark.parametrize(("twin", "seen"), [(CountsUndeclared, "clipped"), (Centred, "bounds")])
def test_a_broken_twin_is_seen(twin: type[ClassSums], seen: str) -> None:
    row = RecipeRow("twin", lambda: recipe(twin, rows=1), unit=PrivacyUnit.row(), relations=(Relation.ADD_REMOVE,))
    assert seen in {fault.check for fault in faults(row, SHORT)}


def test_it_agrees_with_naive_bayes_without_noise() -> None:
    plain, model = Plain().fit(X, Y), GaussianNB(**GIVEN, classes=[0, 1, 2]).fit(X, Y)
    assert model.theta_ == pytest.approx(plain.theta_, abs=0.1)
    assert model.var_ == pytest.approx(plain.var_, abs=0.2)
    assert (model.predict(X) == plain.predict(X)).mean() > 0.98
    assert np.abs(model.predict_proba(X) - plain.predict_proba(X)).mean() < 0.02
    two = GaussianNB(**{**GIVEN, "delta": 0}, classes=[0, 1]).fit(X, Y)
    assert two.decision_function(X[:3]).shape == (3,)
    assert two.class_prior_ == pytest.approx([0.5, 0.5], abs=0.05)
    assert two.loss_.epsilon(delta=0) == 5


def test_declared_values_and_undeclared_labels() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "town": np.where(Y == 1, "north", "elsewhere")})
    bounds = {"a": dp.Range(-5, 5), "town": dp.Values("north", "south")}
    model = GaussianNB(epsilon=5, delta=1e-6, bounds=bounds, classes=["no", "yes"])
    model.fit(frame, np.where(Y == 2, "undeclared", np.where(Y == 1, "yes", "no")))
    assert model.class_count_ == pytest.approx([2000, 2000], abs=30)
    assert (model.predict(frame) == np.where(Y == 1, "yes", "no")).mean() > 0.99


def test_no_value_of_the_data_is_an_error() -> None:
    odd = np.tile([np.nan, np.inf], (50, 1))
    for rows, labels in ((odd, np.full(50, np.nan)), (odd[:0], Y[:0]), (X[:1], Y[:1])):
        found = GaussianNB(**{**GIVEN, "epsilon": 0.01}, classes=[0, 1, 2]).fit(rows, labels).predict_proba(odd)
        assert np.isfinite(found).all()


def test_a_session_fits_and_evaluates_it() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    columns: dict[str, Any] = {"a": dp.Range(-5, 5), "b": dp.Range(-5, 5), "y": dp.Values(0, 1, 2)}
    asked: dict[str, Any] = {"features": ["a", "b"], "target": "y"}
    given: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "columns": columns, "ledger": ":memory:"}
    with dp.connect({"t": frame}, budget=dp.Budget(30, "1e-5"), **given) as s:
        model = s.fit(GaussianNB(epsilon=5, delta="1e-6"), **asked)
        found = s.evaluate(model, **asked, epsilon=5)
        wrong = (model.predict(frame[["a", "b"]]) != frame["y"]).sum()
        assert abs(found.errors.value - wrong) <= 15


def test_rows_of_one_class_can_be_further_apart_than_the_root_of_two() -> None:
    """So √2 lengths would be too little to charge where a person is replaced, although rows of two classes keep it."""
    terms = ClassTerms(tuple(DeclaredColumn(name, -1.0, 1.0) for name in "abc"))
    places, values = terms.encode([np.array([1.0, -0.25])] * 3, 2)
    assert (places[0] == places[1]).all()
    apart = int(((values[0].astype(np.int64) - values[1]) ** 2).sum())
    assert 2.1 * terms.longest**2 < apart <= 4 * terms.longest**2
