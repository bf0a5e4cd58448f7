"""What all frequency oracles share: a public domain, and scores of reports for its values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.domain import Domain, Places
from discreet.local.estimate import Estimate, half_width, read_epsilon
from discreet.local.randomizer import Randomizer
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.privacy.exact import Real, above, exact, set_fields
from discreet.privacy.guarantee import called, decimal

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scores:
    """How a report scores for one value v: its mean and variance from a device that holds v, and from another.

    Attributes:
        own: the mean where the device holds v.
        other: the mean where it holds any other value.
        own_variance: the variance where it holds v.
        other_variance: the largest variance where it holds another value.
        spread: the largest distance of a score from its mean.
    """

    own: Fraction
    other: Fraction
    own_variance: Fraction
    other_variance: Fraction
    spread: Fraction

    @classmethod
    def of_support(cls, own: Fraction, other: Fraction) -> Scores:
        """Return a report supports v (score 1) or not: with these two chances."""
        spread = max(own, 1 - own, other, 1 - other)
        return cls(own, other, own * (1 - own), other * (1 - other), spread)

    @property
    def gap(self) -> Fraction:
        """By how much the means differ: what estimates are divided by."""
        return self.own - self.other

    def variance(self, share: Fraction | None = None) -> Fraction:
        """Return the variance of one user's part in users·estimate at this share of v; at the worst by default."""
        if share is None:
            found = max(self.own_variance, self.other_variance)
        else:
            found = share * self.own_variance + (1 - share) * self.other_variance
        return found / self.gap**2


@dataclass(frozen=True, slots=True, init=False, repr=False)
class FrequencyOracle(Randomizer):
    """A randomizer of one value out of a public domain, from whose reports the share of each value is estimated.

    A report scores for each value, with one mean from the devices that hold it and another one from all others; what is
    estimated is unbiased because both are known as fractions. Every value is covered by the guarantee, and none is
    refused: one outside of the domain stands for `other` if that was named, else for one drawn uniformly from the
    domain, so that such devices raise all shares alike (docs/proofs/local.md, "Values outside").

    Attributes:
        epsilon: the ε of one report.
        domain: the public values.
    """

    epsilon: Fraction
    domain: Domain

    def __init__(self, domain: int | Iterable[Hashable], *, epsilon: Real, other: Hashable | None = None) -> None:
        set_fields(self, epsilon=read_epsilon(epsilon), domain=Domain(domain, other))

    @property
    @abstractmethod
    def scores(self) -> Scores:
        """How a report scores for a value, in fractions of the chances that are used."""

    def randomize(self, x: Any, *, rng: Entropy | None = None) -> Any:
        """Return the report of one device that holds `x`; for an array or a list, one report for each, as one array.

        Args:
            x: a value, or an array or a list with one value for each device. A tuple is one value.
            rng: where randomness comes from, for tests; the operating system's by default.
        """
        source = SystemEntropy() if rng is None else rng
        places, many = self.domain.read(x, source)
        reports = self._reports(places, source)
        if many:
            return reports
        return reports[0] if reports.ndim > 1 else int(reports[0])

    def estimate(self, reports: Any, *, domain: Sequence[Hashable] | None = None) -> Estimate:
        """Return the share of the devices that hold each value.

        Args:
            reports: an array with one report for each device, or a list of reports.
            domain: the values to estimate, in this order; all by default.

        Raises:
            InvalidParameter: no reports, reports that this randomizer cannot have made, or a value that is not in the
                domain.
        """
        labels, places = self.domain.find(domain)
        given = read_reports(reports)
        totals = self._totals_of(given, places)
        users, scores = len(given), self.scores
        gap = scores.gap
        other, slack = self._other_variance(given)
        # Integers below 2^53 are exact as floats; the mean of the others is subtracted before anything is rounded away.
        scale = 1 / float(gap * users)
        values = np.asarray((totals - float(scores.other * users)) * scale, dtype=np.float64)
        return Estimate(
            labels,
            values,
            users=users,
            own=above(scores.own_variance / gap**2),
            other=np.broadcast_to(np.asarray(other), (self.domain.size,))[places],
            reach=above(scores.spread / gap),
            slack=slack,
            whole=len(labels) == self.domain.size,
        )

    def error(self, users: int, confidence: Real = 0.95, *, share: Real | None = None) -> float:
        """Return how far an estimated share is off at most, with that confidence, when so many devices report.

        Args:
            users: how many devices report.
            confidence: the chance that it is off by no more, by the normal law.
            share: the share that the value is assumed to have; by default the one with the largest error.
        """
        assumed = None if share is None else exact("share", share)
        if assumed is not None and not 0 <= assumed <= 1:
            raise InvalidParameter(f"share must lie in [0, 1], not {decimal(assumed)}.")
        return half_width(above(self.scores.variance(assumed)), users, confidence)

    def key(self, x: Any) -> str:
        """Return a text by which equal values are known, to `Memoised`."""
        return self.domain.key(x)

    @abstractmethod
    def _reports(self, places: Places, rng: Entropy) -> NDArray[Any]:
        """One report for each place."""

    @abstractmethod
    def _totals(self, reports: NDArray[Any]) -> Integers:
        """For each value of the domain the sum of the reports' scores; refuses what is no report."""

    def _totals_of(self, reports: NDArray[Any], places: Places) -> Integers:
        """Return the same for some values only."""
        return self._totals(reports)[places]

    def _other_variance(self, reports: NDArray[Any]) -> tuple[Any, float]:
        """For each value of the domain a bound of the variance from others, and the chance that it is none."""
        return above(self.scores.variance(Fraction(0))), 0.0

    def __repr__(self) -> str:
        return called(self, "epsilon", first=repr(self.domain))


def read_reports(reports: Any) -> NDArray[Any]:
    """Return what a server was given, as one array.

    Raises:
        InvalidParameter: no reports, or of several shapes.
    """
    if isinstance(reports, np.ma.MaskedArray):
        raise no_report("a masked array")
    try:
        given = np.asarray(reports)
    except ValueError:  # a ragged list
        raise no_report("of several shapes") from None
    if given.ndim == 0 or len(given) == 0:
        raise InvalidParameter("reports must hold at least one report, in an array or a list.")
    return given


def whole_reports(reports: NDArray[Any], dimensions: int, below: int) -> Integers:
    """Report that are whole numbers from 0 up to a limit, in so many dimensions.

    Raises:
        InvalidParameter: others.
    """
    if reports.ndim != dimensions or reports.dtype.kind not in "iub":
        raise no_report(f"{reports.dtype} in {reports.ndim} dimensions")
    if reports.size and (reports.min() < 0 or reports.max() >= below):
        raise no_report("a number that no report can hold")
    return reports if reports.dtype == np.int64 else reports.astype(np.int64)


def no_report(what: str) -> InvalidParameter:
    """Return the refusal of what this randomizer cannot have reported."""
    return InvalidParameter(
        f"these are no reports of this randomizer: {what}.",
        hint="estimate with the parameters that the devices used, from what randomize returned",
    )
