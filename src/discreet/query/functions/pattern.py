"""Regular expressions over text. Patterns are written out and read beforehand, so that no row and no pattern can fail
or take more than linear time in the database.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.functions.function import Function, exactly
from discreet.query.functions.regex import Regex, matches, regex
from discreet.query.functions.text import LONGEST_PART, longest, rewritten, written

_T, _I, _B = Type.TEXT, Type.INT, Type.BOOL
_REFERENCE = re.compile(r"\\(.?)", re.DOTALL)
_MOST_REFERENCES = 9


def _compiled(pattern: str, flags: str = "") -> Regex:
    return regex(pattern, ignore_case="i" in flags, dot_all="s" in flags)


def _check(pattern: str | None, flags: str | None = "", *, allowed: str = "cis") -> Regex:
    if pattern is None or flags is None:
        raise UnsupportedQuery("A regular expression cannot be NULL.", hint="write the pattern")
    if set(flags) - set(allowed) or {"c", "i"} <= set(flags):
        raise UnsupportedQuery(
            f"The options {flags!r:.20} of a regular expression are not supported here.",
            hint=f"options are {', '.join(repr(c) for c in allowed)}",
        )
    return _compiled(pattern, flags)


def _check_match(pattern: str | None, flags: str | None = "") -> None:
    _check(pattern, flags)


def _check_extract(pattern: str | None, group: int | None, flags: str | None = "") -> None:
    found = _check(pattern, flags)
    if group is None or not 0 <= group <= min(found.groups, 9):
        raise UnsupportedQuery(
            f"The regular expression has {found.groups} groups, of which 0 to 9 can be extracted.",
            hint="regexp_extract(x, '([a-z]+)-([0-9]+)', 2)",
        )


def _check_replace(pattern: str | None, replacement: str | None, flags: str | None = "") -> None:
    found = _check(pattern, flags, allowed="cisg")
    if found.may_be_empty:
        raise UnsupportedQuery(
            "REGEXP_REPLACE needs a pattern that never matches the empty text.", hint="write + instead of *"
        )
    marks = _REFERENCE.findall(replacement or "")
    wrong = [m for m in marks if m != "\\" and not (m.isascii() and m.isdigit() and int(m) <= found.groups)]
    if replacement is None or wrong or len(replacement) > LONGEST_PART or len(marks) > _MOST_REFERENCES:
        raise UnsupportedQuery(
            "The replacement of REGEXP_REPLACE is too long, or names a group that is not there.",
            hint=r"at most 100 characters and 9 groups; \0 is the match, \1 its first group, \\ a backslash",
        )


def _matches(text: str, pattern: str, flags: str = "") -> bool:
    return _compiled(pattern, flags).find(text) is not None


def _full_match(text: str, pattern: str, flags: str = "") -> bool:
    return _compiled(pattern, flags).find(text, whole=True) is not None


def _extract(text: str, pattern: str, group: int, flags: str = "") -> str:
    span = _compiled(pattern, flags).find(text)
    return "" if span is None else _group(text, span, group)


def _group(text: str, span: Sequence[int | None], group: int) -> str:
    start, end = span[2 * group : 2 * group + 2]
    return "" if start is None or end is None else text[start:end]


def _replace(text: str, pattern: str, replacement: str, flags: str = "") -> str | None:
    if len(text) > longest(1, len(replacement)):
        return None
    out, at = "", 0
    for span in matches(_compiled(pattern, flags), text):
        start, end = span[:2]
        assert start is not None and end is not None
        out += text[at:start] + _REFERENCE.sub(lambda m, s=span: _referred(text, s, m[1]), replacement)  # type: ignore[misc]  # s is bound now, which mypy cannot infer
        at = end
        if "g" not in flags:
            break
    return out + text[at:]


def _referred(text: str, span: Sequence[int | None], mark: str) -> str:
    return "\\" if mark == "\\" else _group(text, span, int(mark))


def _optional(wanted: Sequence[Type], result: Type) -> Any:
    """Return these types, the last of which may be left out."""
    return lambda types: exactly(wanted[: len(types)], result)(types) if len(types) >= len(wanted) - 1 else None


def _sql(name: str) -> Any:
    return lambda args, _: f"{name}({', '.join(args)})"


def _extract_sql(args: Sequence[str], _types: Sequence[Type]) -> str:
    return f"regexp_extract({', '.join([*args[:2], f'TRY_CAST({args[2]} AS INTEGER)', *args[3:]])})"


def _replace_sql(args: Sequence[str], _types: Sequence[Type]) -> str:
    """Return a match has one character or more, and a group at most as many, which takes two characters to be named."""
    most = longest(1, len(written(args[2])))
    return rewritten(args[0], f"TRY(regexp_replace({', '.join(args)}))", most)


def _pattern(name: str, sql: Any, value: Any, check: Any, *, wanted: Sequence[Type], result: Type) -> Function:
    """Return a function of a text, where all but the text is written out."""
    constants = tuple(range(1, len(wanted)))
    return Function(name, _optional(wanted, result), sql, value, constants=constants, check=check)


PATTERN = (
    _pattern("regexp_matches", _sql("regexp_matches"), _matches, _check_match, wanted=[_T, _T, _T], result=_B),
    _pattern("regexp_full_match", _sql("regexp_full_match"), _full_match, _check_match, wanted=[_T, _T, _T], result=_B),
    _pattern("regexp_extract", _extract_sql, _extract, _check_extract, wanted=[_T, _T, _I, _T], result=_T),
    _pattern("regexp_replace", _replace_sql, _replace, _check_replace, wanted=[_T, _T, _T, _T], result=_T),
)
