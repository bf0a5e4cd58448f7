"""Neighbouring worlds in files and frames of every kind, rewritten, and read through the view as sessions do."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb

from benchmarks.fuzz.worlds import KINDS as TYPES
from benchmarks.fuzz.worlds import Shape, Table
from discreet.backends.duckdb import DuckDB
from discreet.catalog.owners import Owner, id_columns
from discreet.catalog.schema import Reached, TableSchema
from discreet.catalog.types import TableShape, Type
from discreet.engine.tables import with_id_kinds

_ENDINGS = {
    "parquet": "parquet",
    "coarse parquet": "parquet",
    "csv": "csv",
    "csv of text": "csv",
    "tsv": "tsv",
    "jsonl": "jsonl",
    "jsonl of text": "jsonl",
    "array": "json",
}
_HELD = ("duckdb", "arrow", "polars", "pandas")  # which are not rewritten while a session holds them
KINDS = (*_ENDINGS, *_HELD)
"""Kinds of sources: times of milliseconds are coarse; of text are those whose first source was the file itself, while
the others were known with the types of the world.
"""

_SHARE = 4  # one seed of so many has sources


def with_kind(seed: int, shape: Shape) -> Shape:
    """The shape with the kind of sources that this seed has; reals are no ids, so that theirs stay tables."""
    rng = Random(f"{seed} source")
    if seed % _SHARE or any(t.unit is not None and t.columns[t.unit] == "r" for t in shape.tables):
        return shape
    return replace(shape, kind=rng.choice(KINDS))


class Sources:
    """The neighbours in sources of their own, both first attached as the first of them.

    Attributes:
        connections: one to each of the neighbours and one to empty tables.
        schemas: the tables as the planner sees them.
    """

    def __init__(self, shape: Shape, first: duckdb.DuckDBPyConnection, second: duckdb.DuckDBPyConnection) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._rng = Random(repr(shape))
        self._kind = str(shape.kind)
        counted = [first.execute(f'SELECT count(*) FROM main."{t.name}"').fetchall() for t in shape.tables]
        self._of_text = self._kind.endswith("of text") and [(0,)] not in counted  # else JSON names no columns
        owners = {t.name: _owner(t) for t in shape.tables}
        ids = {t.name: id_columns(owners, t.name) for t in shape.tables}
        pinned = {t.name: TableShape({n: TYPES[k].value for n, k in t.columns.items()}, False) for t in shape.tables}
        self._backends: list[DuckDB] = []
        forms: list[dict[str, str]] = []
        for place, world in enumerate((first, second)):
            folder = Path(self._folder.name) / str(place)
            folder.mkdir()
            rewritten = self._kind not in _HELD and place > 0
            backend = DuckDB(self._written(shape, first if rewritten else world, folder, {}))
            self._backends.append(backend)
            if self._of_text and not place:
                found = {t.name: backend.discover(t.name) for t in shape.tables}
                pinned = with_id_kinds(backend, found, owners, ())
            forms.append({name: backend.attach(name, shown, ids[name]) for name, shown in pinned.items()})
            if rewritten:
                self._written(shape, second, folder, ids)
                forms[place] = backend.refresh()
        if forms[0] != forms[1]:
            raise AssertionError(f"the view's text follows from the rows: {forms}")
        self.schemas: tuple[TableSchema, ...] = tuple(
            replace(
                s,
                columns={n: None if k is None else Type(k) for n, k in pinned[s.name].columns.items()},
                view=forms[0][s.name],
            )
            for s in shape.schemas()
        )
        self.connections = [b._connection() for b in self._backends] + [self._backends[0]._twin]
        for c in self.connections:
            c.execute("SET threads = 1")

    def _written(
        self, shape: Shape, world: duckdb.DuckDBPyConnection, folder: Path, as_text: Mapping[str, Collection[str]]
    ) -> Any:
        """The sources of a world, each in a random order of columns; these ids as text where a type can differ."""
        found: dict[str, Any] = {}
        if self._kind == "duckdb":
            world.execute(f"ATTACH '{folder / 'all.duckdb'}' AS made")
        for t in shape.tables:
            cells = [self._cell(t, n, n in as_text.get(t.name, ())) for n in t.columns]
            if not self._of_text:
                cells += [f"{i} AS extra{i}" for i in range(self._rng.randrange(3))]
            self._rng.shuffle(cells)
            select = f'SELECT {", ".join(cells)} FROM main."{t.name}"'
            if self._kind == "duckdb":
                world.execute(f'CREATE TABLE made."{t.name}" AS {select}')
            elif self._kind in _HELD:
                found[t.name] = _frame(self._kind, world.sql(select).to_arrow_table())
            else:
                found[t.name] = folder / f"{t.name}.{_ENDINGS[self._kind]}"
                _copy(world, select, found[t.name])
        if self._kind == "duckdb":
            world.execute("DETACH made")
            return folder / "all.duckdb"
        return found

    def _cell(self, table: Table, name: str, is_text: bool) -> str:
        cell = f'"{name}"'
        if self._kind == "coarse parquet" and table.columns[name] == "s":
            return f"CAST({cell} AS TIMESTAMP_MS) AS {cell}"
        if self._kind == "parquet" and is_text and self._rng.random() < 0.5:
            return f"CAST({cell} AS VARCHAR) AS {cell}"
        return cell

    def close(self) -> None:
        """Closes all of it."""
        for c in self.connections:
            c.close()
        for backend in self._backends:
            backend.close()
        self._folder.cleanup()


def _copy(world: duckdb.DuckDBPyConnection, select: str, file: Path) -> None:
    """Writes a file in place of the one before, as another inode."""
    new = file.with_name(f"new-{file.name}")
    options = {
        ".parquet": "FORMAT parquet",
        ".csv": "FORMAT csv, HEADER",
        ".tsv": "FORMAT csv, HEADER, DELIMITER '\t'",
        ".jsonl": "FORMAT json",
        ".json": "FORMAT json, ARRAY true",
    }
    world.execute(f"COPY ({select}) TO '{new}' ({options[file.suffix]})")
    new.replace(file)


def _frame(kind: str, table: Any) -> Any:
    if kind == "polars":
        import polars as pl

        return pl.from_arrow(table)
    if kind == "pandas":
        import pandas as pd

        return table.to_pandas(types_mapper=pd.ArrowDtype)
    return table


def _owner(table: Table) -> Owner:
    if table.public:
        return Owner(public=True)
    if table.unit is None and table.link is not None:
        return Owner(reached=Reached(*table.link))
    return Owner(table.unit)
