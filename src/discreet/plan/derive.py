"""What the final SQL says of one unit, read from the text alone.

A grammar of bounded aggregates, written apart from the writer (`bound.py`) and sharing no code with it: a text
that does not fit it in every part is an InternalError. For every text that fits, a unit enters at most `groups`
groups and adds to each integer column of each of them a number within its span, whatever the tables hold; the
argument is in docs/proofs/bounding.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Never

import sqlglot
from sqlglot import exp

from discreet.errors import InternalError
from discreet.plan.reach import Spans, span_of


@dataclass(frozen=True, slots=True)
class Source:
    """The private table: the only thing that the text may read, apart from lists of constants.

    Attributes:
        table: its name.
        columns: the names of its columns.
        unit: the column that says whose a row is; None when each row is a unit.
    """

    table: str
    columns: frozenset[str]
    unit: str | None


@dataclass(frozen=True, slots=True)
class Derived:
    """What the SQL says of one unit.

    Attributes:
        groups: how many groups it can enter; None when the text does not bound it.
        spans: for each integer column, the least and the greatest it can add to a group.
        keys: how many key columns come before them.
        listed: how many groups there can be at all; None when no list of keys limits them.
    """

    groups: int | None
    spans: Spans
    keys: int
    listed: int | None


def derive(sql: str, source: Source) -> Derived:
    """What the text alone says of one unit's reach.

    Raises:
        InternalError: a shape that is not known to be bounded.
    """
    tree, ctes = _parsed(sql)
    keys, sums = _split(tree)
    found = (
        _by_row(tree, ctes, keys, sums, source)
        if source.unit is None
        else _by_unit(tree, ctes, keys, sums, source)
    )
    _read_once(tree, source)
    _never_fails(tree)
    return found


def _never_fails(tree: exp.Select) -> None:
    """A cast to whole numbers fails on what its type does not hold, so outside TRY its argument must be bounded: else
    one person's row would decide whether the question fails.
    """
    for cast in tree.find_all(exp.Cast):
        narrow = type(cast) is exp.Cast and cast.to.is_type("TINYINT", "SMALLINT", "INT", "BIGINT")
        if not narrow or cast.find_ancestor(exp.Try) or isinstance(cast.this, exp.Null | exp.Boolean):
            continue
        if any(math.isinf(end) for end in span_of(cast, frozenset())):
            _disagree("a cast that could fail on some row")


def derive_reports(sql: str, source: Source) -> int:
    """How many numbers the truncation report has, each a count of units and so moved by at most 1.

    Raises:
        InternalError: a shape that is not known to be one.
    """
    tree, ctes = _parsed(sql)
    keys = [e.alias_or_name for e in _stage(ctes, "unit groups").expressions if type(e) is exp.Column][1:]
    stages = _unit_stages(ctes, keys, source)
    totals = _stage(ctes, "unit totals")
    _shaped(tree, "unit totals", {"expressions", "from_", "with_"})
    _shaped(totals, "unit groups", {"expressions", "from_", "group"})
    _grouped_by(totals, ["u"])
    names = {"u"}
    for e in totals.expressions[1:]:
        if type(e.unalias()) not in (exp.Count, exp.Max) or type(e.unalias().this) not in (
            exp.Star,
            exp.Column,
        ):
            _disagree("the report of truncation")
        _known_columns(e, {*keys, *stages.tallies}, None)
        names.add(e.alias)
    for e in tree.expressions:
        counted = e.unalias().this
        if type(counted) is not exp.Filter or counted.this.sql() != "COUNT(*)":
            _disagree("the report of truncation")
        _of_one_row(counted.expression.this)
        _known_columns(counted.expression, names, None)
    _read_once(tree, source)
    return len(tree.expressions)


@dataclass(frozen=True, slots=True)
class _Stages:
    """The first two stages of a text whose units have many rows: the names of the tallies, and which are counts."""

    tallies: frozenset[str]
    counts: frozenset[str]
    listed: dict[str, int]


def _parsed(sql: str) -> tuple[exp.Select, dict[str, exp.Expr]]:
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    listed = tree.args.get("with_")
    if not isinstance(tree, exp.Select) or listed is None or listed.args.get("recursive"):
        _disagree("the shape of the query")
    ctes = {c.alias: c.this for c in listed.expressions}
    plain = all(not (c.args.get("alias") and c.args["alias"].columns) for c in listed.expressions)
    if len(ctes) != len(listed.expressions) or not plain:
        _disagree("the stages of the query")
    nested = sum(1 for _ in tree.find_all(exp.Select)) != len(ctes) + 1
    if nested or next(tree.find_all(exp.Subquery, exp.SetOperation), None) is not None:
        _disagree("a query inside a query")
    return tree, ctes


def _by_unit(
    tree: exp.Select, ctes: dict[str, exp.Expr], keys: list[str], sums: list[exp.Expr], source: Source
) -> Derived:
    """Units of many rows: rows → tallies of each (unit, group) → bounded contributions of the ranked groups → sums."""
    _shaped(tree, "unit bounded", {"expressions", "from_", "group", "with_"})
    _grouped_by(tree, keys)
    stages = _unit_stages(ctes, keys, source)
    bounded = _stage(ctes, "unit bounded")
    _shaped(bounded, "unit groups", {"expressions", "from_", "qualify"})
    inner = _outputs(bounded, keys)
    for e in inner.values():
        _of_one_row(e)
        _known_columns(e, stages.tallies, None)
    for s in sums:
        if type(s) is not exp.Sum or type(s.this) is not exp.Column or s.this.name not in inner:
            _disagree("a column that is not the sum of one bounded number")
    spans = tuple(_span(inner[s.this.name], stages.counts) for s in sums)
    return Derived(_ranked(bounded, keys), spans, len(keys), _product(stages.listed, keys))


def _unit_stages(ctes: dict[str, exp.Expr], keys: list[str], source: Source) -> _Stages:
    rows, groups = _stage(ctes, "unit rows"), _stage(ctes, "unit groups")
    listed = _key_lists(ctes)
    _from_source(rows, source, {"expressions", "from_", "joins", "where"})
    joined = {_joined(j, ctes): j.this.name for j in rows.args.get("joins") or []}
    if len(joined) != len(rows.args.get("joins") or []):
        _disagree("what is joined")
    row = _outputs(rows, [])
    for e in [*row.values(), *_conjuncts(rows), *(j.args["on"] for j in rows.args.get("joins") or [])]:
        _of_one_row(e)
        _known_columns(e, source.columns, "s", joined)
    _whose(rows, row, source)
    _shaped(groups, "unit rows", {"expressions", "from_", "group"})
    _grouped_by(groups, ["u", *keys])
    counts, tallies = set(), set()
    for name, e in _outputs(groups, ["u", *keys]).items():
        argument = e.this
        if (
            type(e) not in (exp.Count, exp.Sum)
            or type(argument) not in (exp.Column, exp.Star)
            or e.expressions
        ):
            _disagree("a tally")
        if type(argument) is exp.Star and type(e) is not exp.Count:
            _disagree("a tally")
        _known_columns(e, row.keys() - {"u", *keys}, None)
        tallies.add(name)
        if type(e) is exp.Count:
            counts.add(name)
    if not {"u", *keys} <= row.keys():
        _disagree("the columns of the rows")
    places = {k: e for k in keys if isinstance(e := row[k], exp.Column) and e.name == "g"}
    sizes = {k: listed[joined[e.table]] for k, e in places.items() if e.table in joined}
    return _Stages(frozenset(tallies), frozenset(counts), sizes)


def _whose(rows: exp.Select, row: dict[str, exp.Expr], source: Source) -> None:
    """`u` is the declared unit's column as it stands, or NULL; and rows without one are dropped."""
    unit = row.get("u")
    if unit is None:
        _disagree("whose the rows are")
    value = unit
    if (
        type(unit) is exp.Case
        and unit.this is None
        and not unit.args.get("default")
        and len(unit.args["ifs"]) == 1
    ):
        value = unit.args["ifs"][0].args["true"]
    if type(value) is not exp.Column or (value.table, value.name) != ("s", source.unit):
        _disagree("whose the rows are")
    dropped = [
        c.this.this
        for c in _conjuncts(rows)
        if type(c) is exp.Not and type(c.this) is exp.Is and type(c.this.expression) is exp.Null
    ]
    if unit not in dropped:
        _disagree("rows without a unit are not dropped")


