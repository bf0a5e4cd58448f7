"""Hadamard response: one short number, from which all shares follow by a fast transform."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.coins import Coin, exp_floor, rounded_coin
from discreet.local.domain import Places
from discreet.local.frequency import FrequencyOracle, Integers, Scores, whole_reports
from discreet.local.randomizer import numbered
from discreet.noise.entropy import Entropy, below_vector
from discreet.privacy.exact import Real, above, set_fields
from discreet.privacy.guarantee import decimal

_MOST = 1 << 26  # outcomes: the server's table
_SLACK = 1e-30


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Hadamard(FrequencyOracle):
    """Reports one of K < 4k numbers: out of the set C(x) of the device's value with chance p, else out of the others.

    The outcomes are B blocks of b. A value has a block and a row of the Hadamard matrix of order b, not the first; C(x)
    is where that row is +1 in that block: b/2 outcomes, half of which lie in C(x') for another value of the same block.
    p = e^ε/(e^ε + 2B − 1), and B is near e^ε/2. Reports are whole numbers of log₂K bits, whatever the
    domain, and the server needs O(K log K) steps.

    Guarantee:
        Each report is ε-DP for any two values of the device, inside or outside of the domain. p is rounded down to a
        multiple of 2^−64, so that p(2B − 1)/(1 − p) ≤ e^ε is proved in integers.

    References:
        Acharya, Sun, Zhang 2019 (high privacy: B = 1; in general: B blocks), https://arxiv.org/abs/1802.04705;
        docs/proofs/hadamard-response.md

    >>> Hadamard(1000, epsilon=2).outcomes
    1024
    """

    blocks: int
    order: int
    coin: Coin

    def __init__(self, domain: int | Iterable[Hashable], *, epsilon: Real, other: Hashable | None = None) -> None:
        FrequencyOracle.__init__(self, domain, epsilon=epsilon, other=other)
        k = self.domain.size
        blocks = _blocks(k, exp_floor(self.epsilon))
        order = 1 << (-(-k // blocks)).bit_length()  # the least power of two above k/B
        if blocks * order > _MOST:
            raise InvalidParameter(
                f"domain must hold fewer values than {k:,} here: the server's table would have {blocks * order:,} "
                "numbers.",
                hint="a sketch or a search for heavy hitters is for large domains",
            )
        set_fields(self, blocks=blocks, order=order)
        object.__setattr__(self, "coin", rounded_coin(self.epsilon, Fraction(1, 2 * blocks - 1)))

    @property
    def outcomes(self) -> int:
        """How many different reports there are."""
        return self.blocks * self.order

    @property
    def scores(self) -> Scores:
        """+1 in C(x), −1 in the rest of its block, 0 elsewhere."""
        p = self.coin.chance
        rest = (1 - p) / (2 * self.blocks - 1)  # the chance of each other set of b/2 outcomes
        own = p - rest
        near, far = p + rest, 2 * rest  # the chance of the block, for a value in it and for one in another
        other = near if self.domain.size > self.blocks else far
        return Scores(own, Fraction(0), near - own**2, max(other, far), 1 + own)

    def _reports(self, places: Places, rng: Entropy) -> NDArray[Any]:
        n = places.size
        rows, blocks = places // self.blocks + 1, places % self.blocks
        inside = self.coin.flips(n, rng)
        # The outcomes beyond C(x) are 2B − 1 halves: 0 is the other half of its own block, 1 … are all other blocks.
        half = below_vector(2 * self.blocks - 1, n, rng)
        away = ~inside & (half > 0)
        drawn = below_vector(self.order, n, rng)
        # In its own block the column must have the wanted sign; to flip the lowest bit of the row turns the sign.
        wrong = ~away & (_is_odd(rows & drawn) == inside)
        columns = np.where(wrong, drawn ^ (rows & -rows), drawn)
        there = (blocks + (half + 1) // 2) % self.blocks
        return np.where(away, there, blocks) * self.order + columns

    def _totals(self, reports: NDArray[Any]) -> Integers:
        found = whole_reports(reports, 1, self.outcomes)
        table = np.bincount(found, minlength=self.outcomes).reshape(self.blocks, self.order)
        sums = transformed(table)
        places = np.arange(self.domain.size)
        return sums[places % self.blocks, places // self.blocks + 1]

    def _other_variance(self, reports: NDArray[Any]) -> tuple[Any, float]:
        """Only devices in the block of a value add the larger variance; their share is bounded by Hoeffding's
        inequality.

        That bound fails with a chance of 1e-30.
        """
        scores, rest = self.scores, (1 - self.coin.chance) / (2 * self.blocks - 1)
        found = np.bincount(reports // self.order, minlength=self.blocks) / len(reports)
        most = math.sqrt(-math.log(_SLACK) / (2 * len(reports)))
        share = np.clip((found - float(2 * rest) + most) / float(scores.own), 0.0, 1.0)
        far, near = (above(v / scores.own**2) for v in (2 * rest, scores.other_variance))
        by_block = far + share * (near - far)
        return by_block[np.arange(self.domain.size) % self.blocks], _SLACK

    def explain(self) -> str:
        p, blocks, order = self.coin.chance, self.blocks, self.order
        e, ratio = decimal(self.epsilon), decimal(p * (2 * blocks - 1) / (1 - p))
        return numbered(
            repr(self),
            f"Outcomes. {blocks} blocks of {order}; C(x) is the half of the block of x where its row of the Hadamard "
            f"matrix is +1: {order // 2} of {self.outcomes} outcomes.",
            f"Law. The report is uniform in C(x) with chance p = {decimal(p)}, and uniform outside of it otherwise; p "
            "is a whole number over 2^64, rounded down.",
            f"Ratio. An outcome has chance p/{order // 2} or (1 − p)/{self.outcomes - order // 2} under any value, so "
            f"two values differ by {ratio} at most; it is at most exp({e}) in integers, with a proved bound of "
            f"exp(−{e}).",
            "Outside. A value outside of the domain has the law of one in it, or the average of all of them.",
            f"Conclusion. P(report | x) ≤ exp({e})·P(report | x') for any two values: each report is {e}-DP.",
        )


def transformed(table: Integers) -> Integers:
    """Each row times the Hadamard matrix (−1)^popcount(i & j), by the fast Walsh–Hadamard transform, in integers."""
    rows, order = table.shape
    sums = table.astype(np.int64)
    step = 1
    while step < order:
        pairs = sums.reshape(rows, order // (2 * step), 2, step)
        sums = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2)
        step *= 2
    return sums.reshape(rows, order)


def _is_odd(x: Integers) -> NDArray[np.bool_]:
    """Return whether an odd number of bits of x < 2^32 is set."""
    for shift in (16, 8, 4, 2, 1):
        x = x ^ (x >> shift)
    return (x & 1).astype(np.bool_)


def _blocks(k: int, e: Fraction) -> int:
    """Return the paper's B = 2^(⌈log₂ min(e^ε, 2k)⌉ − 1), at least 1."""
    least = min(e, Fraction(2 * k))
    above = (-(-least.numerator // least.denominator) - 1).bit_length()  # ⌈log₂⌉ of the whole number above
    return 1 << max(above - 1, 0)
