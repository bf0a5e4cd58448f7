"""What the final SQL of a COUNT(DISTINCT x) or SUM(DISTINCT x) says of one unit, read from the text alone.

Only the stages behind `"unit rows"` are of a shape of their own, and they are matched here. The rows, their unit, the
keys and the lists of keys are those of any query: they are put, as they stand, under stages that `derive` judges.
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
    is_known,
    is_secret,
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
    tree = _parsed(sql)
    nothing_unread(nodes_of(tree))
    bounds = _values(_number(tree, source))
    derived = _of_rows(sql, source, bounds) if source.unit is None else _of_units(sql, source)
    if len(derived.spans) != 1 or derived.spans[0][0] != 0:
        reject("how many values are counted")
    return derived if bounds is None else _of_sum(derived, *bounds)


def _of_sum(derived: Derived, low: int, high: int) -> Derived:
    """Return what holds of the sum of values from `low` to `high`, so many of which a unit brings."""
    least, greatest, most = min(low, 0), max(high, 0), derived.spans[0][1]
    totals = tuple(None if n is None else n * max(-least, greatest) for n in derived.totals)
    return replace(derived, spans=((least * most, greatest * most),), totals=totals)


def _of_rows(sql: str, source: PrivateRows, bounds: tuple[int, int] | None) -> Derived:
    """Each row is a unit and has one value at most: as many are counted as when COUNT(d) counts rows, or fewer."""
    number = "count(DISTINCT d)"
    if bounds is not None:
        inside = f"least(greatest(d, {bounds[0]}), {bounds[1]})"
        number = f"coalesce(sum(DISTINCT {inside}) FILTER (WHERE d IS NOT NULL), 0)"
    before, counted, after = sql.rpartition(number)
    tree = _parsed(f"{before}count(d){after}")
    found = [c for c in tree.find_all(exp.Count) if _is_plain(c.this, "d")]
    if not counted or len(found) != 1:
        reject("how many values are counted")
    (plain,) = found
    # as it stands: sum(d) − count(d)·c is bounded as rows are counted, and not as their values are
    if type(plain.parent) is not exp.Alias or not holds_only(plain, {"this", "big_int"}):
        reject("how many values are counted")
    text = f"{before}count(d){after}"
    plain.replace(_parsed(f"SELECT {number}").expressions[0])
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
    if list(outputs(tree, keys)) != ["m0"]:
        reject("how many values are counted")
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
    if not _are_plain(seen, hashed) or not is_secret(secret):
        reject("the order of a unit's values")
    return whole_constant(test.expression)


def _number(tree: exp.Select, source: PrivateRows) -> exp.Expr | None:
    """Return what the one column m0 is, where it is counted: as text in the last SELECT, or over rows before it."""
    if source.unit is not None:
        shown = tree.expressions[-1:]
    else:
        groups = stages_of(tree).get("row groups")
        shown = groups.expressions[-1:] if isinstance(groups, exp.Select) else []
    found = shown[0].this if shown and type(shown[0]) is exp.Alias and shown[0].alias == "m0" else None
    return found if found is None or source.unit is None else text_of(found)


def _values(number: exp.Expr | None) -> tuple[int, int] | None:
    """Return the bounds of the values whose sum a number is; None where it is count(DISTINCT d).

    A sum is coalesce(sum(DISTINCT least(greatest(d, low), high)) FILTER (WHERE NOT d IS NULL), 0): each different value
    of d that is known, moved into its bounds, once at most.
    """
    if type(number) is exp.Count and holds_only(number, {"this", "big_int"}):
        (value,) = _distinct(number.this)
        if not _is_plain(value, "d"):
            reject("how many values are counted")
        return None
    if type(number) is not exp.Coalesce or not holds_only(number, {"this", "expressions"}):
        reject("how many values are counted")
    if [whole_constant(e) for e in number.expressions] != [0] or type(number.this) is not exp.Filter:
        reject("how many values are counted")
    total, where = number.this.this, number.this.expression
    if type(total) is not exp.Sum or not holds_only(total, {"this"}) or not is_known(where.this, "", "d"):
        reject("which values are summed")
    (value,) = _distinct(total.this)
    inner, high = _moved(value, exp.Least)
    column, low = _moved(inner, exp.Greatest)
    if not _is_plain(column, "d") or low > high:
        reject("the bounds of the values that are summed")
    return low, high


def _distinct(e: object) -> list[exp.Expr]:
    if type(e) is not exp.Distinct or not holds_only(e, {"expressions"}) or len(e.expressions) != 1:
        reject("how many values are counted")
    return list(e.expressions)


def _moved(e: exp.Expr, kind: type[exp.Expr]) -> tuple[exp.Expr, int]:
    """Return the x and the n of least(x, n) or greatest(x, n)."""
    if type(e) is not kind or not holds_only(e, {"this", "expressions", "ignore_nulls"}) or len(e.expressions) != 1:
        reject("the bounds of the values that are summed")
    return e.this, whole_constant(e.expressions[0])


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