def _by_row(
    tree: exp.Select, ctes: dict[str, exp.Expr], keys: list[str], sums: list[exp.Expr], source: Source
) -> Derived:
    """Each row is a unit: it is in one group, and a group is found again by at most one combination of keys."""
    bounded, groups = _stage(ctes, "unit bounded"), _stage(ctes, "row groups")
    listed = _key_lists(ctes)
    _from_source(bounded, source, {"expressions", "from_", "where"})
    row = _outputs(bounded, [])
    for e in [*row.values(), *_conjuncts(bounded)]:
        _of_one_row(e)
        _known_columns(e, source.columns, "s")
    _shaped(groups, "unit bounded", {"expressions", "from_", "group"})
    _shaped(tree, "row groups", {"expressions", "from_", "joins", "with_"})
    by = [e.name for e in groups.expressions if type(e) is exp.Column]
    _grouped_by(groups, by)
    totals = _outputs(groups, by)
    joined: dict[str, str] = {}
    for join in tree.args.get("joins") or []:
        joined[_joined(join, ctes)] = join.this.name
        _known_columns(join.args["on"], set(by), "r", joined)
    if len(joined) != len(tree.args.get("joins") or []):
        _disagree("what is joined")
    sizes: dict[str, int] = {}
    for e in tree.expressions[: len(keys)]:
        column = e.unalias()
        if column.table in joined and column.name == "g":
            sizes[e.alias_or_name] = listed[joined[column.table]]
        elif (column.table, column.name) != ("r", e.alias_or_name) or column.name not in by:
            _disagree("what the groups are")
    for s in sums:
        if type(s) is not exp.Column or s.table != "r" or s.name not in totals:
            _disagree("a column that is not a sum over rows")
    spans = tuple(_row_span(totals[s.name], row) for s in sums)
    return Derived(1, spans, len(keys), _product(sizes, keys))


