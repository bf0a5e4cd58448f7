"""The types of the question language: six, whatever the database calls them."""

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

    @property
    def is_number(self) -> bool:
        """Whether arithmetic applies."""
        return self in (Type.INT, Type.REAL)

    @property
    def word(self) -> str:
        """The type in the user's words."""
        return _WORDS[self]


_WORDS = {
    Type.BOOL: "true or false",
    Type.INT: "a whole number",
    Type.REAL: "a number",
    Type.TEXT: "text",
    Type.DATE: "a date",
    Type.TIMESTAMP: "a time",
}
