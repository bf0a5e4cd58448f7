"""What can be connected: files by path or glob, data frames, Arrow tables, DuckDB databases."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.backends.frames import is_read_once, parquet_stream, readable, with_ids
from discreet.backends.source import FILES, Scan, Source, identifier, listed, literal
from discreet.backends.text_files import delimited, json_files
from discreet.errors import InvalidParameter, SourceError

if TYPE_CHECKING:
    import duckdb


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
    found: dict[str, Source]
    source = _relations(source)
    if isinstance(source, str | os.PathLike) and Path(path := _path(source)).suffix.lower() in _DATABASES:
        found = _database(path, connection)
    else:
        if not isinstance(source, Mapping):
            source = {table_name(_path(source)) if isinstance(source, str | os.PathLike) else "data": source}
        if not source:
            raise InvalidParameter("connect() was given no table.", hint='connect({"visits": "visits.parquet"}, …)')
        _check_tables(list(source))
        inside = _from_database(source, connection)
        found = {n: inside.get(n) or _open_one(n, s, connection, names) for n, s in source.items()}
    if names is not None and any(s.kind != "CSV" for s in found.values()):
        raise InvalidParameter(
            "names= is for CSV files without a header.", hint="leave it out; other sources name their columns"
        )
    return found


def table_name(path: str) -> str:
    """Return the name of the table in a file or in the files of a glob: the file's without its endings.

    >>> table_name("shop/orders-*.csv.gz")
    'orders'
    """
    stem = Path(path).name
    if _suffix(stem):
        stem = stem.removesuffix(Path(stem).suffix) if stem.lower().endswith(".gz") else stem
        stem = Path(stem).stem
    if _GLOB.search(stem):
        stem = _GLOB.sub("", stem).strip("-_. ]") or Path(path).absolute().parent.name
    return "".join(c for c in stem if c.isprintable())[:200] or "data"


_DATABASES = (".duckdb", ".ddb", ".db")
_TEXT = {".csv": ",", ".tsv": "\t", ".txt": ","}
_JSON = (".json", ".jsonl", ".ndjson")
_PARQUET = (".parquet", ".pq")
_GLOB = re.compile(r"[*?\[]")


def _open_one(name: str, source: object, connection: duckdb.DuckDBPyConnection, names: Sequence[str] | None) -> Source:
    if isinstance(source, str | os.PathLike):
        return _file(name, _path(source), connection, names)
    return _frame(name, source, connection)


def _relations(source: Any) -> Any:
    """Return the tables of an open DuckDB connection by their names, as relations; any other source as it is.

    Nothing is set on that connection. Its tables are read like any stream.
    """
    import duckdb

    if not isinstance(source, duckdb.DuckDBPyConnection):
        return source
    beside = source.cursor()  # a pending result of theirs stays
    attached = beside.execute("SELECT database_name FROM duckdb_databases() WHERE NOT internal").fetchall()
    if len(attached) > 1:  # a cursor does not begin where USE has led
        try:
            ((current,),) = source.sql("SELECT current_database()").fetchall()
        except duckdb.Error:
            raise SourceError(
                "The DuckDB connection has a result that is not fetched, and cannot say which database it uses.",
                hint="fetch the result first; or connect relations: {'visits': con.sql('FROM visits')}",
            ) from None
        beside.execute(f"USE {identifier(current)}")
    found = beside.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal AND database_name = current_database() "
        "ORDER BY ALL"
    ).fetchall()
    if not found:
        raise SourceError(
            "The DuckDB connection has no tables.",
            hint="a view or a query is a relation: {'visits': con.sql('FROM v')}",
        )
    return {_in_schema(s, t): beside.sql(f"FROM {identifier(s)}.{identifier(t)}") for s, t in found}


def _file(name: str, path: str, connection: duckdb.DuckDBPyConnection, names: Sequence[str] | None) -> Source:
    here = _here(path)
    suffix = _suffix(_files(path, here)[0])

    def files() -> list[str]:
        """Return the files of the path as they are now."""
        found = _files(path, here)
        if _suffix(found[0]) != suffix:
            raise SourceError(f"The files of {path!r} are of another kind now.", hint="connect again")
        return found

    if suffix in _TEXT:
        return delimited(files, names, _TEXT[suffix])
    if suffix in _JSON:
        return json_files(name, files, connection)
    if suffix in _PARQUET:
        return _parquet(name, files, connection)
    if Path(path).suffix.lower() in _DATABASES:
        raise SourceError(
            f"The DuckDB database {Path(path).name!r} stands beside another one.",
            hint="connect tables of one database, and files beside them",
        )
    if Path(path).suffix.lower() in (".sqlite", ".sqlite3"):
        raise _through_duckdb(
            f"{Path(path).name!r} is a SQLite database, which", "sqlite", f"sqlite_scan({literal(path)}, 'TABLE')"
        )
    raise SourceError(
        f"The kind of {Path(path).name!r} cannot be told from its name.",
        hint="names end in .parquet, .csv, .tsv, .json, .jsonl or .duckdb (.csv and .json may be followed by .gz)",
    )


def _path(source: str | os.PathLike[Any]) -> str:
    path = os.fspath(source)
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidParameter("a source's path must be text.", hint='connect("visits.parquet", …)')
    if "://" in path:
        scheme, _, rest = path.partition("://")
        if scheme in _THROUGH_DUCKDB:
            shown = literal(f"{scheme}://…" if set("@?") & set(rest) else path)  # an address may hold a password
            extension, read = _THROUGH_DUCKDB[scheme]
            raise _through_duckdb(f"A {scheme}:// source", extension, read.format(shown))
        raise SourceError(f"A {scheme}:// source cannot be connected.", hint="connect a local file or a data frame")
    return path


_WEB, _SERVER = ("httpfs", "{}"), ("postgres", "postgres_scan({}, 'public', 'TABLE')")
_THROUGH_DUCKDB = dict.fromkeys(("s3", "gs", "gcs", "r2", "http", "https"), _WEB) | dict.fromkeys(
    ("postgres", "postgresql"), _SERVER
)
"""Schemes of addresses → the extension of DuckDB that reads them, and how."""


def _through_duckdb(what: str, extension: str, read: str) -> SourceError:
    """Return the refusal of what an extension of DuckDB reads, which only the owner installs."""
    return SourceError(
        f"{what} cannot be connected by its path: it needs an extension of DuckDB, and discreet installs none.",
        hint=f"copy it in DuckDB, INSTALL {extension}; LOAD {extension}; COPY (FROM {read}) TO 'TABLE.parquet', or in "
        "Python connect the relation of a DuckDB connection that has the extension",
    )


def _here(path: str) -> str:
    """Return the folder in which a relative path starts, which stays the same wherever the process goes later."""
    if Path(path).expanduser().is_absolute():
        return ""
    try:
        return str(Path.cwd())
    except OSError:  # it was removed, and nothing is in it
        return ""


def _files(path: str, here: str) -> list[str]:
    expanded = str(Path(path).expanduser())
    whole = str(Path(here) / expanded)
    if Path(whole).is_dir():
        raise SourceError(
            f"{Path(path).name!r} is a directory.", hint="name a file, or a glob such as visits/*.parquet"
        )
    files = (
        [whole]
        if Path(whole).exists()
        else sorted(str(Path(here) / f) for f in glob.glob(expanded, root_dir=here or None))  # noqa: PTH207  # Path.glob takes no absolute pattern
        if _GLOB.search(expanded)
        else []
    )
    files = [f for f in files if not Path(f).is_dir()]
    if not files:
        raise SourceError(
            f"There is no file {path!r}.", hint="check the path; relative paths start at the current directory"
        )
    if len({_suffix(f) for f in files}) > 1:
        raise SourceError(f"The files of {path!r} are of several kinds.", hint="connect one kind at a time")
    return files


def _parquet(name: str, files: Callable[[], list[str]], connection: duckdb.DuckDBPyConnection) -> Source:
    """One scan for each shape among the files: read together, a text in one would make a column of all of them text."""
    streams: dict[str, Any] = {}

    def scans(*_: object) -> list[Scan]:
        present = files()
        columns = f"SELECT file_name, name, type, converted_type, logical_type FROM parquet_schema({listed(present)})"
        found = connection.cursor().execute(columns).fetchall()
        shapes: dict[str, set[tuple[object, ...]]] = {}
        for file, *column in found:
            shapes.setdefault(file, set()).add(tuple(column))  # files are read by names: order is nothing
        by_shape: dict[frozenset[tuple[object, ...]], list[str]] = {}
        for file in sorted(shapes):
            by_shape.setdefault(frozenset(shapes[file]), []).append(file)
        return [scan(i, shape, some) for i, (shape, some) in enumerate(by_shape.items())]

    def scan(place: int, shape: frozenset[tuple[object, ...]], some: list[str]) -> Scan:
        if not any(_STRAINED.search(f"{converted} {logical}") for _, _, converted, logical in shape):
            return Scan(_PARQUET_SCAN, listed(some))
        view = f"frame\x01{name}\x01{place}"
        streams[view] = parquet_stream(some)
        return Scan(identifier(view))

    return Source("Parquet", scans, files, frames=lambda _: streams)  # which later files may add to


_STRAINED = re.compile("MILLIS(?!=<null>)|TIME_|TimeType")
"""Types of Parquet's on whose values the database's reader fails where they do not fit its own."""

_PARQUET_SCAN = (
    f"read_parquet({FILES}, hive_partitioning = false, union_by_name = false, filename = false, "
    "utf8_validation = 'replace')"
)
"""A folder's name, `person_id=5` say, would take the place of the column in the file."""


