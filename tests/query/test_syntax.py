"""What analysts write, read as functions of the language: the same as DuckDB itself makes of the text."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest
import sqlglot

from discreet.backends.connection import open_database
from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.errors import MissingBounds, UnknownColumn, UnsupportedQuery
from discreet.plan.measures.lattice_value import lattice_value
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.query.bind import TableScope, bind_row
from discreet.query.expr import Expr, finite
from discreet.query.functions import FUNCTIONS
from discreet.query.keys import find_keys

DAYS = [dt.date(2023, 1, 1), dt.date(2024, 2, 29)]
FACTS: dict[str, Fact] = {"k": Values(1, 2, 3), "x": Range(-5, 20), "d": Values(*DAYS)}
COLUMNS = {"k": Type.INT, "x": Type.REAL, "d": Type.DATE, "e": Type.DATE, "t": Type.TIMESTAMP, "s": Type.TEXT}
SCOPE = TableScope(TableSchema("v", COLUMNS, FACTS, PrivacyUnit.row(), Relation.ADD_REMOVE), "v")


def read(text: str) -> Expr:
    """The expression as the planner reads it."""
    return bind_row(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").expressions[0], SCOPE)


@pytest.mark.exhaustive
@pytest.mark.sampled(10)
@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    "text",
    [
        "DATE '2024-01-31' + INTERVAL 1 MONTH",
        "DATE '2024-01-31' + INTERVAL '1' MONTH",
        "DATE '2024-01-31' + INTERVAL '1 month'",
        "DATE '2024-03-31' - INTERVAL '1 month'",
        "DATE '2024-02-29' - INTERVAL '1 year'",
        "INTERVAL '3 days' + DATE '2024-02-27'",
        "TIMESTAMP '2024-01-31 10:00:00' + INTERVAL '1 year 1 month 3 days 4 hours'",
        "TIMESTAMP '2024-01-31 10:00:00' - INTERVAL '1 month 2 days'",
        "TIMESTAMP '2024-01-31 10:00:00' + INTERVAL (2 + 3) MINUTE",
        "TIMESTAMP '2024-01-31 10:00:00' + INTERVAL 90 SECONDS",
        "DATE '2024-01-31' + INTERVAL 2 WEEKS",
        "DATE '2024-01-31' + INTERVAL 1 QUARTER",
        "DATE '2024-01-31' - INTERVAL 1 DECADE",
        "DATE '2024-01-31' + to_days(3)",
        "date_add(DATE '2024-01-31', INTERVAL 1 MONTH)",
        "DATE '2024-01-31' + 3",
        "3 + DATE '2024-01-31'",
        "DATE '2024-01-31' - 31",
        "DATE '2024-03-01' - DATE '2024-01-31'",
        "date_diff('day', DATE '2024-01-31', DATE '2024-03-01')",
        "datediff('month', DATE '2024-01-31', DATE '2024-03-01')",
        "date_diff('week', DATE '2023-12-31', DATE '2024-03-01')",
        "date_sub('month', DATE '2024-01-31', DATE '2024-02-29')",
        "datesub('year', DATE '1990-06-15', DATE '2024-06-14')",
        "make_date(2024, 2, 29)",
        "last_day(DATE '2023-02-03')",
        "extract(epoch FROM TIMESTAMP '2024-01-31 10:00:00.5')",
        "date_part('isodow', DATE '2024-03-03')",
        "EXTRACT(ISOYEAR FROM DATE '2021-01-03')",
        "yearweek(DATE '2021-01-03')",
        "isodow(DATE '2024-03-03')",
        "second(TIMESTAMP '2024-01-31 10:00:07.5')",
        "date_trunc('month', DATE '2024-02-29')",
        "date_trunc('second', TIMESTAMP '2024-01-31 10:00:07.5')",
        "strftime(DATE '2024-02-29', '%Y-%m, %A')",
        "dayname(DATE '2024-02-29') || monthname(DATE '2024-02-29')",
        "trunc(-2.7::DOUBLE)",
        "round(1234.5::DOUBLE, -2)",
        "round(15::BIGINT, -1)",
        "mod(-7, 3)",
        "fmod(-7.5::DOUBLE, 2::DOUBLE)",
        "fmod(7.5::DOUBLE, -2::DOUBLE)",
        "fmod(-7, 3)",
        "'a' || TRUE || FALSE",
        "concat(TRUE, 'a', FALSE)",
        "floor(27.5::DOUBLE / 10) * 10",
        "ltrim('xxa', 'x') || rtrim('axx', 'x') || trim('  a ') || trim(BOTH 'x' FROM 'xax')",
        "trim(LEADING 'x' FROM 'xax')",
        "replace('a-b-c', '-', '+')",
        "lpad('7', 3, '0') || rpad('7', 3, '-') || lpad('abcd', 2, '0')",
        "strpos('abc', 'c') + instr('abc', 'b') + position('a' IN 'abc')",
        "split_part('a-b-c', '-', 2) || split_part('a-b-c', '-', -1) || split_part('a-b-c', '-', 9)",
        "right('abc', 2) || left('abc', 2)",
        "left('abcd', -1) || left('abcd', 1 - 3) || left('abcd', 1 + 2) || left('abcd', -9) || left('abcd', 0)",
        "right('abcd', -1) || right('abcd', 1 - 3)",
        "concat_ws('-', 'a', NULL, 'b')",
        "ascii('é') + unicode('🎈') + ord('a')",
        "'10%' LIKE '10!%' ESCAPE '!'",
        "'10%' NOT LIKE '10!%' ESCAPE '!'",
        "'a1' ~ '[0-9]'",
        "'a1' !~ '[0-9]'",
        "'a1' SIMILAR TO '[0-9]'",
        "'a1' NOT SIMILAR TO '[0-9]'",
        "regexp_matches('ABC', 'b', 'i')",
        "regexp_full_match('abc', 'b')",
        "regexp_extract('a-12', '([a-z])-([0-9]+)', 2)",
        "regexp_extract('a-12', '[0-9]')",
        "regexp_replace('a-12', '[0-9]', '#') || regexp_replace('a-12', '[0-9]', '#', 'g')",
        r"regexp_replace('a-12', '([a-z])-', '\1\1')",
        "NULL IS DISTINCT FROM 1",
        "1 IS DISTINCT FROM 1",
        "NULL IS NOT DISTINCT FROM NULL",
        "CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END",
        "if(2 > 1, 3, 4)",
        "TRY(sqrt(-1.0::DOUBLE)) IS NULL OR TRUE",
        "nullif(3, 3) IS NULL",
        "radians(180.0::DOUBLE) = pi()",
    ],
)
def test_what_is_written_means_what_duckdb_makes_of_it(text: str) -> None:
    expr = read(text)
    connection = open_database()
    ((wanted,),) = connection.execute(f"SELECT {text}").fetchall()
    ((found,),) = connection.execute(f"SELECT {finite(expr)}").fetchall()
    assert (type(found), found) == (type(wanted), wanted)
    assert expr.of_row({}) == wanted


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("width_bucket(-0.1, 0, 10, 5)", 0),
        ("width_bucket(0, 0, 10, 5)", 1),
        ("width_bucket(1.9999, 0, 10, 5)", 1),
        ("width_bucket(2, 0, 10, 5)", 2),
        ("width_bucket(10, 0, 10, 5)", 6),
        ("width_bucket(NULL, 0, 10, 5)", None),
        ("nvl2(NULL, 1, 2)", 2),
        ("nvl(NULL, 2)", 2),
        ("iif(FALSE, 1, 2)", 2),
        ("TRY(1 / 0)", None),
        ("DATE '9999-12-31' + INTERVAL 1 DAY", None),
        ("DATE '0001-01-01' - 1", None),
        ("make_date(2023, 2, 29)", None),
        ("cbrt(27) < 3.001 AND log2(8) > 2.999 AND abs(sin(pi())) < 1e-9", True),
    ],
)
def test_what_duckdb_lacks_or_fails_on_has_a_value_too(text: str, value: Any) -> None:
    expr = read(text)
    ((found,),) = open_database().execute(f"SELECT {finite(expr)}").fetchall()
    assert found == value
    assert expr.of_row({}) == value


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("t - t", "- does not take (a time, a time).", "date_diff('hour', a, b) counts hours"),
        ("t + 1", "+ does not take (a time, a whole number).", "t + INTERVAL (n) HOUR"),
        ("(k > 1) + 1", "+ does not take (true or false, a whole number).", "CAST the argument"),
        ("INTERVAL 1 DAY", "INTERVAL stands only beside + and -, after a date or time.", "d + INTERVAL (n) DAY"),
        ("d + INTERVAL '1 moon'", "This INTERVAL cannot be read.", "INTERVAL '1 year 2 months'"),
        ("d + INTERVAL '02:00:00'", "This INTERVAL cannot be read.", "INTERVAL 3 DAY"),
        ("d + to_months(3)", "to_months() makes an interval, which stands only beside + and -.", "INTERVAL (n) MONTH"),
        ("date_diff('era', d, d)", "A difference of times cannot be counted in 'ERA' here.", "year, quarter, month"),
        ("age(t)", "age() is not supported here.", "date_sub('year', born, DATE '2024-12-31')"),
        ("time_bucket(INTERVAL 1 WEEK, d)", "time_bucket() is not supported here.", "date_trunc('week', x)"),
        ("strptime(s, '%Y')", "strptime() is not supported here.", "CAST text such as"),
        ("to_timestamp(k)", "to_timestamp() is not supported here.", "TIMESTAMP '1970-01-01' + INTERVAL (n) SECOND"),
        ("t AT TIME ZONE 'UTC'", "AT TIME ZONE is not supported here: times are in UTC.", "INTERVAL 2 HOUR"),
        ("strftime(d, '%c')", "The format of STRFTIME holds a part that is not supported: %c.", "parts are %Y"),
        ("strftime(d, '%')", "The format of STRFTIME holds a part that is not supported: %.", "parts are %Y"),
        ("strftime(d, '')", "STRFTIME needs a format with parts, of at most 200 characters.", "strftime(d, '%Y-%m')"),
        ("strftime(d, s)", "STRFTIME needs a written constant in place 2.", "write the value itself"),
        ("width_bucket(x, 10, 0, 5)", "WIDTH_BUCKET needs a lower end below the upper one.", "width_bucket(x, 0,"),
        ("width_bucket(x, 0, 1, 0)", "WIDTH_BUCKET needs 1 to 1000000 buckets.", "width_bucket(x, 0, 100, 10)"),
        ("width_bucket(x, 0, k, 5)", "WIDTH_BUCKET needs a written constant in place 3.", "write the value itself"),
        ("lpad(s, k, 'x')", "LPAD needs a written constant in place 2.", "write the value itself"),
        ("rpad(s, 5, '')", "LPAD and RPAD fill up to at most 1000 characters", "lpad(x, 5, '0')"),
        ("replace(s, '', 'x')", "REPLACE needs a text to look for", "replace(x, '-', '')"),
        (f"replace(s, 'a', '{'x' * 101}')", "at most 100 characters in its place.", "replace(x, '-', '')"),
        ("split_part(s, '', 1)", "SPLIT_PART needs a delimiter.", "split_part(x, '-', 1)"),
        ("repeat(s, 3)", "repeat() is not supported here: texts may not grow without bound.", "lpad or rpad"),
        ("reverse(s)", "reverse() is not supported here.", "right(x, n)"),
        ("chr(k)", "chr() is not supported here.", "the character itself"),
        ("md5(s)", "Hashes are not supported here.", "compare the value itself"),
        ("k & 1", "Operations on bits are not supported here.", "use %, //"),
        ("s LIKE 'a!' ESCAPE '!'", "LIKE … ESCAPE needs one plain character", "x LIKE '10!%%' ESCAPE '!'"),
        ("s LIKE 'a' ESCAPE 'ab'", "LIKE … ESCAPE needs one plain character", "x LIKE '10!%%' ESCAPE '!'"),
        ("regexp_matches(s, s)", "REGEXP_MATCHES needs a written constant in place 2.", "write the value itself"),
        ("regexp_matches(s, 'a', 'x')", "The options 'x' of a regular expression are not", "options are"),
        ("regexp_matches(s, NULL)", "A regular expression cannot be NULL.", "write the pattern"),
        ("regexp_extract(s, 'a', 1)", "The regular expression has 0 groups", "regexp_extract(x,"),
        ("regexp_replace(s, 'a*', 'b')", "REGEXP_REPLACE needs a pattern that never matches the empty text.", "write"),
        (r"regexp_replace(s, 'a', '\1')", "names a group that is not there.", "at most 100 characters"),
        ("s ~* 'a'", "~* is not supported here.", "regexp_matches(x, pattern, 'i')"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named_with_a_way_round(text: str, message: str, hint: str) -> None:
    with pytest.raises(UnsupportedQuery) as caught:
        read(text)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_misspelled_function_is_answered_with_near_ones() -> None:
    with pytest.raises(UnknownColumn) as caught:
        read("date_dif('day', d, d)")
    assert caught.value.hint == "perhaps date_diff is meant"


def test_a_key_over_declared_values_cannot_pass_through_a_function_whose_last_bit_varies() -> None:
    assert find_keys([read("k * k")], FACTS).lists == ((1, 4, 9),)
    assert find_keys([read("exp(x)")], FACTS).lists is None  # selected privately: the database alone computes it
    inexact = [name for name, f in FUNCTIONS.items() if f.inexact]
    assert {"exp", "ln", "power", "sin", "cbrt"} <= set(inexact)
    for name in inexact:
        arguments = "k, k" if name in ("power", "atan2", "log") else "k"
        with pytest.raises(UnsupportedQuery, match=f"cannot pass through {name.upper()}: its last digit"):
            find_keys([read(f"floor({name}({arguments}))")], FACTS)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("date_diff('day', DATE '2023-01-01', d)", 0, 424),
        ("date_diff('month', d, DATE '2024-03-01')", 1, 14),
        ("d - DATE '2023-01-01'", 0, 424),
        ("date_sub('year', DATE '1990-06-15', d)", 32, 33),
        ("date_diff('day', d, d + INTERVAL 3 DAY)", -421, 427),
        ("width_bucket(x, 0, 10, 5)", 0, 6),
        ("width_bucket(least(greatest(x, 3), 4), 0, 10, 5)", 2, 3),
        ("month(e)", 1, 12),
        ("second(t)", 0, 59),
        ("isodow(e)", 1, 7),
        ("ascii(s)", 0, 0x10FFFF),
        ("greatest(0, least(365, date_diff('day', e, e)))", 0, 365),
    ],
)
def test_bounds_follow_from_what_is_declared(text: str, low: int, high: int) -> None:
    value = lattice_value(read(text), FACTS)
    assert (value.low, value.high) == (low, high)


def test_real_bounds_follow_too() -> None:
    for text, low, high in (("trunc(x)", -5, 20), ("sin(x)", -1, 1), ("degrees(x)", -286.48, 1145.92)):
        value = lattice_value(read(text), FACTS)
        assert math.isclose(value.low * value.step, low, abs_tol=0.01)
        assert math.isclose(value.high * value.step, high, abs_tol=0.01)


@pytest.mark.parametrize(
    "text",
    [
        "date_diff('day', e, t)",
        "date_diff('day', DATE '2024-02-30', d)",
        "date_diff('day', DATE 'x', d)",
        "e - DATE '2023-01-01'",
        "tan(x)",
        "epoch(t)",
    ],
)
def test_where_no_bounds_follow_the_hint_is_a_clamp(text: str) -> None:
    with pytest.raises(MissingBounds) as caught:
        lattice_value(read(text), FACTS if "x" not in text else {})
    assert caught.value.hint is not None
    assert "least(high, greatest(low, …))" in caught.value.hint or "dp.Range" in caught.value.hint
