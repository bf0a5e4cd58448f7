"""JSON: one object a line, or one array of objects. Cells are text; what is no object is dropped or all NULL.

The database reads objects by lines, and forgives broken ones. An array it refuses as a whole for one bad element, so
that one person's row could make every question fail: arrays are cut into their elements here, and each element
stands for itself.

A number with a fraction or an exponent is a double to the reader, which forgets how it was written: 7.50 is 7.5, and
9007199254740993.0 ends with a 2. As an id it would be another one than the same in a file that keeps it.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.backends.backend import Pinned
from discreet.backends.delimited import head
from discreet.backends.source import Source, identifier, listed, literal
from discreet.errors import SourceError

if TYPE_CHECKING:
    import duckdb

SAMPLE = 10_000
"""Objects of a file in which names are looked for when a table is first connected."""


def json_files(name: str, files: list[str], connection: duckdb.DuckDBPyConnection) -> Source:
    """The files as one table."""
    by_line = [f for f in files if _is_by_line(f)]
    arrays = [f for f in files if f not in by_line]
    store = f"json.{identifier(name)}"
    if arrays:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS json; CREATE TABLE {store} (object VARCHAR)")
        for f in arrays:
            _load(f, store, connection)

    def parts(pinned: Pinned | None, ids: Collection[str]) -> list[str]:
        if pinned is None:
            names, kinds = _names(name, files, ids), dict[str, str | None]()
        else:
            names, kinds = list(pinned.columns), {n: pinned.columns[n] for n in pinned.columns if n in ids}
        found = [_lines(by_line, names, kinds)] if by_line else []
        return [*found, _objects(store, names, kinds)] if arrays else found

    return Source("JSON", True, ",", parts)


_BATCH = 50_000
_PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)


def _is_by_line(file: str) -> bool:
    """Whether the database can read it by lines: no array, and no mark before the first line."""
    opener = gzip.open if file.lower().endswith(".gz") else open
    text = head(file, 1 << 16)
    if text.lstrip().startswith("["):
        return False
    with opener(file, "rb") as f:
        return not bytes(f.read(3)).startswith(b"\xef\xbb\xbf")


def _lines(files: list[str], names: list[str], ids: Mapping[str, str | None]) -> str:
    columns = ", ".join(f"{literal(n)}: '{'JSON' if n in ids else 'VARCHAR'}'" for n in names)
    read = (
        f"read_json({listed(files)}, auto_detect = false, format = 'newline_delimited', records = 'true', "
        f"columns = {{{columns}}}, ignore_errors = true, maximum_object_size = {1 << 30})"
    )
    if not ids:
        return read
    kept = ", ".join(f"{_kept(identifier(n), kind)} AS {identifier(n)}" for n, kind in ids.items())
    return f"(SELECT * REPLACE ({kept}) FROM {read})"


def _kept(cell: str, kind: str | None) -> str:
    """A cell of JSON as text, for ids that are read as this type.

    A real number is nobody's as text; as a whole number it is one if it is whole, and no other one was rounded to it.
    A double is the same double whatever spelled it.
    """
    text = f"({cell} ->> '$')"
    if kind not in ("BIGINT", "VARCHAR"):
        return text
    real = f"json_type({cell}) = 'DOUBLE' AND regexp_matches({text}, '[.eE]')"  # no long whole number, which is kept
    number = f"TRY_CAST({text} AS DOUBLE)"
    whole = f" WHEN {number} = trunc({number}) AND abs({number}) < {1 << 53} THEN {text}"
    return f"CASE WHEN ({real}) IS NOT TRUE THEN {text}{whole if kind == 'BIGINT' else ''} END"


def _objects(store: str, names: list[str], ids: Mapping[str, str | None]) -> str:
    def cell(name: str) -> str:
        at = literal("/" + name.replace("~", "~0").replace("/", "~1"))
        if name in ids:
            return _kept(f"json_extract(object, {at})", ids[name])
        return f"json_extract_string(object, {at})"

    cells = ", ".join(f"{cell(n)} AS {identifier(n)}" for n in names)
    whole = f"SELECT CASE WHEN json_valid(object) THEN object END AS object FROM {store}"
    return f"(SELECT {cells} FROM ({whole}) WHERE json_type(object) = 'OBJECT')"


def _load(file: str, store: str, connection: duckdb.DuckDBPyConnection) -> None:
    text = _whole(file)
    elements = _elements(text) if text.startswith("[") else iter(text.splitlines())
    batch: list[str] = []
    for element in elements:
        batch.append(element)
        if len(batch) == _BATCH:
            connection.execute(f"INSERT INTO {store} SELECT unnest($1)", [batch])
            batch = []
    if batch:
        connection.execute(f"INSERT INTO {store} SELECT unnest($1)", [batch])


def _whole(file: str) -> str:
    opener = gzip.open if file.lower().endswith(".gz") else open
    try:
        with opener(file, "rt", encoding="utf-8-sig", errors="replace") as f:
            return str(f.read()).strip()
    except (OSError, EOFError, zlib.error):
        raise SourceError(f"{Path(file).name!r} cannot be read to its end.", hint="check the file") from None


def _elements(text: str) -> Iterator[str]:
    """The elements of an array, found by brackets and quotes alone: the inside of one cannot matter to another."""
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


def _names(table: str, files: list[str], ids: Collection[str]) -> list[str]:
    """The names in the first objects of each file, in their order.

    Raises:
        SourceError: no object, or one whose id is a real number.
    """
    found: dict[str, None] = {}
    for file in files:
        text = head(file, 1 << 24)
        whole = text.lstrip()
        for i, element in enumerate(_closed(whole) if whole.startswith("[") else text.splitlines()):
            if i == SAMPLE:
                break
            first = _object(element)
            found |= dict.fromkeys(k for k in first if k and k.isprintable())
            if real := [n for n in ids if isinstance(x := first.get(n), float) and math.isfinite(x)]:
                raise SourceError(
                    f"The ids {real[0]!r} of table {table!r} are written as real numbers, and JSON does not tell 7.50 "
                    "from 7.5: in another table the same person may have another id.",
                    hint="write the ids as whole numbers or as text",
                )
    if not found:
        raise SourceError(
            f"{Path(files[0]).name!r} names no columns: it holds no object.",
            hint="write one object a line, or an array of objects; the first file needs at least one",
        )
    return list(found)


def _closed(text: str) -> Iterator[str]:
    """The elements of an array that may be cut off at its end."""
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
