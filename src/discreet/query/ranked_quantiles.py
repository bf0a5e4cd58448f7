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
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias, TypeVar

from sqlglot import exp

from discreet.query.places import Place, place_of, share_of

_Tree = TypeVar("_Tree", bound=exp.Expr)

Step: TypeAlias = tuple[exp.Select, exp.Expr]
"""A SELECT and one of its output columns."""


def with_quantiles(tree: _Tree) -> tuple[_Tree, tuple[str, ...]]:
    """Return a query in which each such quantile is an aggregate, and a sentence for each that was read so.

    Guarantee:
        It looks at the text alone. It returns a query like any other: all that bears privacy is decided of that one.
    """
    if not any(place_of(w) for w in tree.find_all(exp.Window)):
        return tree, ()
    changed, said = tree.copy(), dict[str, None]()
    for select in list(changed.find_all(exp.Select)):
        count_names(changed)
        said |= dict.fromkeys(_read(select))
    return (changed, tuple(said)) if said else (tree, ())


def _read(select: exp.Select) -> list[str]:
    """Replace the quantiles of one SELECT, if all of it can be read; return a sentence for each."""
    source = select.args.get("from_")
    if source is None or any(select.args.get(part) for part in ("qualify", "laterals")):
        return []
    quantiles = _quantiles(select)
    if not quantiles or any(_spec(q.numbered_by) != _spec(quantiles[0].numbered_by) for q in quantiles):
        return []
    rank = quantiles[0].rank
    numbered, keys = rank[-1][0], _spec(quantiles[0].numbered_by)[0]
    if not all(is_passing(s) for s, _ in rank[:-1]) or not is_passing(numbered, "joins", "where", "group"):
        return []
    join, beside, gone = None, None, [item for q in quantiles for _, item in q.rank]
    for size in {c for q in quantiles for c in q.sizes}:
        steps = steps_of(size, select)
        around, passed = (select, size) if not steps else (steps[-1][0], steps[-1][1].unalias())
        joined = _counting_join(passed, around, numbered, keys) if not steps or around is numbered else None
        if joined is None and not (steps and _is_size(steps, rank, keys)):
            return []
        gone = gone + [item for _, item in steps]
        join, beside = (joined or join, beside) if not steps else (join, joined or beside)
    used = {id(c) for q in quantiles for e in q.replaced for c in e.find_all(exp.Column)}
    used |= set() if join is None else {id(c) for c in join.find_all(exp.Column)}
    for column in select.find_all(exp.Column):
        steps = steps_of(column, select) if id(column) not in used and column.parent_select is select else []
        if steps and any(steps[0][1] is item for item in gone):
            return []
    if not _groups_fit(select, numbered, keys, join) or not _joins_fit(select, numbered, keys, join):
        return []
    said = []
    for q in quantiles:
        name = "QUANTILE_CONT" if q.picks == "avg" else "QUANTILE_DISC"
        read: exp.Expr = exp.maybe_parse(f"{name}({q.value.sql('duckdb')}, {q.share})", dialect="duckdb")
        text = q.replaced[-1].sql("duckdb")
        text = text if len(text) < _LONG else text[:_LONG] + "…"
        more = "" if q.is_own else "; in the text it may be the value beside it"
        said.append(f"{text} is read as {read.sql('duckdb')}, of the rows with a value{more}.")
        q.replaced[0].replace(read)
        for clause in q.replaced[1:]:
            if clause.parent is not None:
                clause.pop()
    for counted, around in ((join, select), (beside, numbered)):
        if counted is not None:
            _point_to_rows(counted, around)
            counted.pop()
    for item in gone:
        if item.parent is not None:
            item.pop()
    return said


_LONG = 100


@dataclass(frozen=True, slots=True)
class _Quantile:
    """A value that is picked by its place: what is replaced by the quantile, and the clauses that go with it."""

    replaced: tuple[exp.Expr, ...]
    rank: list[Step]
    sizes: tuple[exp.Column, ...]
    share: str
    value: exp.Expr
    picks: str
    numbered_by: exp.Window
    is_own: bool


