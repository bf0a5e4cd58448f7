"""Conjuncts of WHERE that ask another query: [NOT] EXISTS and [NOT] IN, as semi and anti joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from discreet.errors import UnsupportedQuery
from discreet.plan.bind import as_condition, bind_row, call
from discreet.plan.expr import Expr, Literal
from discreet.plan.relation.context import Context, Rows
from discreet.plan.relation.joining import conjunction, join
from discreet.plan.relation.names import Names
from discreet.plan.relation.node import Distinct, Kind, Project, filtered
from discreet.plan.relation.sources import conjuncts, is_nested, read_from
from discreet.plan.types import Type


@dataclass(frozen=True, slots=True)
class Test:
    """[NOT] EXISTS (query), or value [NOT] IN (query)."""

    query: exp.Expr
    value: exp.Expr | None
    negated: bool


def split(where: exp.Expr | None) -> tuple[list[exp.Expr], list[Test]]:
    """The plain conjuncts of a condition, and those that ask another query.

    Raises:
        UnsupportedQuery: a query in any other place.
    """
    plain: list[exp.Expr] = []
    tests: list[Test] = []
    for part in conjuncts(where):
        test = _test(part)
        if test is not None:
            tests.append(test)
        elif is_nested(part):
            refuse_nested(part)
        else:
            plain.append(part)
    return plain, tests


def read_where(select: exp.Select, context: Context) -> tuple[Rows, list[exp.Expr]]:
    """The rows of FROM that pass the tests of WHERE, and its other conjuncts, which no join has taken."""
    where = select.args["where"].this if select.args.get("where") else None
    plain, tests = split(where)
    rows, left = read_from(select, plain, context)
    for test in tests:
        rows = _tested(rows, test, context)
    return rows, left


def filtered_by(rows: Rows, conditions: Sequence[exp.Expr], context: Context) -> Rows:
    """The rows that meet conditions over them."""
    names = context.names(rows)
    found = conjunction([as_condition(bind_row(c, names), "WHERE") for c in conditions])
    return rows if found is None else Rows(filtered(rows.node, found), rows.entries, rows.merged)


def refuse_nested(node: exp.Expr) -> None:
    """Refuses a query in an expression.

    Raises:
        UnsupportedQuery: always, by what it is.
    """
    if next(node.find_all(exp.Exists), None) or any(i.args.get("query") for i in node.find_all(exp.In)):
        raise UnsupportedQuery(
            "IN (SELECT …) and EXISTS are answered as whole conditions of WHERE only, not inside OR, CASE or SELECT.",
            hint="join them with AND, or LEFT JOIN the subquery and test its column for NULL",
        )
    raise UnsupportedQuery(
        "A subquery in place of a value is not answered here.",
        hint="JOIN a subquery that has one row for each unit, or write the value itself",
    )


def _test(part: exp.Expr) -> Test | None:
    negated = False
    while isinstance(part, exp.Not):
        negated, part = not negated, part.this.unnest()
    if isinstance(part, exp.Exists):
        return Test(part.this, None, negated)
    query = part.args.get("query") if isinstance(part, exp.In) else None
    if query is None:
        return None
    if is_nested(part.this):
        refuse_nested(part.this)
    return Test(query.unnest(), part.this, negated)


def _tested(rows: Rows, test: Test, context: Context) -> Rows:
    kind = Kind.ANTI if test.negated else Kind.SEMI
    outer = context.names(rows)
    other, found, conditions = _asked(test, outer, context)
    if test.value is None:
        return join(kind, rows, other, conditions, context)
    if found is None or isinstance(test.value, exp.Tuple):
        raise UnsupportedQuery(
            "IN (SELECT …) compares one value with one column.",
            hint="write x IN (SELECT y FROM …), or EXISTS",
        )
    value = bind_row(test.value, outer)
    same = call("=", [value, found])
    if not test.negated:
        return join(kind, rows, other, [same, *conditions], context)
    if conditions:
        raise UnsupportedQuery(
            "NOT IN whose subquery refers to the query around it is not answered here.", hint="use NOT EXISTS"
        )
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


def _asked(test: Test, outer: Names, context: Context) -> tuple[Rows, Expr | None, list[Expr]]:
    """The rows of a test's query, the one column that it gives, and its conditions on the rows around it."""
    query = test.query
    if not isinstance(query, exp.Select) or not _is_plain(query):
        rows = context.query(query, context)
        items = rows.shown()
        return rows, items[0].read if len(items) == 1 else None, []
    rows, left = read_where(query, context)
    inner = context.names(rows)
    own = [c for c in left if all(inner.knows(n) for n in c.find_all(exp.Column))]
    rows = filtered_by(rows, own, context)
    names = context.names(rows, beyond=outer)
    around = [as_condition(bind_row(c, names), "WHERE") for c in left if c not in own]
    single = len(query.expressions) == 1 and not query.expressions[0].is_star
    found = bind_row(query.expressions[0].unalias(), inner) if test.value is not None and single else None
    return rows, found, around


def _is_plain(query: exp.Select) -> bool:
    """Whether a query only picks rows: no groups, no windows, nothing else around them."""
    clauses = {name for name, part in query.args.items() if part}
    plain = clauses <= {"expressions", "from_", "joins", "laterals", "where"}
    return (
        plain
        and next((e for i in query.expressions for e in i.find_all(exp.AggFunc, exp.Window)), None) is None
    )
