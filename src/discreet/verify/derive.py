"""What the final SQL says of one unit, read from the text alone.

A grammar of bounded aggregates, written apart from the writer (`bound.py`) and sharing no code with it: a text
that does not fit it in every part is an InternalError. For every text that fits, a unit enters at most `groups`
groups and adds to each integer column of each of them a number within its span, whatever the tables hold; the
argument is in docs/proofs/bounding.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from discreet.verify.contributions import row_size
from discreet.verify.kinds import Kind, Spans, kind_of, never_fails, span_of
from discreet.verify.lists import joined, key_lists
from discreet.verify.owned import PublicTable, each_row, owned
from discreet.verify.shapes import (
    alias_of,
    are_columns,
    counts_rows,
    filters,
    grouped_by,
    holds_only,
    is_column,
    is_secret,
    is_written,
    keeps_rows,
    known_columns,
    lengths,
    nodes_of,
    nothing_unread,
    of_one_row,
    only,
    outputs,
    read,
    read_from,
    reads_stage,
    reject,
    stages_of,
    text_of,
    too_deep,
    whole_constant,
)


@dataclass(frozen=True, slots=True)
class PrivateRows:
    """The private rows: the only thing that the text may read, apart from lists of constants.

    Attributes:
        table: the name of the one private table; None when the rows may come from `tables` alone.
        columns: the names of its columns.
        unit: the column that says whose a row is; None when each row is a unit.
        tables: the connected tables, from which the rows may come as an owned relation (`owned`).
        view: the text by which the one table shows its source (`view`); None where it is connected to none.
        kinds: of rows that a text has made of several tables, column → the kind of its values.
    """

    table: str | None
    columns: frozenset[str]
    unit: str | None
    tables: Mapping[str, PublicTable] = field(default_factory=dict)
    view: str | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Derived:
    """What the SQL says of one unit.

    Attributes:
        groups: how many groups it can enter; None when the text does not bound it.
        spans: for each integer column, the least and the greatest it can add to a group.
        keys: how many key columns come before them.
        lists: how many values each key's list has; None when one of them has no list.
        totals: for each integer column, how large the sizes of what it adds to all groups can be together; None where
            nothing but the number of groups bounds that.
        fixed: the integer columns to which every unit adds the same in the one group, so that none moves them by
            becoming another.
    """

    groups: int | None
    spans: Spans
    keys: int
    lists: tuple[int, ...] | None
    totals: tuple[int | None, ...] = ()
    fixed: frozenset[int] = frozenset()

    @property
    def listed(self) -> int | None:
        """How many groups there can be at all; None when no lists of keys limit them."""
        return None if self.lists is None else math.prod(self.lists)


def derive(sql: str, source: PrivateRows) -> Derived:
    """Return what the text alone says of one unit's reach.

    Raises:
        InternalError: a shape that is not known to be bounded.
    """
    tree, ctes, source = parsed(sql, source)
    keys, sums = keys_and_sums(tree)
    by = _by_row if source.unit is None else _by_unit
    return by(tree, ctes, keys, sums, source)


@dataclass(frozen=True, slots=True)
class Weighted:
    """The stages before the last SELECT of a text that gives each row a weight, for a grammar of its own.

    Attributes:
        tree: the last SELECT.
        keys: the names of the keys.
        row: name → expression of the columns of `"unit rows"`, where each row is of one unit and one group.
        listed: key → how many values its list has, where it comes from one.
        stage: what the weights are computed in; the rows themselves where each row is a unit.
        groups: how many groups of a unit that stage keeps; None when the text does not bound it.
        tallies: name → the count or sum over a unit's rows in a group.
        rows: the name of the stage of the rows that are tallied.
        most: how many rows of a unit that stage has; None where nothing bounds it.
    """

    tree: exp.Select
    keys: list[str]
    row: dict[str, exp.Expr]
    listed: dict[str, int]
    stage: exp.Select
    groups: int | None
    tallies: dict[str, exp.Expr]
    rows: str = "unit rows"
    most: int | None = None


def rows_of_one(sql: str, source: PrivateRows) -> Weighted:
    """Each row is a unit: its stage has no unit, and each row has one group.

    Raises:
        InternalError: a shape that is not known to be one.
    """
    tree, ctes, source = parsed(sql, source)
    keys = [e.alias for e in tree.expressions if e.alias.startswith("g")]
    rows, row, lists = unit_rows(ctes, source)
    if not set(keys) <= row.keys():
        reject("the columns of the rows")
    return Weighted(tree, keys, row, _sizes(keys, row, lists, _listed(ctes)), rows, 1, {})


def rows_and_tallies(sql: str, source: PrivateRows, stage: str) -> Weighted:
    """Units of many rows: the rows, the tallies of each (unit, group), and the stage in which groups are ranked.

    Raises:
        InternalError: a shape that is not known to be one.
    """
    tree, ctes, source = parsed(sql, source)
    keys = [e.alias for e in tree.expressions if e.alias.startswith("g")]
    found, weighted = unit_stages(ctes, keys, source), stage_of(ctes, stage)
    if found.kept is not None:
        reject("how groups are ranked")
    tallies = outputs(stage_of(ctes, "unit groups"), ["u", *keys])
    rows, groups = "unit rows" if found.most is None else "unit capped", ranked(weighted, keys)
    groups = found.most if groups is None else groups if found.most is None else min(groups, found.most)
    return Weighted(tree, keys, found.row, found.listed, weighted, groups, tallies, rows, found.most)


def unit_rows(
    ctes: Mapping[str, exp.Expr], source: PrivateRows, *, outer: bool = False
) -> tuple[exp.Select, dict[str, exp.Expr], Mapping[str, str]]:
    """Return the stage `"unit rows"`, its columns, and the lists of keys that it joins: each column follows from one
    private row, and where a unit has a column, `u` is it. With `outer`, rows that are in no list may be kept.

    Raises:
        InternalError: a shape that is not known to be one.
    """
    rows = stage_of(ctes, "unit rows")
    _from_source(rows, source, {"expressions", "from_", "joins", "where"})
    _listed(ctes)  # else a row could find two entries of a list
    lists = joined(rows, ctes, "s", outer=outer) if rows.args.get("joins") else {}
    row = outputs(rows)
    for e in [*row.values(), *filters(rows), *(j.args["on"] for j in rows.args.get("joins") or [])]:
        of_one_row(e)
        known_columns(e, source.columns, "s", lists)
    if source.unit is not None:
        _whose(rows, row, source)
    return rows, row, lists


def whose(source: PrivateRows, id_: exp.Expr) -> None:
    """Check that the expression is the declared unit's column as it stands, or NULL."""
    value = id_
    if type(id_) is exp.Case and id_.this is None and not id_.args.get("default") and len(id_.args["ifs"]) == 1:
        value = id_.args["ifs"][0].args["true"]
    if type(value) is not exp.Column or (value.table, value.name) != ("s", source.unit):
        reject("whose the rows are")


