"""What can be connected: files by path or glob, data frames, Arrow tables, DuckDB databases."""

from __future__ import annotations

import csv
import glob
import gzip
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.backends.backend import Pinned
from discreet.errors import InvalidParameter, MissingExtra, SourceError

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Source:
    """One table's source.

    Attributes:
        kind: what it is, in words.
        text: whether its cells are text whatever they look like.
        delimiter: what separates the cells of a CSV now.
        scan: SQL that scans it, given the pinned shape, or None to find out the present one.
    """

    kind: str
    text: bool
    delimiter: str
    scan: Callable[[Pinned | None], str]


def open_source(
    source: Mapping[str, object] | object, connection: duckdb.DuckDBPyConnection, names: Sequence[str] | None
) -> dict[str, Source]:
    """Table name → source.

    A single path is the table named by its file's stem; a DuckDB database brings all its tables; a single
    frame is `data`.

    Raises:
        SourceError: nothing there, or nothing readable.
        InvalidParameter: not a kind of source.
    """
    if isinstance(source, Mapping):
        if not source:
            raise InvalidParameter(
                "connect() was given no table.", hint='connect({"visits": "visits.parquet"}, …)'
            )
        return {_table_name(n): _open_one(str(n), s, connection, names) for n, s in source.items()}
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if Path(path).suffix.lower() in _DATABASES:
            return _database(path, connection)
        return {_stem(path): _open_one(_stem(path), path, connection, names)}
    return {"data": _open_one("data", source, connection, names)}


_DATABASES = (".duckdb", ".ddb", ".db")
_TEXT = {".csv": ",", ".tsv": "\t", ".txt": ","}
_JSON = (".json", ".jsonl", ".ndjson")
_PARQUET = (".parquet", ".pq")
_GLOB = re.compile(r"[*?\[]")


def _open_one(
    name: str, source: object, connection: duckdb.DuckDBPyConnection, names: Sequence[str] | None
) -> Source:
    if isinstance(source, str | os.PathLike):
        return _file(os.fspath(source), names)
    if names is not None:
        raise InvalidParameter(
            "names= is for files without a header.", hint="rename the frame's columns instead"
        )
    return _frame(name, source, connection)


def _file(path: str, names: Sequence[str] | None) -> Source:
    if "://" in path:
        scheme = path.split("://", 1)[0]
        raise SourceError(
            f"A {scheme}:// source cannot be connected.", hint="connect a local file or a data frame"
        )
    files = _files(path)
    suffix = _suffix(files[0])
    if names is not None and suffix not in _TEXT:
        raise InvalidParameter(
            "names= is for CSV files without a header.", hint="leave it out; this file names its columns"
        )
    if suffix in _TEXT:
        return _csv(files, names, _TEXT[suffix])
    if suffix in _JSON:
        return _json(files)
    if suffix in _PARQUET:
        listed = _list(files)
        by_name = ", union_by_name = true" if len(files) > 1 else ""
        return Source("Parquet", False, ",", lambda _: f"read_parquet({listed}{by_name})")
    raise SourceError(
        f"The kind of {Path(path).name!r} cannot be told from its name.",
        hint="names end in .parquet, .csv, .tsv, .json, .jsonl or .duckdb (.csv and .json may be followed by .gz)",
    )


def _files(path: str) -> list[str]:
    expanded = str(Path(path).expanduser())
    if Path(expanded).is_dir():
        raise SourceError(
            f"{Path(path).name!r} is a directory.", hint="name a file, or a glob such as visits/*.parquet"
        )
    files = (
        [expanded]
        if Path(expanded).exists()
        else sorted(glob.glob(expanded))  # noqa: PTH207  # Path.glob takes no absolute pattern
        if _GLOB.search(expanded)
        else []
    )
    files = [f for f in files if not Path(f).is_dir()]
    if not files:
        raise SourceError(
            f"There is no file {path!r}.",
            hint="check the path; relative paths start at the current directory",
        )
    if len({_suffix(f) for f in files}) > 1:
        raise SourceError(f"The files of {path!r} are of several kinds.", hint="connect one kind at a time")
    return files


