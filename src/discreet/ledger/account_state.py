"""One account at one moment: its terms, every limit that a charge of somebody must pass, and how it refuses.

Sums of one filter can only be compared, and added up, where their units are the same, for another budget too: after a
raise, and for analysts' caps. Those of `basic`, `zcdp` and `gdp` always are. Those of `renyi` are divergences of one
order, which followed from the budget at opening: other budgets of the account keep that order, since any order above 1
is valid. Under `renyi-curve` another budget has the account's curve, made larger or smaller by one factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache

from discreet.accounting.divergence import renyi_for
from discreet.accounting.filter import (
    Charge,
    CurveFilter,
    Filter,
    RenyiFilter,
    Tally,
    curve_of,
    open_filter,
    reopen_filter,
    within,
)
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerCorrupt
from discreet.ledger.entry import (
    AnalystCapped,
    Charged,
    Closed,
    Content,
    Entry,
    Frozen,
    GroupCapped,
    Opened,
    Rebudgeted,
    Thawed,
)
from discreet.ledger.failures import KEEP
from discreet.ledger.forms import Terms, analyst_name, group_name, read_tally, read_terms, tally_name, terms_name
from discreet.ledger.log import View
from discreet.privacy.exact import first_whole
from discreet.privacy.guarantee import Budget, decimal, words

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


class Status(Enum):
    """Whether an account takes charges."""

    OPEN = "open"
    FROZEN = "frozen"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Limit:
    """One rule of several that a charge must pass: whose it is, how it adds up, its capacity, and what is spent."""

    whose: str  # "" for the population's budget, or "the analyst 'ana'", "the group 'research'"
    state: str  # the name of the state that repeats what is spent
    filter: Filter  # how charges add up
    budget: Budget | None  # the promise; None where the population has none
    capacity: Tally | None  # the most of each sum; None where there is no limit
    spent: Tally  # the sums so far

    def allows(self, charge: Charge) -> bool:
        """Return whether the owner allows so much for one query."""
        return charge.guarantee.epsilon <= self.filter.budget.per_query

    def affords(self, cost: Tally, *, stored: bool = False) -> bool:
        """Whether one more cost stays within the capacity that was written, and within what is computed today.

        Args:
            cost: in the filter's units.
            stored: whether only the capacity that was written counts.
        """
        total = self.filter.add(self.spent, cost)
        if self.capacity is None:
            return True
        return within(total, self.capacity) and (stored or self.filter.affords(self.spent, cost))

    def after(self, cost: Tally) -> Limit:
        """Return the same limit when this has been charged."""
        total = self.filter.add(self.spent, cost)
        return Limit(self.whose, self.state, self.filter, self.budget, self.capacity, total)

    @property
    def remaining(self) -> Budget:
        """The promise that everything that can still be charged has, taken alone."""
        return self.filter.remaining(self.spent)

    def times(self, cost: Tally) -> int | None:
        """How many more charges of this cost fit; None when any number does."""
        if self.capacity is None or not any(cost):
            return None
        most = (min(a, b) for a, b in zip(self.capacity, self.filter.capacity, strict=True))
        left = ((m - s, c) for m, s, c in zip(most, self.spent, cost, strict=True))
        return max(min(int(room // c) for room, c in left if c), 0)


@dataclass(frozen=True, slots=True)
class Cap:
    """What an analyst, or a group of analysts, may spend, and has spent."""

    content: AnalystCapped | GroupCapped
    limit: Limit

    @property
    def group(self) -> str | None:
        """An analyst's group."""
        return self.content.group if isinstance(self.content, AnalystCapped) else None


