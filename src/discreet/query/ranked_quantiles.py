"""Quantiles that are written with ROW_NUMBER over everybody's rows, read as the quantiles that they mean.

    SELECT k, MIN(CASE WHEN nr < 0.25 * n THEN 9999 ELSE x END)
    FROM (SELECT k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS nr, COUNT(*) OVER (PARTITION BY k) AS n FROM t)
    GROUP BY k

is `SELECT k, QUANTILE_DISC(x, 0.25) FROM (SELECT k, x FROM t) GROUP BY k`. The number of rows may be a subquery over
the same rows too, or a joined one. A text of any other form stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, TypeVar

from sqlglot import exp

_Tree = TypeVar("_Tree", bound=exp.Expr)

_Step: TypeAlias = tuple[exp.Select, exp.Expr]
"""A SELECT and one of its output columns."""


def with_quantiles(tree: _Tree) -> tuple[_Tree, tuple[str, ...]]:
    """Return a query in which each such quantile is an aggregate, and a sentence for each that was read so.

    Guarantee:
        It looks at the text alone. It returns a query like any other: all that bears privacy is decided of that one.
    """
    if tree.find(exp.RowNumber) is None:
        return tree, ()
    changed, said = tree.copy(), dict[str, None]()
    before = Counter(t.name.lower() for t in changed.find_all(exp.Table))
    for select in list(changed.find_all(exp.Select)):
        said |= dict.fromkeys(_read(select))
    after = Counter(t.name.lower() for t in changed.find_all(exp.Table))
    for cte in list(changed.find_all(exp.CTE)):
        if before[cte.alias.lower()] and not after[cte.alias.lower()]:
            cte.pop()
    for clause in [w for w in changed.find_all(exp.With) if not w.expressions]:
        clause.pop()
    return (changed, tuple(said)) if said else (tree, ())


def _read(select: exp.Select) -> list[str]:
    """Replace the quantiles of one SELECT, if all of it can be read; return a sentence for each."""
    source = select.args.get("from_")
    if source is None or any(select.args.get(part) for part in ("where", "qualify", "distinct", "laterals")):
        return []
    quantiles = [q for a in select.find_all(exp.Min, exp.Max) if (q := _quantile(a, select)) is not None]
    if not quantiles or any(_as_text(q.row_number) != _as_text(quantiles[0].row_number) for q in quantiles):
        return []
    rank = _steps(quantiles[0].rank, select)
    numbered = rank[-1][0]
    if not all(_is_passing(s) for s, _ in rank[:-1]) or not _is_passing(numbered, "joins", "where", "group"):
        return []
    keys = [_as_text(e) for e in quantiles[0].row_number.args.get("partition_by") or []]
    join, sizes = None, list[list[_Step]]()
    for size in {q.size for q in quantiles}:
        steps = _steps(size, select)
        joined = _counting_join(size, select, numbered, keys) if not steps else None
        if joined is None and not (steps and _is_size(steps, rank, keys)):
            return []
        join, sizes = joined or join, [*sizes, steps]
    used = {id(c) for q in quantiles for c in q.aggregate.find_all(exp.Column)}
    used |= set() if join is None else {id(c) for c in join.find_all(exp.Column)}
    gone = {id(item) for steps in (rank, *sizes) for _, item in steps}
    for column in select.find_all(exp.Column):
        steps = _steps(column, select) if id(column) not in used and column.parent_select is select else []
        if steps and id(steps[0][1]) in gone:
            return []
    if not _groups_fit(select, numbered, keys, join) or not _joins_fit(select, numbered, keys, join):
        return []
    said = []
    for q in quantiles:
        disc: exp.Expr = exp.maybe_parse(f"QUANTILE_DISC({q.value.sql('duckdb')}, {q.share})", dialect="duckdb")
        text = q.aggregate.sql("duckdb")
        said.append(f"{text if len(text) < _LONG else text[:_LONG] + '…'} is read as {disc.sql('duckdb')}.")
        q.aggregate.replace(disc)
    if join is not None:
        _point_to_rows(join, select)
        join.pop()
    for _, item in (step for steps in (rank, *sizes) for step in steps):
        if item.parent is not None:
            item.pop()
    return said


_LONG = 100


@dataclass(frozen=True, slots=True)
class _Quantile:
    """An aggregate that picks the value at a share of the rows."""

    aggregate: exp.Expr
    rank: exp.Column
    size: exp.Column
    share: str
    value: exp.Column
    row_number: exp.Window


def _quantile(aggregate: exp.Expr, select: exp.Select) -> _Quantile | None:
    """Return what an aggregate of a CASE over a row's number means; None for any other."""
    if aggregate.parent_select is not select:
        return None
    match aggregate.this, aggregate.parent:
        case _, exp.Window() | exp.Filter():
            return None
        case exp.Case(this=None, args={"ifs": [exp.If(this=condition) as arm]}) as case, _:
            condition, then, other = condition.unnest(), arm.args["true"], case.args.get("default")
        case _:
            return None
    least, (value, rest) = aggregate.key == "min", (then, other)
    match condition, condition.expression.unnest() if condition.args.get("expression") else None:
        case exp.LT(), position if least:
            value, rest = other, then
        case exp.GTE(), position if least:
            pass
        case exp.EQ(), exp.Ceil(this=rounded):
            position = rounded.unnest()
        case _:
            return None
    match _share(position), condition.this.unnest(), value:
        case (number, size), exp.Column() as rank, exp.Column() as column:
            pass
        case _:
            return None
    match rest:
        case None | exp.Null():
            pass
        case _ if not (least and _is_far(rest)):
            return None
    steps = _steps(rank, select)
    match steps[-1][1].unalias() if steps else None:
        case exp.Window(this=exp.RowNumber()) as window if _orders(window, column, steps, select):
            return _Quantile(aggregate, rank, size, number, column, window)
    return None


