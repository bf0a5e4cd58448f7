"""Questions as a hostile analyst and a clumsy one write them: each is answered, or refused in a sentence with a hint.

Nothing here reads data: a refusal comes from the plan. Beside the refusals stands what must be understood.
"""

from __future__ import annotations

import itertools
import logging
import random
import time
from pathlib import Path
from typing import Any

import pytest

import discreet as dp
from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.errors import (
    DiscreetError,
    InvalidParameter,
    MissingBounds,
    NotPrivate,
    PlanError,
    UnknownColumn,
    UnsupportedQuery,
)
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.plan.question import MOST_MEASURES
from discreet.privacy.unit import Relation
from discreet.query.functions import FUNCTIONS
from discreet.query.parse import LONGEST

VISITS = TableSchema(
    "visits",
    {
        "user_id": Type.INT,
        "region": Type.TEXT,
        "day": Type.INT,
        "amount": Type.REAL,
        "seen": Type.DATE,
        "at": Type.TIMESTAMP,
        "flag": Type.BOOL,
        "blob": None,
        'we"ird; col': Type.INT,
        "Ünï": Type.INT,
    },
    {
        "amount": Range(0, 200),
        "region": Values("north", "south"),
        "day": Range(1, 7, integer=True),
        'we"ird; col': Range(0, 1),
        "Ünï": Range(0, 1, integer=True),
    },
    dp.PrivacyUnit("user_id", max_groups=3, max_rows=10),
    Relation.ADD_REMOVE,
)


def plan(sql: str, **asked: Any) -> Query:
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, "delta": "1e-6", **asked}
    return make_query(sql, [VISITS], **options)


def refusal(sql: Any, **asked: Any) -> DiscreetError:
    with pytest.raises(DiscreetError) as caught:
        plan(sql, **asked)
    return caught.value


COMMANDS = """
DROP TABLE visits
CREATE TABLE x AS SELECT * FROM visits
CREATE VIEW x AS SELECT COUNT(*) FROM visits
CREATE MACRO f(x) AS x
CREATE FUNCTION f(x) AS x
INSERT INTO visits VALUES (1)
UPDATE visits SET day = 1
DELETE FROM visits
TRUNCATE visits
ALTER TABLE visits ADD COLUMN x INT
MERGE INTO visits USING visits ON true WHEN MATCHED THEN DELETE
COPY visits TO 'x.csv'
COPY (SELECT COUNT(*) FROM visits) TO 'x.csv'
PRAGMA database_list
ATTACH 'x.db'
DETACH x
SET threads = 1
RESET threads
INSTALL httpfs
LOAD httpfs
CALL pragma_version()
EXPLAIN SELECT COUNT(*) FROM visits
EXPLAIN ANALYZE SELECT COUNT(*) FROM visits
DESCRIBE visits
SHOW TABLES
SUMMARIZE visits
BEGIN
COMMIT
VACUUM
PREPARE x AS SELECT 1
EXECUTE x
USE main
GRANT SELECT ON visits TO bob
COMMENT ON TABLE visits IS 'x'
PIVOT visits ON day USING COUNT(*)
UNPIVOT visits ON day INTO NAME a VALUE b
(SELECT COUNT(*) FROM visits)
VALUES (1)
""".strip().splitlines()


