"""How amounts of privacy are written: for people, and for JSON."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.errors import InvalidParameter
from discreet.privacy.guarantee import Approximate, Budget, decimal

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss


def spelled(amount: Approximate | Budget) -> str:
    """The amount in words: `ε = 0.5`, or `ε = 0.5, δ = 1e-06` where there is a δ."""
    epsilon = f"ε = {decimal(amount.epsilon)}"
    return f"{epsilon}, δ = {decimal(amount.delta)}" if amount.delta else epsilon


def amounts(amount: Approximate | Budget) -> dict[str, Fraction]:
    """The amount for JSON."""
    return {"epsilon": amount.epsilon, "delta": amount.delta}


def spent(loss: PrivacyLoss, budget: Budget) -> Approximate:
    """What was spent as one (ε, δ): as it was charged where charges add up so, else at the budget's δ."""
    try:
        return loss.guarantee(loss.failure)
    except InvalidParameter:  # zCDP has no ε at that δ
        return loss.guarantee(budget.delta)
