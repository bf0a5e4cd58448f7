"""From syntax to expressions over the answer: group keys, and aggregates turned into noisy columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Never

from sqlglot import exp

from discreet.catalog.types import Type
from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.plan.aggregates import AGGREGATES
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.aggregates.read import read_aggregate
from discreet.plan.measures.measure import Measure
from discreet.plan.measures.ranges import Facts, Ranges
from discreet.plan.nodes.key import Key
from discreet.plan.nodes.node import Measured
from discreet.query.aggregate_nodes import has_aggregate, is_aggregate
from discreet.query.bind import bind, bind_row, call
from discreet.query.expr import Expr, Literal
from discreet.query.scope import Scope

MOST_MEASURES = 200
"""Different noisy columns in one question."""


@dataclass(slots=True)
class Measures:
    """The distinct measures of a question, in the order in which they were first asked for."""

    found: list[Measure] = field(default_factory=list)
    ranges: Ranges | None = None
    """Of expressions without bounds, where those were chosen."""

    def column(self, measure: Measure, kind: Type) -> Measured:
        """Return the noisy column of a measure; the same measure is measured once."""
        if measure not in self.found:
            if len(self.found) == MOST_MEASURES:
                raise UnsupportedQuery(
                    f"The question asks for more than {MOST_MEASURES} different aggregates.",
                    hint="ask several questions; the budget is divided among the aggregates of one anyway",
                )
            self.found.append(measure)
        return Measured(self.found.index(measure), measure.step, kind)


def bind_answer(
    node: exp.Expr,
    scope: Scope,
    keys: Sequence[Expr],
    measures: Measures,
    names: dict[str, Expr],
    *,
    totals: bool = False,
) -> Expr:
    """Return an expression over the answer: group keys, noisy columns and the output columns in `names`.

    With `totals`, each row has beside its keys a 0 or 1 for each: whether the row adds up over that key.
    """
    needs = Needs(Facts(scope.facts, measures.ranges), measures.column)

    def leaf(e: exp.Expr, depth: int) -> Expr | None:
        if isinstance(e, exp.Column) and not e.table and e.name.lower() in names:
            return names[e.name.lower()]
        if isinstance(e, exp.Grouping | exp.GroupingId):
            return _grouping(e, scope, keys, totals=totals)
        if not has_aggregate(e):
            if isinstance(e, exp.Literal | exp.Boolean | exp.Null):
                return None
            try:
                row = bind_row(e, scope)
            except UnknownColumn:
                if isinstance(e, exp.Column | exp.Anonymous):
                    raise
                return None  # a part of it may be an output column
            if row in keys:
                return Key(keys.index(row), row.type)  # type: ignore[arg-type]  # keys are typed, unlike a bare NULL
            if isinstance(e, exp.Column):
                raise UnsupportedQuery(
                    f"The column {e.name!r} must be in GROUP BY or inside an aggregate.",
                    hint="single rows are never released",
                )
        if is_aggregate(e):
            name, arguments = read_aggregate(e, scope)
            return AGGREGATES[name](arguments, needs)
        if isinstance(e, exp.Bracket):
            _refuse_inside(e)
        return None

    def outermost(e: exp.Expr, depth: int) -> Expr | None:
        found = leaf(e, depth)
        if depth and found is not None and found.type is not None and found.type.is_nested:
            _refuse_inside(e)
        return found

    return bind(node, outermost, 0)


def _refuse_inside(node: exp.Expr) -> Never:
    raise UnsupportedQuery(
        "Nothing is made of an answer that holds several values: it is a column as it stands.",
        hint="take its parts from answer.rows; or ask for each: QUANTILE_CONT(x, 0.25), QUANTILE_CONT(x, 0.5) "
        "cost together what one costs",
    )


def _grouping(node: exp.Expr, scope: Scope, keys: Sequence[Expr], *, totals: bool) -> Expr:
    """GROUPING(a, b, …): the binary number whose digits say of each key whether the row adds up over it."""
    named = [bind_row(e, scope) for e in node.expressions]
    if not named or any(e not in keys for e in named):
        raise UnsupportedQuery("GROUPING takes keys of GROUP BY.", hint="write GROUPING(a) beside GROUP BY ROLLUP (a)")
    number: Expr = Literal(0, Type.INT)
    for e in named:
        digit: Expr = Key(len(keys) + keys.index(e), Type.INT) if totals else Literal(0, Type.INT)
        number = call("+", [call("*", [number, Literal(2, Type.INT)]), digit])
    return number
