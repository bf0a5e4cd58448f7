"""A brute-force reference for relations over several tables: whose each row is, and what joins and nesting make of it.

Plain Python on tiny tables. Every row of an owned relation carries its unit. What comes out are rows on which
`reference.bounded_cells` then works, with their unit in the column `UNIT`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from discreet.errors import InvalidParameter
from tests.reference.expression import Column, Expression, Row
from tests.reference.relation_parts import Aggregate, Output, Window, row_key
from tests.reference.values import Kind, Value, common, fit

UNIT = "#unit"
"""The column of a relation's rows that holds their unit."""

Owned: TypeAlias = tuple[Value, Row]
"""A unit and one row of its own; the unit of a public row is None."""


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key: `column` holds a value of `key` in `table`."""

    column: str
    table: str
    key: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns, and how a row finds its unit; a table with neither way is public."""

    name: str
    columns: Mapping[str, Kind]
    unit: str | None = None
    link: Link | None = None

    @property
    def public(self) -> bool:
        """Whether it holds nobody's data."""
        return self.unit is None and self.link is None


@dataclass(frozen=True, slots=True)
class Database:
    """Tables and their rows, dirty ones included."""

    tables: tuple[Table, ...]
    rows: Mapping[str, tuple[Row, ...]]

    def table(self, name: str) -> Table:
        """The table of that name."""
        (found,) = (t for t in self.tables if t.name == name)
        return found

    def owned(self, name: str) -> list[Owned]:
        """Each row once for each of its units; those of nobody are left out, unless the table is public."""
        table = self.table(name)
        if table.public:
            return [(None, row) for row in self.rows[name]]
        return [(unit, row) for row in self.rows[name] for unit in self.owners(name, row)]

    def owners(self, name: str, row: Row) -> list[Value]:
        """The units of a private row, each once: its own column's, or every owner of a row that its key names."""
        table = self.table(name)
        if table.unit is not None:
            unit = fit(row[table.unit], table.columns[table.unit])
            return [] if unit is None else [unit]
        assert table.link is not None
        parent = self.table(table.link.table)
        kinds = table.columns[table.link.column], parent.columns[table.link.key]
        wanted = _as(row[table.link.column], kinds[0], common(kinds))
        if wanted is None:
            return []
        found = [
            unit
            for unit, other in self.owned(parent.name)
            if _as(other[table.link.key], kinds[1], common(kinds)) == wanted
        ]
        return list(dict.fromkeys(found))

    def units(self) -> list[Value]:
        """Everybody who owns a row."""
        private = [t.name for t in self.tables if not t.public]
        return list(dict.fromkeys(unit for name in private for unit, _ in self.owned(name)))

    def without(self, unit: Value) -> Database:
        """The neighbour without that unit: of the rows that have an owner, those with another one stay."""
        stay = {
            t.name: tuple(r for r in self.rows[t.name] if t.public or self.owners(t.name, r) != [unit])
            for t in self.tables
        }
        return replace(self, rows=stay)

    def plus(self, more: Mapping[str, Sequence[Row]]) -> Database:
        """The same with more rows."""
        return replace(self, rows={name: (*rows, *more.get(name, ())) for name, rows in self.rows.items()})


class JoinKind(Enum):
    """How two relations are joined."""

    INNER = "JOIN"
    LEFT = "LEFT JOIN"
    RIGHT = "RIGHT JOIN"
    FULL = "FULL JOIN"
    SEMI = "SEMI JOIN"
    ANTI = "ANTI JOIN"


class Relation(ABC):
    """A tree of relational operations. Its columns are named `alias.name`."""

    __slots__ = ()

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, Kind]:
        """Its columns, in order."""

    @property
    @abstractmethod
    def owned(self) -> bool:
        """Whether its rows belong to units."""

    @abstractmethod
    def rows(self, database: Database) -> list[Owned]:
        """Its rows, each with its unit."""


@dataclass(frozen=True, slots=True)
class Base(Relation):
    """A table under an alias; a cell that does not fit its column's kind is NULL."""

    table: Table
    alias: str

    @property
    def columns(self) -> Mapping[str, Kind]:
        return {f"{self.alias}.{name}": kind for name, kind in self.table.columns.items()}

    @property
    def owned(self) -> bool:
        return not self.table.public

    def rows(self, database: Database) -> list[Owned]:
        kinds = self.table.columns
        return [
            (unit, {f"{self.alias}.{name}": fit(row[name], kind) for name, kind in kinds.items()})
            for unit, row in database.owned(self.table.name)
        ]


