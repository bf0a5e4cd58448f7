"""Continual counting, as it is called: laws, costs, runs, refusals."""

from __future__ import annotations

import copy
import math
import os
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.mechanisms import BinaryTree, Gaussian
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.privacy.event import ApproximateEvent, Composed, GaussianEvent
from tests.coverage import covers

ALARM = 1e-9
ROOT = {"delta": 1e-6, "factorization": "square-root"}


def test_laplace_noise_pays_for_every_level_and_contribution() -> None:
    one = BinaryTree(epsilon="0.5", steps=1000)
    levels, bits = one.measured.l1(1) >> one.measured.bits, one.measured.bits
    assert levels == 8 and isinstance(one.noise, DiscreteLaplaceNoise)
    assert one.noise.scale / 2**bits == levels * 2 and one.events == Composed([ApproximateEvent(Fraction(1, 2))])
    many = BinaryTree(epsilon="0.5", steps=1000, contributions=3, sensitivity=5, relation="replace")
    assert isinstance(many.noise, DiscreteLaplaceNoise)
    assert many.noise.scale / 2**many.measured.bits == levels * 2 * 3 * 5 * 2


@pytest.mark.parametrize("kind", ["tree", "square-root"])
def test_gaussian_noise_is_that_of_the_gaussian_mechanism_for_the_length_of_a_column(kind: str) -> None:
    m = BinaryTree(epsilon=1, delta=1e-6, steps=300, sensitivity=2, factorization=kind, relation="replace")
    length = 4 * math.sqrt(m.measured.sensitivity(1))
    assert isinstance(m.noise, RoundedGaussianNoise)
    assert float(m.noise.sigma) == pytest.approx(Gaussian(epsilon=1, delta=1e-6, sensitivity=1).sigma * length)
    ((event, _),) = m.events
    assert isinstance(event, GaussianEvent)
    assert event.mu_squared == 16 * m.measured.sensitivity(1) / m.noise.sigma**2
    assert event.mu_squared <= Gaussian(epsilon=1, delta=1e-6).mu_squared


def test_the_noise_of_an_answer_has_the_stated_law_and_no_other() -> None:
    m = BinaryTree(epsilon=1, steps=1000)
    scale = 8.0
    drawn = np.array([float(m.release(np.array([7]))[0]) - 7 for _ in range(6000)])
    assert stats.kstest(drawn, stats.laplace(scale=scale).cdf).pvalue > ALARM
    for wrong in (stats.laplace(scale=1.7 * scale), stats.laplace(0.4 * scale, scale)):
        assert stats.kstest(drawn, wrong.cdf).pvalue < ALARM


@pytest.mark.laws
@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [{}, {"delta": 1e-6}, ROOT], ids=["laplace", "gaussian", "square root"])
def test_the_error_covers_at_its_rate_and_the_deviation_is_the_true_one(kind: dict[str, Any]) -> None:
    m = BinaryTree(epsilon=1, steps=1000, **kind)
    n, rounds = 31, 1500
    apart = np.array([m.release(np.zeros(n, dtype=np.int64)) for _ in range(rounds)])
    for step in (1, 5, 31):
        far, t = np.abs(apart[:, step - 1]), m.error(0.9, step=step)
        assert covers(int((far <= t).sum()), rounds, 0.9) and not covers(int((far <= t / 2).sum()), rounds, 0.9)
        assert (far <= t).sum() < rounds * 0.99  # and it is not far too wide
        # Variances of 1500 draws with kurtosis of at most 6 are within a third of the truth but with chance 1e-9 or so.
        assert np.var(apart[:, step - 1]) == pytest.approx(m.deviation(step) ** 2, rel=0.4)
    assert m.error(0.9) >= max(m.error(0.9, step=s) for s in range(1, 1001, 37))


@pytest.mark.parametrize("kind", [{}, {"delta": 1e-6}, ROOT], ids=["laplace", "gaussian", "square root"])
def test_a_run_answers_in_the_law_of_a_release(kind: dict[str, Any]) -> None:
    m = BinaryTree(epsilon=1, steps=64, **kind)
    values = np.arange(20)
    runs = []
    for _ in range(300):
        run = m.start()
        runs.append([run.add(int(v)) for v in values][-1])
    at_once = [float(m.release(values)[-1]) for _ in range(300)]
    assert stats.ks_2samp(runs, at_once).pvalue > ALARM
    assert stats.ks_2samp(runs, np.array(at_once) + 3 * m.deviation(20)).pvalue < ALARM


def test_a_run_says_where_it_is_and_ends() -> None:
    run = BinaryTree(epsilon=1, steps=3).start()
    assert (run.taken, run.left) == (0, 3) and run.error() == BinaryTree(epsilon=1, steps=3).error(step=1)
    for _ in range(3):
        run.add(1)
    assert (run.taken, run.left) == (3, 0) and run.error() == BinaryTree(epsilon=1, steps=3).error(step=3)
    with pytest.raises(InvalidParameter, match="all of its 3 steps"):
        run.add(1)