@pytest.mark.parametrize("sql", COMMANDS)
def test_whatever_is_no_select_is_refused_and_nothing_is_logged(sql: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        error = refusal(sql)
    assert isinstance(error, UnsupportedQuery)
    assert error.message == "Only SELECT is supported: a query reads the table and changes nothing."
    assert error.hint
    assert caplog.records == []


# SQL → a word of the refusal. `…` is `SELECT COUNT(*) FROM visits`.
CONSTRUCTS = {
    "": "empty",
    "  \n\t": "empty",
    ";;": "empty",
    "-- nothing": "empty",
    "/* nothing */": "empty",
    "EXPORT DATABASE 'x'": "begins with 'EXPORT'",
    "IMPORT DATABASE 'x'": "begins with 'IMPORT'",
    "hello": "begins with 'hello'",
    "SELEC COUNT(*) FROM visits": "begins with 'SELEC'",
    "SELECT": "names no table",
    "SELECT 1": "names no table",
    "SELECT COUNT(*)": "names no table",
    "SELECT COUNT(*) FROM": "cannot be read in line 1",
    "SELECT COUNT(* FROM visits": "cannot be read in line 1",
    "… WHERE region = 'open": "not closed",
    "… /* open": "not closed",
    '… WHERE "open': "not closed",
    "…; …": "holds 2 statements",
    "…; DROP TABLE visits": "holds 2 statements",
    "…;;; LOAD x": "holds 2 statements",
    "SELECT * FROM visits": "rows of people",
    "SELECT visits.* FROM visits": "rows of people",
    "SELECT * EXCLUDE (day) FROM visits": "rows of people",
    "SELECT * REPLACE (1 AS day) FROM visits": "rows of people",
    "FROM visits": "rows of people",
    "TABLE visits": "rows of people",
    "SELECT COLUMNS(*) FROM visits": "COLUMNS",
    "SELECT SUM(COLUMNS(*)) FROM visits": "COLUMNS",
    "SELECT day FROM visits": "must be in GROUP BY",
    "SELECT day, COUNT(*) FROM visits": "must be in GROUP BY",
    "SELECT COUNT(*) + day FROM visits": "must be in GROUP BY",
    "… HAVING day > 5": "must be in GROUP BY",
    "… GROUP BY day ORDER BY amount": "must be in GROUP BY",
    "SELECT DISTINCT ON (day) COUNT(*) FROM visits": "SELECT DISTINCT",
    "SELECT 1 FROM visits": "asks nothing of the data",
    "SELECT NULL FROM visits": "asks nothing of the data",
    "SELECT COUNT(*) AS a, SUM(amount) AS A FROM visits ORDER BY a": "Two output columns",
    "SELECT SUM(COUNT(*)) FROM visits": "cannot stand here",
    "SELECT SUM(amount + COUNT(*)) FROM visits": "cannot stand here",
    "… WHERE COUNT(*) > 1": "cannot stand here",
    "SELECT COUNT(*) FROM visits GROUP BY COUNT(*)": "cannot be a group key",
    "SELECT COUNT(*) FILTER (WHERE amount) FROM visits": "FILTER (WHERE …) needs a condition",
    "SELECT lower(region) FILTER (WHERE flag) FROM visits": "stands behind an aggregate",
    "SELECT COUNT(*) OVER () FROM visits": "single rows are never released",
    "SELECT row_number() OVER () FROM visits": "Window functions",
    "… WINDOW w AS (ORDER BY day)": "A WINDOW clause",
    "SELECT COUNT(DISTINCT *) FROM visits": "not supported",
    "SELECT COUNT(day, amount) FROM visits": "This form of COUNT",
    "SELECT COUNT(NULL) FROM visits": "always 0",
    "SELECT COUNT(day ORDER BY day) FROM visits": "does not depend on an order",
    "SELECT SUM(day ORDER BY amount) FROM visits": "does not depend on an order",
    "SELECT SUM(*) FROM visits": "needs one number",
    "SELECT SUM(seen) FROM visits": "SUM of a date or time is not supported here",
    "SELECT SUM(NULL) FROM visits": "needs a number",
    **{
        f"SELECT {call} FROM visits": "is not supported here"
        for call in ("KURTOSIS(amount)", "SKEWNESS(amount)", "bit_or(day)", "bit_xor(day)")
    },
    **{
        f"SELECT {call} FROM visits": "would show values of single rows"
        for call in (
            *("array_agg(amount)", "list(amount)", "string_agg(region)", "first(region)"),
            *("arg_max(region, amount)", "min_by(region, day)", "any_value(region)"),
        )
    },
    "SELECT MIN(region) FROM visits": "MIN",
    "SELECT mode(amount) FROM visits": "MODE",
    "SELECT quantile_cont(amount, 2) FROM visits": "QUANTILE_CONT",
    "SELECT grouping(day) FROM visits": "GROUPING takes keys of GROUP BY",
    "SELECT histogram(amount) FROM visits": "HISTOGRAM needs values that can be counted one by one",
    "SELECT product(amount) FROM visits": "no function 'product'",
    "SELECT fsum(amount) FROM visits": "perhaps sum",
    "… GROUP BY GROUPING SETS ((day), (region))": "None of the GROUPING SETS has all keys",
    "… GROUP BY ROLLUP (day), random()": "random() is refused",
    "… GROUP BY 2": "names no output column",
    "… GROUP BY 0": "names no output column",
    "… GROUP BY 1.5": "names no output column",
    "… GROUP BY blob": "nested or binary",
    "… GROUP BY day ORDER BY 3": "names no output column",
    "… GROUP BY day ORDER BY random()": "random() is refused",
    "… GROUP BY day ORDER BY ALL": "not supported",
    "… GROUP BY day ORDER BY day COLLATE NOCASE": "COLLATE",
    **{
        f"… GROUP BY day LIMIT {n}": "LIMIT takes a whole number"
        for n in ("1+1", "10%", "-1", "ALL", "1.5", "NULL", "'5'", "9" * 19)
    },
    "… GROUP BY day FETCH FIRST 2 ROWS WITH TIES": "LIMIT takes a whole number",
    "WITH RECURSIVE x AS (SELECT 1) …": "WITH RECURSIVE is not supported here",
    "WITH visits AS (SELECT 1) …": "reads public tables only",
    "… WHERE user_id IN (SELECT COUNT(*))": "A subquery names no table",
    "… WHERE EXISTS (SELECT MAX(1))": "A subquery names no table",
    "… WHERE user_id = (SELECT COUNT(*))": "A subquery names no table",
    "SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 3)": "LIMIT would choose",
    "SELECT COUNT(*) INTO x FROM visits": "SELECT INTO",
    "… FOR UPDATE": "FOR UPDATE",
    "SELECT COUNT(*) FROM visits v, visits w": "hold their units equal",
    "SELECT COUNT(*) FROM visits JOIN visits USING (user_id)": "Two tables here are called",
    "SELECT COUNT(*) FROM visits POSITIONAL JOIN visits": "POSITIONAL JOIN",
    "SELECT COUNT(*) FROM visits ASOF JOIN visits USING (user_id)": "ASOF JOIN",
    "SELECT COUNT(*) FROM visits NATURAL JOIN visits": "Two tables here are called",
    "… USING SAMPLE 10%": "Sampling",
    "… TABLESAMPLE 10%": "a sample",
    "… AT (VERSION => 3)": "a version",
    "… AS v(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)": "columns and is given 16 names",
    "SELECT * FROM visits PIVOT (COUNT(*) FOR day IN (1, 2))": "a PIVOT",
    **{
        f"SELECT COUNT(*) FROM {source}": "name of a connected table"
        for source in (
            *("read_csv('x.csv')", "read_parquet(['x'])", "read_text('/etc/passwd')", "glob('*')", "range(10)"),
            *("generate_series(1, 10)", "unnest([1, 2])", "duckdb_settings()", "pragma_table_info('visits')"),
            *("(VALUES (1))", "query('SELECT 1')", "postgres_scan('a', 'b', 'c')", "sniff_csv('x.csv')"),
        )
    },
    **{
        f"SELECT COUNT(*) FROM {source}": "There is no table"
        for source in (
            "'x.csv'",
            '"x.csv"',
            "'/etc/passwd'",
            "sqlite_master",
            "duckdb_tables",
            "visit",
            "'visits '",
            "$1",
        )
        if source != "$1"
    },
    **{
        f"SELECT COUNT(*) FROM {source}": "has a schema before it"
        for source in ("information_schema.tables", "main.nothing", "pg_catalog.pg_class", "temp.x")
    },
    **{
        f"… WHERE {condition}": words
        for condition, words in {
            "random() < 0.5": "random() is refused",
            "rand() < 0.5": "random() is refused",
            "uuid() < 'a'": "uuid() is refused",
            "gen_random_uuid() < 'a'": "uuid() is refused",
            "seen < current_date": "current date is refused",
            "seen < today()": "current date is refused",
            "at < now()": "current time is refused",
            "at < current_timestamp": "current time is refused",
            "at < get_current_timestamp()": "current time is refused",
            "current_time IS NULL": "current time is refused",
            "localtimestamp IS NULL": "current time is refused",
            "current_user = 'x'": "not supported: CURRENT_USER",
            "version() = 'x'": "not supported: VERSION",
            "getenv('HOME') = 'x'": "no function 'getenv'",
            "current_setting('threads') = 'x'": "no function 'current_setting'",
            "nextval('x') = 1": "no function 'nextval'",
            "error('x') = 1": "no function 'error'",
            "md5(region) = 'x'": "Hashes are not supported",
            "hash(region) = 1": "no function 'hash'",
            "lenght(region) = 1": "perhaps length",
            "regexp_matches(region, '(a*)*$')": "something that may be empty is repeated",
            "region ~ region": "REGEXP_MATCHES needs a written constant in place 2",
            "region SIMILAR TO '(a'": "a ( has no )",
            "region ~* 'a'": "~* is not supported",
            "region GLOB 'a*'": "GLOB",
            "region LIKE 'ax' ESCAPE 'x'": "needs one plain character",
            "region ILIKE 'a' ESCAPE 'x'": "ESCAPE is supported for LIKE alone",
            "region LIKE ANY ('a', 'b')": "ANY",
            "region COLLATE NOCASE = 'a'": "COLLATE",
            "user_id = ANY([1, 2])": "ANY",
            "user_id IN ()": "empty list",
            "day IN region": "not supported: day IN region",
            "user_id = $1": "Parameters",
            "user_id = ?": "Parameters",
            "user_id = :x": "Parameters",
            "user_id = $secret": "Parameters",
            "[1, 2][1] = 1": "not supported: [1, 2][1]",
            "region[1] = 'n'": "not supported: region[1]",
            "region[1:2] = 'n'": "not supported: region[",
            "{'a': 1}.a = 1": "not supported",
            "map {'a': 1} IS NULL": "not supported",
            "row(1, 2) IS NULL": "no function 'row'",
            "list_transform([1], x -> x) = [1]": "not supported",
            "list_transform([1], lambda x: x) = [1]": "not supported",
            "unnest([1]) = 1": "not supported: UNNEST([1])",
            "blob IS NULL": "nested or binary",
            "blob.x IS NULL": "no table 'blob'",
            "v.day > 1": "no table 'v'",
            "amount": "WHERE needs a condition",
            "1": "WHERE needs a condition",
            "user_id & 1 = 1": "Operations on bits",
            "user_id << 1 = 1": "Operations on bits",
            "INTERVAL 1 DAY > seen": "INTERVAL stands only beside + and -",
            "seen + INTERVAL '1 fortnight' > seen": "This INTERVAL cannot be read",
            "seen + 1.5 > seen": "+ does not take (a date, a number)",
            "at - at > 1": "- does not take (a time, a time)",
            "date_diff('fortnight', seen, seen) > 1": "cannot be counted in",
            "age(at) > 1": "age() is not supported",
            "repeat(region, 9) = 'a'": "may not grow without bound",
            "lpad(region, 1001, 'a') = 'a'": "at most 1000 characters",
            "seen = '2020-02-30'": "cannot be read as a date",
            "seen = 'SELECT'": "cannot be read as a date",
            "amount = 'abc'": "cannot be read as a number",
            "amount = 1e999": "too large",
            f"amount = {'9' * 400}": "too large",
            "amount = 0x1F": "cannot be read",
            "region = E'\\x41'": "not supported: e'",
            "region = x'41'": "cannot be read",
            "lower() = 'a'": "cannot be read",
            "lower(region, 1) = 'a'": "cannot be read",
            "lower(flag) = 'a'": "LOWER does not take (true or false)",
            "extract(julian FROM at) = 1": "part 'JULIAN' of a time",
            "date_part('era', at) = 1": "part 'era' of a time",
            "date_part(region, at) = 1": "must be written out",
            "date_trunc('decade', at) = at": "truncated to 'decade'",
            "CAST(amount AS HUGEINT) = 1": "CAST to INT128",
            "CAST(amount AS INT[]) = [1]": "CAST to ARRAY",
            "amount::mytype = 1": "CAST to",
            "main.COUNT(day) = 1": "not supported",
        }.items()
    },
}


@pytest.mark.exhaustive
@pytest.mark.sampled(17)
@pytest.mark.thinned(6)
@pytest.mark.parametrize(("sql", "words"), CONSTRUCTS.items(), ids=list(CONSTRUCTS))
def test_a_refusal_names_the_part_and_has_a_hint(sql: str, words: str) -> None:
    error = refusal(sql.replace("…", "SELECT COUNT(*) FROM visits"))
    assert words in str(error)
    assert isinstance(error, PlanError | InvalidParameter)
    assert error.hint, error
    assert "\n" not in error.message and error.message.rstrip(")]'\"")[-1:] not in ("", ",")
    assert len(str(error)) < 400


UNDERSTOOD = """
SELECT COUNT(*) FROM visits;
select count(*) from VISITS
FROM visits SELECT COUNT(*)
SELECT "COUNT"(*) FROM visits
SELECT COUNT() FROM visits
SELECT COUNT(1), COUNT(ALL day) FROM visits
SELECT x: COUNT(*) FROM visits
SELECT COUNT(*) /* ; */ FROM visits -- ; DROP
SELECT COUNT(*) FROM visits v WHERE v.day > 1 AND visits.day < 5
SELECT COUNT(*) FROM visits WHERE "day" > 1 OR DAY < 1
SELECT COUNT(DISTINCT user_id) FROM visits
SELECT SUM("we""ird; col"), SUM(ünï) FROM visits
SELECT SUM(flag), AVG(flag) FROM visits
SELECT SUM(greatest(0, least(1, user_id))) FROM visits
SELECT 3 * COUNT(*) / 0, -COUNT(*), COUNT(*) IS NULL, COUNT(*)::VARCHAR || 'x' FROM visits
SELECT day, COUNT(*) FROM visits GROUP BY ALL
SELECT lower(region) AS r, COUNT(*) FROM visits GROUP BY r ORDER BY 2 DESC NULLS LAST LIMIT 0 OFFSET 5
SELECT COUNT(*) AS n FROM visits HAVING n > 5
SELECT COUNT(*) FROM visits WHERE amount == 3 AND amount != 4 AND NOT amount BETWEEN 1 AND 3 AND amount NOT IN (1, 2)
SELECT COUNT(*) FROM visits WHERE amount IS NOT NULL AND flag IS NOT TRUE AND flag IS UNKNOWN
SELECT COUNT(*) FROM visits WHERE region = 'O''Brien; DROP TABLE visits --' OR region NOT LIKE '%a_' OR region ILIKE ''
SELECT COUNT(*) FROM visits WHERE user_id = -9223372036854775808 OR user_id = 9223372036854775808 OR amount = 1e-999
SELECT COUNT(*) FROM visits WHERE seen = '2020-02-29' AND at >= '2020-02-29 12:00:00'
SELECT COUNT(*) FROM visits WHERE extract(year FROM at) = 2020 AND date_trunc('week', at) = at
SELECT COUNT(*) FROM visits WHERE if(flag, 1, 0) = CASE region WHEN 'a' THEN 1 ELSE 2 END
SELECT COUNT(*) FROM visits WHERE round(amount, 2) = log(amount) + log10(amount) + ln(amount) + amount ** 2 + @amount
""".strip().splitlines()


@pytest.mark.parametrize("sql", UNDERSTOOD)
def test_what_is_answered_has_a_plan(sql: str) -> None:
    assert plan(sql).allocation.guarantee.epsilon == 1


def test_near_names_are_hinted_at() -> None:
    assert "day" in refusal("SELECT COUNT(dya) FROM visits").hint
    assert "amount" in refusal("SELECT SUM(ammount) FROM visits").hint
    assert "connected tables: visits" in refusal("SELECT COUNT(*) FROM visist").hint
    assert "perhaps length" in refusal("SELECT COUNT(*) FROM visits WHERE lenght(region) = 1").hint


@pytest.mark.parametrize("sql", [None, 5, b"SELECT COUNT(*) FROM visits", ["SELECT 1"], object()])
def test_a_question_that_is_no_text_is_refused(sql: Any) -> None:
    assert isinstance(refusal(sql), InvalidParameter)


@pytest.mark.parametrize("bad", ["\0", "\ud800", " " * LONGEST])
def test_a_question_that_cannot_be_stored_is_refused(bad: str) -> None:
    assert "character" in refusal(f"SELECT COUNT(*) FROM visits WHERE region = '{bad}'").message


DEEP = {
    "brackets": "SELECT " + "(" * 20_000 + "COUNT(*)" + ")" * 20_000 + " FROM visits",
    "NOT": "… WHERE " + "NOT " * 20_000 + "flag",
    "minus": "SELECT " + "- " * 20_000 + "COUNT(*) FROM visits",
    "OR": "… WHERE " + " OR ".join(f"day = {i}" for i in range(8000)),
    "plus": "SELECT " + "+".join(["COUNT(*)"] * 9000) + " FROM visits",
    "IN": "… WHERE day IN (" + ",".join(map(str, range(15_000))) + ")",
    "columns": "SELECT " + ",".join(f"SUM(amount + {i}) AS a{i}" for i in range(3000)) + " FROM visits",
    "CASE": "… WHERE " + "CASE WHEN flag THEN " * 3000 + "1" + " END" * 3000 + " = 1",
    "calls": "… WHERE " + "abs(" * 5000 + "day" + ")" * 5000 + " = 1",
    "subqueries": "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 3000 + "visits" + ")" * 3000,
    "quotients": "… WHERE " + "/".join(["amount"] * 50) + " = 1",
    "logarithms": "… WHERE " + "ln(" * 50 + "amount" + ")" * 50 + " = 1",
    "casts": "SELECT x" + "::INT" * 5000 + " FROM visits",
    "lists": "… WHERE " + "[" * 20_000 + "]" * 20_000,
    "a name": "SELECT " + "x" * 90_000 + "(1) FROM visits",
    "digits": "… WHERE amount = " + "9" * 90_000,
}


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("sql", DEEP.values(), ids=list(DEEP))
def test_an_oversized_question_is_refused_quickly(sql: str) -> None:
    start = time.process_time()
    error = refusal(sql.replace("…", "SELECT COUNT(*) FROM visits"))
    assert error.hint
    assert time.process_time() - start < 10  # one or two seconds on an idle machine


