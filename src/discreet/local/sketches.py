"""Sketches: rows of public hash functions, and unbiased shares from a table of counts of noisy bits or signs."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.coins import WHOLE, Coin, check_ratio, rounded_coin
from discreet.local.domain import is_many, read_array
from discreet.local.estimate import Estimate, Floats, half_width, read_epsilon, read_users
from discreet.local.hashing import Words, digests, key_of, mixed, read_salt
from discreet.local.means import read_reports
from discreet.local.randomizer import Randomizer, numbered
from discreet.noise.entropy import Entropy, SystemEntropy, below_vector
from discreet.privacy.exact import Real, above, count, set_fields
from discreet.privacy.guarantee import called, decimal

_MOST = 1 << 26
_CHUNK = 1 << 21
_HEAD = 4  # bytes of the row
_BITS = 1 << 24  # that are made at once
_NEVER = 1e18  # a reach beyond all bounds: what is proved about devices says nothing about collisions
_MARGIN = 4  # deviations of the noise alone
_RAISED = 1.1


@dataclass(frozen=True, slots=True)
class CountTable:
    """What a server has counted.

    Attributes:
        counts: for each row and each place, an unbiased number of the devices of that row whose value falls there.
        users: the number of devices.
        noise: the summed variance of a row's places that one device adds.
    """

    counts: Floats
    users: int
    noise: float


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SketchRandomizer(Randomizer):
    """A randomizer that hashes a value of any domain to one of `width` places, by one of `rows` public functions.

    Attributes:
        epsilon: the ε of one report.
        rows: how many hash functions there are; the more, the less collisions weigh.
        width: how many places each has.
        salt: names the family of hash functions; public.
    """

    epsilon: Fraction
    rows: int
    width: int
    salt: str

    def __init__(self, *, epsilon: Real, rows: int = 1024, width: int = 1024, salt: str = "") -> None:
        k, m = count("rows", rows), count("width", width, least=2)
        if k * m > _MOST:
            raise InvalidParameter(
                f"rows times width must be at most 2^26, not {k * m:,}.", hint="rows=1024, width=1024"
            )
        set_fields(self, epsilon=read_epsilon(epsilon), rows=k, width=m, salt=read_salt(salt))

    def randomize(self, x: Any, *, rng: Entropy | None = None) -> Any:
        """Return the report of one device that holds `x`; for an array or a list one for each, as one array.

        Args:
            x: a text, a number, bytes or any other value; or a list or an array with one for each device.
            rng: where randomness comes from, for tests; the operating system's by default.
        """
        many = is_many(x)
        source = SystemEntropy() if rng is None else rng
        words = digests((x if isinstance(x, list) else read_array("x", x)) if many else [x], self._key)
        drawn = below_vector(self.rows, words.size, source)
        reports = self._reports(drawn, self.place(words, drawn), source)
        if many:
            return reports
        return reports[0] if reports.ndim > 1 else int(reports[0])

    def estimate(self, reports: Any, *, domain: Sequence[Hashable] | None = None) -> Estimate:
        """Return the shares of the values in `domain` among the devices.

        Unbiased over the coins of the devices and the family of hash functions; the intervals count the collisions as
        large as the counted table shows them to be (with fewer than some fifty rows one collision weighs much, and
        estimates are far from normal). `proven_interval` says nothing here: how often the values that
        were not asked for collide with those that were is a fact of the salt, not of the coins.

        Args:
            reports: an array with one report for each device.
            domain: the values to look up; needed, since a sketch has no list of them.
        """
        if domain is None:
            raise InvalidParameter(
                "domain= must list the values whose shares are estimated.",
                hint="HeavyHitters finds values without a list",
            )
        asked: Any = domain
        if isinstance(asked, str | bytes) or not isinstance(asked, Iterable):  # a list of pairs is a list of values
            raise InvalidParameter(
                f"domain= must be a list or an array of values, not {type(asked).__name__}.",
                hint="domain=['red', 'green']",
            )
        listed = isinstance(asked, np.ndarray)
        labels = tuple(read_array("domain", asked).tolist() if listed else asked)
        if not labels:
            raise InvalidParameter("domain= must list at least one value.", hint="domain=['red', 'green']")
        table = self._table(reports)
        m, n = self.width, table.users
        found = self._looked_up(table.counts, digests(asked if listed else labels, self._key))
        own, other = self._variances
        return Estimate(
            labels,
            (found / n - 1 / m) * (m / (m - 1)),
            users=n,
            own=own,
            other=other + self._collisions(table) / (n * self.rows * (m - 1)),
            reach=_NEVER,
        )

    def error(self, users: int, confidence: Real = 0.95) -> float:
        """Return how far an estimated share is off at most, with that confidence, where all others hold one value."""
        own, other = self._variances
        worst = max(own, other + read_users(users) / (self.rows * (self.width - 1)))
        return half_width(worst, users, confidence)

    def place(self, words: Words, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where digests fall in a row: the public hash functions."""
        start = np.uint64(key_of("row", self.salt))
        high = mixed(words ^ mixed(row.astype(np.uint64) ^ start)) >> np.uint64(32)
        return ((high * np.uint64(self.width)) >> np.uint64(32)).astype(np.int64)

    def key(self, x: Any) -> str:
        """Return a text by which equal values are known, for `Memoised`."""
        return f"{int(digests([x], self._key)[0]):016x}"

    @property
    def _key(self) -> int:
        return key_of("digest", self.salt)

    @property
    def _variances(self) -> tuple[float, float]:
        """Of what one device adds to n·estimate, when it holds the value and when it holds another one."""
        own, other = self._noise
        m = self.width
        scale = Fraction(m, m - 1) ** 2
        return above(own * scale), above((other + Fraction(1, m) * (1 - Fraction(1, m))) * scale)

    def _collisions(self, table: CountTable) -> float:
        """Return how many ordered pairs of devices have equal values, estimated, and then raised by what chance can
        hide.

        In a row, two devices with one value meet for sure, others with chance 1/m: so the squares of the table's
        counts, less the noise in them, show how many pairs there are.
        """
        n, m, k = table.users, self.width, self.rows
        meetings = float((table.counts * table.counts).sum()) - n * table.noise
        pairs = (k * (meetings - n) - n * (n - 1) / m) / (1 - 1 / m)
        margin = _MARGIN * math.sqrt(2 * k / m) * n * table.noise
        return min(_RAISED * max(pairs, 0.0) + margin, float(n) * (n - 1))

    def _looked_up(self, counts: Floats, words: Words) -> Floats:
        """For each digest the sum of its counts over the rows."""
        total = np.zeros(words.size)
        for start in range(0, words.size, _CHUNK):
            part = words[start : start + _CHUNK]
            for row in range(self.rows):
                total[start : start + part.size] += counts[row, self.place(part, np.array([row]))]
        return total

    @property
    @abstractmethod
    def _noise(self) -> tuple[Fraction, Fraction]:
        """The largest variance of one device's part of a place's count, at the place of its value and elsewhere."""

    @abstractmethod
    def _reports(self, row: NDArray[np.int64], place: NDArray[np.int64], rng: Entropy) -> NDArray[Any]:
        """One report for each row and place."""

    @abstractmethod
    def _table(self, reports: Any) -> CountTable:
        """Return the counts; refuses what is no report."""

    def __repr__(self) -> str:
        return called(self, "epsilon", "rows", "width", "salt")


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
        step = max(1, _BITS // m)
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
        step = max(1, _BITS // m)
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