def _share(position: exp.Expr | None) -> tuple[str, exp.Column] | None:
    """Return the share and the number of rows of `share * rows` or `rows * share`."""
    if type(position) is not exp.Mul:
        return None
    match sorted((position.this.unnest(), position.expression.unnest()), key=lambda e: e.key, reverse=True):
        case [exp.Literal(is_string=False) as number, exp.Column() as size] if 0 < Fraction(number.name) < 1:
            return number.name, size
    return None


def _is_far(value: exp.Expr) -> bool:
    """Whether a constant stands for no value: a number of nines, or a date of the year 9999."""
    if next(value.find_all(exp.Column, exp.Select), None) is not None:
        return False
    digits = [n.name for n in value.find_all(exp.Literal)]
    return bool(digits) and digits[0].startswith("999")


def _orders(window: exp.Window, value: exp.Column, rank: Sequence[_Step], select: exp.Select) -> bool:
    """Whether rows are numbered in the order of a value, upwards, beside the columns that they are parted by."""
    keys = [_as_text(e) for e in window.args.get("partition_by") or []]
    order = window.args.get("order")
    terms = [o for o in (order.expressions if order is not None else []) if _as_text(o.this) not in keys]
    numbered = rank[-1][0]
    made = next((item for s, item in _steps(value, select) if s is numbered), None)
    if len(terms) != 1 or terms[0].args.get("desc") or made is None or window.args.get("spec"):
        return False
    by = terms[0].this.unnest()
    match by:
        case exp.Column(table="") if by.name.lower() == made.alias_or_name.lower():
            return True
    return _as_text(by) == _as_text(made.unalias())


def _steps(column: exp.Column, select: exp.Select) -> list[_Step]:
    """Return where a column of the subquery in FROM comes from, SELECT by SELECT, as far as it is only passed on."""
    source = select.args.get("from_")
    if source is None:
        return []
    body = _body(source.this, select)
    if body is None or (column.table and column.table.lower() != source.this.alias_or_name.lower()):
        return []
    item = next((e for e in body.expressions if e.alias_or_name.lower() == column.name.lower()), None)
    if item is None:
        return []
    match item.unalias():
        case exp.Column() as passed:
            return [(body, item), *_steps(passed, body)]
    return [(body, item)]


def _body(source: exp.Expr, select: exp.Select) -> exp.Select | None:
    """Return the SELECT of a subquery, or of a name of WITH that is read here alone."""
    match source:
        case exp.Subquery():
            return _select_in(source)
        case exp.Table(db=""):
            reads = [t for t in select.root().find_all(exp.Table) if t.name.lower() == source.name.lower()]
            match _named(source, select):
                case exp.CTE(this=exp.Select() as body) if len(reads) == 1:
                    return body
    return None


