"""What the final SQL of a COUNT(DISTINCT x) says of one unit, read from the text alone.

Only the stages behind `"unit rows"` are of a shape of their own, and they are matched here. The rows, their unit, the
keys and the lists of keys are those of any question: they are put, as they stand, under stages that `derive` judges.
This module shares no code with the writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from discreet.verify.derive import Derived, PrivateRows, derive
from discreet.verify.shapes import (
    conjuncts,
    grouped_by,
    holds_only,
    is_column,
    nodes_of,
    nothing_unread,
    outputs,
    read,
    reads_stage,
    reject,
    stages_of,
    text_of,
    whole_constant,
)


def derive_distinct(sql: str, source: PrivateRows) -> Derived:
    """Return what the text says: a unit enters at most `groups` groups, and brings to each at most as many values as
    its one span is wide.

    Raises:
        InternalError: a shape that is not known to be bounded.
    """
    nothing_unread(nodes_of(_parsed(sql)))
    derived = _of_rows(sql, source) if source.unit is None else _of_units(sql, source)
    if len(derived.spans) != 1 or derived.spans[0][0] != 0:
        reject("how many values are counted")
    return derived


def _of_rows(sql: str, source: PrivateRows) -> Derived:
    """Each row is a unit and has one value at most: as many are counted as when COUNT(d) counts rows, or fewer."""
    before, counted, after = sql.rpartition("count(DISTINCT d)")
    tree = _parsed(f"{before}count(d){after}")
    found = [c for c in tree.find_all(exp.Count) if _is_plain(c.this, "d")]
    if not counted or len(found) != 1:
        reject("how many values are counted")
    (plain,) = found
    # as it stands: sum(d) − count(d)·c is bounded as rows are counted, and not as their values are
    if type(plain.parent) is not exp.Alias or not holds_only(plain, {"this", "big_int"}):
        reject("how many values are counted")
    text = f"{before}count(d){after}"
    plain.set("this", exp.Distinct(expressions=[exp.column("d")]))
    if tree != _parsed(sql):
        reject("how many values are counted")
    return derive(text, source)


def _of_units(sql: str, source: PrivateRows) -> Derived:
    """Rows → each value of each unit and group once → the first ones of the first groups → how many there are."""
    tree = _parsed(sql)
    ctes = stages_of(tree)
    keys = [e.name for e in tree.expressions if type(e) is exp.Column]
    if keys != [f"g{i}" for i in range(len(keys))] or list(ctes)[-3:] != ["unit rows", "unit values", "unit bounded"]:
        reject("the stages of the query")
    values, bounded = _select(ctes, "unit values"), _select(ctes, "unit bounded")
    reads_stage(values, "unit rows", {"expressions", "from_", "group"})
    grouped_by(values, ["u", *keys, "d"])
    reads_stage(bounded, "unit values", {"expressions", "from_", "qualify"})
    if outputs(values, ["u", *keys, "d"]) or outputs(bounded, [*keys, "d"]):
        reject("the columns that a stage passes on")
    reads_stage(tree, "unit bounded", {"expressions", "from_", "group", "with_"})
    grouped_by(tree, keys)
    _counts_once(outputs(tree, keys))
    most, groups, total = _ranks(bounded, keys)
    found = _judged(sql, tree, keys, most, groups, source)
    if total is None:
        return found
    # so many pairs of a group and a value are in no more groups, and each adds 1 to the count of its group at most
    return replace(found, groups=total if found.groups is None else min(found.groups, total), totals=(total,))


def _judged(sql: str, tree: exp.Select, keys: list[str], most: int, groups: int | None, source: PrivateRows) -> Derived:
    """Return what `derive` says of the same rows, when each unit adds the number of its values, at most `most`."""
    # nothing that a user wrote stands behind the last of these words
    rows, _, _ = sql.rpartition(',\n"unit values" AS (')
    each, shown = ", ".join(["u", *keys]), "".join(f"{k}, " for k in keys)
    rank = ""
    if groups is not None:
        order = ", ".join([f"hash({each}, $secret)", *keys])
        rank = f" QUALIFY row_number() OVER (PARTITION BY u ORDER BY {order}) <= {groups}"
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    text = (
        f'{rows}, "unit groups" AS (SELECT {each}, count(d) AS n_d FROM "unit rows" GROUP BY {each}), '
        f'"unit bounded" AS (SELECT {shown}least(n_d, {most}) AS m0 FROM "unit groups"{rank}) '
        f'SELECT {shown}CAST(coalesce(sum(m0), 0) AS VARCHAR) AS m0 FROM "unit bounded"{by}'
    )
    own, judged = stages_of(tree), stages_of(_parsed(text))
    if list(own)[:-2] != list(judged)[:-2] or any(own[name] != judged[name] for name in list(own)[:-2]):
        reject("the rows whose values are counted")
    return derive(text, source)


def _ranks(bounded: exp.Select, keys: list[str]) -> tuple[int, int | None, int | None]:
    """How many values a unit keeps in a group, how many groups, and how many pairs of both: None when all of them.

    What is kept passes every test, so that each of them bounds it.
    """
    qualify = bounded.args.get("qualify")
    tests = conjuncts(None if qualify is None else qualify.this)
    values = groups = total = None
    for test in tests:
        window = test.this if type(test) is exp.LTE else None
        by = len(window.args.get("partition_by") or []) if type(window) is exp.Window else 0
        if type(window) is exp.Window and type(window.this) is exp.DenseRank and groups is None:
            groups = _rank(test, exp.DenseRank, ["u"], ["u", *keys], keys, nulls_last=False)
        elif by == 1 and keys and total is None:
            total = _rank(test, exp.RowNumber, ["u"], ["u", *keys, "d"], [*keys, "d"], nulls_last=True)
        elif values is None:
            values = _rank(test, exp.RowNumber, ["u", *keys], ["u", *keys, "d"], ["d"], nulls_last=True)
        else:
            reject("how values are ranked")
    most = [n for n in (values, total) if n is not None]
    if not most:
        reject("how values are ranked")
    return min(most), groups, total


def _rank(
    test: exp.Expr,
    function: type[exp.Expr],
    by: Sequence[str],
    hashed: Sequence[str],
    ties: Sequence[str],
    *,
    nulls_last: bool,
) -> int:
    """Return the n of function() OVER (PARTITION BY by ORDER BY [ties IS NULL,] hash(hashed, $secret), ties) <= n.

    `row_number` and `dense_rank` give 1, 2, … to different rows and to different groups, whatever the hash.
    """
    window = test.this if type(test) is exp.LTE else None
    if type(window) is not exp.Window or type(window.this) is not function or not holds_only(window.this, ()):
        reject("how values are ranked")
    if not holds_only(window, {"this", "partition_by", "order", "over"}):
        reject("how values are ranked")
    parts, order = window.args.get("partition_by") or [], window.args.get("order")
    if not _are_plain(parts, by) or type(order) is not exp.Order or not holds_only(order, {"expressions"}):
        reject("over what values are ranked")
    if not all(type(o) is exp.Ordered and holds_only(o, {"this", "nulls_first"}) for o in order.expressions):
        reject("the order of a unit's values")
    terms = [o.this for o in order.expressions]
    if nulls_last:
        first = terms.pop(0)
        if type(first) is not exp.Is or not _is_plain(first.this, "d") or type(first.expression) is not exp.Null:
            reject("the order of a unit's values")
    key = terms.pop(0) if terms else None
    if type(key) is not exp.Anonymous or key.name.lower() != "hash" or not _are_plain(terms, ties):
        reject("the order of a unit's values")
    *seen, secret = key.expressions
    if not _are_plain(seen, hashed) or type(secret) is not exp.Placeholder:
        reject("the order of a unit's values")
    return whole_constant(test.expression)


def _counts_once(shown: dict[str, exp.Expr]) -> None:
    """Check that the one column is CAST(count(DISTINCT d) AS text)."""
    counted = text_of(shown["m0"]) if list(shown) == ["m0"] else None
    if type(counted) is not exp.Count or not holds_only(counted, {"this", "big_int"}):
        reject("how many values are counted")
    values = counted.this
    if type(values) is not exp.Distinct or not holds_only(values, {"expressions"}):
        reject("how many values are counted")
    if not _are_plain(values.expressions, ["d"]):
        reject("how many values are counted")


def _parsed(sql: str) -> exp.Select:
    tree = read(sql)
    if not isinstance(tree, exp.Select):
        reject("the shape of the query")
    return tree


def _select(ctes: dict[str, exp.Expr], name: str) -> exp.Select:
    found = ctes[name]
    if not isinstance(found, exp.Select):
        reject("the stages of the query")
    return found


def _is_plain(e: object, name: str) -> bool:
    return isinstance(e, exp.Expr) and is_column(e, "", name)


def _are_plain(found: Sequence[exp.Expr], names: Sequence[str]) -> bool:
    return len(found) == len(names) and all(map(_is_plain, found, names))
