"""Private model choice: what it costs, that its runs stay hidden, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression as Plain

import discreet as dp
from discreet.errors import InternalError, InvalidParameter
from discreet.learn import GaussianNB, LinearRegression, LinearSVC, LogisticRegression, choice, choose
from discreet.learn.evaluation import evaluate as learn_evaluate
from discreet.mechanisms.draws import BestOfRuns, cost
from discreet.privacy.unit import Relation, Sensitivity
from discreet.verify.certificate.checker import check
from discreet.verify.parts import _check_runs

RNG = np.random.default_rng(4)
X = RNG.uniform(-2, 2, (800, 2))
Y = (np.abs(X[:, 0]) > 1).astype(np.int64)
GIVEN: dict[str, Any] = {"bounds": (-2, 2), "classes": [0, 1]}
PAIR = [LogisticRegression(**GIVEN), LogisticRegression(**GIVEN, basis="gam", knots=5)]


class Runs:
    """The ε and δ of each fit and each evaluation, and whose rows both read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, runs: int) -> None:
        self.mu: list[float] = []
        self.pure: list[Fraction] = []
        self.rows: list[int] = []
        evaluate, left = learn_evaluate, [*[False] * (runs - 1), True]

        def seen(model: Any, X: Any, y: Any, **given: Any) -> Any:
            found = evaluate(model, X, y, **given)
            for loss in (model.loss_, found.loss):
                events = list(loss.events)
                self.mu.append(sum(n * float(event.mu_squared or 0) for event, n in events))
                self.pure.append(sum((n * Fraction(event.pure or 0) for event, n in events), Fraction(0)))
            self.rows.append(len(y))
            return found

        monkeypatch.setattr(choice, "evaluate", seen)
        monkeypatch.setattr(choice, "bernoulli", lambda p, rng: left.pop(0))


def test_the_better_candidate_is_chosen_and_says_what_all_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    Runs(monkeypatch, 6)
    found = choose(PAIR, X, Y, epsilon=60, delta=1e-6)
    assert found.candidate == 1
    assert found.score > 0.7
    assert found.model.loss_.epsilon(1e-6) == found.loss.epsilon(1e-6) == 60
    assert repr(found).startswith("ChosenModel(candidate 1, LogisticRegression: score ")
    assert repr(found).endswith("; PrivacyLoss: ε = 60, δ = 1e-06)")


def test_no_run_costs_more_than_the_theorem_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(monkeypatch, 3)
    choose(PAIR, X, Y, epsilon=5, delta=1e-6, runs=6)
    assert len(runs.mu) == 2 * 3
    assert cost(max(runs.mu) / 2, 1e-6, 6) <= 5
    assert cost(max(runs.mu) / 2, 1e-6, 6) > 4.99
    assert 100 < min(runs.rows) < max(runs.rows) < 230


def test_without_delta_a_run_costs_a_third(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(monkeypatch, 2)
    models = [LogisticRegression(**GIVEN, solver="objective", basis=basis) for basis in ("linear", "gam")]
    choose(models, X, Y, epsilon=6)
    assert max(runs.pure) <= 2


def test_the_cost_is_that_of_the_theorem_at_its_best_orders() -> None:
    rho, delta, runs = 0.02, 1e-6, 8
    best = min(
        a * rho
        + 2 * (b - 1) * rho
        + 2 * math.log(runs) / b
        + math.log(runs) / (a - 1)
        + math.log1p(-1 / a)
        - math.log(delta * a) / (a - 1)
        for a in np.linspace(1.5, 100, 2000)
        for b in (5, 8, 10, 10.2, 12)
    )
    assert cost(rho, delta, runs) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ([], "of discreet.learn"),
        ([Plain()], "of discreet.learn"),
        ([LogisticRegression(**GIVEN, epsilon=1)], "leave their epsilon="),
        ([PAIR[0], LinearRegression(bounds=(-2, 2), target=(0, 1))], "a regressor"),
        ([PAIR[0], LinearSVC(bounds=(-2, 2), classes=[1, 2])], "the same classes"),
        ([PAIR[0], LogisticRegression(**GIVEN, relation="replace")], "the same relation"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused(models: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        choose(models, X, Y, epsilon=1)


def test_gradients_need_delta_before_data_is_read() -> None:
    with pytest.raises(InvalidParameter, match="delta above 0"):
        choose(PAIR, X, Y, epsilon=1)


def test_noise_that_the_theorem_is_not_about_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="Gaussian noise alone"):
        choose([LogisticRegression(**GIVEN, solver="objective")], X, Y, epsilon=1, delta=1e-6)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_a_session_charges_a_choice_once_and_proves_it(relation: str) -> None:
    frame = pd.DataFrame({"who": np.repeat(np.arange(99), 2), "x": np.tile(X[:99, 0], 2), "y": np.tile(Y[:99], 2)})
    models = [LogisticRegression(rows=99, relation=relation), GaussianNB(relation=relation)]
    given: dict[str, Any] = {"unit": dp.PrivacyUnit("who", max_groups=1, max_rows=2), "population": "p"}
    columns: dict[str, Any] = {"x": dp.Range(-2, 2), "y": dp.Values(0, 1)}
    budget = dp.Budget(100, "1e-5", per_query=100)
    with dp.connect({"t": frame}, columns=columns, budget=budget, ledger=":memory:", relation=relation, **given) as s:
        asked: dict[str, Any] = {"target": "y", "epsilon": 60, "delta": "1e-6", "runs": 2}
        plan = s.plan_choose(models, **asked)
        assert plan.price == "ε = 60, δ = 1e-06"
        assert "hidden number is 2 on average" in plan.explain()
        assert s.remaining.epsilon == 100
        found = s.choose(models, **asked)
        assert found.candidate in (0, 1)
        assert s.remaining.epsilon == 40
        assert s.choose(models, **asked).model.stored
        assert s.choose(models, **asked).candidate == found.candidate
        assert s.remaining.epsilon == 40
        assert found.model.predict(frame[["x"]]).shape == (198,)
        certificate = found.model.certificate()
        assert check(certificate, list(s._ledger.export())).broken is None
        assert "hidden number is 2 on average" in str(certificate["reasons"])
        with pytest.raises(InvalidParameter, match="leave their epsilon="):
            s.choose([models[0].set_params(epsilon=1)], **asked)
        with pytest.raises(InvalidParameter, match="beside the data"):
            s.choose([Plain()], **asked)


def test_a_law_whose_runs_cost_more_is_refused_twice() -> None:
    law = BestOfRuns.of(Fraction(5), Fraction("1e-6"), 6)
    _check_runs(law)
    dear = replace(law, run=law.run * Fraction(11, 10))
    with pytest.raises(InternalError):
        _check_runs(dear)
    with pytest.raises(InvalidParameter):
        dear.events(Sensitivity(1, 1), 1, Relation.ADD_REMOVE)
    with pytest.raises(InternalError):
        _check_runs(BestOfRuns(Fraction(3), Fraction(0), Fraction(2), 4))
