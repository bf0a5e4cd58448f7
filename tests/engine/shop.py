"""A shop in four tables: customers, their orders, the items of these, and public regions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

import discreet as dp
from discreet.backends.connection import open_database
from discreet.catalog.schema import TableSchema
from discreet.engine.session import Session

BUDGET = dp.Budget(10)
SHOP: dict[str, Any] = {
    "customers": pd.DataFrame({"id": [1, 2, 3], "city": ["a", "b", "b"]}),
    "orders": pd.DataFrame({"id": [10, 11, 12], "customer_id": [1, 2, 2], "amount": [5.0, 6.0, 7.0]}),
    "items": pd.DataFrame({"order_id": [10, 10, 11], "qty": [1, 2, 3]}),
    "regions": pd.DataFrame({"city": ["b", "a", None], "people": [20, 10, 30]}),
}
WAYS = {"customers": "id", "items": "order_id -> orders.id"}


def shop_unit(tables: Mapping[str, str] | None = None, column: str = "customer_id") -> dp.PrivacyUnit:
    return dp.PrivacyUnit(column, max_groups=2, max_rows=5, tables=WAYS if tables is None else tables)


def opened(source: Any = None, **options: Any) -> Session:
    said: dict[str, Any] = {
        "unit": shop_unit(),
        "public": ["regions"],
        "population": "customers",
        "budget": BUDGET,
        "ledger": ":memory:",
    }
    return dp.connect(SHOP if source is None else source, **{**said, **options})


def schemas(session: Session) -> dict[str, TableSchema]:
    return {t.name: t for t in session._desk.tables}


def database(tmp_path: Path, **tables: str) -> Path:
    file = tmp_path / "ids.duckdb"
    with open_database(file) as connection:
        for name, select in tables.items():
            connection.execute(f"CREATE TABLE {name} AS {select}")
    return file
