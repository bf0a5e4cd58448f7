"""Ids that are compared across tables are read as one type in which no two of them are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.errors import InvalidParameter, SourceError
from discreet.plan.types import Type
from discreet.session import Session
from tests.tables.shop import SHOP, database, opened, schemas, shop_unit


def ids(session: Session, table: str, column: str = "id") -> list[Any]:
    """The ids that a table's rows have, in the order of their numbers."""
    rows = session._backend.rows(f'SELECT n, "{column}" FROM main."{table}"', {})
    return [value for _, value in sorted(rows)]


def listed(kind: str, *values: str) -> str:
    rows = ", ".join(f"({i}, CAST({v} AS {kind}))" for i, v in enumerate(values))
    return f"SELECT * FROM (VALUES {rows}) t(n, id)"


ONE = dp.PrivacyUnit("id", max_groups=1, max_rows=1)
COMPARED: list[tuple[str, list[str], list[Any]]] = [
    ("BIGINT", ["7", "-7", "9007199254740993"], [7, -7, 9007199254740993]),
    ("INTEGER", ["7"], [7]),
    (
        "DOUBLE",
        ["7.0", "-0.0", "7.5", "'nan'", "'inf'", "9007199254740991", "9007199254740992", "1e300", "NULL"],
        [7, 0, None, None, None, 9007199254740991, None, None, None],
    ),
    ("FLOAT", ["7.0", "16777215", "16777216", "0.1"], [7, 16777215, None, None]),
]


@pytest.mark.parametrize(("kind", "cells", "read"), COMPARED, ids=[c[0] for c in COMPARED])
def test_ids_beside_whole_numbers_are_whole_numbers(
    kind: str, cells: list[str], read: list[Any], tmp_path: Path
) -> None:
    """A real that may stand for several whole numbers is nobody's id."""
    file = database(tmp_path, a=listed("BIGINT", "7"), b=listed(kind, *cells))
    with opened(file, unit=ONE, public=[]) as session:
        assert ids(session, "b") == read
        assert {t.columns["id"] for t in session._tables} == {Type.INT}


def test_ids_that_are_reals_in_every_table_are_whole_numbers(tmp_path: Path) -> None:
    file = database(tmp_path, a=listed("DOUBLE", "7", "'nan'"), b=listed("FLOAT", "7", "7.25", "-0.0"))
    with opened(file, unit=ONE, public=[]) as session:
        assert (ids(session, "a"), ids(session, "b")) == ([7, None], [7, None, 0])


def test_ids_in_text_files_beside_whole_numbers_are_whole_numbers(tmp_path: Path) -> None:
    cells = ["7", " 7 ", "007", "7.0", "+7", "7.4", "seven", "", "0x10", "-0", "9007199254740993",
             "9007199254740993.4", "9223372036854775808", "1e400", "nan"]  # fmt: skip
    read = [7, 7, 7, 7, 7, None, None, None, None, 0, 9007199254740993, None, None, None, None]
    (tmp_path / "b.csv").write_text("n,id\n" + "".join(f"{i},{c}\n" for i, c in enumerate(cells)))
    frame = pd.DataFrame({"n": [0, 1], "id": [7, 8]})
    with opened({"a": frame, "b": tmp_path / "b.csv"}, unit=ONE, public=[]) as session:
        rows = session._backend.rows("SELECT n::INT, id FROM main.b", {})
        assert [v for _, v in sorted(rows)] == read
        assert schemas(session)["b"].columns == {"n": Type.TEXT, "id": Type.INT}
    lines = "".join(f'{{"n": {i}, "id": "{c}"}}\n' for i, c in enumerate(cells))
    (tmp_path / "c.jsonl").write_text(lines)
    with opened({"a": frame, "c": tmp_path / "c.jsonl"}, unit=ONE, public=[]) as session:
        rows = session._backend.rows("SELECT n::INT, id FROM main.c", {})
        assert [v for _, v in sorted(rows)] == read


