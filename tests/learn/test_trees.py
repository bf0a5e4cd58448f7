"""Boosted trees: contract of the recipe, broken twins, cuts that noise cannot break, and what models predict."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier, is_regressor

import discreet as dp
from discreet.catalog.schema import TableSchema
from discreet.engine.person_parts import PeopleRows
from discreet.engine.row_factor import RowPlaces
from discreet.errors import InvalidParameter
from discreet.learn import BoostedTrees, BoostedTreesRegressor
from discreet.learn.losses import Logistic, RowLoss, Softmax, Squared
from discreet.learn.trees import BINS, DEPTH, SPLITS, TreeDescent, cuts_of, grown
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.contracts.recipes import SHORT, RecipeRow, faults
from tests.learn.test_descent import CODES, COLUMNS, LABEL, NUMBER

RNG = np.random.default_rng(1)
X = RNG.uniform(-2, 2, (4000, 2))
INSIDE = np.abs(X[:, 0]) < 1
GIVEN: dict[str, Any] = {"epsilon": 5, "delta": 1e-6, "bounds": (-2, 2)}


def trees(loss: RowLoss, kind: type[TreeDescent] = TreeDescent, **changed: Any) -> TreeDescent:
    """A short descent over the contract's table."""
    target = (-2.0, 2.0) if isinstance(loss, Squared) else None
    sql = f"SELECT x AS x0, n AS x1, {CODES}, {LABEL if target is None else NUMBER} FROM t"
    given: dict[str, Any] = {"sql": sql, "per_person": 2, "draws": 2, **changed}
    return kind(COLUMNS, Fraction(1), Fraction("1e-6"), loss=loss, target=target, **given)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("loss", "unit", "relation"),
    [
        (Logistic(), PrivacyUnit("who", max_groups=2, max_rows=2), Relation.ADD_REMOVE),
        (Softmax(3), PrivacyUnit.row(), Relation.REPLACE),
    ],
    ids=lambda x: type(x).__name__,
)
def test_trees_hold_the_contract_of_recipes(loss: RowLoss, unit: PrivacyUnit, relation: Relation) -> None:
    asked = trees(loss, per_person=1 if unit.is_row else 2)
    assert faults(RecipeRow("trees", lambda: asked, unit=unit, relations=(relation,)), SHORT) == []


class OwnCuts(TreeDescent):
    """A broken twin: trees are cut at the bins of the rows themselves."""

    def _known(self, people: PeopleRows, args: Any) -> Any:
        if args is not None and len(people.prepared.bins):
            first = people.prepared.bins.min(axis=0)[: len(args["cuts"])]
            args = {**args, "cuts": [[int(m) + 1] * SPLITS for m in first]}
        return super()._known(people, args)


