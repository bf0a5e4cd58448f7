"""What is public of the tables of a session: names, types, and what is known of columns; free."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from discreet.catalog.schema import Fact, Range, TableSchema, unknown_table
from discreet.table import render

ASKS_FOR_SCHEMA = re.compile(
    r"\s*(?:(?P<tables>show\s+tables)|desc(?:ribe)?\s+(?:table\s+)?(?P<quoted>\"(?:[^\"]|\"\")+\"|[\w.]+))\s*;?\s*",
    re.IGNORECASE,
)
"""SHOW TABLES or DESCRIBE, which are no queries."""

_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows that describe tables, all of them public: no row of data is read, and nothing is charged.

    Attributes:
        columns: names of the columns of this listing.
        rows: its rows.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return render(list(self.columns), [list(row) for row in self.rows])


@dataclass(frozen=True, slots=True)
class DescribedTable:
    """A table as it is described: types by column, None for those that cannot be queried; facts; and whose it is."""

    columns: Mapping[str, str | None]
    facts: Mapping[str, Fact]
    owner: str

    @classmethod
    def of(cls, table: TableSchema) -> DescribedTable:
        """Return a connected table."""
        columns = {name: None if kind is None else kind.value for name, kind in table.columns.items()}
        key = table.reached
        owner = f"unit {table.unit.column}" if key is None else f"unit by {key.column} -> {key.table}.{key.key}"
        if table.public:
            owner = "public"
        elif table.unit.is_row:
            owner = "unit: each row"
        return cls(columns, table.facts, owner)

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row for each column: its name, its type, and what is known of it."""
        return [
            (name, kind or "cannot be queried", _known(self.facts.get(name))) for name, kind in self.columns.items()
        ]


def schema_of(tables: Mapping[str, DescribedTable]) -> Listing:
    """Return all columns of all tables."""
    return Listing(
        ("table", "column", "type", "known"), tuple((name, *row) for name, t in tables.items() for row in t.rows())
    )


def described(sql: str, tables: Mapping[str, DescribedTable]) -> Listing:
    """Return what SHOW TABLES or DESCRIBE asks for.

    Raises:
        UnknownColumn: DESCRIBE of a table that is not there.
    """
    asked = ASKS_FOR_SCHEMA.fullmatch(sql)
    assert asked is not None
    if asked["tables"]:
        rows = tuple((name, str(len(t.columns)), t.owner) for name, t in tables.items())
        return Listing(("table", "columns", "rows are of"), rows)
    name = asked["quoted"]
    name = name[1:-1].replace('""', '"') if name.startswith('"') else name
    found = [n for n in tables if n == name] or [n for n in tables if n.lower() == name.lower()]
    if len(found) != 1:
        raise unknown_table(f"There is no table {name!r:.60}.", name, list(tables), [])
    return Listing(("column", "type", "known"), tuple(tables[found[0]].rows()))


def _known(fact: Fact | None) -> str:
    if fact is None:
        return ""
    if isinstance(fact, Range):
        return repr(fact)
    shown = [repr(v) for v in fact.values[:_MOST_SHOWN]]
    more = f", … ({len(fact.values)} values)" if len(fact.values) > len(shown) else ""
    return f"Values({', '.join(shown)}{more})"