def _frame(name: str, frame: Any, connection: duckdb.DuckDBPyConnection) -> Source:
    import duckdb

    view = f"frame\x01{name}"  # no table can be called that
    plain, objects = readable(frame)
    if is_read_once(frame):
        what = "dataset" if hasattr(frame, "get_fragments") else "stream"
        print(f"discreet: the {what} for {name!r} was read once, now, and is kept in memory", file=sys.stderr)
    try:
        connection.register(view, plain)
        connection.execute(f"DESCRIBE {identifier(view)}").fetchall()
    except (duckdb.Error, TypeError, ValueError) as error:
        failed = type(error).__name__
    else:
        scan = Scan(identifier(view))
        return Source(
            "a data frame",
            lambda *_: [scan],
            frames=lambda ids: {view: with_ids(plain, objects, ids)},
            untyped=frozenset(objects),
        )
    raise SourceError(
        f"A column of the data frame for table {name!r} has a type that cannot be read ({failed}).",
        hint="turn unusual columns (periods, complex numbers, half floats) into numbers or text, or leave them out",
    )


def _database(path: str, connection: duckdb.DuckDBPyConnection) -> dict[str, Source]:
    import duckdb

    files = _files(path, _here(path))
    if len(files) > 1:
        raise SourceError("One DuckDB database at a time.", hint="name one file")
    try:
        connection.execute(f"ATTACH {literal(files[0])} AS source (TYPE duckdb, READ_ONLY)")
        found = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'source' ORDER BY ALL"
        ).fetchall()
    except duckdb.Error:
        raise SourceError(
            f"{Path(path).name!r} cannot be opened as a DuckDB database.",
            hint="check that it is one, and that no other process has it open for writing",
        ) from None
    if not found:
        raise SourceError(
            f"The database {Path(path).name!r} has no tables.",
            hint="views are not read: CREATE TABLE new AS SELECT * FROM the view",
        )
    _check_tables([_in_schema(schema, table) for schema, table in found])  # a dot may stand in either name
    return {_in_schema(schema, table): _database_table(schema, table) for schema, table in found}


