"""GROUP BY inside: aggregates over the rows of one unit and key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from discreet.catalog.schema import Fact, Range, Values
from discreet.catalog.types import Type
from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.query.bind import as_condition, bind, bind_row, call, coerce
from discreet.query.expr import Call, Column, Expr, Literal, columns_of
from discreet.query.keys import domain
from discreet.query.parse import has_aggregate, is_aggregate
from discreet.query.ranges import range_of
from discreet.query.relation.context import Context, Rows
from discreet.query.relation.names import CONSTANT, FARTHEST, HIDDEN, Item, Names, fact_of
from discreet.query.relation.node import Fold, Group, is_owned
from discreet.query.relation.stage import Stage, counted, of_rows, still


def grouped(rows: Rows, keys: Sequence[exp.Expr], asked: Sequence[exp.Expr], context: Context) -> Stage:
    """Return the rows grouped by the unit and keys, with the aggregates that the asked expressions need.

    Raises:
        UnsupportedQuery: keys that do not hold the unit, or an aggregate that is not supported inside.
    """
    names = context.names(rows)
    below = of_rows(rows.node, names)
    known: dict[Expr, Item] = {}
    bound: list[tuple[Column, Expr]] = []
    # a value that all rows share may stand beside aggregates
    shared = [c for e in asked for c in e.find_all(exp.Column) if c.table.startswith(CONSTANT)]
    for key in (*keys, *shared):
        expr = bind_row(key, names)
        if expr in known or not columns_of(expr):
            continue
        column = context.fresh(expr.type or Type.TEXT)
        known[expr] = below.named(key.name, column, expr)
        bound.append((column, still(expr)))
    if is_owned(rows.node) and not any(i.holds_unit for i in known.values()):
        _refuse_over_people(rows)
    folds = folds_of(asked, below, context)
    if not folds and not known:  # one row of a public table, whatever it holds
        folds[Fold("count", None)] = Item("count", context.fresh(Type.INT))

    def leaf(e: exp.Expr, _depth: int) -> Expr | None:
        if is_aggregate(e):
            fold, _ = _read(e, below)
            return value_of(fold, column_of(folds[fold]))
        if isinstance(e, exp.Literal | exp.Boolean | exp.Null) or has_aggregate(e) or e.find(exp.Window):
            return None
        try:
            row = bind_row(e, names)
        except UnknownColumn:
            if isinstance(e, exp.Column | exp.Anonymous):
                raise
            return None
        if row in known:
            return known[row].read
        if isinstance(e, exp.Column):
            what = "A subquery" if e.table.startswith(HIDDEN) else f"The column {e.name!r}"
            raise UnsupportedQuery(f"{what} must be in GROUP BY or inside an aggregate.", hint="add it to GROUP BY")
        return None

    constant = {i.read for e in rows.entries if e.alias.startswith(CONSTANT) for i in e.items}
    once = is_owned(rows.node) and all(i.is_unit or e in constant for e, i in known.items())
    node = Group(rows.node, tuple(bound), tuple((column_of(i), f) for f, i in folds.items()), once)
    items = (*known.values(), *folds.values())
    return Stage(node, items, leaf)


def folds_of(asked: Sequence[exp.Expr], below: Stage, context: Context) -> dict[Fold, Item]:
    """Return the aggregates that the expressions need, and a column for each with what is known of it.

    Raises:
        UnsupportedQuery: an aggregate that is not supported inside.
    """
    found: dict[Fold, Item] = {}
    for aggregate in _folds(asked):
        fold, kind = _read(aggregate, below)
        if fold not in found:
            capped = by_caps(fold.name, fold.argument, below, context)
            found[fold] = Item(fold.name, context.fresh(kind), _fact(fold, below), capped=capped)
    return found


def column_of(item: Item) -> Column:
    """Return the column that holds an aggregate."""
    assert isinstance(item.expr, Column)
    return item.expr


def by_caps(name: str, argument: Expr | None, below: Stage, context: Context) -> Range | None:
    """Return the range that an aggregate of one unit's rows has by the contribution bounds: over at most `max_rows`
    rows, as in a group of the result. None where the argument has no range, and for public rows.
    """
    if context.unit.caps is None or not is_owned(below.node):
        return None
    _, rows = context.unit.caps
    if name.startswith("count"):
        values = domain(argument, below.facts, rows) if name == "count distinct" and argument is not None else None
        least = 1 if name == "count" and argument is None else 0  # a group has a row
        return Range(least, rows if values is None else min(rows, len(values)))
    if argument is None or not (argument.type and argument.type.is_number):
        return None
    if not name.startswith("sum"):
        return below.capped(argument) if name in _AMONG else None
    low, high = range_of(argument, below.bounded)
    low, high = min(low, low * rows), max(high, high * rows)
    return Range(low, high) if -FARTHEST <= low <= high <= FARTHEST else None


_AMONG = ("min", "max", "avg", "avg distinct", "first_value", "last_value", "lag", "lead")
"""The functions whose value lies where the values do that they look at."""


def bind_over(node: exp.Expr, below: Stage, around: Names, folds: Mapping[Fold, Item]) -> Expr:
    """Return an expression over the aggregates of rows of which there may be none, and over the columns around them.

    Raises:
        UnknownColumn, UnsupportedQuery: see `discreet.errors`.
    """

    def leaf(e: exp.Expr, _depth: int) -> Expr | None:
        if is_aggregate(e):
            fold, _ = _read(e, below)
            value = value_of(fold, column_of(folds[fold]))
            return call("coalesce", [value, Literal(0, Type.INT)]) if fold.name.startswith("count") else value
        if isinstance(e, exp.Column):
            return around.column(e)
        return None

    found = bind(node, leaf, 0)
    return coerce(found, Type.TEXT) if found.type is None else found


def value_of(fold: Fold, column: Column) -> Expr:
    """Return what a column of an aggregate is read as."""
    if fold.name.startswith("count"):
        return counted(column)
    # a sum of whole numbers is 128 bits wide; what leaves 64 is NULL
    whole = fold.name.startswith("sum") and column.type is Type.INT
    return Call("as bigint", (column,), Type.INT) if whole else column


def _folds(asked: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return the outermost aggregates that are no window functions."""
    found: list[exp.Expr] = []

    def walk(node: exp.Expr) -> None:
        if isinstance(node, exp.Window):
            inner = [*node.this.iter_expressions(), *(p for k, p in _parts(node) if k != "this")]
        elif is_aggregate(node):
            found.append(node)
            return
        else:
            inner = list(node.iter_expressions())
        for child in inner:
            walk(child)

    for e in asked:
        walk(e)
    return found