def _csv(files: list[str], names: Sequence[str] | None, usual: str) -> Source:
    """Text cells only; a ragged line is padded or dropped. One thread reads, since several cannot pad
    quoted line breaks.
    """
    delimiter = usual if names is not None else _sniffed(files[0], usual)

    def scan(pinned: Pinned | None) -> str:
        mark = pinned.delimiter if pinned and pinned.text else delimiter
        by_header: dict[tuple[str, ...], list[str]] = {}
        for f in files:
            by_header.setdefault(tuple(names or _header(f, mark)), []).append(f)
        every = list(dict.fromkeys(n for header in by_header for n in header))
        scans = []
        for header, some in by_header.items():
            if not header:
                continue
            columns = ", ".join(f"{_text(n)}: 'VARCHAR'" for n in header)
            read = (
                f"read_csv({_list(some)}, auto_detect = false, header = {str(names is None).lower()}, "
                f"columns = {{{columns}}}, "
                f"delim = {_text(mark)}, quote = '\"', escape = '\"', null_padding = true, ignore_errors = true, "
                "strict_mode = false, parallel = false)"
            )
            shown = ", ".join(_ident(n) if n in header else f"NULL::VARCHAR AS {_ident(n)}" for n in every)
            scans.append(f"SELECT {shown} FROM {read}")
        if not scans:
            return '(SELECT NULL::VARCHAR AS "column0" WHERE false)'
        return f"({' UNION ALL '.join(scans)})"

    if names is not None:
        _check_names(names)
    elif not _header(files[0], delimiter):
        raise SourceError(
            f"{Path(files[0]).name!r} is empty: it has no header.", hint="give the names: names=[…]"
        )
    return Source("CSV", True, delimiter, scan)


def _check_names(names: Sequence[object]) -> None:
    if isinstance(names, str) or not names or not all(isinstance(n, str) and n for n in names):
        raise InvalidParameter("names must be a list of column names.", hint='names=["age", "income"]')
    if len(set(names)) != len(names):
        raise InvalidParameter("names must differ from each other.")


def _header(file: str, delimiter: str) -> list[str]:
    """The names in a CSV's first line; the header is public."""
    line = _first_line(file)
    cells = next(csv.reader([line], delimiter=delimiter), []) if line.strip() else []
    named = [c.strip() or f"column{i}" for i, c in enumerate(cells)]
    if len({n.lower() for n in named}) != len(named):
        raise SourceError(
            f"The header of {Path(file).name!r} names a column twice.", hint="rename one, or give names=[…]"
        )
    return named


def _sniffed(file: str, usual: str) -> str:
    """The delimiter of the header: the commonest of the usual four."""
    line = _first_line(file)
    return max((usual, ",", ";", "\t", "|"), key=line.count)