@pytest.mark.exhaustive
def test_a_long_list_of_conditions_is_as_flat_as_it_looks() -> None:
    sql = "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(f"day = {i}" for i in range(300))
    assert plan(sql).question.where is not None


def test_there_is_a_most_of_aggregates() -> None:
    columns = [f"SUM(amount + {i}) AS a{i}" for i in range(MOST_MEASURES + 1)]
    assert (
        f"more than {MOST_MEASURES} different aggregates" in refusal(f"SELECT {', '.join(columns)} FROM visits").message
    )


SALAD = """
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET visits day amount region flag seen at user_id COUNT SUM AVG ( ) ( )
, * + - / % = <> < > AND OR NOT NULL IS IN BETWEEN LIKE CASE WHEN THEN ELSE END CAST AS INT DATE 'a' '2020-01-01' 1 2.5
1e400 ALL UNION JOIN ON . ; :: [ ] { } $1 ? -> || EXISTS FILTER OVER WITH VALUES ROLLUP INTERVAL extract TRY ~ @
! ^ & | " ' -- /* */ \\ COLLATE ESCAPE QUALIFY PIVOT USING SAMPLE EXCLUDE REPLACE COLUMNS lambda x : := => ASC DESC
NULLS FIRST
"""
WORDS = SALAD.split()
STARTS = ["", "SELECT ", "SELECT COUNT(*), ", "SELECT SUM("]
STARTS += [f"SELECT COUNT(*) FROM visits {clause} " for clause in ("WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT")]


