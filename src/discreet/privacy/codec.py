"""Events as JSON, by tags.

The table is explicit: an event that is not in it cannot be stored, and a stored tag that is not in it is
refused, not guessed. Fractions are written "numerator/denominator", and several of them as a list. An event
inside an event is written as it would be alone, without a count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from discreet.errors import InvalidParameter
from discreet.privacy.allocation import AllocationEvent
from discreet.privacy.discrete_events import AtomsEvent, BoundedRangeEvent, EitherOrderEvent, RandomizedResponseEvent
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    RenyiEvent,
    ZCDPEvent,
)
from discreet.privacy.exact import count
from discreet.privacy.grouping import GroupEvent, SampledGroupEvent
from discreet.privacy.parallel import ParallelEvent
from discreet.privacy.sampling import FixedSizeEvent, PoissonEvent
from discreet.privacy.shuffling import ShuffleEvent
from discreet.privacy.staircase import StaircaseEvent

TAGS: Mapping[str, type[Event]] = MappingProxyType(
    {
        "approximate": ApproximateEvent,
        "zcdp": ZCDPEvent,
        "laplace": LaplaceEvent,
        "discrete-laplace": DiscreteLaplaceEvent,
        "gaussian": GaussianEvent,
        "discrete-gaussian": DiscreteGaussianEvent,
        "randomized-response": RandomizedResponseEvent,
        "atoms": AtomsEvent,
        "bounded-range": BoundedRangeEvent,
        "poisson": PoissonEvent,
        "staircase": StaircaseEvent,
        "renyi": RenyiEvent,
        "group": GroupEvent,
        "sampled-group": SampledGroupEvent,
        "parallel": ParallelEvent,
        "fixed-size": FixedSizeEvent,
        "shuffle": ShuffleEvent,
        "allocation": AllocationEvent,
        "either-order": EitherOrderEvent,
    }
)
"""Every stored tag."""

_DEEPEST = 8  # events inside events

_TAG_OF = {cls: tag for tag, cls in TAGS.items()}


def encode(events: Composed) -> list[dict[str, Any]]:
    """Return a JSON-able list, one entry for each distinct event with its count, in an order of their own.

    Raises:
        InvalidParameter: an event without a tag.
    """
    ordered = sorted(events.parts, key=lambda part: (type(part[0]).__name__, repr(part[0])))
    return [{**_encode_event(e), "count": n} for e, n in ordered]


def decode(rows: list[dict[str, Any]]) -> Composed:
    """Return the events that `encode` wrote.

    Raises:
        InvalidParameter: an unknown tag or a field that does not fit.
    """
    return Composed(_decode_row(row) for row in rows)


def fraction_text(x: Fraction) -> str:
    """Return a fraction as text that reads back exactly."""
    return f"{x.numerator}/{x.denominator}"


def _encode_event(event: Event) -> dict[str, Any]:
    if type(event) not in _TAG_OF:
        raise InvalidParameter(f"a {type(event).__name__} cannot be stored: it has no tag.")
    # Every event is a dataclass.
    values = {_key(f.name): getattr(event, f.name) for f in fields(event)}  # type: ignore[arg-type]
    return {"event": _TAG_OF[type(event)], **{k: _encode_field(v) for k, v in values.items()}}


def _key(name: str) -> str:
    """Return how a field is called in JSON, where "event" is the tag."""
    return "of" if name == "event" else name


def _encode_field(value: object) -> object:
    if isinstance(value, tuple):
        return [_encode_field(x) for x in value]
    if isinstance(value, Event):
        return _encode_event(value)
    return fraction_text(value) if isinstance(value, Fraction) else value


def _decode_row(row: dict[str, Any]) -> tuple[Event, int]:
    values = {k: v for k, v in row.items() if k != "count"}
    try:
        return _decode_event(values, 0), count("count", row.get("count", 0))
    except (TypeError, ValueError):
        raise InvalidParameter("a stored event has a count that does not fit.") from None


def _decode_event(values: dict[str, Any], depth: int) -> Event:
    tag = values.get("event")
    if not isinstance(tag, str) or tag not in TAGS:
        raise InvalidParameter(
            f"the stored event {tag!r} is not known to this version.",
            hint="another version of discreet may have written it",
        )
    cls = TAGS[tag]
    wanted = {f.name: f.type for f in fields(cls)}  # type: ignore[arg-type]  # as above
    values = {k: v for k, v in values.items() if k != "event"}
    if values.keys() != {_key(name) for name in wanted}:
        raise InvalidParameter(f"the stored event {tag!r} does not have the fields of its kind.")
    try:
        return cls(**{k: _decode_field(k, kind, values[_key(k)], depth) for k, kind in wanted.items()})
    except (InvalidParameter, TypeError, ValueError, ZeroDivisionError):
        raise InvalidParameter(f"the stored event {tag!r} has a field that does not fit.") from None


def _decode_field(name: str, kind: object, value: Any, depth: int) -> object:
    if depth > _DEEPEST:
        raise InvalidParameter("events are stored inside one another too deeply.")
    if kind == "Fraction":
        return _decode_fraction(value)
    if kind == "bool":
        if not isinstance(value, bool):
            raise InvalidParameter("a yes or no is stored as true or false.")
        return value
    if kind == "Event":
        return _decode_event(_dict(value), depth + 1)
    if isinstance(kind, str) and kind.startswith("tuple["):
        if not isinstance(value, list):  # a text would be taken apart into its characters
            raise InvalidParameter("several values are stored as a list.")
        inner = kind.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(_decode_field(name, inner, x, depth) for x in value)
    return count(name, value, least=0)


def _dict(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidParameter("an event is stored as an object.")
    return value


def _decode_fraction(text: object) -> Fraction:
    if not isinstance(text, str):  # a JSON number would have been a float on the way
        raise InvalidParameter("a fraction is stored as text.")
    if "e" in text.lower():  # 1e999999999 would take all memory
        raise InvalidParameter("a fraction is stored without an exponent.")
    return Fraction(text)
