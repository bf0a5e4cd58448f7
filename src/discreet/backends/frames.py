"""Data frames (pandas, polars) and Arrow tables, made readable for the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from discreet.backends.source import first_twin
from discreet.catalog.ids import id_of
from discreet.errors import InvalidParameter, MissingExtra, SourceError


def readable(frame: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the frame in a form that the database can scan more than once, and its columns of Python objects.

    These are text in the frame, and are given as they were besides, since the text of an id is made in another way.

    Raises:
        InvalidParameter: no data frame.
        SourceError: it has no columns, or two of one name.
    """
    module, objects = type(frame).__module__.split(".")[0], dict[str, Any]()
    if module == "pandas" and hasattr(frame, "columns"):
        frame, objects = _pandas(frame)
    elif module == "polars" and hasattr(frame, "collect_schema"):
        frame = _polars(frame)
    elif module == "pyarrow" and hasattr(frame, "schema"):
        is_table = hasattr(frame, "columns")
        frame = frame.read_all() if hasattr(frame, "read_all") else frame  # a reader gives its rows only once
        frame = _table(frame) if is_table else _kept(frame)
    elif module not in _KNOWN and hasattr(frame, "__arrow_c_stream__"):
        frame = _kept(_stream(frame))
    else:
        raise InvalidParameter(
            f"a {type(frame).__name__} cannot be connected.",
            hint="connect a path, a pandas or polars data frame, a pyarrow table, a DuckDB relation, anything that "
            "gives an Arrow stream, or a dict of names to these",
        )
    if module != "pandas":
        _check_names([str(n) for n in frame.schema.names])
    return frame, objects


def with_ids(frame: Any, objects: Mapping[str, Any], ids: Collection[str]) -> Any:
    """Return the frame with the ids in its columns of Python objects as text in place of their values."""
    import pandas as pd

    lowered = {n.lower() for n in ids}
    found = {n: cells for n, cells in objects.items() if n.lower() in lowered}
    if not found:
        return frame
    texts = {n: pd.Series([id_of(v) for v in cells], frame.index, object) for n, cells in found.items()}
    return frame.assign(**texts)


def _pandas(frame: Any) -> tuple[Any, dict[str, Any]]:
    """Columns of Python objects become text here: the database would guess their type from a sample of the rows."""
    import pandas as pd

    plain, objects = frame.copy(deep=False), {}
    names = [str(c) for c in frame.columns]
    _check_names(names)
    plain.columns = names
    for column in names:
        kind = plain[column].dtype
        if isinstance(kind, pd.CategoricalDtype):
            its = kind.categories.dtype  # reals stay reals, which are no ids
            plain[column] = plain[column].astype(its if its.kind == "f" else object)
        elif isinstance(kind, pd.SparseDtype):
            plain[column] = plain[column].sparse.to_dense()
        elif isinstance(kind, pd.ArrowDtype) or (isinstance(kind, pd.StringDtype) and kind.storage != "python"):
            cells = plain[column].array.__arrow_array__()
            whole = mended(cells)
            if (whole.type, whole.null_count) != (cells.type, cells.null_count):
                plain[column] = pd.Series(pd.arrays.ArrowExtensionArray(whole), plain.index)
        elif isinstance(kind, pd.DatetimeTZDtype):  # an instant; the database fails on those of coarse units with zones
            plain[column] = plain[column].dt.tz_convert("UTC").dt.tz_localize(None)
        kind = plain[column].dtype
        if kind == np.dtype(object) or (isinstance(kind, pd.StringDtype) and kind.storage == "python"):
            objects[column] = list(plain[column])
            texts = [_text(v) for v in objects[column]]
            plain[column] = pd.Series(texts, index=plain.index, dtype=object)
    return plain, objects


def _polars(frame: Any) -> Any:
    if hasattr(frame, "collect"):
        frame = frame.collect()
    try:
        import pyarrow  # noqa: F401  # only whether it is there
    except ImportError:
        raise MissingExtra(
            "A polars frame needs pyarrow to be connected.", hint="pip install 'discreet[arrow]'"
        ) from None
    import polars as pl

    unreadable = [n for n, kind in frame.schema.items() if kind in (pl.Object, pl.Int128)]
    if unreadable:
        raise SourceError(
            f"The column {unreadable[0]!r} has a type that cannot be read.", hint="cast it to numbers or text first"
        )
    return _table(frame.to_arrow())


def is_read_once(frame: object) -> bool:
    """Return whether the rows of a frame are copied at connect.

    A stream gives its rows only once. A dataset does not tell whether its files have changed since.
    """
    module = type(frame).__module__.split(".")[0]
    if module == "pyarrow" and not hasattr(frame, "columns"):
        return True
    return module not in _KNOWN and hasattr(frame, "__arrow_c_stream__")


_KNOWN = frozenset({"pandas", "polars", "pyarrow"})  # packages whose frames are told apart by their types


