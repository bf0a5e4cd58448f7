"""Many uses counted at once: a long history stays flat, and an absurd one is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.event import Composed, Event

MOST = 10**18
"""More uses than any run has, and few enough for a C integer."""


def total(parts: Iterable[tuple[PrivacyLoss, int]]) -> PrivacyLoss:
    """The loss of all parts, each as often as it says."""
    tally: Counter[Event] = Counter()
    by_use = True
    for loss, times in parts:
        by_use = by_use and loss.by_use
        for event, n in loss.events:
            tally[event] += n * times
    if tally.total() > MOST:
        raise InvalidParameter("there are more than 10^18 uses, which is no run.")
    return PrivacyLoss(Composed(tally.items()), by_use)


def times(name: str, value: object) -> int:
    """A number of uses: an integer from 0 to `MOST`."""
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise InvalidParameter(f"{name} must be an integer, not {type(value).__name__}.")
    n: int = value.__index__()
    if not 0 <= n <= MOST:
        raise InvalidParameter(f"{name} must be an integer from 0 to 10^18.")
    return n
