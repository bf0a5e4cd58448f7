"""Filters that count in the units of an account's filter, for another budget: after a raise, and for analysts' caps.

Sums of one filter can only be compared, and added up, where their units are the same. Those of `basic`, `zcdp` and
`gdp` always are. Those of `renyi` are divergences of one order, which followed from the budget at opening: other
budgets of the account keep that order, since any order above 1 is valid. Under `renyi-curve` another budget has the
account's curve, made larger or smaller by one factor.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from discreet.accounting.filter import CurveFilter, Filter, RenyiFilter, Tally, curve_of, open_filter, reopen_filter
from discreet.accounting.loss import PrivacyLoss
from discreet.accounting.rdp import renyi_for
from discreet.errors import InvalidParameter
from discreet.ledger.entry import Opened
from discreet.privacy.exact import first_whole
from discreet.privacy.guarantee import Budget, words

_STEPS = 1 << 20  # of the factor by which a curve is scaled

SLACK = 1 + Fraction(1, 1 << 30)
"""A capacity may have been computed on a machine whose logarithms differ in the last digit."""


def meter(opened: Opened) -> Filter:
    """Return the filter in whose units an account counts; where the population has no budget, the filter of its people.

    Raises:
        InvalidParameter: terms that no account can have been opened with.
    """
    if opened.budget is not None and opened.capacity is not None:
        return reopen_filter(opened.filter, opened.budget, opened.capacity)
    if opened.people is None or opened.people.filter != opened.filter:
        raise InvalidParameter("an account without a budget counts as its people are counted.")
    return reopen_filter(opened.filter, opened.people.budget, opened.people.capacity)


@lru_cache(maxsize=256)
def refit(units: Filter, budget: Budget) -> Filter:
    """Return the filter of that budget in the units of another filter, with the capacity that follows from it.

    Raises:
        InvalidParameter: a budget that these units cannot count, or of which they have nothing left.
    """
    if budget.epsilon <= 0:
        raise InvalidParameter("a budget or a cap needs an ε above 0.", hint="Budget(epsilon=1)")
    if not isinstance(units, RenyiFilter | CurveFilter):
        return open_filter(units.name, budget)
    if budget.delta == 0:
        raise InvalidParameter(
            f"the {units.name} filter needs a δ above 0, in a cap as in a budget.", hint="Budget(1, 1e-6)"
        )
    found = _at_order(units, budget) if isinstance(units, RenyiFilter) else _scaled(units, budget)
    if not any(found.capacity[:-1]):
        raise InvalidParameter(
            f"{words(budget.epsilon, budget.delta)} is too little for anything to be counted by this account's "
            f"{units.name} filter.",
            hint="give a larger ε or δ; accounts opened with filter='zcdp' can count small caps",
        )
    return found


def reopen(units: Filter, budget: Budget, capacity: Tally) -> Filter:
    """Return the filter of a budget in those units as a ledger has kept it; only a curve is taken from there.

    Raises:
        InvalidParameter: as `refit`, and for a capacity that is not of this filter's form.
    """
    if isinstance(units, CurveFilter):
        return CurveFilter(budget, capacity[:-1])
    found = refit(units, budget)
    if len(found.capacity) != len(capacity):
        raise InvalidParameter(f"the {units.name} filter has {len(found.capacity)} sums, and not {len(capacity)}.")
    return found


def along(units: Filter, budget: Budget, curve: PrivacyLoss) -> Filter:
    """Return the filter of a budget under the curve of another loss.

    Raises:
        InvalidParameter: an account whose filter has no curve, or a curve above the budget.
    """
    if not isinstance(units, CurveFilter):
        raise InvalidParameter(f"the filter {units.name!r} has no curve.", hint="leave curve= out")
    return CurveFilter(budget, curve_of(curve))


def _at_order(units: RenyiFilter, budget: Budget) -> RenyiFilter:
    half = budget.delta / 2
    return RenyiFilter(budget, units.order, renyi_for(units.order, budget.epsilon, half))


def _scaled(units: CurveFilter, budget: Budget) -> CurveFilter:
    """Return the curve by the largest factor, in steps of 2^-20, under which it converts to the budget."""

    def at(steps: int) -> CurveFilter | None:
        try:
            return CurveFilter(budget, tuple(x * Fraction(steps, _STEPS) for x in units.curve))
        except InvalidParameter:
            return None

    # the conversion grows with the curve, so that bisection finds the last factor
    last = first_whole(lambda steps: steps >= _STEPS << 20 or at(steps) is None) - 1
    return at(last) or CurveFilter(budget, tuple(Fraction(0) for _ in units.curve))
