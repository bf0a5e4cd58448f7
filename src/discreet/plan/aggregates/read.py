"""Which aggregate a node of the result is, in a form that is answered; every other form is refused by name.

A new aggregate is a row of `BY_NODE` (or of `BY_NAME`, where the parser leaves a name): the parts of the node that
are known, and a rule that gives the aggregate's name among `AGGREGATES` and its bound arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Never, TypeGuard

from sqlglot import exp

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.plan.aggregates import read_nested
from discreet.plan.aggregates.call import HINT, AggregateCall, Applied
from discreet.plan.aggregates.columns import one_where
from discreet.query.bind import as_condition, bind_row, coerce
from discreet.query.expr import Expr, Literal
from discreet.query.parse import is_aggregate, refuse_single_rows, whole_number, word
from discreet.query.scope import Scope


def median(a: AggregateCall) -> Applied:
    """MEDIAN(x)."""
    return "quantile_cont", (_measurable(a, a.node.args.get("this")), _HALF)


def quantile(a: AggregateCall) -> Applied:
    """QUANTILE_CONT(x, p) and the like; a list of shares gives a list."""
    share = a.node.args.get("quantile") or a.node.args.get("expression")
    value, (shares, several) = _measurable(a, a.node.args.get("this")), _shares(share, a.word)
    return _NAMES[type(a.node)] + (LIST if several else ""), (value, *shares)


def quantiles(a: AggregateCall) -> Applied:
    """BigQuery's APPROX_QUANTILES(x, n): the list of the n + 1 ends of n parts with equally many rows."""
    parts = whole_number(a.node.args.get("expression"))
    if parts is None or not 0 < parts < MOST_SHARES:
        raise UnsupportedQuery(
            f"{a.word} needs a whole number of parts, from 1 to {MOST_SHARES - 1}.", hint=f"write {a.word}(x, 4)"
        )
    shares = (Literal(float(Fraction(i, parts)), Type.REAL) for i in range(parts + 1))
    return "quantile_disc" + LIST, (_measurable(a, a.node.args.get("this")), *shares)


def within_group(a: AggregateCall) -> Applied:
    """PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x), MODE() WITHIN GROUP (ORDER BY x)."""
    inner, order = a.node.this, a.node.expression
    match order:
        case exp.Order(expressions=[exp.Ordered(this=by) as term]):
            pass
        case _:
            raise UnsupportedQuery("WITHIN GROUP takes one ORDER BY.", hint=_EXAMPLE)
    said = word(inner)
    match inner:
        case exp.Mode(this=None):
            return "mode", (a.value(by),)
        case exp.PercentileCont() | exp.PercentileDisc() if not inner.args.get("expression"):
            shares, several = _shares(inner.args.get("this"), said)
        case _:
            raise UnsupportedQuery(f"{said} does not go with WITHIN GROUP.", hint=_EXAMPLE)
    if term.args.get("desc"):
        shares = [Literal(float(1 - Fraction(str(s.value))), Type.REAL) for s in shares]
    return _NAMES[type(inner)] + (LIST if several else ""), (_measurable(a, by), *shares)


def least(a: AggregateCall) -> Applied:
    """MIN(x)."""
    return "min", (_ordered(a),)


def greatest(a: AggregateCall) -> Applied:
    """MAX(x)."""
    return "max", (_ordered(a),)


def mode(a: AggregateCall) -> Applied:
    """MODE(x)."""
    argument = a.node.args.get("this")
    if not _is_value(argument):
        raise UnsupportedQuery("MODE needs one value.", hint="write MODE(x)")
    return "mode", (a.value(argument),)


def _ordered(a: AggregateCall) -> Expr:
    argument = a.node.args.get("this")
    if _is_value(argument) and a.value(argument).type is Type.TEXT:
        raise UnsupportedQuery(
            f"{a.word} of text is not supported here.",
            hint="CAST it to DOUBLE if it holds numbers; group by it to see which values there are",
        )
    return _measurable(a, argument)


def _measurable(a: AggregateCall, argument: exp.Expr | None) -> Expr:
    """Return an argument that is a date, a time or a number."""
    if _is_value(argument):
        found = a.value(argument)
        if found.type is not None and found.type.is_moment:
            return found
    return a.number(argument)


def _is_value(argument: exp.Expr | None) -> TypeGuard[exp.Expr]:
    return argument is not None and not isinstance(argument, exp.Distinct | exp.Star)


def _shares(node: exp.Expr | None, said: str) -> tuple[list[Literal], bool]:
    """Return the shares that are asked for, and whether they are written as a list."""
    if not isinstance(node, exp.Array | exp.List):
        return [_share(node, said)], False
    if not 0 < len(node.expressions) <= MOST_SHARES:
        raise UnsupportedQuery(
            f"{said} takes a list of 1 to {MOST_SHARES} shares.", hint=f"write {said}(x, [0.25, 0.5, 0.75])"
        )
    return [_share(e, said) for e in node.expressions], True


def _share(node: exp.Expr | None, said: str) -> Literal:
    if not isinstance(node, exp.Literal) or node.is_string or not 0 <= float(node.name) <= 1:
        raise UnsupportedQuery(
            f"{said} needs a share between 0 and 1, as a number.", hint=f"write {said}(x, 0.5), for instance"
        )
    return Literal(float(node.name), Type.REAL)


LIST = " list"
"""What the name of an aggregate ends with when several shares are asked for at once."""

MOST_SHARES = 100
"""In one list."""

_HALF = Literal(0.5, Type.REAL)
_EXAMPLE = "write PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)"
_NAMES: dict[type[exp.Expr], str] = {
    exp.PercentileCont: "quantile_cont",
    exp.PercentileDisc: "quantile_disc",
    exp.Quantile: "quantile_disc",
    exp.ApproxQuantile: "quantile_disc",
}


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
        exp.Median: AggregateForm(median),
        exp.PercentileCont: AggregateForm(quantile, ("this", "expression")),
        exp.PercentileDisc: AggregateForm(quantile, ("this", "expression")),
        exp.Quantile: AggregateForm(quantile, ("this", "quantile")),
        exp.ApproxQuantile: AggregateForm(quantile, ("this", "quantile")),
        exp.WithinGroup: AggregateForm(within_group, ("this", "expression")),
        exp.Min: AggregateForm(least),
        exp.Max: AggregateForm(greatest),
        exp.Mode: AggregateForm(mode),
        exp.ApproxQuantiles: AggregateForm(quantiles, ("this", "expression")),
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
