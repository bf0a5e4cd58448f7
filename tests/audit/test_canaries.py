"""Training is audited with canaries: sound trainers pass at the stated error, broken ones are caught."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from discreet import Budget
from discreet.accounting import gaussian
from discreet.audit import many_runs, one_run
from discreet.errors import InvalidParameter

Floats = NDArray[np.float64]
NEVER = 1e-9  # the rate of false alarms of the random tests here


def randomized_response(m: int, epsilon: float, rng: np.random.Generator) -> Callable[[list[int]], NDArray[np.bool_]]:
    """Training whose model is m bits: who is in, each turned round with chance 1/(1 + e^ε). It is ε-DP exactly."""

    def train(records: list[int]) -> NDArray[np.bool_]:
        model = np.zeros(m, dtype=bool)
        model[records] = True
        return np.asarray(model ^ (rng.random(m) < expit(-epsilon)))

    return train


def bit(model: NDArray[np.bool_], canary: int) -> float:
    return float(model[canary])


def least_squares(noise: float, rng: np.random.Generator, steps: int = 1) -> Callable[[tuple[Floats, Floats]], Floats]:
    """Noisy gradient descent for a linear model: the gradients clipped to norm 1, noise of that deviation."""

    def train(records: tuple[Floats, Floats]) -> Floats:
        x, y = records
        w, path = np.zeros(x.shape[1]), []
        for _ in range(steps):
            gradients = (x @ w - y)[:, None] * x
            clipped = gradients / np.maximum(1, np.linalg.norm(gradients, axis=1))[:, None]
            step = clipped.sum(axis=0) + noise * rng.normal(size=len(w))
            path.append(step)
            w = w - 0.5 * step / len(x)
        return np.array(path)

    return train


def canary_rows(m: int, d: int) -> tuple[Floats, Floats]:
    """Records whose gradients point along one axis each, which is the worst case for the noise."""
    x = np.zeros((m, d))
    x[np.arange(m), np.arange(m) % d] = 3.0
    return x, np.ones(m)


def along(path: Floats, canary: tuple[Floats, float]) -> float:
    return -float((path @ canary[0]).sum())


def test_randomized_response_gives_right_guesses_with_its_own_chance() -> None:
    rng = np.random.default_rng(1)
    found = one_run(randomized_response(10_000, 1.0, rng), range(10_000), bit, 1, guesses=(5000, 5000), seed=1)
    # all ones are guessed in and all zeros out, but for those few that the halves cut off: |in − out| is below 6 σ
    hits = expit(1.0)
    slack = 6 * math.sqrt(10_000) / 2
    assert abs(found.right - 10_000 * hits) < slack + stats.norm.isf(NEVER) * math.sqrt(10_000 * hits * (1 - hits))
    assert found.verdict == "consistent"
    assert 0.8 < found.epsilon_lower < 1.0
    assert found.tried[0].p_value == pytest.approx(stats.binom.sf(found.right - 1, 10_000, hits), rel=1e-6)


def test_the_lower_bound_is_too_high_no_more_often_than_stated() -> None:
    rng, error, runs = np.random.default_rng(2), 0.1, 400
    high = accused = 0
    for _ in range(runs):
        found = one_run(randomized_response(60, 1.0, rng), range(60), bit, 1, error=error, guesses=(10, 10))
        high += found.epsilon_lower > 1
        accused += found.violated
    most = stats.binom.isf(NEVER, runs, error)
    assert high <= most
    assert accused <= most


def test_a_claim_of_half_the_truth_is_refuted() -> None:
    rng = np.random.default_rng(3)
    for seed in range(5):
        found = one_run(randomized_response(2000, 1.0, rng), range(2000), bit, 0.5, seed=seed)
        assert found.violated
        assert found.p_value < 1e-6
        assert 0.5 < found.epsilon_lower < 1.0


def test_a_bit_of_delta_is_allowed_and_more_is_not() -> None:
    def told(chance: float, rng: np.random.Generator) -> Callable[[list[int]], NDArray[np.bool_]]:
        """Each canary's own bit is told with that chance, and is a fair coin otherwise: (0, chance)-DP."""

        def train(records: list[int]) -> NDArray[np.bool_]:
            inside = np.isin(np.arange(1000), records)
            return np.where(rng.random(1000) < chance, inside, rng.random(1000) < 0.5)

        return train

    rng = np.random.default_rng(4)
    # 0.05 of all bits told: right guesses 0.525 ± 0.016, whose mean the tail of Theorem 1 stays above
    sound = one_run(told(0.05, rng), range(1000), bit, Budget(epsilon=0, delta="0.05"), seed=4)
    broken = one_run(told(0.5, rng), range(1000), bit, Budget(epsilon="0.1", delta=1e-5), seed=4)
    assert sound.verdict == "consistent"
    assert broken.violated
    assert broken.epsilon_lower > 0.5


