"""Reading a parse tree clause by clause: what is not just the expected shape is an InternalError."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Never

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from discreet.errors import InternalError, UnsupportedQuery


def reject(what: str) -> Never:
    """Stop the query, before anything is charged."""
    raise InternalError(
        f"The second derivation of this query's cost disagrees with the first about {what}. Nothing was charged.",
        hint="please report the query",
    )


def too_deep() -> Never:
    """Refuses a text that nests too far to be read a second time."""
    raise UnsupportedQuery("The query nests too deeply to be read.", hint="write it flatter") from None


def nodes_of(tree: exp.Expr) -> list[exp.Expr]:
    """Return the tree and all that is in it, each before what is in it."""
    found = [tree]
    for node in found:  # which grows
        if type(node) not in _LEAVES:
            for part in node.args.values():
                if isinstance(part, exp.Expr):
                    found.append(part)
                elif type(part) is list:
                    found += [e for e in part if isinstance(e, exp.Expr)]
    return found


_LEAVES = frozenset({exp.Boolean, exp.Identifier, exp.Literal, exp.Null})
"""Nodes that have no others in them."""


def columns_in(e: exp.Expr) -> list[exp.Column]:
    """Every column that is named in the expression."""
    return [node for node in nodes_of(e) if isinstance(node, exp.Column)]


_SHEDS = (exp.Where, exp.Qualify, exp.Limit, exp.Offset, exp.Distinct, exp.Group, exp.Having, exp.Join, exp.TableSample)
"""Clauses after which a view has more or fewer rows than its source."""


@lru_cache(maxsize=64)
def keeps_rows(view: str) -> bool:
    """Whether each part of a view reads a table, a frame or Parquet, whose readers leave no row out, and keeps all."""
    tree = read(view)
    read_from = [f.this for f in tree.find_all(exp.From)]
    return tree.find(*_SHEDS) is None and all(
        type(t) is exp.Table and (type(t.this) is exp.Identifier or type(t.this) is exp.ReadParquet) for t in read_from
    )


def holds_only(node: exp.Expr, allowed: Collection[str]) -> bool:
    """Whether the node has nothing but these parts."""
    return all(name in allowed for name, part in node.args.items() if part)


def only(select: exp.Expr, allowed: Collection[str]) -> None:
    """Only these clauses."""
    if not holds_only(select, allowed):
        reject("a clause in a place where none belongs")


def is_column(e: exp.Expr, table: str, name: str) -> bool:
    """Whether it is just this column, written with this table's alias ("" for none)."""
    return (
        type(e) is exp.Column
        and type(e.this) is exp.Identifier
        and holds_only(e, {"this", "table"})
        and (e.table, e.name) == (table, name)
    )


def is_known(e: exp.Expr, table: str, name: str) -> bool:
    """Whether it is just NOT x IS NULL, of this column."""
    if type(e) is not exp.Not or type(e.this) is not exp.Is or type(e.this.expression) is not exp.Null:
        return False
    return is_column(e.this.this, table, name)


def text_of(e: exp.Expr) -> exp.Expr | None:
    """Return the x of CAST(x AS text), which is all that the expression is; None of any other."""
    if type(e) is not exp.Cast or not holds_only(e, {"this", "to"}) or not holds_only(e.to, {"this"}):
        return None
    found: exp.Expr = e.this
    return found if e.to.this is exp.DataType.Type.TEXT else None


def counts_rows(e: exp.Expr) -> bool:
    """Whether it is just count(*)."""
    return (
        type(e) is exp.Count
        and holds_only(e, {"this", "big_int"})
        and type(e.this) is exp.Star
        and holds_only(e.this, ())
    )


def alias_of(node: exp.Expr) -> str:
    """Return the alias of a table or of a query in FROM; one that renames columns is refused."""
    alias = node.args.get("alias")
    if type(alias) is not exp.TableAlias or not holds_only(alias, {"this"}):
        reject("what is read")
    return str(alias.name)


def stages_of(tree: exp.Select) -> dict[str, exp.Expr]:
    """Return the stages before the last SELECT, by name; one that renames its columns is refused."""
    listed = tree.args.get("with_")
    if listed is None or not holds_only(listed, {"expressions"}):
        reject("the stages of the query")
    if not all(type(c) is exp.CTE and holds_only(c, {"this", "alias"}) for c in listed.expressions):
        reject("the stages of the query")
    stages = {alias_of(c): c.this for c in listed.expressions}
    if len(stages) != len(listed.expressions) or not apart(stages):
        reject("the stages of the query")
    return stages


