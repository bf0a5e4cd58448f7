"""What an account says when it refuses: what was asked, what is left, and the smallest change that would fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from discreet.accounting.filter import Charge
from discreet.errors import BudgetExceeded, InvalidParameter
from discreet.ledger.account_state import Limit, Status
from discreet.privacy.guarantee import Budget, decimal

_DIGITS = 3000
"""Of the numbers of a charge; an entry with a number of more than 4000 cannot be read again."""

LONG = 10**_DIGITS
"""Above every number of a charge; sums stay short by themselves (`Filter.cost`)."""

_FREE = "ask again what has been answered, which is free; a budget never resets"


def refused(population: str, limit: Limit, charge: Charge, limits: Sequence[Limit]) -> BudgetExceeded:
    """Return the refusal of a charge that one limit cannot pay; `limits` are all that whoever asks may hear of."""
    asked, left = charge.guarantee, limit.remaining
    asks = _amounts(asked.epsilon, asked.delta, _up, always=bool(left.delta))
    has = _amounts(left.epsilon, left.delta, _down, always=bool(asked.delta))
    budget = limit.filter.budget
    whole = decimal(budget.epsilon) + (f" and {decimal(budget.delta)}" if "δ" in has else "")
    # The other filters count in units of their own, in which an ε that is left may be too much.
    rule = "" if limit.filter.name == "basic" else f", counted by the {limit.filter.name} filter"
    whose = f", the cap of {limit.whose}" if limit.whose else ""
    return BudgetExceeded(
        f"{population!r}: the query needs {asks}, and {has} is left of {whole}{whose}{rule}.",
        asked=asks,
        left=has,
        hint=f"{_fitting(charge, limits)}; or {_FREE}",
    )


def shut(population: str, status: Status, charge: Charge, left: Budget) -> BudgetExceeded:
    """Return the refusal of a charge to an account that takes none."""
    asked = charge.guarantee
    return BudgetExceeded(
        f"the account of {population!r} is {status.value}: no charge is taken.",
        asked=_amounts(asked.epsilon, asked.delta, _up, always=False),
        left=_amounts(left.epsilon, left.delta, _down, always=False),
        hint="what has been answered is still free; `discreet budget --history` tells who did it and why",
    )


def above_one_query(charge: Charge, limit: Limit) -> InvalidParameter:
    """Return the refusal of a charge above what the owner allows for one query."""
    whose = f" of {limit.whose}" if limit.whose else ""
    return InvalidParameter(
        f"one query{whose} may ask ε = {decimal(limit.filter.budget.per_query)} at most, and this one asks "
        f"ε = {_up(charge.guarantee.epsilon)}.",
        hint="ask for less; the owner sets the cap with Budget(per_query=…)",
    )


def too_long() -> InvalidParameter:
    """Return the refusal of a charge whose numbers nobody could read again."""
    return InvalidParameter(
        f"this charge has a number of more than {_DIGITS} digits; nothing was charged.",
        hint="ask with short decimals, such as epsilon=0.5",
    )


def above_each_query(charge: Charge, each: Budget) -> InvalidParameter:
    """Return the refusal of a charge above what the owner allows for one query of each person."""
    return InvalidParameter(
        f"one query of each person may ask ε = {decimal(each.per_query)} at most, and this one asks "
        f"ε = {_up(charge.guarantee.epsilon)}.",
        hint="ask for less; the owner sets the cap with per_person=Budget(…, per_query=…)",
    )


def _fitting(charge: Charge, limits: Sequence[Limit]) -> str:
    """Return the smallest change that would fit where ε and δ add up; elsewhere the session searches it."""
    if any(limit.filter.name != "basic" for limit in limits):
        return "ask for less"
    capped = [limit.remaining for limit in limits if limit.capacity is not None]
    epsilon, delta = min(b.epsilon for b in capped), min(b.delta for b in capped)
    changes = []
    if charge.guarantee.epsilon > epsilon:
        changes.append(f"epsilon={_down(epsilon)}")
    if charge.guarantee.delta > delta:
        changes.append(f"delta={_down(delta)}" if delta else "delta=0, with Laplace noise and declared groups,")
    if not epsilon:
        return "nothing is left: the owner would have to raise it"
    return f"{' and '.join(changes)} would fit" if changes else "ask for less"


def _amounts(epsilon: Fraction, delta: Fraction, words: Callable[[Fraction], str], *, always: bool) -> str:
    return f"ε = {words(epsilon)}" + (f", δ = {words(delta)}" if delta or always else "")


def _up(x: Fraction) -> str:
    return _rounded(x, ROUND_CEILING)


def _down(x: Fraction) -> str:
    return _rounded(x, ROUND_FLOOR)


def _rounded(x: Fraction, direction: str) -> str:
    """Six digits: what is asked is rounded up and what is left down, so that a refusal never looks wrong."""
    digits = Context(prec=6, rounding=direction).divide(Decimal(x.numerator), Decimal(x.denominator))
    return f"{float(digits):.6g}" if abs(digits.adjusted()) < 300 else f"{digits:.6g}"  # beyond floats
