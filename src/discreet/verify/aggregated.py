"""Aggregates and windows whose values follow from their rows, in whatever order the database finds these.

Whole numbers are added exactly; reals in the order of their values. A window sees its rows in a total order where its
values depend on one. Both hold what they look at to values that are the same when they are equal (`kinds`).

References:
    What the database was seen to do, and the proof: docs/proofs/ownership.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from discreet.verify.kinds import NULL, Columns, Kind, are_the_same, is_a_number, kind_of, together
from discreet.verify.shapes import holds_only, of_one_row, reject


def aggregate(e: exp.Expr, columns: Columns) -> Kind:
    """Return the kind of an aggregate over rows with these columns, one of those that follow from the rows as a set."""
    match e:
        case exp.Count():
            return _count(e)
        case exp.Sum() | exp.Avg() if holds_only(e, {"this"}):
            return _added(e, columns)
        case exp.Min() | exp.Max() if holds_only(e, {"this"}):
            return _extreme(e.this, columns)
        case exp.LogicalAnd() | exp.LogicalOr() if holds_only(e, {"this"}):
            of_one_row(e.this)
            return "BOOLEAN"
        case _:
            reject("an aggregate that may depend on an order")


def window(e: exp.Window, columns: Mapping[str, Kind]) -> tuple[Kind, str | None]:
    """Return the kind of a window over rows with just these columns, called r; and its order if it tells equal rows
    apart.

    The caller sees to it that it stays within a unit.
    """
    if not holds_only(e, {"this", "partition_by", "order", "over", "spec"}) or e.args.get("over") != "OVER":
        reject("a window of another shape")
    by: list[exp.Expr] = e.args.get("partition_by") or []
    order = e.args.get("order")
    if order is not None and not holds_only(order, {"expressions"}):
        reject("a window of another shape")
    terms: list[exp.Expr] = order.expressions if order is not None else []
    for term in terms:
        if type(term) is not exp.Ordered or not holds_only(term, {"this", "desc", "nulls_first"}):
            reject("a window of another shape")
    for part in [*by, *(t.this for t in terms)]:
        if type(part) is not exp.Column:
            reject("a window of another shape")
    function, frame = e.this, e.args.get("spec")
    kind = _alike_among_peers(function, columns)
    if kind is not None and frame is None:
        return kind, None
    total = {t.this.name for t in terms} >= columns.keys()
    if not total or not all(are_the_same(k) for k in columns.values()):
        reject("the order of a window, which is not total")
    an_end = type(function) in (exp.FirstValue, exp.LastValue) and holds_only(function, {"this"})
    if frame is not None:
        _counted_rows(frame)
        kind = kind if kind is not None and type(function) in _SUMMED else None
        if kind is None and not an_end:
            reject("a window of another shape")
        kind = _of_column(function.this, columns) if kind is None else kind
    elif type(function) is exp.FirstValue and an_end:
        return _of_column(function.this, columns), None
    else:
        kind = _numbering(function, columns)
    # these differ between two equal rows, so that two of them in different orders would pair at random
    return kind, exp.Tuple(expressions=[exp.Tuple(expressions=by), *terms]).sql("duckdb")


def _count(e: exp.Count) -> Kind:
    counted = e.this
    if not holds_only(e, {"this", "big_int"}):
        reject("an aggregate that may depend on an order")
    if type(counted) is exp.Distinct and holds_only(counted, {"expressions"}) and len(counted.expressions) == 1:
        counted = counted.expressions[0]
    if type(counted) is not exp.Star or not holds_only(counted, ()):
        of_one_row(counted)
    return "BIGINT"


def _added(e: exp.Expr, columns: Columns) -> Kind:
    """Whole numbers of 64 bits are added in 128, exactly; any others only in the order of their values; each different
    value once, where equal ones are the same.
    """
    added = e.this
    whole = type(added) is not exp.Order
    if type(added) is exp.Order:
        (term, *more) = added.expressions
        if more or type(term) is not exp.Ordered or not holds_only(term, {"this", "desc", "nulls_first"}):
            reject("the order in which numbers are added")
        added = added.this
    different = type(added) is exp.Distinct
    if different and (not holds_only(added, {"expressions"}) or len(added.expressions) != 1):
        reject("which values are added")
    added = added.expressions[0] if different else added
    if not whole and term.this != added:
        reject("the order in which numbers are added")
    of_one_row(added)
    kind = kind_of(added, columns)
    if different and not are_the_same(kind):
        reject("which of equal values is kept")
    # wider whole numbers could leave 128 bits, which would fail
    if kind not in ("BIGINT", NULL) and (whole or not is_a_number(kind)):
        reject("the order in which numbers are added")
    return "DOUBLE" if is_a_number(kind) or type(e) is exp.Avg else "HUGEINT"


def _extreme(e: exp.Expr, columns: Columns) -> Kind:
    of_one_row(e)
    kind = kind_of(e, columns)
    if not are_the_same(kind):
        reject("which of equal values is kept")
    return kind


def _alike_among_peers(function: exp.Expr, columns: Mapping[str, Kind]) -> Kind:
    """Functions with equal values on rows that are equal in the terms of ORDER BY, since without a frame
    these enter together; None for any other.
    """
    match function:
        case exp.Rank() | exp.DenseRank() if holds_only(function, ()):
            return "BIGINT"
        case exp.PercentRank() | exp.CumeDist() if holds_only(function, ()):
            return "DOUBLE"
        case exp.Count() if holds_only(function, {"this", "big_int"}):
            if type(function.this) is not exp.Star:
                _of_column(function.this, columns)
            return "BIGINT"
        case exp.Sum() if holds_only(function, {"this"}):
            if _of_column(function.this, columns) != "BIGINT":
                reject("the order in which numbers are added")
            return "HUGEINT"
        case exp.Min() | exp.Max() if holds_only(function, {"this"}):
            kind = _of_column(function.this, columns)
            if not are_the_same(kind):
                reject("which of equal values is kept")
            return kind
        case _:
            return None


_SUMMED = (exp.Count, exp.Sum, exp.Min, exp.Max)


def _counted_rows(frame: exp.Expr) -> None:
    """ROWS BETWEEN … AND …, each end UNBOUNDED, CURRENT ROW or a written number of rows; nothing is left out."""
    if type(frame) is not exp.WindowSpec or frame.args.get("kind") != "ROWS":
        reject("a window of another shape")
    if not holds_only(frame, {"kind", "start", "start_side", "end", "end_side"}):
        reject("a window of another shape")
    for end, unbounded in (("start", "PRECEDING"), ("end", "FOLLOWING")):
        bound, side = frame.args.get(end), frame.args.get(f"{end}_side")
        if bound == "CURRENT ROW" and not side:
            continue
        if bound == "UNBOUNDED" and side == unbounded:
            continue
        if not isinstance(bound, exp.Expr) or not _counting(bound) or side not in ("PRECEDING", "FOLLOWING"):
            reject("a window of another shape")


def _numbering(function: exp.Expr, columns: Mapping[str, Kind]) -> Kind:
    match function:
        case exp.RowNumber() if holds_only(function, ()):
            return "BIGINT"
        case exp.Ntile() if holds_only(function, {"this"}):
            if not _counting(function.this) or function.this.name == "0":
                reject("a window of another shape")
            return "BIGINT"
        case exp.Lag() | exp.Lead() if holds_only(function, {"this", "offset", "default"}):
            offset, default = function.args.get("offset"), function.args.get("default")
            if offset is not None and not _counting(offset):
                reject("a window of another shape")
            if default is not None:
                of_one_row(default)
                if default.find(exp.Column):
                    reject("a window of another shape")
            other = NULL if default is None else kind_of(default, lambda _: None)
            return together([_of_column(function.this, columns), other])
        case _:
            reject("a window of another shape")


def _of_column(e: exp.Expr, columns: Mapping[str, Kind]) -> Kind:
    if type(e) is not exp.Column or e.name not in columns:
        reject("a window of another shape")
    return columns[e.name]


def _counting(e: exp.Expr) -> bool:
    return type(e) is exp.Literal and not e.is_string and e.name.isdigit() and len(e.name) < 10
