"""Which aggregate a node of the answer is, in a form that is answered; every other form is refused by name."""

from __future__ import annotations

from sqlglot import exp

from discreet.errors import UnsupportedQuery
from discreet.plan.bind import bind_row, coerce
from discreet.plan.expr import Expr
from discreet.plan.scope import Scope
from discreet.plan.types import Type


def read_aggregate(node: exp.AggFunc, scope: Scope) -> tuple[str, tuple[Expr, ...]]:
    """The aggregate that a node of the answer applies: its name among `AGGREGATES`, and its arguments.

    Raises:
        UnsupportedQuery: an aggregate, or a form of one, that is not answered.
    """
    argument = node.args.get("this")
    if not isinstance(node, exp.Count | exp.Sum | exp.Avg):
        raise UnsupportedQuery(f"{_word(node)} is not answered here.", hint=_AGGREGATES)
    if any(part and place not in ("this", "big_int") for place, part in node.args.items()):
        raise UnsupportedQuery(f"This form of {_word(node)} is not answered here.", hint=_AGGREGATES)
    if isinstance(argument, exp.Order):
        raise UnsupportedQuery(f"{_word(node)} does not depend on an order.", hint="leave ORDER BY out of it")
    if isinstance(node, exp.Count):
        if argument is None or isinstance(argument, exp.Star):
            return "count", ()
        if isinstance(argument, exp.Distinct):
            return "count distinct unit", (_unit_argument(argument, scope),)
        return "count", (bind_row(argument, scope),)
    name = "sum" if isinstance(node, exp.Sum) else "avg"
    if isinstance(argument, exp.Distinct):
        raise UnsupportedQuery(f"{_word(node)} with DISTINCT is not answered here.", hint=_AGGREGATES)
    if argument is None or isinstance(argument, exp.Star):
        raise UnsupportedQuery(f"{_word(node)} needs one number.", hint=f"write {_word(node)}(x)")
    bound = bind_row(argument, scope)
    if bound.type is Type.BOOL:
        return name, (coerce(bound, Type.INT),)
    if bound.type not in (Type.INT, Type.REAL, Type.TEXT):
        raise UnsupportedQuery(f"{name.upper()} needs a number.", hint="CAST the argument to DOUBLE")
    return name, (bound if bound.type.is_number else coerce(bound, Type.REAL),)


_AGGREGATES = "aggregates are COUNT, COUNT(DISTINCT unit), SUM and AVG"


def _word(node: exp.Expr) -> str:
    return node.sql_name() if isinstance(node, exp.Func) else type(node).__name__.upper()


def _unit_argument(distinct: exp.Distinct, scope: Scope) -> Expr:
    args = distinct.expressions
    if len(args) == 1 and isinstance(args[0], exp.Column):
        bound = bind_row(args[0], scope)
        if scope.is_unit(bound):
            return bound
    unit = scope.unit.column
    named = (
        f"COUNT(DISTINCT {unit}), which counts people" if unit else "COUNT(*), since each row is one person"
    )
    raise UnsupportedQuery("COUNT(DISTINCT …) of other columns is not answered here.", hint=f"use {named}")
