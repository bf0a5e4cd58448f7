"""Local hashing and heavy hitters: exact laws, decoding against its definition, false finds, recall."""

from __future__ import annotations

import math
import pickle
import string
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.local import HeavyHitters, LocalHashing, Memoised
from discreet.local.coins import rounded_coin
from discreet.local.heavy_hitters import Beginnings, Spelling, read_spelling
from discreet.local.local_hashing import LinearHash, least_support, linear_hash
from discreet.noise.entropy import SystemEntropy
from tests.local.branches import Branches
from tests.local.public_parts import FixedBytes, largest_ratio, law_of, least_exp, tree

__all__ = ["tree"]

ALARM = 6.5
LETTERS = string.ascii_lowercase
TEXTS = ["", "a", "tree", "treehouse", "trees are green", "ÄÖ", "\ud800", "a\0b", 7, 10**6000, None, b"tree"]


def hash_of(q: int, t: int, epsilon: Fraction = Fraction(1)) -> LinearHash:
    return LinearHash(q, t, rounded_coin(epsilon, Fraction(1, q - 1)))


def law_at(law: LinearHash, place: int, tree: Branches) -> dict[Any, Fraction]:
    """The exact law of the report of a place."""
    return dict(tree.law(lambda: int(law.reports(np.array([place]), FixedBytes())[0])))


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(2), Fraction(9)], ids=str)
@pytest.mark.parametrize("size", [2, 5, 9])
def test_local_hashing_has_ratio_e_to_epsilon_at_most_and_nearly(size: int, epsilon: Fraction, tree: Branches) -> None:
    """Given the public vector, of which several are tried; for values outside of the domain too."""
    law = linear_hash(epsilon, size)
    for drawn in (1, law.size - 1):
        laws = []
        for place in range(size):
            h = int(law._product(np.array([drawn]), np.array([place]))[0])
            p, q = law.coin.chance, law.prime
            laws.append({z: p if z == h else (1 - p) / (q - 1) for z in range(q)})
        assert largest_ratio(laws) <= least_exp(epsilon)
        assert largest_ratio(laws) >= least_exp(epsilon) * (1 - Fraction(1, 10**12))


@pytest.mark.parametrize("place", [0, 1, 7])
def test_a_report_keeps_the_residue_with_chance_p_for_every_vector(place: int, tree: Branches) -> None:
    law = hash_of(3, 2)
    found = law_at(law, place, tree)
    p = law.coin.chance
    digits = {n: (n // 3, n % 3) for n in range(9)}
    for report, chance in found.items():
        a, z = divmod(report, 3)
        h = sum(x * y for x, y in zip(digits[a], digits[place], strict=True)) % 3
        assert chance == Fraction(1, 9) * (p if z == h else (1 - p) / 2)
    assert len(found) == 27


@pytest.mark.parametrize("q", [2, 3, 5])
def test_other_values_are_supported_with_chance_one_in_q_exactly(q: int, tree: Branches) -> None:
    law = hash_of(q, 2)
    for place in (0, 1, q + 1):
        found = law_at(law, place, tree)
        for other in range(law.size):
            support = sum(c for r, c in found.items() if law.supports(np.array([r]), other)[0])
            assert support == (law.coin.chance if other == place else Fraction(1, q))


@pytest.mark.parametrize(("q", "t"), [(2, 1), (2, 6), (3, 4), (5, 3), (7, 2), (11, 2), (13, 1)])
def test_the_transform_counts_the_reports_that_support_each_value(q: int, t: int) -> None:
    law = hash_of(q, t)
    reports = law.reports(np.arange(700) ** 2 % law.size, SystemEntropy())
    by_definition = [int(law.supports(reports, place).sum()) for place in range(law.size)]
    assert law.totals(reports).tolist() == by_definition
    assert law.totals(reports[:0]).tolist() == [0] * law.size


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 3.0, 4.0])
def test_the_variance_is_that_of_optimised_local_hashing(epsilon: float) -> None:
    best = 4 * math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2  # Wang et al. 2017
    for size in (100, 10**6):
        ours = linear_hash(Fraction(str(epsilon)), size)
        assert ours.size >= size
        # at its best the integer q is e^ε + 1; a prime beside it costs a few percent
        assert 0.999 * best <= float(ours.scores.variance(Fraction(0))) <= 1.045 * best


