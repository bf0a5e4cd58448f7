"""Pairs whose loss takes finitely many values: what their outcomes weigh on both sides."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.privacy.law import AtomsLaw
from discreet.privacy.pair import FLOOR, Curve, Pair

MOST_ATOMS = 10_000
"""More outcomes than this are not listed one by one."""

_LARGEST = 700.0  # a loss beyond which the smaller mass is next to no float
_LEAST = 1e-290  # of a mass


@dataclass(frozen=True, slots=True, eq=False)
class FiniteLaw(AtomsLaw):
    """Finitely many losses with their masses under P, and the chance `leak` of an infinite one.

    Guarantee:
        A loss is at least the true one and exceeds it by at most 2⁻⁴⁴ of its size; a mass is off by at most
        2⁻⁴⁸ of itself; `leak` is at least the true one and exceeds it by at most 2⁻⁴⁸ of itself. What is
        left out has less than `FLOOR` of mass. The masses alone say 1 − leak only up to rounding.
    """

    leak: float


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """The outcomes of a pair (P, Q): losses log(p/q) in rising order, rounded up, and their masses p and q.

    `p_alone` is the mass that P has where Q has none, and `q_alone` the other way round.
    """

    loss: Curve
    p: Curve
    q: Curve
    p_alone: float = 0.0
    q_alone: float = 0.0

    def law(self) -> FiniteLaw:
        """Return the loss under P."""
        kept = self.p > FLOOR / (2 * max(self.p.size, 1))
        return FiniteLaw(self.loss[kept], self.p[kept], self.p_alone)


class FinitePair(Pair):
    """A pair whose outcomes can be listed."""

    __slots__ = ()

    @abstractmethod
    def outcomes(self) -> Outcomes | None:
        """Return the outcomes, rounded as `FiniteLaw` says; None when there are too many or they leave the floats."""

    def law(self) -> FiniteLaw | None:
        found = self.outcomes()
        return None if found is None else found.law()


def response(epsilon: float, told: float, neither: float, leak: float = 0.0) -> Outcomes | None:
    """Return the outcomes with losses ε, 0 and −ε, where P gives `told` to the first and `neither` to the second."""
    if not (epsilon <= _LARGEST and told > _LEAST):
        return None
    lied = told * float(np.exp(-epsilon))
    rows = [(-epsilon, lied, told), (0.0, neither, neither), (epsilon, told, lied)]
    loss, p, q = np.array([row for row in rows if row[1]]).T.copy()
    return Outcomes(loss, p, q, leak, leak)


def decay(weights: Curve, rate: Fraction) -> Curve:
    """exp(−w·rate) for integers w up to 2⁵³, to a few units in the last place however large w·rate is."""
    high, low = product(weights, rate)
    return np.exp(-high) * (1 - low)


def product(weights: Curve, rate: Fraction) -> tuple[Curve, Curve]:
    """w·rate as a rounded product and what it lacks, for integers w up to 2⁵³ (Dekker's exact product)."""
    first = float(rate)
    second = float(rate - Fraction(first))
    high = weights * first
    a, b = _halves(weights), _halves(np.array(first))
    lost = ((a[0] * b[0] - high) + a[0] * b[1] + a[1] * b[0]) + a[1] * b[1]
    return high, lost + weights * second


def _halves(x: Curve) -> tuple[Curve, Curve]:
    """Return the float x as a sum of two floats of 26 digits each (Veltkamp's splitting)."""
    big = x * 134217729.0
    high = big - (big - x)
    return high, x - high


def up(high: Curve, low: Curve) -> Curve:
    """Return the sum of high and low, rounded up by a unit or two; 0 stays 0."""
    value = high + low
    return np.where(value == 0, 0.0, np.nextafter(value, np.inf))
