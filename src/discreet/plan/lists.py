"""The lists of declared keys in the final SQL: constants, each found at most once by a row or a group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sqlglot import exp

from discreet.plan.shapes import (
    alias_of,
    disagree,
    grouped_by,
    holds_only,
    known_columns,
    of_one_row,
    only,
    read_from,
)


def key_lists(ctes: Mapping[str, exp.Expr]) -> dict[str, int]:
    """The lists of declared keys, with their lengths: constants, each with its place, no value twice."""
    sizes = {}
    for name, select in ctes.items():
        if not name.startswith("key "):
            continue
        if not isinstance(select, exp.Select):
            disagree("the list of keys")
        only(select, {"expressions", "from_", "group"})
        grouped_by(select, ["v"])
        values = read_from(select)
        if type(values) is not exp.Values:
            disagree("the list of keys")
        written = [e.sql(dialect="duckdb").lower() for e in select.expressions]
        if written != ["v", "min(g) as g"] or [c.name for c in values.args["alias"].columns] != ["v", "g"]:
            disagree("the list of keys")
        for place, row in enumerate(values.expressions):
            if len(row.expressions) != 2 or str(row.expressions[1]) != str(place):
                disagree("the list of keys")
            of_one_row(row.expressions[0])
            known_columns(row, (), None)
        sizes[name] = len(values.expressions)
    return sizes


def joined(select: exp.Select, ctes: Mapping[str, exp.Expr], reads: str) -> dict[str, str]:
    """Alias → list of keys, for lists that are joined on equality with their values and so match at most once.

    `reads` is the alias of the rows or groups that are looked up.
    """
    joins = select.args.get("joins") or []
    found = {_alias(j, ctes, reads): str(j.this.name) for j in joins}
    if len(found) != len(joins):
        disagree("what is joined")
    return found


def combinations(sizes: Mapping[str, int], keys: Sequence[str]) -> int | None:
    """How many groups there are when each key comes from a list of that length; None when one comes from none."""
    return math.prod(sizes[k] for k in keys) if all(k in sizes for k in keys) else None


def _alias(join: exp.Expr, ctes: Mapping[str, exp.Expr], reads: str) -> str:
    table, on = join.this, join.args.get("on")
    if not holds_only(join, {"this", "on"}) or type(table) is not exp.Table:
        disagree("what is joined")
    if (
        not table.name.startswith("key ")
        or table.name not in ctes
        or not holds_only(table, {"this", "alias"})
    ):
        disagree("what is joined")
    if on is None or type(on) not in (exp.EQ, exp.NullSafeEQ) or type(on.expression) is not exp.Column:
        disagree("a key that a group could match twice")
    if (on.expression.table, on.expression.name) != (alias_of(table), "v"):
        disagree("a key that a group could match twice")
    if any(c.table != reads for c in on.this.find_all(exp.Column)):
        disagree("a key that a group could match twice")
    return alias_of(table)
