"""Regular expressions over text: the part of RE2's language whose meaning is the same here, run as small programs.

Patterns are written out and read beforehand, so that no row and no pattern can fail or take more than linear time in
the database. Here a pattern becomes a program that is run with a list of threads (Pike's machine): the time is at most
the product of the two lengths, for every text, and the match found is the leftmost one that comes first, as in RE2.

References:
    Cox 2009, *Regular Expression Matching: the Virtual Machine Approach*, https://swtch.com/~rsc/regexp/regexp2.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Never, TypeAlias

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.functions.function import Function, exactly
from discreet.query.functions.text import LONGEST_PART, longest, rewritten, written

Span: TypeAlias = tuple[int | None, ...]
"""Begin and end of a match, and of each of its groups; None where a group is not part of it."""

_Step: TypeAlias = tuple[str, object, object]  # "one" ranges; "split" first, second; "jump" to; "save" i; "edge" kind


@dataclass(frozen=True, slots=True)
class Regex:
    """A compiled pattern.

    Attributes:
        groups: how many groups it has.
        may_be_empty: whether it can match the empty text.
    """

    program: tuple[_Step, ...]
    groups: int
    may_be_empty: bool

    def find(self, text: str, start: int = 0, *, whole: bool = False) -> Span | None:
        """Return the first match from `start` on: begin and end of it and of its groups."""
        threads: list[tuple[int, Span]] = []
        found: Span | None = None
        for at in range(start, len(text) + 1):
            seen: set[int] = set()
            current: list[tuple[int, Span]] = []
            for pc, saved in threads:
                self._follow(pc, saved, text, at, seen, current)
            if found is None and (at == 0 or not whole):
                self._follow(0, (None,) * (2 * self.groups + 2), text, at, seen, current)
            threads = []
            for pc, saved in current:
                kind, ranges, _ = self.program[pc]
                if kind == "match":
                    if not whole or at == len(text):
                        found = saved
                        break
                elif at < len(text) and _holds(ranges, ord(text[at])):
                    threads.append((pc + 1, saved))
            if not threads and found is not None:
                break
        return found

    def _follow(self, pc: int, saved: Span, text: str, at: int, seen: set[int], out: list[tuple[int, Span]]) -> None:
        """All steps that are reached without reading a character, the preferred ones first."""
        stack = [(pc, saved)]
        while stack:
            pc, saved = stack.pop()
            if pc in seen:
                continue
            seen.add(pc)
            kind, a, b = self.program[pc]
            if kind == "jump":
                stack.append((int(str(a)), saved))
            elif kind == "split":
                stack += [(int(str(b)), saved), (int(str(a)), saved)]
            elif kind == "save":
                i = int(str(a))
                stack.append((pc + 1, (*saved[:i], at, *saved[i + 1 :])))
            elif kind == "edge":
                if _at_edge(str(a), text, at):
                    stack.append((pc + 1, saved))
            else:
                out.append((pc, saved))


@lru_cache(maxsize=256)
def regex(pattern: str, *, ignore_case: bool = False, dot_all: bool = False) -> Regex:
    """Return a pattern as a program.

    Raises:
        UnsupportedQuery: it is no pattern, is too large, or holds something whose meaning could differ.
    """
    tree, groups = read(pattern, ignore_case=ignore_case, dot_all=dot_all)
    program: list[_Step] = []
    _write(Capture(tree, 0), program)
    program.append(("match", None, None))
    return Regex(tuple(program), groups, may_be_empty(tree))


def matches(found: Regex, text: str) -> Iterator[Span]:
    """All matches that do not overlap, from left to right, of a pattern that is never empty."""
    at = 0
    while (span := found.find(text, at)) is not None:
        yield span
        end = span[1]
        assert end is not None
        at = end


def _holds(ranges: object, n: int) -> bool:
    assert isinstance(ranges, tuple)
    return any(low <= n <= high for low, high in ranges)


def _at_edge(kind: str, text: str, at: int) -> bool:
    if kind == "^":
        return at == 0
    if kind == "$":
        return at == len(text)
    before = at > 0 and _holds(WORD, ord(text[at - 1]))
    after = at < len(text) and _holds(WORD, ord(text[at]))
    return before != after


def _write(node: Node, out: list[_Step]) -> None:
    match node:
        case One(ranges):
            out.append(("one", ranges, None))
        case Anchor(kind):
            out.append(("edge", kind, None))
        case All(parts):
            for part in parts:
                _write(part, out)
        case Either(options):
            _write_options(options, out)
        case Capture(body, index):
            out.append(("save", 2 * index, None))
            _write(body, out)
            out.append(("save", 2 * index + 1, None))
        case Repeat(body, least, most, greedy):
            for _ in range(least):
                _write(body, out)
            if most is None:
                _write_loop(body, greedy, out)
                return
            splits = []
            for _ in range(most - least):
                splits.append(len(out))
                out.append(("split", None, None))
                _write(body, out)
            for at in splits:
                out[at] = _split(at + 1, len(out), greedy)


def _write_options(options: Sequence[Node], out: list[_Step]) -> None:
    jumps = []
    for i, option in enumerate(options):
        if i == len(options) - 1:
            _write(option, out)
            break
        split = len(out)
        out.append(("split", None, None))
        _write(option, out)
        jumps.append(len(out))
        out.append(("jump", None, None))
        out[split] = ("split", split + 1, len(out))
    for at in jumps:
        out[at] = ("jump", len(out), None)


def _write_loop(body: Node, greedy: bool, out: list[_Step]) -> None:
    split = len(out)
    out.append(("split", None, None))
    _write(body, out)
    out.append(("jump", split, None))
    out[split] = _split(split + 1, len(out), greedy)


def _split(body: int, beyond: int, greedy: bool) -> _Step:
    return ("split", body, beyond) if greedy else ("split", beyond, body)


LONGEST = 500
"""Characters of a pattern."""

LARGEST = 1000
"""Steps of a pattern with its repeats written out."""

MOST_REPEATS = 100
"""The largest number in a {m,n}."""

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Characters by their numbers, in order."""

WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
"""Letters, digits and _ of ASCII: what \\w and \\b know."""


@dataclass(frozen=True, slots=True)
class One:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place: "^", "$" or "b"."""

    kind: str


@dataclass(frozen=True, slots=True)
class All:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """The first of these that leads to a match."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`least` to `most` times; `most` None is any number."""

    body: Node
    least: int
    most: int | None
    greedy: bool


@dataclass(frozen=True, slots=True)
class Capture:
    """A group that is remembered."""

    body: Node
    index: int


Node: TypeAlias = One | Anchor | All | Either | Repeat | Capture
"""What a pattern is made of."""


def read(pattern: str, *, ignore_case: bool, dot_all: bool) -> tuple[Node, int]:
    """Return the tree of a pattern, and how many groups it has.

    Raises:
        UnsupportedQuery: it is no pattern, is too large, or holds something whose meaning could differ.
    """
    if len(pattern) > LONGEST:
        _refuse(f"it is longer than {LONGEST} characters")
    if ignore_case and not pattern.isascii():
        _refuse("'i' is for patterns of plain letters: compare lower(x) instead")
    reader = _Reader(pattern, ignore_case, dot_all)
    tree = reader.everything()
    if _size(tree) > LARGEST:
        _refuse(f"its repeats amount to more than {LARGEST} steps")
    return tree, reader.groups


def may_be_empty(node: Node) -> bool:
    """Whether it can match the empty text."""
    match node:
        case One():
            return False
        case Anchor():
            return True
        case All(parts):
            return all(may_be_empty(p) for p in parts)
        case Either(options):
            return any(may_be_empty(o) for o in options)
        case Repeat(body, least, _, _):
            return least == 0 or may_be_empty(body)
        case Capture(body, _):
            return may_be_empty(body)


