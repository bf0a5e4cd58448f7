"""Parts that many statements share: the last SELECT, and the rank by which a unit's groups are kept."""

from __future__ import annotations

from sqlglot import exp

from discreet.verify.shapes import are_columns, holds_only, is_written, reject, text_of, whole_constant


def keys_and_sums(tree: exp.Select) -> tuple[list[str], list[exp.Expr]]:
    """The group keys and, after them, the sums of the outermost SELECT; a sum is CAST(coalesce(…, 0) AS text)."""
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
    """The x of coalesce(x, 0), which is all that the expression is; None of any other."""
    if type(e) is not exp.Coalesce or not holds_only(e, {"this", "expressions"}):
        return None
    if len(e.expressions) != 1 or not is_written(e.expressions[0], 0):
        return None
    found: exp.Expr = e.this
    return found


def ranked(bounded: exp.Select, keys: list[str], function: type[exp.Expr] = exp.RowNumber) -> int | None:
    """The k of QUALIFY row_number() OVER (PARTITION BY u ORDER BY …, every key) <= k; None when nothing ranks."""
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
    if not all(
        type(o) is exp.Ordered and holds_only(o, {"this", "desc", "nulls_first"}) for o in (first, *rest)
    ):
        reject("the order of a unit's groups")
    key = first.this
    if type(key) is not exp.Anonymous or key.name.lower() != "hash":
        reject("the order of a unit's groups")
    if (
        not are_columns(key.expressions[:-1], ["u", *keys])
        or type(key.expressions[-1]) is not exp.Placeholder
    ):
        reject("the order of a unit's groups")
    if not are_columns([o.this for o in rest], keys):
        reject("the order of a unit's groups is not total")
    return whole_constant(test.expression)
