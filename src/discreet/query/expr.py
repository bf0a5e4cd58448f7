"""Typed expressions over the cells of a row, frozen: their values in Python, and their SQL.

`Column`, `Literal`, `Fed` and `Call` are all of them; those over the noisy columns of a result are `plan/nodes`. In
DuckDB's SQL an error on a row is NULL on that row, as it is in Python.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.functions import FUNCTIONS


class Expr:
    """A node: what it is made of, and its value for the cells of a row."""

    __slots__ = ()
    type: Type | None

    is_literal: ClassVar[bool] = False

    @property
    def children(self) -> tuple[Expr, ...]:
        """Its parts that could each be an expression of its own."""
        return ()

    def map_children(self, change: Callable[[Any], Any]) -> Self:
        """Return the same node with each child replaced."""
        return self

    def args_of(self, *names: str) -> tuple[Expr, ...]:
        """Return its arguments, where it is a call of one of these functions."""
        return ()

    @property
    def column(self) -> str | None:
        """The name of the column of a row that it is."""
        return None

    @property
    def identity(self) -> Any:
        """The tree as JSON-able lists: equal trees, equal lists."""
        raise TypeError(f"{type(self).__name__} is not part of what is measured")

    def of_row(self, row: Mapping[str, Scalar]) -> Scalar:
        """Return the value for given public cells."""
        raise TypeError(f"{type(self).__name__} is not a row-level expression")


@dataclass(frozen=True, slots=True)
class Column(Expr):
    """A cell of the row, read as `type`."""

    name: str
    type: Type

    @property
    def column(self) -> str:
        return self.name

    @property
    def identity(self) -> Any:
        return ["column", self.name, self.type.value]

    def of_row(self, row: Mapping[str, Scalar]) -> Scalar:
        return row[self.name]


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    """A constant written in the query. NULL has type None until a place gives it one."""

    value: Scalar
    type: Type | None
    is_literal: ClassVar[bool] = True

    @property
    def identity(self) -> Any:
        value, kind = self.value, self.type
        return ["literal", None if value is None else str(value), kind.value if kind else None]

    def of_row(self, row: Mapping[str, Scalar]) -> Scalar:
        return self.value


@dataclass(frozen=True, slots=True)
class Fed(Expr):
    """A result that is fed back into people's rows: a value of this type, or NULL, known only once it was measured.

    To the planner it is a column of which nothing is declared (`columns_of`), so that no bounds and no keys follow.
    """

    number: int
    type: Type

    @property
    def name(self) -> str:
        """The name of its parameter."""
        return f"{FED}{self.number}"

    @property
    def identity(self) -> Any:
        return ["fed", self.number, self.type.value]


FED = "fed_"
"""What the names of parameters of statements begin with that stand for results."""


def parameters_of(sql: str) -> list[str]:
    """Return the names of the parameters of a statement that stand for results, each once."""
    return list(dict.fromkeys(name for name in _PARAMETERS.findall(sql) if name))


_PARAMETERS = re.compile(rf"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$({FED}[0-9]+)""")


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A function of the closed language (`query/functions`), applied."""

    name: str
    args: tuple[Expr, ...]
    type: Type

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def map_children(self, change: Callable[[Any], Any]) -> Self:
        return replace(self, args=tuple(change(a) for a in self.args))

    def args_of(self, *names: str) -> tuple[Expr, ...]:
        return self.args if self.name in names else ()

    @property
    def identity(self) -> Any:
        return ["call", self.name, self.type.value, *(a.identity for a in self.args)]

    def of_row(self, row: Mapping[str, Scalar]) -> Scalar:
        result: Scalar = applied(self.name, [a.of_row(row) for a in self.args], self.type)
        beyond = self.type is Type.INT and isinstance(result, int) and not -(1 << 63) <= result < 1 << 63
        return None if beyond else result  # an overflow in the database


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the node and all below it."""
    yield expr
    for e in expr.children:
        yield from walk(e)


def columns_of(expr: Expr) -> list[str]:
    """Return the names of the columns that the tree reads, each once, in order; of results that are fed back, too."""
    named = (f"${e.name}" if isinstance(e, Fed) else e.column for e in walk(expr))
    return list(dict.fromkeys(name for name in named if name is not None))


def cells_of(expr: Expr) -> Iterator[Column]:
    """Return the columns that the tree reads, wherever they stand."""
    return (e for e in walk(expr) if isinstance(e, Column))


def uncast(expr: Expr) -> Expr:
    """Return what an expression is but for the types that it is read as."""
    while inner := expr.args_of(*_CASTS):
        (expr,) = inner
    return expr


_CASTS = tuple(name for name in FUNCTIONS if name.startswith("as "))


def applied(name: str, values: list[Any], kind: Type) -> Any:
    """Return the value of a function of the language; an error is None, as in SQL it is NULL."""
    function = FUNCTIONS[name]
    if not function.takes_null and any(v is None for v in values):
        return None
    try:
        result = function.value(*values)
    except (ValueError, ArithmeticError):
        return None
    if kind is Type.REAL and result is not None:
        result = float(result)
        return result if math.isfinite(result) else None
    return result


Place: TypeAlias = Callable[[str], str]
"""A column's name → its SQL."""

LONGEST = 50_000
"""Characters of SQL that one expression may become; guards repeat their argument."""


def in_rows(name: str) -> str:
    """Return a column of the query's rows."""
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
    match value:
        case None:
            return "NULL" if kind is None else f"CAST(NULL AS {kind.value})"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"CAST({value!r} AS {Type.INT.value})"
        case float():
            return f"CAST({value!r} AS {Type.REAL.value})"
        case dt.datetime():
            return f"CAST('{value.isoformat(sep=' ')}' AS TIMESTAMP)"
        case dt.date():
            return f"CAST('{value.isoformat()}' AS DATE)"
    return "'" + value.replace("'", "''") + "'"


def _write(expr: Expr, place: Place) -> tuple[str, bool]:
    """Return the text, and whether it may be NaN or infinite."""
    match expr:
        case Column(name, kind):
            return place(name), kind in _GUARDS
        case Literal(value, kind):
            return constant(value, kind), False
        case Fed(_, kind):
            return f"TRY_CAST(${expr.name} AS {kind.value})", kind in _GUARDS
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
