"""The reference's expressions and tables as DuckDB text, so that the same thing can be asked of an engine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from discreet.errors import InvalidParameter
from tests.reference.expression import (
    And,
    Arithmetic,
    Between,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Row,
)
from tests.reference.functions import Apply
from tests.reference.measures import Count, CountOf, CountUnits, CountUnitsWhere, Mean, Measure, Sum
from tests.reference.question import Question
from tests.reference.values import Kind, Value


def sql(expression: Expression) -> str:
    """The expression as an analyst writes it.

    >>> sql(Compare("<", Arithmetic("+", Column("x", Kind.INT), Literal(1)), Literal(-2.5)))
    '((x + 1) < (-2.5))'
    """
    return node_sql(expression, [sql(e) for e in parts_of(expression)])


def total_sql(expression: Expression) -> str:
    """The expression with every node made total and every number typed: its meaning in DuckDB's terms."""
    parts = [total_sql(e) for e in parts_of(expression)]
    text = expression.total_sql(parts) if isinstance(expression, Apply) else node_sql(expression, parts)
    if expression.kind is Kind.REAL:
        return f"list_filter([TRY(CAST({text} AS DOUBLE)) + 0.0::DOUBLE], lambda v: isfinite(v))[1]"
    if expression.kind is Kind.INT:
        text = f"CAST({text} AS BIGINT)"
    return f"TRY({text})"


def question_sql(question: Question, table: str) -> str:
    """The question as an analyst writes it; keys are named k0, k1, … and measures a0, a1, …"""
    keys = [sql(k) for k in question.keys]
    outputs = [f"{k} AS k{i}" for i, k in enumerate(keys)]
    outputs += [f"{measure_sql(m, question)} AS a{i}" for i, m in enumerate(question.measures)]
    where = f" WHERE {sql(question.where)}" if question.where is not None else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(outputs)} FROM {table}{where}{group}"


def table_sql(table: str, schema: Mapping[str, Kind], rows: Sequence[Row]) -> tuple[str, ...]:
    """The statements that create the table with these rows, to the last bit."""
    columns = ", ".join(f"{name} {kind.value}" for name, kind in schema.items())
    lines = [f"({', '.join(_cell(row[name], kind) for name, kind in schema.items())})" for row in rows]
    create = f"CREATE OR REPLACE TABLE {table} ({columns})"
    return (create, f"INSERT INTO {table} VALUES {', '.join(lines)}") if lines else (create,)


def literal(value: Value) -> str:
    """A constant in SQL.

    >>> literal("it's"), literal(-3), literal(None)
    ("'it''s'", '(-3)', 'NULL')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidParameter("value must be finite: SQL has no number for NaN and the infinities.")
    return f"({value!r})" if value < 0 else repr(value)


def _cell(value: Value, kind: Kind) -> str:
    return f"'{value!r}'::DOUBLE" if isinstance(value, float) else f"{literal(value)}::{kind.value}"


def measure_sql(measure: Measure, question: Question) -> str:
    """The aggregate as an analyst writes it."""
    match measure:
        case Count():
            return "COUNT(*)"
        case CountOf(x):
            return f"COUNT({sql(x)})"
        case CountUnits():
            assert question.unit is not None
            return f"COUNT(DISTINCT {question.unit.name})"
        case CountUnitsWhere(c):
            assert question.unit is not None
            return f"COUNT(DISTINCT {question.unit.name}) FILTER (WHERE {sql(c)})"
        case Sum():
            return f"SUM({sql(measure.expression)})"
        case Mean():
            return f"AVG({sql(measure.expression)})"
    raise TypeError(f"{type(measure).__name__} has no SQL")


def parts_of(expression: Expression) -> Sequence[Expression]:
    """The expressions that stand in it."""
    match expression:
        case Arithmetic() | Compare() | And() | Or():
            return (expression.left, expression.right)
        case Not() | IsNull() | Cast():
            return (expression.operand,)
        case In(x, options):
            return (x, *options)
        case Between(x, low, high):
            return (x, low, high)
        case Case(branches, otherwise):
            return (*(e for branch in branches for e in branch), otherwise)
        case Call() | Apply():
            return expression.operands
    return ()


def node_sql(expression: Expression, parts: Sequence[str]) -> str:
    """The expression, from the texts of its parts."""
    match expression:
        case Column(name):
            return name
        case Literal(value):
            return literal(value)
        case Arithmetic(op) | Compare(op):
            return f"({parts[0]} {op} {parts[1]})"
        case And():
            return f"({parts[0]} AND {parts[1]})"
        case Or():
            return f"({parts[0]} OR {parts[1]})"
        case Not():
            return f"(NOT {parts[0]})"
        case IsNull():
            return f"({parts[0]} IS NULL)"
        case In():
            return f"({parts[0]} IN ({', '.join(parts[1:])}))"
        case Between():
            return f"({parts[0]} BETWEEN {parts[1]} AND {parts[2]})"
        case Case():
            *branches, otherwise = parts
            whens = [f"WHEN {c} THEN {v}" for c, v in zip(branches[::2], branches[1::2], strict=True)]
            return f"CASE {' '.join(whens)} ELSE {otherwise} END"
        case Apply():
            return expression.sql(parts)
        case Call("-"):
            return f"(-{parts[0]})"
        case Call(name):
            return f"{name}({', '.join(parts)})"
        case Cast(_, to):
            return f"CAST({parts[0]} AS {to.value})"
    raise TypeError(f"{type(expression).__name__} has no SQL")