def _row_span(total: exp.Expr, row: dict[str, exp.Expr]) -> tuple[int, int]:
    """What one row adds to a sum over rows."""
    if type(total) is exp.Count and type(total.this) in (exp.Star, exp.Column) and not total.expressions:
        _known_columns(total, row.keys(), None)
        return 0, 1
    if type(total) is exp.Sum:
        return _summed(total, row)
    # sum(v) − count(v)·c: each row with a value adds v − c
    difference = total.this if type(total) is exp.Paren else None
    if type(difference) is exp.Sub and type(difference.expression) is exp.Mul:
        summed, counted = _bare(difference.this), _bare(difference.expression.this)
        if type(summed) is exp.Sum and type(counted) is exp.Count and summed.this == counted.this:
            low, high = _summed(summed, row)
            c = _integer(difference.expression.expression)
            return min(low - c, 0), max(high - c, 0)
    return _disagree("a column that is not a sum over rows")


def _summed(total: exp.Expr, row: dict[str, exp.Expr]) -> tuple[int, int]:
    if type(total.this) is not exp.Column or total.this.name not in row:
        _disagree("a column that is not a sum over rows")
    return _span(row[total.this.name], frozenset())


def _bare(e: exp.Expr) -> exp.Expr:
    """An aggregate without its cast to a wide integer and without the 0 for an empty group."""
    if type(e) is exp.Cast and e.to.is_type("HUGEINT"):
        e = e.this
    if type(e) is exp.Coalesce and [str(x) for x in e.expressions] == ["0"]:
        e = e.this
    return e


def _split(tree: exp.Select) -> tuple[list[str], list[exp.Expr]]:
    """The group keys and, after them, the sums of the outermost SELECT; a sum is CAST(coalesce(…, 0) AS text)."""
    keys: list[str] = []
    sums: list[exp.Expr] = []
    for e in tree.expressions:
        text = e.unalias()
        if type(text) is exp.Column and not sums:
            if e.alias_or_name != f"g{len(keys)}":
                _disagree("the order of the keys")
            keys.append(e.alias_or_name)
            continue
        inner = text.this if type(text) is exp.Cast and text.to.is_type("text") else None
        if type(inner) is not exp.Coalesce or [str(x) for x in inner.expressions] != ["0"]:
            _disagree("a column that is not a sum")
        if e.alias != f"m{len(sums)}":
            _disagree("the order of the columns")
        sums.append(inner.this)
    return keys, sums