class TwiceCounted(TreeDescent):
    """A broken twin: a row is in two bins of each histogram."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        found: Any = super().each(people, of, args)
        if of != "histogram":
            return found
        return RowPlaces(people.starts, np.repeat(found.places, 2, axis=1), found.width)


class FreeHistogram(TreeDescent):
    """A broken twin: the histogram is drawn once more than was paid for."""

    def _shaped(self, *args: Any) -> Any:
        yield from super()._shaped(*args)
        return (yield from super()._shaped(*args))


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("twin", "seen"), [(OwnCuts, "own rows"), (TwiceCounted, "clipped"), (FreeHistogram, "paid for")]
)
def test_a_broken_twin_is_seen(twin: type[TreeDescent], seen: str) -> None:
    asked = trees(Logistic(), twin, per_person=1)
    row = RecipeRow("twin", lambda: asked, unit=PrivacyUnit.row(), relations=(Relation.ADD_REMOVE,))
    assert seen in {fault.check for fault in faults(row, SHORT)}


def test_cuts_halve_the_rows_of_their_node_and_bins_where_noise_hides_them() -> None:
    counts = np.zeros(BINS)
    counts[[3, 100, 101, 250]] = 1000.0
    cuts = cuts_of(counts, spread=1.0)
    assert len(cuts) == SPLITS
    assert 100 < cuts[0] <= 101  # two thousand rows on each side
    assert 3 < cuts[1] <= 100 < 101 < cuts[2] <= 250
    assert cuts_of(counts, spread=1e6)[:7] == [128, 64, 192, 32, 96, 160, 224]
    for odd in (np.full(BINS, -5.0), counts * 0, RNG.normal(0, 1e9, BINS)):
        found = np.array(cuts_of(odd, spread=1.0))
        assert ((found >= 0) & (found <= BINS)).all()


def test_a_path_has_the_length_of_a_row_and_follows_the_cuts() -> None:
    cuts = cuts_of(np.ones(BINS), spread=0.0)
    for depth in (1, 3, DEPTH):
        features = grown(COLUMNS, {"cuts": [cuts, cuts], "depth": depth})
        bins = np.stack([np.arange(BINS), np.arange(BINS)[::-1], np.arange(BINS) % 4], axis=1)
        places, values = features.paths(bins)
        assert (np.diff(places, axis=1) > 0).all()
        assert np.abs(np.linalg.norm(values / 4096.0, axis=1) - 1).max() < 1e-3
        dense = np.zeros((BINS, features.width), np.int64)
        np.put_along_axis(dense, places.astype(np.int64), values.astype(np.int64), axis=1)
        assert len(np.unique(dense[:, :SPLITS], axis=0)) == 2**depth
        assert set(np.flatnonzero(dense.any(axis=0))) <= set(np.flatnonzero(features.active(depth)))


def test_classes_and_numbers_are_predicted() -> None:
    model = BoostedTrees(**GIVEN, classes=["in", "out"]).fit(X, np.where(INSIDE, "in", "out"))
    assert (model.predict(X) == np.where(INSIDE, "in", "out")).mean() > 0.95
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1)
    three = BoostedTrees(**GIVEN, classes=[0, 1, 2]).fit(X, np.digitize(X[:, 1], [-1, 1]))
    assert (three.predict(X) == np.digitize(X[:, 1], [-1, 1])).mean() > 0.9
    line = BoostedTreesRegressor(**GIVEN, target=(0, 4)).fit(X, X[:, 0] ** 2)
    assert line.score(X, X[:, 0] ** 2) > 0.9
    assert is_classifier(model)
    assert is_regressor(line)
    assert model.loss_.epsilon(delta=1e-6) <= 5
    assert "6 levels" in model.explain()


def test_no_value_of_the_data_is_an_error() -> None:
    frame = pd.DataFrame({"a": [np.nan, np.inf] * 20, "town": ["north", None] * 20})
    bounds: dict[str, Any] = {"a": dp.Range(-5, 5), "town": dp.Values("north", "south")}
    given: dict[str, Any] = {"epsilon": 0.01, "delta": 1e-6}
    for rows in (frame, frame[:0], frame[["town"]]):
        model = BoostedTrees(**given, bounds={str(c): bounds[str(c)] for c in rows}, classes=["no", "yes"])
        assert np.isfinite(model.fit(rows, ["odd", "yes"] * (len(rows) // 2)).decision_function(frame[[*rows]])).all()
    with pytest.raises(InvalidParameter, match="delta above 0"):
        BoostedTrees(epsilon=1, delta=0, bounds=(0, 1), classes=[0, 1]).fit(X, INSIDE)


def test_a_session_fits_and_evaluates_trees() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": INSIDE.astype(int)})
    columns: dict[str, Any] = {"a": dp.Range(-2, 2), "b": dp.Range(-2, 2), "y": dp.Values(0, 1)}
    asked: dict[str, Any] = {"features": ["a", "b"], "target": "y"}
    given: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "columns": columns, "ledger": ":memory:"}
    with dp.connect({"t": frame}, budget=dp.Budget(30, "1e-5"), **given) as s:
        model = s.fit(BoostedTrees(epsilon=5, delta="1e-6"), **asked)
        found = s.evaluate(model, **asked, epsilon=5)
        wrong = (model.predict(frame[["a", "b"]]) != frame["y"]).sum()
        assert wrong < 300
        assert abs(found.errors.value - wrong) <= 15
        assert s.fit(BoostedTrees(epsilon=5, delta="1e-6"), **asked).stored


def test_the_histogram_is_priced_with_the_other_draws() -> None:
    recipe = trees(Logistic(), draws=300)
    row = RecipeRow("trees", lambda: recipe)
    plan = recipe.plan(
        [TableSchema(row.table, {"who": row.columns["n"], **row.columns}, row.facts, row.unit, Relation.ADD_REMOVE)]
    )
    parts: dict[str, Any] = {part.name: part for part in plan.parts}
    squares = {n: p.times * p.norms.l2_squared / float(p.law.noise.sigma) ** 2 for n, p in parts.items()}
    assert squares["histogram"] / sum(squares.values()) == pytest.approx(0.03, rel=1e-3)
    assert float(plan.payers[0].cost.mu_squared or 0) == pytest.approx(sum(squares.values()), rel=1e-9)
    assert replace(recipe, columns=COLUMNS[2:])._first(parts["gradient"].rows) == []
