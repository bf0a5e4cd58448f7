"""Text: case, length, parts, patterns. Patterns are LIKE patterns, which take linear time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from discreet.plan.functions.function import Function, exactly, template
from discreet.plan.types import Type

_T, _I, _B = Type.TEXT, Type.INT, Type.BOOL
MOST_POSITIONS = 1 << 31  # DuckDB's positions are 32-bit; beyond them the text ends anyway


def _concat_signature(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
    return ([_T] * len(types), _T) if len(types) >= 2 and _T in types else None


def _like(text: str, pattern: str, *, ignore_case: bool = False) -> bool:
    parts = (".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern)
    return re.fullmatch("".join(parts), text, re.DOTALL | (re.IGNORECASE if ignore_case else 0)) is not None


def _lower(text: str) -> str:
    """Letter by letter, as DuckDB does it; Python would make two of some."""
    return "".join(c.lower()[0] for c in text)


def _upper(text: str) -> str:
    return "".join(map(_upper_letter, text))


def _upper_letter(c: str) -> str:
    if c == "ß":
        return "ẞ"
    return next((one for one in (c.upper(), c.title()) if len(one) == 1), c)


def _substring(text: str, start: int, length: int | None = None) -> str:
    """The part of a window of places that lies in the text; places count from 1, or from −1 backwards."""
    first = len(text) + start if start < 0 else start - 1
    if length is None:
        return text[max(first, 0) :]
    begin, end = sorted((first, first + length))
    return text[max(begin, 0) : max(end, 0)]


def _substring_sql(args: Sequence[str], _types: Sequence[Type]) -> str:
    # least and greatest pass over NULL, so a NULL position is kept apart from the clamp
    bounded = [
        f"CASE WHEN {a} IS NOT NULL THEN least(greatest({a}, -{MOST_POSITIONS}), {MOST_POSITIONS}) END"
        for a in args[1:]
    ]
    return f"TRY(substring({', '.join([args[0], *bounded])}))"


def _substring_signature(types: Sequence[Type | None]) -> Any:
    return exactly([_T, _I, _I][: len(types)], _T)(types) if len(types) in (2, 3) else None


TEXT = (
    Function("lower", exactly([_T], _T), template("lower({0})"), _lower),
    Function("upper", exactly([_T], _T), template("upper({0})"), _upper),
    Function("trim", exactly([_T], _T), template("trim({0})"), lambda a: a.strip(" ")),
    Function("length", exactly([_T], _I), template("length({0})"), len),
    Function("||", _concat_signature, lambda a, _: f"({' || '.join(a)})", lambda *a: "".join(a)),
    Function("substring", _substring_signature, _substring_sql, _substring),
    Function("like", exactly([_T, _T], _B), template("TRY({0} LIKE {1})"), _like),
    Function(
        "ilike",
        exactly([_T, _T], _B),
        template("TRY({0} ILIKE {1})"),
        lambda a, b: _like(a, b, ignore_case=True),
    ),
    Function("starts_with", exactly([_T, _T], _B), template("starts_with({0}, {1})"), str.startswith),
    Function("ends_with", exactly([_T, _T], _B), template("ends_with({0}, {1})"), str.endswith),
    Function("contains", exactly([_T, _T], _B), template("contains({0}, {1})"), lambda a, b: b in a),
)
