"""Sources of tables: SQL that scans one in parts, each of one shape, and what tells that its rows may have changed."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from discreet.catalog.shape import TableShape
from discreet.errors import SourceError

FILES, HEADER = "$files", "$header"
"""What stands in the form of a scan for the list of files, and for the columns that a file's header names."""


_PARTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$files|\$header""")
"""Texts and names, in which nothing is filled in, and what is filled in."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A part of a table: what stands after FROM.

    Attributes:
        form: its SQL, with placeholders for what the files are now.
        files: the SQL for `$files`.
        header: the SQL for `$header`.
    """

    form: str
    files: str = ""
    header: str = ""

    @property
    def sql(self) -> str:
        """The SQL that the database runs."""
        filled = {FILES: self.files, HEADER: self.header}
        return _PARTS.sub(lambda found: filled.get(found.group(), found.group()), self.form)


State: TypeAlias = tuple[object, ...]
"""What is another one when a source's rows may have changed. It is a fact about rows: nothing may follow from it but
another reading."""


@dataclass(frozen=True, slots=True)
class Source:
    """One table's source.

    Attributes:
        kind: what it is, in words.
        scans: scans which together are the table. Given the pinned shape, nothing can be wrong with the source but that
            it is not there or no such file at all; given None, its present shape is asked for, and what no owner can
            mean (no columns, two of one name) is a SourceError. The names are columns of ids.
        files: the files that it is read from now, for sources of files.
        text: whether its cells are text whatever they look like.
        delimiter: what separates the cells of a CSV now.
        frames: the data frames for these columns of ids, by the names by which `scans` reads them.
        untyped: columns that say nothing of how ids are stored, such as Python objects.
    """

    kind: str
    scans: Callable[[TableShape | None, Collection[str]], list[Scan]]
    files: Callable[[], Sequence[str]] = tuple
    text: bool = False
    delimiter: str = ","
    frames: Callable[[Collection[str]], Mapping[str, Any]] = lambda _: {}
    untyped: frozenset[str] = frozenset()

    def state(self) -> State:
        """Return the state of the source, which is another one once a file of it was written.

        Raises:
            SourceError: there is no file any more.
        """
        return tuple(state_of(f) for f in self.files())


def state_of(file: str) -> State:
    """Return the state of a file.

    Raises:
        SourceError: it is gone.
    """
    try:
        found = os.stat(file)  # noqa: PTH116  # half of a Path's time, for globs of thousands of files
    except OSError:
        raise SourceError(f"There is no file {file!r} any more.", hint="check the path") from None
    return file, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def listed(files: Sequence[str]) -> str:
    """Return paths as an SQL list, escaped: the database would read `a[1].csv` as a pattern, and another file."""
    return f"[{', '.join(literal(glob.escape(str(Path(f).absolute()))) for f in files)}]"


def first_twin(names: Collection[str]) -> str:
    """Return the first of the names of which two are the same, upper and lower case aside; "" where there is none."""
    lowered = [n.lower() for n in names]
    return min((n for n in names if lowered.count(n.lower()) > 1), default="")


def literal(value: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
