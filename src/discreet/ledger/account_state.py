"""One account at one moment: its terms, and every limit that a charge of somebody must pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from discreet.accounting.filter import Charge, Filter, Tally, within
from discreet.errors import LedgerCorrupt
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
from discreet.ledger.log import View
from discreet.ledger.states import Terms, analyst_name, group_name, read_tally, read_terms, tally_name, terms_name
from discreet.ledger.units import reopen
from discreet.privacy.guarantee import Budget


class Status(Enum):
    """Whether an account takes charges."""

    OPEN = "open"
    FROZEN = "frozen"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Limit:
    """One rule of several that a charge must pass: whose it is, how it adds up, its capacity, and what is spent.

    Attributes:
        whose: "" for the population's budget, or "the analyst 'ana'", "the group 'research'".
        state: the name of the state that repeats what is spent.
        filter: how charges add up.
        budget: the promise; None where the population has none.
        capacity: the most of each sum; None where there is no limit.
        spent: the sums so far.
    """

    whose: str
    state: str
    filter: Filter
    budget: Budget | None
    capacity: Tally | None
    spent: Tally

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
        seq = self.terms.analysts.get(name)
        content = None if seq is None else self._term(seq)
        if content is None:
            return None
        if not isinstance(content, AnalystCapped) or content.name != name:
            raise self._corrupt(f"on the cap of {name!r}")
        state = analyst_name(self._population, name)
        spent = self._spent(state, AnalystCapped, lambda charge, spent: charge.analyst == name)
        return self._cap(f"the analyst {name!r}", state, content, spent)

    def group(self, name: str) -> Cap | None:
        """Return a group's cap; None for one that has none."""
        seq = self.terms.groups.get(name)
        content = None if seq is None else self._term(seq)
        if content is None:
            return None
        if not isinstance(content, GroupCapped) or content.name != name:
            raise self._corrupt(f"on the cap of the group {name!r}")
        state = group_name(self._population, name)
        spent = self._spent(state, GroupCapped, lambda charge, spent: charge.analyst is not None)
        return self._cap(f"the group {name!r}", state, content, spent)

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

    def _cap(self, whose: str, state: str, content: AnalystCapped | GroupCapped, spent: Tally) -> Cap:
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


def reserved_of(group: str, analysts: Iterable[Cap], empty: Tally) -> Tally:
    """Return what is reserved of a group's cap, by its analysts."""
    return total([cap.content.capacity for cap in analysts if cap.group == group], empty)


def total(capacities: Iterable[Tally], empty: Tally) -> Tally:
    """Return the sum of capacities, each in the same units."""
    found = empty
    for capacity in capacities:
        found = tuple(a + b for a, b in zip(found, capacity, strict=True))
    return found