@dataclass(frozen=True, slots=True)
class Stages:
    """The first stages of a text whose units have many rows.

    Attributes:
        tallies: their names.
        counts: those of them that are counts.
        listed: key → how many values its list has, where it comes from one.
        kept: how many groups of a unit are tallied at all; None when nothing bounds it so far.
        most: how many rows of a unit are tallied at all; None when nothing bounds it.
        row: name → expression of the columns of the rows that are tallied.
    """

    tallies: frozenset[str]
    counts: frozenset[str]
    listed: dict[str, int]
    kept: int | None
    most: int | None
    row: dict[str, exp.Expr]


_KIND = exp.DataType.Type

_QUERIES = (exp.Subquery, exp.SetOperation)

_NESTED = "rows of several tables"
"""What stands, once they have been understood, for the nested SELECTs that give the rows."""


def parsed(sql: str, source: PrivateRows) -> tuple[exp.Select, dict[str, exp.Expr], PrivateRows]:
    """Return the last SELECT, the stages before it by name, and what they may read, which is read once.

    Rows that are an owned relation are read as a table of their columns, whose unit is `u`.

    Raises:
        InternalError: a shape that is not known to be one.
    """
    tree = read(sql)
    if not isinstance(tree, exp.Select):
        reject("the shape of the query")
    ctes = stages_of(tree)
    everything = nodes = nodes_of(tree)
    never_fails(nodes)
    own = _without_nested(ctes, source)
    nodes = nodes if own is source else nodes_of(tree)
    nested = sum(isinstance(e, exp.Select) for e in nodes) != len(ctes) + 1
    if nested or any(isinstance(e, _QUERIES) for e in nodes):
        reject("a query inside a query")
    _read_once([e for e in nodes if isinstance(e, exp.Table)], ctes.keys())
    nothing_unread(everything)
    return tree, ctes, own