def _select_in(source: exp.Expr) -> exp.Select | None:
    """Return the SELECT of a subquery."""
    match source, source.unnest():
        case exp.Subquery(), exp.Select() as body:
            return body
    return None


def _conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """Return the conditions that AND joins."""
    match condition.unnest():
        case exp.And() as all_of:
            return [t.unnest() for t in all_of.flatten()]
        case other:
            return [other]


def _named(table: exp.Table, inside: exp.Expr) -> exp.CTE | None:
    above: exp.Expr | None = inside
    while above is not None:
        clause: exp.Expr | None = above.args.get("with_")
        for cte in clause.find_all(exp.CTE) if clause is not None else []:
            if cte.parent is clause and cte.alias.lower() == table.name.lower():
                return cte
        above = above.parent
    return None


def _is_size(size: Sequence[_Step], rank: Sequence[_Step], keys: Sequence[str]) -> bool:
    """Whether a column is the number of the rows that are numbered, in each part."""
    (made_in, item), numbered = size[-1], rank[-1][0]
    value = item.unalias()
    if type(value) is exp.Window:
        parted = [_as_text(e) for e in value.args.get("partition_by") or []]
        below = [s for s, _ in size if s is not made_in]
        between = below[below.index(numbered) :] if numbered in below else []
        same = made_in is numbered or (numbered in below and all(_is_passing(s) for s in between))
        return _is_count(value.this) and not value.args.get("order") and sorted(parted) == sorted(keys) and same
    counting = _select_in(value)
    if keys or made_in is not numbered or counting is None or len(counting.expressions) != 1:
        return False
    return not counting.args.get("group") and _counts_rows(counting.expressions[0].unalias(), counting, numbered)


def _is_passing(select: exp.Select, *more: str) -> bool:
    """Whether a SELECT has each row of its FROM once, or no more clauses than these."""
    known = ("expressions", "from_", "with_", *more)
    return not any(part for name, part in select.args.items() if name not in known)


def _is_count(e: exp.Expr) -> bool:
    match e:
        case exp.Count(this=exp.Star() | exp.Literal()):
            return True
    return False


def _counting_join(size: exp.Column, select: exp.Select, numbered: exp.Select, keys: Sequence[str]) -> exp.Join | None:
    """Return the join with a subquery that counts the numbered rows of each part."""
    joins: list[exp.Join] = select.args.get("joins") or []
    for join in joins:
        source = join.this
        body = _select_in(source)
        if body is None or join.side or join.kind not in ("", "INNER", "CROSS"):
            continue
        named = [e for e in body.expressions if e.alias_or_name.lower() == size.name.lower()]
        group = body.args.get("group")
        by = [_as_text(e) for e in (group.expressions if group is not None else [])]
        if len(named) != 1 or (size.table and size.table.lower() != source.alias.lower()) or sorted(by) != sorted(keys):
            continue
        match named[0].unalias():
            case exp.Count(this=exp.Column() as counted) if _as_text(counted) in by:
                pass
            case other if not _is_count(other):
                continue
        pairs = _pairs(join)
        if pairs is not None and sorted(pairs) == sorted(keys) and _same_rows(body, numbered):
            return join
    return None


def _pairs(join: exp.Join) -> list[str] | None:
    """Return the columns that a join holds equal on both of its sides, each under one name; None for another one."""
    on = join.args.get("on")
    if on is None:
        return [u.name.lower() for u in join.args.get("using") or []]
    terms = _conjuncts(on)
    named = [{c.name.lower() for c in t.find_all(exp.Column)} for t in terms]
    if any(type(t) is not exp.EQ or len(n) != 1 for t, n in zip(terms, named, strict=True)):
        return None
    return [n.pop() for n in named]


def _groups_fit(select: exp.Select, numbered: exp.Select, keys: Sequence[str], join: exp.Join | None) -> bool:
    """Whether groups are the parts in which rows are numbered; columns of further tables may stand beside them."""
    group = select.args.get("group")
    if group is not None and any(part for name, part in group.args.items() if part and name != "expressions"):
        return False
    found = set()
    for e in group.expressions if group is not None else []:
        match e:
            case exp.Literal(is_string=False) if e.name.isdigit() and int(e.name) <= len(select.expressions):
                e = select.expressions[int(e.name) - 1].unalias()
        key = _key(e, select, numbered, join)
        match e:
            case _ if key is not None:
                found.add(key)
            case exp.Column() if not _steps(e, select) and (e.table or select.args.get("joins")):
                pass
            case _:
                return False
    return found == set(keys)


