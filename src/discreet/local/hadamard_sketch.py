"""The Hadamard count-mean sketch: one noisy sign of a public row."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.coins import Coin, rounded_coin
from discreet.local.means import read_reports
from discreet.local.randomizer import numbered
from discreet.local.sketch_rows import CountTable, SketchRandomizer
from discreet.noise.entropy import Entropy
from discreet.noise.uniform import below_vector
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import decimal


@dataclass(frozen=True, slots=True, init=False, repr=False)
class HadamardSketch(SketchRandomizer):
    """Reports a public row, a public column of the Hadamard matrix, and the noisy sign that it has at the value's hash.

    One private bit for each report, where `CountMeanSketch` sends `width` of them; nearly as good for ε up to 1, and
    less so beyond. A report is one whole number, (row·width + column)·2 + sign.

    Guarantee:
        Each report is ε-DP for any two values of any kind: row and column are drawn without the value, and the sign is
        kept with chance p, where p/(1 − p) ≤ e^ε in integers.

    References:
        Apple Differential Privacy Team 2017, *Learning with Privacy at Scale* (HCMS),
        https://docs-assets.developer.apple.com/ml-research/papers/learning-with-privacy-at-scale.pdf;
        docs/proofs/count-mean-sketch.md, Theorem 2.

    >>> HadamardSketch(epsilon=1, width=256).randomize(["flower", "tree"]).shape
    (2,)
    """

    def __init__(self, *, epsilon: Real, rows: int = 1024, width: int = 1024, salt: str = "") -> None:
        SketchRandomizer.__init__(self, epsilon=epsilon, rows=rows, width=width, salt=salt)
        if self.width & (self.width - 1):
            raise InvalidParameter(f"width must be a power of two, not {self.width}.", hint="width=1024")

    @property
    def coin(self) -> Coin:
        """The coin that keeps the sign."""
        return rounded_coin(self.epsilon)

    @property
    def _noise(self) -> tuple[Fraction, Fraction]:
        square = 1 / (2 * self.coin.chance - 1) ** 2  # of what a device adds to any place
        return square - 1, square - Fraction(1, self.width)

    def _reports(self, row: NDArray[np.int64], place: NDArray[np.int64], rng: Entropy) -> NDArray[Any]:
        column = below_vector(self.width, row.size, rng)
        sign = _parity(column & place) ^ ~self.coin.flips(row.size, rng)
        return (row * self.width + column) * 2 + sign

    def _table(self, reports: Any) -> CountTable:
        k, m = self.rows, self.width
        given = read_reports(reports, low=0, high=2 * k * m - 1).astype(np.int64)
        ones = np.bincount(given, minlength=2 * k * m).reshape(k, m, 2)
        strength = float(2 * self.coin.chance - 1)
        counts = _transformed((ones[:, :, 0] - ones[:, :, 1]).astype(np.float64)) / strength
        return CountTable(counts, given.size, m / strength**2 - 1)

    def explain(self) -> str:
        e, p = decimal(self.epsilon), decimal(self.coin.chance)
        return numbered(
            repr(self),
            f"Row and column. One of {self.rows} public hash functions and one of {self.width} columns of the Hadamard "
            "matrix are drawn uniformly, without the value.",
            f"Law. The sign that the column has at the hash of the value is kept with chance p = {p}, else turned.",
            f"Ratio. Given row and column each sign has a chance from 1 − p to p; p/(1 − p) ≤ exp({e}) in integers.",
            f"Conclusion. Row and column have the same law for all values: each report is {e}-DP.",
        )


def _parity(words: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether the number of ones is odd: the sign (−1)^⟨i, j⟩ of the Hadamard matrix is negative."""
    for shift in (32, 16, 8, 4, 2, 1):
        words = words ^ (words >> shift)
    return (words & 1).astype(np.bool_)


def _transformed(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Walsh–Hadamard transform of each row: sums and differences of integers, exact in floats."""
    k, m = rows.shape
    half = 1
    while half < m:
        pairs = rows.reshape(k, m // (2 * half), 2, half)
        rows = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        half *= 2
    return rows.reshape(k, m)
