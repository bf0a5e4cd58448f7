"""Window functions inside: over the rows of one unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Never

from sqlglot import exp

from discreet.catalog.schema import Fact
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.bind import call, coerce
from discreet.query.expr import Call, Column, Expr, Literal
from discreet.query.parse import whole_number
from discreet.query.relation.context import Context
from discreet.query.relation.grouping import by_caps
from discreet.query.relation.names import Item, fact_of
from discreet.query.relation.node import Frame, Node, Over, Project, Windows, fields, is_owned, of_row_units
from discreet.query.relation.stage import Stage, counted, still


def with_windows(stage: Stage, asked: Sequence[exp.Expr], where: Expr | None, context: Context) -> Stage:
    """Return the rows that meet a condition, with the window functions of the asked expressions beside them.

    Raises:
        UnsupportedQuery: a window that looks beyond one unit, or that is not supported.
    """
    windows = [p for e in asked for w in e.find_all(exp.Window) for p in _halves(w)]
    found: dict[exp.Expr, _Window] = {w: _read(w, stage) for w in windows}
    known: dict[exp.Expr, Expr] = {}
    items: list[Item] = []
    node: Node = stage.node
    for batch in _batches(found):
        node, places = _beside(node, [found[w] for w in batch], where, context)
        known |= {w: _as_read(found[w].name, c) for w, c in zip(batch, places, strict=True)}
        items += [_item(found[w], c, stage, context) for w, c in zip(batch, places, strict=True)]
        where = None

    def leaf(e: exp.Expr, depth: int) -> Expr | None:
        if not isinstance(e, exp.Window):
            return stage.leaf(e, depth)
        values = [known[p] for p in _halves(e)]
        return values[0] if len(values) == 1 else call("/", values)

    return Stage(node, (*stage.items, *items), leaf)


@dataclass(frozen=True, slots=True)
class _Window:
    """A window function over expressions of a stage; `kind` is the type of its values."""

    name: str
    arguments: tuple[Expr, ...]
    partition: tuple[Expr, ...]
    order: tuple[tuple[Expr, bool, bool], ...]
    kind: Type
    frame: Frame | None = None

    @property
    def tied(self) -> bool:
        """Whether the order of ties shows in it."""
        return self.name in _TIES or self.frame is not None


def _halves(window: exp.Window) -> list[exp.Window]:
    """Return a mean as a sum and a count, each exact; anything else as it is."""
    mean = window.this
    if not isinstance(mean, exp.Avg) or mean.args.keys() - {"this"}:
        return [window]
    halves = [window.copy(), window.copy()]
    for half, kind in zip(halves, (exp.Sum, exp.Count), strict=True):
        half.set("this", kind(this=mean.this.copy()))
    return halves


def _batches(found: Mapping[exp.Expr, _Window]) -> list[list[exp.Expr]]:
    """Windows that may stand beside each other: two orders in one SELECT would pair the numbers of equal rows as
    the database happens to, where the order of ties shows.
    """
    free = [w for w, window in found.items() if not window.tied]
    orders = dict.fromkeys((v.partition, v.order) for v in found.values() if v.tied)
    tied = [[w for w, v in found.items() if v.tied and (v.partition, v.order) == order] for order in orders]
    return [free + tied[0], *tied[1:]] if tied else [free]


def _beside(node: Node, windows: Sequence[_Window], where: Expr | None, context: Context) -> tuple[Node, list[Column]]:
    """Return the rows with these windows beside them, and the windows' columns."""
    kept = fields(node)
    below: dict[Expr, Column] = {}

    def column(e: Expr) -> Column:
        if e not in below:
            below[e] = context.fresh(e.type or Type.TEXT)
        return below[e]

    columns: list[tuple[Column, Over]] = []
    for w in windows:
        # what a function looks at is a column, constant or not; its other arguments are written constants
        looked_at = 0 if w.name == "ntile" else 1
        arguments = (*(column(a) for a in w.arguments[:looked_at]), *w.arguments[looked_at:])
        terms = tuple((column(e), descending, nulls_first) for e, descending, nulls_first in w.order)
        partition = tuple(column(e) for e in w.partition)
        over = Over(w.name, arguments, partition, terms, w.tied, w.frame)
        columns.append((context.fresh(w.kind), over))
    outputs = (*((c, still(c)) for c in kept), *((c, still(e)) for e, c in below.items()))
    source = Project(node, outputs, where)
    return Windows(source, tuple((c, c) for c in kept), tuple(columns)), [c for c, _ in columns]


def _item(window: _Window, column: Column, stage: Stage, context: Context) -> Item:
    """Return a window's column: a place among a unit's rows is bounded as their number is."""
    name = window.name
    if name in _COUNTED:
        name = "count" if window.frame is None else "count in a frame"
    argument = window.arguments[0] if window.arguments and not _has_default(window) else None
    return Item(window.name, column, _fact(window, stage), capped=by_caps(name, argument, stage, context))