def test_shares_are_unbiased_and_intervals_cover() -> None:
    values = np.repeat(np.arange(6), [30_000, 15_000, 4_000, 900, 99, 1])
    oracle = LocalHashing(300, epsilon=1)
    estimate = oracle.estimate(oracle.randomize(values))
    truth = np.bincount(values, minlength=300) / values.size
    deviations = (estimate.values - truth) / estimate.standard_error
    assert np.abs(deviations).max() < ALARM + 0.5
    assert abs(float(np.std(deviations)) - 1) < 0.27  # 6.5 deviations of a deviation of 300
    assert np.abs(estimate.values - np.roll(truth, 1)).max() > ALARM * estimate.standard_error.max()


def test_values_outside_are_answered_like_a_uniform_one(tree: Branches) -> None:
    oracle = LocalHashing(["a", "b"], epsilon=1)
    inside = [law_of(oracle, v, tree) for v in ("a", "b")]
    outside = law_of(oracle, "c", tree)
    for law in inside:
        assert largest_ratio([law, outside]) <= least_exp(Fraction(1))


@pytest.mark.parametrize(
    ("users", "q", "chance"), [(1000, 7, Fraction(1, 100)), (10**6, 11, Fraction(1, 10**8)), (5, 2, Fraction(1, 4))]
)
def test_the_least_support_is_the_binomial_quantile(users: int, q: int, chance: Fraction) -> None:
    least = least_support(users, q, chance)
    assert stats.binom.sf(least - 1, users, 1 / q) <= float(chance) < stats.binom.sf(least - 3, users, 1 / q)


def test_with_too_few_reports_nothing_is_listed() -> None:
    assert least_support(3, 2, Fraction(1, 1000)) == 4  # more than there are
    oracle = LocalHashing(100, epsilon=1)
    assert len(oracle.find(oracle.randomize([1, 1]))) == 0


def test_frequent_values_are_listed_and_values_that_nobody_holds_are_not() -> None:
    words = [f"w{i}" for i in range(5000)]
    held = [words[0]] * 20_000 + [words[7]] * 8_000 + words[100:2100]
    oracle = LocalHashing(words, epsilon=2)
    found = oracle.find(oracle.randomize(held), error=Fraction(1, 10**9))
    assert found.labels == ("w0", "w7")
    assert np.abs(found.values - [2 / 3, 8 / 30]).max() < 0.06
    assert found.proven_interval()[0][0] > 0.5
    anything = oracle.find(oracle.randomize(held), error="0.999999")
    assert set(anything.labels) >= {"w0", "w7"}


def test_false_finds_are_as_rare_as_is_said() -> None:
    """All hold one value; how often is any of the others listed, at an error of a half?"""
    oracle = LocalHashing(64, epsilon=1)
    runs, false = 300, 0
    for _ in range(runs):
        false += len(oracle.find(oracle.randomize(np.zeros(500, dtype=int)), error="0.5")) > 1
    assert stats.binom.sf(false - 1, runs, 0.5) > 1e-9
    assert false > 20  # and the test could see it: the bound is not idle


