"""Text: case, length, parts, and LIKE patterns, which take linear time.

No row can use up the memory, also where texts are made of texts many times over: what replaces or fills is written
out, and a text that would become too long by being rewritten, or joined with others, is NULL.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.functions.function import Function, exactly, template

_T, _I, _B = Type.TEXT, Type.INT, Type.BOOL
MOST_POSITIONS = 1 << 31  # DuckDB's positions are 32-bit; beyond them the text ends anyway
MOST_REWRITTEN = 1 << 16
"""Characters of a text that is made of others, or rewritten with longer parts; a longer one becomes NULL."""

MOST_PADDED = 1000
"""Characters to which a text may be filled up."""

LONGEST_PART = 100
"""Characters of a text that replaces another."""


def longest(old: int, new: int) -> int:
    """How long a text may be in which so many characters may stand in the place of each `old`."""
    return MOST_REWRITTEN // max(-(-new // old), 1)


def rewritten(text: str, sql: str, most: int) -> str:
    """Return SQL for a text that is rewritten, NULL where it is too long for that."""
    return f"CASE WHEN length({text}) <= {most} THEN {sql} END"


def written(constant: str) -> str:
    """Return the text that a constant of SQL is."""
    return constant[1:-1].replace("''", "'")


def _concat_signature(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
    return ([_T] * len(types), _T) if len(types) >= 2 and _T in types else None


def _joined_signature(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
    return ([_T] * len(types), _T) if len(types) >= 2 and types[0] in (_T, None) else None


def _short(text: str) -> str | None:
    return text if len(text) <= MOST_REWRITTEN else None


def _concat_sql(args: Sequence[str], _types: Sequence[Type]) -> str:
    """Return the lengths are added up first: what is too long is never made."""
    length = " + ".join(f"length({a})" for a in args)
    return f"CASE WHEN {length} <= {MOST_REWRITTEN} THEN {' || '.join(args)} END"


def _joined_sql(args: Sequence[str], _types: Sequence[Type]) -> str:
    """As `_concat_sql`, with a separator after each part that is not NULL, of which the last is not written."""
    separator, *parts = args
    length = " + ".join(f"COALESCE(length({p}) + length({separator}), 0)" for p in parts)
    return f"CASE WHEN {length} <= {MOST_REWRITTEN} + length({separator}) THEN concat_ws({', '.join(args)}) END"


def _joined(separator: str | None, *texts: str | None) -> str | None:
    return None if separator is None else _short(separator.join(t for t in texts if t is not None))


def _like(text: str, pattern: str, escape: str = "") -> bool:
    """Whether the text fits: `%` is any text, `_` any character, and what follows the escape is itself."""
    wanted: list[str] = []  # "" for any text, "__" for any character
    letters = iter(pattern)
    for c in letters:
        if c == escape:
            wanted.append(next(letters))
        else:
            wanted.append("" if c == "%" else "__" if c == "_" else c)
    return _fits(text, wanted)


def _fits(text: str, wanted: Sequence[str]) -> bool:
    """Back to the last any-text only, so that no pattern takes more than the product of the two lengths."""
    i = j = 0
    star, mark = -1, 0
    while i < len(text):
        if j < len(wanted) and wanted[j] in ("__", text[i]):
            i, j = i + 1, j + 1
        elif j < len(wanted) and wanted[j] == "":
            star, mark, j = j, i, j + 1
        elif star >= 0:
            mark += 1
            i, j = mark, star + 1
        else:
            return False
    return all(w == "" for w in wanted[j:])


def _check_escape(pattern: str | None, escape: str | None) -> None:
    ends = None
    if pattern is not None and escape is not None and len(escape) == 1 and escape.isascii():
        letters = iter(pattern)
        ends = all(c != escape or next(letters, None) is not None for c in letters)
    if not ends:
        raise UnsupportedQuery(
            "LIKE … ESCAPE needs one plain character, which the pattern does not end with.",
            hint="x LIKE '10!%%' ESCAPE '!'",
        )


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
    """Return the part of a window of places that lies in the text; places count from 1, or from −1 backwards."""
    start = max(min(start, MOST_POSITIONS), -MOST_POSITIONS)
    first = len(text) + start if start < 0 else start - 1
    if length is None:
        return text[max(first, 0) :]
    length = max(min(length, MOST_POSITIONS), -MOST_POSITIONS)
    begin, end = sorted((first, first + length))
    return text[max(begin, 0) : max(end, 0)]


def _clamped(place: str) -> str:
    # least and greatest pass over NULL, so a NULL position is kept apart from the clamp
    return f"CASE WHEN {place} IS NOT NULL THEN least(greatest({place}, -{MOST_POSITIONS}), {MOST_POSITIONS}) END"


def _substring_sql(args: Sequence[str], _types: Sequence[Type]) -> str:
    return f"TRY(substring({', '.join([args[0], *map(_clamped, args[1:])])}))"


def _substring_signature(types: Sequence[Type | None]) -> Any:
    return exactly([_T, _I, _I][: len(types)], _T)(types) if len(types) in (2, 3) else None


def _left(text: str, n: int) -> str:
    """Return the first n characters; all but the last −n."""
    return text[:n]


def _right(text: str, n: int) -> str:
    """Return the last n characters; all but the first −n."""
    return text[-n:] if n < 0 else text[max(len(text) - n, 0) :]


def _part(text: str, delimiter: str, place: int) -> str:
    """Return the part at a place from 1 on, or from −1 backwards; empty beyond the ends."""
    parts = text.split(delimiter)
    at = place - 1 if place > 0 else len(parts) + place
    return parts[at] if place and 0 <= at < len(parts) else ""


def _check_delimiter(delimiter: str | None) -> None:
    if not delimiter:
        raise UnsupportedQuery("SPLIT_PART needs a delimiter.", hint="split_part(x, '-', 1)")


def _check_replacement(old: str | None, new: str | None) -> None:
    if not old or new is None or len(new) > LONGEST_PART:
        raise UnsupportedQuery(
            f"REPLACE needs a text to look for, and at most {LONGEST_PART} characters in its place.",
            hint="replace(x, '-', '')",
        )


def _check_filling(size: int | None, fill: str | None) -> None:
    if size is None or not fill or not 0 <= size <= MOST_PADDED or len(fill) > MOST_PADDED:
        raise UnsupportedQuery(
            f"LPAD and RPAD fill up to at most {MOST_PADDED} characters, with a text that is not empty.",
            hint="lpad(x, 5, '0')",
        )


def _replace(text: str, old: str, new: str) -> str | None:
    return text.replace(old, new) if len(text) <= longest(len(old), len(new)) else None


def _replace_sql(args: Sequence[str], _types: Sequence[Type]) -> str:
    old, new = map(written, args[1:])
    return rewritten(args[0], f"replace({', '.join(args)})", longest(len(old), len(new)))


def _filling(text: str, size: int, fill: str) -> str:
    return (fill * size)[: max(size - len(text), 0)]


def _stripped(name: str, strip: Any) -> Function:
    """Trimming of spaces, or of any of the characters of a second text."""

    def signature(types: Sequence[Type | None]) -> Any:
        return exactly([_T] * len(types), _T)(types) if len(types) in (1, 2) else None

    return Function(
        name, signature, lambda args, _: f"{name}({', '.join(args)})", lambda text, letters=" ": strip(text, letters)
    )


def _padded(name: str, value: Any) -> Function:
    return Function(
        name,
        exactly([_T, _I, _T], _T),
        template(f"TRY({name}({{0}}, TRY_CAST({{1}} AS INTEGER), {{2}}))"),
        value,
        constants=(1, 2),
        check=_check_filling,
    )


TEXT = (
    Function("lower", exactly([_T], _T), template("lower({0})"), _lower),
    Function("upper", exactly([_T], _T), template("upper({0})"), _upper),
    _stripped("trim", str.strip),
    _stripped("ltrim", str.lstrip),
    _stripped("rtrim", str.rstrip),
    Function("strlen", exactly([_T], _I), template("strlen({0})"), lambda x: len(x.encode()), lambda _: (0, math.inf)),
    Function("length", exactly([_T], _I), template("length({0})"), len, lambda _: (0, math.inf)),
    Function("||", _concat_signature, _concat_sql, lambda *a: _short("".join(a))),
    Function("concat_ws", _joined_signature, _joined_sql, _joined, takes_null=True),
    Function("substring", _substring_signature, _substring_sql, _substring),
    Function("left", exactly([_T, _I], _T), lambda a, _: f"TRY(left({a[0]}, {_clamped(a[1])}))", _left),
    Function("right", exactly([_T, _I], _T), lambda a, _: f"TRY(right({a[0]}, {_clamped(a[1])}))", _right),
    Function(
        "split_part",
        exactly([_T, _T, _I], _T),
        lambda a, _: f"TRY(split_part({a[0]}, {a[1]}, {_clamped(a[2])}))",
        _part,
        constants=(1,),
        check=_check_delimiter,
    ),
    Function("replace", exactly([_T, _T, _T], _T), _replace_sql, _replace, constants=(1, 2), check=_check_replacement),
    _padded("lpad", lambda text, size, fill: (_filling(text, size, fill) + text)[:size]),
    _padded("rpad", lambda text, size, fill: (text + _filling(text, size, fill))[:size]),
    Function("strpos", exactly([_T, _T], _I), template("strpos({0}, {1})"), lambda a, b: a.find(b) + 1),
    Function(
        "ascii", exactly([_T], _I), template("ascii({0})"), lambda a: ord(a[0]) if a else 0, lambda _: (0, 0x10FFFF)
    ),
    Function(
        "unicode",
        exactly([_T], _I),
        template("unicode({0})"),
        lambda a: ord(a[0]) if a else -1,
        lambda _: (-1, 0x10FFFF),
    ),
    Function("like", exactly([_T, _T], _B), template("TRY({0} LIKE {1})"), _like),
    Function(
        "like_escape",
        exactly([_T, _T, _T], _B),
        template("TRY({0} LIKE {1} ESCAPE {2})"),
        _like,
        constants=(1, 2),
        check=_check_escape,
    ),
    Function("ilike", exactly([_T, _T], _B), template("TRY({0} ILIKE {1})"), lambda a, b: _like(_lower(a), _lower(b))),
    Function("starts_with", exactly([_T, _T], _B), template("starts_with({0}, {1})"), str.startswith),
    Function("ends_with", exactly([_T, _T], _B), template("ends_with({0}, {1})"), str.endswith),
    Function("contains", exactly([_T, _T], _B), template("contains({0}, {1})"), lambda a, b: b in a),
)