def _quantiles(select: exp.Select) -> list[_Quantile]:
    """Return the quantiles of a SELECT: each aggregate of a CASE over the place, or all that it shows of the rows
    that its WHERE picks by their place.
    """
    where = select.args.get("where")
    if where is None:
        cases = [q for a in select.find_all(*_PICKS) if (q := _of_case(a, select)) is not None]
        return [] if select.args.get("distinct") else cases
    items = [e.unalias() for e in select.expressions]
    aggregates = [a for a in select.find_all(exp.AggFunc) if a.parent_select is select]
    order, limit = select.args.get("order"), select.args.get("limit")
    if not aggregates and not select.args.get("group"):
        if len(items) != 1 or (order is None) != (limit is None):
            return []
        beside = [c for c in (where, order, limit, select.args.get("distinct")) if c is not None]
        if order is None or limit is None:
            found = _picked(where.this, "one", items[0], select, (items[0], *beside))
            return [] if found is None else [found]
        by, by_value = (
            order.expressions[0],
            _column_in(order.expressions[0].this, select) is _column_in(items[0], select),
        )
        if len(order.expressions) != 1 or limit.expression.name != "1":
            return []
        picks = "max" if by.args.get("desc") else "min"
        found = _picked(where.this, picks, items[0], select, (items[0], *beside), by_value=by_value)
        if found is None or not (by_value or _column_in(by.this, select) is found.rank[0][1]):
            return []
        return [replace(found, picks="one")]
    if limit is not None or any(a.key not in _PICKED for a in aggregates):
        return []
    each = [_picked(where.this, _PICKED[a.key], a.this, select, (a, where)) for a in aggregates]
    return [q for q in each if q is not None] if None not in each else []


def _column_in(e: exp.Expr, select: exp.Select) -> exp.Expr | None:
    """Return the item of FROM that an expression is."""
    steps = steps_of(e, select)
    return steps[0][1] if steps else None


_PICKED = {"min": "min", "max": "max", "avg": "avg", "median": "avg"}
_PICKS = (exp.Min, exp.Max, exp.Avg)


def _of_case(aggregate: exp.Expr, select: exp.Select) -> _Quantile | None:
    """Return what an aggregate of a CASE over a row's place means; None for any other."""
    if aggregate.parent_select is not select:
        return None
    match aggregate.this, aggregate.parent:
        case _, exp.Window() | exp.Filter():
            return None
        case exp.Case(this=None, args={"ifs": [exp.If(this=condition) as arm]}) as case, _:
            then, other = arm.args["true"], case.args.get("default")
        case _:
            return None
    picks = _PICKED[aggregate.key]
    if picks == "min" and _is_far(then) and other is not None:
        return _picked(exp.Not(this=exp.Paren(this=condition.copy())), picks, other, select, (aggregate,))
    nothing = other is None or other.key == "null" or (picks == "min" and _is_far(other))
    return _picked(condition, picks, then, select, (aggregate,)) if nothing else None


def _picked(
    condition: exp.Expr,
    picks: str,
    value: exp.Expr,
    select: exp.Select,
    replaced: tuple[exp.Expr, ...],
    *,
    by_value: bool = True,
) -> _Quantile | None:
    """Return the quantile of the rows beside which a condition on their place holds."""
    column = _rising(value)
    if column.key != "column":
        return None
    places, sizes, rank, by = dict[exp.Expr, Place](), [], list[Step](), list[exp.Window]()
    for c in dict.fromkeys(condition.find_all(exp.Column)):
        steps = steps_of(c, select)
        match steps[-1][1].unalias() if steps else None:
            case exp.Window(args={"order": exp.Order()}) as window if (place := place_of(window)) is not None:
                places[c], rank, by = place, steps, [*by, window]
            case _:
                places[c] = lambda place, rows: rows
                sizes.append(c)
    if len(by) != 1:
        return None
    down = _orders(by[0], column, rank, select)
    turned = {"min": "max", "max": "min"}.get(picks, picks) if down and by_value else picks
    found = None if down is None else share_of(condition, places, turned, down=down)
    return (
        None
        if found is None
        else _Quantile(replaced, rank, tuple(sizes), _written(found[0]), value, picks, by[0], found[1])
    )


def _rising(e: exp.Expr) -> exp.Expr:
    """Return what an expression rises with: itself, or the other end of days since a constant."""
    match e:
        case exp.Paren() | exp.Cast() | exp.TsOrDsToDate():
            return _rising(e.this)
        case exp.DateDiff() if not next(e.expression.find_all(exp.Column, exp.Query, exp.Window), None):
            return _rising(e.this)
    return e


def _written(share: Fraction) -> str:
    """Return a share as a decimal number, or to 15 places."""
    return f"{float(share):.15g}"


def _spec(window: exp.Window) -> tuple[list[str], str]:
    """Return what rows are parted by, and the text of their order."""
    return keys_of(window), as_text(window.args["order"])


def keys_of(window: exp.Expr) -> list[str]:
    """Return by what a window parts its rows, without constants."""
    return [as_text(e) for e in window.args.get("partition_by") or [] if e.key != "literal"]


