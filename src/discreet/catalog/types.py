"""The types of the query language: six, whatever the database calls them, and those of results that hold several; and
the public shape of a table, its columns' names and types, as the ledger keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from discreet.errors import LedgerError


class Type(Enum):
    """A value's type; each is nullable. INT is 64 bits, REAL is a finite double, TIMESTAMP has no zone."""

    BOOL = "BOOLEAN"
    INT = "BIGINT"
    REAL = "DOUBLE"
    TEXT = "VARCHAR"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    LIST = "LIST"
    """Several values: a result only, never a cell."""
    MAP = "MAP"
    """Values and how many rows have each: a result only, never a cell."""

    @property
    def is_nested(self) -> bool:
        """Whether a result of this type holds several values."""
        return self in (Type.LIST, Type.MAP)

    @property
    def is_moment(self) -> bool:
        """Whether it is a date or a time."""
        return self in (Type.DATE, Type.TIMESTAMP)

    @property
    def is_number(self) -> bool:
        """Whether arithmetic applies."""
        return self in (Type.INT, Type.REAL)

    @property
    def word(self) -> str:
        """The type in the user's words."""
        return _WORDS[self]


OF_CELLS = tuple(t for t in Type if not t.is_nested)  # the types that cells, keys and expressions over them may have

_WORDS = {
    Type.BOOL: "true or false",
    Type.INT: "a whole number",
    Type.REAL: "a number",
    Type.TEXT: "text",
    Type.DATE: "a date",
    Type.TIMESTAMP: "a time",
    Type.LIST: "a list",
    Type.MAP: "a map",
}


@dataclass(frozen=True, slots=True)
class TableShape:
    """Public shape of a table, fixed with the first charged query of a session that has it."""

    # name → the SQL type as which it is read (a `Type` value); None for nested and binary columns. Of ids it is one of
    # the two kinds of `catalog/ids.py`.
    columns: Mapping[str, str | None]
    text: bool  # whether the first source was text (CSV, JSON)
    delimiter: str = ","  # what separated the cells of a CSV

    def to_json(self) -> dict[str, Any]:
        """Return the form in which the ledger keeps it."""
        columns = [list(c) for c in self.columns.items()]
        return {"form": _FORM, "columns": columns, "text": self.text, "delimiter": self.delimiter}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> TableShape:
        """Return what `to_json` wrote. Raises LedgerError: another version of discreet wrote it."""
        if kept.get("form") != _FORM:
            raise LedgerError(
                "Another version of discreet fixed the shape of this table, and read ids in another way.",
                hint="what was spent still counts: open an account in a new ledger with the budget that remains",
            )
        return cls(dict(kept["columns"]), bool(kept["text"]), str(kept["delimiter"]))


_FORM = 3  # version of the stored shape
