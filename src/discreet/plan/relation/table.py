"""A connected table as a relation: whose its rows are."""

from __future__ import annotations

from discreet.errors import UnsupportedQuery
from discreet.plan.expr import Column
from discreet.plan.relation.context import Context, Rows
from discreet.plan.relation.names import Entry, Item
from discreet.plan.relation.node import Reach, Scan, unit_type
from discreet.plan.schema import TableSchema, find_table


def open_table(table: TableSchema, alias: str, context: Context) -> Rows:
    """The table's rows: public, the unit's by its own column, or by the foreign key that leads to it.

    Raises:
        UnsupportedQuery: each row of the table is a unit, or it has nothing that can be asked about.
    """
    context.read(table.name)
    columns = tuple((context.fresh(kind), name) for name, kind in table.columns.items() if kind is not None)
    if table.public:
        if not columns:
            raise UnsupportedQuery(
                f"The public table {table.name!r} has no column that can be asked about.", hint="leave it out"
            )
        return Rows(Scan(table, columns), (_entry(table, alias, columns, context),))
    if table.reached is not None:
        way = table.reached
        owners = open_table(find_table(way.table, context.tables), way.table, context)
        key = next((i.expr for i in owners.entries[0].items if i.name == way.key), None)
        here, there = table.columns[way.column], key.type if isinstance(key, Column) else None
        if not isinstance(key, Column) or not owners.owned or here is None or here is not there:
            raise UnsupportedQuery(
                f"The foreign key {way.column!r} of {table.name!r} cannot be compared with {way.table}.{way.key}: "
                "they are of different types.",
                hint="store both as the same type",
            )
        return Rows(Reach(table, columns, owners.node, key), (_entry(table, alias, columns, context),))
    if table.unit.column is None:
        raise UnsupportedQuery(
            f"Each row of {table.name!r} is a unit of its own, so it is asked about without joins and subqueries.",
            hint="connect it with a column that names the unit: dp.PrivacyUnit('person_id', …)",
        )
    scan = Scan(table, columns)
    if unit_type(scan) is None:
        raise UnsupportedQuery(
            f"The unit's column of {table.name!r} holds a nested or binary value.",
            hint="store it as text or a number",
        )
    return Rows(scan, (_entry(table, alias, columns, context),))


def _entry(
    table: TableSchema, alias: str, columns: tuple[tuple[Column, str], ...], context: Context
) -> Entry:
    known = {name: c for c, name in columns}
    owner = None if table.public or table.reached is not None else table.unit.column
    items = [
        Item(
            name,
            known.get(name),
            table.facts.get(name),
            is_unit=name == owner,
            keys=frozenset() if table.public else context.keys_of(table, name),
        )
        for name in table.columns
    ]
    return Entry(alias, tuple(items))
