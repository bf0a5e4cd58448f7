"""COUNT(DISTINCT x): how many different values there are in each group, where a unit brings at most `max_rows` of them.

Guarantee:
    In the text that `distinct_sql` returns, a unit enters the same groups as in the question's other columns, at most
    `max_groups`, and in each it brings at most `max_rows` different values, which follow from its own rows: the first
    ones by a hash under the account's secret, then by the value itself. So the count of a group moves by at most
    `max_rows` when one unit comes or goes, and when its rows become others (docs/proofs/distinct.md).

References:
    Knop, Steinke 2023, *Counting distinct elements under person-level differential privacy*, Section 1,
    https://arxiv.org/abs/2308.12947 (bounded counts; there the values that people bring are matched, so that
    two people bring the same one less often)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Never

from discreet.errors import UnsupportedQuery
from discreet.plan.bound import SECRET, BoundedQuery, different_rows_sql, needs_secret, value_rows
from discreet.plan.expr import Expr
from discreet.plan.measures.measure import Measure, Name, Part


@dataclass(frozen=True, slots=True)
class DistinctCount(Measure):
    """COUNT(DISTINCT x): a column that a statement of its own counts (`distinct_sql`), and no sum over units."""

    argument: Expr
    word: ClassVar[str] = "the number of different values"
    is_apart: ClassVar[bool] = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    def clipped(self, name: Name, max_rows: int) -> Never:
        raise TypeError("COUNT(DISTINCT x) is no sum of what single units add")

    def summed(self, column: Name) -> Never:
        raise TypeError("COUNT(DISTINCT x) is no sum of what single rows add")

    def span(self, max_rows: int) -> tuple[int, int]:
        """The least and the greatest number of values that are there because a unit is."""
        return 0, max_rows

    @property
    def identity(self) -> Any:
        return ["distinct", self.argument.identity]


def distinct_sql(b: BoundedQuery, argument: Expr) -> str:
    """One row per group with any row: its keys (`g0`, …) and how many different values it has (`m0`), as text.

    The writer's measures are not looked at; its keys, its filter and its caps are.
    """
    if b.table.unit.is_row:
        return different_rows_sql(b, argument)
    g = [f"g{i}" for i in range(len(b.keys.exprs))]
    by = f" GROUP BY {', '.join(g)}" if g else ""
    counted = ", ".join([*g, "CAST(count(DISTINCT d) AS VARCHAR) AS m0"])
    each = ", ".join(["u", *g])
    ranks = [
        # known values first, so that a row without one takes no place
        f"row_number() OVER (PARTITION BY {each} ORDER BY d IS NULL, hash({each}, d, {SECRET}), d) <= {b.max_rows}"
    ]
    if needs_secret(b):
        order = ", ".join([f"hash({each}, {SECRET})", *g])
        ranks.append(f"dense_rank() OVER (PARTITION BY u ORDER BY {order}) <= {b.max_groups}")
    return (
        f'{value_rows(b, argument)},\n"unit values" AS (\n  SELECT {each}, d FROM "unit rows" GROUP BY {each}, d\n),\n'
        f'"unit bounded" AS (\n  SELECT {", ".join([*g, "d"])} FROM "unit values"\n  QUALIFY {" AND ".join(ranks)}\n)\n'
        f'SELECT {counted} FROM "unit bounded"{by}'
    )


def counted_once(argument: Expr) -> DistinctCount:
    """The measure of COUNT(DISTINCT argument).

    Raises:
        UnsupportedQuery: a constant, whose count says nothing.
    """
    if argument.is_literal or argument.type is None:
        raise UnsupportedQuery(
            "COUNT(DISTINCT …) of a constant counts nothing.", hint="count the values of a column"
        )
    return DistinctCount(argument)
