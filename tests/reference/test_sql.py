"""The reference's truth and its SQL, beside what DuckDB makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings

from discreet.backends.connection import open_database
from discreet.errors import InvalidParameter
from tests.reference.expression import Column, Literal
from tests.reference.measures import Count, CountOf, CountUnits, Mean, Measure, OnLattice, Sum
from tests.reference.question import Key, Question, true_answers
from tests.reference.sql import literal, question_sql, sql, table_sql, total_sql
from tests.reference.values import Kind
from tests.strategies.questions import TABLE, Case, queries


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_database() as connection:
        connection.execute("SET threads = 1")
        connection.execute("PRAGMA disable_optimizer")  # it folds constants, and 1 // 0 with them
        yield connection


def load(database: duckdb.DuckDBPyConnection, case: Case) -> None:
    for statement in case.table:
        database.execute(statement)


def counted(measure: Measure, unit: Column | None) -> str:
    """What DuckDB is asked for: for a SUM the list of its values, so that they can be added exactly."""
    match measure:
        case CountOf(x):
            return f"count({total_sql(x)})"
        case CountUnits():
            return "count(*)" if unit is None else f"count(DISTINCT {unit.name})"
        case OnLattice():
            return f"list({total_sql(measure.expression)})"
    return "count(*)"


def value(measure: Measure, found: object) -> Fraction | None:
    if not isinstance(measure, OnLattice):
        assert isinstance(found, int)
        return Fraction(found)
    numbers = [Fraction(x) for x in (found if isinstance(found, list) else []) if x is not None]
    if isinstance(measure, Mean):
        return sum(numbers, Fraction(0)) / len(numbers) if numbers else None
    return sum(numbers, Fraction(0))


@pytest.mark.exhaustive
@given(case=queries())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_true_answers_agree_with_duckdb(database: duckdb.DuckDBPyConnection, case: Case) -> None:
    load(database, case)
    question = case.question
    keys = [total_sql(k) for k in question.keys]
    outputs = [*keys, *(counted(m, question.unit) for m in question.measures)]
    filters = [total_sql(question.where)] if question.where is not None else []
    filters += [f"{question.unit.name} IS NOT NULL"] if question.unit is not None else []
    text = f"SELECT {', '.join(outputs)} FROM {TABLE}"
    text += f" WHERE {' AND '.join(filters)}" if filters else ""
    text += f" GROUP BY {', '.join(map(str, range(1, len(keys) + 1)))}" if keys else ""
    found: dict[Key, tuple[Fraction | None, ...]] = {}
    for row in database.execute(text).fetchall():
        answers = [value(m, x) for m, x in zip(question.measures, row[len(keys) :], strict=True)]
        found[tuple(row[: len(keys)])] = tuple(answers)
    wanted = true_answers(case.rows, question)
    if question.groups is None:
        assert found == wanted
    else:
        empty = true_answers([], question)
        assert {key: found.get(key, empty[key]) for key in question.groups} == wanted


@pytest.mark.exhaustive
@given(case=queries())
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_text_of_every_case_is_sql(database: duckdb.DuckDBPyConnection, case: Case) -> None:
    load(database, case)
    assert database.execute(f"EXPLAIN {case.sql}").fetchall()
    (tree,) = sqlglot.parse(case.sql, read="duckdb")
    assert isinstance(tree, sqlglot.exp.Select)
    outputs = len(case.question.keys) + len(case.question.measures)
    assert len(tree.expressions) == outputs


def test_a_question_is_written_as_an_analyst_would() -> None:
    uid, x, region = Column("uid", Kind.INT), Column("x", Kind.INT), Column("region", Kind.TEXT)
    question = Question(
        (Count(), CountUnits(), Sum(x, Fraction(0), Fraction(9))), (region,), None, None, uid, max_groups=2
    )
    assert question_sql(question, "t") == (
        "SELECT region AS k0, COUNT(*) AS a0, COUNT(DISTINCT uid) AS a1, SUM(x) AS a2 FROM t GROUP BY region"
    )


def test_cells_survive_the_way_into_a_table_to_the_last_bit(database: duckdb.DuckDBPyConnection) -> None:
    reals = [None, -0.0, 0.1, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"), float("nan"), 1e20]
    texts = [None, "", "it's", "a\nb", "🎈", "NULL", "e\u0301", "é"]
    for kind, cells in ((Kind.REAL, reals), (Kind.TEXT, texts), (Kind.INT, [None, 2**63 - 1, -(2**63)])):
        for statement in table_sql("cells", {"c": kind}, [{"c": c} for c in cells]):
            database.execute(statement)
        found = [c for (c,) in database.execute("SELECT c FROM cells ORDER BY rowid").fetchall()]
        assert list(map(repr, found)) == list(map(repr, cells))
    assert len(table_sql("cells", {"c": Kind.INT}, [])) == 1


def test_literals_are_written_safely() -> None:
    assert [literal(v) for v in (None, True, -3, 0.5, "it's")] == ["NULL", "TRUE", "(-3)", "0.5", "'it''s'"]
    assert sql(Literal(-(2**63))) == "(-9223372036854775808)"
    with pytest.raises(InvalidParameter):
        literal(float("nan"))
