"""Typed expressions over the cells of a row, frozen.

`Column`, `Literal` and `Call` are all of them; those over the noisy columns of an answer are `plan/nodes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
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
    """A constant written in the question. NULL has type None until a place gives it one."""

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
    """Return the names of the columns that the tree reads, each once, in order."""
    return list(dict.fromkeys(c.name for c in cells_of(expr)))


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
