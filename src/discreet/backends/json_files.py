"""JSON: one object a line, or one array of objects. Cells are text; what is no object is dropped or all NULL.

Files that end in .jsonl and .ndjson have lines; a .json file is an array where it begins with a bracket.

The database reads objects by lines, and forgives broken ones. An array it refuses as a whole for one bad element, so
that one person's row could make every query fail: arrays are cut into their elements here, and each element
stands for itself.

An id is a string or a whole number. A number with a fraction or an exponent is none: the reader makes a double of it
and forgets how it was written.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.backends.delimited import head
from discreet.backends.source import FILES, Scan, Source, State, identifier, listed, literal, state_of
from discreet.catalog.ids import DIGITS
from discreet.catalog.shape import TableShape
from discreet.errors import SourceError

if TYPE_CHECKING:
    import duckdb

SAMPLE = 10_000
"""Objects of a file in which names are looked for when a table is first connected."""


def json_files(name: str, files: Callable[[], list[str]], connection: duckdb.DuckDBPyConnection) -> Source:
    """Return the files as one table; arrays are loaded again when one of them was written."""
    loaded: dict[str, tuple[State, str]] = {}

    def store(arrays: list[str], *, whole: bool) -> str:
        """Return the table of the arrays' elements: a new one each time, since others may still read the old one."""
        state = tuple(map(state_of, arrays))
        if name not in loaded or loaded[name][0] != state:
            found = f"json.{identifier(f'{name} {len(made)}')}"
            made.append(found)
            cursor = connection.cursor()
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS json; CREATE TABLE {found} (object VARCHAR)")
            for f in arrays:
                _load(f, found, cursor, whole=whole)
            for old in made[:-2]:
                cursor.execute(f"DROP TABLE IF EXISTS {old}")
            loaded[name] = (state, found)
        return loaded[name][1]

    made: list[str] = []

    def scans(pinned: TableShape | None, ids: Collection[str]) -> list[Scan]:
        present = files()
        by_line = [f for f in present if _is_by_line(f)]
        arrays = [f for f in present if f not in by_line]
        names = list(pinned.columns) if pinned is not None else _names(present)
        found = [_lines(by_line, names, ids)] if by_line else []
        return [*found, _objects(store(arrays, whole=pinned is None), names, ids)] if arrays else found

    return Source("JSON", scans, files, text=True)


_BATCH = 50_000
_PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)


def _is_array(file: str) -> bool:
    """Return whether it is an array: of a file of lines, the first may be anything and must not matter to others."""
    text = head(file, 1 << 16)
    return file.lower().removesuffix(".gz").endswith(".json") and text.lstrip().startswith("[")


def _is_by_line(file: str) -> bool:
    """Return whether the database can read it by lines: no array, and no mark before the first line."""
    opener = gzip.open if file.lower().endswith(".gz") else open
    if _is_array(file):
        return False
    with opener(file, "rb") as f:
        return not bytes(f.read(3)).startswith(b"\xef\xbb\xbf")


def _lines(files: list[str], names: list[str], ids: Collection[str]) -> Scan:
    columns = ", ".join(f"{literal(n)}: '{'JSON' if n in ids else 'VARCHAR'}'" for n in names)
    read = (
        f"read_json({FILES}, auto_detect = false, format = 'newline_delimited', records = 'true', "
        f"columns = {{{columns}}}, ignore_errors = true, maximum_object_size = {1 << 30}, "
        "hive_partitioning = false, union_by_name = false, filename = false)"
    )
    kept = ", ".join(f"{_id(identifier(n))} AS {identifier(n)}" for n in names if n in ids)
    return Scan(f"(SELECT * REPLACE ({kept}) FROM {read})" if kept else read, listed(files))


def _id(cell: str) -> str:
    """Return a cell of JSON as the text of an id: a string, or a whole number as it was written; any other is none."""
    text = f"({cell} ->> '$')"
    is_string = f"json_type({cell}) = 'VARCHAR'"
    return f"CASE WHEN {is_string} OR regexp_full_match(CAST({cell} AS VARCHAR), '{DIGITS}') THEN {text} END"


def _objects(store: str, names: list[str], ids: Collection[str]) -> Scan:
    def cell(name: str) -> str:
        at = literal("/" + name.replace("~", "~0").replace("/", "~1"))
        return _id(f"json_extract(object, {at})") if name in ids else f"json_extract_string(object, {at})"

    cells = ", ".join(f"{cell(n)} AS {identifier(n)}" for n in names)
    whole = f"SELECT CASE WHEN json_valid(object) THEN object END AS object FROM {FILES}"
    return Scan(f"(SELECT {cells} FROM ({whole}) WHERE json_type(object) = 'OBJECT')", store)


def _load(file: str, store: str, connection: duckdb.DuckDBPyConnection, *, whole: bool) -> None:
    """Load the elements of an array; one that is not closed is refused only where it is to be `whole`: at connect."""
    text = head(file, -1).strip()
    split = _elements if whole else _closed
    elements = split(text) if _is_array(file) else iter(text.split("\n"))
    while batch := list(islice(elements, _BATCH)):
        connection.execute(f"INSERT INTO {store} SELECT unnest($1)", [batch])


def _elements(text: str) -> Iterator[str]:
    """Yield the elements of an array, found by brackets and quotes alone: what one holds cannot matter to another."""
    depth, start, end = 0, 1, None
    for piece in _PIECES.finditer(text):
        match piece.group()[0]:
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
                end = piece.start() if depth == 0 else None
            case "," if depth == 1:
                yield text[start : piece.start()]
                start = piece.end()
        if depth == 0:
            break
    if end is None:
        raise SourceError(
            "A JSON array is not closed.", hint="check that the file is complete, or write one object a line"
        )
    if text[start:end].strip():
        yield text[start:end]


def _names(files: list[str]) -> list[str]:
    """Return the names in the first objects of each file, in their order.

    Raises:
        SourceError: no object.
    """
    found: dict[str, str] = {}  # lower case → as it is first written: no object may make two columns of one
    for file in files:
        text = head(file, 1 << 24)
        for i, element in enumerate(_closed(text.lstrip()) if _is_array(file) else text.split("\n")):
            if i == SAMPLE:
                break
            for key in filter(str.isprintable, _object(element)):
                found.setdefault(key.lower(), key)
    found.pop("", None)
    if not found:
        raise SourceError(
            f"{Path(files[0]).name!r} names no columns: it holds no object.",
            hint="write one object a line, or an array of objects; the first file needs at least one",
        )
    return list(found.values())


def _closed(text: str) -> Iterator[str]:
    """Yield the elements of an array that may be cut off at its end."""
    try:
        yield from _elements(text)
    except SourceError:
        return


def _object(element: str) -> dict[str, object]:
    try:
        value = json.loads(element, strict=False)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
