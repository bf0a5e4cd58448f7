"""Every shape in which a question reads several tables, small worlds for them, and a slip that each has to catch.

People have orders, orders have items, items have parts; zones are public. The same questions are enumerated
(`test_shapes_enumerated.py`) and audited on what is released (`tests/contracts/audits.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from discreet.catalog.schema import Fact, Range, Reached, TableSchema, Values
from discreet.catalog.types import Type
from discreet.privacy.unit import PrivacyUnit, Relation

Row: TypeAlias = tuple[Any, ...]
World: TypeAlias = Mapping[str, tuple[Row, ...]]
"""The rows of each table."""

COLUMNS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "people": {"uid": "BIGINT", "city": "VARCHAR", "age": "BIGINT"},
        "orders": {"uid": "BIGINT", "oid": "BIGINT", "amount": "BIGINT"},
        "items": {"oid": "BIGINT", "iid": "BIGINT", "price": "BIGINT"},
        "parts": {"iid": "BIGINT", "grams": "BIGINT"},
        "zones": {"city": "VARCHAR", "zone": "VARCHAR", "rate": "BIGINT"},
    }
)
KEYS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {"items": ("oid", "orders", "oid"), "parts": ("iid", "items", "iid")}
)
PUBLIC = ("zones",)
FACTS: Mapping[str, Fact] = MappingProxyType(
    {
        "people.age": Range(-3, 5, integer=True),
        "orders.amount": Range(-3, 5, integer=True),
        "items.price": Range(-3, 5, integer=True),
        "parts.grams": Range(-3, 5, integer=True),
        "zones.rate": Range(0, 2, integer=True),
        "zones.zone": Values("n", "s"),
    }
)
MAX_ROWS = 2
"""How many rows of a unit count, in the one group that it may enter."""

ZONES: tuple[Row, ...] = (*(("a", "n", 2), ("a", "s", 2), ("a", "n", 1)) * 2, *(("b", "s", 2), (None, "s", 1)))


def unit(max_groups: int = 1, max_rows: int = MAX_ROWS) -> PrivacyUnit:
    """A person, as their owner says it to `connect`."""
    ways = {t: f"{column} -> {other}.{key}" for t, (column, other, key) in KEYS.items()}
    return PrivacyUnit("uid", max_groups, max_rows, tables=ways)


def schemas(relation: Relation, max_groups: int = 1) -> list[TableSchema]:
    """The tables as a question sees them."""
    found = []
    for name, columns in COLUMNS.items():
        types = {n: Type(k) for n, k in columns.items()}
        facts = {n: f for t in columns for n, f in [(t, FACTS.get(f"{name}.{t}"))] if f is not None}
        reached = Reached(*KEYS[name]) if name in KEYS else None
        own = PrivacyUnit("uid", max_groups, MAX_ROWS)
        found.append(TableSchema(name, types, facts, own, relation, reached, public=name in PUBLIC))
    return found


Slip: TypeAlias = Callable[[str], str]
"""What somebody has got wrong in the SQL that a question becomes."""


def across_people(sql: str) -> str:
    """A join that forgets whose the rows are."""
    return re.sub(r"l\.u = r\.u", "TRUE", sql, count=1)


def without_caps(sql: str) -> str:
    """All rows of everybody are counted."""
    return re.sub(r"least\(n, \d+\)", "n", sql)


def capped_too_early(sql: str) -> str:
    """The caps are applied to the table of orders, and then a join multiplies what is left."""
    early = f'(SELECT * FROM main."orders" QUALIFY row_number() OVER (PARTITION BY "uid") <= {MAX_ROWS})'
    return without_caps(sql).replace('main."orders"', early)


def of_the_first_owner(sql: str) -> str:
    """A row that several people own belongs to one of them, and to the next one when that one goes."""
    return re.sub(
        r"SELECT DISTINCT u, (c\d+) FROM (\(SELECT t\.[^()]*\)) k", r"SELECT min(u) AS u, \1 FROM \2 k GROUP BY \1", sql
    )


def public_rows_that_match(sql: str) -> str:
    """The public rows are counted that some person matches, as if each were a person."""
    found = re.search(r"FROM (\(SELECT l\.u AS u(.*?) FROM (.*) l SEMI JOIN (.*) r ON (.*?)\)) s ", sql)
    assert found is not None
    _, _, mine, other, on = found.groups()
    swapped = f"(SELECT row_number() OVER () AS u FROM {other} r SEMI JOIN {mine} l ON {on})"
    return sql.replace(found.group(1), swapped)


def all_in_one_window(sql: str) -> str:
    """Rows are numbered among everybody's."""
    return re.sub(r"PARTITION BY r\.u(, r\.c\d+)?", "PARTITION BY 1", sql)


