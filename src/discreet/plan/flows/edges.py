"""The SQL of a question to two populations: what each pair of units can carry in each group.

Guarantee:
    In the text that `edges_sql` returns, each row is of one group, one unit of either population, and those of the
    table's rows that have all three. Its numbers are whole, from 0 to what a pair can carry at all, and follow from
    these rows alone. Rows without an id of either population are dropped. What a unit passes is capped where the flows
    are found (`flow.py`), not here.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.plan.bound import Bounding, lattice_sql, rows_with
from discreet.plan.expr import Column, Expr
from discreet.plan.flows.network import Flow
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.question import Question
from discreet.plan.render import finite


def edges_sql(question: Question, second: str, flows: Sequence[Flow]) -> str:
    """One row for each group and pair of units: places of its keys (`g0`, …), ids (`u`, `w`), numbers (`m0`, …).

    Args:
        question: over one table, whose unit is the first population's.
        second: the column of the second population's id.
        flows: what each number is for.
    """
    table = question.table
    kind = table.columns[second]
    assert kind is not None  # ids of nested and binary values are refused when a table is connected
    values = list(dict.fromkeys(f.of for f in flows if isinstance(f.of, LatticeValue)))
    known = list(dict.fromkeys(f.of for f in flows if _is_expression(f.of)))
    columns = [
        f"{finite(Column(second, kind))} AS w",
        *(f"{lattice_sql(v)} AS v{i}" for i, v in enumerate(values)),
        *(f"CASE WHEN {finite(e)} IS NOT NULL THEN 1 END AS x{i}" for i, e in enumerate(known) if e),  # type: ignore[arg-type]  # no lattice value is among them
    ]
    rows = rows_with(Bounding(table, question.where, question.keys, (), 1, 1), columns)

    def carried(flow: Flow) -> str:
        if flow.of is None:
            return "count(*)"
        if not isinstance(flow.of, LatticeValue):
            return f"count(x{known.index(flow.of)})"
        v = f"v{values.index(flow.of)}"
        return f"coalesce(sum(greatest({v if flow.sign > 0 else '-' + v}, 0)), 0)"

    by = ", ".join([*(f"g{i}" for i in range(len(question.keys.exprs))), "u", "w"])
    numbers = ", ".join(f"least({carried(f)}, {f.most}) AS m{i}" for i, f in enumerate(flows))
    return f'{rows}\nSELECT {by}, {numbers} FROM "unit rows" WHERE NOT w IS NULL GROUP BY {by}'


def _is_expression(of: Expr | LatticeValue | None) -> bool:
    return of is not None and not isinstance(of, LatticeValue)
