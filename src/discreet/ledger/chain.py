"""Canonical JSON and the hash chain over it.

An entry's hash is SHA-256(tag ‖ previous hash ‖ body). Tag and previous hash have fixed lengths, so that
two different (previous, body) never share an input, and whoever knows one hash knows, up to a collision,
everything before it.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from discreet.errors import InvalidParameter

GENESIS = "0" * 64
"""What stands in for the hash before the first entry; the head of an empty ledger."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)

_TAG = b"discreet ledger entry, format 1\x00"


def link(previous: str, body: str) -> str:
    """Return the hash, as 64 hexadecimal digits, of an entry with this canonical body after that hash."""
    return hashlib.sha256(_TAG + bytes.fromhex(previous) + body.encode("utf-8", "surrogatepass")).hexdigest()


def canonical(value: Any) -> str:
    r"""Return the one JSON text of a value: ASCII, sorted keys, no spaces.

    Two values have one text exactly when they are equal as JSON, numbers compared with their type and last
    bit.

    >>> canonical({"b": [1, 2.5], "a": "é"})
    '{"a":"\\u00e9","b":[1,2.5]}'

    Raises:
        InvalidParameter: NaN, an infinity, a key that is not text, or a type that JSON does not have.
    """
    _check(value)
    try:
        return _ENCODER.encode(value)
    except ValueError:  # an integer beyond the digits that Python turns into text
        raise InvalidParameter("a value for the ledger has more digits than any use needs.") from None


def unchecked(value: Any) -> str:
    """`canonical` of what was just made of texts and integers, and of nothing that anybody gave."""
    return _ENCODER.encode(value)


def parse(body: str) -> Any:
    """Return what a canonical text stands for.

    Raises:
        ValueError: not JSON, or not in canonical form.
    """
    value = json.loads(body)
    if _ENCODER.encode(value) != body:
        raise ValueError("not canonical")
    return value


def _check(value: Any) -> None:
    """Refuse what `json.dumps` would change on the way: keys turned into text, subclasses, NaN."""
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise InvalidParameter(f"a key in the ledger must be text, not {type(key).__name__}.")
            _check(item)
    elif type(value) in (list, tuple):
        for item in value:
            _check(item)
    elif type(value) is float:
        if not math.isfinite(value):
            raise InvalidParameter("a number in the ledger must be finite.")
    elif value is not None and type(value) not in (str, int, bool):
        raise InvalidParameter(
            f"a value of type {type(value).__name__} cannot be written to the ledger.",
            hint="text, integers, floats, booleans, None, lists and dicts of them can",
        )
