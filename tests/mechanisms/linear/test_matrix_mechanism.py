"""The matrix mechanism, as it is called: laws, errors, refusals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.mechanisms import Gaussian, MatrixMechanism
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.linear import identity, kron, prefix, ranges, stack, total
from discreet.mechanisms.linear.strategies import hierarchical
from discreet.privacy.event import ApproximateEvent, Composed, GaussianEvent
from tests.coverage import covers

ALARM = 1e-9
MATRIX = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [0.5, 0, 0]])


@pytest.mark.parametrize(("relation", "l1"), [("add-remove", 2), ("replace", 2)])
def test_laplace_noise_is_that_of_the_worst_column_or_pair(relation: str, l1: float) -> None:
    # Columns (1, 0, 1), (1, 1, 0), (0, 1, 1); two of them differ in two places.
    m = MatrixMechanism(prefix(3), MATRIX[:3], epsilon="1/2", sensitivity=3, relation=relation)
    assert isinstance(m.noise, DiscreteLaplaceNoise)
    assert m.noise.scale == 2 * 3 * l1 * 2**m._shift
    assert m.events == Composed([ApproximateEvent(Fraction(1, 2))])


def test_gaussian_noise_is_that_of_the_worst_column_or_pair() -> None:
    plain = Gaussian(epsilon=1, delta=1e-6).sigma
    for relation, l2_squared in (("add-remove", 2), ("replace", 2)):
        m = MatrixMechanism(prefix(3), MATRIX[:3], epsilon=1, delta=1e-6, relation=relation)
        assert isinstance(m.noise, RoundedGaussianNoise)
        assert float(m.noise.sigma) / 2**m._shift == pytest.approx(plain * math.sqrt(l2_squared))
        ((event, _),) = m.events
        assert isinstance(event, GaussianEvent) and event.mu_squared == l2_squared * 4**m._shift / m.noise.sigma**2


def test_a_matrix_that_is_rounded_has_the_sensitivity_of_the_rounded_one() -> None:
    for relation in ("add-remove", "replace"):
        m = MatrixMechanism(prefix(3), MATRIX / 3, epsilon=1, relation=relation)
        (whole,) = m.strategy.factors
        columns = whole.T.tolist()
        apart = [[a - b for a, b in zip(c, d, strict=True)] for c in columns for d in columns]
        l1 = max(sum(map(abs, v)) for v in (columns if relation == "add-remove" else [*columns, *apart]))
        assert isinstance(m.noise, DiscreteLaplaceNoise) and m.noise.scale == l1 << m._shift


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_what_is_measured_gets_noise_of_the_stated_law_and_no_other(delta: float | None) -> None:
    side = 1024
    m = MatrixMechanism(identity(side), "identity", epsilon="0.5", delta=delta, sensitivity=2)
    drawn = np.concatenate([m.release(np.full(side, 9)).answers - 9 for _ in range(8)])
    width = 4.0 if delta is None else Gaussian(epsilon="0.5", delta=delta, sensitivity=2).sigma
    law = stats.laplace if delta is None else stats.norm
    assert stats.kstest(drawn, law(0, width).cdf).pvalue > ALARM
    assert stats.kstest(drawn, law(0, 1.6 * width).cdf).pvalue < ALARM
    assert stats.kstest(drawn, law(0.4 * width, width).cdf).pvalue < ALARM


def test_errors_are_those_of_the_dense_formula() -> None:
    w = stack(kron(prefix(4), total(3)), kron(total(4), ranges(3)), kron(identity(4), identity(3)))
    m = MatrixMechanism(w, [hierarchical(4), np.eye(3)], epsilon=2)
    a = np.kron(hierarchical(4), np.eye(3))
    scale = 3 / 2  # three levels
    covariance = 2 * scale**2 * w.matrix() @ np.linalg.inv(a.T @ a) @ w.matrix().T
    assert m.deviations() == pytest.approx(np.sqrt(np.diag(covariance)))
    assert m.root_mean_square == pytest.approx(math.sqrt(np.diag(covariance).mean()))
    widths = m.half_widths(0.9)
    assert [m.error(0.9, query=i) for i in range(w.queries)] == pytest.approx(widths)
    assert m.error(0.9) == pytest.approx(widths.max())


def test_identity_on_prefix_sums_has_the_error_of_added_noise() -> None:
    # Var = 2·(i + 1)/ε² at the i-th sum; their mean for n = 9 is 2·5.
    m = MatrixMechanism(prefix(9), "identity", epsilon=1)
    assert m.root_mean_square == pytest.approx(math.sqrt(10), rel=1e-6)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_half_widths_cover_at_their_rate(delta: float | None) -> None:
    w, rounds = ranges(6), 2000
    m = MatrixMechanism(w, epsilon=1, delta=delta)
    x = np.arange(6)
    apart = np.array([m.release(x).answers - w.answers(x) for _ in range(rounds)])
    inside, narrow = ((np.abs(apart) <= part * m.half_widths(0.9)).sum(axis=0) for part in (1, 0.6))
    assert all(covers(n, rounds, 0.9) for n in inside) and (inside < 0.97 * rounds).all()
    assert not any(covers(n, rounds, 0.9) for n in narrow)
    assert np.sqrt((apart**2).mean()) == pytest.approx(m.root_mean_square, rel=0.15)


@pytest.mark.parametrize("strategy", ["identity", "hierarchical", "workload", "optimised", MATRIX], ids=str)
def test_answers_without_noise_to_speak_of_are_the_truth(strategy: Any) -> None:
    m = MatrixMechanism(ranges(3), strategy, epsilon=10**9)
    x = np.array([5, -2, 11])
    released = m.release(x)
    assert released.answers == pytest.approx(ranges(3).answers(x), abs=1e-5)
    assert released.estimate == pytest.approx(x, abs=1e-5)


def test_answers_agree_with_each_other() -> None:
    m = MatrixMechanism(ranges(6), epsilon="0.1")
    released = m.release(np.arange(6))
    assert released.answers == pytest.approx(ranges(6).answers(released.estimate))


def test_a_strategy_that_tells_no_cells_apart_answers_what_it_can() -> None:
    m = MatrixMechanism(total(5), np.ones((1, 5)), epsilon=10**9)
    released = m.release(np.arange(5))
    assert released.answers == pytest.approx([10], abs=1e-5) and released.estimate == pytest.approx([2] * 5, abs=1e-5)
    with pytest.raises(InvalidParameter, match="cannot answer the workload"):
        MatrixMechanism(prefix(5), np.ones((1, 5)), epsilon=1)


def test_a_strategy_whose_rounding_would_bias_answers_is_refused() -> None:
    weighed = np.array([[0.1, 0.2, 0.3]])
    with pytest.raises(InvalidParameter, match="rounded rows"):
        MatrixMechanism(10 * weighed, weighed, epsilon=1)
    m = MatrixMechanism(10 * weighed, np.rint(10 * weighed), epsilon=10**9)
    assert m.release(np.array([10**9, 0, 7])).answers == pytest.approx([10**9 + 21], abs=1e-3)


def test_tables_come_flat_or_in_their_shape() -> None:
    m = MatrixMechanism(kron(prefix(3), identity(2)), "identity", epsilon=10**9)
    x = np.arange(6)
    assert m.release(x).answers == pytest.approx(m.release(x.reshape(3, 2)).answers, abs=1e-5)
    assert m.release(x).estimate.shape == (3, 2)


def test_counts_beyond_64_bits_do_not_wrap() -> None:
    m = MatrixMechanism(prefix(3), epsilon=1)
    x = np.array([2**63 + 5, 2**63 + 5, 2**63 + 5], dtype=np.uint64)
    assert m.release(x).answers == pytest.approx([2.0**63, 2.0**64, 3 * 2.0**63])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"epsilon": 1}, "needs a workload"),
        ({"workload": prefix(3)}, "needs epsilon"),
        ({"workload": prefix(3), "epsilon": 0}, "above 0"),
        ({"workload": prefix(3), "epsilon": math.nan}, "finite"),
        ({"workload": prefix(3), "epsilon": 1, "sensitivity": math.inf}, "finite"),
        ({"workload": prefix(3), "epsilon": 1, "sensitivity": "0.5"}, "integer"),
        ({"workload": prefix(3), "epsilon": 1, "strategy": "best"}, "'optimised', 'identity'"),
        ({"workload": prefix(3), "epsilon": 1, "strategy": np.eye(4)}, "column for each of the 3 cells"),
        ({"workload": prefix(3), "epsilon": 1, "strategy": [np.eye(2)]}, "one matrix for each attribute"),
        ({"workload": prefix(3), "epsilon": 1, "strategy": np.zeros((3, 3))}, "zero everywhere"),
        ({"workload": prefix(3), "epsilon": 1, "strategy": np.array([[math.nan] * 3])}, "finite"),
        ({"workload": [[1, 0]], "epsilon": 1}, "plain numpy matrix"),
        ({"workload": prefix(3), "epsilon": 1, "noise": "gaussian"}, "needs a delta"),
        ({"workload": prefix(3), "epsilon": 1, "relation": "swap"}, "relation"),
        ({"workload": ranges(2000), "strategy": "workload", "epsilon": 1}, "too large to invert"),
    ],
    ids=str,
)
def test_impossible_parameters_are_refused_in_a_sentence(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        MatrixMechanism(**arguments)


@pytest.mark.parametrize(
    "x",
    [
        [1, 2, None],
        [1, 2],
        np.array([1.0, 2, 3]),
        np.array([1, 2]),
        np.array([[1, 2, 3]]),
        np.array([True, False, True]),
        np.ma.array([1, 2, 3], mask=[False, False, True]),
        5,
        None,
    ],
    ids=repr,
)
def test_impossible_tables_are_refused(x: Any) -> None:
    with pytest.raises(InvalidParameter):
        MatrixMechanism(prefix(3), "identity", epsilon=1).release(x)


def test_a_question_beyond_the_last_has_no_error() -> None:
    m = MatrixMechanism(prefix(3), "identity", epsilon=1)
    for bad in (3, -1):
        with pytest.raises(InvalidParameter, match="query"):
            m.error(query=bad)
