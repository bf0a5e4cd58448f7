"""Rows of people as whole numbers, for a private part: which columns, between which bounds, and how many a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlglot import exp

from discreet.catalog.schema import TableSchema
from discreet.errors import UnsupportedQuery
from discreet.plan.bound import SECRET, BoundedQuery, lattice_sql, rows_with
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.measures.measure import Total
from discreet.plan.nodes.node import measured_in
from discreet.plan.question import Question, read_question
from discreet.privacy.exact import count
from discreet.query.keys import GroupKeys
from discreet.query.parse import default_name, parse_select


@dataclass(frozen=True, slots=True)
class PersonRows:
    """What a private part is handed of each person: some of its rows, each column a whole number within bounds.

    Guarantee:
        Each row is of one person, and which rows of a person are kept, and what stands in them, follows from that
        person's rows alone. The text is judged by `verify/parts.py`.

    Attributes:
        question: the rows: the table, WHERE, and whose they are.
        columns: name → the value, in steps of its public grid; NULL counts as the number within its bounds that is
            nearest to 0.
        most: how many rows of a person are kept at most, chosen in an order that nobody can foresee.
    """

    question: Question
    columns: Mapping[str, LatticeValue]
    most: int

    @property
    def steps(self) -> dict[str, Fraction]:
        """What 1 in a column stands for: a column's number is this times the integer."""
        return {name: value.step for name, value in self.columns.items()}

    @property
    def sql(self) -> str:
        """What the database runs: the person's number `p` where a person has several rows, and the columns `c0`, …."""
        b, unit = self.bounded, self.question.table.unit
        shown = [f"coalesce({lattice_sql(v)}, {_nearest(v)}) AS c{i}" for i, v in enumerate(self.columns.values())]
        names = ", ".join(f"c{i}" for i in range(len(shown)))
        with_rows = rows_with(b, shown)
        if unit.is_row:
            return f'{with_rows}\nSELECT {names} FROM "unit rows"'
        kept = f"row_number() OVER (PARTITION BY u ORDER BY hash(u, {names}, {SECRET}), {names}) <= {self.most}"
        return f'{with_rows}\nSELECT dense_rank() OVER (ORDER BY u) AS p, {names} FROM "unit rows"\nQUALIFY {kept}'

    @property
    def bounded(self) -> BoundedQuery:
        """The rows as the writer of SQL takes them."""
        q = self.question
        rows = None if q.relation is None else q.relation.sql
        return BoundedQuery(q.table, q.where, GroupKeys((), ()), (), 1, self.most, rows)

    @property
    def is_keyed(self) -> bool:
        """Whether `sql` has the `$secret` parameter."""
        return not self.question.table.unit.is_row

    @property
    def identity(self) -> Any:
        """What makes two of them the same."""
        q = self.question
        return {
            "table": q.table.name,
            "where": None if q.where is None else q.where.identity,
            "rows": None if q.relation is None else q.relation.identity,
            "unit": [q.table.unit.column, self.most],
            "columns": {name: v.identity for name, v in self.columns.items()},
        }


def person_rows(sql: str, tables: Sequence[TableSchema], *, rows: int = 1) -> PersonRows:
    """Return the rows of people that a text names: `SELECT age, income FROM people WHERE income IS NOT NULL`.

    Args:
        sql: one SELECT of columns and expressions with declared bounds, over the connected tables.
        tables: these.
        rows: how many rows of a person are kept at most; where each row is a unit, 1.

    Raises:
        PlanError, InvalidParameter: it cannot be read so; nothing was charged.
    """
    select = parse_select(sql)
    others = (select.group, select.having, select.limit, select.offset, select.order, select.sets)
    if any(others):
        raise UnsupportedQuery(
            "Rows of people have no GROUP BY, HAVING, ORDER BY or LIMIT of their own.",
            hint="SELECT columns FROM a table WHERE a condition; put the rest into a subquery",
        )
    tree = select.tree.copy()
    names = [name or default_name(node, i) for i, (name, node) in enumerate(select.items)]
    totals = [exp.alias_(exp.Sum(this=node.copy()), f"c{i}") for i, (_, node) in enumerate(select.items)]
    tree.set("expressions", totals)
    # each column has the bounds of its sum: what may be summed over people may be handed over person by person
    question = read_question(tree.sql(dialect="duckdb"), tables)
    found: dict[str, LatticeValue] = {}
    for name, (_, expr) in zip(names, question.outer.columns, strict=True):
        read = measured_in(expr)
        total = question.measures[read[0].index] if read == [expr] else None
        if not isinstance(total, Total) or name in found:
            raise UnsupportedQuery(
                f"The column {name!r} is no number with bounds, or stands there twice.",
                hint="name numbers: CASE WHEN sex = 'f' THEN 1 ELSE 0 END AS f",
            )
        found[name] = total.value
    most = 1 if question.table.unit.is_row else count("rows", rows)
    return PersonRows(question, found, most)


def _nearest(v: LatticeValue) -> int:
    """Return the number within the bounds that is nearest to 0."""
    return min(max(0, v.low), v.high)
