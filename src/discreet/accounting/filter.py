"""Filters: which charges an account may still make, when each question follows all earlier answers.

Only quantities whose plain sum is a valid filter are summed: ε and δ, ρ, μ², and Rényi divergences of fixed
orders. Numeric composition, and trade-off curves in general multiplied up until they cross a target, are
not valid filters (https://arxiv.org/abs/2602.06756) and stay inside one plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from discreet.accounting.convert import gdp_epsilon, mu_squared_for, rho_for, zcdp_epsilon
from discreet.accounting.loss import PrivacyLoss
from discreet.accounting.rdp import order_for, renyi_for
from discreet.accounting.renyi_filter import CurveFilter as CurveFilter
from discreet.accounting.renyi_filter import RenyiFilter as RenyiFilter
from discreet.accounting.renyi_filter import curve_of
from discreet.accounting.spending import Charge as Charge
from discreet.accounting.spending import Filter as Filter
from discreet.accounting.spending import Tally as Tally
from discreet.errors import InvalidParameter
from discreet.privacy.event import ApproximateEvent, Composed, GaussianEvent, ZCDPEvent
from discreet.privacy.exact import below
from discreet.privacy.guarantee import Budget


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
    name: ClassVar[str] = "gdp"

    @property
    def capacity(self) -> Tally:
        return (self.most_mu_squared,)

    def _cost(self, charge: Charge) -> Tally:
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


def open_filter(name: str, budget: Budget, *, curve: PrivacyLoss | None = None) -> Filter:
    """Return the filter of that name for a budget: 'basic', 'zcdp', 'gdp', 'renyi' or 'renyi-curve'.

    Args:
        name: which quantities are added up.
        budget: the promise for all charges together.
        curve: for 'renyi-curve', and only for it: the loss of the work that no later work may exceed at any
            order.

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
