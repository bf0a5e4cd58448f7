"""Private model choice: what it costs, that its runs stay hidden, and what it refuses."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Plain

from discreet.errors import InvalidParameter
from discreet.learn import LinearRegression, LinearSVC, LogisticRegression, choice, choose
from discreet.learn.evaluation import evaluate as learn_evaluate

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


def test_no_run_costs_more_than_the_theorem_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(monkeypatch, 3)
    choose(PAIR, X, Y, epsilon=5, delta=1e-6, runs=6)
    assert len(runs.mu) == 2 * 3
    assert choice.cost(max(runs.mu) / 2, 1e-6, 6) <= 5
    assert choice.cost(max(runs.mu) / 2, 1e-6, 6) > 4.99
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
    assert choice.cost(rho, delta, runs) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ([], "of discreet.learn"),
        ([Plain()], "of discreet.learn"),
        ([LogisticRegression(**GIVEN, epsilon=1)], "leave their epsilon="),
        ([PAIR[0], LinearRegression(bounds=(-2, 2), target=(0, 1))], "a regressor"),
        ([PAIR[0], LinearSVC(bounds=(-2, 2), classes=[1, 2])], "the same classes"),
        ([LogisticRegression(**GIVEN, relation="replace")], "add-remove"),
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
