"""The small forms in which certificates hold values, each with a reader that takes nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Never, TypeVar

from discreet.errors import InvalidParameter
from discreet.privacy.codec import fraction_text

T = TypeVar("T")

Reader = Callable[[Any], T]


def refuse(what: str) -> Never:
    """Stops the reading of a certificate."""
    raise InvalidParameter(f"this is no certificate that this version can read: {what}.")


def record(value: Any, names: Mapping[str, Reader[Any]], what: str) -> dict[str, Any]:
    """An object with exactly these fields, each of them read.

    Raises:
        InvalidParameter: another value, a field that is missing or one that is not known.
    """
    if type(value) is not dict:
        refuse(f"{what} is no object")
    for name in names:
        if name not in value:
            refuse(f"{what} has no {name!r}")
    for name in value:
        if name not in names:
            refuse(f"{what} has the unknown field {name!r:.60}")
    return {name: read(value[name]) for name, read in names.items()}


def text(value: Any) -> str:
    """Text."""
    if type(value) is not str:
        refuse("a text is of another type")
    return value


def number(value: Any) -> int:
    """A count: a whole number from 0 on."""
    if type(value) is not int or value < 0:
        refuse("a count is no whole number from 0 on")
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if type(value) is not bool:
        refuse("a yes or no is of another type")
    return value


def whole(value: Any) -> int:
    """A whole number of any size, which is kept as text."""
    if type(value) is not str or re.fullmatch(r"0|-?[1-9][0-9]{0,400}", value) is None:
        refuse("a whole number is not written as text")
    return int(value)


def fraction(value: Any) -> Fraction:
    """A fraction in lowest terms, which is kept as text."""
    if type(value) is not str or re.fullmatch(r"-?[0-9]{1,4000}/[0-9]{1,4000}", value) is None:
        refuse("a fraction is not written as text")
    top, below = value.split("/")
    if not int(below) or fraction_text(Fraction(int(top), int(below))) != value:
        refuse("a fraction is not in lowest terms")
    return Fraction(int(top), int(below))


def digest(value: Any) -> str:
    """A SHA-256 in hexadecimal."""
    if type(value) is not str or re.fullmatch("[0-9a-f]{64}", value) is None:
        refuse("a digest is not 64 hexadecimal digits")
    return value


def listed(read: Reader[T]) -> Reader[tuple[T, ...]]:
    """A list of such values."""

    def reader(value: Any) -> tuple[T, ...]:
        if type(value) is not list:
            refuse("several values are no list")
        return tuple(read(v) for v in value)

    return reader


def optional(read: Reader[T]) -> Reader[T | None]:
    """Such a value, or null."""
    return lambda value: None if value is None else read(value)


def anything(value: Any) -> Any:
    """Any JSON, looked at later."""
    return value
