"""Every table of one row in a small world, through the engine's own SQL: what counts that are read from one
partition lose together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import exact_leaves
from discreet.errors import InternalError
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.planner import make_query
from discreet.plan.quantile_tree.shape import TreeShape
from discreet.plan.quantile_tree.tree import ExactLeaves
from discreet.plan.query import Query, claim_of
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.verify.check import check
from tests.plan.cases import Engine
from tests.reference.expression import Row
from tests.reference.values import Kind

ENGINE = Engine.open()
SCHEMA = {"uid": Kind.INT, "region": Kind.TEXT, "x": Kind.INT}
FACTS: dict[str, Fact] = {"region": Values("a", "b", "c", "d"), "x": Range(0, 40)}
ENDS = (0, 23)
"""The first cell and the last: in no sum together but that of all."""

ROWS: list[Row] = [{"uid": 1, "region": r, "x": x} for r, x in product("abcd", (*ENDS, 12, 99))]
CONDITIONS = [f"x < {i}" for i in range(1, 25)]
UNITS = [PrivacyUnit.row()]
WAYS = {"whole": "", "groups": " GROUP BY region"}


def planned(way: str, unit: PrivacyUnit, relation: Relation, noise: str) -> Query:
    table = TableSchema("t", {n: Type(k.value) for n, k in SCHEMA.items()}, FACTS, unit, relation)
    sql = f"SELECT {', '.join(f'COUNT_IF({c}) AS c{i}' for i, c in enumerate(CONDITIONS))} FROM t{WAYS[way]}"
    delta = 0 if noise == "laplace" else Fraction(1, 10**6)
    return make_query(sql, [table], population="p", version=None, epsilon=1, delta=delta, noise=noise)


@cache
def tables() -> list[Sequence[Row]]:
    """What one unit can have: a row or none."""
    return [[], *([row] for row in ROWS)]


def measured(plan: Query, shape: TreeShape, rows: Sequence[Row]) -> list[dict[object, list[int]]]:
    """For each level its exact sums in each group."""
    ENGINE.fill(rows, SCHEMA)
    leaves = exact_leaves(plan, 0, ENGINE.run)
    groups = plan.question.keys.all() if plan.question.keys.exprs else [()]
    nothing = ExactLeaves.of({})
    return [{key: leaves.get(key, nothing).sums(shape, level, 0) for key in groups} for level in range(shape.depth)]


def lost(one: list[dict[object, list[int]]], other: list[dict[object, list[int]]], noise: Additive) -> Fraction:
    """Σ ‖move‖₁ / scale, or Σ ‖move‖² / σ², over all levels."""
    total = Fraction(0)
    for mine, theirs in zip(one, other, strict=True):
        moved = [abs(a - b) for key in mine for a, b in zip(mine[key], theirs[key], strict=True)]
        if isinstance(noise, DiscreteLaplaceNoise):
            total += sum(moved) / noise.scale
        elif isinstance(noise, RoundedGaussianNoise):
            total += sum(d * d for d in moved) / noise.sigma**2
    return total


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("unit", UNITS, ids=repr)
@pytest.mark.parametrize("way", WAYS)
def test_no_two_neighbours_lose_more_than_was_planned_for_and_some_lose_all(
    way: str, unit: PrivacyUnit, noise: str, relation: Relation
) -> None:
    """With sums of a level that overlap, the broken twin, they lose more."""
    plan = planned(way, unit, relation, noise)
    (tree_read,), (law,) = plan.question.trees, plan.allocation.trees
    shape = tree_read.shape
    assert isinstance(law, Additive)
    assert shape.layers is not None
    assert len(shape.layers) > 1
    found = [measured(plan, shape, rows) for rows in tables()]
    pairs = [(t, found[0]) for t in found] if relation is Relation.ADD_REMOVE else list(product(found, found))
    promised = (
        Fraction(1)
        if noise == "laplace"
        else sum((n * (e.mu_squared or 0) for e, n in plan.allocation.events), Fraction(0))
    )
    worst = max(lost(a, b, law) for a, b in pairs)
    assert worst <= promised
    assert worst > promised * Fraction(999, 1000)
    twin = object.__new__(TreeShape)
    for name in TreeShape.__dataclass_fields__:
        object.__setattr__(twin, name, getattr(shape, name))
    every = tuple(range(shape.leaves))
    object.__setattr__(twin, "layers", (*shape.layers[:-1], (*shape.layers[-1], every)))
    overlapping = [measured(plan, twin, rows) for rows in tables()]
    again = zip(overlapping, overlapping[:1] * len(overlapping), strict=True)
    pairs = list(again) if relation is Relation.ADD_REMOVE else list(product(overlapping, overlapping))
    if relation is Relation.ADD_REMOVE or way == "groups":
        assert max(lost(a, b, law) for a, b in pairs) > promised


@pytest.mark.parametrize("unit", UNITS, ids=repr)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_second_derivation_refuses_levels_with_less_noise_or_a_level_unpaid(noise: str, unit: PrivacyUnit) -> None:
    plan = planned("groups", unit, Relation.ADD_REMOVE, noise)
    claim = claim_of(plan)
    check(claim)
    (m,) = claim.measurements
    (tree,) = m.trees
    assert tree.depth > 1
    deeper = replace(claim, measurements=(replace(m, trees=(replace(tree, depth=tree.depth + 1),)),))
    with pytest.raises(InternalError):
        check(deeper)
    law = tree.noise
    assert isinstance(law, DiscreteLaplaceNoise | RoundedGaussianNoise)
    less = (
        DiscreteLaplaceNoise(law.scale * Fraction(99, 100))
        if isinstance(law, DiscreteLaplaceNoise)
        else RoundedGaussianNoise(law.sigma * Fraction(99, 100))
    )
    with pytest.raises(InternalError):
        check(replace(claim, measurements=(replace(m, trees=(replace(tree, noise=less),)),)))


@pytest.mark.parametrize("change", ["overlap", "beyond", "fewer", "by number"])
def test_the_second_derivation_refuses_nodes_of_a_level_that_overlap(change: str) -> None:
    """They are told in the claim, since the statement says nothing of them: one row would move several of them."""
    claim = claim_of(planned("whole", UNITS[0], Relation.ADD_REMOVE, "laplace"))
    (m,) = claim.measurements
    (tree,) = m.trees
    assert tree.layers is not None
    first, *others = tree.layers
    layers = {
        "overlap": ((*first, (0, 1)), *others),
        "beyond": ((*first, (len(first),)), *others),
        "fewer": tuple(others),
        "by number": ((*first, (-1,)), *others),
    }[change]
    with pytest.raises(InternalError):
        check(replace(claim, measurements=(replace(m, trees=(replace(tree, layers=layers),)),)))
