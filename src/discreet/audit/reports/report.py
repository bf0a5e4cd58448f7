"""Parts of results as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.audit.claim import Claim
from discreet.audit.finding import Chance

_LONGEST = 160
"""Characters of an input that are shown; a reader who needs more has the object."""


def chance_words(chance: Chance) -> str:
    """How often, out of how many, and the interval."""
    return f"{chance.hits:,} of {chance.samples:,}, a chance of {number(chance.low)} to {number(chance.high)}"


def number(x: float) -> str:
    """A number in four digits, as people read it."""
    return "∞" if x == math.inf else f"{x:.4g}"


def shown(x: object) -> str:
    """An input on one line, cut where it is long."""
    try:
        words = np.array2string(x, separator=", ", threshold=20) if isinstance(x, np.ndarray) else repr(x)
    except Exception as error:  # somebody else's __repr__ must not end an audit
        words = f"<{type(x).__name__} without a text: {type(error).__name__}>"
    words = " ".join(words.split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def fields_of(result: Any, *without: str) -> dict[str, Any]:
    """Return the fields of a result in JSON's own types, with the claim in words and as points."""
    claim: Claim | None = result.claim
    claimed = claim and {"text": claim.text, "points": plain(claim.points)}
    return {"format": 1, "claimed": claimed, **plain_fields(result, "claim", *without)}


def plain(value: object) -> Any:
    """Return a value in JSON's own types: results by their fields, an infinite number and what is unknown as text."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float | Fraction | np.floating):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(v) for v in value]
    return plain_fields(value) if type(value).__module__.startswith("discreet.audit.") else shown(value)


def plain_fields(result: Any, *without: str) -> dict[str, Any]:
    """Return the fields that count in comparisons, in JSON's own types."""
    return {
        f.name: plain(getattr(result, f.name)) for f in fields(result) if f.compare and f.name not in without
    }


def lines_of(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return rows of a name and words as lines for a terminal."""
    return [f"{name:<8} {words}" for name, words in rows]
