"""How many rows one row becomes by the public tables that are joined to it, from what is public about them.

The caps hold after all joins, and the database makes what they cut off: one person's row, joined with public tables
again and again, would use up its memory and time.
"""

from __future__ import annotations

from discreet.errors import UnsupportedQuery
from discreet.plan.expr import Call, Expr
from discreet.plan.relation.node import (
    Both,
    Distinct,
    Group,
    Join,
    Node,
    Project,
    Reach,
    TableScan,
    fields,
    is_owned,
)
from discreet.plan.relation.settle import columns_in

MOST = 1_000_000
"""Rows that one row may become; one public table alone may have more."""


def check_growth(node: Node) -> None:
    """Refuses joins with public tables that make too many rows of one.

    Raises:
        UnsupportedQuery: more than `MOST`, and than each of the tables has.
    """
    _growth(node)


def _growth(node: Node) -> tuple[int, int]:
    """How many rows a public relation has, or one person's row becomes, at most; and the largest public table's."""
    match node:
        case TableScan(table, _):
            rows = (table.rows or 1) if table.public else 1
            return rows, rows
        case Reach():
            return _growth(node.owners)
        case Both():
            (one, large), (other, larger) = _growth(node.left), _growth(node.right)
            return one + other, max(large, larger)
        case Join():
            return _joined(node)
        case _:
            return _growth(node.source)


def _joined(node: Join) -> tuple[int, int]:
    (one, large), (other, larger) = _growth(node.left), _growth(node.right)
    largest = max(large, larger)
    if node.kind.one_sided or node.single:
        return one, largest
    rows = one * (other if is_owned(node.right) else min(other, _met(node.right, node.on, other)))
    if rows > max(MOST, largest):
        raise UnsupportedQuery(
            f"The joins with public tables make more than {MOST:,} rows of one row.",
            hint="join on columns of the public tables that hold each value once, or join fewer of them",
        )
    return rows, largest


def _met(node: Node, on: Expr | None, rows: int) -> int:
    """How many rows of a public relation fit one row beside it: those with one value of a column that is held equal."""
    conditions = on.args if isinstance(on, Call) and on.name == "and" else (on,)
    pairs = [c.args for c in conditions if isinstance(c, Call) and c.name == "="]
    own = set(fields(node))
    found = [
        _alike(node, a, rows) for x, y in pairs for a, b in ((x, y), (y, x)) if not own & columns_in([b])
    ]
    return min(found, default=rows)


def _alike(node: Node, expr: Expr, rows: int) -> int:
    """In how many rows one value stands, of a column of the relation; all where it is not known."""
    while isinstance(expr, Call) and expr.name.startswith("as "):  # as the column is read
        expr = expr.args[0]
    match node:
        case TableScan(table, columns):
            return next((table.alike.get(there, rows) for c, there in columns if c == expr), rows)
        case Project():
            return next((_alike(node.source, e, rows) for c, e in node.outputs if c == expr), rows)
        case Distinct():
            return next((_alike(node.source, there, rows) for c, there in node.columns if c == expr), rows)
        case Group():
            return 1 if len(node.keys) == 1 and node.keys[0][0] == expr else rows
        case _:
            return rows
