"""WHERE: conjuncts that are [NOT] EXISTS and [NOT] IN are semi and anti joins; subqueries elsewhere are lifted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Never

from sqlglot import exp

from discreet.errors import UnsupportedQuery
from discreet.plan.bind import as_condition, bind_row, call
from discreet.plan.expr import Expr, Literal
from discreet.plan.relation.context import Context, Rows
from discreet.plan.relation.joining import conjunction, join
from discreet.plan.relation.lifting import Put, lift
from discreet.plan.relation.names import Names
from discreet.plan.relation.node import Distinct, Kind, Project, filtered
from discreet.plan.relation.sources import conjuncts, is_nested, read_from
from discreet.plan.types import Type


@dataclass(frozen=True, slots=True)
class Test:
    """[NOT] EXISTS (query), or value [NOT] IN (query); `part` as it is written."""

    part: exp.Expr
    query: exp.Expr
    value: exp.Expr | None
    negated: bool


def split(where: exp.Expr | None) -> tuple[list[exp.Expr], list[Test], list[exp.Expr]]:
    """The plain conjuncts of a condition, those that ask another query, and those in which one stands elsewhere."""
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
    """The rows of FROM that pass the tests of WHERE, and its other conjuncts, which no join has taken."""
    where = select.args["where"].this if select.args.get("where") else None
    plain, tests, mixed = split(where)
    rows, left = read_from(select, plain, context)
    for test in tests:
        rows = _tested(rows, test, context)
    rows, put = lift(rows, mixed, context)
    return rows, [*left, *map(put, mixed)]


def filtered_by(rows: Rows, conditions: Sequence[exp.Expr], context: Context) -> Rows:
    """The rows that meet conditions over them."""
    names = context.names(rows)
    found = conjunction([as_condition(bind_row(c, names), "WHERE") for c in conditions])
    return rows if found is None else Rows(filtered(rows.node, found), rows.entries, rows.merged)


def ask(
    query: exp.Expr, outer: Names, context: Context, *, value: bool
) -> tuple[Rows, Expr | None, list[Expr]]:
    """The rows of a subquery, the one column that it gives, and its conditions on the row around it."""
    if not isinstance(query, exp.Select) or not _is_plain(query):
        rows = context.query(query, context)
        items = rows.shown()
        return rows, items[0].read if len(items) == 1 else None, []
    single = len(query.expressions) == 1 and not query.expressions[0].is_star
    shown = [query.expressions[0].unalias()] if value and single else []
    rows, around, put = _asked(query, shown, outer, context)
    found = bind_row(put(shown[0]), context.names(rows)) if shown else None
    return rows, found, around


def ask_value(query: exp.Select, outer: Names, context: Context) -> tuple[Rows, list[Expr], exp.Expr, Names]:
    """The rows of a subquery in place of a value, its conditions on the row around, what it shows, and its names."""
    shown = query.expressions[0].unalias()
    rows, around, put = _asked(query, [shown], outer, context)
    return rows, around, put(shown), context.names(rows, beyond=outer)


def _asked(
    query: exp.Select, shown: Sequence[exp.Expr], outer: Names, context: Context
) -> tuple[Rows, list[Expr], Put]:
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
        "IN (SELECT …) compares one value with one column.", hint="write x IN (SELECT y FROM …), or EXISTS"
    )


def _test(part: exp.Expr) -> Test | None:
    negated = False
    while isinstance(part, exp.Not):
        negated, part = not negated, part.this.unnest()
    if isinstance(part, exp.Exists):
        return Test(part, part.this, None, negated)
    query = part.args.get("query") if isinstance(part, exp.In) else None
    if query is None:
        return None
    return None if is_nested(part.this) else Test(part, query.unnest(), part.this, negated)


def _tested(rows: Rows, test: Test, context: Context) -> Rows:
    kind = Kind.ANTI if test.negated else Kind.SEMI
    outer = context.names(rows)
    other, found, conditions = ask(test.query, outer, context, value=test.value is not None)
    if test.value is None:
        return join(kind, rows, other, conditions, context)
    if found is None or isinstance(test.value, exp.Tuple):
        refuse_several()
    value = bind_row(test.value, outer)
    same = call("=", [value, found])
    if not test.negated:
        return join(kind, rows, other, [same, *conditions], context)
    if conditions:
        rows, put = lift(rows, [test.part], context)  # whose list it is, the conditions say
        return filtered_by(rows, [exp.Not(this=put(test.part))], context)
    return _not_in(rows, other, value, found, same, context)


def _not_in(rows: Rows, other: Rows, value: Expr, found: Expr, same: Expr, context: Context) -> Rows:
    """NOT IN is true where the list is empty, or nothing there is NULL and the value is neither NULL nor among them."""
    unknown = call("is null", [found])
    if other.owned:
        # each unit's own list; a NULL value, which would be in nobody's, is in no list that is not empty
        rows = Rows(filtered(rows.node, call("not", [call("is null", [value])])), rows.entries, rows.merged)
        return join(Kind.ANTI, rows, other, [call("or", [same, unknown])], context, proofs=[same])
    rows = join(Kind.ANTI, rows, other, [same], context)
    rows = join(Kind.ANTI, rows, _any(other, unknown, context), [], context)
    return join(Kind.ANTI, rows, _any(other, None, context), [call("is null", [value])], context)


def _any(rows: Rows, where: Expr | None, context: Context) -> Rows:
    """One public row if there is any, else none."""
    below, column = context.fresh(Type.BOOL), context.fresh(Type.BOOL)
    marked = Project(rows.node, ((below, Literal(True, Type.BOOL)),), where)
    return Rows(Distinct(marked, ((column, below),)), ())


def _is_plain(query: exp.Select) -> bool:
    """Whether a query only picks rows: no groups, no windows, nothing else around them."""
    clauses = {name for name, part in query.args.items() if part}
    plain = clauses <= {"expressions", "from_", "joins", "laterals", "where"}
    return (
        plain
        and next((e for i in query.expressions for e in i.find_all(exp.AggFunc, exp.Window)), None) is None
    )