def _stream(frame: Any) -> Any:
    """Return the Arrow table of what gives an Arrow stream, such as a DuckDB relation."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtra(
            f"A {type(frame).__name__} needs pyarrow to be connected.", hint="pip install 'discreet[arrow]'"
        ) from None
    try:
        return pa.RecordBatchReader.from_stream(frame).read_all()
    except Exception as error:  # whose words may quote a cell
        failed = type(error).__name__
    raise SourceError(
        f"The stream of a {type(frame).__name__} cannot be read ({failed}).",
        hint="read it yourself, as in pyarrow.table(stream), and connect the table",
    )


def _kept(dataset: Any) -> Any:
    """Return the rows of a dataset or a table of Arrow's as they are now, as a table of its own.

    Its files, if it has any, may be written at any time. The copy is a whole one: batches may lie in a mapped file.
    """
    import pyarrow as pa

    try:
        streamed = Streamed(dataset)
        copies = [_copied(_table(batch)) for batch in dataset.to_batches()]
        return pa.concat_tables([streamed.schema.empty_table(), *copies])
    except Exception as error:  # whose words may quote a cell
        failed = type(error).__name__
    raise SourceError(
        f"The rows of a {type(dataset).__name__} cannot be read ({failed}).",
        hint="check its files, or connect their path or glob instead",
    )


def _copied(batch: Any) -> Any:
    import pyarrow as pa

    copy = pa.BufferOutputStream()
    with pa.ipc.new_stream(copy, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(copy.getvalue()).read_all()


class Streamed:
    """A dataset of Arrow's as a stream of mended batches, which can be read more than once.

    Whoever makes one watches the state of the files that it reads.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.schema = _schema(dataset.schema)

    def __arrow_c_stream__(self, requested: object = None) -> object:
        import pyarrow as pa

        batches = map(_table, self._dataset.to_batches())
        return pa.RecordBatchReader.from_batches(self.schema, batches).__arrow_c_stream__(requested)


def parquet_stream(files: Sequence[str]) -> Streamed:
    """Return Parquet files of one shape as Arrow reads them.

    Raises:
        MissingExtra: pyarrow is not installed.
        SourceError: a file is gone or broken.
    """
    try:
        import pyarrow.dataset as ds
    except ImportError:
        raise MissingExtra(
            "A Parquet file with times of milliseconds, or times of a day, needs pyarrow to be read.",
            hint="pip install 'discreet[arrow]', or write the times in microseconds: "
            "COPY (SELECT * REPLACE (CAST(t AS TIMESTAMP) AS t) FROM 'old.parquet') TO 'new.parquet'",
        ) from None
    try:
        return Streamed(ds.dataset(list(files), format="parquet", partitioning=None))
    except (OSError, ValueError):  # pyarrow's errors are of both kinds
        failed = "One of the Parquet files cannot be read as pyarrow reads it."
    raise SourceError(failed, hint="check that the files are complete, or write their times in microseconds")


def mended(cells: Any) -> Any:
    """Return an Arrow array with NULL for each cell that breaks its own type, such as text that is not UTF-8.

    The database would stop at such a cell, before any TRY. Halves are looked at where the whole is broken.
    """
    import pyarrow as pa

    to = _kind(cells.type)
    if hasattr(cells, "chunks"):
        return pa.chunked_array([mended(c) for c in cells.chunks], to)
    if pa.types.is_dictionary(cells.type):  # which all rows share
        cells = cells.dictionary_decode()
    try:
        cells.validate(full=True)
        return cells.cast(to)
    except pa.ArrowInvalid:  # its words may quote a cell
        half = len(cells) // 2
    if not half or to.num_fields:  # nested cells cannot be asked about
        return pa.nulls(len(cells), to)
    return pa.concat_arrays([mended(cells.slice(0, half)), mended(cells.slice(half))])


def _kind(kind: Any) -> Any:
    """Return the type of Arrow's as which cells are read. Of instants in coarse units the database fails on those that
    are far away, but not where they have no zone.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    return pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) and kind.unit in ("s", "ms") else kind


def _schema(schema: Any) -> Any:
    import pyarrow as pa

    return pa.schema([pa.field(f.name, _kind(f.type)) for f in schema])


def _table(table: Any) -> Any:
    """Return a table or a batch of Arrow's, mended."""
    return type(table).from_arrays([mended(c) for c in table.columns], schema=_schema(table.schema))


def _text(value: Any) -> str | None:
    """Return a cell of Python objects as text; what has no text that can be stored is NULL."""
    try:
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            return None
        if isinstance(value, float):
            return None if value != value else str(int(value)) if value.is_integer() else repr(float(value))
        if isinstance(value, Decimal):
            return None if value.is_nan() else _plain(value) if value.is_finite() else str(value)
        is_whole = isinstance(value, np.floating) and value.is_integer()
        text = str(int(value)) if is_whole else str(value)
        text.encode()
    except Exception:  # a cell's own code may raise anything, and no cell may be heard
        return None
    return text


def _plain(value: Decimal) -> str:
    """As the database's decimals: 7.00 is 7, and 1.50 is 1.5. Every digit stays, whatever decimal context holds."""
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _check_names(names: list[str]) -> None:
    if not names:
        raise SourceError("The data frame has no columns.", hint="connect a frame with named columns")
    if twin := first_twin(names):
        raise SourceError(
            f"The data frame has two columns called {twin!r}.", hint="rename one; case makes no difference"
        )
    bad = [n for n in names if not n or not n.isprintable()]
    if bad:
        raise SourceError(
            f"The data frame has a column called {bad[0]!r}, which cannot be written in SQL.", hint="rename it"
        )
