"""Attacks on everything that one question measures at once: what one unit moves in all of its statements together."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import NOTHING, Cells, Leaves
from discreet.engine.cells import exact_all as exact
from discreet.errors import InvalidParameter, PlanError, UnsupportedQuery
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.noise.entropy import SystemEntropy
from discreet.plan.planner import make_query
from discreet.plan.quantile_tree.shape import TreeRead
from discreet.plan.quantile_tree.tree import ExactLeaves, NoisyTree, families_json, families_of
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.query.dialects.prepared import prepare
from tests.plan.test_chosen_quantiles import losses
from tests.plan.tree_shapes import shape_of

TYPES = {"u": Type.REAL, "x": Type.INT, "v": Type.REAL, "g": Type.TEXT, "h": Type.REAL, "b": Type.BOOL}
FACTS: dict[str, Fact] = {
    "x": Range(-5, 100, integer=True),
    "v": Range(-2, 3),
    "g": Values("p", "", None),
    "h": Values(0.0, 1.0, None),
}
TABLE = TableSchema("t", TYPES, FACTS, PrivacyUnit("u", 3, 3), Relation.REPLACE)
CELLS: dict[str, list[Any]] = {
    "x": [0, 1, -7, 99, (1 << 63) - 1, -1 << 63, None],
    "v": [0.0, -0.0, math.nan, math.inf, -math.inf, 1e308, 5e-324, None],
    "g": ["p", "", "P", "other", None],
    "h": [0.0, -0.0, 1.0, math.nan, 2.5, None],
    "b": [True, False, None],
}
ASKED = [
    "MEDIAN(x) AS a, COUNT(DISTINCT v) AS c, COUNT(*) AS n",
    "MAX(v) AS a, MODE(g) AS m, SUM_WITHIN(v, -1, 2) AS s",
    "QUANTILE_DISC(x, 0.1) AS a, MIN(x) FILTER (WHERE b) AS c, VAR_POP(v) AS w",
    "COUNT(DISTINCT x) AS a, COUNT(DISTINCT g || 'k') AS c, MODE(b) AS m, COUNT_WITHIN(x, 0, 1) AS k",
    "MEDIAN(v) AS a, COUNT(*) AS n",
    "QUANTILE_CONT(v, 0.9) AS a, SUM(x) / COUNT(v) AS r",
    "QUANTILE_DISC(v, 0.01) AS a, MEDIAN(CASE WHEN b THEN v ELSE x / 7 END) AS c",
]


def own_rows(rng: random.Random, unit: float, n: int) -> list[tuple[Any, ...]]:
    """Rows of one unit, which may be spelled 0.0 and −0.0; all alike in a quarter of cases."""
    rows = [tuple(rng.choice(values) for values in CELLS.values()) for _ in range(n)]
    rows = rows[:1] * n if rng.random() < 0.25 else rows
    return [(rng.choice([0.0, -0.0]) if unit == 0 else unit, *row) for row in rows]


def read(plan: Query, rows: list[tuple[Any, ...]]) -> tuple[Cells, list[Leaves]]:
    """All exact integers of the plan on these rows."""
    with open_database() as db:
        db.execute("CREATE TABLE t (u DOUBLE, x BIGINT, v DOUBLE, g VARCHAR, h DOUBLE, b BOOLEAN)")
        if rows:
            db.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
        return exact(plan, lambda q: db.execute(q, {"secret": 77} if plan.is_keyed(q) else {}).fetchall())


def moved(plan: Query, one: tuple[Cells, list[Leaves]], two: tuple[Cells, list[Leaves]]) -> list[list[int]]:
    """For each noisy column and each level of each shape: by how much its numbers differ, where they do."""
    (cells, leaves), (other_cells, other_leaves) = one, two
    groups = set(cells) | set(other_cells)
    zeros = [0] * (len(plan.allocation.noises) + 1)
    found = [
        [abs(cells.get(k, zeros)[i] - other_cells.get(k, zeros)[i]) for k in groups]
        for i in range(len(plan.allocation.noises))
    ]
    for tree_read, mine, theirs in zip(plan.question.trees, leaves, other_leaves, strict=True):
        for level in range(tree_read.shape.depth):
            size = tree_read.shape.fanout ** (tree_read.shape.depth - level - 1)
            nodes: Counter[tuple[Any, int]] = Counter()
            for sign, trees in ((1, mine), (-1, theirs)):
                for k in set(mine) | set(theirs):
                    e = trees.get(k, NOTHING)
                    for i, leaf in enumerate(e.leaves):
                        nodes[k, leaf // size] += sign * (e.before[i + 1] - e.before[i])
            found.append([abs(n) for n in nodes.values()])
    return found


def range_moved(law: ExponentialQuantile, cells: int, mine: Leaves, theirs: Leaves) -> Fraction:
    """In how wide intervals the losses of all leaves move, added up over groups."""
    found = Fraction(0)
    for key in {**mine, **theirs}:
        one, two = mine.get(key, NOTHING), theirs.get(key, NOTHING)
        held = {h + d for h in (*one.leaves, *two.leaves) for d in (0, 1)}
        at = sorted(c for c in {0, 1, cells - 1, *held} if c < cells)
        before, after = (losses(e.leaves, e.before, cells, law.p, at) for e in (one, two))
        changes = [b - a for a, b in zip(before, after, strict=True)]
        found += max(changes) - min(changes)
    return found


@pytest.mark.thinned(3)
@pytest.mark.parametrize("by", ["", "g", "h", "g, b", "x % 2"])
@pytest.mark.parametrize("relation", list(Relation))
def test_one_unit_moves_all_statements_of_a_question_together_by_no_more_than_is_charged(
    by: str, relation: Relation
) -> None:
    rng, seen = random.Random(f"{by} {relation}"), Counter[str]()
    for asked in ASKED:
        unit = PrivacyUnit("u", max_groups=rng.choice([1, 2]), max_rows=rng.choice([1, 2, 7]))
        table = TableSchema("t", TYPES, FACTS, unit, relation)
        sql = f"SELECT {by + ', ' if by else ''}{asked} FROM t {'GROUP BY ' + by if by else ''}"
        delta = "1e-6" if by == "g, b" else 0  # whose groups are private
        plan = make_query(sql, [table], population="p", version=None, epsilon=1, delta=delta)
        others = [r for u in (1.0, 2.0, math.nan) for r in own_rows(rng, u, rng.choice([0, 3]))]
        first = [*others, *own_rows(rng, 0.0, rng.choice([1, 8, 40]))]
        second = [*others, *(own_rows(rng, 0.0, 9) if relation is Relation.REPLACE else [])]
        one, two = read(plan, first), read(plan, second)
        columns = moved(plan, one, two)
        paid = Fraction(0)
        own = len(plan.allocation.noises)
        for noise, column in zip(plan.allocation.noises, columns[:own], strict=True):
            assert isinstance(noise, DiscreteLaplaceNoise)
            paid += sum(column) / noise.scale
        levels = iter(columns[own:])
        for place, (law, tree_read) in enumerate(zip(plan.allocation.trees, plan.question.trees, strict=True)):
            nodes = [next(levels) for _ in range(tree_read.shape.depth)]
            if isinstance(law, ExponentialQuantile):
                seen["chosen"] += 1
                # all parts of a histogram move by no more than all leaves do
                paid += sum(nodes[-1]) / law.near.scale + sum(nodes[-1]) / law.counted.scale
                paid += law.rate * range_moved(law, tree_read.shape.leaves, one[1][place], two[1][place])
                continue
            assert isinstance(law, DiscreteLaplaceNoise)
            paid += sum(map(sum, nodes)) / law.scale
        threshold = plan.allocation.threshold
        assert paid <= 1 - (threshold.epsilon if threshold else 0)
    assert seen["chosen"] >= 3


@pytest.mark.parametrize("leaves", [1, 2, 17, 1000])
def test_no_node_is_drawn_twice_and_what_was_stored_gives_the_same_answers(leaves: int) -> None:
    fanout = {1: 1, 2: 2, 17: 17, 1000: 10}[leaves]
    shape = shape_of(leaves, fanout, 3 if leaves == 1000 else 1)
    noise, exact_leaves = DiscreteLaplaceNoise(Fraction(10)), ExactLeaves.of({0: 5, leaves - 1: 30})
    drawn: Counter[tuple[int, int]] = Counter()

    def draw(level: int, place: int) -> tuple[int, ...]:
        drawn[level, place] += 1
        return tuple(noise.add(exact_leaves.sums(shape, level, place), SystemEntropy()))

    tree, shares = NoisyTree(shape, noise, {}, is_row=True, draw=draw), (Fraction(0), Fraction(1, 3))
    tree.look(TreeRead(shape, shares))
    stored = NoisyTree(shape, noise, families_of(families_json(tree.families)), is_row=True)
    for p in shares:
        for level in (Fraction(1, 2), Fraction(19, 20), Fraction(9999, 10_000)):
            low, high = stored.interval(p, level)
            assert 0 <= low <= stored.quantile(p, Type.REAL) <= high <= leaves - 1  # type: ignore[operator]
        assert stored.quantile(p, Type.INT) == tree.quantile(p, Type.INT)
    assert max(drawn.values()) == 1
    assert stored.families == tree.families


def in_clause(options: str) -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) COUNT(*) AS n FROM t"


@pytest.mark.parametrize("value", ["1 000", "1 1", "1 .5"])
@pytest.mark.parametrize("name", ["epsilon", "delta", "max_groups_contributed"])
def test_two_numbers_in_an_option_are_not_read_as_one(name: str, value: str) -> None:
    with pytest.raises(UnsupportedQuery, match=rf"^{name} has more than one value"):
        prepare(in_clause(f"{name} = {value}"), "bigquery", [TABLE])


def test_two_numbers_in_a_bound_are_not_read_as_one() -> None:
    asked = "SELECT SUM(x, contribution_bounds_per_group => (0, 1 0)) AS s FROM t"
    with pytest.raises(PlanError):
        make_query(prepare(asked, "duckdb", [TABLE]).text, [TABLE], population="p", version=None, epsilon=1)


def test_a_superscript_is_no_number_of_groups() -> None:
    with pytest.raises(InvalidParameter, match=r"^max_groups_contributed must be a whole number"):
        prepare(in_clause("max_groups_contributed = ²"), "bigquery", [TABLE])


def test_a_cap_in_the_question_is_not_ignored_when_caps_are_chosen_from_the_data() -> None:
    frame = pd.DataFrame({"u": [1, 1, 2], "g": ["p", "q", "p"]})
    unit = dp.PrivacyUnit("u", max_groups=2, max_rows=2)
    with dp.connect(frame, unit=unit, budget=dp.Budget(epsilon=5), population="p", ledger=":memory:") as session:
        asked = in_clause("epsilon = 1, max_groups_contributed = 1").replace("FROM t", "FROM data")
        with pytest.raises(InvalidParameter, match="say one of the two"):
            session.sql(asked, bounds="auto")
        assert not [e for e in session.history() if e.kind == "charge"]
