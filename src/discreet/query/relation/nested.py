"""Subqueries: conjuncts of WHERE that are [NOT] EXISTS and [NOT] IN are semi and anti joins, all others are lifted.

A lifted subquery becomes columns beside the rows, by a LEFT JOIN that meets one row at most. What it asks of its rows
is always an aggregate: EXISTS whether there is one, `x IN (…)` whether one is x, how many there are and how many of
them are known, and a subquery as a value what its SELECT says. Grouped by what its conditions hold equal to the
row around it, and joined on that, it gives each row its own values; where the conditions say more than equations, the
different values that they read of the rows around are joined with the subquery's first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Never

from sqlglot import exp

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.bind import as_condition, bind_row, call
from discreet.query.expr import Column, Expr, Literal
from discreet.query.parse import has_aggregate
from discreet.query.relation.context import Context, Rows
from discreet.query.relation.grouping import bind_over, column_of, folds_of
from discreet.query.relation.joining import check_units, conjunction, holds_units_equal, is_unit_pair, join, way
from discreet.query.relation.names import CONSTANT, HIDDEN, AliasColumns, Item, Names
from discreet.query.relation.node import (
    Distinct,
    Fold,
    Group,
    Join,
    JoinKind,
    Project,
    fields,
    filtered,
    scanned,
    whole,
)
from discreet.query.relation.settle import columns_in, renamed
from discreet.query.relation.sources import conjoined, conjuncts, is_nested, read_from
from discreet.query.relation.stage import of_rows, still

Put = Callable[[exp.Expr], exp.Expr]
"""An expression → the same with columns in place of its subqueries."""


@dataclass(frozen=True, slots=True)
class Test:
    """[NOT] EXISTS (query), value [NOT] IN (query), or value < ANY (query) and the like; `part` as it is written.

    `compared` is None for IN. ALL is negated: no row of the query may make the comparison anything but true.
    """

    part: exp.Expr
    query: exp.Expr
    value: exp.Expr | None
    negated: bool
    compared: str | None = None


def split(where: exp.Expr | None) -> tuple[list[exp.Expr], list[Test], list[exp.Expr]]:
    """Return the plain conjuncts of a condition, those that ask another query, those in which one stands elsewhere."""
    plain: list[exp.Expr] = []
    tests: list[Test] = []
    mixed: list[exp.Expr] = []
    for part in conjuncts(where):
        test = _test(part)
        if test is not None:
            tests.append(test)
        else:
            (mixed if is_nested(part) else plain).append(part)
    return plain, tests, mixed


def read_where(select: exp.Select, context: Context) -> tuple[Rows, list[exp.Expr]]:
    """Return the rows of FROM that pass the tests of WHERE, and its other conjuncts, which no join has taken."""
    where = select.args["where"].this if select.args.get("where") else None
    select, moved = without_subqueries(select)
    plain, tests, mixed = split(conjoined([*conjuncts(where), *moved]))
    rows, left = read_from(select, plain, context)
    for test in tests:
        rows = _tested(rows, test, context)
    rows, put = lift(rows, mixed, context)
    return rows, [*left, *map(put, mixed)]


def without_subqueries(select: exp.Select) -> tuple[exp.Select, list[exp.Expr]]:
    """Return the query without the conditions of inner joins in which a query stands, and these: WHERE may hold them
    as well, where no later join has rows that they would leave out.
    """
    joins = select.args.get("joins") or []
    plain = all(j.side in ("", "LEFT") for j in joins)
    inner = [i for i, j in enumerate(joins) if not j.side and j.kind in ("", "INNER") and j.args.get("on") is not None]
    if not plain or not any(is_nested(joins[i].args["on"]) for i in inner):
        return select, []
    select, moved = select.copy(), []
    for i in inner:
        join = select.args["joins"][i]
        parts = conjuncts(join.args["on"])
        moved += [p for p in parts if is_nested(p)]
        join.set("on", conjoined([p for p in parts if not is_nested(p)]))
    return select, moved


def filtered_by(rows: Rows, conditions: Sequence[exp.Expr], context: Context) -> Rows:
    """Return the rows that meet conditions over them."""
    names = context.names(rows)
    found = conjunction([as_condition(bind_row(c, names), "WHERE") for c in conditions])
    if found is None:
        return rows
    entries = tuple(replace(e, items=tuple(i.narrowed(found) for i in e.items)) for e in rows.entries)
    return Rows(filtered(rows.node, found), entries, tuple(i.narrowed(found) for i in rows.merged))


def ask(query: exp.Expr, outer: Names, context: Context, *, value: bool) -> tuple[Rows, Expr | None, list[Expr]]:
    """Return the rows of a subquery, the one column that it gives, and its conditions on the row around it."""
    if not isinstance(query, exp.Select) or not query.args.get("from_") or not _is_plain(query):
        rows = context.query(query, context)
        items = rows.shown()
        return rows, items[0].read if len(items) == 1 else None, []
    single = len(query.expressions) == 1 and not query.expressions[0].is_star
    shown = [query.expressions[0].unalias()] if value and single else []
    rows, around, put = _asked(query, shown, outer, context)
    found = bind_row(put(shown[0]), context.names(rows)) if shown else None
    return rows, found, around


def ask_value(query: exp.Select, outer: Names, context: Context) -> tuple[Rows, list[Expr], exp.Expr, Names]:
    """Return the rows of a subquery in place of a value, its conditions on the row around, what it shows, and its
    names.
    """
    shown = query.expressions[0].unalias()
    rows, around, put = _asked(query, [shown], outer, context)
    return rows, around, put(shown), context.names(rows, beyond=outer)


def _asked(
    query: exp.Select, shown: Sequence[exp.Expr], outer: Names, context: Context
) -> tuple[Rows, list[Expr], Put]:
    context = replace(context, unmatched=None)
    rows, left = read_where(query, context)
    inner = context.names(rows)
    own = [c for c in left if all(inner.knows(n) for n in c.find_all(exp.Column))]
    rows = filtered_by(rows, own, context)
    names = context.names(rows, beyond=outer)
    around = [as_condition(bind_row(c, names), "WHERE") for c in left if c not in own]
    rows, put = lift(rows, shown, context)
    return rows, around, put


def refuse_several() -> Never:
    """Refuses IN over several columns.

    Raises:
        UnsupportedQuery: always.
    """
    raise UnsupportedQuery(
        "IN (SELECT …) compares each value with one column, and several of them only as a condition of WHERE.",
        hint="write x IN (SELECT y FROM …), or EXISTS",
    )


def _test(part: exp.Expr) -> Test | None:
    negated = False
    while isinstance(part, exp.Not):
        negated, part = not negated, part.this.unnest()
    match part:
        case exp.Exists():
            return Test(part, part.this, None, negated)
        case exp.In() if (query := part.args.get("query")) is not None and not is_nested(part.this):
            return Test(part, query.unnest(), part.this, negated)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() if not negated:
            return _any_or_all(part)
        case _:
            return None


def _any_or_all(part: exp.Expr) -> Test | None:
    among = part.args["expression"]
    if not isinstance(among, exp.Any | exp.All) or not is_nested(among) or is_nested(part.this):
        return None
    query, every, compared = among.this.unnest(), isinstance(among, exp.All), _COMPARED[type(part)]
    if (every, compared) in ((False, "="), (True, "<>")):
        return Test(part, query, part.this, every)  # IN, NOT IN
    return Test(part, query, part.this, every, compared)


_COMPARED: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def _tested(rows: Rows, test: Test, context: Context) -> Rows:
    kind = JoinKind.ANTI if test.negated else JoinKind.SEMI
    outer = context.names(rows)
    if isinstance(test.value, exp.Tuple) and not test.negated:
        other, several, conditions = _ask_several(test.query, len(test.value.expressions), outer, context)
        pairs = zip(test.value.expressions, several, strict=True)
        same_ones = [call("=", [bind_row(v, outer), f]) for v, f in pairs]
        return join(kind, rows, other, [*same_ones, *conditions], context)
    other, found, conditions = ask(test.query, outer, context, value=test.value is not None)
    if test.value is None:
        return join(kind, rows, other, conditions, context)
    if found is None or isinstance(test.value, exp.Tuple):
        refuse_several()
    value = bind_row(test.value, outer)
    same = call(test.compared or "=", [value, found])
    if test.negated and test.compared is not None:
        other_than = call("not", [call("coalesce", [same, Literal(False, Type.BOOL)])])
        return join(kind, rows, other, [other_than, *conditions], context)
    if not test.negated:
        return join(kind, rows, other, [same, *conditions], context)
    if conditions:
        rows, put = lift(rows, [test.part], context)  # whose list it is, the conditions say
        return filtered_by(rows, [exp.Not(this=put(test.part))], context)
    return _not_in(rows, other, value, found, same, context)


def _ask_several(query: exp.Expr, many: int, outer: Names, context: Context) -> tuple[Rows, list[Expr], list[Expr]]:
    """Return the rows of a subquery, the columns that it gives, and its conditions on the row around it."""
    if not isinstance(query, exp.Select) or not _is_plain(query) or query.is_star:
        rows = context.query(query, context)
        found, around = [i.read for i in rows.shown() if i.read is not None], list[Expr]()
    else:
        shown = [e.unalias() for e in query.expressions]
        rows, around, put = _asked(query, shown, outer, context)
        found = [bind_row(put(e), context.names(rows)) for e in shown]
    if len(found) != many:
        refuse_several()
    return rows, found, around


def _not_in(rows: Rows, other: Rows, value: Expr, found: Expr, same: Expr, context: Context) -> Rows:
    """NOT IN is true where the list is empty, or nothing there is NULL and the value is neither NULL nor among them."""
    unknown = call("is null", [found])
    if other.owned:
        # each unit's own list; a NULL value, which would be in no unit's, is in no list that is not empty
        rows = Rows(filtered(rows.node, call("not", [call("is null", [value])])), rows.entries, rows.merged)
        return join(JoinKind.ANTI, rows, other, [call("or", [same, unknown])], context, proofs=[same])
    rows = join(JoinKind.ANTI, rows, other, [same], context)
    rows = join(JoinKind.ANTI, rows, _any(other, unknown, context), [], context)
    return join(JoinKind.ANTI, rows, _any(other, None, context), [call("is null", [value])], context)


def _any(rows: Rows, where: Expr | None, context: Context) -> Rows:
    """One public row if there is any, else none."""
    below, column = context.fresh(Type.BOOL), context.fresh(Type.BOOL)
    marked = Project(rows.node, ((below, Literal(True, Type.BOOL)),), where)
    return Rows(Distinct(marked, ((column, below),)), ())


def _is_plain(query: exp.Select) -> bool:
    """Whether a query only picks rows: no groups, no windows, nothing else around them."""
    clauses = {name for name, part in query.args.items() if part}
    plain = clauses <= {"expressions", "from_", "joins", "laterals", "where"}
    return plain and next((e for i in query.expressions for e in i.find_all(exp.AggFunc, exp.Window)), None) is None


@dataclass(frozen=True, slots=True)
class InnerRows:
    """The rows of a subquery that meet its own conditions, and its conditions on the row around it."""

    rows: Rows
    around: Sequence[Expr]


@dataclass(frozen=True, slots=True)
class MeasuredColumn:
    """An aggregate over a subquery's rows, the column that holds it, and what is known of it."""

    column: Column
    fold: Fold
    known: Item = field(default_factory=lambda: Item("", None))