def _key(e: exp.Expr, select: exp.Select, numbered: exp.Select, join: exp.Join | None) -> str | None:
    """Return the column of the numbered rows that an expression is."""
    if type(e) is not exp.Column:
        return None
    if join is not None and e.table and e.table.lower() == join.this.alias.lower():
        return e.name.lower()
    item = next((i for s, i in _steps(e, select) if s is numbered), None)
    return None if item is None else _as_text(item.unalias())


def _joins_fit(select: exp.Select, numbered: exp.Select, keys: Sequence[str], counted: exp.Join | None) -> bool:
    """Whether the other joins look at nothing but the parts: then each row of a part comes out equally often."""
    for join in select.args.get("joins") or []:
        if join is counted:
            continue
        on = join.args.get("on")
        if (
            on is None
            or join.args.get("using")
            or join.side not in ("", "LEFT")
            or join.kind not in ("", "INNER", "OUTER")
        ):
            return False
        for column in on.find_all(exp.Column):
            key = _key(column, select, numbered, counted)
            if key not in (*keys, None) or (key is None and _steps(column, select)):
                return False
    return True


def _point_to_rows(join: exp.Join, select: exp.Select) -> None:
    """Have the keys of the counting subquery read from the rows instead."""
    alias, rows = join.this.alias.lower(), select.args["from_"].this.alias_or_name
    for column in list(select.find_all(exp.Column)):
        if column.table.lower() == alias and column.parent_select is select:
            column.set("table", exp.to_identifier(rows))


def _counts_rows(count: exp.Expr, counting: exp.Select, numbered: exp.Select) -> bool:
    group = numbered.args.get("group")
    if group is None:
        return _is_count(count) and _same_rows(counting, numbered)
    by = [_as_text(e) for e in group.expressions]
    match count:
        case exp.Count(this=exp.Distinct(expressions=different)) if [_as_text(e) for e in different] == by:
            return _same_rows(counting, numbered)
    return False


def _same_rows(counting: exp.Select, numbered: exp.Select) -> bool:
    """Whether two SELECTs read the same rows, if each row finds the one row of a table that is joined on one name."""
    tables, terms = _reads(counting)
    more, further = _reads(numbered)
    left = further - terms
    named = [t for t in left if t.count("=") == 1 and len({s.strip() for s in t.split("=")}) == 1]
    clauses = ("having", "qualify", "limit", "offset", "sample")
    plain = not any(s.args.get(c) for s in (counting, numbered) for c in clauses)
    return (
        plain
        and not (tables - more)
        and not (terms - further)
        and len(named) == left.total() >= (more - tables).total()
    )


def _reads(select: exp.Select) -> tuple[Counter[str], Counter[str]]:
    """Return the tables and subqueries that a SELECT reads, and the conditions that its rows meet."""
    tables, terms = Counter[str](), Counter[str]()
    source = select.args.get("from_")
    joins = select.args.get("joins") or []
    where = select.args.get("where")
    for node in ([] if source is None else [source.this]) + [j.this for j in joins]:
        body = _select_in(node)
        if body is not None and not any(
            body.args.get(c) for c in ("group", "distinct", "having", "qualify", "limit", "offset")
        ):
            inner, conditions = _reads(body)
            tables, terms = tables + inner, terms + conditions
        else:
            tables[node.name.lower() if type(node) is exp.Table else _as_text(node)] += 1
    plain = [j for j in joins if not j.side and j.kind in ("", "INNER", "CROSS")]
    for join in joins:
        if join not in plain:
            terms[f"{join.side} {join.kind}"] += 1
    for condition in [*(j.args.get("on") for j in joins), where.this if where is not None else None]:
        if condition is not None:
            terms.update(map(_as_text, _conjuncts(condition)))
    return tables, terms


def _as_text(e: exp.Expr) -> str:
    """Return an expression as text, its columns without their tables."""
    plain = e.unnest().copy()
    for column in [c for c in plain.find_all(exp.Column) if not c.is_star]:
        bare = exp.column(column.name.lower())
        if column is plain:
            return bare.sql("duckdb")
        column.replace(bare)
    return plain.sql("duckdb")
