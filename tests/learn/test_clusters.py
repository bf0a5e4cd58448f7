"""Clusters: contract of the recipe, broken twins, and centres that are found."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans as Plain

import discreet as dp
from discreet.engine.person_parts import PeopleRows
from discreet.engine.row_factor import RowPlaces
from discreet.errors import InvalidParameter
from discreet.learn import KMeans
from discreet.learn.clusters import Clustering
from discreet.learn.features import DeclaredColumn
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.contracts.recipes import SHORT, RecipeRow, faults

CENTRES = np.array([[1, 1, 1, 1], [9, 1, 5, 2], [1, 9, 9, 7]], np.float64)
RNG = np.random.default_rng(1)
ROWS = np.repeat(CENTRES, 2000, axis=0) + RNG.normal(0, 0.4, (6000, 4))


def recipe(width: int, kind: type[Clustering] = Clustering, *, rows: int = 2, delta: str = "0") -> Clustering:
    """Two clusters over the contract's table."""
    columns = tuple(DeclaredColumn(f"c{i}", -2.0, 2.0 if i % 2 else 5.0) for i in range(width))
    shown = ", ".join(f"{'x' if i % 2 else 'n'} AS x{i}" for i in range(width))
    given: dict[str, Any] = {"sql": f"SELECT {shown} FROM t", "per_person": rows, "clusters": 2}
    return kind(columns, Fraction(1), Fraction(delta), **given)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("unit", [PrivacyUnit("who", max_groups=2, max_rows=2), PrivacyUnit.row()], ids=["who", "row"])
def test_clusters_hold_the_contract_of_recipes(width: int, unit: PrivacyUnit) -> None:
    asked = recipe(width, rows=1 if unit.is_row else 2, delta="1e-6" if width == 4 else "0")
    relation = Relation.ADD_REMOVE if unit.is_row else Relation.REPLACE
    assert faults(RecipeRow("clusters", lambda: asked, unit=unit, relations=(relation,)), SHORT) == []


class CountsTwice(Clustering):
    """A broken twin: a row counts twice."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        found: Any = super().each(people, of, args)
        return RowPlaces(people.starts, np.repeat(found.places, 2, axis=1), found.width)


class ChangesPlaces(Clustering):
    """A broken twin: clusters change places where the number of rows is odd."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        found: Any = super().each(people, of, args)
        if of != "nearest":
            return found
        weights, factor = found
        return np.roll(weights, people.size % 2, axis=1), factor


@pytest.mark.exhaustive
@pytest.mark.parametrize(("twin", "width", "seen"), [(CountsTwice, 2, "clipped"), (ChangesPlaces, 4, "bounds")])
def test_a_broken_twin_is_seen(twin: type[Clustering], width: int, seen: str) -> None:
    unit = PrivacyUnit.row()
    row = RecipeRow("twin", lambda: recipe(width, twin, rows=1), unit=unit, relations=(Relation.ADD_REMOVE,))
    assert seen in {fault.check for fault in faults(row, SHORT)}


@pytest.mark.parametrize(("width", "delta"), [(1, 0), (2, 0), (2, "1e-6"), (3, 0), (4, "1e-6")])
def test_clusters_cost_little_more_than_those_of_the_rows_themselves(width: int, delta: Any) -> None:
    X = ROWS[:, -width:]
    model = KMeans(3, epsilon=2, delta=delta, bounds=(0, 10)).fit(X)
    assert model.score(X) > 1.3 * Plain(3, n_init=2, random_state=0).fit(X).score(X)
    assert model.transform(X).shape == (6000, 3)
    assert (model.transform(X).argmin(axis=1) == model.predict(X)).all()
    assert model.loss_.epsilon(delta=float(delta)) <= 2


def test_wide_bounds_cost_little() -> None:
    X = np.random.default_rng(5).lognormal(3, 1, (20_000, 4)) * [1, 2, 3, 4]
    model = KMeans(4, epsilon=1, delta=1e-6, bounds=(0, 100_000)).fit(X)
    assert model.score(X) > 1.5 * Plain(4, n_init=2, random_state=0).fit(X).score(X)
    low, high = np.array(model._state["ranges"]).T
    assert ((model.cluster_centers_ >= low - 1e-6) & (model.cluster_centers_ <= high + 1e-6)).all()
    assert (high < 10_000).all()


@pytest.mark.parametrize("width", [2, 4])
def test_no_value_of_the_data_is_an_error(width: int) -> None:
    odd = np.tile([np.nan, np.inf, -np.inf, 3], (50, 1))[:, :width]
    for rows in (odd, odd[:0], ROWS[:1, :width]):
        found = KMeans(5, epsilon=0.01, delta=1e-6, bounds=(0, 10)).fit(rows)
        assert ((found.cluster_centers_ >= 0) & (found.cluster_centers_ <= 10)).all()
        assert found.fit_predict(odd).shape == (50,)


def test_what_cannot_be_is_refused() -> None:
    for clusters, words in ((0, "n_clusters"), (501, "at most 500")):
        with pytest.raises(InvalidParameter, match=words):
            KMeans(clusters, epsilon=1, delta=0, bounds=(0, 1)).fit(ROWS)
    with pytest.raises(InvalidParameter, match="declared values"):
        KMeans(epsilon=1, delta=0, bounds={"a": dp.Values("x")}).fit(pd.DataFrame({"a": ["x"]}))


def test_a_session_fits_clusters() -> None:
    frame = pd.DataFrame(ROWS[:, :2], columns=["a", "b"])
    given: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "columns": {"a": dp.Range(0, 10), "b": dp.Range(0, 10)}}
    with dp.connect({"t": frame}, budget=dp.Budget(3), ledger=":memory:", **given) as s:
        model = s.fit(KMeans(3, epsilon=2, delta=0), features=["a", "b"])
        assert model.score(frame) > 1.3 * Plain(3, n_init=2, random_state=0).fit(frame.to_numpy()).score(
            frame.to_numpy()
        )
        assert s.fit(KMeans(3, epsilon=2, delta=0), features=["a", "b"]).stored
        assert s.remaining.epsilon == 1
        assert s.plan_fit(KMeans(4, epsilon=1, delta=0), features=["a", "b"]).price == "ε = 1"
