"""Other spellings: each text of the table is the same question as DuckDB's beside it, or refused with a reason."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from sqlglot import exp

import discreet as dp
from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.errors import DiscreetError, InvalidParameter, UnsupportedQuery
from discreet.plan.cost import Kind, PlanTerms
from discreet.plan.planner import make_query
from discreet.plan.question import read_question
from discreet.query.dialects.dialect import as_duckdb
from discreet.query.dialects.functions import RULES
from tests.plan.tables import USER, visits

ALL = ("postgres", "bigquery", "snowflake", "spark")


def identity(sql: str, dialect: str = "duckdb") -> str:
    text = as_duckdb(sql, dialect, [visits()])
    terms = PlanTerms("customers", None, Fraction(1), Fraction(0), Kind.LAPLACE)
    return read_question(text, [visits()]).identity(terms)


# (dialects, a row's value there, and as DuckDB has it): asked as a condition or inside an aggregate.
VALUES: list[tuple[tuple[str, ...], str, str]] = [
    (("postgres",), "EXTRACT(EPOCH FROM seen)", "epoch(seen)"),
    (("bigquery",), "TIMESTAMP_DIFF(TIMESTAMP(seen), TIMESTAMP(DATE(seen)), HOUR)",
     "date_sub('hour', CAST(CAST(seen AS DATE) AS TIMESTAMP), CAST(seen AS TIMESTAMP))"),
    (("bigquery",), "DATETIME_DIFF(TIMESTAMP(seen), DATETIME '2024-01-01', DAY)",
     "date_diff('day', CAST('2024-01-01' AS TIMESTAMP), CAST(seen AS TIMESTAMP))"),
    (("bigquery",), "SAFE_DIVIDE(amount - 1, day + 1)", "(amount - 1) / (day + 1)"),
    (("postgres",), "day / 2", "day // 2"),
    (("bigquery", "snowflake", "spark"), "day / 2", "day / 2"),
    (ALL, "amount / 2", "amount / 2"),
    (("postgres",), "day / 2.0", "day / 2.0"),
    (("postgres",), "CAST(day AS DOUBLE PRECISION) / 2", "CAST(day AS DOUBLE) / 2"),
    (("postgres",), "(day + 1) / day", "(day + 1) // day"),
    (("postgres",), "day::numeric / 2", "day::DOUBLE / 2"),
    (("postgres", "bigquery"), "DIV(day, 2)", "day // 2"),
    (("spark",), "day DIV 2", "day // 2"),
    (("bigquery",), "SAFE_DIVIDE(amount, day)", "amount / day"),
    (("postgres",), "day ^ 2", "day ** 2"),
    (("bigquery", "snowflake", "spark"), "POW(day, 2)", "day ** 2"),
    (ALL, "MOD(day, 2)", "day % 2"),
    (ALL, "ROUND(amount, 1)", "round(amount, 1)"),
    (("bigquery", "snowflake", "spark"), "ROUND(amount)", "round(amount)"),
    (("postgres",), "ROUND(amount::numeric, 0)", "round(amount::DOUBLE)"),
    (("postgres",), "LOG(amount)", "log10(amount)"),
    (("bigquery", "spark"), "LOG(amount)", "ln(amount)"),
    (("bigquery",), "LOG(amount, 2)", "log(2, amount)"),
    (("postgres", "snowflake", "spark"), "LOG(2, amount)", "log(2, amount)"),
    (("postgres", "bigquery", "snowflake"), "TRUNC(amount)", "trunc(amount)"),
    (ALL, "COALESCE(day, 0)", "coalesce(day, 0)"),
    (("bigquery", "spark"), "IF(day > 3, 1, 0)", "CASE WHEN day > 3 THEN 1 ELSE 0 END"),
    (("snowflake",), "IFF(day > 3, 1, 0)", "CASE WHEN day > 3 THEN 1 ELSE 0 END"),
    (("snowflake", "spark"), "NVL(day, 0)", "coalesce(day, 0)"),
    (("snowflake",), "ZEROIFNULL(day)", "CASE WHEN day IS NULL THEN 0 ELSE day END"),
    (("snowflake", "spark"), "NVL2(day, 1, 0)", "CASE WHEN day IS NOT NULL THEN 1 ELSE 0 END"),
    (("postgres", "spark"), "LEAST(day, 3)", "least(day, 3)"),
    (("bigquery", "snowflake"), "LEAST(day, 3)",
     "CASE WHEN day IS NULL OR 3 IS NULL THEN NULL ELSE least(day, 3) END"),
    (("snowflake",), "GREATEST_IGNORE_NULLS(day, 3)", "greatest(day, 3)"),
    (("postgres",), "EXTRACT(dow FROM seen)", "dayofweek(seen)"),
    (("snowflake",), "DAYOFWEEK(seen)", "dayofweek(seen)"),
    (("spark",), "DAYOFWEEK(seen)", "dayofweek(seen) + 1"),
    (("bigquery",), "EXTRACT(DAYOFWEEK FROM seen)", "dayofweek(seen) + 1"),
    (("postgres", "snowflake", "spark"), "EXTRACT(week FROM seen)", "week(seen)"),
    (("bigquery",), "EXTRACT(ISOWEEK FROM seen)", "week(seen)"),
    (("snowflake",), "WEEKISO(seen)", "week(seen)"),
    (("snowflake", "spark"), "YEAR(seen)", "year(seen)"),
    (("postgres", "snowflake"), "DATE_PART('year', seen)", "date_part('year', seen)"),
    (("bigquery",), "EXTRACT(DAYOFYEAR FROM seen)", "dayofyear(seen)"),
    (("postgres", "snowflake", "spark"), "EXTRACT(doy FROM seen)", "dayofyear(seen)"),
    (("snowflake",), "LEN(region)", "length(region)"),
    (("postgres", "bigquery"), "CHAR_LENGTH(region)", "length(region)"),
    (("postgres",), "POSITION('a' IN region)", "strpos(region, 'a')"),
    (("snowflake",), "CHARINDEX('a', region)", "strpos(region, 'a')"),
    (ALL, "CAST(FLOOR(amount) AS INTEGER)", "CAST(floor(amount) AS BIGINT)"),
    (("postgres",), "CAST(amount AS INTEGER)", "CAST(amount AS BIGINT)"),
    (("bigquery",), "CAST(amount AS INT64)", "CAST(round(amount) AS BIGINT)"),
    (("snowflake",), "CAST(amount AS INTEGER)", "CAST(round(amount) AS BIGINT)"),
    (("spark",), "CAST(amount AS INT)", "CAST(trunc(amount) AS BIGINT)"),
    (("bigquery",), "SAFE.LN(amount)", "ln(amount)"),
    (ALL, "CAST(amount AS DECIMAL(10, 2))", "CAST(amount AS DECIMAL(10, 2))"),
    (("postgres", "spark"), "CAST(amount AS REAL)", "CAST(amount AS DOUBLE)"),
    (("bigquery",), "CAST(amount AS NUMERIC)", "CAST(amount AS DOUBLE)"),
    (("spark",), "CAST(amount AS DECIMAL)", "CAST(amount AS DECIMAL(10, 0))"),
    (("postgres",), "CASE WHEN amount IS NOT NULL AND flag IS NOT TRUE THEN 1 END",
     "CASE WHEN NOT (amount IS NULL) AND NOT (flag IS TRUE) THEN 1 END"),
    (("postgres",), "CASE WHEN to_char(seen, 'FMMonth') = 'May' THEN 1 END",
     "CASE WHEN to_char(seen, 'FMMonth') = 'May' THEN 1 END"),
    (("snowflake",), "CASE WHEN TO_CHAR(seen, 'YYYY-MM') = '2026-05' THEN 1 END",
     "CASE WHEN strftime(seen, '%Y-%m') = '2026-05' THEN 1 END"),
    (("spark",), "CASE WHEN date_format(seen, 'yyyy') = '2026' THEN 1 END",
     "CASE WHEN strftime(seen, '%Y') = '2026' THEN 1 END"),
    (("bigquery",), "CASE WHEN FORMAT_DATE('%Y-%m', seen) = '2026-05' THEN 1 END",
     "CASE WHEN strftime(seen, '%Y-%m') = '2026-05' THEN 1 END"),
    (("bigquery",), "DATE_DIFF(seen, DATE '2026-01-01', DAY)", "date_diff('day', DATE '2026-01-01', seen)"),
    (("snowflake",), "DATEDIFF(day, '2026-01-01'::date, seen)", "date_diff('day', DATE '2026-01-01', seen)"),
    (("spark",), "datediff(seen, DATE '2026-01-01')", "date_diff('day', DATE '2026-01-01', seen)"),
    (("postgres",), "CASE WHEN seen > DATE '2026-01-01' + INTERVAL '3 months' THEN 1 END",
     "CASE WHEN seen > DATE '2026-01-01' + INTERVAL 3 MONTH THEN 1 END"),
    (("snowflake",), "CASE WHEN seen > DATEADD(month, 3, '2026-01-01'::date) THEN 1 END",
     "CASE WHEN seen > CAST(DATE '2026-01-01' + INTERVAL 3 MONTH AS DATE) THEN 1 END"),
    (("spark",), "CASE WHEN seen > DATE_ADD(DATE '2026-01-01', 3) THEN 1 END",
     "CASE WHEN seen > CAST(DATE '2026-01-01' + INTERVAL 3 DAY AS DATE) THEN 1 END"),
    (("bigquery",), "CASE WHEN seen > DATE_SUB(DATE '2026-01-01', INTERVAL 3 DAY) THEN 1 END",
     "CASE WHEN seen > CAST(DATE '2026-01-01' - INTERVAL 3 DAY AS DATE) THEN 1 END"),
    (("snowflake",), "FLOOR(amount)::number", "CAST(floor(amount) AS BIGINT)"),
    (("snowflake",), "amount::float", "amount::DOUBLE"),
]  # fmt: skip
CONDITIONS: list[tuple[tuple[str, ...], str, str]] = [
    (("postgres",), "day BETWEEN SYMMETRIC 5 AND 2", "(day BETWEEN 5 AND 2 OR day BETWEEN 2 AND 5)"),
    (ALL, "region LIKE 'n%'", "region LIKE 'n%'"),
    (("postgres", "snowflake", "spark"), "region ILIKE 'N%'", "region ILIKE 'N%'"),
    (ALL, "region NOT LIKE 'n%'", "NOT region LIKE 'n%'"),
    (("bigquery", "spark"), 'region = "north"', "region = 'north'"),
    (("bigquery", "spark"), "`region` = 'north'", "region = 'north'"),
    (("bigquery", "spark"), r"region = 'it\'s'", "region = 'it''s'"),
    (("postgres", "snowflake"), "\"region\" = 'north'", "region = 'north'"),
    (ALL, "region || 'x' = 'northx'", "region || 'x' = 'northx'"),
    (("postgres",), "CONCAT(region, 'x') = 'northx'", "concat(region, 'x') = 'northx'"),
    (("bigquery", "snowflake", "spark"), "CONCAT(region, 'x') = 'northx'", "region || 'x' = 'northx'"),
    (ALL, "SUBSTR(region, 2, 3) = 'ort'", "substring(region, 2, 3) = 'ort'"),
    (("postgres",), "SUBSTRING(region FROM 2 FOR 3) = 'ort'", "substring(region, 2, 3) = 'ort'"),
    (("postgres", "snowflake", "spark"), "TRIM(region) = 'north'", "trim(region) = 'north'"),
    (ALL, "LEFT(region, 2) = 'no'", "left(region, 2) = 'no'"),
    (("bigquery", "postgres"), "STARTS_WITH(region, 'n')", "starts_with(region, 'n')"),
    (("snowflake", "spark"), "STARTSWITH(region, 'n')", "starts_with(region, 'n')"),
    (("snowflake", "spark"), "CONTAINS(region, 'n')", "contains(region, 'n')"),
    (ALL, "seen >= DATE '2024-01-31'", "seen >= DATE '2024-01-31'"),
    (("snowflake", "spark"), "TO_DATE('2024-01-31') < seen", "CAST('2024-01-31' AS DATE) < seen"),
    (("spark",), "day <=> 3", "day IS NOT DISTINCT FROM 3"),
    (("snowflake",), "EQUAL_NULL(day, 3)", "day IS NOT DISTINCT FROM 3"),
    (("spark",), "day == 3", "day = 3"),
    (ALL, "day IN (1, 2) AND NOT flag IS NULL", "flag IS NOT NULL AND day IN (1, 2)"),
    (ALL, "day BETWEEN 2 AND 4", "day >= 2 AND day <= 4"),
    (ALL, "flag IS TRUE", "flag IS TRUE"),
    (("postgres",), "DATE_TRUNC('month', seen) = TIMESTAMP '2024-01-01'",
     "date_trunc('month', seen) = TIMESTAMP '2024-01-01'"),
    (("bigquery",), "DATE_TRUNC(seen, MONTH) = DATE '2024-01-01'",
     "CAST(date_trunc('month', seen) AS DATE) = DATE '2024-01-01'"),
    (("bigquery",), "DATE_TRUNC(seen, ISOWEEK) = DATE '2024-01-01'",
     "CAST(date_trunc('week', seen) AS DATE) = DATE '2024-01-01'"),
    (("bigquery",), "DATE_TRUNC(seen, WEEK(MONDAY)) = DATE '2024-01-01'",
     "CAST(date_trunc('week', seen) AS DATE) = DATE '2024-01-01'"),
    (("snowflake",), "DATE_TRUNC('month', seen) = DATE '2024-01-01'",
     "CAST(date_trunc('month', seen) AS DATE) = DATE '2024-01-01'"),
    (("spark",), "TRUNC(seen, 'month') = DATE '2024-01-01'",
     "CAST(date_trunc('month', seen) AS DATE) = DATE '2024-01-01'"),
]  # fmt: skip
AGGREGATES: list[tuple[tuple[str, ...], str, str]] = [
    (("bigquery",), "APPROX_QUANTILES(amount, 4)[OFFSET(1)]", "QUANTILE_DISC(amount, 0.25)"),
    (("bigquery",), "APPROX_QUANTILES(amount, 100)[SAFE_OFFSET(100)]", "MAX(amount)"),
    (("bigquery",), "APPROX_QUANTILES(amount, 2)[ORDINAL(2)]", "QUANTILE_DISC(amount, 0.5)"),
    (("spark",), "PERCENTILE_APPROX(amount, 0.5)", "QUANTILE_DISC(amount, 0.5)"),
    (ALL, "COUNT(*)", "count(*)"),
    (ALL, "COUNT(DISTINCT user_id)", "count(DISTINCT user_id)"),
    (ALL, "SUM(amount) / COUNT(*)", "sum(amount) / count(*)"),
    (("bigquery",), "COUNTIF(day > 3)", "count_if(day > 3)"),
    (("snowflake", "spark"), "COUNT_IF(day > 3)", "count_if(day > 3)"),
    (("postgres", "spark"), "COUNT(*) FILTER (WHERE day > 3)", "count(*) FILTER (WHERE day > 3)"),
    (("bigquery",), "LOGICAL_OR(flag)", "bool_or(flag)"),
    (("postgres", "spark"), "BOOL_OR(flag)", "bool_or(flag)"),
    (("snowflake",), "BOOLOR_AGG(flag)", "bool_or(flag)"),
    (ALL, "STDDEV(amount)", "stddev_samp(amount)"),
    (ALL, "VAR_POP(amount)", "var_pop(amount)"),
    (("postgres", "snowflake"), "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount)", "quantile_cont(amount, 0.5)"),
    (("spark",), "PERCENTILE(amount, 0.5)", "quantile_cont(amount, 0.5)"),
    (("snowflake", "spark"), "MEDIAN(amount)", "median(amount)"),
    (ALL, "CORR(amount, day)", "corr(amount, day)"),
]  # fmt: skip
QUESTIONS: list[tuple[tuple[str, ...], str, str]] = [
    (("bigquery",), "SELECT COUNT(*) FROM `my-project.shop.visits`", "SELECT COUNT(*) FROM visits"),
    (ALL, "SELECT region, COUNT(*) AS n FROM visits GROUP BY 1 HAVING COUNT(*) > 5 ORDER BY n DESC LIMIT 3",
     "SELECT region, COUNT(*) FROM visits GROUP BY region"),
    (("bigquery", "snowflake", "spark"), "SELECT region, COUNT(*) FROM visits GROUP BY ALL",
     "SELECT region, COUNT(*) FROM visits GROUP BY region"),
    (ALL, "SELECT COUNT(*) FROM visits a WHERE a.user_id NOT IN (SELECT b.user_id FROM visits b WHERE b.day = 1)",
     "SELECT COUNT(*) FROM visits a WHERE NOT a.user_id IN (SELECT b.user_id FROM visits b WHERE b.day = 1)"),
    (("postgres", "snowflake"), "SELECT COUNT(*) FROM visits a WHERE user_id <> ALL (SELECT b.user_id FROM visits b)",
     "SELECT COUNT(*) FROM visits a WHERE NOT user_id IN (SELECT b.user_id FROM visits b)"),
    (ALL, "SELECT COUNT(*) FROM (SELECT day FROM visits UNION ALL SELECT day FROM visits WHERE day > 1) v",
     "SELECT COUNT(*) FROM (SELECT day FROM visits UNION ALL SELECT day FROM visits WHERE day > 1) v"),
    (ALL, "SELECT COUNT(*) FROM (SELECT user_id FROM visits UNION DISTINCT SELECT user_id FROM visits) v",
     "SELECT COUNT(*) FROM (SELECT user_id FROM visits UNION SELECT user_id FROM visits) v"),
    (("spark",), "SELECT COUNT(*) FROM visits a LEFT SEMI JOIN visits b ON a.user_id = b.user_id AND b.day = 1",
     "SELECT COUNT(*) FROM visits a SEMI JOIN visits b ON a.user_id = b.user_id AND b.day = 1"),
    (("spark",), "SELECT COUNT(*) FROM visits a LEFT ANTI JOIN visits b ON a.user_id = b.user_id AND b.day = 1",
     "SELECT COUNT(*) FROM visits a ANTI JOIN visits b ON a.user_id = b.user_id AND b.day = 1"),
    (("postgres",), "SELECT SUM(day) FROM (SELECT DISTINCT ON (user_id) day FROM visits ORDER BY user_id, day DESC) v",
     ("SELECT SUM(day) FROM (SELECT day FROM visits QUALIFY row_number() OVER "
     "(PARTITION BY user_id ORDER BY day DESC NULLS FIRST) = 1) v")),
    (("bigquery", "spark"), "SELECT COUNT(*) AS `my n` FROM `visits` v WHERE v.day = 1",
     'SELECT COUNT(*) AS "my n" FROM visits WHERE day = 1'),
]  # fmt: skip


def _each(table: list[tuple[tuple[str, ...], str, str]], there: str, here: str) -> list[Any]:
    return [pytest.param(there.format(a), here.format(b), d, id=f"{d}: {a}") for names, a, b in table for d in names]


PAIRS = [
    *_each(VALUES, "SELECT COUNT(*) FROM visits WHERE {} > 1", "SELECT COUNT(*) FROM visits WHERE {} > 1"),
    *_each(CONDITIONS, "SELECT COUNT(*) FROM visits WHERE {}", "SELECT COUNT(*) FROM visits WHERE {}"),
    *_each(AGGREGATES, "SELECT {} AS o FROM visits", "SELECT {} AS o FROM visits"),
    *_each(QUESTIONS, "{}", "{}"),
]


@pytest.mark.parametrize(("there", "here", "dialect"), PAIRS)
def test_a_question_in_another_spelling_is_the_same_question(there: str, here: str, dialect: str) -> None:
    assert identity(there, dialect) == identity(here)


@pytest.mark.parametrize(
    ("dialect", "part", "words"),
    [
        ("postgres", "SUM(day) / COUNT(*)",
         "PostgreSQL's SUM(day) / COUNT(*) drops the fraction if both numbers are whole, which is not clear here."),
        ("postgres", "SUM(ROUND(amount))",
         "PostgreSQL's ROUND(amount) rounds halves to even or away from zero, after the type of the number."),
        ("postgres", "SUM(CAST(region AS INTEGER))",
         "PostgreSQL's CAST(region AS INT) may round in another way in other databases."),
        ("bigquery", "COUNTIF(CAST(amount AS STRING) = '1')",
         "BigQuery's CAST(amount AS STRING) may be spelled in another way."),
        ("bigquery", "COUNTIF(TRIM(region) = 'a')", "BigQuery's TRIM(region) does not cut off spaces alone."),
        ("postgres", "COUNT(*) FILTER (WHERE region LIKE 'a\\_%')",
         "PostgreSQL's region LIKE 'a\\_%' has a backslash, by which databases escape or do not."),
        ("postgres", "COUNT(*) FILTER (WHERE 'x' LIKE region)",
         "PostgreSQL's 'x' LIKE region has no pattern that is written out."),
        ("postgres", "COUNT(*) FILTER (WHERE region ~ 'a')",
         "PostgreSQL's region ~ 'a' has no reading here that is known to mean the same."),
        ("bigquery", "COUNTIF(EXTRACT(WEEK FROM seen) = 1)",
         "BigQuery's EXTRACT(WEEK FROM seen) is a part of a time that counts in another way here."),
        ("bigquery", "COUNTIF(DATE_TRUNC(seen, WEEK) > DATE '2024-01-01')",
         "BigQuery's DATE_TRUNC(seen, WEEK) begins at a time that others do not."),
        ("bigquery", "COUNTIF(seen > TIMESTAMP '2024-01-01')",
         "BigQuery's CAST('2024-01-01' AS TIMESTAMP) has a type that is not supported."),
        ("postgres", "COUNT(*) FILTER (WHERE SUBSTR(region, 0, 2) = 'a')",
         "PostgreSQL's SUBSTRING(region FROM 0 FOR 2) counts from a place that databases disagree on."),
        ("postgres", "COUNT(*) FILTER (WHERE LEFT(region, -1) = 'a')",
         "PostgreSQL's LEFT(region, -1) has a length that databases disagree on."),
        ("snowflake", "COUNT_IF(amount || 'x' = '1x')",
         "Snowflake's amount may be spelled in another way when it becomes text."),
        ("postgres", "COUNT(*) FILTER (WHERE AGE(seen) IS NULL)",
         "PostgreSQL's AGE(seen) is an interval of years, months and days, which is not supported."),
        ("bigquery", "SUM(TIMESTAMP_DIFF(seen, seen, MONTH))",
         "BigQuery's TIMESTAMP_DIFF(seen, seen, MONTH) may count in another way."),
        ("bigquery", "ANY_VALUE(region)", "ANY_VALUE would show values of single rows."),
        ("postgres", "STRING_AGG(region, ',')", "STRING_AGG would show values of single rows."),
        ("snowflake", "LISTAGG(region, ',')", "LISTAGG would show values of single rows."),
        ("snowflake", "SUM(LOG(amount))", "Snowflake's LN(amount) has another base in other databases."),
        ("snowflake", "SUM(FLOOR(amount, 1))",
         "Snowflake's FLOOR(amount, 1) has no reading here that is known to mean the same."),
        ("spark", "SUM(pmod(day, 2))", "Spark's PMOD(day, 2) has no reading here that is known to mean the same."),
        ("spark", "COUNT(day, amount)",
         "Spark's COUNT(day, amount) has no reading here that is known to mean the same."),
        ("snowflake", "SUM(amount) OVER (ORDER BY day ROWS 2 PRECEDING)", ""),
    ],
    ids=str,
)  # fmt: skip
def test_what_may_mean_something_else_is_refused(dialect: str, part: str, words: str) -> None:
    with pytest.raises(UnsupportedQuery) as caught:
        identity(f"SELECT {part} AS o FROM visits", dialect)
    assert caught.value.message == words or not words
    assert caught.value.hint


@pytest.mark.parametrize("dialect", ALL)
def test_nulls_stand_where_the_dialect_puts_them(dialect: str) -> None:
    first = {"postgres": (False, True), "snowflake": (False, True), "bigquery": (True, False), "spark": (True, False)}
    sql = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY 1, n DESC"
    text = as_duckdb(sql, dialect, [visits()])
    order = make_query(text, [visits()], population="p", version=None, epsilon=1).question.outer.order
    assert tuple(o.nulls_first for o in order) == first[dialect]


def test_a_name_that_is_a_column_and_an_output_is_refused_where_databases_differ() -> None:
    whole = "SELECT LOWER(region) AS region, COUNT(*) FROM visits WHERE region > '' GROUP BY region"
    assert identity(whole, "postgres") == identity(whole)
    with pytest.raises(UnsupportedQuery, match="'region' is both a column and an output's name"):
        identity(whole, "bigquery")
    for clause in ("GROUP BY 1 ORDER BY region", "GROUP BY 1 HAVING region = 'a'"):
        with pytest.raises(UnsupportedQuery, match="'region' is both a column and an output's name"):
            identity(f"SELECT LOWER(region) AS region, COUNT(*) FROM visits {clause}", "postgres")
    assert identity("SELECT region AS region, COUNT(*) FROM visits GROUP BY region", "postgres")


def test_columns_that_only_case_tells_apart_are_not_guessed() -> None:
    twins = TableSchema("t", {"user_id": Type.INT, "x": Type.INT, "X": Type.INT}, {}, USER, visits().relation)
    for sql in ("SELECT COUNT(x) FROM t", "SELECT COUNT(X) FROM t"):
        with pytest.raises(UnsupportedQuery, match="fits 2 columns, upper and lower case aside"):
            as_duckdb(sql, "postgres", [twins])
    assert as_duckdb('SELECT COUNT("X") FROM t', "postgres", [twins]) == "SELECT COUNT(X) FROM t"


def test_words_that_duckdb_reserves_are_quoted() -> None:
    table = TableSchema("select", {"user_id": Type.INT, "end": Type.INT, "a b": Type.INT}, {}, USER, visits().relation)
    text = as_duckdb("SELECT COUNT(`end`), COUNT(`a b`) FROM `select`", "bigquery", [table])
    assert text == 'SELECT COUNT("end"), COUNT("a b") FROM "select"'


def test_a_text_that_is_no_question_is_refused_in_the_readers_words() -> None:
    for sql, words in (
        ("DELETE FROM visits", "Only SELECT is supported"),
        ("", "The query is empty."),
        ("SELECT 1; SELECT 2", "One query at a time"),
        ("SELECT RANDOM() FROM visits", r"random\(\) is refused"),
    ):
        with pytest.raises(UnsupportedQuery, match=words):
            identity(sql, "postgres")
    with pytest.raises(UnsupportedQuery, match="The SQL cannot be read as Snowflake"):
        identity("SELECT ((( FROM visits", "snowflake")
    with pytest.raises(InvalidParameter, match="dialect must be one of duckdb, postgres, bigquery, snowflake, spark"):
        as_duckdb("SELECT 1", "mysql", [])


def test_a_writer_that_changes_a_question_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: a rule that leaves the parser's mark, by which the writer adds NULLIF to Spark's division."""
    monkeypatch.setitem(RULES, exp.Div, lambda node, reader: node.copy())
    with pytest.raises(UnsupportedQuery, match="cannot be carried over from Spark's spelling without a doubt"):
        identity("SELECT SUM(amount) / 2 FROM visits", "spark")


