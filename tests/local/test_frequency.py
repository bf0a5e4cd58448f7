"""Frequency oracles from outside: the laws that they draw, what servers get, and what is refused."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import discreet as dp
from discreet.accounting import pure
from discreet.errors import InvalidParameter
from discreet.local import FrequencyOracle, Hadamard, RandomizedResponse, Randomizer, SubsetSelection, UnaryEncoding
from discreet.privacy.codec import decode, encode
from discreet.privacy.discrete_events import RandomizedResponseEvent
from discreet.privacy.event import ApproximateEvent
from tests.noise.chi_square import accepts, refuses

N = 60_000
KINDS: list[Callable[..., FrequencyOracle]] = [RandomizedResponse, UnaryEncoding, SubsetSelection, Hadamard]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
Law = Callable[[float], list[float]]


def response_law(e: float) -> list[float]:
    """Of 7 values with the third one true."""
    weights = np.ones(7)
    weights[2] = math.exp(e)
    return list(weights / weights.sum())


def optimised_law(e: float) -> list[float]:
    """Of 4 bits with the third one true, read as a binary number."""
    return bits_law(0.5, 1 / (math.exp(e) + 1))


def symmetric_law(e: float) -> list[float]:
    return bits_law(1 - 1 / (math.exp(e / 2) + 1), 1 / (math.exp(e / 2) + 1))


def bits_law(p: float, q: float) -> list[float]:
    chances = np.array([q, q, p, q])
    rows = np.array([[(i >> b) & 1 for b in range(4)] for i in range(16)])
    return list(np.prod(np.where(rows == 1, chances, 1 - chances), axis=1))


def subset_law(e: float) -> list[float]:
    """Of the subsets of 2 out of 6 values as bits, with the third value true."""
    masks = np.array([sum(1 << b for b in (i, j)) for i in range(6) for j in range(i)])
    weights = np.zeros(64)
    weights[masks] = np.where(masks >> 2 & 1, math.exp(e), 1)
    return list(weights / weights.sum())


def hadamard_law(e: float) -> list[float]:
    """Of 4 blocks of 4 for 12 values, with value 2 + 4 = 6: block 2, row 2."""
    weights = np.ones(16)
    weights[[8, 9]] = math.exp(e)  # the row with signs + + − −
    return list(weights / weights.sum())


def bits(reports: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(reports @ (1 << np.arange(reports.shape[1])))


def sets(reports: NDArray[Any]) -> NDArray[Any]:
    return np.asarray((1 << reports).sum(axis=1))


DRAWN: dict[str, tuple[FrequencyOracle, int, Callable[[Any], Any], Law, float]] = {
    "response": (RandomizedResponse(7, epsilon=1), 2, np.asarray, response_law, 1.0),
    "optimised": (UnaryEncoding(4, epsilon=1), 2, bits, optimised_law, 1.0),
    "symmetric": (UnaryEncoding(4, epsilon=2, variant="symmetric"), 2, bits, symmetric_law, 2.0),
    "subsets": (SubsetSelection(6, epsilon=1, size=2), 2, sets, subset_law, 1.0),
    "hadamard": (Hadamard(12, epsilon=2), 6, np.asarray, hadamard_law, 2.0),
}


@pytest.mark.parametrize("name", DRAWN)
def test_reports_have_the_textbook_law_and_not_that_of_a_larger_epsilon(name: str) -> None:
    oracle, x, number, law, epsilon = DRAWN[name]
    draws = number(oracle.randomize(np.full(N, x))).tolist()
    assert accepts(draws, law(epsilon))
    assert refuses(draws, law(epsilon * 1.25), law(epsilon))


@pytest.mark.parametrize("name", DRAWN)
def test_reports_of_devices_are_independent(name: str) -> None:
    oracle, x, number, _, _ = DRAWN[name]
    draws = number(oracle.randomize(np.full(2 * N, x)))
    _, index = np.unique(draws, return_inverse=True)
    first, second = index[::2], index[1::2]
    k = int(index.max()) + 1
    table = np.bincount(first * k + second, minlength=k * k).reshape(k, k)
    wanted = np.outer(table.sum(axis=1), table.sum(axis=0)) / N
    full = wanted > 30
    distance = ((table - wanted)[full] ** 2 / wanted[full]).sum()
    assert distance < full.sum() + 9 * math.sqrt(2 * full.sum()) + 40


@every_kind
def test_one_value_has_one_report_and_many_values_have_an_array(kind: Any) -> None:
    oracle = kind(["a", "b", "c"], epsilon=40)
    alone, many = oracle.randomize("b"), oracle.randomize(["a", "b", "b", "c"])
    assert isinstance(alone, int | np.ndarray) and len(many) == 4
    assert np.shape(alone) == many.shape[1:]
    listed = [oracle.randomize(x) for x in ("a", "b", "b", "c")]
    for reports in (many, listed, np.asarray(listed)):
        estimate = oracle.estimate(reports, domain=["c", "b"])
        assert estimate.labels == ("c", "b") and not estimate.whole and estimate.users == 4
        if kind is not UnaryEncoding:  # half of its true bits are lost at any ε
            assert np.abs(estimate.values - [0.25, 0.5]).max() < 1e-6
    assert len(oracle.randomize([])) == 0


@every_kind
def test_shares_are_found_in_a_crowd_within_their_errors(kind: Any) -> None:
    oracle = kind(50, epsilon=2)
    x = np.minimum(np.arange(100_000) % 80, 49)
    truth = np.bincount(x, minlength=50) / len(x)
    estimate = oracle.estimate(oracle.randomize(x))
    lower, upper = estimate.interval(1 - 1e-11)
    assert ((lower <= truth) & (truth <= upper)).all()
    assert (upper - lower).max() < 15 * oracle.error(len(x), 0.6827)
    assert np.abs(estimate.values - truth).max() < 7.5 * oracle.error(len(x), 0.6827)
    nearer, plain = estimate.simplex().values - truth, estimate.values - truth
    assert nearer @ nearer <= plain @ plain * (1 + 1e-9)


@every_kind
def test_values_outside_raise_all_shares_alike(kind: Any) -> None:
    oracle = kind(4, epsilon=3)
    estimate = oracle.estimate(oracle.randomize(np.full(100_000, 77)))
    assert np.abs(estimate.values - 0.25).max() < 7.5 * oracle.error(100_000, 0.6827)


def test_the_error_is_the_normal_quantile_of_the_published_variance() -> None:
    e, n = math.exp(1.0), 10_000
    published = {
        UnaryEncoding(100, epsilon=1): 4 * e / (e - 1) ** 2,  # Wang et al. 2017: of a rare value
        UnaryEncoding(100, epsilon=1, variant="symmetric"): math.exp(0.5) / (math.exp(0.5) - 1) ** 2,
        RandomizedResponse(100, epsilon=1): (100 - 2 + e) / (e - 1) ** 2,
    }
    for oracle, variance in published.items():
        assert oracle.error(n, 0.95, share=0) == pytest.approx(1.959964 * math.sqrt(variance / n), rel=1e-6)
        assert oracle.error(n) >= oracle.error(n, share=0)
        assert oracle.error(n) >= oracle.error(n, share=1) > 0
    with pytest.raises(InvalidParameter, match="share"):
        RandomizedResponse(epsilon=1).error(10, share=2)


@pytest.mark.parametrize("k", [2, 3, 10, 64, 1000])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(3), Fraction(9)])
def test_the_size_of_a_subset_is_the_one_with_the_least_variance(k: int, epsilon: Fraction) -> None:
    e = math.exp(epsilon)

    def variance(d: int) -> float:
        p = d * e / (d * e + k - d)
        q = (p * (d - 1) + (1 - p) * d) / (k - 1)
        return q * (1 - q) / (p - q) ** 2

    best = min(variance(d) for d in range(1, k))
    assert variance(SubsetSelection(k, epsilon=epsilon).size) <= best * (1 + 1e-9)


@pytest.mark.exhaustive
@every_kind
def test_a_loss_is_that_of_the_report_and_shuffling_lowers_it(kind: Any) -> None:
    oracle = kind(2, epsilon=1)
    assert oracle.loss.epsilon(0) == 1 and (oracle.loss * 3).epsilon(0) == 3
    shuffled = oracle.loss.shuffle(100_000)
    assert shuffled.epsilon(1e-6) < 0.05 < shuffled.epsilon(0) == 1
    ((event, times),) = oracle.events
    binary = kind is RandomizedResponse
    assert times == 1 and event == (
        RandomizedResponseEvent(Fraction(1), 2) if binary else ApproximateEvent(Fraction(1))
    )
    assert shuffled.epsilon(1e-6) <= pure(1).shuffle(100_000).epsilon(1e-6)


@every_kind
def test_explain_has_numbered_steps_with_the_numbers(kind: Any) -> None:
    title, *steps = kind(5, epsilon="0.75").explain().splitlines()
    assert title == repr(kind(5, epsilon="0.75"))
    assert [step.split(".")[0] for step in steps] == [str(i) for i in range(1, len(steps) + 1)]
    assert len(steps) >= 4 and "0.75" in steps[-1] and all(step.endswith(".") for step in steps)


@every_kind
def test_randomizers_are_frozen_values_that_travel(kind: Any) -> None:
    one = kind(["a", "b", "c"], epsilon=1)
    assert one == kind(["a", "b", "c"], epsilon="1.0") and hash(one) == hash(kind(["a", "b", "c"], epsilon=1))
    assert one != kind(["a", "b", "c"], epsilon=2) and one != kind(["a", "c", "b"], epsilon=1)
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError):
        one.epsilon = Fraction(9)
    assert isinstance(one, Randomizer) and one.lifetime == one.epsilon == 1


@every_kind
@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "x", None, True, 1e-9, 1e6], ids=repr)
def test_impossible_epsilons_are_refused(kind: Any, bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        kind(5, epsilon=bad)


@every_kind
def test_reports_that_no_device_makes_are_refused(kind: Any) -> None:
    oracle = kind(6, epsilon=1)
    good = oracle.randomize([1, 2, 3])
    bad: list[Any] = [
        [],
        np.empty((0, 6)),
        good.astype(np.float64),
        good - 9,
        good + 99,
        good[None],
        np.ma.masked_array(good),
        [[1], [1, 2]],
        ["a", "b"],
        7,
        None,
    ]
    for reports in bad:
        with pytest.raises(InvalidParameter, match="report"):
            oracle.estimate(reports)
    with pytest.raises(InvalidParameter, match="domain="):
        oracle.estimate(good, domain=[6])


def test_a_subset_comes_in_rising_order_and_has_its_size() -> None:
    oracle = SubsetSelection(6, epsilon=1, size=2)
    for bad in ([[1, 0]], [[1, 1]], [[0, 1, 2]]):
        with pytest.raises(InvalidParameter, match="rising order"):
            oracle.estimate(bad)
    for size in (0, 6, 7, 1.5):
        with pytest.raises(InvalidParameter, match="size"):
            SubsetSelection(6, epsilon=1, size=size)  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused_with_the_numbers() -> None:
    with pytest.raises(InvalidParameter, match="1,048,576 devices with 1,000,000 bits"):
        UnaryEncoding(1_000_000, epsilon=1).randomize(np.zeros(1 << 20, dtype=np.int64))
    with pytest.raises(InvalidParameter, match="do not fit"):
        SubsetSelection(1_000_000, epsilon=1).randomize(np.zeros(1 << 20, dtype=np.int64))
    with pytest.raises(InvalidParameter, match="server's table"):
        Hadamard(1 << 30, epsilon=1)
    with pytest.raises(InvalidParameter, match="variant"):
        UnaryEncoding(3, epsilon=1, variant="best")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="users"):
        RandomizedResponse(epsilon=1).error(0)


def test_a_huge_domain_is_never_made_a_table() -> None:
    huge = RandomizedResponse(1 << 40, epsilon=60)
    reports = huge.randomize([7] * 3 + [1 << 39])
    estimate = huge.estimate(reports, domain=[1 << 39, 7, 8])
    assert np.abs(estimate.values - [0.25, 0.75, 0]).max() < 1e-3
    with pytest.raises(InvalidParameter, match="more than can be estimated"):
        huge.estimate(reports)
    with pytest.raises(InvalidParameter, match="do not fit"):
        SubsetSelection(1 << 40, epsilon=60).randomize(7)


def test_the_part_is_loaded_by_its_name() -> None:
    assert dp.local.RandomizedResponse is RandomizedResponse and "local" in dir(dp)


@every_kind
def test_the_cost_of_a_report_can_be_stored(kind: Any) -> None:
    events = kind(5, epsilon="0.3").events
    assert decode(encode(events)) == events


def test_the_half_on_the_device_needs_numpy_alone() -> None:
    code = (
        "import sys\nfrom discreet.local import Hadamard, Rappor, RandomizedResponse, SubsetSelection, UnaryEncoding\n"
        "for kind in (Hadamard, RandomizedResponse, SubsetSelection, UnaryEncoding):\n"
        "    kind(9, epsilon=1).randomize(3)\n"
        "Rappor(epsilon=1).randomize('a')\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "numpy" in loaded and not loaded & {"scipy", "pandas", "duckdb", "sqlglot", "sqlite3", "click"}
