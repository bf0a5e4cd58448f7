"""Connecting several tables: whose rows are whose, and what the account remembers of it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.catalog.schema import Reached
from discreet.engine import connect
from discreet.errors import DiscreetError, InvalidParameter, LedgerError, UnknownColumn
from discreet.ledger.ledger import Ledger
from tests.backends.asking import exact
from tests.engine.shop import BUDGET, SHOP, WAYS, opened, schemas, shop_unit
from tests.written import written


def test_each_table_knows_whose_its_rows_are() -> None:
    with opened(columns={"orders.amount": dp.Range(0, 500)}) as session:
        assert session.tables == ["customers", "orders", "items", "regions"]
        found = schemas(session)
    assert [(t.unit.column, t.reached, t.public) for t in found.values()] == [
        ("id", None, False),
        ("customer_id", None, False),  # by the unit's own column, without an entry
        ("customer_id", Reached("order_id", "orders", "id"), False),
        ("customer_id", None, True),
    ]
    assert {(t.unit.max_groups, t.unit.max_rows, t.unit.tables) for t in found.values()} == {(2, 5, ())}
    assert found["orders"].facts == {"amount": dp.Range(0, 500)}
    assert [t.digest is None for t in found.values()] == [True, True, True, False]


def test_no_table_without_the_units_column_looks_as_if_each_row_were_a_unit() -> None:
    with opened() as session:
        for table in schemas(session).values():
            assert not table.unit.is_row
            if table.reached or table.public:
                assert table.unit.column not in table.columns


def test_a_chain_of_foreign_keys_may_have_several_hops() -> None:
    unit = shop_unit(
        {"customers": "id", "orders": "customer_id -> customers.id", "items": " order_id->Orders.id "}, column="person"
    )
    with opened(unit=unit) as session:
        found = schemas(session)
    assert found["items"].reached == Reached("order_id", "orders", "id")
    assert found["orders"].reached == Reached("customer_id", "customers", "id")
    assert found["customers"].unit.column == "id"


def test_a_table_whose_name_has_dots_is_found_in_a_foreign_key(tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    with open_database(file) as connection:
        connection.execute("CREATE TABLE people AS SELECT 1 AS person; CREATE SCHEMA sales")
        connection.execute("CREATE TABLE sales.orders AS SELECT 1 AS person, 7 AS id")
        connection.execute("CREATE TABLE sales.items AS SELECT 7 AS order_id; CREATE TABLE days AS SELECT 1 AS d")
    unit = dp.PrivacyUnit("person", 1, 1, tables={"sales.items": "order_id -> sales.orders.id"})
    with opened(file, unit=unit, public=["days"]) as session:
        found = schemas(session)
    assert found["sales.items"].reached == Reached("order_id", "sales.orders", "id")
    assert [t.name for t in found.values() if t.public] == ["days"]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "json"])
def test_each_of_several_files_is_asked_alone_and_with_the_others(ending: str, tmp_path: Path) -> None:
    """Also where a key to which another table leads is read as an id: the second derivation knows of that key only
    where the query reads the other table.
    """
    how = {"csv": "csv, HEADER", "parquet": "parquet", "jsonl": "json", "json": "json, ARRAY true"}[ending]
    with open_database() as db:
        db.execute("CREATE TABLE orders AS SELECT i AS id, i % 3 AS uid FROM range(6) r(i)")
        db.execute("CREATE TABLE items AS SELECT i % 6 AS order_id FROM range(12) r(i)")
        for table in ("orders", "items"):
            db.execute(f"COPY {table} TO '{tmp_path / table}.{ending}' (FORMAT {how})")
    unit = dp.PrivacyUnit("uid", 1, 9, tables={"items": "order_id -> orders.id"})
    files = {t: tmp_path / f"{t}.{ending}" for t in ("orders", "items")}
    with opened(files, unit=unit, public=()) as session:
        counts = {
            "orders": 6,
            "items": 12,
            "items JOIN orders ON items.order_id = orders.id": 12,
            "orders JOIN items ON items.order_id = orders.id": 12,
        }
        for source, count in counts.items():
            sql = f"SELECT COUNT(*) AS n FROM {source}"
            assert exact(session, sql)[()] == [count], source
            assert session.sql(sql, epsilon="0.1").certificate() is not None


REFUSED: list[tuple[dict[str, Any], type[DiscreetError], str]] = [
    (
        {"public": []},
        UnknownColumn,
        (
            "The unit's column 'customer_id' is not in table 'regions'.\nHint: columns are: city, people; "
            "dp.PrivacyUnit.row() where each row is one person; else say how "
            "its rows lead to a unit, tables={'regions': \"column -> table.key\"}, or name it in public= if "
            "it holds no personal data"
        ),
    ),
    (
        {"unit": shop_unit({"customers": "id"})},
        UnknownColumn,
        "The unit's column 'customer_id' is not in table 'items'.",
    ),
    (
        {"unit": shop_unit({**WAYS, "customers": "key"})},
        UnknownColumn,
        "The unit's column 'key' is not in table 'customers'.",
    ),
    (
        {"unit": shop_unit({**WAYS, "refunds": "customer_id"})},
        UnknownColumn,
        "tables= names the table 'refunds', which is not connected.\nHint: connected tables: regions",
    ),
    (
        {"public": ["region"]},
        UnknownColumn,
        "public= names the table 'region', which is not connected.\nHint: connected tables: regions",
    ),
    (
        {"public": "regions"},
        InvalidParameter,
        'public must be a list of the names of tables.\nHint: public=["regions"]',
    ),
    ({"public": [5]}, InvalidParameter, "public must be a list of the names of tables."),
    ({"public": None}, InvalidParameter, "public must be a list of the names of tables."),
    (
        {"public": ["regions", "items"]},
        InvalidParameter,
        (
            "Table 'items' is named public, and tables= says how its unit is found.\n"
            "Hint: a table is either: leave it out of public= if its rows are people's"
        ),
    ),
    (
        {"public": ["regions", "orders"]},
        InvalidParameter,
        (
            "The foreign key 'order_id -> orders.id' of table 'items' leads to the public table 'orders', which "
            "is public.\nHint: say how the rows of 'items' lead to a unit, or name it public if "
            "it holds no personal data"
        ),
    ),
    (
        {"public": ["regions", "orders"], "unit": shop_unit({"customers": "id", "items": "order_id"})},
        InvalidParameter,
        (
            "Table 'orders' has a column of the unit's name, 'customer_id', and it is named public.\nHint: "
            "leave it out of "
            "public= if the column holds the unit; else rename the column, or give the unit a name that no "
            "such table has "
            "and say each table's column in tables="
        ),
    ),
    (
        {"unit": shop_unit({**WAYS, "orders": "id -> customers.id"})},
        InvalidParameter,
        (
            "Table 'orders' has a column of the unit's name, 'customer_id', and tables= says 'id -> customers.id'.\n"
            "Hint: leave it out of tables="
        ),
    ),
    (
        {"unit": shop_unit(), "public": ["customers", "orders", "items", "regions"]},
        InvalidParameter,
        "Table 'customers' is named public, and tables= says how its unit is found.",
    ),
    (
        {"unit": shop_unit({}), "public": ["customers", "orders", "items", "regions"]},
        InvalidParameter,
        (
            "Every table is named public: there is nobody to protect.\n"
            "Hint: leave the tables with people's rows out of public="
        ),
    ),
    (
        {"unit": shop_unit({**WAYS, "items": "order_id -> orders"})},
        InvalidParameter,
        (
            "tables= says 'order_id -> orders' of 'items', which is no foreign key.\nHint: \"order_id -> "
            'orders.id": a '
            "column of this table, the table that it leads to, and the key there"
        ),
    ),
    ({"unit": shop_unit({**WAYS, "items": "-> orders.id"})}, InvalidParameter, "which is no foreign key"),
    ({"unit": shop_unit({**WAYS, "items": "order_id -> .id"})}, InvalidParameter, "which is no foreign key"),
    ({"unit": shop_unit({**WAYS, "items": "order_id -> orders."})}, InvalidParameter, "which is no foreign key"),
    (
        {"unit": shop_unit({**WAYS, "items": "order_id -> baskets.id"})},
        UnknownColumn,
        (
            "The foreign key 'order_id -> baskets.id' of table 'items' leads to a table that is not connected.\n"
            "Hint: connected tables: customers, orders, items, regions"
        ),
    ),
    (
        {"unit": shop_unit({**WAYS, "items": "order -> orders.id"})},
        UnknownColumn,
        (
            "The foreign key 'order -> orders.id' of table 'items' needs a column 'order' in table 'items'.\n"
            "Hint: perhaps order_id is meant"
        ),
    ),
    (
        {"unit": shop_unit({**WAYS, "items": "order_id -> orders.key"})},
        UnknownColumn,
        "The foreign key 'order_id -> orders.key' of table 'items' needs a column 'key' in table 'orders'.",
    ),
    (
        {"unit": shop_unit({**WAYS, "items": "order_id -> items.order_id"})},
        InvalidParameter,
        (
            "The foreign keys of 'items' lead in a circle and to no unit.\n"
            "Hint: one table on the way needs a column that holds the unit's id"
        ),
    ),
    (
        {"unit": shop_unit({**WAYS, "orders": "id -> items.order_id"})},
        InvalidParameter,
        "The foreign keys of 'orders', 'items' lead in a circle and to no unit.",
    ),
    ({"population": None}, InvalidParameter, "Several tables need the name of the population whose budget they share."),
    ({"columns": {"items.price": dp.Range(0, 1)}}, UnknownColumn, "declared of 'items.price'"),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("options", "kind", "words"), REFUSED, ids=[r[2][:60] for r in REFUSED])
def test_what_is_said_of_tables_is_refused_in_words(
    options: dict[str, Any], kind: type[DiscreetError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        opened(**options)
    assert words in str(caught.value)
    assert caught.value.hint


def test_a_key_that_is_no_number_and_no_text_is_refused() -> None:
    nested = {**SHOP, "orders": pd.DataFrame({"id": [[1], [2]], "customer_id": [1, 2]})}
    as_arrow = pytest.importorskip("pyarrow").table({"id": [[1], [2]], "customer_id": [1, 2]})
    with pytest.raises(InvalidParameter, match=r"ids 'id' of table 'orders' are stored as BIGINT\[\]"):
        opened({**SHOP, "orders": as_arrow})
    dates = SHOP["orders"].assign(id=pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"]))
    items = SHOP["items"].assign(order_id=pd.to_datetime(["2020-01-01"] * 3))
    with pytest.raises(InvalidParameter, match="ids are whole numbers or text"):
        opened({**SHOP, "orders": dates, "items": items})
    with opened(nested) as session:  # pandas' objects: a list is nobody's id
        assert exact(session, "SELECT COUNT(*) AS n FROM items i JOIN orders o ON i.order_id = o.id")[()] == [0]


def test_the_units_tables_are_a_value() -> None:
    unit = dp.PrivacyUnit("id", 1, 2, tables={"b": "x", "a": "y -> b.x"})
    same = dp.PrivacyUnit("id", 1, 2, tables={"a": "y -> b.x", "b": "x"})
    assert unit == same and hash(unit) == hash(same) and unit.tables == (("a", "y -> b.x"), ("b", "x"))
    assert unit != dp.PrivacyUnit("id", 1, 2) and unit != dp.PrivacyUnit("id", 1, 2, tables={"b": "x"})
    assert dp.PrivacyUnit("id", 1, 2, tables=unit.tables) == unit
    assert repr(unit) == "PrivacyUnit('id', max_groups=1, max_rows=2, tables={'a': 'y -> b.x', 'b': 'x'})"
    assert repr(dp.PrivacyUnit("id", 1, 2)) == "PrivacyUnit('id', max_groups=1, max_rows=2)"
    with pytest.raises(AttributeError):
        unit.tables = ()  # type: ignore[misc]  # what a user may write
    for bad in ("ab", 5, {"a": 1}, {1: "a"}, {"": "x"}, {"a": ""}, ["a"], [("a", "b", "c")], None):
        with pytest.raises(InvalidParameter, match="tables= must be a dict"):
            dp.PrivacyUnit("id", 1, 2, tables=bad)  # type: ignore[arg-type]  # what a user may write
    with pytest.raises(InvalidParameter, match="says twice how the unit of table 'A' is found"):
        dp.PrivacyUnit("id", 1, 2, tables={"a": "x", "A": "y"})
    with pytest.raises(InvalidParameter, match="tables= needs a unit with a column"):
        dp.PrivacyUnit(None, 1, 1, tables={"a": "x"})


def test_where_each_row_is_a_unit_other_tables_may_be_public() -> None:
    source = {"customers": SHOP["customers"], "regions": SHOP["regions"]}
    with opened(source, unit=dp.PrivacyUnit.row(), population=None) as session:
        assert session.population == "customers"  # the one private table
        assert [(t.unit.is_row, t.public) for t in session._desk.tables] == [(True, False), (True, True)]
        answer = session.sql("SELECT COUNT(*) AS n FROM customers", epsilon=5)
        assert session.remaining.epsilon == 5
    assert abs(answer.rows[0][0] - 3) <= 8  # false alarm: 2e-18


# What the account remembers


def pins(ledger: Path) -> dict[str, Any]:
    with Ledger.existing(ledger) as book:
        account = book.account("customers")
        assert account is not None
        return {t: account.pinned(t) for t in ("customers", "orders", "items", "regions", "more")}


def test_the_account_keeps_how_units_are_found(tmp_path: Path) -> None:
    place = tmp_path / "l"
    written(opened(ledger=place)).close()
    kept = pins(place)
    said = {
        t: {k: v for k, v in (kept[t] or {}).items() if k not in ("form", "columns", "text", "delimiter")} for t in SHOP
    }
    nothing: dict[str, Any] = {"unit": None, "reached": None, "public": False, "others": []}
    assert said == {
        "customers": {**nothing, "unit": "id"},
        "orders": {**nothing, "unit": "customer_id"},
        "items": {**nothing, "reached": ["order_id", "orders", "id"]},
        "regions": {**nothing, "public": True},
    }
    opened(ledger=place, budget=None).close()  # and it is the same way again
    assert pins(place) == kept


def without(*names: str) -> dict[str, Any]:
    return {t: s for t, s in SHOP.items() if t not in names}


OTHERWISE: list[tuple[Any, dict[str, Any], str]] = [
    (
        without("items"),
        {"unit": shop_unit({}), "public": ["regions", "customers"]},
        (
            "Who is protected in table 'customers' was fixed with its first charged query: the column 'id', "
            "not nobody, as "
            "a public table.\nHint: connect it with the same unit, or use another population= for another promise"
        ),
    ),
    (
        SHOP,
        {"unit": shop_unit({"customers": "id"}), "public": ["regions", "items"]},
        "table 'items' was fixed with its first charged query: the foreign key 'order_id -> orders.id', not nobody",
    ),
    (
        SHOP,
        {"unit": shop_unit({**WAYS, "items": "qty -> orders.id"})},
        "the foreign key 'order_id -> orders.id', not the foreign key 'qty -> orders.id'",
    ),
    (
        SHOP,
        {"unit": shop_unit({**WAYS, "items": "order_id -> customers.id"})},
        "the foreign key 'order_id -> orders.id', not the foreign key 'order_id -> customers.id'",
    ),
    (
        SHOP,
        {"unit": shop_unit({**WAYS, "items": "order_id"})},
        "the foreign key 'order_id -> orders.id', not the column 'order_id'",
    ),
    (
        SHOP,
        {"unit": shop_unit({**WAYS, "orders": "id"})},
        "table 'orders' was fixed with its first charged query: the column 'customer_id', not the column 'id'",
    ),
    (
        SHOP,
        {"unit": shop_unit({**WAYS, "orders": "id -> customers.id"}, column="who")},
        "the column 'customer_id', not the foreign key 'id -> customers.id'",
    ),
    (
        SHOP,
        {"unit": shop_unit({**WAYS, "regions": "people -> customers.id"}), "public": []},
        "nobody, as a public table, not the foreign key 'people -> customers.id'",
    ),
    (
        {"regions": SHOP["regions"]},
        {"unit": dp.PrivacyUnit.row(), "public": []},
        "nobody, as a public table, not each row",
    ),
    ({"items": SHOP["items"]}, {"unit": dp.PrivacyUnit.row(), "public": []}, "'order_id -> orders.id', not each row"),
    (
        {"items": SHOP["items"]},
        {"unit": shop_unit({"items": "order_id -> orders.id"}), "public": []},
        "is not connected",
    ),
    ({"ITEMS": SHOP["items"]}, {"unit": dp.PrivacyUnit.row(), "public": []}, "'order_id -> orders.id', not each row"),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize(("source", "options", "words"), OTHERWISE, ids=[o[2][:50] for o in OTHERWISE])
def test_a_known_table_is_never_connected_otherwise(
    source: Any, options: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "l"
    written(opened(ledger=place)).close()
    before = pins(place)
    with pytest.raises(DiscreetError) as caught:
        opened({**source, "more": SHOP["orders"]}, **{**options, "ledger": place})
    assert words in str(caught.value)
    with pytest.raises(DiscreetError):  # also when another process has pinned it in between
        monkeypatch.setattr(connect, "_kept", lambda *_: {})
        opened(source, **{**options, "ledger": place})
    assert pins(place) == before


def test_tables_that_are_known_may_come_with_others_and_by_other_spellings(tmp_path: Path) -> None:
    place = tmp_path / "l"
    written(opened(without("items", "regions"), unit=shop_unit({"customers": "id"}), public=[], ledger=place)).close()
    written(opened(ledger=place, budget=None)).close()
    shouted = {t.upper(): s for t, s in SHOP.items()}
    with opened(shouted, ledger=place, budget=None, public=["Regions"]) as session:
        assert schemas(session)["ITEMS"].reached == Reached("order_id", "ORDERS", "id")


def test_a_shape_that_another_version_pinned_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "l"
    old = {"columns": [["uid", "BIGINT"], ["cost", "DOUBLE"]], "text": False, "delimiter": ",", "unit": "uid"}
    with Ledger.open(place) as book:
        book.open_account("customers", BUDGET).pin("visits", old)
    frame = pd.DataFrame({"uid": [1, 2], "cost": [1.0, 2.0]})
    with pytest.raises(LedgerError, match="Another version of discreet fixed the shape") as caught:
        opened({"visits": frame}, unit=dp.PrivacyUnit("uid", 1, 1), public=[], ledger=place, budget=None)
    assert "still counts" in str(caught.value.hint)


def test_the_pin_of_a_single_table(tmp_path: Path) -> None:
    place = tmp_path / "l"
    source = {"orders": SHOP["orders"]}
    written(opened(source, unit=dp.PrivacyUnit("customer_id", 1, 1), public=[], ledger=place)).close()
    assert pins(place)["orders"] == {
        "form": 3,
        "columns": [["id", "BIGINT"], ["customer_id", "BIGINT"], ["amount", "DOUBLE"]],
        "text": False,
        "delimiter": ",",
        "unit": "customer_id",
        "reached": None,
        "public": False,
        "others": [],
    }


def test_questions_to_one_of_several_tables_are_answered_and_charged() -> None:
    with opened(columns={"orders.amount": dp.Range(0, 500)}) as session:
        answer = session.sql("SELECT COUNT(DISTINCT customer_id) AS people FROM orders", epsilon=4)
        assert abs(answer.rows[0][0] - 2) <= 20  # false alarm: 1e-17 a group
        session.sql("SELECT COUNT(DISTINCT id) AS people FROM customers", epsilon=1)
        assert session.remaining.epsilon == Fraction(5)


def test_rows_lead_to_their_people_through_messy_ids(tmp_path: Path) -> None:
    """Each (person, item) is counted once, whatever the ids are stored as; what leads to nobody is not counted."""
    (tmp_path / "items.csv").write_text(
        "order_id,qty\n10,1\n\t10,1\n 11 ,1\n12,1\n13,1\n,1\nx,1\n10.5,1\n99,1\n010,1\n1_0,1\n+10,1\n"
    )
    source = {
        "customers": pd.DataFrame({"id": [1, 2, 3, 4]}),
        "orders": pd.DataFrame(
            {
                "id": pd.array([10, 11, 11, 12, 13, None, 10], dtype="Int64"),
                "customer_id": pd.array([1, 1, 2, None, None, 2, 1], dtype="Int64"),
            }
        ),
        "items": tmp_path / "items.csv",
    }
    # order 10 is customer 1's, twice over; order 11 is 1's and 2's; 12 and 13 are nobody's; so is the one without an id
    unit = dp.PrivacyUnit("customer_id", max_groups=1, max_rows=100, tables=WAYS)
    with opened(source, unit=unit, public=[]) as session:
        assert exact(session, "SELECT COUNT(*) AS n FROM items")[()] == [2 + 1 + 1]
        joined = "SELECT COUNT(*) AS n FROM items i JOIN orders o ON i.order_id = o.id"
        assert exact(session, joined)[()] == [2 * 2 + 1 + 1]
        people = "SELECT COUNT(DISTINCT c.id) AS n FROM items i JOIN orders o ON i.order_id = o.id JOIN customers c "
        assert exact(session, people + "ON o.customer_id = c.id")[()] == [2]
