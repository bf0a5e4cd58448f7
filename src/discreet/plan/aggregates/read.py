"""Which aggregate a node of the result is, in a form that is answered; every other form is refused by name.

A new aggregate is a row of `BY_NODE` (or of `BY_NAME`, where the parser leaves a name): the parts of the node that
are known, and a rule that gives the aggregate's name among `AGGREGATES` and its bound arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Never

from sqlglot import exp

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.plan.aggregates import read_nested, read_quantile
from discreet.plan.aggregates.call import HINT, AggregateCall, Applied
from discreet.plan.aggregates.columns import one_where
from discreet.query.bind import as_condition, bind_row, coerce
from discreet.query.expr import Expr, Literal
from discreet.query.parse import is_aggregate, refuse_single_rows, word
from discreet.query.scope import Scope


@dataclass(frozen=True, slots=True)
class AggregateForm:
    """A form of an aggregate: the parts that its node may have, and what it is then.

    Attributes:
        rule: the name and the arguments; raises UnsupportedQuery on a form that is not supported.
        places: the parts of the node that the rule reads, or that say nothing; any other is refused.
    """

    rule: Callable[[AggregateCall], Applied]
    places: tuple[str, ...] = ("this",)


def read_aggregate(node: exp.Expr, scope: Scope) -> Applied:
    """Return the aggregate that a node of the result applies: its name among `AGGREGATES`, and its arguments.

    Raises:
        UnsupportedQuery: an aggregate, or a form of one, that is not supported.
    """
    where = None
    if isinstance(node, exp.Filter):
        where = _filter(node, scope)
        node = node.this
    form = BY_NAME.get(node.name.lower()) if isinstance(node, exp.Anonymous) else BY_NODE.get(type(node))
    if form is None:
        inner = node.this if node.key in ("ignorenulls", "respectnulls") else node
        if inner.key in ("anyvalue", "arrayagg", "first", "groupconcat", "last", "argmax", "argmin"):
            refuse_single_rows(word(node))
        raise UnsupportedQuery(f"{word(node)} is not supported here.", hint=HINT)
    if any(part and place not in form.places for place, part in node.args.items()):
        raise UnsupportedQuery(f"This form of {word(node)} is not supported here.", hint=HINT)
    return form.rule(AggregateCall(_unordered(node), scope, where))


def _filter(node: exp.Filter, scope: Scope) -> Expr:
    if not is_aggregate(node.this) or isinstance(node.this, exp.Filter):
        raise UnsupportedQuery(
            "FILTER (WHERE …) stands behind an aggregate.", hint="write COUNT(*) FILTER (WHERE x > 0)"
        )
    condition = as_condition(bind_row(node.expression.this, scope), "FILTER (WHERE …)")
    return coerce(condition, Type.BOOL)


def _unordered(node: exp.Expr) -> exp.Expr:
    if isinstance(node.args.get("this"), exp.Order):
        raise UnsupportedQuery(f"{word(node)} does not depend on an order.", hint="leave ORDER BY out of it")
    return node


def _count(a: AggregateCall) -> Applied:
    match argument := a.node.args.get("this"):
        case None | exp.Star():
            return "count", () if a.where is None else (a.kept(Literal(1, Type.INT)),)
        case exp.Distinct():
            return _count_distinct(a, argument)
        case exp.Null():
            raise UnsupportedQuery("COUNT(NULL) is always 0.", hint="count rows with COUNT(*)")
        case _:
            return "count", (a.value(argument),)


def _count_distinct(a: AggregateCall, distinct: exp.Distinct) -> Applied:
    args = distinct.expressions
    condition, unit_node = _when(args[0]) if len(args) == 1 else (None, None)
    if isinstance(unit_node, exp.Column) and a.scope.is_unit(bind_row(unit_node, a.scope)):
        if condition is not None:
            return "count distinct unit", (a.kept(one_where(bind_row(condition, a.scope))),)
        return "count distinct unit", () if a.where is None else (one_where(a.where),)
    if len(args) != 1:
        raise UnsupportedQuery(
            "COUNT(DISTINCT …) of several columns is not supported here.",
            hint="count one text of them: COUNT(DISTINCT a || '/' || b)",
        )
    return "count distinct", (a.value(args[0]),)


def _when(node: exp.Expr) -> tuple[exp.Expr | None, exp.Expr]:
    """Return the condition and the value of CASE WHEN condition THEN value END; another node is a value without one."""
    arms = node.args.get("ifs", [])
    if isinstance(node, exp.Case) and len(arms) == 1 and not node.this and not node.args.get("default"):
        return arms[0].this, arms[0].args["true"]
    return None, node


def _number(name: str) -> AggregateForm:
    """Return an aggregate of one number."""
    return AggregateForm(lambda a: (name, (a.number(a.node.args.get("this")),)))


def _number_or_distinct(name: str) -> AggregateForm:
    """Return an aggregate of one number, of the rows or of the different values."""

    def rule(a: AggregateCall) -> Applied:
        argument = a.node.this
        if isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
            return f"{name} distinct", (a.number(argument.expressions[0]),)
        return name, (a.number(argument),)

    return AggregateForm(rule)


def _pair(name: str) -> AggregateForm:
    """Return an aggregate of two numbers, on the rows where both are known: first as written."""
    return AggregateForm(lambda a: (name, (a.number(a.node.this), a.number(a.node.expression))), ("this", "expression"))


def _condition(name: str) -> AggregateForm:
    """Return an aggregate of one condition."""
    return AggregateForm(lambda a: (name, (a.condition(a.node.args.get("this")),)))


def _named(name: str, read: Callable[[AggregateCall, exp.Expr], Expr]) -> AggregateForm:
    """Return an aggregate of one argument that the parser knows as a name only."""

    def rule(a: AggregateCall) -> Applied:
        args = a.node.expressions
        if len(args) != 1:
            _refuse_form(a.node)
        return name, (read(a, args[0]),)

    return AggregateForm(rule, ("this", "expressions"))


def _sum_within(a: AggregateCall) -> Applied:
    value, *bounds = a.node.expressions
    if len(bounds) != 2:
        _refuse_form(a.node)
    name = "sum within a row" if a.scope.unit.is_row else "sum within"
    return name, (a.number(value), *(bind_row(b, a.scope) for b in bounds))


def _count_within(a: AggregateCall) -> Applied:
    value, *bounds = a.node.expressions
    if len(bounds) != 2:
        _refuse_form(a.node)
    whole = isinstance(value, exp.Star)
    counted = (a.kept(Literal(1, Type.INT)),) if a.where is not None else ()
    return "count within", (*(counted if whole else (a.value(value),)), *(bind_row(b, a.scope) for b in bounds))


def _refuse_form(node: exp.Expr) -> Never:
    raise UnsupportedQuery(f"This form of {word(node)} is not supported here.", hint=HINT)


BY_NODE: MappingProxyType[type[exp.Expr], AggregateForm] = MappingProxyType(
    {
        exp.Count: AggregateForm(_count, ("this", "big_int")),
        exp.Sum: _number_or_distinct("sum"),
        exp.Avg: _number_or_distinct("avg"),
        exp.CountIf: _condition("count if"),
        exp.VariancePop: _number("var_pop"),
        exp.Variance: _number("var_samp"),
        exp.StddevPop: _number("stddev_pop"),
        exp.StddevSamp: _number("stddev_samp"),
        exp.Stddev: _number("stddev_samp"),
        exp.CovarPop: _pair("covar_pop"),
        exp.CovarSamp: _pair("covar_samp"),
        exp.Corr: _pair("corr"),
        exp.RegrSlope: _pair("regr_slope"),
        exp.RegrIntercept: _pair("regr_intercept"),
        exp.RegrR2: _pair("regr_r2"),
        exp.RegrCount: _pair("regr_count"),
        exp.RegrAvgx: _pair("regr_avgx"),
        exp.RegrAvgy: _pair("regr_avgy"),
        exp.RegrSxx: _pair("regr_sxx"),
        exp.RegrSxy: _pair("regr_sxy"),
        exp.RegrSyy: _pair("regr_syy"),
        exp.LogicalOr: _condition("bool_or"),
        exp.LogicalAnd: _condition("bool_and"),
        exp.Median: AggregateForm(read_quantile.median),
        exp.PercentileCont: AggregateForm(read_quantile.quantile, ("this", "expression")),
        exp.PercentileDisc: AggregateForm(read_quantile.quantile, ("this", "expression")),
        exp.Quantile: AggregateForm(read_quantile.quantile, ("this", "quantile")),
        exp.ApproxQuantile: AggregateForm(read_quantile.quantile, ("this", "quantile")),
        exp.WithinGroup: AggregateForm(read_quantile.within_group, ("this", "expression")),
        exp.Min: AggregateForm(read_quantile.least),
        exp.Max: AggregateForm(read_quantile.greatest),
        exp.Mode: AggregateForm(read_quantile.mode),
        exp.ApproxQuantiles: AggregateForm(read_quantile.quantiles, ("this", "expression")),
        exp.ApproxTopK: AggregateForm(read_nested.top, ("this", "expression")),
    }
)
"""Node → how it is read."""

BY_NAME: MappingProxyType[str, AggregateForm] = MappingProxyType(
    {
        "mean": _named("avg", AggregateCall.number),
        "every": _named("bool_and", AggregateCall.condition),
        "sum_within": AggregateForm(_sum_within, ("this", "expressions")),
        "count_within": AggregateForm(_count_within, ("this", "expressions")),
        "histogram": AggregateForm(read_nested.histogram, ("this", "expressions")),
    }
)
"""The same for functions that the parser leaves as names, in lower case: those of `parse.AGGREGATE_NAMES`."""
