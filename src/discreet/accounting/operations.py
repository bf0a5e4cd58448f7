"""Events in, events out: one use on a sample or among shuffled reports, and one use that a class of uses holds."""

from __future__ import annotations

from fractions import Fraction

from discreet.accounting.bounds import sums
from discreet.errors import InvalidParameter
from discreet.privacy.discrete_events import BoundedRangeEvent, RandomizedResponseEvent
from discreet.privacy.event import ApproximateEvent, Composed, Event, GaussianEvent, ZCDPEvent
from discreet.privacy.sampling import FixedSizeEvent, PoissonEvent
from discreet.privacy.shuffling import ShuffleEvent


def one_use(events: Composed, hint: str) -> Event | None:
    """Return the one event there is, None when there is none. Several Gaussian uses are one.

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
        f"this loss has {uses} uses, and a sample is taken for one.", hint=f"sample each use and then compose: {hint}"
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


def members(events: Composed) -> Composed | None:
    """One use for each event, which the event stands for; None where an event is a bound that has none known here.

    Gaussian noise with μ² = 2ρ is ρ-zCDP, and randomised response with ε/2 has losses in a range of ε.

    References: Bun, Steinke 2016, Proposition 1.6, https://arxiv.org/abs/1605.02065; docs/proofs/composition.md
    """
    found = [(_member(event), n) for event, n in events]
    if any(event is None for event, _ in found):
        return None
    return Composed((event, n) for event, n in found if event is not None)


def _member(event: Event) -> Event | None:
    if isinstance(event, ZCDPEvent):
        return GaussianEvent(2 * event.rho)
    if isinstance(event, BoundedRangeEvent):
        return ApproximateEvent(event.epsilon / 2)
    if isinstance(event, PoissonEvent):
        inner = _member(event.event)
        return None if inner is None else PoissonEvent(inner, event.rate)
    return event if event.pair().exact else None