@pytest.mark.exhaustive
def test_a_salad_of_words_is_answered_or_refused_and_never_breaks_anything() -> None:
    """2,000 texts, the same in every run."""
    rng = random.Random(2)
    outcomes = set()
    for _ in range(2000):
        salad = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 14)))
        sql = rng.choice(STARTS) + salad + rng.choice(["", " FROM visits", ") FROM visits"])
        try:
            plan(sql)
            outcomes.add("answered")
        except DiscreetError as error:
            outcomes.add(type(error).__name__)
    assert {"answered", "UnsupportedQuery", "UnknownColumn"} <= outcomes


@pytest.mark.parametrize(
    ("sql", "asked", "kind", "words"),
    [
        ("SELECT SUM(user_id) FROM visits", {}, MissingBounds, "bounds of 'user_id'"),
        ("SELECT AVG(region::DOUBLE) FROM visits", {}, MissingBounds, "bounds"),
        ("SELECT SUM(1 / amount) FROM visits", {}, MissingBounds, "no bounds"),
        ("SELECT SUM(least(1, user_id)) FROM visits", {}, MissingBounds, "bounds of 'user_id'"),
        ("SELECT SUM(length(CAST(seen AS VARCHAR))) FROM visits", {}, MissingBounds, "bounds"),
        ("SELECT COUNT(*) FROM visits GROUP BY seen", {"delta": 0}, NotPrivate, "needs δ > 0"),
        ("SELECT COUNT(*) FROM visits", {"delta": 0, "noise": "gaussian"}, NotPrivate, "δ above 0"),
        ("SELECT COUNT(x) FROM visits", {}, UnknownColumn, "no column 'x'"),
        ("SELECT COUNT(*) FROM visits", {"noise": "uniform"}, InvalidParameter, "noise must be"),
        ("SELECT COUNT(*) FROM visits", {"noise": 5}, InvalidParameter, "noise must be"),
    ],
)
def test_what_has_to_be_said_first_is_asked_for(
    sql: str, asked: dict[str, Any], kind: type[DiscreetError], words: str
) -> None:
    error = refusal(sql, **asked)
    assert type(error) is kind
    assert words in str(error)


