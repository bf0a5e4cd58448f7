"""Standard errors of census-style releases hold over 2,000 runs, and are no larger than they need be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.catalog.schema import Fact, Range, TableSchema
from discreet.catalog.types import Type
from discreet.engine.person_recipe import run_on_arrays
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.synth.census import estimates, tree_noise
from discreet.synth.hierarchical import AskedHierarchy

RUNS = 2000
LEFT_OUT = 4 * math.sqrt(0.95 * 0.05 / RUNS)


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE])
def test_errors_cover_the_truth_in_95_of_100_runs(relation: Relation) -> None:
    facts: dict[str, Fact] = {name: Range(0, n - 1, integer=True) for name, n in (("a", 2), ("b", 3), ("x", 3))}
    types = dict.fromkeys(facts, Type.INT)
    table = TableSchema("rows", types, facts, PrivacyUnit.row(), relation)
    units = {"a": [0, 0, 1], "b": [0, 1, 2]}
    recipe = AskedHierarchy(1, "1e-6", ["a", "b"], ["x"], units=units).recipe([table])
    plan = recipe.plan([table])
    rows = np.arange(300)
    columns = {f"c{i}": c for i, c in enumerate([rows % 2, np.where(rows % 2, 2, rows % 4 // 2), rows % 3 // 2])}
    noise = tree_noise(recipe, plan)
    leaf, cell = recipe.units.find([columns["c0"], columns["c1"]]), recipe.attributes.find([columns["c2"]])
    finest = np.zeros((recipe.units.tree.sizes[-1], noise.cells))
    np.add.at(finest, (leaf, cell), 1)
    exact = [finest]
    for level in (2, 1):
        exact.append(recipe.units.tree.summed(level, exact[-1]))
    exact.reverse()
    errors = [[noise.errors(level, cells)[0] for cells in (noise.cells, 1)] for level in range(3)]
    within = np.zeros((3, 2))
    for _ in range(RUNS):
        found = estimates(recipe, plan, run_on_arrays(recipe, plan, rows, columns))
        for level in range(3):
            apart = found[level][0] - exact[level][0]
            within[level] += np.abs([apart.sum(), apart[0]]) <= 1.959964 * np.array(errors[level])
    shares = within / RUNS
    assert shares.min() >= 0.95 - LEFT_OUT
    assert shares.max() <= 0.95 + LEFT_OUT
