"""What the sketches share: rows of public hash functions, and unbiased shares from a table of counts."""

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
from discreet.local.domain import is_many, read_array
from discreet.local.estimate import Estimate
from discreet.local.hashing import Words, digests, key_of, mixed, read_salt
from discreet.local.means import half_width
from discreet.local.parameters import read_epsilon, read_users
from discreet.local.randomizer import Randomizer
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.noise.uniform import below_vector
from discreet.privacy.exact import Real, above, count
from discreet.privacy.guarantee import decimal

Floats = NDArray[np.float64]

_MOST = 1 << 26
_CHUNK = 1 << 21
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
        object.__setattr__(self, "epsilon", read_epsilon(epsilon))
        object.__setattr__(self, "rows", k)
        object.__setattr__(self, "width", m)
        object.__setattr__(self, "salt", read_salt(salt))

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
        if isinstance(asked, str | bytes) or not isinstance(
            asked, Iterable
        ):  # a list of pairs is a list of values
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
        """Return how far an estimated share is off at most, with that confidence, at the worst data: all others hold
        one.
        """
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
        return (
            f"{type(self).__name__}(epsilon={decimal(self.epsilon)}, rows={self.rows}, width={self.width}, "
            f"salt={self.salt!r})"
        )