NO_NUMBERS: list[Any] = [
    *(float("nan"), float("inf"), -float("inf"), "nan", "inf", "abc", "", "1e999999", None, True, False),
    *([1], b"1", 1j),
]


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0, -1, "0", "-0.5", 0.0, -0.0, "1/0"])
def test_epsilon_must_be_a_number_above_zero(value: Any) -> None:
    error = refusal("SELECT COUNT(*) FROM visits", epsilon=value)
    assert isinstance(error, InvalidParameter)
    assert isinstance(error, ValueError)
    assert "epsilon" in error.message


@pytest.mark.parametrize("name", ["delta", "truncation"])
@pytest.mark.parametrize("value", [*NO_NUMBERS, -1, 1, 2, "1", "-1e-9"])
def test_probabilities_lie_from_zero_to_below_one(name: str, value: Any) -> None:
    error = refusal("SELECT COUNT(*) FROM visits", **{name: value})
    assert isinstance(error, InvalidParameter)
    assert name in error.message


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0, 1, -1, 2, "95%"])
def test_confidence_lies_strictly_between_zero_and_one(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="confidence"):
        plan("SELECT COUNT(*) AS n FROM visits").error("n", value)


@pytest.mark.exhaustive
def test_every_clause_in_every_order_is_read_or_refused() -> None:
    clauses = ["WHERE day > 1", "GROUP BY day", "HAVING COUNT(*) > 1", "ORDER BY 1", "LIMIT 1"]
    for order in itertools.permutations(clauses):
        try:
            plan("SELECT COUNT(*) AS n FROM visits " + " ".join(order))
        except UnsupportedQuery as error:
            assert "cannot be read" in error.message


def test_the_reference_names_every_function_and_aggregate_of_the_language() -> None:
    page = (Path(__file__).parents[1] / "docs" / "sql-reference.md").read_text(encoding="utf-8").lower()
    spelled = {"neg": "-", "as ": "cast", "trunc_": "date_trunc", "is null": "is null", "||": "&#124;&#124;"}
    spelled |= {"diff_": "date_diff", "sub_": "date_sub", "add_": "interval", "date ": "date + 3", "days ": "date + 3"}
    spelled |= {"same": "is [not] distinct from", "like_escape": "escape"}
    for name in FUNCTIONS:
        word = next((text for start, text in spelled.items() if name.startswith(start)), name)
        assert word in page, name
        for prefix in ("as ", "trunc_", "diff_", "sub_"):
            assert not name.startswith(prefix) or name.removeprefix(prefix) in page, name
    assert all(f"`{name.upper()}(" in page.upper() for name in ("count", "sum", "avg"))
