"""Filters that add up Rényi divergences: of one order, or of every order under a curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from discreet.accounting.loss import PrivacyLoss
from discreet.accounting.rdp import renyi_epsilon, renyi_upper
from discreet.accounting.spending import Charge, Filter, Tally
from discreet.errors import InvalidParameter
from discreet.privacy.event import ApproximateEvent, Composed, Event
from discreet.privacy.guarantee import Budget, decimal
from discreet.privacy.renyi_curve import RenyiEvent

ORDERS = tuple(
    Fraction(x)
    for x in (
        "5/4",
        "3/2",
        "7/4",
        *map(str, (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 256)),
    )
)
"""The orders of the renyi-curve filter, in the order in which ledgers store them."""


@dataclass(frozen=True, slots=True)
class RenyiFilter(Filter):
    """Σ of Rényi divergences of one order α, and Σ failure ≤ δ/2.

    The capacity is the largest divergence of order α that implies (ε, δ/2)-DP. Pure uses cost less here than
    as ρ = ε²/2, the less the larger their ε. What is spent or left is told by converting at this one order:
    soundly, but far above the truth while it is little.

    References: Feldman, Zrnic 2021, individual privacy accounting via a Rényi filter,
    https://arxiv.org/abs/2008.11193; proof: docs/proofs/filters.md
    """

    order: Fraction
    most: Fraction
    name: ClassVar[str] = "renyi"

    @property
    def capacity(self) -> Tally:
        return (self.most, self.budget.delta / 2)

    def _cost(self, charge: Charge) -> Tally:
        return (_divergence(charge.events, self.order, self.name), PrivacyLoss(charge.events).failure)

    def loss(self, spent: Tally) -> PrivacyLoss:
        """As one (ε, δ)-DP use, with the half of δ that converting needs in its δ."""
        divergence, failure = spent
        half = self.budget.delta / 2 if divergence else Fraction(0)
        epsilon = renyi_epsilon(self.order, divergence, half) if divergence else Fraction(0)
        delta = half + failure
        return PrivacyLoss(Composed([ApproximateEvent(epsilon, delta)] if epsilon or delta else []))

    def remaining(self, spent: Tally) -> Budget:
        """ε by converting what is left at δ/2, and the δ not used up (half is for converting)."""
        divergence, failure = spent
        left, half = max(self.most - divergence, Fraction(0)), self.budget.delta / 2
        epsilon = min(renyi_epsilon(self.order, left, half), self.budget.epsilon) if left else Fraction(0)
        delta = half + max(half - failure, Fraction(0))
        if not divergence:
            epsilon = self.budget.epsilon
        return Budget(epsilon, delta, per_query=self.budget.per_query)


@dataclass(frozen=True, slots=True)
class CurveFilter(Filter):
    """Σ of Rényi divergences of every one of `ORDERS`, each within its own capacity, and Σ failure ≤ δ/2.

    The capacities are the divergences of some work that the budget allows: whatever is asked, and however it
    is chosen, all of it together reveals at no order more than that work would. That is a promise at every δ,
    and stronger than the (ε, δ) of the budget.

    Guarantee:
        Beyond that of every filter: outside events of probability Σ failure, the Rényi divergence of all
        answers together is, at each of `ORDERS`, within the capacity.

    Attributes:
        curve: the capacity of each of `ORDERS`.

    References: at each order Feldman, Zrnic 2021, https://arxiv.org/abs/2008.11193; all at once:
    docs/proofs/filters.md

    Raises:
        InvalidParameter: a curve that does not convert to the budget at any of the orders.
    """

    curve: tuple[Fraction, ...]
    name: ClassVar[str] = "renyi-curve"

    def __post_init__(self) -> None:
        if len(self.curve) != len(ORDERS) or min(self.curve) < 0:
            raise InvalidParameter(
                f"a curve has one divergence for each of {len(ORDERS)} orders, none below 0."
            )
        if (found := self._convert(self.curve)) > self.budget.epsilon:
            raise InvalidParameter(
                f"the curve stands for ε = {decimal(found)} at half of the budget's δ, which is above the budget's "
                f"{decimal(self.budget.epsilon)}.",
                hint="give a curve of less work, or a larger budget; the other half of δ is for thresholds",
            )

    @property
    def capacity(self) -> Tally:
        return (*self.curve, self.budget.delta / 2)

    def _cost(self, charge: Charge) -> Tally:
        divergences = (_divergence(charge.events, order, self.name) for order in ORDERS)
        return (*divergences, PrivacyLoss(charge.events).failure)

    def loss(self, spent: Tally) -> PrivacyLoss:
        """As uses with these divergences: the best order answers at each δ."""
        *divergences, failure = spent
        events: list[Event] = [RenyiEvent(ORDERS, tuple(divergences))] if any(divergences) else []
        return PrivacyLoss(
            Composed([*events, *([ApproximateEvent(Fraction(0), failure)] if failure else [])])
        )

    def remaining(self, spent: Tally) -> Budget:
        """ε by converting what is left at the best order and δ/2, and the δ not used up (half is for converting)."""
        *divergences, failure = spent
        left = [max(most - x, Fraction(0)) for x, most in zip(divergences, self.curve, strict=True)]
        half = self.budget.delta / 2
        epsilon = min(self._convert(left), self.budget.epsilon) if all(left) else Fraction(0)
        if not any(divergences):
            epsilon = self.budget.epsilon
        return Budget(epsilon, half + max(half - failure, Fraction(0)), per_query=self.budget.per_query)

    def _convert(self, divergences: Sequence[Fraction]) -> Fraction:
        half = self.budget.delta / 2
        return min(renyi_epsilon(a, x, half) for a, x in zip(ORDERS, divergences, strict=True))


def curve_of(loss: PrivacyLoss) -> tuple[Fraction, ...]:
    """Return the divergences of a loss at each of `ORDERS`, as a charge of it would count: a filter's curve.

    Raises:
        InvalidParameter: an event without a Rényi divergence.
    """
    return tuple(_divergence(loss.events, order, "renyi-curve") for order in ORDERS)


def _divergence(events: Composed, order: Fraction, rule: str) -> Fraction:
    """Return the sum of the events' divergences of one order."""
    total = Fraction(0)
    for event, n in events:
        one = renyi_upper(event, order)
        if one is None:
            raise InvalidParameter(
                f"this charge has an event without a Rényi divergence, which the {rule} filter cannot add up.",
                hint="open an account with filter='basic' for it",
            )
        total += one * n
    return total