def _parts(node: exp.Expr) -> list[tuple[str, exp.Expr]]:
    return [
        (name, p)
        for name, part in node.args.items()
        for p in (part if isinstance(part, list) else [part])
        if isinstance(p, exp.Expr)
    ]


_PLAIN: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.AnyValue: "min",  # which is any of them, and the same whatever the order
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
}
_INSIDE = "inside there are COUNT, COUNT_IF, SUM, AVG, also of DISTINCT x, MIN, MAX, ANY_VALUE, BOOL_AND and BOOL_OR"


def _read(node: exp.Expr, stage: Stage) -> tuple[Fold, Type]:
    """Return an aggregate, and the type of its values."""
    where = None
    match node:
        case exp.Filter():
            where = as_condition(stage.bind(node.expression.this), "FILTER (WHERE …)")
            node = node.this
    match node:
        case exp.Anonymous(expressions=[of]) if node.name.lower() == "mean":
            node = exp.Avg(this=of)
        case exp.CountIf():
            node = exp.Count(this=exp.If(this=node.this, true=exp.Literal.number(1)))
        case exp.IgnoreNulls(this=exp.AnyValue() as inner):
            node = inner
    name, argument = _PLAIN.get(type(node)), node.args.get("this")
    if name is None:
        word = node.sql_name() if isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous) else node.name
        why = " here: it depends on the order of rows" if isinstance(node, _ORDERED) else ""
        raise UnsupportedQuery(f"{word.upper()} is not supported inside a subquery{why}.", hint=_INSIDE)
    if any(part and place not in ("this", "big_int") for place, part in node.args.items()):
        raise UnsupportedQuery(f"This form of {name.upper()} is not supported inside a subquery.", hint=_INSIDE)
    match argument:
        case exp.Order():
            raise UnsupportedQuery(f"{name.upper()} does not depend on an order.", hint="leave ORDER BY out of it")
        case exp.Distinct():
            if len(argument.expressions) != 1 or name.startswith("bool"):
                raise UnsupportedQuery(
                    f"{name.upper()}(DISTINCT …) is not supported inside a subquery.",
                    hint="take different values of one column: COUNT(DISTINCT x), SUM(DISTINCT x), AVG(DISTINCT x)",
                )
            argument, name = argument.expressions[0], name if name in ("min", "max") else f"{name} distinct"
    match argument:
        case None | exp.Star() | exp.Literal() if name == "count":
            return Fold("count", None if where is None else _kept(Literal(1, Type.INT), where)), Type.INT
        case None | exp.Star():
            raise UnsupportedQuery(f"{name.upper()} needs one column.", hint=f"write {name.upper()}(x)")
    value = _kept(stage.bind(argument), where)
    return _typed(name, value)


def _typed(name: str, value: Expr) -> tuple[Fold, Type]:
    kind = value.type or Type.TEXT
    if name.startswith("count"):
        return Fold(name, value), Type.INT
    if name in ("bool_and", "bool_or"):
        return Fold(name, as_condition(value, name.upper())), Type.BOOL
    if name in ("min", "max"):
        return Fold(name, still(value)), kind
    if kind not in (Type.INT, Type.REAL, Type.BOOL, Type.TEXT):
        raise UnsupportedQuery(f"{name.upper()} needs a number.", hint="CAST the argument to DOUBLE")
    value = value if kind.is_number else coerce(value, Type.INT if kind is Type.BOOL else Type.REAL)
    return Fold(name, still(value)), Type.REAL if name.startswith("avg") else value.type or Type.REAL


def _kept(value: Expr, where: Expr | None) -> Expr:
    return value if where is None else call("case", [where, value, Literal(None, None)])


def _fact(fold: Fold, stage: Stage) -> Fact | None:
    """Return what is known of an aggregate's values: a least, greatest or mean value lies where the values do."""
    if fold.argument is None or fold.name not in ("min", "max", "avg", "avg distinct"):
        return None
    found = fact_of(fold.argument, stage.facts)
    if fold.name.startswith("avg"):
        match found:
            case Range():
                return Range(found.low, found.high)
            case Values() if numbers := [v for v in found.values if isinstance(v, int | float)]:
                return Range(min(numbers), max(numbers))
            case _:
                return None
    return found


def _refuse_over_people(rows: Rows) -> None:
    holders = [i.name for e in rows.entries for i in e.items if i.holds_unit]
    by = f"GROUP BY {holders[0]} too" if holders else "group by the unit's column too"
    raise UnsupportedQuery(
        "A subquery that aggregates over people is a result of its own.",
        hint=f"{by}, so that each row belongs to one person; or ask it as a query and write the result here",
    )


_ORDERED = (exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.ArrayAgg, exp.GroupConcat)
