"""How histograms and commonest values are asked for: HISTOGRAM(x), HISTOGRAM(x, [10, 20]), APPROX_TOP_K(x, 5)."""

from __future__ import annotations

from typing import Never

from sqlglot import exp

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.plan.aggregates.call import AggregateCall, Applied
from discreet.query.bind import bind_row, coerce
from discreet.query.expr import Expr, Literal, columns_of

MOST_BINS = 200
"""Ends of bins; the database compares each row with each of them."""

MOST_TOP = 1000
"""Values that one list of the commonest shows."""


def top(a: AggregateCall) -> Applied:
    """APPROX_TOP_K(x, k)."""
    argument, k = a.node.args.get("this"), a.node.args.get("expression")
    if argument is None or isinstance(argument, exp.Distinct | exp.Star):
        raise UnsupportedQuery(f"{a.word} needs one value.", hint=f"write {a.word}(x, 5)")
    if not isinstance(k, exp.Literal) or k.is_string or not k.name.isdigit() or not 0 < int(k.name) <= MOST_TOP:
        raise UnsupportedQuery(
            f"{a.word} needs how many values to show, a whole number from 1 to {MOST_TOP:,}.",
            hint=f"write {a.word}(x, 5)",
        )
    return "approx_top_k", (a.value(argument), Literal(int(k.name), Type.INT))


def histogram(a: AggregateCall) -> Applied:
    """HISTOGRAM(x), HISTOGRAM(x, ends)."""
    args = a.node.expressions
    if len(args) not in (1, 2) or isinstance(args[0], exp.Distinct | exp.Star):
        raise UnsupportedQuery(
            f"{a.word} needs one value, and the ends of its bins or none.",
            hint="write HISTOGRAM(x), or HISTOGRAM(x, [10, 20, 50])",
        )
    value = a.value(args[0])
    if len(args) == 1:
        return "histogram", (value,)
    return "histogram", _of_one_type(value, [_constant(a, e) for e in _ends(args[1])])


def _ends(node: exp.Expr) -> list[exp.Expr]:
    """Return the elements of a list that is written out, or of range(low, high, step)."""
    if isinstance(node, exp.GenerateSeries):
        return _steps(node)
    if not isinstance(node, exp.Array | exp.List) or not 0 < len(node.expressions) <= MOST_BINS:
        _refuse_ends()
    return list(node.expressions)


def _steps(node: exp.GenerateSeries) -> list[exp.Expr]:
    parts = [node.args.get(p) or default for p, default in zip(("start", "end", "step"), _DEFAULTS, strict=True)]
    if not all(isinstance(p, exp.Literal) and p.name.isdigit() for p in parts) or not int(parts[2].name):
        _refuse_ends()
    low, high, step = (int(p.name) for p in parts)
    found = range(low, high if node.args.get("is_end_exclusive") else high + 1, step)
    if not 0 < len(found) <= MOST_BINS:
        _refuse_ends()
    return [exp.Literal.number(n) for n in found]


def _constant(a: AggregateCall, node: exp.Expr) -> Literal:
    found = bind_row(node, a.scope)
    value = None if columns_of(found) else found.of_row({})
    if value is None or found.type is None:
        _refuse_ends()
    return Literal(value, found.type)


def _of_one_type(value: Expr, ends: list[Literal]) -> tuple[Expr, ...]:
    kinds = {value.type, *(e.type for e in ends if e.type is not Type.TEXT)}
    for wanted, among in _TOGETHER:
        if value.type in among and kinds <= among and wanted in kinds:
            return (coerce(value, wanted), *(coerce(e, wanted) for e in ends))
    raise UnsupportedQuery(
        "HISTOGRAM with bins needs numbers, or dates and times, and ends of the same kind.",
        hint="HISTOGRAM(x) counts listed values; CAST text to DOUBLE",
    )


def _refuse_ends() -> Never:
    raise UnsupportedQuery(
        f"HISTOGRAM takes the ends of its bins as a list of 1 to {MOST_BINS} constants.",
        hint="write HISTOGRAM(x, [10, 20, 50]), or HISTOGRAM(x, range(0, 100, 10))",
    )


_TOGETHER = (
    (Type.REAL, {Type.INT, Type.REAL}),
    (Type.INT, {Type.INT}),
    (Type.TIMESTAMP, {Type.DATE, Type.TIMESTAMP}),
    (Type.DATE, {Type.DATE}),
)
"""The type that values and ends of these types are compared as; ends may be text."""

_DEFAULTS = (exp.Literal.number(0), exp.Literal.number(0), exp.Literal.number(1))
