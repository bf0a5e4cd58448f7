"""Noisy tables for synthetic data: their contract as a recipe, with broken twins, and what they cost."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discreet.accounting import zcdp
from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.person_recipe import run_on_arrays
from discreet.errors import InvalidParameter
from discreet.mechanisms.draws import NamedBest
from discreet.mechanisms.exponential import Exponential
from discreet.plan.parts import plan_recipe
from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.event import GaussianEvent
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.synth.domain import SynthColumn
from discreet.synth.recipe import AdaptiveSynthesis, Schedule, merge, with_laws
from tests.contracts.recipes import SHORT, RecipeRow, faults

COLUMNS = (
    SynthColumn.of("ward", Values("a", "b", "c"), Type.TEXT, 4),
    SynthColumn.of("n", Range(0, 5, integer=True), Type.INT, 4),
    SynthColumn.of("x", Range(-2, 2), Type.REAL, 3),
)
PAIRS = ((0, 1), (0, 2), (1, 2))


class Chosen(AdaptiveSynthesis):
    """Chooses one pair in each of two rounds, though there are only three."""

    @property
    def schedule(self) -> Schedule:
        return Schedule(2, 1, 2, 3, chosen=True)


def synthesis(kind: type[AdaptiveSynthesis] = Chosen, **changed: Any) -> AdaptiveSynthesis:
    """A small synthesis over the contract's table."""
    given: dict[str, Any] = {
        "columns": COLUMNS,
        "source": "t",
        "epsilon": Fraction(1),
        "delta": Fraction("1e-6"),
        "per_person": 2,
        "candidates": PAIRS,
        "weights": (1, 2, 1),
        "components": 3,
        "steps": (2, 3),
    }
    return kind(**given | changed)


@pytest.mark.exhaustive
@pytest.mark.thinned(3)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("unit", [PrivacyUnit("who", max_groups=2, max_rows=2), PrivacyUnit.row()], ids=["who", "row"])
def test_a_synthesis_holds_the_contract_of_recipes(unit: PrivacyUnit, relation: Relation) -> None:
    row = RecipeRow("synthesis", synthesis, unit=unit, relations=(relation,))
    assert faults(row, SHORT) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "kind", [AdaptiveSynthesis, lambda **given: AdaptiveSynthesis(**given | {"candidates": (), "weights": ()})]
)
def test_so_do_one_round_of_all_pairs_and_columns_alone(kind: Any) -> None:
    row = RecipeRow("synthesis", lambda: synthesis(kind), relations=(Relation.ADD_REMOVE,))
    assert faults(row, SHORT) == []


class CountsExactly(Chosen):
    """A broken twin: rare values are merged by the exact counts of everybody."""

    def each(self, people: Any, of: str, args: Any) -> Any:
        found: Any = super().each(people, of, args)
        if of == "columns":
            common = np.bincount(found.places.reshape(-1), minlength=found.width) > 1
            found = type(found)(people.starts, np.where(common[found.places], found.places, 0), found.width)
        return found


class CountsTwice(Chosen):
    """A broken twin: a row counts in two cells of a pair."""

    def each(self, people: Any, of: str, args: Any) -> Any:
        found: Any = super().each(people, of, args)
        if of == "columns":
            return found
        return type(found)(people.starts, np.repeat(found.places, 2, axis=1), found.width)


class WeighsMore(Chosen):
    """A broken twin: the weights of scores are left out of Δ."""

    def whole(self, people: Any, of: str, args: Any) -> Any:
        return super().whole(people, of, args) * 2


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("kind", "check"), [(CountsExactly, "own rows"), (CountsTwice, "clipped"), (WeighsMore, "bounds")]
)
def test_broken_twins_are_caught(kind: type[AdaptiveSynthesis], check: str) -> None:
    row = RecipeRow("twin", lambda: synthesis(kind), relations=(Relation.ADD_REMOVE,))
    assert check in {fault.check for fault in faults(row, SHORT)}


