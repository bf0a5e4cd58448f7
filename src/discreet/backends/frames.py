"""Data frames (pandas, polars) and Arrow tables, made readable for the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

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
        frame = frame.read_all() if hasattr(frame, "read_all") else frame  # a reader gives its rows only once
        if not hasattr(frame, "validate"):
            frame = _dataset(frame)
        if hasattr(frame, "validate"):
            _check_valid(frame)
    else:
        raise InvalidParameter(
            f"a {type(frame).__name__} cannot be connected.",
            hint="connect a path, a pandas or polars data frame, a pyarrow table, or a dict of names to these",
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
        elif isinstance(kind, pd.ArrowDtype) or (
            isinstance(kind, pd.StringDtype) and kind.storage != "python"
        ):
            _check_valid(plain[column].array.__arrow_array__())
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
            f"The column {unreadable[0]!r} has a type that cannot be read.",
            hint="cast it to numbers or text first",
        )
    return frame.to_arrow()


def _dataset(dataset: Any) -> Any:
    """A dataset as it is when its files are Parquet, whose reader checks them; else the table that it holds."""
    kind = getattr(getattr(dataset, "format", None), "default_extname", "")
    return dataset if kind == "parquet" or not hasattr(dataset, "to_table") else dataset.to_table()


def _check_valid(table: Any) -> None:
    """Refuses a table whose buffers break Arrow's own rules, such as text that is not UTF-8: it would stop the
    database at some row.
    """
    try:
        table.validate(full=True)
    except ValueError:  # pyarrow's ArrowInvalid; its words may quote a cell
        broken = True
    else:
        broken = False
    if broken:
        raise SourceError(
            "The Arrow table breaks the rules of its own format, for example by text that is not UTF-8.",
            hint="table.validate(full=True) says where; mend the table where it is made",
        )


def _text(value: Any) -> str | None:
    """A cell of Python objects as text; what has no text that can be stored is NULL."""
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
    lowered = [n.lower() for n in names]
    twins = sorted({n for n in names if lowered.count(n.lower()) > 1})
    if twins:
        raise SourceError(
            f"The data frame has two columns called {twins[0]!r}.",
            hint="rename one; case makes no difference",
        )
    bad = [n for n in names if not n or not n.isprintable()]
    if bad:
        raise SourceError(
            f"The data frame has a column called {bad[0]!r}, which cannot be written in SQL.",
            hint="rename it",
        )
