"""Filters: which charges an account may still make, when each query follows all earlier answers.

Only quantities whose plain sum is a valid filter are summed: ε and δ, ρ, μ², and Rényi divergences of fixed
orders. Numeric composition, and trade-off curves in general multiplied up until they cross a target, are
not valid filters (https://arxiv.org/abs/2602.06756) and stay inside one plan.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeAlias, final

from discreet.accounting.convert import gdp_epsilon, mu_squared_for, rho_for, zcdp_epsilon
from discreet.accounting.divergence import order_for, renyi_epsilon, renyi_for, renyi_upper
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.event import ApproximateEvent, Composed, Event, GaussianEvent, RenyiEvent, ZCDPEvent
from discreet.privacy.exact import Real, below
from discreet.privacy.guarantee import Approximate, Budget, decimal

Tally: TypeAlias = tuple[Fraction, ...]
"""What has been spent, in the filter's own exact units."""

EXACT = math.lcm(*range(1, 1001)) * 10**60 << 140
"""What the denominator of a cost divides that is added as it is: numbers up to 1000, of decimals of up to 60 digits, of
64-bit reals from 2^-150 on, and products of these."""

_PARTS = 10**60
"""Any other cost is rounded up to a whole number of these parts of 1."""


ORDERS = tuple(
    Fraction(x)
    for x in ("5/4", "3/2", "7/4", *map(str, (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 256)))
)
"""The orders of the renyi-curve filter, in the order in which ledgers store them."""


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
                "filter when each query follows earlier results"
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
        return within(self.add(spent, cost), self.capacity)


@dataclass(frozen=True, slots=True)
class BasicFilter(Filter):
    """Σε ≤ ε and Σδ ≤ δ, in exact fractions.

    References: Rogers, Roth, Ullman, Vadhan 2016, the filter for basic composition,
    https://arxiv.org/abs/1605.08294; proof: docs/proofs/filters.md
    """

    name: ClassVar[str] = "basic"

    @property
    def capacity(self) -> Tally:
        return (self.budget.epsilon, self.budget.delta)

    def _cost(self, charge: Charge) -> Tally:
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
    name: ClassVar[str] = "zcdp"

    @property
    def capacity(self) -> Tally:
        return (self.most_rho, self.budget.delta / 2)

    def _cost(self, charge: Charge) -> Tally:
        loss = PrivacyLoss(charge.events)
        if loss.rho is None:
            raise InvalidParameter(
                f"this charge has {_named(e for e, _ in charge.events if e.rho is None)}, which has no ρ: the zcdp "
                "filter cannot add it up.",
                hint="open an account with filter='basic' for it",
            )
        return (loss.rho, loss.failure)

    def loss(self, spent: Tally) -> PrivacyLoss:
        rho, failure = spent
        events = [ZCDPEvent(rho)] if rho else []
        return PrivacyLoss(Composed([*events, *([ApproximateEvent(Fraction(0), failure)] if failure else [])]))

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
    name: ClassVar[str] = "gdp"

    @property
    def capacity(self) -> Tally:
        return (self.most_mu_squared,)

    def _cost(self, charge: Charge) -> Tally:
        loss = PrivacyLoss(charge.events)
        if loss.mu_squared is None or loss.failure:
            raise InvalidParameter(
                f"this charge has {_named(e for e, _ in charge.events if e.mu_squared is None or e.failure)}, which is "
                "not Gaussian: the gdp filter cannot add it up.",
                hint="ask for Gaussian noise of numbers in declared groups and bounds, without samples; or open an "
                "account with filter='zcdp' for it",
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

    References: at each order Feldman, Zrnic 2021, https://arxiv.org/abs/2008.11193; all at once: docs/proofs/filters.md

    Raises:
        InvalidParameter: a curve that does not convert to the budget at any of the orders.
    """

    curve: tuple[Fraction, ...]
    name: ClassVar[str] = "renyi-curve"

    def __post_init__(self) -> None:
        if len(self.curve) != len(ORDERS) or min(self.curve) < 0:
            raise InvalidParameter(f"a curve has one divergence for each of {len(ORDERS)} orders, none below 0.")
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
        return PrivacyLoss(Composed([*events, *([ApproximateEvent(Fraction(0), failure)] if failure else [])]))

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


def open_filter(name: str, budget: Budget, *, curve: PrivacyLoss | None = None) -> Filter:
    """Return the filter of that name for a budget: 'basic', 'zcdp', 'gdp', 'renyi' or 'renyi-curve'.

    Args:
        name: which quantities are added up.
        budget: the promise for all charges together.
        curve: for 'renyi-curve', and only for it: the loss of the work that no later work may exceed at any order.

    Raises:
        InvalidParameter: an unknown name, another filter than basic for a budget without δ, or a curve that
            is missing, not wanted, or above the budget.
    """
    if (curve is not None) != (name == "renyi-curve"):
        raise InvalidParameter(
            f"the filter {name!r} {'needs' if curve is None else 'has'} {'a' if curve is None else 'no'} curve.",
            hint="give filter='renyi-curve' together with curve=, the loss of all the work that is intended",
        )
    return _open(name, budget, None if curve is None else curve_of(curve))


def reopen_filter(name: str, budget: Budget, capacity: Tally) -> Filter:
    """Return the filter of an account that was opened before, with the capacity that its ledger has for it.

    Only 'renyi-curve' takes its curve from there; the others follow from the budget.

    Raises:
        InvalidParameter: as `open_filter`, and for a capacity that is not of this filter's form.
    """
    found = _open(name, budget, capacity[:-1] if name == "renyi-curve" else None)
    if len(found.capacity) != len(capacity):
        raise InvalidParameter(f"the {name} filter has {len(found.capacity)} sums, and not {len(capacity)}.")
    return found


def _open(name: str, budget: Budget, curve: tuple[Fraction, ...] | None) -> Filter:
    if name == "basic":
        return BasicFilter(budget)
    if name not in ("zcdp", "gdp", "renyi", "renyi-curve"):
        raise InvalidParameter(
            f"the filter {name!r} is not known.",
            hint="use 'basic', 'zcdp', 'gdp' or 'renyi', or 'renyi-curve' with a curve",
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
    if curve is not None:
        return CurveFilter(budget, curve)
    order = order_for(epsilon, half)
    return RenyiFilter(budget, order, renyi_for(order, epsilon, half))


def within(spent: Tally, capacity: Tally) -> bool:
    """Return whether no sum is above its capacity."""
    return all(x <= most for x, most in zip(spent, capacity, strict=True))


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
                f"this charge has {_named([event])}, which has no Rényi divergence: the {rule} filter cannot add it "
                "up.",
                hint="open an account with filter='basic' for it",
            )
        total += one * n
    return total


def _named(events: Iterable[Event]) -> str:
    """Return the first of these events by its name."""
    return next((type(event).__name__ for event in events), "an event")


def _short(cost: Fraction, most: Fraction) -> Fraction:
    """Return the cost, or the next number above it that is short; the capacity where it lies between them."""
    if EXACT % cost.denominator == 0:
        return cost
    above = Fraction(-(-cost.numerator * _PARTS // cost.denominator), _PARTS)
    return most if cost <= most < above else above