def read_from(select: exp.Expr) -> exp.Expr:
    """Return the one table or query that FROM names; joins stand apart."""
    from_ = select.args.get("from_")
    if type(from_) is not exp.From or not holds_only(from_, {"this"}):
        reject("what is read")
    found: exp.Expr = from_.this
    return found


def reads_stage(select: exp.Select, stage: str, allowed: Collection[str]) -> None:
    """Only these clauses, over that stage."""
    only(select, allowed)
    table = read_from(select)
    if type(table) is not exp.Table or not holds_only(table, {"this", "alias"}) or table.name != stage:
        reject("what a stage reads")
    if table.args.get("alias"):
        alias_of(table)


def outputs(select: exp.Select, plain: Sequence[str] = ()) -> dict[str, exp.Expr]:
    """Name → expression of what a stage gives beside the columns that it passes on, which come first.

    The database takes names that differ in upper and lower case for one name, so no two may differ in that alone.
    """
    passed = select.expressions[: len(plain)]
    if not are_columns(passed, plain):
        reject("the columns that a stage passes on")
    rest = select.expressions[len(plain) :]
    named = {e.alias: e.this for e in rest if type(e) is exp.Alias}
    if not apart([*plain, *(e.alias for e in rest)]) or len(named) != len(rest):
        reject("the names of a stage's columns")
    return named


def apart(names: Collection[str]) -> bool:
    """Whether no two names are one to the database, to which upper and lower case are the same."""
    return len({name.casefold() for name in names}) == len(names)


def are_columns(found: Sequence[exp.Expr], names: Sequence[str]) -> bool:
    """Whether these are just the stage's own columns: `x.u` might be a field of the column x."""
    return len(found) == len(names) and all(map(is_column, found, [""] * len(names), names))


def grouped_by(select: exp.Select, keys: Sequence[str]) -> None:
    """GROUP BY is exactly these columns."""
    group = select.args.get("group")
    if group is not None:
        only_expressions(group)
    if not are_columns(group.expressions if group is not None else [], keys):
        reject("what is grouped by")


def only_expressions(group: exp.Expr) -> None:
    """Check that it is a plain GROUP BY: no ALL, no grouping sets."""
    if not holds_only(group, {"expressions"}):
        reject("what is grouped by")


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return the terms of a condition that all have to hold."""
    if condition is None:
        return []
    return list(condition.flatten()) if type(condition) is exp.And else [condition]


def filters(select: exp.Select) -> list[exp.Expr]:
    """Return the terms of WHERE that all have to hold."""
    where = select.args.get("where")
    return [] if where is None else conjuncts(where.this)


def known_columns(e: exp.Expr, names: Iterable[str], table: str | None, joined: Iterable[str] = ()) -> None:
    """Every column in the expression is one of these, of that stage, or of a list of keys."""
    known, lists = set(names), set(joined)
    for column in columns_in(e):
        if not holds_only(column, {"this", "table"}):
            reject("a column that is not there")
        own = column.table == (table or "") and column.name in known
        if not own and not (column.table in lists and column.name in ("g", "v")):
            reject("a column that is not there")


_PLAIN = (
    "Column Identifier Literal Boolean Null DataType Var Paren Neg Not And Or EQ NEQ GT GTE LT LTE NullSafeEQ Is In "
    "Between Like ILike Add Sub Mul Div IntDiv Mod Pow Abs Sign Sqrt Ln Log Exp Floor Ceil Round Least Greatest "
    "Coalesce Nullif Case If Cast TryCast Try DPipe Contains StartsWith EndsWith Substring Trim Length Lower Upper "
    "TimestampTrunc Trunc Radians Degrees Cbrt Sin Cos Tan Asin Acos Atan Atan2 ConcatWs Left Right SplitPart Replace "
    "Pad StrPosition Ascii Unicode Escape RegexpLike RegexpFullMatch RegexpExtract RegexpReplace TimeToStr ToDays "
    "DateDiff DateFromParts LastDay"
)
_OF_ONE_ROW = frozenset(getattr(exp, name) for name in _PLAIN.split())
_NAMED = frozenset({"isfinite", "strlen", "date_part", "date_sub", "to_months", "to_microseconds"})


def is_written(e: exp.Expr, number: int) -> bool:
    """Whether it is just this number, at least 0, as it is written in decimals."""
    return type(e) is exp.Literal and not e.is_string and e.name == str(number)


def of_one_row(e: exp.Expr) -> None:
    """Every node is one of the functions whose value depends on one row alone, the same whenever it is asked."""
    for node in nodes_of(e):
        named = type(node) is exp.Anonymous and node.name.lower() in _NAMED
        if type(node) not in _OF_ONE_ROW and not named and not is_result(node):
            reject("a function that may look beyond one row")


def whole_constant(e: exp.Expr) -> int:
    """Return a whole number, as it stands in the text."""
    inner = e.this if type(e) is exp.Neg else e
    if type(inner) is not exp.Literal or inner.is_string or not inner.name.isdigit():
        reject("a bound that is not a whole constant")
    return -int(inner.name) if type(e) is exp.Neg else int(inner.name)


def is_secret(e: exp.Expr) -> bool:
    """Whether a node is the place of the account's key: other parameters stand for results that are fed back."""
    return type(e) is exp.Placeholder and e.name == "secret"