def own_rows(sql: str, source: PrivateRows) -> tuple[str, Mapping[str, Kind]]:
    """Return a text over rows that are made of several tables as one over a table of theirs, with its columns' types.

    Raises:
        InternalError: a shape that is not known to be one.
    """
    tree, _, own = parsed(sql, source)
    return tree.sql("duckdb"), own.kinds


def _without_nested(ctes: dict[str, exp.Expr], source: PrivateRows) -> PrivateRows:
    """Take nested SELECTs that give owned rows out of the tree, with what may be read in their place."""
    rows = ctes.get("unit rows", ctes.get("unit bounded"))
    if not isinstance(rows, exp.Select) or type(read_from(rows)) is not exp.Subquery:
        return source
    nested = read_from(rows)
    try:
        found = (each_row if source.unit is None else owned)(nested, source.tables)
    except RecursionError:
        too_deep()
    name = exp.to_identifier(_NESTED, quoted=True)
    nested.replace(exp.Table(this=name, db=exp.to_identifier("main"), alias=nested.args["alias"]))
    if source.unit is None:
        kinds = {n: c.kind for n, c in found.columns.items()}
        return PrivateRows(_NESTED, frozenset(kinds), None, kinds=kinds)
    return PrivateRows(_NESTED, frozenset(found.columns) | {"u"}, "u")


def _read_once(tables: Sequence[exp.Table], stages: Collection[str]) -> None:
    """Check that the private rows are named once in the whole text, and all else that is read is a stage of it."""
    private = [t for t in tables if t.args.get("db")]
    if len(private) != 1 or any(t.name not in stages for t in tables if not t.args.get("db")):
        reject("what is read")


def _from_source(select: exp.Select, source: PrivateRows, allowed: set[str]) -> None:
    """FROM is the private table, called s."""
    only(select, allowed)
    table = read_from(select)
    if type(table) is not exp.Table or type(table.this) is not exp.Identifier:
        reject("what is read")
    if not holds_only(table, {"this", "db", "alias"}):
        reject("what is read")
    if (table.db, table.name, alias_of(table)) != ("main", source.table, "s"):
        reject("what is read")


def _by_unit(
    tree: exp.Select, ctes: dict[str, exp.Expr], keys: list[str], sums: list[exp.Expr], source: PrivateRows
) -> Derived:
    """Units of many rows: rows → tallies of each (unit, group) → bounded contributions of the ranked groups → sums; or
    sums over rows, so many of which a unit has.
    """
    if "unit bounded" not in ctes:
        return _by_capped_row(tree, ctes, keys, sums, source)
    reads_stage(tree, "unit bounded", {"expressions", "from_", "group", "with_"})
    grouped_by(tree, keys)
    if not are_columns([e.unalias() for e in tree.expressions[: len(keys)]], keys):
        reject("what the groups are")
    stages = unit_stages(ctes, keys, source)
    bounded = stage_of(ctes, "unit bounded")
    reads_stage(bounded, "unit groups", {"expressions", "from_", "qualify"})
    inner = outputs(bounded, keys)
    for e in inner.values():
        of_one_row(e)
        known_columns(e, stages.tallies, None)
    for s in sums:
        if type(s) is not exp.Sum or not holds_only(s, {"this"}) or not is_column(s.this, "", s.this.name):
            reject("a column that is not the sum of one bounded number")
        if s.this.name not in inner:
            reject("a column that is not there")
    kinds = dict.fromkeys(stages.tallies, "HUGEINT")
    for e in inner.values():
        whole_kind(e, kinds)
    spans = tuple(_span(inner[s.this.name], stages.counts) for s in sums)
    found = [n for n in (stages.kept, ranked(bounded, keys)) if n is not None]
    if len(found) > 1:
        reject("how groups are ranked")
    totals: tuple[int | None, ...] = (None,) * len(spans)
    if stages.most is not None:
        found.append(stages.most)  # so many rows are in no more groups
        tallied = outputs(stage_of(ctes, "unit groups"), ["u", *keys])
        sizes = [row_size(inner[s.this.name], s_, tallied, stages.row) for s, s_ in zip(sums, spans, strict=True)]
        totals = tuple(stages.most * size for size in sizes)
    return Derived(min(found, default=None), spans, len(keys), lengths(stages.listed, keys), totals)