def lift(rows: Rows, exprs: Sequence[exp.Expr], context: Context) -> tuple[Rows, Put]:
    """Return the rows with a column for each subquery in these expressions, and how the expressions read them.

    Guarantee:
        The rows are the same ones: none is lost, and none is there twice. What is beside a row of a unit follows from
        that unit's own rows and from public ones.

    Raises:
        UnknownColumn, UnsupportedQuery: see `discreet.errors`.
    """
    places: dict[exp.Expr, exp.Column] = {}
    around = rows
    for e in map(_without_one_row, exprs):
        for node in subqueries(e):
            if node not in places:
                rows, places[node] = _value(rows, around, node, context)

    def put(e: exp.Expr) -> exp.Expr:
        e = _without_one_row(e)
        return e if not places else e.copy().transform(lambda n: places[n].copy() if n in places else n)

    return rows, put


def _without_one_row(e: exp.Expr) -> exp.Expr:
    """Return an expression with the value in place of (SELECT value), which has no FROM."""

    def is_value(node: exp.Expr) -> bool:
        match node, node.unnest():
            case exp.Subquery(), exp.Select(expressions=[shown]) as query:
                alone = all(n == "expressions" for n, part in query.args.items() if part)
                return alone and not has_aggregate(shown) and not shown.find(exp.Explode, exp.Window)
        return False

    if not any(map(is_value, e.find_all(exp.Subquery))):
        return e
    return e.copy().transform(lambda n: exp.Paren(this=n.unnest().expressions[0].unalias()) if is_value(n) else n)


