"""The lists of declared keys in the final SQL: constants, each found at most once by a row or a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp

from discreet.verify.kinds import NULL, Kind, is_real, kind_of
from discreet.verify.shapes import (
    alias_of,
    columns_in,
    grouped_by,
    holds_only,
    is_column,
    is_written,
    known_columns,
    of_one_row,
    only,
    outputs,
    read_from,
    reject,
    whole_constant,
)


def key_lists(ctes: Mapping[str, exp.Expr]) -> dict[str, int]:
    """Return the lists of declared keys, with their lengths: constants, each with its place, no value twice."""
    sizes = {}
    for name, select in ctes.items():
        if not name.startswith("key "):
            continue
        if not isinstance(select, exp.Select):
            reject("the list of keys")
        only(select, {"expressions", "from_", "group"})
        grouped_by(select, ["v"])
        if not _are_first_places(select.expressions):
            reject("the list of keys")
        values = read_from(select)
        sizes[name] = _one_by_one(values) if type(values) is exp.Values else _spelled(values, ctes)
    return sizes


def _are_first_places(shown: Sequence[exp.Expr]) -> bool:
    """v, min(g) AS g: each value once, with the first of its places."""
    if len(shown) != 2 or type(shown[1]) is not exp.Alias or shown[1].alias != "g":
        return False
    first = shown[1].this
    return (
        is_column(shown[0], "", "v")
        and type(first) is exp.Min
        and holds_only(first, {"this"})
        and is_column(first.this, "", "g")
    )


def _one_by_one(values: exp.Values) -> int:
    """How many rows VALUES has, each of them a constant and its place."""
    named = values.args.get("alias")
    if type(named) is not exp.TableAlias or [c.name for c in named.columns] != ["v", "g"]:
        reject("the list of keys")
    for place, row in enumerate(values.expressions):
        if len(row.expressions) != 2 or not is_written(row.expressions[1], place):
            reject("the list of keys")
        of_one_row(row.expressions[0])
        known_columns(row, (), None)
    return len(values.expressions)


def _spelled(table: exp.Expr, ctes: Mapping[str, exp.Expr]) -> int:
    """How many rows a stage `"list …"` has: the constants of a range or of a text that is split, and beside them
    the places 0, 1, …; UNNEST of two lists of one length puts them side by side.
    """
    if type(table) is not exp.Table or not holds_only(table, {"this"}) or not table.name.startswith("list "):
        reject("the list of keys")
    select = ctes.get(table.name)
    if not isinstance(select, exp.Select):
        reject("the list of keys")
    only(select, {"expressions"})
    given = outputs(select)
    if list(given) != ["v", "g"]:
        reject("the list of keys")
    values, places = given["v"], _range(_unnested(given["g"]))
    if type(values) is exp.TryCast:  # which never fails, whatever the constants are
        if not holds_only(values, {"this", "to", "safe"}) or not values.to.is_type(*_SCALARS):
            reject("the list of keys")
        values = values.this
    listed = _unnested(values)
    count = _pieces(listed) if type(listed) is exp.Split else len(_range(listed))
    if places != range(count):
        reject("the list of keys")
    return count


_KIND = exp.DataType.Type
_SCALARS = (_KIND.BIGINT, _KIND.DOUBLE, _KIND.DATE, _KIND.TIMESTAMPNTZ)


def _unnested(e: exp.Expr) -> exp.Expr:
    """Return the x of unnest(x)."""
    if type(e) is not exp.Explode or not holds_only(e, {"this"}):
        reject("the list of keys")
    inner: exp.Expr = e.this
    return inner


def _range(e: exp.Expr) -> range:
    """range(a, b): whole constants from a to just before b."""
    if type(e) is not exp.GenerateSeries or not holds_only(e, {"start", "end", "is_end_exclusive"}):
        reject("the list of keys")
    if e.args.get("is_end_exclusive") is not True:
        reject("the list of keys")
    return range(whole_constant(e.args["start"]), whole_constant(e.args["end"]))


def _pieces(split: exp.Expr) -> int:
    """Of how many pieces string_split(text, separator) is: both are constants."""
    if not holds_only(split, {"this", "expression"}):
        reject("the list of keys")
    text, separator = (_constant_text(e) for e in (split.this, split.args.get("expression")))
    return len(text.split(separator))


def _constant_text(e: exp.Expr | None) -> str:
    if type(e) is not exp.Literal or not e.is_string or not e.name:
        reject("the list of keys")
    return str(e.name)


def joined(select: exp.Select, ctes: Mapping[str, exp.Expr], reads: str, *, outer: bool = False) -> dict[str, str]:
    """Alias → list of keys, for lists that are joined on equality with their values and so match at most once.

    `reads` is the alias of the rows or groups that are looked up; with `outer`, those that match nothing may be kept,
    each of them once. The places that a row has in lists that were joined before follow from the row, and may be looked
    up as well.
    """
    joins, found = select.args.get("joins") or [], dict[str, str]()
    for j in joins:
        found[_alias(j, ctes, reads, found, outer=outer)] = str(j.this.name)
    if len(found) != len(joins):
        reject("what is joined")
    return found


def _alias(join: exp.Expr, ctes: Mapping[str, exp.Expr], reads: str, before: Mapping[str, str], *, outer: bool) -> str:
    table, on = join.this, join.args.get("on")
    if not holds_only(join, {"this", "on", *(["side"] if outer else [])}) or type(table) is not exp.Table:
        reject("what is joined")
    if join.args.get("side") not in (None, "", "LEFT"):
        reject("what is joined")
    if not table.name.startswith("key ") or table.name not in ctes or not holds_only(table, {"this", "alias"}):
        reject("what is joined")
    if on is None or type(on) not in (exp.EQ, exp.NullSafeEQ) or type(on.expression) is not exp.Column:
        reject("a key that a group could match twice")
    if (on.expression.table, on.expression.name) != (alias_of(table), "v"):
        reject("a key that a group could match twice")
    if any(c.table != reads and not (c.table in before and c.name == "g") for c in columns_in(on.this)):
        reject("a key that a group could match twice")
    return alias_of(table)


def finds_one(sql: str, columns: Mapping[str, Kind]) -> bool:
    """Whether each list is compared with keys of its own type, in a text that has been found to be bounded.

    A list holds each value once. The database compares values of two types by casting one of them, and different ones
    may become the same: whole numbers as doubles, texts as numbers. Where each row is a unit, one that finds two values
    would be in two groups, with nothing after it that bounds them.

    Args:
        sql: a statement over one table in which each row is a unit.
        columns: the table's columns, with the types as which they are read.
    """
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    stages = {stage.alias: stage.this for stage in tree.find_all(exp.CTE)}

    def kind(column: exp.Column) -> Kind:
        if column.table == "s":
            return columns.get(column.name)
        found = {e.alias: e.this for e in stages["unit bounded"].expressions}
        return kind_of(found[column.name], kind)

    for join in tree.find_all(exp.Join):
        key, listed = _family(kind_of(join.args["on"].this, kind)), _listed(stages, join.this.name)
        if listed is None or not listed <= {key} or key is None:
            return False
    return True


def _listed(stages: Mapping[str, exp.Expr], name: str) -> set[Kind] | None:
    """Return the types of the values in a list; None where one is not known."""
    values = stages[name].args["from_"].this
    if type(values) is exp.Values:
        kinds = {_family(kind_of(row.expressions[0], _nothing)) for row in values.expressions} - {NULL}
    else:
        value = stages[values.name].expressions[0].this
        given = value.this if type(value) is exp.TryCast else value
        kinds = {"BIGINT" if type(given.this) is exp.GenerateSeries else "VARCHAR"}
        kinds = {_family(kind_of(value, _nothing))} if value is not given else kinds
    return None if None in kinds else kinds


def _family(kind: Kind) -> Kind:
    """Return a type, in which all that are compared without a loss are one."""
    return "DOUBLE" if is_real(kind) else "BIGINT" if kind == "HUGEINT" else kind


def _nothing(column: exp.Column) -> Kind:
    return None
