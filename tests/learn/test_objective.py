"""Objective perturbation: the exact minimum, what one person shows of it at every point, its contract and twins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.special import expit

import discreet as dp
from discreet.catalog.schema import Values
from discreet.errors import InternalError, InvalidParameter
from discreet.learn import LinearRegression, LogisticRegression, PoissonRegressor
from discreet.learn.features import DeclaredColumn
from discreet.learn.losses import Huber, Logistic, RowLoss
from discreet.learn.objective import CLOSE, ObjectiveMinimum, _Objective
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.perturbed_minimum import BITS, PerturbedMinimum, bending, calibrated, tail
from discreet.privacy.unit import PrivacyUnit, Relation, Sensitivity
from discreet.verify.certificate.checker import check
from discreet.verify.parts import _check_objective
from tests.contracts import recipes
from tests.contracts.recipes import SHORT, RecipeRow

COLUMNS = (DeclaredColumn("x", -2.0, 2.0), DeclaredColumn.of("ward", Values("a", "b", "c")))
CODES = "CASE WHEN ward = 'a' THEN 0 WHEN ward = 'b' THEN 1 WHEN ward = 'c' THEN 2 ELSE 3 END AS x1"
LABEL, NUMBER = "CASE WHEN n < 2 THEN 0 WHEN n < 4 THEN 1 ELSE 2 END AS y", "x AS y"
D = Fraction("1e-6")


def minimum(
    loss: RowLoss, delta: Fraction = Fraction(0), kind: type[ObjectiveMinimum] = ObjectiveMinimum, *, inside: bool
) -> ObjectiveMinimum:
    """A fit over the contract's table."""
    target = (-2.0, 2.0) if isinstance(loss, Huber) else None
    sql = f"SELECT x AS x0, {CODES}, {LABEL if target is None else NUMBER} FROM t"
    shape: dict[str, Any] = {"basis": "gam", "knots": 3, "loss": loss, "target": target}
    return kind(COLUMNS, Fraction(1), delta, **shape, inside=inside, sql=sql)


@pytest.mark.parametrize("relation", [*Relation])
@pytest.mark.parametrize("loss", [Logistic(), Huber()], ids=lambda loss: type(loss).__name__)
def test_the_minimum_moves_by_what_was_planned(loss: RowLoss, relation: Relation) -> None:
    row = RecipeRow("output", lambda: minimum(loss, inside=False), unit=PrivacyUnit.row(), relations=(relation,))
    assert recipes.faults(row, replace(SHORT, lone=20, scripts=("far above",))) == []


@pytest.mark.parametrize("delta", [Fraction(0), D])
def test_the_public_part_of_an_objective_holds_the_contract(delta: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PerturbedMinimum, "secret", lambda self, rng: [3 << BITS] * self.width)
    row = RecipeRow("objective", lambda: minimum(Logistic(), delta, inside=True), unit=PrivacyUnit.row())
    checks: tuple[Callable[..., Any], ...] = (recipes.transcript, recipes.hostile_noise, recipes.private_parts)
    effort = replace(SHORT, lone=20)
    assert [fault for relation in Relation for found in checks for fault in found(row, relation, effort)] == []


