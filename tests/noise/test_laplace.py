"""Discrete Laplace noise has its stated law, at every scale, in scalars and vectors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.noise import laplace
from discreet.noise.entropy import SystemEntropy
from tests.noise.laws import Script, agrees, edges_of, laplace_below, word

ODD = Fraction(10**30 + 1, 3 * 10**29)
SCALES = [Fraction(1, 3), Fraction(1), ODD, Fraction(100), Fraction(300), Fraction(1000), Fraction(1 << 40)]
RNG = SystemEntropy()


def fits(draws: NDArray[np.int64], scale: Fraction) -> bool:
    edges = edges_of(scale)
    return agrees(draws, edges, [float(laplace_below(scale, k)) for k in edges])


@pytest.mark.parametrize("scale", [*SCALES, Fraction(1 << 56), Fraction(127), Fraction(128)], ids=str)
def test_a_vector_has_the_law_and_not_one_two_percent_away(scale: Fraction) -> None:
    draws = laplace.sample_vector(scale, 1_000_000, RNG)
    assert draws.dtype == np.int64
    assert fits(draws, scale)
    assert not fits(draws, scale * Fraction(102, 100))
    assert not fits(draws, scale * Fraction(98, 100))


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_scalars_have_the_law_and_not_one_fifteen_percent_away(scale: Fraction) -> None:
    draws = np.array([laplace.sample(scale, RNG) for _ in range(20_000)])
    assert fits(draws, scale)
    assert not fits(draws, scale * Fraction(115, 100))
    assert not fits(draws, scale * Fraction(85, 100))


def test_a_scale_beyond_int64_has_the_law_too() -> None:
    scale = Fraction(10**40, 3)
    draws = [laplace.sample(scale, RNG) for _ in range(20_000)]
    assert max(map(abs, draws)) > 1 << 100
    shrunk = np.array([x // 10**30 for x in draws])
    assert fits(shrunk, scale / 10**30)


@pytest.mark.parametrize("scale", [Fraction(1000), Fraction(3 << 38), Fraction(1 << 56)], ids=str)
def test_low_digits_are_uniform_where_the_scale_is_large(scale: Fraction) -> None:
    # Every P(X mod 8 = r) differs from 1/8 by less than 1/scale.
    draws = laplace.sample_vector(scale, 400_000, RNG)
    counts = np.bincount((draws % 8).astype(np.int64), minlength=8)
    assert (np.abs(counts - 50_000) < 50_000 * 8 / float(scale) + 7 * 210).all()


def test_small_vectors_are_scalars_and_large_ones_agree_with_them_in_law() -> None:
    few = laplace.sample_vector(Fraction(3), 100, Script())
    one_by_one = Script()
    assert few.tolist() == [laplace.sample(Fraction(3), one_by_one) for _ in range(100)]


def test_a_tiny_scale_is_nearly_always_zero() -> None:
    assert not laplace.sample_vector(Fraction(1, 1000), 100_000, RNG).any()
    assert not laplace.sample_vector(Fraction(1, 10**300), 1_000, RNG).any()
    assert all(laplace.sample(Fraction(1, 1000), RNG) == 0 for _ in range(100))
    assert laplace.sample(Fraction(1, 10**300), RNG) == 0


def test_a_tiny_scale_is_not_always_zero() -> None:
    # a word of the last prefix, minus, then the residual law's last word, extended into the tail
    scale = Fraction(1, 300)
    script = Script(word((1 << 16) - 1, 2) + bytes(2 * 256) + b"\xff" * 8 * 60 + bytes(64))
    draws = laplace.sample_vector(scale, 257, script)
    assert draws[0] < 0


def test_minus_zero_is_drawn_anew() -> None:
    zero = word(0) + word(0) + word(1, 1) + word(0, 9)  # cell 0, accepted, minus, at its lower end
    one = word(1 << 63) + word(0) + word(1, 1) + word(0, 9)
    script = Script(zero + zero + one)
    assert laplace.sample(Fraction(2), script) == -1
    assert len(script.used) == 3 * 26


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1)])
def test_a_scale_that_is_not_above_zero_is_refused(scale: Fraction) -> None:
    with pytest.raises(InvalidParameter, match="above 0"):
        laplace.sample(scale, RNG)
    with pytest.raises(InvalidParameter, match="above 0"):
        laplace.sample_vector(scale, 3, RNG)


def test_a_vector_refuses_what_int64_cannot_hold() -> None:
    assert laplace.sample_vector(Fraction(1 << 56), 3, RNG).dtype == np.int64
    with pytest.raises(InvalidParameter, match=r"2\^56"):
        laplace.sample_vector(Fraction((1 << 56) + 1), 3, RNG)
    with pytest.raises(InvalidParameter, match="size"):
        laplace.sample_vector(Fraction(1), -1, RNG)
    assert laplace.sample_vector(Fraction(1), 0, RNG).shape == (0,)
