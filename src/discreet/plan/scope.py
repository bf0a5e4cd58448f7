"""What the names in a question stand for: the columns of the rows that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.plan.expr import Column, Expr
from discreet.plan.schema import Fact, TableSchema
from discreet.privacy.unit import PrivacyUnit


class Scope(Protocol):
    """The columns that an expression may name, with what is publicly known of them."""

    @property
    def facts(self) -> Mapping[str, Fact]:
        """Column → declaration, by the names that `column` gives."""

    @property
    def unit(self) -> PrivacyUnit:
        """Who is protected, with caps."""

    def column(self, node: exp.Column) -> Expr:
        """The column that a name stands for, read as what its declaration says.

        Raises:
            UnknownColumn, UnsupportedQuery: no such column, or one that cannot be asked about.
        """

    def is_unit(self, expr: Expr) -> bool:
        """Whether an expression is the unit's id as it stands."""

    def unit_key(self, expr: Expr) -> str | None:
        """The column by which all rows with one value of an expression belong to one unit: its id, or a declared key of
        its rows; None where they need not.
        """

    def other(self, node: exp.Expr) -> Expr | None:
        """What a node stands for that only this scope knows, such as a subquery; None for any other."""


@dataclass(frozen=True, slots=True)
class TableScope:
    """One table, under its name or an alias; `keys` are the columns that declared foreign keys lead to."""

    table: TableSchema
    alias: str
    keys: frozenset[str] = frozenset()

    @property
    def facts(self) -> Mapping[str, Fact]:
        return self.table.facts

    @property
    def unit(self) -> PrivacyUnit:
        return self.table.unit

    def column(self, node: exp.Column) -> Expr:
        from discreet.plan.bind import declared

        table = self.table
        named = (self.alias.lower(), table.name.lower())
        if node.args.get("db") or (node.table and node.table.lower() not in named):
            raise UnknownColumn(
                f"There is no table {node.table!r} in this question.", hint=f"the table here is {self.alias}"
            )
        name = table.find(node.name)
        kind = table.columns[name]
        if kind is None:
            raise UnsupportedQuery(
                f"The column {name!r} holds a nested or binary value, which cannot be asked about.",
                hint="store the part that you need in a column of its own",
            )
        return declared(Column(name, kind), table.facts.get(name))

    def is_unit(self, expr: Expr) -> bool:
        (column, *_) = expr.children or (expr,)
        return column.column is not None and column.column == self.table.unit.column

    def unit_key(self, expr: Expr) -> str | None:
        column, own = as_stored(expr).column, {self.table.unit.column, *self.keys}
        return column if column in own else None

    def other(self, node: exp.Expr) -> Expr | None:
        return None


def as_stored(expr: Expr) -> Expr:
    """What an expression is but for being read as text, which tells any two values apart."""
    while inner := expr.args_of("as varchar"):
        (expr,) = inner
    return expr