def _by_capped_row(
    tree: exp.Select, ctes: dict[str, exp.Expr], keys: list[str], sums: list[exp.Expr], source: PrivateRows
) -> Derived:
    """Units of so many rows in all, each of which is in one group and adds its own number to it."""
    reads_stage(tree, "unit capped", {"expressions", "from_", "group", "with_"})
    grouped_by(tree, keys)
    if not are_columns([e.unalias() for e in tree.expressions[: len(keys)]], keys):
        reject("what the groups are")
    _, row, lists = unit_rows(ctes, source)
    row, most = _capped(stage_of(ctes, "unit capped"), keys, row)
    each = [_row_span(s, row) for s in sums]
    spans = tuple((most * low, most * high) for low, high in each)
    totals = tuple(most * max(-low, high) for low, high in each)
    return Derived(most, spans, len(keys), lengths(_sizes(keys, row, lists, key_lists(ctes)), keys), totals)


def unit_stages(ctes: Mapping[str, exp.Expr], keys: list[str], source: PrivateRows, *, outer: bool = False) -> Stages:
    """Return what the stages `"unit rows"` and `"unit groups"` give: tallies of the rows of each unit in each group;
    `outer` as in `unit_rows`.

    Raises:
        InternalError: a shape that is not known to be one.
    """
    groups = stage_of(ctes, "unit groups")
    _, row, lists = unit_rows(ctes, source, outer=outer)
    kept = most = None
    if "unit kept" in ctes:
        row, kept = _kept(stage_of(ctes, "unit kept"), keys, row)
    if "unit capped" in ctes:
        if kept is not None:
            reject("how groups are ranked")
        row, most = _capped(stage_of(ctes, "unit capped"), keys, row)
    tallied = "unit rows" if kept is None else "unit kept"
    reads_stage(groups, tallied if most is None else "unit capped", {"expressions", "from_", "group"})
    grouped_by(groups, ["u", *keys])
    counts, tallies = set(), set()
    for name, e in outputs(groups, ["u", *keys]).items():
        argument = e.this
        tallies.add(name)
        if counts_rows(e):
            counts.add(name)
            continue
        if type(e) not in (exp.Count, exp.Sum) or not holds_only(e, {"this", "big_int"}):
            reject("a tally")
        if type(argument) is not exp.Column:
            reject("a tally")
        known_columns(argument, row.keys() - {"u", *keys}, None)
        if type(e) is exp.Sum:
            whole_kind(row[argument.name], {})
        if type(e) is exp.Count:
            counts.add(name)
    if not {"u", *keys} <= row.keys():
        reject("the columns of the rows")
    sizes = _sizes(keys, row, lists, _listed(ctes))
    return Stages(frozenset(tallies), frozenset(counts), sizes, kept, most, row)


def _kept(kept: exp.Select, keys: list[str], row: dict[str, exp.Expr]) -> tuple[dict[str, exp.Expr], int]:
    """Return the columns of the rows in a unit's first k groups, which are passed on as they are, and k.

    The test is dense_rank() OVER (PARTITION BY u ORDER BY hash(u, keys, $secret), every key) <= k: rows that differ in
    a key differ in rank, and the ranks of a unit are 1, 2, … without gaps, so at most k of its groups have one <= k.
    """
    reads_stage(kept, "unit rows", {"expressions", "from_", "qualify"})
    passed = ["u", *keys, *(e.name for e in kept.expressions[len(keys) + 1 :])]
    if outputs(kept, passed) or len(set(passed)) != len(passed) or not set(passed) <= row.keys():
        reject("the columns that a stage passes on")
    most = ranked(kept, keys, exp.DenseRank)
    if most is None:
        reject("how groups are ranked")
    return {name: row[name] for name in passed}, most


def _capped(capped: exp.Select, keys: list[str], row: dict[str, exp.Expr]) -> tuple[dict[str, exp.Expr], int]:
    """Return the columns of a unit's first K rows, which are passed on as they are, and K.

    The test is row_number() OVER (PARTITION BY u ORDER BY hash(u, others, $secret), others) <= K, where the others are
    all columns that are passed on beside u. The rows of a unit have the numbers 1, 2, … once each, so at most K are
    passed on. Rows that the order leaves tied are equal in every column that anything reads afterwards: whichever of
    them has the lesser number, what is passed on is the same, and follows from the unit's own rows.
    """
    reads_stage(capped, "unit rows", {"expressions", "from_", "qualify"})
    passed = ["u", *keys, *(e.name for e in capped.expressions[len(keys) + 1 :])]
    if outputs(capped, passed) or len(set(passed)) != len(passed) or not set(passed) <= row.keys():
        reject("the columns that a stage passes on")
    most = ranked(capped, passed[1:])
    if most is None or most < 1:
        reject("how rows are ranked")
    return {name: row[name] for name in passed}, most


