"""From syntax to typed trees: names resolved, types inferred, aggregates turned into noisy columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from discreet.errors import InvalidParameter, UnknownColumn, UnsupportedQuery
from discreet.plan.aggregates import AGGREGATES
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.expr import Call, Column, Expr, Key, Literal, Measured
from discreet.plan.functions import FUNCTIONS
from discreet.plan.measure import Measure
from discreet.plan.schema import Fact, Range, TableSchema, Values, fact_type
from discreet.plan.syntax import function_of
from discreet.plan.types import Type

DEEPEST = 60
"""Levels of nesting in one expression."""

MOST_MEASURES = 200
"""Different noisy columns in one question."""


@dataclass(slots=True)
class Measures:
    """The distinct measures of a question, in the order in which they were first asked for."""

    found: list[Measure] = field(default_factory=list)

    def column(self, measure: Measure, kind: Type) -> Measured:
        """The noisy column of a measure; the same measure is measured once."""
        if measure not in self.found:
            if len(self.found) == MOST_MEASURES:
                raise UnsupportedQuery(
                    f"The question asks for more than {MOST_MEASURES} different aggregates.",
                    hint="ask several questions; the budget is divided among the aggregates of one anyway",
                )
            self.found.append(measure)
        return Measured(self.found.index(measure), measure.step, kind)


def bind_row(node: exp.Expr, table: TableSchema, alias: str) -> Expr:
    """An expression over the cells of a row.

    Raises:
        UnknownColumn, UnsupportedQuery: see `discreet.errors`.
    """

    def leaf(e: exp.Expr, depth: int) -> Expr | None:
        if isinstance(e, exp.Column):
            return _column(e, table, alias)
        if isinstance(e, exp.AggFunc):
            raise UnsupportedQuery(
                f"{e.sql_name()} cannot stand here.", hint="aggregates belong in SELECT, HAVING and ORDER BY"
            )
        return None

    return _bind(node, leaf, 0)


def bind_answer(
    node: exp.Expr,
    table: TableSchema,
    alias: str,
    keys: Sequence[Expr],
    measures: Measures,
    names: dict[str, Expr],
) -> Expr:
    """An expression over the answer: group keys, noisy columns and the output columns in `names`."""
    needs = Needs(table.facts, measures.column)

    def leaf(e: exp.Expr, depth: int) -> Expr | None:
        if isinstance(e, exp.Column) and not e.table and e.name.lower() in names:
            return names[e.name.lower()]
        if not e.find(exp.AggFunc):
            if isinstance(e, exp.Literal | exp.Boolean | exp.Null):
                return None
            try:
                row = bind_row(e, table, alias)
            except UnknownColumn:
                if isinstance(e, exp.Column | exp.Anonymous):
                    raise
                return None  # a part of it may be an output column
            if row in keys:
                return Key(keys.index(row), row.type)  # type: ignore[arg-type]  # keys are typed, unlike a bare NULL
            if isinstance(e, exp.Column):
                raise UnsupportedQuery(
                    f"The column {e.name!r} must be in GROUP BY or inside an aggregate.",
                    hint="single rows are never released",
                )
        if isinstance(e, exp.AggFunc):
            name, argument = _aggregate(e, table, alias)
            return AGGREGATES[name](argument, needs)
        return None

    return _bind(node, leaf, 0)


def as_condition(expr: Expr, clause: str) -> Expr:
    """The expression, if it is true or false."""
    if expr.type not in (Type.BOOL, None):
        raise UnsupportedQuery(
            f"{clause} needs a condition, not {expr.type.word}.", hint=f"write {clause} x > 0, for instance"
        )
    return expr


def call(name: str, args: Sequence[Expr]) -> Expr:
    """A function applied to arguments, with the casts that its signature asks for."""
    function = FUNCTIONS[name]
    found = function.signature([a.type for a in args])
    if found is None and name == "in" and len(args) == 1:
        raise UnsupportedQuery("IN () is an empty list.", hint="write at least one value")
    if found is None:
        words = ", ".join(a.type.word if a.type else "NULL" for a in args)
        raise UnsupportedQuery(
            f"{name.upper()} does not take ({words}).", hint="CAST the argument to what it takes"
        )
    wanted, result = found
    return Call(name, tuple(coerce(a, w) for a, w in zip(args, wanted, strict=True)), result)


def coerce(expr: Expr, wanted: Type) -> Expr:
    """The expression read as another type; a constant is converted now, so that a bad one is an error."""
    if expr.type is wanted:
        return expr
    if isinstance(expr, Literal):
        return _literal_as(expr, wanted)
    return Call(f"as {wanted.value.lower()}", (expr,), wanted)


def _bind(node: exp.Expr, leaf: Callable[[exp.Expr, int], Expr | None], depth: int) -> Expr:
    if depth > DEEPEST:
        raise UnsupportedQuery(f"An expression nests more than {DEEPEST} levels.", hint="write it flatter")
    if isinstance(node, exp.Paren):
        return _bind(node.this, leaf, depth)
    found = leaf(node, depth) or _constant(node) or _negative(node)
    if found is not None:
        return found
    if isinstance(node, exp.And | exp.Or):  # a list of conditions is as flat as it looks
        name, parts = ("and" if isinstance(node, exp.And) else "or"), list(node.flatten())
    else:
        name, parts = function_of(node)
    args = [_bind(p, leaf, depth + 1) for p in parts]
    if name in ("and", "or"):  # a AND (b AND c) is one conjunction, in one order
        args = [b for a in args for b in (a.args if isinstance(a, Call) and a.name == name else (a,))]
        args.sort(key=repr)
    if name == "neg" and isinstance(args[0], Literal) and isinstance(args[0].value, int | float):
        return _number(-args[0].value)
    return call(name, args)


def _column(node: exp.Column, table: TableSchema, alias: str) -> Expr:
    if node.args.get("db") or (node.table and node.table.lower() not in (alias.lower(), table.name.lower())):
        raise UnknownColumn(
            f"There is no table {node.table!r} in this question.", hint=f"the table here is {alias}"
        )
    name = table.find(node.name)
    kind = table.columns[name]
    if kind is None:
        raise UnsupportedQuery(
            f"The column {name!r} holds a nested or binary value, which cannot be asked about.",
            hint="store the part that you need in a column of its own",
        )
    return _declared(Column(name, kind), table.facts.get(name))


def _declared(column: Column, fact: Fact | None) -> Expr:
    """A column read as what its declaration says, where the stored type says less."""
    if fact is None:
        return column
    wanted = fact_type(fact)
    if column.type is wanted or (isinstance(fact, Range) and not fact.integer and column.type is Type.INT):
        return column
    if isinstance(fact, Values) and wanted is Type.INT and column.type is Type.REAL:
        return coerce(column, Type.REAL)
    return coerce(column, wanted)


def _aggregate(node: exp.Expr, table: TableSchema, alias: str) -> tuple[str, Expr | None]:
    argument = node.args.get("this")
    if not isinstance(node, exp.Count | exp.Sum | exp.Avg):
        raise UnsupportedQuery(f"{_word(node)} is not answered here.", hint=_AGGREGATES)
    if any(part and place not in ("this", "big_int") for place, part in node.args.items()):
        raise UnsupportedQuery(f"This form of {_word(node)} is not answered here.", hint=_AGGREGATES)
    if isinstance(argument, exp.Order):
        raise UnsupportedQuery(f"{_word(node)} does not depend on an order.", hint="leave ORDER BY out of it")
    if isinstance(node, exp.Count):
        if argument is None or isinstance(argument, exp.Star):
            return "count", None
        if isinstance(argument, exp.Distinct):
            return "count distinct unit", _unit_argument(argument, table, alias)
        return "count", bind_row(argument, table, alias)
    name = "sum" if isinstance(node, exp.Sum) else "avg"
    if isinstance(argument, exp.Distinct):
        raise UnsupportedQuery(f"{_word(node)} with DISTINCT is not answered here.", hint=_AGGREGATES)
    if argument is None or isinstance(argument, exp.Star):
        raise UnsupportedQuery(f"{_word(node)} needs one number.", hint=f"write {_word(node)}(x)")
    bound = bind_row(argument, table, alias)
    if bound.type is Type.BOOL:
        return name, coerce(bound, Type.INT)
    if bound.type not in (Type.INT, Type.REAL, Type.TEXT):
        raise UnsupportedQuery(f"{name.upper()} needs a number.", hint="CAST the argument to DOUBLE")
    return name, bound if bound.type.is_number else coerce(bound, Type.REAL)


_AGGREGATES = "aggregates are COUNT, COUNT(DISTINCT unit), SUM and AVG"


def _word(node: exp.Expr) -> str:
    return node.sql_name() if isinstance(node, exp.Func) else type(node).__name__.upper()


def _unit_argument(distinct: exp.Distinct, table: TableSchema, alias: str) -> Expr:
    unit = table.unit.column
    args = distinct.expressions
    if unit is not None and len(args) == 1 and isinstance(args[0], exp.Column):
        bound = bind_row(args[0], table, alias)
        column = bound.args[0] if isinstance(bound, Call) else bound
        if isinstance(column, Column) and column.name == unit:
            return bound
    named = (
        f"COUNT(DISTINCT {unit}), which counts people" if unit else "COUNT(*), since each row is one person"
    )
    raise UnsupportedQuery("COUNT(DISTINCT …) of other columns is not answered here.", hint=f"use {named}")


def _constant(node: exp.Expr) -> Literal | None:
    if isinstance(node, exp.Null):
        return Literal(None, None)
    if isinstance(node, exp.Boolean):
        return Literal(bool(node.this), Type.BOOL)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return Literal(node.name, Type.TEXT)
        try:
            value = int(node.name) if node.name.isdigit() and len(node.name) < _LONGEST else float(node.name)
        except ValueError:  # the parser reads 1e300+1 as one number
            raise UnsupportedQuery(
                f"{node.name!r:.60} is not a number.",
                hint="put spaces around + and - after an exponent: 1e3 + 1",
            ) from None
        return _number(value)
    return None


_LONGEST = 400  # digits; more are no number that a double holds


def _negative(node: exp.Expr) -> Literal | None:
    """A negative whole number, read at once: 2^63 alone would not be one."""
    digits = node.this if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) else None
    if digits is None or digits.is_string or not digits.name.isdigit() or len(digits.name) >= _LONGEST:
        return None
    return _number(-int(digits.name))


def _number(value: int | float) -> Literal:
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return Literal(value, Type.INT)
    try:
        real = float(value)
    except OverflowError:
        real = float("inf")
    if real - real != 0:
        raise InvalidParameter(
            "a number in the question is too large.", hint="numbers reach to about 1.8e308"
        )
    return Literal(real, Type.REAL)


def _literal_as(literal: Literal, wanted: Type) -> Literal:
    value = literal.value
    if value is None:
        return Literal(None, wanted)
    try:
        match wanted:
            case Type.REAL:
                number = _number(float(value))  # type: ignore[arg-type]  # a date is refused by float itself
                return Literal(float(number.value), Type.REAL)  # type: ignore[arg-type]  # _number gives a number
            case Type.INT:
                return _number(int(str(value)))
            case Type.DATE:
                return Literal(dt.date.fromisoformat(str(value)[:10]), Type.DATE)
            case Type.TIMESTAMP:
                time = dt.datetime.fromisoformat(str(value)).replace(
                    tzinfo=None
                )  # an offset is dropped, as in cells
                return Literal(time, Type.TIMESTAMP)
            case Type.TEXT:
                return Literal(str(value), Type.TEXT)
            case Type.BOOL:
                pass
    except (TypeError, ValueError):
        pass
    raise UnsupportedQuery(
        f"The constant {value!r:.60} in the question cannot be read as {wanted.word}.",
        hint=f"it stands where {wanted.word} is wanted; write {_EXAMPLES[wanted]}",
    )


_EXAMPLES = {
    Type.BOOL: "TRUE or FALSE",
    Type.INT: "42",
    Type.REAL: "1.5",
    Type.TEXT: "'text'",
    Type.DATE: "'2024-12-31'",
    Type.TIMESTAMP: "'2024-12-31 12:00:00'",
}
