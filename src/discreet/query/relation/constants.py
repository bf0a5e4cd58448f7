"""Public rows that a query writes out: VALUES, SELECT without FROM, UNNEST of a list, and runs of whole numbers."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Sequence

from sqlglot import exp

from discreet.catalog.schema import Fact, Scalar, Values
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.bind import bind_row, coerce
from discreet.query.expr import Expr, columns_of
from discreet.query.functions.function import common
from discreet.query.parse import default_name, has_aggregate
from discreet.query.relation.context import Context, Rows
from discreet.query.relation.names import AliasColumns, Item
from discreet.query.relation.node import Constants

MOST_LISTED = 10_000
"""Numbers of one run."""

Listed = tuple[list[str], list[list[exp.Expr]]]
"""The names of the columns, and the rows."""


def listed_rows(node: exp.Expr) -> Listed | None:
    """Return the rows that a place of FROM writes out; None where it names or asks something."""
    match node:
        case exp.Values():
            rows = [e.expressions if isinstance(e, exp.Tuple) else [e.unnest()] for e in node.expressions]
            return [f"col{i}" for i in range(len(rows[0]))], rows
        case exp.Unnest() if len(node.expressions) == 1 and not node.args.get("offset"):
            found = _elements(node.expressions[0])
            return None if found is None else (["unnest"], [[e] for e in found])
        case exp.Table(this=exp.GenerateSeries() as run):
            found = _elements(run)
            name = "range" if run.args.get("is_end_exclusive") else "generate_series"
            return None if found is None else ([name], [[e] for e in found])
        case _:
            return None


def written_rows(query: exp.Expr) -> Listed | None:
    """Return the rows of a SELECT without FROM, and of several that UNION ALL puts together; None of other queries."""
    sides: list[exp.Expr] = [query]
    leaves: list[exp.Select] = []
    while sides:
        side = sides.pop().unnest()
        if isinstance(side, exp.Union) and not side.args.get("distinct") and _holds(side, {"this", "expression"}):
            sides += [side.expression, side.this]
        elif isinstance(side, exp.Select) and _holds(side, {"expressions"}):
            leaves.append(side)
        else:
            return None
    shown = leaves[0].expressions
    if any(has_aggregate(e) or e.find(exp.Query, exp.Window) for leaf in leaves for e in leaf.expressions):
        return None
    names = [e.alias or default_name(e.unalias(), i) for i, e in enumerate(shown)]
    if len(leaves) == 1 and len(shown) == 1 and isinstance(shown[0].unalias(), exp.Explode):
        found = _elements(shown[0].unalias().this)
        return None if found is None else ([shown[0].alias or "unnest"], [[e] for e in found])
    return names, [[e.unalias() for e in leaf.expressions] for leaf in leaves]


def _holds(node: exp.Expr, allowed: set[str]) -> bool:
    return all(name in allowed for name, part in node.args.items() if part)


def _elements(node: exp.Expr) -> list[exp.Expr] | None:
    """Return the elements of a list that is written out."""
    if isinstance(node, exp.Array):
        return list(node.expressions) or None
    if not isinstance(node, exp.GenerateSeries):
        return None
    step = node.args.get("step")
    if step is not None and step.key == "interval":
        return _moments(node, step)
    ends = [_whole(node.args.get(name), start) for name, start in (("start", None), ("end", None), ("step", 1))]
    if any(end is None for end in ends):
        return None
    low, high, step = (end for end in ends if end is not None)
    if not step:
        return None
    run = range(low, high if node.args.get("is_end_exclusive") else high + (1 if step > 0 else -1), step)
    if not 0 < len(run) <= MOST_LISTED:
        raise UnsupportedQuery(
            f"A run of numbers has 1 to {MOST_LISTED:,} of them here.", hint="connect a longer list as a public table"
        )
    return [exp.Literal.number(n) for n in run]


def _moments(node: exp.Expr, step: exp.Expr) -> list[exp.Expr] | None:
    """Return the times of a run of days, weeks or months between two written dates."""
    ends = [node.args[name].this if node.args[name].key == "cast" else node.args[name] for name in ("start", "end")]
    count, unit = step.this, step.text("unit").upper().removesuffix("S")
    try:
        start, end = (dt.datetime.fromisoformat(e.name) for e in ends)
        by = int(count.name)
        end.replace(year=end.year + 1 + by)  # no step leaves the calendar
    except (ValueError, TypeError):
        return None
    found: list[dt.datetime] = []
    moment = start
    while unit in _DAYS | _MONTHS and by > 0 and len(found) <= MOST_LISTED:
        if moment > end or (moment == end and node.args.get("is_end_exclusive")):
            break
        found.append(moment)
        months = moment.month - 1 + by * _MONTHS.get(unit, 0)
        first = moment.replace(year=moment.year + months // 12, month=months % 12 + 1, day=1)
        day = min(moment.day, calendar.monthrange(first.year, first.month)[1])
        moment = first.replace(day=day) + dt.timedelta(days=by * _DAYS.get(unit, 0))
    if not 0 < len(found) <= MOST_LISTED:
        return None
    return [exp.cast(exp.Literal.string(m.isoformat(" ")), exp.DataType.Type.TIMESTAMP) for m in found]


_DAYS, _MONTHS = {"DAY": 1, "WEEK": 7}, {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
"""Units of a run of times."""


def _whole(node: exp.Expr | None, default: int | None) -> int | None:
    if node is None:
        return default
    negative = isinstance(node, exp.Neg)
    inner = node.this if negative else node
    if not isinstance(inner, exp.Literal) or inner.is_string or not inner.name.isdigit() or len(inner.name) > 18:
        return None
    return -int(inner.name) if negative else int(inner.name)


def listed_values(names: Sequence[str], rows: Sequence[Sequence[exp.Expr]], context: Context) -> Rows:
    """Return rows that are written out, under no alias; their values are computed here, and known as keys.

    Raises:
        UnknownColumn, UnsupportedQuery: a value that is not written out, or rows that do not fit each other.
    """
    if any(len(row) != len(names) for row in rows):
        raise UnsupportedQuery("Rows that are written out have different lengths.", hint="give each as many values")
    scope = Rows(Constants((), ((),)), ())
    bound = [[bind_row(e, context.names(scope)) for e in row] for row in rows]
    kinds = [_kind([row[i] for row in bound]) for i in range(len(names))]
    cells = tuple(tuple(_value(e, kind) for e, kind in zip(row, kinds, strict=True)) for row in bound)
    columns = tuple(context.fresh(kind) for kind in kinds)
    facts = [_fact([row[i] for row in cells]) for i in range(len(names))]
    items = tuple(Item(n, c, f) for n, c, f in zip(names, columns, facts, strict=True))
    return Rows(Constants(columns, cells), (AliasColumns("", items),))


def _kind(values: Sequence[Expr]) -> Type:
    found = common([e.type for e in values])
    if found is None:
        words = " and ".join(sorted({e.type.word for e in values if e.type}))
        if words:
            raise UnsupportedQuery(f"A column of written rows is {words}.", hint="CAST all of them to one type")
    return found or Type.TEXT


def _value(expr: Expr, kind: Type) -> Scalar:
    assert not columns_of(expr)
    return coerce(expr, kind).of_row({})


def _fact(values: Sequence[Scalar]) -> Fact | None:
    return Values(*dict.fromkeys(values))
