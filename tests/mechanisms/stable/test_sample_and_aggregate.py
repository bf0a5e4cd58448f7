"""Sample and aggregate: how rows are dealt, that no failure gets out, what is aggregated, doors."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.mechanisms import SampleAndAggregate
from discreet.noise.entropy import SystemEntropy
from discreet.privacy.unit import Relation

ALARM = 1e-9
RNG = SystemEntropy()


def made(estimator: Any = np.mean, **given: Any) -> SampleAndAggregate:
    return SampleAndAggregate(estimator, **{"blocks": 10, "epsilon": 1, "lower": 0, "upper": 8, **given})


both = pytest.mark.parametrize("relation", list(Relation), ids=lambda r: r.value)


@both
@pytest.mark.parametrize("repeats", [1, 3, 10])
@pytest.mark.parametrize("kind", ["list", "array"])
def test_each_row_is_in_so_many_different_blocks(relation: Relation, repeats: int, kind: str) -> None:
    rows: Any = list(range(97)) if kind == "list" else np.arange(97)
    blocks = made(relation=relation, repeats=repeats)._dealt(rows, RNG)
    assert len(blocks) == 10 and all(isinstance(b, type(rows)) for b in blocks)
    held = [list(map(int, b)) for b in blocks]
    assert all(b == sorted(set(b)) for b in held)  # in the order in which they came, none twice
    assert Counter(r for b in held for r in b) == Counter(dict.fromkeys(range(97), repeats))
    if relation is Relation.REPLACE:
        sizes = [len(b) for b in held]
        assert max(sizes) - min(sizes) <= 1


@both
def test_blocks_are_drawn_without_a_look_at_rows_and_evenly(relation: Relation) -> None:
    """The pair of blocks in which the first of six rows is, of six: each of 15 pairs alike."""
    m, n = made(blocks=6, repeats=2, relation=relation), 3000
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(n):
        blocks = m._dealt([7] + [0] * 5, RNG)
        seen[tuple(i for i, b in enumerate(blocks) if 7 in b)] += 1
    if relation is Relation.ADD_REMOVE:
        assert len(seen) == 15 and stats.chisquare(list(seen.values())).pvalue > ALARM
    ones = Counter(i for pair, times in seen.items() for i in pair for _ in range(times))
    assert stats.chisquare([ones[i] for i in range(6)]).pvalue > ALARM
    skewed = [ones[i] * (1.5 if i == 0 else 0.9) for i in range(6)]
    assert stats.chisquare(skewed).pvalue < ALARM


class Odd:
    """What has no shape."""

    def __repr__(self) -> str:
        return "Odd()"


@pytest.mark.parametrize(
    "answer",
    [
        math.nan,
        None,
        "3",
        b"3",
        True,
        1j,
        [1.0],
        [],
        [[1.0]],
        {"a": 1},
        Odd(),
        np.array([1.0, 2.0]),
        np.array("2020-01-01", dtype="datetime64[D]"),
        Fraction(1, 2),
        10**400,
    ],
    ids=repr,
)
def test_an_answer_that_is_no_number_counts_as_the_default(answer: object) -> None:
    assert made(lambda rows: answer, default="2.5")._ask([1]) == [2.5]


class PanicError(BaseException):
    """As the panics of libraries in Rust are."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("secret"),
        KeyError(3),
        MemoryError(),
        RecursionError(),
        SystemExit(3),
        GeneratorExit(),
        StopIteration(),
        PanicError("secret"),
    ],
    ids=repr,
)
def test_no_failure_of_the_estimator_gets_out(error: BaseException) -> None:
    def fails(rows: Any) -> float:
        raise error

    m = made(fails, epsilon=1000, blocks=20)
    assert m.release([1] * 100) == pytest.approx(4, abs=0.1)


def test_no_warning_of_the_estimator_gets_out() -> None:
    def warns(rows: Any) -> Any:
        warnings.warn("secret", stacklevel=1)
        return np.log(np.array(0.0)) + np.array(1.0) / np.array(0.0)  # −∞ + ∞

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert made(warns)._ask([1]) == [4.0]
    assert seen == []


def test_an_interrupt_is_passed_on() -> None:
    def interrupted(rows: Any) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made(interrupted).release([1, 2])


def test_an_empty_block_is_not_asked() -> None:
    asked: list[int] = []

    def counts(rows: Any) -> float:
        asked.append(len(rows))
        return 1.0

    made(counts, blocks=50).release([1, 2, 3])
    assert sum(asked) == 3 and 0 not in asked