def subqueries(e: exp.Expr) -> list[exp.Expr]:
    """Return the outermost subqueries in an expression: EXISTS, IN, and those that stand for values."""
    match e:
        case exp.Exists() | exp.Subquery():
            return [e]
        case exp.In() if e.args.get("query"):
            return [e]
        case exp.Any() | exp.All() | exp.Array() if e.find(exp.Select) is not None:
            raise UnsupportedQuery(
                f"{e.key.upper()} (SELECT …) is not supported here.",
                hint="compare with (SELECT MIN(x) …) or (SELECT MAX(x) …); = ANY is IN",
            )
        case exp.Query():
            _refuse_form()
    return [n for child in e.iter_expressions() for n in subqueries(child)]


def _value(rows: Rows, around: Rows, node: exp.Expr, context: Context) -> tuple[Rows, exp.Column]:
    """Return the rows with the columns of one subquery, and the name of its value."""
    public = False
    match node:
        case exp.Exists():
            rows, value, measured = _exists(rows, around, node, context)
        case exp.In():
            rows, value, measured = _in(rows, around, node, context)
        case _:
            rows, value, measured, public = _scalar(rows, around, node, context)
    alias = f"{CONSTANT if public else HIDDEN}{len(rows.entries)}"
    facts = [replace(m.known, name=SUBQUERY, expr=m.column).nullable() for m in measured]
    shown = next((i.fact for i in facts if i.expr == value), None)
    entries = (AliasColumns(alias, (Item(SUBQUERY, value, shown),)), AliasColumns(HIDDEN, tuple(facts)))
    return replace(rows, entries=(*rows.entries, *entries)), exp.column(SUBQUERY, table=alias)


