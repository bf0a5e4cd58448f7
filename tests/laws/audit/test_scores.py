"""Learned scores, beside the likelihood ratio that they should come close to.

Every random number has a fixed seed. A score is judged as an audit judges it: its threshold is chosen on one fresh
sample, and its event is counted on another one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from discreet.audit.outputs.encoding import Encoded, Encoder
from discreet.audit.outputs.sampling import Raised
from discreet.audit.outputs.shape import Batch
from discreet.audit.scores import Score, additive, learn
from discreet.audit.scores.column import monotone, pieces, shrunk

Floats: TypeAlias = NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator, int], Any]

TRAIN = 20_000
FRESH = 40_000


def advantage(p: Floats, q: Floats, p_again: Floats, q_again: Floats, epsilon: float = 0.0) -> float:
    """P(E) − e^ε Q(E) of the event "score ≥ t", t being the best one for the first two samples."""
    cuts = np.unique(np.concatenate([p, q]))
    above_p = 1 - np.searchsorted(np.sort(p), cuts) / len(p)
    above_q = 1 - np.searchsorted(np.sort(q), cuts) / len(q)
    t = cuts[int(np.argmax(above_p - math.exp(epsilon) * above_q))]
    return float((p_again >= t).mean() - math.exp(epsilon) * (q_again >= t).mean())


class Case:
    """Two laws, learned scores, and fresh samples."""

    def __init__(self, p: Draw, q: Draw, *, train: int = TRAIN, fresh: int = FRESH, effort: int = 1) -> None:
        rng = np.random.default_rng(20)
        a, b = p(rng, train), q(rng, train)
        self.encoder = Encoder.learned(a, b, bits=False)
        self.scores = learn(self.encoder.encode(a), self.encoder.encode(b), effort=effort)
        self.raw = [p(rng, fresh), q(rng, fresh), p(rng, fresh), q(rng, fresh)]
        self.fresh = [self.encoder.encode(x) for x in self.raw]

    def best(self, epsilon: float = 0.0) -> float:
        """The largest advantage of any score; the one to trust is chosen on the first fresh samples too."""
        found = []
        for score in self.scores:
            s = [score(x) for x in self.fresh]
            found.append((advantage(s[0], s[1], s[0], s[1], epsilon), advantage(s[0], s[1], s[2], s[3], epsilon)))
        return max(found)[1]

    def optimum(self, ratio: Callable[[Floats], Floats], epsilon: float = 0.0) -> float:
        """The advantage of the true log ratio, on the same samples."""
        # Rounded: the last bits of a ratio that is computed in floats tell the two neighbours apart by themselves.
        s = [np.round(ratio(x), 9) for x in self.raw]
        return advantage(s[0], s[1], s[2], s[3], epsilon)


def laplace(centres: list[float], epsilon: float) -> Draw:
    return lambda rng, n: rng.laplace(0, 1 / epsilon, (n, len(centres))) + np.array(centres)


def ratio_of_laplace(p: list[float], q: list[float], epsilon: float) -> Callable[[Floats], Floats]:
    return lambda x: np.asarray(epsilon * (np.abs(x - np.array(q)) - np.abs(x - np.array(p))).sum(axis=1))


@pytest.mark.parametrize("effort", [0, 1, 2])
def test_one_laplace_column_is_told_apart_as_well_as_can_be(effort: int) -> None:
    case = Case(
        lambda rng, n: rng.laplace(size=n), lambda rng, n: 1 + rng.laplace(size=n), effort=effort, fresh=100_000
    )
    # The total variation between Laplace laws of scale 1 and a shift of 1.
    assert case.best() == pytest.approx(1 - math.exp(-0.5), abs=0.01)
    # The event of the promise at ε = 0.8: P(x < t) − e^ε Q(x < t) is largest where the log ratio 1 − 2x is 0.8.
    t = 0.1
    truth = 1 - math.exp(-t) / 2 - math.exp(0.8) * math.exp(t - 1) / 2
    assert case.best(0.8) > 0.85 * truth


def test_a_product_of_twenty_weak_columns_is_told_apart() -> None:
    p, q = [0.0] * 20, [1.0, -1.0] * 10
    case = Case(laplace(p, 0.1), laplace(q, 0.1))
    assert case.best() > 0.85 * case.optimum(ratio_of_laplace(p, q, 0.1))


def test_columns_that_tell_next_to_nothing_are_pooled() -> None:
    p, q = [0.0] * 20, [1.0] * 20
    case = Case(laplace(p, 0.02), laplace(q, 0.02))
    best, optimum = case.best(), case.optimum(ratio_of_laplace(p, q, 0.02))
    alone = 1 - math.exp(-0.01)  # the most that one column can tell
    assert optimum > 3 * alone
    assert best > 0.85 * optimum


def test_randomised_response_of_many_bits_is_told_apart() -> None:
    bits = np.array([1] * 4 + [0] * 16)

    def draw(truth: NDArray[np.int64]) -> Draw:
        return lambda rng, n: (truth ^ (rng.random((n, 20)) < 0.375)).astype(bool)

    case = Case(draw(0 * bits), draw(bits))

    def ratio(x: Floats) -> Floats:
        return np.asarray(-(2.0 * x[:, :4] - 1).sum(axis=1))

    for epsilon in (0.0, 1.0, 1.9):
        assert case.best(epsilon) > 0.9 * case.optimum(ratio, epsilon)


def test_prefix_sums_are_told_apart_by_their_differences() -> None:
    p, q = np.zeros(10), np.full(10, 0.1)

    def draw(x: Floats) -> Draw:
        return lambda rng, n: np.cumsum(x + rng.laplace(size=(n, 10)), axis=1)

    case = Case(draw(p), draw(q))
    of_steps = ratio_of_laplace(p.tolist(), q.tolist(), 1.0)
    optimum = case.optimum(lambda x: of_steps(np.diff(x, axis=1, prepend=0)))
    best = case.best()
    assert best > 0.9 * optimum
    last = [-x.values[:, 9] for x in case.fresh]
    assert best > 1.15 * advantage(last[0], last[1], last[2], last[3])  # the last sum alone is not enough


def sparse_vector(answers: list[float]) -> tuple[Draw, Floats]:
    """The first of the answers whose noisy value is above a noisy threshold; and the law of its position."""
    grid = np.linspace(-60, 60, 40_001)
    density = np.exp(-np.abs(grid) / 2) / 4
    law, survived = [], np.ones_like(grid)
    for a in answers:
        z = (1 + grid - a) / 4
        below = np.where(z < 0, np.exp(np.minimum(z, 0)) / 2, 1 - np.exp(-np.maximum(z, 0)) / 2)
        law.append(float(np.trapezoid(density * survived * (1 - below), grid)))
        survived = survived * below
    law.append(float(np.trapezoid(density * survived, grid)))

    def draw(rng: np.random.Generator, n: int) -> list[list[bool]]:
        threshold = 1 + rng.laplace(0, 2, n)
        above = np.array(answers) + rng.laplace(0, 4, (n, len(answers))) >= threshold[:, None]
        first = np.where(above.any(axis=1), above.argmax(axis=1), len(answers))
        return [[False] * f + [True] * (f < len(answers)) for f in first.tolist()]

    return draw, np.array(law)


def test_the_sparse_vector_of_lists_is_told_apart() -> None:
    (p, law_p), (q, law_q) = sparse_vector([0.0] * 10), sparse_vector([1.0] * 10)
    assert law_p.sum() == pytest.approx(1, abs=1e-3)
    case = Case(p, q, fresh=30_000)
    truth = float(np.maximum(law_p - law_q, 0).sum())
    assert case.best() == pytest.approx(truth, abs=0.015)


def test_an_interaction_is_found_by_trees_alone() -> None:
    def draw(sign: int) -> Draw:
        def of(rng: np.random.Generator, n: int) -> Floats:
            x = rng.normal(size=(n, 2))
            x[:, 1] = np.abs(x[:, 1]) * np.sign(x[:, 0]) * np.where(rng.random(n) < 0.75, sign, -sign)
            return x

        return of

    case = Case(draw(1), draw(-1))
    assert case.best() > 0.95 * 0.5


def test_a_rare_and_revealing_output_gets_a_high_score() -> None:
    def leaking(rng: np.random.Generator, n: int) -> Floats:
        return np.where(rng.random(n) < 1e-3, 0.25, rng.laplace(size=n))

    case = Case(leaking, lambda rng, n: rng.laplace(size=n))
    leak, other = case.encoder.encode(np.array([0.25])), case.encoder.encode(np.array([0.2501]))
    enumerated = case.scores[0]
    assert float(enumerated(leak)[0]) > 2
    assert abs(float(enumerated(other)[0])) < 0.5
    assert max(float(score(leak)[0] - score(other)[0]) for score in case.scores) > 2
    assert case.best(2.0) == pytest.approx(1e-3, rel=0.4)
    assert enumerated.words(leak, np.array([True])) == "output is about 0.25"


def test_support_that_differs_at_the_end_is_found() -> None:
    def draw(limit: float) -> Draw:
        return lambda rng, n: rng.uniform(-1, limit, n)

    case = Case(draw(1.01), draw(1.0))
    assert case.best(4.0) > 0.8 * 0.01 / 2.01


@pytest.mark.parametrize("columns", [1, 8])
def test_equal_laws_show_nothing(columns: int) -> None:
    case = Case(laplace([0.0] * columns, 1.0), laplace([0.0] * columns, 1.0))
    # Two shares of 40,000 each: five standard deviations of their difference are 0.0177.
    assert abs(case.best()) < 0.0177
    for score in case.scores:
        assert float(np.quantile(np.abs(score(case.fresh[0])), 0.9)) < 0.1


def test_scores_are_estimates_of_the_log_ratio() -> None:
    p, q = [0.0] * 3, [0.5, 0.0, 0.0]
    case = Case(laplace(p, 1.0), laplace(q, 1.0))
    truth = ratio_of_laplace(p, q, 1.0)(case.raw[0])
    errors = {s.name: float(np.abs(s(case.fresh[0]) - truth).mean()) for s in case.scores}
    assert errors["additive model over 3 columns"] < 0.05
    (monotone,) = (e for name, e in errors.items() if re.fullmatch(r"output\[0\] .*, monotone", name))
    assert monotone < 0.05
    trees = [error for name, error in errors.items() if "trees" in name]
    assert trees
    assert trees[0] < 0.12


@pytest.mark.parametrize("effort", [0, 1])
def test_a_score_needs_no_other_columns_than_it_says(effort: int) -> None:
    case = Case(
        lambda rng, n: rng.integers(0, 3, (n, 4)),
        lambda rng, n: np.minimum(rng.integers(0, 3, (n, 4)), rng.integers(1, 4, (n, 1))),
        train=4000,
        fresh=500,
        effort=effort,
    )
    kinds = {type(score).__name__ for score in case.scores}
    assert kinds >= {"Enumeration", "OneColumn", "SumOfColumns", "Common"}
    assert "Trees" in kinds or effort == 0
    for score in case.scores:
        alone = case.encoder.encode(case.raw[0], needed=score.needs)
        assert np.array_equal(score(alone), score(case.fresh[0]))


def test_the_same_samples_give_the_same_scores() -> None:
    cases = [Case(laplace([0.0] * 4, 1.0), laplace([1.0] * 4, 1.0), train=3000, fresh=500) for _ in range(2)]
    for one, other in zip(cases[0].scores, cases[1].scores, strict=True):
        assert one.name == other.name
        assert np.array_equal(one(cases[0].fresh[0]), other(cases[1].fresh[0]))


AWKWARD: list[tuple[Any, Any]] = [
    ([1.0], [2.0]),
    ([1.0] * 50, [1.0] * 60),
    ([None] * 9, ["a"] * 9),
    ([math.nan, 1.0] * 40, [math.inf, -math.inf] * 40),
    (np.full((30, 3), np.nan), np.zeros((30, 3))),
    (np.array([1e308, -1e308, 5e-324] * 200), np.linspace(-1, 1, 600) * 1e308),
    ([[1.0], [1.0, 2.0], []] * 30, [[], [3.0]] * 30),
    ([Raised("ValueError", str(i)) for i in range(90)], [{"a": i} for i in range(90)]),
    ([{"a": 1, "b": "x"}] * 30, [{"a": 2}] * 30 + [None]),
    (np.zeros((40, 0)), np.zeros((40, 0))),
    ([[]] * 5, [[]] * 5),
    (np.arange(4000) * 10**15, np.arange(4000) * 10**15 + 1),
]


@pytest.mark.parametrize(("a", "b"), AWKWARD)
@pytest.mark.parametrize("effort", [0, 1, 2])
def test_awkward_outputs_are_scored_without_a_warning(a: Any, b: Any, effort: int) -> None:
    encoder = Encoder.learned(a, b)
    p, q = encoder.encode(a), encoder.encode(b)
    for score in learn(p, q, effort=effort):
        for rows in (p, q):
            s = score(rows)
            assert s.shape == (len(rows),)
            assert np.isfinite(s).all()
            assert np.array_equal(score(rows[-2:]), s[-2:])  # of each output by itself
            assert score.words(rows, s >= np.median(s))
            assert score.words(rows, np.zeros(len(rows), dtype=bool)) == "never"


def event_in_words(a: Any, b: Any, name: str, threshold: float) -> str:
    encoder = Encoder.learned(a, b)
    p, q = encoder.encode(a), encoder.encode(b)
    score: Score = next(s for s in learn(p, q) if s.name.startswith(name))
    rows = Encoded.joined([p, q])
    return score.words(rows, score(rows) > threshold)


def test_events_are_told_in_words() -> None:
    rng = np.random.default_rng(0)
    integers, shifted = rng.integers(0, 5, 3000), rng.integers(2, 7, 3000)
    assert event_in_words(integers, shifted, "enumeration", 2) in ("output is 0 or 1", "output is 1 or 0")
    assert event_in_words(integers, shifted, "output, pieces", 2) == "output ≤ 1"
    assert event_in_words(shifted, integers, "output, monotone", 2) == "output > 4"
    assert event_in_words([True] * 99 + [False], [False] * 100, "output, pieces", 1) == "output is True"
    assert event_in_words(["yes"] * 99 + ["no"], ["no"] * 99 + ["?"], "output, pieces", 1) == "output is 'yes'"
    new = event_in_words(rng.normal(size=500), np.where(rng.random(500) < 0.9, 7, rng.normal(size=500)), "enumer", 1)
    assert new == "output is not 7.0"
    vector = event_in_words(rng.normal(0, 1, (3000, 3)), rng.normal(1, 1, (3000, 3)), "additive", 2)
    assert vector.startswith("score of the additive model over 3 columns at least 2.0")
    assert "for instance [" in vector


def test_shrunk_ratios_believe_many_samples_only() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.poisson(3, 2000).astype(float), rng.poisson(3, 2000).astype(float)
    quiet = shrunk(p, q, 6000, 6000)
    assert np.quantile(np.abs(quiet), 0.99) < 0.15  # as laws are equal, (7, 0) means nothing
    p[0], q[0] = 60, 0
    loud = shrunk(p, q, 6060, 6000)
    assert loud[0] > 3
    assert np.median(np.abs(loud[1:])) < 0.1
    many = shrunk(np.array([30_000.0, 10_000.0]), np.array([10_000.0, 30_000.0]), 40_000, 40_000)
    assert many == pytest.approx([math.log(3), -math.log(3)], abs=0.01)


def test_pieces_find_a_step_and_leave_noise_alone() -> None:
    rng = np.random.default_rng(0)
    step = np.repeat([math.e, 1 / math.e], [12, 20])
    q = np.full((1, 32), 1000.0)
    p = rng.poisson(q * step).astype(float)
    found = pieces(p, q, 1000, 1000)[0][0]
    assert len(np.unique(found)) == 2
    assert found == pytest.approx(np.log(step), abs=0.05)
    flat, gain = pieces(rng.poisson(q).astype(float), q, 32_000, 32_000)
    assert len(np.unique(flat)) == 1
    assert gain[0] < 1


def test_monotone_estimates_are_those_of_isotonic_regression() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.integers(1, 400, 40).astype(float), rng.integers(1, 400, 40).astype(float)
    p *= np.linspace(0.2, 1, 40)
    truth = isotonic_regression(p / (p + q), weights=p + q).x
    found = monotone(p, q, 1000, 1000)
    assert 1 / (1 + np.exp(-found)) == pytest.approx(truth, abs=0.003)  # half a sample is added to each block
    assert monotone(p[::-1], q[::-1], 1000, 1000) == pytest.approx(found[::-1], abs=1e-3)


@pytest.mark.parametrize("made", ["numbers", "labels"])
@pytest.mark.parametrize("columns", [2, 100])
def test_wide_outputs_do_not_have_more_weights_than_can_be_fitted(
    monkeypatch: pytest.MonkeyPatch, made: str, columns: int
) -> None:
    """A weight for each of 30 values in each of a hundred columns took a minute, and one for 400 values takes less
    than two seconds."""
    sizes: list[int] = []
    fitted = additive.fitted

    def counted(p: Any, q: Any, bases: Any, groups: Any, **options: Any) -> Any:
        sizes.append(len(groups))
        return fitted(p, q, bases, groups, **options)

    monkeypatch.setattr(additive, "fitted", counted)
    rng = np.random.default_rng(0)
    numbers = [rng.integers(0, 30, (300, columns)) for _ in range(2)]
    batches: list[Batch] = [*numbers]
    if made == "labels":
        batches = [[[f"w{x}" for x in row] for row in batch] for batch in numbers]
    encoder = Encoder.learned(*batches)
    learn(*(encoder.encode(batch) for batch in batches))
    assert max(sizes) <= 400 + 2 * 128
    if columns == 2:
        assert max(sizes) >= 2 * 20
