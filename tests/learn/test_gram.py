"""A noisy Gram matrix: its contract as a recipe, broken twins, and the models that follow from it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.catalog.schema import TableSchema
from discreet.engine.person_parts import PeopleRows
from discreet.engine.row_factor import RowFactor
from discreet.errors import InvalidParameter, MissingBounds
from discreet.learn import PCA, Gram, LinearRegression, StandardScaler
from discreet.learn.features import DeclaredColumn
from discreet.learn.gram import GramRegression, GramSum, NarrowedGram
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.verify.parts import part_moves
from tests.contracts.recipes import SHORT, RecipeRow, faults
from tests.learn.test_descent import CODES, COLUMNS

GIVEN: dict[str, Any] = {"epsilon": 50, "delta": 1e-6, "bounds": [(0, 10), (-5, 5), (0, 100)]}
RNG = np.random.default_rng(1)
X = RNG.uniform(0, 1, (4000, 1)) * [4, 2, 10] + RNG.normal(0, 0.1, (4000, 3)) + [1, -1, 20]


def recipe(kind: type[GramSum] = GramSum, *, rows: int = 2, delta: str = "1e-6") -> GramSum:
    """A matrix over the contract's table."""
    sql = f"SELECT x AS x0, n AS x1, {CODES}, x AS y FROM t"
    given: dict[str, Any] = {"sql": sql, "per_person": rows, "target": (-2.0, 2.0)}
    return kind(COLUMNS, Fraction(1), Fraction(delta), **given)


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", [GramSum, GramRegression, NarrowedGram])
@pytest.mark.parametrize("unit", [PrivacyUnit("who", max_groups=2, max_rows=2), PrivacyUnit.row()], ids=["who", "row"])
def test_a_matrix_holds_the_contract_of_recipes(kind: type[GramSum], unit: PrivacyUnit) -> None:
    asked = recipe(kind, rows=1 if unit.is_row else 2)
    assert faults(RecipeRow("gram", lambda: asked, unit=unit, relations=(Relation.ADD_REMOVE,)), SHORT) == []


def test_a_matrix_holds_the_contract_with_laplace_noise_where_people_are_replaced() -> None:
    asked = recipe(delta="0")
    assert faults(RecipeRow("gram", lambda: asked, relations=(Relation.REPLACE,)), SHORT) == []


