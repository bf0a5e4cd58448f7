"""Subset selection: a set of values that holds the true one more often than not."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.coins import Coin, exp_floor, rounded_coin
from discreet.local.domain import Places
from discreet.local.frequency import FrequencyOracle, Integers, Scores, no_report, whole_reports
from discreet.local.randomizer import numbered
from discreet.noise.entropy import Entropy, below_vector
from discreet.privacy.exact import Real, count
from discreet.privacy.guarantee import called, decimal

_BLOCK = 1 << 22  # cells of a table of devices by values that is worked on at a time
_MOST = 1 << 29


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SubsetSelection(FrequencyOracle):
    """Reports d of the k values: with chance p = de^ε/(de^ε + k − d) the true one is among them, the rest is uniform.

    With d near k/(e^ε + 1) the least error that a report can have for moderate ε; d = 1 is randomized response. Reports
    are arrays of d places in rising order.

    Guarantee:
        Each report is ε-DP for any two values of the device, inside or outside of the domain. p is rounded down to a
        multiple of 2^−64, so that p(k − d)/((1 − p)d) ≤ e^ε is proved in integers. The subsets are uniform exactly.

    References:
        Ye, Barg 2018 (the schemes Q(k, ε, d)), https://arxiv.org/abs/1702.00610; Wang, Huang, Wang, Nie, Qiao,
        Xu, Yang, Zhang 2016, https://arxiv.org/abs/1607.08025; uniform subsets: Bentley, Floyd 1987,
        https://doi.org/10.1145/30401.315746; docs/proofs/subset-selection.md

    >>> SubsetSelection(12, epsilon=1)
    SubsetSelection(12, epsilon=1, size=3)
    """

    size: int
    coin: Coin

    def __init__(
        self, domain: int | Iterable[Hashable], *, epsilon: Real, other: Hashable | None = None, size: int | None = None
    ) -> None:
        FrequencyOracle.__init__(self, domain, epsilon=epsilon, other=other)
        k = self.domain.size
        d = _best(k, exp_floor(self.epsilon)) if size is None else count("size", size)
        if d >= k:
            raise InvalidParameter(
                f"size must be below the {k} values of the domain, not {d}.", hint="leave it out for the best one"
            )
        object.__setattr__(self, "size", d)
        object.__setattr__(self, "coin", rounded_coin(self.epsilon, Fraction(d, k - d)))

    @property
    def scores(self) -> Scores:
        k, d, p = self.domain.size, self.size, self.coin.chance
        return Scores.of_support(p, (p * (d - 1) + (1 - p) * d) / (k - 1))

    def _reports(self, places: Places, rng: Entropy) -> NDArray[Any]:
        n, k, d = places.size, self.domain.size, self.size
        if n * d > _MOST or k > _MOST:
            raise InvalidParameter(
                f"reports of {n:,} devices with {d:,} of {k:,} values each do not fit in memory.",
                hint="randomize fewer devices at a time, or use Hadamard, whose reports are short",
            )
        reports = np.empty((n, d), dtype=np.int64)
        rows = max(_BLOCK // k, 1)
        for start in range(0, n, rows):
            part = slice(start, start + rows)
            reports[part] = self._block(places[part], rng)
        return reports

    def _block(self, places: Places, rng: Entropy) -> Places:
        """Return the reports of a few devices, by a table of which values are chosen."""
        k, d = self.domain.size, self.size
        with_own = self.coin.flips(places.size, rng)
        chosen = np.zeros((places.size, k), dtype=np.bool_)
        for rows, more in ((np.flatnonzero(with_own), d - 1), (np.flatnonzero(~with_own), d)):
            for last in range(k - 1 - more, k - 1):  # Floyd's steps, for all rows at once
                drawn = below_vector(last + 1, rows.size, rng)
                drawn = np.where(chosen[rows, drawn], last, drawn)
                chosen[rows, drawn] = True
        # So far column c stands for the other value c; the device's own column is opened by shifting those behind it.
        rows, columns = np.nonzero(chosen)
        columns = columns + (columns >= places[rows])
        chosen[:] = False
        chosen[rows, columns] = True
        chosen[with_own, places[with_own]] = True
        return np.nonzero(chosen)[1].reshape(places.size, d)

    def _totals(self, reports: NDArray[Any]) -> Integers:
        k = self.domain.size
        places = whole_reports(reports, 2, k)
        if places.shape[1] != self.size or (np.diff(places, axis=1) <= 0).any():
            raise no_report("not so many values in rising order")
        return np.bincount(places.ravel(), minlength=k)

    def explain(self) -> str:
        p, k, d = self.coin.chance, self.domain.size, self.size
        e, ratio = decimal(self.epsilon), decimal(p * (k - d) / ((1 - p) * d))
        return numbered(
            repr(self),
            f"Law. With chance p = {decimal(p)} the report is the device's value and {_others(d - 1)}, "
            f"else {_others(d)}, out of {k - 1}, uniformly; p is a whole number over 2^64, rounded down.",
            f"Sets. C({k - 1}, {d - 1}) sets hold the value and C({k - 1}, {d}) do not, which is (k − d)/d = "
            f"{k - d}/{d} times as many.",
            "Ratio. A set's chance under one value is p/C(k − 1, d − 1) or (1 − p)/C(k − 1, d), so two values differ "
            f"by p(k − d)/((1 − p)d) = {ratio} at most; it is at most exp({e}) in integers, with a proved bound of "
            f"exp(−{e}).",
            "Outside. A value outside of the domain has the law of one in it, or the average of all of them.",
            f"Conclusion. P(report | x) ≤ exp({e})·P(report | x') for any two values: each report is {e}-DP.",
        )

    def __repr__(self) -> str:
        return called(self, "epsilon", "size", first=repr(self.domain))


def _others(n: int) -> str:
    return "1 other" if n == 1 else f"{n} others"


def _best(k: int, e: Fraction) -> int:
    """Return the d of the least variance for a rare value, of the two around k/(e^ε + 1): it is convex in d."""
    near = int(k / (e + 1))
    return min((d for d in (near, near + 1) if 1 <= d < k), key=lambda d: _variance(k, d, e))


def _variance(k: int, d: int, e: Fraction) -> Fraction:
    p = d * e / (d * e + k - d)
    return Scores.of_support(p, (p * (d - 1) + (1 - p) * d) / (k - 1)).variance(Fraction(0))