@pytest.mark.parametrize("bad", [1.0, True, np.bool_(True), None, "3", np.float64(2), [1]], ids=repr)
def test_an_element_that_is_no_integer_is_refused_and_the_run_goes_on(bad: Any) -> None:
    run = BinaryTree(epsilon=10**6, steps=3).start()
    with pytest.raises(InvalidParameter, match="integer"):
        run.add(bad)
    assert run.taken == 0 and run.add(4) == pytest.approx(4, abs=0.1)


def test_a_run_cannot_be_copied_or_pickled() -> None:
    run = BinaryTree(epsilon=1, steps=3).start()
    for again in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied or pickled"):
            again(run)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_run_refuses_after_a_fork() -> None:
    run = BinaryTree(epsilon=1, steps=3).start()
    run.add(1)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run.add(1)
        except InvalidParameter:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run.add(1)


def test_an_interrupted_step_leaves_the_run_as_it_was() -> None:
    for kind in ({}, ROOT):
        run = BinaryTree(epsilon=10**9, steps=9, **kind).start()  # type: ignore[arg-type]
        run.add(5)
        draw = run._progress._draw

        def interrupted(n: int) -> Any:
            raise KeyboardInterrupt

        run._progress._drawn, run._progress._draw = [], interrupted
        with pytest.raises(KeyboardInterrupt):
            run.add(100)
        run._progress._draw = draw
        assert run.taken == 1 and run.add(2) == pytest.approx(7, abs=0.01)


def test_very_large_elements_do_not_break_a_run() -> None:
    for kind in ({}, ROOT):
        run = BinaryTree(epsilon=1, steps=4, **kind).start()  # type: ignore[arg-type]
        assert all(math.isfinite(run.add(x)) for x in (10**300, -(10**300), 10**70, 3))


def test_a_shorter_stream_and_an_empty_one_are_answered() -> None:
    for kind in ({}, ROOT):
        m = BinaryTree(epsilon=1, steps=50, **kind)  # type: ignore[arg-type]
        assert m.release(np.array([], dtype=np.int64)).shape == (0,)
        assert m.release(np.ones(3, dtype=np.uint8)).shape == (3,)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "needs epsilon"),
        ({"epsilon": 1}, "needs steps"),
        ({"epsilon": 1, "steps": 0}, "steps"),
        ({"epsilon": 1, "steps": 2.5}, "steps"),
        ({"epsilon": 1, "steps": 2**41}, "at most 1,099,511,627,776"),
        ({"epsilon": 1, "steps": 2**21, **ROOT}, "at most 1,048,576"),
        ({"epsilon": 1, "steps": 5, "contributions": 6}, "at most steps = 5"),
        ({"epsilon": 1, "steps": 5, "sensitivity": "1.5"}, "must be an integer"),
        ({"epsilon": 1, "steps": 5, "sensitivity": math.inf}, "finite"),
        ({"epsilon": 0, "steps": 5}, "above 0"),
        ({"epsilon": 1, "steps": 5, "noise": "uniform"}, "'laplace' or 'gaussian'"),
        ({"epsilon": 1, "steps": 5, "noise": "gaussian"}, "needs a delta"),
        ({"epsilon": 1, "steps": 5, "noise": "laplace", "delta": 0.1}, "needs no delta"),
        ({"epsilon": 1, "steps": 5, "factorization": "square-root"}, "needs Gaussian noise"),
        ({"epsilon": 1, "steps": 5, "factorization": "haar"}, "'tree' or 'square-root'"),
        ({"epsilon": 1, "steps": 5, "relation": "both"}, "relation"),
    ],
    ids=str,
)
def test_impossible_parameters_are_refused_in_a_sentence(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        BinaryTree(**arguments)


@pytest.mark.parametrize(
    "values",
    [
        [1, None],
        [1.0],
        np.array([1.0]),
        np.array([True]),
        np.array([[1]]),
        np.array(3),
        np.ma.array([1, 2], mask=[False, True]),
        np.ones(6, dtype=np.int64),
        np.array([math.nan]),
        "12",
        None,
    ],
    ids=repr,
)
def test_impossible_streams_are_refused_without_a_word_of_them(values: Any) -> None:
    with pytest.raises(InvalidParameter) as caught:
        BinaryTree(epsilon=1, steps=5).release(values)
    assert "nan" not in str(caught.value)


def test_a_step_beyond_the_last_has_no_error() -> None:
    with pytest.raises(InvalidParameter, match="at most steps"):
        BinaryTree(epsilon=1, steps=5).error(step=6)
