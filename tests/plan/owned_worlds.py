"""Small worlds of several tables, and what a unit owns in them: docs/proofs/ownership.md in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from discreet.backends.connection import open_database
from discreet.verify.owned import PublicTable

Row: TypeAlias = tuple[Any, ...]
World: TypeAlias = dict[str, list[Row]]

TABLES: Mapping[str, PublicTable] = {
    "people": PublicTable({"pid": "BIGINT", "city": "VARCHAR", "age": "BIGINT", "w": "DOUBLE"}, unit="pid"),
    "orders": PublicTable({"pid": "BIGINT", "oid": "BIGINT", "day": "BIGINT", "total": "DOUBLE"}, unit="pid"),
    "items": PublicTable(
        {"oid": "BIGINT", "iid": "BIGINT", "sku": "VARCHAR", "price": "DOUBLE", "n": "BIGINT", "blob": None},
        key=("oid", "orders", "oid"),
    ),
    "parts": PublicTable({"iid": "BIGINT", "k": "BIGINT"}, key=("iid", "items", "iid")),
    "zones": PublicTable({"city": "VARCHAR", "zone": "VARCHAR", "rate": "DOUBLE", "size": "BIGINT"}, public=True),
}
UNITS = (1, 2, 3)
_REALS = (0.0, -0.0, 0.1, 0.2, 0.3, 1e16, -1e16, 1.0, float("nan"), float("inf"), None)


def random_world(rng: random.Random, size: int = 6) -> World:
    """Tables with dirty data: rows of nobody, keys that lead nowhere or to several people, equal rows, −0.0, NaN."""

    def some(n: int) -> range:
        return range(rng.randrange(n // 2, n + 1))

    def real() -> float | None:
        return _REALS[rng.randrange(len(_REALS))]

    def key(most: int) -> int | None:
        found = rng.randrange(-1, most)
        return None if found < 0 else found

    def unit() -> int | None:
        return None if rng.randrange(7) == 0 else rng.choice(UNITS)

    cities = ("a", "b", "c", None)
    return {
        "people": [(unit(), rng.choice(cities), rng.randrange(3), real()) for _ in some(size)],
        "orders": [(unit(), key(4), rng.randrange(3), real()) for _ in some(size * 2)],
        "items": [(key(5), key(4), rng.choice("xy"), real(), rng.randrange(3), None) for _ in some(size * 2)],
        "parts": [(key(5), rng.randrange(3)) for _ in some(size)],
        "zones": [(rng.choice(cities), rng.choice("pq"), real(), rng.randrange(3)) for _ in some(size)],
    }


def owners(world: World, name: str, row: Row) -> set[int]:
    """The units that own a row of a private table."""
    table = TABLES[name]
    columns = list(table.columns)
    if table.unit is not None:
        unit = row[columns.index(table.unit)]
        return set() if unit is None else {unit}
    assert table.key is not None
    column, other, key = table.key
    value, place = row[columns.index(column)], list(TABLES[other].columns).index(key)
    same = (r for r in world[other] if value is not None and r[place] == value)
    return set().union(*(owners(world, other, r) for r in same))


def only(world: World, unit: int) -> World:
    """What one unit owns, and the public tables."""
    return {n: [r for r in rows if TABLES[n].public or unit in owners(world, n, r)] for n, rows in world.items()}


def without(world: World, unit: int) -> World:
    """The neighbour: the rows that lead to that unit alone are gone."""
    return {n: [r for r in rows if TABLES[n].public or owners(world, n, r) != {unit}] for n, rows in world.items()}


class Engine:
    """A DuckDB that holds one world, set up as the backend sets it up."""

    def __init__(self, threads: int = 1) -> None:
        self.connection = open_database()
        self.connection.execute("SET GLOBAL preserve_insertion_order = false")
        self.connection.execute("SET GLOBAL disabled_optimizers = 'common_subexpressions,projection_pullup'")
        self.connection.execute(f"SET threads = {threads}")
        for name, table in TABLES.items():
            columns = ", ".join(f'"{c}" {kind or "VARCHAR"}' for c, kind in table.columns.items())
            self.connection.execute(f'CREATE TABLE "{name}" ({columns})')

    def fill(self, world: World) -> None:
        """Replaces all rows."""
        for name, rows in world.items():
            self.connection.execute(f'DELETE FROM "{name}"')
            if rows:
                values = ", ".join(f"({', '.join(map(_constant, row))})" for row in rows)
                self.connection.execute(f'INSERT INTO "{name}" VALUES {values}')

    def by_unit(self, nested: str) -> dict[Any, Counter[Row]]:
        """Unit → its rows, as a multiset; texts of cells, which tell −0.0 from 0.0 and every float from the next."""
        found: dict[Any, Counter[Row]] = {}
        for u, *cells in self.connection.execute(f"SELECT s.* FROM ({nested}) s").fetchall():
            found.setdefault(u, Counter())[tuple(map(repr, cells))] += 1
        return found


def shuffled(world: World, rng: random.Random) -> World:
    """The same rows in another order."""
    return {n: rng.sample(rows, len(rows)) for n, rows in world.items()}


def breaches(
    texts: Collection[str], worlds: Iterable[World], engines: Sequence[Engine], rng: random.Random
) -> dict[str, str]:
    """The queries that break the definition on one of these worlds, and how."""
    found: dict[str, str] = {}
    for world in worlds:
        for engine in engines:
            engine.fill(shuffled(world, rng))
            whole = {t: engine.by_unit(t) for t in texts}
            for unit in UNITS:
                engine.fill(shuffled(only(world, unit), rng))
                for t in texts:
                    if engine.by_unit(t).get(unit, Counter()) != whole[t].get(unit, Counter()):
                        found[t] = f"the rows of {unit} are others when nobody else is there"
                engine.fill(shuffled(without(world, unit), rng))
                for t in texts:
                    rest = {u: rows for u, rows in whole[t].items() if u not in (unit, None)}
                    if {u: rows for u, rows in engine.by_unit(t).items() if u is not None} != rest:
                        found[t] = f"the rows of others are not what they were when {unit} is gone"
    return found


def _constant(value: object) -> str:
    if value is None:
        return "NULL"
    return f"CAST('{value}' AS DOUBLE)" if isinstance(value, float) else repr(value)
