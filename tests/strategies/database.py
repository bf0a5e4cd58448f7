"""Hypothesis strategies: small databases of several tables, dirty rows included, and their neighbours.

Customers, their orders, the orders' items, and public regions. Keys are shared by several people, dangle, repeat
and are NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from hypothesis import strategies as st

from discreet.privacy.unit import Relation
from tests.reference.expression import Row
from tests.reference.relation import Database, Link, Table
from tests.reference.values import Kind, Value

INT, REAL, TEXT = Kind.INT, Kind.REAL, Kind.TEXT
CUSTOMERS = Table("customers", {"id": INT, "person": INT, "region": TEXT, "age": INT}, unit="person")
OWN_ORDERS = Table("orders", {"id": INT, "customer_id": INT, "person": INT, "amount": INT, "day": INT}, unit="person")
ORDERS = replace(OWN_ORDERS, unit=None, link=Link("customer_id", "customers", "id"))
ITEMS = Table(
    "items", {"order_id": INT, "product": TEXT, "price": REAL, "qty": INT}, link=Link("order_id", "orders", "id")
)
REGIONS = Table("regions", {"name": TEXT, "country": TEXT, "factor": INT})
LAYOUTS: tuple[tuple[Table, ...], ...] = ((CUSTOMERS, ORDERS, ITEMS, REGIONS), (CUSTOMERS, OWN_ORDERS, ITEMS, REGIONS))
"""People reach items in three steps, or own their orders directly."""

RANGES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"age": (0, 9), "amount": (-3, 5), "qty": (0, 4), "price": (-1, 2), "factor": (0, 3)}
)
"""What the owner declares of columns, in whichever table they are."""

VALUES: Mapping[str, tuple[Value, ...]] = MappingProxyType({"region": ("a", "b", None), "product": ("p", "q")})


@st.composite
def databases(draw: st.DrawFn, *, max_size: int = 4, clean: bool = False) -> Database:
    """A few rows in each table. A clean one has whole, unique keys, so that plain SQL has nothing to disagree about."""
    tables = draw(st.sampled_from(LAYOUTS))
    rows: dict[str, tuple[Row, ...]] = {}
    for table in tables:
        n = draw(st.integers(0, max_size if table.public else max_size + 2))
        rows[table.name] = tuple(draw(_row(table)) for _ in range(n))
    return _clean(Database(tables, rows)) if clean else Database(tables, rows)


@st.composite
def neighbours(draw: st.DrawFn, database: Database, relation: Relation) -> tuple[Database, Database]:
    """The database and one without a unit (add-remove), or two in which one unit has other rows (replace)."""
    units = database.units()
    leaver = draw(st.sampled_from(units)) if units else 1
    rest = database.without(leaver)
    if relation is Relation.ADD_REMOVE:
        return database, rest
    newcomer = draw(st.sampled_from([leaver, 1, 2, 3, 4]))
    if newcomer in rest.units():
        newcomer = leaver
    return database, rest.plus(draw(_rows_of(rest, newcomer)))


_KEYS: st.SearchStrategy[Value] = st.sampled_from([1, 2, 3, 4, 1, 2, 3, None])
_CELLS: Mapping[str, st.SearchStrategy[Value]] = MappingProxyType(
    {
        "person": st.sampled_from([1, 2, 3, 1, 2, None]),
        "region": st.sampled_from(["a", "b", "c", None]),
        "product": st.sampled_from(["p", "q", "r", None]),
        "name": st.sampled_from(["a", "b", "a", None]),
        "country": st.sampled_from(["x", "y", None]),
        "price": st.sampled_from([0.0, -0.0, 0.5, -1.25, 7.0, 0.1, 0.2, 0.3, float("nan"), None]),
    }
)


def _row(table: Table, **fixed: st.SearchStrategy[Value]) -> st.SearchStrategy[Row]:
    cells = {name: _cell(name) for name in table.columns}
    return st.fixed_dictionaries({**cells, **fixed})


def _cell(name: str) -> st.SearchStrategy[Value]:
    if name == "id" or name.endswith("_id"):
        return _KEYS
    return _CELLS.get(name, st.sampled_from([0, 1, 2, 3, 5, 9, -4, None]))


@st.composite
def _rows_of(draw: st.DrawFn, database: Database, unit: Value) -> dict[str, list[Row]]:
    """New rows of one unit in every private table."""
    new: dict[str, list[Row]] = {}
    for table in database.tables:
        if table.unit is not None:
            rows = draw(st.lists(_row(table, **{table.unit: st.just(unit)}), max_size=3))
        elif table.link is not None:
            # a key that somebody else has as well would give the row to both
            taken = {None, *(r[table.link.key] for r in database.rows[table.link.table])}
            keys = [found for r in new[table.link.table] if (found := r[table.link.key]) not in taken]
            most = 3 if keys else 0
            key = st.sampled_from(keys) if keys else st.none()
            rows = draw(st.lists(_row(table, **{table.link.column: key}), max_size=most))
        else:
            rows = []
        new[table.name] = rows
    return new


def _clean(database: Database) -> Database:
    """The same with keys made whole and unique, foreign keys that lead somewhere, units that are there, and no NaN."""
    rows = {name: [dict(r) for r in rows] for name, rows in database.rows.items()}
    for table in database.tables:
        kept = []
        for i, row in enumerate(rows[table.name]):
            if "id" in row:
                row["id"] = i + 1
            if "price" in row and row["price"] != row["price"]:
                row["price"] = None
            if table.unit is not None and row[table.unit] is None:
                row[table.unit] = 1
            if table.link is not None:
                parents = rows[table.link.table]
                wanted = row[table.link.column]
                if not parents:
                    continue
                row[table.link.column] = parents[(wanted if isinstance(wanted, int) else 0) % len(parents)]["id"]
            kept.append(row)
        rows[table.name] = kept
    return replace(database, rows={name: tuple(found) for name, found in rows.items()})
