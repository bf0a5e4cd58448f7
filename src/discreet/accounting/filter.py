"""Filters: which charges an account may still make, when each question follows all earlier answers.

Only quantities whose plain sum is a valid filter are summed here. Numeric composition, and f-DP or
Gaussian-DP curves multiplied up as natural as it looks, are not valid filters
(https://arxiv.org/abs/2602.06756) and stay inside one plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from discreet.accounting.convert import rho_for, zcdp_epsilon
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.event import ApproximateEvent, Composed, ZCDPEvent
from discreet.privacy.exact import below
from discreet.privacy.guarantee import Approximate, Budget

Tally: TypeAlias = tuple[Fraction, ...]
"""What has been spent, in the filter's own exact units."""


@dataclass(frozen=True, slots=True)
class Charge:
    """The cost of one plan: its events, and the (ε, δ) that they amount to as composed inside the plan."""

    events: Composed
    guarantee: Approximate


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

    @abstractmethod
    def cost(self, charge: Charge) -> Tally:
        """What a charge costs in the filter's units."""

    @abstractmethod
    def loss(self, spent: Tally) -> PrivacyLoss:
        """What has been spent, as a loss that reports it soundly."""

    @abstractmethod
    def remaining(self, spent: Tally) -> Budget:
        """The promise that everything still affordable would have, taken alone."""

    @property
    def empty(self) -> Tally:
        """Nothing spent."""
        return (Fraction(0),) * len(self.capacity)

    def add(self, spent: Tally, cost: Tally) -> Tally:
        """What is spent after one more charge."""
        return tuple(a + b for a, b in zip(spent, cost, strict=True))

    def affords(self, spent: Tally, cost: Tally) -> bool:
        """Whether one more charge stays within the capacity, exactly."""
        return all(x <= most for x, most in zip(self.add(spent, cost), self.capacity, strict=True))


@dataclass(frozen=True, slots=True)
class BasicFilter(Filter):
    """Σε ≤ ε and Σδ ≤ δ, in exact fractions.

    References: Rogers, Roth, Ullman, Vadhan 2016, the filter for basic composition,
    https://arxiv.org/abs/1605.08294; proof: docs/proofs/filters.md
    """

    @property
    def name(self) -> str:
        return "basic"

    @property
    def capacity(self) -> Tally:
        return (self.budget.epsilon, self.budget.delta)

    def cost(self, charge: Charge) -> Tally:
        return (charge.guarantee.epsilon, charge.guarantee.delta)

    def loss(self, spent: Tally) -> PrivacyLoss:
        epsilon, delta = spent
        return PrivacyLoss(Composed([ApproximateEvent(epsilon, delta)] if epsilon or delta else []))

    def remaining(self, spent: Tally) -> Budget:
        epsilon, delta = (max(most - x, Fraction(0)) for x, most in zip(spent, self.capacity, strict=True))
        return Budget(epsilon, delta, per_query=self.budget.per_query)


@dataclass(frozen=True, slots=True)
class ZCDPFilter(Filter):
    """Σρ ≤ ρ* and Σ failure ≤ δ/2, with ρ* the largest for which ρ*-zCDP implies (ε, δ/2)-DP.

    References: Whitehouse, Ramdas, Rogers, Wu 2023, the filter for approximate zCDP,
    https://arxiv.org/abs/2203.05481; proof: docs/proofs/filters.md
    """

    most_rho: Fraction

    @property
    def name(self) -> str:
        return "zcdp"

    @property
    def capacity(self) -> Tally:
        return (self.most_rho, self.budget.delta / 2)

    def cost(self, charge: Charge) -> Tally:
        loss = PrivacyLoss(charge.events)
        if loss.rho is None:
            raise InvalidParameter(
                "this charge has an event without a ρ, which the zcdp filter cannot add up.",
                hint="open an account with filter='basic' for it",
            )
        return (loss.rho, loss.failure)

    def loss(self, spent: Tally) -> PrivacyLoss:
        rho, failure = spent
        events = [ZCDPEvent(rho)] if rho else []
        return PrivacyLoss(
            Composed([*events, *([ApproximateEvent(Fraction(0), failure)] if failure else [])])
        )

    def remaining(self, spent: Tally) -> Budget:
        """ε by converting the ρ that is left at δ/2, and the δ not used up (half is for converting)."""
        rho, failure = spent
        left, half = max(self.most_rho - rho, Fraction(0)), self.budget.delta / 2
        epsilon = min(Fraction(zcdp_epsilon(left, half)), self.budget.epsilon) if rho else self.budget.epsilon
        delta = half + max(half - failure, Fraction(0))
        return Budget(Fraction(below(epsilon)) if rho else epsilon, delta, per_query=self.budget.per_query)


def open_filter(name: str, budget: Budget) -> Filter:
    """The filter of that name for a budget: 'basic' or 'zcdp'.

    Raises:
        InvalidParameter: an unknown name, one whose theorem is not built yet, or zcdp for a budget without δ.
    """
    if name == "basic":
        return BasicFilter(budget)
    if name == "zcdp":
        if budget.delta == 0:
            raise InvalidParameter(
                "the zcdp filter needs a budget with a delta above 0.",
                hint="give the budget a delta such as 1e-6, or use filter='basic'",
            )
        return ZCDPFilter(budget, rho_for(budget.epsilon, budget.delta / 2))
    known = "is not available yet" if name in ("renyi", "gdp") else "is not known"
    raise InvalidParameter(f"the filter {name!r} {known}.", hint="use 'basic' or 'zcdp'")
