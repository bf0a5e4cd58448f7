"""Events as JSON, with tags that never change their meaning.

The table is explicit: an event that is not in it cannot be stored, and a stored tag that is not in it is
refused, not guessed. Fractions are written "numerator/denominator", and several of them as a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from discreet.errors import InvalidParameter
from discreet.privacy.discrete_events import AtomsEvent, BoundedRangeEvent, RandomizedResponseEvent
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ZCDPEvent,
)
from discreet.privacy.exact import count

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
    }
)
"""Every stored tag, for ever."""

_TAG_OF = {cls: tag for tag, cls in TAGS.items()}


def encode(events: Composed) -> list[dict[str, Any]]:
    """A JSON-able list, one entry for each distinct event with its count, in an order of their own.

    Raises:
        InvalidParameter: an event without a tag.
    """
    for event, _ in events:
        if type(event) not in _TAG_OF:
            raise InvalidParameter(f"a {type(event).__name__} cannot be stored: it has no tag.")
    ordered = sorted(events.parts, key=lambda part: (type(part[0]).__name__, repr(part[0])))
    return [{"event": _TAG_OF[type(e)], "count": n, **_encode_fields(e)} for e, n in ordered]


def decode(rows: list[dict[str, Any]]) -> Composed:
    """The events that `encode` wrote.

    Raises:
        InvalidParameter: an unknown tag or a field that does not fit.
    """
    return Composed(_decode_row(row) for row in rows)


def fraction_text(x: Fraction) -> str:
    """A fraction as text that reads back exactly."""
    return f"{x.numerator}/{x.denominator}"


def _encode_fields(event: Event) -> dict[str, Any]:
    # Every event is a dataclass.
    values = {f.name: getattr(event, f.name) for f in fields(event)}  # type: ignore[arg-type]
    return {k: _encode_field(v) for k, v in values.items()}


def _encode_field(value: object) -> object:
    if isinstance(value, tuple):
        return [fraction_text(x) for x in value]
    return fraction_text(value) if isinstance(value, Fraction) else value


def _decode_row(row: dict[str, Any]) -> tuple[Event, int]:
    tag = row.get("event")
    if not isinstance(tag, str) or tag not in TAGS:
        raise InvalidParameter(
            f"the stored event {tag!r} is not known to this version.",
            hint="a newer version of discreet may have written it",
        )
    cls = TAGS[tag]
    wanted = {f.name: f.type for f in fields(cls)}  # type: ignore[arg-type]  # as above
    values = {k: v for k, v in row.items() if k not in ("event", "count")}
    if values.keys() != wanted.keys():
        raise InvalidParameter(f"the stored event {tag!r} does not have the fields of its kind.")
    try:
        event = cls(**{k: _decode_field(k, wanted[k], v) for k, v in values.items()})
        return event, count("count", row.get("count", 0))
    except (InvalidParameter, TypeError, ValueError, ZeroDivisionError):
        raise InvalidParameter(f"the stored event {tag!r} has a field that does not fit.") from None


def _decode_field(name: str, kind: object, value: Any) -> object:
    if kind == "Fraction":
        return _decode_fraction(value)
    if kind == "tuple[Fraction, ...]":
        if not isinstance(value, list):  # a text would be taken apart into its characters
            raise InvalidParameter("several fractions are stored as a list.")
        return tuple(_decode_fraction(x) for x in value)
    return count(name, value, least=0)


def _decode_fraction(text: object) -> Fraction:
    if not isinstance(text, str):  # a JSON number would have been a float on the way
        raise InvalidParameter("a fraction is stored as text.")
    return Fraction(text)
