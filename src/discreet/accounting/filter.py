"""Filters: which charges an account may still make, when each question follows all earlier answers.

Only quantities whose plain sum is a valid filter are summed here: ε and δ, ρ, μ², and the Rényi divergence of
one order. Numeric composition, and trade-off curves in general multiplied up until they cross a target, are
not valid filters (https://arxiv.org/abs/2602.06756) and stay inside one plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from discreet.accounting.convert import gdp_epsilon, mu_squared_for, rho_for, zcdp_epsilon
from discreet.accounting.loss import PrivacyLoss
from discreet.accounting.renyi import order_for, renyi_epsilon, renyi_for, renyi_upper
from discreet.errors import InvalidParameter
from discreet.privacy.event import ApproximateEvent, Composed, GaussianEvent, ZCDPEvent
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


@dataclass(frozen=True, slots=True)
class GDPFilter(Filter):
    """Σμ² ≤ μ*², with μ*² the largest for which μ*-GDP implies (ε, δ)-DP.

    A μ-GDP use has no failure apart from μ, so all of δ is for converting. Only Gaussian noise, rounded or
    not, has a μ.

    References: Smith, Thakurta 2022, fully adaptive composition for Gaussian differential privacy,
    https://arxiv.org/abs/2210.17520; Koskela, Tobaben, Honkela 2022, https://arxiv.org/abs/2209.15596; proof:
    docs/proofs/filters.md
    """

    most_mu_squared: Fraction

    @property
    def name(self) -> str:
        return "gdp"

    @property
    def capacity(self) -> Tally:
        return (self.most_mu_squared,)

    def cost(self, charge: Charge) -> Tally:
        loss = PrivacyLoss(charge.events)
        if loss.mu_squared is None or loss.failure:
            raise InvalidParameter(
                "this charge has an event that is not Gaussian, which the gdp filter cannot add up.",
                hint="ask for Gaussian noise, or open an account with filter='zcdp' for it",
            )
        return (loss.mu_squared,)

    def loss(self, spent: Tally) -> PrivacyLoss:
        (mu_squared,) = spent
        return PrivacyLoss(Composed([GaussianEvent(mu_squared)] if mu_squared else []))

    def remaining(self, spent: Tally) -> Budget:
        """ε by converting the μ² that is left at δ."""
        (mu_squared,) = spent
        if not mu_squared:
            return self.budget
        left = max(self.most_mu_squared - mu_squared, Fraction(0))
        epsilon = min(Fraction(gdp_epsilon(left, self.budget.delta)), self.budget.epsilon)
        return Budget(Fraction(below(epsilon)), self.budget.delta, per_query=self.budget.per_query)


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

    @property
    def name(self) -> str:
        return "renyi"

    @property
    def capacity(self) -> Tally:
        return (self.most, self.budget.delta / 2)

    def cost(self, charge: Charge) -> Tally:
        divergence = Fraction(0)
        for event, n in charge.events:
            one = renyi_upper(event, self.order)
            if one is None:
                raise InvalidParameter(
                    "this charge has an event without a Rényi divergence, which the renyi filter cannot add up.",
                    hint="open an account with filter='basic' for it",
                )
            divergence += one * n
        return (divergence, PrivacyLoss(charge.events).failure)

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


def open_filter(name: str, budget: Budget) -> Filter:
    """The filter of that name for a budget: 'basic', 'zcdp', 'gdp' or 'renyi'.

    Raises:
        InvalidParameter: an unknown name, or another filter than basic for a budget without δ.
    """
    if name == "basic":
        return BasicFilter(budget)
    if name not in ("zcdp", "gdp", "renyi"):
        raise InvalidParameter(
            f"the filter {name!r} is not known.", hint="use 'basic', 'zcdp', 'gdp' or 'renyi'"
        )
    if budget.delta == 0:
        raise InvalidParameter(
            f"the {name} filter needs a budget with a delta above 0.",
            hint="give the budget a delta such as 1e-6, or use filter='basic'",
        )
    epsilon, half = budget.epsilon, budget.delta / 2
    if name == "gdp":
        return GDPFilter(budget, mu_squared_for(epsilon, budget.delta))
    if name == "zcdp":
        return ZCDPFilter(budget, rho_for(epsilon, half))
    order = order_for(epsilon, half)
    return RenyiFilter(budget, order, renyi_for(order, epsilon, half))
