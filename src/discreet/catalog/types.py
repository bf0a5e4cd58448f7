"""The types of the query language: six, whatever the database calls them, and those of results that hold several."""

from __future__ import annotations

from enum import Enum


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


OF_CELLS = tuple(t for t in Type if not t.is_nested)
"""The types that cells, keys and expressions over them may have."""

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
