"""Uniform integers: exact by enumeration where that is possible, by chi-square and replay elsewhere."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.noise.entropy import SystemEntropy, below, below_vector
from discreet.testing.replay import ReplayEntropy, exact_law
from tests.noise.chi_square import accepts, refuses


@pytest.mark.parametrize("n", [2, 3, 7, 100, 255, 256])
def test_every_number_below_n_has_the_same_chance_by_enumeration(n: int) -> None:
    law, undecided = exact_law(lambda rng: below(n, rng), 1)
    assert law.keys() == set(range(n))
    assert len(set(law.values())) == 1
    assert sum(law.values()) + undecided == 1
    assert undecided < Fraction(1, 2)


def test_rejection_goes_on_with_fresh_bytes() -> None:
    law, undecided = exact_law(lambda rng: below(200, rng), 2)
    assert set(law.values()) == {Fraction(1, 256) * (1 + Fraction(56, 256))}
    assert undecided == Fraction(56, 256) ** 2


def test_one_candidate_needs_no_randomness() -> None:
    assert below(1, ReplayEntropy(b"")) == 0
    assert below_vector(1, 5, ReplayEntropy(b"")).tolist() == [0] * 5


def test_big_integers_fill_their_range() -> None:
    n = 3 * 2**300
    drawn = [below(n, SystemEntropy()) for _ in range(2000)]
    assert all(0 <= d < n for d in drawn)
    assert accepts((d >> 298 for d in drawn), [1 / 12] * 12)
    assert refuses((d >> 298 for d in drawn), [1 / 16] * 4 + [1 / 8] * 4 + [1 / 16] * 4, [1 / 12] * 12)


def test_words_of_a_power_of_two_are_exactly_uniform_by_enumeration() -> None:
    law, undecided = exact_law(lambda rng: int(below_vector(8, 1, rng)[0]), 2)
    assert law == {i: Fraction(1, 8) for i in range(8)}
    assert undecided == 0


@pytest.mark.parametrize("n", [3, 10, 1000, 65535, 65537, 100_000, 2**32 - 1, 2**32 + 1, 2**62 + 1])
def test_vectors_are_uniform_and_a_tenth_more_on_one_half_would_show(n: int) -> None:
    drawn = below_vector(n, 100_000, SystemEntropy())
    assert drawn.dtype == np.int64
    assert drawn.min() >= 0
    assert drawn.max() < n
    cells = min(n, 20)
    edges = [n * i // cells for i in range(cells + 1)]
    chances = [(b - a) / n for a, b in itertools.pairwise(edges)]
    at = np.searchsorted(np.array(edges[1:], dtype=np.int64), drawn, side="right")
    assert accepts(at, chances)
    assert refuses(at, [c * (1.1 if i < cells // 2 else 0.9) for i, c in enumerate(chances)], chances)


def test_vectors_at_the_limit_use_every_bit() -> None:
    drawn = below_vector(2**63, 10_000, SystemEntropy())
    assert drawn.min() >= 0
    for bit in range(63):
        assert 4000 < int((drawn >> bit & 1).sum()) < 6000  # a fair bit strays so far with chance < 1e-80


def test_vectors_and_scalars_keep_their_order_in_the_accepted_words() -> None:
    words = np.array([5 << 13, 7 << 13, 2 << 13, *[0] * 40], dtype="<u2")
    assert below_vector(6, 2, ReplayEntropy(words.tobytes())).tolist() == [5, 2]


def test_an_empty_vector_is_empty() -> None:
    assert below_vector(10, 0, ReplayEntropy(b"")).size == 0


def test_ranges_that_make_no_sense_are_refused() -> None:
    rng = ReplayEntropy(b"")
    for n in (0, -1):
        with pytest.raises(InvalidParameter):
            below(n, rng)
    for n in (0, 2**63 + 1):
        with pytest.raises(InvalidParameter):
            below_vector(n, 1, rng)
    with pytest.raises(InvalidParameter):
        below_vector(2, -1, rng)
