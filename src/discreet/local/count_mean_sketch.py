"""The count-mean sketch: a noisy bit for each place of one public hash function."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.coins import WHOLE, Coin, check_ratio, rounded_coin
from discreet.local.means import read_reports
from discreet.local.randomizer import numbered
from discreet.local.sketch_rows import CountTable, SketchRandomizer
from discreet.noise.entropy import Entropy
from discreet.privacy.guarantee import decimal

_HEAD = 4  # bytes of the row
_CHUNK = 1 << 24  # bits that are made at once


@dataclass(frozen=True, slots=True, init=False, repr=False)
class CountMeanSketch(SketchRandomizer):
    """Reports a public row, and a noisy bit for each of its places: 1 at the hash of the value, 0 elsewhere.

    The telemetry design for large domains; its published form flips all bits with one chance, ε/2 for a 1 and ε/2 for a
    0. Here a 1 stays with chance 1/2 and a 0 turns with chance 1/(e^ε + 1), which has less variance. A report is
    an array of bytes: four for the row, then the bits, eight to a byte.

    Guarantee:
        Each report is ε-DP for any two values of any kind: the row is drawn without the value, and of the bits only
        those at the two hashes have other chances, with ratio p(1 − q)/((1 − p)q) ≤ e^ε in integers.

    References:
        Apple Differential Privacy Team 2017, *Learning with Privacy at Scale* (CMS),
        https://docs-assets.developer.apple.com/ml-research/papers/learning-with-privacy-at-scale.pdf; Wang, Blocki,
        Li, Jha 2017 (OUE: the chances),
        https://www.usenix.org/system/files/conference/usenixsecurity17/sec17-wang-tianhao.pdf;
        docs/proofs/count-mean-sketch.md, Theorem 1.

    >>> CountMeanSketch(epsilon=4, rows=8, width=64).randomize("flower").shape
    (12,)
    """

    @property
    def true(self) -> Coin:
        """The coin of the bit at the hash of the value."""
        return Coin(WHOLE // 2)

    @property
    def false(self) -> Coin:
        """The coin of every other bit."""
        coin = Coin(WHOLE - rounded_coin(self.epsilon).weight)
        p, q = self.true.chance, coin.chance
        check_ratio(p * (1 - q) / ((1 - p) * q), self.epsilon)
        return coin

    @property
    def _noise(self) -> tuple[Fraction, Fraction]:
        p, q = self.true.chance, self.false.chance
        # where the value falls there or not, the noise is that of one bit or the other
        return p * (1 - p) / (p - q) ** 2, self._elsewhere

    @property
    def _elsewhere(self) -> Fraction:
        p, q = self.true.chance, self.false.chance
        meets = Fraction(1, self.width)
        return (meets * p * (1 - p) + (1 - meets) * q * (1 - q)) / (p - q) ** 2

    def _reports(self, row: NDArray[np.int64], place: NDArray[np.int64], rng: Entropy) -> NDArray[Any]:
        n, m = row.size, self.width
        reports = np.empty((n, _HEAD + -(-m // 8)), dtype=np.uint8)
        reports[:, :_HEAD] = row.astype("<u4").view(np.uint8).reshape(n, _HEAD)
        step = max(1, _CHUNK // m)
        for start in range(0, n, step):
            at = place[start : start + step]
            bits = self.false.flips(at.size * m, rng).reshape(at.size, m)
            bits[np.arange(at.size), at] = self.true.flips(at.size, rng)
            reports[start : start + step, _HEAD:] = np.packbits(bits, axis=1)
        return reports

    def _table(self, reports: Any) -> CountTable:
        k, m = self.rows, self.width
        given = read_reports(reports, row=(_HEAD + -(-m // 8),), low=0, high=255).astype(np.uint8)
        n = len(given)
        rows = np.ascontiguousarray(given[:, :_HEAD]).view("<u4").reshape(n).astype(np.int64)
        spare = (1 << (-m % 8)) - 1
        if rows.max() >= k or (given[:, -1] & spare).any():
            raise InvalidParameter(
                "there are reports that no device with these parameters sends.",
                hint="server and devices need equal parameters",
            )
        ones = np.zeros((k, m), dtype=np.int64)
        order = np.argsort(rows, kind="stable")
        step = max(1, _CHUNK // m)
        for start in range(0, n, step):
            part = order[start : start + step]
            bits = np.unpackbits(given[part, _HEAD:], axis=1, count=m)
            held = rows[part]
            first = np.flatnonzero(np.diff(held, prepend=-1))
            ones[held[first]] += np.add.reduceat(bits, first, axis=0, dtype=np.int64)
        p, q = float(self.true.chance), float(self.false.chance)
        counts = (ones - q * np.bincount(rows, minlength=k)[:, None]) / (p - q)
        noise = (p * (1 - p) + (m - 1) * q * (1 - q)) / (p - q) ** 2
        return CountTable(counts, n, noise)

    def explain(self) -> str:
        p, q, e = self.true.chance, self.false.chance, decimal(self.epsilon)
        return numbered(
            repr(self),
            f"Row. One of {self.rows} public hash functions is drawn uniformly, without the value.",
            f"Law. Of {self.width} bits that at the hash of the value is 1 with chance p = {decimal(p)}, each other "
            f"one with chance q = {decimal(q)}, all independent.",
            "Neighbours. Given the row, for two values all bits but those at their hashes cancel; if the hashes are "
            "equal, all do.",
            f"Ratio. The two give at most p(1 − q)/((1 − p)q), which is at most exp({e}) in integers.",
            f"Conclusion. The row has the same law for all values: each report is {e}-DP.",
        )
