"""How quantiles and modes are asked for: the spellings of DuckDB, BigQuery and the standard, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeGuard

from sqlglot import exp

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.plan.aggregates.call import AggregateCall, Applied
from discreet.query.expr import Expr, Literal
from discreet.query.parse import whole_number, word


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
