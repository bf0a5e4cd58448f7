"""Both Gaussian laws on the integers have their stated law, and are not each other's."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.noise import gaussian
from discreet.noise.entropy import SystemEntropy
from tests.noise.laws import Script, agrees, discrete_below, edges_of, rounded_below

ODD = Fraction(10**30 + 1, 3 * 10**29)
SIGMAS = [Fraction(1, 3), Fraction(1), ODD, Fraction(40), Fraction(300), Fraction(1 << 40)]
RNG = SystemEntropy()


def fits_rounded(draws: NDArray[np.int64], sigma: Fraction) -> bool:
    edges = edges_of(sigma)
    return agrees(draws, edges, [float(rounded_below(sigma, k)) for k in edges])


def fits_discrete(draws: NDArray[np.int64], sigma: Fraction) -> bool:
    edges = edges_of(sigma)
    return agrees(draws, edges, [float(discrete_below(sigma * sigma, k)) for k in edges])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sigma", [*SIGMAS, Fraction(63), Fraction(64), Fraction(1 << 56)], ids=str)
def test_a_rounded_vector_has_the_law_and_not_one_three_percent_away(sigma: Fraction) -> None:
    draws = gaussian.rounded_vector(sigma, 500_000, RNG)
    assert draws.dtype == np.int64
    assert fits_rounded(draws, sigma)
    assert not fits_rounded(draws, sigma * Fraction(103, 100))
    assert not fits_rounded(draws, sigma * Fraction(97, 100))


@pytest.mark.parametrize("sigma", [*SIGMAS, Fraction(127), Fraction(128), Fraction(1 << 56)], ids=str)
def test_a_discrete_vector_has_the_law_and_not_one_three_percent_away(sigma: Fraction) -> None:
    draws = gaussian.discrete_vector(sigma * sigma, 500_000, RNG)
    assert draws.dtype == np.int64
    assert fits_discrete(draws, sigma)
    assert not fits_discrete(draws, sigma * Fraction(103, 100))
    assert not fits_discrete(draws, sigma * Fraction(97, 100))


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_rounded_scalars_have_the_law_and_not_one_fifteen_percent_away(sigma: Fraction) -> None:
    draws = np.array([gaussian.rounded(sigma, RNG) for _ in range(20_000)])
    assert fits_rounded(draws, sigma)
    assert not fits_rounded(draws, sigma * Fraction(115, 100))
    assert not fits_rounded(draws, sigma * Fraction(85, 100))


@pytest.mark.parametrize("sigma", [*SIGMAS[1:], Fraction(1, 2)], ids=str)
def test_discrete_scalars_have_the_law_and_not_one_fifteen_percent_away(sigma: Fraction) -> None:
    draws = np.array([gaussian.discrete(sigma * sigma, RNG) for _ in range(15_000)])
    assert fits_discrete(draws, sigma)
    assert not fits_discrete(draws, sigma * Fraction(115, 100))
    assert not fits_discrete(draws, sigma * Fraction(85, 100))


def test_the_two_laws_are_told_apart() -> None:
    sigma = Fraction(1)
    assert not fits_discrete(gaussian.rounded_vector(sigma, 500_000, RNG), sigma)
    assert not fits_rounded(gaussian.discrete_vector(sigma, 1_000_000, RNG), sigma)


@pytest.mark.parametrize("square", [Fraction(2), Fraction(10, 3), ODD], ids=str)
def test_a_sigma_squared_without_a_rational_root_is_fine(square: Fraction) -> None:
    edges = list(range(-12, 13))
    below = [float(discrete_below(square, k)) for k in edges]
    assert agrees(gaussian.discrete_vector(square, 300_000, RNG), edges, below)
    assert agrees(np.array([gaussian.discrete(square, RNG) for _ in range(10_000)]), edges, below)


def test_a_sigma_beyond_int64_has_the_law_too() -> None:
    sigma = Fraction(10**40, 3)
    draws = [gaussian.rounded(sigma, RNG) // 10**30 for _ in range(10_000)]
    assert fits_rounded(np.array(draws), sigma / 10**30)
    draws = [gaussian.discrete(sigma * sigma, RNG) // 10**30 for _ in range(10_000)]
    assert fits_rounded(np.array(draws), sigma / 10**30)


@pytest.mark.parametrize("draw", [gaussian.rounded_vector, gaussian.discrete_vector])
@pytest.mark.parametrize("scale", [Fraction(1000), Fraction(3 << 38), Fraction(1 << 56)], ids=str)
def test_low_digits_are_uniform_where_sigma_is_large(draw: object, scale: Fraction) -> None:
    # Both laws have every P(X mod 8 = r) = 1/8 but for far less than 2^−60, by Poisson summation.
    if draw is gaussian.rounded_vector:
        draws = gaussian.rounded_vector(scale, 400_000, RNG)
    else:
        draws = gaussian.discrete_vector(scale * scale, 400_000, RNG)
    counts = np.bincount((draws % 8).astype(np.int64), minlength=8)
    assert (np.abs(counts - 50_000) < 7 * 210).all()


def test_small_vectors_are_scalars() -> None:
    sigma = Fraction(3)
    script, one_by_one = Script(), Script()
    assert gaussian.rounded_vector(sigma, 50, script).tolist() == [
        gaussian.rounded(sigma, one_by_one) for _ in range(50)
    ]
    script, one_by_one = Script(), Script()
    assert gaussian.discrete_vector(sigma, 9, script).tolist() == [
        gaussian.discrete(sigma, one_by_one) for _ in range(9)
    ]


def test_a_tiny_sigma_is_nearly_always_zero() -> None:
    for sigma in (Fraction(1, 100), Fraction(1, 10**6), Fraction(1, 10**200)):
        assert not gaussian.rounded_vector(sigma, 1_000, RNG).any()
        assert not gaussian.discrete_vector(sigma * sigma, 1_000, RNG).any()
        assert gaussian.rounded(sigma, RNG) == gaussian.discrete(sigma * sigma, RNG) == 0


def test_the_proposal_of_the_discrete_law_is_accepted_with_the_exact_chance() -> None:
    for p, q in ((1, 3), (7, 2), (10**30, 10**29 + 1)):
        with mpmath.workprec(300):
            border = int(mpmath.ldexp(mpmath.exp(-mpmath.mpf(p) / q), 64))
        for u, accepted in ((border - 1, True), (border + 1, False), (border - (1 << 40), True), (0, True)):
            if u >= 0:
                assert gaussian._happens(p, q, Script(u.to_bytes(8, "little"))) is accepted
    assert gaussian._happens(10**400, 1, Script()) is False
    assert gaussian._happens(0, 5, Script(b"\xff" * 8)) is True
    assert gaussian._happens(100, 1, Script(bytes(8) + bytes(16))) is True  # and not cut off at 2^−64


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_a_sigma_that_is_not_above_zero_is_refused(bad: Fraction) -> None:
    for draw in (gaussian.rounded, gaussian.discrete):
        with pytest.raises(InvalidParameter, match="above 0"):
            draw(bad, RNG)
    for draw_vector in (gaussian.rounded_vector, gaussian.discrete_vector):
        with pytest.raises(InvalidParameter, match="above 0"):
            draw_vector(bad, 3, RNG)


def test_a_vector_refuses_what_int64_cannot_hold() -> None:
    with pytest.raises(InvalidParameter, match=r"2\^56"):
        gaussian.rounded_vector(Fraction((1 << 56) + 1), 3, RNG)
    with pytest.raises(InvalidParameter, match=r"2\^112"):
        gaussian.discrete_vector(Fraction((1 << 112) + 1), 3, RNG)
    with pytest.raises(InvalidParameter, match="size"):
        gaussian.rounded_vector(Fraction(1), -1, RNG)
    with pytest.raises(InvalidParameter, match="size"):
        gaussian.discrete_vector(Fraction(1), -1, RNG)
    assert gaussian.rounded_vector(Fraction(1), 0, RNG).shape == (0,)
    assert gaussian.discrete_vector(Fraction(1), 0, RNG).shape == (0,)
