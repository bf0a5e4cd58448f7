"""Multiplicative weights: MWEM and answers one at a time, their contracts, prices, and bounds that hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.engine.person_recipe import run_on_arrays
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, InvalidParameter, NotPrivate, UnsupportedQuery
from discreet.finite import databases
from discreet.privacy.event import ApproximateEvent
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.synth import MWEM, Answers, load
from discreet.synth.answers import OnlineWeights
from discreet.synth.domain import SynthColumn
from discreet.synth.named import CellWeights, WeightsSynthesis
from tests.contracts.recipes import SHORT, RecipeRow, faults
from tests.synth.test_recipe import COLUMNS, synthesis, table

FRAME = pd.DataFrame({"a": np.arange(2000) % 4 == 0, "b": np.arange(2000) % 4 < 2, "c": np.arange(2000) % 5 == 0})
DOMAIN = dict.fromkeys("abc", dp.Values(True, False))
TWO = {name: DOMAIN[name] for name in "ab"}
WHERE = ("a", "b", "a AND b", "a OR b", "a = b", "NOT a AND b", "NOT b", "TRUE")
QUERIES = [f"SELECT COUNT(*) FROM t WHERE {where}" for where in WHERE]
SMALL = COLUMNS[:2]


def weighing(**changed: Any) -> WeightsSynthesis:
    made = synthesis(WeightsSynthesis, columns=SMALL, candidates=((0, 1),), weights=(1,), **changed)
    assert isinstance(made, WeightsSynthesis)
    return made


def online(**changed: Any) -> OnlineWeights:
    given: dict[str, Any] = {
        "source": "t",
        "epsilon": Fraction(30),
        "delta": Fraction(0),
        "per_person": 2,
        "queries": 4,
    }
    return OnlineWeights(SMALL, **given | {"error": Fraction(90)} | changed)


@pytest.mark.parametrize("relation", Relation)
def test_mwem_holds_the_contract_of_recipes(relation: Relation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.synth.named.MOST_ROUNDS", 2)
    rows = 10 if relation is Relation.REPLACE else None
    row = RecipeRow("mwem", lambda: weighing(public_rows=rows), relations=(relation,))
    assert faults(row, SHORT) == []


class Doubled(WeightsSynthesis):
    """A broken twin: scores move twice as far as is planned."""

    def whole(self, people: Any, of: str, args: Any) -> Any:
        return super().whole(people, of, args) * 2


class TwiceAsFar(OnlineWeights):
    """A broken twin: looks move twice as far as is planned."""

    def whole(self, people: Any, of: str, args: Any) -> Any:
        return super().whole(people, of, args) * 2


ASKED = ("SELECT COUNT(*) FROM t WHERE n < 2", "SELECT COUNT(*) FROM t WHERE ward = 'a' AND n = 5") * 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("relation", Relation)
def test_answers_hold_the_contract_of_recipes(relation: Relation) -> None:
    row = RecipeRow("answers", online, inputs=ASKED, relations=(relation,))
    assert faults(row, SHORT) == []


def test_broken_twins_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.synth.named.MOST_ROUNDS", 2)

    def twin() -> Any:
        return Doubled(
            **{name: getattr(weighing(), name) for name in weighing().__dataclass_fields__ if name[0] != "_"}
        )

    first = faults(RecipeRow("twin", twin, relations=(Relation.ADD_REMOVE,)), SHORT)
    assert "bounds" in {fault.check for fault in first}
    other = lambda: TwiceAsFar(SMALL, "t", Fraction(30), Fraction(0), 2, 4, Fraction(90))  # noqa: E731
    second = faults(RecipeRow("twin", other, inputs=ASKED, relations=(Relation.ADD_REMOVE,)), SHORT)
    assert "bounds" in {fault.check for fault in second}


@pytest.mark.parametrize("relation", Relation)
def test_prices_are_the_sums_of_the_events(relation: Relation) -> None:
    plan = weighing().plan([table(relation)])
    parts: dict[str, Any] = {part.name: part for part in plan.parts}
    # one number of two rows of a person at most: it moves by 2, whoever takes whose place
    rho = 4 / (2 * parts["rows"].law.noise.sigma ** 2) + parts["cell"].times * 4 / (
        2 * parts["cell"].law.noise.sigma ** 2
    )
    best = parts["choice"].law.selection
    assert best.sensitivity == 2
    rho += parts["choice"].times * best.epsilon**2 / 8
    (payer,) = plan.payers
    assert float(sum(n * (event.rho or 0) for event, n in payer.events)) == pytest.approx(float(rho), rel=1e-9)
    opened = online().plan([table(relation)])
    laws: dict[str, Any] = {part.name: part.law for part in opened.parts}
    pure = 2 / laws["rows"].noise.scale + laws["far"].sparse.epsilon
    pure += 2 * online().updates / laws["number"].noise.scale
    assert laws["far"].sparse.sensitivity == 2
    assert pure == opened.payers[0].guarantee.epsilon == 30


def error_of(held: Any, rows: Any) -> float:
    """Return the largest error of a cell of the pair."""
    true = np.zeros((3, 3))
    for a, b in rows:
        true[a, b] += 1
    return float(np.abs(np.asarray(held) - true).max())


def mwem_errors(worlds: Iterator[Any], epsilon: int, rows: int) -> tuple[float, list[float]]:
    """Return the bound that is stated beforehand, and the largest error in each world."""
    columns = tuple(SynthColumn.of(n, DOMAIN[n], Type.BOOL, 2) for n in "ab")
    recipe: Any = synthesis(
        WeightsSynthesis,
        columns=columns,
        candidates=((0, 1),),
        weights=(1,),
        per_person=1,
        epsilon=Fraction(epsilon),
        public_rows=rows,
    )
    types = dict.fromkeys("ab", Type.BOOL)
    schema = TableSchema("t", types, TWO, PrivacyUnit.row(), Relation.REPLACE)
    plan = recipe.plan([schema])
    found = []
    for world in worlds:
        cells = np.array([divmod(x, 2) for x in world])
        state = run_on_arrays(recipe, plan, np.arange(rows), {"c0": cells[:, 0], "c1": cells[:, 1]})
        weights, total = CellWeights([3, 3], rows), np.zeros((3, 3))
        for place, noisy in state["steps"]:
            total += weights.held
            weights.learn(recipe._cell(place), noisy)
        found.append(error_of(total / len(state["steps"]), cells))
    return recipe.bound(plan, rows), found


@pytest.mark.parametrize(
    "every", [60, pytest.param(4, marks=pytest.mark.exhaustive), pytest.param(1, marks=pytest.mark.slow)]
)
def test_the_bound_of_mwem_holds_on_small_worlds(every: int) -> None:
    """All multisets of 12 rows over four combinations; a bound below 12 says something."""
    worlds = [world.records for world in databases(range(4), 12, relation="replace")][::every]
    bound, errors = mwem_errors(iter(worlds), 4000, 12)
    assert bound < 7
    bad = sum(error > bound for error in errors)
    assert bad <= 0.05 * len(errors) + 4 * math.sqrt(0.05 * len(errors))
    assert max(errors) > bound / 10


def session(rows: Any, **given: Any) -> Session:
    said: dict[str, Any] = {"unit": PrivacyUnit.row(), "columns": TWO, "population": "p", "ledger": ":memory:"}
    return dp.connect({"t": rows}, budget=dp.Budget(20000, "1e-5", per_query=20000), **said | given)


def online_errors(world: Any, epsilon: int, error: int, rounds: int = 1) -> tuple[list[float], int, int]:
    """Return errors of all answers in a world, how many queries were left, and for how many rows none is."""
    frame = pd.DataFrame([divmod(x, 2) for x in world], columns=["a", "b"]).astype(bool)
    asked = [*QUERIES * rounds]
    with session(frame) as s, Answers(s, epsilon, queries_at_most=len(asked), error=error) as run:
        found, left = [], len(asked)
        for sql in asked:
            said = run.ask(sql)
            if said.value is not None:
                left -= 1
                where = sql.split("WHERE ")[1]
                python = "True" if where == "TRUE" else where.replace(" = ", " == ").lower()
                true = sum(bool(eval(python, {"a": a, "b": b})) for a, b in frame.itertuples(index=False))
                found.append(abs(said.value - true))
    return found, left, run.rows_at_most


WORLDS = list(databases([0, 1, 2, 3], 3, relation="replace"))


@pytest.mark.parametrize(
    "every", [20, pytest.param(4, marks=pytest.mark.exhaustive), pytest.param(1, marks=pytest.mark.slow)]
)
def test_the_bound_of_answers_holds_on_small_worlds(every: int) -> None:
    """Each database of three rows, ten times over: all answers are within the error, and no query is left."""
    for world in WORLDS[::every]:
        errors, left, most = online_errors(world.records * 10, 8000, 11)
        assert most >= 30
        assert left == 0
        assert max(errors) <= 11


def test_few_measurements_answer_many_queries_and_then_it_has_ended() -> None:
    with session(FRAME, columns=DOMAIN) as s:
        run = Answers(s, 100, queries_at_most=60, error=400)
        assert s.remaining.epsilon == 19900
        assert repr(run) == f"Answers(within 400 rows; 60 queries, {run.updates} of them measured, at most; open)"
        assert run.rows_at_most > 0 and run.synthetic is None
        assert abs(run.rows - 2000) < 60
        measured = 0
        for i in range(60):
            said = run.ask("SELECT COUNT(*) FROM t WHERE a AND b" if i % 2 else "SELECT COUNT(*) FROM t WHERE NOT c")
            assert said.value is not None
            assert abs(said.value - (500 if i % 2 else 1600)) <= 400
            measured += said.measured
        assert 1 <= measured <= 30 < run.updates
        assert not run.is_open
        assert run.ask("SELECT COUNT(*) FROM t WHERE a").value is None
        made = run.synthetic
        assert made is not None
        assert abs(sum(n for a, b, n in made.marginal("a", "b") if a and b) - 500) <= 500
        assert "learned from" in str(made.report())
        assert len(made.tables) == 1 + measured
        assert s.remaining.epsilon == 19900
        (event,) = [event for event, _ in s.history()[-2].content.charge.events]
        assert isinstance(event, ApproximateEvent)


def test_it_ends_after_the_last_measurement_which_is_a_result() -> None:
    frame = pd.DataFrame({"a": [True] * 3000, "b": [True] * 3000})
    with session(frame) as s, Answers(s, 200, queries_at_most=400, error=5) as run:
        values = [run.ask(QUERIES[i % 8]).value for i in range(400)]
        assert run.rows_at_most < 3000
        assert values[-1] is None and values[0] is not None
        assert run.synthetic is not None and not run.is_open


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"error": 3}, InvalidParameter, "error=3 is too small for ε = 1 and 10 queries: it has to be above"),
        ({"epsilon": None}, NotPrivate, "need an ε"),
        ({"queries_at_most": 0}, InvalidParameter, "queries_at_most"),
        ({"epsilon": 20001, "error": 10**6}, (InvalidParameter, BudgetExceeded), "."),
    ],
)
def test_answers_that_cannot_be_are_refused_and_charge_nothing(given: Any, error: Any, words: str) -> None:
    with session(FRAME[[*TWO]]) as s:
        asked = {"epsilon": 1, "queries_at_most": 10, "error": 500} | given
        with pytest.raises(error, match=words):
            Answers(s, asked.pop("epsilon"), **asked)
        assert s.remaining.epsilon == 20000


def test_a_query_that_is_none_is_refused_and_not_counted() -> None:
    with session(FRAME[[*TWO]]) as s, Answers(s, 100, queries_at_most=1, error=500) as run:
        with pytest.raises(UnsupportedQuery, match="no counting query"):
            run.ask("SELECT a, COUNT(*) FROM t GROUP BY a")
        assert run.ask("SELECT COUNT(*) FROM t WHERE a").value is not None


def test_mwem_of_a_frame_says_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.synth.named.MOST_ROUNDS", 120)
    made = MWEM(epsilon=15, delta="1e-6", rows=2000).fit(FRAME, DOMAIN)
    assert abs(sum(n for a, b, n in made.marginal("a", "b") if a and b) - 500) < 300
    (promise,) = made.report().warnings
    assert promise.endswith("rows of 2,000.") and "95%" in promise
    assert len(made.sample(100)) == 100
    assert set(made.sample(20, given={"a": True}).cells[0]) == {True}
    made.save(tmp_path / "a.model")
    again = load(tmp_path / "a.model")
    assert again.marginal("a", "b") == made.marginal("a", "b") and again.report().warnings == (promise,)
    monkeypatch.setattr("discreet.synth.named.MOST_ROUNDS", 5)
    measured = MWEM(epsilon=8, delta="1e-6").fit(FRAME, TWO)
    assert abs(measured.rows - 2000) < 200


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rows": 5, "method": "aim"}, "rows= is for method='mwem'"),
        ({"rows": 0, "method": "mwem"}, "rows"),
        ({"label": "a", "method": "mwem"}, "weighs the cells"),
        ({"structural_zeros": [{"a": True}], "method": "mwem"}, "weighs the cells"),
    ],
)
def test_what_mwem_does_not_know_is_refused(given: Any, words: str) -> None:
    with session(FRAME[[*TWO]]) as s:
        with pytest.raises(InvalidParameter, match=words):
            s.synthesize(epsilon=1, delta="1e-6", columns=["a", "b"], **given)
        said = str(s.plan_synthesis(epsilon=1, delta="1e-6", columns=["a", "b"], method="mwem"))
        assert "With rows=, the bound" in said
        assert s.remaining.epsilon == 20000


def test_too_many_combinations_are_refused_with_the_number() -> None:
    wide = {f"c{i}": dp.Values(*range(9)) for i in range(6)}
    with pytest.raises(InvalidParameter, match="1,000,000 combinations"):
        MWEM(epsilon=1, delta="1e-6").fit(pd.DataFrame({name: [1] for name in wide}), wide)


def test_weights_learn_in_the_direction_of_what_was_measured() -> None:
    """A broken twin, which turns the sign round, goes away from the data."""
    weights = CellWeights([2, 2], 100)
    chosen = np.array([[True, False], [False, False]])
    for _ in range(60):
        weights.learn(chosen, 80)
    assert weights.guess(chosen) == pytest.approx(80, abs=3)
    assert weights.held.sum() == pytest.approx(100)