SUBQUERY = "(SELECT …)"
"""How messages call the value of a subquery."""

_Lifted = tuple[Rows, Expr, Sequence[MeasuredColumn]]


def _exists(rows: Rows, around: Rows, node: exp.Exists, context: Context) -> _Lifted:
    found, _, conditions = ask(node.this, context.names(around), context, value=False)
    inner = InnerRows(found, conditions)
    _check(around, inner, context)
    count = _count(context)
    return _beside(rows, around, inner, [count], context), _some(count), [count]


def _in(rows: Rows, around: Rows, node: exp.In, context: Context) -> _Lifted:
    """SQL's three values: true where the value is among them; unknown where it, or one of them, is; else false."""
    outer = context.names(around)
    if subqueries(node.this):
        _refuse_form()
    found, member, conditions = ask(node.args["query"].unnest(), outer, context, value=True)
    if member is None or isinstance(node.this, exp.Tuple):
        refuse_several()
    value = bind_row(node.this, outer)
    same = call("=", [value, member])
    value, member = same.children  # in one type
    inner = InnerRows(found, conditions)
    own = _check(around, inner, context, [same])
    hit, count, known = _count(context), _count(context), _count(context, member)
    # a list of people's rows that only the value itself ties to the row is each unit's own: NULL is on no unit's
    tied = InnerRows(found, [*conditions, same])
    rows = _beside(rows, around, tied, [hit], context)
    rows = _beside(rows, around, inner, [count, known], context)
    nothing, true, false = Literal(None, None), Literal(True, Type.BOOL), Literal(False, Type.BOOL)
    empty = call("not", [_some(count)])
    unknown = call("is null", [value])
    first = [unknown, nothing, empty, false] if own else [empty, false, unknown, nothing]
    missing = call(">", [count.column, known.column])
    return rows, call("case", [_some(hit), true, *first, missing, nothing, false]), [hit, count, known]


