"""Lists of declared keys in SQL: whatever their spelling, the database finds just these values at just these places."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.backends.connection import open_database
from discreet.catalog.schema import Range, Scalar, TableSchema, Values
from discreet.catalog.types import Type
from discreet.plan import bound
from discreet.plan.bound import SHORT, BoundedQuery, bounded_sql, bounding, key_table_sql
from discreet.plan.planner import make_query
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.verify.lists import key_lists

DATABASE = open_database()
SECRET = 0x9E3779B97F4A7C15


def found(values: Sequence[Scalar], kind: Type) -> dict[Any, int]:
    """Value → place, as the database has them."""
    stages = key_table_sql(0, values, kind).removesuffix(",\n")
    rows = DATABASE.execute(f'WITH {stages} SELECT v, g, typeof(v) FROM "key 0"').fetchall()
    assert {t for *_, t in rows} == {kind.value}
    return {v: g for v, g, _ in rows}


def counted(values: Sequence[Scalar], kind: Type) -> int:
    """How many there are, as the second derivation reads the text."""
    import sqlglot

    tree = sqlglot.parse_one(f"WITH {key_table_sql(0, values, kind)} z AS (SELECT 1) SELECT 1", dialect="duckdb")
    ctes = {c.alias: c.this for c in tree.args["with_"].expressions}
    return key_lists(ctes)["key 0"]


DAYS = [dt.date(1, 1, 1), dt.date(9999, 12, 31), *(dt.date(2024, 2, 1) + dt.timedelta(i) for i in range(40))]
TIMES = [dt.datetime(2024, 2, 1, 0, 0, 0, i) for i in range(40)]
LONG = SHORT + 1
LISTS = [
    pytest.param(list(range(-20, 20)), Type.INT, id="numbers that count up"),
    pytest.param(list(range(-20, 60, 2)), Type.INT, id="numbers with gaps"),
    pytest.param(list(range(40, 0, -1)), Type.INT, id="numbers that count down"),
    pytest.param([(1 << 63) - LONG + i for i in range(LONG)], Type.INT, id="the largest numbers"),
    pytest.param([-(1 << 63) + i for i in range(LONG)], Type.INT, id="the least numbers"),
    pytest.param([0.1 * i for i in range(40)], Type.REAL, id="reals"),
    pytest.param([1e-300, 5e-324, 1e308, 0.1, 1 / 3, *map(float, range(40))], Type.REAL, id="reals of all sizes"),
    pytest.param([f"name {i}" for i in range(40)], Type.TEXT, id="texts"),
    pytest.param([*"',;|\n\t\x1f\\%\"", "", " ", "a'b", "''", "é", "日", "🙂"], Type.TEXT, id="every separator"),
    pytest.param([f"it's, {i};" for i in range(40)], Type.TEXT, id="texts with quotes and commas"),
    pytest.param(["", *(" " * i + "x" for i in range(40))], Type.TEXT, id="texts with spaces at the ends"),
    pytest.param([*(f"{i}" for i in range(40)), None], Type.TEXT, id="texts and NULL"),
    pytest.param(DAYS, Type.DATE, id="dates"),
    pytest.param(TIMES, Type.TIMESTAMP, id="times"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "kind"), LISTS)
def test_the_database_finds_each_declared_value_at_its_place(values: list[Scalar], kind: Type) -> None:
    assert found(values, kind) == {v: i for i, v in enumerate(values)}
    assert counted(values, kind) == len(values)
    assert found(values[:3], kind) == {v: i for i, v in enumerate(values[:3])}


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)


@pytest.mark.exhaustive
@given(st.lists(WORDS, min_size=2, max_size=30, unique=True))
@settings(max_examples=200, derandomize=True)
def test_texts_of_any_kind_are_found_at_their_places(words: list[str]) -> None:
    assert found(words, Type.TEXT) == {w: i for i, w in enumerate(words)}
    assert counted(words, Type.TEXT) == len(words)


def test_a_value_that_is_written_twice_has_one_place() -> None:
    """The writer is never given one; the stage groups, so that no row could be looked up twice."""
    twice = [f"name {i % 20}" for i in range(40)]
    assert found(twice, Type.TEXT) == {f"name {i}": i for i in range(20)}


COLUMNS = {"uid": Type.INT, "k": Type.INT, "word": Type.TEXT, "day": Type.DATE, "x": Type.INT}
KEYS = 20_000
FACTS: dict[str, Any] = {
    "k": Range(1, KEYS, integer=True),
    "word": Values(*(f"name {i}" for i in range(KEYS))),
    "day": Values(*(dt.date(1970, 1, 1) + dt.timedelta(i) for i in range(KEYS))),
    "x": Range(0, 10, integer=True),
}


@pytest.mark.parametrize("name", ["k", "word", "day"])
def test_twenty_thousand_declared_keys_are_planned_in_a_moment(name: str) -> None:
    unit = PrivacyUnit("uid", max_groups=3, max_rows=10)
    table = TableSchema("t", COLUMNS, FACTS, unit, Relation.ADD_REMOVE)
    text = f"SELECT {name}, COUNT(*) FROM t GROUP BY {name}"
    took = []
    for _ in range(2):
        start = time.process_time()
        plan = make_query(text, [table], population="p", version=None, epsilon=1)
        took.append(time.process_time() - start)
    assert plan.question.keys.count == KEYS
    assert min(took) < 1  # 0.05 on a quiet machine, and 8 with one constant after another


ROWS = (
    "SELECT i % 37 AS uid, (i * i + i // 7) % 11 AS k, chr(97 + CAST(i * 7 % 5 AS INTEGER)) AS word, "
    "DATE '2024-01-01' + CAST(i % 3 AS INTEGER) AS day, i % 13 AS x FROM range(2000) r(i)"
)


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("groups", [1, 2, 5])
@pytest.mark.parametrize("keys", ["k", "word", "k, word", "word, day, k", "day"])
def test_rows_are_cut_to_the_groups_to_which_tallies_are_cut(
    keys: str, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways to keep a unit's first groups keep the same ones."""
    facts = {n: f for n, f in FACTS.items() if n == "x"} | {
        "k": Range(0, 10, integer=True),
        "word": Values(*"abcde"),
        "day": Values(*(dt.date(2024, 1, 1) + dt.timedelta(i) for i in range(3))),
    }
    unit = PrivacyUnit("uid", max_groups=groups, max_rows=4)
    table = TableSchema("t", COLUMNS, facts, unit, Relation.ADD_REMOVE)
    text = f"SELECT {keys}, COUNT(*), COUNT(x), SUM(x), AVG(x) FROM t GROUP BY {keys}"
    b = bounding(make_query(text, [table], population="p", version=None, epsilon=1).question)
    texts = written(b, monkeypatch)
    assert ['"unit kept"' in t for t in texts] == [False, True] or b.keys.count <= groups  # type: ignore[operator]
    db = open_database()
    db.execute(f"CREATE TABLE t AS {ROWS}")
    asked = {"secret": SECRET} if "$secret" in texts[0] else {}
    first, second = (sorted(db.execute(t, asked).fetchall(), key=str) for t in texts)
    assert first == second
    more = written(replace(b, max_groups=groups + 1), monkeypatch)[1]
    if "$secret" in more:
        assert sorted(db.execute(more, {"secret": SECRET}).fetchall(), key=str) != second