def test_noisy_training_keeps_its_claim_and_the_same_without_noise_is_caught() -> None:
    canaries, rng = canary_rows(1000, 1000), np.random.default_rng(5)
    data = (rng.normal(size=(50, 1000)) / 30, rng.normal(size=50))
    claim = gaussian(2)
    sound = one_run(least_squares(2.0, rng), canaries, along, claim, data=data, seed=5)
    silent = one_run(least_squares(0.0, rng), canaries, along, claim, data=data, seed=5)
    quarter = one_run(least_squares(0.5, rng), canaries, along, claim, data=data, seed=5)
    assert sound.verdict == "consistent"
    assert 0 < sound.epsilon_lower < claim.epsilon(1e-5)
    assert silent.violated
    assert np.min(silent.alpha + silent.beta) == 0  # every canary is told
    assert quarter.violated


def test_an_estimator_with_several_noisy_steps_is_held_against_their_composition() -> None:
    class Estimator:
        """Fits by noisy gradient descent and shows its path, as the analysis of DP-SGD allows."""

        def __init__(self, noise: float, rng: np.random.Generator) -> None:
            self.noise, self.rng = noise, rng

        def fit(self, x: Floats, y: Floats) -> Estimator:
            self.path = least_squares(self.noise, self.rng, steps=4)((x, y))
            return self

    canaries, rng = canary_rows(500, 500), np.random.default_rng(13)
    claim = gaussian(4) * 4  # μ = 1/2
    found = {}
    for noise in (4.0, 0.5):
        estimator = Estimator(noise, rng)
        found[noise] = one_run(
            lambda records, estimator=estimator: estimator.fit(*records),  # type: ignore[misc]  # bound at once
            canaries,
            lambda model, canary: along(model.path, canary),
            claim,
            seed=13,
        )
    assert found[4.0].verdict == "consistent"
    assert found[0.5].violated


def test_scores_that_are_all_alike_are_guessed_by_chance() -> None:
    found = one_run(nothing, range(1000), flat, 0, seed=14)
    assert found.verdict == "consistent"
    assert abs(found.tried[0].right - 500) < stats.norm.isf(NEVER) * math.sqrt(250)


def test_the_noise_of_a_trainer_with_the_same_seed_is_no_giveaway() -> None:
    for seed in range(20):

        def train(records: list[int], seed: int = seed) -> NDArray[np.bool_]:
            return np.random.default_rng(seed).random(500) < 0.5  # knows nothing of the records

        assert one_run(train, range(500), bit, 0, seed=seed, error=NEVER).verdict == "consistent"


def test_twins_make_neighbours_by_replacement() -> None:
    """Replacing one of two bits under randomized response of ε = 1 is 2-DP, and adding one is 1-DP."""
    rng = np.random.default_rng(6)
    twins = [(2 * i, 2 * i + 1) for i in range(4000)]
    train = randomized_response(8000, 1.0, rng)
    found = one_run(train, twins, bit, 1, relation="replace", seed=6)
    assert found.relation == "replace"
    assert found.violated
    assert 1.5 < found.epsilon_lower < 2
    assert one_run(train, twins, bit, 2, relation="replace", seed=7).verdict == "consistent"
    assert one_run(train, range(8000), bit, 1, seed=8).verdict == "consistent"


