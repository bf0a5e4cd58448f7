"""What the final SQL says of rows that are handed to a private part, read from the text alone.

Each row that leaves the database is of one person, whose number stands beside it; a person has so many rows at most;
and every other column is a whole number. More is not needed: what a person's rows may be is bounded nowhere here, since
the sum over people drops parts beyond the planned norms (docs/proofs/pipeline.md). This module shares no code with the
writer.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from discreet.verify.derive import PrivateRows, parsed, unit_rows, whole_kind
from discreet.verify.kinds import span_of
from discreet.verify.shapes import are_columns, holds_only, is_secret, reads_stage, reject, whole_constant


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """What the text says.

    Attributes:
        columns: between which whole numbers each column lies.
        rows: how many rows a person has at most; 1 where each row is a unit.
    """

    columns: tuple[tuple[int, int], ...]
    rows: int


def derive_rows(sql: str, source: PrivateRows) -> DerivedRows:
    """Return what the text alone says of the rows of people.

    Raises:
        InternalError: a shape that is not known to keep people apart.
    """
    tree, ctes, source = parsed(sql, source)
    _, row, lists = unit_rows(ctes, source)
    if lists or set(ctes) != {"unit rows"}:
        reject("the stages of the query")
    each = source.unit is None
    names = [f"c{i}" for i in range(len(row) - (0 if each else 1))]
    if set(row) != {*names, *(() if each else ("u",))}:
        reject("the columns of the rows")
    reads_stage(tree, "unit rows", {"expressions", "from_", "with_", "qualify"})
    if not each:
        first = tree.expressions[0].unalias()
        if tree.expressions[0].alias != "p" or not _is_window(first, exp.DenseRank, [], ["u"]):
            reject("whose the rows are")
    shown = tree.expressions if each else tree.expressions[1:]
    if not are_columns(shown, names):
        reject("the columns of the rows")
    for name in names:
        whole_kind(row[name], {})
    spans = []
    for name in names:
        low, high = span_of(row[name], frozenset())
        if not (-_WORD <= low <= high <= _WORD):
            reject("a column that 64 bits may not hold")
        spans.append((int(low), int(high)))
    if each and tree.args.get("qualify") is not None:
        reject("which rows are kept")
    return DerivedRows(tuple(spans), 1 if each else _most(tree, names))


_WORD = 1 << 62


def _most(tree: exp.Select, names: list[str]) -> int:
    """Return the n of QUALIFY row_number() OVER (PARTITION BY u ORDER BY hash(u, columns, $secret), columns) <= n.

    Rows that do not differ in the order do not differ at all, so that which of them is kept changes nothing: what is
    kept of a person follows from that person's rows.
    """
    qualify = tree.args.get("qualify")
    test = None if qualify is None else qualify.this
    if type(test) is not exp.LTE:
        reject("how many rows of a person are kept")
    window = test.this
    if not _is_window(window, exp.RowNumber, ["u"], None):
        reject("how many rows of a person are kept")
    first, *rest = window.args["order"].expressions
    key = first.this
    hashed = type(key) is exp.Anonymous and key.name.lower() == "hash" and key.expressions
    if not hashed or not are_columns(key.expressions[:-1], ["u", *names]):
        reject("the order of a person's rows")
    if not is_secret(key.expressions[-1]) or not are_columns([o.this for o in rest], names):
        reject("the order of a person's rows is not total")
    return whole_constant(test.expression)


def _is_window(e: exp.Expr, function: type[exp.Expr], by: list[str], order: list[str] | None) -> bool:
    """Whether it is this function over these columns, in this order; None for any."""
    if type(e) is not exp.Window or type(e.this) is not function or not holds_only(e.this, ()):
        return False
    if not holds_only(e, {"this", "partition_by", "order", "over"}):
        return False
    ordered = e.args.get("order")
    if type(ordered) is not exp.Order or not holds_only(ordered, {"expressions"}):
        return False
    terms = ordered.expressions
    if not all(type(o) is exp.Ordered and holds_only(o, {"this", "desc", "nulls_first"}) for o in terms):
        return False
    if not are_columns(e.args.get("partition_by") or [], by):
        return False
    return order is None or are_columns([o.this for o in terms], order)
