"""What a function of the query language is: four columns of one table row.

The language is closed and total: a function that is not in the table is refused, and an error on a row is
NULL on that row.
Inside a TRY stands exactly one operation that can fail, over arguments that cannot: the database may compute an
inner one outside, where its error would be an error.
REAL arithmetic may pass through NaN or infinity, which stay so under `+`, `-` and `*`; before anything could turn
them back into an ordinary value, the writer guards them to NULL (`fragile`, `stubborn`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from discreet.catalog.types import Type

Bound: TypeAlias = Fraction | float
Interval: TypeAlias = tuple[Bound, Bound]
"""A closed interval; infinite ends are floats."""

EVERYTHING: Interval = (-math.inf, math.inf)

Signature: TypeAlias = Callable[[Sequence[Type | None]], "tuple[list[Type], Type] | None"]
"""Argument types as they came (None for NULL) → the types wanted and the result's; None when they do not fit."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function: how it is typed, written, computed on released values, and bounded.

    Attributes:
        name: its name in the tree and in identities; never renamed.
        signature: its typing rule.
        sql: the DuckDB text for the arguments' texts and types.
        value: its value on released values, None on any error or NULL unless it says otherwise.
        bounds: an interval that contains all its values over the arguments' intervals; None when it is no number.
        fragile: whether a REAL result may be NaN or infinite.
        stubborn: whether NaN and infinity in an argument always stay NaN or infinity in the result.
        takes_null: whether `value` wants to see NULL arguments.
        inexact: whether the last bit of a result depends on the machine, so that no public key may pass through it.
        constants: the places whose arguments must be written out, as a pattern must.
        check: refuses constants that do not fit, given their values in the order of `constants`.
    """

    name: str
    signature: Signature
    sql: Callable[[Sequence[str], Sequence[Type]], str]
    value: Callable[..., Any]
    bounds: Callable[[Sequence[Interval]], Interval] | None = None
    fragile: bool = False
    stubborn: bool = False
    takes_null: bool = False
    inexact: bool = False
    constants: tuple[int, ...] = ()
    check: Callable[..., None] | None = None


def numbers(n: int, *, result: Type | None = None, wanted: Type | None = None) -> Signature:
    """Return a number of numbers; the result is INT when all are, else REAL, unless said."""

    def rule(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
        if len(types) != n or not all(is_numeric(t) for t in types):
            return None
        kind = wanted or (Type.INT if all(t in (Type.INT, None) for t in types) else Type.REAL)
        return [kind] * n, result or kind

    return rule


def exactly(wanted: Sequence[Type], result: Type) -> Signature:
    """Just these types; NULL fits any, and any value can be read as text."""

    def rule(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
        if len(types) != len(wanted) or not all(_fits(t, w) for t, w in zip(types, wanted, strict=True)):
            return None
        return list(wanted), result

    return rule


def common(types: Sequence[Type | None]) -> Type | None:
    """Return the one type that all values can be read as, or None: numbers beside text make text a number."""
    kinds = {t for t in types if t is not None}
    if not kinds:
        return Type.TEXT
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= {Type.INT, Type.REAL, Type.TEXT}:
        return Type.REAL
    if kinds <= {Type.DATE, Type.TIMESTAMP, Type.TEXT}:
        return Type.TIMESTAMP if Type.TIMESTAMP in kinds else Type.DATE
    return None


def alike(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
    """Return one type for all arguments and the result: that which all values can be read as."""
    kind = common(types) if types else None
    return None if kind is None else ([kind] * len(types), kind)


def is_numeric(kind: Type | None) -> bool:
    """Whether a value of this type can stand in a number's place: text is read as a number there."""
    return kind in (Type.INT, Type.REAL, Type.TEXT, None)


def template(text: str) -> Callable[[Sequence[str], Sequence[Type]], str]:
    """Return SQL from a template with {0}, {1}, ..."""
    return lambda args, _types: text.format(*args)


def unbounded(_: Sequence[Interval]) -> Interval:
    """No bounds are known."""
    return EVERYTHING


def _fits(came: Type | None, wanted: Type) -> bool:
    if came is None or came == wanted:
        return True
    if wanted in (Type.INT, Type.REAL):
        return is_numeric(came)
    if wanted in (Type.DATE, Type.TIMESTAMP):
        return came in (Type.DATE, Type.TIMESTAMP, Type.TEXT)
    return False
