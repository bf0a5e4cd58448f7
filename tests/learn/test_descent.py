"""Noisy gradient descent: its contract as a recipe, with broken twins, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from discreet.catalog.schema import TableSchema, Values
from discreet.engine.person_parts import PeopleRows, people_of
from discreet.learn.descent import LinearDescent, rule
from discreet.learn.features import DeclaredColumn
from discreet.learn.losses import Hinge, Logistic, Poisson, RowLoss, Softmax, Squared
from discreet.mechanisms.additive import RoundedGaussianNoise
from discreet.mechanisms.draws import AddedNoise
from discreet.plan.plan import Plan
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.contracts.recipes import SHORT, RecipeRow, faults

COLUMNS = (
    DeclaredColumn("x", -2.0, 2.0),
    DeclaredColumn("n", 0.0, 5.0),
    DeclaredColumn.of("ward", Values("a", "b", "c")),
)
CODES = "CASE WHEN ward = 'a' THEN 0 WHEN ward = 'b' THEN 1 WHEN ward = 'c' THEN 2 ELSE 3 END AS x2"
LABEL, NUMBER = "CASE WHEN n < 2 THEN 0 WHEN n < 4 THEN 1 ELSE 2 END AS y", "x AS y"


def descent(loss: RowLoss, kind: type[LinearDescent] = LinearDescent, **changed: Any) -> LinearDescent:
    """A short descent over the contract's table."""
    target = (-2.0, 2.0) if isinstance(loss, Squared) else (0.0, 2.0) if isinstance(loss, Poisson) else None
    sql = f"SELECT x AS x0, n AS x1, {CODES}, {LABEL if target is None else NUMBER} FROM t"
    given: dict[str, Any] = {"sql": sql, "per_person": 2, "draws": 2, **changed}
    return kind(COLUMNS, Fraction(1), Fraction("1e-6"), loss=loss, target=target, basis="gam", knots=3, **given)


LOSSES = (Logistic(), Softmax(3), Hinge(), Squared(), Poisson(high=2.0))


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("unit", [PrivacyUnit("who", max_groups=2, max_rows=2), PrivacyUnit.row()], ids=["who", "row"])
def test_a_descent_holds_the_contract_of_recipes(loss: RowLoss, unit: PrivacyUnit) -> None:
    row = RecipeRow("descent", lambda: descent(loss), unit=unit, relations=(Relation.ADD_REMOVE,))
    assert faults(row, SHORT) == []


def test_a_descent_holds_the_contract_where_people_are_replaced() -> None:
    row = RecipeRow("descent", lambda: descent(Logistic()), relations=(Relation.REPLACE,))
    assert faults(row, SHORT) == []


class Unclipped(LinearDescent):
    """A broken twin: gradients are as long as they are."""

    def _clipped(self, people: PeopleRows, factor: Any, weights: Any) -> Any:
        return np.rint(weights * 8).astype(np.int64)


class CountsAll(LinearDescent):
    """A broken twin: gradients are divided by how many people there are."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        found: Any = super().each(people, of, args)
        return found if of != "gradient" else (found[0] // max(people.size, 1), found[1])


class FreeCalibration(LinearDescent):
    """A broken twin: the calibration is drawn, and not paid for."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        return super().plan(tables, part)

    @property
    def is_calibrated(self) -> bool:
        return self._calibrates

    _calibrates = False

    def run(self, plan: Plan) -> Any:
        state = yield from super().run(plan)
        yield from self._calibrated(np.array(state["weights"]), 1.0, {})
        return state


@dataclass(frozen=True)
class TooQuiet(LinearDescent):
    """A broken twin: the noise of a gradient is a tenth less than what is charged."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        plan = super().plan(tables, part)
        last: Any = plan.parts[-1]
        law = last.law
        quiet = replace(last, law=AddedNoise(RoundedGaussianNoise(law.noise.sigma * Fraction(9, 10))))
        return replace(plan, parts=(*plan.parts[:-1], quiet))


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("twin", "seen"),
    [(Unclipped, {"clipped"}), (CountsAll, {"own rows"}), (FreeCalibration, {"paid for"}), (TooQuiet, {"verified"})],
)
def test_a_broken_twin_is_seen(twin: type[LinearDescent], seen: set[str]) -> None:
    row = RecipeRow("twin", lambda: descent(Logistic(), twin), unit=PrivacyUnit.row(), relations=(Relation.ADD_REMOVE,))
    assert seen <= {fault.check for fault in faults(row, SHORT)}


@pytest.mark.parametrize("relation", [*Relation])
def test_all_draws_together_are_one_gaussian_event_at_what_was_asked(relation: Relation) -> None:
    recipe = descent(Logistic(), draws=300)
    row = RecipeRow("descent", lambda: recipe)
    plan = recipe.plan(
        [TableSchema(row.table, {"who": row.columns["n"], **row.columns}, row.facts, row.unit, relation)]
    )
    twice = 4 if relation is Relation.REPLACE else 1
    square = 0.0
    for part in plan.parts:
        law: Any = part.law
        square += part.times * twice * part.norms.l2_squared / float(law.noise.sigma) ** 2
    mu = math.sqrt(square)
    delta = norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu)
    assert 0.99e-6 < delta <= 1e-6
    assert float(plan.payers[0].cost.mu_squared or 0) == pytest.approx(square, rel=1e-9)


@pytest.mark.parametrize("loss", [Squared(), Softmax(3)], ids=["one score", "three scores"])
def test_what_a_person_adds_does_not_follow_from_how_many_rows_others_have(loss: RowLoss) -> None:
    row = RecipeRow("descent", lambda: descent(loss))
    recipe, names = descent(loss), {"who": row.columns["n"], **row.columns}
    plan = recipe.plan([TableSchema(row.table, names, row.facts, row.unit, Relation.ADD_REMOVE)])
    part: Any = plan.parts[-1]
    rng, n = np.random.default_rng(5), 300
    columns = [
        rng.integers(0, 3, n + 2) * (1 if v.step == 1 else round(1 / v.step)) for v in part.rows.columns.values()
    ]
    weights = np.full((loss.outputs, recipe.features.width), 9.0) * (1 + np.arange(loss.outputs))[:, None]

    def parts(rows: int) -> Any:
        people = people_of(part.rows, [np.minimum(np.arange(rows), n), *(c[:rows] for c in columns)])
        people.prepared = recipe.prepare(people)
        found: Any = recipe.each(people, "gradient", {"weights": weights, "clip": 0.3})
        return found[0][:n].tolist()

    assert parts(n) == parts(n + 2)  # all have one row, and one more person has two


def test_the_rule_takes_more_steps_and_clips_less_where_noise_is_small() -> None:
    found = [rule(Logistic(), ratio, 30_000, 100) for ratio in (0.01, 0.02, 0.1, 10)]
    assert [r.steps * r.draws <= 300 for r in found] == [True] * 4
    assert [r.steps for r in found] == sorted(r.steps for r in found)
    assert [r.clip for r in found] == [0.3, 0.3, 0.5, 1.0]
