"""A step in the reading of an inner SELECT: rows, what is known of their columns, and what syntax stands for there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from discreet.catalog.schema import Fact, Range
from discreet.catalog.types import Type
from discreet.query.bind import bind, call, coerce
from discreet.query.expr import Column, Expr, Literal, columns_of
from discreet.query.parse import is_aggregate
from discreet.query.relation.names import Item, Names, capped_in, fact_of
from discreet.query.relation.node import Node

Leaf: TypeAlias = Callable[[exp.Expr, int], Expr | None]


@dataclass(frozen=True, slots=True)
class Stage:
    """Rows in which expressions can be read.

    Attributes:
        node: the rows.
        items: their columns, as far as something is known of them.
        leaf: what a node of the syntax stands for; None where its parts have to be looked at.
    """

    node: Node
    items: tuple[Item, ...]
    leaf: Leaf

    @property
    def facts(self) -> Mapping[str, Fact]:
        """Column → what is known of it."""
        return {i.expr.name: i.fact for i in self.items if isinstance(i.expr, Column) and i.fact is not None}

    @property
    def bounded(self) -> Mapping[str, Fact]:
        """Column → what is known of it, or its range by the contribution bounds where nothing is."""
        return {**capped_in(self.items), **self.facts}

    def capped(self, expr: Expr) -> Range | None:
        """Return the range of an expression that only the contribution bounds give it; None for any other."""
        capped = capped_in(self.items)
        if not capped or not any(n in capped for n in columns_of(expr)) or fact_of(expr, self.facts) is not None:
            return None
        found = fact_of(expr, self.bounded)
        return found if isinstance(found, Range) else None

    def bind(self, node: exp.Expr) -> Expr:
        """Return an expression over these rows, of a known type."""
        found = bind(node, self.leaf, 0)
        return coerce(found, Type.TEXT) if found.type is None else found

    def item(self, expr: Expr) -> Item | None:
        """Return the column that an expression is, if it is one."""
        return next((i for i in self.items if i.read is not None and i.read == expr), None)

    def named(self, name: str, column: Column, expr: Expr) -> Item:
        """Return a new column that holds an expression, with what follows for it."""
        known = self.item(expr)
        fact = fact_of(expr, self.facts)
        shown = counted(column) if is_counted(expr) else column
        told = known or Item("", None)
        return Item(name, shown, fact, told.is_unit, told.keys, self.capped(expr), told.links, told.origin)


def of_rows(node: Node, names: Names) -> Stage:
    """Rows as FROM and WHERE give them."""

    def leaf(e: exp.Expr, _depth: int) -> Expr | None:
        return names.column(e) if isinstance(e, exp.Column) else None

    return Stage(node, tuple(names.items()), leaf)


def counted(column: Column) -> Expr:
    """Return a column that is never below 0, written so that its bounds say so; NULL stays NULL."""
    return call("abs", [column])


def is_counted(expr: Expr | None) -> bool:
    """Whether an expression is a column that is never below 0."""
    return expr is not None and any(e.column is not None for e in expr.args_of("abs"))


def still(expr: Expr) -> Expr:
    """Return the expression with −0.0 as 0.0: which of two equal numbers comes out would depend on other rows."""
    return call("+", [expr, Literal(0.0, Type.REAL)]) if expr.type is Type.REAL else expr


def folds_in(exprs: Iterable[exp.Expr]) -> bool:
    """Whether an aggregate stands in them that is no window function."""
    return any(is_aggregate(n) and not isinstance(_around(n), exp.Window) for e in exprs for n in e.walk())


def _around(node: exp.Expr) -> exp.Expr | None:
    """Return what a node stands in, marks of NULLs aside."""
    parent = node.parent
    while isinstance(parent, exp.IgnoreNulls | exp.RespectNulls):
        parent = parent.parent
    return parent if parent is None or parent.this is not None else None
