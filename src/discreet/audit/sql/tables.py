"""Random neighbouring tables: a few people with nasty values, and one person more, or another one in a place."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from discreet.errors import InvalidParameter
from discreet.privacy.unit import Relation

Row: TypeAlias = dict[str, object]
"""One row: a value for each column."""

Tables: TypeAlias = Mapping[str, Sequence[Row]]
"""The tables of one world by their names."""

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


def _one_of(values: Sequence[object], rng: np.random.Generator) -> object:
    return values[int(rng.integers(len(values)))]
