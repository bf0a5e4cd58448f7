"""Which nodes of the parser are aggregates, answered or not, rather than functions of single rows."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ErrorLevel

NAMES = frozenset({"mean", "every", "histogram", "sum_within", "count_within"})
"""Aggregates that the parser leaves as names, in lower case."""


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node itself is an aggregate, with its FILTER or WITHIN GROUP."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in NAMES
    return isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup)


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate stands anywhere in it."""
    return any(is_aggregate(n) for n in node.walk())


def word(node: exp.Expr) -> str:
    """An aggregate in the user's words."""
    if isinstance(node, exp.Filter | exp.WithinGroup):
        return word(node.this)
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    if not isinstance(node, exp.Func):
        return type(node).__name__.upper()
    name = node.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE).partition("(")[0]
    return name if name.replace("_", "").isalnum() else node.sql_name()