def test_text_ids_are_compared_character_by_character(tmp_path: Path) -> None:
    cells = ["'7'", "'007'", "'7.0'", "' 7'", "'a'", "'A'", "'é'", "'e\u0301'", "''"]
    file = tmp_path / "ids.duckdb"
    with open_database(file) as connection:
        for table, collation in (("a", "NOCASE.NOACCENT"), ("b", "C")):
            connection.execute(f"CREATE TABLE {table} (n INT, id VARCHAR COLLATE {collation})")
            rows = ", ".join(f"({i}, {c})" for i, c in enumerate(cells))
            connection.execute(f"INSERT INTO {table} VALUES {rows}")
    with opened(file, unit=ONE, public=[]) as session:
        matched = session._backend.rows("SELECT a.n, b.n FROM main.a JOIN main.b ON a.id = b.id", {})
    assert sorted(matched) == [(i, i) for i in range(len(cells))]


def test_ids_in_text_files_alone_are_text_without_the_spaces_around_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,id\n0,7\n1,007\n2,7.0\n3,\n")
    (tmp_path / "b.csv").write_text("n,id\n0, 7 \n")
    with opened({"a": tmp_path / "a.csv", "b": tmp_path / "b.csv"}, unit=ONE, public=[]) as session:
        assert (ids(session, "a"), ids(session, "b")) == (["7", "007", "7.0", None], ["7"])


def test_ids_beyond_64_bits_and_decimals_have_one_spelling(tmp_path: Path) -> None:
    file = database(
        tmp_path,
        a=listed("HUGEINT", "7", "18446744073709551615"),
        b=listed("DECIMAL(12, 2)", "7.00", "1.50", "0.05"),
        c=listed("DECIMAL(12, 4)", "7", "1.5", "100.5"),
        d=listed("UBIGINT", "7", "18446744073709551615"),
    )
    with opened(file, unit=ONE, public=[]) as session:
        assert {t: ids(session, t) for t in "abcd"} == {
            "a": ["7", "18446744073709551615"],
            "b": ["7", "1.5", "0.05"],
            "c": ["7", "1.5", "100.5"],
            "d": ["7", "18446744073709551615"],
        }


@pytest.mark.parametrize(
    "kind", ["HUGEINT '7'", "DECIMAL(12, 2) '7'", "UUID '00000000-0000-0000-0000-00000000000a'"]
)
def test_text_that_is_made_here_does_not_stand_beside_other_text(kind: str, tmp_path: Path) -> None:
    made, value = kind.split(" '")
    file = database(
        tmp_path, a=f"SELECT CAST('{value} AS {made}) AS id", b=listed("VARCHAR", "'7.00'", "'000A'")
    )
    with pytest.raises(InvalidParameter, match="one id may be spelled in two ways"):
        opened(file, unit=ONE, public=[])


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("BIGINT '7'", "VARCHAR '007'", "a.id holds a whole number and b.id text"),
        ("DOUBLE '7'", "VARCHAR '7'", "a.id holds a number and b.id text"),
        ("BIGINT '7'", "HUGEINT '7'", "a.id holds a whole number and b.id text"),
        ("BOOLEAN 'true'", "BIGINT '1'", "a.id holds true or false and b.id a whole number"),
        ("DATE '2020-01-01'", "TIMESTAMP '2020-01-01'", "a.id holds a date and b.id a time"),
    ],
)
def test_ids_of_other_types_are_not_compared(one: str, other: str, words: str, tmp_path: Path) -> None:
    file = database(tmp_path, a=f"SELECT {one} AS id", b=f"SELECT {other} AS id")
    with pytest.raises(InvalidParameter) as caught:
        opened(file, unit=ONE, public=[])
    assert str(caught.value) == (
        f"{words}: ids of different types are not compared.\n"
        "Hint: store them in one type, or connect these tables one at a time"
    )


@pytest.mark.parametrize("kind", ["BOOLEAN 'true'", "DATE '2020-01-01'", "TIMESTAMP '2020-01-01 00:00:01'"])
def test_units_may_be_of_any_one_type(kind: str, tmp_path: Path) -> None:
    file = database(tmp_path, a=f"SELECT {kind} AS id", b=f"SELECT {kind} AS id")
    with opened(file, unit=ONE, public=[]) as session:
        assert len({t.columns["id"] for t in session._tables}) == 1


