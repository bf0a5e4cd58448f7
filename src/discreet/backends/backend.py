"""The port to a database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.backends.contents import Contents
from discreet.backends.person_filter import PersonFilter
from discreet.catalog.ids import Storage
from discreet.catalog.shape import TableShape


class Backend(Protocol):
    """A database that holds private tables.

    Every method but `rows` is about public facts. After `attach`, `main.<table>` has exactly the pinned
    columns with the
    pinned types, whatever the source holds now: a cell that does not fit is NULL, a missing column is all NULL.
    """

    @property
    def tables(self) -> list[str]:
        """The names of the connected tables."""

    @property
    def views(self) -> list[str]:
        """The names of the database's views, which are not read."""

    def discover(self, table: str) -> TableShape:
        """Return the shape of a table as it is now."""

    def storages(self, table: str, ids: Collection[str]) -> dict[str, set[Storage]]:
        """Return the current storage types of each named column; names are looked up as `attach` does.

        Raises:
            InvalidParameter: a type of which no ids are made.
        """

    def attach(self, table: str, pinned: TableShape, ids: Collection[str] = ()) -> str:
        """Make the table answerable in its pinned shape, with ids in their canonical form (`catalog/ids.py`).

        Returns:
            The text of its view, without what files are now: what the second derivation reads.

        Raises:
            SourceError: there is no file any more, or none that can be read.
        """

    def refresh(self) -> dict[str, str]:
        """Attach again the tables whose sources were written since, and return the text of each table's view.

        Raises:
            SourceError: as `attach`.
        """

    def contents(self, table: str, pinned: TableShape, most: int) -> Contents:
        """Return what a public table holds, once it is attached; columns of more than `most` values by their bounds.

        Raises:
            SourceError: it cannot be read.
        """

    def rehearse(self, sql: str, parameters: Mapping[str, int | str]) -> None:
        """Run a query on empty tables of the pinned shape.

        Raises:
            InternalError: it cannot run.
            SourceError: the backend is closed, or is a forked child's copy.
        """

    def rows(self, sql: str, parameters: Mapping[str, int]) -> list[tuple[Any, ...]]:
        """Run a query on the data; any failure is BackendFailed, with no text from the data.

        Each statement is answered from one state of the sources. Where they do not stay as they are while it runs, also
        not when it is repeated, it is answered as if the tables were empty.
        """

    def columns(self, sql: str, parameters: Mapping[str, int]) -> list[NDArray[np.int64]]:
        """Run a query of whole numbers of 64 bits, none of them NULL, as `rows` does, and return its columns."""

    def check_person_filter(self) -> None:
        """Look, before anything is charged, whether this database hashes ids and leaves people out as it has to.

        Raises:
            InternalError: it does not.
        """

    def person_filter(self, tables: Mapping[str, str]) -> AbstractContextManager[PersonFilter]:
        """Return a connection of one query, on which people can be left out of these tables: name → column of ids."""

    def close(self) -> None:
        """Lets go of the database."""