@pytest.mark.parametrize("length", [1, 3, 8, 20])
@pytest.mark.parametrize("alphabet", ["ab", LETTERS, None])
def test_levels_grow_to_the_whole_text_and_are_looked_up_sparsely(length: int, alphabet: str | None) -> None:
    hitters = HeavyHitters(epsilon=2, length=length, alphabet=alphabet)
    ends, base, size = hitters.levels, hitters.spelling.base, hitters.law.size
    assert ends[-1] == length and list(ends) == sorted(ends) and ends[0] >= 1
    assert base ** ends[0] <= 1 << 22
    for before, end in pairwise(ends):
        assert hitters.keep * base ** (end - before) <= 1 << 22
    last = base**length if len(ends) == 1 else hitters.keep * base ** (ends[-1] - ends[-2])
    assert last <= size // 1024


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)], ids=str)
@pytest.mark.parametrize("alphabet", [LETTERS, None])
def test_a_text_of_any_length_and_type_has_ratio_e_to_epsilon_at_most(
    alphabet: str | None, epsilon: Fraction, tree: Branches
) -> None:
    hitters = HeavyHitters(epsilon=epsilon, length=9, alphabet=alphabet)
    laws = [law_of(hitters, t, tree) for t in TEXTS]
    ratio = largest_ratio(laws)
    assert ratio <= least_exp(epsilon)
    assert ratio >= least_exp(epsilon) * (1 - Fraction(1, 10**12))
    span = hitters.law.size * hitters.law.prime
    for law in laws:  # the level says nothing about the text
        shares = [sum(c for r, c in law.items() if r // span == i) for i in range(len(hitters.levels))]
        assert shares == [Fraction(1, len(hitters.levels))] * len(hitters.levels)


def test_texts_that_nobody_listed_are_found() -> None:
    rng = np.random.default_rng(5)
    rare = ["".join(row) for row in rng.choice(list(LETTERS), (30_000, 6)).tolist()]
    held = ["rabbit"] * 30_000 + ["tortoises"] * 24_000 + ["ox"] * 16_000 + rare
    hitters = HeavyHitters(epsilon=3, length=7, alphabet=LETTERS)
    reports = hitters.randomize(held)
    found = hitters.find(reports, error=Fraction(1, 10**9))
    assert set(found.labels) == {"rabbit", "tortois", "ox"}
    truth = {"rabbit": 0.3, "tortois": 0.24, "ox": 0.16}
    for (text, share), deviation in zip(found, found.standard_error.tolist(), strict=True):
        assert abs(share - truth[str(text)]) < ALARM * deviation
    asked = hitters.estimate(reports, domain=["ox", "owl"])
    assert abs(asked.values[1]) < ALARM * asked.standard_error[1]
    assert asked.values[0] == pytest.approx(dict(found)["ox"], abs=1e-12)


def test_texts_of_bytes_are_found_across_alphabets() -> None:
    held = ["größe"] * 14_000 + ["日本"] * 13_000 + ["x"] * 13_000
    hitters = HeavyHitters(epsilon=3, length=7)
    found = hitters.find(hitters.randomize(np.array(held)), error=Fraction(1, 10**9))
    assert set(found.labels) == {"größe", "日本", "x"}


def test_when_nothing_is_frequent_nothing_is_found() -> None:
    rng = np.random.default_rng(6)
    rare = ["".join(row) for row in rng.choice(list(LETTERS), (20_000, 6)).tolist()]
    hitters = HeavyHitters(epsilon=3, length=6, alphabet=LETTERS)
    assert len(hitters.find(hitters.randomize(rare), error=Fraction(1, 10**9))) == 0


def test_spelling_and_reading_agree() -> None:
    spelling = read_spelling(5, "abcé")
    rows = spelling.rows(["", "abc", "aXbYc", "ééééééé", "ab\0ca", "abcabcabc", "XYZXYZabc"])
    assert [spelling.text(r) for r in rows] == ["", "abc", "abc", "ééééé", "ab", "abcab", "abc"]
    utf8 = Spelling(4, None)
    assert [utf8.text(r) for r in utf8.rows(["", "ö", "abcdef", "öööö", "a\0b"])] == ["", "ö", "abcd", "öö", "a"]


def test_beginnings_of_equal_texts_are_equal_and_of_others_differ() -> None:
    spelling, hashes = Spelling(6, LETTERS), Beginnings("salt")
    rows = spelling.rows([f"{a}{b}{c}" for a in "abcdefghij" for b in "abcdefghij" for c in "abcdefghij"])
    words = hashes.start(len(rows))
    for i in range(6):
        words = hashes.longer(words, rows[:, i])
    assert len(set(words.tolist())) == 1000
    counts = np.bincount(hashes.buckets(words, 0, 20), minlength=20)
    assert stats.chisquare(counts).pvalue > 1e-9
    joint = hashes.buckets(words, 0, 4) * 4 + hashes.buckets(words, 1, 4)
    assert stats.chisquare(np.bincount(joint, minlength=16)).pvalue > 1e-9


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0},
        {"epsilon": math.inf},
        {"length": 0},
        {"length": 2.5},
        {"length": True},
        {"length": 10**6},
        {"alphabet": ""},
        {"alphabet": "aa"},
        {"alphabet": "a\0"},
        {"alphabet": 7},
        {"alphabet": ["a", "b"]},
        {"keep": 0},
        {"keep": 10**6},
        {"salt": b"x"},
    ],
    ids=str,
)
def test_impossible_parameters_are_refused(given: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"epsilon": 1, "length": 4, "alphabet": LETTERS}
    with pytest.raises(InvalidParameter):
        HeavyHitters(**(asked | given))


