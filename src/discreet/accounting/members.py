"""Uses that a class of uses is known to hold: what they lose, the worst of the class loses at least."""

from __future__ import annotations

from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.event import ApproximateEvent, Composed, Event, GaussianEvent, ZCDPEvent
from discreet.privacy.sampling import PoissonEvent


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