def _is_far(value: exp.Expr) -> bool:
    """Whether a constant stands for no value: a number of nines, or a date of the year 9999."""
    if next(value.find_all(exp.Column, exp.Select), None) is not None:
        return False
    digits = [n.name for n in value.find_all(exp.Literal)]
    return bool(digits) and digits[0].startswith("999")


def _orders(window: exp.Window, value: exp.Expr, rank: Sequence[Step], select: exp.Select) -> bool | None:
    """Whether rows are numbered downwards in the order of a value, beside the columns that they are parted by; None
    where they have another order.
    """
    keys, _ = _spec(window)
    terms = [o for o in window.args["order"].expressions if as_text(o.this) not in keys]
    numbered = rank[-1][0]
    made = next((item for s, item in steps_of(value, select) if s is numbered), None)
    if len(terms) != 1 or made is None:
        return None
    by = _rising(terms[0].this.unnest())
    same = by.key == "column" and not by.args.get("table") and by.name.lower() == made.alias_or_name.lower()
    return bool(terms[0].args.get("desc")) if same or as_text(by) == as_text(_rising(made.unalias())) else None


def steps_of(column: exp.Expr, select: exp.Select) -> list[Step]:
    """Return where a column of the subquery in FROM comes from, SELECT by SELECT, as far as it is only passed on."""
    source, table = select.args.get("from_"), column.text("table").lower()
    if source is None or column.key != "column":
        return []
    body = body_of(source.this, select)
    if body is None or table not in ("", source.this.alias_or_name.lower()):
        return []
    item = next((e for e in body.expressions if e.alias_or_name.lower() == column.name.lower()), None)
    if item is None and any(e.key == "star" and not any(e.args.values()) for e in body.expressions):
        item = exp.column(column.name)  # of *
    if item is None:
        return []
    match item.unalias():
        case exp.Column() as passed:
            return [(body, item), *steps_of(passed, body)]
    return [(body, item)]


def body_of(source: exp.Expr, select: exp.Select) -> exp.Select | None:
    """Return the SELECT of a subquery, or of a name of WITH that is read here alone."""
    match source:
        case exp.Subquery():
            return select_in(source)
        case exp.Table(db=""):
            match _named(source, select):
                case exp.CTE(this=exp.Select() as body) if _times_named(select.root())[source.name.lower()] == 1:
                    return body
    return None


_NAMED = "times that each table is named"


def count_names(tree: exp.Expr) -> None:
    """Have the tables that a tree names counted again, where they are asked for: it has changed, or may have."""
    tree.meta.pop(_NAMED, None)


def _times_named(tree: exp.Expr) -> Counter[str]:
    if _NAMED not in tree.meta:
        tree.meta[_NAMED] = Counter(t.name.lower() for t in tree.find_all(exp.Table))
    found: Counter[str] = tree.meta[_NAMED]
    return found


def select_in(source: exp.Expr) -> exp.Select | None:
    """Return the SELECT of a subquery."""
    match source, source.unnest():
        case exp.Subquery(), exp.Select() as body:
            return body
    return None


def conjuncts_of(condition: exp.Expr) -> list[exp.Expr]:
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
        for cte in clause.expressions if clause is not None else []:
            if cte.alias.lower() == table.name.lower():
                return cte  # type: ignore[no-any-return]  # a WITH holds no other nodes
        above = above.parent
    return None


def _is_size(size: Sequence[Step], rank: Sequence[Step], keys: Sequence[str]) -> bool:
    """Whether a column is the number of the rows that are numbered, in each part."""
    (made_in, item), numbered = size[-1], rank[-1][0]
    value = item.unalias()
    if value.key == "window":
        parted = keys_of(value)
        below = [s for s, _ in size if s is not made_in]
        between = below[below.index(numbered) :] if numbered in below else []
        same = made_in is numbered or (numbered in below and all(is_passing(s) for s in between))
        return _is_count(value.this) and not value.args.get("order") and sorted(parted) == sorted(keys) and same
    counting = select_in(value)
    if keys or all(made_in is not s for s, _ in rank) or counting is None or len(counting.expressions) != 1:
        return False
    return not counting.args.get("group") and _counts_rows(counting.expressions[0].unalias(), counting, numbered)


def is_passing(select: exp.Select, *more: str) -> bool:
    """Whether a SELECT has each row of its FROM once, or no more clauses than these."""
    known = ("expressions", "from_", "with_", *more)
    return not any(part for name, part in select.args.items() if name not in known)


