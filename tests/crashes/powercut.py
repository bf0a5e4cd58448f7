"""What a disk may hold after the power is cut: what was synchronised, and any part of what was not.

The model is harsher than journaling file systems are: until a file is synchronised, each write to it may be there or
not, in any combination, and a write that crosses sectors in any part of them; until a folder is synchronised, each new
name, link, renaming and removal in it may have happened or not. It assumes what SQLite assumes
(https://www.sqlite.org/psow.html): a write does not damage what is beside it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.crashes.tracer import Change

SECTOR = 512

Files = dict[str, bytes]
"""A folder: name → content."""

_OF_DATA = frozenset({"write", "pwrite", "truncate"})
_OF_NAMES = frozenset({"create", "link", "rename", "unlink"})
_SYNCS = frozenset({"fsync", "fdatasync"})


@dataclass(slots=True)
class Record:
    """What was done to a folder, in order, and what its files were before.

    Attributes:
        folder: its absolute path.
        before: the files, all of them durable.
        changes: what was done.
    """

    folder: str
    before: Files
    changes: list[Change] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path) -> Record:
        """Begin a record of a folder as it is."""
        return cls(str(folder), {path.name: path.read_bytes() for path in folder.iterdir()})


def states(record: Record, end: int, *, draws: int, rng: random.Random) -> Iterator[Files]:
    """What may be there when the power is cut after that many changes: nothing of what was not synchronised, all of
    it, and random parts of it.
    """
    done = _Done(record, record.changes[:end])
    loose = done.loose()
    yield done.files({})
    if loose:
        yield done.files(dict.fromkeys(loose))
    for _ in range(draws if len(loose) > 1 or done.is_torn(loose) else 0):
        share = rng.choice((0.2, 0.5, 0.8))
        yield done.files({i: rng if rng.random() < 0.3 else None for i in loose if rng.random() < share})


class _Done:
    """Changes, the file that each was made to, and whether it was synchronised before the end."""

    def __init__(self, record: Record, changes: Sequence[Change]) -> None:
        self._before = record.before
        self._changes = changes
        self._folder = record.folder
        self._files: list[int] = []  # the number of the file that each change concerns
        self._sure: set[int] = set()
        names = {name: number for number, name in enumerate(record.before)}
        made = len(names)
        for place, change in enumerate(changes):
            name = self._name(change.path)
            if change.call == "create":
                names[name], made = made, made + 1
            number = names.get(name, -1)  # a file without a name, which no state shows
            self._files.append(number)
            if change.call in ("link", "rename"):
                names[self._name(change.target)] = number
            if change.call in ("unlink", "rename"):
                names.pop(name, None)
            if change.call in _SYNCS:
                self._sync(place, change, number)

    def loose(self) -> list[int]:
        """The changes that may be there or not."""
        kinds = _OF_DATA | _OF_NAMES
        return [i for i, c in enumerate(self._changes) if c.call in kinds and i not in self._sure]

    def is_torn(self, loose: Sequence[int]) -> bool:
        """Whether one of them can be there in part."""
        return any(len(self._changes[i].data) > SECTOR for i in loose)

    def files(self, kept: Mapping[int, random.Random | None]) -> Files:
        """The folder with what is sure and these other changes; those with a number generator only in part."""
        contents = {number: bytearray(data) for number, data in enumerate(self._before.values())}
        names = {name: number for number, name in enumerate(self._before)}
        for place, (change, number) in enumerate(zip(self._changes, self._files, strict=True)):
            if place not in self._sure and place not in kept:
                continue
            content = contents.setdefault(number, bytearray())
            if change.call == "truncate":
                del content[change.offset :]
                content.extend(bytes(change.offset - len(content)))
            elif change.call in _OF_DATA:
                for offset, data in _parts(change, kept.get(place)):
                    content.extend(bytes(max(0, offset + len(data) - len(content))))
                    content[offset : offset + len(data)] = data
            elif change.call in _OF_NAMES:
                self._rename(names, change, number)
        return {name: bytes(contents.get(number, b"")) for name, number in names.items()}

    def _rename(self, names: dict[str, int], change: Change, number: int) -> None:
        if change.call == "create":
            names[self._name(change.path)] = number
        if change.call in ("link", "rename"):
            names[self._name(change.target)] = number
        if change.call in ("unlink", "rename") and names.get(self._name(change.path)) == number:
            del names[self._name(change.path)]

    def _sync(self, place: int, change: Change, number: int) -> None:
        of_folder = change.path == self._folder
        kinds = _OF_NAMES if of_folder else _OF_DATA
        self._sure |= {
            i for i in range(place) if self._changes[i].call in kinds and (of_folder or self._files[i] == number)
        }

    def _name(self, path: str) -> str:
        return path.removeprefix(self._folder).strip("/")


def _parts(change: Change, rng: random.Random | None) -> Iterator[tuple[int, bytes]]:
    """A write, or some of the sectors of it."""
    if rng is None:
        yield change.offset, change.data
        return
    start, end = change.offset, change.offset + len(change.data)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        if rng.random() < 0.5:
            yield start, change.data[start - change.offset : stop - change.offset]
        start = stop
