"""Every table of one person in a small world, through the engine's own SQL: what all noisy totals together lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import pytest

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import Cells, level_sums
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.plan.cases import Engine
from tests.reference.expression import Row
from tests.reference.values import Kind

ENGINE = Engine.open()
SCHEMA = {"uid": Kind.INT, "region": Kind.TEXT, "x": Kind.INT, "v": Kind.REAL}
FACTS: Mapping[str, Fact] = {"region": Values(*"abcdef"), "x": Values(*range(1, 13)), "v": Range(-2, 3)}
PLACES = (("a", 1), ("a", 2), ("b", 1), ("f", 12))
ROWS: list[Row] = [{"uid": 1, "region": r, "x": x, "v": v} for (r, x), v in product(PLACES, (9.0, -9.0))]


def planned(group: str, relation: Relation = Relation.ADD_REMOVE, noise: str = "laplace") -> Query:
    unit = PrivacyUnit("uid", max_groups=2, max_rows=1)
    table = TableSchema("t", {n: Type(k.value) for n, k in SCHEMA.items()}, FACTS, unit, relation)
    sql = f"SELECT region, x, COUNT(*), SUM(v) FROM t GROUP BY {group}"
    delta = 0 if noise == "laplace" else Fraction(1, 10**6)
    return make_query(sql, [table], population="p", version=None, epsilon=1, delta=delta, noise=noise)


WAYS: Mapping[str, str] = {"rollup": "ROLLUP (region, x)", "cube": "CUBE (region, x)"}


@cache
def exact(sql: str) -> list[Cells]:
    """The bounded cells of every table of at most two rows, and of some with more than the caps allow."""
    plan = next(p for p in map(planned, WAYS.values()) if p.sql == sql)
    tables: list[Sequence[Row]] = [t for n in range(3) for t in combinations_with_replacement(ROWS, n)]
    tables += [ROWS[:4], ROWS[2:], ROWS[::2]]
    return [{k: list(c) for k, c in ENGINE.cells(plan, rows, SCHEMA).items()} for rows in tables]


def answers(plan: Query) -> list[list[list[list[int]]]]:
    """For each table the totals of each measured level, of each column."""
    found = []
    for cells in exact(plan.sql):
        tables = [cells, *(level_sums(level.kept, cells) for level in plan.allocation.levels)]
        found.append([[[row[i] for row in t.values()] for i in range(2)] for t in tables])
    return found


def lost(one: list[list[list[int]]], other: list[list[list[int]]], noises: list[tuple[Additive, ...]]) -> Fraction:
    """Σ ‖move‖₁ / scale, or Σ ‖move‖² / σ², over all levels and columns."""
    total = Fraction(0)
    for mine, theirs, laws in zip(one, other, noises, strict=True):
        for x, y, z in zip(mine, theirs, laws, strict=True):
            moved = [abs(a - b) for a, b in zip(x, y, strict=True) if a != b]
            if isinstance(z, DiscreteLaplaceNoise):
                total += sum(moved) / z.scale
            elif isinstance(z, RoundedGaussianNoise):
                total += sum(d * d for d in moved) / z.sigma**2
    return total


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("way", WAYS)
def test_no_two_neighbours_lose_more_than_all_levels_were_planned_for(way: str, noise: str, relation: Relation) -> None:
    """Nor much less: some lose all of it, but where the worst of levels and columns are not the same neighbours (under
    replacement, and with Gaussian noise in a CUBE). With half the noise on totals, the broken twin, they lose more.
    """
    plan = planned(WAYS[way], relation, noise)
    assert plan.allocation.levels
    tables = answers(plan)
    empty = tables[0]
    pairs = [(t, empty) for t in tables] if relation is Relation.ADD_REMOVE else list(product(tables, tables))
    noises = [plan.allocation.noises, *(level.noises for level in plan.allocation.levels)]
    worst = max(lost(a, b, noises) for a, b in pairs)
    promised = (
        Fraction(1)
        if noise == "laplace"
        else sum((n * (e.mu_squared or 0) for e, n in plan.allocation.events), Fraction(0))
    )
    assert worst <= promised
    joint = relation is Relation.ADD_REMOVE and (noise == "laplace" or way == "rollup")
    assert worst > promised * Fraction(999 if joint else 500, 1000)
    half = [noises[0], *(tuple(halved(z) for z in laws) for laws in noises[1:])]
    assert max(lost(a, b, half) for a, b in pairs) > promised


def halved(noise: Additive) -> Additive:
    if isinstance(noise, DiscreteLaplaceNoise):
        return replace(noise, scale=noise.scale / 2)
    assert isinstance(noise, RoundedGaussianNoise)
    return replace(noise, sigma=noise.sigma / 2)