def changed(people: PeopleRows, change: Callable[[Any], Any]) -> RowFactor:
    """The rows of a matrix with other values."""
    own, n = people.prepared.matrix, len(people.matrix)
    shape = (n, len(own.data) // max(n, 1))
    values = change(own.data.astype(np.int64)).reshape(shape)
    return RowFactor(people.starts, own.indices.reshape(shape), values, people.prepared.width)


class Longer(GramSum):
    """A broken twin: rows are longer than planned."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return changed(people, lambda values: values * 2)


class Means(GramSum):
    """A broken twin: it takes the mean, and the number of people is private."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return changed(people, lambda values: values // max(people.size, 1))


class Signed(GramSum):
    """A broken twin: it weighs its rows itself, so that two parts may point away from each other."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return -people.prepared.matrix.toarray().astype(np.int64), people.prepared


@pytest.mark.parametrize(("twin", "seen"), [(Longer, "clipped"), (Means, "own rows"), (Signed, "raises")])
def test_a_broken_twin_is_seen(twin: type[GramSum], seen: str) -> None:
    row = RecipeRow("twin", lambda: recipe(twin, rows=1), unit=PrivacyUnit.row(), relations=(Relation.ADD_REMOVE,))
    assert seen in {fault.check for fault in faults(row, SHORT)}


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_two_people_are_as_far_apart_as_is_charged_and_no_further(delta: str) -> None:
    """As far apart as is charged where each of two people has two rows; what add-remove charges is too little."""
    columns = (DeclaredColumn("x", -1.0, 1.0),)
    asked = GramSum(columns, Fraction(1), Fraction(delta), sql="SELECT x AS x0 FROM t", per_person=2)
    row = RecipeRow("gram", lambda: asked)
    table = TableSchema(row.table, {"who": row.columns["n"], **row.columns}, row.facts, row.unit, Relation.REPLACE)
    part: Any
    (part,) = asked.plan([table]).parts
    one = 2.0**asked.bits / np.sqrt(2)
    rows = [np.array([a, one]) for a in np.linspace(-one, one, 9)]
    people = [np.outer(a, a) + np.outer(b, b) for a in rows for b in rows]
    apart = max(((a - b) ** 2).sum() for a in people for b in people)
    moved = part.moves
    assert 0.99 * moved.l2_squared < apart <= moved.l2_squared == 2 * part.norms.l2_squared
    assert apart > 1.9 * part.norms.l2_squared
    assert part_moves(part.claim, Relation.REPLACE) == moved
    assert part_moves(part.claim, Relation.ADD_REMOVE) == part.norms


def test_means_covariance_components_and_scales_follow_from_one_matrix() -> None:
    found = Gram(**GIVEN).fit(X)
    assert found.mean_ == pytest.approx(X.mean(axis=0), abs=0.1)
    assert found.covariance_ == pytest.approx(np.cov(X.T), abs=0.5, rel=0.2)
    assert found.rows_ == pytest.approx(4000, abs=20)
    pca, scaler = found.pca(1), found.scaler()
    assert pca.loss_.epsilon(delta=1e-6) <= 50
    direction = np.array([4, 2, 10]) / np.sqrt(120)
    assert np.abs(pca.components_[0] @ direction) > 0.999
    assert pca.explained_variance_ratio_[0] > 0.95
    assert pca.inverse_transform(pca.transform(X)) == pytest.approx(X, abs=1.5)
    scaled = scaler.transform(X)
    assert scaled.std(axis=0) == pytest.approx(1, abs=0.1)
    assert scaler.inverse_transform(scaled) == pytest.approx(X)
    assert PCA(2, **GIVEN).fit(X).transform(X).shape == (4000, 2)
    assert pca.get_feature_names_out().tolist() == ["pca0"]


def test_a_line_follows_from_a_matrix_of_features_and_target() -> None:
    y = 3 * X[:, 0] - 0.5 * X[:, 2]
    model = LinearRegression(**GIVEN, target=(-30, 10), solver="gram").fit(X, y)
    assert model.score(X, y) > 0.95
    assert "Gram matrix" in model.explain()
    pure = LinearRegression(**{**GIVEN, "delta": 0}, target=(-30, 10), solver="gram").fit(X, y)
    assert pure.loss_.epsilon(delta=0) == 50


@pytest.mark.parametrize("model", [Gram, PCA, StandardScaler])
def test_no_value_of_the_data_is_an_error(model: Any) -> None:
    odd = np.tile([np.nan, np.inf, -np.inf], (50, 1))
    for rows in (odd, odd[:0], X[:1]):
        found = model(**{**GIVEN, "epsilon": 0.01}).fit(rows)
        assert np.isfinite(found.covariance_).all()
        if model is not Gram:
            assert np.isfinite(found.transform(odd)).all()
    with pytest.raises(MissingBounds):
        model(epsilon=1, delta=1e-6).fit(X)


def test_declared_values_have_a_feature_each_and_are_not_scaled() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "town": np.where(X[:, 0] > 3, "north", "elsewhere")})
    bounds = {"a": dp.Range(0, 10), "town": dp.Values("north", "south")}
    found = Gram(epsilon=50, delta=1e-6, bounds=bounds).fit(frame)
    assert found.terms_ == ["a", "town=north", "town=south", "town=other"]
    assert found.covariance_[0, 1] > 0.2
    with pytest.raises(InvalidParameter, match="'town'"):
        StandardScaler(epsilon=1, delta=1e-6, bounds=bounds).fit(frame)


def test_a_session_fits_them_once_and_without_a_target() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    columns: dict[str, Any] = {name: dp.Range(*pair) for name, pair in zip("abc", GIVEN["bounds"], strict=True)}
    given: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "columns": columns, "ledger": ":memory:"}
    with dp.connect({"t": frame}, budget=dp.Budget(200, "1e-5", per_query=50), **given) as s:
        asked: dict[str, Any] = {"features": ["a", "b", "c"]}
        pca = s.fit(PCA(1, epsilon=50, delta="1e-6"), **asked)
        assert np.abs(pca.components_[0] @ (np.array([4, 2, 10]) / np.sqrt(120))) > 0.999
        assert pca.mean_ == pytest.approx(X.mean(axis=0), abs=0.1)
        assert s.fit(PCA(1, epsilon=50, delta="1e-6"), **asked).stored
        assert s.remaining.epsilon == 150
        line = s.fit(LinearRegression(epsilon=50, delta=0, solver="gram"), features=["a", "b"], target="c")
        assert line.score(frame[["a", "b"]], frame["c"]) > 0.9
        with pytest.raises(InvalidParameter, match="leave target= out"):
            s.fit(PCA(1, epsilon=50, delta="1e-6"), features=["a"], target="c")


def test_a_pickle_predicts_the_same() -> None:
    model = PCA(2, **GIVEN).fit(X)
    assert (pickle.loads(pickle.dumps(model)).transform(X) == model.transform(X)).all()


def test_wide_matrices_take_a_coarser_grid_and_too_wide_ones_are_refused() -> None:
    wide = replace(recipe(), columns=COLUMNS[:1] * 200)
    assert 1 <= wide.bits < recipe().bits
    with pytest.raises(InvalidParameter, match="too wide"):
        Gram(epsilon=1, delta=1e-6, bounds=(0, 1)).fit(np.zeros((2, 2_000)))


def test_components_of_wide_bounds_are_those_of_narrower_ranges() -> None:
    far = np.random.default_rng(5).lognormal(3, 1, (20_000, 1)) * [1, 2, 3]
    bounds: Any = [(0, 10_000), (0, 10_000), (0, 10_000)]
    truth = np.linalg.svd(far - far.mean(axis=0), full_matrices=False)[2][0]
    model = PCA(1, epsilon=1, delta=1e-6, bounds=bounds).fit(far)
    assert abs(model.components_[0] @ truth) > 0.99
    assert model.mean_ == pytest.approx(far.mean(axis=0), rel=0.2)
    low, high = np.array(model._state["ranges"]).T
    assert (high - low < 2000).all()
    shared = Gram(epsilon=1, delta=1e-6, bounds=bounds).fit(far).pca(1)
    assert shared._state["ranges"] == [[0, 10_000]] * 3


def test_ranges_stay_where_noise_hides_the_rows() -> None:
    model = PCA(1, epsilon=Fraction(1, 100), delta=0, bounds=(0, 5)).fit(np.ones((30, 2)))
    assert np.shape(model._state["ranges"]) == (2, 2)
    assert np.isfinite(model.components_).all()


def test_where_noise_hides_all_variances_the_widest_bounds_are_first() -> None:
    rows = np.random.default_rng(6).normal(0, [1, 0.01], (200, 2))
    found = [PCA(1, epsilon=0.1, delta=1e-6, bounds=[(-100, 100), (-1, 1)]).fit(rows) for _ in range(20)]
    assert all(abs(model.components_[0, 0]) > 0.9 for model in found)