@dataclass(frozen=True, slots=True)
class Filter(Relation):
    """The rows on which a condition is true."""

    of: Relation
    where: Expression

    @property
    def columns(self) -> Mapping[str, Kind]:
        return self.of.columns

    @property
    def owned(self) -> bool:
        return self.of.owned

    def rows(self, database: Database) -> list[Owned]:
        return [(unit, row) for unit, row in self.of.rows(database) if self.where.at(row) is True]


@dataclass(frozen=True, slots=True)
class Join(Relation):
    """Two relations, joined. Rows of two private ones meet only within one unit.

    Raises:
        InvalidParameter: a join whose rows would belong to nobody: it shows public rows that no private row
            matched, or public ones because private ones did or did not.
    """

    left: Relation
    right: Relation
    how: JoinKind
    on: Expression

    def __post_init__(self) -> None:
        sides = self.left.owned, self.right.owned
        kept = {(True, False): (JoinKind.RIGHT, JoinKind.FULL), (False, True): tuple(JoinKind)}.get(sides, ())
        if self.how in kept and not (sides == (False, True) and self.how in (JoinKind.INNER, JoinKind.RIGHT)):
            raise InvalidParameter(f"{self.how.value} here would keep public rows, which are nobody's.")
        if self.left.columns.keys() & self.right.columns.keys():
            raise InvalidParameter("the two sides of a join need different aliases.")

    @property
    def columns(self) -> Mapping[str, Kind]:
        return {**self.left.columns, **(self.right.columns if self._shows_both else {})}

    @property
    def owned(self) -> bool:
        return self.left.owned or self.right.owned

    @property
    def _shows_both(self) -> bool:
        return self.how not in (JoinKind.SEMI, JoinKind.ANTI)

    def rows(self, database: Database) -> list[Owned]:
        left, right = self.left.rows(database), self.right.rows(database)
        pairs = [(i, j) for i, x in enumerate(left) for j, y in enumerate(right) if self._meet(x, y)]
        lefts, rights = {i for i, _ in pairs}, {j for _, j in pairs}
        if not self._shows_both:
            wanted = self.how is JoinKind.SEMI
            return [x for i, x in enumerate(left) if (i in lefts) is wanted]
        found: list[Owned] = [(_unit(left[i], right[j]), {**left[i][1], **right[j][1]}) for i, j in pairs]
        if self.how in (JoinKind.LEFT, JoinKind.FULL):
            nothing = dict.fromkeys(self.right.columns)
            found += [(u, {**row, **nothing}) for i, (u, row) in enumerate(left) if i not in lefts]
        if self.how in (JoinKind.RIGHT, JoinKind.FULL):
            nothing = dict.fromkeys(self.left.columns)
            found += [(u, {**nothing, **row}) for j, (u, row) in enumerate(right) if j not in rights]
        return found

    def _meet(self, x: Owned, y: Owned) -> bool:
        strangers = self.left.owned and self.right.owned and x[0] != y[0]
        return not strangers and self.on.at({**x[1], **y[1]}) is True


@dataclass(frozen=True, slots=True)
class Project(Relation):
    """SELECT [DISTINCT] … under an alias. DISTINCT looks at each unit's rows by themselves."""

    of: Relation
    alias: str
    outputs: tuple[Output, ...]
    distinct: bool = False

    @property
    def columns(self) -> Mapping[str, Kind]:
        return {f"{self.alias}.{name}": e.kind for name, e in self.outputs}

    @property
    def owned(self) -> bool:
        return self.of.owned

    def rows(self, database: Database) -> list[Owned]:
        found: list[Owned] = [(unit, _shown(self.alias, self.outputs, row)) for unit, row in self.of.rows(database)]
        return _once(found) if self.distinct else found