class Standing:
    """An account inside one transaction, each part read when it is asked for, and once.

    Raises:
        LedgerCorrupt: a state that is missing or that its entry contradicts.
    """

    def __init__(self, view: View, place: str, population: str, units: Filter) -> None:
        self._view = view
        self._place = place
        self._population = population
        self._units = units
        try:
            self.terms: Terms = read_terms(view.get(terms_name(population)) or "")
        except ValueError:
            raise self._corrupt("on its terms") from None

    @property
    def status(self) -> Status:
        """Whether charges are taken."""
        match None if self.terms.status is None else self._term(self.terms.status):
            case None | Thawed():
                return Status.OPEN
            case Frozen():
                return Status.FROZEN
            case Closed():
                return Status.CLOSED
            case _:
                raise self._corrupt("on whether it is open")

    @cached_property
    def population(self) -> Limit:
        """The population's own limit, or its tally without one."""
        spent = self._spent(tally_name(self._population), Opened, lambda charge, spent: charge.spent == spent)
        match self._term(self.terms.budget):
            case Opened(budget, capacity=capacity):
                found = self._units
            case Rebudgeted(budget, capacity):
                found = reopen(self._units, budget, capacity)
            case _:
                raise self._corrupt("on its budget")
        return Limit("", tally_name(self._population), found, budget, capacity, spent)

    def analyst(self, name: str) -> Cap | None:
        """Return an analyst's cap; None for one who has none."""
        state = analyst_name(self._population, name)
        return self._cap(name, self.terms.analysts, AnalystCapped, state, lambda charge, _: charge.analyst == name)

    def group(self, name: str) -> Cap | None:
        """Return a group's cap; None for one that has none."""
        state = group_name(self._population, name)
        return self._cap(name, self.terms.groups, GroupCapped, state, lambda charge, _: charge.analyst is not None)

    def analysts(self) -> Iterator[Cap]:
        """All analysts, by name."""
        return (cap for name in sorted(self.terms.analysts) if (cap := self.analyst(name)) is not None)

    def groups(self) -> Iterator[Cap]:
        """All groups, by name."""
        return (cap for name in sorted(self.terms.groups) if (cap := self.group(name)) is not None)

    def limits(self, analyst: str | None) -> list[Limit]:
        """Every limit that a charge of this analyst must pass, the narrowest first.

        Raises:
            KeyError: no such analyst.
        """
        if analyst is None:
            return [self.population]
        cap = self.analyst(analyst)
        if cap is None:
            raise KeyError(analyst)
        group = None if cap.group is None else self.group(cap.group)
        if cap.group is not None and group is None:
            raise self._corrupt(f"on the group of {analyst!r}")
        return [cap.limit, *([] if group is None else [group.limit]), self.population]

    def _cap(
        self,
        name: str,
        said: Mapping[str, int],
        kind: type[AnalystCapped | GroupCapped],
        state: str,
        agrees: Callable[[Charged, Tally], bool],
    ) -> Cap | None:
        """Return the cap of this kind and name; None where no entry says one."""
        if name not in said:
            return None
        content, whose = self._term(said[name]), f"the {kind.kind} {name!r}"
        if not isinstance(content, kind) or content.name != name:
            raise self._corrupt(f"on the cap of {whose}")
        spent = self._spent(state, kind, agrees)
        found = reopen(self._units, content.budget, content.capacity)
        return Cap(content, Limit(whose, state, found, content.budget, content.capacity, spent))

    def _spent(self, state: str, first: type[Content], agrees: Callable[[Charged, Tally], bool]) -> Tally:
        """Return a tally, which stands beside the entry that last changed it and must agree with it."""
        try:
            seq, spent = read_tally(self._view.get(state) or "")
        except ValueError:
            raise self._corrupt("on what is spent") from None
        content, empty = self._content(seq), self._units.empty
        if isinstance(content, Charged):
            same = agrees(content, spent) and len(spent) == len(empty)
        else:
            same = isinstance(content, first) and spent == empty
        if not same:
            raise self._corrupt("on what is spent")
        return spent

    def _term(self, seq: int) -> Content:
        return self._own(seq, self._view.told(seq))

    def _content(self, seq: int) -> Content:
        return self._own(seq, self._view.numbered(seq))

    def _own(self, seq: int, entry: Entry | None) -> Content:
        if entry is None or entry.population != self._population:
            raise self._corrupt(f"on entry {seq}")
        return entry.content

    def _corrupt(self, what: str) -> LedgerCorrupt:
        return LedgerCorrupt(
            f"the ledger {self._place} contradicts itself about {self._population!r} {what}.", hint=KEEP
        )


def reserved(groups: Iterable[Cap], analysts: Iterable[Cap], empty: Tally) -> Tally:
    """Return what is reserved of the population's capacity: by every group, and by every analyst without one."""
    alone = [cap for cap in analysts if cap.group is None]
    return total([cap.content.capacity for cap in (*groups, *alone)], empty)


def total(capacities: Iterable[Tally], empty: Tally) -> Tally:
    """Return the sum of capacities, each in the same units."""
    found = empty
    for capacity in capacities:
        found = tuple(a + b for a, b in zip(found, capacity, strict=True))
    return found


_DIGITS = 3000  # of the numbers of a charge; an entry with a number of more than 4000 cannot be read again
LONG = 10**_DIGITS  # above every number of a charge; sums stay short by themselves (`Filter.cost`)
_FREE = "ask again what has been answered, which is free; a budget never resets"


def refused(population: str, limit: Limit, charge: Charge, limits: Sequence[Limit]) -> BudgetExceeded:
    """Return the refusal of a charge that one limit cannot pay; `limits` are all that whoever asks may hear of."""
    asked, left = charge.guarantee, limit.remaining
    asks = _amounts(asked.epsilon, asked.delta, _up, always=bool(left.delta))
    has = _amounts(left.epsilon, left.delta, _down, always=bool(asked.delta))
    budget = limit.filter.budget
    whole = f"ε = {decimal(budget.epsilon)} and δ = {decimal(budget.delta)}" if "δ" in has else decimal(budget.epsilon)
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
        hint=f"ask for less: of the budget ε = {_down(limit.remaining.epsilon)} is left, and the owner sets the cap of "
        "one query with per_query=",
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
