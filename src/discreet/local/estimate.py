"""What a server learns from reports: unbiased numbers, and how far off they may be; the parameters of randomizers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, count, positive
from discreet.privacy.exact import read_confidence as read_confidence
from discreet.privacy.guarantee import decimal

Floats: TypeAlias = NDArray[np.float64]

_SHOWN = 20
_LEAST = Fraction(1, 10**6)
_LARGEST = Fraction(1000)
_MOST_USERS = 1 << 53
_ROUNDING = 1e-12  # by which widths are enlarged: far more than floats lose


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Estimate:
    """Unbiased estimates, one for each label, over the coins of the devices that reported.

    The truth is that of these devices: what they say about a wider population is the usual sampling error on top.
    A value may lie outside of where the truth can lie; `simplex` is for shares that look like shares.

    Attributes:
        labels: what is estimated.
        values: the estimates; their expectation is the truth.
        users: the number of reports.
        own: the variance of what one user adds to users·value, when the user's value is the label; or a bound of it.
        other: the same for a user with another value. Both are equal where the truth is no share.
        reach: how far what one user adds can lie from its mean.
        bounds: where the truth lies for sure.
        slack: a chance with which the variances may be no bounds; 0 where they follow from public facts alone.
        whole: whether the labels are all there is, so that shares sum to 1.
    """

    labels: tuple[Hashable, ...]
    values: Floats
    users: int
    own: Floats
    other: Floats
    reach: float
    bounds: tuple[float, float]
    slack: float
    whole: bool

    def __init__(
        self,
        labels: tuple[Hashable, ...],
        values: Floats,
        *,
        users: int,
        own: float | Floats,
        other: float | Floats | None = None,
        reach: float,
        bounds: tuple[float, float] = (0.0, 1.0),
        slack: float = 0.0,
        whole: bool = False,
    ) -> None:
        values = np.array(values, dtype=np.float64)
        if values.shape != (len(labels),):
            raise InvalidParameter(f"an estimate of {len(labels)} labels needs as many values.")
        own_ = np.broadcast_to(np.asarray(own, dtype=np.float64), values.shape)
        other_ = own_ if other is None else np.broadcast_to(np.asarray(other, dtype=np.float64), values.shape)
        values.flags.writeable = False
        fields = (tuple(labels), values, read_users(users), own_, other_, float(reach), bounds, slack, whole)
        for name, field in zip(self.__slots__, fields, strict=True):
            object.__setattr__(self, name, field)

    @property
    def standard_error(self) -> Floats:
        """The standard deviation of each estimate over the devices' coins, with its variance taken at the estimate."""
        return np.sqrt(self._variance(np.clip(self.values, *self.bounds)))

    def interval(self, confidence: Real = 0.95) -> tuple[Floats, Floats]:
        """(lower, upper) for each label: where the truth lies with this confidence, each by itself.

        All truths f that the estimate is within z standard deviations of, the deviation being that of f (a score
        interval). It is asymptotic: the estimate is nearly normal when there are many reports. For no such
        assumption see `proven_interval`; for all m labels at once take 1 − (1 − confidence)/m.
        """
        from scipy.special import ndtri

        doubt = float(1 - read_confidence(confidence)) / 2
        return self._interval(float(ndtri(doubt)) ** 2, 0.0)

    def proven_interval(self, confidence: Real = 0.95) -> tuple[Floats, Floats]:
        """(lower, upper) that hold with this confidence for any number of reports and any data: wider.

        Guarantee:
            The truth f lies in it with probability at least `confidence` over the coins of the devices, which are
            independent: Bernstein's inequality with the variance at f and the largest reach of one report.

        References:
            Boucheron, Lugosi, Massart, *Concentration Inequalities*, Section 2.8 (Bernstein's inequality);
            docs/proofs/local.md, "Intervals".
        """
        doubt = float(1 - read_confidence(confidence)) - self.slack
        if doubt <= self.slack:
            raise InvalidParameter(
                f"confidence must be at most 1 − {2 * self.slack:.1g} for these reports.", hint="confidence=0.999"
            )
        log = math.log(2 / doubt)
        return self._interval(2 * log, self.reach * log / (3 * self.users))

    def simplex(self) -> Shares:
        """Shares that are at least 0 and sum to 1 (to at most 1 where the labels are not all): the nearest such ones.

        Post-processing: it costs no privacy. It is never farther from the truth in ℓ2, but biased, and the
        intervals are not its own.

        Raises:
            InvalidParameter: what is estimated are no shares.
        """
        if self.bounds != (0.0, 1.0):
            raise InvalidParameter("only shares can be brought to sum to 1.", hint="use the values as they are")
        positive = np.maximum(self.values, 0.0)
        if self.whole or positive.sum() > 1:
            positive = projected(self.values)
        return Shares(self.labels, positive)

    def _variance(self, truth: Floats) -> Floats:
        share = np.clip(truth, 0.0, 1.0)
        return (self.other + share * (self.own - self.other)) / self.users

    def _interval(self, factor: float, lag: float) -> tuple[Floats, Floats]:
        """Return the truths f with (v − f)² − 2·lag·|v − f| ≤ factor·variance(f), within the bounds.

        With v' = v brought within the bounds, f = v' ± x and g = ±(v' − v), this is x² − 2hx ≤ r on either side, with
        h = lag ± factor·slope/2 − g and r = factor·variance(v') + 2·lag·g − g², where the variance is linear in f.
        """
        low, high = self.bounds
        at = np.clip(self.values, low, high)
        sides = []
        for sign in (-1, 1):
            gap = sign * (at - self.values)
            slope = sign * (self.own - self.other) / self.users
            half = lag + factor * slope / 2 - gap
            rest = factor * self._variance(at) + (2 * lag - gap) * gap
            found = half * half + rest
            x = np.where(found >= 0, np.maximum(half + np.sqrt(np.maximum(found, 0.0)), 0.0), 0.0)
            sides.append(np.clip(at + sign * x * (1 + _ROUNDING), low, high))
        return sides[0], sides[1]

    def __iter__(self) -> Iterator[tuple[Hashable, float]]:
        """Each label with its estimate."""
        return zip(self.labels, self.values.tolist(), strict=True)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        from discreet.table import render

        lower, upper = self.interval()
        columns = ("label", "estimate", "95 % from", "to")
        return f"Estimate from {self.users:,} reports\n" + render(
            columns, _rows(self.labels, self.values, lower, upper)
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shares:
    """Shares of labels that are at least 0 and sum to at most 1: made from an `Estimate`, biased, no intervals."""

    labels: tuple[Hashable, ...]
    values: Floats

    def __iter__(self) -> Iterator[tuple[Hashable, float]]:
        """Each label with its share."""
        return zip(self.labels, self.values.tolist(), strict=True)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        from discreet.table import render

        return "Shares, projected\n" + render(("label", "share"), _rows(self.labels, self.values))


def projected(values: Floats) -> Floats:
    """Return the point of the simplex that is nearest to `values` in ℓ2.

    References:
        Duchi, Shalev-Shwartz, Singer, Chandra 2008, Figure 1, https://doi.org/10.1145/1390156.1390176
    """
    values = values - values.max()  # the same point, without losing the 1 beside huge numbers
    down = np.sort(values)[::-1]
    excess = (np.cumsum(down) - 1) / np.arange(1, values.size + 1)
    last = np.flatnonzero(down > excess)[-1]
    return np.asarray(np.maximum(values - excess[last], 0.0))


def half_width(variance: float, users: int, confidence: Real) -> float:
    """Return how far the mean of so many reports is off at most, where each has at most this variance: asymptotic."""
    from scipy.special import ndtri

    z = -float(ndtri(float(1 - read_confidence(confidence)) / 2))
    return z * math.sqrt(variance / read_users(users)) * (1 + _ROUNDING)


def read_epsilon(value: Real, name: str = "epsilon") -> Fraction:
    """Return the ε of one report: between 1e-6 and 1000, so that chances of 64 bits can show it."""
    x = positive(name, value)
    if not _LEAST <= x <= _LARGEST:
        raise InvalidParameter(
            f"{name} of one report must lie between 1e-6 and 1000, not {decimal(x)}.",
            hint="reports with a smaller ε say nothing about any number of users there could be",
        )
    return x


def read_users(users: int) -> int:
    """Return a number of users."""
    n = count("users", users)
    if n > _MOST_USERS:
        raise InvalidParameter("users must be at most 2^53.")
    return n


def _rows(labels: tuple[Hashable, ...], *columns: Floats) -> list[list[str]]:
    rows = [
        [str(label), *(f"{x:.4g}" for x in numbers)]
        for label, *numbers in zip(labels[:_SHOWN], *(c[:_SHOWN].tolist() for c in columns), strict=True)
    ]
    if len(labels) > _SHOWN:
        rows.append([f"… {len(labels) - _SHOWN} more", *("" for _ in columns)])
    return rows
