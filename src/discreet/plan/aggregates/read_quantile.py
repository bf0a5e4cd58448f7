"""How quantiles and modes are asked for: the spellings of DuckDB and of the standard, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Never

from sqlglot import exp

from discreet.errors import UnsupportedQuery
from discreet.plan.expr import Expr, Literal
from discreet.plan.types import Type

if TYPE_CHECKING:
    from discreet.plan.aggregates.read import Applied, Asked


def median(a: Asked) -> Applied:
    """MEDIAN(x)."""
    return "quantile_cont", (a.number(a.node.args.get("this")), _HALF)


def quantile(a: Asked) -> Applied:
    """QUANTILE_CONT(x, p) and the like."""
    share = a.node.args.get("quantile") or a.node.args.get("expression")
    return _NAMES[type(a.node)], (a.number(a.node.args.get("this")), _share(share, a.word))


def within_group(a: Asked) -> Applied:
    """PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x), MODE() WITHIN GROUP (ORDER BY x)."""
    inner, order = a.node.this, a.node.expression
    terms = order.expressions if isinstance(order, exp.Order) else []
    if len(terms) != 1 or not isinstance(terms[0], exp.Ordered):
        raise UnsupportedQuery("WITHIN GROUP takes one ORDER BY.", hint=_EXAMPLE)
    word = inner.sql_name() if isinstance(inner, exp.Func) else "This aggregate"
    if isinstance(inner, exp.Mode) and inner.args.get("this") is None:
        return "mode", (a.value(terms[0].this),)
    plain = isinstance(inner, exp.PercentileCont | exp.PercentileDisc) and not inner.args.get("expression")
    if not plain:
        raise UnsupportedQuery(f"{word} does not go with WITHIN GROUP.", hint=_EXAMPLE)
    share = _share(inner.args.get("this"), word)
    if terms[0].args.get("desc"):
        share = Literal(float(1 - Fraction(str(share.value))), Type.REAL)
    return _NAMES[type(inner)], (a.number(terms[0].this), share)


def least(a: Asked) -> Applied:
    """MIN(x)."""
    return "min", (_ordered(a),)


def greatest(a: Asked) -> Applied:
    """MAX(x)."""
    return "max", (_ordered(a),)


def mode(a: Asked) -> Applied:
    """MODE(x)."""
    argument = a.node.args.get("this")
    if argument is None or isinstance(argument, exp.Distinct | exp.Star):
        raise UnsupportedQuery("MODE needs one value.", hint="write MODE(x)")
    return "mode", (a.value(argument),)


def refuse_list(a: Asked) -> Never:
    """APPROX_TOP_K, HISTOGRAM: answers that hold a list."""
    raise UnsupportedQuery(
        f"{a.word} is not answered here: an answer has one value in each place.",
        hint="count the values as groups: SELECT x, COUNT(*) AS n ... GROUP BY x ORDER BY n DESC LIMIT 10; "
        "for bins, GROUP BY floor(x / 10)",
    )


def _ordered(a: Asked) -> Expr:
    argument = a.node.args.get("this")
    if argument is not None and not isinstance(argument, exp.Distinct | exp.Star):
        kind = a.value(argument).type
        if kind in (Type.DATE, Type.TIMESTAMP):
            raise UnsupportedQuery(
                f"{a.word} of a date or time is not answered here, since those have no declared bounds.",
                hint=f"ask for a number of it: {a.word}(date_part('year', x)), with bounds in the query",
            )
        if kind is Type.TEXT:
            raise UnsupportedQuery(
                f"{a.word} of text is not answered here.",
                hint="CAST it to DOUBLE if it holds numbers; group by it to see which values there are",
            )
    return a.number(argument)


def _share(node: exp.Expr | None, word: str) -> Literal:
    if isinstance(node, exp.Array | exp.List):
        raise UnsupportedQuery(
            f"{word} takes one share at a time.",
            hint=f"write {word}(x, 0.25), {word}(x, 0.5), {word}(x, 0.75): together they cost no more than one",
        )
    if not isinstance(node, exp.Literal) or node.is_string or not 0 <= float(node.name) <= 1:
        raise UnsupportedQuery(
            f"{word} needs a share between 0 and 1, as a number.", hint=f"write {word}(x, 0.5), for instance"
        )
    return Literal(float(node.name), Type.REAL)


_HALF = Literal(0.5, Type.REAL)
_EXAMPLE = "write PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)"
_NAMES: dict[type[exp.Expr], str] = {
    exp.PercentileCont: "quantile_cont",
    exp.PercentileDisc: "quantile_disc",
    exp.Quantile: "quantile_disc",
    exp.ApproxQuantile: "quantile_disc",
}