def _first_line(file: str) -> str:
    opener = gzip.open if file.lower().endswith(".gz") else open
    try:
        with opener(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as f:
            return str(f.readline(1 << 20)).rstrip("\r\n")
    except OSError as error:
        raise SourceError(
            f"{Path(file).name!r} cannot be opened: {error.strerror or 'not a gzip file'}."
        ) from None


def _json(files: list[str]) -> Source:
    """An array of objects, or one object a line; which of the two is told by the first character."""
    listed = _list(files)
    opener = gzip.open if files[0].lower().endswith(".gz") else open
    try:
        with opener(files[0], "rt", encoding="utf-8-sig", errors="replace") as f:
            array = str(f.read(4096)).lstrip().startswith("[")
    except OSError as error:
        raise SourceError(
            f"{Path(files[0]).name!r} cannot be opened: {error.strerror or 'not a gzip file'}."
        ) from None
    shape = "array" if array else "newline_delimited"
    lenient = "" if array else ", ignore_errors = true"
    options = f"format = '{shape}', maximum_object_size = {1 << 28}{lenient}"

    def scan(pinned: Pinned | None) -> str:
        if pinned is None:
            return f"read_json_auto({listed}, {options})"
        columns = ", ".join(f"{_text(n)}: 'VARCHAR'" for n in pinned.columns)
        return f"read_json({listed}, columns = {{{columns}}}, {options})"

    return Source("JSON", True, ",", scan)


def _frame(name: str, frame: Any, connection: duckdb.DuckDBPyConnection) -> Source:
    module = type(frame).__module__.split(".")[0]
    if module == "pandas":
        frame = _plain_pandas(frame)
    elif module == "polars":
        if hasattr(frame, "collect"):
            frame = frame.collect()
        _needs_arrow("A polars frame")
        frame = frame.to_arrow()
    elif module != "pyarrow":
        raise InvalidParameter(
            f"a {type(frame).__name__} cannot be connected.",
            hint="connect a path, a pandas or polars data frame, a pyarrow table, or a dict of names to these",
        )
    view = f"frame of {name}"
    connection.register(view, frame)
    return Source("a data frame", False, ",", lambda _: _ident(view))


def _plain_pandas(frame: Any) -> Any:
    """Columns of Python objects become text here: the database would guess their type from a sample of the rows."""
    if not hasattr(frame, "columns"):
        raise InvalidParameter(
            "a pandas Series cannot be connected.", hint="connect a DataFrame: series.to_frame()"
        )
    plain = frame.rename(columns=str)
    for column in plain.columns:
        if plain[column].dtype == object:
            plain[column] = [None if v is None or v != v else str(v) for v in plain[column]]
    return plain


def _needs_arrow(what: str) -> None:
    try:
        import pyarrow  # noqa: F401  # only whether it is there
    except ImportError:
        raise MissingExtra(
            f"{what} needs pyarrow to be connected.", hint="pip install 'discreet[arrow]'"
        ) from None


def _database(path: str, connection: duckdb.DuckDBPyConnection) -> dict[str, Source]:
    import duckdb

    files = _files(path)
    try:
        connection.execute(f"ATTACH {_text(files[0])} AS source (READ_ONLY)")
        listed = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'source' ORDER BY ALL"
        ).fetchall()
    except duckdb.Error:
        raise SourceError(
            f"{Path(path).name!r} cannot be opened as a DuckDB database.",
            hint="check that it is one, and that no other process has it open for writing",
        ) from None
    if not listed:
        raise SourceError(f"The database {Path(path).name!r} has no tables.")
    found: dict[str, Source] = {}
    for schema, table in listed:
        text = f"source.{_ident(schema)}.{_ident(table)}"
        found[table if schema == "main" else f"{schema}.{table}"] = Source(
            "a DuckDB table",
            False,
            ",",
            lambda _, text=text: text,  # type: ignore[misc]  # the default binds this table
        )
    return found


def _table_name(name: object) -> str:
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidParameter("a table's name must be text.", hint='connect({"visits": …}, …)')
    return name


def _stem(path: str) -> str:
    name = Path(path).name
    stem = re.sub(r"(\.[A-Za-z0-9]+){1,2}$", lambda m: "" if _suffix(name) else m.group(0), name)
    if _GLOB.search(stem):
        stem = _GLOB.sub("", stem).strip("-_. ]") or Path(path).absolute().parent.name
    return stem or "data"


def _suffix(file: str) -> str:
    suffixes = [s.lower() for s in Path(file).suffixes]
    packed = suffixes[-1:] in (["." + "gz"], [".zst"]) and len(suffixes) > 1
    last = suffixes[-2 if packed else -1] if suffixes else ""
    return last if last in _TEXT or last in _JSON or last in _PARQUET else ""


def _list(files: Sequence[str]) -> str:
    return f"[{', '.join(_text(f) for f in files)}]"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _ident(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
