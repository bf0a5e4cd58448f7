"""Files of text: CSV and TSV, and JSON, one object a line or one array of objects. Cells are text.

The header of a CSV file is public; a line that does not fit is padded, cut or dropped. What a row is, the CSV format
says: a quote that is opened and not closed runs over the line's end, and whoever writes the file has to write cells so
that it cannot.

JSON files that end in .jsonl and .ndjson have lines; a .json file is an array where it begins with a bracket. What is
no object is dropped or all NULL. The database reads objects by lines, and forgives broken ones. An array it refuses as
a whole for one bad element, so that one person's row could make every query fail: arrays are cut into their elements
here, and each element stands for itself. An id is a string or a whole number. A number with a fraction or an exponent
is none: the reader makes a double of it and forgets how it was written.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.backends.source import FILES, HEADER, Scan, Source, State, identifier, listed, literal, state_of
from discreet.catalog.ids import DIGITS
from discreet.catalog.types import TableShape
from discreet.errors import InvalidParameter, SourceError

if TYPE_CHECKING:
    import duckdb


def delimited(files: Callable[[], list[str]], names: Sequence[str] | None, usual: str) -> Source:
    """Return the files as one table; `names` are its columns where the files have no header.

    The reader takes columns by their place, so that a scan is right for the header that it was made from only: the
    backend reads again when a file was written meanwhile (`Source.state`).
    """
    if names is not None:
        _check_names(names)
    delimiter = usual if names is not None else _sniffed(files()[0], usual)

    def scans(pinned: TableShape | None, _: object) -> list[Scan]:
        mark = pinned.delimiter if pinned and pinned.text else delimiter
        by_header: dict[tuple[str, ...], list[str]] = {}
        for f in files():
            header = tuple(names) if names is not None else _header(f, mark)
            by_header.setdefault(header, []).append(f)
        if pinned is None:
            for header, some in by_header.items():
                _check_header(header, some[0])
        return [
            _scan(header if pinned is None else _as_pinned(header, pinned), some, mark, names is None)
            for header, some in by_header.items()
            if header
        ]

    return Source("CSV", scans, files, text=True, delimiter=delimiter)


def head(file: str, size: int = 1 << 20) -> str:
    """Return the first characters of a text file, which may be packed with gzip; all of them where `size` is −1.

    Raises:
        SourceError: it cannot be opened.
    """
    opener = gzip.open if file.lower().endswith(".gz") else open
    try:
        with opener(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as f:
            return str(f.read(size))
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "not a complete gzip file"
        raise SourceError(
            f"{Path(file).name!r} cannot be opened: {reason}.", hint="check the file and its permissions"
        ) from None


def _scan(columns: Sequence[str], files: Sequence[str], mark: str, header: bool) -> Scan:
    """One thread reads, since several cannot pad a line beside quoted line breaks."""
    typed = ", ".join(f"{literal(n)}: 'VARCHAR'" for n in columns)
    return Scan(
        f"read_csv({FILES}, auto_detect = false, header = {str(header).lower()}, columns = {HEADER}, "
        f"delim = {literal(mark)}, quote = '\"', escape = '\"', null_padding = true, ignore_errors = true, "
        "strict_mode = false, parallel = false, hive_partitioning = false, union_by_name = false, filename = false)",
        listed(files),
        f"{{{typed}}}",
    )


def _header(file: str, mark: str) -> tuple[str, ...]:
    """Return the names in the first record, those of no letters by their place."""
    text = head(file)
    if not text.strip():
        return ()
    try:
        cells = next(csv.reader(io.StringIO(text, newline=""), delimiter=mark), [])
    except csv.Error:
        cells = []
    return tuple(c.strip() or f"column{i}" for i, c in enumerate(cells))


def _as_pinned(header: Sequence[str], pinned: TableShape) -> list[str]:
    """Return the pinned name of each place in the header; places that mean nothing get names that no column has."""
    places: dict[int, str] = {}
    for name in pinned.columns:
        same = [i for i, c in enumerate(header) if c == name]
        alike = [i for i, c in enumerate(header) if c.lower() == name.lower()]
        if same or alike:
            places[(same or alike)[0]] = name
    taken = {n.lower() for n in pinned.columns}
    spare = (n for i in range(len(header) + len(taken)) if (n := f" {i}") not in taken)
    return [places[i] if i in places else next(spare) for i in range(len(header))]


def _check_header(header: Sequence[str], file: str) -> None:
    name = Path(file).name
    if not header:
        raise SourceError(f"{name!r} is empty: it has no header.", hint="give the names: names=[…]")
    if any(not c.isprintable() or "\ufffd" in c for c in header):
        raise SourceError(f"The header of {name!r} is not plain UTF-8 text on one line.", hint="save the file as UTF-8")
    if len({c.lower() for c in header}) != len(header):
        raise SourceError(f"The header of {name!r} names a column twice.", hint="rename one, or give names=[…]")


def _check_names(names: object) -> None:
    if (
        isinstance(names, str)
        or not isinstance(names, Sequence)
        or not names
        or not all(isinstance(n, str) and n and n.isprintable() for n in names)
    ):
        raise InvalidParameter("names must be a list of column names.", hint='names=["age", "income"]')
    if len({n.lower() for n in names}) != len(names):
        raise InvalidParameter("names must differ from each other, upper and lower case aside.")


def _sniffed(file: str, usual: str) -> str:
    """Return the delimiter of the header: the commonest of the usual four."""
    line = next(iter(head(file, 1 << 16).splitlines()), "")
    return max((usual, ",", ";", "\t", "|"), key=line.count)


SAMPLE = 10_000  # objects of a file in which names are looked for when a table is first connected


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
    """Return the names in the first objects of each file, in their order. Raises SourceError: no object."""
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