def _ranked(bounded: exp.Select, keys: list[str]) -> int | None:
    """The k of QUALIFY row_number() OVER (PARTITION BY u ORDER BY …, every key) <= k; None when nothing ranks."""
    qualify = bounded.args.get("qualify")
    if qualify is None:
        return None
    test = qualify.this
    window = test.this
    if type(test) is not exp.LTE or type(window) is not exp.Window or type(window.this) is not exp.RowNumber:
        _disagree("how groups are ranked")
    by = window.args.get("partition_by") or []
    if any(v and k not in ("this", "partition_by", "order", "over") for k, v in window.args.items()):
        _disagree("over what groups are ranked")
    if [(type(p), p.name) for p in by] != [(exp.Column, "u")] or not window.args.get("order"):
        _disagree("over what groups are ranked")
    terms = [o.this for o in window.args["order"].expressions]
    if len(terms) != len(keys) + 1 or type(terms[0]) is not exp.Anonymous or terms[0].name.lower() != "hash":
        _disagree("the order of a unit's groups")
    if [type(t) for t in terms[0].expressions] != [exp.Column] * (len(keys) + 1) + [exp.Placeholder]:
        _disagree("the order of a unit's groups")
    if [t.name for t in terms[0].expressions[:-1]] != ["u", *keys]:
        _disagree("the order of a unit's groups")
    if [(type(t), t.name) for t in terms[1:]] != [(exp.Column, k) for k in keys]:
        _disagree("the order of a unit's groups is not total")
    return _integer(test.expression)


def _key_lists(ctes: dict[str, exp.Expr]) -> dict[str, int]:
    """The lists of declared keys, with their lengths: constants, each with its place, no value twice."""
    sizes = {}
    for name, select in ctes.items():
        if not name.startswith("key "):
            continue
        values = (
            select.args["from_"].this if isinstance(select, exp.Select) and select.args.get("from_") else None
        )
        if not isinstance(select, exp.Select) or type(values) is not exp.Values:
            _disagree("the list of keys")
        _only(select, {"expressions", "from_", "group"})
        _grouped_by(select, ["v"])
        outputs = [e.sql(dialect="duckdb").lower() for e in select.expressions]
        if outputs != ["v", "min(g) as g"] or [c.name for c in values.args["alias"].columns] != ["v", "g"]:
            _disagree("the list of keys")
        for place, row in enumerate(values.expressions):
            if len(row.expressions) != 2 or str(row.expressions[1]) != str(place):
                _disagree("the list of keys")
            _of_one_row(row.expressions[0])
            _known_columns(row, (), None)
        sizes[name] = len(values.expressions)
    return sizes


def _joined(join: exp.Expr, ctes: dict[str, exp.Expr]) -> str:
    """The alias of a list of keys that is joined on equality with its value, and so matches at most once."""
    table, on = join.this, join.args.get("on")
    if any(v and k not in ("this", "on") for k, v in join.args.items()) or type(table) is not exp.Table:
        _disagree("what is joined")
    if not table.name.startswith("key ") or table.name not in ctes or table.args.get("db"):
        _disagree("what is joined")
    if on is None or type(on) not in (exp.EQ, exp.NullSafeEQ) or type(on.expression) is not exp.Column:
        _disagree("a key that a group could match twice")
    if (on.expression.table, on.expression.name) != (table.alias, "v"):
        _disagree("a key that a group could match twice")
    if any(c.table != ("s" if "unit rows" in ctes else "r") for c in on.this.find_all(exp.Column)):
        _disagree("a key that a group could match twice")
    return str(table.alias)


def _from_source(select: exp.Select, source: Source, allowed: set[str]) -> None:
    """FROM is the private table, called s."""
    table = select.args["from_"].this if select.args.get("from_") else None
    _only(select, allowed)
    if type(table) is not exp.Table or type(table.this) is not exp.Identifier:
        _disagree("what is read")
    if any(v and k not in ("this", "db", "alias") for k, v in table.args.items()):
        _disagree("what is read")
    if (table.db, table.name, table.alias) != ("main", source.table, "s"):
        _disagree("what is read")


def _read_once(tree: exp.Select, source: Source) -> None:
    """The private table is named once in the whole text, and everything else that is read is a stage of it."""
    tables = list(tree.find_all(exp.Table))
    stages = {c.alias for c in tree.find_all(exp.CTE)}
    private = [t for t in tables if t.args.get("db")]
    if len(private) != 1 or any(t.name not in stages for t in tables if not t.args.get("db")):
        _disagree("what is read")