def table(relation: Relation = Relation.ADD_REMOVE, rows: int = 2) -> TableSchema:
    """The contract's table."""
    facts: dict[str, Any] = {"ward": Values("a", "b", "c"), "n": Range(0, 5, integer=True), "x": Range(-2, 2)}
    types = {"who": Type.INT, "ward": Type.TEXT, "n": Type.INT, "x": Type.REAL}
    return TableSchema("t", types, facts, PrivacyUnit("who", max_groups=1, max_rows=rows), relation)


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
def test_the_charge_is_the_sum_of_the_events_of_its_noise_scales(epsilon: str, relation: Relation) -> None:
    plan = synthesis(epsilon=Fraction(epsilon)).plan([table(relation)])
    parts: Any = plan.parts
    columns, pair, choice = parts
    times, both = 2, 2 if relation is Relation.REPLACE else 1  # two histograms: l2² of both
    # two rows of a person, in each of three columns; two in one cell of a pair; weights of 2 on two rows
    rho = (3 * 4) * both / (2 * columns.law.noise.sigma**2)
    rho += times * 4 * both / (2 * pair.law.noise.sigma**2)
    best = choice.law
    assert isinstance(best, NamedBest)
    assert best.selection.sensitivity == 2 * 2 * both
    rho += times * best.selection.epsilon**2 / 8
    (payer,) = plan.payers
    assert float(sum(n * (event.rho or 0) for event, n in payer.events)) == pytest.approx(float(rho), rel=1e-9)
    assert sum(n for event, n in payer.events if isinstance(event, BoundedRangeEvent)) == times
    assert sum(n for event, n in payer.events if isinstance(event, GaussianEvent)) == 1 + times
    assert payer.guarantee.epsilon == Fraction(epsilon)
    assert payer.cost.epsilon(1e-6) <= float(epsilon)
    # known better than by its ρ alone
    assert zcdp(rho).epsilon(1e-6) >= float(epsilon) * (1 - 1e-3)


def test_a_choice_without_its_charge_is_refused() -> None:
    """A broken twin: the exponential mechanism is made for smaller moves than scores make."""
    made: Any = synthesis().plan([table()]).parts
    parts = [
        replace(part, law=NamedBest(Exponential(epsilon=1, sensitivity=1))) if part.name == "choice" else part
        for part in made
    ]
    with pytest.raises(InvalidParameter, match="moves a score by up to 4"):
        plan_recipe(parts, epsilon=100, delta="1e-6")


def test_a_state_makes_the_same_model_whenever_it_is_read() -> None:
    recipe = synthesis(columns=COLUMNS[:2], candidates=((0, 1),), weights=(1,))
    schema = replace(table(), unit=PrivacyUnit.row())
    plan = recipe.plan([schema])
    rng = np.random.default_rng(0)
    cells = {"c0": rng.integers(0, 4, 500), "c1": rng.integers(0, 5, 500)}
    state = run_on_arrays(recipe, plan, np.arange(500), cells)
    kept = recipe.restore(plan, recipe.keep(state))
    first = recipe.model(plan, kept)
    other = synthesis(columns=COLUMNS[:2], candidates=((0, 1),), weights=(1,)).model(plan, kept)
    assert (first.held == other.held).all()
    assert first.rows == other.rows


def test_rare_values_become_one_by_noisy_counts() -> None:
    cells, parts = merge(np.array([30.0, 1.0, 14.0, 16.0, -5.0]), 10)
    assert cells.tolist() == [0, 2, 2, 1, 2]
    assert parts.tolist() == [1, 1, 3]
    cells, parts = merge(np.array([1.0, 30.0]), 10)
    assert (cells.tolist(), parts.tolist()) == ([0, 1], [1, 1])
    assert merge(np.array([-1.0, -3.0, -2.0]), 10)[0].tolist() == [0, 1, 1]


def test_the_public_rule() -> None:
    given: dict[str, Any] = {"candidates": tuple((0, i) for i in range(1, 200)), "weights": (1,) * 199, "steps": None}
    for epsilon, rounds, picks in (("0.01", 3, 4), ("1", 4, 10), ("10", 4, 22)):
        found = synthesis(AdaptiveSynthesis, epsilon=Fraction(epsilon), delta=Fraction("1e-5"), **given).schedule
        assert (found.rounds, found.picks, found.chosen) == (rounds, picks, True)
    assert synthesis(AdaptiveSynthesis).schedule[:2] == (1, 3)


def test_noise_is_as_the_shares_say() -> None:
    recipe = synthesis()
    made: Any = recipe.plan([table()]).parts
    parts = {part.name: part for part in made}
    again = {part.name: part for part in with_laws(list(parts.values()), recipe.shares, Fraction(1), Fraction("1e-6"))}
    assert {name: part.law for name, part in parts.items()} == {name: part.law for name, part in again.items()}
    sigma = {name: float(parts[name].law.noise.sigma) for name in ("columns", "pair")}
    ratio = (12 / sigma["columns"] ** 2) / (2 * 4 / sigma["pair"] ** 2)
    assert math.isclose(ratio, 0.3 / (0.7 * 0.9), rel_tol=1e-3)