@pytest.mark.parametrize("kind", ["list", "array"])
def test_what_an_estimator_does_to_its_rows_no_other_block_sees(kind: str) -> None:
    rows: Any = [[1.0] for _ in range(40)] if kind == "list" else np.ones((40, 1))

    def spoils(block: Any) -> float:
        found = float(sum(row[0] for row in block)) / len(block)
        for row in block:
            row[0] = 100.0
        return found

    m = made(spoils, repeats=3)
    assert all(m._ask(block) == [1.0] for block in m._dealt(rows, RNG))
    assert all(row[0] == 1.0 for row in rows)


@both
@pytest.mark.parametrize("aggregation", ["median", "winsorized"])
def test_a_mean_is_found(relation: Relation, aggregation: str) -> None:
    x = np.random.default_rng(3).normal(3, 1, 8000)
    m = made(blocks=80, epsilon=5, relation=relation, aggregation=aggregation)
    drawn = [m.release(x) for _ in range(30)]
    assert np.median(drawn) == pytest.approx(3, abs=0.15)
    assert np.std(drawn) > 1e-4


def test_several_numbers_are_found_together() -> None:
    x = np.random.default_rng(4).normal(3, 0.5, 8000)
    m = made(lambda b: [np.mean(b), np.std(b)], lower=[0, 0], upper=[8, 2], blocks=80, epsilon=60)
    assert m.release(x) == pytest.approx([3, 0.5], abs=0.1)
    assert made(lambda b: 1.0, lower=[0, 0], upper=[8, 2], epsilon=99)._ask([1]) == [4.0, 1.0]
    assert made(lambda b: [math.nan, 0.5], lower=[0, 0], upper=[8, 2])._ask([1]) == [4.0, 0.5]


def test_infinite_answers_count_as_an_end() -> None:
    m = made(lambda b: math.inf, epsilon=1000, blocks=20)
    assert m.release([1] * 400) == pytest.approx(8, abs=0.05)


def test_the_winsorized_means_noise_is_that_of_its_cut_offs() -> None:
    """All answers alike: quartiles within a few steps, cut-offs `widening` steps around, noise of that width."""
    m = made(lambda b: 4.0, aggregation="winsorized", epsilon=400, blocks=50)
    drawn = {m.release([0] * 500) for _ in range(20)}
    assert all(a == pytest.approx(4, abs=1e-6) for a in drawn)


@both
def test_rows_may_be_few_or_none(relation: Relation) -> None:
    for rows in ([], [1.0], np.zeros((0, 3)), np.ones(2)):
        for aggregation in ("median", "winsorized"):
            answer = made(relation=relation, aggregation=aggregation).release(rows)
            assert isinstance(answer, float) and 0 <= answer <= 8


def test_errors_are_public_and_at_most_the_range() -> None:
    for aggregation in ("median", "winsorized"):
        m = made(aggregation=aggregation, blocks=100)
        assert 0 < m.error(0.95, spread="0.01") < m.error(0.99, spread="0.01") < m.error() <= 8
        with pytest.raises(InvalidParameter):
            m.error(spread=-1)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"estimator": 3}, "estimator"),
        ({"blocks": 1}, "blocks"),
        ({"blocks": 1 << 30}, "blocks"),
        ({"repeats": 11}, "repeats"),
        ({"repeats": 0}, "repeats"),
        ({"aggregation": "mean"}, "aggregation"),
        ({"lower": [0, 0]}, "lower and upper"),
        ({"lower": [0, 0], "upper": [1]}, "lower and upper"),
        ({"lower": [], "upper": []}, "lower and upper"),
        ({"lower": 9}, "lower"),
        ({"default": 9}, "default"),
        ({"default": [1, 2]}, "default"),
        ({"lower": [0], "upper": [1], "default": "0.5"}, "default"),
        ({"epsilon": 0}, "epsilon"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_a_sentence_that_names_it(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(InvalidParameter, match=hint):
        made(**given)


@pytest.mark.parametrize("bad", ["rows", 3, None, {1, 2}, np.ma.masked_array([1.0]), np.array(3.0)], ids=repr)
def test_rows_are_a_list_or_a_plain_array(bad: Any) -> None:
    with pytest.raises(InvalidParameter):
        made().release(bad)