def test_what_is_no_report_no_domain_or_no_error_is_refused() -> None:
    hitters = HeavyHitters(epsilon=1, length=4, alphabet=LETTERS)
    reports = hitters.randomize(["tree"] * 10)
    for bad in ([], [0.5], ["a"], [-1], [1 << 60], [[1]], np.ma.array([1])):
        with pytest.raises(InvalidParameter):
            hitters.find(bad)
    for domain in (None, [], [7], ""):
        with pytest.raises(InvalidParameter):
            hitters.estimate(reports, domain=domain)
    for error in (0, 1, math.nan, "much"):
        with pytest.raises(InvalidParameter):
            hitters.find(reports, error=error)
        with pytest.raises(InvalidParameter):
            LocalHashing(4, epsilon=1).find([1], error=error)
    with pytest.raises(InvalidParameter):
        hitters.randomize(np.zeros((2, 2)))
    with pytest.raises(InvalidParameter, match="HeavyHitters"):
        LocalHashing(1 << 30, epsilon=1)
    with pytest.raises(InvalidParameter):
        LocalHashing(4, epsilon=1).estimate([10**12])


def test_they_are_frozen_values_that_explain_themselves() -> None:
    for made in (LocalHashing(["a", "b"], epsilon="0.5"), HeavyHitters(epsilon="0.5", length=8, alphabet=LETTERS)):
        assert pickle.loads(pickle.dumps(made)) == made
        title, *steps = made.explain().splitlines()
        assert title == repr(made) and len(steps) >= 4 and "0.5-DP" in made.explain()
        assert made.loss.epsilon(0) == pytest.approx(0.5, rel=1e-9)
        assert made.error(1000) == pytest.approx(10 * made.error(100_000), rel=1e-6)
        daily = Memoised(made)
        assert len({daily.randomize("a") for _ in range(5)}) == 1
    hitters = HeavyHitters(epsilon=1, length=3, alphabet="abc")
    assert hitters.randomize([]).shape == (0,) == HeavyHitters(epsilon=1, length=3).randomize([]).shape
    assert hitters.key("abXcba") == hitters.key("abc") != hitters.key("ab")


@pytest.mark.slow
def test_of_a_million_texts_the_frequent_ones_are_found() -> None:
    """Zipf's law over 1e6 texts and as many devices, ε = 2: all of the 10 most frequent, and none that nobody holds."""
    rng = np.random.default_rng(7)
    n = 10**6
    share = 1 / np.arange(1, n + 1)
    held = rng.choice(n, n, p=share / share.sum())
    words = [f"w{i}" for i in range(n)]
    oracle = LocalHashing(words, epsilon=2)
    found = oracle.find(oracle.randomize([words[i] for i in held]))
    assert set(found.labels) >= set(words[:8])
    assert all(int(str(label)[1:]) < 200 for label in found.labels)
