"""MST and AIM as recipes: their contract, their shares of the budget, their rules; and workloads in SQL."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.engine.person_recipe import run_on_arrays
from discreet.errors import InvalidParameter, UnknownColumn, UnsupportedQuery
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.synth import AIM, MST, Adaptive
from discreet.synth import asked as asking
from discreet.synth.named import AimSynthesis, TreeSynthesis
from tests.contracts.recipes import SHORT, RecipeRow, faults
from tests.synth.test_recipe import synthesis, table

PLACE = np.arange(3000)
FRAME = pd.DataFrame({name: PLACE // 2**i % 2 == 0 for i, name in enumerate("abc")})
FRAME["d"], FRAME["e"] = FRAME.a, FRAME.b
DOMAIN = dict.fromkeys("abcde", dp.Values(True, False))


@pytest.mark.parametrize("kind", [TreeSynthesis, pytest.param(AimSynthesis, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("relation", Relation)
def test_named_methods_hold_the_contract_of_recipes(kind: Any, relation: Relation) -> None:
    row = RecipeRow("named", lambda: synthesis(kind, steps=(1, 1)), relations=(relation,))
    assert faults(row, SHORT) == []


def test_a_tree_joins_no_columns_twice() -> None:
    pairs = tuple((a, b) for a in range(5) for b in range(a + 1, 5))
    columns = synthesis().columns * 2
    recipe = synthesis(TreeSynthesis, columns=columns[:5], candidates=pairs, weights=(1,) * 10)
    assert recipe.schedule[:2] == (1, 4)
    assert recipe.shares == dict.fromkeys(("columns", "pair", "choice"), Fraction(1, 3))
    done = recipe.done([pairs.index((0, 1)), pairs.index((1, 2))])
    assert [pair for pair, closed in zip(pairs, done, strict=True) if closed] == [(0, 1), (0, 2), (1, 2)]
    assert recipe.noise_of_scores(3.0) == 0


def test_rounds_of_aim_spend_all_draws_and_no_more() -> None:
    recipe = synthesis(AimSynthesis, steps=(3, 3), per_person=1, epsilon=Fraction(20))
    plan = recipe.plan([replace(table(), unit=PrivacyUnit.row())])
    assert recipe.choices == {"choice0": 45, "choice1": 11, "choice2": 2}
    rng = np.random.default_rng(0)
    cells = {"c0": rng.integers(0, 3, 4000), "c1": rng.integers(0, 5, 4000), "c2": rng.integers(0, 3, 4000)}
    state = run_on_arrays(recipe, plan, np.arange(4000), cells)
    draws = [times for found in state["rounds"] for _, _, times in found]
    assert sum(draws) == 45
    assert draws[:-1] == sorted(draws[:-1]) and {*draws[:-1]} <= {1, 4, 16}
    assert 4 in draws  # independent columns tell nothing new, so rounds become more precise
    kept = recipe.restore(plan, recipe.keep(state))
    fresh = synthesis(AimSynthesis, steps=(3, 3), per_person=1, epsilon=Fraction(20))
    assert (fresh.model(plan, kept).held == recipe.model(plan, kept).held).all()


@pytest.mark.parametrize("method", [MST, AIM])
def test_named_methods_find_what_goes_together(method: type[Adaptive], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "COMPONENTS", 20)
    made = method(epsilon=8, delta="1e-6").fit(FRAME, DOMAIN)
    rows = made.sample(2000).rows
    assert np.mean([row[0] == row[3] for row in rows]) > 0.9
    assert np.mean([row[1] == row[4] for row in rows]) > 0.9
    fact = next(fact for fact in made._model.facts if fact.columns == ("a", "d"))
    assert fact.sigma is not None and fact.counts is not None
    assert abs(fact.counts[0, 0] - 1500) < 8 * fact.sigma


def weights(workload: Any) -> dict[tuple[str, str], int]:
    with dp.connect(
        {"t": FRAME},
        unit=dp.PrivacyUnit.row(),
        columns=DOMAIN,
        population="p",
        budget=dp.Budget(9, "1e-5"),
        ledger=":memory:",
    ) as s:
        asked = asking.AskedSynthesis(1, "1e-6", columns=[*"abcde"], workload=workload)
        recipe = asked.recipe(s._desk.tables)
        s.plan_synthesis(epsilon=1, delta="1e-6", columns=[*"abcde"], workload=workload)
    return {("abcde"[a], "abcde"[b]): w for (a, b), w in zip(recipe.candidates, recipe.weights, strict=True)}


def test_a_workload_in_sql_weighs_the_pairs_that_its_queries_name() -> None:
    assert weights("SELECT COUNT(*) FROM t WHERE A AND b") == {("a", "b"): 1}
    assert weights(
        ["SELECT a, COUNT(*) AS n FROM t WHERE NOT d GROUP BY a", "SELECT a, d, e, COUNT(*) FROM t GROUP BY a, d, e"]
    ) == {("a", "d"): 2, ("a", "e"): 1, ("d", "e"): 1}
    assert weights([("a", "b")]) == {("a", "b"): 1}


@pytest.mark.parametrize(
    ("workload", "error", "words"),
    [
        ("SELECT COUNT(*) FROM t WHERE a", InvalidParameter, "measured anyway"),
        ("SELECT COUNT(*) FROM t WHERE a AND wage > 3", UnknownColumn, "wage"),
        ("SELECT COUNT(*) FROM t JOIN u ON t.a = u.a", UnsupportedQuery, "one table"),
        (["SELECT COUNT(*) FROM t WHERE a AND b", ("a", "b")], InvalidParameter, "no pair of columns"),
        ([], InvalidParameter, "workload= is empty"),
    ],
)
def test_workloads_that_are_none_are_refused(workload: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        weights(workload)


def test_the_shares_of_aim_are_those_that_its_docstring_says() -> None:
    columns = synthesis().columns * 5
    recipe = synthesis(AimSynthesis, columns=columns[:14])
    choices = sum(share for name, share in recipe.shares.items() if name.startswith("choice"))
    assert float(choices) == pytest.approx(0.29, abs=0.005)
    of_paper = Fraction(9, 10) / (16 * 14)  # a round's measurement, of ρ
    own = recipe.shares["pair"] / recipe.schedule.rounds
    assert math.sqrt(of_paper / own) == pytest.approx(1.12, abs=0.005)
