"""The port to a database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from discreet.backends.contents import Contents
    from discreet.backends.leaving import Leaving


@dataclass(frozen=True, slots=True)
class Pinned:
    """What is public about a table's shape: decided when its owner first connects it, and kept for ever.

    Attributes:
        columns: name → the SQL type as which it is read (a `Type` value); None for nested and binary columns.
        text: whether the first source was text (CSV, JSON).
        delimiter: what separated the cells of a CSV.
        made: columns of ids that the source had in another type, and of which text was made here: decimals, UUIDs.
    """

    columns: Mapping[str, str | None]
    text: bool
    delimiter: str = ","
    made: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The form in which the ledger keeps it."""
        kept: dict[str, Any] = {"columns": [list(c) for c in self.columns.items()], "text": self.text}
        return {**kept, "delimiter": self.delimiter, **({"made": list(self.made)} if self.made else {})}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Pinned:
        """What `to_json` wrote."""
        columns, made = dict(kept["columns"]), tuple(map(str, kept.get("made", ())))
        return cls(columns, bool(kept["text"]), str(kept["delimiter"]), made)


class Backend(Protocol):
    """A database that holds private tables.

    Every method but `rows` is about public facts. After `attach`, `main.<table>` has exactly the pinned
    columns with the
    pinned types, whatever the source holds now: a cell that does not fit is NULL, a missing column is all NULL.
    """

    @property
    def tables(self) -> list[str]:
        """The names of the connected tables."""

    def is_text(self, table: str) -> bool:
        """Whether its source is a text file, whose cells are text whatever they look like."""

    def discover(self, table: str, ids: Collection[str] = ()) -> Pinned:
        """The shape of a table as it is now; columns named in `ids` get a type in which no two values are the same."""

    def present(self, table: str, ids: Collection[str]) -> Pinned:
        """As what a table stores these columns now, each under the name that is given here, which `attach` looks up
        with upper and lower case aside; those that it does not have are left out.

        Raises:
            SourceError: files of the table spell one id in several ways.
        """

    def attach(self, table: str, pinned: Pinned, ids: Collection[str] = (), *, trimmed: bool = False) -> None:
        """Makes the table answerable in its pinned shape. In columns named in `ids` no two values become the same: one
        that the pinned type does not hold just as it is, is NULL; and where they are `trimmed`, text that no text file
        could have held: with spaces around it, or empty.
        """

    def contents(self, table: str, pinned: Pinned, most: int) -> Contents:
        """What a public table holds, once it is attached; columns of more than `most` values by their bounds.

        Raises:
            SourceError: it cannot be read.
        """

    def rehearse(self, sql: str, parameters: Mapping[str, int | str]) -> None:
        """Runs a query on empty tables of the pinned shape.

        Raises:
            InternalError: it cannot run.
            SourceError: the backend is closed, or is a forked child's copy.
        """

    def rows(self, sql: str, parameters: Mapping[str, int]) -> list[tuple[Any, ...]]:
        """Runs a query on the data; any failure is BackendFailed, without a word from the data."""

    def check_ids(self, tables: Mapping[str, str]) -> None:
        """Looks whether one person's id may be another one in another type; `tables`: name → column of ids.

        Raises:
            SourceError: it may, by the type that the column has now.
        """

    def check_leaving(self) -> None:
        """Looks, before anything is charged, whether this database hashes ids and leaves people out as it has to.

        Raises:
            InternalError: it does not.
        """

    def leaving(self, tables: Mapping[str, str]) -> AbstractContextManager[Leaving]:
        """A connection of one question's own, on which people can be left out of these tables: name → column of ids."""

    def close(self) -> None:
        """Lets go of the database."""