def is_result(e: exp.Expr) -> bool:
    """Whether a node is a result that is fed back, read as a value of a type: the same for all rows, and no bound."""
    return type(e) is exp.Placeholder and e.name.startswith("fed_") and type(e.parent) is exp.TryCast


def read(sql: str) -> exp.Expr:
    """Return the statement's tree.

    Raises:
        InternalError: it is no statement.
        UnsupportedQuery: it nests too deeply.
    """
    try:
        return sqlglot.parse_one(sql, dialect="duckdb")
    except RecursionError:
        too_deep()
    except SqlglotError:
        reject("the shape of the query")


_PARTS = {  # what each node of a statement may have in it
    "": "Null RowNumber Rank DenseRank PercentRank CumeDist Star",
    "this": "Abs Acos Ascii Asin Atan Avg Boolean Cbrt Ceil Cos DataType Degrees Exp Explode FirstValue Floor From "
    "LastDay LastValue Length Ln LogicalAnd LogicalOr Lower Max Min Neg Not Ntile Paren Placeholder Qualify Radians "
    "Sign Sin Sqrt Sum Tan ToDays Trunc Try Unicode Upper Var Where",
    "this expression": "Add And Atan2 Contains Div EQ EndsWith Escape Filter GT GTE ILike IntDiv Is LT LTE Left Like "
    "Log Mod Mul NEQ NullSafeEQ Nullif Or Pow Right Split StartsWith Sub Union",
    "this expressions": "Anonymous Coalesce In Order",
    "expressions": "Distinct Group GroupingSets Tuple With",
    "this expressions ignore_nulls": "Greatest Least",
    "this alias": "Alias CTE Subquery",
    "alias expressions": "Values",
    "this db alias": "Table",
    "this columns": "TableAlias",
    "this on side kind": "Join",
    "this table": "Column",
    "this quoted": "Identifier",
    "this is_string": "Literal",
    "distinct expressions from_ group joins qualify where with_": "Select",
    "this to": "Cast",
    "this to safe": "TryCast",
    "ifs default": "Case",
    "this true": "If",
    "this low high": "Between",
    "this big_int": "Count",
    "this desc nulls_first": "Ordered",
    "this partition_by order over spec": "Window",
    "kind start start_side end end_side": "WindowSpec",
    "this offset default": "Lag Lead",
    "start end is_end_exclusive": "GenerateSeries",
    "this expression safe": "DPipe",
    "expressions safe coalesce": "ConcatWs",
    "this expression unit date_part_boundary": "DateDiff",
    "year month day": "DateFromParts",
    "this unit": "TimestampTrunc",
    "this format": "TimeToStr",
    "this decimals": "Round",
    "this start length": "Substring",
    "this substr": "StrPosition",
    "this expression position": "Trim",
    "this expression fill_pattern is_left": "Pad",
    "this expression replacement": "Replace",
    "this delimiter part_index": "SplitPart",
    "this expression flag": "RegexpLike",
    "this expression options": "RegexpFullMatch",
    "this expression group parameters null_if_pos_overflow": "RegexpExtract",
    "this expression replacement modifiers single_replace": "RegexpReplace",
}
_KNOWN_PARTS = {
    getattr(exp, name): frozenset(parts.split()) for parts, names in _PARTS.items() for name in names.split()
}


def nothing_unread(nodes: Iterable[exp.Expr]) -> None:
    """Refuses a statement with a node that no reader knows, or with a part of one that none looks at.

    A reader that matches one shape looks at the parts that this shape has. The parser knows more of them for the same
    node (the format of a cast, the sample of a table), and each of them changes what the database does.

    Raises:
        InternalError: there is one.
    """
    for node in nodes:
        known = _KNOWN_PARTS.get(type(node))
        if known is None or any(part and name not in known for name, part in node.args.items()):
            reject("a part of a statement that is not read")


def lengths(sizes: Mapping[str, int], keys: Sequence[str]) -> tuple[int, ...] | None:
    """Return the length of each key's list, in order; None when one comes from none."""
    return tuple(sizes[k] for k in keys) if all(k in sizes for k in keys) else None
