"""`sql` and `plan` over several tables: what the options make of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Call

UNIT = ["--unit", "customer_id", "--max-groups", "1", "--max-rows", "5"]
TABLES = ["--table", "orders=orders.csv", "--table", "items=items.parquet", "--table", "regions=regions.csv"]
WAYS = ["--unit-path", "customers=id", "--unit-path", "items = order_id -> orders.id", "--public", "regions"]
PRICE = ["--epsilon", "2", "--budget", "10", "--population", "customers", "--ledger", "shop.ledger"]
QUESTION = (
    "SELECT COUNT(*) AS n FROM items i JOIN orders o ON i.order_id = o.id JOIN customers c ON o.customer_id = c.id "
    "JOIN regions r ON r.city = c.city WHERE r.people > 5"
)


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    n = 3000
    pd.DataFrame({"id": range(n), "city": ["a", "b", "c"] * (n // 3)}).to_parquet("customers.parquet")
    pd.DataFrame({"id": range(n), "customer_id": range(n)}).to_csv("orders.csv", index=False)
    pd.DataFrame({"order_id": range(n)}).to_parquet("items.parquet")
    pd.DataFrame({"city": ["a", "b", "c"], "people": [10, 9, 1]}).to_csv("regions.csv", index=False)


def test_several_tables_are_asked_by_their_names(call: Call) -> None:
    done = call("sql", "customers.parquet", QUESTION, *UNIT, *TABLES, *WAYS, *PRICE, "--json")
    assert done.exit_code == 0, done.output
    [row] = json.loads(done.stdout)["rows"]
    n = row["n"] if isinstance(row, dict) else row[0]
    assert abs(n - 2000) <= 60  # 24 scales of the noise: false alarm 4e-11


def test_a_plan_of_several_tables_is_free(call: Call) -> None:
    done = call("plan", "customers.parquet", QUESTION, *UNIT, *TABLES, *WAYS, *PRICE)
    assert done.exit_code == 0, done.output
    assert not Path("shop.ledger").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--table", "orders"], "--table 'orders' does not have the form NAME=SOURCE."),
        (["--table", "=x.csv"], "--table '=x.csv' does not have the form NAME=SOURCE."),
        (["--table", "orders="], "--table 'orders=' does not have the form NAME=SOURCE."),
        (["--unit-path", "items"], "--unit-path 'items' does not have the form TABLE=PATH."),
        (["--unit-path", "items=order_id -> orders.id"] * 2, "says twice how the unit of table 'items' is found"),
        (["--table", "customers=orders.csv"], "Table 'customers' is given twice."),
        (["--table", "Customers=orders.csv"], "Two tables have the same name."),
        (["--public", "cities"], "--public names the table 'cities', which is not connected."),
        (["--link", "items"], "--link 'items' does not have the form TABLE=PATH."),
        (["--link", "cities=id -> orders.id"], "--link names the table 'cities', which is not connected."),
        (["--unit-path", "cities=id"], "--unit-path names the table 'cities', which is not connected."),
    ],
)
def test_what_is_said_of_tables_is_refused_with_an_example(call: Call, options: list[str], words: str) -> None:
    done = call("sql", "customers.parquet", QUESTION, *UNIT, *PRICE, *options)
    assert done.exit_code == 2
    assert words in done.output and "Hint: " in done.output
    assert not Path("shop.ledger").exists()


def test_a_way_to_the_unit_does_not_go_with_each_row(call: Call) -> None:
    done = call("sql", "customers.parquet", QUESTION, "--each-row", *PRICE, "--unit-path", "customers=id")
    assert done.exit_code == 2
    assert "--unit-path does not go with --each-row." in done.output


def test_the_name_of_a_file_with_an_equals_sign_is_kept(call: Call) -> None:
    Path("orders.csv").rename("year=2024.csv")
    tables = ["--table", "orders=year=2024.csv", *TABLES[2:]]
    done = call("plan", "customers.parquet", QUESTION, *UNIT, *tables, *WAYS, *PRICE)
    assert done.exit_code == 0, done.output
