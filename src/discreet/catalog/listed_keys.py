"""Group keys that the owner lists as whole tuples: which combinations of some columns' values are groups."""

from __future__ import annotations

import csv
import datetime as dt
import math
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from discreet.catalog.schema import ListedRows, Scalar, Values
from discreet.catalog.types import Type
from discreet.errors import InvalidParameter

MOST_TUPLES = 1_000_000  # tuples in one list of keys


class Keys:
    """The public list of the groups of some columns together, where not every combination of their values is one.

    Queries that group by two or more of the columns have these tuples as groups, or what is left of them in those
    columns; by one, its values. They need no δ. Rows of other tuples are in no group. A cell that is None, or a number
    that is none, stands for NULL, which is a group where it is listed.

    Args:
        frame: a data frame (pandas, polars, pyarrow), a dict from a column to its values, or the path of a CSV file
            with a header, which says NULL by an empty cell.

    >>> Keys({"year": [2025, 2025, 2026], "quarter": ["Q1", "Q2", "Q1"]})
    Keys('year', 'quarter': 3 tuples)
    """

    __slots__ = ("columns", "rows", "text")

    def __init__(self, frame: object) -> None:
        self.text = isinstance(frame, str | os.PathLike)
        table = _of_file(frame) if isinstance(frame, str | os.PathLike) else _of_frame(frame)
        if not table or any(not isinstance(name, str) or not name for name in table):
            raise _no_frame()
        lengths = {len(cells) for cells in table.values()}
        if len(lengths) != 1 or not next(iter(lengths)):
            raise InvalidParameter("Keys needs columns of one length, with at least one tuple.")
        if next(iter(lengths)) > MOST_TUPLES:
            raise InvalidParameter(
                f"Keys lists at most {MOST_TUPLES:,} tuples.",
                hint="leave them out: groups are selected, which needs a δ",
            )
        self.columns: tuple[str, ...] = tuple(table)
        columns = [_cells(name, cells) for name, cells in table.items()]
        self.rows: tuple[tuple[Scalar, ...], ...] = tuple(dict.fromkeys(zip(*columns, strict=True)))

    def __repr__(self) -> str:
        return f"Keys({', '.join(map(repr, self.columns))}: {len(self.rows):,} tuples)"

    def facts(self, kinds: Mapping[str, Type | None]) -> tuple[dict[str, Values], ListedRows]:
        """Return the values of each column, and the tuples, as columns of these types have them.

        Raises:
            InvalidParameter: a cell that is no value of its column's type, or two that would become one.
        """
        columns = []
        for place, name in enumerate(self.columns):
            cells = [row[place] for row in self.rows]
            different = set(cells)
            read = {v: None if v is None else _as(v, kinds.get(name), name, text=self.text) for v in different}
            if len(set(read.values())) != len(different):
                raise InvalidParameter(
                    f"Two values of {name!r} in keys= become one as what the column stores.", hint="list it once"
                )
            columns.append([read[v] for v in cells])
        lists = {n: Values(*dict.fromkeys(cells)) for n, cells in zip(self.columns, columns, strict=True)}
        return lists, ListedRows(self.columns, tuple(zip(*columns, strict=True)), some=True)


def _of_file(path: str | os.PathLike[str]) -> dict[str, list[Any]]:
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            header, *rows = islice(csv.reader(file), MOST_TUPLES + 2)
    except FileNotFoundError:
        raise InvalidParameter(f"There is no file {os.fspath(path)!r} with keys.", hint="check the path") from None
    except (OSError, UnicodeDecodeError, csv.Error, ValueError):
        raise InvalidParameter(
            f"The keys in {os.fspath(path)!r} cannot be read.", hint="write a CSV file in UTF-8, with a header"
        ) from None
    if len(set(header)) != len(header) or any(len(row) != len(header) for row in rows):
        raise InvalidParameter(f"The keys in {os.fspath(path)!r} are no table: each line has one cell for each column.")
    return {name: [row[i] or None for row in rows] for i, name in enumerate(header)}


def _of_frame(frame: Any) -> dict[Any, Any]:
    if isinstance(frame, Mapping):
        return {name: list(cells) for name, cells in frame.items()}
    for method, given in (("to_pydict", {}), ("to_dict", {"as_series": False}), ("to_dict", {"orient": "list"})):
        try:
            found = getattr(frame, method)(**given)
        except (AttributeError, TypeError):
            continue
        if isinstance(found, Mapping):
            return dict(found)
    raise _no_frame()


def _no_frame() -> InvalidParameter:
    return InvalidParameter(
        "Keys takes a data frame, a dict from a column to its values, or the path of a CSV file.",
        hint="give it a column for each key, and a row for each group",
    )


def _cells(name: str, cells: Sequence[Any]) -> list[Scalar]:
    found: list[Scalar] = []
    for cell in cells:
        plain = cell.item() if hasattr(cell, "item") else cell
        plain = plain.to_pydatetime() if hasattr(plain, "to_pydatetime") else plain
        if plain is None or plain != plain:  # NaN and NaT are equal to nothing
            found.append(None)
        elif isinstance(plain, bool | int | float | str | dt.date):
            found.append(plain)
        else:
            raise InvalidParameter(f"A cell of {name!r} in keys= is no number, text, date or truth value.")
    kinds = {type(v) for v in found if v is not None}
    if kinds == {int, float}:
        if any(isinstance(v, int) and int(float(v)) != v for v in found):
            raise InvalidParameter(f"The whole numbers of {name!r} in keys= are too large to stand beside others.")
        return [float(v) if isinstance(v, int) else v for v in found]
    if len(kinds) > 1:
        raise InvalidParameter(f"The cells of {name!r} in keys= must all be of one kind, or None.")
    return found


def _as(value: Scalar, kind: Type | None, name: str, *, text: bool) -> Scalar:
    """Return a value as one of a column's type; of a file it is text, which must be spelled as that value is."""
    found: Scalar = None
    try:
        match kind, value:
            case Type.INT, float() if value.is_integer():
                found = int(value)
            case Type.INT, str() if text and str(int(value)) == value:
                found = int(value)
            case Type.REAL, bool():
                found = None
            case Type.REAL, int() if int(float(value)) == value:
                found = float(value)
            case Type.REAL, str() if text and math.isfinite(float(value)):
                found = float(value)
            case Type.BOOL, str() if text and value.lower() in ("true", "false"):
                found = value.lower() == "true"
            case Type.DATE, str() if text:
                found = dt.date.fromisoformat(value)
            case Type.TIMESTAMP, str() if text:
                found = dt.datetime.fromisoformat(value)
            case Type.DATE, dt.datetime() if value == dt.datetime(value.year, value.month, value.day):
                found = value.date()
            case _:
                found = (
                    value if kind is Type.TEXT or kind is Values(value).type else None
                )  # text is read as what is declared
    except (ValueError, OverflowError):
        found = None
    if found is None:
        what = "nothing that can be a key" if kind is None else kind.word
        raise InvalidParameter(
            f"A value of {name!r} in keys= is not what the column stores: {what}.", hint="list values of that type"
        )
    return found