def test_each_canary_is_in_with_chance_one_half_and_records_keep_their_shape() -> None:
    seen: list[Any] = []

    def train(records: Any) -> None:
        seen.append(records)

    zero = lambda model, canary: 0.0  # noqa: E731
    one_run(train, range(10_000), zero, 1, seed=1)
    assert abs(len(seen[0]) - 5000) < stats.norm.isf(NEVER) * 50
    assert seen[0] == sorted(seen[0])
    one_run(train, np.ones((10, 3)), zero, 1, data=np.zeros((4, 3)), seed=1)
    assert seen[1].shape[1] == 3
    assert not seen[1][:4].any()
    one_run(train, (np.ones((10, 3)), np.ones(10)), zero, 1, data=(np.zeros((4, 3)), np.zeros(4)), seed=1)
    assert seen[2][0].shape[1:] == (3,)
    assert seen[2][1].ndim == 1
    one_run(train, [{"a": 1}, {"a": 2}], zero, 1, data="d", combine=lambda data, new: (data, len(new)), seed=1)
    assert seen[3][0] == "d"
    one_run(train, np.ones((3, 2)), zero, 1, seed=12)
    assert seen[4].ndim == 2


def test_the_same_seed_gives_the_same_coins() -> None:
    def train(records: list[int]) -> list[int]:
        return records

    inside = lambda model, canary: float(canary in model)  # noqa: E731
    first, again, other = (one_run(train, range(50), inside, 1, seed=s) for s in (7, 7, 8))
    assert first.alpha.tolist() == again.alpha.tolist()
    assert [t.right for t in first.tried] == [t.right for t in again.tried]
    assert len({len(first.alpha), len(other.alpha)}) >= 1


def test_the_roc_lies_between_both_ends_beside_what_is_allowed() -> None:
    found = one_run(randomized_response(1000, 1.0, np.random.default_rng(8)), range(1000), bit, 1)
    assert (found.alpha[0], found.beta[0]) == (0, 1)
    assert (found.alpha[-1], found.beta[-1]) == (1, 0)
    assert found.claimed[1] == pytest.approx(max(1 - math.e * found.alpha[1], (1 - found.alpha[1]) / math.e))


def test_the_result_is_told_in_words_and_in_json() -> None:
    found = one_run(randomized_response(500, 3.0, np.random.default_rng(9)), range(500), bit, 1, name="the survey")
    words = str(found)
    assert words.startswith("the survey: VIOLATED")
    assert "500 canaries, each in or out by a fair coin (add-remove neighbours)" in words
    read = json.loads(json.dumps(found.to_json()))
    assert read["verdict"] == "violated"
    assert read["right"] == found.right
    assert read["tried"][0] == {
        "inside": 250,
        "outside": 250,
        "right": found.tried[0].right,
        "p_value": found.tried[0].p_value,
        "epsilon_lower": found.tried[0].epsilon_lower,
    }


def test_many_runs_tell_one_canary() -> None:
    rng = np.random.default_rng(10)

    def total(noise: float) -> Callable[[list[float]], float]:
        return lambda records: sum(records) + noise * rng.laplace()

    value = lambda model, canary: model  # noqa: E731
    sound = many_runs(total(1.0), 1.0, value, 1, runs=2000, data=[0.0, 0.0])
    broken = many_runs(total(0.2), 1.0, value, 1, runs=2000, data=[0.0, 0.0])
    assert sound.verdict == "consistent"
    assert 0 < sound.epsilon_lower < 1
    assert broken.violated
    assert 1 < broken.epsilon_lower < 5
    assert broken.runs == 2000
    assert json.dumps(broken.to_json())
    assert "2,000 runs with one canary" in str(broken)


