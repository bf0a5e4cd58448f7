"""What the reading of a relation carries along: the connected tables, the named subqueries, and fresh names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from sqlglot import exp

from discreet.catalog.schema import Reached, TableSchema
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.privacy.unit import PrivacyUnit
from discreet.query.expr import Column
from discreet.query.relation.names import AliasColumns, Item, Key, Names
from discreet.query.relation.node import Node, is_owned

MOST_READS = 100
"""Tables that one query reads, counting a table again for each place that names it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A relation with the names of its columns."""

    node: Node
    entries: tuple[AliasColumns, ...]
    merged: tuple[Item, ...] = ()

    @property
    def owned(self) -> bool:
        """Whether the rows belong to units."""
        return is_owned(self.node)

    def called(self, alias: str, columns: Sequence[str]) -> Rows:
        """Return the same rows, all columns under one alias, the first ones renamed."""
        items = self.shown()
        if len(columns) > len(items):
            raise UnsupportedQuery(
                f"{alias!r} has {len(items)} columns and is given {len(columns)} names.", hint="name each column once"
            )
        renamed = [replace(i, name=n) for i, n in zip(items, columns, strict=False)]
        return Rows(self.node, (AliasColumns(alias, (*renamed, *items[len(columns) :])),))

    def shown(self) -> tuple[Item, ...]:
        """Return the columns that `*` stands for: those that USING made one come first, and once."""
        names = {m.name.lower() for m in self.merged}
        rest = [i for e in self.entries if not e.hidden for i in e.items if i.name.lower() not in names]
        return (*self.merged, *rest)


@dataclass(frozen=True, slots=True)
class Named:
    """A subquery of WITH, and what WITH had named before it."""

    name: str
    query: exp.Expr
    columns: tuple[str, ...]
    before: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class Context:
    """Where a relation is read.

    Attributes:
        tables: all that are connected.
        unit: who is protected.
        query: reads an inner query.
        named: the subqueries of WITH in scope, the latest last.
        numbers: the numbers of columns, over the whole query.
        reads: the tables and named subqueries read so far.
        linked: the equations of joins that hold units equal by a link alone.
        unmatched: the columns of public tables that people's rows are left-joined to; None where that is refused.
    """

    tables: Sequence[TableSchema]
    unit: PrivacyUnit
    query: Callable[[exp.Expr, Context], Rows]
    named: tuple[Named, ...] = ()
    numbers: Iterator[int] = field(default_factory=count)
    reads: list[str] = field(default_factory=list)
    linked: dict[str, None] = field(default_factory=dict)
    unmatched: list[Column] | None = None

    def fresh(self, kind: Type) -> Column:
        """Return a column that is new in the query, under a name that no column of a table has in a message."""
        return Column(f"#{next(self.numbers)}", kind)

    def names(self, *rows: Rows, beyond: Names | None = None) -> Names:
        """Return the scope of several relations side by side."""
        entries = tuple(e for r in rows for e in r.entries)
        return Names(entries, self.unit, tuple(m for r in rows for m in r.merged), beyond)

    def keys_of(self, table: TableSchema, column: str) -> frozenset[Key]:
        """Return the declared keys whose values a column holds: the key itself, and a foreign key that leads to it."""
        found = {(r.table, r.key) for r in self._ways() if (r.table, r.key) == (table.name, column)}
        if table.reached is not None and table.reached.column == column:
            found.add((table.reached.table, table.reached.key))
        return frozenset(found)

    def links_of(self, table: TableSchema, column: str) -> frozenset[Key]:
        """Return the keys whose values a column holds by a link: the key itself, and what leads to it."""
        own = {(way.table, way.key) for way in table.links if way.column == column}
        return frozenset(
            own | ({(table.name, column)} & {(way.table, way.key) for t in self.tables for way in t.links})
        )

    def _ways(self) -> list[Reached]:
        return [t.reached for t in self.tables if t.reached is not None]

    def read(self, what: str) -> None:
        """Note that a table is read.

        Raises:
            UnsupportedQuery: the query reads too many.
        """
        self.reads.append(what)
        if len(self.reads) > MOST_READS:
            raise UnsupportedQuery(
                f"The query reads more than {MOST_READS} tables.",
                hint="a WITH is read again wherever it is named; ask for less at once",
            )
