"""Caps that are reserved: for analysts who are kept apart, all caps at once must fit what they are caps of."""

from __future__ import annotations

from collections.abc import Iterable

from discreet.accounting.filter import Tally
from discreet.ledger.account_state import Cap


def reserved(groups: Iterable[Cap], analysts: Iterable[Cap], empty: Tally) -> Tally:
    """What is reserved of the population's capacity: by every group, and by every analyst without one."""
    alone = [cap for cap in analysts if cap.group is None]
    return total([cap.content.capacity for cap in (*groups, *alone)], empty)


def reserved_of(group: str, analysts: Iterable[Cap], empty: Tally) -> Tally:
    """What is reserved of a group's cap, by its analysts."""
    return total([cap.content.capacity for cap in analysts if cap.group == group], empty)


def total(capacities: Iterable[Tally], empty: Tally) -> Tally:
    """The sum of capacities, each in the same units."""
    found = empty
    for capacity in capacities:
        found = tuple(a + b for a, b in zip(found, capacity, strict=True))
    return found