def _is_count(e: exp.Expr) -> bool:
    match e:
        case exp.Count(this=exp.Star() | exp.Literal()):
            return True
    return False


def _counting_join(size: exp.Expr, select: exp.Select, numbered: exp.Select, keys: Sequence[str]) -> exp.Join | None:
    """Return the join with a subquery that counts the numbered rows of each part."""
    joins: list[exp.Join] = select.args.get("joins") or [] if size.key == "column" else []
    for join in joins:
        source = join.this
        body = select_in(source)
        if body is None or join.side or join.kind not in ("", "INNER", "CROSS"):
            continue
        named = [e for e in body.expressions if e.alias_or_name.lower() == size.name.lower()]
        group = body.args.get("group")
        by = [as_text(e) for e in (group.expressions if group is not None else [])]
        if (
            len(named) != 1
            or size.text("table").lower() not in ("", source.alias.lower())
            or sorted(by) != sorted(keys)
        ):
            continue
        match named[0].unalias():
            case exp.Count(this=exp.Column() as counted) if as_text(counted) in by:
                pass
            case other if not _is_count(other):
                continue
        pairs = _pairs(join)
        if pairs is not None and sorted(pairs) == sorted(keys) and same_rows(body, numbered):
            return join
    return None


def _pairs(join: exp.Join) -> list[str] | None:
    """Return the columns that a join holds equal on both of its sides, each under one name; None for another one."""
    on = join.args.get("on")
    if on is None:
        return [u.name.lower() for u in join.args.get("using") or []]
    terms = conjuncts_of(on)
    named = [{c.name.lower() for c in t.find_all(exp.Column)} for t in terms]
    if any(t.key != "eq" or len(n) != 1 for t, n in zip(terms, named, strict=True)):
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
            case exp.Column() if not steps_of(e, select) and (e.table or select.args.get("joins")):
                pass
            case _:
                return False
    return found == set(keys)


def _key(e: exp.Expr, select: exp.Select, numbered: exp.Select, join: exp.Join | None) -> str | None:
    """Return the column of the numbered rows that an expression is."""
    if e.key != "column":
        return None
    if join is not None and e.text("table").lower() == join.this.alias.lower():
        return e.name.lower()
    item = next((i for s, i in steps_of(e, select) if s is numbered), None)
    return None if item is None else as_text(item.unalias())


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
            if key not in (*keys, None) or (key is None and steps_of(column, select)):
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
        return _is_count(count) and same_rows(counting, numbered)
    by = [as_text(e) for e in group.expressions]
    match count:
        case exp.Count(this=exp.Distinct(expressions=different)) if [as_text(e) for e in different] == by:
            return same_rows(counting, numbered)
    return False


def same_rows(counting: exp.Select, numbered: exp.Select, *, all_of: bool = False) -> bool:
    """Whether two SELECTs read the same rows, if each row finds the one row of a table that is joined on one name.

    Args:
        counting: of one of them.
        numbered: of the other, which may join further tables unless `all_of`.
        all_of: whether it may not.
    """
    tables, terms = _reads(counting)
    more, further = _reads(numbered)
    left = further - terms
    named = [t for t in left if t.count("=") == 1 and len({s.strip() for s in t.split("=")}) == 1]
    clauses = ("having", "qualify", "limit", "offset", "sample")
    plain = not any(s.args.get(c) for s in (counting, numbered) for c in clauses)
    return (
        plain
        and not (all_of and (left or more != tables))
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
        body = select_in(node)
        if body is not None and not any(
            body.args.get(c) for c in ("group", "distinct", "having", "qualify", "limit", "offset")
        ):
            inner, conditions = _reads(body)
            tables, terms = tables + inner, terms + conditions
        else:
            tables[node.name.lower() if type(node) is exp.Table else as_text(node)] += 1
    plain = [j for j in joins if not j.side and j.kind in ("", "INNER", "CROSS")]
    for join in joins:
        if join not in plain:
            terms[f"{join.side} {join.kind}"] += 1
    for condition in [*(j.args.get("on") for j in joins), where.this if where is not None else None]:
        if condition is not None:
            terms.update(map(as_text, conjuncts_of(condition)))
    return tables, terms


def as_text(e: exp.Expr) -> str:
    """Return an expression as text, its columns without their tables."""
    plain = e.unnest().copy()
    for column in [c for c in plain.find_all(exp.Column) if not c.is_star]:
        bare = exp.column(column.name.lower())
        if column is plain:
            return bare.sql("duckdb")
        column.replace(bare)
    return plain.sql("duckdb")