class LightMinimum(ObjectiveMinimum):
    """A broken twin: a tenth of the weight that was planned."""

    def whole(self, people: Any, of: str, args: Any) -> NDArray[np.int64]:
        return super().whole(people, of, {**args, "weight": args["weight"] // 10})


def test_a_lighter_objective_moves_too_far() -> None:
    row = RecipeRow("twin", lambda: minimum(Logistic(), kind=LightMinimum, inside=False), unit=PrivacyUnit.row())
    assert "bounds" in {fault.check for fault in recipes.bounds(row, Relation.ADD_REMOVE, SHORT)}


def objective(loss: RowLoss, n: int, seed: int) -> tuple[Any, NDArray[np.int64], _Objective]:
    """Rows of two features and an intercept, and their objective."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.integers(-2300, 2300, (n, 2)), np.full((n, 1), 2365)], axis=1)
    y = rng.integers(0, 2, n) if isinstance(loss, Logistic) else rng.integers(-(1 << 40), 1 << 40, n)
    return rows, y, _Objective(csr_array(rows), y, loss)


@pytest.mark.parametrize("loss", [Logistic(), Huber()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("n", [0, 1, 300])
def test_the_gradient_at_the_minimum_is_exact_and_short(loss: RowLoss, n: int) -> None:
    rows, y, found = objective(loss, n, 3)
    b, weight, close = [5 << BITS, -(1 << 90), 7], 1 << 30, Fraction(1, 1 << CLOSE)
    w = found.minimum(b, weight, close)
    exact = [Fraction(v * weight, 1 << BITS + 32) + Fraction(n, 1 << BITS) for v, n in zip(w, b, strict=True)]
    for x, label in zip(rows.tolist(), y.tolist(), strict=True):
        z = sum(Fraction(v * f, 1 << BITS + 12) for v, f in zip(w, x, strict=True))
        if isinstance(loss, Huber):
            r = min(max(z - Fraction(label, 1 << 40), -Fraction(1, 4)), Fraction(1, 4))
        else:  # linear between knots at multiples of 2^-7
            k = math.floor(z * 128)
            low, high = (Fraction(round(float(expit(k / 128 + i / 128)) * 2**40), 1 << 40) for i in (0, 1))
            r = low + (high - low) * (z * 128 - k) - label
            assert abs(float(r) - (expit(float(z)) - label)) < 1e-6
        exact = [e + r * Fraction(f, 1 << 12) for e, f in zip(exact, x, strict=True)]
    assert sum(e * e for e in exact) <= close**2
    gradient = found._at(w, b, weight)[0]
    assert [Fraction(int(g), 1 << 153) for g in gradient] == exact


def law(delta: Fraction, relation: Relation, epsilon: Fraction = Fraction(1)) -> PerturbedMinimum:
    """Noise for losses of slope 1 and curvature ¼."""
    shape: dict[str, Any] = {"slope": Fraction(1), "curvature": Fraction(1, 4), "weight": Fraction(2), "width": 2}
    return calibrated(epsilon, delta, relation, **shape, output=DiscreteLaplaceNoise(Fraction(100)))


@pytest.mark.parametrize("relation", [*Relation])
def test_at_every_point_the_density_of_the_minimum_shows_no_more_than_is_charged(relation: Relation) -> None:
    """The density of w is that of its b, times the determinant of its objective's second derivative."""
    rng, noise = np.random.default_rng(4), law(Fraction(0), relation)
    scale, weight = float(noise.scale), float(noise.weight)

    def log_density(x: Any, y: Any, w: Any) -> float:
        z = x @ w
        b = -(x.T @ (expit(z) - y)) - weight * w
        curved = (x * (expit(z) * expit(-z))[:, None]).T @ x + weight * np.eye(2)
        return float(-np.linalg.norm(b) / scale + math.log(np.linalg.det(curved)))

    most = 0.0
    for n in (0, 1, 30):
        angle, y = rng.uniform(0, 2 * math.pi, n + 2), rng.integers(0, 2, n + 2)
        x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        for size in (0.0, 0.1, 1, 5, 40):
            w = rng.normal(0, size, 2)
            other = (
                (np.arange(n + 2) != n + 1, np.arange(n + 2) != n)
                if relation is Relation.REPLACE
                else (slice(n), slice(n + 1))
            )
            one, two = (log_density(x[kept], y[kept], w) for kept in other)
            most = max(most, abs(one - two))
    assert most <= 1
    assert most > float(1 - bending(noise.curvature, noise.weight)) / 3  # the bound is nearly met


@pytest.mark.parametrize("relation", [*Relation])
@pytest.mark.parametrize("delta", [Fraction(0), D])
def test_noise_that_is_too_small_is_refused_by_its_law_and_by_the_second_derivation(
    delta: Fraction, relation: Relation
) -> None:
    good = law(delta, relation)
    moved = minimum(Logistic(), inside=False).promised
    assert moved.slope > 1
    _check_objective(good, relation)
    for quiet in (replace(good, scale=good.scale * Fraction(9, 10)), replace(good, weight=good.weight / 10)):
        with pytest.raises(InvalidParameter, match="smaller than"):
            quiet.events(Sensitivity(2, 1), 1, relation)
        with pytest.raises(InternalError):
            _check_objective(quiet, relation)


def test_noise_for_a_person_who_is_replaced_is_not_far_above_twice_that_of_one_who_comes() -> None:
    one, two = (law(D, relation).scale for relation in (Relation.ADD_REMOVE, Relation.REPLACE))
    assert 2 <= two / one < Fraction(9, 4)
    assert tail(Fraction(1, 10), Fraction(1), Relation.REPLACE) == 1


GIVEN: dict[str, Any] = {"epsilon": 1, "delta": 0, "bounds": (-2, 2)}


def test_what_an_objective_cannot_is_refused_with_the_way_round() -> None:
    X, y = [[0.0], [1.0]], [0, 1]
    for model, words in (
        (LogisticRegression(**GIVEN, classes=[0, 1]), "or solver='objective'"),
        (LogisticRegression(**GIVEN, classes=[0, 1, 2], solver="objective"), "Only binary"),
        (LinearRegression(**GIVEN, target=(0, 1), solver="objective"), "loss='huber'"),
        (PoissonRegressor(**GIVEN, target=(0, 1), solver="objective"), "solver must be one of 'gradient'"),
    ):
        with pytest.raises(InvalidParameter) as refused:
            model.fit(X, y)
        assert words in str(refused.value)


def test_a_session_fits_by_the_objective_without_delta_and_certifies_it() -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"who": np.arange(800), "a": rng.uniform(-2, 2, 800)})
    frame["y"] = np.where(frame["a"] + rng.normal(0, 0.5, 800) > 0, "yes", "no")
    facts = {"a": dp.Range(-2, 2), "y": dp.Values("no", "yes")}
    given: dict[str, Any] = {"columns": facts, "budget": dp.Budget(5), "population": "p", "ledger": ":memory:"}
    asked: dict[str, Any] = {"features": ["a"], "target": "y"}
    model = LogisticRegression(epsilon=2, delta=0, solver="objective")
    with dp.connect({"t": frame}, unit=dp.PrivacyUnit("who", max_groups=1, max_rows=1), **given) as s:
        fitted = s.fit(model, **asked)
        assert s.remaining.epsilon == 3
        assert fitted.coef_[0, 0] > 0.5
        assert s.fit(model, **asked).stored
        assert check(fitted.certificate()) is not None
        assert s.evaluate(fitted, **asked, epsilon=1).errors.value < 300
    with dp.connect({"t": frame}, unit=dp.PrivacyUnit("who", max_groups=1, max_rows=2), **given) as s:
        with pytest.raises(InvalidParameter, match="one loss for each person"):
            s.fit(model, **asked)
        assert s.remaining.epsilon == 5
