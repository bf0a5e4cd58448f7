"""Sketches: exact laws given the public row, unbiased shares over coins and hash functions, intervals, bad input."""

from __future__ import annotations

import hashlib
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.local import CountMeanSketch, HadamardSketch, Memoised
from discreet.local.hashing import digests, key_of, mixed
from discreet.local.sketches import _parity, _transformed
from tests.coverage import covers
from tests.local.branches import Branches, plain
from tests.local.public_parts import largest_ratio, law_of, least_exp, tree

__all__ = ["tree"]

SKETCHES = [CountMeanSketch, HadamardSketch]
VALUES = ["tree", "flower", 7, -3, b"tree", 2.5, None, ("a", 1), 10**40, ""]
ALARM = 6.5


@pytest.mark.parametrize("kind", SKETCHES)
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(6)], ids=str)
@pytest.mark.parametrize("salt", ["", "a", "b"])
def test_given_the_row_no_ratio_is_above_e_to_epsilon(kind: Any, epsilon: Fraction, salt: str, tree: Branches) -> None:
    sketch = kind(epsilon=epsilon, rows=1, width=4, salt=salt)
    laws = [law_of(sketch, v, tree) for v in VALUES]
    ratio = largest_ratio(laws)
    assert ratio <= least_exp(epsilon)
    assert ratio >= least_exp(epsilon) * (1 - Fraction(1, 10**12))


@pytest.mark.parametrize("kind", SKETCHES)
@pytest.mark.parametrize("rows", [1, 2])
def test_one_report_is_unbiased_for_its_hash_and_has_the_noise_that_is_stated(
    kind: Any, rows: int, tree: Branches
) -> None:
    """Given the hash functions: the expected count at each place is whether the value falls there."""
    sketch = kind(epsilon=1, rows=rows, width=4)
    law = law_of(sketch, "tree", tree)
    word = digests(["tree"], sketch._key)
    mean = np.zeros((rows, 4))
    square = np.zeros((rows, 4))
    for report, chance in law.items():
        table = sketch._table([report])
        assert table.users == 1
        mean += float(chance) * table.counts
        square += float(chance) * table.counts**2
    truth = np.zeros((rows, 4))
    for row in range(rows):
        truth[row, sketch.place(word, np.array([row]))[0]] = 1 / rows
    assert np.allclose(mean, truth, atol=1e-12)
    own, _ = sketch._noise
    variance = square * rows - (mean * rows) ** 2  # given that the row was drawn
    assert variance[truth > 0] == pytest.approx(float(own), rel=1e-9)
    assert variance.sum() / rows == pytest.approx(sketch._table([next(iter(law))]).noise, rel=1e-9)


@pytest.mark.parametrize("kind", SKETCHES)
def test_the_noise_elsewhere_is_that_of_a_random_hash(kind: Any, tree: Branches) -> None:
    """Where the value falls is uniform over hash functions; the noise is what the coins add to that."""
    sketch = kind(epsilon=2, rows=1, width=4)
    law = law_of(sketch, "tree", tree)
    counts = {report: sketch._table([report]).counts[0] for report in law}
    second = sum(float(p) * counts[r] ** 2 for r, p in law.items())
    _, other = sketch._noise
    meets = 1 / 4
    assert np.mean(second) - meets**2 == pytest.approx(float(other) + meets * (1 - meets), rel=1e-9)


@pytest.mark.parametrize("kind", SKETCHES)
def test_shares_are_unbiased_over_the_hash_functions_and_the_intervals_cover(kind: Any) -> None:
    """Many salts, few places: collisions are frequent, and are taken off."""
    n, values = 4000, np.array([0] * 2000 + [1] * 1200 + list(range(2, 802)))
    truth = np.array([0.5, 0.3, 1 / n, 0.0])
    asked = [0, 1, 2, 5000]
    deviations, covered, narrow, runs = [], 0, 0, 150
    for salt in range(runs):
        sketch = kind(epsilon=4, rows=16, width=8, salt=str(salt))
        estimate = sketch.estimate(sketch.randomize(values), domain=asked)
        deviations.append((estimate.values - truth) / estimate.standard_error)
        low, high = estimate.interval(0.95)
        covered += int(((low <= truth) & (truth <= high)).sum())
        low, high = estimate.interval(0.5)
        narrow += int(((low <= truth) & (truth <= high)).sum())
    mean = np.mean(deviations, axis=0) * math.sqrt(runs)
    assert np.abs(mean).max() < ALARM
    assert 0.6 < np.std(deviations) < 1.15  # the margin for collisions makes it smaller than 1
    assert covers(covered, 4 * runs, 0.95) and not covers(narrow, 4 * runs, 0.95)
    assert np.abs(mean - 1.5 * math.sqrt(runs)).min() > ALARM  # a bias of 1.5 deviations would be seen


