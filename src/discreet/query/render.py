"""Row-level expressions as DuckDB SQL in which an error on a row is NULL on that row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import TypeAlias

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.expr import Call, Column, Expr, Literal
from discreet.query.functions import FUNCTIONS

Place: TypeAlias = Callable[[str], str]
"""A column's name → its SQL."""

LONGEST = 50_000
"""Characters of SQL that one expression may become; guards repeat their argument."""


def in_rows(name: str) -> str:
    """Return a column of the rows in question."""
    return f"s.{quoted(name)}"


def finite(expr: Expr, place: Place = in_rows) -> str:
    """Return the expression with NaN, infinity, and dates beyond the years 1 to 9999 read as NULL; `place` writes a
    column.
    """
    text, fragile = _write(expr, place)
    return _guard(text, expr.type) if fragile else text


def raw(expr: Expr) -> str:
    """Return the expression, in which NaN and infinity may remain: for a caller that guards them itself."""
    return _write(expr, in_rows)[0]


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def constant(value: Scalar, kind: Type | None) -> str:
    """Return a constant as SQL of just this type."""
    if value is None:
        return "NULL" if kind is None else f"CAST(NULL AS {kind.value})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return f"CAST({value!r} AS {Type.INT.value if isinstance(value, int) else Type.REAL.value})"
    if isinstance(value, dt.datetime):
        return f"CAST('{value.isoformat(sep=' ')}' AS TIMESTAMP)"
    if isinstance(value, dt.date):
        return f"CAST('{value.isoformat()}' AS DATE)"
    return "'" + value.replace("'", "''") + "'"


def _write(expr: Expr, place: Place) -> tuple[str, bool]:
    """Return the text, and whether it may be NaN or infinite."""
    match expr:
        case Column(name, kind):
            return place(name), kind in _GUARDS
        case Literal(value, kind):
            return constant(value, kind), False
        case Call(name, args, kind):
            function = FUNCTIONS[name]
            if name == "||":  # one guard for a || b || c: each repeats its arguments
                args = tuple(_parts(expr))
            written = [_write(a, place) for a in args]
            texts = [
                _guard(t, a.type) if fragile and not function.stubborn else t
                for a, (t, fragile) in zip(args, written, strict=True)
            ]
            text = function.sql(texts, [a.type or Type.TEXT for a in args])
            if len(text) > LONGEST:
                raise UnsupportedQuery(
                    "An expression is too long, or nests too deeply, to be guarded.",
                    hint="write it flatter; a long list of values goes into a public table: x IN (SELECT y FROM …)",
                )
            return text, kind in _GUARDS and (function.fragile or (function.stubborn and any(f for _, f in written)))
        case _:
            raise TypeError(f"{type(expr).__name__} is not a row-level expression")


def _parts(expr: Expr) -> Iterator[Expr]:
    """Yield the texts that are joined, in order."""
    match expr:
        case Call("||", args):
            for a in args:
                yield from _parts(a)
        case _:
            yield expr


def _guard(text: str, kind: Type | None) -> str:
    return f"CASE WHEN {_GUARDS[kind].format(text)} THEN {text} END"


# Python has no infinite date and none beyond the year 9999: two keys of the database would become one of the answer.
_GUARDS: dict[Type | None, str] = {
    Type.REAL: "isfinite({0})",
    Type.DATE: "{0} BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE)",
    Type.TIMESTAMP: "{0} BETWEEN CAST('0001-01-01 00:00:00' AS TIMESTAMP) AND "
    "CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP)",
}
