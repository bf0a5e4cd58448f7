"""What the names in a query stand for: the columns of the rows that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sqlglot import exp

from discreet.catalog.schema import Fact
from discreet.privacy.unit import PrivacyUnit
from discreet.query.expr import Expr
from discreet.query.keys import JointKeys


class Scope(Protocol):
    """The columns that an expression may name, with what is publicly known of them."""

    @property
    def facts(self) -> Mapping[str, Fact]:
        """Column → declaration, by the names that `column` gives."""

    @property
    def capped(self) -> Mapping[str, Fact]:
        """Column → the range that the contribution bounds give it, used only where nothing else bounds a value."""

    @property
    def unit(self) -> PrivacyUnit:
        """Who is protected, with caps."""

    def column(self, node: exp.Column) -> Expr:
        """Return the column that a name stands for, read as what its declaration says.

        Raises:
            UnknownColumn, UnsupportedQuery: no such column, or one that cannot be asked about.
        """

    def knows(self, node: exp.Column) -> bool:
        """Whether a name is one of a column."""

    def is_unit(self, expr: Expr) -> bool:
        """Whether an expression is the unit's id as it stands."""

    def unit_key(self, expr: Expr) -> str | None:
        """Return the column by which all rows with one value of an expression belong to one unit: its id, or a declared
        key of its rows; None where they need not.
        """

    def joint(self, keys: Sequence[Expr]) -> list[JointKeys]:
        """Return which of some keys are columns of one public table, with the rows in which they stand together."""

    def other(self, node: exp.Expr) -> Expr | None:
        """Return what a node stands for that only this scope knows, such as a subquery; None for any other."""


def as_stored(expr: Expr) -> Expr:
    """Return what an expression is but for being read as text, which tells any two values apart."""
    while inner := expr.args_of("as varchar"):
        (expr,) = inner
    return expr