def _stage(ctes: dict[str, exp.Expr], name: str) -> exp.Select:
    stage = ctes.get(name)
    if not isinstance(stage, exp.Select):
        _disagree("the stages of the query")
    return stage


def _shaped(select: exp.Select, reads: str, allowed: set[str]) -> None:
    """Only these clauses, over that stage."""
    _only(select, allowed)
    table = select.args["from_"].this if select.args.get("from_") else None
    if type(table) is not exp.Table or table.name != reads or table.args.get("db"):
        _disagree("what a stage reads")
    if any(v and k not in ("this", "alias") for k, v in table.args.items()):
        _disagree("what a stage reads")


def _only(select: exp.Select, allowed: set[str]) -> None:
    if any(part and name not in allowed for name, part in select.args.items()):
        _disagree("a clause in a place where none belongs")


def _outputs(select: exp.Select, plain: Sequence[str]) -> dict[str, exp.Expr]:
    """Name → expression of what a stage gives beside the columns that it passes on, which come first."""
    passed = select.expressions[: len(plain)]
    if [(type(e), e.name) for e in passed] != [(exp.Column, p) for p in plain]:
        _disagree("the columns that a stage passes on")
    rest = select.expressions[len(plain) :]
    named = {e.alias: e.this for e in rest if type(e) is exp.Alias}
    if len(named) != len(rest) or not named.keys().isdisjoint(plain):
        _disagree("the names of a stage's columns")
    return named


def _grouped_by(select: exp.Select, keys: Sequence[str]) -> None:
    group = select.args.get("group")
    if group is not None and any(v and k != "expressions" for k, v in group.args.items()):
        _disagree("what is grouped by")
    found = [(type(e), e.name) for e in group.expressions] if group is not None else []
    if found != [(exp.Column, k) for k in keys]:
        _disagree("what is grouped by")


def _conjuncts(select: exp.Select) -> list[exp.Expr]:
    where = select.args.get("where")
    if where is None:
        return []
    return list(where.this.flatten()) if type(where.this) is exp.And else [where.this]


def _known_columns(e: exp.Expr, names: Iterable[str], table: str | None, joined: Iterable[str] = ()) -> None:
    """Every column in the expression is one of these, of that stage, or of a list of keys."""
    known, lists = set(names), set(joined)
    for column in e.find_all(exp.Column):
        own = column.table == (table or "") and column.name in known
        if not own and not (column.table in lists and column.name in ("g", "v")):
            _disagree("a column that is not there")


_PLAIN = (
    "Column Identifier Literal Boolean Null DataType Var Paren Neg Not And Or EQ NEQ GT GTE LT LTE NullSafeEQ Is In "
    "Between Like ILike Add Sub Mul Div IntDiv Mod Pow Abs Sign Sqrt Ln Log Exp Floor Ceil Round Least Greatest "
    "Coalesce Nullif Case If Cast TryCast Try DPipe Contains StartsWith EndsWith Substring Trim Length Lower Upper "
    "TimestampTrunc"
)
_OF_ONE_ROW = frozenset(getattr(exp, name) for name in _PLAIN.split())
_NAMED = frozenset({"isfinite", "date_part"})


def _of_one_row(e: exp.Expr) -> None:
    """Every node is one of the functions whose value depends on one row alone, the same whenever it is asked."""
    for node in e.walk():
        if type(node) not in _OF_ONE_ROW and not (
            type(node) is exp.Anonymous and node.name.lower() in _NAMED
        ):
            _disagree("a function that may look beyond one row")


def _span(e: exp.Expr, counts: frozenset[str]) -> tuple[int, int]:
    low, high = span_of(e, counts)
    if math.isinf(low) or math.isinf(high):
        _disagree("a contribution without bounds")
    return math.floor(low), math.ceil(high)


def _integer(e: exp.Expr) -> int:
    inner = e.this if type(e) is exp.Neg else e
    if type(inner) is not exp.Literal or inner.is_string or not inner.name.isdigit():
        _disagree("a bound that is not a whole constant")
    return -int(inner.name) if type(e) is exp.Neg else int(inner.name)


def _product(sizes: dict[str, int], keys: list[str]) -> int | None:
    return math.prod(sizes[k] for k in keys) if all(k in sizes for k in keys) else None


def _disagree(what: str) -> Never:
    raise InternalError(
        f"The second derivation of this question's cost disagrees with the first about {what}. Nothing was charged.",
        hint="please report the question",
    )
