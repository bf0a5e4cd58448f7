"""What a caller gives where several values or a function are wanted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from discreet.errors import InvalidParameter

_MOST = 2_000_000


def several(name: str, values: object, *, hint: str) -> tuple[Any, ...]:
    """The values, one after the other.

    Raises:
        InvalidParameter: it is a single one, or a range of more than a table could hold.
    """
    if not isinstance(values, Iterable):
        raise InvalidParameter(f"{name} must be several values, not {type(values).__name__}.", hint=hint)
    if isinstance(values, range) and len(values) > _MOST:  # before it fills the memory
        raise InvalidParameter(
            f"{name} has {len(values):,} elements; at most {_MOST:,} are gone through.",
            hint="what is wrong shows in small worlds",
        )
    return tuple(values)


def refuse_no_function(name: str, value: object, *, hint: str) -> None:
    """Refuses what cannot be called.

    Raises:
        InvalidParameter: it cannot.
    """
    if not callable(value):
        raise InvalidParameter(f"{name} must be a function, not {type(value).__name__}.", hint=hint)
