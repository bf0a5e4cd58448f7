"""Questions that nest: answered up to a depth, and beyond it refused in words, before anything is charged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from discreet.catalog.schema import Range, TableSchema
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.plan.planner import make_query
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.query.dialects.dialect import as_duckdb
from discreet.query.dialects.prepared import prepare

TABLE = TableSchema(
    "t",
    {"uid": Type.INT, "x": Type.INT},
    {"x": Range(0, 10, integer=True)},
    PrivacyUnit("uid", max_groups=3, max_rows=10),
    Relation.ADD_REMOVE,
)


def derived(n: int) -> str:
    inner = "t"
    for i in range(n):
        inner = f"(SELECT uid, x FROM {inner} a{i})"
    return f"SELECT SUM(x) FROM {inner} z"


def members(n: int) -> str:
    inner = "SELECT uid FROM t"
    for _ in range(n):
        inner = f"SELECT uid FROM t WHERE uid IN ({inner})"
    return f"SELECT COUNT(*) FROM t WHERE uid IN ({inner})"


def named(n: int) -> str:
    stages = [f"c{i} AS (SELECT uid, x FROM {f'c{i - 1}' if i else 't'})" for i in range(n)]
    return f"WITH {', '.join(stages)} SELECT SUM(x) FROM c{n - 1}"


def united(n: int) -> str:
    return f"SELECT COUNT(*) FROM ({' UNION ALL '.join(['SELECT uid FROM t'] * n)}) z"


def added(n: int) -> str:
    return f"SELECT COUNT(*) FROM t WHERE {'(' * n}x{' + 1)' * n} > 3"


def different(n: int) -> str:
    return f"SELECT COUNT(DISTINCT {'(' * n}x{' + 1)' * n}) FROM t"


def middle(n: int) -> str:
    return f"SELECT MEDIAN({'least(' * n}x{', 9)' * n}) FROM t"


def planned(sql: str) -> None:
    make_query(sql, [TABLE], population="p", version=None, epsilon=1)


SHAPES = [derived, members, named, united, added, different, middle]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_question_nests_as_deep_as_people_write(shape: Callable[[int], str]) -> None:
    planned(shape(8))


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("depth", [40, 80, 200])
def test_one_that_nests_deeper_is_answered_or_refused_and_is_no_bug_of_ours(
    shape: Callable[[int], str], depth: int
) -> None:
    try:
        planned(shape(depth))
    except UnsupportedQuery as refusal:
        said = str(refusal)
        assert said.startswith(("The query nests too deeply to be read.", "The query reads more than 100 tables."))


def test_the_refusal_says_what_to_do() -> None:
    with pytest.raises(UnsupportedQuery) as refusal:
        planned(added(100))
    assert str(refusal.value) == "The query nests too deeply to be read.\nHint: write it flatter"


def between(n: int) -> str:
    return f"SELECT COUNT(*) FROM t WHERE {'(' * n}(x > 1){' BETWEEN FALSE AND TRUE)' * n}"


def matched(n: int) -> str:
    arms = " WHEN 1 THEN 2 WHEN 2 THEN 3 WHEN 3 THEN 4 ELSE 1 END"
    return f"SELECT COUNT(*) FROM t WHERE {'CASE ' * n}x{arms * n} = 1"


def matched_outside(n: int) -> str:
    return f"SELECT {'CASE ' * n}COUNT(*){' WHEN 1 THEN 2 WHEN 2 THEN 3 ELSE 1 END' * n} AS n FROM t"


READ_AGAIN = [
    (between, "duckdb"),
    (matched, "duckdb"),
    (matched_outside, "duckdb"),
    (lambda n: f"SELECT COUNT(*) AS n FROM t WHERE {'LEAST(' * n}x{', 5)' * n} = 1", "bigquery"),
    (lambda n: f"SELECT COUNT(*) AS n FROM t WHERE {'DIV0(' * n}x{', 5)' * n} = 1", "snowflake"),
    (lambda n: f"SELECT COUNT(*) AS n FROM t WHERE {'div0null (' * n}x{', 5)' * n} = 1", "snowflake"),
]


@pytest.mark.parametrize(("shape", "dialect"), READ_AGAIN)
def test_a_short_question_whose_parts_are_read_several_times_does_not_become_a_long_one(
    shape: Callable[[int], str], dialect: str
) -> None:
    # each level would take a multiple of the time of the one before
    planned(as_duckdb(shape(3), dialect, [TABLE]))
    for n in (20, 40):
        with pytest.raises(UnsupportedQuery, match="nests too deeply") as refused:
            planned(as_duckdb(shape(n), dialect, [TABLE]))
        assert "flatter" in str(refused.value.hint)


def test_a_list_of_cases_is_no_nest() -> None:
    arms = " ".join(f"WHEN {i} THEN {i % 7}" for i in range(200))
    planned(f"SELECT COUNT(*) FROM t WHERE CASE abs(x + 1) {arms} ELSE 0 END = 3")


PLACES = "SELECT {} AS q FROM (SELECT x, row_number() OVER (ORDER BY x) AS nr, COUNT(*) OVER () AS n FROM t) z"


@pytest.mark.parametrize(
    "sql",
    [
        PLACES.format("MIN(CASE WHEN nr < 1e99999999 * n THEN 9999 ELSE x END)"),
        f"{PLACES.format('AVG(x)')} WHERE nr <= 1E-0099999999 * n",
        "SELECT SUM(x, contribution_bounds_per_group => (0, 1e+99999999)) AS s FROM t",
        "SELECT QUANTILE_CONT(x, 1e-99999999) AS q FROM t",
    ],
)
def test_a_number_whose_digits_would_fill_the_memory_is_refused_at_once(sql: str) -> None:
    prepared = prepare(sql, "duckdb", [TABLE])
    with pytest.raises(UnsupportedQuery, match="exponent"):
        make_query(prepared.text, prepared.tables, population="p", version=None, epsilon=1)


def test_other_numbers_and_texts_with_an_exponent_are_read() -> None:
    sql = "SELECT COUNT(*) FROM t WHERE x < 1.5e+0300 AND x > 1E-300 AND CAST(x AS VARCHAR) <> '1e99999999'"
    assert make_query(sql, [TABLE], population="p", version=None, epsilon=1).sql