def test_the_type_of_a_known_id_stays(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,id\n0,7\n")
    reals, whole = pd.DataFrame({"n": [0], "id": [7.0]}), pd.DataFrame({"n": [0], "id": [7]})
    for known, word in ((tmp_path / "a.csv", "text"), (reals, "a number")):
        place = tmp_path / f"l{word}"
        opened({"a": known}, unit=ONE, public=[], ledger=place).close()
        with pytest.raises(InvalidParameter) as caught:
            opened({"a": known, "b": whole}, unit=ONE, public=[], ledger=place)
        assert str(caught.value) == (
            f"a.id was fixed as {word} when it was first connected, and cannot be read as a whole number now, to be "
            "compared with b.id.\nHint: store the ids of the other tables in that type, or connect these tables one "
            "at a time"
        )
        with opened({"a": known, "b": known}, unit=ONE, public=[], ledger=place) as session:
            assert len({t.columns["id"] for t in session._tables}) == 1
    place = tmp_path / "whole"
    opened({"a": whole}, unit=ONE, public=[], ledger=place).close()
    with opened(
        {"a": whole, "b": reals, "c": tmp_path / "a.csv"}, unit=ONE, public=[], ledger=place
    ) as session:
        assert [ids(session, t) for t in "ab"] == [[7], [7]]
        assert {t.columns["id"] for t in session._tables} == {Type.INT}


def test_the_keys_on_the_way_are_read_as_one_type_too(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("order_id,qty\n010,1\n10.5,2\n")
    orders = SHOP["orders"].assign(id=[10.0, float("nan"), -0.0])
    with opened({**SHOP, "orders": orders, "items": tmp_path / "items.csv"}) as session:
        assert schemas(session)["items"].columns["order_id"] is Type.INT
        assert schemas(session)["orders"].columns["id"] is Type.INT
        assert session._backend.rows("SELECT id FROM main.orders ORDER BY ALL", {}) == [(0,), (10,), (None,)]
        assert session._backend.rows("SELECT order_id FROM main.items ORDER BY qty", {}) == [(10,), (None,)]


def test_a_key_that_was_fixed_as_a_real_leads_nowhere(tmp_path: Path) -> None:
    place = tmp_path / "l"
    orders = SHOP["orders"].assign(id=[10.0, 11.0, 12.0])
    opened({"orders": orders}, unit=shop_unit({}), public=[], ledger=place).close()
    with pytest.raises(
        InvalidParameter, match=r"orders\.id was fixed as a number when it was first connected"
    ):
        opened({**SHOP, "orders": orders}, ledger=place)


# --- ids that were pinned as text, and are stored otherwise now ------------------------------------------------------

UPPER = "'550E8400-E29B-41D4-A716-446655440000'"


@pytest.mark.parametrize(
    ("text", "now"),
    [
        ("'7.00'", "7::DECIMAL(9, 2)"),
        ("'007'", "7"),
        ("'7.0'", "7::DOUBLE"),
        (UPPER, f"{UPPER}::UUID"),
        ("'t'", "TRUE"),
    ],
)
@pytest.mark.parametrize("how", ["parquet", "csv"])
def test_tables_that_were_pinned_as_text_are_compared_as_they_are_stored_now(
    text: str, now: str, how: str, tmp_path: Path
) -> None:
    for table, ids in (("a", text), ("b", text), ("c", now)):
        duckdb.sql(f"COPY (SELECT {ids} AS id) TO '{tmp_path / table}.{how if table == 'b' else 'parquet'}'")
    a, b, c = tmp_path / "a.parquet", tmp_path / f"b.{how}", tmp_path / "c.parquet"
    place = tmp_path / "ledger"
    opened({"a": a, "b": b}, unit=ONE, public=[], ledger=place).close()
    with pytest.raises(InvalidParameter, match=r"a\.id holds ids of which text is made here"):
        opened({"a": c, "b": b}, unit=ONE, public=[], ledger=place)
    with opened({"a": c}, unit=ONE, public=[], ledger=place) as session:
        assert len(session.tables) == 1
    with opened({"a": c, "b": c}, unit=ONE, public=[], ledger=place) as session:
        assert session._backend.rows("SELECT a.id = b.id FROM main.a, main.b", {}) == [(True,)]


def test_two_populations_are_compared_as_their_tables_are_stored_now(tmp_path: Path) -> None:
    units = {name: dp.PrivacyUnit(f"{name}_id", max_rows=1) for name in ("patient", "doctor")}
    budget = dict.fromkeys(units, dp.Budget(1))
    for table, ids in (("a", "'7.00'"), ("b", "'7.00'"), ("c", "7::DECIMAL(9, 2)")):
        rows = f"SELECT {ids} AS patient_id, 1 AS doctor_id"
        duckdb.sql(f"COPY ({rows}) TO '{tmp_path / table}.parquet'")
    a, b, c = (tmp_path / f"{t}.parquet" for t in "abc")
    place = tmp_path / "ledger"
    dp.connect_both({"a": a, "b": b}, units=units, budget=budget, ledger=place).close()
    with pytest.raises(InvalidParameter, match=r"a\.patient_id holds ids of which text is made here"):
        dp.connect_both({"a": c, "b": b}, units=units, ledger=place)


MIXED = [
    ("7::DECIMAL(9, 2)", "'7.00'"),
    ("7::DOUBLE", "'7.0'"),
    (f"{UPPER}::UUID", UPPER),
    ("DATE '2020-01-01'", "TIMESTAMP '2020-01-01'"),
    ("1", "TRUE"),
]


@pytest.mark.parametrize(("one", "other"), MIXED)
def test_files_that_spell_one_id_in_two_ways_are_no_table(one: str, other: str, tmp_path: Path) -> None:
    """Its rows would count twice over the caps, in a single table."""
    for file, ids in (("a-1", one), ("a-2", other)):
        duckdb.sql(f"COPY (SELECT {ids} AS id) TO '{tmp_path / file}.parquet'")
    with pytest.raises(SourceError, match="spell one id in several ways"):
        opened({"a": tmp_path / "a-*.parquet"}, unit=ONE, public=[])
    place = tmp_path / "ledger"
    opened({"a": tmp_path / "a-2.parquet"}, unit=ONE, public=[], ledger=place).close()
    with pytest.raises(SourceError, match="spell one id in several ways"):
        opened({"a": tmp_path / "a-*.parquet"}, unit=ONE, public=[], ledger=place)


ALIKE = [
    ("7", "'7'"),
    ("7", "7::DECIMAL(9, 2)"),
    ("7::DOUBLE", "7::UBIGINT"),
    ("7::DECIMAL(9, 2)", "7::DOUBLE"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_files_that_spell_ids_alike_are_one_table(one: str, other: str, tmp_path: Path) -> None:
    for file, ids in (("a-1", one), ("a-2", other)):
        duckdb.sql(f"COPY (SELECT {ids} AS id) TO '{tmp_path / file}.parquet'")
    with opened({"a": tmp_path / "a-*.parquet"}, unit=ONE, public=[]) as session:
        assert session._backend.rows("SELECT id FROM main.a", {}) == [("7",)] * 2


def test_text_beside_whole_numbers_in_one_table_is_text_as_it_stands_to_other_tables(tmp_path: Path) -> None:
    for file, ids in (("a-1", "7"), ("a-2", "'7.00'"), ("b", "7::DECIMAL(9, 2)")):
        duckdb.sql(f"COPY (SELECT {ids} AS id) TO '{tmp_path / file}.parquet'")
    with pytest.raises(InvalidParameter, match=r"b\.id holds ids of which text is made here"):
        opened({"a": tmp_path / "a-*.parquet", "b": tmp_path / "b.parquet"}, unit=ONE, public=[])


CELLS = ["7.50", "7.0", '"7.5"', "9007199254740993.0", "18446744073709551617", "1e2", "-0.0", "7", "null"]
READ: list[tuple[bool, list[Any]]] = [
    (True, [None, 7, None, None, None, 100, 0, 7, None]),
    (False, [None, None, "7.5", None, "18446744073709551617", None, None, "7", None]),
]


@pytest.mark.parametrize("array", [False, True], ids=["by line", "array"])
@pytest.mark.parametrize(("whole", "read"), READ, ids=["as whole numbers", "as text"])
def test_a_real_in_json_is_an_id_only_where_its_spelling_makes_no_difference(
    whole: bool, read: list[Any], array: bool, tmp_path: Path
) -> None:
    """The reader makes 7.5 of 7.50, and an even number of 9007199254740993.0: one person would be two."""
    pd.DataFrame({"n": [0], "id": [7 if whole else "7"]}).to_parquet(tmp_path / "a.parquet")
    tables = {"a": tmp_path / "a.parquet", "b": tmp_path / "b.json"}
    first = '{"n": 0, "id": 7}'
    (tmp_path / "b.json").write_text(f"[{first}]" if array else f"{first}\n")
    opened(tables, unit=ONE, public=[], ledger=tmp_path / "ledger").close()
    objects = [f'{{"n": {i}, "id": {c}}}' for i, c in enumerate(CELLS)]
    (tmp_path / "b.json").write_text(f"[{', '.join(objects)}]" if array else "\n".join(objects))
    with opened(tables, unit=ONE, public=[], ledger=tmp_path / "ledger") as session:
        assert [v for _, v in sorted(session._backend.rows("SELECT n::INT, id FROM main.b", {}))] == read


@pytest.mark.parametrize("text", ['{"id": 7}\n{"id": 7.50}\n', '[{"id": "a"}, {"id": -7e0}]'])
def test_json_whose_ids_are_reals_is_refused_when_it_is_first_connected(text: str, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(SourceError, match=r"'id' of table 'b' are written as real numbers") as refused:
        opened({"b": tmp_path / "b.json"}, unit=ONE, public=[])
    assert "7.5" not in str(refused.value).replace("7.50 from 7.5:", "")
    (tmp_path / "b.json").write_text(text.replace('"id"', '"x"'))
    unit = dp.PrivacyUnit.row()
    opened({"b": tmp_path / "b.json"}, unit=unit, public=[]).close()


TIMES = ["TIMESTAMP '2020-01-01 12:00:00'", "TIMESTAMPTZ '2020-01-01 12:00:00+00'"]


def test_times_with_and_without_a_zone_are_not_compared_as_text(tmp_path: Path) -> None:
    """The text of one ends with '+00': a person would be two."""
    a, b, place = tmp_path / "a-1.parquet", tmp_path / "a-2.parquet", tmp_path / "ledger"
    two, one = {"a": a, "b": b}, {"c": tmp_path / "a-*.parquet"}
    for file in (a, b):
        duckdb.sql(f"COPY (SELECT 'x' AS id) TO '{file}'")
    for tables in (two, one):
        opened(tables, unit=ONE, public=[], ledger=place).close()
    for file, id_ in zip((a, b), TIMES, strict=True):
        duckdb.sql(f"COPY (SELECT {id_} AS id) TO '{file}'")
    with pytest.raises(InvalidParameter, match="one id may be spelled in two ways"):
        opened(two, unit=ONE, public=[], ledger=place)
    with pytest.raises(SourceError, match="spell one id in several ways"):
        opened(one, unit=ONE, public=[], ledger=place)


def test_nanoseconds_with_and_without_a_zone_are_not_compared(tmp_path: Path) -> None:
    source = database(
        tmp_path,
        a="SELECT '2020-01-01 12:00:00'::TIMESTAMP_NS AS id",
        b="SELECT '2020-01-01 12:00:00+00'::TIMESTAMPTZ_NS AS id",
    )
    with pytest.raises(InvalidParameter, match="one id may be spelled in two ways"):
        opened(source, unit=ONE, public=[])


def test_a_known_column_of_ids_may_hold_nothing(tmp_path: Path) -> None:
    some = pd.DataFrame({"id": ["x", "y"]})
    for now in (some, pd.DataFrame({"id": [None, None]})):
        opened({"a": some, "b": now}, unit=ONE, public=[], ledger=tmp_path / "ledger").close()
