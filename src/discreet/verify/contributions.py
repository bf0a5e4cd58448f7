"""What one row adds to a contribution at most, read from the text alone: a cap on all rows bounds its sum by it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sqlglot import exp

from discreet.verify.kinds import span_of
from discreet.verify.shapes import holds_only, reject, whole_constant


def row_size(e: exp.Expr, span: tuple[int, int], tallies: Mapping[str, exp.Expr], row: Mapping[str, exp.Expr]) -> int:
    """Return a w such that the contribution of a unit with n rows in a group is at most w·n in size.

    So the sizes of all contributions of a unit with K rows add up to at most w·K. By induction: a count of rows is at
    most n, a sum of n numbers at most n times the largest of them, and a constant c at most n·|c| where n ≥ 1, as the
    tallies are of groups with a row. To move a number to the nearest of an interval that holds 0 makes it no larger.

    Args:
        e: the contribution, an expression of tallies.
        span: what it lies between, whatever the tallies are.
        tallies: name → the count or sum that it is, over a unit's rows in a group.
        row: name → expression of the columns of these rows.

    Raises:
        InternalError: a shape of which this is not known.
    """
    widest = max(abs(span[0]), abs(span[1]))
    match e:
        case exp.Cast() if holds_only(e, {"this", "to"}) and e.to.is_type(*_WHOLE):
            return row_size(e.this, span, tallies, row)
        case exp.Paren():
            return row_size(e.this, span, tallies, row)
        case exp.Coalesce() if len(e.expressions) == 1 and whole_constant(e.expressions[0]) == 0:
            return row_size(e.this, span, tallies, row)
        case exp.Least() | exp.Greatest() if len(e.expressions) == 1:
            # NULL would be passed over, and the constant taken
            end = whole_constant(e.expressions[0])
            if (end < 0 if type(e) is exp.Least else end > 0) or not _is_known(e.this, tallies):
                reject("what one row adds")
            return row_size(e.this, span, tallies, row)
        case exp.Literal() | exp.Neg():
            return abs(whole_constant(e))
        case exp.Column():
            return _of_tally(tallies.get(e.name), row, 0)
        case exp.Sub():
            return _centred(e, tallies, row)
        case exp.Case() if e.this is None and len(e.args["ifs"]) == 1:
            return _up_to(e, widest, tallies, row)
        case _:
            reject("what one row adds")


_WHOLE = (exp.DataType.Type.BIGINT, exp.DataType.Type.INT128)


def _is_known(e: exp.Expr, tallies: Mapping[str, exp.Expr]) -> bool:
    """Whether it is never NULL: a count, or what has another value in place of NULL."""
    if type(e) is exp.Column:
        return type(tallies.get(e.name)) is exp.Count
    return type(e) is exp.Coalesce or (type(e) in (exp.Least, exp.Greatest) and _is_known(e.this, tallies))


def _of_tally(tally: exp.Expr | None, row: Mapping[str, exp.Expr], centre: int) -> int:
    """Return the size of what one row adds to a count, or to a sum of x − centre."""
    if type(tally) is exp.Count and centre == 0:
        return 1
    if type(tally) is not exp.Sum or type(tally.this) is not exp.Column or tally.this.name not in row:
        reject("what one row adds")
    low, high = span_of(row[tally.this.name], frozenset())
    if math.isinf(low) or math.isinf(high):
        reject("what one row adds")
    return max(abs(math.floor(low) - centre), abs(math.ceil(high) - centre))


def _centred(e: exp.Sub, tallies: Mapping[str, exp.Expr], row: Mapping[str, exp.Expr]) -> int:
    """Return the size of what one row adds to sum(x) − count(x)·c: x − c where it has an x, and else nothing."""
    product = e.expression
    if type(product) is not exp.Mul:
        reject("what one row adds")
    total, counted = _tally(e.this, tallies), _tally(product.this, tallies)
    if type(total) is not exp.Sum or type(counted) is not exp.Count or total.this != counted.this:
        reject("what one row adds")
    return _of_tally(total, row, whole_constant(product.expression))


def _tally(e: exp.Expr, tallies: Mapping[str, exp.Expr]) -> exp.Expr | None:
    """Return the tally that it is, cast to whole numbers or as it stands."""
    while type(e) is exp.Cast and holds_only(e, {"this", "to"}) and e.to.is_type(*_WHOLE):
        e = e.this
    return tallies.get(e.name) if type(e) is exp.Column else None


def _up_to(e: exp.Case, widest: int, tallies: Mapping[str, exp.Expr], row: Mapping[str, exp.Expr]) -> int:
    """Return the same of CASE WHEN n <= R THEN x ELSE y END within the span: where n, which counts some of the rows, is
    above R, the span is at most R times what one row adds to x.
    """
    (arm,) = e.args["ifs"]
    test, default = arm.this, e.args.get("default")
    if type(test) is not exp.LTE or default is None or type(_tally(test.this, tallies)) is not exp.Count:
        reject("what one row adds")
    size = row_size(arm.args["true"], (-widest, widest), tallies, row)
    if widest > whole_constant(test.expression) * size:
        reject("what one row adds")
    return size
