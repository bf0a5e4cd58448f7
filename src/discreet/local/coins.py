"""Coins whose chances are whole numbers over 2^64, rounded to the private side."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError, InvalidParameter
from discreet.noise.entropy import Entropy, bits, words16, words64
from discreet.noise.fixedpoint import exp_neg

BITS = 64
WHOLE = 1 << BITS
_REST = BITS - 16
_BLOCK = 1 << 17  # flips at a time: their bits stay in a cache
_PRECISION = 256  # bits of the enclosure of e^−ε in which ratios are compared


@dataclass(frozen=True, slots=True)
class Coin:
    """A coin that shows heads with chance exactly weight/2^64.

    Guarantee:
        A uniform 64-bit number is compared with the weight: in one piece for a single flip; by its first 16 bits for
        many, where the other 48 are drawn only on a tie. Both are the comparison of the whole number.
    """

    weight: int

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= WHOLE:
            raise InvalidParameter("the weight of a coin must lie between 0 and 2^64.")

    @property
    def chance(self) -> Fraction:
        """The chance of heads, exactly."""
        return Fraction(self.weight, WHOLE)

    def flip(self, rng: Entropy) -> bool:
        """One flip."""
        return bits(rng, BITS) < self.weight

    def flips(self, n: int, rng: Entropy) -> NDArray[np.bool_]:
        """So many independent flips."""
        heads = np.empty(n, dtype=np.bool_)
        if self.weight == WHOLE:
            heads.fill(True)
            return heads
        first, rest = divmod(self.weight, 1 << _REST)
        for start in range(0, n, _BLOCK):
            part = heads[start : start + _BLOCK]
            drawn = words16(rng, part.size)
            np.less(drawn, np.uint16(first), out=part)
            if rest:
                ties = np.flatnonzero(drawn == np.uint16(first))
                part[ties] = words64(rng, ties.size) >> np.uint64(BITS - _REST) < np.uint64(rest)
        return heads


def weighted_flips(weights: NDArray[np.uint64], rng: Entropy) -> NDArray[np.bool_]:
    """One flip for each weight w < 2^64, with chance exactly w/2^64: for chances that follow from data."""
    return (words64(rng, weights.size) < weights.ravel()).reshape(weights.shape)


def rounded_coin(epsilon: Fraction, odds: Fraction = Fraction(1)) -> Coin:
    """Return the coin whose odds for heads are the largest multiple of 2^−64 that is surely at most odds·e^ε.

    A randomizer that puts p evenly on `a` answers and 1 − p evenly on the `b` others has likelihood ratio
    p·b/((1 − p)·a), which is at most e^ε for the coin with odds a/b.

    Guarantee:
        weight/(2^64 − weight) ≤ odds·e^ε, by comparing integers with a proved upper bound of e^−ε.

    Raises:
        InvalidParameter: ε is so small that the coin could not be told from one that ignores it.
    """
    _, high = exp_neg(epsilon, _PRECISION)  # e^−ε ≤ high/2^256
    a, b = odds.numerator, odds.denominator
    # w·e^−ε·b ≤ a·(2^64 − w)
    weight = (a << (_PRECISION + BITS)) // ((a << _PRECISION) + b * high)
    coin = Coin(min(weight, WHOLE - 1))
    check_ratio(coin.chance / ((1 - coin.chance) * odds), epsilon)
    if coin.weight * b <= a * (WHOLE - coin.weight):  # odds that ignore the value altogether
        raise InvalidParameter("epsilon is too small for chances of 64 bits.", hint="take a larger epsilon")
    return coin


def is_within(ratio: Fraction, epsilon: Fraction) -> bool:
    """Return whether a likelihood ratio is proved to be at most e^ε, in integers."""
    _, high = exp_neg(epsilon, _PRECISION)
    return ratio.numerator * high <= ratio.denominator << _PRECISION


def exp_floor(epsilon: Fraction) -> Fraction:
    """Return a fraction just below e^ε, by 2^−90 of it for ε up to 100, the same on every machine: for choices."""
    _, high = exp_neg(epsilon, _PRECISION)
    return Fraction(1 << _PRECISION, high)


def check_ratio(ratio: Fraction, epsilon: Fraction) -> None:
    """Refuses a likelihood ratio that is not proved to be at most e^ε.

    Raises:
        InternalError: it is larger: rounding went the wrong way.
    """
    if not is_within(ratio, epsilon):
        raise InternalError("a randomizer's chances have a likelihood ratio above e^ε; nothing was reported.")