def trusted_to_be_single(sql: str) -> str:
    """A subquery is taken to give one row for each person, which needs no cap, and gives one for each row."""
    return without_caps(re.sub(r"GROUP BY r\.u, r\.c\d+", "GROUP BY r.u, r.c0, gen_random_uuid()", sql))


@dataclass(frozen=True, slots=True)
class Pair:
    """Neighbours: what is there anyway, and the rows of one unit more."""

    rest: World
    mine: World

    @property
    def first(self) -> World:
        """The world without the unit."""
        return {**dict.fromkeys(COLUMNS, ()), "zones": ZONES, **self.rest}

    @property
    def second(self) -> World:
        """The world with it."""
        return {t: (*rows, *self.mine.get(t, ())) for t, rows in self.first.items()}


_OTHERS = (*range(2, 8),)
NO_ORDERS = Pair(
    {"people": tuple((u, "a", 5) for u in _OTHERS for _ in range(2))},
    {"people": ((1, "a", 5),) * 2, "orders": ((1, 1, 5),) * 2},
)
NO_PEOPLE = Pair(
    {"orders": tuple((u, 1, 5) for u in _OTHERS for _ in range(2))},
    {"people": ((1, "a", 5),) * 2, "orders": ((1, 1, 5),) * 2},
)
OLDER_ORDERS = Pair(
    {"orders": tuple((u, 0, 5) for u in _OTHERS for _ in range(2))}, {"orders": ((1, 1, 5), (1, 1, 5), (1, 2, 5))}
)
NO_AMOUNTS = Pair({"orders": tuple((u, 0, 0) for u in _OTHERS for _ in range(2))}, {"orders": ((1, 1, 5),) * 2})
SHARED_KEYS = Pair(
    {"orders": tuple((u, u - 1, 5) for u in _OTHERS), "items": tuple((u - 1, u, 5) for u in _OTHERS for _ in range(2))},
    {"orders": tuple((1, u - 1, 5) for u in _OTHERS)},
)
SHARED_ITEMS = Pair({**SHARED_KEYS.rest, "items": tuple((u - 1, u, 5) for u in _OTHERS)}, SHARED_KEYS.mine)
MANY = Pair(
    {},
    {
        "people": ((1, "a", 5),) * 3,
        "orders": tuple((1, i, 5 + i) for i in range(9)),
        "items": tuple((1, i, 5) for i in range(9)),
        "parts": ((1, 5),) * 9,
    },
)
IN_A_CROWD = Pair(
    {"people": tuple((u, "a", 5) for u in range(2, 62)), "orders": tuple((u, 1, 5) for u in range(2, 62))},
    {"people": MANY.mine["people"], "orders": MANY.mine["orders"]},
)
ELSEWHERE = Pair({}, {"people": ((1, "z", 5),) * 9})
ONE_PERSON = Pair({}, {"people": ((1, "a", 5),)})


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of a question.

    Attributes:
        sql: the question.
        reads: the tables that it reads.
        slip: what a broken twin gets wrong.
        pair: neighbours on which that shows.
        tight: whether some neighbours of a small world move every integer as far as is planned for.
    """

    sql: str
    reads: tuple[str, ...]
    slip: Slip
    pair: Pair
    tight: bool = True


_PO, _OI, _PZ, _OIP = (("people", "orders"), ("orders", "items"), ("people", "zones"), ("orders", "items", "parts"))
_BOTH = "FROM people p {} JOIN orders o ON p.uid = o.uid"
SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "inner join on the unit": Shape(
            f"SELECT COUNT(*), SUM(amount) {_BOTH.format('')}", _PO, across_people, NO_ORDERS
        ),
        "inner join, USING": Shape(
            "SELECT COUNT(*), SUM(age) FROM people JOIN orders USING (uid)", _PO, across_people, NO_ORDERS
        ),
        "inner join with more conditions": Shape(
            f"SELECT COUNT(*), SUM(amount) {_BOTH.format('')} AND o.amount <= p.age", _PO, across_people, NO_ORDERS
        ),
        "left join": Shape(
            f"SELECT COUNT(*), COUNT(amount), SUM(amount) {_BOTH.format('LEFT')}", _PO, across_people, NO_ORDERS
        ),
        "right join": Shape(
            f"SELECT COUNT(*), COUNT(age), SUM(age) {_BOTH.format('RIGHT')}", _PO, across_people, NO_PEOPLE
        ),
        "full join": Shape(
            f"SELECT COUNT(*), COUNT(age), SUM(amount) {_BOTH.format('FULL')}", _PO, across_people, NO_ORDERS
        ),
        "semi join": Shape(f"SELECT COUNT(*), SUM(age) {_BOTH.format('SEMI')}", _PO, across_people, NO_ORDERS),
        "anti join": Shape(f"SELECT COUNT(*), SUM(age) {_BOTH.format('ANTI')}", _PO, across_people, NO_ORDERS),
        "EXISTS": Shape(
            "SELECT COUNT(*), SUM(age) FROM people p WHERE EXISTS "
            "(SELECT 1 FROM orders o WHERE o.uid = p.uid AND o.amount > 0)",
            _PO,
            across_people,
            NO_ORDERS,
        ),
        "NOT EXISTS": Shape(
            "SELECT COUNT(*), SUM(age) FROM people p WHERE NOT EXISTS "
            "(SELECT 1 FROM orders o WHERE o.uid = p.uid AND o.amount > 0)",
            _PO,
            across_people,
            NO_ORDERS,
        ),
        "IN": Shape(
            "SELECT COUNT(*), SUM(age) FROM people WHERE uid IN (SELECT uid FROM orders)", _PO, across_people, NO_ORDERS
        ),
        "self-join": Shape(
            "SELECT COUNT(*), SUM(a.amount) FROM orders a JOIN orders b ON a.uid = b.uid AND a.oid < b.oid",
            ("orders",),
            across_people,
            OLDER_ORDERS,
        ),
        "one step along a foreign key": Shape(
            "SELECT COUNT(*), SUM(price) FROM items", _OI, of_the_first_owner, SHARED_KEYS
        ),
        "one step, caps before the join": Shape(
            "SELECT COUNT(*), SUM(price) FROM items WHERE price IS NOT NULL", _OI, capped_too_early, MANY
        ),
        "join along a foreign key": Shape(
            "SELECT COUNT(*), SUM(price) FROM orders o JOIN items i ON i.oid = o.oid", _OI, across_people, SHARED_ITEMS
        ),
        "left join along a foreign key": Shape(
            "SELECT COUNT(*), COUNT(price) FROM orders o LEFT JOIN items i ON i.oid = o.oid",
            _OI,
            capped_too_early,
            MANY,
        ),
        "two steps along foreign keys": Shape("SELECT COUNT(*), SUM(grams) FROM parts", _OIP, without_caps, MANY),
        "join two steps away": Shape(
            "SELECT COUNT(*), SUM(grams) FROM orders o JOIN items i ON i.oid = o.oid JOIN parts t ON t.iid = i.iid",
            _OIP,
            capped_too_early,
            MANY,
        ),
        "private and public": Shape(
            "SELECT COUNT(*), SUM(rate) FROM people p JOIN zones z ON p.city = z.city", _PZ, without_caps, MANY
        ),
        "private and public on anything": Shape(
            "SELECT COUNT(*), SUM(rate) FROM people p JOIN zones z ON p.age >= z.rate", _PZ, without_caps, MANY
        ),
        "left join to public": Shape(
            "SELECT COUNT(*), SUM(rate) FROM people p LEFT JOIN zones z ON p.city = z.city", _PZ, without_caps, MANY
        ),
        "semi join to public": Shape(
            "SELECT COUNT(*) FROM people p SEMI JOIN zones z ON p.city = z.city",
            _PZ,
            public_rows_that_match,
            ONE_PERSON,
        ),
        "anti join to public": Shape(
            "SELECT COUNT(*), SUM(age) FROM people p ANTI JOIN zones z ON p.city = z.city", _PZ, without_caps, ELSEWHERE
        ),
        "NOT IN public": Shape(
            "SELECT COUNT(*) FROM people WHERE city NOT IN (SELECT city FROM zones WHERE city IS NOT NULL)",
            _PZ,
            without_caps,
            ELSEWHERE,
        ),
        "per-person subquery": Shape(
            "SELECT COUNT(*), SUM(least(n, 3)) FROM (SELECT uid, COUNT(*) AS n FROM orders GROUP BY uid) s",
            ("orders",),
            trusted_to_be_single,
            MANY,
            tight=False,  # one row for each person
        ),
        "subquery by person and another key": Shape(
            "SELECT COUNT(*), SUM(greatest(-3, least(s, 5))) FROM "
            "(SELECT uid, oid, SUM(amount) AS s FROM orders GROUP BY uid, oid HAVING COUNT(*) > 0) s",
            ("orders",),
            without_caps,
            MANY,
        ),
        "DISTINCT inside": Shape(
            "SELECT COUNT(*), SUM(amount) FROM (SELECT DISTINCT uid, amount, oid FROM orders) s",
            ("orders",),
            without_caps,
            MANY,
        ),
        "UNION ALL": Shape(
            "SELECT COUNT(*), SUM(x) FROM "
            "(SELECT uid, age AS x FROM people UNION ALL SELECT uid, amount AS x FROM orders) s",
            _PO,
            without_caps,
            MANY,
        ),
        "UNION": Shape(
            "SELECT COUNT(*), SUM(x) FROM "
            "(SELECT uid, age AS x FROM people UNION SELECT uid, amount AS x FROM orders) s",
            _PO,
            without_caps,
            MANY,
        ),
        "window": Shape(
            "SELECT COUNT(*), SUM(amount) FROM (SELECT uid, amount, "
            "row_number() OVER (PARTITION BY uid ORDER BY oid) AS k FROM orders) s WHERE k <= 9",
            ("orders",),
            without_caps,
            MANY,
        ),
        "window over all rows of each person": Shape(
            "SELECT COUNT(*) FROM (SELECT uid, sum(amount) OVER (PARTITION BY uid) AS t FROM orders) s WHERE t >= 4",
            ("orders",),
            all_in_one_window,
            NO_AMOUNTS,
        ),
        "window over a frame": Shape(
            "SELECT COUNT(*) FROM (SELECT uid, sum(amount) OVER (PARTITION BY uid ORDER BY oid "
            "ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS t FROM orders) s WHERE t >= 4",
            ("orders",),
            all_in_one_window,
            NO_AMOUNTS,
        ),
        "value of a person's rows": Shape(
            "SELECT COUNT(*) FROM orders o WHERE amount < (SELECT MAX(p.amount) FROM orders p WHERE p.uid = o.uid)",
            ("orders",),
            across_people,
            NO_AMOUNTS,
        ),
        "value by what is around": Shape(
            "SELECT COUNT(*) FROM orders o WHERE "
            "(SELECT COUNT(*) FROM orders p WHERE p.uid = o.uid AND p.oid > o.oid) = 0",
            ("orders",),
            across_people,
            OLDER_ORDERS,
        ),
        "public value": Shape(
            "SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(rate) FROM zones)", _PZ, without_caps, MANY
        ),
        "EXISTS under OR": Shape(
            "SELECT COUNT(*), SUM(age) FROM people p WHERE age < -2 OR EXISTS "
            "(SELECT 1 FROM orders o WHERE o.uid = p.uid AND o.amount > 0)",
            _PO,
            across_people,
            NO_ORDERS,
        ),
        "IN inside an aggregate": Shape(
            "SELECT COUNT(*) FILTER (WHERE uid IN (SELECT uid FROM orders)) FROM people", _PO, across_people, NO_ORDERS
        ),
        "INTERSECT ALL": Shape(
            "SELECT COUNT(*), SUM(amount) FROM "
            "(SELECT uid, amount FROM orders INTERSECT ALL SELECT uid, amount FROM orders WHERE oid < 9) s",
            ("orders",),
            without_caps,
            MANY,
        ),
        "EXCEPT": Shape(
            "SELECT COUNT(*) FROM (SELECT uid, oid FROM orders EXCEPT SELECT uid, amount FROM orders) s",
            ("orders",),
            without_caps,
            MANY,
        ),
        "CTE": Shape(
            "WITH big AS (SELECT uid, amount FROM orders WHERE amount <> 0) "
            "SELECT COUNT(*), SUM(amount) FROM big JOIN people USING (uid)",
            _PO,
            across_people,
            NO_PEOPLE,
        ),
        "declared groups of a join": Shape(
            "SELECT zone, COUNT(*), SUM(rate) FROM people p JOIN zones z ON p.city = z.city GROUP BY zone",
            _PZ,
            without_caps,
            MANY,
        ),
        "private groups of a join": Shape(
            f"SELECT city, COUNT(*), SUM(amount) {_BOTH.format('')} GROUP BY city", _PO, without_caps, IN_A_CROWD
        ),
    }
)
"""Every shape, by what it is."""
