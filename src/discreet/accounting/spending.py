"""What is spent, and the rule that says whether more may be: charges, tallies, and what every filter is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, final

from discreet.accounting.loss import PrivacyLoss
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import Approximate, Budget

Tally: TypeAlias = tuple[Fraction, ...]
"""What has been spent, in the filter's own exact units."""

EXACT = math.lcm(*range(1, 1001)) * 10**60 << 140
"""What the denominator of a cost divides that is added as it is: numbers up to 1000, of decimals of up to 60 digits, of
64-bit reals from 2^-150 on, and products of these."""

_PARTS = 10**60
"""Any other cost is rounded up to a whole number of these parts of 1."""


@dataclass(frozen=True, slots=True)
class Charge:
    """The cost of one plan: its events, and the (ε, δ) that they amount to as composed inside the plan.

    The events of one plan are fixed before its first answer, so any composition is valid among them. Between
    plans, which are chosen in sight of answers, only filters add up, and they take nothing but charges: a
    `PrivacyLoss`, which composes numerically, is not one.

    Raises:
        TypeError: events or a guarantee of another type.
    """

    events: Composed
    guarantee: Approximate

    def __post_init__(self) -> None:
        given: tuple[object, object] = (self.events, self.guarantee)
        if not (isinstance(given[0], Composed) and isinstance(given[1], Approximate)):
            raise TypeError(
                "a charge is made of Composed events and an Approximate guarantee, not of "
                f"{type(self.events).__name__} and {type(self.guarantee).__name__}"
            )

    @classmethod
    def of(cls, loss: PrivacyLoss, delta: Real = 0) -> Charge:
        """Return the charge of a plan with this loss, composed at δ as one use.

        Raises:
            InvalidParameter: the loss has no ε at that δ.
        """
        return cls(loss.events, loss.guarantee(delta))


@dataclass(frozen=True, slots=True)
class Filter(ABC):
    """A rule that decides, from what was spent so far, whether one more charge keeps the budget's promise.

    Guarantee:
        However the charges are chosen, each in sight of all earlier answers, everything released under
        charges that were afforded is together (ε, δ)-DP with the budget's ε and δ, for the neighbours that
        the charges were derived for.
    """

    budget: Budget

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which an account is opened with it."""

    @property
    @abstractmethod
    def capacity(self) -> Tally:
        """The most that may be spent, in each of the filter's units."""

    @final
    def cost(self, charge: Charge) -> Tally:
        """Return what a charge costs in the filter's units, rounded up where its fractions are long (`EXACT`).

        So all sums are whole multiples of one fraction, which follows from the capacity alone: they never become too
        long to be stored, whatever is charged, and nothing about one charge depends on which others were made before.
        A cost within the capacity stays within it. Proof: docs/proofs/filters.md

        Raises:
            TypeError: anything but a charge, such as a `PrivacyLoss`.
            InvalidParameter: a charge that this filter cannot add up.
        """
        if not isinstance(charge, Charge):
            raise TypeError(
                f"a filter adds up charges, not a {type(charge).__name__}: what composes numerically is no "
                "filter when each question follows earlier answers"
            )
        cost = self._cost(charge)
        if all(EXACT % x.denominator == 0 for x in cost):
            return cost
        return tuple(_short(x, most) for x, most in zip(cost, self.capacity, strict=True))

    @abstractmethod
    def _cost(self, charge: Charge) -> Tally:
        """Return the cost of a charge, not rounded."""

    @abstractmethod
    def loss(self, spent: Tally) -> PrivacyLoss:
        """Return what has been spent, as a loss that reports it soundly."""

    @abstractmethod
    def remaining(self, spent: Tally) -> Budget:
        """Return the promise that everything still affordable would have, taken alone."""

    @property
    def empty(self) -> Tally:
        """Nothing spent."""
        return (Fraction(0),) * len(self.capacity)

    def add(self, spent: Tally, cost: Tally) -> Tally:
        """Return what is spent after one more charge."""
        return tuple(a + b for a, b in zip(spent, cost, strict=True))

    def affords(self, spent: Tally, cost: Tally) -> bool:
        """Return whether one more charge stays within the capacity, exactly."""
        return all(x <= most for x, most in zip(self.add(spent, cost), self.capacity, strict=True))


def _short(cost: Fraction, most: Fraction) -> Fraction:
    """Return the cost, or the next number above it that is short; the capacity where it lies between them."""
    if EXACT % cost.denominator == 0:
        return cost
    above = Fraction(-(-cost.numerator * _PARTS // cost.denominator), _PARTS)
    return most if cost <= most < above else above
