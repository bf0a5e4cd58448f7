"""Windows over everybody's rows, read as the aggregates that they mean.

    SELECT DISTINCT k, AVG(x) OVER (PARTITION BY k) FROM t

is `SELECT k, AVG(x) FROM t GROUP BY k`. A value of all rows that is taken off each of them and put back, as in

    SELECT k, first + INTERVAL (AVG(days)) DAY
    FROM (SELECT *, date_diff('day', first, d) AS days FROM (SELECT *, MIN(d) OVER (PARTITION BY k) AS first …))
    GROUP BY k, first

may be any other day: the days are counted from a constant instead. A subquery `(SELECT MIN(d) FROM t)` beside the rows
of `t` is such a value too. Quantiles by place are in `ranked_quantiles.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from sqlglot import exp

from discreet.query.ranked_quantiles import (
    Step,
    as_text,
    body_of,
    conjuncts_of,
    count_names,
    is_passing,
    keys_of,
    same_rows,
    select_in,
    steps_of,
    with_quantiles,
)

_Tree = TypeVar("_Tree", bound=exp.Expr)


def with_aggregates(tree: _Tree) -> tuple[_Tree, tuple[str, ...]]:
    """Return a query in which such windows are aggregates, and a sentence for each part that was read so.

    Guarantee:
        It looks at the text alone. It returns a query like any other: all that bears privacy is decided of that one.
    """
    if not any(
        e.key == "window" or getattr(e.parent, "key", "from") not in ("from", "join")
        for e in tree.find_all(exp.Window, exp.Subquery)
    ):
        return tree, ()
    changed, said = tree.copy(), list[str]()
    for select in list(changed.find_all(exp.Select)):
        count_names(changed)
        said += [*_of_its_own_rows(select), *_grouped(select)]
        _as_windows(select)
    _write_out(changed)
    for select in list(changed.find_all(exp.Select)):
        count_names(changed)
        said += _counted_from_a_constant(select)
        count_names(changed)
        said += _of_groups(select)
        count_names(changed)
        _leave_out_unread(select)
    read, more = with_quantiles(changed)
    _leave_out_unnamed(read, {t.name.lower() for t in tree.find_all(exp.Table)})
    stays = any(_FAR in e.meta for e in read.find_all(exp.Case, exp.Window, exp.Select))
    return (read, (*said, *more)) if (said or more) and not stays else (tree, ())


def _leave_out_unnamed(tree: exp.Expr, before: set[str]) -> None:
    """Leave out the subqueries of WITH that nothing names any more."""
    after = {t.name.lower() for t in tree.find_all(exp.Table)}
    for cte in list(tree.find_all(exp.CTE)):
        if cte.alias.lower() in before - after:
            cte.pop()
    for clause in [w for w in tree.find_all(exp.With) if not w.expressions]:
        clause.pop()


def _of_its_own_rows(select: exp.Select) -> list[str]:
    """Read `k IN (SELECT k FROM t WHERE k > 1)` beside the rows of t as `k > 1`, which the row itself meets or not;
    return a sentence for each.
    """
    where, said = select.args.get("where"), list[str]()
    for term in conjuncts_of(where.this) if where is not None else []:
        body = select_in(term.args["query"]) if term.key == "in" and term.args.get("query") else None
        if body is None or term.this.key != "column":
            continue
        met = _met_by(body, term.this)
        if met is None or all(
            type(s) is not exp.Table
            or s.name.lower() != met[0]
            or term.this.text("table").lower() not in _names(s, select)
            for s in [p.this for p in (select.args.get("from_"), *(select.args.get("joins") or [])) if p is not None]
        ):
            continue
        said.append(f"{as_text(term)} is read as a condition of the row itself, which is among these rows.")
        term.replace(exp.and_(*met[1], exp.Not(this=exp.Is(this=term.this.copy(), expression=exp.Null()))))
    return said


def _names(source: exp.Table, select: exp.Select) -> tuple[str, ...]:
    """Return how a SELECT may name the table of a column of this source."""
    name = source.alias_or_name.lower()
    return (name,) if select.args.get("joins") else ("", name)


def _met_by(body: exp.Select, column: exp.Expr) -> tuple[str, list[exp.Expr]] | None:
    """Return the table of whose rows a subquery shows one column, and the conditions on it; None for another subquery.

    Each condition is of that column alone, so that equal values meet it alike.
    """
    if len(body.expressions) != 1 or body.expressions[0].unalias().key != "column":
        return None
    item, source, where = body.expressions[0].unalias(), body.args.get("from_"), body.args.get("where")
    terms = [t.copy() for t in (conjuncts_of(where.this) if where is not None else [])]
    columns = [c for t in terms for c in t.find_all(exp.Column)]
    distinct = body.args.get("distinct")
    plain = is_passing(body, "where", "distinct") and not any(t.find(exp.Query) for t in terms)
    plain = plain and (distinct is None or not distinct.args.get("on"))
    if source is None or not plain or any(as_text(c) != as_text(item) for c in columns):
        return None
    terms = [t.transform(lambda e: column.copy() if e.key == "column" else e) for t in terms]
    inner = body_of(source.this, body)
    if inner is not None:
        found = _met_by(inner, column) if as_text(inner.expressions[0].unalias()) == as_text(item) else None
        return None if found is None else (found[0], [*terms, *found[1]])
    of_table = type(source.this) is exp.Table and not source.this.db and as_text(item) == as_text(column)
    return (source.this.name.lower(), terms) if of_table else None


_AGGREGATES = frozenset(
    [
        "avg",
        "count",
        "countif",
        "max",
        "median",
        "min",
        "percentilecont",
        "percentiledisc",
        "quantile",
        "stddev",
        "stddevpop",
        "stddevsamp",
        "sum",
        "variance",
        "variancepop",
    ]
)


def _grouped(select: exp.Select) -> list[str]:
    """Read SELECT DISTINCT over windows without an order as GROUP BY; return a sentence if it was."""
    windows = [w for w in select.find_all(exp.Window) if w.parent_select is select]
    if not windows or any(select.args.get(part) for part in ("having", "qualify", "laterals", "windows")):
        return []
    shown = [e.unalias() for e in select.expressions if next(e.find_all(exp.Column, exp.Window), None) is not None]
    shown = [e for e in shown if e.find(exp.Window) is None]
    distinct, one_row = select.args.get("distinct"), _is_one(select) and not shown
    if not (one_row or (distinct is not None and not distinct.args.get("on"))) or not _has_each_row(select):
        return []
    keys = [as_text(e) for e in shown]
    mixed = [e for e in select.expressions if e.find(exp.Window) is not None]
    outside = [c for e in mixed for c in e.find_all(exp.Column) if c.find_ancestor(exp.Window, exp.Select) is select]
    if any(as_text(c) not in keys and _of_all(c, select) is None for c in outside):
        return []
    coarser = []
    for w in windows:
        function = w.this.this if w.this.key in ("filter", "withingroup") else w.this
        parted = {as_text(e) for e in w.args.get("partition_by") or []}
        plain = function.key in _AGGREGATES and not w.args.get("order") and not w.args.get("spec")
        sums = function.key in ("sum", "count") and getattr(function.this, "key", "") != "distinct"
        if not plain or not parted <= set(keys) or (parted != set(keys) and not sums):
            return []
        coarser += [w] if parted != set(keys) else []
    for w in windows:
        if any(w is c for c in coarser):
            w.set("this", exp.Sum(this=w.this))
        else:
            w.replace(w.this)
    for clause in ("distinct", "limit" if one_row else "distinct"):
        select.set(clause, None)
    select.set("group", exp.Group(expressions=[e.copy() for e in shown]) if shown else None)
    by = f"GROUP BY {', '.join(keys)}" if keys else "aggregates of all rows"
    return [f"The windows beside {'LIMIT 1' if one_row else 'DISTINCT'} are read as {by}."]


def _is_one(select: exp.Select) -> bool:
    limit = select.args.get("limit")
    return limit is not None and limit.expression.name == "1" and not select.args.get("order")


def _has_each_row(select: exp.Select) -> bool:
    """Whether it has no GROUP BY, or one by the number of the row among all."""
    group = select.args.get("group")
    if group is None:
        return True
    found = [steps_of(e, select)[-1:] for e in group.expressions]
    windows = [s[0][1].unalias() for s in found if s]
    return any(w.key == "window" and w.this.key == "rownumber" and not w.args.get("partition_by") for w in windows)


def _of_all(column: exp.Expr, select: exp.Select) -> list[Step] | None:
    """Return where a least or largest value over all rows, or all of a part, comes from; None for another column."""
    steps = steps_of(column, select)
    window = steps[-1][1].unalias() if steps else None
    if window is None or window.key != "window" or window.this.key not in ("min", "max"):
        return None
    return None if window.args.get("order") or window.args.get("spec") else steps


def _write_out(tree: exp.Expr) -> None:
    """Write subqueries of WITH that have windows where they are read, so that each may be read in its own way."""
    ctes = list(tree.find_all(exp.CTE))
    names = Counter(c.alias.lower() for c in ctes)
    for cte in ctes:
        reads = [t for t in tree.find_all(exp.Table) if t.name.lower() == cte.alias.lower() and not t.db]
        plain = cte.this.key == "select" and not cte.args["alias"].args.get("columns")
        if (
            len(reads) < 2
            or len(reads) > _MOST_READS
            or not plain
            or cte.this.find(exp.Window) is None
            or max(names.values()) > 1
        ):
            continue
        for table in reads:
            alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name))
            table.replace(exp.Subquery(this=cte.this.copy(), alias=alias))
        clause = cte.parent
        cte.pop()
        if clause is not None and not clause.expressions:
            clause.pop()


_MOST_READS = 20


def _leave_out_unread(select: exp.Select) -> None:
    """Leave out windows of the subqueries in FROM that it does not read."""
    sources = [s.this for s in [select.args.get("from_"), *(select.args.get("joins") or [])] if s is not None]
    inside = {id(c) for s in sources for c in s.find_all(exp.Column)}
    read = {c.name.lower() for c in select.find_all(exp.Column) if id(c) not in inside}
    if any(e.is_star for e in select.expressions) or select.args.get("laterals"):
        return
    for body in [b for s in sources if (b := body_of(s, select)) is not None]:
        if body.args.get("distinct") or body.args.get("qualify"):
            continue
        for item in list(body.expressions):
            made = ([(body, item), *steps_of(item.unalias(), body)])[-1][1]
            if made.find(exp.Window) and item.alias_or_name.lower() not in read and len(body.expressions) > 1:
                item.pop()


def _as_windows(select: exp.Select) -> None:
    """Read the least or largest value of the same rows, in a subquery beside them, as a window over all of them."""
    for subquery in list(select.find_all(exp.Subquery)):
        body, around = subquery.this, subquery.find_ancestor(exp.Select, exp.From, exp.Join, exp.Where, exp.CTE)
        if around is not select or body.key != "select" or len(body.expressions) != 1 or body.args.get("group"):
            continue
        value = body.expressions[0].unalias()
        if value.key in ("min", "max") and value.this.key == "column" and same_rows(body, select, all_of=True):
            window = exp.Window(this=type(value)(this=exp.column(value.this.name)))
            window.meta[_FAR] = True
            subquery.replace(window)


def _of_groups(select: exp.Select) -> list[str]:
    """Read windows of the subquery in FROM that are over the groups of a SELECT as its own aggregates; return a
    sentence for each.
    """
    group = select.args.get("group")
    if group is None or select.args.get("joins") or select.args.get("where"):
        return []
    columns = [c for c in select.find_all(exp.Column) if c.parent_select is select]
    windows = {id(s[-1][1]): s for c in columns if (s := _of_group(steps_of(c, select))) is not None}
    keys = [e for e in group.expressions if not (s := steps_of(e, select)) or id(s[-1][1]) not in windows]
    by = sorted(as_text(s[-1][1].unalias()) if (s := steps_of(e, select)) else as_text(e) for e in keys)
    said = []
    for item, steps in windows.items():
        read = [c for c in columns if (s := steps_of(c, select)) and id(s[-1][1]) == item]
        window, made_in = steps[-1][1].unalias(), steps[-1][0]
        of = window.this.this
        elsewhere = [w for e in made_in.expressions if e is not steps[-1][1] for w in e.find_all(exp.Window)]
        if (
            any(as_text(w) == as_text(window) for w in elsewhere)
            or sorted(keys_of(window)) != by
            or any(c.find_ancestor(exp.AggFunc, exp.Select) is not select for c in read)
        ):
            continue
        name = f"{steps[-1][1].alias_or_name}_of_row"
        if of.key != "star":
            for passing, e in [(s, exp.column(name)) for s, _ in steps[:-1]] + [(made_in, of)]:
                passing.append("expressions", exp.alias_(e.copy(), name))
        made = type(window.this)(this=of.copy() if of.key == "star" else exp.column(name))
        for c in read:
            if c.parent is group:
                c.pop()
            else:
                c.replace(made.copy())
        said.append(f"{as_text(window)} is read as {as_text(window.this)} of each group.")
    if not select.args["group"].expressions:
        select.set("group", None)
    return said


def _of_group(steps: list[Step]) -> list[Step] | None:
    """Return where a value of all rows of a part comes from, if each row is passed on once; None for another column."""
    window = steps[-1][1].unalias() if steps else None
    if window is None or window.key != "window" or window.this.key not in _AGGREGATES or window.this.expressions:
        return None
    plain = getattr(window.this.this, "key", "distinct") != "distinct" and all(is_passing(s) for s, _ in steps[:-1])
    cut = ("distinct", "qualify", "limit", "offset")
    whole = plain and not any(steps[-1][0].args.get(part) for part in cut)
    return steps if whole and not (window.args.get("order") or window.args.get("spec")) else None


_FAR = "what stands only where all is read as something else: a number larger than all days, a window that was none"
_DAY = "CAST('1970-01-01' AS DATE)"


def _counted_from_a_constant(select: exp.Select) -> list[str]:
    """Count days from a constant that are counted from a value of all rows; return a sentence if that was done."""
    columns = [c for c in select.find_all(exp.Column) if c.parent_select is select]
    found = {id(s[-1][1]): s for c in columns if (s := _of_all(c, select)) is not None}
    if len(found) != 1 or all(a.parent_select is not select for a in select.find_all(exp.AggFunc)):
        return []
    ((item, steps),) = found.items()
    made_in, window = steps[-1][0], steps[-1][1].unalias()
    anchors = [c for c in columns if (s := steps_of(c, select)) and id(s[-1][1]) == item]
    inside = [a for a in anchors if a.find_ancestor(exp.AggFunc, exp.Select) is not select]
    if any(a.parent is None or a.parent.key not in _SAME for a in inside):
        return []
    group = select.args.get("group")
    keys = [e for e in (group.expressions if group is not None else []) if all(e is not a for a in anchors)]
    parts = sorted(keys_of(window))
    if sorted(as_text(s[-1][1].unalias()) if (s := steps_of(e, select)) else as_text(e) for e in keys) != parts:
        return []
    days = _days(steps, window)
    if days is None:
        return []
    shown = list[exp.Expr]()
    for column in [c for c in columns if any(i is d for _, i in steps_of(c, select) for d in days)]:
        aggregate = column.find_ancestor(exp.AggFunc)
        if aggregate is None or aggregate.key == "sum":
            select.meta[_FAR] = True
            return []
        case = column.find_ancestor(exp.Case)
        if case is not None:
            case.meta[_FAR] = True
        around = aggregate.find_ancestor(exp.Add)
        if aggregate.key in _SHIFTED and around is not None and any(around.this is a for a in anchors):
            around.this.replace(exp.maybe_parse(_DAY, dialect="duckdb"))
        elif aggregate.key in _SHIFTED:
            shown.append(aggregate)
    name = f"{steps[-1][1].alias_or_name}_of_row"
    made_in.append("expressions", exp.alias_(window.this.this.copy(), name))
    for passing, _ in steps[:-1]:
        passing.append("expressions", exp.column(name))
    value = type(window.this)(this=exp.column(name))
    left = [a for a in anchors if a.parent is not None and a.root() is select.root()]
    whole = all(is_passing(s) for s, _ in steps[:-1]) and is_passing(select, *_OF_GROUPS)
    if not whole and (shown or any(a.parent is not group for a in left)):
        select.meta[_FAR] = True
    for a in left:
        if a.parent is group:
            a.pop()
        else:  # the same in all rows
            (a.parent if a.parent is not None and a.parent.key in _SAME else a).replace(value.copy())
    for number in {id(a): a for a in shown}.values():
        since: exp.Expr = exp.maybe_parse(f"date_diff('day', {_DAY}, {value.sql('duckdb')})", dialect="duckdb")
        number.replace(exp.Paren(this=exp.Sub(this=number.copy(), expression=since)))
    if group is not None and not group.expressions:
        select.set("group", None)
    return (
        [f"Days from {as_text(window)} are counted from 1970-01-01."]
        if days
        else [f"{as_text(window)} is read as {as_text(window.this)}."]
    )


_OF_GROUPS = ("group", "having", "order", "limit")
_SHIFTED = frozenset(["avg", "max", "median", "min", "percentilecont", "percentiledisc", "quantile"])
_SAME = ("min", "max", "avg")


def _days(steps: list[Step], window: exp.Expr) -> list[exp.Expr] | None:
    """Return the items in which days are counted from a value of all rows, after they are counted from a constant;
    None where it is used for anything else.
    """
    days = list[exp.Expr]()
    made = steps[-1][1]
    for body, passed in steps:
        for item in [i for i in body.expressions if i is not made and i is not passed]:
            same = [w for w in item.find_all(exp.Window) if as_text(w) == as_text(window)]
            same += [c for c in item.find_all(exp.Column) if (s := steps_of(c, body)) and s[-1][1] is made]
            for node in [n for n in same if n.parent_select is body]:
                start = node.find_ancestor(exp.DateDiff)
                if start is None or not any(n is node for n in start.expression.walk()):
                    return None
                start.set("expression", exp.maybe_parse(f"CAST({_DAY} AS TIMESTAMP)", dialect="duckdb"))
                days.append(item)
    return days