def _scalar(
    rows: Rows, around: Rows, node: exp.Expr, context: Context
) -> tuple[Rows, Expr, Sequence[MeasuredColumn], bool]:
    """Return an aggregate without GROUP BY, which is one row: of the public tables, or of the same unit's rows."""
    query = _checked(_first(node.unnest()))
    if not any(map(has_aggregate, query.expressions)):
        query = _only_row(query)
    elif query.args.get("distinct"):  # of one row
        query = query.copy()
        query.set("distinct", None)
    outer = context.names(around)
    found, conditions, shown, names = ask_value(query, outer, context)
    inner, below = InnerRows(found, conditions), of_rows(found.node, names)
    folds = folds_of([shown], below, context)
    read = [columns_in([f.argument]) for f in folds]
    if any(c and c <= _columns(around) for c in read):
        raise UnsupportedQuery(
            "An aggregate in a subquery has to read the subquery's own columns.",
            hint="say whose a column is: alias.column",
        )
    if around.owned and found.owned and not _tied(around, found, conditions):
        raise UnsupportedQuery(
            "A subquery that aggregates over people is a result of its own.",
            hint=f"ask it first, and write the number here; or {_equal_units(around, found)}",
        )
    _check(around, inner, context)
    measured = [MeasuredColumn(column_of(i), f, i) for f, i in folds.items()]
    value = bind_over(shown, below, outer, folds)
    outside = columns_in([value, *(m.fold.argument for m in measured)]) & _columns(around)
    shared = not found.owned and not conditions and not outside
    return _beside(rows, around, inner, measured, context), value, measured, shared


def _first(query: exp.Expr) -> exp.Expr:
    """Return a query with LIMIT 1, which public rows alone may have, as one of all rows of a subquery in FROM."""
    match query:
        case exp.Select(expressions=[shown], args={"limit": exp.Limit(expression=most)}) if not shown.is_star:
            if most != exp.Literal.number(1):
                return query
        case _:
            return query
    inner = query.copy()
    inner.set("expressions", [exp.alias_(shown.unalias().copy(), "x")])
    source = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("one")))
    return exp.Select(expressions=[exp.column("x", table="one")], from_=exp.From(this=source))


