"""Snowflake's DP_INTERVAL_LOW(n) and DP_INTERVAL_HIGH(n): an end of an output column's interval, as a column."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Never

from sqlglot import exp

from discreet.errors import UnknownColumn, UnsupportedQuery

ENDS = {"dp_interval_low": False, "dp_interval_high": True}
"""The functions, and whether they give the upper end."""

CONFIDENCE = Fraction(19, 20)
"""Of the interval whose ends they are."""


def interval_end(node: exp.Expr) -> tuple[str, bool] | None:
    """Return the output column whose interval's end a node gives, and whether the upper one; None for any other node.

    Raises:
        UnsupportedQuery: such a function inside another expression, or of what is no output's name.
    """
    inner = [n for n in node.find_all(exp.Anonymous) if n.name.lower() in ENDS]
    if not inner:
        return None
    args = node.expressions if inner == [node] else []
    if len(args) != 1 or not isinstance(args[0], exp.Column) or args[0].table:
        refuse_end()
    return args[0].name, ENDS[node.name.lower()]


def end_of(name: str, items: Sequence[tuple[str | None, exp.Expr]]) -> exp.Expr:
    """Return the expression of the output column of that name.

    Raises:
        UnknownColumn: there is none.
    """
    found = [e for n, e in items if (n or (e.name if isinstance(e, exp.Column) else "")).lower() == name.lower()]
    if len(found) != 1 or interval_end(found[0]) is not None:
        listed = ", ".join(n for n, e in items if n and interval_end(e) is None)
        raise UnknownColumn(
            f"There is no output column {name!r:.60} whose interval could be given.", hint=f"name one with AS: {listed}"
        )
    return found[0]


def refuse_end() -> Never:
    """Refuses an end of an interval anywhere but as a column of its own."""
    raise UnsupportedQuery(
        "DP_INTERVAL_LOW and DP_INTERVAL_HIGH stand alone as output columns, and take the name of another one.",
        hint="SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high",
    )
