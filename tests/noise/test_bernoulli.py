"""Coins with exact chances: the answer turns at exactly the right uniform number, however close it is."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.noise.bernoulli import bernoulli, exp_neg, scaled_exp_neg
from discreet.noise.entropy import SystemEntropy
from tests.noise.chi_square import accepts, refuses
from tests.noise.reals import replayed

NEAR = Fraction(1, 2**250)
WORDS = (8, 8, 8, 8)


def fraction(value: mpmath.mpf) -> Fraction:
    """The exact value of an mpmath number."""
    mantissa, exponent = mpmath.frexp(value)
    return Fraction(int(mpmath.ldexp(mantissa, 900))) * Fraction(2) ** (int(exponent) - 900)


def exponential(x: Fraction) -> Fraction:
    """exp(−x) to 800 bits."""
    with mpmath.workprec(800):
        return fraction(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator))


@given(p=st.fractions(0, 1, max_denominator=10**30))
@example(p=Fraction(0))
@example(p=Fraction(1))
@example(p=Fraction(1, 2))
@example(p=Fraction(1, 2**64))
@example(p=Fraction(1, 2**128))
def test_a_coin_is_true_exactly_below_its_chance(p: Fraction) -> None:
    if p + NEAR < 1:
        assert not bernoulli(p, replayed(p + NEAR, WORDS))
    if p - NEAR >= 0:
        assert bernoulli(p, replayed(p - NEAR, WORDS))


@pytest.mark.parametrize("bits", [1, 63, 64, 65, 128])
def test_a_coin_whose_expansion_ends_is_false_at_its_chance_itself(bits: int) -> None:
    p = Fraction(3, 2 ** (bits + 1))
    assert not bernoulli(p, replayed(p, WORDS))
    assert bernoulli(p, replayed(p - NEAR, WORDS))


def test_the_certain_coins_are_certain() -> None:
    for u in (Fraction(0), 1 - NEAR):
        assert not bernoulli(Fraction(0), replayed(u, WORDS))
        assert bernoulli(Fraction(1), replayed(u, WORDS))
        assert exp_neg(Fraction(0), replayed(u, WORDS))


def test_a_tie_of_a_word_is_decided_by_the_next_and_only_then() -> None:
    rng = replayed(Fraction(1, 3), WORDS)
    bernoulli(Fraction(1, 3) - Fraction(1, 2**100), rng)
    assert rng.left == 16
    rng = replayed(Fraction(1, 4), WORDS)
    bernoulli(Fraction(1, 3), rng)
    assert rng.left == 24


@given(x=st.fractions(0, 150).filter(bool))
@example(x=Fraction(1))
@example(x=Fraction(1, 10**12))
@example(x=Fraction(100))
def test_an_exponential_coin_is_true_exactly_below_its_chance(x: Fraction) -> None:
    chance = exponential(x)
    assert exp_neg(x, replayed(chance - NEAR, WORDS))
    assert not exp_neg(x, replayed(chance + NEAR, WORDS))


def test_an_exponential_coin_of_a_huge_argument_needs_one_word() -> None:
    rng = replayed(Fraction(1, 2**60), WORDS)
    assert not exp_neg(Fraction(10**100), rng)
    assert rng.left == 24


@pytest.mark.parametrize("known", [32, 64])
@pytest.mark.parametrize("shift", [0, 45])
@pytest.mark.parametrize("excess", [0, 1, 10**9])
def test_a_scaled_coin_is_true_exactly_below_its_chance(known: int, shift: int, excess: int) -> None:
    x = Fraction(22, 7)
    target = exponential(x) * 2**shift
    weight = int(target) + 1 + excess
    for side in (-1, 1):
        u = target / weight + side * NEAR
        drawn, rest = divmod(u * 2**known, 1)
        true = scaled_exp_neg(x, replayed(rest, WORDS), drawn=int(drawn), known=known, weight=weight, shift=shift)
        assert true == (side < 0)


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(2)])
def test_frequencies_are_right_and_a_chance_off_by_a_fifth_would_show(x: Fraction) -> None:
    rng = SystemEntropy()
    p = float(exponential(x))
    tosses = [int(exp_neg(x, rng)) for _ in range(30_000)]
    assert accepts(tosses, [1 - p, p])
    assert refuses(tosses, [1 - 1.2 * p, 1.2 * p], [1 - p, p])
    plain = [int(bernoulli(Fraction(2, 7), rng)) for _ in range(30_000)]
    assert accepts(plain, [5 / 7, 2 / 7])
    assert refuses(plain, [1 - 2.4 / 7, 2.4 / 7], [5 / 7, 2 / 7])


def test_chances_that_are_none_are_refused() -> None:
    rng = replayed(Fraction(0), WORDS)
    for p in (Fraction(-1, 2), Fraction(3, 2)):
        with pytest.raises(InvalidParameter):
            bernoulli(p, rng)
    with pytest.raises(InvalidParameter):
        exp_neg(Fraction(-1), rng)
