"""The small forms in which certificates hold values, each with a reader that takes nothing else, and a writer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Never, TypeVar

from discreet.errors import InvalidParameter
from discreet.ledger.forms import Form as Form
from discreet.privacy.codec import fraction_text

T = TypeVar("T")

Reader = Callable[[Any], T]


def refuse(what: str) -> Never:
    """Stop the reading of a certificate."""
    raise InvalidParameter(f"this is no certificate that this version can read: {what}.")


class Broken(Exception):  # never leaves the checker
    """The step of a check at hand does not hold."""


def must(holds: object, reason: str) -> None:
    """Refuse unless this holds, without which the step at hand does not."""
    if not holds:
        raise Broken(reason)


def record(value: Any, names: Mapping[str, Reader[Any]], what: str) -> dict[str, Any]:
    """Return an object with exactly these fields, each of them read.

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


def fields(kind: Callable[..., T], what: str, /, **forms: Form[Any]) -> Form[T]:
    """Return the form of values that have just these fields: an object of them."""
    return Form(
        lambda value: kind(**record(value, forms, what)),
        lambda value: {name: form.write(getattr(value, name)) for name, form in forms.items()},
    )


@Form
def text(value: Any) -> str:
    """Text."""
    if type(value) is not str:
        refuse("a text is of another type")
    return value


@Form
def number(value: Any) -> int:
    """Return a count: a whole number from 0 on."""
    if type(value) is not int or value < 0:
        refuse("a count is no whole number from 0 on")
    return value


@Form
def flag(value: Any) -> bool:
    """Read true or false."""
    if type(value) is not bool:
        refuse("a yes or no is of another type")
    return value


def _whole(value: Any) -> int:
    if type(value) is not str or re.fullmatch(r"0|-?[1-9][0-9]{0,400}", value) is None:
        refuse("a whole number is not written as text")
    return int(value)


whole = Form(_whole, str)
"""A whole number of any size, which is kept as text."""


def _fraction(value: Any) -> Fraction:
    if type(value) is not str or re.fullmatch(r"-?[0-9]{1,4000}/[0-9]{1,4000}", value) is None:
        refuse("a fraction is not written as text")
    top, below = value.split("/")
    if not int(below) or fraction_text(Fraction(int(top), int(below))) != value:
        refuse("a fraction is not in lowest terms")
    return Fraction(int(top), int(below))


fraction = Form(_fraction, fraction_text)
"""A fraction in lowest terms, which is kept as text."""


@Form
def digest(value: Any) -> str:
    """Return a SHA-256 in hexadecimal."""
    if type(value) is not str or re.fullmatch("[0-9a-f]{64}", value) is None:
        refuse("a digest is not 64 hexadecimal digits")
    return value


def listed(form: Form[T], *, exactly: int | None = None) -> Form[tuple[T, ...]]:
    """Return a list of such values, of so many where that is said."""

    def read(value: Any) -> tuple[T, ...]:
        if type(value) is not list:
            refuse("several values are no list")
        if exactly not in (None, len(value)):
            refuse(f"a list has not {exactly} parts")
        return tuple(form.read(v) for v in value)

    return Form(read, lambda values: [form.write(v) for v in values])


def named(form: Form[T]) -> Form[Mapping[str, T]]:
    """Return an object of such values, under any names."""

    def read(value: Any) -> Mapping[str, T]:
        if type(value) is not dict:
            refuse("values under names are no object")
        return {text(name): form.read(own) for name, own in value.items()}

    return Form(read, lambda values: {name: form.write(own) for name, own in values.items()})


def optional(form: Form[T]) -> Form[T | None]:
    """Such a value, or null."""
    return Form(
        lambda value: None if value is None else form.read(value),
        lambda value: None if value is None else form.write(value),
    )


anything: Form[Any] = Form(lambda value: value)
"""Any JSON, looked at later."""