def _listed(ctes: Mapping[str, exp.Expr]) -> dict[str, int]:
    """Return the lists of declared keys, with their lengths."""
    return key_lists(ctes) if any(name.startswith("key ") for name in ctes) else {}


def _sizes(
    keys: list[str], row: dict[str, exp.Expr], lists: Mapping[str, str], listed: Mapping[str, int]
) -> dict[str, int]:
    """Key → how many values its list has, for keys that are places in lists, each in one of its own."""
    places = {k: e.table for k in keys if isinstance(e := row[k], exp.Column) and e.name == "g" and e.table in lists}
    if len(set(places.values())) != len(places):
        reject("what the groups are")
    return {k: listed[lists[alias]] for k, alias in places.items()}


def _whose(rows: exp.Select, row: dict[str, exp.Expr], source: PrivateRows) -> None:
    """`u` is the declared unit's column as it stands, or NULL; and rows without one are dropped."""
    unit = row.get("u")
    if unit is None:
        reject("whose the rows are")
    whose(source, unit)
    dropped = [
        c.this.this
        for c in filters(rows)
        if type(c) is exp.Not and type(c.this) is exp.Is and type(c.this.expression) is exp.Null
    ]
    if unit not in dropped:
        reject("rows without a unit are not dropped")


def _by_row(
    tree: exp.Select, ctes: dict[str, exp.Expr], keys: list[str], sums: list[exp.Expr], source: PrivateRows
) -> Derived:
    """Each row is a unit: it is in one group, and a group is found again by at most one combination of keys."""
    bounded, groups = stage_of(ctes, "unit bounded"), stage_of(ctes, "row groups")
    listed = _listed(ctes)
    _from_source(bounded, source, {"expressions", "from_", "where"})
    row = outputs(bounded)
    for e in [*row.values(), *filters(bounded)]:
        of_one_row(e)
        known_columns(e, source.columns, "s")
    reads_stage(groups, "unit bounded", {"expressions", "from_", "group"})
    reads_stage(tree, "row groups", {"expressions", "from_", "joins", "with_"})
    if alias_of(read_from(tree)) != "r":
        reject("what a stage reads")
    by = [e.name for e in groups.expressions if type(e) is exp.Column]
    grouped_by(groups, by)
    added = {name: _row_span(e, row) for name, e in outputs(groups, by).items()}
    lists, sizes = joined(tree, ctes, "r"), dict[str, int]()
    looked_up = {alias_of(j.this): j.args["on"].this for j in tree.args.get("joins") or []}
    shown = list[str]()
    for e in tree.expressions[: len(keys)]:
        key = e.unalias()
        if key.table in looked_up and is_column(key, key.table, "g"):
            sizes[e.alias_or_name] = listed[lists[key.table]]
            key = looked_up.pop(key.table)
        if not is_column(key, "r", key.name):
            reject("what the groups are")
        shown.append(key.name)
    # else there would be several rows for what is shown as one group
    if looked_up or sorted(shown) != sorted(by) or len(set(by)) != len(by):
        reject("what the groups are")
    for s in sums:
        if not is_column(s, "r", s.name) or s.name not in added:
            reject("a column that is not a sum over rows")
    whole = not filters(bounded) and not by and source.table != _NESTED  # a join may drop rows
    whole = whole and (source.view is None or keeps_rows(source.view))
    counted = {e.alias for e in groups.expressions if type(e) is exp.Alias and counts_rows(e.this)}
    fixed = frozenset(i for i, s in enumerate(sums) if whole and s.name in counted)
    return Derived(1, tuple(added[s.name] for s in sums), len(keys), lengths(sizes, keys), fixed=fixed)


def _row_span(total: exp.Expr, row: dict[str, exp.Expr]) -> tuple[int, int]:
    """Return what one row adds to a sum over rows."""
    if counts_rows(total):
        return 0, 1
    if type(total) is exp.Count and type(total.this) is exp.Column:
        _of_column(total, row)
        return 0, 1
    if type(total) is exp.Sum:
        return _summed(total, row)
    # sum(v) − count(v)·c: each row with a value adds v − c
    difference = total.this if type(total) is exp.Paren else None
    if type(difference) is exp.Sub and type(difference.expression) is exp.Mul:
        summed, counted = _bare(difference.this), _bare(difference.expression.this)
        if type(summed) is exp.Sum and type(counted) is exp.Count and summed.this == counted.this:
            low, high = _summed(summed, row)
            _of_column(counted, row)
            c = whole_constant(difference.expression.expression)
            return min(low - c, 0), max(high - c, 0)
    return reject("a column that is not a sum over rows")