@pytest.mark.parametrize("kind", SKETCHES)
def test_pairs_of_equal_values_are_seen_in_the_table(kind: Any) -> None:
    values = np.repeat([1, 2, 3], [6000, 3000, 1000])
    sketch = kind(epsilon=3, rows=32, width=64)
    table = sketch._table(sketch.randomize(values))
    truth = sum(k * (k - 1) for k in (6000, 3000, 1000))
    found = sketch._collisions(table)
    assert 0.85 * truth <= found <= 1.5 * truth  # raised by a tenth and more; its deviation is 0.035


def test_an_unbiased_table_follows_the_published_server() -> None:
    """The server of the Hadamard sketch in the report of 2017, done by hand from the reports."""
    sketch = HadamardSketch(epsilon=2, rows=4, width=8)
    reports = sketch.randomize([f"v{i % 5}" for i in range(500)])
    chance = math.exp(2) / (math.exp(2) + 1)
    matrix = np.array([[(-1.0) ** bin(i & j).count("1") for j in range(8)] for i in range(8)])
    table = np.zeros((4, 8))
    for report in reports.tolist():
        rest, sign = divmod(report, 2)
        row, column = divmod(rest, 8)
        table[row, column] += 4 * (1 - 2 * sign) / (2 * chance - 1)
    decoded = table @ matrix
    word = digests(["v3"], sketch._key)
    mean = np.mean([decoded[row, sketch.place(word, np.array([row]))[0]] for row in range(4)])
    assert sketch.estimate(reports, domain=["v3"]).values[0] == pytest.approx(8 / 7 * (mean - 500 / 8) / 500, rel=1e-9)


def test_the_transform_is_that_of_the_hadamard_matrix() -> None:
    rows = np.arange(32.0).reshape(2, 16) ** 2
    matrix = np.array([[(-1.0) ** bin(i & j).count("1") for j in range(16)] for i in range(16)])
    assert np.array_equal(_transformed(rows), rows @ matrix)
    words = np.array([0, 1, 2, 3, 255, 2**40 + 1])
    assert _parity(words).tolist() == [bin(int(w)).count("1") % 2 == 1 for w in words]


def test_the_hash_of_values_is_pinned_down() -> None:
    """Devices and servers of other versions must agree: these numbers never change."""
    key = key_of("digest", "")
    secret = key.to_bytes(8, "little")
    assert key == int.from_bytes(hashlib.blake2b(b"digest\x1f", digest_size=8).digest(), "little")
    text = hashlib.blake2b(b"stree", digest_size=8, key=secret).digest()
    assert int(digests(["tree"], key)[0]) == int.from_bytes(text, "little")
    # SplitMix64 from the states 0 and 1: the reference implementation's first outputs
    assert [int(w) for w in mixed(np.array([0, 1], dtype=np.uint64))] == [0xE220A8397B1DCDAF, 0x910A2DEC89025CC1]


