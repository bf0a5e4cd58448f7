"""Data sets for the contract of recipes: of nobody, of one, two and many people, and of people of every extreme."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from discreet.catalog.schema import Range, Values
from discreet.catalog.types import Type
from tests.contracts.recipes_row import RecipeRow

Rows: TypeAlias = tuple[tuple[Any, ...], ...]
"""The rows of one person, without the person's number."""


@dataclass(frozen=True, eq=False)
class World:
    """A data set: the rows of each person, by the person's number, in the order in which the database has them."""

    people: Mapping[int, Rows]
    backwards: bool = False

    def plus(self, rows: Rows) -> World:
        """One more person."""
        return World({**self.people, max(self.people, default=-1) + 1: rows})

    def replaced(self, who: int, rows: Rows) -> World:
        """Another person in this one's place."""
        return World({**self.people, who: rows})

    def without(self, who: int) -> World:
        """One person less."""
        return World({i: rows for i, rows in self.people.items() if i != who})

    def only(self, these: Sequence[int]) -> World:
        """These people alone."""
        return World({i: self.people[i] for i in these})


def usual(row: RecipeRow, people: int, seed: int) -> World:
    """People with one to three rows of values as the owner expects them."""
    rng = Random(seed)

    def cell(name: str) -> Any:
        fact, kind = row.facts.get(name), row.columns[name]
        if isinstance(fact, Values):
            return rng.choice(list(fact.values))
        low, high = (float(fact.low), float(fact.high)) if fact is not None else (0.0, 9.0)
        if kind is Type.REAL:
            return rng.uniform(low, high)
        return rng.randint(int(low), int(high)) if kind is Type.INT else rng.choice(["a", "b"])

    sizes = [1 if row.unit.is_row else 1 + i % 3 for i in range(people)]
    return World({i: tuple(tuple(map(cell, row.columns)) for _ in range(n)) for i, n in enumerate(sizes)})


_EXTREMES: Mapping[Type, Sequence[Any]] = {
    Type.REAL: (None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.7e308, -1.7e308, 1.0, -1e18),
    Type.INT: (None, 0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1),
    Type.TEXT: (None, "", "undeclared", "\x00", "é" * 40),
    Type.BOOL: (None, True, False),
}


def extremes(row: RecipeRow, name: str) -> list[Any]:
    """Every extreme that a cell of a column may hold: no number, far away, undeclared, and the declared ends."""
    fact, found = row.facts.get(name), [*_EXTREMES[row.columns[name]]]
    if isinstance(fact, Values):
        return [*found, *fact.values]
    if isinstance(fact, Range):
        kind = int if row.columns[name] is Type.INT else float
        found += [kind(fact.low), kind(fact.high), kind(fact.high) + 1]
    return found


def extreme(row: RecipeRow, people: int, seed: int = 0) -> list[Rows]:
    """People of whom each cell is an extreme: first every extreme of each column by turns, then at random; most have
    one row, some two, and some have 50.
    """
    rng, cells = Random(seed), [extremes(row, name) for name in row.columns]
    found: list[Rows] = []
    for i in range(people):
        rows = 1 if row.unit.is_row else (1, 2, 50)[i % 3] if i < 60 else rng.choice((1,) * 18 + (2, 50))
        if i < max(map(len, cells)):
            one = tuple(each[i % len(each)] for each in cells)
            found.append((one,) * rows)
        else:
            found.append(tuple(tuple(map(rng.choice, cells)) for _ in range(rows)))
    return found


def furthest(row: RecipeRow) -> list[Rows]:
    """People who add as much as they may: 50 rows in two groups, of which every value is the highest or the lowest."""

    def cell(name: str, group: int, *, high: bool) -> Any:
        fact, kind = row.facts.get(name), row.columns[name]
        if isinstance(fact, Values):
            return fact.values[group % len(fact.values)]
        if kind is Type.INT and fact is None:
            return group
        end = (10**6 if high else -(10**6)) if fact is None else fact.high if high else fact.low
        return int(end) if kind is Type.INT else float(end)

    sizes = range(1 if row.unit.is_row else 50)
    return [
        tuple(tuple(cell(name, first + i % 2, high=high) for name in row.columns) for i in sizes)
        for first in (0, 2)
        for high in (True, False)
    ]


def worlds(row: RecipeRow, lone: int) -> dict[str, World]:
    """Data sets of nobody, of one, two and many people, and of so many people of every extreme."""
    many = usual(row, 30, 1)
    for rows in extreme(row, 10, 2):
        many = many.plus(rows)
    return {
        "nobody": World({}),
        "one": usual(row, 1, 3),
        "two": usual(row, 2, 4),
        "many": many,
        "extremes": World(dict(enumerate(extreme(row, lone)))),
    }
