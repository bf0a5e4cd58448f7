"""The SQL of a spread: one row for each leaf of each group that holds any weight.

Guarantee:
    A unit keeps the same groups as in the question's other columns. In each of them, n of its rows have a value, and
    each of these has the weight ⌊total / max(n, max_rows)⌋, so that together they have at most `total`. Where each row
    is a unit, its weight is 1 and it is in one group.
"""

from __future__ import annotations

from dataclasses import replace

from discreet.plan.bound import BoundedQuery, weighted_stages
from discreet.plan.quantile_tree.shape import MOST_LEAVES, Spread


def spread_sql(b: BoundedQuery, spread: Spread) -> str:
    """One row per group and leaf: the group's keys (`g0`, …), the leaf `b` and its weight `m0` as text.

    The writer's measures are not looked at; its keys, its filter and its caps are.
    """
    one = replace(b, measures=(spread,))
    keys = [f"g{i}" for i in range(len(b.keys.exprs))]
    steps = f"(r.v0 - CAST({spread.value.low} AS BIGINT)) // {spread.width}"  # in 64 bits: v0 may have 32
    leaf = f"CAST({steps} AS {_kind(spread.leaves)})"
    shown = ", ".join([*(f"r.{g} AS {g}" for g in keys), f"{leaf} AS b"])
    by = ", ".join([*(f"r.{g}" for g in keys), "b"])
    found = 'FROM "unit rows" r'
    weight = "count(*)"
    if not b.table.unit.is_row:
        same = "=" if b.keys.lists is not None else "IS NOT DISTINCT FROM"
        on = " AND ".join(["r.u = w.u", *(f"r.{g} {same} w.{g}" for g in keys)])
        found += f' JOIN "unit weights" w ON {on}'
        weight = "sum(w.w)"
    return (
        f"{weighted_stages(one)}\nSELECT {shown}, CAST({weight} AS VARCHAR) AS m0\n"
        f"{found} WHERE r.v0 IS NOT NULL GROUP BY {by}"
    )


def _kind(leaves: int) -> str:
    """The narrowest type that holds every leaf: of so few values the database keeps each in a place of its own."""
    assert leaves <= MOST_LEAVES
    return "UTINYINT" if leaves <= 1 << 8 else "USMALLINT"
