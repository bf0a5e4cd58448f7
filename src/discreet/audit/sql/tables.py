"""Random neighbouring tables (a few people with nasty values, and one more, or another one), and queries about them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.privacy.unit import Relation

Row: TypeAlias = dict[str, object]
"""One row: a value for each column."""

Tables: TypeAlias = Mapping[str, Sequence[Row]]
"""The tables of one world by their names."""

_T = TypeVar("_T")

TABLE = "t"
"""The name of the one random table."""

UNIT = "uid"
"""Column with the person's id."""

SCHEMA: Mapping[str, str] = MappingProxyType(
    {UNIT: "BIGINT", "x": "BIGINT", "v": "DOUBLE", "region": "VARCHAR", "level": "BIGINT", "flag": "BOOLEAN"}
)
"""The columns of the random table, with their SQL types."""

_MOST = (1 << 63) - 1
_INTS = (0, 1, -1, 7, 10, 11, -12, 100, 1 << 31, (1 << 53) + 1, _MOST, -_MOST, -_MOST - 1, None)
_REALS = (0.0, -0.0, 0.1, 5e-324, 0.5, 10.0, -3.5, 1e20, 1.7976931348623157e308, -1.7976931348623157e308)
_WILD = (math.nan, math.inf, -math.inf, None)
_TEXTS = ("a", "b", "", " a", "A", "é", "e\u0301", "🎈", "it's", "NULL", "12", "1e999", "a\nb", "\u200b", None)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two worlds that differ in one unit.

    Attributes:
        first: tables without the unit, or with it as it was.
        second: tables with it, or with it as it became.
        words: what differs.
    """

    first: Tables
    second: Tables
    words: str

    def __deepcopy__(self, memo: object) -> Neighbours:
        return self  # nothing writes to it, and copies of large tables would be all that an audit does


@dataclass(frozen=True, slots=True)
class RandomTables:
    """An endless supply of neighbouring tables over `SCHEMA`.

    Attributes:
        unit: the unit's column; None when each row is a unit.
        relation: "add-remove" or "replace".
        people: at most so many units are in both tables.
        rows: a newcomer has at most so many rows.
    """

    unit: str | None = UNIT
    relation: str = Relation.ADD_REMOVE.value
    people: int = 30
    rows: int = 60

    def __post_init__(self) -> None:
        Relation.parse(self.relation)
        if self.unit not in (UNIT, None):
            raise InvalidParameter(f"unit must be {UNIT!r}, the unit of the random tables, or None.")

    def pairs(self, rng: np.random.Generator) -> Iterator[Neighbours]:
        """Neighbours without end: by turns a newcomer with everything, and one with one of the other things.

        The first crowd is tame, so that nothing but the newcomer can make a query fail.
        """
        others = itertools.cycle(_NEWCOMERS[1:])
        for i in itertools.count():
            yield self._pair(next(others) if i % 2 else _NEWCOMERS[0], rng, wild=0.3 if i % 4 else 0.0)

    def _pair(self, newcomer: str, rng: np.random.Generator, *, wild: float) -> Neighbours:
        most = self.rows if self.unit is not None else 1
        crowd = _crowd(int(rng.integers(0, self.people + 1)), rng, wild)
        after = _newcomer(newcomer, most, rng)
        before: list[Row] = []
        words = f"one unit more, {newcomer}: {len(after)} rows"
        if Relation.parse(self.relation) is Relation.REPLACE:
            other = _NEWCOMERS[int(rng.integers(len(_NEWCOMERS)))]
            before = _newcomer(other, most, rng)
            words = f"one unit was {other} ({len(before)} rows) and becomes {newcomer} ({len(after)} rows)"
        place = int(rng.integers(0, len(crowd) + 1))  # where the unit's rows stand must not matter
        first, second = ([*crowd[:place], *own, *crowd[place:]] for own in (before, after))
        return Neighbours({TABLE: first}, {TABLE: second}, words)


_NEWCOMERS = (
    "with everything",
    "at the top of every range in one group",
    "with many rows in one group",
    "with a key that nobody else has",
    "in many groups",
    "far outside every range",
    "with NaN and infinities",
    "with one ordinary row",
    "with NULLs only",
    "with random values",
)

_NEW = 1_000_003  # nobody in the crowd has this id


def _crowd(people: int, rng: np.random.Generator, wild: float) -> list[Row]:
    """Return some people with some rows each, rows without a person among them, and some rows twice."""
    rows: list[Row] = []
    for unit in range(people):
        owner = None if rng.random() < 0.15 else unit
        rows += [_random_row(owner, rng, wild=wild) for _ in range(int(rng.integers(1, 4)))]
    return [*rows, *rows[: int(rng.integers(0, 3))]]


def _newcomer(kind: str, most: int, rng: np.random.Generator) -> list[Row]:
    plain: Row = {UNIT: _NEW, "x": 3, "v": 1.5, "region": "a", "level": 1, "flag": True}
    top = plain | {"x": 10, "v": 10.0}
    few, many = min(3, most), most
    match kind:
        case "with everything":
            far = top | {"x": _MOST - 1, "v": 1e300, "region": "12", "level": int(rng.integers(50, 1 << 40))}
            kinds = [top | {"region": "ab"[i % 2], "level": i % 3 + 1, "flag": i % 5 > 0} for i in range(many)]
            return [*kinds, far, plain | {"v": math.nan}][-many:] if many > 1 else [far]
        case "with one ordinary row":
            return [plain]
        case "at the top of every range in one group":
            return [top] * few
        case "far outside every range":
            sign = int(rng.choice([-1, 1]))
            return [plain | {"x": sign * (_MOST - 1), "v": sign * 1.7976931348623157e308}] * few
        case "with a key that nobody else has":
            return [plain | {"region": f"only {rng.integers(1 << 30)}", "level": int(rng.integers(50, 1 << 40))}]
        case "in many groups":
            return [top | {"region": "ab"[i % 2], "level": i + 1, "flag": i % 3 > 0} for i in range(many)]
        case "with many rows in one group":
            return [top] * many
        case "with NaN and infinities":
            return [plain | {"v": v} for v in _WILD][:most]
        case "with NULLs only":
            return [dict.fromkeys(SCHEMA) | {UNIT: _NEW}] * few
        case _:
            return [_random_row(_NEW, rng, wild=0.6) for _ in range(int(rng.integers(1, few + 1)))]


def _random_row(owner: int | None, rng: np.random.Generator, *, wild: float) -> Row:
    if rng.random() >= wild:
        tame = {"x": int(rng.integers(0, 11)), "v": int(rng.integers(0, 81)) / 8}
        keys = {"region": "ab"[int(rng.integers(2))], "level": int(rng.integers(1, 4))}
        return {UNIT: owner, **tame, **keys, "flag": bool(rng.integers(2))}
    return {
        UNIT: owner,
        "x": _one_of(_INTS, rng),
        "v": _one_of((*_REALS, *_WILD), rng),
        "region": _one_of(_TEXTS, rng),
        "level": _one_of((1, 2, 3, *_INTS), rng),
        "flag": _one_of((True, False, None), rng),
    }


def _one_of(values: Sequence[_T], rng: np.random.Generator) -> _T:
    return values[int(rng.integers(len(values)))]


TRAPS: tuple[str, ...] = tuple(
    text.replace(" t ", f" {TABLE} ").strip()
    for text in (
        "SELECT COUNT(*) FROM t ",
        "SELECT SUM(x) FROM t ",
        "SELECT AVG(v) FROM t ",
        "SELECT COUNT(*) AS n, SUM(v) AS s, AVG(x) AS m FROM t WHERE x >= 0",
        "SELECT region, COUNT(*) AS n FROM t GROUP BY region",
        "SELECT level, COUNT(*) AS n FROM t GROUP BY level",
        "SELECT level, flag, SUM(x) AS s FROM t GROUP BY level, flag ORDER BY s DESC",
        "SELECT region, SUM(v) AS s FROM t GROUP BY region HAVING s > 0 ORDER BY s DESC LIMIT 1",
        "SELECT level, AVG(x) AS m FROM t GROUP BY level HAVING COUNT(*) > 1 ORDER BY m LIMIT 3",
        "SELECT level // 7 AS k, COUNT(*) AS n FROM t GROUP BY k ORDER BY n",
        "SELECT CASE WHEN x > 5 THEN 'high' ELSE region END AS k, COUNT(*) FROM t GROUP BY k",
        "SELECT SUM(CASE WHEN flag THEN x ELSE 0 END) AS s FROM t ",
        "SELECT AVG(CASE WHEN v > 5 THEN 1 ELSE 0 END) AS share FROM t ",
        "SELECT COUNT(*) FROM t WHERE CAST(region AS BIGINT) > 3",
        "SELECT COUNT(*) FROM t WHERE 1 / (x - 3) > 0",
        "SELECT COUNT(*) FROM t WHERE sqrt(v) < 2 OR ln(x) > 1",
        "SELECT COUNT(*) FROM t WHERE x * x * x > 1000",
        "SELECT COUNT(*) FROM t WHERE v <> v OR v IS NULL",
        "SELECT SUM(greatest(0, least(10, v * v))) AS s FROM t ",
        "SELECT COUNT(x), COUNT(v), COUNT(DISTINCT uid) FROM t ",
        "SELECT COUNT(*) FROM t WHERE uid = 1000003",
        "SELECT flag, COUNT(*) AS n FROM t WHERE region LIKE 'o%' GROUP BY flag ORDER BY n DESC, flag",
        "SELECT COUNT(*) / 0 AS q, SUM(x) / COUNT(*) AS m, sqrt(SUM(x)) AS r FROM t ",
        "SELECT MAX(x) FROM t ",
        "SELECT * FROM t ",
    )
)
"""Queries on which engines are known to leak: rows that fail, keys, orders, huge values, refusals."""

_AGGREGATES = (
    "COUNT(*)",
    "COUNT(x)",
    "COUNT(v)",
    "COUNT(DISTINCT uid)",
    "SUM(x)",
    "SUM(v)",
    "AVG(x)",
    "AVG(v)",
    "SUM(CASE WHEN flag THEN x END)",
    "SUM(-x)",
    "SUM(x - 5)",
    "AVG(CASE WHEN region = 'a' THEN v ELSE 0 END)",
    "SUM(least(greatest(coalesce(v, 0), -1), 2))",
    "COUNT(DISTINCT x)",
    "VAR_POP(v)",
    "CORR(x, v)",
    "SUM(x) FILTER (WHERE flag)",
    "COUNT_IF(x > 4)",
)
_KEYS = ("region", "level", "flag", "level % 2", "lower(region)", "x > 4", "CASE WHEN v > 2 THEN 'up' END")
_CONDITIONS = (
    "x > 2",
    "v <= 4.5",
    "region = 'a'",
    "region LIKE '%a%'",
    "flag",
    "level IN (1, 2)",
    "x IS NOT NULL",
    "length(region) > 1",
    "x / level > 1",
    "CAST(v AS BIGINT) = 1",
    "uid > 3",
    "x BETWEEN 0 AND 10",
)

Draws: TypeAlias = Callable[[int], Sequence[object] | NDArray[np.float64]]
"""So many answers, one after the other on axis 0."""


def random_query(rng: np.random.Generator) -> str:
    """One query over the random table: up to three aggregates, two keys and two conditions."""
    keys = _some(_KEYS, 0, 2, rng)
    columns = [f"{a} AS a{i}" for i, a in enumerate(_some(_AGGREGATES, 1, 3, rng))]
    text = f"SELECT {', '.join([*(f'{k} AS k{i}' for i, k in enumerate(keys)), *columns])} FROM {TABLE}"
    if conditions := _some(_CONDITIONS, 0, 2, rng):
        text += f" WHERE {_one_of((' AND ', ' OR '), rng).join(conditions)}"
    if keys:
        text += f" GROUP BY {', '.join(keys)}"
        text += _one_of(("", "", " HAVING a0 > 1", " HAVING COUNT(*) < 4"), rng)
    text += _one_of(("", "", " ORDER BY a0", " ORDER BY a0 DESC"), rng)
    return text + _one_of(("", "", "", " LIMIT 1", " LIMIT 2 OFFSET 1"), rng)


def all_queries(rng: np.random.Generator) -> Iterator[str]:
    """Return queries without end: the traps first, then traps and random ones by turns."""
    return by_turns(TRAPS, random_query, rng)


def by_turns(
    traps: tuple[str, ...], made: Callable[[np.random.Generator], str], rng: np.random.Generator
) -> Iterator[str]:
    """Yield all traps, then without end one that is made and a trap."""
    yield from traps
    while True:
        yield made(rng)
        yield _one_of(traps, rng)


def _some(choices: tuple[str, ...], least: int, most: int, rng: np.random.Generator) -> list[str]:
    n = int(rng.integers(least, most + 1))
    return [choices[int(i)] for i in rng.permutation(len(choices))[:n]]


class Engine(Protocol):
    """Any engine that answers queries about tables.

    `open` is called once for each world, and `ask` very often; each answer must be a new one. An engine that remembers
    its answers, or whose budget runs out, therefore opens itself inside `ask`, and may let `open` return the tables as
    they are. What either raises is an output like any other. A connection with a method `close` is closed.

    >>> class Naive:
    ...     def open(self, tables): return tables["t"]
    ...     def ask(self, connection, query): return len(connection)
    """

    def open(self, tables: Tables) -> Any:
        """Return a connection to these tables: whatever `ask` needs."""

    def ask(self, connection: Any, query: str) -> object:
        """Return a fresh answer, with everything that an analyst would see: values, keys, their order, names, notes."""


@runtime_checkable
class BulkEngine(Protocol):
    """An engine that can draw many answers of two neighbouring worlds quickly, as numbers."""

    def bulk(self, first: Any, second: Any, query: str) -> tuple[Draws, Draws] | None:
        """For each of two connections a function that draws fresh answers; None where there is no short cut.

        The two may share what does not depend on which of them is drawn from, such as the list of columns.
        """