def test_equal_values_have_one_hash_whatever_they_come_in() -> None:
    key = 99
    one = int(digests([7], key)[0])
    for same in ([7.0], [np.int32(7)], np.array([7]), np.array([7], dtype=np.uint8), [7, "x"], np.array([7], object)):
        assert int(digests(same, key)[0]) == one
    assert int(digests([-1], key)[0]) == int(digests(np.array([-1]), key)[0])
    large = (1 << 64) - 1
    assert int(digests([large], key)[0]) == int(digests(np.array([large], dtype=np.uint64), key)[0])
    assert int(digests([large], key)[0]) != int(digests([-1], key)[0])
    for odd in (math.nan, math.inf, 10**6000, "\ud800", [1, "a"], object):
        assert digests([odd], key).shape == (1,)  # type: ignore[list-item]  # what cannot be hashed by Python, too
    assert int(digests(np.array(["a"]), key)[0]) == int(digests(["a", 3], key)[0]) == int(digests(["a"], key)[0])
    different = ["a", b"a", 7, "7", 2.5, None, 10**30, -(10**30)]
    assert len(set(digests(different, key).tolist())) == len(different)
    assert set(digests(different, 98).tolist()).isdisjoint(digests(different, key).tolist())


def test_places_are_uniform_and_rows_independent() -> None:
    sketch = CountMeanSketch(epsilon=1, rows=50, width=10, salt="s")
    words = digests([f"w{i}" for i in range(20_000)], sketch._key)
    first, second = (sketch.place(words, np.array([row])) for row in (0, 1))
    joint = np.bincount(first * 10 + second, minlength=100)
    assert stats.chisquare(joint).pvalue > 1e-9
    assert stats.chisquare(np.bincount(first * 10 + first, minlength=100)[::11]).pvalue > 1e-9
    other = CountMeanSketch(epsilon=1, rows=50, width=10, salt="t").place(words, np.array([0]))
    assert stats.chisquare(np.bincount(first * 10 + other, minlength=100)).pvalue > 1e-9


@pytest.mark.parametrize("kind", SKETCHES)
def test_impossible_parameters_are_refused(kind: Any) -> None:
    for given in (
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"rows": 0},
        {"rows": True},
        {"width": 1},
        {"width": 2.0},
        {"rows": 1 << 20, "width": 1 << 10},
        {"salt": 5},
        {"salt": "x" * 20_000},
    ):
        with pytest.raises(InvalidParameter):
            kind(**({"epsilon": 1, "rows": 4, "width": 8} | given))
    with pytest.raises(InvalidParameter):
        HadamardSketch(epsilon=1, width=1000)


@pytest.mark.parametrize("kind", SKETCHES)
def test_what_is_no_report_and_what_is_no_domain_is_refused(kind: Any) -> None:
    sketch = kind(epsilon=1, rows=4, width=12 if kind is CountMeanSketch else 8)
    good = sketch.randomize(["a", "b"])
    assert sketch.estimate(good, domain=["a"]).users == 2
    domains: list[Any] = [None, [], np.zeros((2, 2))]
    for domain in domains:
        with pytest.raises(InvalidParameter):
            sketch.estimate(good, domain=domain)
    wrong: list[Any] = [[], [0.5], ["a"], good[:0], [10**6], [-1], np.full((2, 6), 255)]
    for reports in wrong:
        with pytest.raises(InvalidParameter):
            sketch.estimate(reports, domain=["a"])
    with pytest.raises(InvalidParameter):
        sketch.randomize(np.ma.array([1, 2]))


@pytest.mark.parametrize("kind", SKETCHES)
def test_sketches_are_frozen_values_that_explain_themselves(kind: Any) -> None:
    sketch = kind(epsilon="0.5", rows=8, width=16, salt="s")
    assert pickle.loads(pickle.dumps(sketch)) == sketch != kind(epsilon="0.5", rows=8, width=16)
    title, *steps = sketch.explain().splitlines()
    assert title == repr(sketch) and len(steps) >= 4 and "0.5-DP" in sketch.explain()
    assert sketch.loss.epsilon(0) == pytest.approx(0.5, rel=1e-9)
    assert sketch.error(1000) > sketch.error(100_000)
    assert "Guarantee:" in (kind.__doc__ or "") and "References:" in (kind.__doc__ or "")
    daily = Memoised(sketch)
    assert len({plain(daily.randomize(v)) for v in (7, 7.0, np.int64(7)) for _ in range(5)}) == 1
    low, high = sketch.estimate(sketch.randomize(["a"] * 10), domain=["a"]).proven_interval()
    assert (low[0], high[0]) == (0.0, 1.0)
