"""Sources of tables: SQL that scans one in parts, each of one shape, what tells that its rows may have changed, and the
view of a table: each column of its source, by name and with an explicit cast, in its pinned shape.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from discreet.catalog.ids import INTEGERS, WIDE_INTEGERS, id_sql
from discreet.catalog.types import TableShape
from discreet.errors import SourceError

FILES, HEADER = "$files", "$header"
"""What stands in the form of a scan for the list of files, and for the columns that a file's header names."""


_PARTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$files|\$header""")
"""Texts and names, in which nothing is filled in, and what is filled in."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A part of a table: what stands after FROM."""

    form: str  # its SQL, with placeholders for what the files are now
    files: str = ""  # the SQL for `$files`
    header: str = ""  # the SQL for `$header`

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
    """One table's source."""

    kind: str  # what it is, in words
    # scans which together are the table. Given the pinned shape, nothing can be wrong with the source but that it is
    # not there or no such file at all; given None, its present shape is asked for, and what no owner can mean (no
    # columns, two of one name) is a SourceError. The names are columns of ids.
    scans: Callable[[TableShape | None, Collection[str]], list[Scan]]
    files: Callable[[], Sequence[str]] = tuple  # the files that it is read from now, for sources of files
    text: bool = False  # whether its cells are text whatever they look like
    delimiter: str = ","  # what separates the cells of a CSV now
    # the data frames for these columns of ids, by the names by which `scans` reads them
    frames: Callable[[Collection[str]], Mapping[str, Any]] = lambda _: {}
    untyped: frozenset[str] = frozenset()  # columns that say nothing of how ids are stored, such as Python objects

    def state(self) -> State:
        """Return the state of the source, which is another one once a file of it was written.

        Raises:
            SourceError: there is no file any more.
        """
        return tuple(state_of(f) for f in self.files())


def state_of(file: str) -> State:
    """Return the state of a file. Raises SourceError: it is gone."""
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


_TYPES = {
    "BOOLEAN": "BOOLEAN",
    **dict.fromkeys((*INTEGERS, *WIDE_INTEGERS, "BIGNUM"), "BIGINT"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "DOUBLE"),
    **dict.fromkeys(("VARCHAR", "UUID", "TIME", "TIME_NS", "ENUM", '"NULL"'), "VARCHAR"),
    "DATE": "DATE",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "TIMESTAMP"),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"), "TIMESTAMP"),
}
"""DuckDB's types → the type as which a column is read; other types cannot be asked about."""


_EXACT = {"FLOAT": 1 << 24, "DOUBLE": 1 << 53}
"""Types of real numbers → where several whole numbers begin to be rounded to one."""


LONGEST = 65_536  # characters of a text cell; a longer one is NULL, since each query that reads it would copy it

_FIRST = {"DATE": "5877642-06-25 (BC)", "TIMESTAMP": "290309-12-22 (BC) 00:00:00"}
"""The first day and time that the database has: a file may hold ones before, on which a cast stops it."""


def read_together(kinds: Collection[str]) -> str | None:
    """Return the type of a column whose files store it in these: the one type that holds all of them, else text."""
    found = {read_as(k) for k in kinds}
    if len(found) == 1:
        return found.pop()
    if None in found:
        return None
    if found == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return "TIMESTAMP" if found == {"DATE", "TIMESTAMP"} else "VARCHAR"


def found_as(columns: Collection[str], described: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that are there, each with its name there: upper and lower case aside if not as it is."""
    lowered = {n.lower(): n for n in reversed(list(described))}
    names = {c: c if c in described else lowered.get(c.lower()) for c in columns}
    return {c: there for c, there in names.items() if there is not None}


def projection(described: Mapping[str, str], pinned: TableShape, ids: Collection[str]) -> str:
    """Return the SELECT list that shows a part of a table in the pinned shape."""
    found, shown = found_as(pinned.columns, described), []
    for name, kind in pinned.columns.items():
        there = found.get(name)
        if kind is None or there is None:
            cell = f"CAST(NULL AS {kind or 'VARCHAR'})"
        elif name in ids:
            cell = id_sql(identifier(there), kind)
        else:
            cell = _value(identifier(there), described[there], kind, bare=pinned.text)
        # A collation would make two texts one: a key would match twice, two ids would share one cap, and the spelling
        # that is shown of a group would be some person's own
        shown.append(f"{cell}{' COLLATE C' if kind in (None, 'VARCHAR') else ''} AS {identifier(name)}")
    return ", ".join(shown)


def _value(cell: str, now: str, kind: str, *, bare: bool) -> str:
    """Return a cell in its pinned type, NULL where it does not fit; `bare` where cells lose the spaces around them."""
    value = f"TRY_CAST({cell} AS {kind})" if now == kind else _cast(cell, now, kind)
    value = f"nullif(trim({value}), '')" if bare and kind == "VARCHAR" else value
    if kind == now == "VARCHAR":
        return f"CASE WHEN length({cell}) <= {LONGEST} THEN {value} END"
    if kind in _FIRST and now != "VARCHAR":
        return f"CASE WHEN {value} >= {kind} '{_FIRST[kind]}' OR {value} = {kind} '-infinity' THEN {value} END"
    return value


def read_as(kind: str) -> str | None:
    """Return the type as which a type of the database is read; None of one that cannot be asked about."""
    if kind.startswith("DECIMAL") and not kind.endswith("]"):
        return "DOUBLE"
    if kind.startswith("ENUM(") and not kind.endswith("]"):
        return "VARCHAR"
    return _TYPES.get(kind)


def _cast(cell: str, now: str, kind: str) -> str:
    """Return the cell in another type, so that one id stays one id: 1.0 is 1, and 1.4 is no whole number."""
    if now == "TIMESTAMPTZ_NS" and kind != "VARCHAR":  # which casts to no time without a zone
        cell = f"TRY_CAST({cell} AS TIMESTAMP WITH TIME ZONE)"
    if now == "BIGNUM":  # its own cast to a narrower type stops the whole database
        cell = f"CAST({cell} AS VARCHAR)"
    plain = f"TRY_CAST({cell} AS {kind})"
    is_decimal = now.startswith("DECIMAL")
    if kind == "BIGINT" and now in _EXACT:
        most = _EXACT[now]
        exact = f"{plain} BETWEEN {1 - most} AND {most - 1}"
        return f"CASE WHEN {cell} = TRY_CAST({plain} AS DOUBLE) AND {exact} THEN {plain} END"
    if kind == "BIGINT" and (now == "VARCHAR" or is_decimal):
        exact = f"TRY({cell} = {plain})" if is_decimal else f"TRY_CAST({cell} AS DECIMAL(38, 18)) = {plain}"
        return f"CASE WHEN {exact} THEN {plain} END"
    if kind == "VARCHAR" and (now in _EXACT or is_decimal):
        whole = f"TRY_CAST({cell} AS HUGEINT)"
        shortest = f"rtrim({plain}, '0')" if is_decimal else plain  # 1.50 is 1.5, whatever the column's scale
        return f"CASE WHEN TRY({cell} = {whole}) THEN CAST({whole} AS VARCHAR) ELSE {shortest} END"
    return plain
