"""CSV and TSV files. Cells are text, the header is public; a line that does not fit is padded, cut or dropped.

What a row is, the CSV format says: a quote that is opened and not closed runs over the line's end, and whoever writes
the file has to write cells so that it cannot.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from discreet.backends.source import FILES, HEADER, Scan, Source, listed, literal
from discreet.catalog.shape import TableShape
from discreet.errors import InvalidParameter, SourceError


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
