"""Coins have the chance that they say, and rounding goes to the private side."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from discreet.errors import InternalError, InvalidParameter
from discreet.local.coins import WHOLE, Coin, check_ratio, exp_floor, is_within, rounded_coin, weighted_flips
from discreet.noise.entropy import SystemEntropy
from tests.noise.laws import Script, word

ALARM = 1e-9
N = 1 << 20


def exp(epsilon: Fraction) -> mp.mpf:
    return mp.exp(mp.mpf(epsilon.numerator) / epsilon.denominator)


@pytest.mark.parametrize("weight", [0, 1, 0x1234_5678_9ABC_DEF0, 1 << 48, (1 << 63) + 1, WHOLE - 1])
def test_a_flip_compares_a_uniform_number_of_64_bits_with_the_weight(weight: int) -> None:
    coin = Coin(weight)
    for u in (0, weight - 1, weight, weight + 1, WHOLE - 1):
        if 0 <= u < WHOLE:
            assert coin.flip(Script(word(u))) == (u < weight)
            first, rest = u >> 48, u & (1 << 48) - 1
            script = Script(word(first, 2) + word(rest << 16))  # the second word is read on a tie only
            assert coin.flips(1, script).tolist() == [u < weight]
            tie = first == weight >> 48 and weight & (1 << 48) - 1 != 0
            assert len(script.used) == (10 if tie else 2)


def test_certain_coins_need_no_luck() -> None:
    assert Coin(WHOLE).flips(5, Script()).all() and Coin(WHOLE).flip(Script(pattern=b"\xff"))
    assert not Coin(0).flips(5, Script(pattern=b"\0")).any()


@pytest.mark.parametrize("weight", [1 << 47, 3 * (1 << 47), (1 << 62) + (1 << 47), WHOLE - (1 << 48)], ids=hex)
def test_many_flips_have_the_chance_and_not_another(weight: int) -> None:
    coin = Coin(weight)
    heads = int(coin.flips(N, SystemEntropy()).sum())
    assert stats.binomtest(heads, N, weight / WHOLE).pvalue > ALARM
    if weight < 1 << 48:  # without the refinement of ties these would come out as whole 2^−16ths
        for wrong in (weight >> 48, (weight >> 48) + 1):
            many = int(coin.flips(32 * N, SystemEntropy()).sum())
            assert stats.binomtest(many, 32 * N, wrong / (1 << 16)).pvalue < ALARM


def test_flips_with_a_weight_each_compare_each_with_its_own() -> None:
    weights = np.array([[0, 1], [1 << 63, WHOLE - 1]], dtype=np.uint64)
    drawn = word(0) + word(0) + word(1 << 63) + word(WHOLE - 2)
    assert weighted_flips(weights, Script(drawn)).tolist() == [[False, True], [False, True]]


@pytest.mark.parametrize("odds", [Fraction(1), Fraction(1, 99), Fraction(27, 73), Fraction(5, 2)], ids=str)
@pytest.mark.parametrize(
    "epsilon", [Fraction(1, 10**6), Fraction(1, 3), Fraction(1), Fraction(7), Fraction(40)], ids=str
)
def test_a_rounded_coin_is_the_largest_that_keeps_the_ratio(epsilon: Fraction, odds: Fraction) -> None:
    weight = rounded_coin(epsilon, odds).weight
    with mp.workdps(60):
        bound = exp(epsilon) * odds.numerator / odds.denominator
        assert mp.mpf(weight) / (WHOLE - weight) <= bound
        assert weight == WHOLE - 1 or mp.mpf(weight + 1) / (WHOLE - weight - 1) > bound


def test_a_ratio_is_compared_with_e_to_epsilon_to_many_digits() -> None:
    with mp.workdps(100):
        near = Fraction(int(mp.e * mp.mpf(10) ** 70), 10**70)
    assert is_within(near, Fraction(1)) and not is_within(near + Fraction(2, 10**70), Fraction(1))
    check_ratio(near, Fraction(1))
    with pytest.raises(InternalError, match="likelihood ratio"):
        check_ratio(near + Fraction(1, 10**60), Fraction(1))
    assert abs(near - exp_floor(Fraction(1))) < Fraction(1, 10**60)


def test_a_coin_that_could_not_show_epsilon_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="too small"):
        rounded_coin(Fraction(1, 10**25))
    with pytest.raises(InvalidParameter, match="weight"):
        Coin(WHOLE + 1)
