"""The lists of declared keys as SQL: constants with their places.

Guarantee:
    `"key i"` has each value once, since it groups by the value; so a row finds at most one entry of it, even where the
    database finds two constants equal that differ here (docs/proofs/bounding.md).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from discreet.plan.render import constant
from discreet.plan.schema import Scalar
from discreet.plan.types import Type

SHORT = 12
"""Up to so many values are written one by one; longer lists as a range, or as one text that the database splits, which
is read a hundred times faster than so many constants.
"""

_SEPARATORS = (",", ";", "|", "\n", "\t", "\x1f")


def list_sql(place: int, values: Sequence[Scalar], kind: Type | None) -> str:
    """The stages that give the values of one key (`v`) with their places (`g`), followed by a comma."""
    spelled = _spelled(values, kind) if len(values) > SHORT else None
    if spelled is None:
        rows = ", ".join(f"({constant(v, kind)}, {j})" for j, v in enumerate(values))
        return f'"key {place}" AS (SELECT v, min(g) AS g FROM (VALUES {rows}) l(v, g) GROUP BY v),\n'
    places = f"unnest(range(0, {len(values)}))"
    return (
        f'"list {place}" AS (SELECT {spelled} AS v, {places} AS g),\n'
        f'"key {place}" AS (SELECT v, min(g) AS g FROM "list {place}" GROUP BY v),\n'
    )


def _spelled(values: Sequence[Scalar], kind: Type | None) -> str | None:
    """The values as rows of a SELECT without FROM; None where they have no such spelling."""
    if kind is Type.INT and _count_up(values):
        return f"unnest(range({values[0]}, {_after(values[-1])}))"
    words = [_word(v) for v in values]
    known = [w for w in words if w is not None]
    if len(known) != len(words) or kind is None:
        return None
    separator = next((s for s in _SEPARATORS if not any(s in w for w in known)), None)
    if separator is None:
        return None
    split = f"unnest(string_split({_text(separator.join(known))}, {_text(separator)}))"
    return split if kind is Type.TEXT else f"TRY_CAST({split} AS {kind.value})"


def _count_up(values: Sequence[Scalar]) -> bool:
    """Whether they are whole numbers, each one more than the one before."""
    first = values[0]
    if type(first) is not int or _after(values[-1]) > _MOST:
        return False
    return all(type(v) is int and v == first + i for i, v in enumerate(values))


def _after(last: Scalar) -> int:
    """Where a range ends that has this last: it leaves out its end."""
    return last + 1 if isinstance(last, int) else _MOST + 1


_MOST = (1 << 63) - 1


def _word(value: Scalar) -> str | None:
    """A value as text that the database reads as just this value."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, dt.date) else repr(value)


def _text(value: str) -> str:
    return constant(value, Type.TEXT)
