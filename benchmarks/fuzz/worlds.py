"""Random small databases of dirty rows, what their owner declares, and their neighbours."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Any, TypeAlias

from benchmarks.fuzz.files import canonical
from discreet.catalog.schema import Fact, ListedRows, Range, Reached, TableSchema, Values
from discreet.catalog.types import Type
from discreet.privacy.unit import PrivacyUnit, Relation

Row: TypeAlias = tuple[Any, ...]
World: TypeAlias = dict[str, list[Row]]
"""Table → its rows."""

KINDS = {"i": Type.INT, "r": Type.REAL, "t": Type.TEXT, "b": Type.BOOL, "d": Type.DATE, "s": Type.TIMESTAMP}
"""A letter for each type, as the grammar calls it."""

LETTERS = {kind: letter for letter, kind in KINDS.items()}
CANARY = "c4n4ry"
"""Text that stands only in cells: no message may show it."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns by letter of type, and whose its rows are.

    Attributes:
        columns: name → letter of its type.
        unit: the column of the unit, where the table has one.
        link: (column, table, key) of the foreign key that leads to the unit.
        public: whether it holds no personal data.
        tie: (column, table, key) of a further key along which it may be joined.
    """

    name: str
    columns: Mapping[str, str]
    unit: str | None = None
    link: tuple[str, str, str] | None = None
    public: bool = False
    tie: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """What is public of a world: tables, declarations, caps, the relation, and the kind of its sources.

    Attributes:
        listed: table → the listed combinations of its columns' values that are groups.
        kind: the kind of files or frames (`sources.KINDS`); None for tables of the pinned types, without a view.
    """

    tables: tuple[Table, ...]
    facts: Mapping[str, Mapping[str, Fact]]
    caps: tuple[int, int, int | None]
    relation: Relation
    kind: str | None = None
    listed: Mapping[str, ListedRows] = field(default_factory=dict)

    @property
    def is_row(self) -> bool:
        """Whether each row is a unit."""
        return all(t.unit is None for t in self.tables)

    def _unit(self, column: str) -> PrivacyUnit:
        groups, rows, total = self.caps
        return PrivacyUnit(column, groups, rows, max_contributions=total)

    def schemas(self) -> list[TableSchema]:
        """The tables as the planner sees them."""
        named = next((t.unit for t in self.tables if t.unit is not None), None)
        found = []
        for t in self.tables:
            unit = PrivacyUnit.row() if named is None else self._unit(t.unit or named)
            columns = {n: KINDS[k] for n, k in t.columns.items()}
            link = None if t.link is None or t.unit is not None else Reached(*t.link)
            digest = "ab" * 32 if t.public else None
            facts = self.facts.get(t.name, {})
            ties = () if t.tie is None else (Reached(*t.tie),)
            schema = TableSchema(t.name, columns, facts, unit, self.relation, link, t.public, digest=digest, links=ties)
            once = {"name": 1} if t.public and named is None else {}  # which is not so: the text has to see to it
            found.append(replace(schema, listed=self.listed.get(t.name), alike=once))
        return found


def _table(name: str, columns: str, **owned: Any) -> Table:
    words = columns.split()
    return Table(name, dict(zip(words[::2], words[1::2], strict=True)), **owned)


_CUSTOMERS = "id i person i region t age i born d vip b score r"
_ORDERS = "id i customer_id i amount i day d at s total r status t paid b"
_ITEMS = _table("items", "order_id i product t price r qty i gift b", link=("order_id", "orders", "id"))
_REGIONS = _table("regions", "name t country t factor i rate r since d", public=True)
_SINGLE = "x i y i v r w r region t level i flag b day d at s note t"
LAYOUTS: tuple[tuple[Table, ...], ...] = (
    (
        _table("customers", _CUSTOMERS, unit="person"),
        _table("orders", _ORDERS, link=("customer_id", "customers", "id")),
        _ITEMS,
        _REGIONS,
    ),
    (
        _table("customers", _CUSTOMERS, unit="person"),
        _table("orders", f"{_ORDERS} person i", unit="person", tie=("customer_id", "customers", "id")),
        _ITEMS,
        _REGIONS,
    ),
    (_table("customers", _CUSTOMERS, unit="id"), _table("orders", _ORDERS, unit="customer_id"), _ITEMS, _REGIONS),
    (_table("t", f"uid i {_SINGLE}", unit="uid"),),
    (_table("t", f"uid t {_SINGLE}", unit="uid"), _REGIONS),
    (_table("t", f"uid r {_SINGLE}", unit="uid"),),
    (_table("t", f"uid i {_SINGLE}"),),
    (_table("t", f"uid i {_SINGLE}"), _REGIONS),
)
"""Three ways in which a shop's rows lead to people; one table with a unit of each type; rows that are units, alone and
beside a public table."""

_WEIGHTS = (5, 5, 5, 2, 3, 1, 3, 2)
_RANGES: Mapping[str, tuple[Any, Any, bool]] = {
    "age": (0, 9, True),
    "amount": (-3, 5, True),
    "qty": (0, 4, True),
    "price": (-1, 2, False),
    "total": (0, 8, False),
    "score": (-1.5, 2.25, False),
    "factor": (0, 3, True),
    "x": (-3, 8, True),
    "y": (-5, 5, False),
    "v": (-1.5, 2.25, False),
    "w": (0.1, 0.7, False),
    "born": (dt.date(2023, 1, 1), dt.date(2024, 12, 31), False),
    "day": (dt.date(1969, 12, 31), dt.date(2024, 2, 29), False),
    "at": (dt.datetime(2023, 3, 31, 12), dt.date(2024, 12, 31), False),
}
_VALUES: Mapping[str, tuple[tuple[Any, ...], ...]] = {
    "region": (("a", "b", None), ("a", "é", "e\u0301", "")),
    "product": (("p", "q"),),
    "status": (("new", "paid", None), ("new",)),
    "paid": ((True, False), (True, None)),
    "vip": ((True, False, None),),
    "level": ((1, 2), (1, 2, 3, None), ((1 << 63) - 1, 0)),
    "flag": ((True, False),),
    "country": (("x", "y", None),),
    "born": ((dt.date(2024, 2, 29), dt.date(2023, 1, 31)),),
    "v": ((0.0, 0.5, None),),
}
RELATIONS = tuple(Relation)


def random_shape(rng: Random) -> Shape:
    """A layout, what is declared of its columns, and caps."""
    tables = rng.choices(LAYOUTS, _WEIGHTS)[0]
    facts: dict[str, dict[str, Fact]] = {}
    many = rng.choice((0.3, 0.8, 1.0))
    for t in tables:
        own: dict[str, Fact] = {}
        facts[t.name] = own
        for name in t.columns:
            if name in _VALUES and rng.random() < many * 0.6:
                own[name] = Values(*rng.choice(_VALUES[name]))
            elif name in _RANGES and rng.random() < max(many, 0.8):
                low, high, whole = _RANGES[name]
                own[name] = Range(low, high, integer=whole)
    groups, rows, relation = rng.choice((1, 2, 3, 1, 2, 3, 6)), rng.randint(1, 3), rng.choice(RELATIONS)
    total = rng.choice((None, None, 1, 2, 3, 4, 6))
    return Shape(tables, facts, (groups, rows, total), relation, listed=_listed(rng, tables, facts))


def _listed(rng: Random, tables: tuple[Table, ...], facts: Mapping[str, Mapping[str, Fact]]) -> dict[str, ListedRows]:
    """Combinations of the values of columns with listed ones, for some tables."""
    found = {}
    for t in tables:
        lists = {n: f.values for n, f in facts[t.name].items() if isinstance(f, Values)}
        if t.public or len(lists) < 2 or rng.random() < 0.5:
            continue
        every = list(product(*lists.values()))
        some = rng.sample(every, rng.randint(1, len(every)))
        found[t.name] = ListedRows(tuple(lists), tuple(some), some=True)
    return found


_FEW: Mapping[str, tuple[Any, ...]] = {
    "region": ("a", "b", "é", "e\u0301", "", None, "a", "b"),
    "name": ("a", "b", "é", "", None),
    "country": ("x", "y", None),
    "product": ("p", "q", "r", None),
    "status": ("new", "paid", CANARY, None),
    "level": (1, 2, 3, None, (1 << 63) - 1, 0),
    "person": (1, 2, 3, 1, 2, None),
}
_UNITS: Mapping[str, tuple[Any, ...]] = {
    "i": (1, 2, 3, 1, 2, None),
    "t": ("a", "A", "é", "e\u0301", "", "a ", None),
    "r": (0.0, -0.0, 1.5, 1e300, math.nan, math.inf, None),
}
_INTS = (0, 1, 2, 3, -1, -4, 7, 12, (1 << 31), (1 << 53) + 1, (1 << 63) - 1, -(1 << 63), None)
_REALS = (
    *(0.0, -0.0, 0.5, 1.5, -1.25, 0.1, 0.2, 0.3, 2.5, 7.0, 1e20, -1e20, 1.7e308, -1.7e308, 5e-324),
    *(math.nan, math.inf, -math.inf, None),
)
_TEXTS = (
    *("", "a", "b", "A", " a ", "é", "e\u0301", "🎈", "it's", "2.5", "1e3", "true", "2024-02-29", "nan", "a-b-c"),
    *("a\nb", "%", "_", "\\", "x" * 300, "ſK", "9223372036854775808", CANARY, None),
)
_DATES = (
    *("2024-02-29", "2023-01-31", "1969-12-31", "0001-01-01", "9999-12-31", "2021-01-03", "290000-01-01"),
    *("infinity", "-infinity", "0044-03-15 (BC)", None),
)
_TIMES = (
    *("2024-02-29 13:45:59.123456", "2023-03-31 00:00:00.000001", "1969-12-31 23:59:59.5", "0001-01-01 00:00:00"),
    *("9999-12-31 23:59:59.999999", "infinity", "-infinity", "290000-01-01 00:00:00", "2023-01-31 12:00:00", None),
)
_CELLS = {"i": _INTS, "r": _REALS, "t": _TEXTS, "b": (True, False, None), "d": _DATES, "s": _TIMES}
_TAME: Mapping[str, int] = {"i": 7, "r": 10, "t": 8, "b": 3, "d": 3, "s": 3}


def _cell(rng: Random, table: Table, name: str) -> Any:
    kind = table.columns[name]
    if name == table.unit:
        return rng.choice(_UNITS[kind])
    if name == "id" or name.endswith("_id"):
        return rng.choice((1, 2, 3, 1, 2, 3, 1, 2, 3, 4, (1 << 63) - 1, None))
    if name in _FEW:
        return rng.choice(_FEW[name])
    cells = _CELLS[kind]
    return rng.choice(cells[: _TAME[kind]] if rng.random() < 0.6 else cells)


def random_world(rng: Random, shape: Shape, most: int = 10) -> World:
    """Rows of every table; some of them twice."""
    world: World = {}
    for t in shape.tables:
        n = rng.randint(0, most) if rng.random() < 0.2 else rng.randint(most // 2, most)
        rows = [tuple(_cell(rng, t, name) for name in t.columns) for _ in range(n)]
        rows += [rng.choice(rows) for _ in range(rng.randint(0, 3))] if rows else []
        world[t.name] = rows
    return world


def random_neighbours(rng: Random, shape: Shape) -> tuple[World, World]:
    """Two worlds that a unit tells apart."""
    while True:
        first, second = neighbours(rng, shape, random_world(rng, shape))
        if any(Counter(map(repr, first[name])) != Counter(map(repr, second[name])) for name in first):
            return first, second


def neighbours(rng: Random, shape: Shape, world: World) -> tuple[World, World]:
    """The world and the same without a unit; or, where one is replaced by another, without either of two. The same
    twice where there are too few units.
    """
    units = _units(shape, world)
    if shape.relation is Relation.ADD_REMOVE:
        return world, without(shape, world, _busy(rng, shape, world, units) if units else None)
    found = units if shape.is_row else [*units, None]
    if len(found) < 2:
        return world, world
    one = _busy(rng, shape, world, units)
    other = rng.choice([u for u in found if u != one])
    return without(shape, world, one), without(shape, world, other)


def _busy(rng: Random, shape: Shape, world: World, units: list[Any]) -> Any:
    """A unit: mostly the one with most rows."""
    if shape.is_row or rng.random() < 0.3:
        return rng.choice(units)
    owned = Counter(u for t in shape.tables for row in world[t.name] for u in _owners(shape, world, t, row))
    return max(units, key=lambda u: owned[u])


def without(shape: Shape, world: World, unit: Any) -> World:
    """The rows that are left when a unit goes: rows that lead to it alone go too, public ones stay."""
    if unit is None:
        return world
    if shape.is_row:
        name = shape.tables[0].name
        return {**world, name: [r for i, r in enumerate(world[name]) if i != unit]}
    return {
        t.name: [r for r in world[t.name] if t.public or _owners(shape, world, t, r) != {unit}] for t in shape.tables
    }


def _units(shape: Shape, world: World) -> list[Any]:
    if shape.is_row:
        return list(range(len(world[shape.tables[0].name])))
    found: set[Any] = set()
    for t in shape.tables:
        for row in world[t.name]:
            found |= _owners(shape, world, t, row)
    return sorted(found)


def _owners(shape: Shape, world: World, table: Table, row: Row) -> set[Any]:
    """The units that own a row."""
    places = list(table.columns)
    if table.unit is not None:
        unit = row[places.index(table.unit)]
        if isinstance(unit, float):
            unit = unit + 0.0 if math.isfinite(unit) else None  # −0.0 is 0, and what is no number is nobody
        if isinstance(unit, str) and shape.kind is not None:
            unit = canonical(unit, whole=False)
        return set() if unit is None else {unit}
    if table.link is None:
        return set()
    column, other, key = table.link
    value = row[places.index(column)]
    parent = next(t for t in shape.tables if t.name == other)
    place = list(parent.columns).index(key)
    same = (r for r in world[other] if value is not None and r[place] == value)
    return set().union(*(_owners(shape, world, parent, r) for r in same))