def _fact(window: _Window, stage: Stage) -> Fact | None:
    """Return what is known of a value that stands in another row of the unit, or in none."""
    if window.name not in ("min", "max", "first_value", "last_value", "lag", "lead"):
        return None
    found = Item("", None, fact_of(window.arguments[0], stage.facts)).nullable().fact
    return None if _has_default(window) else found


def _has_default(window: _Window) -> bool:
    """Whether it is LAG or LEAD with a third argument."""
    return window.name in ("lag", "lead") and len(window.arguments) == _WITH_DEFAULT


_WITH_DEFAULT = 3


def _as_read(name: str, column: Column) -> Expr:
    """Return the column in 64 bits: a sum of whole numbers has 128, and is NULL beyond; places are never below 0."""
    if name == "sum":
        return Call("as bigint", (column,), Type.INT)
    return counted(column) if name in _COUNTED else column


def _read(node: exp.Window, stage: Stage) -> _Window:
    if node.args.get("alias") or node.args.get("first"):
        raise UnsupportedQuery(
            "Named windows are not supported here.", hint="write the window out: OVER (PARTITION BY …)"
        )
    for name, part in node.args.items():
        if part and name not in ("this", "partition_by", "order", "over", "spec"):
            raise UnsupportedQuery("This form of a window is not supported here.", hint="write OVER (PARTITION BY …)")
    partition = [stage.bind(e) for e in node.args.get("partition_by") or []]
    items = [stage.item(e) for e in partition]
    if is_owned(stage.node) and not any(i is not None and i.holds_unit for i in items):
        holders = [i.name for i in stage.items if i.holds_unit]
        by = f"PARTITION BY {holders[0] if holders else 'the unit column'}, alone or with other columns"
        by = "GROUP BY, since each row is a unit of its own" if of_row_units(stage.node) else by
        ordered = node.args["order"].expressions[0].this.sql("duckdb") if node.args.get("order") else ""
        buckets = f", and for buckets write CASE WHEN {ordered} < … with the quantiles that it gave"
        more = buckets if isinstance(node.this, exp.Ntile) else ""
        raise UnsupportedQuery(
            "A window over several people's rows would show one person's rows beside another's.",
            hint=f"for a quantile, ask for it: QUANTILE_CONT({ordered}, 0.5){more}; else {by}" if ordered else by,
        )
    order = node.args.get("order")
    terms = [
        (stage.bind(o.this), bool(o.args.get("desc")), bool(o.args.get("nulls_first")))
        for o in (order.expressions if order is not None else [])
    ]
    name, arguments, kind = _function(node.this, stage, ordered=bool(terms))
    frame = read_frame(node.args.get("spec"), name, ordered=bool(terms))
    if frame == (None, None) and name in _SUMS.values():
        frame, terms = None, []  # all rows, in whatever order
    return _Window(name, tuple(arguments), tuple(partition), tuple(terms), kind, frame)