def test_many_runs_see_a_canary_that_lowers_the_score() -> None:
    rng = np.random.default_rng(11)
    found = many_runs(lambda r: rng.laplace() - 3 * len(r), "x", lambda model, canary: model, 1, runs=1000)
    assert found.violated
    twins = many_runs(
        lambda r: rng.random() + (r[0] == "x"), ("x", "y"), lambda m, c: m if c == "x" else 0.0, 1, relation="replace"
    )
    assert twins.violated


@pytest.mark.laws
def test_many_runs_accuse_no_more_often_than_stated() -> None:
    rng, error, times = np.random.default_rng(12), 0.1, 300
    accused = sum(
        many_runs(lambda r: len(r) ^ (rng.random() < expit(-1.0)), 0, lambda m, c: m, 1, runs=100, error=error).violated
        for _ in range(times)
    )
    assert accused <= stats.binom.isf(NEVER, times, error)


def nothing(records: Any) -> None:
    return None


def flat(model: object, canary: object) -> float:
    return 0.0


def fails(records: Any) -> None:
    raise RuntimeError("out of memory")


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("canaries are empty", {"canaries": []}),
    ("canaries must be records, not int", {"canaries": 3}),
    ("canaries must be records, not DataFrame", {"canaries": pd.DataFrame({"a": [1, 2]})}),
    ("canaries must be records, not str", {"canaries": "abc"}),
    ("arrays of several lengths", {"canaries": (np.ones((3, 2)), np.ones(4))}),
    ("must be pairs of twins", {"relation": "replace"}),
    ("train raised RuntimeError: out of memory", {"train": fails}),
    ("train must be callable, not int", {"train": 3}),
    ("score must be callable, not NoneType", {"score": None}),
    ("score is NaN for 5 of 5 canaries", {"score": lambda model, canary: math.nan}),
    ("score raised ValueError at canary 0", {"score": lambda model, canary: np.zeros(2)}),
    ("error must lie strictly between 0 and 1", {"error": 0}),
    ("guesses must be 1 to 5", {"guesses": (3, 3)}),
    ("guesses must be 1 to 5", {"guesses": [(1, 1), (0, 0)]}),
    ("guesses must be (in, out)", {"guesses": (1.5, 1)}),
    ("guesses must be (in, out)", {"guesses": 4}),
    ("guesses are empty", {"guesses": []}),
    ("the canaries and the data do not fit together", {"canaries": np.ones((5, 2)), "data": np.ones((4, 3))}),
    ("the claim holds for add-remove neighbours", {"claimed": gaussian(1).poisson(0.5), "relation": "replace"}),
]


@pytest.mark.parametrize(("words", "changed"), REFUSED)
def test_bad_input_is_refused_in_words(words: str, changed: dict[str, Any]) -> None:
    given = {"train": nothing, "canaries": [1, 2, 3, 4, 5], "score": flat, "claimed": 1, **changed}
    with pytest.raises(InvalidParameter) as refused:
        one_run(given.pop("train"), given.pop("canaries"), given.pop("score"), given.pop("claimed"), **given)
    assert words in str(refused.value)


def test_a_claim_that_promises_nothing_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        one_run(nothing, [1], flat, Budget(epsilon=1, delta=1))
    with pytest.raises(InvalidParameter, match="claimed must be"):
        one_run(nothing, [1], flat, None)  # type: ignore[arg-type]  # what a beginner might try


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="at least 8"):
        many_runs(nothing, 1, flat, 1, runs=4)


def test_infinite_scores_are_ranked() -> None:
    found = one_run(lambda r: set(r), range(100), lambda m, c: math.inf if c in m else -math.inf, 1, seed=1)
    assert found.violated
    assert found.tried[0].right > 80  # halves are guessed, and the coins did not fall in halves
