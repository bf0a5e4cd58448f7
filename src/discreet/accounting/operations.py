"""What becomes of one use on a sample, or among shuffled reports: events in, events out."""

from __future__ import annotations

from fractions import Fraction

from discreet.accounting.sums import sums
from discreet.errors import InvalidParameter
from discreet.privacy.discrete_events import RandomizedResponseEvent
from discreet.privacy.event import Composed, Event, GaussianEvent
from discreet.privacy.fixed_size import FixedSizeEvent
from discreet.privacy.sampling import PoissonEvent
from discreet.privacy.shuffling import ShuffleEvent


def one_use(events: Composed, hint: str) -> Event | None:
    """The one event there is, None when there is none. Several Gaussian uses are one.

    Raises:
        InvalidParameter: there are several.
    """
    if not events.parts:
        return None
    mu_squared = sums(events).mu_squared
    if mu_squared is not None and events.relation is None:
        return GaussianEvent(mu_squared)
    if len(events.parts) == 1 and events.parts[0][1] == 1:
        return events.parts[0][0]
    uses = sum(n for _, n in events)
    raise InvalidParameter(
        f"this loss has {uses} uses, and a sample is taken for one.",
        hint=f"sample each use and then compose: {hint}",
    )


def sampled(event: Event, rate: Fraction) -> Composed:
    """On a Poisson sample; a sample of a sample is one sample."""
    if rate in (0, 1):
        return Composed([event] if rate else [])
    if isinstance(event, PoissonEvent):
        return Composed([PoissonEvent(event.event, event.rate * rate)])
    return Composed([PoissonEvent(event, rate)])


def drawn(event: Event, sample: int, population: int) -> Composed:
    """On a sample of fixed size."""
    if sample in (0, population):
        return Composed([event] if sample else [])
    return Composed([FixedSizeEvent(event, sample, population)])


def shuffled(event: Event, users: int) -> Composed:
    """Among the shuffled reports of as many users.

    Raises:
        InvalidParameter: a use that is no ε-DP local randomiser.
    """
    if isinstance(event, ShuffleEvent):
        raise InvalidParameter("these reports are shuffled already.", hint="give the number of users at once")
    if event.pure is None or event.failure or event.relation is not None:
        raise InvalidParameter(
            "shuffling is proven for local randomisers that are ε-DP by themselves, and this use is not.",
            hint="start from pure(ε), laplace(...) or randomized_response(ε)",
        )
    binary = isinstance(event, RandomizedResponseEvent) and event.categories == 2
    return Composed([ShuffleEvent(event.pure, users, binary)])