def test_a_session_takes_a_dialect() -> None:
    with dp.connect(
        _frame(),
        unit=dp.PrivacyUnit.row(),
        columns={"day": dp.Range(1, 7, integer=True)},
        budget=dp.Budget(10),
        population="p",
        ledger=":memory:",
    ) as session:
        first = session.sql("SELECT COUNT(*) AS n FROM visits WHERE day // 2 = 1", epsilon=1)
        again = session.sql("SELECT COUNT(*) AS n FROM visits WHERE day / 2 = 1", epsilon=1, dialect="postgres")
        assert again.stored
        assert again.rows == first.rows
        batch = session.batch(
            {"q": "SELECT COUNT(*) AS n FROM visits WHERE day / 2 = 1"}, epsilon=1, dialect="postgres"
        )
        assert batch["q"].rows == first.rows
        plan = session.plan("SELECT COUNTIF(day > 2) AS n FROM visits", error={"n": 10}, dialect="bigquery")
        assert plan.error("n") <= 10
        with pytest.raises(DiscreetError):
            session.plan("SELECT COUNT(*) FROM visits", epsilon=1, dialect="oracle")


def _frame() -> dict[str, Any]:
    import pandas as pd

    return {"visits": pd.DataFrame({"day": [1, 2, 3], "region": ["a", "b", "a"]})}