def _only_row(query: exp.Select) -> exp.Select:
    """Return the query of a value as an aggregate: the value of the one row, and NULL of several, where SQL fails."""
    shown = query.expressions[0].unalias()
    if is_nested(shown):
        return query
    made, one = query.copy(), exp.LTE(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    if made.args.get("distinct"):  # NULL is a value of its own
        made.set("distinct", None)
        values = exp.Count(this=exp.Distinct(expressions=[shown.copy()]))
        zero, number = exp.Literal.number(0), exp.Literal.number(1)
        is_null = exp.Is(this=shown.copy(), expression=exp.Null())
        nulls = exp.Max(this=exp.Case(ifs=[exp.If(this=is_null, true=number)], default=zero))
        one = exp.LTE(this=exp.Add(this=values, expression=nulls), expression=exp.Literal.number(1))
    value = exp.Case(ifs=[exp.If(this=one, true=exp.Max(this=shown.copy()))])
    made.set("expressions", [value])
    return made


def _equal_units(around: Rows, inner: Rows) -> str:
    alike = {e.alias for e in around.entries} & {e.alias for e in inner.entries if e.alias}
    if alike:
        return "name the two tables apart with AS, and hold the units equal in it"
    return f"hold the units equal in it: WHERE {way(around, inner)}"


def _checked(query: exp.Expr) -> exp.Select:
    if not isinstance(query, exp.Select):
        _refuse_form()
    clauses = {name for name, part in query.args.items() if part}
    more = sorted(clauses - {"expressions", "from_", "joins", "laterals", "where", "distinct"})
    if more or len(query.expressions) != 1 or query.expressions[0].is_star:
        what = f"with {more[0].strip('_').upper()}" if more else "of several columns"
        raise UnsupportedQuery(
            f"A subquery {what} is not supported in place of a value.",
            hint="write (SELECT MAX(x) FROM … WHERE …), which is one value; or join a subquery that QUALIFY "
            "row_number() OVER (PARTITION BY the unit ORDER BY …) = 1 leaves one row of",
        )
    return query


def _beside(rows: Rows, around: Rows, inner: InnerRows, measured: Sequence[MeasuredColumn], context: Context) -> Rows:
    """Return the rows with aggregates of the subquery's rows beside them, NULL where it has none for a row."""
    outside = _columns(around)
    units = around.owned and inner.rows.owned
    conditions = [c for c in inner.around if not (units and is_unit_pair(c, around, inner.rows))]
    pairs = [_split(c, outside) for c in conditions]
    folds = tuple((m.column, m.fold) for m in measured)
    if None not in pairs and not columns_in([m.fold.argument for m in measured]) & outside:
        # one key for each inner side: what is asked of it twice is asked of the rows around
        found = [p for p in pairs if p is not None]
        keys = {inside: context.fresh(inside.type or Type.TEXT) for _, inside in found}
        bound = tuple((column, still(inside)) for inside, column in keys.items())
        on = [call("=", [outer, keys[inside]]) for outer, inside in found]
        group = Group(inner.rows.node, bound, folds, once=inner.rows.owned and not bound)
    else:
        # the rows around are read twice, and each has to find its own values again
        rows, around = (replace(r, node=whole(r.node)) for r in (rows, around))
        group, on = _met(around, inner, conditions, folds, context)
    columns = (*fields(rows.node), *(c for c, _ in folds))
    node = Join(JoinKind.LEFT, rows.node, group, conjunction(on), tuple((c, c) for c in columns), single=True)
    return Rows(node, rows.entries, rows.merged)


def _met(
    around: Rows, inner: InnerRows, conditions: Sequence[Expr], folds: Sequence[tuple[Column, Fold]], context: Context
) -> tuple[Group, list[Expr]]:
    """Return the aggregates for each different row of values around, and how a row finds its own."""
    for table in (t.name for t in scanned(around.node)):
        context.read(table)
    asked = columns_in([*conditions, *(f.argument for _, f in folds)]) & _columns(around)
    read = sorted(asked, key=lambda c: int(c.name[1:]))
    first, second = ({c: context.fresh(c.type) for c in read} for _ in range(2))
    given = Project(around.node, tuple((first[c], still(c)) for c in read))
    different = Distinct(given, tuple((second[c], first[c]) for c in read))
    on = conjunction([renamed(c, second) for c in conditions])
    columns = (*second.values(), *fields(inner.rows.node))
    met = Join(JoinKind.INNER, different, inner.rows.node, on, tuple((c, c) for c in columns))
    keys = {c: context.fresh(c.type) for c in read}
    moved = tuple((c, f if f.argument is None else Fold(f.name, renamed(f.argument, second))) for c, f in folds)
    group = Group(met, tuple((keys[c], still(second[c])) for c in read), moved)
    return group, [call("same", [c, keys[c]]) for c in read]


def _split(condition: Expr, outside: set[Column]) -> tuple[Expr, Expr] | None:
    """Return the outer and the inner side of an equation that has both; None for any other condition."""
    sides = condition.args_of("=")
    for outer, inside in (sides, sides[::-1]) if sides else ():
        if columns_in([outer]) <= outside and columns_in([inside]) and not columns_in([inside]) & outside:
            return outer, inside
    return None


def _check(around: Rows, inner: InnerRows, context: Context, proofs: Sequence[Expr] = ()) -> bool:
    """Refuses a subquery whose rows are not the same unit's; whether only the proofs hold the units equal."""
    if not inner.rows.owned:
        return False
    if not around.owned:
        raise UnsupportedQuery(
            "What a private table holds for a public row would tell of people.",
            hint="start FROM the private table, and join the public one to it",
        )
    check_units(around, inner.rows, [*inner.around, *proofs], context)
    return not _tied(around, inner.rows, inner.around)


def _tied(around: Rows, rows: Rows, conditions: Sequence[Expr]) -> bool:
    return around.owned and any(holds_units_equal(c, around, rows) for c in conditions)


def _columns(rows: Rows) -> set[Column]:
    return columns_in([i.expr for e in rows.entries for i in e.items])


def _count(context: Context, of: Expr | None = None) -> MeasuredColumn:
    return MeasuredColumn(context.fresh(Type.INT), Fold("count", of))


def _some(count: MeasuredColumn) -> Expr:
    """Whether a count is above 0; where the join has found nothing it is NULL."""
    return call(">", [call("coalesce", [count.column, Literal(0, Type.INT)]), Literal(0, Type.INT)])


def _refuse_form() -> Never:
    raise UnsupportedQuery(
        "A subquery in this place is not supported here.",
        hint="write [NOT] EXISTS (SELECT …), x [NOT] IN (SELECT …) or (SELECT aggregate FROM …)",
    )