def _summed(total: exp.Expr, row: dict[str, exp.Expr]) -> tuple[int, int]:
    e = _of_column(total, row)
    whole_kind(e, {})
    return _span(e, frozenset())


def _of_column(total: exp.Expr, row: dict[str, exp.Expr]) -> exp.Expr:
    """Return what the one column is of which this is an aggregate, and nothing else."""
    column = total.this
    if not holds_only(total, {"this", "big_int"}) or not is_column(column, "", column.name):
        reject("a column that is not a sum over rows")
    if column.name not in row:
        reject("a column that is not a sum over rows")
    return row[column.name]


def _bare(e: exp.Expr) -> exp.Expr:
    """Return an aggregate without its cast to a wide integer and without the 0 for an empty group."""
    if type(e) is exp.Cast and e.to.this is _KIND.INT128 and holds_only(e, {"this", "to"}):
        e = e.this
    return without_null(e) or e


def stage_of(ctes: Mapping[str, exp.Expr], name: str) -> exp.Select:
    """Return a stage by its name."""
    stage = ctes.get(name)
    if not isinstance(stage, exp.Select):
        reject("the stages of the query")
    return stage


def whole_kind(e: exp.Expr, columns: Mapping[str, Kind]) -> None:
    """Whole numbers are added exactly; a sum of others would follow the order of the rows in its last bit."""
    if kind_of(e, lambda c: columns.get(c.name)) not in ("BIGINT", "HUGEINT"):
        reject("a sum of numbers that are not whole")


def _span(e: exp.Expr, counts: frozenset[str]) -> tuple[int, int]:
    low, high = span_of(e, counts)
    if math.isinf(low) or math.isinf(high):
        reject("a contribution without bounds")
    return math.floor(low), math.ceil(high)


def keys_and_sums(tree: exp.Select) -> tuple[list[str], list[exp.Expr]]:
    """Return the group keys and, after them, sums of the outermost SELECT; a sum is CAST(coalesce(…, 0) AS text)."""
    keys: list[str] = []
    sums: list[exp.Expr] = []
    for e in tree.expressions:
        text = e.unalias()
        if type(text) is exp.Column and not sums:
            if e.alias_or_name != f"g{len(keys)}":
                reject("the order of the keys")
            keys.append(e.alias_or_name)
            continue
        added = without_null(text_of(text))
        if added is None:
            reject("a column that is not a sum")
        if e.alias != f"m{len(sums)}":
            reject("the order of the columns")
        sums.append(added)
    return keys, sums


def without_null(e: exp.Expr | None) -> exp.Expr | None:
    """Return the x of coalesce(x, 0), which is all that the expression is; None of any other."""
    if type(e) is not exp.Coalesce or not holds_only(e, {"this", "expressions"}):
        return None
    if len(e.expressions) != 1 or not is_written(e.expressions[0], 0):
        return None
    found: exp.Expr = e.this
    return found


def ranked(bounded: exp.Select, keys: list[str], function: type[exp.Expr] = exp.RowNumber) -> int | None:
    """Return the k of QUALIFY row_number() OVER (PARTITION BY u ORDER BY …, every key) <= k; None if nothing ranks."""
    qualify = bounded.args.get("qualify")
    if qualify is None:
        return None
    test = qualify.this
    window = test.this
    if type(test) is not exp.LTE or type(window) is not exp.Window or type(window.this) is not function:
        reject("how groups are ranked")
    if not holds_only(window.this, ()) or not holds_only(window, {"this", "partition_by", "order", "over"}):
        reject("over what groups are ranked")
    order = window.args.get("order")
    if not are_columns(window.args.get("partition_by") or [], ["u"]) or type(order) is not exp.Order:
        reject("over what groups are ranked")
    if not holds_only(order, {"expressions"}):
        reject("the order of a unit's groups")
    first, *rest = order.expressions
    if not all(type(o) is exp.Ordered and holds_only(o, {"this", "desc", "nulls_first"}) for o in (first, *rest)):
        reject("the order of a unit's groups")
    key = first.this
    if type(key) is not exp.Anonymous or key.name.lower() != "hash":
        reject("the order of a unit's groups")
    if not are_columns(key.expressions[:-1], ["u", *keys]) or not is_secret(key.expressions[-1]):
        reject("the order of a unit's groups")
    if not are_columns([o.this for o in rest], keys):
        reject("the order of a unit's groups is not total")
    return whole_constant(test.expression)