def written(b: BoundedQuery, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The question with tallies cut, and with rows cut."""
    texts = []
    for few in (1 << 30, 0):
        monkeypatch.setattr(bound, "_FEW", few)
        texts.append(bounded_sql(b))
    return texts


def test_texts_and_numbers_that_only_look_alike_are_different_groups_where_every_hash_collides() -> None:
    """The rank of rows rests on which keys the sort of the database takes for one; none that its groups tell apart."""
    words = ["", " ", "a", "a ", "A", "ä", "a\u0308", "ab", "abc" * 9, "abc" * 9 + "d", "ab\x01", None]
    unit = PrivacyUnit("uid", max_groups=4, max_rows=1)
    table = TableSchema("t", COLUMNS, {}, unit, Relation.ADD_REMOVE)
    text = "SELECT word, COUNT(*) FROM t GROUP BY word"
    sql = make_query(text, [table], population="p", version=None, epsilon=1, delta="1e-6").sql
    assert '"unit kept"' in sql
    sql = sql.replace("ORDER BY hash(", "ORDER BY 0 * hash(")
    db = open_database()
    db.execute("CREATE TABLE t (uid BIGINT, k BIGINT, word VARCHAR, day DATE, x BIGINT)")
    for w in words * 2:
        db.execute("INSERT INTO t VALUES (1, 1, ?, NULL, 1)", [w])
    assert len(db.execute(sql, {"secret": SECRET}).fetchall()) == 4