@dataclass(frozen=True, slots=True)
class Group(Relation):
    """SELECT keys, aggregates … GROUP BY keys [HAVING …] under an alias; within each unit where rows belong to units.

    `having` reads the group's own columns, `alias.name`.
    """

    of: Relation
    alias: str
    keys: tuple[Output, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    having: Expression | None = None

    def __post_init__(self) -> None:
        if not self.keys:
            raise InvalidParameter("keys must not be empty: rows are grouped within a unit.")

    @property
    def columns(self) -> Mapping[str, Kind]:
        kinds = [(n, e.kind) for n, e in self.keys] + [(n, a.kind) for n, a in self.aggregates]
        return {f"{self.alias}.{name}": kind for name, kind in kinds}

    @property
    def owned(self) -> bool:
        return self.of.owned

    def rows(self, database: Database) -> list[Owned]:
        blocks: dict[tuple[Value, ...], list[Row]] = {}
        for unit, row in self.of.rows(database):
            blocks.setdefault((unit, *(e.at(row) for _, e in self.keys)), []).append(row)
        names = list(self.columns)
        found: list[Owned] = [
            (unit, dict(zip(names, [*key, *(a.over(block) for _, a in self.aggregates)], strict=True)))
            for (unit, *key), block in blocks.items()
        ]
        return [(unit, row) for unit, row in found if self.having is None or self.having.at(row) is True]


@dataclass(frozen=True, slots=True)
class Union(Relation):
    """left UNION [ALL] right under an alias, by place; the names are the left's."""

    left: Relation
    right: Relation
    alias: str
    distinct: bool = False

    def __post_init__(self) -> None:
        if list(self.left.columns.values()) != list(self.right.columns.values()):
            raise InvalidParameter("left and right must have columns of the same kinds.")
        if self.left.owned is not self.right.owned:
            raise InvalidParameter("public rows and people's cannot be one relation: the public ones are nobody's.")

    @property
    def columns(self) -> Mapping[str, Kind]:
        return {f"{self.alias}.{n.partition('.')[2]}": kind for n, kind in self.left.columns.items()}

    @property
    def owned(self) -> bool:
        return self.left.owned

    def rows(self, database: Database) -> list[Owned]:
        names = list(self.columns)
        sides = [(r.columns, r.rows(database)) for r in (self.left, self.right)]
        found: list[Owned] = [
            (unit, {name: row[old] for name, old in zip(names, columns, strict=True)})
            for columns, rows in sides
            for unit, row in rows
        ]
        return _once(found) if self.distinct else found


@dataclass(frozen=True, slots=True)
class Windowed(Relation):
    """SELECT outputs, windows … under an alias; a window sees the rows of one unit."""

    of: Relation
    alias: str
    outputs: tuple[Output, ...]
    windows: tuple[tuple[str, Window], ...]

    @property
    def columns(self) -> Mapping[str, Kind]:
        kinds = [(n, e.kind) for n, e in self.outputs] + [(n, w.kind) for n, w in self.windows]
        return {f"{self.alias}.{name}": kind for name, kind in kinds}

    @property
    def owned(self) -> bool:
        return self.of.owned

    def rows(self, database: Database) -> list[Owned]:
        of = self.of.rows(database)
        found = [(unit, _shown(self.alias, self.outputs, row)) for unit, row in of]
        for name, window in self.windows:
            for i, value in enumerate(window.over(of)):
                found[i][1][f"{self.alias}.{name}"] = value
        return list(found)


def unit_rows(relation: Relation, database: Database) -> list[Row]:
    """The rows of an owned relation with their unit in the column `UNIT`, for `reference.bounded_cells`."""
    if not relation.owned:
        raise InvalidParameter("relation must hold a private table: the rows of public ones are nobody's.")
    return [{**row, UNIT: unit} for unit, row in relation.rows(database)]


def columns(relation: Relation) -> tuple[Column, ...]:
    """The relation's columns, as expressions."""
    return tuple(Column(name, kind) for name, kind in relation.columns.items())


def _as(value: Value, kind: Kind, wanted: Kind) -> Value:
    return fit(fit(value, kind), wanted)


def _unit(x: Owned, y: Owned) -> Value:
    return y[0] if x[0] is None else x[0]


def _shown(alias: str, outputs: tuple[Output, ...], row: Row) -> dict[str, Value]:
    return {f"{alias}.{name}": e.at(row) for name, e in outputs}


def _once(rows: Sequence[tuple[Value, Row]]) -> list[Owned]:
    """Each different row of each unit once."""
    return list({(unit, row_key(row)): (unit, row) for unit, row in rows}.values())