_COUNTED = {"row_number", "rank", "dense_rank", "ntile", "count"}
_TIES = {"row_number", "ntile", "lag", "lead", "first_value", "last_value"}
"""The functions in which the order of ties shows."""
_PLACES = {exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank"}
_SUMS = {exp.Count: "count", exp.Sum: "sum", exp.Min: "min", exp.Max: "max"}
_KNOWN = "there are ROW_NUMBER, RANK, DENSE_RANK, NTILE, LAG, LEAD, FIRST_VALUE, LAST_VALUE, COUNT, SUM, AVG, MIN, MAX"


def _function(node: exp.Expr, stage: Stage, *, ordered: bool) -> tuple[str, list[Expr], Type]:
    """Return the function's name, its arguments and the type of its values."""
    kind = type(node)
    parts = {name for name, part in node.args.items() if part}
    if kind in _PLACES and not parts:
        return _PLACES[kind], [], Type.INT
    if kind is exp.Ntile and parts == {"this"}:
        return "ntile", [_number(node.this, least=1)], Type.INT
    if kind in (exp.Lag, exp.Lead) and parts <= {"this", "offset", "default"}:
        return _shifted(node, stage)
    if kind in (exp.FirstValue, exp.LastValue) and parts == {"this"} and ordered:
        value = stage.bind(node.this)
        name = "first_value" if kind is exp.FirstValue else "last_value"
        return name, [value], value.type or Type.TEXT
    if kind in _SUMS and parts <= {"this", "big_int"}:
        return _summed(_SUMS[kind], node.args.get("this"), stage)
    return _refuse(node)


def _shifted(node: exp.Expr, stage: Stage) -> tuple[str, list[Expr], Type]:
    value = stage.bind(node.this)
    kind = value.type or Type.TEXT
    offset, default = node.args.get("offset"), node.args.get("default")
    arguments: list[Expr] = [value, Literal(1, Type.INT) if offset is None else _number(offset, least=0)]
    if default is not None:
        other = coerce(stage.bind(default), kind)
        if not other.is_literal:
            raise UnsupportedQuery(
                "The default of LAG and LEAD has to be a constant.", hint="use coalesce(lag(x) OVER (…), y)"
            )
        arguments.append(other)
    return "lag" if isinstance(node, exp.Lag) else "lead", arguments, kind


def _summed(name: str, argument: exp.Expr | None, stage: Stage) -> tuple[str, list[Expr], Type]:
    match argument:
        case None | exp.Star() | exp.Literal() if name == "count":
            return name, [], Type.INT
        case None | exp.Star() | exp.Distinct() | exp.Order():
            raise UnsupportedQuery(f"This form of {name.upper()} is not supported as a window.", hint=_KNOWN)
        case _:
            value = stage.bind(argument)
    if name == "count":
        return name, [value], Type.INT
    if name in ("min", "max"):
        return name, [still(value)], value.type or Type.TEXT
    if value.type is Type.BOOL:
        value = coerce(value, Type.INT)
    if value.type is not Type.INT:
        raise UnsupportedQuery(
            "Windows add whole numbers only: a sum of others would depend on the order of rows in its last digit.",
            hint="SUM(CAST(100 * x AS BIGINT)) OVER (…), or group by the unit and join",
        )
    return name, [value], Type.INT


def _number(node: exp.Expr, *, least: int) -> Literal:
    number = whole_number(node, _DIGITS)
    if number is None:
        raise UnsupportedQuery("LAG, LEAD and NTILE take a written whole number.", hint="write LAG(x, 1)")
    if number < least:
        raise UnsupportedQuery("NTILE takes a number above 0.", hint="write NTILE(4)")
    return Literal(number, Type.INT)


_DIGITS = 9


def _refuse(node: exp.Expr) -> Never:
    match node:
        case exp.IgnoreNulls() | exp.RespectNulls():
            _refuse(node.this)
        case exp.Func() if type(node) is not exp.Anonymous:
            name = node.sql_name()
        case _:
            name = node.name
    raise UnsupportedQuery(f"{name.upper()} is not supported as a window in this form.", hint=_KNOWN)


_FRAMED = ("count", "sum", "min", "max", "first_value", "last_value")
"""The functions that look at the rows of a frame; the others look at the whole partition, whatever is written."""


def read_frame(spec: exp.Expr | None, name: str, *, ordered: bool) -> Frame | None:
    """Return the frame of a window function; None where it is SQL's default.

    Raises:
        UnsupportedQuery: a frame that is not supported, or that the function does not look at.
    """
    frame = None if spec is None else _read_frame(spec)
    if frame is None and name == "last_value":
        raise UnsupportedQuery(
            "LAST_VALUE without a frame is the current row's own value.",
            hint="write ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING after ORDER BY, or FIRST_VALUE with "
            "the order turned round",
        )
    if frame is None:
        return None
    if name not in _FRAMED:
        raise UnsupportedQuery(f"{name.upper()} takes no frame.", hint="leave ROWS out of it")
    if not ordered and frame != (None, None):
        raise UnsupportedQuery("A frame of rows needs an order.", hint="add ORDER BY before ROWS")
    return frame


def _read_frame(spec: exp.Expr) -> Frame | None:
    start = _end(spec.args.get("start"), spec.args.get("start_side"), before=True)
    end = 0 if spec.args.get("end") is None else _end(spec.args["end"], spec.args.get("end_side"), before=False)
    if spec.args.get("exclude"):
        raise UnsupportedQuery(
            "EXCLUDE in a window is not supported here.", hint="take the row's own part off again: SUM(x) OVER (…) - x"
        )
    if start is None and end is None:
        return None, None
    if spec.args.get("kind") != "ROWS":
        if spec.args.get("kind") == "RANGE" and (start, end) == (None, 0):
            return None
        raise UnsupportedQuery(
            "Frames of windows are supported as ROWS only, not as RANGE and GROUPS.",
            hint="ROWS BETWEEN 6 PRECEDING AND CURRENT ROW; or join the table with itself on the range",
        )
    if start is not None and end is not None and start > end:
        raise UnsupportedQuery("This frame ends before it starts.", hint="write the earlier row first")
    return start, end


def _end(bound: object, side: object, *, before: bool) -> int | None:
    if bound == "UNBOUNDED":
        if side != ("PRECEDING" if before else "FOLLOWING"):
            _refuse_end()
        return None
    if bound == "CURRENT ROW":
        return 0
    rows = whole_number(bound, _DIGITS)
    if rows is None:
        _refuse_end()
    return rows if side == "FOLLOWING" else -rows


def _refuse_end() -> Never:
    raise UnsupportedQuery(
        "A frame is counted in written whole numbers of rows.",
        hint="ROWS BETWEEN 6 PRECEDING AND CURRENT ROW, or UNBOUNDED PRECEDING, UNBOUNDED FOLLOWING",
    )
