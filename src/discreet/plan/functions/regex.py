"""Regular expressions, run: small programs over text.

A pattern becomes a program that is run with a list of threads (Pike's machine): the time is at most the product of
the two lengths, for every text, and the match found is the leftmost one that comes first, as in RE2.

References:
    Cox 2009, *Regular Expression Matching: the Virtual Machine Approach*, https://swtch.com/~rsc/regexp/regexp2.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from discreet.plan.functions.regex_tree import (
    WORD,
    All,
    Edge,
    Either,
    Group,
    Node,
    One,
    Repeat,
    may_be_empty,
    read,
)

Span: TypeAlias = tuple[int | None, ...]
"""Begin and end of a match, and of each of its groups; None where a group is not part of it."""

_Step: TypeAlias = tuple[
    str, object, object
]  # "one" ranges; "split" first, second; "jump" to; "save" i; "edge" kind


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
        """The first match from `start` on: begin and end of it and of its groups."""
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

    def _follow(
        self, pc: int, saved: Span, text: str, at: int, seen: set[int], out: list[tuple[int, Span]]
    ) -> None:
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
    """A pattern as a program.

    Raises:
        UnsupportedQuery: it is no pattern, is too large, or holds something whose meaning could differ.
    """
    tree, groups = read(pattern, ignore_case=ignore_case, dot_all=dot_all)
    program: list[_Step] = []
    _write(Group(tree, 0), program)
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
        case Edge(kind):
            out.append(("edge", kind, None))
        case All(parts):
            for part in parts:
                _write(part, out)
        case Either(options):
            _write_options(options, out)
        case Group(body, index):
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