def _from_database(source: Mapping[str, object], connection: duckdb.DuckDBPyConnection) -> dict[str, Source]:
    """Return the tables that are given as the path of a DuckDB database, by their names in it, and no others of it."""
    paths = {name: _path(s) for name, s in source.items() if isinstance(s, str | os.PathLike)}
    given = {name: path for name, path in paths.items() if Path(path).suffix.lower() in _DATABASES}
    if len(set(given.values())) != 1:  # several are refused as files
        return {}
    inside = _database(next(iter(given.values())), connection)
    for name, path in given.items():
        if name not in inside:
            listed = ", ".join(list(inside)[:12])
            raise SourceError(f"The database {Path(path).name!r} has no table {name!r:.80}.", hint=f"it has {listed}")
    return {name: inside[name] for name in given}


def views_beside(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the names of the views of the database that is connected, if one is.

    A view is no table: it may read files, draw at random or ask what time it is, and fail on a row.
    """
    found = connection.execute(
        "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = 'source' AND NOT internal ORDER BY ALL"
    ).fetchall()
    return [_in_schema(schema, view) for schema, view in found]


def foreign_keys(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """Return the foreign keys of one column that the database declares, by table, each as `column -> table.key`."""
    found = connection.execute(
        "SELECT schema_name, table_name, constraint_column_names[1], referenced_table, referenced_column_names[1] "
        "FROM duckdb_constraints() WHERE database_name = 'source' AND constraint_type = 'FOREIGN KEY' "
        "AND len(constraint_column_names) = 1 ORDER BY ALL"
    ).fetchall()
    keys: dict[str, list[str]] = {}
    for schema, table, column, target, key in found:
        keys.setdefault(_in_schema(schema, table), []).append(f"{column} -> {_in_schema(schema, target)}.{key}")
    return keys


def _in_schema(schema: str, name: str) -> str:
    return name if schema == "main" else f"{schema}.{name}"


def _database_table(schema: str, table: str) -> Source:
    scan = Scan(f"source.{identifier(schema)}.{identifier(table)}")
    return Source("a DuckDB table", lambda *_: [scan])


def _check_tables(names: Sequence[object]) -> None:
    for name in names:
        if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
            raise InvalidParameter(
                f"a table's name must be a text of 1 to 200 printable characters, not {name!r:.80}.",
                hint='connect({"visits": …}, …)',
            )
    if len({str(n).casefold() for n in names}) != len(names):
        raise InvalidParameter(
            "Two tables have the same name.", hint="rename one; upper and lower case make no difference"
        )


def _suffix(file: str) -> str:
    suffixes = [s.lower() for s in Path(file).suffixes]
    packed = suffixes[-1:] == [".gz"] and len(suffixes) > 1
    last = suffixes[-2 if packed else -1] if suffixes else ""
    return last if last in _TEXT or last in _JSON or last in _PARQUET else ""