class _Reader:
    """Recursive descent: alternatives, sequences, repeats, atoms."""

    def __init__(self, pattern: str, ignore_case: bool, dot_all: bool) -> None:
        self._pattern, self._at, self.groups = pattern, 0, 0
        self._ignore_case, self._dot_all = ignore_case, dot_all
        self._depth = 0

    def everything(self) -> Node:
        tree = self._either()
        if self._at < len(self._pattern):
            _refuse("a ) has no (")
        return tree

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        c = self._next()
        self._at += 1
        return c

    def _skip(self, c: str) -> bool:
        if self._pattern.startswith(c, self._at):
            self._at += len(c)
            return True
        return False

    def _either(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            _refuse(f"it nests more than {_DEEPEST} levels")
        options = [self._sequence()]
        while self._skip("|"):
            options.append(self._sequence())
        self._depth -= 1
        return options[0] if len(options) == 1 else Either(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._next() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        if not parts:
            _refuse("a part of it is empty: write (…)? for what may be missing")
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _repeated(self, body: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return body
        greedy = not self._skip("?")
        if self._next() in ("*", "+", "?", "{") and self._next():
            _refuse("a repeat is repeated")
        if may_be_empty(body):
            _refuse("something that may be empty is repeated")
        return Repeat(body, *bounds, greedy)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._skip(sign):
                return bounds
        if not self._skip("{"):
            return None
        inside = ""
        while self._next() not in ("", "}"):
            inside += self._take()
        low, comma, high = inside.partition(",")
        numbers = all(n.isascii() and n.isdigit() and len(n) < 4 for n in (low, *([high] if high else [])))
        if not self._skip("}") or not numbers:
            _refuse("a { begins no repeat: write \\{ for the character, {2,3} for a repeat")
        least, most = int(low), (int(high) if high else None) if comma else int(low)
        if max(least, most or 0) > MOST_REPEATS or (most is not None and not max(least, 1) <= most):
            _refuse(f"a repeat is beyond {{1,{MOST_REPEATS}}}")
        return least, most

    def _atom(self) -> Node:
        c = self._take()
        if c in "*+?{":
            _refuse(f"nothing stands before {c}")
        if c == "(":
            return self._group()
        if c == "[":
            return One(self._set())
        if c == ".":
            return One(((0, _LAST),) if self._dot_all else _outside(((10, 10),)))
        if c in "^$":
            return Anchor(c)
        if c == "\\" and self._skip("b"):  # \B may hold inside a character there, between its bytes
            return Anchor("b")
        return One(self._escaped() if c == "\\" else self._letters(ord(c), ord(c)))

    def _group(self) -> Node:
        index = None
        if not self._skip("?:"):
            if self._next() == "?":
                _refuse("of the groups with (? only (?: is read")
            self.groups += 1
            index = self.groups
        body = self._either()
        if not self._skip(")"):
            _refuse("a ( has no )")
        return body if index is None else Capture(body, index)

    def _set(self) -> Ranges:
        negated = self._skip("^")
        found: list[tuple[int, int]] = []
        first = True
        while first or self._next() != "]":
            c = self._take()
            if not c or c == "[" or (c == "]" and first):
                _refuse("a set [ ] is not closed, or holds a bracket without \\ before it")
            if c == "-" and not first and self._next() != "]":
                _refuse("a - stands in the middle of a set without \\ before it")
            first = False
            if c == "\\":
                ranges = self._escaped()
                found += ranges
                low = ranges[0][0] if len(ranges) == 1 and ranges[0][0] == ranges[0][1] else None
                if self._is_range():
                    _refuse("a range in a set begins with \\" if low is None else "write the range in a set without \\")
                continue
            low = high = ord(c)
            if self._is_range():
                self._take()
                end = self._take()
                if end in ("\\", "[") or ord(end) < low:
                    _refuse("a range in a set ends before it begins, or with \\")
                high = ord(end)
            found += self._letters(low, high)
        self._take()
        return _outside(found) if negated else _merged(found)

    def _is_range(self) -> bool:
        rest = self._pattern[self._at : self._at + 2]
        return len(rest) == 2 and rest[0] == "-" and rest[1] != "]"

    def _escaped(self) -> Ranges:
        c = self._take()
        if c in _CLASSES:
            return self._folded(_CLASSES[c])
        if c and c.lower() in _CLASSES:
            return _outside(self._folded(_CLASSES[c.lower()]))
        if c in _CONTROLS:
            return ((_CONTROLS[c], _CONTROLS[c]),)
        if not c or not c.isascii() or c.isalnum() or not c.isprintable() or c == "_":
            _refuse(f"\\{c} is not read")
        return ((ord(c), ord(c)),)

    def _letters(self, low: int, high: int) -> Ranges:
        return self._folded(((low, high),))

    def _folded(self, ranges: Ranges) -> Ranges:
        """With the other case of each letter: K and S have a third form each, the Kelvin sign and the long s."""
        if not self._ignore_case:
            return ranges
        more = list(ranges)
        for low, high in ranges:
            for n in range(max(low, 65), min(high, 122) + 1):
                c = chr(n)
                if c.isalpha():
                    more.append((ord(c.swapcase()), ord(c.swapcase())))
                more += [(0x212A, 0x212A)] if c in "kK" else [(0x017F, 0x017F)] if c in "sS" else []
        return _merged(more)


_LAST = 0x10FFFF
_DEEPEST = 50
_CLASSES: dict[str, Ranges] = {"d": ((48, 57),), "w": WORD, "s": ((9, 10), (12, 13), (32, 32))}
_CONTROLS = {"n": 10, "t": 9, "r": 13}


def _merged(ranges: Sequence[tuple[int, int]]) -> Ranges:
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = out[-1][0], max(high, out[-1][1])
        else:
            out.append((low, high))
    return tuple(out)


def _outside(ranges: Sequence[tuple[int, int]]) -> Ranges:
    edges = [(-1, -1), *_merged(ranges), (_LAST + 1, _LAST + 1)]
    return tuple((a[1] + 1, b[0] - 1) for a, b in pairwise(edges) if a[1] + 1 < b[0])


def _size(node: Node) -> int:
    match node:
        case All(parts) | Either(parts):
            return 1 + sum(_size(p) for p in parts)
        case Repeat(body, least, most, _):
            return 1 + _size(body) * max(least + 1 if most is None else most, 1)
        case Capture(body, _):
            return 2 + _size(body)
        case _:
            return 1


def _refuse(why: str) -> Never:
    raise UnsupportedQuery(
        f"This regular expression is not supported: {why}.",
        hint="characters, [sets], \\d \\w \\s \\b, ( | ), * + ? {2,3}, ^ and $ are read; LIKE does much too",
    )


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
