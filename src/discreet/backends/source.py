"""One table's source: SQL that scans it in parts, each of one shape, and the public names in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.backends.backend import Pinned


@dataclass(frozen=True, slots=True)
class Source:
    """One table's source.

    Attributes:
        kind: what it is, in words.
        text: whether its cells are text whatever they look like.
        delimiter: what separates the cells of a CSV now.
        parts: SQL scans which together are the table. Given the pinned shape, nothing can be wrong with the source but
            that it is not there or no such file at all; given None, its present shape is asked for, and what no
            owner can mean (no columns, two of one name) is a SourceError. The names are columns of ids, in which a cell
            whose spelling the reader does not keep is NULL.
        frame: a data frame, and the name by which `parts` scans it.
        made: columns of which text was made: of objects that are none.
    """

    kind: str
    text: bool
    delimiter: str
    parts: Callable[[Pinned | None, Collection[str]], list[str]]
    frame: tuple[str, Any] | None = None
    made: frozenset[str] = frozenset()


def listed(files: Sequence[str]) -> str:
    """Paths as an SQL list."""
    return f"[{', '.join(literal(f) for f in files)}]"


def literal(value: str) -> str:
    """A text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
